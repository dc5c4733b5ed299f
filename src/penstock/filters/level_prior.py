"""What keys have in common: the distribution of their levels, learned over all of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from penstock.core.arrays import FloatArray, IntArray
from penstock.core.arrays import SmallFloats as Small

GRID_POINTS, MAX_KEYS, AT_ONCE = 20, 2000, 5000
"""Points of the grid, keys it is learned from, keys that are corrected at once. NumPy is slower
with shorter rows, and with rows of a power of two."""

UNLIKELY = 32.0
"""Levels are left out if the logarithms of all their likelihoods are below -UNLIKELY."""

FAR, LEAST_LOG = 8.0, -50.0
"""Log likelihoods are taken against the best, and at least LEAST_LOG, if an estimate is more than
FAR standard deviations from 0. Otherwise the likelihood of level 0 is not too small a number."""

SQRT_2 = math.sqrt(2)
LEAST_VARIANCE, LEAST_DEVIATION = 1e-9, 1e-9
LARGEST = 2.0**60
"""The largest level."""

FIRST_STEPS, LATER_STEPS = 40, 6
"""Steps of the EM algorithm: the first time, and from the last prior on."""

SPAN = 2000.0
"""The highest level over the lowest above 0. The highest is the highest estimate: no likelier
distribution of levels reaches beyond the estimates."""

SPREAD = 0.05
"""The share of the last prior that is spread evenly before it is learned again."""

LEAST_EVIDENCE = 4.0
"""All levels are 0 unless the logarithm of the likelihood is better by this much."""

FEWEST_KEYS = 20
"""Fewer keys have no prior."""


@dataclass
class LevelPrior:
    r"""The distribution of levels :math:`\theta\ge0` over keys, on a geometric grid.

    It is the nonparametric maximum likelihood estimate by the EM algorithm, from an estimate per
    key with an error of known variance, the mean of so many draws of noise (evenly spaced quantiles
    if there are many keys).
    An estimate of a key that hardly stands out of its error is then corrected to its posterior
    mean.

    >>> prior = LevelPrior.nothing()
    >>> estimates = np.array([0.0] * 30 + [50.0])
    >>> prior.learn(estimates, np.ones(31), np.ones(31))
    >>> mean, variance = prior.posterior(np.array([1.0, 50.0]), np.ones(2), np.ones(2))
    >>> bool(mean[0] < 0.5), bool(abs(mean[1] - 50) < 6)
    (True, True)
    """

    grid: FloatArray
    weights: FloatArray

    @classmethod
    def nothing(cls) -> LevelPrior:
        """The prior before it is learned."""
        return cls(np.zeros(0), np.zeros(0))

    @property
    def known(self) -> bool:
        """Whether it was learned."""
        return bool(len(self.grid))

    def learn(self, estimates: Small, variances: Small, draws: Small) -> None:
        """Learn from the estimates of all keys. The order of keys does not matter."""
        highest = float(estimates.max())
        if highest * highest < variances.max():  # else the median of deviations is below it, too
            highest = max(highest, math.sqrt(np.median(variances)))
        highest = max(highest, LEAST_DEVIATION)
        grid = np.concatenate([[0.0], np.geomspace(highest / SPAN, highest, GRID_POINTS - 1)])
        weights = np.full(GRID_POINTS, 1 / GRID_POINTS)
        steps = LATER_STEPS if self.known else FIRST_STEPS
        if self.known:
            between = np.interp(np.log(grid[1:]), np.log(self.grid[1:]), self.weights[1:])
            last = np.concatenate([self.weights[:1], np.maximum(between, 1e-9)])
            weights = (1 - SPREAD) * last / last.sum() + SPREAD / GRID_POINTS
        number = len(estimates)
        if number > MAX_KEYS:  # then ties hardly matter, and one sort is faster than three
            some = _sorted(estimates)[_places(number)]
        else:
            some = np.lexsort((draws, variances, estimates))
        found = _scaled(estimates[some], variances[some], draws[some])
        room = np.empty((2, GRID_POINTS, len(some)), np.float32)
        likelihood = _likelihood(found, grid, room).astype(np.float64)
        for _ in range(steps):
            weights *= np.einsum("gk,k->g", likelihood, 1 / _evidence(weights, likelihood))
            weights += 0.5 / GRID_POINTS
            weights /= weights.sum()
        evidence = np.log(_evidence(weights, likelihood)) - np.log(likelihood[0])
        if evidence.sum() < LEAST_EVIDENCE:
            weights = np.full(GRID_POINTS, 1e-6)
            weights[0] = 1.0
        self.grid, self.weights = grid, weights / weights.sum()

    def posterior(self, estimates: Small, variances: Small, draws: Small) -> tuple[Small, Small]:
        """The posterior mean and variance of each key's level."""
        keys, scale = len(estimates), float(self.grid[-1])
        powers = (self.weights * (self.grid / scale) ** np.arange(3)[:, None]).astype(np.float32)
        moments = np.empty((3, keys), np.float32)
        room = np.empty((2, GRID_POINTS, min(keys, AT_ONCE)), np.float32)
        found = _scaled(estimates, variances, draws)
        firsts, grid = range(0, keys, AT_ONCE), self.grid.astype(np.float32)[:, None]
        reached = self.grid.searchsorted(np.maximum.reduceat(_reach(found), firsts)) + 1
        parts = zip(firsts, reached.tolist(), *_near(found, self.grid, firsts), strict=True)
        for first, points, quadratic, far in parts:
            part = slice(first, first + AT_ONCE)
            away = room[:, :points, : keys - first]
            likelihood = _likelihoods(found[:, part], grid[:points], away, quadratic, far=far)
            np.einsum("vg,gk->vk", powers[:, :points], likelihood, out=moments[:, part])
        mean, square = moments[1:]
        moments[1:] /= moments[0]
        square -= mean * mean
        mean *= scale
        square *= scale**2
        return mean, np.maximum(square, LEAST_VARIANCE, out=square)

    def rescale(self, ratio: float) -> None:
        """Count levels in other parts."""
        self.grid = np.minimum(self.grid * ratio, LARGEST)


def _sorted(estimates: Small) -> IntArray:
    """The order of some numbers, by their bits: two radix sorts are much faster than one other."""
    bits = estimates.astype(np.float32, copy=False).view(np.int32)
    bits = bits ^ (bits >> 31 & 0x7FFFFFFF)  # the larger a negative number, the smaller its bits
    order = np.argsort(bits.astype(np.uint16), kind="stable")
    return order[np.argsort((bits >> 16).astype(np.int16)[order], kind="stable")]


@lru_cache(maxsize=8)
def _places(number: int) -> IntArray:
    """The places of evenly spaced quantiles among more than MAX_KEYS numbers."""
    return np.unique(np.linspace(0, number - 1, MAX_KEYS).astype(np.int64))


def _evidence(weights: FloatArray, likelihood: FloatArray) -> FloatArray:
    """The likelihood of each key under the prior."""
    return np.asarray(np.einsum("g,gk->k", weights, likelihood))


def _scaled(estimates: Small, variances: Small, draws: Small) -> Small:
    r"""Per key: one over :math:`\sqrt2` deviations, the estimate times that, and the root of the
    number of draws.
    """
    found = np.empty((3, len(estimates)), np.float32)
    inverse, scaled, roots = found
    np.sqrt(variances, out=inverse)
    inverse += LEAST_DEVIATION
    np.divide(1 / SQRT_2, inverse, out=inverse)
    np.multiply(estimates, inverse, out=scaled)
    np.sqrt(draws, out=roots)
    return found


def _reach(found: Small) -> Small:
    """Per key, a level above which all likelihoods are too small to count."""
    inverse, scaled, roots = found
    away = UNLIKELY / 2 / roots
    away += roots / 2
    away += np.maximum(scaled, 0)
    away /= inverse
    return np.asarray(away)


def _likelihood(found: Small, grid: FloatArray, room: Small) -> Small:
    r"""The likelihood of each grid point, up to a factor per key: points × keys.

    The mean of n Laplace draws is about Gaussian up to :math:`\sqrt{2n}` standard deviations, and
    has Laplace's tail beyond. With a the distance over :math:`\sqrt2` deviations, and b the smaller
    one of a and :math:`\sqrt n`, the logarithm is :math:`b(b-2a)`: :math:`-a^2` at the first grid
    points, if no estimate is far from them.

    The result is in `room`, two arrays of points × keys. `found` is from `_scaled`.
    """
    (quadratic,), (far,) = _near(found, grid, range(1))
    return _likelihoods(found, grid.astype(np.float32)[:, None], room, quadratic, far=far)


def _near(found: Small, grid: FloatArray, firsts: range) -> tuple[list[int], list[bool]]:
    """Per part of the keys: at how many grid points the logarithm is surely :math:`-a^2`, and
    whether an estimate is far from 0. `firsts` are the first keys of all parts.
    """
    inverse, scaled, roots = found
    above = roots + scaled
    above /= inverse
    points = grid.searchsorted(np.minimum.reduceat(above, firsts), side="right")
    points[np.maximum.reduceat(scaled - roots, firsts) > 0] = 0
    far = np.maximum.reduceat(np.abs(scaled), firsts) > FAR / SQRT_2
    return points.tolist(), far.tolist()


def _likelihoods(found: Small, grid: Small, room: Small, points: int, *, far: bool) -> Small:
    """The likelihoods with what `_near` says of these keys. The grid is a column."""
    inverse, scaled, roots = found
    away, near = room
    np.multiply(grid, inverse, out=away)
    away -= scaled
    if points:
        first = away[:points]
        first *= first
        np.negative(first, out=first)
    else:
        np.abs(away, out=away)
    if points < len(away):
        rest, near = away[points:], near[points:]
        np.minimum(rest, roots, out=near)
        rest *= -2
        rest += near
        rest *= near
    if far:
        away -= np.maximum.reduce(away)
        np.clip(away, LEAST_LOG, 0, out=away)
    return np.asarray(np.exp(away, out=away))
