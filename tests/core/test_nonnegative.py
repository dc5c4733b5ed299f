"""Non-negative numbers against a general solver, and what must hold of totals and intervals."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls

from penstock.core.consistency import from_roots_down, make_consistent, onto_simplexes
from penstock.core.domain import Domain
from penstock.core.hierarchy import Hierarchy
from penstock.core.nonnegative import cut_interval, make_nonnegative, nonnegative_facts

CAMPUS = Hierarchy.of(
    {"r1": "A/f1", "r2": "A/f1", "r3": "A/f2", "lobby": "A", "b1": "B", "kiosk": ""}
)

HEAVY = 1e4

numbers = st.floats(-1000, 1000).map(lambda x: round(x, 3))
some_numbers = st.lists(numbers, min_size=1, max_size=7)


def solved(values: np.ndarray, total: float) -> np.ndarray:
    """The closest numbers from 0 with this sum: least squares from 0, with a heavy row for the sum.

    The sum is missed by about 1/HEAVY² of the distance.
    """
    rows = np.vstack([np.eye(len(values)), np.full(len(values), HEAVY)])
    found, _ = nnls(rows, np.append(values, HEAVY * total))
    return found


@settings(max_examples=60)
@given(values=some_numbers, total=st.floats(0, 2000).map(lambda x: round(x, 3)))
def test_a_family_is_projected_as_by_a_general_solver(values, total):
    given_ = np.array(values)
    found = onto_simplexes(given_, np.zeros(len(values), np.int64), np.array([total]))
    assert found.min() >= 0
    assert found.sum() == pytest.approx(total, abs=1e-8)
    assert found == pytest.approx(solved(given_, total), abs=1e-3)


@settings(max_examples=60)
@given(values=some_numbers, total=st.floats(0, 2000).map(lambda x: round(x, 3)))
def test_no_move_between_two_numbers_comes_closer(values, total):
    """The conditions of Karush, Kuhn and Tucker, which are exact where a solver is not."""
    given_ = np.array(values)
    found = onto_simplexes(given_, np.zeros(len(values), np.int64), np.array([total]))
    lost = given_ - found
    for taker in range(len(values)):
        for giver in np.flatnonzero(found > 0):
            assert lost[taker] <= lost[giver] + 1e-9


@given(data=st.data(), sizes=st.lists(st.integers(1, 5), min_size=1, max_size=5))
def test_many_families_are_projected_each_on_its_own(data, sizes):
    groups = np.repeat(np.arange(len(sizes)), sizes)
    values = np.array(data.draw(st.lists(numbers, min_size=len(groups), max_size=len(groups))))
    totals = np.array(
        data.draw(st.lists(st.floats(0, 500), min_size=len(sizes), max_size=len(sizes)))
    )
    mixed = np.array(data.draw(st.permutations(range(len(groups)))))
    found = onto_simplexes(values[mixed], groups[mixed], totals)
    for group, total in enumerate(totals):
        here = groups[mixed] == group
        alone = onto_simplexes(
            values[mixed][here], np.zeros(here.sum(), np.int64), np.array([total])
        )
        assert found[here] == pytest.approx(alone, abs=1e-8)


@settings(max_examples=50)
@given(data=st.data())
def test_parents_are_the_sums_of_their_children_digit_by_digit(data):
    size = CAMPUS.nodes.size
    estimate = np.array(data.draw(st.lists(numbers, min_size=size, max_size=size)))
    variance = np.array(data.draw(st.lists(st.floats(0.1, 50), min_size=size, max_size=size)))
    (found,) = make_nonnegative(CAMPUS.nodes, estimate[None], variance[None])
    assert found.min() >= 0
    parts = np.rint(found * 1e6).astype(np.int64)
    sums = np.bincount(CAMPUS.parents[CAMPUS.parents >= 0], parts[CAMPUS.parents >= 0], size)
    assert (parts == np.where(CAMPUS.inner, sums, parts)).all()
    roots = CAMPUS.parents < 0
    fitted = make_consistent(CAMPUS, estimate, variance)
    assert found[roots] == pytest.approx(np.maximum(fitted[roots], 0), abs=1e-5)


@settings(max_examples=50)
@given(data=st.data())
def test_each_level_is_as_close_as_its_totals_allow(data):
    size = CAMPUS.nodes.size
    fitted = make_consistent(
        CAMPUS,
        np.array(data.draw(st.lists(numbers, min_size=size, max_size=size))),
        np.ones(size),
    )
    found = from_roots_down(CAMPUS, fitted)
    for node in np.flatnonzero(CAMPUS.inner):
        below = CAMPUS.parents == node
        wanted = solved(fitted[below], found[node])
        assert found[below] == pytest.approx(wanted, abs=1e-3)


def test_numbers_that_are_consistent_and_not_negative_stay():
    totals = CAMPUS.nodes.totals(np.array([3, 0, 5, 2, 0, 7])).astype(float)
    assert make_nonnegative(CAMPUS.nodes, totals[None])[0].tolist() == totals.tolist()
    keys = np.array([[3.0, 0.0, 5.0, 2.0, 0.0, 7.0]])
    assert make_nonnegative(CAMPUS, keys).tolist() == keys.tolist()


def test_keys_in_a_hierarchy_keep_the_sums_of_what_was_released():
    keys = np.array([[9.0, -4.0, -2.0, 1.0, -6.0, -1.0]])
    (found,) = make_nonnegative(CAMPUS, keys)
    assert found.min() >= 0
    assert found[:4].sum() == pytest.approx(4)  # building A
    assert found[:2].sum() <= 5  # its floor 1
    assert found[4:].tolist() == [0, 0]


def test_without_a_hierarchy_each_number_is_cut():
    found = make_nonnegative(Domain.of(["a", "b"]), np.array([[-3.0, 4.5], [0.0, -0.1]]))
    assert found.tolist() == [[0, 4.5], [0, 0]]
    assert nonnegative_facts(None)["method"] == "cut at 0"
    assert "keeps the totals" in nonnegative_facts(CAMPUS.nodes)["method"]


def test_numbers_of_nodes_that_were_not_released_are_filled_from_the_totals():
    tree = Hierarchy.of({"a": "x", "b": "x"})
    found = make_nonnegative(
        tree.nodes, np.array([[10.0, 0.0, 4.0]]), np.array([[1.0, np.inf, 1.0]])
    )
    assert found.tolist() == [[10, 6, 4]]
    nothing = make_nonnegative(tree.nodes, np.zeros((1, 3)), np.full((1, 3), np.inf))
    assert nothing.tolist() == [[0, 0, 0]]
    unknown = make_nonnegative(tree.nodes, np.array([[10.0, 3.0, 4.0]]), np.full((1, 3), np.nan))
    assert unknown.tolist() == [[9, 4, 5]]


@given(value=st.floats(0, 100), low=st.floats(-100, 100), length=st.floats(0, 100), count=numbers)
def test_a_cut_interval_holds_its_number_and_every_count_that_the_whole_one_held(
    value, low, length, count
):
    high = low + length
    cut_low, cut_high = (
        float(end) for end in cut_interval(np.float64(value), np.float64(low), np.float64(high))
    )
    assert 0 <= cut_low <= value <= cut_high
    if count >= 0 and low <= count <= high:
        assert cut_low <= count <= cut_high


def test_an_unknown_interval_stays_unknown():
    low, high = cut_interval(np.array([0.0]), np.array([np.nan]), np.array([np.nan]))
    assert np.isnan(low).all()
    assert np.isnan(high).all()


def test_no_units_are_no_rows():
    assert make_nonnegative(CAMPUS.nodes, np.zeros((0, CAMPUS.nodes.size))).shape == (0, 10)
    assert make_nonnegative(CAMPUS, np.zeros((0, 6))).shape == (0, 6)
