"""Neighbouring streams on which a mechanism is likely to lose much, and random ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from penstock.core.arrays import IntArray
from penstock.lab.audit.model import Look, Pair
from penstock.private.mechanisms.base import Mechanism
from penstock.private.run import Run
from penstock.testing import NoNoise

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


def decided(mechanism: Mechanism[Any], *, keys: int) -> Iterator[Pair]:
    """Streams whose decisions hang on the person: released in every unit, in the last, in none.

    The counts at which a mechanism without noise begins to release are found by trying. Then the
    likelihood ratio of each answer is as large as its noise allows, and answers are not rare. Where
    a unit is to be released, the person makes it so on the left; where not, on the right.

    Parameters
    ----------
    mechanism : Mechanism
        The mechanism.
    keys : int
        The number of keys.
    """
    window = mechanism.window
    for wanted in dict.fromkeys(("+" * window, "-" * (window - 1) + "+", "-" * window)):
        pair = _decided(mechanism, wanted, keys)
        if pair is not None:
            yield pair


def _decided(mechanism: Mechanism[Any], wanted: str, keys: int) -> Pair | None:
    left: list[IntArray] = []
    right: list[IntArray] = []
    for place, answer in enumerate(wanted):
        counts = _least_released(mechanism, [*left[:place]], wanted[:place], keys)
        if counts is None:
            return None
        without = counts.copy()
        without[np.argmax(counts)] -= mechanism.contribution
        added = answer == "+"
        left.append(counts if added else without)
        right.append(without if added else counts)
    name = f"close decisions {wanted}: released (+) or repeated (-)"
    return Pair(name, np.stack(left), np.stack(right))


def _least_released(
    mechanism: Mechanism[Any], before: list[IntArray], wanted: str, keys: int
) -> IntArray | None:
    """The least counts at which the next unit is released without noise.

    None if it is released at no count, at any, or if an earlier unit is not decided as wanted.
    """

    stands = wanted.rfind("+")  # the unit of the last release
    start = before[stands] if stands >= 0 else np.zeros(keys, np.int64)

    def counts(total: int) -> IntArray:
        return start + (total + np.arange(keys)) // keys

    def released(total: int) -> bool | None:
        run: Run = mechanism.run(keys, noise=NoNoise())
        for each, answer in zip(before, wanted, strict=True):
            if bool(np.all(run.step(each).repeated)) == (answer == "+"):
                return None
        return not np.all(run.step(counts(total)).repeated)

    try:
        low, high = mechanism.contribution - 1, 2**20
        if released(low) is not False or released(high) is not True:
            return None
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if released(middle) else (middle, high)
    except Exception:  # a plug-in may raise anything; the audit itself will show it
        return None
    return counts(high)


LOOKS = ("before any event", "half of the events", "all events", "the end", "a restart at the end")
"""The moments of a unit at which an intruder looks into the memory. At the first three the run
waits for more of the unit; the last two lie between units, before and after a restart.
"""


def looked_at(
    pair: Pair, *, after: bool = False, moment: str = LOOKS[2], last: bool = False
) -> Pair:
    """The same pair with a look into the memory in the first unit in which the streams differ.

    Parameters
    ----------
    pair : Pair
        The pair.
    after : bool
        Whether the look is taken when that unit has been released. Default: False.
    moment : str
        One of `LOOKS`. Default: all events of the unit have been counted.
    last : bool
        Whether the look is in the last unit in which the streams differ. Default: False.
    """
    differing = np.flatnonzero((pair.left != pair.right).any(axis=1))
    unit = int(differing[-1 if last else 0])
    left, right = pair.left[unit], pair.right[unit]
    after = after or moment in LOOKS[3:]
    part = {LOOKS[0]: 0, LOOKS[1]: 1}.get(moment, 2)
    name = f"{pair.name}, looked into"
    if last or moment != LOOKS[2]:
        name += f" ({moment} of {'the last unit' if last else 'the first unit'})"
    return Pair(
        name,
        pair.left,
        pair.right,
        Look(unit + 1, left * part // 2, right * part // 2, after, moment == LOOKS[4]),
    )
