from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.grouping import similar, stretches


@settings(max_examples=150, deadline=None)
@given(st.lists(st.integers(-50, 50), min_size=1, max_size=80), st.floats(0.1, 1_000))
def test_stretches_cut_the_whole_row(row: list[int], variance: float) -> None:
    numbers = np.array(row)
    starts = stretches(numbers, variance)
    assert starts[0] == 0
    assert (np.diff(starts) > 0).all()
    means, sizes = similar(numbers, variance)
    assert (sizes[starts] == np.diff(starts, append=len(row))).all()
    for first, size in zip(starts.tolist(), sizes[starts].tolist(), strict=True):
        part = numbers[first : first + size]
        assert size == 1 or size > 3
        assert size == 1 or ((part - means[first]) ** 2).sum() <= 2 * variance * size


def test_what_looks_like_noise_is_one_stretch_and_what_does_not_is_cut() -> None:
    rng = np.random.default_rng(7)
    low = rng.normal(0, 10, 64)
    assert stretches(low.astype(np.int64), 100.0).tolist() == [0]
    both = np.concatenate([low, rng.normal(1_000, 10, 64)]).astype(np.int64)
    assert stretches(both, 100.0).tolist() == [0, 64]
    assert len(stretches(both, 1.0)) == 128


def test_numbers_too_large_for_floats_stay_as_they_are() -> None:
    row = np.array([2**55 + 1, 3, 2**54 + 1, 5, 9])
    means, sizes = similar(row, 1.0)
    assert (means == row).all()
    assert (sizes == 1).all()
