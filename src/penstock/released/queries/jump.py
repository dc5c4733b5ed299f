"""`Jump`, `Drop` and `Change`: whether a count has moved."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np

from penstock.core.exact import whole
from penstock.released.log import Log
from penstock.released.queries.answer import Alerts
from penstock.released.queries.current_releases import Sums, counts, differences, negative, weighted
from penstock.released.queries.query import Query, Units, answer_of, chunks, threshold


@dataclass(frozen=True)
class Jump(Query):
    """Whether a count has risen by at least `delta` over `width` units: from the first of them to
    the last.

    The statistic is the difference of the two counts, each with the best that is known of it at the
    unit asked for. Where one release stands for both, it is 0, and its error is not known: no move
    was noticed, which is not to say that there was none. Where both are in one smoothed group
    (`pegasus`), it is how far the group's release has moved since; the two share noise, and what is
    said of that is a bound.

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

    def answer(self, log: Log, unit: Units = None) -> Alerts:
        first, last = self._span(log, unit)
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

    def series(self, log: Log) -> Alerts:
        return self.answer(log, self.units(log))


@dataclass(frozen=True)
class Drop(Jump):
    """Whether a count has fallen by at least `delta` over `width` units. The statistic is how far
    it has fallen.

    >>> Drop(5, 100).in_words()
    'fall by 100 or more within 5 units'
    """

    sign = -1.0
    verb = "fall"


@dataclass(frozen=True)
class Change(Jump):
    """Whether a count has moved by at least `delta` over `width` units, up or down.

    >>> Change(5, 100).in_words()
    'move by 100 or more within 5 units'
    """

    side = "either"
    verb = "move"
