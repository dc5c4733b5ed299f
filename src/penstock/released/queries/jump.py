"""`Jump`, `Drop` and `Change`: alerts on moves of a count."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np

from penstock.core.exact import whole
from penstock.released.log import Log
from penstock.released.queries.answer import Alerts
from penstock.released.queries.current_releases import Sums, counts, differences, negative, weighted
from penstock.released.queries.query import (
    Names,
    Query,
    Units,
    answer_of,
    chosen,
    chunks,
    threshold,
)


@dataclass(frozen=True)
class Jump(Query):
    """Raise an alert where a count has risen by at least `delta` within `width` units.

    The statistic is the difference between the last and the first of these units. Each count is
    the best estimate that is known at the unit asked for. If one release stands for both units,
    the statistic is 0 and its error is not known: no move was noticed, but there may be one. If
    both units are in one smoothed group (`pegasus`), the statistic is the move of the group's
    release. Both ends then share noise, and the stated variance is an upper bound.

    Parameters
    ----------
    width : int
        The number of units, at least 2.
    delta : float
        The threshold.
    hindsight : bool
        Whether releases that came later are used as well. Default: False.

    Examples
    --------
    >>> Jump(5, 100).in_words()
    'rise by 100 or more within 5 units'
    """

    side: ClassVar[Literal["above", "below", "either"]] = "above"
    sign: ClassVar[float] = 1.0
    verb: ClassVar[str] = "rise"

    width: int
    delta: float
    hindsight: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "width", whole(self.width, name="width", least=2))
        object.__setattr__(self, "delta", threshold(self.delta))

    def in_words(self) -> str:
        return f"{self.verb} by {self.delta:.15g} or more within {self.width} units"

    def reach(self, log: Log) -> int:
        return self.width

    def answer(self, log: Log, unit: Units = None, *, keys: Names = None) -> Alerts:
        first, last = self._span(log, unit)
        log = chosen(log, keys)
        back, parts = self.width - 1, []
        factors = np.zeros(self.width)
        factors[-1], factors[0] = self.sign, -self.sign
        for start, end in chunks(log, first, last, self.width):
            standing = counts(log, start - back, end, settled=self.hindsight)
            if self.hindsight:
                places = range(back, back + end - start + 1)
                parts += [weighted(standing, factors, place, hindsight=True) for place in places]
            else:
                parts.append(
                    differences(standing, self.width)
                    if self.sign > 0
                    else negative(differences(standing, self.width))
                )
        statistic = answer_of(self.in_words(), log, first, Sums.stacked(parts))
        return Alerts(self.in_words(), statistic, self.delta, self.side)

    def series(self, log: Log, *, keys: Names = None) -> Alerts:
        return self.answer(log, self.units(log), keys=keys)


@dataclass(frozen=True)
class Drop(Jump):
    """Raise an alert where a count has fallen by at least `delta` within `width` units.

    The statistic is the size of the fall. Parameters as for `Jump`.

    >>> Drop(5, 100).in_words()
    'fall by 100 or more within 5 units'
    """

    sign = -1.0
    verb = "fall"


@dataclass(frozen=True)
class Change(Jump):
    """Raise an alert where a count has risen or fallen by `delta` within `width` units.

    Parameters as for `Jump`.

    >>> Change(5, 100).in_words()
    'move by 100 or more within 5 units'
    """

    side = "either"
    verb = "move"
