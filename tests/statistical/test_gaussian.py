"""Is Gaussian noise distributed as it claims? Seeds are fixed; each test states how often it would
fail by chance.

A chi-square above `limit(k)` has a chance below e^−20 = 2.1e-9 (Laurent and Massart 2000, Lemma 1),
to the extent that the statistic is chi-square; bins hold at least 30 expected values for that.
"""

from __future__ import annotations

import random
from fractions import Fraction
from math import erfc, floor, sqrt

import numpy as np
import pytest

from penstock.private.noise import SystemNoise, TestNoise

VARIANCES = ["1/3", "4", "4000", "16000", "17000", "1000000", "1e20"]
LARGE = 200_000
TWIN = 20_000


def limit(freedom: int) -> float:
    return freedom + 2 * sqrt(20 * freedom) + 40


def draw(variance, size: int, seed: int = 1) -> np.ndarray:
    return TestNoise(seed).gaussian(Fraction(variance), size, unit=0, label="test")


def bins(variance: float) -> np.ndarray:
    """Edges between bins: about a fifth of a standard deviation wide, and at least one value."""
    deviation = sqrt(variance)
    width = max(1, round(deviation / 5))
    return (np.arange(-40, 41) * width).astype(np.int64)


def below(variance: float, edges: np.ndarray) -> np.ndarray:
    """P(X < edge): that the Gaussian is below edge − ½."""
    return np.array([erfc(-(edge - 0.5) / sqrt(2 * variance)) / 2 for edge in edges.tolist()])


def masses(variance: float, edges: np.ndarray) -> np.ndarray:
    """P(edge ≤ X < next), with all below the first edge and all from the last on."""
    return np.diff(below(variance, edges), prepend=0.0, append=1.0)


def chi_square(values: np.ndarray, variance: float) -> tuple[float, int]:
    edges = bins(variance)
    expected = masses(variance, edges) * len(values)
    seen = np.bincount(np.searchsorted(edges, values, side="right"), minlength=len(expected))
    few = expected < 30
    expected = np.append(expected[~few], expected[few].sum())
    seen = np.append(seen[~few], seen[few].sum())
    return float((np.square(seen - expected) / np.maximum(expected, 30)).sum()), len(expected)


@pytest.mark.parametrize("size", [400, LARGE])
@pytest.mark.parametrize("variance", VARIANCES)
def test_noise_has_the_probabilities_it_claims(variance, size):
    """False alarm below 2.1e-9 for each. Small sizes go without the guide, and are drawn often."""
    values = (
        draw(variance, LARGE)
        if size == LARGE
        else np.concatenate([draw(variance, size, seed) for seed in range(200)])
    )
    statistic, freedom = chi_square(values, float(Fraction(variance)))
    assert statistic < limit(freedom)


@pytest.mark.parametrize(
    ("factor", "fits"),
    [("1", True), ("0.7", False), ("1.3", False), ("0.95", False), ("1.05", False)],
)
@pytest.mark.parametrize("variance", VARIANCES[1:])
def test_noise_has_the_deviation_it_claims(variance, factor, fits):
    """False alarm below 2.1e-9; 30 % more or less, and even 5 %, is found."""
    values = draw(Fraction(variance) * Fraction(factor) ** 2, LARGE)
    statistic, freedom = chi_square(values, float(Fraction(variance)))
    assert (statistic < limit(freedom)) == fits


def moments(variance: float) -> tuple[float, float]:
    """The second and the fourth, by direct sums where rounding matters."""
    if variance > 1000:
        return variance + 1 / 12, 3 * variance**2
    k = np.arange(-400, 401)
    law = np.diff(below(variance, np.append(k, 401)))
    return float(np.square(k) @ law), float(np.square(np.square(k)) @ law)


@pytest.mark.parametrize("variance", [0.001, 0.03, 0.1, 0.3, 1.0, 4.0, 500.0])
def test_rounding_adds_a_twelfth_to_the_variance_at_most(variance):
    second, _ = moments(variance)
    assert second < variance + 1 / 12 + 1e-9
    assert variance < 0.3 or second > variance + 1 / 12 - 0.01


@pytest.mark.parametrize("variance", VARIANCES)
def test_noise_is_symmetric_and_has_its_moments(variance):
    """Mean, variance and signs by z-tests at 6 standard deviations: false alarm below 1e-8 for
    each.
    """
    values = draw(variance, LARGE, seed=2).astype(np.float64)
    second, fourth = moments(float(Fraction(variance)))
    assert abs(values.mean()) < 6 * sqrt(second / LARGE)
    assert abs(np.square(values).mean() - second) < 6 * sqrt((fourth - second**2) / LARGE)
    positive, negative = np.count_nonzero(values > 0), np.count_nonzero(values < 0)
    assert abs(positive - negative) < 6 * sqrt(positive + negative)


@pytest.mark.parametrize("variance", ["2", "40000"])
def test_tails_are_as_heavy_as_they_should_be(variance):
    """Beyond 3 and 4 deviations; false alarm below 1e-8 by a Poisson bound at 6 deviations."""
    real = float(Fraction(variance))
    values = np.abs(draw(variance, 1_000_000, seed=3))
    for far in (3, 4):
        first = floor(far * sqrt(real))
        expected = 1e6 * erfc((first - 0.5) / sqrt(2 * real))
        assert abs(np.count_nonzero(values >= first) - expected) < 6 * sqrt(expected) + 6


def test_draws_are_independent():
    """Neighbours, and values and signs, are not correlated: z-tests at 6 standard deviations, false
    alarm below 1e-8.
    """
    values = draw("1000000", LARGE, seed=4) / 1000.0
    for one, two in (
        (values[1:], values[:-1]),
        (np.abs(values[1:]) - 0.8, np.abs(values[:-1]) - 0.8),
    ):
        assert abs(float(one @ two)) < 6 * sqrt(float(np.square(one) @ np.square(two)))


def test_the_systems_noise_has_the_same_law():
    """False alarm below 2.1e-9; this one draws from the system, and so differently every time."""
    statistic, freedom = chi_square(
        SystemNoise().gaussian(Fraction(10**6), LARGE, unit=0, label="test"), 1e6
    )
    assert statistic < limit(freedom)


# -- a naive twin ----------------------------------------------------------------------------------


@pytest.mark.parametrize("variance", ["1/3", "9", "17000"])
def test_a_naive_twin_draws_the_same(variance):
    """Two samples in one chi-square of homogeneity: false alarm below 2.1e-9."""
    ours = draw(variance, TWIN, seed=6)
    assert alike(ours, twin(variance), variance)
    assert not alike(ours, twin(Fraction(variance) * Fraction("1.3") ** 2), variance)
    assert not alike(ours, twin(Fraction(variance) * Fraction("0.7") ** 2), variance)


def twin(variance) -> np.ndarray:
    """Python's own Gaussian, rounded: floats, and easy to believe."""
    source, deviation = random.Random(5), sqrt(Fraction(variance))
    return np.array([round(source.gauss(0, deviation)) for _ in range(TWIN)])


def alike(one: np.ndarray, two: np.ndarray, variance) -> bool:
    edges = bins(float(Fraction(variance)))
    one, two = (
        np.bincount(np.searchsorted(edges, each, side="right"), minlength=len(edges) + 1)
        for each in (one, two)
    )
    enough = one + two >= 60
    one, two = (
        np.append(one[enough], one[~enough].sum()),
        np.append(two[enough], two[~enough].sum()),
    )
    statistic = float((np.square(one - two) / np.maximum(one + two, 1)).sum())
    return statistic < limit(len(one))
