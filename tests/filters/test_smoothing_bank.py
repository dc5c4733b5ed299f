"""The bank of smoothers on single series."""

from __future__ import annotations

import numpy as np

from penstock.filters.smoothing_bank import SmoothingBank


def test_a_season_is_forecast_better_than_its_noise() -> None:
    rng, noise = np.random.default_rng(1), 2 * 30.0**2
    truth = 200 + 150 * np.sin(2 * np.pi * np.arange(400) / 24)
    seasonal, plain = SmoothingBank.nothing((24,), noise), SmoothingBank.nothing((), noise)
    errors = []
    for place, count in enumerate(truth):
        seen = count + rng.laplace(0, 30)
        estimates = seasonal.step(place, seen, noise), plain.step(place, seen, noise)
        errors.append(np.abs(np.array(estimates) - count))
    with_season, without = np.mean(errors[200:], axis=0)
    assert with_season < 0.5 * 30
    assert with_season < without


def test_an_estimate_is_never_negative() -> None:
    bank = SmoothingBank.nothing((7,), 200.0)
    rng = np.random.default_rng(2)
    assert min(bank.step(place, rng.laplace(0, 10), 200.0) for place in range(60)) >= 0
