"""The movement that all keys share, from noisy totals: by unit, or by phase if they are small."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from penstock.core.arrays import FloatArray
from penstock.filters.observation import FilterSettings, Observation
from penstock.filters.smoothing_bank import LEAST_NOISE, LEAST_VARIANCE, SmoothingBank

WANTED_NOISE = 0.15
"""Totals are added up over as many days as bring their noise scale to this share of them."""

MAX_DAYS, BANK_DAYS = 60, 2
"""The most days of a sum per phase; up to BANK_DAYS, totals are read by unit instead."""

FACTOR_RANGE = (0.02, 1000.0)
LEAST_PHASE_FACTOR = 0.05
PHASE_VARIANCE, PHASE_DRIFT = 0.25, 0.0004
"""The prior variance of a phase's factor, and what it gains per day."""

FACTOR_VARIANCE = 1.0
"""The prior variance of a unit's factor."""

LEARNING_PERIODS = 5
"""The mean total is learned over this many of the longest periods."""

FIRST_RESCALE, RESCALE, SURE, LEAST_VISIBLE = 1.05, 1.5, 4.0, 0.3
"""The mean total follows the slow mean of totals once they differ by the factor RESCALE and by SURE
noise scales of the slow mean; by FIRST_RESCALE alone while it is learned. Both must be above
LEAST_VISIBLE noise scales of a total: below, levels are noise and are not counted anew."""

LEAST_LEARNING = 4
LEAST_MEAN = 0.02
"""The mean total is at least this share of one total's noise scale."""


@dataclass
class CommonFactor:
    r"""The factor :math:`f_t` by which all counts of unit t differ from their long-run level.

    By unit: a `SmoothingBank` estimates the total of each unit, and f is that estimate over the
    mean total, nearer to 1 where the estimate is uncertain. By phase (`days` > 0): if one unit's
    total is not visible, :math:`s > 0.15\,\cdot` total for noise scale s in more than two of them,
    totals are added up per phase of the shortest period over `days` days, and a scalar Kalman
    filter per phase follows their ratio to the mean total. Without a season f is 1 then.
    """

    bank: SmoothingBank
    days: int
    mean: float
    slow: float
    """The mean of recent totals, over about two of the longest periods."""
    learned: int
    factors: FloatArray
    variances: FloatArray
    sums: FloatArray
    counts: FloatArray
    noises: FloatArray
    """Per phase, the sum of all totals read by unit, their number, and their noise variance."""

    @classmethod
    def nothing(cls, settings: FilterSettings) -> CommonFactor:
        """No factor yet: 1 in every unit."""
        phases = settings.shortest_period
        return cls(
            bank=SmoothingBank.nothing(_seasonal(settings), settings.total_noise or 0.0),
            days=0,
            mean=0.0,
            slow=0.0,
            learned=0,
            factors=np.ones(phases),
            variances=np.full(phases, PHASE_VARIANCE),
            sums=np.zeros(phases),
            counts=np.zeros(phases),
            noises=np.zeros(phases),
        )

    def step(self, settings: FilterSettings, seen: Observation, *, first: bool) -> float:
        """The factor of this unit. `first` says that no level was counted in its parts yet."""
        if settings.total_noise is None:
            return 1.0
        phase = (seen.unit - 1) % len(self.factors)
        if not self.days and seen.total is None:
            return self._forecast(settings, seen) if self.bank.seen else 1.0
        if not self.days:
            return self._by_unit(settings, seen, phase, first=first)
        if seen.total is not None:
            self._by_phase(seen, phase)
        return max(float(self.factors[phase]), LEAST_PHASE_FACTOR)

    def _by_unit(
        self, settings: FilterSettings, seen: Observation, phase: int, *, first: bool
    ) -> float:
        assert seen.total is not None
        estimate = self.bank.step(seen.unit - 1, seen.total, seen.total_noise)
        self.sums[phase] += seen.total
        self.counts[phase] += 1
        self.noises[phase] += seen.total_noise
        self.learned += 1
        self.slow += self._slow_gain(settings, seen.total_noise) * (estimate - self.slow)
        if first:
            self.mean = self.slow
        return 1.0 if self.learned == 1 else self._ratio(estimate, seen.total_noise)

    def _forecast(self, settings: FilterSettings, seen: Observation) -> float:
        """The factor of a unit without a total."""
        assert settings.total_noise is not None
        noise = settings.total_noise
        return self._ratio(self.bank.forecast(seen.unit - 1, noise), noise)

    def _ratio(self, total: float, noise: float) -> float:
        """An estimated total over the mean total, in the range of factors."""
        least = max(LEAST_MEAN * math.sqrt(noise / 2), 1e-9)
        mean = max(self.mean, least)
        away = total / mean - 1
        doubt = self._doubt(noise) / mean**2
        usual = max(FACTOR_VARIANCE, away**2)
        low, high = FACTOR_RANGE
        return min(max(1 + usual / (usual + doubt) * away, low), high)

    def _doubt(self, noise: float) -> float:
        """The variance of the bank's estimate of a total."""
        noise = max(noise, LEAST_NOISE)
        variance = max(self.bank.variance, LEAST_VARIANCE * noise)
        return variance * noise / (variance + noise)

    def total(self, factor: float, noise: float) -> tuple[float, float] | None:
        """The estimated total of a unit with this factor, and its variance; None by phase."""
        if self.days or self.learned < 2:
            return None
        return factor * self.mean, self._doubt(noise)

    def _slow_gain(self, settings: FilterSettings, noise: float) -> float:
        share = 1 / max(math.sqrt(noise) * self.bank.weight, 1.0)
        return max(share, LEARNING_PERIODS / (2 * _learning(settings)))

    def rescaled(self, settings: FilterSettings, seen: Observation) -> float:
        """Let the mean total follow a stream that has grown or shrunk. Return how much it moved.

        Levels are counted in parts of the mean total, so lengths and size classes fit the stream
        as it is now.
        """
        if self.days:
            return self._rescaled_phases()
        if seen.total is None or self.learned < 2:
            return 1.0
        scale = math.sqrt(seen.total_noise / 2)
        learning = self.learned <= _learning(settings)
        if min(self.slow, self.mean) <= LEAST_VISIBLE * scale:
            if learning:
                self.mean = self.slow
            return 1.0
        ratio, most = self.slow / self.mean, FIRST_RESCALE if learning else RESCALE
        gain = self._slow_gain(settings, seen.total_noise)
        sure = 0.0 if learning else SURE * scale * math.sqrt(gain)
        if 1 / most < ratio < most or abs(self.slow - self.mean) <= sure:
            return 1.0
        self.mean = self.slow
        return ratio

    def _rescaled_phases(self) -> float:
        """Let the mean total follow the factors of all phases."""
        ratio = float(self.factors.mean())
        if 1 / RESCALE < ratio < RESCALE or ratio < LEAST_PHASE_FACTOR:
            return 1.0
        self.mean *= ratio
        self.factors /= ratio
        self.variances /= ratio**2
        return ratio

    def _by_phase(self, seen: Observation, phase: int) -> None:
        """One step of the Kalman filter of a phase."""
        assert seen.total is not None
        if len(self.factors) == 1:
            return  # without a season, each key is followed better alone
        level = seen.total_units * self.mean
        noise = seen.total_noise / level**2
        variance = float(self.variances[phase]) + PHASE_DRIFT * seen.total_units
        gain = variance / (variance + noise)
        self.factors[phase] += gain * (seen.total / level - self.factors[phase])
        self.variances[phase] = variance * (1 - gain)

    @property
    def visible(self) -> float:
        """The mean total if it stands out of the noise of all totals so far, else 0."""
        noise = math.sqrt(float(self.noises.sum()) / 2) / max(float(self.counts.sum()), 1.0)
        return self.mean if self.mean > SURE * noise else 0.0

    def season(self) -> float:
        """The relative variance of totals over the phases of the shortest period, less noise."""
        if self.days:
            return float(self.factors.var() / max(self.factors.mean(), LEAST_PHASE_FACTOR) ** 2)
        level = float(self.sums.sum() / max(self.counts.sum(), 1))
        if level <= 0 or not self.counts.all():
            return 0.0
        noise = float(np.mean(self.noises / np.square(self.counts)))
        return max(float(np.var(self.sums / self.counts)) - noise, 0) / level**2

    def decide(self, settings: FilterSettings, unit: int, visible: Callable[[], float]) -> None:
        """Choose after a unit whether totals are read by unit or by phase, and over how many days.

        `visible` gives the sum of the levels of keys that stand out of their noise.
        """
        if settings.total_noise is None or settings.kind == "stock":
            return
        period = len(self.factors)
        if unit in settings.decide_at:
            counted = float(self.counts.sum())
            level = max(float(self.sums.sum()) / counted if counted else self.mean, 1e-9)
            days = _days(settings, level)
            if self.days:
                self.days = days
            elif days > BANK_DAYS:
                self._begin_phases(settings, days, level)
        elif self.days and unit > settings.decide_at[-1] and unit % (2 * period) == 0:
            level = visible()
            days = _days(settings, level)
            if days > BANK_DAYS:
                self.days = days
            else:
                self.bank = SmoothingBank.nothing(_seasonal(settings), settings.total_noise)
                self.days, self.slow = 0, self.mean
                self.learned = _learning(settings)

    def _begin_phases(self, settings: FilterSettings, days: int, level: float) -> None:
        assert settings.total_noise is not None
        scale = math.sqrt(settings.total_noise / 2)
        self.days = days
        self.mean = max(level, scale / MAX_DAYS / len(self.factors))
        read = np.maximum(self.counts, 1)
        ratio = np.where(self.counts > 0, self.sums / read / self.mean, 1.0)
        noise = np.where(self.counts > 0, self.noises / np.square(read * self.mean), np.inf)
        gain = PHASE_VARIANCE / (PHASE_VARIANCE + noise)
        if len(self.factors) > 1:
            self.factors = 1 + gain * (ratio - 1)
        self.variances = PHASE_VARIANCE * (1 - gain)


def _learning(settings: FilterSettings) -> int:
    """How many units the mean total is learned over."""
    return LEARNING_PERIODS * max((*settings.periods, LEAST_LEARNING))


def _days(settings: FilterSettings, level: float) -> int:
    assert settings.total_noise is not None
    scale = math.sqrt(settings.total_noise / 2)
    return min(max(math.ceil(scale / (WANTED_NOISE * max(level, 1e-9))), 1), MAX_DAYS)


def _seasonal(settings: FilterSettings) -> tuple[int, ...]:
    return tuple(period for period in settings.periods if period > 1)
