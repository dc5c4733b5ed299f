"""What the competitors share: exact promises, estimates without bias, the variances that they claim."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from penstock.core.errors import ConfigurationError
from penstock.core.weights import Weights
from penstock.lab.competitors.apb import AdaptiveBudget
from penstock.lab.competitors.competitor import Competitor, decayed
from penstock.lab.competitors.randomised_response import RandomisedResponse
from penstock.lab.competitors.rtp_dmm import DecayedTree
from penstock.testing import NoNoise, TestNoise

ALL = [AdaptiveBudget, DecayedTree, RandomisedResponse]


@pytest.mark.parametrize("cls", ALL)
def test_the_answers_are_decayed_sums(cls: type[Competitor]) -> None:
    """With an ε of 30 there is next to no noise."""
    stream = np.random.default_rng(1).integers(0, 300, (40, 5))
    competitor = cls(epsilon=30, gamma="0.8", span=12)
    found = competitor.run(stream, noise=TestNoise(1))
    assert np.allclose(found, decayed(stream, competitor.weights), rtol=0.01, atol=1)


def test_decayed_is_the_sum_by_age() -> None:
    stream = np.random.default_rng(2).integers(0, 9, (20, 3))
    weights = Weights.decay("0.7", 6)
    out = decayed(stream, weights)
    for unit in range(20):
        recent = stream[: unit + 1][::-1][:6]
        assert np.allclose(out[unit], weights.sequence(len(recent)) @ recent)


@pytest.mark.parametrize("cls", ALL)
def test_a_seed_repeats_a_run_and_another_does_not(cls: type[Competitor]) -> None:
    stream = np.random.default_rng(3).integers(0, 30, (12, 4))
    one, two, three = (cls(epsilon=1, span=8).run(stream, noise=TestNoise(seed)) for seed in (1, 1, 2))
    assert (one == two).all()
    assert (one != three).any()


@pytest.mark.parametrize("cls", ALL)
def test_bad_parameters_are_refused(cls: type[Competitor]) -> None:
    for bad in ({"epsilon": 0}, {"epsilon": 1, "gamma": "1.1"}, {"epsilon": 1, "span": 0}):
        with pytest.raises(ConfigurationError):
            cls(**bad)  # type: ignore[arg-type]


@pytest.mark.parametrize("cls", ALL)
def test_it_says_what_it_promises(cls: type[Competitor]) -> None:
    assert ("replacing" in cls.promise) is (cls is RandomisedResponse)
    assert cls.promise.split()[0] in (cls.__doc__ or "")


def test_noise_off_is_the_truth() -> None:
    stream = np.random.default_rng(4).integers(0, 50, (30, 3))
    tree = DecayedTree(epsilon=1, gamma=1, span=8)
    assert (tree.run(stream, noise=NoNoise()) == decayed(stream, tree.weights)).all()
    assert tree.budget == Fraction(1)
