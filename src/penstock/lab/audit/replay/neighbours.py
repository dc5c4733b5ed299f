"""Neighbouring streams of any size: who the person is, where they go, and what surrounds them."""

from __future__ import annotations

from typing import Final

import numpy as np

from penstock.core.arrays import IntArray
from penstock.lab.audit.model import Pair

BASES: Final = (
    "nobody",
    "few",
    "still",
    "many",
    "leaping",
    "rising",
    "resting, then leaping",
    "at an edge",
)
PATHS: Final = ("stays", "moves on", "wanders")
PRESENCES: Final = ("all the time", "now and then")
SIDES: Final = ("added", "removed", "added and removed")

FAR = 10**6
"""A leap that exceeds any noise."""

EDGES: Final = (9, 10, 99, 127, 255, 999, 1000, 32_767, 65_535)
"""Counts at which code may change its way: the largest numbers of small types, and round ones. They
stay below `FAR`: the loss of a sample is a sum over as many terms as the count.
"""


def random_pair(
    rng: np.random.Generator,
    *,
    units: int,
    keys: int,
    window: int,
    contribution: int,
    everywhere: bool = False,
    replaced: bool = False,
) -> Pair:
    """Two streams that differ by one person, who is in some units of one window.

    In each unit the person is added or removed, with up to `contribution` events, in one key or in
    several.

    Parameters
    ----------
    rng : Generator
        The source of the choices.
    units, keys : int
        The size of the streams.
    window : int
        The most units from the first to the last in which the person is there.
    contribution : int
        The most events of the person in one unit.
    everywhere : bool
        Whether the person is in every unit of the window, each time in the next key. Default:
        False.
    replaced : bool
        Whether the person is in both streams and each event may be in another key there. Default:
        False.

    >>> pair = random_pair(np.random.default_rng(1), units=9, keys=3, window=4, contribution=2)
    >>> pair.is_neighbouring(window=4, contribution=2)
    True
    """
    base_name, path, presence, side = (
        str(rng.choice(each)) for each in (BASES, PATHS, PRESENCES, SIDES)
    )
    if everywhere:
        path, presence = PATHS[1], PRESENCES[0]
    base = _base(rng, base_name, units, keys)
    first = int(rng.integers(0, max(1, units - window + 1)))
    person = np.zeros((units, keys), np.int64)
    start = int(rng.integers(keys))
    for unit in range(first, min(first + window, units)):
        if presence == "now and then" and rng.random() < 0.4:
            continue
        where = {"stays": start, "moves on": start + unit, "wanders": int(rng.integers(keys))}
        if everywhere:
            person[unit, where[path] % keys] = contribution
        else:
            _place(rng, person[unit], where[path] % keys, contribution)
    left, right = base.copy(), base.copy()
    for unit in range(units):
        added = side == "added" or (side != "removed" and rng.random() < 0.5)
        (left if added else right)[unit] += person[unit]
        if replaced:
            (right if added else left)[unit] += rng.permutation(person[unit])
    name = f"{base_name}, and a person who {path}, {presence}, {side}"
    return Pair(name, left, right)


def _place(rng: np.random.Generator, row: IntArray, key: int, contribution: int) -> None:
    """The events of the person in one unit."""
    if contribution > 1 and rng.random() < 0.3:  # in several keys
        for _ in range(int(rng.integers(1, contribution + 1))):
            row[int(rng.integers(len(row)))] += 1
    elif rng.random() < 0.85:
        row[key] += contribution
    else:
        row[key] += int(rng.integers(1, contribution + 1))


def _base(rng: np.random.Generator, name: str, units: int, keys: int) -> IntArray:
    unit = np.arange(units)[:, None]
    none = np.zeros((units, keys), np.int64)
    if name == "few":
        return rng.poisson(2.0, (units, keys)).astype(np.int64)
    if name == "many":
        return rng.poisson(float(rng.choice([30, 300, 2000])), (units, keys)).astype(np.int64)
    if name == "still":
        return none + rng.integers(0, 200, keys)
    if name == "at an edge":  # which the person crosses
        edges: IntArray = rng.choice(EDGES, keys)
        return none + edges - rng.integers(0, 3, keys)
    if name == "leaping":
        return none + FAR * (1 + unit % 2)
    if name == "rising":
        return none + int(rng.integers(1, 30)) * unit
    if name == "resting, then leaping":
        return none + np.where(unit >= int(rng.integers(1, units + 1)), FAR * (1 + unit % 2), 0)
    return none
