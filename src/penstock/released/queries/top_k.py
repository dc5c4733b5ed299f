"""`TopK`: the keys with the largest numbers."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from penstock.core.errors import ConfigurationError
from penstock.core.exact import whole
from penstock.released.log import Log
from penstock.released.queries.aggregate import COUNTS
from penstock.released.queries.answer import Ranking
from penstock.released.queries.query import Names, NumberQuery, Query, Units


@dataclass(frozen=True)
class TopK(Query):
    """The k largest numbers of another query, and how certain their order is.

    Equal numbers are ordered by name.

    Parameters
    ----------
    k : int
        How many numbers.
    of : NumberQuery
        The query whose numbers are ranked. Default: `UnitCounts()`.

    Examples
    --------
    >>> TopK(3).in_words()
    'the 3 largest of counts'
    """

    k: int
    of: NumberQuery = field(default=COUNTS, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "k", whole(self.k, name="k", least=1))

    def in_words(self) -> str:
        return f"the {self.k} largest of {self.of.in_words()}"

    def reach(self, log: Log) -> int:
        return self.of.reach(log)

    def units(self, log: Log) -> range:
        return self.of.units(log)

    def answer(self, log: Log, unit: Units = None, *, keys: Names = None) -> Ranking:
        everything = self.of.answer(log, unit, keys=keys)
        if self.k > len(everything.names):
            raise ConfigurationError(
                f"k must be at most {len(everything.names)}, as many as there are, not {self.k}."
            )
        ranks = np.empty(len(everything.names), np.int64)
        ranks[sorted(range(len(ranks)), key=everything.names.__getitem__)] = np.arange(len(ranks))
        places = np.stack([np.lexsort((ranks, -row))[: self.k] for row in everything.estimate])
        return Ranking(self.in_words(), everything, places)

    def series(self, log: Log, *, keys: Names = None) -> Ranking:
        return self.answer(log, self.units(log), keys=keys)
