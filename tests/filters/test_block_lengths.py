"""The choice of each key's next block."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from penstock.filters.block_lengths import LENGTHS, _errors, block_lengths


@given(st.floats(1e-9, 1e6), st.floats(0, 1e6), st.floats(1e-3, 1e6), st.integers(1, 1024))
def test_a_length_is_on_the_list_and_not_above_the_longest(
    drift: float, irregular: float, level: float, longest: int
) -> None:
    (length,) = block_lengths(
        np.array([drift]), np.array([irregular]), np.array([level]), 100.0, longest
    )
    assert length in LENGTHS
    assert length <= longest


def test_more_drift_never_makes_a_block_longer_and_more_noise_never_shorter() -> None:
    drift = np.geomspace(1e-6, 1e6, 60)
    some = np.ones(60)
    quiet = block_lengths(drift, some, some, 10.0, 1024)
    loud = block_lengths(drift, some, some, 10_000.0, 1024)
    long_blocks = quiet > 1
    assert (np.diff(quiet[long_blocks]) <= 0).all()
    assert (loud >= quiet).all()


def test_a_length_that_is_not_tried_is_never_the_best() -> None:
    drift = np.geomspace(1e-6, 1e6, 40).repeat(40)
    level = np.tile(np.geomspace(1e-3, 1e5, 40), 40)
    found = block_lengths(drift, 0.1 * level, level, 200.0, 24)
    lengths = LENGTHS[LENGTHS <= 24]
    errors = _errors(drift, 1.1 * level, 200.0, lengths[:, None])
    assert np.array_equal(found, lengths[errors.argmin(axis=0)])
    assert 0 < (found == 1).mean() < 1
