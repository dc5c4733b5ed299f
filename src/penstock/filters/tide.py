"""`TideFilter`: all parts together, one unit at a time."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from penstock.core.arrays import BoolArray, FloatArray, IntArray, SmallFloats
from penstock.filters.block_lengths import block_lengths
from penstock.filters.common_factor import CommonFactor
from penstock.filters.key_models import (
    AT_ONCE,
    DRIFTS,
    ERROR,
    ESTIMATE,
    IRREGULARS,
    LEAST_LEVEL,
    MEAN,
    SEEN,
    VARIANCE,
    Block,
    KeyModels,
    at_least,
    size_classes,
    small,
)
from penstock.filters.key_seasons import MAX_SHARE, KeySeasons
from penstock.filters.level_prior import FEWEST_KEYS
from penstock.filters.observation import FilterSettings, Observation
from penstock.filters.report import SMALL, Estimate

VISIBLE = 2.0
"""Keys whose level is above this many standard deviations make the visible total."""

BREAK_UP, FIRST_NOISE = 0.25, 4.0
"""The first blocks are broken up if the mean count is above BREAK_UP noise scales. Without a front,
they are so long that their noise is FIRST_NOISE times the mean key's sum."""

OWN_SEASON = 0.5
"""A key's own season varies by this share of the common season's variance. It is part of the error
where blocks of whole periods hide it."""

ALONE = 2.5
"""The relative variance of units around the long-run level where neither totals nor other keys tell
anything: seasons and bursts. The longer a block is against the period, the more of it is hidden."""

PRIOR_SHARE = 0.5
"""How far a stock's forecast follows the prior over keys, which knows nothing of its movements."""

NOTHING = np.zeros(AT_ONCE)
"""NumPy takes the larger of two arrays much faster than that of an array and one number."""

ONE = np.ones(1, np.float32)
HALF = np.array(0.5, np.float32)
"""NumPy is slower with a number of Python than with an array without axes."""

GROWTH = 2
"""A block has at most GROWTH times as many units as the last one of its key."""


@dataclass
class TideFilter:
    """Follow the count of every key from noisy sums over blocks of units.

    The state is plain arrays, and `step` changes them in place. Equal observations give equal
    estimates and equal lengths.

    >>> settings = FilterSettings(keys=2, longest=8)
    >>> tide = TideFilter.nothing(settings)
    >>> every, one = np.ones(2, np.bool_), np.ones(2, np.int64)
    >>> seen = Observation(1, every, np.array([90.0, 0.0]), one, noise=2.0, next_noise=2.0)
    >>> (tide.step(seen).mean > 10).tolist()
    [True, False]
    >>> tide.lengths
    array([1, 1])
    """

    settings: FilterSettings
    common: CommonFactor
    models: KeyModels
    seasons: KeySeasons
    lengths: IntArray
    """How many units each key's present block shall have."""
    age: SmallFloats
    """How many units ago each key's last sum ended."""
    plain: FloatArray
    """The sum of common factors since then."""
    seasonal: FloatArray
    """The same, times each key's own season."""

    @classmethod
    def nothing(cls, settings: FilterSettings) -> TideFilter:
        """The filter before the first unit."""
        keys = settings.keys
        return cls(
            settings=settings,
            common=CommonFactor.nothing(settings),
            models=KeyModels.nothing(settings),
            seasons=KeySeasons.nothing(settings),
            lengths=np.full(keys, _length_before(settings), np.int64),
            age=np.zeros(keys, np.float32),
            plain=np.zeros(keys),
            seasonal=np.zeros(keys),
        )

    def __post_init__(self) -> None:
        self._all_ended = False  # whether a sum of every key has ended with the last unit

    @property
    def days(self) -> int:
        """Over how many days totals are added up per phase; 0 if they are released by unit."""
        return self.common.days

    def step(self, seen: Observation) -> Estimate:
        """Take what was released for one unit. Return what is believed of its counts."""
        number, factor = self.settings.keys, self._factor(seen)
        season = self.seasons.now(seen.unit)
        every, alone = np.count_nonzero(seen.fresh) == number, seen.units == 1
        shown = every and np.count_nonzero(alone) == number
        keys = _all_keys(number) if every else seen.fresh.nonzero()[0]
        if shown and self._all_ended:  # ages and sums of factors begin and end with 0
            there = self._take(seen, keys, factor, season, alone, ONE)
        else:
            self.age += 1
            self.plain += factor
            if self.seasons.factors:
                self.seasonal += factor * season
            there = self._ended(seen, keys, factor, season, alone)
        self._all_ended = every
        self._next_lengths(seen, keys)
        self.common.decide(self.settings, seen.unit, self._visible)
        return self._estimate(seen, factor, season, there, shown=shown)

    def _factor(self, seen: Observation) -> float:
        """The common factor of this unit. All levels are counted anew if the mean total moves."""
        begun = self.models.unseen < self.settings.keys
        factor = self.common.step(self.settings, seen, first=not begun)
        ratio = self.common.rescaled(self.settings, seen) if begun else 1.0
        if ratio != 1:
            self.models.rescale(self.settings, ratio)
            self.plain /= ratio
            self.seasonal /= ratio
        return factor / ratio

    def _ended(
        self,
        seen: Observation,
        keys: IntArray,
        factor: float,
        season: FloatArray | float,
        alone: BoolArray,
    ) -> FloatArray:
        """Correct everything by the sums of these keys, and count their units anew.

        Return how far the counts of all keys lie from their levels.
        """
        there = np.zeros(self.settings.keys)
        if len(keys):
            some = slice(None) if len(keys) == len(there) else keys
            there[some] = self._take(seen, keys, factor, season, alone[some], self.age[some])
            self.age[some] = 0
            self.plain[some] = 0
            if self.seasons.factors:
                self.seasonal[some] = 0
        return there

    def _take(
        self,
        seen: Observation,
        keys: IntArray,
        factor: float,
        season: FloatArray | float,
        alone: BoolArray,
        elapsed: SmallFloats,
    ) -> FloatArray:
        """Correct everything by the sums of these keys. Return how far counts lie from levels.

        `alone` are the sums of one unit, and `elapsed` is how many units ago the last ones ended.
        """
        some = slice(None) if len(keys) == self.settings.keys else keys
        units = seen.units[some].astype(np.float32)
        single = np.count_nonzero(alone) == len(keys)
        plain, seasonal, used = self._factors(seen, some, None if single else alone, factor, season)
        block = Block(
            keys=keys,
            sums=seen.sums[some],
            units=units,
            elapsed=elapsed,
            factor=used,
            noise=at_least(seen.noise if isinstance(seen.noise, float) else seen.noise[some]),
            single=single,
        )
        if not self.models.unseen:
            return self._correct(seen, block, plain, seasonal)
        old = self.models.seen[some] > 0
        found = np.zeros(len(keys))
        if not old.all():
            first = replace(block, factor=plain).of(~old)
            self.models.begin(self.settings, first, seen.unit)
        if old.any():
            plain, seasonal = (np.broadcast_to(each, old.shape)[old] for each in (plain, seasonal))
            found[old] = self._correct(seen, block.of(old), plain, seasonal)
        return found

    def _factors(
        self,
        seen: Observation,
        some: IntArray | slice,
        alone: BoolArray | None,
        factor: float,
        season: FloatArray | float,
    ) -> tuple[FloatArray | float, FloatArray | float, FloatArray | float]:
        """The sums of factors over some blocks: without seasons, with them, and which is used.

        `alone` are the blocks of one unit; none if all are.
        """
        plain = factor if alone is None else np.where(alone, factor, self.plain[some])
        if isinstance(season, float):
            return plain, plain, plain
        seasonal: FloatArray = factor * season[some]
        if alone is not None:
            seasonal = np.where(alone, seasonal, self.seasonal[some])
        noise = seen.noise if isinstance(seen.noise, float) else seen.noise[some]
        used = self.seasons.used(size_classes(self.models.mean[some], noise))
        return plain, seasonal, np.where(used, seasonal, plain)

    def _correct(
        self,
        seen: Observation,
        block: Block,
        plain: FloatArray | float,
        seasonal: FloatArray | float,
    ) -> FloatArray:
        """Correct seasons and models by the sums of keys that had some before."""
        self.seasons.learn(seen.unit, self.models, block, plain, seasonal)
        return self.models.step(self.settings, block, seen.unit)

    def _next_lengths(self, seen: Observation, keys: IntArray) -> None:
        settings, models = self.settings, self.models
        if settings.kind == "stock" or not settings.chooses_lengths:
            return
        if seen.unit < settings.first_length:
            self._break_up(seen)
            return
        if seen.unit == 1 and seen.total is not None:
            self.lengths[models.seen == 0] = self._first_length(seen)
        if not len(keys):
            return
        some = slice(None) if len(keys) == settings.keys else keys
        level = np.maximum(models.mean[some], LEAST_LEVEL)
        best = block_lengths(
            models.drift[some], models.irregular[some], level, seen.next_noise, settings.longest
        )
        if seen.unit > settings.first_length or settings.first_length == 1:
            np.minimum(best, GROWTH * self.lengths[some], out=best)
        self.lengths[some] = best

    def _break_up(self, seen: Observation) -> None:
        """Break up the first blocks: a block of one unit shows how irregular units are.

        This costs some noise, so it is done only if the mean count is not far below the noise.
        """
        settings = self.settings
        if seen.unit == 1 and settings.keys >= FEWEST_KEYS and settings.first_length > 3:
            if self.common.mean / settings.keys > BREAK_UP * np.sqrt(np.max(seen.noise) / 2):
                self.lengths[:] = 2
        elif seen.unit == 2 and self.models.seen.any():
            self.lengths[:] = 1
        elif seen.unit == 3:
            self.lengths[:] = settings.first_length

    def _first_length(self, seen: Observation) -> int:
        """The length of first blocks: the sum of a key of mean size is a quarter of its noise."""
        mean = max(self.common.mean / self.settings.keys, 1e-9)
        wanted = np.ceil(np.sqrt(np.max(seen.noise) / 2) / (FIRST_NOISE * mean))
        return int(min(max(wanted, 1), self.settings.longest))

    def _visible(self) -> float:
        """The sum of the levels that stand out of their noise, the same in any order of keys."""
        models = self.models
        visible = models.mean[models.mean > VISIBLE * np.sqrt(models.variance)]
        return float(np.sort(visible).sum(dtype=np.float64))

    def _estimate(
        self,
        seen: Observation,
        factor: float,
        season: FloatArray | float,
        there: FloatArray,
        *,
        shown: bool,
    ) -> Estimate:
        r"""The counts of this unit: :math:`\mu=\theta fS`, and the irregular part where it is seen.

        The variance of a count is :math:`f^2S^2(P+q(a+m/2))+V` with :math:`V=fS(s^2+\theta)`,
        a units after the end of the last block, with m units in the present one. A block of one
        unit shows its own part of V, so that only :math:`VR/(V+R)` of it remains. `shown` says that
        all keys have such a block.
        """
        keys = self.settings.keys
        mean, found = there, np.empty((2, keys), np.float32)
        wider, hidden = self.models.widths, self._hidden_season()
        for first in range(0, keys, AT_ONCE):
            part = slice(first, first + AT_ONCE)
            of_part = season if isinstance(season, float) else season[part]
            now = None if shown else (seen.units[part] == 1) & seen.fresh[part]
            self._estimate_part(
                seen, part, now, wider, hidden, factor, of_part, mean[part], found[:, part]
            )
        total = None
        if seen.total is not None and math.isfinite(seen.total_noise):
            total = self.common.total(factor, seen.total_noise)
        return Estimate(mean, found[0], found[1], total)

    def _hidden_season(self) -> float:
        """The relative variance of a key's own season, where no sum has shown it."""
        settings = self.settings
        if settings.total_noise is None or not 1 < settings.shortest_period <= settings.longest:
            return 0.0
        return OWN_SEASON * self.common.season()

    def _hidden_alone(self, part: slice) -> SmallFloats | None:
        """The variance of units that blocks hide, of keys without totals and prior."""
        settings, models = self.settings, self.models
        if settings.total_noise is not None or models.prior.known or not settings.chooses_lengths:
            return None
        lengths = self.lengths[part]
        share = np.minimum(lengths * (MAX_SHARE / settings.shortest_period), 1) * (lengths > 1)
        level = np.maximum(models.rows[ESTIMATE, part], 0)
        hidden: SmallFloats = small(ALONE * share) * level * level
        return hidden

    def _estimate_part(
        self,
        seen: Observation,
        part: slice,
        now: BoolArray | None,
        wider: SmallFloats,
        hidden: float,
        factor: float,
        season: FloatArray | float,
        mean: FloatArray,
        found: SmallFloats,
    ) -> None:
        """Fill in mean, variance of the level, and variance of the counts of some keys.

        In `mean` is how far each count lies from its level. `now` are the keys with a sum of this
        unit alone; none if all have one.
        """
        rows, flow = self.models.rows[:, part], self.settings.kind == "flow"
        level_variance, variance = found
        of_key = at_least(seen.noise if isinstance(seen.noise, float) else seen.noise[part])
        classes, noise = size_classes(rows[MEAN], of_key), small(of_key)
        times: SmallFloats | float = factor
        if not isinstance(season, float):
            used = self.seasons.used(classes)
            times = np.where(used, factor * season, factor).astype(np.float32)
        mean += rows[MEAN] if flow else self.models.predicted(self.age, part)
        if not flow and self.models.prior.known:
            mean += PRIOR_SHARE * (rows[MEAN] - rows[ESTIMATE])
        mean *= times
        np.maximum(mean, NOTHING[: len(mean)], out=mean)
        widen = wider.take(classes)
        irregular = widen * rows[IRREGULARS]
        if hidden:
            whole = self.lengths[part] >= self.settings.shortest_period
            whole &= ~self.seasons.used(classes)
            irregular += whole * np.float32(hidden) * np.square(rows[MEAN])
        alone = self._hidden_alone(part) if flow else None
        if alone is not None:
            irregular += alone
        variance[:] = self.lengths[part]
        variance *= HALF
        if now is not None:  # else all sums have just ended
            variance += self.age[part]
        variance *= rows[DRIFTS]
        variance += rows[VARIANCE if flow else ERROR]
        variance *= widen
        square = times * times
        variance *= square
        if flow:
            irregular += rows[MEAN]
        irregular *= times
        remains = noise / (irregular + noise)  # a product of both might be too large a number
        irregular *= remains if now is None else np.where(now, remains, 1)
        variance += irregular
        np.multiply(rows[VARIANCE], square, out=level_variance)
        if alone is not None:
            level_variance += alone * square * (mean < SMALL)
        if self.models.unseen:
            unknown = rows[SEEN] == 0
            mean[unknown] = self.common.visible / self.settings.keys  # all that is known so far
            level_variance[unknown] = 0
            variance[unknown] = np.inf


@lru_cache(maxsize=8)
def _all_keys(number: int) -> IntArray:
    """The places of all keys, never changed."""
    return np.arange(number)


def _length_before(settings: FilterSettings) -> int:
    """The length of first blocks before the first total is known."""
    waits = settings.total_noise is not None and settings.chooses_lengths
    waits = waits and settings.first_length == 1 and settings.kind == "flow"
    return settings.longest if waits else settings.first_length
