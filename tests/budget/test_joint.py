from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.budget.accountant import Account, account
from penstock.budget.grid import Grid, promised
from penstock.budget.joint import Joint, Part, joint
from penstock.budget.ledger import Line
from penstock.core.errors import ConfigurationError, LedgerError
from penstock.core.guarantee import Guarantee
from penstock.engine.pipeline import reach


def booked(promise: Guarantee, shares: list[Fraction]) -> Account:
    """An account of units that were charged these shares of the promise."""
    quanta = [int(share * promised(promise).quanta) for share in shares]
    lines = [
        Line(unit, "spend", "publish", amount, amount)
        for unit, amount in enumerate(quanta, 1)
        if amount
    ]
    return account(lines, promise, units=len(shares))


def places(small: int, units: int) -> np.ndarray:
    """Where small units lie, if so many of them make a large one."""
    return np.arange(small) // units + 1


def equal(promise: Guarantee, units: int) -> Account:
    return booked(promise, [Fraction(1, promise.window)] * units)


def two(
    small: int, *, days: int, hours: int | None = None, window: int = 24, size: int = 24
) -> Joint:
    """Hours and days with half of ε = 1 each, every unit charged an equal share."""
    k, times = reach(window, size)
    fine = equal(Guarantee("1/2", window), small if hours is None else hours)
    coarse = equal(Guarantee(Fraction(1, 2) / times, k), days)
    parts = {
        "hourly": Part(account=fine, times=1, places=places(small, 1)),
        "daily": Part(account=coarse, times=times, places=places(small, size)),
    }
    return joint(parts, Guarantee("1", window))


def test_views_that_spend_all_of_theirs_spend_all_of_it_and_no_more():
    found = two(72, days=3)
    assert found.window(1) == Fraction(1, 48) + Fraction(1, 4)
    assert found.window(24) == Fraction(1, 2) + Fraction(1, 4)
    assert found.window(25) == found.window(72) == found.worst == 1
    assert found.kept
    assert found.first_above is None
    assert found.window(25, "daily") == Fraction(1, 2)


def test_a_unit_of_a_view_that_is_not_released_yet_counts_with_the_newest_window():
    assert two(72, days=2).window(72) == two(72, days=3).window(48)
    assert two(30, days=0).window(30, "daily") == 0
    assert two(72, days=3, hours=70).windows == [
        *two(70, days=3).windows,
        *[two(70, days=3).windows[-1]] * 2,
    ]


def test_quanta_of_all_views_add_up_exactly():
    """Thirds and sevenths lie on no common grid of theirs, and no float could hold their sum."""
    parts = {
        name: Part(
            account=booked(Guarantee(epsilon, window), [Fraction(1)]), times=1, places=places(1, 1)
        )
        for name, epsilon, window in (("a", "1/3", 7), ("b", "2/7", 11), ("c", "8/21", 13))
    }
    found = joint(parts, Guarantee("1", 7))
    assert found.worst == 1
    assert found.kept
    assert all(
        (Grid.of(part.account.guarantee).quantum / found.quantum).denominator == 1
        for part in parts.values()
    )


def test_one_quantum_too_much_is_found():
    promise = Guarantee("1/2", 1)
    most = promised(promise).quanta
    over = account([Line(2, "spend", "publish", most + 1, most + 1)], promise, units=2)
    parts = {
        "a": Part(account=over, times=1, places=places(2, 1)),
        "b": Part(account=equal(promise, 2), times=1, places=places(2, 1)),
    }
    found = joint(parts, Guarantee("1", 1))
    assert not found.kept
    assert found.first_above == 2
    assert found.worst - 1 == Grid.of(promise).quantum


@given(
    hourly=st.lists(st.integers(0, 4), min_size=1, max_size=40),
    large=st.lists(st.integers(0, 4), max_size=8),
    window=st.integers(1, 9),
    size=st.integers(2, 6),
)
def test_it_is_never_less_than_what_the_units_that_read_a_window_were_charged(
    hourly, large, window, size
):
    """The naive twin: every unit of a view that has a small unit of the window, added up one by
    one.
    """
    k, times = reach(window, size)
    fine_promise, coarse_promise = Guarantee("1", window), Guarantee("1", k)
    fine = booked(fine_promise, [Fraction(each, 4 * window) for each in hourly])
    coarse = booked(coarse_promise, [Fraction(each, 4 * k) for each in large])
    length = max(len(hourly), len(large) * size)
    parts = {
        "fine": Part(account=fine, times=1, places=places(length, 1)),
        "coarse": Part(account=coarse, times=times, places=places(length, size)),
    }
    found = joint(parts, Guarantee(1 + times, window))
    assert found.kept
    for last in range(1, length + 1):
        small = range(max(last - window + 1, 1), last + 1)
        read = {(unit - 1) // size + 1 for unit in small}
        spent = (
            sum(int(fine.numbers[unit - 1]) for unit in small if unit <= len(hourly))
            * Grid.of(fine_promise).quantum
        )
        spent += (
            times
            * sum(int(coarse.numbers[unit - 1]) for unit in read if unit <= len(large))
            * Grid.of(coarse_promise).quantum
        )
        assert found.window(last) >= spent


def test_before_anything_is_released_it_costs_nothing():
    found = two(0, days=0)
    assert (found.worst, found.kept, found.windows) == (0, True, [])
    with pytest.raises(IndexError, match="unit 1 is not in 1"):
        found.window(1)


def test_what_cannot_be_added_up_is_refused():
    exact, loose = Guarantee("1", 1), Guarantee("1", 1, delta="1e-6")
    part = Part(account=equal(exact, 2), times=1, places=places(2, 1))
    with pytest.raises(LedgerError, match="delta"):
        joint({"a": Part(account=account([], loose, units=2), times=1, places=places(2, 1))}, exact)
    with pytest.raises(LedgerError, match="small units lie"):
        joint({"a": part, "b": Part(account=equal(exact, 2), times=1, places=places(3, 1))}, exact)
    with pytest.raises(LedgerError, match="follow one another"):
        joint({"a": Part(account=equal(exact, 2), times=1, places=np.array([2, 1]))}, exact)
    with pytest.raises(LedgerError, match="follow one another"):
        joint({"a": Part(account=equal(exact, 2), times=1, places=np.array([0, 1]))}, exact)
    with pytest.raises(ConfigurationError, match="times"):
        joint({"a": Part(account=equal(exact, 2), times=0, places=places(2, 1))}, exact)
