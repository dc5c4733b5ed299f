"""Means, medians and James-Stein's estimate of growing groups, against lists."""

from __future__ import annotations

import statistics
from fractions import Fraction
from typing import get_args

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock.core.arrays import BoolArray, IntArray
from penstock.private.mechanisms import smoothers
from penstock.private.mechanisms.smoothers import MIN_TABLE_WIDTH, SHRUNK, Medians, Smoother

EVERY: list[Smoother] = list(get_args(Smoother))


def naive(smoother: Smoother, group: list[int]) -> Fraction:
    """The definition, in fractions."""
    if not group:
        return Fraction(0)
    mean = Fraction(sum(group), len(group))
    if smoother == "mean":
        return mean
    if smoother == "median":
        return Fraction(statistics.median(map(Fraction, group)))
    shrunk = (group[-1] - mean) / len(group) + mean
    return Fraction(shrunk * SHRUNK // 1, SHRUNK)


def estimates(state: smoothers.Means | Medians) -> list[Fraction]:
    value, divisor = state.smoothed()
    return [
        Fraction(a, b)
        for a, b in zip(value.tolist(), np.broadcast_to(divisor, value.shape).tolist(), strict=True)
    ]


def play(
    smoother: Smoother, stream: list[tuple[IntArray, BoolArray, BoolArray]], *, scale: int
) -> None:
    """Both at once, and after every unit the same."""
    keys = len(stream[0][0])
    state = smoothers.start(smoother, keys, scale=scale)
    groups: list[list[int]] = [[] for _ in range(keys)]
    for noisy, fresh, where in stream:
        state = state.add(noisy, fresh=fresh, where=where)
        for key in range(keys):
            before = [] if fresh[key] else groups[key]
            groups[key] = [*before, int(noisy[key])] if where[key] else before
        assert estimates(state) == [naive(smoother, group) for group in groups]
        assert state.length.tolist() == [len(group) for group in groups]


@pytest.mark.slow
@pytest.mark.parametrize("smoother", EVERY)
@given(
    seed=st.integers(0, 2**32),
    keys=st.integers(1, 5),
    units=st.integers(1, 80),
    spread=st.sampled_from([0, 1, 3, 40, 1_000, 2**50]),
    drift=st.sampled_from([0, 1, 50]),
    closing=st.sampled_from([0.0, 0.02, 0.3]),
    seen=st.sampled_from([0.5, 1.0]),
)
@example(seed=2, keys=4, units=300, spread=200, drift=0, closing=0.01, seen=1.0)
@example(seed=3, keys=4, units=300, spread=1, drift=3, closing=0.0, seen=1.0)
@settings(deadline=None, max_examples=100)
def test_a_smoother_is_what_it_says_of_a_list(
    smoother: Smoother,
    seed: int,
    keys: int,
    units: int,
    spread: int,
    drift: int,
    closing: float,
    seen: float,
) -> None:
    rng = np.random.default_rng(seed)
    stream = []
    for unit in range(units):
        noisy = np.clip(
            rng.integers(-spread, spread + 1, keys) + drift * unit * rng.choice([-1, 1], keys),
            -(2**50),
            2**50,
        )
        stream.append(
            (noisy, rng.random(keys) < (1 if unit == 0 else closing), rng.random(keys) < seen)
        )
    play(smoother, stream, scale=1)


def test_a_median_that_leaves_its_table_is_found_again() -> None:
    leaps = [0] * 20 + [10**6] * 30 + [-(10**6)] * 60 + [3, 3, 3]
    stream = [
        (np.array([value, -value]), np.full(2, unit == 0), np.ones(2, np.bool_))
        for unit, value in enumerate(leaps)
    ]
    play("median", stream, scale=1)


def test_the_papers_example() -> None:
    state = smoothers.start("median", 1, scale=1)
    released = []
    for noisy, fresh in ((56, True), (44, False), (67, False), (95, True), (102, True)):
        state = state.add(np.array([noisy]), fresh=np.array([fresh]), where=np.ones(1, np.bool_))
        released.append(estimates(state)[0] / 10)
    assert released == [Fraction("5.6"), 5, Fraction("5.6"), Fraction("9.5"), Fraction("10.2")]


@pytest.mark.parametrize("smoother", EVERY)
def test_a_number_that_was_never_seen_is_zero(smoother: Smoother) -> None:
    state = smoothers.start(smoother, 2, scale=1)
    state = state.add(np.array([7, 7]), fresh=np.ones(2, np.bool_), where=np.array([True, False]))
    assert estimates(state) == [7, 0]


def test_a_table_has_room_for_the_noise_within_limits() -> None:
    def width(scale: int) -> int:
        state = smoothers.start("median", 1, scale=scale)
        assert isinstance(state, Medians)
        return state.tables.width

    assert [width(scale) for scale in (0, 1, 12, 125, 10**9)] == [
        MIN_TABLE_WIDTH,
        MIN_TABLE_WIDTH,
        256,
        2048,
        2048,
    ]


def test_what_an_ended_group_has_left_behind_is_forgotten() -> None:
    state = smoothers.start("median", 1, scale=1)
    yes, no = np.ones(1, np.bool_), np.zeros(1, np.bool_)
    for unit in range(40):
        state = state.add(np.array([1000 * unit]), fresh=yes if unit == 0 else no, where=yes)
    assert isinstance(state, Medians)
    assert state.tables.far_value.any()
    state = state.add(np.array([5]), fresh=yes, where=yes)
    assert isinstance(state, Medians)
    assert not state.tables.far_value.any()
    assert not state.tables.counts.any()
