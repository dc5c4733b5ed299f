"""The base keys that a statistic reads, and groups of keys."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from penstock.core.arrays import BoolArray, IntArray
from penstock.core.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Cover:
    """The base keys that each number of a statistic reads, and that are charged for it.

    `EACH`: number i reads key i. `ALL`: one number reads every key. `Cover(of)`: number `of[k]`
    reads key k, none if that is −1. A key is always read by at most one number. So one person
    changes the numbers by at most their own events in all, wherever these lie.
    """

    of: IntArray | None = None
    every: bool = False

    def keys(self, chosen: BoolArray) -> BoolArray:
        """The base keys that the chosen numbers read."""
        if self.every:
            raise ConfigurationError("one number that reads every key cannot be chosen in part.")
        return chosen if self.of is None else chosen[self.of] & (self.of >= 0)

    def spread(self, amounts: IntArray) -> IntArray:
        """The charge of each base key if number i is charged `amounts[i]`."""
        return amounts if self.of is None else np.where(self.of >= 0, amounts[self.of], 0)


EACH = Cover()
ALL = Cover(every=True)


@dataclass(frozen=True)
class Groups:
    """A public partition of the keys, or of some of them, laid out for exact sums per group.

    >>> Groups.from_labels(np.array([1, 0, 1])).sums(np.array([5, 7, 9])).tolist()
    [7, 14]
    """

    of: IntArray
    order: IntArray
    starts: IntArray

    def __post_init__(self) -> None:
        if (
            np.diff(self.starts, append=len(self.of)) <= 0
        ).any():  # sums over none would be some other group's key
            raise ConfigurationError("every group, from 0 to the last, must have a key.")

    @classmethod
    def from_ranks(cls, ranks: IntArray, number: int) -> Groups:
        """`number` groups of nearly equal size: the keys of lowest rank first."""
        return cls.from_labels(ranks * number // len(ranks))

    @classmethod
    def from_labels(cls, group: IntArray) -> Groups:
        """Groups from the group of each key, −1 for none. Every group from 0 on must have a key."""
        order = np.argsort(group, kind="stable")
        starts = np.searchsorted(group[order], np.arange(int(group.max()) + 1))
        return cls(group.astype(np.int64), order.astype(np.int64), starts.astype(np.int64))

    @property
    def number(self) -> int:
        return len(self.starts)

    @cached_property
    def sizes(self) -> IntArray:
        return np.diff(self.starts, append=len(self.of))

    @cached_property
    def distinct_sizes(self) -> tuple[list[int], IntArray]:
        """The sizes that occur, and the index of each group's size among them."""
        sizes, which = np.unique(self.sizes, return_inverse=True)
        return sizes.tolist(), which

    @cached_property
    def cover(self) -> Cover:
        return Cover(self.of)

    def sums(self, values: IntArray) -> IntArray:
        return np.add.reduceat(values[self.order], self.starts)
