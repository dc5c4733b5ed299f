"""Neighbouring streams on which a mechanism is likely to lose much, and random ones."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from penstock.core.arrays import IntArray
from penstock.lab.audit.model import Pair

FAR = 10**6
"""A jump that exceeds any noise, so that it is published."""


def standard(
    *,
    window: int,
    keys: int,
    epsilon: float,
    contribution: int = 1,
    seed: int = 0,
    near: int | None = None,
    user_level: bool = False,
) -> Iterator[Pair]:
    """Worst cases and a few random pairs.

    The person is in every unit of a window, each time in another key. `near` is the distance from
    the last release at which the decision to release is close; None if unknown. At `user_level` the
    window is all that is ever read: the person is there from the first unit on and stays beyond it.
    """
    units = window + 2
    stay = units if user_level else window
    for name, base in _bases(units, keys, window, epsilon):
        for first in sorted({1, units - stay + 1}):
            yield with_person(
                f"{name}, a person from unit {first}", base, first, stay, contribution
            )
    for name, base in [] if near is None else _hovering(units, keys, near):
        first = units - stay + 1  # the window meets two blocks
        yield with_person(f"{name}, a person from unit {first}", base, first, stay, contribution)
    yield with_person(
        "user level: a person in every unit of the stream",
        np.zeros((window, keys), np.int64),
        1,
        window,
        contribution,
    )
    rng = np.random.default_rng(seed)
    for number in range(3):
        base = rng.integers(0, 2 + int(rng.integers(1, 12) / epsilon), (units, keys))
        there = rng.integers(0, keys, units)
        first = int(rng.integers(1, units - stay + 2))
        yield with_person(f"random {number + 1}", base, first, stay, contribution, there)


def _bases(units: int, keys: int, window: int, epsilon: float) -> Iterator[tuple[str, IntArray]]:
    unit = np.arange(units)[:, None]
    flat = np.zeros((units, keys), np.int64)
    yield "still", flat
    yield "leaping in every unit", flat + FAR * (1 + unit % 2)
    yield "leaping after a rest", np.where(unit >= window - 1, FAR * (1 + unit % 2), 0) + flat
    # The expected size of the noise of a publication: here a decision is close.
    near = max(1, round(2 * window / epsilon))
    yield "near the threshold", flat + near * (1 + unit) // keys
    yield "keys that leap in turn", np.cumsum(FAR * (np.arange(keys) == (unit % keys)), axis=0)


def _hovering(units: int, keys: int, near: int) -> Iterator[tuple[str, IntArray]]:
    """Streams at distance `near` from their first unit: above it, below it or both."""
    unit, key = np.arange(units)[:, None], np.arange(keys)
    first = np.full((units, keys), 10 * near, np.int64)
    apart = np.where(unit > 0, (near + key) // keys, 0)
    # One person more moves these streams away from the first unit, towards it, or either by key.
    yield "hovering above", first + apart
    yield "hovering below", first - apart
    yield "hovering above and below", first + np.where(key % 2, -1, 1) * apart
    # Many answers are no, which shows the height of the threshold, and then one is yes.
    yield "hovering above, then far below", first + np.where(unit < units // 2, apart, -2 * apart)


def with_person(
    name: str,
    base: IntArray,
    first: int,
    window: int,
    contribution: int,
    there: IntArray | None = None,
) -> Pair:
    """A stream, and the same with a person in every unit of a window.

    The person is in the next key in each unit. Default of `there`: by turns.
    """
    units, keys = base.shape
    person = np.zeros((units, keys), np.int64)
    for unit in range(first - 1, min(first - 1 + window, units)):
        person[unit, unit % keys if there is None else int(there[unit])] = contribution
    base = np.asarray(base, np.int64)
    return Pair(name, base + person, base)
