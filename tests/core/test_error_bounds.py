"""Intervals of combined draws, against the laws themselves."""

from __future__ import annotations

import math
from fractions import Fraction
from math import comb

import numpy as np
import pytest

from penstock.core.error_bounds import half_width, variance
from penstock.core.weights import UNIT, Weights


def law(scale: float, reach: int) -> np.ndarray:
    one = np.exp(-np.abs(np.arange(-reach, reach + 1)) / scale)
    return one / one.sum()


def median_beyond(scale: float, draws: int, k: float) -> float:
    """P(|median| > k) of an odd number of draws, exactly."""
    q = np.exp(-1 / scale)
    p = q ** (np.floor(k) + 1) / (1 + q)
    return 2 * sum(
        comb(draws, j) * p**j * (1 - p) ** (draws - j) for j in range((draws + 1) // 2, draws + 1)
    )


@pytest.mark.parametrize("miss", [0.5, 0.05, 1e-6])
@pytest.mark.parametrize("draws", [1, 3, 5, 21, 151])
@pytest.mark.parametrize("scale", [0.3, 2.0, 50.0])
def test_the_interval_of_a_median_is_the_shortest_that_keeps_its_word(scale, draws, miss):
    half = float(half_width("median", np.array(scale), draws, UNIT, miss))
    assert median_beyond(scale, draws, half) <= miss * (1 + 1e-6)
    if half:
        assert median_beyond(scale, draws, half - 1) > miss * (1 - 1e-6)


@pytest.mark.parametrize("draws", [4097, 100_000])
def test_the_interval_of_a_long_median_is_wider_but_not_by_much(draws):
    exact = float(half_width("median", np.array(1e6), 4095, UNIT, 0.05)) * np.sqrt(4095 / draws)
    assert exact <= float(half_width("median", np.array(1e6), draws, UNIT, 0.05)) <= 1.5 * exact


@pytest.mark.parametrize("draws", [1, 2, 3, 4, 5, 8, 15])
@pytest.mark.parametrize("scale", [0.4, 1.0, 7.0])
def test_the_variance_of_a_median_is_never_above_what_is_said(scale, draws):
    """Over 200,000 medians with a fixed seed; a false alarm with another seed has a chance below
    1e-6.
    """
    rng = np.random.default_rng(5)
    q = np.exp(-1 / scale)
    noise = rng.geometric(1 - q, (200_000, draws)) - rng.geometric(1 - q, (200_000, draws))
    squares = np.median(noise, axis=1) ** 2
    said = float(variance("median", np.array(scale), draws, UNIT))
    assert squares.mean() <= said + 5 * squares.std() / np.sqrt(200_000)
    if draws > 2 and scale > 1:
        assert squares.mean() > said / 3


@pytest.mark.parametrize("miss", [0.2, 0.05, 1e-4])
@pytest.mark.parametrize(
    ("kind", "weights"),
    [("weighted", Weights.decay("0.8", 9)), ("weighted", Weights.power("1", 9))],
)
def test_the_interval_of_a_weighted_sum_keeps_its_word(kind, weights, miss):
    """400,000 sums, a fixed seed; another seed gives a false alarm with a chance below 1e-6."""
    rng = np.random.default_rng(6)
    scale, n, q = 5.0, 6, np.exp(-1 / 5)
    noise = rng.geometric(1 - q, (400_000, n)) - rng.geometric(1 - q, (400_000, n))
    sums = noise @ weights.sequence(n)
    half = float(half_width(kind, np.array(scale), n, weights, miss))
    assert (np.abs(sums) > half).mean() <= miss + 5 * np.sqrt(miss / 400_000)
    assert (np.abs(sums) > half / 3).mean() > miss
    assert sums.var() == pytest.approx(float(variance(kind, np.array(scale), n, weights)), rel=0.02)


@pytest.mark.parametrize("n", [2, 3, 10])
def test_a_shrunk_value_has_the_variance_and_the_interval_that_are_said(n):
    """Over 400,000 values with a fixed seed; a false alarm with another seed has a chance below
    1e-6.
    """
    rng = np.random.default_rng(7)
    q = np.exp(-1 / 5)
    noise = (rng.geometric(1 - q, (400_000, n)) - rng.geometric(1 - q, (400_000, n))).astype(float)
    mean = noise.mean(axis=1)
    shrunk = (noise[:, -1] - mean) / n + mean
    assert shrunk.var() == pytest.approx(
        float(variance("shrunk", np.array(5.0), n, UNIT)), rel=0.02
    )
    half = float(half_width("shrunk", np.array(5.0), n, UNIT, 0.05))
    assert (np.abs(shrunk) > half).mean() <= 0.05
    assert (np.abs(shrunk) > half / 2).mean() > 0.05


@pytest.mark.parametrize("deviation", [0.2, 0.5, 1.0, 4.2, 10.0])
@pytest.mark.parametrize("miss", [0.3, 0.1, 0.05, 1e-6])
def test_a_rounded_gaussian_has_the_least_whole_interval(deviation, miss):
    (half,) = half_width("rounded", np.array([deviation]), 1, UNIT, miss)

    def missed(beyond: float) -> float:
        """The probability that the whole number next to a Gaussian is beyond a whole number."""
        return math.erfc((beyond + 0.5) / (deviation * math.sqrt(2)))

    assert half == int(half)
    assert missed(half) <= miss
    assert half == 0 or missed(half - 1) > miss
    assert variance("rounded", np.array([deviation]), 1, UNIT) == pytest.approx([deviation**2])


def test_every_key_may_have_its_own_number_of_draws():
    halves = half_width("sum", np.array([3.0, 3.0, np.inf]), np.array([1, 40, 2]), UNIT, 0.05)
    assert halves[0] < halves[1] < halves[2] == np.inf
    spread = np.sqrt(variance("sum", np.array([3.0]), 40, UNIT))[0]
    assert 1.9 * spread < halves[1] < 3 * spread


def test_weights_are_what_they_say():
    assert Weights().sequence(3).tolist() == [1, 0, 0]
    assert Weights.prefix().sequence(3).tolist() == [1, 1, 1]
    assert Weights.window(2).sequence(3).tolist() == [1, 1, 0]
    assert Weights.power(1, 4).sequence(3).tolist() == [1, 1 / 2, 1 / 3]
    assert Weights.decay(Fraction(95, 100), 3).sequence(4) == pytest.approx([1, 0.95, 0.9025, 0])
