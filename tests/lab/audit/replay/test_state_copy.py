"""Copies of states: the same as those of `copy.deepcopy`."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from penstock.lab.audit.replay.observation import differing
from penstock.lab.audit.replay.state_copy import deep_copy
from penstock.private.mechanisms.registry import MECHANISMS
from penstock.testing import NoNoise


@dataclass
class Kept:
    numbers: Any
    more: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Slotted:
    numbers: Any


class OwnCopy:
    """A class that says how it is copied."""

    def __init__(self, copies: int = 0) -> None:
        self.copies = copies

    def __deepcopy__(self, memo: dict[int, Any]) -> OwnCopy:
        return OwnCopy(self.copies + 1)


class OwnState:
    """A class that leaves something out of its copies."""

    def __init__(self) -> None:
        self.number, self.left_out = 1, 2

    def __getstate__(self) -> dict[str, int]:
        return {"number": self.number}


class Listed(list[Any]):
    """A list that carries attributes."""


def listed() -> Listed:
    found = Listed([[1]])
    found.hidden = [2]  # type: ignore[attr-defined]
    return found


@pytest.mark.parametrize(
    "value",
    [
        Kept(np.arange(3), {"a": [1, (2, [3])], "b": None}),
        Kept(np.asfortranarray(np.ones((2, 3)))[:, ::2], {"f": Fraction(1, 2), "s": {1}}),
        Kept(np.array([[1], {}], dtype=object)),
        Slotted([1]),
        OwnCopy(),
        OwnState(),
        listed(),
        np.ma.masked_array([1, 2], [True, False]),
        np.float64(0.5),
        (1, "text", b"bytes", 0.5),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_copy_is_that_of_deepcopy(value: Any) -> None:
    assert not list(differing("it", deep_copy(value, {}), deepcopy(value)))


def test_nothing_is_shared_that_can_change() -> None:
    value = Kept(np.zeros(2), {"rows": [np.zeros(2)], "pair": (1, [2]), "slotted": Slotted([3])})
    copied, before = deep_copy(value, {}), deepcopy(value)
    value.numbers[0] = 1
    value.more["rows"][0][1] = 1
    value.more["pair"][1].append(3)
    value.more["slotted"].numbers.append(4)
    value.more["new"] = 1
    assert not list(differing("it", copied, before))


def test_what_is_one_object_stays_one_object() -> None:
    row = np.zeros(2)
    value: list[Any] = [row, {"row": row}]
    value.append(value)
    copied = deep_copy(value, {})
    assert copied[0] is copied[1]["row"]
    assert copied[2] is copied
    assert copied[0] is not row


def test_objects_in_the_memo_are_not_copied() -> None:
    public = Kept([1])
    assert deep_copy([public], {id(public): public})[0] is public


@pytest.mark.parametrize("name", MECHANISMS)
def test_states_of_mechanisms_are_copied_as_by_deepcopy(name: str) -> None:
    run = MECHANISMS[name](epsilon="1", window=3).run(4, noise=NoNoise())
    for unit in range(5):
        run.step([unit, 0, 2 * unit, 3])
        copied = deep_copy(run._state, {})
        assert not list(differing("state", copied, deepcopy(run._state)))
