"""Questions to a release log: pure functions of what was released, with the error that its noise
leaves in them.

Every query has `answer(log)` for the newest unit, `answer(log, unit)` for another one, `answer(log,
range(…))` for several in a row, and `series(log)` for all it can answer. An answer about a unit
uses releases up to that unit, so that it is the same on a live log and on a finished one; queries
that can do better later have `hindsight=True`.
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
