"""Several models of how a key's level moves, run side by side and weighted by how they predict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from penstock.core.arrays import BoolArray, FloatArray, IntArray
from penstock.filters.level_prior import FEWEST_KEYS, LevelPrior
from penstock.filters.observation import FilterSettings

Small: TypeAlias = NDArray[np.float32]
Columns: TypeAlias = IntArray | slice

_MODELS = np.array(
    [
        (0.002, 0.3, 1.0),
        (0.01, 0.0, 1.0),
        (0.03, 0.3, 1.0),
        (0.08, 0.0, 1.0),
        (0.2, 0.3, 1.0),
        (0.5, 0.0, 1.0),
        (0.02, 0.9, 1.0),
        (0.08, 0.0, 0.99),
    ]
)
"""Drift ρ per unit, irregular part σ of a unit, pull φ per unit to the long-run level. ρ and σ are
relative to the level."""

DRIFT, IRREGULAR, PULL = _MODELS.T[:, :, None]
MODELS = len(_MODELS)
DRIFT_SQUARED = np.square(DRIFT).astype(np.float32)
IRREGULAR_SQUARED = np.square(IRREGULAR).astype(np.float32)
PULLED = np.flatnonzero(_MODELS[:, 2] < 1)
LONG_RUN = 0
"""The model with the least drift. Its level is what the others are pulled to."""

PULLS, PULL_OF = np.unique(_MODELS[:, 2], return_inverse=True)

LARGEST = 2.0**56
"""The largest level. A count of 2⁵⁰ over a very small factor would be more."""

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

LEAST_REST = 4
"""A prior over keys is used for this many units at least."""

UNSURE, LEAST_UNSURE = 6.0, 3.0
"""An estimate from n sums is corrected by the prior over keys if it is below UNSURE/√n standard
deviations, or below LEAST_UNSURE. With Gaussian noise in every unit, only if it is below 0."""

GAUSSIAN_DRAWS = 100.0
"""Gaussian noise counts as the mean of so many Laplace draws."""

STANDS_OUT, STAYS_OUT = 7.0, 2.0
"""A key without a prior is 0 until its level is STANDS_OUT noise scales, and again below STAYS_OUT
standard deviations."""

UNIT_KEEP, UNIT_PRIOR = 0.999, 0.3
"""The relative irregular variance of units, measured per level: kept per unit, and the standard
error at which it counts as much as the models'."""

MOST_SURPRISE = 25.0
"""A squared error counts at most this many times what was expected."""

WIDEN, MOST_WIDE, MISS, Z_MISS = 0.3, 30.0, 0.1, 1.645
"""Variances are widened per size class until MISS of the errors are above Z_MISS standard
deviations: how fast, and at most how much."""

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
    :math:`n(e^2-R/F^2-P^-)` less 1.5 standard errors if that is more. Blocks of one unit of all
    keys of about the same level measure it too: the better they do, the less the models count.

    An estimate that hardly stands out of its error becomes its posterior mean under the
    distribution of levels over all keys. A few keys have no such prior: each is 0 until it stands
    out.
    """

    seen: FloatArray
    """1 for keys that had a sum, else 0."""
    levels: Small
    variances: Small
    scores: Small
    """Per model and key. Four bytes are enough: counts are below 2⁵⁰, their squares below 2¹⁰⁰."""
    pooled: FloatArray
    estimate: FloatArray
    error: FloatArray
    """Per key, the models' weighted level and its variance, before the prior over keys."""
    mean: FloatArray
    variance: FloatArray
    out: FloatArray
    """1 for keys without a prior that stand out, else 0."""
    drift: FloatArray
    irregular: FloatArray
    pulled: Small
    """Per pull φ, the distance of its models to the long-run level, weighted."""
    residual: FloatArray
    residual_weight: FloatArray
    unit_excess: FloatArray
    unit_information: FloatArray
    """Per power of two of levels, the relative irregular variance of a unit times the information
    about it, and that information."""
    wider: FloatArray
    """Per size class, the logarithm of how much wider variances are than the models say."""
    prior: LevelPrior
    learn_at: int
    """The unit at which the prior is learned again."""

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
            estimate=np.zeros(keys),
            error=np.zeros(keys),
            mean=np.zeros(keys),
            variance=np.zeros(keys),
            out=np.zeros(keys),
            drift=np.zeros(keys),
            irregular=np.zeros(keys),
            pulled=small(len(PULLS)),
            residual=np.zeros(keys),
            residual_weight=np.zeros(keys),
            unit_excess=np.zeros(CLASSES),
            unit_information=np.zeros(CLASSES),
            wider=np.zeros(CLASSES),
            prior=LevelPrior.nothing(),
            learn_at=0,
        )

    def begin(self, settings: FilterSettings, block: Block, unit: int) -> None:
        """Believe the first sums of some keys, as far as the prior over keys lets them."""
        keys, measured = block.keys, block.measured
        self.seen[keys] = 1
        self.estimate[keys] = measured
        error = block.noise / np.square(block.factor) + np.maximum(measured, 0) / block.factor
        self.error[keys] = error
        if settings.keys >= FEWEST_KEYS:
            self.prior.learn(measured, error, self._draws(settings, keys))
            self.learn_at = unit + _rest(settings, 0)
        self._believe(settings, keys)
        square = np.square(self.mean[keys])
        self.levels[:, keys] = measured
        self.variances[:, keys] = error + FIRST_SPREAD * square
        self.irregular[keys] = FIRST_SPREAD * square
        self.drift[keys] = FIRST_DRIFT**2 * square

    def step(self, settings: FilterSettings, block: Block, unit: int) -> FloatArray:
        """Take the sums of some keys. Return how far each unit's own count lies from its level.

        The distance is 0 for sums of more than one unit, which say nothing of the last one.
        """
        if settings.keys >= FEWEST_KEYS and unit >= self.learn_at:
            seen = np.flatnonzero(self.seen)
            draws = self._draws(settings, seen)
            self.prior.learn(self.estimate[seen], self.error[seen], draws)
            self.learn_at = unit + _rest(settings, unit)
        keys = block.keys
        classes = size_classes(self.mean[keys], block.noise)
        pooled, unit_variances = self._pooled_scores(), self._unit_variances(self.mean[keys])
        found = Surprise(
            level=self._level(settings, block),
            irregular=self.irregular[keys],
            distance=np.empty(len(keys)),
            uncertain=np.empty(len(keys)),
        )
        likelihoods, number = np.zeros((MODELS, CLASSES)), np.zeros(CLASSES, np.int64)
        sparse = -(-len(keys) // MAX_POOLED)
        there = np.empty(len(keys))
        every = len(there) == len(self.mean)
        for first in range(0, len(there), AT_ONCE):
            part = slice(first, first + AT_ONCE)
            some = block if len(there) <= AT_ONCE else block.of(part)
            columns = part if every else some.keys
            there[part], likelihood = self._correct(
                settings,
                some,
                columns,
                _some(pooled, classes[part]),
                unit_variances[:, part],
                found.of(part),
            )
            for model, of_keys in zip(likelihoods, exact(likelihood[:, ::sparse]), strict=True):
                model += np.bincount(classes[part][::sparse], of_keys, minlength=CLASSES)
            number += np.bincount(classes[part][::sparse], minlength=CLASSES)
        self._pool(number, likelihoods)
        self._look_back(settings, block, found, classes)
        return there

    def _correct(
        self,
        settings: FilterSettings,
        block: Block,
        columns: Columns,
        pooled: Small,
        unit_variances: FloatArray,
        found: Surprise,
    ) -> tuple[FloatArray, Small]:
        """One Kalman step of every model: the distance of `step`, and the log likelihoods.

        With a slice of columns, the arrays of the models are changed in place.
        """
        keys, noise = columns, block.noise / np.square(block.factor)
        own = 0.0 if settings.kind == "stock" else 1.0
        measured = block.measured
        square = np.square(found.level)
        before, spread = self._predict(block, columns, square)
        total = IRREGULAR_SQUARED * _small(square / block.units)
        total += _small(noise + own * found.level / block.factor)
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
        apart = np.square(before - _small(mean))
        apart += spread
        self.estimate[keys], self.error[keys] = mean, _mixed(weights, apart)
        if settings.kind == "stock":
            self._pull(keys, weights, before)
        self._believe(settings, block.keys)
        square = np.square(self._level(settings, block))
        self.drift[keys] = square * np.einsum("m,mk->k", DRIFT_SQUARED[:, 0], weights)
        modelled = np.einsum("m,mk->k", IRREGULAR_SQUARED[:, 0], weights)
        relative, trust = unit_variances
        modelled = square * (trust * relative + (1 - trust) * modelled)
        surprise = measured - expected
        found.distance[:], found.uncertain[:] = surprise, uncertain
        excess = np.square(surprise) - noise - uncertain
        self.irregular[keys] = np.maximum(
            modelled, self._measured(settings, block.units, keys, excess, noise)
        )
        unit = uncertain + self.irregular[keys] + own * self.mean[keys] / block.factor
        there = expected + unit / (unit + noise) * surprise - self.mean[keys]
        shown = (block.units == 1) & ((self.out[keys] > 0) | self.prior.known)
        return np.where(shown, there, 0.0), likelihood

    def _level(self, settings: FilterSettings, block: Block) -> FloatArray:
        """The level that drift and irregular part are relative to: what it may well be.

        Doubts beyond the noise of this sum do not count, so they cannot feed themselves.
        """
        least = np.sqrt(block.noise / 2) / (4 * settings.longest)
        doubt = np.minimum(self.error[block.keys], block.noise / np.square(block.factor))
        return np.maximum(np.maximum(self.mean[block.keys], least), np.sqrt(doubt))

    def _draws(self, settings: FilterSettings, keys: IntArray) -> FloatArray:
        """Of about how many draws of noise each estimate is the mean."""
        if settings.law == "gaussian":
            return np.full(len(keys), GAUSSIAN_DRAWS)
        return np.asarray(1 + self.residual_weight[keys])

    def _believe(self, settings: FilterSettings, keys: IntArray) -> None:
        """The belief about some keys from their estimates."""
        estimate, error = self.estimate[keys], self.error[keys]
        self.mean[keys], self.variance[keys] = np.maximum(estimate, 0), error
        if self.prior.known:
            draws = self._draws(settings, keys)
            sure = np.maximum(UNSURE / np.sqrt(draws), LEAST_UNSURE)
            if settings.law == "gaussian":
                sure = np.zeros(len(keys))
            unsure = np.flatnonzero(estimate < sure * np.sqrt(error))
            if len(unsure):
                mean, variance = self.prior.posterior(
                    estimate[unsure], error[unsure], draws[unsure]
                )
                self.mean[keys[unsure]], self.variance[keys[unsure]] = mean, variance
            return
        stands = estimate > STANDS_OUT * np.sqrt(error / 2)
        stays = (self.out[keys] > 0) & (estimate > STAYS_OUT * np.sqrt(error))
        self.out[keys] = stands | stays
        self.mean[keys] *= self.out[keys]

    def _unit_variances(self, levels: FloatArray) -> FloatArray:
        """The relative irregular variance of units of these levels, and how far to trust it."""
        relative = np.maximum(self.unit_excess / np.maximum(self.unit_information, 1e-9), 0)
        trust = self.unit_information / (self.unit_information + UNIT_PRIOR**-2)
        return np.stack([relative, trust])[:, _level_classes(levels)]

    def _look_back(
        self, settings: FilterSettings, block: Block, found: Surprise, classes: IntArray
    ) -> None:
        """Learn from all errors together: the irregular variance of units, and how far variances
        are too small."""
        noise = block.noise / np.square(block.factor)
        own = found.level / block.factor if settings.kind == "flow" else np.zeros(len(noise))
        squared = np.square(found.distance)
        moving = np.exp(self.wider)[classes] * (found.uncertain + found.irregular / block.units)
        expected = noise + own + moving
        push = ((squared > Z_MISS**2 * expected) - MISS) * (moving / expected)
        number = np.bincount(classes, minlength=CLASSES)
        pushed = np.bincount(classes, exact(push), minlength=CLASSES) / np.maximum(number, 5)
        self.wider = np.clip(self.wider + WIDEN * pushed, 0, np.log(MOST_WIDE))
        self.unit_excess *= UNIT_KEEP
        self.unit_information *= UNIT_KEEP
        one = np.flatnonzero(block.units == 1)
        if not len(one):
            return
        noise, last = noise[one], found.irregular[one]
        known = (own + found.uncertain)[one]
        level = np.square(found.level[one])
        excess = np.minimum(squared[one], MOST_SURPRISE * (noise + known + last)) - noise - known
        doubt = SQUARE_VARIANCE[settings.law] * np.square(noise) + 2 * np.square(known + last)
        information = np.square(level) / doubt
        places = _level_classes(self.mean[block.keys[one]])
        for total, added in (
            (self.unit_information, information),
            (self.unit_excess, information * excess / level),
        ):
            total += np.bincount(places, exact(added), minlength=CLASSES)

    def rescale(self, ratio: float) -> None:
        """Count levels in other parts."""
        for small in (self.levels, self.pulled):
            small *= np.float32(ratio)
        self.variances *= np.float32(ratio**2)
        for array in (self.estimate, self.mean):
            array *= ratio
        for array in (self.error, self.variance, self.drift, self.irregular, self.residual):
            array *= ratio**2
        self.prior.rescale(ratio)

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
class Surprise:
    """How far sums lay from what was expected, and what was believed before."""

    level: FloatArray
    irregular: FloatArray
    distance: FloatArray
    uncertain: FloatArray
    """The variance of the expected level."""

    def of(self, some: slice) -> Surprise:
        """Views of some keys."""
        return Surprise(
            self.level[some], self.irregular[some], self.distance[some], self.uncertain[some]
        )


@dataclass(frozen=True)
class Block:
    """The sums of some keys: over how many units, with what factor, how long after the last."""

    keys: IntArray
    sums: FloatArray
    units: IntArray
    elapsed: IntArray
    factor: FloatArray
    noise: float | FloatArray

    @property
    def measured(self) -> FloatArray:
        """The level that each sum shows: at most LARGEST, so that squares fit into four bytes."""
        shown: FloatArray = self.sums / self.factor
        return np.minimum(np.maximum(shown, -LARGEST), LARGEST)

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


def _rest(settings: FilterSettings, unit: int) -> int:
    """How many units a prior is used before it is learned again."""
    return max(settings.shortest_period, LEAST_REST, unit // 20)


def _level_classes(level: FloatArray) -> IntArray:
    """The power of two of each level, from 1/512."""
    classes: IntArray = np.log2(np.maximum(level, 1e-3)).astype(np.int64) + 10
    return np.clip(classes, 0, CLASSES - 1)


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
