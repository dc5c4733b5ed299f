from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from penstock.core.weights import Weights
from penstock.lab.audit.attack import OutputEvent, add, cells, choose
from penstock.lab.audit.classifier import learn
from penstock.lab.audit.model import Look, Pair, Traces
from penstock.lab.audit.pairs import standard


def traces(
    values: list[list[list[int]]],
    fresh: list[list[list[bool]]],
    seen: list[list[int]] | None = None,
) -> Traces:
    return Traces(np.array(values), np.array(fresh), None if seen is None else np.array(seen))


YES, NO = True, False


def test_cells_on_traces_made_by_hand() -> None:
    # the streams differ in unit 1 (5 and 4) and nowhere else; key 2 never differs and is not spelt
    pair = Pair("by hand", np.array([[5, 7], [9, 7]]), np.array([[4, 7], [9, 7]]))
    runs = traces(
        [[[4, 0], [9, 0]], [[5, 0], [5, 0]], [[3, 0], [8, 0]], [[0, 0], [99, 0]], [[4, 1], [1, 1]]],
        [
            [[YES] * 2, [YES] * 2],
            [[YES] * 2, [NO] * 2],
            [[YES] * 2, [YES] * 2],
            [[NO] * 2, [YES] * 2],
            [[YES] * 2, [YES] * 2],
        ],
    )
    assert cells(runs, pair) == {"<|=|": 3, ">|-|": 1, "-|=|": 1}


def test_cells_are_the_same_with_the_streams_swapped() -> None:
    pair = Pair("by hand", np.array([[5], [2]]), np.array([[4], [3]]))
    rng = np.random.default_rng(1)
    runs = Traces(rng.integers(0, 8, (500, 2, 1)), rng.random((500, 2, 1)) < 0.7)
    assert cells(runs, pair) == cells(runs, pair.swapped())
    assert sum(cells(runs, pair).values()) == 500


def test_every_key_is_spelt_where_nothing_differs() -> None:
    same = np.array([[1, 2]])
    assert cells(traces([[[0, 0]]], [[[YES, NO]]]), Pair("same", same, same)) == {"=-|": 1}


def test_a_look_spells_what_it_saw() -> None:
    # one event comes after the look, on the left only: release − seen is 1 on the left and 0 on the
    # right
    look = Look(1, np.array([10]), np.array([10]))
    pair = Pair("looked into", np.array([[11]]), np.array([[10]]), look)
    runs = traces(
        [[[13]], [[12]], [[30]], [[0]], [[7]]],
        [[[YES]], [[YES]], [[YES]], [[NO]], [[YES]]],
        [[12], [12], [12], [3], [6]],
    )
    assert cells(runs, pair) == {">|≥L": 1, ">|≥R": 1, ">|≥?": 1, "-|≤-": 1, "<|≤L": 1}


def test_a_float_shows_its_grain() -> None:
    pair = Pair("floats", np.array([[1]]), np.array([[0]]))
    values = np.array([[[0.75]], [[0.3 * 2**-30]], [[-0.5]]])
    found = cells(Traces(values, np.ones((3, 1, 1), np.bool_)), pair)
    assert sum(found.values()) == 3
    assert ">fine3|" in found
    assert ">coarse0|" in found
    assert "<coarse0|" in found


def test_the_counts_before_smoothing_are_compared_where_they_are_shown() -> None:
    pair = Pair("smoothed", np.array([[1], [0]]), np.array([[0], [0]]))
    public = {
        "noisy": np.array([[[0], [9]], [[1], [9]]]),
        "start": np.array([[[1], [1]], [[1], [2]]]),
    }
    seen = Traces(np.full((2, 2, 1), 5), np.ones((2, 2, 1), np.bool_), None, public, "median")
    assert cells(seen, pair) == {"<+|=|": 1, ">+|=+|": 1}
    assert cells(seen, pair, everywhere=False) == {"<||": 1, ">||": 1}


def test_every_other_thing_that_is_shown_has_its_own_mark() -> None:
    pair = Pair("marks", np.array([[1]]), np.array([[0]]))
    public = {
        "one": np.array([[[0]], [[1]], [[0]], [[1]]]),
        "two": np.array([[[0]], [[0]], [[1]], [[1]]]),
    }
    seen = Traces(np.zeros((4, 1, 1), np.int64), np.ones((4, 1, 1), np.bool_), None, public)
    assert cells(seen, pair) == {"<|": 1, "<+|": 1, "<++|": 1, "<+++|": 1}


def test_a_group_is_compared_with_its_sum() -> None:
    # the streams differ in unit 2; run 1 publishes units 2 and 3 together, run 2 each unit by
    # itself
    pair = Pair("groups", np.array([[3], [4], [3]]), np.array([[3], [3], [3]]))
    fresh = np.array([[[YES], [NO], [YES]], [[YES], [YES], [YES]]])
    public = {"divisor": np.array([[[1], [1], [2]], [[1], [1], [1]]])}
    seen = Traces(np.array([[[3], [3], [6]], [[3], [9], [3]]]), fresh, None, public)
    assert cells(seen, pair) == {"=|-|↓|": 1, "=|↑|=|": 1}


def test_a_window_is_compared_with_its_sum() -> None:
    pair = Pair("windows", np.array([[3], [4], [3], [3]]), np.array([[3], [3], [3], [3]]))
    values = np.array([[[3], [6], [7], [6]], [[3], [7], [6], [6]]])
    seen = Traces(values, np.ones((2, 4, 1), np.bool_), weights=Weights.window(2))
    assert cells(seen, pair) == {"=|↓|↑|=|": 1, "=|↑|↓|=|": 1}


def test_a_divisor_of_a_median_is_only_a_finer_grid() -> None:
    pair = Pair("medians", np.array([[3], [4]]), np.array([[3], [3]]))
    public = {"divisor": np.full((2, 2, 1), 2)}
    seen = Traces(
        np.array([[[6], [6]], [[6], [7]]]), np.ones((2, 2, 1), np.bool_), None, public, "median"
    )
    assert cells(seen, pair) == {"=|<|": 1, "=|>|": 1}


def test_a_classifier_learns_from_what_else_is_shown() -> None:
    rng = np.random.default_rng(2)

    def runs(mean: int) -> Traces:
        nothing, hint = np.zeros((500, 1, 1), np.int64), rng.integers(mean, mean + 2, (500, 1, 1))
        return Traces(nothing, nothing == 0, None, {"hint": hint})

    train = runs(0), runs(2)
    assert not learn(train).cells(runs(0)).keys() & learn(train).cells(runs(2)).keys()


def test_counts_are_added() -> None:
    assert add({"a": 1, "b": 2}, {"b": 3, "c": 4}) == {"a": 1, "b": 5, "c": 4}
    assert add({}, {}) == {}


@pytest.mark.parametrize("swapped", [False, True])
def test_an_obvious_event_is_found_in_either_direction(swapped: bool) -> None:
    likely, rare = {"<|": 100, ">|": 900}, {"<|": 700, ">|": 100, "-|": 200}
    # the higher of the two ratios: ln(900/100) for ">|" against ln(900/100) for "<|" or "-|" the
    # other way round
    one, other = (rare, likely) if swapped else (likely, rare)
    bound, event = choose(one, other, confidence=0.99)
    assert (bound, event) == choose(one, other, confidence=0.99)
    assert bound > 1
    assert event.cells in ({">|"}, {"<|", "-|"}, {"-|"})
    left, right = (other, one) if event.swapped else (one, other)
    assert event.hits(left) > 2 * event.hits(right)


@pytest.mark.parametrize("swapped", [False, True])
def test_the_direction_is_the_one_with_the_higher_ratio(swapped: bool) -> None:
    one, other = {"a": 500, "b": 9_500}, {"a": 5, "b": 9_995}
    assert choose(*((other, one) if swapped else (one, other)), confidence=0.99)[1] == OutputEvent(
        frozenset("a"), swapped
    )


def test_nothing_is_found_where_nothing_differs() -> None:
    same = {"a": 500, "b": 500}
    assert choose(same, same, confidence=0.99)[0] == 0.0


def test_cells_that_were_hardly_seen_are_not_preferred() -> None:
    left, right = {"often": 6_000, "once": 1, "else": 3_999}, {"often": 1_000, "else": 9_000}
    assert "often" in choose(left, right, confidence=0.999)[1].cells


def test_a_classifier_tells_two_streams_apart() -> None:
    rng = np.random.default_rng(4)

    def draw(mean: float, runs: int) -> Traces:
        return Traces(
            np.rint(rng.laplace(mean, 1, (runs, 2, 1))).astype(np.int64),
            np.ones((runs, 2, 1), np.bool_),
        )

    train = draw(2, 2_000), draw(0, 2_000)
    left, right = learn(train).cells(draw(2, 2_000)), learn(train).cells(draw(0, 2_000))
    assert sum(left.values()) == sum(right.values()) == 2_000
    _, event = choose(left, right, confidence=0.99)
    hits, misses = (
        event.hits(each) for each in ((right, left) if event.swapped else (left, right))
    )
    assert hits > 4 * misses


def test_the_score_of_a_trace_does_not_depend_on_the_traces_beside_it() -> None:
    """Else a cell would say which stream the whole chunk came from, and honest mechanisms would be
    convicted.
    """
    rng = np.random.default_rng(5)

    def draw(mean: float, runs: int) -> Traces:
        return Traces(
            rng.laplace(mean, 2, (runs, 2, 1)), np.ones((runs, 2, 1), np.bool_)
        )  # floats: no score lies on an edge

    train, trial = (draw(1, 500), draw(0, 500)), draw(1, 300)
    together = learn(train).cells(trial)
    alone: dict[str, int] = {}
    for at in range(len(trial)):
        alone = add(
            alone, learn(train).cells(Traces(trial.values[at : at + 1], trial.fresh[at : at + 1]))
        )
    assert alone == together


def spelt(values: np.ndarray, fresh: np.ndarray, pair: Pair) -> str:
    """One run's cell, letter by letter: the naive twin."""
    word = ""
    for unit in range(pair.units):
        for key in range(pair.keys):
            left, right = pair.left[unit, key], pair.right[unit, key]
            if (pair.left[:, key] == pair.right[:, key]).all():
                continue
            if not fresh[unit, key]:
                word += "-"
            elif left == right:
                word += "="
            else:
                word += ">" if values[unit, key] > min(left, right) else "<"
        word += "|"
    return word


@pytest.mark.parametrize("window", [1, 3, 12, 40])
def test_cells_are_what_a_naive_twin_spells(window: int) -> None:
    rng = np.random.default_rng(window)
    for pair in standard(window=window, keys=2, epsilon=1.0):
        runs = Traces(
            rng.integers(-2, 3, (40, pair.units, 2)) + pair.right,
            rng.random((40, pair.units, 2)) < 0.5,
        )
        twin = Counter(
            spelt(values, fresh, pair)
            for values, fresh in zip(runs.values, runs.fresh, strict=True)
        )
        assert cells(runs, pair) == twin, pair.name
