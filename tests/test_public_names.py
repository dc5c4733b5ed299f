"""Every public name says what its parameters mean, and shows how it is used."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest

import penstock as ps

ITEM = re.compile(r"^(\*{0,2}\w+(?:, \*{0,2}\w+)*)(?: :|$)", re.MULTILINE)
"""A line of a docstring's section that names one parameter, or several."""

USED = (
    ps.Account,
    ps.Budget,
    ps.Domain,
    ps.Guarantee,
    ps.Hierarchy,
    ps.Log,
    ps.Plan,
    ps.Product,
    ps.Publication,
    ps.Released,
    ps.RemoteStream,
    ps.Run,
    ps.Weights,
)
"""The classes whose methods a notebook calls."""


def documented(text: str) -> set[str]:
    """The names in the section Parameters of a docstring."""
    _, found, rest = inspect.cleandoc(text).partition("Parameters\n----------\n")
    section = re.split(r"\n(?=\w[^\n]*\n-{3,}\n)", rest)[0] if found else ""
    return {name.strip("* ") for line in ITEM.findall(section) for name in line.split(",")}


def parameters(thing: Any) -> set[str]:
    """The names of all parameters that a user may give; none where Python cannot tell."""
    try:
        found = inspect.signature(thing).parameters
    except ValueError:  # an exception of Python's own making
        return set()
    return {name for name in found if name not in ("self", "cls", "args", "kwargs")}


@pytest.mark.parametrize("name", ps.__all__)
def test_every_parameter_is_documented(name: str) -> None:
    thing = getattr(ps, name)
    family = thing.__mro__ if isinstance(thing, type) else (thing,)
    said = set().union(*(documented(each.__doc__ or "") for each in family))
    assert parameters(thing) - said == set()


@pytest.mark.parametrize("name", ps.__all__)
def test_every_name_has_an_example(name: str) -> None:
    assert ">>> " in getattr(ps, name).__doc__


@pytest.mark.parametrize("cls", USED)
def test_every_parameter_of_a_method_is_documented(cls: type) -> None:
    for name, method in inspect.getmembers(cls, callable):
        if not name.startswith("_") and not isinstance(method, type):
            missing = parameters(method) - documented(inspect.getdoc(method) or "")
            assert not missing, f"{cls.__name__}.{name} does not document {sorted(missing)}"
