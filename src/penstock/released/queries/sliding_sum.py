"""`SlidingSum`: the sum of the last so many units."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from penstock.core.errors import ConfigurationError
from penstock.core.exact import whole
from penstock.core.weights import Weights
from penstock.released.log import Log
from penstock.released.queries.answer import Answer
from penstock.released.queries.current_releases import (
    Sums,
    as_they_are,
    counts,
    has_counts,
    numbers,
    weighted,
    windows,
)
from penstock.released.queries.query import NumberQuery, Units, answer_of, chunks


@dataclass(frozen=True)
class SlidingSum(NumberQuery):
    """The sum of the last `width` units, per key, from the same releases for any width.

    Each unit enters with the best that is known of it at the unit asked for: its own release; the
    release that stands for it, whose one noise then counts as often as it is repeated; the mean of
    its retroactive group (`rg`); the median or mean of its whole group as far as it has come
    (`pegasus`). `hindsight` uses what became known later as well.

    Releases that are sums of `width` units are taken as they are. Sums of all units so far are
    subtracted from each other; the variance of such a difference is an upper bound, because the two
    share noise.

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
        later = len(log) > 0 and log.first > 1 and log[log.last].weights.kind == "prefix"
        return self.width + 1 if later else self.width

    def answer(self, log: Log, unit: Units = None) -> Answer:
        first, last = self._span(log, unit)
        sample = log[last]
        if sample.weights == Weights.window(self.width):
            sums = self._as_they_are(log, first, last)
        elif has_counts(sample):
            sums = self._added(log, first, last)
        elif sample.weights.kind == "prefix":
            sums = self._subtracted(log, first, last)
        else:
            raise ConfigurationError(
                f"this log holds {sample.weights.in_words()}: {self.in_words()} cannot be told from it."
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
        """The sum up to now less the sum up to then, whatever the two have in common.

        E exp(t(A − B)) is at most the root of E exp(2tA) E exp(−2tB): twice the masses and peaks.
        """
        parts = []
        if first == self.width:  # nothing was before the first unit
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
