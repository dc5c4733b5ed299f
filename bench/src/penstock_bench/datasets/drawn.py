"""Streams whose units are drawn when first read, and stored without zeros."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from penstock.core.arrays import IntArray
from penstock.core.domain import Domain
from penstock_bench.datasets.base import DatasetStream
from penstock_bench.datasets.counts import narrowest


class GeneratedStream(DatasetStream):
    """A stream from a function of the unit's number, which must always give the same counts.

    Units are stored without zeros, so memory grows with the keys that have events.

    >>> stream = GeneratedStream(Domain.of(3), units=4, draw=lambda unit: np.array([0, unit, 0]))
    >>> [row.tolist() for row in stream.rows(3, 4)]
    [[0, 3, 0], [0, 4, 0]]
    """

    def __init__(
        self,
        domain: Domain,
        *,
        units: int,
        draw: Callable[[int], IntArray],
        period: int | None = None,
    ) -> None:
        self.domain, self.units, self.period = domain, units, period
        self._draw = draw
        self._kept: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    def row(self, unit: int) -> IntArray:
        if unit not in self._kept:
            fresh = self._draw(unit)
            keys = np.flatnonzero(fresh)
            counts = fresh[keys]
            self._kept[unit] = (
                keys.astype(narrowest(self.domain.size)),
                counts.astype(narrowest(int(counts.max(initial=0)))),
            )
        keys, counts = self._kept[unit]
        row = np.zeros(self.domain.size, np.int64)
        row[keys] = counts
        return row
