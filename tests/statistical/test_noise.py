"""Is the noise distributed as it claims? Seeds are fixed; each test states how often it would fail
by chance.

The pure chance of a chi-square above `limit(k)` is below e^−20 = 2.1e-9 (Laurent and Massart 2000,
Lemma 1), to the extent that the statistic is chi-square; bins hold at least 30 expected values for
that.
"""

from __future__ import annotations

import random
from collections import Counter
from fractions import Fraction
from itertools import pairwise
from math import comb, exp, sqrt

import numpy as np
import pytest

from penstock.private.noise import SystemNoise, TestNoise

SCALES = ["1/3", "1", "10", "127.9", "1000", "100000"]
LARGE = 200_000


def limit(freedom: int) -> float:
    return freedom + 2 * sqrt(20 * freedom) + 40


def draw(scale, size: int, seed: int = 1) -> np.ndarray:
    return TestNoise(seed).laplace(Fraction(scale), size, unit=0, label="test")


def beyond(scale: float, k: int) -> float:
    """P(X ≥ k) for k ≥ 1."""
    q = exp(-1 / scale)
    return q**k / (1 + q)


def chi_square(values: np.ndarray, scale: float, edges: list[int]) -> tuple[float, int]:
    """Over the bins ..., [−e2, −e1), [−e1, −e0), (−e0, e0), [e0, e1), ...: their statistic and its
    degrees of freedom.
    """
    size = len(values)
    tails = [beyond(scale, edge) for edge in edges] + [0.0]
    sides = [size * (high - low) for high, low in pairwise(tails)]
    middle = size * (1 - 2 * tails[0])
    bounds = np.array(edges)
    places = np.searchsorted(bounds, np.abs(values), side="right") * np.sign(values)
    seen = Counter(places.tolist())
    statistic = (seen[0] - middle) ** 2 / middle if middle >= 1 else 0.0
    for place, expected in enumerate(sides, start=1):
        assert expected >= 30
        statistic += sum((seen[sign * place] - expected) ** 2 / expected for sign in (1, -1))
    return statistic, 2 * len(sides)


def edges_of(scale: float, size: int) -> list[int]:
    """Bins of about a twelfth of the scale, and of one value at least, as long as 30 values are
    expected in each.
    """
    width = max(1, round(scale / 12))
    edges = [1]
    while True:
        following = edges[-1] + width
        if (
            size * (beyond(scale, edges[-1]) - beyond(scale, following)) < 30
            or size * beyond(scale, following) < 30
        ):
            return edges
        edges.append(following)


@pytest.mark.parametrize("size", [400, LARGE])
@pytest.mark.parametrize("scale", SCALES)
def test_noise_has_the_probabilities_it_claims(scale, size):
    """False alarm below 2.1e-9 for each. Small sizes go without the guide, and are drawn often."""
    values = (
        draw(scale, LARGE)
        if size == LARGE
        else np.concatenate([draw(scale, size, seed) for seed in range(200)])
    )
    real = float(Fraction(scale))
    edges = edges_of(real, len(values))
    statistic, freedom = chi_square(values, real, edges)
    assert statistic < limit(freedom)


@pytest.mark.parametrize(
    ("factor", "fits"),
    [("1", True), ("0.7", False), ("1.3", False), ("0.95", False), ("1.05", False)],
)
@pytest.mark.parametrize("scale", SCALES[1:])
def test_noise_has_the_scale_it_claims(scale, factor, fits):
    """False alarm below 2.1e-9; 30 % more or less, and even 5 %, is found."""
    values = draw(Fraction(scale) * Fraction(factor), LARGE)
    real = float(Fraction(scale))
    statistic, freedom = chi_square(values, real, edges_of(real, LARGE))
    assert (statistic < limit(freedom)) is fits


@pytest.mark.parametrize("scale", SCALES)
def test_the_probability_of_nothing(scale):
    """Within 6 standard deviations: false alarm below 2e-9."""
    p = 1 - 2 * beyond(float(Fraction(scale)), 1)
    seen = int((draw(scale, LARGE, seed=2) == 0).sum())
    assert abs(seen - LARGE * p) <= 6 * sqrt(LARGE * p * (1 - p)) + 1


@pytest.mark.parametrize("scale", SCALES)
def test_noise_is_symmetric(scale):
    """Signs within 6 standard deviations: false alarm below 2e-9. The sizes of each sign by
    chi-square: below 2.1e-9.
    """
    values = draw(scale, LARGE, seed=3)
    up, down = int((values > 0).sum()), int((values < 0).sum())
    assert abs(up - down) <= 6 * sqrt(up + down)
    edges = np.array(edges_of(float(Fraction(scale)), LARGE))
    places = (
        np.searchsorted(edges, part, side="right")
        for part in (values[values > 0], -values[values < 0])
    )
    sides = [np.bincount(each, minlength=len(edges) + 1)[1:] for each in places]
    statistic = float(((sides[0] - sides[1]) ** 2 / (sides[0] + sides[1])).sum())
    assert statistic < limit(len(edges))


@pytest.mark.parametrize("scale", SCALES)
def test_mean_and_variance(scale):
    """Within 6 standard errors by the central limit theorem: false alarm below 4e-9."""
    values = draw(scale, LARGE, seed=4).astype(float)
    q = exp(-1 / float(Fraction(scale)))
    variance = 2 * q / (1 - q) ** 2
    fourth = 2 * q * (1 + 10 * q + q * q) / (1 - q) ** 4
    assert abs(values.mean()) <= 6 * sqrt(variance / LARGE)
    assert abs((values**2).mean() - variance) <= 6 * sqrt((fourth - variance**2) / LARGE)


@pytest.mark.parametrize("scale", ["1", "10", "1000", "100000"])
def test_the_tails_are_neither_cut_nor_heavy(scale):
    """Values beyond 9 scales: P = 1.2e-4, about 120 of a million; within 6 standard deviations,
    false alarm below 1e-7.
    """
    size, real = 1_000_000, float(Fraction(scale))
    edge = round(9 * real)
    expected = size * 2 * beyond(real, edge)
    seen = int((np.abs(draw(scale, size, seed=5)) >= edge).sum())
    assert abs(seen - expected) < 6 * sqrt(expected) + 6


@pytest.mark.parametrize("scale", ["10", "1000", "100000"])
def test_neighbours_in_a_row_are_independent(scale):
    """Correlation of signs and of sizes at lags 1 to 4 and half a row, within 6 standard errors:
    false alarm below 2e-8.
    """
    values = draw(scale, LARGE, seed=6)
    for rows in (np.sign(values).astype(float), np.abs(values).astype(float)):
        rows = (rows - rows.mean()) / rows.std()
        for lag in (1, 2, 3, 4, LARGE // 2):
            assert abs((rows[lag:] * rows[:-lag]).mean()) < 6 / sqrt(LARGE - lag)


def test_the_noise_of_the_system_has_the_scale_it_claims():
    """The one test without a seed, for there is none. False alarm below 2.1e-9."""
    values = SystemNoise().laplace(Fraction(10), LARGE, unit=0, label="test")
    statistic, freedom = chi_square(values, 10.0, edges_of(10.0, LARGE))
    assert statistic < limit(freedom)


class Rejection:
    """Discrete Laplace by rejection, in fractions only: slow, short, and made of nothing that the
    fast sampler has.

    Canonne, Kamath and Steinke, The discrete Gaussian for differential privacy (2020), algorithms 1
    and 2.
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def flip(self, chance: Fraction) -> bool:
        return self._random.randrange(chance.denominator) < chance.numerator

    def flip_exponential(self, rate: Fraction) -> bool:
        """True with probability e^−rate."""
        while rate > 1:
            if not self.flip_exponential(Fraction(1)):
                return False
            rate -= 1
        tosses = 1
        while self.flip(rate / tosses):
            tosses += 1
        return tosses % 2 == 1

    def laplace(self, scale: Fraction) -> int:
        top, bottom = scale.as_integer_ratio()
        while True:
            low = self._random.randrange(top)
            if not self.flip_exponential(Fraction(low, top)):
                continue
            high = 0
            while self.flip_exponential(Fraction(1)):
                high += 1
            size = (low + top * high) // bottom
            negative = self.flip(Fraction(1, 2))
            if size or not negative:
                return -size if negative else size


@pytest.mark.parametrize(("factor", "fits"), [("1", True), ("0.7", False), ("1.3", False)])
@pytest.mark.parametrize("scale", ["3/2", "10", "1000"])
def test_noise_is_that_of_a_naive_rejection_sampler(scale, factor, fits):
    """Two samples of one law have a chi-square below the limit but with probability 2.1e-9."""
    size = 12_000
    twin = Rejection(7)
    naive = np.array([twin.laplace(Fraction(scale)) for _ in range(size)])
    fast = draw(Fraction(scale) * Fraction(factor), size, seed=8)
    cuts = np.unique(np.quantile(naive, np.linspace(0.02, 0.98, 25)).astype(int))
    one, two = (
        np.bincount(np.searchsorted(cuts, values), minlength=len(cuts) + 1)
        for values in (naive, fast)
    )
    held = one + two > 0
    statistic = float(((one - two)[held] ** 2 / (one + two)[held]).sum())
    assert (statistic < limit(len(cuts))) is fits


@pytest.mark.parametrize("keep", ["1/2", "1/3", "9/10"])
@pytest.mark.parametrize("count", [1, 2, 5, 13, 40])
def test_thinning_has_the_probabilities_of_the_binomial(count, keep):
    """False alarm below 2.1e-9 for each."""
    share, size = Fraction(keep), 100_000
    kept = TestNoise(9).thin(np.full(size, count), share, unit=0, label="test")
    expected = np.array(
        [
            float(comb(count, x) * share**x * (1 - share) ** (count - x)) * size
            for x in range(count + 1)
        ]
    )
    seen = np.bincount(kept, minlength=count + 1)
    large = expected >= 30
    statistic = float(((seen - expected)[large] ** 2 / expected[large]).sum())
    rest = float(expected[~large].sum())
    assert statistic < limit(int(large.sum()))
    assert abs(int(seen[~large].sum()) - rest) < 6 * sqrt(rest + 1) + 6


@pytest.mark.parametrize(("factor", "fits"), [("1", True), ("0.7", False), ("1.3", False)])
@pytest.mark.parametrize("count", [1000, 1_000_000, 3_000_000])
def test_thinning_of_large_counts_has_the_moments_of_the_binomial(count, factor, fits):
    """Mean and variance within 6 standard errors: false alarm below 4e-9. A share 30 % off is
    found.
    """
    size = 20_000 if count <= 1_000_000 else 2_000
    kept = (
        TestNoise(10)
        .thin(np.full(size, count), Fraction(1, 3) * Fraction(factor), unit=0, label="test")
        .astype(float)
    )
    variance = count * 2 / 9
    assert bool(abs(kept.mean() - count / 3) <= 6 * sqrt(variance / size)) is fits
    if fits:
        assert abs(((kept - count / 3) ** 2).mean() - variance) <= 6 * variance * sqrt(2.1 / size)


@pytest.mark.parametrize("scale", ["10", "1000"])
def test_noise_for_each_has_the_scale_of_each(scale):
    """False alarm below 2.1e-9 for each."""
    which = np.arange(2 * LARGE) % 2
    values = TestNoise(11).laplace_each(
        [Fraction(scale), Fraction(50)], which, unit=0, label="test"
    )
    for place, real in enumerate((float(scale), 50.0)):
        statistic, freedom = chi_square(values[which == place], real, edges_of(real, LARGE))
        assert statistic < limit(freedom)
