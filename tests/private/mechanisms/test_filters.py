"""The filters of `fast`, against closed forms and against a law on a grid."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.arrays import FloatArray
from penstock.private.mechanisms import filters
from penstock.private.mechanisms.filters import (
    Filter,
    FilterSample,
    FilterState,
    Kalman,
    Particles,
    filter_of,
)

BOTH = [Kalman(), Particles(60)]


def sampled(values: list[float] | FloatArray, scale: float = 2.0) -> FilterSample:
    """A sample under continuous noise of this scale."""
    return FilterSample(np.array(values, np.float64), scale, 2 * scale**2)


def followed(
    how: Filter, samples: FloatArray, *, scale: float = 2.0, drift: float = 1.0
) -> FloatArray:
    """The estimates after each of these samples, one row a unit."""
    track = how.begin(sampled(samples[0], scale))
    levels = [track.level]
    for sample in samples[1:]:
        track = how.correct(track, sampled(sample, scale), drift)
        levels.append(track.level)
    return np.array(levels)


def walks(
    seed: int, *, keys: int, units: int, scale: float, drift: float
) -> tuple[FloatArray, FloatArray]:
    """Levels that move as the filters believe, and noisy samples of them."""
    rng = np.random.default_rng(seed)
    levels = 1000 + np.cumsum(rng.normal(0, drift**0.5, (units, keys)), axis=0)
    return levels, levels + rng.laplace(0, scale, (units, keys))


def test_names_stand_for_filters() -> None:
    assert filter_of("kalman", 9) == Kalman()
    assert filter_of("particle", 9) == Particles(9)


def test_two_corrections_by_hand() -> None:
    track = Kalman().begin(FilterSample(np.array([10.0, 0.0]), 1.0, 2.0))
    assert (track.level.tolist(), track.uncertainty) == ([10, 0], 2)
    track = Kalman().correct(
        track, FilterSample(np.array([16.0, 3.0]), 1.0, 2.0), drift=2.0
    )  # gain 4/6
    assert track.level.tolist() == pytest.approx([14, 2])
    assert track.uncertainty == pytest.approx(4 / 3)
    track = Kalman().correct(
        track, FilterSample(np.array([14.0, 0.0]), 1.0, 2.0), drift=2 / 3
    )  # gain 2/4
    assert track.level.tolist() == pytest.approx([14, 1])
    assert track.uncertainty == pytest.approx(1)


def test_a_level_that_never_moves_is_the_mean_of_its_samples() -> None:
    samples = np.random.default_rng(1).normal(50, 9, (30, 4))
    levels = followed(Kalman(), samples, drift=1e-30)
    assert np.allclose(levels, np.cumsum(samples, axis=0) / np.arange(1, 31)[:, None])


@given(drift=st.floats(1e-3, 1e3), noise=st.floats(1e-3, 1e3))
def test_the_uncertainty_settles_where_it_should(drift: float, noise: float) -> None:
    track = FilterState(np.zeros(1), noise)
    for _ in range(20_000 if drift < 1e-4 * noise else 400):
        before, track = track, Kalman().correct(track, FilterSample(np.zeros(1), 1.0, noise), drift)
        if track.uncertainty == before.uncertainty:
            break
    # P = (1 − K)(P + Q) with K = (P + Q)/(P + Q + R)
    assert track.uncertainty == pytest.approx(
        (np.sqrt(drift**2 + 4 * drift * noise) - drift) / 2, rel=1e-3
    )


@pytest.mark.parametrize("how", BOTH)
@pytest.mark.parametrize("by", [-3.0, 1e6])
def test_samples_that_are_all_higher_give_an_estimate_that_is_as_much_higher(
    how: Filter, by: float
) -> None:
    _, samples = walks(2, keys=5, units=20, scale=2, drift=1)
    assert np.allclose(followed(how, samples + by), followed(how, samples) + by, atol=1e-6)


@pytest.mark.parametrize("how", BOTH)
def test_a_sample_moves_an_estimate_towards_itself_and_not_beyond(how: Filter) -> None:
    start = how.begin(sampled([100.0]))
    for value in (90.0, 99.0, 101.0, 140.0, 2.0**50):
        level = how.correct(start, sampled([value]), 1.0).level[0]
        assert min(100, value) < level < max(100, value)


@pytest.mark.parametrize("how", BOTH)
def test_keys_do_not_see_each_other(how: Filter) -> None:
    """Also where there are more particles than are moved at once."""
    keys = 3 * filters._AT_ONCE // 60
    _, samples = walks(3, keys=keys, units=4, scale=2, drift=1)
    order = np.random.default_rng(4).permutation(keys)
    together = followed(how, samples)
    assert np.array_equal(followed(how, samples[:, order]), together[:, order])
    assert np.array_equal(followed(how, samples[:, -1:]), together[:, -1:])


@given(
    weights=st.lists(st.floats(0, 1), min_size=2, max_size=12).filter(
        lambda weights: sum(weights) > 1e-6
    ),
    number=st.integers(2, 40),
)
def test_each_particle_is_kept_as_often_as_middles_fall_to_it(
    weights: list[float], number: int
) -> None:
    shares = np.cumsum(weights)[None] / np.cumsum(weights)[-1]
    times = filters._times(shares, number)[0]
    middles = (np.arange(number) + 0.5) / number
    naive = np.bincount(np.searchsorted(shares[0], middles), minlength=len(weights))
    assert times.sum() == number
    assert (
        np.abs(np.cumsum(times - naive)).max() <= 1
    )  # where a middle lies on an edge, rounding decides
    assert times.min() >= 0


def on_a_grid(samples: list[float], *, scale: float, drift: float) -> list[float]:
    """The true means, by the law itself on a fine grid."""
    x = np.arange(-150, 150, 0.05)
    law = np.exp(-np.abs(x - samples[0]) / scale)
    means = [float(x @ law / law.sum())]
    step = np.exp(-np.square(np.arange(-400, 401) * 0.05) / (2 * drift))
    for sample in samples[1:]:
        law = np.convolve(law, step, "same") * np.exp(-np.abs(x - sample) / scale)
        law /= law.sum()
        means.append(float(x @ law))
    return means


@pytest.mark.parametrize(("scale", "drift"), [(2.0, 1.0), (6.0, 1.0), (0.5, 4.0), (3.0, 9.0)])
def test_particles_find_the_true_mean(scale: float, drift: float) -> None:
    """A quarter of what the filter itself is uncertain by; twice the particles are closer."""
    levels, noisy = walks(5, keys=1, units=25, scale=scale, drift=drift)
    samples = noisy - levels[0]
    truth = np.array(on_a_grid(samples[:, 0].tolist(), scale=scale, drift=drift))
    spread = (drift * 2 * scale**2 / (drift + 2 * scale**2)) ** 0.5
    off = [
        np.abs(followed(Particles(n), samples, scale=scale, drift=drift)[:, 0] - truth).mean()
        for n in (100, 1000)
    ]
    assert off[0] < spread / 4
    assert off[1] < off[0]


@pytest.mark.parametrize(("scale", "drift"), [(10.0, 1.0), (10.0, 25.0), (0.4, 4.0)])
def test_particles_are_nowhere_much_worse_than_kalman_if_both_are_right_about_the_level(
    scale: float, drift: float
) -> None:
    """Laplace noise: particles know it. With 400 keys the ratio of two correlated errors is known
    to about 2 %.
    """
    levels, samples = walks(6, keys=400, units=60, scale=scale, drift=drift)
    kalman, particles = (
        float(np.square(followed(how, samples, scale=scale, drift=drift) - levels).mean())
        for how in (Kalman(), Particles())
    )
    assert particles < 1.05 * kalman


def test_particles_gain_where_the_noise_is_large() -> None:
    """They know that Laplace noise has heavy tails: 17 % are gained here. The ratio is known to
    about 2 %.
    """
    levels, samples = walks(7, keys=400, units=60, scale=10.0, drift=1.0)
    kalman, particles = (
        float(np.square(followed(how, samples, scale=10.0, drift=1.0) - levels)[20:].mean())
        for how in (Kalman(), Particles())
    )
    assert particles < 0.9 * kalman


def test_particles_agree_with_kalman_where_noise_is_small() -> None:
    _, samples = walks(8, keys=50, units=20, scale=0.1, drift=100.0)
    kalman, particles = (
        followed(how, samples, scale=0.1, drift=100.0) for how in (Kalman(), Particles())
    )
    assert np.abs(kalman - particles).max() < 0.1


@settings(deadline=None)
@given(
    values=st.lists(st.sampled_from([0.0, 1.0, -(2.0**50), 2.0**50, 3e7]), min_size=2, max_size=6)
)
@pytest.mark.parametrize("how", BOTH)
def test_estimates_stay_numbers(how: Filter, values: list[float]) -> None:
    for scale, drift in ((1e-3, 1e-30), (1e10, 1e30), (1e-3, 1e30), (1e10, 1e-30)):
        levels = followed(how, np.array(values)[:, None], scale=scale, drift=drift)
        assert np.isfinite(levels).all()
