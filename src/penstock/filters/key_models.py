"""Several models of how a key's level moves, run side by side and weighted by how they predict."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
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
        (0.03, 0.3, 1.0),
        (0.2, 0.3, 1.0),
        (0.01, 0.0, 1.0),
        (0.08, 0.0, 1.0),
        (0.5, 0.0, 1.0),
        (0.08, 0.0, 0.99),
        (0.02, 0.9, 1.0),
    ]
)
"""Drift ρ per unit, irregular part σ of a unit, pull φ per unit to the long-run level. ρ and σ are
relative to the level. Models with one σ stand together."""

DRIFT, IRREGULAR, PULL = _MODELS.T[:, :, None]
MODELS = len(_MODELS)
RELATIVE = np.square([DRIFT, IRREGULAR]).astype(np.float32)
DRIFT_SQUARED, IRREGULAR_SQUARED = RELATIVE
"""The squares of drift and irregular part, by model."""
_FIRSTS = [0, *(np.flatnonzero(np.diff(_MODELS[:, 1])) + 1).tolist(), MODELS]
SAME_IRREGULAR = [
    (slice(first, last), IRREGULAR_SQUARED[first, 0, ...]) for first, last in pairwise(_FIRSTS)
]
"""The models with one irregular part, and its square."""
PULLED = np.flatnonzero(_MODELS[:, 2] < 1)
LONG_RUN = 0
"""The model with the least drift. Its level is what the others are pulled to."""

PULLS, PULL_OF = np.unique(_MODELS[:, 2], return_inverse=True)
LOG_PULLS = np.log(PULL[PULLED]).astype(np.float32)
"""The logarithms of the pulls below 1."""

LARGEST, SMALL_FACTOR = 2.0**52, 0.5
"""The largest level. A count of 2⁵⁰ over a factor below SMALL_FACTOR may be more."""

AT_ONCE, MODELS_AT_ONCE = 131072, 17000
"""How many keys are corrected at once, and how many with all models: their arrays fit into a
processor's cache."""

FORGET = 0.97
"""How much of its past log likelihood a model of one key keeps per block."""

MAX_POOLED, MANY_KEYS, FEW_KEYS, MAX_WAIT = 2048, 32, 4, 4
"""Of more than MAX_POOLED keys with new sums, the errors of every n-th are learned from. Errors of
fewer than MANY_KEYS wait for those of the next MAX_WAIT units, unless only FEW_KEYS have some."""

POOL_FORGET, POOL_MOST, POOL_SHARE, POOL_FLOOR = 0.995, 50, 0.5, -20.0
"""Log likelihoods pooled over a size class: kept per key, most keys counted per unit, their share
in a key's weights, and the least difference to the best model."""

LEAST_SCORES = np.full(MODELS_AT_ONCE, -30, np.float32)
"""The least difference of a score to the best: smaller weights would be slow, subnormal numbers. An
array, because NumPy takes the larger of two arrays much faster."""

CLASSES = 32
"""The number of size classes: powers of two of level over noise scale, from 1/1024."""

IRREGULAR_KEEP, IRREGULAR_ERRORS = 0.9, 3.0
"""The measured irregular variance: kept per block, and the standard errors it must stand out."""

LEAST_REST = 4
"""A prior over keys is used for this many units at least."""

UNSURE, LEAST_UNSURE = 6.0, 3.0
"""An estimate from n sums is corrected by the prior over keys if it is below UNSURE/√n standard
deviations, or below LEAST_UNSURE. With Gaussian noise in every unit, only if it is below 0."""

MOST_APART = 0.9
"""If a larger share of the keys is unsure, the prior looks at all keys at once, and corrects the
unsure ones."""

GAUSSIAN_DRAWS = 100.0
"""Gaussian noise counts as the mean of so many Laplace draws."""

STANDS_OUT, STAYS_OUT = 7.0, 2.0
"""A key without a prior is 0 until its level is STANDS_OUT noise scales, and again below STAYS_OUT
standard deviations."""

UNIT_KEEP, UNIT_PRIOR = 0.999, 0.3
"""The relative irregular variance of units, measured per level: kept per unit, and the standard
error at which it counts as much as the models'."""

SWING = 0.1
"""A stock may well differ between two phases of a period by this relative variance. A reading of it
has no more weight than this variance leaves, and its error is not cut below the level."""

MOST_SURPRISE = 25.0
"""A squared error counts at most this many times what was expected."""

MOST_WIDE, MISS, Z_MISS = 30.0, 0.1, 1.645
WIDEN = {"flow": 0.3, "stock": 2.5}
"""Variances are widened per size class until MISS of the errors are above Z_MISS standard
deviations: at most how much, and how fast. A stock is read rarely, so each reading counts more."""

FIRST_SPREAD, FIRST_DRIFT = 0.05, 0.03
"""Relative variance and drift that a key begins with."""

LEAST_LEVEL = 1e-3
"""Smaller levels are in the class of this one."""

LEAST_RATIO, LARGEST_RATIO = 0.5, 2.0 ** (CLASSES - 2)
EXPONENT_BITS, LEAST_EXPONENT = 23, 126
"""Ratios in the first and in the last class. The exponent of a number is above so many bits, and
that of numbers in the first class is LEAST_EXPONENT."""

MOST_INVERSE = 1e9
"""The largest value of one over a factor, which may be almost 0."""

LEAST_NOISE = 1e-6
"""The least variance of noise. With a large ε, there is none in most releases."""

LEVEL_CLASS = 512.0
"""Levels are in one class from a power of two to the next, from 1/1024."""

_HALF, _QUARTER, _ONE = (np.array(each, np.float32) for each in (0.5, 0.25, 1))
_FORGET, _KEEP = (np.array(each, np.float32) for each in (FORGET, IRREGULAR_KEEP))
"""NumPy is slower with a number of Python than with an array without axes."""

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

    unseen: int
    """The number of keys that had no sum yet."""
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
    of a key, and irregular variances with the share of the models in the rest."""
    prior: LevelPrior
    learn_at: int
    """The unit at which the prior is learned again."""

    def __post_init__(self) -> None:
        self._widths_of, self._widths = np.zeros(0), np.zeros(0, np.float32)

    @classmethod
    def nothing(cls, settings: FilterSettings) -> KeyModels:
        """No belief yet."""
        keys = settings.keys
        return cls(
            unseen=keys,
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
            shares=np.zeros((MODELS, CLASSES), np.float32),
            unit_variances=np.array([[0.0], [1.0]], np.float32).repeat(CLASSES, axis=1),
            prior=LevelPrior.nothing(),
            learn_at=0,
        )

    @property
    def widths(self) -> Small:
        """Per size class, how much wider variances are than the models say."""
        if self._widths_of is not self.wider:
            self._widths_of, self._widths = self.wider, np.exp(self.wider).astype(np.float32)
        return self._widths

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
        self.unseen -= len(keys)
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
            seen = self.rows[:, self.seen > 0] if self.unseen else self.rows
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
            there[part], surprise, mixed = self._correct(settings, some, rows, models, sample)
            found.append(surprise)
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
    ) -> tuple[FloatArray, Surprise, Small]:
        """One step of every model, in place.

        Return the distances of `step`, the surprises of a sample, and the mixture of models.
        """
        noise, stock, measured = block.level_noise, settings.kind == "stock", block.measured
        least = block.least_level(settings.longest)
        level = _level(rows, noise, least)
        own = np.zeros_like(level) if stock else level * block.inverse
        classes, places = _both_classes(rows[MEAN], block.noise)
        square = level * level
        apart = square if block.single else square / block.units
        seen = small(measured), noise + own, square * block.elapsed, apart
        pull = np.exp(LOG_PULLS * block.elapsed)
        mixed, likelihood = mixed_step(
            models, seen, pull, self.shares, classes, sample, stock=stock
        )
        away = measured - mixed[0]
        distance = small(away)
        before = rows[MEAN : IRREGULARS + 1, sample].copy()
        rows[ESTIMATE : ERROR + 1] = mixed[2:4]
        self._believe(settings, rows)
        found = Surprise.of(
            sample,
            block,
            before,
            likelihood=likelihood,
            classes=classes,
            level=level,
            own=own,
            distance=distance,
            uncertain=mixed[1],
            mean=rows[MEAN],
            stock=stock,
        )
        shown = self._measured(settings, block, rows, distance, mixed[1])
        self._spread(rows, _level(rows, noise, least), places, mixed, shown)
        return self._there(settings, block, rows, mixed, away), found, mixed

    def _spread(
        self, rows: Small, square: Small, places: IntArray, mixed: Small, shown: Small
    ) -> None:
        """Drift and irregular variance of a unit, in place. `square` is the level that they are
        relative to, and `shown` the irregular variance that was measured.
        """
        square *= square
        if self.prior.known:  # half way to what the prior over keys says of the level
            believed = rows[MEAN] * rows[MEAN]
            believed += rows[VARIANCE]
            square += np.minimum(believed, square, out=believed)
            square *= _HALF
        drift, modelled = mixed[4:6]
        np.multiply(square, drift, out=rows[DRIFTS])
        pooled, share = self.unit_variances.take(places, axis=1, mode="clip")
        share *= modelled
        share += pooled
        share *= square
        np.maximum(share, shown, out=rows[IRREGULARS])

    def _there(
        self, settings: FilterSettings, block: Block, rows: Small, mixed: Small, away: FloatArray
    ) -> FloatArray:
        """How far each unit's own count lies from its level, in place of how far it lies from what
        was expected.
        """
        unit = rows[IRREGULARS] + mixed[1]
        if settings.kind == "flow":
            unit += rows[MEAN] * block.inverse
        unit /= unit + block.level_noise
        away *= unit
        away += mixed[0] - rows[MEAN]
        if not block.single:
            away *= block.units == 1
        if not self.prior.known:
            away *= rows[OUT]
        return away

    def _believe(
        self, settings: FilterSettings, rows: Small, noise: Small | float | None = None
    ) -> None:
        """The belief about some keys from their estimates, in place.

        `noise` is the variance of an estimate of a key without events. Default: as of any other.
        """
        estimate, error, mean, variance = rows[ESTIMATE : VARIANCE + 1]
        np.maximum(estimate, 0, out=mean)
        variance[:] = error
        if not self.prior.known:
            deviation = np.sqrt(error if noise is None else noise)
            stands = estimate > STANDS_OUT / math.sqrt(2) * deviation
            stands |= (rows[OUT] > 0) & (estimate > STAYS_OUT * deviation)
            rows[OUT] = stands
            if np.count_nonzero(stands) < len(stands):
                variance += ~stands * mean * (mean + 1)  # the count may well be above 0
                mean *= stands
            return
        draws = _draws(settings, rows)
        if settings.law == "gaussian":
            unsure = estimate < 0
        else:
            sure = UNSURE / np.sqrt(draws)
            np.maximum(sure, LEAST_UNSURE, out=sure)
            sure *= np.sqrt(error)
            unsure = estimate < sure
        number = np.count_nonzero(unsure)
        if number > MOST_APART * len(estimate):  # to set the others apart would take longer
            believed = self.prior.posterior(estimate, error, draws)
            np.copyto(mean, believed[0], where=unsure)
            np.copyto(variance, believed[1], where=unsure)
        elif number:
            some = estimate[unsure], error[unsure], draws[unsure]
            mean[unsure], variance[unsure] = self.prior.posterior(*some)

    def _unit_variances(self) -> Small:
        """By level, the relative irregular variance of a unit that all keys showed, as far as it is
        trusted, and the share of the models in the rest. Long blocks go first, then short ones.
        """
        whole, of_whole = _pooled_variances(self.whole_excess, self.whole_information)
        relative, trust = _pooled_variances(self.unit_excess, self.unit_information)
        pooled = (1 - trust) * of_whole * whole + trust * relative
        return np.array([pooled, (1 - trust) * (1 - of_whole)], np.float32)

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
        if settings.kind == "flow":
            last /= units
        moving *= doubted + last
        expected = noise + own + moving
        known = own + uncertain
        most = MOST_SURPRISE * (noise + known + last)
        if settings.kind == "stock":
            most = np.maximum(most, level)
        excess = np.minimum(squared, most) - noise - known
        if settings.kind == "stock":
            last = np.maximum(last, SWING * level)
        doubt = SQUARE_VARIANCE[settings.law] * np.square(noise) + 2 * np.square(known + last)
        short, apart = _apart(settings, units)
        information = np.square(level / apart) / doubt
        shown = information * apart * excess / level
        added = np.empty((MODELS + 2, number))
        added[:MODELS] = found.likelihood
        added[MODELS] = 1
        added[MODELS + 1] = ((missed * missed > Z_MISS**2 * expected) - MISS) * moving / expected
        sums = sums_by_class(classes, added)
        self._pool(passed, sums[MODELS], sums[:MODELS])
        speed = WIDEN[settings.kind] * passed
        pushed = speed * sums[MODELS + 1] / np.maximum(sums[MODELS], 5 * passed)
        self.wider = np.minimum(np.maximum(self.wider + pushed, 0), np.log(MOST_WIDE))
        learned = np.array([information, shown, information, shown])
        learned[:2] *= short
        learned[2:] *= ~short
        of_units = sums_by_class(level_classes(found.mean), learned)
        keep = UNIT_KEEP**passed
        self.unit_information = keep * self.unit_information + of_units[0]
        self.unit_excess = keep * self.unit_excess + of_units[1]
        self.whole_information = keep * self.whole_information + of_units[2]
        self.whole_excess = keep * self.whole_excess + of_units[3]
        self.shares, self.unit_variances = self._pooled_scores(), self._unit_variances()

    def rescale(self, settings: FilterSettings, ratio: float) -> None:
        """Count levels in other parts."""
        if self.waiting:
            self._look_back(settings)
        rows, (levels, variances, _) = self.rows, self.models
        of_variance = (ERROR, VARIANCE, DRIFTS, IRREGULARS, RESIDUAL)
        ratio = min(ratio, LARGEST)
        for array in (levels, self.pulled, *(rows[row] for row in (ESTIMATE, MEAN))):
            _multiply(array, ratio, LARGEST)
        for array in (variances, *(rows[row] for row in of_variance)):
            _multiply(array, ratio**2, LARGEST**2)
        self.prior.rescale(ratio)

    def _pool(self, units: int, number: FloatArray, likelihoods: FloatArray) -> None:
        """Add the log likelihoods of all keys of a class, as of at most POOL_MOST keys per unit."""
        scale = np.minimum(number, POOL_MOST * units) / np.maximum(number, 1)
        self.pooled *= np.power(POOL_FORGET, number)
        self.pooled += likelihoods * scale

    def _pooled_scores(self) -> Small:
        """The share of the pooled scores in the scores of a key, by model and size class."""
        best = np.maximum.reduce(self.pooled)
        shares = POOL_SHARE * np.maximum(self.pooled - best, POOL_FLOOR)
        return np.asarray(shares, np.float32)

    def _measured(
        self,
        settings: FilterSettings,
        block: Block,
        rows: Small,
        distance: Small,
        uncertain: Small,
    ) -> Small:
        """The irregular variance of a unit that errors show, less some standard errors."""
        residual, weight = rows[RESIDUAL : WEIGHT + 1]
        excess = distance * distance
        excess -= block.level_noise
        excess -= uncertain
        rows[RESIDUAL : WEIGHT + 1] *= _KEEP
        weight += _ONE
        shown = np.sqrt(weight)
        shown *= IRREGULAR_ERRORS * math.sqrt(SQUARE_VARIANCE[settings.law]) * block.level_noise
        if not block.single:
            excess *= block.units
            shown *= block.units
        residual += excess
        np.subtract(residual, shown, out=shown)
        shown /= weight
        return np.asarray(shown)

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
    """The size classes."""
    likelihood: Small
    level: Small
    own: Small
    """The variance of a count of mean `level`, as part of the measured level."""
    noise: float | Small
    distance: Small
    uncertain: Small
    """The variance of the expected level."""
    irregular: Small
    missed: Small
    doubted: Small
    """How far the sum lay from what was reported, and the variance of the reported level."""
    units: Small
    """Of a flow, how many units are in the sum; of a stock, how long ago the last reading was."""
    mean: Small
    """What is believed afterwards."""

    def __len__(self) -> int:
        return len(self.level)

    @classmethod
    def of(
        cls,
        sample: slice,
        block: Block,
        before: Small,
        *,
        likelihood: Small,
        classes: IntArray,
        level: Small,
        own: Small,
        distance: Small,
        uncertain: Small,
        mean: Small,
        stock: bool,
    ) -> Surprise:
        """The surprises of a sample of the keys.

        `before` are rows of `KeyModels` before the step, and the likelihood is of the sample.
        """
        noise, distance, uncertain = block.level_noise, distance[sample], uncertain[sample]
        believed, variance, _, drift, irregular = before
        missed, doubted = distance, uncertain
        if not stock:
            missed = small(block.measured[sample] - believed)
            doubted = variance + drift * _part(block.elapsed, sample)
        return cls(
            classes=classes[sample],
            likelihood=likelihood,
            level=level[sample],
            own=own[sample],
            noise=noise if isinstance(noise, float) else noise[sample],
            distance=distance,
            uncertain=uncertain,
            irregular=irregular,
            missed=missed,
            doubted=doubted,
            units=_ages(block, sample) if stock else block.units[sample],
            mean=mean[sample].copy(),
        )

    @classmethod
    def joined(cls, parts: list[Surprise]) -> Surprise:
        """The keys of all parts."""
        if len(parts) == 1:
            return parts[0]
        noises = [np.full(len(part), part.noise, np.float32) for part in parts]
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
    """How many units ago the last sums ended: one number if all keys have the same."""
    factor: float | FloatArray
    """The sum of the factors of its units: one number if all keys have the same."""
    noise: float | FloatArray
    single: bool
    """Whether all sums are of one unit."""

    @cached_property
    def measured(self) -> FloatArray:
        """The level that each sum shows: at most LARGEST, so that squares fit into four bytes."""
        factor = self.factor
        shown: FloatArray = self.sums / factor
        if (factor if isinstance(factor, float) else factor.min()) < SMALL_FACTOR:
            shown.clip(-LARGEST, LARGEST, out=shown)
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

    def least_level(self, longest: int) -> Small:
        """The least level that drift and irregular part are relative to, by the longest block."""
        scale = small(noise_scale(self.noise) / (4 * longest))
        return np.asarray(self.units * (scale * self.inverse))

    def of(self, some: BoolArray | slice) -> Block:
        """The sums of some of the keys."""
        return Block(
            self.keys[some],
            self.sums[some],
            self.units[some],
            _part(self.elapsed, some),
            self.factor if isinstance(self.factor, float) else self.factor[some],
            self.noise if isinstance(self.noise, float) else self.noise[some],
            self.single,
        )


@overload
def small(values: float) -> float: ...


@overload
def small(values: FloatArray | Small) -> Small: ...


def small(values: float | FloatArray | Small) -> float | Small:
    """The values in four bytes. One number stays as it is: it takes the type of its partner."""
    return values if isinstance(values, float) else values.astype(np.float32, copy=False)


def _multiply(array: Small, ratio: float, most: float) -> None:
    """Multiply in place, so that no absolute value is above `most`."""
    fits = most / ratio
    if ratio > 1 and array.size and max(float(array.max()), -float(array.min())) > fits:
        np.clip(array, -fits, fits, out=array)
    array *= ratio


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


def _part(values: Small, some: BoolArray | slice) -> Small:
    """The values of some keys. One number for all keys stays as it is."""
    return values if len(values) == 1 else values[some]


def _apart(settings: FilterSettings, units: FloatArray) -> tuple[BoolArray, FloatArray]:
    """Which sums show how the units of one period differ, and of how many units that move by
    themselves they are. `units` is what a `Surprise` has.
    """
    period = settings.shortest_period
    if settings.kind == "stock":
        return (units % period > 0) | (period == 1), np.ones(len(units))
    short = units <= max(period - 1, 1)
    return short, np.where(short, np.sqrt(units), units)


def _ages(block: Block, sample: slice) -> Small:
    """How long ago the last sums of some keys ended, per key."""
    return np.broadcast_to(block.elapsed, len(block.sums))[sample].copy()


def _level(rows: Small, noise: float | Small, least: Small) -> Small:
    """The level that drift and irregular part are relative to: what it may well be.

    Doubts beyond the noise of this sum do not count, so they cannot feed themselves.
    """
    level: Small = np.minimum(rows[ERROR], noise)
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
    seen: Sequence[Small],
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
    seen : four arrays
        Per key: the measured level; the variance of its noise and of its count; the squared level,
        times the units since the last sum, and over the units of this one.
    pull : array
        Per model with a pull below 1 and key: that pull to the power of the units since then. One
        number per model if all keys have the same.
    shares : array
        The share of the pooled scores in those of a key, by model and size class.
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
        some, places = models[..., part], classes[part]
        free = room[..., : len(places)]
        powers = pull if pull.shape[1] == 1 else pull[:, part]
        doubts = _weigh(some, [row[part] for row in seen], powers, shares, places, free)
        likelihoods.append(free[1, :, (sample.start - first) % step :: step].copy())
        _mix(some, free, doubts, mixed[:, part])
    likelihood = likelihoods[0] if len(likelihoods) == 1 else np.concatenate(likelihoods, axis=1)
    return mixed, likelihood


def _weigh(
    models: Small,
    seen: Sequence[Small],
    pull: Small,
    shares: Small,
    classes: IntArray,
    room: Small,
) -> list[tuple[slice, Small]]:
    r"""Predict and weigh the models.

    Of the four arrays in `room`, weights, log likelihoods, errors and gains are left. With variance
    S and error e, the Student-t log likelihood with 4 degrees of freedom is
    :math:`-2.5\log(S+e^2/4)+2\log S`, up to a constant. Returned are some models and the variance
    of what they measure, in turn.
    """
    levels, spread, scores = models
    measured, base, drifted, apart = seen
    fitted, total, error, gain = room
    for model, power in zip(PULLED, pull, strict=True):
        away = levels[model] - levels[LONG_RUN]
        away *= power
        np.add(levels[LONG_RUN], away, out=levels[model])
        spread[model] *= power * power
    np.multiply(DRIFT_SQUARED, drifted, out=total)
    spread += total
    doubts = [(some, base + square * apart if square else base) for some, square in SAME_IRREGULAR]
    for some, doubt in doubts:
        np.add(spread[some], doubt, out=total[some])
    np.subtract(measured, levels, out=error)
    np.multiply(error, error, out=fitted)
    fitted *= _QUARTER
    fitted += total
    np.divide(spread, total, out=gain)
    logs = np.log(room[:2], out=room[:2])
    logs *= LOG_SHARES
    total += fitted
    scores *= _FORGET
    scores += total
    pooled = shares.T.take(classes, axis=0, mode="clip")  # rows of all models are copied fast
    weights = np.add(pooled.T, scores, out=fitted)
    weights -= np.maximum.reduce(weights)
    np.maximum(weights, LEAST_SCORES[: weights.shape[1]], out=weights)
    np.exp(weights, out=weights)
    weights *= 1 / np.add.reduce(weights)
    return doubts


def _mix(models: Small, room: Small, doubts: list[tuple[slice, Small]], mixed: Small) -> None:
    """Correct the models by their errors and gains. Mix them before and after that."""
    levels, spread, _ = models
    weights, apart, error, gain = room
    np.einsum("mk,vmk->vk", weights, models[:2], out=mixed[:2])
    np.einsum("vm,mk->vk", RELATIVE[..., 0], weights, out=mixed[4:6])
    error *= gain
    levels += error
    for some, doubt in doubts:
        np.multiply(gain[some], doubt, out=spread[some])
    mean = np.einsum("mk,mk->k", weights, levels, out=mixed[2])
    np.subtract(levels, mean, out=apart)
    apart *= apart
    apart += spread
    np.einsum("mk,mk->k", weights, apart, out=mixed[3])
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
    order = np.argsort(classes.astype(np.uint8), kind="stable")  # a radix sort
    parts = (values * 2.0**16).take(order, axis=1)
    np.rint(parts, out=parts)
    number = np.bincount(classes, minlength=CLASSES)
    here = number.nonzero()[0]
    firsts = (number.cumsum() - number)[here]
    sums = np.zeros((len(values), CLASSES))
    sums[:, here] = np.add.reduceat(parts, firsts, axis=1)
    sums *= 2.0**-16
    return sums


def size_classes(level: Small | FloatArray, noise: float | FloatArray) -> IntArray:
    """The size class of each key: how many powers of two its level has above 1/1024 noise scales.

    >>> size_classes(np.array([0.0, 1.0, 8.0]), 2.0)
    array([ 1, 11, 14])
    """
    noise = at_least(noise)
    if isinstance(noise, float):
        return _classes(level, *(each[0] for each in _class_scales(noise)))
    times = np.asarray(1024 / noise_scale(noise), np.float32)
    return _classes(level, times, _least_ratio(times))


def level_classes(level: Small) -> IntArray:
    """The power of two of each level, from 1/1024."""
    return _classes(level, LEVEL_CLASS, LEAST_LEVEL * LEVEL_CLASS)


def _both_classes(level: Small, noise: float | FloatArray) -> IntArray:
    """The size class and the class of the level of each key."""
    if isinstance(noise, float):
        return _classes(level, *_class_scales(noise))
    times = np.full((2, len(level)), LEVEL_CLASS, np.float32)
    times[0] = 1024 / noise_scale(noise)
    return _classes(level, times, _least_ratio(times))


@lru_cache(maxsize=64)
def _class_scales(noise: float) -> tuple[Small, Small]:
    """By what levels are multiplied for both kinds of classes, and the least of these ratios."""
    times = np.array([[1024 / noise_scale(noise)], [LEVEL_CLASS]], np.float32)
    return times, _least_ratio(times)


def _least_ratio(times: Small) -> Small:
    return np.asarray(np.maximum(LEAST_LEVEL * times, LEAST_RATIO))


def _classes(level: Small | FloatArray, times: float | Small, least: float | Small) -> IntArray:
    """The binary exponents of positive numbers, from their bits."""
    ratio = (times * level).astype(np.float32, copy=False)
    ratio.clip(least, LARGEST_RATIO, out=ratio)
    classes = ratio.view(np.int32)
    classes >>= EXPONENT_BITS
    classes -= LEAST_EXPONENT
    return classes.astype(np.int64)
