from __future__ import annotations

import numpy as np
import pytest

from penstock.core.errors import ConfigurationError
from penstock.lab.audit.flawed.eshp import clusters
from penstock.testing import NoNoise, TestNoise
from penstock_bench.competitors.apb import groups
from penstock_bench.competitors.eshp_published import GRID, PublishedSketch


def test_its_noise_is_theta_by_what_alpha_leaves() -> None:
    competitor = PublishedSketch(epsilon="0.5", gamma="0.91", span=2_000, beta="0.3", alpha="0.2")
    assert float(competitor.scale) / GRID == pytest.approx(0.3 / 0.09 / 0.4, rel=1e-3)


def test_its_error_is_far_below_what_privacy_needs() -> None:
    """Keys far apart, so without clusters: 2·(θ/ε₂)² is 3.05; 2,000 steps of 4 keys know it to 15
    %, 6 standard deviations.
    """
    competitor = PublishedSketch(epsilon=1, gamma="0.91", span=2_000)
    stream = np.tile(np.array([10, 200, 500, 900]), (2_000, 1))
    truth = stream[0] * (1 - 0.91 ** np.arange(1, 2_001)[:, None]) / 0.09
    found = competitor.run(stream, noise=TestNoise(1))
    assert np.square(found - truth)[20:].mean() == pytest.approx(
        2 * (0.1 / 0.09 / 0.9) ** 2, rel=0.15
    )


def test_clusters_are_those_that_the_auditor_convicts() -> None:
    rng = np.random.default_rng(1)
    for _ in range(50):
        sums = rng.gamma(1, 20, 12)
        assert groups(sums, 0.0, 40.0).tolist() == clusters(sums, 40.0).tolist()


def test_sums_below_zero_are_shown_as_zero() -> None:
    found = PublishedSketch(epsilon="0.1").run(np.zeros((50, 5), np.int64), noise=TestNoise(2))
    assert (found >= 0).all()
    assert found.any()
    assert not PublishedSketch(epsilon=1).run(np.zeros((3, 5), np.int64), noise=NoNoise()).any()


@pytest.mark.parametrize("bad", [{"alpha": "0"}, {"alpha": "1"}, {"beta": "0"}, {"beta": "2"}])
def test_bad_shares_are_refused(bad: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError):
        PublishedSketch(epsilon=1, **bad)  # type: ignore[arg-type]
