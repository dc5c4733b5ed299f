"""Queries on a release log. A query is a pure function of releases and costs no budget.

Every query has `answer(log)` for the newest unit, `answer(log, unit)` for another unit,
`answer(log, range(…))` for consecutive units, and `series(log)` for all units. An answer about a
unit uses releases up to that unit, so it is the same on a live log and on a finished one. Queries
with `hindsight=True` also use later releases.
"""

from penstock.released.queries.aggregate import Aggregate, Everything
from penstock.released.queries.answer import Alerts, Answer, Ranking
from penstock.released.queries.jump import Change, Drop, Jump
from penstock.released.queries.low_signal import LowSignal
from penstock.released.queries.query import Query
from penstock.released.queries.ranges import Range
from penstock.released.queries.rectangle import Rectangle
from penstock.released.queries.roll_up import RollUp
from penstock.released.queries.sliding_sum import SlidingSum
from penstock.released.queries.top_k import TopK
from penstock.released.queries.unit_counts import UnitCounts
from penstock.released.queries.weighted_sum import WeightedSum
from penstock.released.queries.where import Where

__all__ = [
    "Aggregate",
    "Alerts",
    "Answer",
    "Change",
    "Drop",
    "Everything",
    "Jump",
    "LowSignal",
    "Query",
    "Range",
    "Ranking",
    "Rectangle",
    "RollUp",
    "SlidingSum",
    "TopK",
    "UnitCounts",
    "WeightedSum",
    "Where",
]
