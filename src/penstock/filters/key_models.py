"""Several models of how a key's level moves, run side by side and weighted by how they predict."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.core.arrays import BoolArray, FloatArray, IntArray
from penstock.filters.observation import FilterSettings

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
LONG_RUN = 0
"""The model with the least drift. Its level is what the others are pulled to."""

PULLS, PULL_OF = np.unique(_MODELS[:, 2], return_inverse=True)

FORGET = 0.97
"""How much of its past log likelihood a model of one key keeps per block."""

POOL_FORGET, POOL_MOST, POOL_SHARE, POOL_FLOOR = 0.995, 50, 0.5, -20.0
"""Log likelihoods pooled over a size class: kept per key, most keys counted per unit, their share
in a key's weights, and the least difference to the best model."""

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
    levels: FloatArray
    variances: FloatArray
    scores: FloatArray
    pooled: FloatArray
    mean: FloatArray
    variance: FloatArray
    drift: FloatArray
    irregular: FloatArray
    pulled: FloatArray
    """Per pull φ, the distance of its models to the long-run level, weighted."""
    residual: FloatArray
    residual_weight: FloatArray

    @classmethod
    def nothing(cls, keys: int) -> KeyModels:
        """No belief yet."""

        def zeros(*rows: int) -> FloatArray:
            return np.zeros((*rows, keys))

        return cls(
            seen=zeros(),
            levels=zeros(MODELS),
            variances=zeros(MODELS),
            scores=zeros(MODELS),
            pooled=np.zeros((CLASSES, MODELS)),
            mean=zeros(),
            variance=zeros(),
            drift=zeros(),
            irregular=zeros(),
            pulled=zeros(len(PULLS)),
            residual=zeros(),
            residual_weight=zeros(),
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
        keys, units, noise = block.keys, block.units, block.noise / np.square(block.factor)
        own = 0.0 if settings.kind == "stock" else 1.0
        measured = block.sums / block.factor
        least = np.sqrt(block.noise / 2) / (4 * settings.longest)
        level = np.maximum(self.mean[keys], least)
        pull = np.power(PULL, block.elapsed)
        before = self.levels[:, keys]
        before = before * pull + (1 - pull) * before[LONG_RUN]
        spread = self.variances[:, keys] * pull * pull + np.square(DRIFT * level) * block.elapsed
        total = spread + noise + own * level / block.factor + np.square(IRREGULAR * level) / units
        error = measured - before
        gain = spread / total
        likelihood = -2.5 * np.log1p(np.square(error) / (4 * total)) - 0.5 * np.log(total)
        scores = FORGET * self.scores[:, keys] + likelihood
        classes = size_classes(self.mean[keys], block.noise)
        self._pool(classes, likelihood)
        weights = self._weights(classes, scores)
        after = before + gain * error
        spread_after = (1 - gain) * spread
        mean = (weights * after).sum(axis=0)
        variance = (weights * (spread_after + np.square(after - mean))).sum(axis=0)
        self.levels[:, keys], self.variances[:, keys] = after, spread_after
        self.scores[:, keys] = scores
        self.mean[keys], self.variance[keys] = np.maximum(mean, 0), variance
        self._pull(keys, weights, after)
        level = np.maximum(mean, least)
        self.drift[keys] = (weights * np.square(DRIFT * level)).sum(axis=0)
        expected = (weights * before).sum(axis=0)
        surprise = measured - expected
        uncertain = (weights * spread).sum(axis=0)
        modelled = (weights * np.square(IRREGULAR * level)).sum(axis=0)
        excess = np.square(surprise) - noise - uncertain
        self.irregular[keys] = np.maximum(modelled, self._measured(settings, block, excess, noise))
        unit = uncertain + self.irregular[keys] + own * self.mean[keys] / block.factor
        there = expected + unit / (unit + noise) * surprise - self.mean[keys]
        return np.where(units == 1, there, 0.0)

    def _pool(self, classes: IntArray, likelihood: FloatArray) -> None:
        """Add the log likelihoods of all keys of a class, as of at most POOL_MOST keys."""
        number = np.bincount(classes, minlength=CLASSES)
        place = classes + CLASSES * np.arange(MODELS)[:, None]
        sums = np.bincount(place.ravel(), exact(likelihood).ravel(), minlength=CLASSES * MODELS)
        scale = np.minimum(number, POOL_MOST) / np.maximum(number, 1)
        added = sums.reshape(MODELS, CLASSES).T * scale[:, None]
        self.pooled = np.power(POOL_FORGET, number)[:, None] * self.pooled + added

    def _weights(self, classes: IntArray, scores: FloatArray) -> FloatArray:
        """The weight of each model for each key."""
        best = self.pooled.max(axis=1, keepdims=True)
        pooled = POOL_SHARE * np.maximum(self.pooled - best, POOL_FLOOR)
        together: FloatArray = scores + pooled.T[:, classes]
        together -= together.max(axis=0)
        np.exp(together, out=together)
        together /= together.sum(axis=0)
        return together

    def _pull(self, keys: IntArray, weights: FloatArray, after: FloatArray) -> None:
        away = weights * (after - after[LONG_RUN])
        for place in range(len(PULLS)):
            self.pulled[place, keys] = away[place == PULL_OF].sum(axis=0)

    def _measured(
        self, settings: FilterSettings, block: Block, excess: FloatArray, noise: FloatArray
    ) -> FloatArray:
        """The irregular variance of a unit that errors show, where it stands out of the noise."""
        keys = block.keys
        self.residual[keys] = IRREGULAR_KEEP * self.residual[keys] + block.units * excess
        weight = IRREGULAR_KEEP * self.residual_weight[keys] + 1
        self.residual_weight[keys] = weight
        error: FloatArray = block.units * noise * np.sqrt(SQUARE_VARIANCE[settings.law] / weight)
        shown: FloatArray = self.residual[keys] / weight - IRREGULAR_ERRORS * error
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

    def of(self, some: BoolArray) -> Block:
        """The sums of some of the keys."""
        return Block(
            self.keys[some],
            self.sums[some],
            self.units[some],
            self.elapsed[some],
            self.factor[some],
            self.noise if isinstance(self.noise, float) else self.noise[some],
        )


def exact(values: FloatArray) -> FloatArray:
    """The values, rounded to parts of 2⁻²⁰: sums over keys are then the same in any order."""
    return np.asarray(np.rint(values * 2.0**20) / 2.0**20)


def size_classes(level: FloatArray, noise: float | FloatArray) -> IntArray:
    """The size class of each key: how many powers of two its level has above 1/1024 noise scales.

    >>> size_classes(np.array([0.0, 1.0, 8.0]), 2.0)
    array([ 1, 11, 14])
    """
    ratio = np.maximum(level, 1e-3) * (1024 / np.sqrt(noise / 2))
    classes: IntArray = np.log2(ratio).astype(np.int64) + 1
    return np.clip(classes, 0, CLASSES - 1)
