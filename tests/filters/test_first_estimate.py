"""The first belief about keys."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.filters.first_estimate import first_estimate
from penstock.filters.observation import NoiseLaw


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_sparse_keys_are_shrunk_to_what_all_keys_have(law: NoiseLaw) -> None:
    rng = np.random.default_rng(1)
    truth = np.where(np.arange(4000) % 50 == 0, 300.0, 1.0)
    noise = rng.laplace(0, 10, 4000) if law == "laplace" else rng.normal(0, 200**0.5, 4000)
    mean, variance = first_estimate(truth + noise, 10.0, law)
    assert np.abs(mean - truth).mean() < 0.3 * np.abs(noise).mean()
    assert (variance > 0).all()


def test_one_key_is_enough() -> None:
    mean, variance = first_estimate(np.array([-4.0]), 2.0)
    assert 0 <= mean[0] < 2
    assert np.isfinite(variance).all()
