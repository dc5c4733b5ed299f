from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from penstock.core.errors import ConfigurationError
from penstock.lab.survey_answers import answers, negative
from penstock.private.noise.fixed import exp_bounds
from penstock.testing import TestNoise
from penstock_bench.competitors.randomised_response import RandomisedResponse, loss, truth


@pytest.mark.parametrize("epsilon", [Fraction(1, 100), Fraction(1), Fraction(7, 3), Fraction(20)])
@pytest.mark.parametrize("keys", [2, 3, 6, 1000])
def test_the_chance_of_the_truth_is_rounded_down(epsilon: Fraction, keys: int) -> None:
    honest = truth(epsilon, keys)
    lie = (1 - honest) / (keys - 1)
    # p/q ≤ e^ε, by an enclosure of e^−ε that is finer than the one it was made with
    low, _ = exp_bounds(epsilon, 400)
    assert lie / honest >= Fraction(low, 2**400)
    assert float(honest) == pytest.approx(
        math.exp(epsilon) / (math.exp(epsilon) + keys - 1), rel=1e-14
    )
    assert loss(honest, keys) == pytest.approx(float(epsilon), rel=1e-9)


def test_a_negative_survey_has_no_epsilon() -> None:
    assert loss(negative(5), 5) == math.inf
    with pytest.raises(ConfigurationError, match="at least 3 keys"):
        negative(2)


def test_everybody_answers_once() -> None:
    counts = np.array([50, 0, 7, 1_000, 3])
    for unit in range(50):
        said = answers(counts, Fraction(1, 3), noise=TestNoise(1), unit=unit)
        assert said.sum() == counts.sum()
        assert (said >= 0).all()


def test_in_a_negative_survey_nobody_tells_the_truth() -> None:
    for unit in range(50):
        said = answers(np.array([0, 30, 0, 0]), negative(4), noise=TestNoise(2), unit=unit)
        assert said[1] == 0


def test_answers_have_the_chances_that_they_should() -> None:
    """One key's 10⁶ people over 4 keys: each count within 6 standard deviations, a false alarm
    below 1e-8.
    """
    many, honest = 10**6, truth(Fraction(1), 4)
    said = answers(np.array([0, many, 0, 0]), honest, noise=TestNoise(3))
    for key, times in enumerate(said.tolist()):
        chance = float(honest if key == 1 else (1 - honest) / 3)
        assert abs(times - many * chance) < 6 * math.sqrt(many * chance * (1 - chance))


def test_the_estimates_have_no_bias_and_the_claimed_variance() -> None:
    """1,000 histograms: means within 6 standard errors, variances within 35 % (6 standard
    deviations); below 1e-7.
    """
    competitor, noise = RandomisedResponse(epsilon=1), TestNoise(4)
    counts = np.array([300, 40, 5, 0, 120])
    found = np.array([competitor.publish(counts, noise=noise, unit=unit) for unit in range(1_000)])
    variance = competitor.variance(counts)
    assert (np.abs(found.mean(axis=0) - counts) < 6 * np.sqrt(variance / 1_000)).all()
    assert np.allclose(found.var(axis=0), variance, rtol=0.35)
    assert np.allclose(found.sum(axis=1), counts.sum())


def test_one_key_has_nothing_to_hide() -> None:
    assert RandomisedResponse(epsilon=1).publish(np.array([12]), noise=TestNoise(5)).tolist() == [
        12.0
    ]
