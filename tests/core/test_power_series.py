from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from penstock.core.power_series import longest, quotient, root


@pytest.mark.parametrize(
    "series", [[1.0], [4.0, 1.0], [1.0] * 7, [1.0, 0.5, 0.25, 0.125], [2.0, -3.0, 1.0]]
)
@pytest.mark.parametrize("size", [1, 2, 9, 40])
def test_a_root_times_itself_is_the_series(series, size):
    found = root(np.array(series), size)
    expected = np.zeros(size)
    expected[: min(size, len(series))] = series[:size]
    np.testing.assert_allclose(
        np.convolve(found, found)[:size], expected, rtol=1e-9, atol=1e-9 * np.square(found).sum()
    )


def test_the_root_of_a_prefix_is_known():
    """The coefficients of (1 − x)^(−1/2): 1, 1/2, 3/8, 5/16, ..."""
    np.testing.assert_allclose(root(np.ones(6), 6), [1, 1 / 2, 3 / 8, 5 / 16, 35 / 128, 63 / 256])


@pytest.mark.parametrize("below", [[2], [3, 1], [4, -1, 2, 0, 1]])
def test_a_quotient_times_its_divisor_is_what_was_divided(below):
    above, divisor = np.array([1.0, 2.0, 3.0]), np.array(below)
    found = quotient(above, divisor, 20)
    np.testing.assert_allclose(np.convolve(found, divisor)[:20], [*above, *[0] * 17], atol=1e-9)


@pytest.mark.parametrize("series", [[1], [3, 1], [5, 2, 1, 1], [4, 1, -2, 1]])
@pytest.mark.parametrize("shifts", [1, 2, 3, 5])
def test_no_signs_make_shifted_copies_longer(series, shifts):
    row = np.array(series)
    lengths = [
        int(np.square(np.convolve(signs, row)).sum())
        for signs in product((1, 0, -1), repeat=shifts)
    ]
    bound = longest(row, shifts)
    assert max(lengths) <= bound
    if min(series) >= 0:
        assert max(lengths) == bound


@pytest.mark.parametrize("series", [[3, 1], [4, 1, -2, 1], [7, 5, 3, 1, 1, 1]])
def test_a_shift_more_costs_at_least_its_share(series):
    """Per shift, the bound never falls: a few units of a window never cost more than their part of
    it.
    """
    each = [longest(np.array(series), shifts) / shifts for shifts in range(1, 30)]
    assert each == sorted(each)
    assert longest(np.array(series), 2**40) == 2**40 * longest(np.array(series), 1) + sum(
        2 * (2**40 - k) * abs(int(np.dot(series[k:], series[:-k]))) for k in range(1, len(series))
    )
