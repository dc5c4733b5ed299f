"""Search for the noise values at which a decision changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from penstock.core.errors import ConfigurationError
from penstock.lab.audit.exact.unit_runner import UnitTrial

T = TypeVar("T")

FAR: Final = 2**55
"""Noise that outweighs every distance: no count is above 2**50."""

MAX_TURNING_POINTS: Final = 8
"""One distance decides little: publish or not. More decisions mean that its noise is shown."""


def turning_points(at: Callable[[int], UnitTrial], low: int, high: int, hint: int) -> list[int]:
    """Where a monotone decision changes between `low` and `high`: the first value of each case."""
    points: list[int] = []
    while not at(low).same_path(at(high)):
        low = first_change(at, UnitTrial.same_path, low, high, hint)
        points.append(low)
        if len(points) > MAX_TURNING_POINTS:
            raise ConfigurationError(
                "noise whose label does not begin with 'publish' shows in the output: "
                "no exact audit covers that."
            )
    return points


def turning_points_around(at: Callable[[int], UnitTrial], middle: int) -> list[int]:
    """The turning points of a decision that is monotone on either side of `middle`."""
    below = turning_points(at, -FAR, middle, middle)
    return below + turning_points(at, middle, FAR, middle)


def first_change(
    at: Callable[[int], T], same: Callable[[T, T], bool], low: int, high: int, hint: int
) -> int:
    """The first value above `low` that differs from `low`, given that `high` differs.

    The search begins at `hint` with growing steps, and ends with bisection.
    """
    last, first = low, high  # `last` is the same as `low`, `first` is not
    step, here = 1, min(max(hint, low + 1), high - 1)
    while last < here < first:
        if same(at(here), at(low)):
            last, here = here, here + step
        else:
            first, here = here, here - step
        step *= 2
    while first - last > 1:
        middle = (last + first) // 2
        if same(at(middle), at(low)):
            last = middle
        else:
            first = middle
    return first
