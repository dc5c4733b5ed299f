"""Draws which pages of a site a given number of requests ask for."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from penstock.core.arrays import FloatArray, IntArray
from penstock.core.errors import InputError
from penstock.core.exact import whole

_STEEP, _FLAT_TOP = (
    1.2,
    6.0,
)  # the page of rank r is asked for in proportion to (r + _FLAT_TOP) ** -_STEEP
_OLD_FIRST, _LUCK = (
    0.6,
    1.5,
)  # how much the ranking favours smaller numbers, and how much is chance
_TOPICAL: Final = 0.6  # the share of pages that are news, asked for at one time only
_DAYS_OF_NEWS: Final = 2.0
_STALE: Final = 0.02  # what is left of a page when it is no news
_SWAY: Final = 0.45  # amplitude of the logarithm of a page's popularity
_DAYS_OF_SWAY: Final = (1.5, 20.0)  # range of the period of that swing
_EVENTS: Final = 64  # matches
_PAGES_OF_EVENT, _PULL = 40, 20.0  # number of pages of an event, and their weight
_MARGIN: Final = 6.0  # standard deviations


@dataclass(frozen=True, eq=False, kw_only=True)
class Requests:
    """Draws the page of every request: exactly `load[t]` requests in unit t + 1, to `known[t]`
    pages.

    The share of a page follows a power of its rank. Some pages are always asked for, others are
    news for a few days; the popularity of all changes slowly. In the busiest units a few pages get
    most requests. Each unit has its own seed, so units may be read in any order.
    """

    load: IntArray
    known: IntArray
    keys: int
    per_day: int
    seed: int = 1

    def __post_init__(self) -> None:
        whole(self.keys, name="keys", least=1)
        whole(self.per_day, name="per_day", least=1)
        whole(self.seed, name="seed", least=0)
        if (
            self.load.shape != self.known.shape
            or self.load.ndim != 1
            or not len(self.load)
            or int(self.load.min()) < 0
        ):
            raise InputError(
                "load and known must be one number a unit, and load at least 0. Nothing was drawn."
            )
        if (
            int(self.known.min()) < 1
            or int(self.known.max()) > self.keys
            or (np.diff(self.known) < 0).any()
        ):
            raise InputError(
                f"known must grow from at least 1 to at most {self.keys} keys. Nothing was drawn."
            )

    def draw(self, unit: int) -> IntArray:
        """The requests for each page in a unit, counted from 1."""
        number = int(self.load[unit - 1])
        if not number:
            return np.zeros(self.keys, np.int64)
        rng = np.random.default_rng((self.seed, 1, unit))
        return allotted(number, self._weights(unit), rng)

    def _weights(self, unit: int) -> FloatArray:
        """The weight of each page; 0 for pages that do not exist yet."""
        pages = self._pages
        day = (unit - 1) / self.per_day
        fresh = np.exp(-np.abs(day - pages.peak) / _DAYS_OF_NEWS)
        interest = np.where(pages.topical, _STALE + (1 - _STALE) * fresh, 1.0)
        weights = (
            pages.weight
            * interest
            * np.exp(_SWAY * np.sin(2 * np.pi * (day / pages.rhythm + pages.phase)))
        )
        crowd = self._crowds.get(unit)
        if crowd is not None:
            weights[crowd] *= _PULL
        weights[int(self.known[unit - 1]) :] = 0
        return np.asarray(weights, np.float64)

    @cached_property
    def _pages(self) -> _Pages:
        rng = np.random.default_rng((self.seed, 0))
        number = np.arange(self.keys)
        rank = np.argsort(
            np.argsort(_OLD_FIRST * np.log(number + 20.0) + rng.normal(0, _LUCK, self.keys))
        )
        born = np.searchsorted(self.known, number, side="right") / self.per_day
        end = len(self.load) / self.per_day
        return _Pages(
            weight=np.asarray((rank + _FLAT_TOP) ** -_STEEP, np.float64),
            topical=rng.random(self.keys) < _TOPICAL,
            peak=born + rng.random(self.keys) ** 2 * np.maximum(end - born, 0),
            rhythm=np.exp(
                rng.uniform(math.log(_DAYS_OF_SWAY[0]), math.log(_DAYS_OF_SWAY[1]), self.keys)
            ),
            phase=rng.random(self.keys),
        )

    @cached_property
    def _crowds(self) -> dict[int, IntArray]:
        """The busiest units, and the popular pages of each."""
        rng = np.random.default_rng((self.seed, 2))
        busiest = np.argsort(-self.load, kind="stable")[:_EVENTS] + 1
        return {
            unit: rng.integers(0, int(self.known[unit - 1]), _PAGES_OF_EVENT)
            for unit in busiest.tolist()
        }


@dataclass(frozen=True, eq=False, kw_only=True)
class _Pages:
    """The properties of each page. Days count from the first unit."""

    weight: FloatArray
    topical: np.ndarray
    peak: FloatArray
    rhythm: FloatArray
    phase: FloatArray


def allotted(number: int, weights: FloatArray, rng: np.random.Generator) -> IntArray:
    """Spread `number` events over keys by weight: an exact multinomial draw at the cost of Poisson.

    Poisson counts with a mean slightly below `number` are multinomial given their total; they are
    drawn again if they exceed it. The remaining events are drawn one by one.

    >>> allotted(1_000, np.array([1.0, 0.0, 3.0]), np.random.default_rng(1)).sum()
    np.int64(1000)
    """
    upto = np.cumsum(weights)
    likely = max(number - _MARGIN * number**0.5, 0.0)
    while True:
        counts: IntArray = rng.poisson(weights * (likely / upto[-1])).astype(np.int64)
        rest = number - int(counts.sum())
        if rest >= 0:
            break
    places = np.searchsorted(upto, rng.random(rest) * upto[-1], side="right")
    last = int(
        np.flatnonzero(weights)[-1]
    )  # rounding could point past the last key that has a weight
    counts += np.bincount(np.minimum(places, last), minlength=len(weights))
    return counts
