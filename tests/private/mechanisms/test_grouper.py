"""The deviation of groups, against lists and fractions."""

from __future__ import annotations

import copy
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock.budget.grid import Grid
from penstock.core.arrays import BoolArray, IntArray
from penstock.core.guarantee import Guarantee
from penstock.private.mechanisms.grouper import (
    FINENESS,
    MAX_DEVIATION,
    STABILITY,
    WIDTH,
    YOUNG,
    deviations,
    price_of,
)

REACHES = [0, 1, 4, 60, WIDTH, 20 * WIDTH, MAX_DEVIATION // 8, 2**50]


def deviation_of(counts: list[int]) -> int:
    """The definition, in fractions."""
    mean = Fraction(sum(counts), len(counts))
    return int(
        min(
            FINENESS * sum(abs(count - mean) for count in counts),
            Fraction(FINENESS * MAX_DEVIATION),
        )
    )


def stream_of(
    seed: int, *, keys: int, units: int, reaches: list[int], closing: float
) -> tuple[list[IntArray], list[BoolArray]]:
    """Counts that stay near a level for a while, by key, and where groups begin."""
    rng = np.random.default_rng(seed)
    level = rng.integers(0, 2**20, keys)
    counts, fresh = [], [np.ones(keys, np.bool_)]
    for _ in range(units):
        reach = np.array([reaches[index] for index in rng.integers(len(reaches), size=keys)])
        now = np.where(rng.random(keys) < 0.9, level, level + rng.integers(-reach, reach + 1))
        counts.append(np.clip(now + rng.integers(0, 3, keys), 0, 2**50))
        level = np.where(rng.random(keys) < 0.03, np.clip(now, 0, 2**50), level)
        fresh.append(rng.random(keys) < closing)
    return counts, fresh


@pytest.mark.slow
@given(
    seed=st.integers(0, 2**32),
    keys=st.integers(1, 5),
    units=st.integers(1, 90),
    reaches=st.lists(st.sampled_from(REACHES), min_size=1, max_size=3),
    closing=st.sampled_from([0.0, 0.02, 0.3]),
)
@example(seed=1, keys=3, units=200, reaches=REACHES, closing=0.01)
@settings(deadline=None, max_examples=150)
def test_the_fold_is_the_deviation_of_a_list(
    seed: int, keys: int, units: int, reaches: list[int], closing: float
) -> None:
    counts, fresh = stream_of(seed, keys=keys, units=units, reaches=reaches, closing=closing)
    groups: list[list[int]] = [[] for _ in range(keys)]
    secret: Any = None
    for now, opens in zip(counts, fresh, strict=False):
        secret, statistic = deviations(secret, now, fresh=opens)
        for key in range(keys):
            groups[key] = [int(now[key])] if opens[key] else [*groups[key], int(now[key])]
        assert statistic.tolist() == [deviation_of(group) for group in groups]


def test_a_unit_that_is_not_read_is_not_in_the_group() -> None:
    rng = np.random.default_rng(4)
    secret: Any = None
    groups: list[list[int]] = [[], [], []]
    for unit in range(80):
        read = rng.random(3) < 0.6
        fresh = read & ((rng.random(3) < 0.03) | np.array([not group for group in groups]))
        now = rng.integers(0, 50, 3)
        secret, statistic = deviations(secret, np.where(read, now, 0), fresh=fresh, where=read)
        for key in np.flatnonzero(read).tolist():
            groups[key] = [int(now[key])] if fresh[key] else [*groups[key], int(now[key])]
            assert statistic[key] == deviation_of(groups[key]), unit


@given(
    counts=st.lists(st.integers(0, 40) | st.integers(0, 2**41), min_size=1, max_size=30),
    at=st.integers(0, 29),
)
@settings(deadline=None, max_examples=300)
def test_one_event_changes_no_statistic_of_its_group_by_more_than_the_stability(
    counts: list[int], at: int
) -> None:
    at = min(at, len(counts) - 1)
    streams = np.array([counts, counts]).T
    streams[at, 1] += 1
    secret: Any = None
    for unit, now in enumerate(streams):
        secret, statistic = deviations(secret, now, fresh=np.full(2, unit == 0))
        assert abs(int(statistic[0] - statistic[1])) <= STABILITY


def test_the_stability_is_not_too_large_by_more_than_two() -> None:
    zeros = np.zeros((400, 2), np.int64)
    zeros[0, 1] = 1
    secret: Any = None
    for unit, now in enumerate(zeros):
        secret, statistic = deviations(secret, now, fresh=np.full(2, unit == 0))
    assert STABILITY - 3 <= int(statistic[1] - statistic[0]) <= STABILITY


def test_a_deviation_never_falls_while_a_group_grows() -> None:
    counts, _ = stream_of(11, keys=200, units=60, reaches=[4, 60, WIDTH], closing=0)
    secret: Any = None
    last = np.zeros(200, np.int64)
    for unit, now in enumerate(counts):
        secret, statistic = deviations(secret, now, fresh=np.full(200, unit == 0))
        assert (statistic >= last).all()
        last = statistic


def test_counts_and_what_a_short_group_has_left_behind_are_not_written_to() -> None:
    first, _ = deviations(None, np.array([3, 9]), fresh=np.ones(2, np.bool_))
    before = copy.deepcopy(first)
    counts = np.array([4, 0])
    for _ in range(2):  # from one state as often as one likes, while groups are short
        _, statistic = deviations(first, counts, fresh=np.zeros(2, np.bool_))
        assert statistic.tolist() == [FINENESS, 9 * FINENESS]
    assert counts.tolist() == [4, 0]
    for name, value in before.items():
        if isinstance(value, np.ndarray):
            np.testing.assert_array_equal(first[name], value)


@pytest.mark.parametrize("length", [YOUNG - 1, YOUNG, YOUNG + 1, 40])
def test_what_was_read_is_forgotten_when_a_group_begins(length: int) -> None:
    secret: Any = None
    for unit in range(length):
        secret, _ = deviations(
            secret, np.array([777_777 + 1000 * unit]), fresh=np.array([unit == 0])
        )
    for unit in range(YOUNG + 2):
        secret, _ = deviations(secret, np.array([5]), fresh=np.array([unit == 0]))
    assert secret["origin"].tolist() == [5]
    assert secret["total"].tolist() == [0]
    assert secret["tables"]["counts"].sum() == YOUNG + 2
    assert secret["tables"]["far"] == 0
    assert len(secret["tables"]["far_value"]) == 0


def test_the_price_is_half_for_the_threshold_and_a_quarter_for_a_question() -> None:
    budget = Grid.of(Guarantee("1", 1)).floor(Fraction(1, 5))
    price = price_of(budget)
    assert price.threshold == price.question * 2
    paid = price.threshold + price.question * 2
    assert 0 <= (budget - paid).quanta < 4
