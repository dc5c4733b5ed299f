"""`UnitCounts`: the counts of single units."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.core.weights import UNIT
from penstock.released.log import Log
from penstock.released.queries.answer import Answer
from penstock.released.queries.current_releases import Sums, as_they_are, counts, numbers
from penstock.released.queries.query import (
    Names,
    NumberQuery,
    Units,
    answer_of,
    chosen,
    chunks,
)


@dataclass(frozen=True)
class UnitCounts(NumberQuery):
    """The count of each key in a unit, as it was released then.

    If releases are sums of several units, the answer is the unit's own noisy counts, if the log
    has them. For nodes that were made consistent, the variance is the one before that step.

    Examples
    --------
    >>> UnitCounts().in_words()
    'counts'
    """

    def in_words(self) -> str:
        return "counts"

    def answer(self, log: Log, unit: Units = None, *, keys: Names = None) -> Answer:
        first, last = self._span(log, unit)
        log = chosen(log, keys)
        read = numbers if log.way(last).weights == UNIT else counts
        parts = chunks(log, first, last, 1, width=log.width_of(len(log.keys)))
        sums = Sums.stacked([as_they_are(read(log, start, end)) for start, end in parts])
        return answer_of(self.in_words(), log, first, sums, alone=read is numbers)
