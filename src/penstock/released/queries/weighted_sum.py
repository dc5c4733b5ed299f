"""`WeightedSum`: sums in which older units weigh less."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from penstock.core.errors import NotCoveredError
from penstock.core.weights import Weights
from penstock.released.log import Log
from penstock.released.queries.answer import Answer
from penstock.released.queries.current_releases import (
    Sums,
    as_they_are,
    counts,
    numbers,
    weighted,
)
from penstock.released.queries.query import (
    Names,
    NumberQuery,
    Units,
    answer_of,
    chosen,
    chunks,
)

_LEAST_WEIGHT = 1e-18
"""Smaller weights, relative to the largest, are left out."""


@dataclass(frozen=True)
class WeightedSum(NumberQuery):
    """The sum of all units so far, each times the weight of its age.

    As in `SlidingSum`, each unit enters with the best estimate that is known at the unit asked
    for. Counts before unit 1 are 0. A log that begins later must be long enough.

    Parameters
    ----------
    weights : Weights
        The weight of a unit by its age.
    hindsight : bool
        Whether releases that came later are used as well. Default: False.

    Examples
    --------
    >>> WeightedSum(Weights.decay("0.9", 100)).in_words()
    'the sum of the last 100 units, each worth 0.9 to the power of its age'
    """

    weights: Weights
    hindsight: bool = field(default=False, kw_only=True)

    def in_words(self) -> str:
        return self.weights.in_words() + (", in hindsight" if self.hindsight else "")

    def reach(self, log: Log) -> int:
        if log.first == 1:
            return 1
        if self.weights.kind == "prefix":
            raise NotCoveredError(f"{self.in_words()}: the log begins with unit {log.first}.")
        return self._length(log.last)

    def _length(self, most: int) -> int:
        """The number of units with a weight that counts."""
        factors = self.weights.sequence(most)
        return int(np.flatnonzero(np.abs(factors) > _LEAST_WEIGHT * np.abs(factors).max())[-1]) + 1

    def answer(self, log: Log, unit: Units = None, *, keys: Names = None) -> Answer:
        first, last = self._span(log, unit)
        log = chosen(log, keys)
        way = log.way(last)
        if way.weights == self.weights and self.weights.kind != "unit":
            parts = [
                as_they_are(numbers(log, start, end)) for start, end in chunks(log, first, last, 1)
            ]
            return answer_of(self.in_words(), log, first, Sums.stacked(parts), alone=True)
        if way.has_counts:
            return answer_of(self.in_words(), log, first, self._added(log, first, last))
        raise NotCoveredError(
            f"this log holds {way.weights.in_words()}: "
            f"{self.in_words()} cannot be computed from it."
        )

    def _added(self, log: Log, first: int, last: int) -> Sums:
        length = self._length(last)
        factors, parts = self.weights.sequence(length)[::-1], []
        for start, end in chunks(log, first, last, length):
            low = max(start - length + 1, log.first)
            standing = counts(log, low, end, settled=self.hindsight)
            for place in range(start - low, end - low + 1):
                parts += [
                    weighted(standing, factors[-(place + 1) :], place, hindsight=self.hindsight)
                ]
        return Sums.stacked(parts)
