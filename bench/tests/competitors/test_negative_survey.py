from __future__ import annotations

import numpy as np
import pytest

from penstock.core.errors import ConfigurationError
from penstock.testing import TestNoise
from penstock_bench.competitors.negative_survey import NegativeSurvey


def test_the_estimates_have_no_bias() -> None:
    """500 histograms: means within 6 standard errors, from the sample; a false alarm below 1e-7."""
    counts = np.array([300, 40, 5, 0, 120])
    survey, noise = NegativeSurvey(epsilon=1), TestNoise(1)
    found = np.array([survey.publish(counts, noise=noise, unit=unit) for unit in range(500)])
    assert (np.abs(found.mean(axis=0) - counts) < 6 * found.std(axis=0) / np.sqrt(500)).all()
    assert (found.sum(axis=1) == counts.sum()).all()


def test_epsilon_changes_nothing() -> None:
    stream = np.random.default_rng(1).integers(0, 30, (10, 4))
    one, other = (
        NegativeSurvey(epsilon=epsilon).run(stream, noise=TestNoise(2)) for epsilon in ("0.01", "9")
    )
    assert (one == other).all()


def test_one_answer_rules_its_key_out() -> None:
    for unit in range(1, 60):
        said = NegativeSurvey(epsilon=1).publish(
            np.array([0, 1, 0, 0]), noise=TestNoise(3), unit=unit
        )
        assert said[1] == 1


def test_two_keys_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="at least 3 keys"):
        NegativeSurvey(epsilon=1).run(np.ones((1, 2), np.int64), noise=TestNoise(1))
