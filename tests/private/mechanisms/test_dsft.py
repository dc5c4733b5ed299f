"""`dsft`: what its threshold does. What it shares with `dsat` is in test_sampling.py."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from penstock import FixedThreshold
from penstock.testing import NoNoise, TestNoise


def releases(threshold: str, stream: np.ndarray) -> int:
    run = FixedThreshold(
        epsilon=1, window=len(stream), horizon=len(stream), threshold=threshold, population=10_000
    ).run(stream.shape[1], noise=TestNoise(1))
    return sum(run.step(counts).repeated is False for counts in stream[:-1])


def test_a_larger_threshold_makes_fewer_releases() -> None:
    drift = np.linspace(1000, 9000, 60).astype(np.int64)
    stream = np.stack([drift, 10_000 - drift], axis=1)
    made = [releases(threshold, stream) for threshold in ("0.05", "0.3", "0.8", "2")]
    assert made[0] == 10
    assert made[-1] == 1
    assert made == sorted(set(made), reverse=True)


def test_the_threshold_stays_where_it_was_set() -> None:
    mechanism = FixedThreshold(epsilon=1, window=20, threshold="0.125", releases=3)
    run = mechanism.run(2, noise=NoNoise())
    for counts in [[5, 5], [900, 0], [0, 900], [900, 0], [7, 7]] * 8:
        run.step(counts)
        assert run._state.threshold == 0.125
    assert mechanism.first_threshold() == 0.125


def test_a_distance_that_reaches_the_threshold_is_enough() -> None:
    """With the noise off and one key: the floor of 11 is what the last release's noise of scale
    10.6 is expected to be.
    """
    mechanism = FixedThreshold(
        epsilon=1, window=1000, horizon=1000, threshold="0.5", population=100, decide="0.05"
    )
    assert float(1 / mechanism.plan(1).each.epsilon) == pytest.approx(200 / 19)
    for count, fresh in ((160, False), (161, True), (40, False), (39, True)):
        run = mechanism.run(1, noise=NoNoise())
        run.step([100])
        assert (run.step([count]).repeated is False) == fresh


def test_a_constant_stream_is_released_at_its_ends_alone_when_noise_is_small() -> None:
    mechanism = FixedThreshold(epsilon=50, window=40, horizon=40, threshold="0.2", population=5000)
    run = mechanism.run(3, noise=TestNoise(9))
    fresh = [unit for unit in range(1, 41) if run.step([3000, 1500, 500]).repeated is False]
    assert fresh == [1, 40]


def test_a_given_share_for_questions_is_used() -> None:
    mechanism = FixedThreshold(epsilon=1, window=100, horizon=100, releases=4, decide="0.2")
    assert mechanism.plan(3).each.epsilon == mechanism.plan(10**5).each.epsilon
    assert float(mechanism.plan(3).each.epsilon) == pytest.approx(0.2, rel=1e-6)
    assert mechanism.decide == Fraction(1, 5)


def test_no_release_has_less_than_it_would_have_without_questions() -> None:
    """With one key the best share for questions is large; it is cut where releasing every unit
    would be better.
    """
    for most in (2, 5, 9):
        mechanism = FixedThreshold(epsilon=1, window=10, horizon=10, releases=most)
        assert mechanism.plan(1).each.epsilon >= Fraction(1, 10) - mechanism.grid.quantum
