"""Several models of how a key's level moves, run side by side and weighted by how they predict."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, TypeAlias, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from penstock.core.arrays import BoolArray, FloatArray, IntArray
from penstock.core.arrays import SmallFloats as Small
from penstock.filters.level_prior import FEWEST_KEYS, LevelPrior
from penstock.filters.observation import FilterSettings

Columns: TypeAlias = IntArray | slice
Number = TypeVar("Number", np.float32, np.float64)

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
RELATIVE = np.square([DRIFT, IRREGULAR]).astype(np.float32)
DRIFT_SQUARED, IRREGULAR_SQUARED = RELATIVE
"""The squares of drift and irregular part, by model."""
PULLED = np.flatnonzero(_MODELS[:, 2] < 1)
LONG_RUN = 0
"""The model with the least drift. Its level is what the others are pulled to."""

PULLS, PULL_OF = np.unique(_MODELS[:, 2], return_inverse=True)
LOG_PULLS = np.log(PULL[PULLED]).astype(np.float32)
"""The logarithms of the pulls below 1."""

LARGEST, SMALL_FACTOR = 2.0**52, 0.5
"""The largest level. A count of 2⁵⁰ over a factor below SMALL_FACTOR may be more."""

AT_ONCE, MODELS_AT_ONCE = 65536, 16384
"""How many keys are corrected at once, and how many with all models: their arrays fit into a
processor's cache."""

FORGET = 0.97
"""How much of its past log likelihood a model of one key keeps per block."""

MAX_POOLED, MANY_KEYS, FEW_KEYS, MAX_WAIT = 4096, 32, 4, 4
"""Of more than MAX_POOLED keys with new sums, the errors of every n-th are learned from. Errors of
fewer than MANY_KEYS wait for those of the next MAX_WAIT units, unless only FEW_KEYS have some."""

POOL_FORGET, POOL_MOST, POOL_SHARE, POOL_FLOOR = 0.995, 50, 0.5, -20.0
"""Log likelihoods pooled over a size class: kept per key, most keys counted per unit, their share
in a key's weights, and the least difference to the best model."""

LEAST_SCORES = np.full(MODELS_AT_ONCE, -30, np.float32)
"""The least difference of a score to the best: smaller weights would be slow, subnormal numbers.
NumPy takes the larger of two arrays much faster than that of an array and one number."""

CLASSES = 32
"""The number of size classes: powers of two of level over noise scale, from 1/1024."""

IRREGULAR_KEEP, IRREGULAR_ERRORS = 0.9, 3.0
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

LEAST_LEVEL = 1e-3
"""Smaller levels are in the class of this one."""

CLASS_OF_EXPONENT = np.clip(np.arange(256) - 126, 0, CLASSES - 1)
"""The class of a number, by the bits of its exponent."""

MOST_INVERSE = 1e9
"""The largest value of one over a factor, which may be almost 0."""

LEAST_NOISE = 1e-6
"""The least variance of noise. With a large ε, there is none in most releases."""

LEVEL_CLASS = 512.0
"""Levels are in one class from a power of two to the next, from 1/1024."""

QUARTER = np.float32(0.25)
LOG_SHARES = np.array([-2.5, 2.0], np.float32)[:, None, None]
"""The share of the logarithms of fitted and expected variance in a log likelihood."""

SEEN, ESTIMATE, ERROR, MEAN, VARIANCE, OUT, DRIFTS, IRREGULARS, RESIDUAL, WEIGHT = range(10)
"""The rows of `KeyModels.rows`."""

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
    :math:`n(e^2-R/F^2-P^-)` less 3 standard errors if that is more. All keys of about the same
    level measure it together, too: the better they do, the less the models count. Blocks of whole
    periods go first, and shorter ones have the last word, because whole periods hide how their
    units differ. Units of one period may move together, so :math:`\sqrt n` stands for n there.

    An estimate that hardly stands out of its error becomes its posterior mean under the
    distribution of levels over all keys. A few keys have no such prior: each is 0 until it stands
    out.
    """

    rows: Small
    """Per key: 1 if it had a sum, else 0; the models' weighted level and its variance, before the
    prior over keys; mean and variance after it; 1 if it has no prior and stands out, else 0; drift
    and irregular variance of a unit; the sum of measured irregular variances, and its weight."""
    models: Small
    """Level, variance and score, per model and key. Four bytes are enough: levels are below 2⁵²,
    their squares below 2¹⁰⁴."""
    pooled: FloatArray
    pulled: Small
    """Of a stock, per pull φ, the distance of its models to the long-run level, weighted."""
    unit_excess: FloatArray
    unit_information: FloatArray
    """Per power of two of levels, the relative irregular variance of a unit times the information
    about it, and that information, from blocks shorter than the shortest period."""
    whole_excess: FloatArray
    whole_information: FloatArray
    """The same from longer blocks, which do not show how units of one period differ."""
    wider: FloatArray
    """Per size class, the logarithm of how much wider variances are than the models say."""
    waiting: list[Surprise]
    """The errors that nothing was learned from yet."""
    look_at: int
    """The unit at which they are learned from at the latest."""
    shares: Small
    unit_variances: Small
    """All that was learned from errors, as a step uses it: the share of the pooled scores in those
    of a key, and irregular variances with how far to trust them."""
    prior: LevelPrior
    learn_at: int
    """The unit at which the prior is learned again."""

    @classmethod
    def nothing(cls, settings: FilterSettings) -> KeyModels:
        """No belief yet."""
        keys = settings.keys
        return cls(
            rows=np.zeros((WEIGHT + 1, keys), np.float32),
            models=np.zeros((3, MODELS, keys), np.float32),
            pooled=np.zeros((MODELS, CLASSES)),
            pulled=np.zeros((len(PULLS) if settings.kind == "stock" else 0, keys), np.float32),
            unit_excess=np.zeros(CLASSES),
            unit_information=np.zeros(CLASSES),
            whole_excess=np.zeros(CLASSES),
            whole_information=np.zeros(CLASSES),
            wider=np.zeros(CLASSES),
            waiting=[],
            look_at=0,
            shares=np.zeros((CLASSES, MODELS), np.float32),
            unit_variances=np.zeros((4, CLASSES), np.float32),
            prior=LevelPrior.nothing(),
            learn_at=0,
        )

    @property
    def seen(self) -> Small:
        """1 for keys that had a sum, else 0."""
        return np.asarray(self.rows[SEEN])

    @property
    def mean(self) -> Small:
        """The level of each key, as it is believed."""
        return np.asarray(self.rows[MEAN])

    @property
    def variance(self) -> Small:
        """The variance of that belief."""
        return np.asarray(self.rows[VARIANCE])

    @property
    def drift(self) -> Small:
        """The drift variance of each key's level per unit."""
        return np.asarray(self.rows[DRIFTS])

    @property
    def irregular(self) -> Small:
        """The irregular variance of a unit of each key."""
        return np.asarray(self.rows[IRREGULARS])

    def begin(self, settings: FilterSettings, block: Block, unit: int) -> None:
        """Believe the first sums of some keys, as far as the prior over keys lets them."""
        keys, measured = block.keys, block.measured
        rows = self.rows[:, keys]
        rows[SEEN] = 1
        rows[ESTIMATE] = measured
        rows[ERROR] = block.level_noise + np.maximum(measured, 0) * block.inverse
        if settings.keys >= FEWEST_KEYS:
            self.prior.learn(rows[ESTIMATE], rows[ERROR], _draws(settings, rows))
            self.learn_at = unit + _rest(settings, 0)
        self._believe(settings, rows, block.level_noise)
        square = np.square(rows[MEAN])
        rows[IRREGULARS] = FIRST_SPREAD * square
        rows[DRIFTS] = FIRST_DRIFT**2 * square
        self.rows[:, keys] = rows
        self.models[0][:, keys] = measured
        self.models[1][:, keys] = rows[ERROR] + FIRST_SPREAD * square

    def step(self, settings: FilterSettings, block: Block, unit: int) -> FloatArray:
        """Take the sums of some keys. Return how far each unit's own count lies from its level.

        The distance is 0 for sums of more than one unit, which say nothing of the last one.
        """
        if settings.keys >= FEWEST_KEYS and unit >= self.learn_at:
            seen = self.rows if self.seen.all() else self.rows[:, self.seen > 0]
            self.prior.learn(seen[ESTIMATE], seen[ERROR], _draws(settings, seen))
            self.learn_at = unit + _rest(settings, unit)
        size, found = len(block.sums), list[Surprise]()
        there, every = np.empty(size), size == settings.keys
        step = -(-size // MAX_POOLED)
        for first in range(0, size, AT_ONCE):
            part, sample = slice(first, first + AT_ONCE), slice(-first % step, None, step)
            some = block if size <= AT_ONCE else block.of(part)
            columns = part if every else some.keys
            rows, models = _some(self.rows, columns), _some(self.models, columns)
            surprise, mixed = self._correct(settings, some, rows, models, sample)
            there[part] = self._spread(settings, some, rows, mixed, surprise)
            found.append(surprise.of(sample))
            if settings.kind == "stock":
                self.pulled[:, columns] = mixed[6:]
            if not every:
                self.rows[:, columns], self.models[:, :, columns] = rows, models
        if not self.waiting:
            self.look_at = unit + (MAX_WAIT if size > FEW_KEYS else 0)
        self.waiting.append(Surprise.joined(found))
        if unit >= self.look_at or sum(map(len, self.waiting)) >= MANY_KEYS:
            self._look_back(settings)
        return there

    def _correct(
        self, settings: FilterSettings, block: Block, rows: Small, models: Small, sample: slice
    ) -> tuple[Surprise, Small]:
        """One step of every model, in place. Return the surprises and the mixture of models."""
        measured, noise, level = block.measured, block.level_noise, _level(settings, block, rows)
        own = level * block.inverse
        if settings.kind == "stock":
            own[:] = 0
        classes, places = _both_classes(rows[MEAN], block.noise)
        square = level * level
        seen = np.empty((4, len(level)), np.float32)
        seen[0] = measured
        np.add(noise, own, out=seen[1])
        np.multiply(square, block.elapsed, out=seen[2])
        np.divide(square, block.units, out=seen[3])
        pull = np.exp(LOG_PULLS * block.elapsed)
        stock = settings.kind == "stock"
        mixed, likelihood = mixed_step(
            models, seen, pull, self.shares, classes, sample, stock=stock
        )
        found = Surprise(
            classes=classes,
            places=places,
            likelihood=likelihood,
            level=level,
            own=own,
            noise=noise,
            expected=mixed[0],
            distance=small(measured - mixed[0]),
            uncertain=mixed[1],
            irregular=rows[IRREGULARS].copy(),
            missed=small(measured - rows[MEAN]) if not stock else small(measured - mixed[0]),
            doubted=mixed[1] if stock else rows[VARIANCE] + rows[DRIFTS] * block.elapsed,
            units=block.units,
            mean=rows[MEAN],
        )
        rows[ESTIMATE : ERROR + 1] = mixed[2:4]
        self._believe(settings, rows)
        return found, mixed

    def _spread(
        self,
        settings: FilterSettings,
        block: Block,
        rows: Small,
        mixed: Small,
        found: Surprise,
    ) -> FloatArray:
        """Drift and irregular variance of a unit, in place. Return the distance of `step`."""
        square = _level(settings, block, rows)
        square *= square
        if self.prior.known:  # half way to what the prior over keys says of the level
            square += np.minimum(np.square(rows[MEAN]) + rows[VARIANCE], square)
            square *= 0.5
        drift, modelled = mixed[4:6]
        np.multiply(square, drift, out=rows[DRIFTS])
        whole, of_whole, relative, trust = self.unit_variances.take(
            found.places, axis=1, mode="clip"
        )
        whole -= modelled
        whole *= of_whole
        whole += modelled
        relative -= whole
        relative *= trust
        relative += whole
        relative *= square
        shown = self._measured(settings, rows, found)
        irregular = np.maximum(relative, shown, out=rows[IRREGULARS])
        unit = irregular + found.uncertain
        if settings.kind == "flow":
            unit += rows[MEAN] * block.inverse
        unit /= unit + found.noise
        there: FloatArray = unit * (block.measured - found.expected)
        there += found.expected - rows[MEAN]
        there *= found.units == 1
        if not self.prior.known:
            there *= rows[OUT]
        return there

    def _believe(
        self, settings: FilterSettings, rows: Small, noise: Small | float | None = None
    ) -> None:
        """The belief about some keys from their estimates, in place.

        `noise` is the variance of an estimate of a key without events. Default: as of any other.
        """
        estimate, error = rows[ESTIMATE], rows[ERROR]
        mean = np.maximum(estimate, 0, out=rows[MEAN])
        rows[VARIANCE] = error
        if not self.prior.known:
            deviation = np.sqrt(error if noise is None else noise)
            stands = estimate > STANDS_OUT / math.sqrt(2) * deviation
            stands |= (rows[OUT] > 0) & (estimate > STAYS_OUT * deviation)
            rows[OUT] = stands
            rows[VARIANCE] += ~stands * mean * (mean + 1)  # the count may well be above 0
            mean *= stands
            return
        draws = _draws(settings, rows)
        if settings.law == "gaussian":
            unsure = (estimate < 0).nonzero()[0]
        else:
            sure = UNSURE / np.sqrt(draws)
            np.maximum(sure, LEAST_UNSURE, out=sure)
            sure *= np.sqrt(error)
            unsure = (estimate < sure).nonzero()[0]
        if len(unsure) == len(estimate):
            rows[MEAN], rows[VARIANCE] = self.prior.posterior(estimate, error, draws)
        elif len(unsure):
            mean[unsure], rows[VARIANCE][unsure] = self.prior.posterior(
                estimate[unsure], error[unsure], draws[unsure]
            )

    def _unit_variances(self) -> Small:
        """By level, the relative irregular variance of a unit, and how far to trust it: from long
        blocks, then from short ones.
        """
        return np.array(
            [
                *_pooled_variances(self.whole_excess, self.whole_information),
                *_pooled_variances(self.unit_excess, self.unit_information),
            ],
            np.float32,
        )

    def _look_back(self, settings: FilterSettings) -> None:
        """Learn from all errors together: the scores of the models, the irregular variance of
        units, and how far variances are too small.
        """
        found, passed = Surprise.joined(self.waiting), len(self.waiting)
        self.waiting = []
        distance, level, own, uncertain, last, missed, doubted, units = np.array(
            [
                found.distance,
                found.level,
                found.own,
                found.uncertain,
                found.irregular,
                found.missed,
                found.doubted,
                found.units,
            ],
            np.float64,
        )
        noise = found.noise if isinstance(found.noise, float) else found.noise.astype(np.float64)
        classes, number = found.classes, len(level)
        squared = distance * distance
        level *= level
        moving = np.exp(self.wider).take(classes)
        last /= units
        moving *= doubted + last
        expected = noise + own + moving
        known = own + uncertain
        excess = np.minimum(squared, MOST_SURPRISE * (noise + known + last)) - noise - known
        doubt = SQUARE_VARIANCE[settings.law] * np.square(noise) + 2 * np.square(known + last)
        short = units <= max(settings.shortest_period - 1, 1)
        apart = np.where(short, np.sqrt(units), units)
        information = np.square(level / apart) / doubt
        shown = information * apart * excess / level
        added = np.empty((MODELS + 6, number))
        places = np.empty(added.shape, np.int64)
        added[:MODELS] = found.likelihood
        added[MODELS] = 1
        added[MODELS + 1] = ((missed * missed > Z_MISS**2 * expected) - MISS) * moving / expected
        added[MODELS + 2 : MODELS + 4] = information * short, shown * short
        added[MODELS + 4 : MODELS + 6] = information * ~short, shown * ~short
        places[:-4] = classes
        places[-4:] = level_classes(found.mean)
        sums = sums_by_class(places, added)
        self._pool(passed, sums[MODELS], sums[:MODELS])
        pushed = WIDEN * passed * sums[MODELS + 1] / np.maximum(sums[MODELS], 5 * passed)
        self.wider = np.minimum(np.maximum(self.wider + pushed, 0), np.log(MOST_WIDE))
        keep = UNIT_KEEP**passed
        self.unit_information = keep * self.unit_information + sums[MODELS + 2]
        self.unit_excess = keep * self.unit_excess + sums[MODELS + 3]
        self.whole_information = keep * self.whole_information + sums[MODELS + 4]
        self.whole_excess = keep * self.whole_excess + sums[MODELS + 5]
        self.shares, self.unit_variances = self._pooled_scores(), self._unit_variances()

    def rescale(self, settings: FilterSettings, ratio: float) -> None:
        """Count levels in other parts."""
        if self.waiting:
            self._look_back(settings)
        rows, (levels, variances, _) = self.rows, self.models
        of_variance = (ERROR, VARIANCE, DRIFTS, IRREGULARS, RESIDUAL)
        for array in (levels, self.pulled, *(rows[row] for row in (ESTIMATE, MEAN))):
            array[:] = np.clip(array * np.float64(ratio), -LARGEST, LARGEST)
        for array in (variances, *(rows[row] for row in of_variance)):
            array[:] = np.clip(array * np.float64(ratio**2), -(LARGEST**2), LARGEST**2)
        self.prior.rescale(ratio)

    def _pool(self, units: int, number: FloatArray, likelihoods: FloatArray) -> None:
        """Add the log likelihoods of all keys of a class, as of at most POOL_MOST keys per unit."""
        scale = np.minimum(number, POOL_MOST * units) / np.maximum(number, 1)
        self.pooled *= np.power(POOL_FORGET, number)
        self.pooled += likelihoods * scale

    def _pooled_scores(self) -> Small:
        """The share of the pooled scores in the scores of a key, by size class and model."""
        best = np.maximum.reduce(self.pooled)
        shares = POOL_SHARE * np.maximum(self.pooled - best, POOL_FLOOR)
        return np.ascontiguousarray(shares.T, np.float32)

    def _measured(self, settings: FilterSettings, rows: Small, found: Surprise) -> Small:
        """The irregular variance of a unit that errors show, less some standard errors."""
        residual, weight = rows[RESIDUAL], rows[WEIGHT]
        excess = found.distance * found.distance
        excess -= found.noise
        excess -= found.uncertain
        excess *= found.units
        residual *= IRREGULAR_KEEP
        residual += excess
        weight *= IRREGULAR_KEEP
        weight += 1
        error = np.sqrt(weight)
        error *= IRREGULAR_ERRORS * math.sqrt(SQUARE_VARIANCE[settings.law])
        error *= found.noise
        error *= found.units
        shown: Small = residual - error
        shown /= weight
        return shown

    def predicted(self, age: Small, part: slice) -> FloatArray:
        """The level of some keys, `age` units after their last sums, pulled to the long run."""
        level: FloatArray = self.models[0, LONG_RUN, part].astype(np.float64)
        for pull, away in zip(PULLS, self.pulled, strict=True):
            level += away[part] * np.power(pull, age[part])
        return level


@dataclass
class Surprise:
    """How far sums lay from what was expected, and what was believed before."""

    classes: IntArray
    places: IntArray
    """The size classes, and the classes of levels."""
    likelihood: Small
    level: Small
    own: Small
    """The variance of a count of mean `level`, as part of the measured level."""
    noise: float | Small
    expected: Small
    distance: Small
    uncertain: Small
    """The variance of the expected level."""
    irregular: Small
    missed: Small
    doubted: Small
    """How far the sum lay from what was reported, and the variance of the reported level."""
    units: Small
    mean: Small
    """What is believed afterwards."""

    def __len__(self) -> int:
        return len(self.level)

    def of(self, sample: slice) -> Surprise:
        """A sample of the keys: copies, made while all is in the processor's cache."""
        if sample.step == 1:
            self.mean = self.mean.copy()
            return self
        found: dict[str, Any] = {
            name: each if isinstance(each, float) else each[..., sample].copy()
            for name, each in vars(self).items()
        }
        found["likelihood"] = self.likelihood  # of the sample already
        return Surprise(**found)

    @classmethod
    def joined(cls, parts: list[Surprise]) -> Surprise:
        """The keys of all parts."""
        if len(parts) == 1:
            return parts[0]
        noises = [np.broadcast_to(np.float32(part.noise), len(part)) for part in parts]
        found: dict[str, Any] = {
            name: np.concatenate([vars(part)[name] for part in parts], axis=-1)
            for name in vars(parts[0])
            if name != "noise"
        }
        return cls(noise=np.concatenate(noises), **found)


@dataclass
class Block:
    """The sums of some keys: over how many units, with what factor, how long after the last."""

    keys: IntArray
    sums: FloatArray
    units: Small
    elapsed: Small
    factor: float | FloatArray
    """The sum of the factors of its units: one number if all keys have the same."""
    noise: float | FloatArray

    @cached_property
    def measured(self) -> FloatArray:
        """The level that each sum shows: at most LARGEST, so that squares fit into four bytes."""
        shown: FloatArray = self.sums / self.factor
        if np.minimum.reduce(self.factor, axis=None) < SMALL_FACTOR:
            np.clip(shown, -LARGEST, LARGEST, out=shown)
        return shown

    @cached_property
    def inverse(self) -> float | Small:
        """One over the factor, at most MOST_INVERSE."""
        inverse = 1 / self.factor
        if isinstance(inverse, float):
            return min(inverse, MOST_INVERSE)
        return small(np.minimum(inverse, MOST_INVERSE))

    @cached_property
    def level_noise(self) -> float | Small:
        """The variance of the noise in the measured level."""
        return small(self.noise * (self.inverse * self.inverse))

    def of(self, some: BoolArray | slice) -> Block:
        """The sums of some of the keys."""
        return Block(
            self.keys[some],
            self.sums[some],
            self.units[some],
            self.elapsed[some],
            self.factor if isinstance(self.factor, float) else self.factor[some],
            self.noise if isinstance(self.noise, float) else self.noise[some],
        )


@overload
def small(values: float) -> float: ...


@overload
def small(values: FloatArray | Small) -> Small: ...


def small(values: float | FloatArray | Small) -> float | Small:
    """The values in four bytes. One number stays as it is: it takes the type of its partner."""
    return values if isinstance(values, float) else values.astype(np.float32, copy=False)


def _pooled_variances(excess: FloatArray, information: FloatArray) -> FloatArray:
    """By level, a relative variance and how far to trust it. All levels together are its prior."""
    prior, known = UNIT_PRIOR**-2, float(information.sum())
    among = max(float(excess.sum()) / max(known, 1e-9), 0.0)
    shared = prior * known / (known + prior)
    weight = information + shared
    relative = (np.maximum(excess, 0) + shared * among) / np.maximum(weight, 1e-9)
    return np.array([relative, weight / (information + prior)])


def _some(values: NDArray[Number], columns: Columns) -> NDArray[Number]:
    """Some columns: a view of a slice, else a copy. `clip` is the fast mode of `take`."""
    if isinstance(columns, slice):
        return values[..., columns]
    return values.take(columns, axis=-1, mode="clip")


def _level(settings: FilterSettings, block: Block, rows: Small) -> Small:
    """The level that drift and irregular part are relative to: what it may well be.

    Doubts beyond the noise of this sum do not count, so they cannot feed themselves.
    """
    per_unit = block.units * block.inverse
    least = small(noise_scale(block.noise) / (4 * settings.longest)) * per_unit
    level: Small = np.minimum(rows[ERROR], block.level_noise)
    np.sqrt(level, out=level)
    np.maximum(level, rows[MEAN], out=level)
    np.maximum(level, least, out=level)
    return level


def _draws(settings: FilterSettings, rows: Small) -> Small:
    """Of about how many draws of noise each estimate is the mean."""
    if settings.law == "gaussian":
        return np.full(rows.shape[1], GAUSSIAN_DRAWS, np.float32)
    return np.asarray(1 + rows[WEIGHT])


def at_least(noise: float | FloatArray) -> float | FloatArray:
    """The variance of noise, if it is not too small to be divided by."""
    return max(noise, LEAST_NOISE) if isinstance(noise, float) else np.maximum(noise, LEAST_NOISE)


def noise_scale(noise: float | FloatArray) -> float | FloatArray:
    """The scale of Laplace noise with this variance."""
    return math.sqrt(noise / 2) if isinstance(noise, float) else np.sqrt(noise / 2)


def mixed_step(
    models: Small,
    seen: Small,
    pull: Small,
    shares: Small,
    classes: IntArray,
    sample: slice,
    *,
    stock: bool,
) -> tuple[Small, Small]:
    """One Kalman step of all models of some keys, in place.

    Parameters
    ----------
    models : array of levels, variances and scores
        By model and key.
    seen : array of four rows
        Per key: the measured level; the variance of its noise and of its count; the squared level,
        times the units since the last sum, and over the units of this one.
    pull : array
        Per model with a pull below 1 and key: that pull to the power of the units since then.
    shares : array
        The share of the pooled scores in those of a key, by size class and model.
    classes : array of int
        The size class of each key.
    sample : slice
        The keys whose log likelihoods are returned, by start and step.
    stock : bool
        Whether to find the distances to the long-run level.

    Returns
    -------
    mixed : array
        Per key, weighted by the models: level and variance before the step, level and variance
        after it, relative drift and irregular variance; and per pull, the distance of its models to
        the long-run level.
    likelihood : array
        The log likelihoods by model and key of the sample.
    """
    keys = len(classes)
    mixed = np.empty((6 + len(PULLS) * stock, keys), np.float32)
    likelihoods, step = list[Small](), sample.step
    room = np.empty((4, MODELS, min(keys, MODELS_AT_ONCE)), np.float32)
    for first in range(0, keys, MODELS_AT_ONCE):
        part = slice(first, first + MODELS_AT_ONCE)
        some, shared = models[..., part], shares.take(classes[part], axis=0, mode="clip")
        free = room[..., : len(shared)]
        _weigh(some, seen[:, part], pull[:, part], shared.T, free)
        likelihoods.append(free[1, :, (sample.start - first) % step :: step].copy())
        _mix(some, free, mixed[:, part])
    likelihood = likelihoods[0] if len(likelihoods) == 1 else np.concatenate(likelihoods, axis=1)
    return mixed, likelihood


def _weigh(models: Small, seen: Small, pull: Small, shares: Small, room: Small) -> None:
    r"""Predict and weigh the models.

    Of the four arrays in `room`, weights, log likelihoods, errors and gains are left. With variance
    S and error e, the Student-t log likelihood with 4 degrees of freedom is
    :math:`-2.5\log(S+e^2/4)+2\log S`, up to a constant.
    """
    levels, spread, scores = models
    measured, base, drifted, apart = seen
    fitted, total, error, gain = room
    for model, power in zip(PULLED, pull, strict=True):
        away = levels[model] - levels[LONG_RUN]
        away *= power
        np.add(levels[LONG_RUN], away, out=levels[model])
        power *= power
        spread[model] *= power
    np.multiply(DRIFT_SQUARED, drifted, out=total)
    spread += total
    np.multiply(IRREGULAR_SQUARED, apart, out=total)
    total += base
    total += spread
    np.subtract(measured, levels, out=error)
    np.multiply(error, error, out=fitted)
    fitted *= QUARTER
    fitted += total
    np.divide(spread, total, out=gain)
    logs = np.log(room[:2], out=room[:2])
    logs *= LOG_SHARES
    total += fitted
    scores *= FORGET
    scores += total
    weights = np.add(scores, shares, out=fitted)
    weights -= np.maximum.reduce(weights)
    np.maximum(weights, LEAST_SCORES[: weights.shape[1]], out=weights)
    np.exp(weights, out=weights)
    weights *= 1 / np.add.reduce(weights)


def _mix(models: Small, room: Small, mixed: Small) -> None:
    """Correct the models by their errors and gains. Mix them before and after that."""
    levels, spread, _ = models
    weights, apart, error, gain = room
    np.einsum("mk,vmk->vk", weights, models[:2], out=mixed[:2])
    error *= gain
    levels += error
    gain *= spread
    spread -= gain
    mean = np.einsum("mk,mk->k", weights, levels, out=mixed[2])
    np.subtract(levels, mean, out=apart)
    apart *= apart
    apart += spread
    np.einsum("mk,mk->k", weights, apart, out=mixed[3])
    np.einsum("vm,mk->vk", RELATIVE[..., 0], weights, out=mixed[4:6])
    if len(mixed) > 6:
        away = levels - levels[LONG_RUN]
        away *= weights
        for place in range(len(PULLS)):
            np.add.reduce(away[place == PULL_OF], out=mixed[6 + place])


def _rest(settings: FilterSettings, unit: int) -> int:
    """How many units a prior is used before it is learned again."""
    return max(settings.shortest_period, LEAST_REST, unit // 20)


def sums_by_class(classes: IntArray, values: FloatArray) -> FloatArray:
    """The sum of each row of values, by class.

    Values are rounded to parts of 2⁻¹⁶, so sums over keys are the same in any order.
    """
    rows = len(values)
    places = classes + CLASSES * np.arange(rows)[:, None]
    parts = values * 2.0**16
    np.rint(parts, out=parts)
    sums = np.bincount(places.ravel(), parts.ravel(), minlength=rows * CLASSES)
    return np.asarray(2.0**-16 * sums.reshape(rows, CLASSES), np.float64)


def size_classes(level: Small | FloatArray, noise: float | FloatArray) -> IntArray:
    """The size class of each key: how many powers of two its level has above 1/1024 noise scales.

    >>> size_classes(np.array([0.0, 1.0, 8.0]), 2.0)
    array([ 1, 11, 14])
    """
    return _classes(level, small(1024 / noise_scale(at_least(noise))))


def level_classes(level: Small) -> IntArray:
    """The power of two of each level, from 1/1024."""
    return _classes(level, LEVEL_CLASS)


def _both_classes(level: Small, noise: float | FloatArray) -> IntArray:
    """The size class and the class of the level of each key."""
    if isinstance(noise, float):
        return _classes(level, _class_scales(noise))
    times = np.full((2, len(level)), LEVEL_CLASS, np.float32)
    times[0] = 1024 / noise_scale(noise)
    return _classes(level, times)


@lru_cache(maxsize=64)
def _class_scales(noise: float) -> Small:
    return np.array([[1024 / noise_scale(noise)], [LEVEL_CLASS]], np.float32)


def _classes(level: Small | FloatArray, times: float | Small) -> IntArray:
    """The binary exponents of positive numbers, from their bits."""
    ratio = times * np.maximum(level, LEAST_LEVEL).astype(np.float32, copy=False)
    return CLASS_OF_EXPONENT.take(ratio.view(np.int32) >> 23)
