"""A bank of smoothers that forecasts the total of each unit; the best of them have most weight."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from penstock.core.arrays import BoolArray, FloatArray

LEVEL_GAINS = np.array([0.9, 0.6, 0.35, 0.18, 0.08, 0.03, 0.01, 0.003, 0.0])
"""Gains of exponential smoothing, from TIDE section 3. The first n gains are at least 1/n."""

SEASON_GAINS = np.array([0.4, 0.15, 0.05, 0.0])
"""Gains of smoothing per phase of a season."""

RATIO_GAINS = np.array([0.03, 0.2])
"""Gains of the ratio of recent totals to their season: slow and fast."""

DISCOUNT = 0.997
"""How much of its past errors an expert keeps per unit."""

LEAST_NOISE = 1e-6
"""The least variance of noise. With a large ε, there is none in most totals."""

MAX_TRIALS = 400
"""A longer record of errors does not make the weights sharper."""

FEW_TRIALS = 5
"""An expert with fewer trials is trusted less."""

VARIANCE_GAIN, LEAST_VARIANCE = 0.02, 0.003
"""The gain of the forecast error's variance, and its floor as a share of the noise."""


@dataclass
class SmoothingBank:
    r"""Experts that forecast the total of the next unit, and their combination.

    The experts are exponential smoothing with several gains, and for each period smoothing per
    phase, times a slow or fast ratio of totals to their season. With mean squared error
    :math:`E_i` over :math:`N` units, expert i has weight :math:`\propto\exp(-\frac12\min(N,400)
    (E_i/E_{\min}-1))`. Of a noisy total z with noise variance R, the combined forecast :math:`x^-`
    and the variance V of its error, the estimate is :math:`x^-+\frac{V}{V+R}(z-x^-)`.
    """

    seen: int
    weight: float
    """The sum of 1/√R over all totals so far."""
    level: FloatArray
    seasons: list[FloatArray]
    visits: list[FloatArray]
    ratios: list[FloatArray]
    errors: FloatArray
    trials: FloatArray
    variance: float

    @classmethod
    def nothing(cls, periods: tuple[int, ...], noise: float) -> SmoothingBank:
        """The bank before the first total."""
        experts = len(LEVEL_GAINS) + len(periods) * len(SEASON_GAINS) * len(RATIO_GAINS)
        return cls(
            seen=0,
            weight=0.0,
            level=np.zeros(len(LEVEL_GAINS)),
            seasons=[np.zeros((len(SEASON_GAINS), period)) for period in periods],
            visits=[np.zeros(period) for period in periods],
            ratios=[np.ones((len(SEASON_GAINS), len(RATIO_GAINS))) for _ in periods],
            errors=np.zeros(experts),
            trials=np.zeros(experts),
            variance=4 * noise,
        )

    def step(self, place: int, total: float, noise: float) -> float:
        """The estimate of this unit's total. `place` counts units from 0."""
        noise = max(noise, LEAST_NOISE)
        estimate = max(total, 0.0) if not self.seen else self._combined(place, total, noise)
        self._learn(place, total, noise)
        self.seen += 1
        return estimate

    def forecast(self, place: int, noise: float) -> float:
        """The forecast of a total that is not released. `noise` is what its noise would be."""
        return max(self._weighted(*self._forecasts(place), max(noise, LEAST_NOISE)), 0.0)

    def _weighted(self, forecasts: FloatArray, ready: BoolArray | None, noise: float) -> float:
        """The forecasts of all experts that have one, weighted by their errors so far."""
        # If all experts have a forecast, they have as many trials: one number does.
        trials: float | FloatArray = float(self.trials[0]) if ready is None else self.trials
        mean = self.errors + 2 * noise
        mean /= trials + 1
        if not isinstance(trials, float) or trials < FEW_TRIALS:
            mean += (trials < FEW_TRIALS) * noise
        best = float(np.minimum.reduce(mean if ready is None else mean[ready]))
        mean *= -0.5 / best
        mean += 0.5
        mean *= min(trials, MAX_TRIALS) if isinstance(trials, float) else trials.clip(0, MAX_TRIALS)
        weights = np.exp(mean, out=mean)
        if ready is not None:
            weights *= ready
        return float(weights @ forecasts / np.add.reduce(weights))

    def _combined(self, place: int, total: float, noise: float) -> float:
        forecasts, ready = self._forecasts(place)
        squares = forecasts - total
        squares *= squares
        if ready is None:
            self.errors *= DISCOUNT
            self.errors += squares
            self.trials.fill(float(self.trials[0]) * DISCOUNT + 1)
        else:
            self.errors = np.where(ready, self.errors * DISCOUNT + squares, self.errors)
            self.trials = np.where(ready, self.trials * DISCOUNT + 1, self.trials)
        forecast = self._weighted(forecasts, ready, noise)
        gain = max(VARIANCE_GAIN, 1 / (self.seen + 1))
        self.variance += gain * ((total - forecast) ** 2 - noise - self.variance)
        variance = max(self.variance, LEAST_VARIANCE * noise)
        return max(forecast + variance / (variance + noise) * (total - forecast), 0.0)

    def _forecasts(self, place: int) -> tuple[FloatArray, BoolArray | None]:
        """The forecast of every expert, and whether it has one: None if all have."""
        if not self.seasons:
            return self.level, None
        forecasts, ready = [self.level], [np.ones(len(self.level), np.bool_)]
        for season, visits, ratios in zip(self.seasons, self.visits, self.ratios, strict=True):
            phase = place % len(visits)
            forecasts.append((season[:, phase, None] * ratios).ravel())
            ready.append(np.full(ratios.size, visits[phase] >= 1))
        return np.concatenate(forecasts), np.concatenate(ready)

    def _learn(self, place: int, total: float, noise: float) -> None:
        if not self.seen:
            self.level[:] = total
        scale = math.sqrt(noise)
        self.weight += 1 / scale  # of all totals so far; streams change, so not by variance
        share = 1 / (scale * self.weight)
        self.level += np.maximum(LEVEL_GAINS, share) * (total - self.level)
        for season, visits, ratios in zip(self.seasons, self.visits, self.ratios, strict=True):
            phase = place % len(visits)
            base = season[:, phase]
            usual = np.ones(len(SEASON_GAINS))
            if visits[phase]:
                ratio = np.clip(total / np.maximum(base, 1e-9), 0, 5)
                square = np.square(base)  # ratios of small seasons say little
                trust = square / (2 * square + noise)
                ratios += RATIO_GAINS * trust[:, None] * (ratio[:, None] - ratios)
                usual = np.maximum(ratios[:, 0], 0.2)
            season[:, phase] += np.maximum(SEASON_GAINS, 1 / (visits[phase] + 1)) * (
                total / usual - base
            )
            visits[phase] += 1
