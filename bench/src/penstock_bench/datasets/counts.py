"""Streams whose counts are in memory, in as few bytes as possible."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from penstock.core.arrays import IntArray
from penstock.core.domain import Domain
from penstock.core.errors import InputError
from penstock_bench.datasets.base import DatasetStream


class CountTable(DatasetStream):
    """A stream from a table of counts: one row per unit, one column per key.

    >>> stream = CountTable(Domain.of(2), np.array([[1, 2], [3, 4]]))
    >>> stream
    <CountTable of 2 units × 2 keys>
    >>> [row.tolist() for row in stream.rows(2)], stream.mean().tolist()
    ([[3, 4]], [2.0, 3.0])
    """

    def __init__(self, domain: Domain, counts: Any, *, period: int | None = None) -> None:
        counts = np.asarray(counts)
        if counts.ndim != 2 or counts.shape[1] != domain.size or not len(counts):
            raise InputError(
                f"counts of shape {counts.shape} are not rows of {domain.size} keys. No stream "
                "was made."
            )
        if counts.dtype.kind not in "iu" or int(counts.min()) < 0:
            raise InputError("counts must be whole numbers of at least 0. No stream was made.")
        self.domain, self.units, self.period = domain, len(counts), period
        self._counts = counts.astype(narrowest(int(counts.max())))

    def row(self, unit: int) -> IntArray:
        return np.array(self._counts[unit - 1], np.int64)

    @cached_property
    def totals(self) -> IntArray:
        sums: IntArray = self._counts.sum(axis=0, dtype=np.int64)
        sums.flags.writeable = False
        return sums


def narrowest(most: int) -> np.dtype[Any]:
    """The smallest integer type that holds counts up to `most`."""
    return np.min_scalar_type(most)


def places(numbers: Sequence[int]) -> IntArray:
    """The place in the list of every number up to the largest; −1 for numbers that are not in it.

    >>> places([3, 1]).tolist()
    [-1, 1, -1, 0]
    """
    found = np.full(1 + max(numbers), -1, np.int64)
    found[list(numbers)] = np.arange(len(numbers))
    return found


def tally(unit: Any, key: Any, *, units: int, keys: int, weights: Any = None) -> IntArray:
    """One row of counts per unit, from events or numbers of events. Units count from 0."""
    unit, key = np.asarray(unit, np.int64), np.asarray(key, np.int64)
    if len(unit) and (min(unit.min(), key.min()) < 0 or unit.max() >= units or key.max() >= keys):
        raise InputError(
            f"events must lie in {units} units and have one of {keys} keys. Nothing was counted."
        )
    place = unit * keys + key
    flat = np.zeros(units * keys, np.int64)
    if weights is None:
        flat += np.bincount(place, minlength=units * keys)
    else:
        np.add.at(flat, place, np.asarray(weights, np.int64))
    return flat.reshape(units, keys)
