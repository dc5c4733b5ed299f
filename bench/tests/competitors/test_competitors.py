"""What the competitors share: exact promises, estimates without bias, the variances that they
claim.
"""

from __future__ import annotations

import pickle
from fractions import Fraction

import numpy as np
import pytest

from penstock.core.domain import Domain
from penstock.core.errors import ConfigurationError
from penstock.core.weights import Weights
from penstock.testing import NoNoise, TestNoise
from penstock_bench.competitors.apb import AdaptiveBudget
from penstock_bench.competitors.competitor import Decayed, Window, decayed
from penstock_bench.competitors.eshp_published import PublishedSketch
from penstock_bench.competitors.negative_survey import NegativeSurvey
from penstock_bench.competitors.per_release import NoisePerRelease
from penstock_bench.competitors.randomised_response import RandomisedResponse
from penstock_bench.competitors.recurrence import Recurrence
from penstock_bench.competitors.registry import COMPETITORS
from penstock_bench.competitors.rtp_dmm import DecayedTree

EXACT = [AdaptiveBudget, DecayedTree, NoisePerRelease, RandomisedResponse]
ALL = [*EXACT, NegativeSurvey, PublishedSketch, Recurrence]


@pytest.mark.parametrize("cls", EXACT)
def test_the_answers_are_decayed_sums(cls: type[Decayed]) -> None:
    """With an ε of 100 there is next to no noise."""
    stream = np.random.default_rng(1).integers(0, 300, (40, 5))
    competitor = cls(epsilon=100, gamma="0.8", span=12)
    found = competitor.run(stream, noise=TestNoise(1))
    assert np.allclose(found, decayed(stream, competitor.weights), rtol=0.01, atol=1)


def test_decayed_is_the_sum_by_age() -> None:
    stream = np.random.default_rng(2).integers(0, 9, (20, 3))
    weights = Weights.decay("0.7", 6)
    out = decayed(stream, weights)
    for unit in range(20):
        recent = stream[: unit + 1][::-1][:6]
        assert np.allclose(out[unit], weights.sequence(len(recent)) @ recent)


@pytest.mark.parametrize("gamma", ["0.6", "0.99", "1"])
def test_a_window_gives_the_same_by_recurrence(gamma: str) -> None:
    rows = np.random.default_rng(5).normal(0, 9, (200, 3))
    weights = Weights.decay(gamma, 30)
    window = Window(weights, 3)
    assert np.allclose(
        np.array([window.add(row) for row in rows]), decayed(rows, weights), rtol=1e-9, atol=1e-9
    )


@pytest.mark.parametrize("cls", ALL)
def test_what_is_kept_holds_no_more_than_the_window_needs(cls: type[Decayed]) -> None:
    """A tree has twice as many nodes as units; a sketch has 20 blocks of three numbers."""
    course = cls(epsilon=1, gamma="0.95", span=16).begin(Domain.of(3), noise=TestNoise(1))
    sizes = []
    for _ in range(80):
        course.step(np.array([3, 0, 9]))
        sizes.append(len(pickle.dumps(course.kept())))
    assert sizes[40:] == sizes[39:-1]
    if cls is not Recurrence:
        assert sizes[0] < sizes[-1]
    assert 8 * 3 <= sizes[-1] <= 8 * 3 * 60 + 2_000


@pytest.mark.parametrize("cls", ALL)
def test_a_seed_repeats_a_run_and_another_does_not(cls: type[Decayed]) -> None:
    stream = np.random.default_rng(3).integers(0, 30, (12, 4))
    one, two, three = (
        cls(epsilon=1, span=8).run(stream, noise=TestNoise(seed)) for seed in (1, 1, 2)
    )
    assert (one == two).all()
    assert (one != three).any()


@pytest.mark.parametrize("cls", ALL)
def test_bad_parameters_are_refused(cls: type[Decayed]) -> None:
    for bad in ({"epsilon": 0}, {"epsilon": 1, "gamma": "1.1"}, {"epsilon": 1, "span": 0}):
        with pytest.raises(ConfigurationError):
            cls(**bad)  # type: ignore[arg-type]


@pytest.mark.parametrize("cls", ALL)
def test_it_says_what_it_promises(cls: type[Decayed]) -> None:
    assert ("replacing" in cls.promise) is (cls is RandomisedResponse)
    if cls.private:
        assert cls.promise.split()[0] in (cls.__doc__ or "")
    else:
        assert cls.promise == "nothing"
        assert "**Not ε-private for any ε**" in (cls.__doc__ or "")


def test_what_is_not_private_is_known_to_be() -> None:
    assert {name for name, cls in COMPETITORS.items() if not cls.private} == {
        "negative_survey",
        "adapub_published",
        "eshp_published",
        "rescuedp_published",
    }
    assert all(COMPETITORS[cls.name] is cls for cls in ALL)


def test_a_competitor_says_all_that_it_was_made_with_and_nothing_else() -> None:
    tree = DecayedTree(epsilon="0.5", span=8)
    assert len(tree.levels) == 4
    assert tree.configuration() == {"epsilon": Fraction(1, 2), "gamma": Fraction(19, 20), "span": 8}


def test_noise_off_is_the_truth() -> None:
    stream = np.random.default_rng(4).integers(0, 50, (30, 3))
    tree = DecayedTree(epsilon=1, gamma=1, span=8)
    assert (tree.run(stream, noise=NoNoise()) == decayed(stream, tree.weights)).all()
    assert tree.budget == Fraction(1)
