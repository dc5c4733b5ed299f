r"""The probability of the answers of a sparse-vector run, summed over its threshold noise.

A run compares statistic + question noise with threshold + threshold noise, again and again with the
same threshold noise ρ. The probability of its answers so far is a sum over ρ: :math:`\sum_\rho
P(\rho)\prod_t P(\text{answer}_t\mid\rho)`. An answer given ρ is a tail of discrete Laplace noise:
the upper tail for a yes and the lower tail for a no. Every factor is log-concave in ρ, and so is
their product. So the terms beyond the two ends of a finite sum are at most a geometric series, and
the bounds are wider by that much.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from penstock.core.arrays import FloatArray
from penstock.core.errors import ConfigurationError

REACH: Final = 45.0
"""The number of scales that are summed beyond the last turning point. The rest is near e^−45."""

MANY_VALUES: Final = 10_000
"""With more values of threshold noise than this, terms below e^−45 are left out too."""

MAX_SUMMED_VALUES: Final = 20_000_000
"""More values of threshold noise than this are not summed."""


@dataclass(frozen=True, slots=True)
class ThresholdAnswer:
    """One answer. Yes means that question noise − threshold noise reached `turn`.

    `rate` is 1/scale of the question noise.
    """

    rate: float
    turn: int
    yes: bool


@dataclass(frozen=True, slots=True)
class Belief:
    """The answers of one open run about one number; `rate` is 1/scale of its threshold noise.

    >>> belief = Belief("watch", 0, 1.0)
    >>> answers = [ThresholdAnswer(0.5, 3, yes) for yes in (True, False)]
    >>> chances = [math.exp(belief.after(answer).log_chance()[0]) for answer in answers]
    >>> round(sum(chances), 12)
    1.0
    """

    run: str
    key: int
    rate: float
    answers: tuple[ThresholdAnswer, ...] = ()

    def after(self, answer: ThresholdAnswer) -> Belief:
        """The belief with one more answer."""
        return Belief(self.run, self.key, self.rate, (*self.answers, answer))

    def log_chance(self) -> tuple[float, float]:
        """The logarithm of the probability of all its answers, between two bounds."""
        return _log_chance(self.rate, self.answers)


@lru_cache(maxsize=4096)
def _log_chance(rate: float, answers: tuple[ThresholdAnswer, ...]) -> tuple[float, float]:
    if not answers:
        return 0.0, 0.0
    turns = [-answer.turn for answer in answers]
    reach = math.ceil(REACH / rate) + 2
    first, last = min(0, *turns) - reach, max(0, *turns) + reach
    if last - first > MANY_VALUES:
        first, last = _narrowed(rate, answers, first, last)
    if last - first > MAX_SUMMED_VALUES:
        raise ConfigurationError(
            "threshold noise has too many values to be summed: "
            "raise epsilon, or use smaller counts."
        )
    logs = _log_terms(rate, answers, np.arange(first, last + 1, dtype=np.float64))
    most = float(logs.max())
    total = float(np.exp(logs - most).sum())
    left_out = _beyond(logs[0] - most, logs[1] - most) + _beyond(logs[-1] - most, logs[-2] - most)
    return most + math.log(total), most + math.log(total + left_out)


def _log_terms(rate: float, answers: tuple[ThresholdAnswer, ...], noise: FloatArray) -> FloatArray:
    """The logarithms of the terms for these values of the threshold noise."""
    logs = math.log(math.tanh(rate / 2)) - rate * np.abs(noise)
    for answer in answers:
        logs += _log_reached(
            answer.rate, noise + answer.turn if answer.yes else 1 - noise - answer.turn
        )
    return logs


def _narrowed(
    rate: float, answers: tuple[ThresholdAnswer, ...], first: int, last: int
) -> tuple[int, int]:
    """The part of a range where terms are not far below the largest: they rise to it, then fall."""

    def term(noise: int) -> float:
        return float(_log_terms(rate, answers, np.array([noise], np.float64))[0])

    top = first + bisect_left(
        range(first, last), True, key=lambda noise: term(noise + 1) <= term(noise)
    )
    least = term(top) - REACH
    low = first + bisect_left(range(first, top), True, key=lambda noise: term(noise) > least)
    return low, top + bisect_left(range(top, last), True, key=lambda noise: term(noise) < least)


def _log_reached(rate: float, least: FloatArray) -> FloatArray:
    """ln P(noise ≥ least), for whole numbers `least`."""
    q = math.exp(-rate)
    far = np.maximum(least, 1 - least)  # P(noise ≥ n) = 1 − P(noise ≥ 1 − n)
    tail = -rate * far - math.log1p(q)
    return np.where(least >= 1, tail, np.log1p(-np.exp(tail)))


def _beyond(end: float, before: float) -> float:
    """A bound on the sum of all terms after the last, from the logarithms of the last two."""
    ratio = math.exp(end - before)
    return math.exp(end) * ratio / (1 - ratio) if ratio < 1 else math.inf
