"""Amounts on a grid, against exact fractions."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.budget.grid import FINENESS, Budget, Budgets, Grid
from penstock.core.errors import ConfigurationError
from penstock.core.guarantee import Guarantee


def grid(epsilon="1", window=3) -> Grid:
    return Grid.of(Guarantee(epsilon, window))


@pytest.mark.parametrize("window", [1, 2, 3, 7, 120, 2**32])
@pytest.mark.parametrize("epsilon", ["1", "0.1", "1/3", "17"])
def test_shares_of_the_promise_are_exact(epsilon, window):
    here, promised = grid(epsilon, window), Fraction(epsilon)
    whole = here.floor(promised)
    assert whole.epsilon == promised
    assert (whole // window).epsilon == promised / window
    assert (whole // (2 * window)).epsilon == promised / (2 * window)
    assert (whole // (2 * window)).quanta == FINENESS
    assert (whole // 2 // 2 // 2).epsilon == promised / 8
    assert whole.quanta < 2**58


@given(
    st.fractions(min_value=0, max_value=10),
    st.fractions(min_value="1/100", max_value=10),
    st.integers(1, 200),
)
@settings(derandomize=True, deadline=None)
def test_floor_gives_the_largest_amount_that_is_not_above(wanted, epsilon, window):
    here = grid(epsilon, window)
    found = here.floor(wanted)
    assert type(found.quanta) is int
    assert found.epsilon <= wanted < found.epsilon + here.quantum


def naive_rounded(amount: int, bits: int, whole: int) -> int:
    """The largest m/2^k of `whole` not above `amount`, m < 2^bits, by trying every m and k; then
    down to the grid.
    """
    best = Fraction(0)
    for k in range(whole.bit_length() + bits + 2):
        m = min(amount * 2**k // whole, 2**bits - 1)
        best = max(best, Fraction(m * whole, 2**k))
    return int(best)


@given(st.integers(1, 2**30), st.integers(0, 2**30), st.integers(1, 8))
@settings(derandomize=True, deadline=None, max_examples=300)
def test_rounding_gives_the_largest_short_share(whole, amount, bits):
    amount %= whole + 1
    here = grid()
    found = Budget(amount, here).rounded(bits, of=Budget(whole, here))
    assert found.quanta == naive_rounded(amount, bits, whole)
    assert found.quanta <= amount


@pytest.mark.parametrize("times", [1, 2, 3, 31, 32, 33, 1000])
def test_an_amount_above_the_whole_is_rounded_too(times):
    here = grid()
    whole = here.floor(Fraction(1))
    rounded = (whole * times).rounded(5, of=whole)
    assert whole * min(times, 31) <= rounded <= whole * times


def test_a_rounded_nothing_is_nothing():
    here = grid()
    assert not Budget(0, here).rounded(5, of=here.floor(Fraction(1)))
    assert not Budget(-3, here).rounded(5, of=here.floor(Fraction(1)))


def test_rounded_amounts_give_up_at_most_a_seventeenth():
    here = grid("1", 50)
    whole = here.floor(Fraction(1))
    for amount in range(10**6, whole.quanta, 10**7 + 19):
        assert Budget(amount, here).rounded(5, of=whole).quanta * 17 >= amount * 16 - 17


def test_budgets_of_different_promises_never_meet():
    one, two = grid("1", 3).floor(Fraction(1)), grid("1", 4).floor(Fraction(1))
    for meet in (
        lambda: one + two,
        lambda: one - two,
        lambda: one < two,
        lambda: one >= two,
        lambda: one == two,
        lambda: one.rounded(3, of=two),
    ):
        with pytest.raises(ConfigurationError, match="different grids"):
            meet()


def test_equal_grids_are_one_grid():
    one, two = grid(), grid()
    assert one == two
    assert Budget(5, one) == Budget(5, two)
    assert hash(Budget(5, one)) == hash(Budget(5, two))
    assert (Budget(5, one) + Budget(6, two)).quanta == 11


@given(st.integers(-100, 100), st.integers(-100, 100))
@settings(derandomize=True, deadline=None)
def test_budgets_compare_and_add_as_their_amounts_do(a, b):
    here = grid("1/7", 3)
    one, two = Budget(a, here), Budget(b, here)
    assert [one < two, one <= two, one > two, one >= two, one == two, one != two] == [
        a < b,
        a <= b,
        a > b,
        a >= b,
        a == b,
        a != b,
    ]
    assert (one + two).epsilon == one.epsilon + two.epsilon
    assert (one - two).epsilon == one.epsilon - two.epsilon
    assert (one * 3).epsilon == 3 * one.epsilon
    assert (one // 3).epsilon <= one.epsilon / 3
    assert bool(one) == (a > 0)


def test_a_budget_is_no_number():
    assert Budget(1, grid()) != 1
    assert repr(grid().floor(Fraction(1, 6))) == "Budget(1/6)"


def test_the_most_of_many_budgets():
    assert Budgets(np.array([3, 9, 0]), grid()).most.quanta == 9
    assert Budgets(np.array([], np.int64), grid()).most.quanta == 0


@given(number=st.integers(0, 10**9), quanta=st.integers(1, 6 * FINENESS))
def test_the_expected_error_of_noise_is_rounded_down(number, quanta):
    pure = Budget(quanta, Grid.of(Guarantee("1", 3)))
    assert pure.into(number) == number / pure.epsilon // 1
    gaussian = Budget(quanta, Grid.of(Guarantee("1", 3, delta="1e-6")))
    found = gaussian.into(number)
    error = number**2 / gaussian.amount
    pi = Fraction(math.pi)
    assert found**2 * pi <= error < (found + 1) ** 2 * pi
