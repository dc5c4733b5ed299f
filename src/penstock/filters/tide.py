"""`TideFilter`: all parts together, one unit at a time."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from penstock.core.arrays import FloatArray, IntArray
from penstock.filters.block_lengths import block_lengths
from penstock.filters.common_factor import CommonFactor
from penstock.filters.key_models import Block, KeyModels, size_classes
from penstock.filters.key_seasons import KeySeasons
from penstock.filters.level_prior import FEWEST_KEYS
from penstock.filters.observation import FilterSettings, Observation
from penstock.filters.report import Estimate

VISIBLE = 2.0
"""Keys whose level is above this many standard deviations make the visible total."""

BREAK_UP, FIRST_NOISE = 0.25, 4.0
"""The first blocks are broken up if the mean count is above BREAK_UP noise scales. Without a front,
they are so long that their noise is FIRST_NOISE times the mean key's sum."""

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
    age: IntArray
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
            models=KeyModels.nothing(keys),
            seasons=KeySeasons.nothing(settings),
            lengths=np.full(keys, _length_before(settings), np.int64),
            age=np.zeros(keys, np.int64),
            plain=np.zeros(keys),
            seasonal=np.zeros(keys),
        )

    @property
    def days(self) -> int:
        """Over how many days totals are added up per phase; 0 if they are released by unit."""
        return self.common.days

    def step(self, seen: Observation) -> Estimate:
        """Take what was released for one unit. Return what is believed of its counts."""
        factor = self._factor(seen)
        season = self.seasons.now(seen.unit)
        self.age += 1
        self.plain += factor
        self.seasonal += factor * season
        keys = np.flatnonzero(seen.fresh)
        irregular = np.zeros(self.settings.keys)
        if len(keys):
            irregular[keys] = self._take(seen, keys, factor, factor * season)
        self._next_lengths(seen, keys)
        self.common.decide(self.settings, seen.unit, self._visible)
        return self._estimate(seen, factor, season, irregular)

    def _factor(self, seen: Observation) -> float:
        """The common factor of this unit. All levels are counted anew if the mean total moves."""
        factor = self.common.step(self.settings, seen)
        ratio = self.common.rescaled(self.settings, seen) if self.models.seen.any() else 1.0
        if ratio != 1:
            self.models.rescale(ratio)
            self.plain /= ratio
            self.seasonal /= ratio
        return factor / ratio

    def _take(
        self, seen: Observation, keys: IntArray, factor: float, now: FloatArray | float
    ) -> FloatArray:
        """Correct everything by the sums of these keys."""
        models, units = self.models, seen.units[keys]
        single = units == 1
        plain = np.where(single, factor, self.plain[keys])
        seasonal = np.where(single, np.broadcast_to(now, self.age.shape)[keys], self.seasonal[keys])
        old = models.seen[keys] > 0
        noise = seen.noise if isinstance(seen.noise, float) else seen.noise[keys]
        used = self.seasons.used(size_classes(models.mean[keys], noise))
        block = Block(
            keys=keys,
            sums=seen.sums[keys],
            units=units,
            elapsed=self.age[keys],
            factor=np.where(used, seasonal, plain),
            noise=noise,
        )
        there = np.zeros(len(keys))
        if not old.all():
            models.begin(self.settings, replace(block, factor=plain).of(~old), seen.unit)
        if old.any():
            block = block if old.all() else block.of(old)
            self.seasons.learn(seen.unit, models, block, plain[old], seasonal[old])
            there[old] = models.step(self.settings, block, seen.unit)
        self.age[keys] = 0
        self.plain[keys] = 0
        self.seasonal[keys] = 0
        return there

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
        best = block_lengths(
            models.drift[keys],
            models.irregular[keys],
            np.maximum(models.mean[keys], 1e-3),
            seen.next_noise,
            settings.longest,
        )
        if seen.unit > settings.first_length or settings.first_length == 1:
            best = np.minimum(best, GROWTH * self.lengths[keys])
        self.lengths[keys] = best

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
        return float(np.sort(models.mean[models.mean > VISIBLE * np.sqrt(models.variance)]).sum())

    def _estimate(
        self, seen: Observation, factor: float, season: FloatArray | float, there: FloatArray
    ) -> Estimate:
        r"""The counts of this unit: :math:`\mu=\theta fS`, and the irregular part where it is seen.

        The variance of a count is :math:`f^2S^2(P+q(a+m/2)+s^2)+\mu`, a units after the end of the
        last block, with m units in the present one. A block of one unit shows its own part of
        :math:`s^2+\theta`, so that only :math:`(s^2+\theta)R/(s^2+\theta+R)` of it remains.
        """
        models = self.models
        classes = size_classes(models.mean, seen.noise)
        used = self.seasons.used(classes)
        times = factor * np.where(used, season, 1.0)
        level = models.predicted(self.age) if self.settings.kind == "stock" else models.mean
        mean = np.maximum((level + there) * times, 0)
        wider = np.exp(models.wider)[classes]
        irregular = wider * models.irregular
        own = irregular + models.mean
        shown = own * seen.noise / (own + seen.noise)
        now = seen.fresh & (seen.units == 1)
        moved = wider * (models.variance + models.drift * (self.age + self.lengths / 2))
        square = np.square(times)
        counted = mean if self.settings.kind == "flow" else 0.0
        apart = np.where(now, shown * square, irregular * square + counted)
        variance = np.where(models.seen > 0, moved * square + apart, np.inf)
        share = self.common.mean / self.settings.keys  # all that is known before the first sum
        mean = np.where(models.seen > 0, mean, share)
        noise = seen.total_noise if seen.total is not None else np.inf
        total = self.common.total(factor, noise) if np.isfinite(noise) else None
        return Estimate(mean, models.variance * square * models.seen, variance, total)


def _length_before(settings: FilterSettings) -> int:
    """The length of first blocks before the first total is known."""
    waits = settings.total_noise is not None and settings.chooses_lengths
    waits = waits and settings.first_length == 1 and settings.kind == "flow"
    return settings.longest if waits else settings.first_length
