"""The ledger's rules one by one; test_ledger_twin.py drives it at random."""

from __future__ import annotations

import contextlib
from fractions import Fraction

import numpy as np
import pytest

from penstock.budget.accountant import account
from penstock.budget.grid import Budget, Budgets, Grid, promised
from penstock.budget.ledger import Ledger, LedgerState, Line, PricedRun, epsilons
from penstock.core.errors import BudgetError, ConfigurationError, InputError
from penstock.core.guarantee import Guarantee


def ledger(epsilon="1", window=3, keys=2) -> tuple[Ledger, list[Line]]:
    lines: list[Line] = []
    made = Ledger(Guarantee(epsilon, window), keys=keys, sink=lines.append)
    made.begin(1)
    return made, lines


def share(of: Ledger, part) -> Budget:
    return of.grid.floor(of.guarantee.epsilon * Fraction(part))


def test_units_come_one_by_one():
    book, _ = ledger()
    for wrong in (0, 1, 3, -1):
        with pytest.raises(InputError, match="cannot follow unit 1"):
            book.begin(wrong)
    book.begin(2)


def test_a_line_never_changes():
    line = Line(1, "spend", "publish", 5, 5)
    with pytest.raises(AttributeError):
        line.amount = 0
    assert line == Line(unit=1, kind="spend", label="publish", amount=5, number=5)
    assert len({line, Line(1, "spend", "publish", 5, 5), Line(1, "spend", "publish", 5, 6)}) == 2


def test_nothing_can_be_spent_before_the_first_unit():
    book = Ledger(Guarantee(1, 3), keys=1)
    with pytest.raises(InputError, match="no unit has begun"):
        book.spend(share(book, 1), "publish")


def test_a_window_is_exactly_as_long_as_promised():
    book, _ = ledger(window=3)
    book.spend(share(book, 1), "publish")
    for unit in (2, 3):
        book.begin(unit)
        with pytest.raises(BudgetError) as caught:
            book.spend(share(book, "1/1000"), "publish")
        assert (caught.value.unit, caught.value.first) == (unit, 1)
    book.begin(4)
    book.spend(share(book, 1), "publish")
    assert book.cost.epsilon == 1


def test_the_refusal_carries_what_it_says():
    book, lines = ledger("1/2")
    book.spend(share(book, "3/4"), "watch")
    with pytest.raises(BudgetError) as caught:
        book.spend(share(book, "1/2"), "publish")
    error = caught.value
    assert (error.label, error.amount, error.total, error.promised) == (
        "publish",
        Fraction(1, 4),
        Fraction(5, 8),
        Fraction(1, 2),
    )
    assert "Nothing was drawn or recorded" in str(error)
    assert len(lines) == 1


def test_a_unit_costs_what_its_dearest_key_costs():
    book, _ = ledger(keys=3)
    some = np.array([True, False, False])
    book.spend(share(book, "1/2"), "a", where=some)
    book.spend(share(book, "1/2"), "b", where=~some)
    assert book.number.epsilon == Fraction(1, 2)
    book.spend(Budgets(np.array([1, 5, 3]), book.grid), "c")
    assert book.number.epsilon == Fraction(1, 2) + 5 * book.grid.quantum
    book.spend(share(book, "1/8"), "d")
    assert book.number.epsilon == Fraction(5, 8) + 5 * book.grid.quantum


def test_a_charge_to_no_key_is_no_charge():
    book, lines = ledger()
    nobody = np.zeros(2, bool)
    book.spend(share(book, "1/2"), "publish", where=nobody)
    book.spend(Budgets(np.array([100, 1]), book.grid), "publish", where=np.array([False, True]))
    assert book.cost == Budget(1, book.grid)
    assert book.spent("publish") == Budget(1, book.grid)
    assert account(lines, book.guarantee).worst == book.cost.epsilon


@pytest.mark.parametrize("amount", [2**62, 2**63 - 1, 2**63, 2**64, 2**80])
@pytest.mark.parametrize("each", [False, True])
def test_a_charge_beyond_all_measure_is_refused_and_never_wraps_around(amount, each):
    book, _ = ledger()
    where = np.array([True, False])
    book.spend(share(book, "1/2"), "first", where=where)
    if each and amount >= 2**63:
        return
    huge = Budgets(np.array([amount, 0]), book.grid) if each else Budget(amount, book.grid)
    with pytest.raises(BudgetError):
        book.spend(huge, "publish", where=where)
    assert book.cost == share(book, "1/2")


def test_a_negative_charge_is_refused():
    book, lines = ledger()
    for wrong in (Budget(-1, book.grid), Budgets(np.array([5, -1]), book.grid)):
        with pytest.raises(ConfigurationError, match="negative"):
            book.spend(wrong, "publish")
        with pytest.raises(ConfigurationError, match="negative"):
            book.spend(wrong, "publish", where=np.array([True, False]))
    with pytest.raises(ConfigurationError, match="negative"):
        book.expose(Budget(-1, book.grid), "memory")
    assert lines == []


def test_a_budget_of_another_promise_is_refused():
    book, lines = ledger()
    foreign = Budget(1, Grid.of(Guarantee("1", 4)))
    for act in (
        lambda: book.spend(foreign, "publish"),
        lambda: book.spend(Budgets(np.array([1, 1]), foreign.grid), "publish"),
        lambda: book.expose(foreign, "memory"),
        lambda: book.open("run", threshold=foreign, question=foreign),
    ):
        with pytest.raises(ConfigurationError, match="another grid"):
            act()
    assert lines == []


def test_a_line_that_the_sink_refuses_is_not_charged():
    def full(_: Line) -> None:
        raise OSError("the disk is full")

    book = Ledger(Guarantee(1, 3), keys=2, sink=full)
    book.begin(1)
    half = share(book, "1/2")
    for act in (
        lambda: book.spend(half, "publish"),
        lambda: book.spend(half, "publish", where=np.array([True, False])),
        lambda: book.expose(half, "memory"),
        lambda: book.open("run", threshold=half, question=half),
    ):
        with pytest.raises(OSError, match="full"):
            act()
    assert book.cost.epsilon == 0
    assert book.spent("publish").epsilon == 0


def test_the_sink_sees_a_line_before_the_charge_counts():
    seen: list[Fraction] = []
    book = Ledger(Guarantee(1, 3), keys=1, sink=lambda _: seen.append(book.cost.epsilon))
    book.begin(1)
    book.spend(share(book, "1/2"), "publish")
    book.spend(share(book, "1/4"), "publish")
    assert seen == [0, Fraction(1, 2)]


def test_spent_is_what_a_label_cost_in_the_window():
    book, _ = ledger(window=2)
    book.spend(share(book, "1/4"), "a")
    book.spend(share(book, "1/8"), "a")
    book.spend(share(book, "1/8"), "b")
    assert (book.spent("a").epsilon, book.spent("b").epsilon, book.spent("c").epsilon) == (
        Fraction(3, 8),
        Fraction(1, 8),
        0,
    )
    book.begin(2)
    book.spend(share(book, "1/8"), "a")
    assert book.spent("a").epsilon == Fraction(1, 2)
    book.begin(3)
    assert book.spent("a").epsilon == Fraction(1, 8)
    book.begin(4)
    assert book.spent("a").epsilon == 0


def test_the_largest_exposure_of_the_window_counts_once():
    book, _ = ledger(window=3)
    book.expose(share(book, "1/2"), "memory")
    book.begin(2)
    book.expose(share(book, "1/4"), "memory")
    assert book.cost.epsilon == Fraction(1, 2)
    book.spend(share(book, "1/2"), "publish")
    with pytest.raises(BudgetError):
        book.spend(Budget(1, book.grid), "publish")
    book.begin(3)
    assert book.cost.epsilon == 1
    book.begin(4)
    assert book.cost.epsilon == Fraction(3, 4)
    book.begin(5)
    assert book.cost.epsilon == 0


def test_an_exposure_that_is_paid_for_counts_no_more():
    book, lines = ledger(window=2)
    book.expose(share(book, "3/4"), "memory")
    book.spend(share(book, "3/4"), "memory", settle=True)
    assert book.exposed.epsilon == 0
    assert book.cost.epsilon == Fraction(3, 4)
    assert [line.kind for line in lines] == ["expose", "settle"]
    with pytest.raises(ConfigurationError, match="settles more"):
        book.spend(share(book, "1/8"), "memory", settle=True)


def test_an_exposure_of_a_past_unit_cannot_be_settled():
    book, _ = ledger(window=2)
    book.expose(share(book, "1/2"), "memory")
    book.begin(2)
    with pytest.raises(ConfigurationError, match="settles more"):
        book.spend(share(book, "1/2"), "memory", settle=True)


def test_one_ledger_takes_priced_runs_or_exposures():
    book, _ = ledger()
    book.expose(share(book, "1/8"), "memory")
    with pytest.raises(ConfigurationError, match="not both"):
        book.open("run", threshold=share(book, "1/8"), question=share(book, "1/8"))
    other, _ = ledger()
    other.open("run", threshold=share(other, "1/8"), question=share(other, "1/8"))
    with pytest.raises(ConfigurationError, match="not both"):
        other.expose(share(other, "1/8"), "memory")


# -- priced runs -----------------------------------------------------------------------------------


def test_a_run_costs_its_questions_or_its_threshold_and_positives():
    book, _ = ledger(window=8)
    run = book.open("run", threshold=share(book, "4/32"), question=share(book, "1/32"))
    costs = []
    for unit in range(1, 9):
        if unit > 1:
            book.begin(unit)
        book.ask(run)
        if unit == 6:
            book.yes(run)
        costs.append(book.cost.epsilon * 32)
    assert costs == [1, 2, 3, 4, 4, 6, 6, 6]


def test_a_run_is_not_longer_than_a_window():
    book, lines = ledger(window=3)
    run = book.open("run", threshold=share(book, "1/8"), question=share(book, "1/8"))
    for unit in (2, 3):
        book.begin(unit)
        book.ask(run)
    book.begin(4)
    before = len(lines)
    with pytest.raises(
        ConfigurationError, match="began in unit 1 and may span 3 units: close it and open another"
    ):
        book.ask(run)
    assert len(lines) == before
    book.close(run)
    book.ask(book.open("run", threshold=share(book, "1/8"), question=share(book, "1/8")))


def test_runs_are_asked_once_a_unit_and_answer_once_a_question():
    book, _ = ledger()
    run = book.open("run", threshold=share(book, "1/8"), question=share(book, "1/16"))
    with pytest.raises(ConfigurationError, match="no open question"):
        book.yes(run)
    book.ask(run)
    with pytest.raises(ConfigurationError, match="already"):
        book.ask(run)
    book.yes(run)
    with pytest.raises(ConfigurationError, match="no open question"):
        book.yes(run)
    book.begin(2)
    with pytest.raises(ConfigurationError, match="no open question"):
        book.yes(run)
    book.close(run)
    for act in (book.ask, book.yes, book.close):
        with pytest.raises(ConfigurationError, match="no open run"):
            act(run)


def test_a_run_needs_a_price():
    book, _ = ledger()
    for threshold, question in ((0, 1), (1, 0)):
        with pytest.raises(ConfigurationError, match="needs a budget"):
            book.open(
                "run", threshold=Budget(threshold, book.grid), question=Budget(question, book.grid)
            )


def past_window_refuses() -> tuple[Ledger, int, BudgetError]:
    """In sixteenths: 11 spent in unit 1, a run with T = 1 and Q = 2 asked in units 2, 3 and 4,
    positive in 4.

    Window 1..4 then costs 11 + min(3·2, 1 + (1 + 1)·2) = 16, all there is. A second positive answer
    in unit 5 lies outside it and makes it 11 + min(3·2, 1 + (2 + 1)·2) = 17; the window that ends
    with unit 5 costs 8.
    """
    book, lines = ledger(window=4)
    book.spend(share(book, "11/16"), "publish")
    book.begin(2)
    run = book.open("run", threshold=share(book, "1/16"), question=share(book, "2/16"))
    for unit in (2, 3, 4):
        if unit > 2:
            book.begin(unit)
        book.ask(run)
    book.yes(run)
    assert account(lines, book.guarantee).worst == 1
    book.begin(5)
    held = len(lines)
    with pytest.raises(BudgetError) as caught:
        book.ask(run)
    assert len(lines) == held
    return book, run, caught.value


def test_a_late_positive_answer_is_charged_to_past_windows_too():
    book, run, error = past_window_refuses()
    assert (error.first, error.total) == (1, Fraction(17, 16))
    assert book.cost.epsilon <= Fraction(5, 16)
    for act in (book.yes, book.yes):
        with pytest.raises(ConfigurationError, match="no open question"):
            act(run)
    fresh = Ledger(book.guarantee, keys=2)
    fresh.load(book.save())
    with pytest.raises(BudgetError):
        fresh.ask(run)
    fresh.close(run)
    fresh.ask(fresh.open("run", threshold=share(book, "1/16"), question=share(book, "2/16")))


def test_the_refusal_for_a_past_window_names_that_window():
    assert "units 1..4" in str(past_window_refuses()[2])


def test_a_negative_answer_costs_a_past_window_nothing():
    # As above, but unit 4 answers no: window 1..4 costs 11 + min(6, 1 + 0) = 12, and 14 once unit 5
    # answers yes.
    book, lines = ledger(window=4)
    book.spend(share(book, "11/16"), "publish")
    book.begin(2)
    run = book.open("run", threshold=share(book, "1/16"), question=share(book, "2/16"))
    for unit in (2, 3, 4, 5):
        if unit > 2:
            book.begin(unit)
        book.ask(run)
    assert account(lines, book.guarantee).window(4) == Fraction(12, 16)
    book.yes(run)
    assert account(lines, book.guarantee).window(4) == Fraction(14, 16)


def test_a_spend_between_a_question_and_its_answer_leaves_room_for_the_answer():
    book, lines = ledger(window=4)
    run = book.open("run", threshold=share(book, "1/20"), question=share(book, "5/20"))
    for unit in (1, 2, 3):
        if unit > 1:
            book.begin(unit)
        book.ask(run)
    try:
        book.spend(share(book, "19/20"), "publish")  # 1/20 for the run, if the answer is negative
        book.yes(run)
    except (BudgetError, ConfigurationError):
        pass
    assert account(lines, book.guarantee).kept


def test_two_open_questions_leave_room_for_both_answers():
    book, lines = ledger(window=4)
    runs = [
        book.open("run", threshold=share(book, "1/20"), question=share(book, "5/20"))
        for _ in range(2)
    ]
    for unit in (1, 2, 3):
        if unit > 1:
            book.begin(unit)
        for run in runs:
            book.ask(run)
    for run in runs:
        with contextlib.suppress(BudgetError, ConfigurationError):
            book.yes(run)
    assert account(lines, book.guarantee).kept


def dsat(window: int, most: int, units: int, wants) -> list[Line]:
    """The w-event form of DSAT: threshold scale 4/ε1, comparison scale 6C/ε1, at most C releases a
    block and a window.
    """
    book = Ledger(Guarantee("1", window), keys=4, sink=(lines := []).append)
    threshold, question = share(book, "1/4"), share(book, Fraction(1, 6 * most))
    positive: list[int] = []
    run = block = 0
    for unit in range(1, units + 1):
        book.begin(unit)
        if (unit - 1) % window == 0:
            if run:
                book.close(run)
            run, block = book.open("compare", threshold=threshold, question=question), unit
        if (
            sum(p >= block for p in positive) >= most
            or sum(p > unit - window for p in positive) >= most
        ):
            continue
        book.ask(run)
        if wants(unit):
            book.yes(run)
            positive.append(unit)
    return lines


@pytest.mark.parametrize("seed", range(12))
def test_the_w_event_form_of_dsat_is_never_refused(seed):
    rng = np.random.default_rng(seed)
    window, most, chance = (
        int(rng.integers(1, 40)),
        int(rng.integers(1, 5)),
        rng.choice([0.05, 0.3, 1.0]),
    )
    lines = dsat(window, most, 5 * window, lambda _: rng.random() < chance)
    assert account(lines, Guarantee("1", window)).kept


def test_the_w_event_form_of_dsat_uses_its_budget_exactly():
    # w = 48, C = 4. Window 25..72 meets two blocks with 4 positives each and holds 1 + 3 of them:
    # 2T + (8 + 4)Q = 1.
    lines = dsat(48, 4, 96, {1, 2, 3, 48, 50, 60, 72, 96}.__contains__)
    found = account(lines, Guarantee("1", 48))
    assert found.window(72) == 1
    assert found.worst == 1


# -- memory and saving -----------------------------------------------------------------------------


def sizes(book: Ledger) -> dict[str, int]:
    """The length of everything inside the ledger that has one."""
    found = {}
    for name, value in vars(book).items():
        if hasattr(value, "__len__"):
            found[name] = len(value)
            for part in value.values() if isinstance(value, dict) else ():
                found[name] += len(part) if hasattr(part, "__len__") else 1
    found["runs"] = sum(len(run.asked) + len(run.positive) for run in book._runs)
    return found


@pytest.mark.slow
def test_memory_does_not_grow_with_the_stream():
    window = 7
    book = Ledger(Guarantee("1", window), keys=3)
    tiny = share(book, "1/100")
    run = 0
    for unit in range(1, 20_001):
        book.begin(unit)
        book.spend(tiny, "publish")
        if unit % 2:
            book.spend(tiny, "watch", where=np.array([True, False, True]))
        if (unit - 1) % window == 0:
            if run:
                book.close(run)
            run = book.open("run", threshold=tiny, question=tiny)
        book.ask(run)
        if unit % 5 == 0:
            book.yes(run)
        if unit == 1000:
            early = sizes(book)
    assert early["_numbers"] == 2 * window
    assert all(size <= early[name] + 2 * window for name, size in sizes(book).items())


def test_memory_of_exposures_does_not_grow_with_the_stream():
    window = 7
    book = Ledger(Guarantee("1", window), keys=3)
    for unit in range(1, 20_001):
        book.begin(unit)
        book.expose(share(book, Fraction(1 + unit % 9, 100)), "memory")
        assert len(book._exposures) <= window


def test_memory_does_not_grow_with_labels_that_are_never_used_again():
    book = Ledger(Guarantee("1", 3), keys=1)
    for unit in range(1, 2001):
        book.begin(unit)
        book.spend(Budget(1, book.grid), f"unit {unit}")
    assert sizes(book)["_labels"] <= 20
    assert sizes(book)["_label_sums"] <= 20


def test_a_long_window_takes_no_memory_before_it_is_used():
    book = Ledger(Guarantee("1", 2**32), keys=1)
    for unit in range(1, 1001):
        book.begin(unit)
        book.spend(share(book, "1/1000"), "publish")
    assert book.cost.epsilon <= 1
    assert sizes(book)["_numbers"] <= 2048
    with pytest.raises(BudgetError):
        book.spend(share(book, "1/1000"), "publish")


@pytest.mark.parametrize("window", [1, 2, 31, 32, 33, 50, 64, 100, 127, 128, 129])
def test_the_window_is_right_while_the_ring_grows_and_turns(window):
    book = Ledger(Guarantee("1", window), keys=1)
    spent = []
    for unit in range(1, 5 * window + 70):
        book.begin(unit)
        amount = unit * unit % 1009
        book.spend(Budget(amount, book.grid), "publish")
        spent.append(amount)
        assert book.cost.quanta == sum(spent[-window:])
        if unit % 41 == 0:
            fresh = Ledger(book.guarantee, keys=1)
            fresh.load(book.save())
            book = fresh


def test_what_was_saved_does_not_change_when_the_ledger_goes_on():
    book, _ = ledger(window=5)
    run = book.open("run", threshold=share(book, "1/8"), question=share(book, "1/16"))
    book.ask(run)
    saved = book.save()
    book.begin(2)
    book.ask(run)
    book.yes(run)
    book.spend(share(book, "1/8"), "publish")
    fresh = Ledger(book.guarantee, keys=2)
    fresh.load(saved)
    assert (fresh.unit, fresh.cost.epsilon) == (1, Fraction(1, 16))
    fresh.begin(2)
    fresh.ask(run)
    again = Ledger(book.guarantee, keys=2)
    again.load(saved)
    assert again.cost.epsilon == Fraction(1, 16)


def test_lines_can_be_read_by_people():
    book, lines = ledger("1/2")
    book.spend(share(book, "1/2"), "publish")
    assert epsilons(lines, book.grid) == [
        {
            "unit": 1,
            "kind": "spend",
            "label": "publish",
            "epsilon": "1/4",
            "number": "1/4",
            "run": 0,
        }
    ]


def test_nothing_is_read_after_the_horizon():
    promise = Guarantee("1", 2, horizon=3)
    books = Ledger(promise, keys=1)
    some = Grid.of(promise).floor(Fraction(1, 4))
    for unit in (1, 2, 3):
        books.begin(unit)
        books.spend(some, "publish")
    run = books.open("moved", threshold=some // 4, question=some // 4)
    books.begin(4)
    for read in (
        lambda: books.spend(some, "publish"),
        lambda: books.open("again", threshold=some, question=some),
        lambda: books.ask(run),
    ):
        with pytest.raises(ConfigurationError, match=r"unit 4: .* nothing is read after unit 3"):
            read()
    books.close(run)
    assert books.left == Grid.of(promise).floor(Fraction(3, 4))


def test_what_is_left_can_be_spent_and_not_more():
    books, _ = ledger(window=3)
    books.spend(share(books, Fraction(1, 3)), "publish")
    run = books.open_and_ask(
        "moved", threshold=share(books, Fraction(1, 12)), question=share(books, Fraction(1, 24))
    )
    books.yes(run)
    books.begin(2)
    left = books.left
    with pytest.raises(BudgetError):
        books.spend(Budget(left.quanta + 1, books.grid), "publish")
    books.spend(left, "publish")
    assert not books.left


def test_a_question_is_refused_in_a_window_so_long_that_its_cost_would_overflow():
    window = 2**21
    promise = Guarantee("1", window)
    quarter = promised(promise).quanta // 4
    books = Ledger(promise, keys=1)
    run = PricedRun("moved", 1, quarter, quarter, 1, list(range(1, window)), [2])
    books.load(LedgerState(window - 1, np.zeros(2 * window, np.int64), [], {}, [run], 1))
    books.begin(window)
    with pytest.raises(BudgetError):
        books.ask(1)
