"""Filters that follow a level from noisy samples: post-processing of releases, without randomness.

Both believe that the level moves from unit to unit by steps of mean 0 and a given variance. So they
predict the last estimate. Both know the noise of a sample.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from statistics import NormalDist
from typing import Literal, Protocol, TypeAlias

import numpy as np

from penstock.core.arrays import FloatArray, IntArray

_AT_ONCE = 2**17
"""About how many particles are moved at once: they fit into a processor's cache."""

FilterName: TypeAlias = Literal["kalman", "particle"]


@dataclass(frozen=True)
class FilterState:
    """The belief about every key: its level, and a variance for all keys or particles."""

    level: FloatArray
    uncertainty: float = 0.0
    cloud: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))


@dataclass(frozen=True)
class FilterSample:
    """One noisy sample of every key, and the scale and variance of its noise."""

    value: FloatArray
    scale: float
    variance: float


class Filter(Protocol):
    """A belief that begins with a first sample and is corrected by the next ones."""

    def begin(self, sample: FilterSample) -> FilterState:
        """The belief after the first sample."""
        ...

    def correct(self, track: FilterState, sample: FilterSample, drift: float) -> FilterState:
        """The belief after a sample. `drift` is the variance that the level has gained."""
        ...


@dataclass(frozen=True)
class Kalman:
    """The best linear estimate: the prediction and the sample, each counted by the inverse of its
    variance.

    >>> sample = FilterSample(np.array([10.0]), 1.0, 2.0)
    >>> later = FilterSample(np.array([16.0]), 1.0, 2.0)
    >>> track = Kalman().correct(Kalman().begin(sample), later, drift=2.0)
    >>> track.level, round(track.uncertainty, 3)
    (array([14.]), 1.333)
    """

    def begin(self, sample: FilterSample) -> FilterState:
        return FilterState(sample.value, sample.variance)

    def correct(self, track: FilterState, sample: FilterSample, drift: float) -> FilterState:
        before = track.uncertainty + drift
        gain = before / (before + sample.variance)
        level = sample.value - track.level
        level *= gain
        level += track.level
        return FilterState(level, (1 - gain) * before)


@dataclass(frozen=True)
class Particles:
    """The mean of many guesses, weighted by the likelihood of step and sample.

    The law of the noise is discrete Laplace's, :math:`e^{-|z-x|/s}`, and steps are Gaussian. Every
    guess moves towards the sample as a Kalman filter would, and its weight corrects for that. Equal
    shares of a law, dealt in a fixed order, stand in place of random draws. The guesses that are
    kept are chosen systematically, from the middle of each share. So equal samples give equal
    beliefs, in every run and in any order of the keys.

    >>> track = Particles(50).begin(FilterSample(np.array([10.0]), 1.0, 2.0))
    >>> track.level, track.cloud.shape
    (array([10.]), (1, 50))
    """

    number: int = 100

    def begin(self, sample: FilterSample) -> FilterState:
        return FilterState(
            sample.value, cloud=sample.value[:, None] + sample.scale * _laplace(self.number)
        )

    def correct(self, track: FilterState, sample: FilterSample, drift: float) -> FilterState:
        level, kept = np.empty_like(sample.value), np.empty_like(track.cloud)
        rows = max(1, _AT_ONCE // self.number)
        for first in range(0, len(level), rows):
            some = slice(first, first + rows)
            level[some], kept[some] = self._weighed(
                track.cloud[some], sample.value[some, None], sample.scale, drift
            )
        return FilterState(level, cloud=kept)

    def _weighed(
        self, cloud: FloatArray, target: FloatArray, scale: float, drift: float
    ) -> tuple[FloatArray, FloatArray]:
        """The mean of the guesses after their steps, and the guesses that are kept, in order."""
        steps, noise = _steps(self.number), 2 * scale**2
        gain = drift / (drift + noise)
        move = gain * (target - cloud) + (gain * noise) ** 0.5 * steps
        moved = cloud + move
        weight = (
            np.square(steps) / 2 - np.square(move) / (2 * drift) - np.abs(target - moved) / scale
        )
        order = np.argsort(moved, axis=1)
        moved, weight = (
            np.take_along_axis(moved, order, axis=1),
            np.take_along_axis(weight, order, axis=1),
        )
        weight -= weight.max(axis=1, keepdims=True)
        shares = np.cumsum(np.exp(weight), axis=1)
        shares /= shares[:, -1:].copy()
        level = moved[:, -1] - (shares[:, :-1] * np.diff(moved, axis=1)).sum(axis=1)
        kept = np.repeat(moved.ravel(), _times(shares, self.number).ravel()).reshape(moved.shape)
        return level, kept


def _times(shares: FloatArray, number: int) -> IntArray:
    """How often each particle is kept, given the running shares of the weights.

    A particle is kept once per middle (i + 1/2)/number that lies in its own share.
    """
    upto = np.ceil(shares * number - 0.5).astype(np.int64)
    upto[:, 1:] -= upto[:, :-1].copy()
    return upto


@lru_cache(maxsize=16)
def _middles(number: int) -> FloatArray:
    return (np.arange(number) + 0.5) / number


@lru_cache(maxsize=16)
def _steps(number: int) -> FloatArray:
    """Gaussian steps of variance 1, one per particle, in an order unrelated to the particles'."""
    steps = np.array([NormalDist().inv_cdf(share) for share in _middles(number).tolist()])
    order = np.argsort(np.arange(number) * (5**0.5 - 1) / 2 % 1.0, kind="stable")
    return np.asarray(steps[order] / np.std(steps))


@lru_cache(maxsize=16)
def _laplace(number: int) -> FloatArray:
    """Laplace noise of scale 1, one per particle."""
    away = _middles(number) - 0.5
    return np.asarray(-np.sign(away) * np.log1p(-2 * np.abs(away)))


def filter_of(name: FilterName, particles: int) -> Filter:
    """The filter of this name."""
    return Kalman() if name == "kalman" else Particles(particles)
