"""The accountant: it believes no line that cannot be true."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from penstock.budget.accountant import account
from penstock.budget.grid import Grid
from penstock.budget.ledger import Ledger, Line
from penstock.core.errors import BudgetError, LedgerError
from penstock.core.guarantee import Guarantee

PROMISE = Guarantee("1", 3)
WHOLE = Grid.of(PROMISE).floor(Fraction(1)).quanta
OPEN = Line(1, "open", "run", 5, 3, 1)
ASK = Line(1, "ask", "run", run=1)
YES = Line(1, "yes", "run", run=1)
CLOSE = Line(1, "close", "run", run=1)

IMPOSSIBLE = {
    "unit out of order": [Line(2, "spend", "a", 1, 1), Line(1, "spend", "a", 1, 1)],
    "unit zero": [Line(0, "spend", "a", 1, 1)],
    "negative amount": [Line(1, "spend", "a", -1, 0)],
    "negative number": [Line(1, "spend", "a", 0, -1)],
    "number falls": [Line(1, "spend", "a", 5, 5), Line(1, "spend", "a", 1, 4)],
    "number grows by more than the amount": [Line(1, "spend", "a", 5, 6)],
    "number below the amount": [Line(1, "spend", "a", 5, 4)],
    "settled without exposure": [Line(1, "settle", "a", 5, 5)],
    "settled more than exposed": [Line(1, "expose", "a", 4, 4), Line(1, "settle", "a", 5, 5)],
    "settled in another unit": [Line(1, "expose", "a", 4, 4), Line(2, "settle", "a", 4, 4)],
    "exposure does not add up": [Line(1, "expose", "a", 4, 4), Line(1, "expose", "a", 4, 7)],
    "opened twice": [OPEN, OPEN],
    "opened for nothing": [Line(1, "open", "run", 0, 3, 1)],
    "questions for nothing": [Line(1, "open", "run", 5, 0, 1)],
    "asked before it was opened": [ASK],
    "asked of another run": [OPEN, Line(1, "ask", "run", run=2)],
    "asked after it was closed": [OPEN, CLOSE, ASK],
    "asked twice": [OPEN, ASK, ASK],
    "answered without a question": [OPEN, YES],
    "answered twice": [OPEN, ASK, YES, YES],
    "answered in another unit": [OPEN, ASK, Line(2, "yes", "run", run=1)],
    "answered after it was closed": [OPEN, ASK, CLOSE, YES],
    "closed twice": [OPEN, CLOSE, CLOSE],
    "closed before it was opened": [CLOSE],
    "an unknown kind": [Line(1, "refund", "a", 1, 1)],
    "an unknown kind of an open run": [OPEN, Line(1, "refund", "run", run=1)],
}


@pytest.mark.parametrize("lines", IMPOSSIBLE.values(), ids=IMPOSSIBLE.keys())
def test_lines_that_cannot_be_true_are_an_error(lines):
    with pytest.raises(LedgerError):
        account(lines, PROMISE)


def test_what_can_be_true_is_taken():
    lines = [
        Line(1, "expose", "m", 4, 4),
        Line(1, "settle", "m", 4, 4),
        Line(3, "spend", "a", 2, 2),
        Line(3, "spend", "b", 2, 3),
    ]
    found = account(lines, PROMISE, units=5)
    assert found.numbers.tolist() == [4, 0, 3, 0, 0]
    assert found.exposures.tolist() == [0, 0, 0, 0, 0]
    assert found.windows.tolist() == [4, 4, 7, 3, 3]


def test_a_broken_promise_is_found():
    lines = [Line(1, "spend", "a", WHOLE, WHOLE), Line(3, "spend", "a", 1, 1)]
    found = account(lines, PROMISE)
    assert not found.kept
    assert found.worst == 1 + Grid.of(PROMISE).quantum
    assert found.window(2) == 1
    later = [Line(1, "spend", "a", WHOLE, WHOLE), Line(4, "spend", "a", 1, 1)]
    assert account(later, PROMISE).kept


def test_an_unpaid_exposure_is_found():
    lines = [Line(1, "spend", "a", WHOLE, WHOLE), Line(3, "expose", "m", 1, 1)]
    assert not account(lines, PROMISE).kept


def test_a_run_has_its_price():
    price = [Line(1, "open", "run", WHOLE, WHOLE, 1)]
    asked = [line for unit in (1, 2, 3) for line in (Line(unit, "ask", "run", run=1),)]
    assert account([*price, *asked], PROMISE).worst == 1
    assert account([*price, *asked, Line(3, "yes", "run", run=1)], PROMISE).worst == 3


def test_no_lines_cost_nothing():
    empty = account([], PROMISE)
    assert (empty.worst, empty.kept) == (0, True)
    assert account([], PROMISE, units=4).windows.tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("unit", [0, -1, 4])
def test_there_is_no_window_outside_the_stream(unit):
    found = account([Line(3, "spend", "a", 5, 5)], PROMISE)
    with pytest.raises((IndexError, ValueError)):
        found.window(unit)


@pytest.mark.parametrize("seed", range(8))
def test_the_accountant_agrees_with_the_filter_after_every_unit(seed):
    rng = np.random.default_rng(seed)
    window = int(rng.integers(1, 7))
    promise = Guarantee("1", window)
    lines: list[Line] = []
    book = Ledger(promise, keys=3, sink=lines.append)
    runs = bool(seed % 2)
    number = 0
    for unit in range(1, 80):
        book.begin(unit)
        some = book.grid.floor(Fraction(int(rng.integers(1, 40)), 100))
        number = number if runs and number and (unit - 1) % window else 0
        try:
            book.spend(some, "a", where=np.arange(3) <= rng.integers(0, 3))
            if not runs:
                book.expose(some // 2, "m")
                if rng.random() < 0.5:
                    book.spend(some // 2, "m", settle=True)
            else:
                number = number or book.open(
                    "run", threshold=some // 3 + some // some.quanta, question=some // 5
                )
                book.ask(number)
                if rng.random() < 0.3:
                    book.yes(number)
        except BudgetError:
            pass
        found = account(lines, promise, units=unit)
        assert found.window(unit) == book.cost.epsilon
        assert found.kept


def test_a_line_after_the_horizon_is_an_error_unless_it_ends_a_run():
    promise = Guarantee("1", 3, horizon=3)
    with pytest.raises(LedgerError, match="unit 4 was read"):
        account([Line(4, "spend", "a", 1, 1)], promise)
    assert account([OPEN, ASK, Line(4, "close", "run", run=1)], promise).kept


def test_costs_beyond_all_measure_do_not_wrap_around():
    promise = Guarantee("1", 2**21)
    quarter = 2 * 2**21 * 2**24 // 4
    lines = [Line(1, "open", "run", quarter, quarter, number) for number in range(1, 41)]
    for unit in range(1, 300):
        lines += [Line(unit, "ask", "run", run=number) for number in range(1, 41)]
        lines += [Line(unit, "yes", "run", run=1)]
    lines.sort(key=lambda line: (line.unit, ("open", "ask", "yes").index(line.kind), line.run))
    made = []
    for line in lines:  # an answer follows its question
        if line.kind == "yes":
            made.insert(len(made) - 39, line)
        else:
            made.append(line)
    found = account(made, promise)
    assert (found.windows > 0).all()
    assert not found.kept
