"""One multiset of whole numbers per key: a table near the centre, a list beyond."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from penstock.core.arrays import BoolArray, IntArray


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

    def lay(self, key: IntArray, values: IntArray, centre: int) -> None:
        """All values of one key, whose table must be empty, around a new centre."""
        self.place(key, np.array([centre]))
        offset = values - self.base[key]
        inside = (offset >= 0) & (offset < self.width)
        self.counts[key[0]] = np.bincount(offset[inside], minlength=self.width)
        outside = values[~inside]
        self._list(np.full(len(outside), key[0]), outside)

    def _list(self, keys: IntArray, values: IntArray) -> None:
        end = self.far + len(keys)
        if end > len(self.far_key):
            room = np.zeros(max(end, 2 * self.far) - self.far, np.int64)
            self.far_key = np.concatenate([self.far_key[: self.far], room])
            self.far_value = np.concatenate([self.far_value[: self.far], room])
        self.far_key[self.far : end] = keys
        self.far_value[self.far : end] = values
        self.far = end

    def clear(self, keys: IntArray) -> None:
        """Forget all values of these keys."""
        self.counts[keys] = 0
        if self.far:
            gone = np.zeros(len(self.base), np.bool_)
            gone[keys] = True
            stays = ~gone[self.far_key[: self.far]]
            if not stays.all():
                self.far_key, self.far_value = (
                    self.far_key[: self.far][stays],
                    self.far_value[: self.far][stays],
                )
                self.far = len(self.far_key)

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
        place = np.full(len(self.base), -1, np.int64)
        place[keys] = np.arange(len(keys))
        which = place[self.far_key[: self.far]]
        theirs = which >= 0
        return which[theirs], self.far_value[: self.far][theirs]

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
