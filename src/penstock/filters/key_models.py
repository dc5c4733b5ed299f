"""Several models of how a key's level moves, run side by side and weighted by how they predict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from penstock.core.arrays import BoolArray, FloatArray, IntArray
from penstock.filters.observation import FilterSettings

Small: TypeAlias = NDArray[np.float32]
Columns: TypeAlias = IntArray | slice

_MODELS = np.array(
    [
        (drift, irregular, 1.0)
        for drift in (0.001, 0.005, 0.02, 0.06, 0.2, 0.6)
        for irregular in (0.0, 0.3)
    ]
    + [(0.06, 0.9, 1.0), (0.005, 0.9, 1.0), (0.1, 0.0, 0.98), (0.05, 0.0, 0.995)]
)
"""The models of TIDE section 3: drift ρ per unit, irregular part σ of a unit, pull φ per unit to
the long-run level. ρ and σ are relative to the level."""

DRIFT, IRREGULAR, PULL = _MODELS.T[:, :, None]
MODELS = len(_MODELS)
DRIFT_SQUARED = np.square(DRIFT).astype(np.float32)
IRREGULAR_SQUARED = np.square(IRREGULAR).astype(np.float32)
PULLED = np.flatnonzero(_MODELS[:, 2] < 1)
LONG_RUN = 0
"""The model with the least drift. Its level is what the others are pulled to."""

PULLS, PULL_OF = np.unique(_MODELS[:, 2], return_inverse=True)

AT_ONCE = 4096
"""How many keys are corrected at once: their arrays fit into a processor's cache."""

FORGET = 0.97
"""How much of its past log likelihood a model of one key keeps per block."""

MAX_POOLED = 8192
"""Of more keys with new sums, every n-th joins the pooled scores."""

POOL_FORGET, POOL_MOST, POOL_SHARE, POOL_FLOOR = 0.995, 50, 0.5, -20.0
"""Log likelihoods pooled over a size class: kept per key, most keys counted per unit, their share
in a key's weights, and the least difference to the best model."""

LEAST_SCORE = np.float32(-30)
"""The least difference of a score to the best: smaller weights would be slow, subnormal numbers."""

CLASSES = 32
"""The number of size classes: powers of two of level over noise scale, from 1/1024."""

IRREGULAR_KEEP, IRREGULAR_ERRORS = 0.9, 1.5
"""The measured irregular variance: kept per block, and the standard errors it must stand out."""

FIRST_SPREAD, FIRST_DRIFT = 0.05, 0.03
"""Relative variance and drift that a key begins with."""

SQUARE_VARIANCE = {"laplace": 5.0, "gaussian": 2.0}
"""The variance of squared noise of variance 1."""


@dataclass
class KeyModels:
    r"""The belief about the level θ of each key, where a count has mean θ times a known factor.

    A sum y of n units whose factors add up to F measures θ by y/F. With noise variance R of the
    sum and e units since the last one, model (ρ, σ, φ) makes a Kalman step with

    .. math::
        P^-=\varphi^{2e}P+(\rho\theta)^2e,\qquad
        S=P^-+R/F^2+\theta/F+(\sigma\theta)^2/n,

    and its Student-t log likelihood with 4 degrees of freedom joins its score. (A stock has no term
    θ/F.) A key's weights are its own scores and half of the scores pooled over its size class. The
    irregular variance of a unit is the models', or the measured mean of
    :math:`n(e^2-R/F^2-P^-)` less 1.5 standard errors if that is more.
    """

    seen: FloatArray
    """1 for keys that had a sum, else 0."""
    levels: Small
    variances: Small
    scores: Small
    """Per model and key. Four bytes are enough: counts are below 2⁵⁰, their squares below 2¹⁰⁰."""
    pooled: FloatArray
    mean: FloatArray
    variance: FloatArray
    drift: FloatArray
    irregular: FloatArray
    pulled: Small
    """Per pull φ, the distance of its models to the long-run level, weighted."""
    residual: FloatArray
    residual_weight: FloatArray

    @classmethod
    def nothing(cls, keys: int) -> KeyModels:
        """No belief yet."""

        def small(rows: int) -> Small:
            return np.zeros((rows, keys), np.float32)

        return cls(
            seen=np.zeros(keys),
            levels=small(MODELS),
            variances=small(MODELS),
            scores=small(MODELS),
            pooled=np.zeros((CLASSES, MODELS)),
            mean=np.zeros(keys),
            variance=np.zeros(keys),
            drift=np.zeros(keys),
            irregular=np.zeros(keys),
            pulled=small(len(PULLS)),
            residual=np.zeros(keys),
            residual_weight=np.zeros(keys),
        )

    def begin(self, keys: IntArray, mean: FloatArray, variance: FloatArray) -> None:
        """Believe this of keys that had no sum before."""
        square = np.square(mean)
        self.seen[keys] = 1
        self.levels[:, keys] = mean
        self.variances[:, keys] = variance + FIRST_SPREAD * square
        self.mean[keys], self.variance[keys] = mean, variance
        self.irregular[keys] = FIRST_SPREAD * square
        self.drift[keys] = FIRST_DRIFT**2 * square

    def step(self, settings: FilterSettings, block: Block) -> FloatArray:
        """Take the sums of some keys. Return how far each unit's own count lies from its level.

        The distance is 0 for sums of more than one unit, which say nothing of the last one.
        """
        classes = size_classes(self.mean[block.keys], block.noise)
        pooled = self._pooled_scores()
        likelihoods, number = np.zeros((MODELS, CLASSES)), np.zeros(CLASSES, np.int64)
        sparse = -(-len(block.keys) // MAX_POOLED)
        there = np.empty(len(block.keys))
        every = len(there) == len(self.mean)
        for first in range(0, len(there), AT_ONCE):
            part = slice(first, first + AT_ONCE)
            some = block if len(there) <= AT_ONCE else block.of(part)
            columns = part if every else some.keys
            there[part], likelihood = self._correct(
                settings, some, columns, _some(pooled, classes[part])
            )
            for model, of_keys in zip(likelihoods, exact(likelihood[:, ::sparse]), strict=True):
                model += np.bincount(classes[part][::sparse], of_keys, minlength=CLASSES)
            number += np.bincount(classes[part][::sparse], minlength=CLASSES)
        self._pool(number, likelihoods)
        return there

    def _correct(
        self, settings: FilterSettings, block: Block, columns: Columns, pooled: Small
    ) -> tuple[FloatArray, Small]:
        """One Kalman step of every model: the distance of `step`, and the log likelihoods.

        With a slice of columns, the arrays of the models are changed in place.
        """
        keys, units, noise = columns, block.units, block.noise / np.square(block.factor)
        own = 0.0 if settings.kind == "stock" else 1.0
        measured = block.sums / block.factor
        least = np.sqrt(block.noise / 2) / (4 * settings.longest)
        level = np.maximum(self.mean[keys], least)
        square = np.square(level)
        before, spread = self._predict(block, columns, square)
        total = IRREGULAR_SQUARED * _small(square / units)
        total += _small(noise + own * level / block.factor)
        total += spread
        error = _small(measured) - before
        likelihood = _likelihood(error, total)
        scores = _some(self.scores, columns)
        scores *= FORGET
        scores += likelihood
        weights = _weights(scores, pooled)
        expected, uncertain = _mixed(weights, before), _mixed(weights, spread)
        gain = np.divide(spread, total, out=total)
        error *= gain
        before += error  # the levels after the step
        spread -= gain * spread
        if not isinstance(columns, slice):
            self.levels[:, keys], self.variances[:, keys] = before, spread
            self.scores[:, keys] = scores
        mean = _mixed(weights, before)
        self.mean[keys] = np.maximum(mean, 0)
        apart = np.square(before - _small(mean))
        apart += spread
        self.variance[keys] = _mixed(weights, apart)
        if settings.kind == "stock":
            self._pull(keys, weights, before)
        square = np.square(np.maximum(mean, least))
        self.drift[keys] = square * np.einsum("m,mk->k", DRIFT_SQUARED[:, 0], weights)
        modelled = square * np.einsum("m,mk->k", IRREGULAR_SQUARED[:, 0], weights)
        surprise = measured - expected
        excess = np.square(surprise) - noise - uncertain
        self.irregular[keys] = np.maximum(
            modelled, self._measured(settings, block.units, keys, excess, noise)
        )
        unit = uncertain + self.irregular[keys] + own * self.mean[keys] / block.factor
        there = expected + unit / (unit + noise) * surprise - self.mean[keys]
        return np.where(units == 1, there, 0.0), likelihood

    def _predict(self, block: Block, columns: Columns, square: FloatArray) -> tuple[Small, Small]:
        """Levels and variances of all models before the sums are seen."""
        before, spread = _some(self.levels, columns), _some(self.variances, columns)
        pull = _small(np.power(PULL[PULLED], block.elapsed))
        before[PULLED] = before[PULLED] * pull + (1 - pull) * before[LONG_RUN]
        spread[PULLED] *= pull * pull
        spread += DRIFT_SQUARED * _small(square * block.elapsed)
        return before, spread

    def _pool(self, number: IntArray, likelihoods: FloatArray) -> None:
        """Add the log likelihoods of all keys of a class, as of at most POOL_MOST keys."""
        scale = np.minimum(number, POOL_MOST) / np.maximum(number, 1)
        added = likelihoods.T * scale[:, None]
        self.pooled = np.power(POOL_FORGET, number)[:, None] * self.pooled + added

    def _pooled_scores(self) -> Small:
        """The share of the pooled scores in the scores of a key, by model and size class."""
        best = self.pooled.max(axis=1, keepdims=True)
        return _small(POOL_SHARE * np.maximum(self.pooled - best, POOL_FLOOR).T)

    def _pull(self, keys: Columns, weights: Small, after: Small) -> None:
        away = weights * (after - after[LONG_RUN])
        for place in range(len(PULLS)):
            self.pulled[place, keys] = away[place == PULL_OF].sum(axis=0)

    def _measured(
        self,
        settings: FilterSettings,
        units: IntArray,
        keys: Columns,
        excess: FloatArray,
        noise: FloatArray,
    ) -> FloatArray:
        """The irregular variance of a unit that errors show, where it stands out of the noise."""
        residual = IRREGULAR_KEEP * self.residual[keys] + units * excess
        weight = IRREGULAR_KEEP * self.residual_weight[keys] + 1
        self.residual[keys], self.residual_weight[keys] = residual, weight
        error: FloatArray = units * noise * np.sqrt(SQUARE_VARIANCE[settings.law] / weight)
        shown: FloatArray = residual / weight - IRREGULAR_ERRORS * error
        return np.maximum(shown, 0)

    def predicted(self, age: IntArray) -> FloatArray:
        """The level of each key, `age` units after its last sum, pulled to the long run."""
        level: FloatArray = self.levels[LONG_RUN].copy()
        for pull, away in zip(PULLS, self.pulled, strict=True):
            level += away * np.power(pull, age)
        return level


@dataclass(frozen=True)
class Block:
    """The sums of some keys: over how many units, with what factor, how long after the last."""

    keys: IntArray
    sums: FloatArray
    units: IntArray
    elapsed: IntArray
    factor: FloatArray
    noise: float | FloatArray

    def of(self, some: BoolArray | slice) -> Block:
        """The sums of some of the keys."""
        return Block(
            self.keys[some],
            self.sums[some],
            self.units[some],
            self.elapsed[some],
            self.factor[some],
            self.noise if isinstance(self.noise, float) else self.noise[some],
        )


def _small(values: FloatArray) -> Small:
    return values.astype(np.float32)


def _some(values: Small, columns: Columns) -> Small:
    """Some columns: a view of a slice, else a copy. `clip` is the fast mode of `take`."""
    if isinstance(columns, slice):
        return values[:, columns]
    return values.take(columns, axis=1, mode="clip")


def _mixed(weights: Small, values: Small) -> FloatArray:
    """The weighted mean over models."""
    return np.asarray(np.einsum("mk,mk->k", weights, values), np.float64)


def _likelihood(error: Small, variance: Small) -> Small:
    """The Student-t log likelihood with 4 degrees of freedom, up to a constant."""
    found = np.square(error)
    found /= variance
    found *= np.float32(0.25)
    np.log1p(found, out=found)
    found *= np.float32(-2.5)
    found -= np.float32(0.5) * np.log(variance)
    return found


def _weights(scores: Small, pooled: Small) -> Small:
    """The weight of each model for each key."""
    weights = scores + pooled
    weights -= weights.max(axis=0)
    np.maximum(weights, LEAST_SCORE, out=weights)
    np.exp(weights, out=weights)
    weights /= weights.sum(axis=0)
    return weights


def exact(values: FloatArray | Small) -> FloatArray:
    """The values, rounded to parts of 2⁻¹⁶: sums over keys are then the same in any order."""
    return np.rint(values * np.float32(2.0**16)).astype(np.float64) / 2.0**16


def size_classes(level: FloatArray, noise: float | FloatArray) -> IntArray:
    """The size class of each key: how many powers of two its level has above 1/1024 noise scales.

    >>> size_classes(np.array([0.0, 1.0, 8.0]), 2.0)
    array([ 1, 11, 14])
    """
    ratio = np.maximum(level, 1e-3) * (1024 / np.sqrt(noise / 2))
    classes: IntArray = np.log2(ratio).astype(np.int64) + 1
    return np.minimum(np.maximum(classes, 0), CLASSES - 1)
