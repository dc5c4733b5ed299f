"""Range counts at random, and the errors in them."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.box_sums import Boxes
from penstock.core.errors import ConfigurationError, InputError
from penstock_bench.workload import Errors, Workload

SHAPES = [(1,), (12,), (4, 5), (2, 7, 3), (2, 3, 1, 2, 3, 2)]
shapes = st.sampled_from(SHAPES)


def by_hand(workload, values):
    cells = np.asarray(values).reshape(workload.shape)
    ends = zip(workload.boxes.low, workload.boxes.high, strict=True)
    return np.array(
        [
            cells[tuple(slice(a, b + 1) for a, b in zip(low, high, strict=True))].sum()
            for low, high in ends
        ]
    )


@settings(max_examples=40, deadline=None)
@given(shape=shapes, seed=st.integers(0, 99), data=st.data())
def test_answers_and_errors_are_those_of_adding_up_cells(shape, seed, data):
    workload, size = Workload.random(shape, number=20, seed=seed), math.prod(shape)
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    truth, shown = (
        rng.integers(0, 9, (3, size)),
        rng.integers(-5, 15, (3, size)) / data.draw(st.sampled_from([1, 3])),
    )
    assert (workload.answers(truth[0]) == by_hand(workload, truth[0])).all()
    true, said = (np.array([by_hand(workload, row) for row in stream]) for stream in (truth, shown))
    off = np.abs(true - said)
    errors = workload.errors(truth, shown, sanity=2)
    assert errors.absolute == pytest.approx(off.mean(axis=0))
    assert errors.relative == pytest.approx((off / np.maximum(true, 2)).mean(axis=0))
    assert errors.mean_absolute == pytest.approx(off.mean())
    assert errors.mean_relative == pytest.approx((off / np.maximum(true, 2)).mean())
    assert workload.mean_absolute_error(truth, shown) == pytest.approx(off.mean())


def test_whole_numbers_stay_whole():
    workload = Workload.random((3, 3, 3), number=30)
    values = np.full(27, 2**50 // 27)
    assert workload.answers(values).dtype == np.int64
    assert workload.answers(values.tolist()).tolist() == (workload.sizes * (2**50 // 27)).tolist()
    assert workload.mean_absolute_error([values + 1], [values]) == workload.sizes.mean()
    assert workload.answers(values / 2).dtype == np.float64


def test_every_interval_is_as_likely_as_any_other():
    """Chi-square with 14 degrees of freedom for 15 intervals; fixed seed, false alarms with a
    chance below 1e-4.
    """
    workload = Workload.random((5, 1), number=15_000, seed=7)
    low, high = workload.boxes.low, workload.boxes.high
    assert not low[:, 1].any()
    found = np.bincount(5 * low[:, 0] + high[:, 0], minlength=25)
    expected = [1000 if a <= b else 0 for a in range(5) for b in range(5)]
    assert found[np.array(expected) == 0].sum() == 0
    assert (np.square(found[found > 0] - 1000) / 1000).sum() < 42.6
    assert (found > 0).sum() == 15


def test_attributes_have_intervals_of_their_own():
    """The lengths of two attributes are uncorrelated; fixed seed, false alarms with a chance below
    1e-4.
    """
    boxes = Workload.random((50, 50), number=10_000, seed=3).boxes
    assert abs(np.corrcoef((boxes.high - boxes.low).T)[0, 1]) < 0.04


def test_a_seed_gives_the_same_range_counts_again():
    one, same, other = (Workload.random((9, 9), number=50, seed=seed).boxes for seed in (1, 1, 2))
    assert (one.low == same.low).all()
    assert (one.high == same.high).all()
    assert not (one.low == other.low).all()


@settings(max_examples=60, deadline=None)
@given(shape=shapes, size=st.integers(1, 100), seed=st.integers(0, 99))
def test_boxes_have_the_size_that_is_asked_for_or_the_nearest(shape, size, seed):
    workload = Workload.random(shape, number=60, seed=seed, size=size)
    possible = {
        math.prod(lengths) for lengths in itertools.product(*(range(1, side + 1) for side in shape))
    }
    nearest = min(possible, key=lambda other: (abs(other - size), other))
    assert (workload.sizes == nearest).all()


def test_every_way_to_make_a_size_is_used_in_every_place():
    boxes = Workload.random((4, 6, 2), number=5000, seed=1, size=6).boxes
    lengths = {tuple(row) for row in (boxes.high - boxes.low + 1).tolist()}
    assert lengths == {
        way
        for way in itertools.product(range(1, 5), range(1, 7), range(1, 3))
        if math.prod(way) == 6
    }
    thin = [
        low
        for low, high in zip(boxes.low.tolist(), boxes.high.tolist(), strict=True)
        if np.subtract(high, low)[1] == 5
    ]
    assert {(low[0], low[2]) for low in thin} == {(a, b) for a in range(4) for b in range(2)}


def test_streams_are_read_once_and_unit_by_unit():
    workload, rng = Workload.random((4, 4), number=40, seed=2), np.random.default_rng(0)
    truth, shown = rng.integers(0, 9, (50, 16)), rng.normal(4, 2, (50, 16))
    held = workload.errors(truth, shown)
    streamed = workload.errors((row for row in truth), (row for row in shown))
    assert (held.absolute == streamed.absolute).all()
    assert workload.mean_absolute_error(iter(truth), iter(shown)) == pytest.approx(
        held.mean_absolute
    )


def test_errors_by_size():
    errors = Errors(
        sizes=np.array([1, 9, 10, 99, 1000]),
        absolute=np.array([1.0, 3.0, 10.0, 20.0, 70.0]),
        relative=np.array([1.0, 2.0, 0.5, 0.1, 0.05]),
    )
    found = errors.by_size()
    assert [(bucket.first, bucket.last, bucket.number) for bucket in found] == [
        (1, 9, 2),
        (10, 99, 2),
        (1000, 9999, 1),
    ]
    assert [bucket.absolute for bucket in found] == [2.0, 15.0, 70.0]
    assert [bucket.relative for bucket in found] == [1.5, 0.3, 0.05]
    assert [bucket.number for bucket in errors.by_size([9, 11, 2000])] == [2, 2]
    alone = Workload(Boxes((3,), np.array([[1]]), np.array([[1]]))).errors([[0, 5, 0]], [[0, 4, 0]])
    assert [(bucket.first, bucket.absolute, bucket.relative) for bucket in alone.by_size()] == [
        (1, 1.0, 0.2)
    ]
    for borders in ([1], [5, 5], [5, 1], [0, 5]):
        with pytest.raises(ConfigurationError, match="borders must be"):
            errors.by_size(borders)


def test_noise_shows_in_larger_boxes_as_larger_absolute_and_smaller_relative_errors():
    """Independent noise of one scale; fixed seed, and the differences are far beyond chance."""
    rng = np.random.default_rng(5)
    truth = np.full((20, 400), 50)
    errors = Workload.random((20, 20), number=2000, seed=1).errors(
        truth, truth + rng.laplace(0, 5, truth.shape)
    )
    absolute, relative = (
        [getattr(bucket, kind) for bucket in errors.by_size()] for kind in ("absolute", "relative")
    )
    assert absolute == sorted(absolute)
    assert relative == sorted(relative, reverse=True)


def test_what_makes_no_sense_is_refused():
    for how, message in (
        ({"shape": (3, 0)}, "shape must be a whole number of at least 1"),
        ({"shape": ()}, "1 to 10 attributes"),
        ({"shape": (3,), "number": 0}, "number must be"),
        ({"shape": (3,), "size": 0}, "size must be"),
    ):
        with pytest.raises(ConfigurationError, match=message):
            Workload.random(**how)
    workload = Workload.random((3,), number=5)
    for truth, shown, message in (
        ([[1, 2, 3]], [], "same number of units"),
        ([], [[1, 2, 3]], "same number of units"),
        ([], [], "at least one unit"),
        ([[1, 2, 3]], [[1, 2]], "same number of numbers"),
        ([[1, 2, 3]], [5], "same number of numbers"),
        ([[1, 2]], [[1, 2]], "3 numbers"),
    ):
        for ask in (workload.errors, workload.mean_absolute_error):
            with pytest.raises(InputError, match=message):
                ask(truth, shown)
    for sanity in (0, -1, math.inf, math.nan):
        with pytest.raises(ConfigurationError, match="sanity must be"):
            workload.errors([[1, 2, 3]], [[1, 2, 3]], sanity=sanity)
