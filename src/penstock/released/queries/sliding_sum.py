"""`SlidingSum`: the sum over the last units."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from penstock.core.errors import NotCoveredError
from penstock.core.exact import whole
from penstock.core.weights import Weights
from penstock.released.log import Log
from penstock.released.queries.answer import Answer
from penstock.released.queries.current_releases import (
    Sums,
    as_they_are,
    counts,
    numbers,
    weighted,
    windows,
)
from penstock.released.queries.query import (
    Names,
    NumberQuery,
    Units,
    answer_of,
    chosen,
    chunks,
)


@dataclass(frozen=True)
class SlidingSum(NumberQuery):
    """The sum over the last `width` units per key.

    Each unit enters with the best estimate that is known at the unit asked for. That is its own
    release, the repeated release that stands for it, the mean of its retroactive group (`rg`), or
    the median or mean of its smoothed group (`pegasus`). The noise of a repeated release counts as
    often as it is repeated.

    A release that is a sum of `width` units is used as it is. Sums of all units so far are
    subtracted from each other. The variance of such a difference is an upper bound, because the
    two sums share noise.

    Parameters
    ----------
    width : int
        The number of units.
    hindsight : bool
        Whether releases that came later are used as well. Default: False.

    Examples
    --------
    >>> SlidingSum(24).in_words()
    'sums of 24 units'
    """

    width: int
    hindsight: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "width", whole(self.width, name="width", least=1))

    def in_words(self) -> str:
        return f"sums of {self.width} unit{'s' if self.width > 1 else ''}" + (
            " in hindsight" if self.hindsight else ""
        )

    def reach(self, log: Log) -> int:
        later = len(log) > 0 and log.first > 1 and log.way(log.last).weights.kind == "prefix"
        return self.width + 1 if later else self.width

    def answer(self, log: Log, unit: Units = None, *, keys: Names = None) -> Answer:
        first, last = self._span(log, unit)
        log = chosen(log, keys)
        way = log.way(last)
        if way.weights == Weights.window(self.width):
            sums = self._as_they_are(log, first, last)
        elif way.has_counts:
            sums = self._added(log, first, last)
        elif way.weights.kind == "prefix":
            sums = self._subtracted(log, first, last)
        else:
            raise NotCoveredError(
                f"this log holds {way.weights.in_words()}: "
                f"{self.in_words()} cannot be computed from it."
            )
        return answer_of(self.in_words(), log, first, sums)

    def _added(self, log: Log, first: int, last: int) -> Sums:
        back = self.width - 1
        parts = []
        for start, end in chunks(log, first, last, self.width):
            standing = counts(log, start - back, end, settled=self.hindsight)
            if self.hindsight:
                places = range(back, back + end - start + 1)
                parts += [
                    weighted(standing, np.ones(self.width), place, hindsight=True)
                    for place in places
                ]
            else:
                parts.append(windows(standing, self.width))
        return Sums.stacked(parts)

    def _as_they_are(self, log: Log, first: int, last: int) -> Sums:
        return Sums.stacked(
            [as_they_are(numbers(log, start, end)) for start, end in chunks(log, first, last, 1)]
        )

    def _subtracted(self, log: Log, first: int, last: int) -> Sums:
        """The sum up to now less the sum up to then. Both may share noise.

        E exp(t(A − B)) is at most the root of E exp(2tA) E exp(−2tB): twice the masses and peaks.
        """
        parts = []
        if first == self.width:  # no unit precedes the first one
            parts.append(as_they_are(numbers(log, first, first)))
            first += 1
        for start, end in chunks(log, first, last, self.width):
            now = as_they_are(numbers(log, start, end))
            then = as_they_are(numbers(log, start - self.width, end - self.width))
            a, b = now.noise, then.noise
            never = np.zeros_like(a.single)
            noise = replace(
                a,
                variance=2 * (a.variance + b.variance),
                mass=2 * (a.mass + b.mass),
                peak=2 * np.maximum(a.peak, b.peak),
                grain=np.full_like(a.grain, np.inf),
                draws=a.draws + b.draws,
                single=never,
                alike=never,
            )
            parts.append(Sums(now.estimate - then.estimate, noise, now.unread))
        return Sums.stacked(parts)
