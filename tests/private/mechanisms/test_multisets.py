"""Multisets in tables, against lists."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.private.mechanisms.multisets import Multisets


def members(sets: Multisets, key: int) -> list[int]:
    row = sets.counts[key]
    _, listed = sets.listed(np.array([key]))
    return sorted(np.repeat(sets.base[key] + np.arange(sets.width), row).tolist() + listed.tolist())


@given(
    values=st.lists(
        st.tuples(st.integers(0, 2), st.integers(-40, 40) | st.integers(-(2**50), 2**50)),
        max_size=60,
    ),
    cleared=st.sets(st.integers(0, 2)),
)
@settings(deadline=None, max_examples=100)
def test_nothing_is_lost_and_what_is_cleared_is_gone(
    values: list[tuple[int, int]], cleared: set[int]
) -> None:
    sets = Multisets.empty(3, 16)
    sets.place(np.arange(3), np.zeros(3, np.int64))
    half = len(values) // 2
    for part in (values[:half], values[half:]):
        if part:
            keys, numbers = np.array(part, np.int64).T
            sets.add(keys, numbers)
    for key in range(3):
        assert members(sets, key) == sorted(value for of, value in values if of == key)
    sets.clear(np.array(sorted(cleared), np.int64))
    for key in range(3):
        assert members(sets, key) == sorted(
            value for of, value in values if of == key and key not in cleared
        )


@given(
    values=st.lists(st.integers(-60, 60), min_size=1, max_size=20),
    beside=st.lists(st.integers(-60, 60), max_size=20),
    start=st.integers(-64, 63),
    step=st.sampled_from([-1, 1]),
)
@settings(deadline=None, max_examples=300)
def test_the_next_value_is_found_in_the_keys_own_table(
    values: list[int], beside: list[int], start: int, step: int
) -> None:
    sets = Multisets.empty(3, 128)
    sets.place(np.arange(3), np.zeros(3, np.int64))
    sets.add(
        np.array([1] * len(values) + [0] * len(beside) + [2] * len(beside)),
        np.array(values + beside + beside),
    )
    result, found = sets.next(np.array([1]), np.array([start]), step)
    expected = [value for value in values if (value - start) * step > 0]
    assert found.tolist() == [bool(expected)]
    if expected:
        assert result.tolist() == [min(expected, key=lambda value: abs(value - start))]


def test_a_table_that_is_laid_anew_holds_the_same_numbers() -> None:
    sets = Multisets.empty(2, 16)
    sets.place(np.arange(2), np.zeros(2, np.int64))
    values = np.array([-3, 0, 0, 5, 90, 95, 1000])
    sets.add(np.ones(7, np.int64), values)
    assert (sets.far, sets.at(np.array([1]), np.array([0])).tolist()) == (3, [2])
    sets.clear(np.array([1]))
    assert not sets.far_value.any()
    sets.compact()
    assert (sets.far, len(sets.far_key)) == (0, 0)
    sets.place(np.array([1]), np.array([92]))
    sets.add(np.ones(7, np.int64), values)
    assert members(sets, 1) == values.tolist()
    assert sets.covers(np.array([1, 1]), np.array([90, 0])).tolist() == [True, False]
    assert members(sets, 0) == []


def test_all_values_come_with_the_places_of_their_keys() -> None:
    sets = Multisets.empty(3, 16)
    sets.place(np.arange(3), np.array([0, 0, 500]))
    keys, values = np.array([2, 0, 2, 1, 2, 0]), np.array([499, -7, 499, 3, 9, 10**6])
    sets.add(keys, values)
    which, found = sets.values(np.array([2, 0]))
    assert sorted(zip(which.tolist(), found.tolist(), strict=True)) == [
        (0, 9),
        (0, 499),
        (0, 499),
        (1, -7),
        (1, 10**6),
    ]


def test_the_list_does_not_grow_by_what_was_forgotten() -> None:
    sets, only = Multisets.empty(1, 16), np.array([0])
    sets.place(only, only)
    for value in range(1000, 3000):
        sets.add(np.array([0, 0]), np.array([value, -value]))
        sets.clear(only)
    assert len(sets.far_key) <= 8


def test_there_are_no_rows_before_a_key_is_placed() -> None:
    assert Multisets.empty(10_000, 512).counts.nbytes == 0
