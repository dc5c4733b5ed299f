"""Groups of keys under one shared ledger."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import penstock as ps
from penstock.testing import NoNoise, TestNoise

from tests.private.mechanisms.patterns import FAR, charged, play, worst_window

PAIRS = [
    (ps.BudgetDistribution, ps.GroupedDistribution),
    (ps.BudgetAbsorption, ps.GroupedAbsorption),
]
GROUPED = [ps.GroupedDistribution, ps.GroupedAbsorption]


@pytest.mark.parametrize(("single", "grouped"), PAIRS)
def test_one_group_without_caution_is_the_single_mechanism(
    single: type[ps.Mechanism], grouped: type[ps.Mechanism]
) -> None:
    rng = np.random.default_rng(3)
    one = single(epsilon=1, window=4).run(5, noise=NoNoise(), record=True)
    other = grouped(epsilon=1, window=4, groups=1, caution=0).run(5, noise=NoNoise(), record=True)
    for scale in rng.integers(1, 1000, 80):
        counts = rng.integers(0, scale, 5)
        assert one.step(counts).value.tolist() == other.step(counts).value.tolist()
    assert one.ledger == other.ledger


@pytest.mark.parametrize("cls", GROUPED)
def test_only_the_groups_that_moved_publish(cls: type[ps.Mechanism]) -> None:
    run = cls(epsilon=1, window=2, groups=2).run(["a", "b", "c", "d"], noise=NoNoise())
    first = run.step([FAR, FAR, 0, 0])
    assert np.asarray(first.repeated).tolist() == [False, False, True, True]
    assert first.value.tolist() == [FAR, FAR, 0, 0]
    assert np.isinf(first.variance).tolist() == [False, False, True, True]


@pytest.mark.parametrize("cls", GROUPED)
def test_a_person_who_moves_between_groups_is_charged_for_every_groups_publication(
    cls: type[ps.Mechanism],
) -> None:
    window = 4
    run = cls(epsilon=1, window=window, groups=4, regroup=1000).run(4, noise=NoNoise(), record=True)
    height = np.zeros(4, np.int64)
    for unit in range(
        40
    ):  # in every unit another group leaps: independent instances would spend 5/2 ε in a window
        height[unit % 4] += FAR
        run.step(height)
    assert sum(amount > 0 for amount in charged(run, "publish")) >= 20
    assert worst_window(charged(run, "publish"), window) <= Fraction(1, 2)
    assert run.account().kept


@pytest.mark.parametrize("cls", GROUPED)
def test_a_small_excess_is_not_worth_a_publication(cls: type[ps.Mechanism]) -> None:
    # First offer: 1/4. One of 50 groups of one key is 4 above its own noise of 4; all 50 keys'
    # noise is 200, 5 % of it 10.
    counts = np.zeros(50, np.int64)
    for height, repeated in ((14, True), (15, False)):
        counts[7] = height
        released = cls(epsilon=1, window=2, groups=50).run(50, noise=NoNoise()).step(counts)
        assert bool(np.all(released.repeated)) is repeated


@pytest.mark.parametrize("cls", GROUPED)
def test_groups_are_formed_from_the_size_of_what_was_released(cls: type[ps.Mechanism]) -> None:
    run = cls(epsilon=1, window=2, groups=2, regroup=3, caution=0).run(
        ["a", "b", "c", "d"], noise=NoNoise()
    )
    for _ in range(3):
        run.step([FAR, 0, FAR, 0])
    assert run._state.groups.of.tolist() == [1, 0, 1, 0]


@pytest.mark.parametrize(("single", "grouped"), PAIRS)
def test_grouping_pays_where_few_keys_move(
    single: type[ps.Mechanism], grouped: type[ps.Mechanism]
) -> None:
    rng = np.random.default_rng(11)
    still, busy = (
        rng.poisson(20, 180),
        400 + 300 * np.sin(np.arange(400)[:, None] / 9 + np.arange(20)),
    )
    errors = []
    for cls in (single, grouped):
        run = cls(epsilon=1, window=20, shift=False).run(200, noise=TestNoise(8))
        stream = (np.concatenate([still, np.round(now).astype(np.int64)]) for now in busy)
        errors.append(
            np.mean([np.abs(run.step(counts).value - counts).mean() for counts in stream])
        )
    assert errors[1] < 0.9 * errors[0]


@pytest.mark.parametrize("cls", GROUPED)
@pytest.mark.parametrize(
    "bad", [{"groups": 0}, {"regroup": -1}, {"caution": "-1"}, {"caution": 0.05}, {"groups": 2.5}]
)
def test_bad_parameters_are_refused(cls: type[ps.Mechanism], bad: dict[str, object]) -> None:
    with pytest.raises(ps.ConfigurationError):
        cls(epsilon=1, window=2, **bad)


@pytest.mark.parametrize("cls", GROUPED)
def test_shifting_works_in_groups_too(cls: type[ps.Mechanism]) -> None:
    run = play(cls(epsilon=1, window=3, shift=True), [True] * 9, keys=60)
    assert charged(run, "distance")[0] <= Fraction(1, 60)
    assert run.account().kept
