from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from penstock.testing import NoNoise, RecordingNoise, TestNoise
from penstock_bench.competitors.competitor import decayed
from penstock_bench.competitors.per_release import GRID, NoisePerRelease


@pytest.mark.parametrize(("gamma", "span"), [("0.5", 5), ("0.91", 2_000), ("1", 7)])
def test_all_releases_that_an_event_moves_cost_epsilon_together(gamma: str, span: int) -> None:
    """By what it moves: two streams that differ in one event, without noise, and the scale of the
    noise.
    """
    competitor = NoisePerRelease(epsilon="0.7", gamma=gamma, span=span)
    units = min(span, 300) + 5
    without = np.full((units, 2), 4, np.int64)
    event = without.copy()
    event[2, 1] += 1
    one, other = (competitor.run(stream, noise=NoNoise()) for stream in (event, without))
    moved = sum((Fraction(value) for value in (one - other)[:, 1]), Fraction(0)) * GRID
    assert (one[:, 0] == other[:, 0]).all()
    assert moved / competitor.scale == Fraction(7, 10)


def test_every_release_has_noise_of_its_own_of_that_scale() -> None:
    competitor, noise = (
        NoisePerRelease(epsilon=1, gamma="0.5", span=4),
        RecordingNoise(TestNoise(1)),
    )
    competitor.run(np.zeros((6, 3), np.int64), noise=noise)
    assert [draw.unit for draw in noise.draws] == [1, 2, 3, 4, 5, 6]
    assert {draw.scale for draw in noise.draws} == {Fraction(GRID * 15, 8)}


@pytest.mark.parametrize(("gamma", "span"), [("0.8", 12), ("0.8", 500), ("1", 7)])
def test_without_noise_it_is_the_decayed_sum(gamma: str, span: int) -> None:
    stream = np.random.default_rng(1).integers(0, 300, (200, 4))
    competitor = NoisePerRelease(epsilon=1, gamma=gamma, span=span)
    assert np.allclose(
        competitor.run(stream, noise=NoNoise()), decayed(stream, competitor.weights), atol=0.01
    )


def test_the_noise_has_the_claimed_variance() -> None:
    """20,000 draws: six standard deviations of a mean square are 6·√(5/20,000), 10 %; a false alarm
    below 1e-8.
    """
    competitor = NoisePerRelease(epsilon=1, gamma="0.91", span=2_000)
    assert competitor.variance == pytest.approx(246.9, rel=1e-3)
    found = competitor.run(np.zeros((10, 2_000), np.int64), noise=TestNoise(2))
    assert np.square(found).mean() == pytest.approx(competitor.variance, rel=0.1)
