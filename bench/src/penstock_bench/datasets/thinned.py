"""A share of a stream's events."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from penstock.core.arrays import IntArray
from penstock.core.errors import ConfigurationError
from penstock.core.exact import Exact, exact, whole
from penstock_bench.datasets.base import DatasetStream


class Thinned(DatasetStream):
    """Keeps every event of a stream with probability `share`; each unit has its own seed."""

    def __init__(self, stream: DatasetStream, *, share: Exact, seed: int = 1) -> None:
        self._share = exact(share, name="share")
        if not 0 < self._share <= Fraction(1):
            raise ConfigurationError(f"share must be above 0 and at most 1, not {self._share}.")
        self._seed = whole(seed, name="seed", least=0)
        self.domain, self.units, self.period = stream.domain, stream.units, stream.period
        self._stream = stream

    def row(self, unit: int) -> IntArray:
        row = self._stream.row(unit)
        if self._share == 1:
            return row
        rng = np.random.default_rng((self._seed, 1, unit))
        kept = np.flatnonzero(row)
        row[kept] = rng.binomial(row[kept], float(self._share))
        return row
