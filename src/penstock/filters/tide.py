"""`TideFilter`: all parts together, one unit at a time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.core.arrays import BoolArray, FloatArray, IntArray
from penstock.filters.block_lengths import block_lengths
from penstock.filters.common_factor import CommonFactor
from penstock.filters.first_estimate import first_estimate
from penstock.filters.key_models import Block, KeyModels
from penstock.filters.key_seasons import KeySeasons
from penstock.filters.observation import FilterSettings, Observation
from penstock.filters.report import Estimate

VISIBLE = 2.0
"""Keys whose level is above this many standard deviations make the visible total."""

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
    array([1, 2])
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
            lengths=np.full(keys, settings.first_length, np.int64),
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
        factor = self.common.step(self.settings, seen)
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
        used = self.seasons.used(models.mean[keys], noise)
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
            self._begin(block, ~old, plain)
        if old.any():
            block = block if old.all() else block.of(old)
            self.seasons.learn(seen.unit, models, block, plain[old], seasonal[old])
            there[old] = models.step(self.settings, block)
        self.age[keys] = 0
        self.plain[keys] = 0
        self.seasonal[keys] = 0
        return there

    def _begin(self, block: Block, new: BoolArray, plain: FloatArray) -> None:
        """First beliefs about keys that had no sum before."""
        usual = float(np.sort(plain[new]).mean())
        sums = block.sums[new] / plain[new] * usual
        scale = np.sqrt(np.broadcast_to(block.noise, new.shape)[new] / 2)
        mean, variance = first_estimate(sums, scale, self.settings.law)
        self.models.begin(block.keys[new], mean / usual, variance / usual**2)

    def _next_lengths(self, seen: Observation, keys: IntArray) -> None:
        settings, models = self.settings, self.models
        if settings.kind == "stock" or not settings.chooses_lengths:
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

    def _visible(self) -> float:
        """The sum of the levels that stand out of their noise, the same in any order of keys."""
        models = self.models
        return float(np.sort(models.mean[models.mean > VISIBLE * np.sqrt(models.variance)]).sum())

    def _estimate(
        self, seen: Observation, factor: float, season: FloatArray | float, irregular: FloatArray
    ) -> Estimate:
        r"""The counts of this unit: :math:`\mu=\theta fS`, and the irregular part where it is seen.

        The variance of a count is :math:`f^2S^2(P+q(a+m/2)+s^2)+\mu`, a units after the end of the
        last block, with m units in the present one. A block of one unit shows its own part of
        :math:`s^2+\theta`, so that only :math:`(s^2+\theta)R/(s^2+\theta+R)` of it remains.
        """
        models = self.models
        used = self.seasons.used(models.mean, seen.noise)
        times = factor * np.where(used, season, 1.0)
        level = models.predicted(self.age) if self.settings.kind == "stock" else models.mean
        mean = np.maximum((level + irregular) * times, 0)
        own = models.irregular + models.mean
        shown = own * seen.noise / (own + seen.noise)
        now = seen.fresh & (seen.units == 1)
        moved = models.variance + models.drift * (self.age + self.lengths / 2)
        square = np.square(times)
        apart = np.where(now, shown * square, models.irregular * square + mean)
        variance = np.where(models.seen > 0, moved * square + apart, np.inf)
        share = self.common.mean / self.settings.keys  # all that is known before the first sum
        mean = np.where(models.seen > 0, mean, share)
        noise = seen.total_noise if seen.total is not None else np.inf
        total = self.common.total(factor, noise) if np.isfinite(noise) else None
        return Estimate(mean, models.variance * square * models.seen, variance, total)
