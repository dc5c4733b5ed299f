"""Estimates of a group's newest unit from its noisy counts: mean, median, or James-Stein.

A smoother sees noisy counts only, so it costs nothing. It does not get slower as groups get longer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, TypeAlias

import numpy as np

from penstock.core.arrays import BoolArray, IntArray
from penstock.core.error_bounds import Kind
from penstock.private.mechanisms.multisets import Multisets

Smoother: TypeAlias = Literal["median", "mean", "james_stein"]

SHRUNK = 256
"""Shrunk counts are rounded to parts of 1/256."""

YOUNG = 16
"""Up to this many noisy counts a group is kept as a sorted list, then as a table."""

MIN_TABLE_WIDTH, MAX_TABLE_WIDTH = 64, 2048
"""The range of a table's width. Within it, a table covers 16 noise scales."""

_AT_ONCE = 1024
"""The number of tables that are laid anew at once."""

_NOTHING = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Means:
    """The number of noisy counts of each key's group, their sum, and the newest of them."""

    kind: ClassVar[Kind] = "sum"

    length: IntArray
    total: IntArray
    newest: IntArray

    def add(self, noisy: IntArray, *, fresh: BoolArray, where: BoolArray) -> Means:
        """Begin groups where `fresh`, and add a noisy count `where` there is one."""
        length = np.where(fresh, 0, self.length) + where
        total = np.where(fresh, 0, self.total) + np.where(where, noisy, 0)
        return replace(
            self,
            length=length,
            total=total,
            newest=np.where(where, noisy, np.where(fresh, 0, self.newest)),
        )

    def smoothed(self) -> tuple[IntArray, int | IntArray]:
        """The mean of each group, as value and divisor."""
        return self.total, np.maximum(self.length, 1)


@dataclass(frozen=True)
class Shrinking(Means):
    """As `Means`, for the James-Stein estimate."""

    kind: ClassVar[Kind] = "shrunk"

    def smoothed(self) -> tuple[IntArray, int | IntArray]:
        """(newest - mean)/n + mean, rounded down to a grid of 1/256."""
        n = np.maximum(self.length, 1)
        mean, rest = np.divmod(self.total, n)
        whole, part = np.divmod(self.newest - mean, n)
        return SHRUNK * (mean + whole) + SHRUNK * (part * n + rest * (n - 1)) // (n * n), SHRUNK


@dataclass(frozen=True)
class Medians:
    """The noisy counts of each key's group: sorted while they are few, then in tables.

    The tables are changed in place: `add` uses up its object if it has groups of more than 16.
    """

    kind: ClassVar[Kind] = "median"

    length: IntArray
    young: IntArray
    tables: Multisets
    middle: IntArray
    below: IntArray
    upper: IntArray

    def add(self, noisy: IntArray, *, fresh: BoolArray, where: BoolArray) -> Medians:
        """Begin groups where `fresh`, and add a noisy count `where` there is one."""
        tables = self.tables
        ended = np.flatnonzero(fresh & (self.length > YOUNG))
        if len(ended):
            tables.clear(ended)
        length = np.where(fresh, 0, self.length) + where
        middle, below, upper = self.middle.copy(), self.below.copy(), self.upper.copy()
        many = length > YOUNG
        grown = np.flatnonzero(many & (length == YOUNG + 1) & where)
        if len(grown):  # the list is full: what it holds goes into a table first
            half = YOUNG // 2 - 1
            middle[grown] = self.young[half, grown]
            below[grown] = (self.young[:, grown] < middle[grown]).sum(axis=0)
            tables.place(grown, middle[grown])
            tables.add(np.tile(grown, YOUNG), self.young[:, grown].ravel())
        young = self.young
        few = np.flatnonzero(~many)
        if len(few):
            young = _insert(young, few, np.where(where, noisy, _NOTHING), fresh, length)
            some = few[length[few] > 0]
            middle[some] = young[(length[some] - 1) // 2, some]
            upper[some] = young[length[some] // 2, some]
        added = np.flatnonzero(many & where)
        if len(added):
            tables.add(added, noisy[added])
            _move(tables, added, noisy[added], length, middle, below, upper)
        return replace(self, length=length, young=young, middle=middle, below=below, upper=upper)

    def smoothed(self) -> tuple[IntArray, int | IntArray]:
        """The median of each group, as value and divisor 2."""
        return np.where(self.length > 0, self.middle + self.upper, 0), 2


def _insert(
    young: IntArray, keys: IntArray, noisy: IntArray, fresh: BoolArray, length: IntArray
) -> IntArray:
    """Sorted lists, one per column, with one more number for these keys."""
    result = young.copy()
    result[:, fresh] = _NOTHING
    longest = max(int(length[keys].max()), 1)
    if (
        4 * len(keys) > young.shape[1]
    ):  # then all of them are faster; those of other keys are not used again
        result[:longest] = _merge(result[:longest], noisy)
    else:
        result[:longest, keys] = _merge(result[:longest, keys], noisy[keys])
    return result


def _merge(lists: IntArray, numbers: IntArray) -> IntArray:
    merged = np.minimum(lists, numbers)
    np.maximum(merged[1:], lists[:-1], out=merged[1:])
    return merged


def _move(
    tables: Multisets,
    keys: IntArray,
    noisy: IntArray,
    length: IntArray,
    middle: IntArray,
    below: IntArray,
    upper: IntArray,
) -> None:
    """Update the lower and upper medians of these keys, in place, after one more number."""
    n = length[keys]
    low = middle[keys]
    under = below[keys] + (noisy < low)
    rank = (n - 1) // 2
    lost = ~tables.covers(keys, low)
    here = np.where(lost, 0, tables.at(keys, np.where(lost, tables.base[keys], low)))
    up = np.flatnonzero(~lost & (rank >= under + here))
    if len(up):
        following, found = tables.next(keys[up], low[up], 1)
        lost[up[~found]] = True
        under[up] += here[up]
        low[up] = following
        there = up[found]
        here[there] = tables.at(keys[there], low[there])
    down = np.flatnonzero(~lost & (rank < under))
    if len(down):
        following, found = tables.next(keys[down], low[down], -1)
        lost[down[~found]] = True
        low[down] = following
        there = down[found]
        here[there] = tables.at(keys[there], low[there])
        under[there] -= here[there]
    high = low.copy()
    beside = np.flatnonzero(~lost & (n // 2 >= under + here))
    if len(beside):
        following, found = tables.next(keys[beside], low[beside], 1)
        lost[beside[~found]] = True
        high[beside] = following
    places = np.flatnonzero(lost)
    for first in range(0, len(places), _AT_ONCE):
        some = places[first : first + _AT_ONCE]
        low[some], high[some], under[some] = _look_again(tables, keys[some])
    middle[keys], below[keys], upper[keys] = low, under, high


def _look_again(tables: Multisets, keys: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Find the medians of these keys in all their values, and lay their tables anew.

    Return the lower and upper medians, and how many values are below the lower one. All keys are
    looked at together, because each look goes through the values of all keys beyond the tables.
    """
    which, values = tables.values(keys)
    order = np.lexsort((values, which))
    which, values = which[order], values[order]
    number = np.bincount(which, minlength=len(keys))
    firsts = number.cumsum() - number
    low, high = values[firsts + (number - 1) // 2], values[firsts + number // 2]
    tables.clear(keys)
    tables.place(keys, low)
    tables.add(keys[which], values)
    under = np.bincount(which[values < low[which]], minlength=len(keys))
    return low, high, under


SMOOTHERS: Mapping[Smoother, type[Means] | type[Medians]] = {
    "median": Medians,
    "mean": Means,
    "james_stein": Shrinking,
}


def start(smoother: Smoother, size: int, *, scale: int) -> Means | Medians:
    """The smoother before any group. Only speed depends on `scale`, that of the noise."""

    def zeros() -> IntArray:
        return np.zeros(size, np.int64)

    if smoother != "median":
        return (Shrinking if smoother == "james_stein" else Means)(
            length=zeros(), total=zeros(), newest=zeros()
        )
    width = min(max(1 << (16 * max(scale, 1) - 1).bit_length(), MIN_TABLE_WIDTH), MAX_TABLE_WIDTH)
    young = np.full((YOUNG, size), _NOTHING, np.int64)
    return Medians(zeros(), young, Multisets.empty(size, width), zeros(), zeros(), zeros())
