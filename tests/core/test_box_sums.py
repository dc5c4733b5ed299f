"""Sums over boxes are what adding up their cells gives."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.box_sums import MAX_ATTRIBUTES, Boxes
from penstock.core.errors import ConfigurationError, InputError

SHAPES = [(1,), (7,), (3, 4), (1, 5), (2, 3, 4), (3, 1, 2, 2), (2, 3, 1, 2, 3, 2)]


def added(values, shape, low, high):
    cells = values.reshape(shape)
    boxes = (
        tuple(slice(a, b + 1) for a, b in zip(*ends, strict=True))
        for ends in zip(low, high, strict=True)
    )
    return [cells[box].sum() for box in boxes]


@st.composite
def boxes_in(draw, shape, most=6):
    ends = [
        st.tuples(st.integers(0, side - 1), st.integers(0, side - 1)).map(sorted) for side in shape
    ]
    drawn = np.array(draw(st.lists(st.tuples(*ends), max_size=most)), np.int64).reshape(
        -1, len(shape), 2
    )
    return drawn[:, :, 0], drawn[:, :, 1]


@pytest.mark.parametrize("shape", SHAPES)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_a_sum_is_that_of_the_cells(shape, data):
    size = math.prod(shape)
    values = np.array(
        data.draw(st.lists(st.integers(-(2**50), 2**50), min_size=size, max_size=size)), np.int64
    )
    low, high = data.draw(boxes_in(shape))
    found = Boxes(shape, low, high).sums(values)
    assert found.dtype == np.int64
    assert found.tolist() == added(values, shape, low, high)
    assert Boxes(shape, low, high).sums(values / 7) == pytest.approx(
        added(values / 7, shape, low, high), rel=1e-9, abs=100
    )


def test_the_largest_counts_that_a_gate_takes_are_added_exactly():
    shape = (2, 3, 5, 2, 4, 3)
    values = np.full(math.prod(shape), 2**50 // math.prod(shape)) - np.arange(math.prod(shape)) % 2
    low = np.array([[0] * 6, [0, 1, 2, 0, 3, 0], [1, 2, 4, 1, 3, 2]])
    high = np.array([[1, 2, 4, 1, 3, 2], [1, 1, 4, 1, 3, 2], [1, 2, 4, 1, 3, 2]])
    assert Boxes(shape, low, high).sums(values).tolist() == added(values, shape, low, high)


def test_a_sum_that_fits_is_exact_even_if_the_total_does_not():
    values = np.full(8, 2**61)
    low, high = np.array([[1, 0], [0, 0]]), np.array([[1, 1], [0, 2]])
    assert Boxes((2, 4), low, high).sums(values).tolist() == [2**62, 3 * 2**61]


def test_narrow_numbers_are_added_in_wide_ones():
    ends = np.array([[0]]), np.array([[299]])
    for narrow in (np.int8, np.uint8, np.bool_):
        assert Boxes((300,), *ends).sums(np.ones(300, narrow)).tolist() == [300]
    assert Boxes((300,), *ends).sums(np.full(300, 0.5, np.float32)).dtype == np.float64


def test_sizes_are_numbers_of_cells():
    boxes = Boxes(
        (4, 5, 6),
        np.array([[0, 0, 0], [1, 2, 3], [3, 4, 5]]),
        np.array([[3, 4, 5], [2, 2, 5], [3, 4, 5]]),
    )
    assert boxes.sizes.tolist() == [120, 6, 1]
    assert boxes.sums(np.ones(120, np.int64)).tolist() == [120, 6, 1]


@pytest.mark.parametrize(
    ("shape", "low", "high", "message"),
    [
        ((), [[]], [[]], "1 to 10 attributes, not 0"),
        ((2,) * (MAX_ATTRIBUTES + 1), [[0] * 11], [[0] * 11], "1 to 10 attributes, not 11"),
        ((2, 3), [[0]], [[0]], "one row per box of 2"),
        ((2, 3), [[0, 0]], [[0, 0], [1, 1]], "one row per box of 2"),
        ((2, 3), [[0, -1]], [[0, 0]], "must lie in"),
        ((2, 3), [[0, 0]], [[0, 3]], "must lie in"),
        ((2, 3), [[1, 0]], [[0, 2]], "low at most high"),
    ],
)
def test_boxes_that_cannot_be_are_refused(shape, low, high, message):
    with pytest.raises(ConfigurationError, match=message):
        Boxes(shape, np.array(low), np.array(high))


def test_values_of_another_shape_are_refused():
    boxes = Boxes((2, 3), np.array([[0, 0]]), np.array([[1, 1]]))
    for values in (np.ones(5), np.ones((2, 3))):
        with pytest.raises(InputError, match="6 numbers"):
            boxes.sums(values)
