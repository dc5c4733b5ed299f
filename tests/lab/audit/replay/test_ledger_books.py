"""Charges that are added up again, probes of a ledger, and the prices of draws."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.budget.ledger import Ledger, Line
from penstock.core.domain import Domain
from penstock.lab.audit.model import Pair
from penstock.lab.audit.replay.ledger_books import LedgerBooks
from penstock.lab.audit.replay.ledger_probe import probe
from penstock.lab.audit.replay.noise_choice import NoiseChoice
from penstock.lab.audit.replay.replayed_pair import (
    Replayed,
    ReplayTrial,
    replay,
    same_after_a_restart,
)
from penstock.lab.audit.replay.transcript_loss import TranscriptLoss
from penstock.private.gate.gate import Gate
from penstock.private.gate.release_maker import ReleaseMaker
from penstock.testing import NoNoise

PROMISE = ps.Guarantee("1", 3)
QUANTUM = Fraction(1, 12)


def books_of(*units: list[Line], costs: list[int]) -> tuple[LedgerBooks, list[str]]:
    books, wrong = LedgerBooks(PROMISE, QUANTUM), []
    for unit, (lines, cost) in enumerate(zip(units, costs, strict=True), start=1):
        wrong += books.enter(unit, lines, cost)
    return books, wrong


def spend(unit: int, amount: int, number: int, label: str = "publish") -> Line:
    return Line(unit, "spend", label, amount, number)


def test_windows_add_up() -> None:
    books, wrong = books_of(
        [spend(1, 4, 4)], [spend(2, 3, 3)], [], [spend(4, 5, 5)], costs=[4, 7, 7, 8]
    )
    assert wrong == []
    assert (books.cost(3), books.cost(4), books.cost_of({1, 4})) == (7, 8, 9)


@pytest.mark.parametrize(
    ("lines", "cost", "text"),
    [
        ([spend(1, 4, 4)], 3, "add up to 1/3"),
        ([spend(1, 4, 5)], 5, "cannot bring the unit's number"),
        ([spend(1, 4, 4), spend(1, 4, 3)], 3, "cannot bring the unit's number"),
        ([spend(1, 13, 13)], 13, "above the promised 1"),
    ],
)
def test_lines_that_are_wrong(lines: list[Line], cost: int, text: str) -> None:
    _, wrong = books_of(lines, costs=[cost])
    assert any(text in each for each in wrong), wrong


def test_a_priced_run_costs_the_less_of_two_prices() -> None:
    run = [Line(1, "open", "moved", 4, 1, 1), Line(1, "ask", "moved", run=1)]
    more = [[Line(unit, "ask", "moved", run=1)] for unit in (2, 3)]
    books, wrong = books_of(run, *more, costs=[1, 2, 3])
    assert wrong == []
    assert books.cost_of({1, 2, 3}) == 3
    assert books.cost_of({5}) == 0


def test_a_late_answer_makes_an_earlier_window_too_dear() -> None:
    """A positive answer costs all units of its run, also those of windows that have passed."""
    opened = [Line(1, "open", "moved", 1, 5, 1), Line(1, "ask", "moved", run=1)]
    asked = [[Line(unit, "ask", "moved", run=1)] for unit in (2, 3)]
    answered = [Line(unit, "yes", "moved", run=1) for unit in (5, 5, 5)]
    books, wrong = books_of(opened, *asked, [], answered, costs=[1, 1, 1, 1, 5])
    assert (books.cost(5), books.cost(3)) == (5, 15)
    assert wrong == ["unit 5: its window costs 5/4, above the promised 1"]


class NaiveBooks(LedgerBooks):
    """Books that add up every window of the last units again, number by number."""

    def enter(self, unit: int, lines: Iterable[Line], cost: int) -> Iterator[str]:
        self.unit = unit
        for line in lines:
            yield from self._enter(line)
        if self.cost(unit) != cost:
            yield f"unit {unit}: another cost than {cost}"
        for last in range(unit, max(0, unit - self.guarantee.window), -1):
            total = self.cost(last)
            if total * self.quantum > self.guarantee.epsilon:
                yield f"unit {unit}: its window costs {total * self.quantum}, above the promised 1"
                return
            if not self.runs:
                return

    def cost(self, last: int) -> int:
        return self.cost_of(set(range(max(1, last - self.guarantee.window + 1), last + 1)))

    def cost_of(self, units: Collection[int]) -> int:
        found = sum(self.numbers.get(unit, 0) for unit in units)
        found += max(self.exposures.get(unit, 0) for unit in units)
        for run in self.runs.values():
            asked = sum(unit in units for unit in run.asked)
            answered = len(run.positive) + sum(unit in units for unit in run.positive)
            found += min(asked * run.question, run.threshold + answered * run.question)
        return found


@pytest.mark.parametrize("seed", range(60))
def test_books_say_what_naive_books_say(seed: int) -> None:
    """Random lines, some of them late, on a promise that is broken sooner or later."""
    rng = np.random.default_rng(seed)
    promise = ps.Guarantee("1", int(rng.integers(1, 7)))
    books, naive = LedgerBooks(promise, QUANTUM), NaiveBooks(promise, QUANTUM)
    for unit in sorted(rng.choice(np.arange(1, 50), 40, replace=False).tolist()):
        lines = random_lines(rng, unit)
        wanted = list(naive.enter(unit, lines, 0))
        cost = naive.cost(unit)
        found = list(books.enter(unit, lines, cost))
        assert found == [each for each in wanted if "another cost" not in each]
        assert [books.cost(last) for last in range(1, unit + 2)] == [
            naive.cost(last) for last in range(1, unit + 2)
        ]


def random_lines(rng: np.random.Generator, unit: int) -> list[Line]:
    """A few lines of a unit. One in twenty belongs to an earlier unit."""
    found = []
    for _ in range(int(rng.integers(0, 4))):
        place = unit if rng.random() < 0.95 else int(rng.integers(1, unit + 1))
        kind: Any = str(rng.choice(["spend", "expose", "settle", "open", "ask", "ask", "yes"]))
        amount, run = int(rng.integers(0, 5)), int(rng.integers(1, 3))
        number = int(rng.integers(1, 5)) if kind == "open" else amount
        found.append(Line(place, kind, kind, amount, number, run))
    return found


def test_a_loss_that_nobody_paid_for() -> None:
    books, _ = books_of([spend(1, 4, 4)], [spend(2, 4, 4, "other")], costs=[4, 8])
    loss = TranscriptLoss()
    loss.add(1, "publish", exact=Fraction(4, 12))
    assert list(books.unpaid(loss, {1})) == []
    (text,) = books.unpaid(loss, {2})  # paid in total, but not for this label
    assert "the answers for 'publish' lose 0.333333, and 0 was charged" in text
    loss.add(1, "publish", exact=Fraction(1, 10**9))
    assert len(list(books.unpaid(loss, {1}))) == 2


@pytest.mark.parametrize("window", [1, 3, 70])
def test_a_probe_passes_the_shipped_ledger(window: int) -> None:
    mechanism = ps.Uniform(epsilon="1", window=window)
    run, books = mechanism.run(5, noise=NoNoise()), None
    for unit in range(1, 2 * window + 2):
        run.step([1, 2, 3, 4, 5])
        books = books or LedgerBooks(run.guarantee, run.mechanism.grid.quantum)
        lines = [line for line in run.ledger if line.unit == unit]
        assert list(books.enter(unit, lines, run.cost.quanta)) == []
    copy = mechanism.restore(run.snapshot(), 5, noise=NoNoise())
    assert books is not None
    assert list(probe(copy, books, np.random.default_rng(1))) == []


def replayed(mechanism: ps.Mechanism[Any], **more: Any) -> tuple[Replayed, ReplayTrial]:
    left, right = np.full((6, 2), 5), np.full((6, 2), 5)
    left[2:4, 0] += mechanism.contribution
    pair = Pair("by hand", left, right)
    promise = mechanism.guarantee
    trial = ReplayTrial(
        mechanism, Domain.of(2), pair, promise.epsilon, promise.delta, frozenset(more.values())
    )
    return replay(trial, NoiseChoice(seed=1, signs=trial.signs)), trial


def test_a_free_release_is_found_although_the_loss_is_below_the_promise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The person is there in two of six units, and loses a third of the promise."""
    mechanism = ps.Uniform(epsilon="1", window=6)
    assert replayed(mechanism)[0].violations == []
    monkeypatch.setattr(Ledger, "spend", lambda self, amount, label, **how: None)
    found, _ = replayed(mechanism)
    assert found.loss.exact == Fraction(1, 3)
    assert "0 is charged" in found.violations[0]


def test_a_scale_below_its_price_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    base = ReleaseMaker.base
    monkeypatch.setattr(ReleaseMaker, "base", lambda self, of: base(self, of) * Fraction(9, 10))
    found, _ = replayed(ps.Uniform(epsilon="1", window=6))
    assert any("its price and its sensitivity need" in each for each in found.violations)


def test_a_sensitivity_that_is_too_small_is_found() -> None:
    class Doubled(ps.Uniform):
        def step(self, state: Any, unit: ps.Private, gate: ps.Gate) -> Any:
            twice = ps.Private(2 * _raw(unit), sensitivity=1, unit=gate.unit)
            return state, gate.laplace(twice, epsilon=self.share, label="publish")

    found, _ = replayed(Doubled(epsilon="1", window=6))
    assert "changes numbers by 2 in all, and the gate believes by 1" in found.violations[0]


def _raw(unit: ps.Private) -> Any:
    return unit._Private__value  # type: ignore[attr-defined]


def _short(begin: Callable[..., None]) -> Callable[..., None]:
    def forgetful(self: Ledger, unit: int) -> None:
        begin(self, unit)
        if unit > 3:
            self._sum -= 1

    return forgetful


def test_a_ledger_that_forgets_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ledger, "begin", _short(Ledger.begin))
    found, _ = replayed(ps.Uniform(epsilon="1", window=6))
    assert any("ledger lines add up to" in each for each in found.violations)


def test_a_ledger_that_never_refuses_is_found_by_a_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    _, trial = replayed(ps.Uniform(epsilon="1", window=6), after=3)
    choice = NoiseChoice(seed=1)
    assert same_after_a_restart(trial, choice) == []
    make = Ledger.__init__

    def generous(self: Ledger, *given: Any, **how: Any) -> None:
        make(self, *given, **how)
        self.promised += 1

    monkeypatch.setattr(Ledger, "__init__", generous)
    assert same_after_a_restart(trial, choice) != []


def test_a_mask_that_shows_the_rest_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    laplace = Gate.laplace

    def open_hearted(self: Gate, x: Any, **how: Any) -> Any:
        released = laplace(self, x, **how)
        value = released.value.copy()
        value[-1] = 9
        object.__setattr__(released, "value", value)
        return released

    monkeypatch.setattr(Gate, "laplace", open_hearted)
    found, _ = replayed(ps.Uniform(epsilon="1", window=6))
    assert found.violations == []  # what a mechanism does to a release is compared, not judged
