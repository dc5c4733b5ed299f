"""`LowSignal`: alerts on low counts."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.released.log import Log
from penstock.released.queries.answer import Alerts
from penstock.released.queries.query import Names, Query, Units, threshold
from penstock.released.queries.sliding_sum import SlidingSum


@dataclass(frozen=True)
class LowSignal(Query):
    """Raise an alert where the sum of the last units is below a threshold.

    The statistic is that sum.

    Parameters
    ----------
    width : int
        The number of units.
    delta : float
        The threshold.
    hindsight : bool
        Whether releases that came later are used as well. Default: False.

    Examples
    --------
    >>> LowSignal(10, 5).in_words()
    'fewer than 5 in 10 units'
    """

    width: int
    delta: float
    hindsight: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "width", self._sum.width)
        object.__setattr__(self, "delta", threshold(self.delta))

    @property
    def _sum(self) -> SlidingSum:
        return SlidingSum(self.width, hindsight=self.hindsight)

    def in_words(self) -> str:
        return f"fewer than {self.delta:.15g} in {self.width} units"

    def reach(self, log: Log) -> int:
        return self._sum.reach(log)

    def answer(self, log: Log, unit: Units = None, *, keys: Names = None) -> Alerts:
        sums = self._sum.answer(log, unit, keys=keys)
        return Alerts(self.in_words(), sums, self.delta, "below")

    def series(self, log: Log, *, keys: Names = None) -> Alerts:
        return self.answer(log, self.units(log), keys=keys)
