from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from penstock.core.errors import ConfigurationError
from penstock.testing import RecordingNoise, TestNoise
from penstock_bench.competitors.apb import AdaptiveBudget, groups


def test_a_histogram_costs_epsilon_by_two_draws() -> None:
    noise = RecordingNoise(TestNoise(1))
    AdaptiveBudget(epsilon="0.5", share="0.3").publish(np.arange(10) * 50, noise=noise)
    assert sorted(draw.label for draw in noise.draws) == ["publish", "watch"]
    assert sum(1 / draw.scale for draw in noise.draws) == Fraction(1, 2)


def test_groups_hold_every_key_once_and_neighbours_only() -> None:
    seen = np.random.default_rng(1).integers(0, 400, 60)
    of = groups(seen, 100.0, 100.0)
    assert (np.unique(of) == np.arange(of.max() + 1)).all()
    assert (np.diff(of[np.argsort(seen, kind="stable")]) >= 0).all()
    assert 1 < of.max() + 1 < 60


def test_equal_keys_gain_by_their_group() -> None:
    """64 keys, 200 histograms: the mean square error is known to 3 %, and the gain is a factor of 4
    and more.
    """
    competitor, noise = AdaptiveBudget(epsilon="0.1"), TestNoise(2)
    counts = np.full(64, 30)
    errors = [competitor.publish(counts, noise=noise, unit=unit) - 30 for unit in range(200)]
    assert np.square(errors).mean() < 2 / 0.1**2 / 4
    # No bias: the mean of 12,800 errors, whose standard deviation is 10 to 14, is within 6 standard
    # errors (chance 2e-9);
    # keys of a group share their noise, so the means of 200 histograms are compared instead.
    means = np.mean(errors, axis=1)
    assert abs(means.mean()) < 6 * means.std() / np.sqrt(200)


@pytest.mark.parametrize("share", ["0", "1", "-1"])
def test_a_share_is_a_part(share: str) -> None:
    with pytest.raises(ConfigurationError, match="share"):
        AdaptiveBudget(epsilon=1, share=share)
