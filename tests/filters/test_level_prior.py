"""The distribution of levels over keys."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.filters.level_prior import LevelPrior, _likelihood, _scaled

RNG = np.random.default_rng


def test_posterior_means_are_nearer_to_the_levels_than_the_estimates() -> None:
    levels = RNG(1).gamma(0.5, 4.0, 500)
    estimates = levels + RNG(2).normal(0, 5, 500)
    prior = LevelPrior.nothing()
    prior.learn(estimates, np.full(500, 25.0), np.full(500, 9.0))
    mean, variance = prior.posterior(estimates, np.full(500, 25.0), np.full(500, 9.0))
    assert np.square(mean - levels).mean() < 0.4 * np.square(estimates - levels).mean()
    assert (variance < 25).mean() > 0.9


def test_a_key_that_stands_out_keeps_its_estimate() -> None:
    estimates = np.concatenate([RNG(3).normal(0, 1, 200), [80.0]])
    prior = LevelPrior.nothing()
    prior.learn(estimates, np.ones(201), np.ones(201))
    mean, _ = prior.posterior(estimates[-1:], np.ones(1), np.ones(1))
    assert abs(mean[0] - 80) < 10


def test_the_order_of_keys_does_not_matter() -> None:
    estimates, variances = RNG(4).normal(3, 4, 5000), RNG(5).uniform(1, 9, 5000)
    draws = RNG(8).uniform(1, 9, 5000)
    order = RNG(6).permutation(5000)
    one, other = LevelPrior.nothing(), LevelPrior.nothing()
    for _ in range(2):
        one.learn(estimates, variances, draws)
        other.learn(estimates[order], variances[order], draws[order])
    assert np.array_equal(one.weights, other.weights)
    found = one.posterior(estimates, variances, draws)[0]
    again = other.posterior(estimates[order], variances[order], draws[order])[0]
    assert np.array_equal(found[order], again)


def test_a_prior_counted_in_other_parts_gives_the_same_levels() -> None:
    estimates = RNG(7).gamma(1, 10, 100)
    prior = LevelPrior.nothing()
    prior.learn(estimates, np.full(100, 4.0), np.ones(100))
    before, _ = prior.posterior(estimates, np.full(100, 4.0), np.ones(100))
    prior.rescale(3.0)
    after, _ = prior.posterior(3 * estimates, np.full(100, 36.0), np.ones(100))
    assert np.allclose(after, 3 * before)


@pytest.mark.parametrize("draws", [1.0, 10.0, 100.0])
def test_levels_that_are_left_out_hardly_change_a_posterior_mean(draws: float) -> None:
    prior = LevelPrior.nothing()
    every = np.concatenate([RNG(9).normal(0, 3, 300), RNG(10).gamma(0.5, 4000, 30)])
    prior.learn(every, np.full(330, 9.0), np.full(330, draws))
    some = np.linspace(-20, 18, 50)
    variances, number = np.full(50, 9.0), np.full(50, draws)
    room = np.empty((2, len(prior.grid), 50), np.float32)
    found = _scaled(some, variances, number)
    weights = prior.weights[:, None] * _likelihood(found, prior.grid, room)
    mean, _ = prior.posterior(some, variances, number)
    assert np.allclose(mean, prior.grid @ weights / weights.sum(axis=0), rtol=1e-4, atol=1e-4)
