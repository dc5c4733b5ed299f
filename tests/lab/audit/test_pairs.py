from __future__ import annotations

import numpy as np
import pytest

from penstock.core.errors import ConfigurationError
from penstock.lab.audit.model import Look, Pair
from penstock.lab.audit.pairs import looked_at, standard
from penstock.lab.audit.subjects import subject
from penstock.testing import TestNoise


@pytest.mark.parametrize("contribution", [1, 3])
@pytest.mark.parametrize("keys", [1, 2, 5])
@pytest.mark.parametrize("window", [1, 2, 3, 7])
def test_standard_pairs_are_neighbouring(window: int, keys: int, contribution: int) -> None:
    pairs = list(
        standard(window=window, keys=keys, epsilon=1.0, contribution=contribution, seed=window)
    )
    assert len(pairs) >= 8
    assert len({pair.name for pair in pairs}) == len(pairs)
    for pair in pairs:
        assert pair.is_neighbouring(window=window, contribution=contribution), pair.name
        assert pair.swapped().is_neighbouring(window=window, contribution=contribution), pair.name
        assert (pair.left != pair.right).any(), pair.name
        assert (pair.left >= 0).all(), pair.name
        assert (pair.right >= 0).all(), pair.name
        assert pair.keys == keys
        assert pair.units == (window if pair.name.startswith("user level") else window + 2)


@pytest.mark.parametrize("keys", [1, 2, 5])
def test_streams_hover_at_the_distance_that_was_told(keys: int) -> None:
    plain, near = (
        list(standard(window=4, keys=keys, epsilon=1.0)),
        list(standard(window=4, keys=keys, epsilon=1.0, near=7)),
    )
    hovering = [pair for pair in near if pair.name.startswith("hovering")]
    assert len(hovering) == len(near) - len(plain) == 4
    for pair in hovering:
        assert pair.is_neighbouring(window=4, contribution=1)
        assert (pair.right >= 0).all()
        assert np.abs(pair.right[1] - pair.right[0]).sum() == 7


def test_a_person_moves_a_hovering_stream_away_and_nearer_by_turns() -> None:
    (pair,) = (
        pair
        for pair in standard(window=4, keys=2, epsilon=1.0, near=6)
        if pair.name.startswith("hovering above and below")
    )
    with_person, without = (
        np.abs(stream - stream[0]).sum(axis=1)[2:] for stream in (pair.left, pair.right)
    )
    assert (with_person - without).tolist() == [1, -1, 1, -1]


@pytest.mark.parametrize("contribution", [1, 2])
def test_at_user_level_the_person_stays_beyond_what_is_read(contribution: int) -> None:
    for pair in standard(
        window=3, keys=2, epsilon=1.0, contribution=contribution, near=5, user_level=True
    ):
        there = np.abs(pair.left - pair.right).sum(axis=1)
        assert there.tolist() == [contribution] * pair.units, pair.name
        assert pair.units == (3 if pair.name.startswith("user level") else 5)


@pytest.mark.parametrize(
    ("name", "window"),
    [
        ("dsft", None),
        ("dsat", None),
        ("dsft", 2),
        ("dsat", 3),
        ("dsft@user", None),
        ("dsat@user", 3),
    ],
)
def test_an_audit_hears_both_answers(name: str, window: int | None) -> None:
    named = subject(name, window=window)
    hovering = next(pair for pair in named.pairs if pair.name.startswith("hovering"))
    answers = set()
    for seed in range(30):
        run = named.mechanism.run(2, noise=TestNoise(seed), record=True)
        for counts in hovering.left:
            run.step(counts)
        kinds = {line.kind for line in run.ledger}
        answers.add(("ask" in kinds, "yes" in kinds))
    assert {(True, True), (True, False)} <= answers


def test_only_known_forms_come_after_a_name() -> None:
    with pytest.raises(ConfigurationError, match="MECHANISM@user"):
        subject("dsft@event")
    with pytest.raises(ConfigurationError, match="dsft has no delta"):
        subject("dsft@delta")


def test_at_user_level_a_person_is_in_every_unit() -> None:
    (pair,) = (
        pair
        for pair in standard(window=5, keys=2, epsilon=1.0)
        if pair.name.startswith("user level")
    )
    assert (pair.left != pair.right).any(axis=1).all()


@pytest.mark.parametrize("window", [2, 4])
def test_a_person_fills_the_window_and_changes_key_in_every_unit(window: int) -> None:
    there = [pair.left - pair.right for pair in standard(window=window, keys=2, epsilon=1.0)]
    assert any(np.count_nonzero(each.any(axis=1)) == window for each in there)
    moving = [
        each.argmax(axis=1)[each.any(axis=1)]
        for each in there
        if np.count_nonzero(each.any(axis=1)) == window
    ]
    assert any((np.diff(keys) != 0).all() for keys in moving)


def test_more_than_a_person_is_not_neighbouring() -> None:
    base = np.zeros((4, 2), np.int64)

    def pair(*cells: tuple[int, int, int]) -> Pair:
        left = base.copy()
        for unit, key, count in cells:
            left[unit, key] += count
        return Pair("made by hand", left, base)

    assert pair().is_neighbouring(window=1, contribution=1)
    assert pair((0, 0, 1), (1, 1, 1)).is_neighbouring(window=2, contribution=1)
    assert not pair((0, 0, 1), (1, 1, 1)).is_neighbouring(
        window=1, contribution=1
    )  # a unit too long
    assert not pair((0, 0, 1), (3, 1, 1)).is_neighbouring(window=3, contribution=1)  # a gap counts
    assert not pair((0, 0, 1), (0, 1, 1)).is_neighbouring(
        window=2, contribution=1
    )  # two keys at once
    assert pair((0, 0, 1), (0, 1, 1)).is_neighbouring(window=2, contribution=2)
    assert not pair((0, 0, 2)).is_neighbouring(window=2, contribution=1)
    assert not pair((0, 0, 1), (0, 1, -1)).is_neighbouring(
        window=1, contribution=2
    )  # a replacement counts twice


def test_streams_of_different_shapes_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="same units and keys"):
        Pair("odd", np.zeros((2, 1), np.int64), np.zeros((1, 2), np.int64))


def test_the_same_seed_gives_the_same_random_pairs() -> None:
    one, two, other = (
        list(standard(window=2, keys=2, epsilon=1.0, seed=seed)) for seed in (1, 1, 2)
    )
    assert all(
        (a.left == b.left).all() and (a.right == b.right).all()
        for a, b in zip(one, two, strict=True)
    )
    assert any((a.right != b.right).any() for a, b in zip(one, other, strict=True))


def test_swapping_twice_changes_nothing_but_the_name() -> None:
    left, right = np.array([[3]]), np.array([[2]])
    pair = Pair("one", left, right, Look(1, left, right))
    assert pair.look is not None
    once, twice = pair.swapped(), pair.swapped().swapped()
    assert once.look is not None
    assert twice.look is not None
    assert once.left is right
    assert once.look.left is right
    assert twice.left is left
    assert twice.look.left is left


def test_a_look_falls_into_the_first_unit_in_which_the_streams_differ() -> None:
    for pair in standard(window=2, keys=2, epsilon=1.0):
        seen = looked_at(pair).look
        assert seen is not None
        assert (seen.left != seen.right).any()
        assert (pair.left[: seen.unit - 1] == pair.right[: seen.unit - 1]).all()
