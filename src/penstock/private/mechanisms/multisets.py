"""One multiset of whole numbers per key: a table near the centre, a list beyond."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from penstock.core.arrays import BoolArray, IntArray

_FORGOTTEN = -1
"""The key of a value in the list that has been forgotten."""


@dataclass
class Multisets:
    """How often each value occurs, by key: a table of `width` values from `base` on, and a list.

    It is changed in place. It takes a row for every key as soon as one has been placed. Values
    beyond the table are few if the base is chosen well; with any base nothing is lost.
    """

    counts: NDArray[np.int32]
    base: IntArray
    far_key: IntArray
    far_value: IntArray
    far: int = 0

    @classmethod
    def empty(cls, size: int, width: int) -> Self:
        """No values for any key, and no rows yet."""
        nothing = np.zeros(0, np.int64)
        return cls(np.zeros((0, width), np.int32), np.zeros(size, np.int64), nothing, nothing)

    @property
    def width(self) -> int:
        return int(self.counts.shape[1])

    def place(self, keys: IntArray, centre: IntArray) -> None:
        """Lay the tables of these keys, which must be empty, around these values."""
        if not len(self.counts):
            self.counts = np.zeros((len(self.base), self.width), np.int32)
        self.base[keys] = centre - self.width // 2

    def add(self, keys: IntArray, values: IntArray) -> None:
        """One more value for each of these keys, which may occur several times."""
        offset = values - self.base[keys]
        inside = (offset >= 0) & (offset < self.width)
        at = keys * self.width + offset
        if not inside.all():
            outside = ~inside
            self._list(keys[outside], values[outside])
            at = at[inside]
        np.add.at(self.counts.reshape(-1), at, np.int32(1))

    def _list(self, keys: IntArray, values: IntArray) -> None:
        if self.far + len(keys) > len(self.far_key):
            self.compact(more=len(keys))
        end = self.far + len(keys)
        self.far_key[self.far : end] = keys
        self.far_value[self.far : end] = values
        self.far = end

    def clear(self, keys: IntArray) -> None:
        """Forget all values of these keys. The list keeps their places until it is compacted."""
        self.counts[keys] = 0
        if self.far:
            gone = np.zeros(len(self.base) + 1, np.bool_)  # the last place is that of _FORGOTTEN
            gone[keys] = True
            places = np.flatnonzero(gone[self.far_key[: self.far]])
            self.far_key[places], self.far_value[places] = _FORGOTTEN, 0

    def compact(self, *, more: int = 0) -> None:
        """Drop the places of forgotten values. With `more`, the room is twice what is needed now.

        It follows from what is left, so it does not grow with the length of the stream.
        """
        left = np.flatnonzero(self.far_key[: self.far] != _FORGOTTEN)
        room = 2 * (len(left) + more) if more else len(left)
        for name in ("far_key", "far_value"):
            kept = np.zeros(room, np.int64)
            kept[: len(left)] = getattr(self, name)[left]
            setattr(self, name, kept)
        self.far = len(left)

    def covers(self, keys: IntArray, values: IntArray) -> BoolArray:
        """Whether these values lie in the tables."""
        offset = values - self.base[keys]
        return (offset >= 0) & (offset < self.width)

    def at(self, keys: IntArray, values: IntArray) -> IntArray:
        """How often these values, which the tables cover, occur."""
        found: IntArray = self.counts.reshape(-1)[
            keys * self.width + values - self.base[keys]
        ].astype(np.int64)
        return found

    def listed(self, keys: IntArray) -> tuple[IntArray, IntArray]:
        """The values of these keys beyond the tables, each with the place of its key in `keys`."""
        place = np.full(len(self.base) + 1, -1, np.int64)  # the last place is that of _FORGOTTEN
        place[keys] = np.arange(len(keys))
        which = place[self.far_key[: self.far]]
        theirs = np.flatnonzero(which >= 0)
        return which[theirs], self.far_value[theirs]

    def values(self, keys: IntArray) -> tuple[IntArray, IntArray]:
        """All values of these keys, in any order, each with the place of its key in `keys`."""
        rows = self.counts[keys]
        which, offset = rows.nonzero()
        often = rows[which, offset]
        far_which, far_values = self.listed(keys)
        return (
            np.concatenate([which.repeat(often), far_which]),
            np.concatenate([(self.base[keys][which] + offset).repeat(often), far_values]),
        )

    def next(self, keys: IntArray, values: IntArray, step: int) -> tuple[IntArray, BoolArray]:
        """The next value above (`step` 1) or below (-1) each, and whether the table has one."""
        base = self.base[keys]
        offset = values - base
        found = np.zeros(len(keys), np.bool_)
        flat = self.counts.reshape(-1)
        left = np.arange(len(keys))
        reach = 4
        while len(left):
            places = (keys[left] * self.width + offset[left])[:, None] + step * np.arange(
                1, reach + 1
            )
            full = (
                flat.take(places, mode="clip") > 0
            )  # it may see the rows beside its own, but does not go there
            first = full.argmax(axis=1)
            hit = full[np.arange(len(left)), first]
            spot = offset[left] + step * np.where(hit, first + 1, reach)
            inside = (spot >= 0) & (spot < self.width)
            offset[left] = spot
            found[left] = hit & inside
            left = left[inside & ~hit]
            reach = min(2 * reach, 64)
        return base + offset, found
