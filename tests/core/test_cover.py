"""Covers and groups against the plainest possible code."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.cover import ALL, EACH, Cover, Groups
from penstock.core.errors import ConfigurationError


@st.composite
def labelled(draw):
    """Labels in which every group from 0 to the largest has a key, and values beside them."""
    number = draw(st.integers(1, 6))
    rest = draw(st.lists(st.integers(0, number - 1), max_size=12))
    labels = draw(st.permutations(list(range(number)) + rest))
    values = draw(
        st.lists(st.integers(-(2**50), 2**50), min_size=len(labels), max_size=len(labels))
    )
    return np.array(labels), np.array(values)


@given(labelled())
@settings(derandomize=True, deadline=None)
def test_sums_and_sizes_are_those_of_a_loop(case):
    labels, values = case
    groups = Groups.from_labels(labels)
    expected = [0] * (int(labels.max()) + 1)
    for label, value in zip(labels.tolist(), values.tolist(), strict=True):
        expected[label] += value
    assert groups.sums(values).tolist() == expected
    assert groups.sizes.tolist() == [labels.tolist().count(label) for label in range(len(expected))]
    assert groups.number == len(expected)
    assert int(groups.sizes.sum()) == len(labels)


@given(st.integers(1, 60), st.data())
@settings(derandomize=True, deadline=None)
def test_groups_from_ranks_are_even_and_in_the_order_of_rank(size, data):
    number = data.draw(st.integers(1, size))
    ranks = np.array(data.draw(st.permutations(range(size))))
    groups = Groups.from_ranks(ranks, number)
    assert groups.number == number
    assert int(groups.sizes.max()) - int(groups.sizes.min()) <= 1
    by_rank = groups.of[np.argsort(ranks)]
    assert (np.diff(by_rank) >= 0).all()


def test_covers_say_which_keys_a_number_reads():
    chosen = np.array([True, False])
    grouped = Groups.from_labels(np.array([1, 0, 1])).cover
    assert EACH.keys(chosen) is chosen
    assert grouped.keys(chosen).tolist() == [False, True, False]
    assert grouped.spread(np.array([5, 7])).tolist() == [7, 5, 7]
    assert EACH.spread(np.array([5, 7])).tolist() == [5, 7]


def test_one_number_over_all_keys_cannot_be_chosen_in_part():
    with pytest.raises(ConfigurationError, match="every key"):
        ALL.keys(np.array([True]))


def test_a_key_is_read_by_one_number_at_most():
    cover = Cover(np.array([0, 0, 1]))
    read = sum(cover.keys(np.arange(2) == number).astype(int) for number in range(2))
    assert read.tolist() == [1, 1, 1]


@pytest.mark.parametrize("labels", [[0, 2], [1, 1], [-1, 1], [0, 3, 3, 1]])
def test_a_group_without_a_key_is_refused(labels):
    with pytest.raises(
        ConfigurationError, match="every group, from 0 to the last, must have a key"
    ):
        Groups.from_labels(np.array(labels))


def test_keys_may_be_in_no_group():
    groups = Groups.from_labels(np.array([-1, 1, 0, -1, 1]))
    assert groups.sums(np.array([9, 1, 2, 9, 3])).tolist() == [2, 4]
