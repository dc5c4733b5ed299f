"""Budgets of `bd` and `ba`: the paper's examples, all patterns of publishing and skipping, budget
shifting.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import penstock as ps
from penstock.core.released import Released
from penstock.private.mechanisms.shares import SIGNIFICANT_BITS, Shifting
from penstock.testing import NoNoise, TestNoise

from tests.private.mechanisms.patterns import charged, play, worst_window

EPSILON = Fraction(7, 5)
WINDOWS = [1, 2, 3, 4, pytest.param(5, marks=pytest.mark.nightly)]


def test_bd_spends_as_in_the_papers_example() -> None:
    run = play(
        ps.BudgetDistribution(epsilon=EPSILON, window=3), [True, False, True, True, False, False]
    )
    shares = [Fraction(1, 4), 0, Fraction(1, 8), Fraction(3, 16), 0, 0]
    assert charged(run, "publish") == [share * EPSILON for share in shares]
    assert charged(run, "distance") == [EPSILON / 6] * 6


def test_ba_spends_as_in_the_papers_example() -> None:
    run = play(
        ps.BudgetAbsorption(epsilon=EPSILON, window=3), [True, False, True, True, True, False]
    )
    shares = [Fraction(1, 6), 0, Fraction(1, 3), 0, Fraction(1, 6), 0]
    assert charged(run, "publish") == [share * EPSILON for share in shares]
    assert charged(run, "distance") == [
        EPSILON / 6 if unit != 4 else 0 for unit in range(1, 7)
    ]  # unit 4 is nullified


@pytest.mark.slow
@pytest.mark.parametrize("window", WINDOWS)
def test_bd_keeps_to_half_of_epsilon_whatever_is_published(window: int) -> None:
    mechanism = ps.BudgetDistribution(epsilon=EPSILON, window=window)
    worst = Fraction(0)
    for pattern in product([False, True], repeat=2 * window + 2):
        run = play(mechanism, pattern)
        spent = charged(run, "publish")
        for unit, (leap, amount) in enumerate(zip(pattern, spent, strict=True)):
            left = EPSILON / 2 - sum(spent[max(0, unit - window + 1) : unit])
            assert amount == (_rounded_down(left / 2, EPSILON) if leap else 0)
        worst = max(worst, worst_window(spent, window))
        assert run.account().kept
    assert worst == (1 - Fraction(1, 2**window)) / 2 * EPSILON


@pytest.mark.slow
@pytest.mark.parametrize("window", WINDOWS)
def test_ba_keeps_to_half_of_epsilon_whatever_is_published(window: int) -> None:
    mechanism = ps.BudgetAbsorption(epsilon=EPSILON, window=window)
    share = EPSILON / (2 * window)
    worst = Fraction(0)
    for pattern in product([False, True], repeat=2 * window + 2):
        run = play(mechanism, pattern)
        spent = charged(run, "publish")
        assert spent == _absorbed(pattern, window, share)
        worst = max(worst, worst_window(spent, window))
        assert run.account().kept
    assert worst == window * share


def _rounded_down(amount: Fraction, whole: Fraction) -> Fraction:
    """The largest m/2^k of the whole, m below 2^SIGNIFICANT_BITS, that is not above the amount: by
    trying.
    """
    return whole * SHARES[bisect_right(SHARES, amount / whole) - 1]


SHARES = sorted({Fraction(m, 2**k) for k in range(25) for m in range(1, 2**SIGNIFICANT_BITS)})


def _absorbed(pattern: tuple[bool, ...], window: int, share: Fraction) -> list[Fraction]:
    """The paper's figure 4, line by line."""
    spent: list[Fraction] = []
    last, last_spent = 0, share  # as if a publication of one share had stood at unit 0
    for unit, leap in enumerate(pattern, start=1):
        to_nullify = last_spent / share - 1
        if unit - last <= to_nullify or not leap:
            spent.append(Fraction(0))
            continue
        to_absorb = unit - (last + to_nullify)
        last, last_spent = unit, share * min(to_absorb, window)
        spent.append(last_spent)
    return spent


@pytest.mark.parametrize("cls", [ps.BudgetDistribution, ps.BudgetAbsorption])
def test_shifting_leaves_more_to_publications(cls: type[ps.BudgetDistribution]) -> None:
    plain = play(cls(epsilon=1, window=3, shift=False), [True] * 9, keys=60)
    shifted = play(cls(epsilon=1, window=3, shift=True), [True] * 9, keys=60)
    assert charged(shifted, "distance")[0] <= Fraction(1, 60) < charged(plain, "distance")[0]
    assert worst_window(charged(shifted, "publish"), 3) > worst_window(charged(plain, "publish"), 3)
    assert shifted.account().kept
    assert shifted.account().worst > Fraction(9, 10) if cls is ps.BudgetAbsorption else True


def test_shifting_needs_twice_as_many_keys_as_units() -> None:
    with pytest.raises(ps.ConfigurationError, match=r"at least 2·window = 20 keys, not 19"):
        ps.BudgetAbsorption(epsilon=1, window=10, shift=True).run(19)
    ps.BudgetAbsorption(epsilon=1, window=10, shift=True).run(20)


def shifts(mechanism: ps.Mechanism, keys: int) -> bool | None:
    made = mechanism.run(keys).mechanism
    assert isinstance(made, Shifting)
    return made.shift


@pytest.mark.parametrize("cls", [ps.BudgetDistribution, ps.BudgetAbsorption])
def test_a_new_run_shifts_where_there_are_twice_as_many_keys_as_units(
    cls: type[ps.BudgetDistribution],
) -> None:
    mechanism = cls(epsilon=1, window=10)
    assert mechanism.shift is None
    assert [shifts(mechanism, keys) for keys in (19, 20, 140)] == [False, True, True]


@pytest.mark.parametrize("cls", [ps.GroupedDistribution, ps.GroupedAbsorption])
def test_groups_without_a_delta_shift_only_if_they_are_told_to(
    cls: type[ps.GroupedDistribution],
) -> None:
    assert shifts(cls(epsilon=1, window=10), 10_000) is False
    assert shifts(cls(epsilon=1, window=10, shift=True), 10_000) is True
    assert shifts(cls(epsilon=1, window=10, delta="1e-6"), 10_000) is True


@pytest.mark.parametrize("cls", [ps.BudgetDistribution, ps.BudgetAbsorption])
def test_a_run_that_was_kept_decides_what_is_left_open(
    cls: type[ps.BudgetDistribution], tmp_path: Path
) -> None:
    def keep(*, unit: int, **given: bool) -> ps.Released:
        mechanism = cls(epsilon=1, window=3, **given)
        with mechanism.run(60, noise=TestNoise(3), keep=tmp_path / "run.state") as run:
            assert run.unit == unit - 1
            return run.step(np.arange(60) * unit)

    began = {"shift": False, "cut": False}
    keep(unit=1, **began)
    keep(unit=2)
    released = keep(unit=3)
    straight = cls(epsilon=1, window=3, **began).run(60, noise=TestNoise(3))
    for unit in (1, 2, 3):
        expected = straight.step(np.arange(60) * unit)
    assert released.value.tolist() == expected.value.tolist()
    with pytest.raises(ps.StateError, match=r"configuration: shift=False there, True here\."):
        keep(unit=4, shift=True)
    with pytest.raises(ps.StateError, match=r"configuration: cut=None there, True here\."):
        keep(unit=4, cut=True)


@pytest.mark.parametrize(
    "cls",
    [
        ps.BudgetDistribution,
        ps.BudgetAbsorption,
        ps.GroupedDistribution,
        ps.GroupedAbsorption,
    ],
)
def test_a_distance_takes_negative_numbers_of_the_last_release_as_0(
    cls: type[ps.BudgetDistribution],
) -> None:
    last = replace(Released.nothing(3, ps.Guarantee(1, 1)), value=np.array([-7, 0, 2]))
    cutting, plain = cls(epsilon=1, window=4, cut=True), cls(epsilon=1, window=4, cut=False)
    assert cutting.compared(last).tolist() == [0, 0, 2]
    assert plain.compared(last).tolist() == [-7, 0, 2]
    made = cls(epsilon=1, window=4).run(3).mechanism
    assert isinstance(made, Shifting)
    assert made.cut is True


@pytest.mark.parametrize("cls", [ps.BudgetDistribution, ps.BudgetAbsorption])
def test_cutting_saves_publications_of_an_empty_stream(cls: type[ps.BudgetDistribution]) -> None:
    def fresh(*, cut: bool) -> int:
        run = cls(epsilon=1, window=10, cut=cut).run(50, noise=TestNoise(4))
        nothing = np.zeros(50, np.int64)
        return sum(not run.step(nothing).repeated for _ in range(300))

    assert fresh(cut=True) < fresh(cut=False)


@pytest.mark.parametrize("cls", [ps.BudgetDistribution, ps.BudgetAbsorption])
def test_a_publication_needs_a_distance_above_its_noise(cls: type[ps.BudgetDistribution]) -> None:
    mechanism = cls(epsilon=1, window=2, contribution=3)
    # Two keys; the first publication may spend 1/4 either way, so its noise is expected to add
    # 2·3/(1/4) = 24.
    for counts, repeated in (([24, 0], True), ([24, 1], False)):
        assert mechanism.run(2, noise=NoNoise()).step(counts).repeated is repeated


@pytest.mark.slow
def test_halved_budgets_use_few_scales() -> None:
    mechanism = ps.BudgetDistribution(epsilon="0.3", window=37)
    run = mechanism.run(1, noise=TestNoise(5), record=True)
    rng = np.random.default_rng(1)
    for _ in range(3000):
        run.step(rng.integers(0, 10**9, 1))
    scales = {line.amount for line in run.ledger if line.label == "publish"}
    assert (
        len(scales) <= 16 * 20
    )  # sixteen leading digits, twenty powers of two down to a millionth; 3000 publications
    assert min(scales) * 10**6 >= mechanism.total.quanta


def test_when_the_budget_is_all_but_used_up_nothing_is_measured() -> None:
    run = play(ps.BudgetDistribution(epsilon=1, window=40), [True] * 40)
    published = charged(run, "publish")
    assert published[-1] == 0
    assert charged(run, "distance")[-1] == 0
    assert min(amount for amount in published if amount) >= Fraction(1, 10**6)


@pytest.mark.parametrize("window", [1, 2, 5])
def test_sample_publishes_once_in_a_window_with_everything(window: int) -> None:
    run = play(ps.Sample(epsilon=EPSILON, window=window), [True] * 11)
    assert charged(run, "publish") == [EPSILON if unit % window == 0 else 0 for unit in range(11)]


def test_uniform_publishes_always_with_an_equal_share() -> None:
    run = play(ps.Uniform(epsilon=EPSILON, window=5), [False] * 7)
    assert charged(run, "publish") == [EPSILON / 5] * 7
