"""A mechanism shows the parameters that differ from their defaults, on one line."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

import penstock as ps
from penstock.private.mechanisms.registry import MECHANISMS, find


@pytest.mark.parametrize("name", MECHANISMS)
def test_defaults_are_not_shown(name):
    cls = find(name)
    assert repr(cls(epsilon="1/3", window=24)) == f"{cls.__name__}(epsilon=1/3, window=24)"


def test_other_values_are_shown():
    mechanism = ps.Tide(epsilon="1", window=3, horizon=6, delta="1e-6", periods=(24,))
    assert repr(mechanism) == "Tide(epsilon=1, window=3, horizon=6, delta=1/1000000, periods=(24,))"


def test_a_mechanism_may_show_itself_in_its_own_way():
    @dataclass(frozen=True, kw_only=True)
    class Loud(ps.Uniform):
        name = "loud"

        def __repr__(self) -> str:
            return "LOUD"

    assert repr(Loud(epsilon="1", window=2)) == "LOUD"
