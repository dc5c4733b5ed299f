"""The ledger in lockstep with a naive twin: the rule of its docstring in exact fractions,
remembering everything.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from penstock.budget.accountant import account
from penstock.budget.grid import Budget, Budgets
from penstock.budget.ledger import Ledger, Line
from penstock.core.errors import BudgetError, ConfigurationError
from penstock.core.guarantee import Guarantee


@dataclass
class TwinRun:
    threshold: Fraction
    question: Fraction
    start: int
    asked: set[int] = field(default_factory=set)
    positive: set[int] = field(default_factory=set)
    closed: bool = False


class Twin:
    """Charges per (unit, key), exposures per unit and runs in plain dictionaries; every window is
    added up anew.
    """

    def __init__(self, epsilon: Fraction, window: int, keys: int) -> None:
        self.epsilon, self.window, self.keys = epsilon, window, keys
        self.unit = 0
        self.charged: dict[tuple[int, int], Fraction] = {}
        self.exposed: dict[int, Fraction] = {}
        self.runs: list[TwinRun] = []

    def cost_of(self, first: int) -> Fraction:
        """The window of the units first..first + w - 1."""
        units = range(max(first, 1), first + self.window)
        spent = sum(
            (
                max(self.charged.get((unit, key), Fraction(0)) for key in range(self.keys))
                for unit in units
            ),
            Fraction(0),
        )
        price = Fraction(0)
        for run in self.runs:
            inside = sum(unit in run.asked for unit in units)
            hits = sum(unit in run.positive for unit in units)
            price += min(
                inside * run.question, run.threshold + (len(run.positive) + hits) * run.question
            )
        return (
            spent
            + price
            + max((self.exposed.get(unit, Fraction(0)) for unit in units), default=Fraction(0))
        )

    @property
    def cost(self) -> Fraction:
        """The window that ends now."""
        return self.cost_of(self.unit - self.window + 1)

    @property
    def worst(self) -> Fraction:
        """The dearest window of all."""
        return max(self.cost_of(first) for first in range(2 - self.window, self.unit + 1))

    def spend(self, amounts: list[Fraction], *, settle: Fraction | None = None) -> bool:
        """Charge each key its amount, and take `settle` off the exposure; False, and nothing
        changed, if that is too much.
        """
        before = dict(self.charged), dict(self.exposed)
        for key, amount in enumerate(amounts):
            self.charged[self.unit, key] = self.charged.get((self.unit, key), Fraction(0)) + amount
        if settle is not None:
            self.exposed[self.unit] -= settle
        return self._decide(before)

    def expose(self, amount: Fraction) -> bool:
        before = dict(self.charged), dict(self.exposed)
        self.exposed[self.unit] = self.exposed.get(self.unit, Fraction(0)) + amount
        return self._decide(before)

    def ask(self, run: TwinRun) -> bool:
        """Whether one more question fits if its answer is positive; the question itself is then
        entered.
        """
        run.asked.add(self.unit)
        run.positive.add(self.unit)
        fits = self.worst <= self.epsilon
        run.positive.discard(self.unit)
        if not fits:
            run.asked.discard(self.unit)
        return fits

    def _decide(self, before: tuple[dict[tuple[int, int], Fraction], dict[int, Fraction]]) -> bool:
        if self.worst <= self.epsilon:
            return True
        self.charged, self.exposed = before
        return False


SETTINGS = settings(
    derandomize=True,
    deadline=None,
    max_examples=50,
    stateful_step_count=40,
    phases=[
        Phase.explicit,
        Phase.generate,
    ],  # shrinking a failure takes minutes: add Phase.shrink to see the least one
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TWELFTHS = st.integers(0, 14)  # of the promise, so that refusals are frequent


class Lockstep(RuleBasedStateMachine):
    """What both machines share: units, spends, saving, and that nothing ever differs."""

    @initialize(
        window=st.integers(1, 8), keys=st.integers(1, 3), epsilon=st.sampled_from(["1", "1/3", "2"])
    )
    def begin_both(self, window, keys, epsilon):
        self.promise = Guarantee(epsilon, window)
        self.lines: list[Line] = []
        self.ledger = Ledger(self.promise, keys=keys, sink=self.lines.append)
        self.twin = Twin(self.promise.epsilon, window, keys)
        self.next_unit()

    def budget(self, twelfths: int) -> Budget:
        return self.ledger.grid.floor(self.promise.epsilon * twelfths / 12)

    def agree(self, fits: bool, act) -> None:
        """`act` on the ledger must be refused exactly if the twin says so, and a refusal leaves no
        trace.
        """
        before, lines = fingerprint(self.ledger), len(self.lines)
        if fits:
            act()
            assert len(self.lines) == lines + 1
        else:
            with pytest.raises(BudgetError) as caught:
                act()
            assert fingerprint(self.ledger) == before
            assert len(self.lines) == lines
            assert caught.value.unit == self.twin.unit
            assert caught.value.total > caught.value.promised == self.twin.epsilon

    @rule()
    def next_unit(self):
        self.twin.unit += 1
        self.ledger.begin(self.twin.unit)

    @rule(twelfths=TWELFTHS)
    def spend_on_all(self, twelfths):
        amount = self.budget(twelfths)
        self.agree(
            self.twin.spend([amount.epsilon] * self.twin.keys),
            lambda: self.ledger.spend(amount, "all"),
        )

    @rule(twelfths=TWELFTHS, data=st.data())
    def spend_on_some(self, twelfths, data):
        amount = self.budget(twelfths)
        where = np.array(
            data.draw(st.lists(st.booleans(), min_size=self.twin.keys, max_size=self.twin.keys))
        )
        fits = self.twin.spend([amount.epsilon * bool(chosen) for chosen in where])
        self.agree(fits, lambda: self.ledger.spend(amount, "some", where=where))

    @rule(data=st.data())
    def spend_on_each(self, data):
        size = self.twin.keys
        amounts = [
            self.budget(each)
            for each in data.draw(st.lists(TWELFTHS, min_size=size, max_size=size))
        ]
        where = data.draw(
            st.none() | st.lists(st.booleans(), min_size=size, max_size=size).map(np.array)
        )
        chosen = np.ones(size, bool) if where is None else where
        fits = self.twin.spend(
            [amount.epsilon * bool(yes) for amount, yes in zip(amounts, chosen, strict=True)]
        )
        budgets = Budgets(np.array([amount.quanta for amount in amounts]), self.ledger.grid)
        self.agree(fits, lambda: self.ledger.spend(budgets, "each", where=where))

    @rule()
    def save_and_load(self):
        fresh = Ledger(self.promise, keys=self.twin.keys, sink=self.lines.append)
        fresh.load(self.ledger.save())
        assert fresh.cost == self.ledger.cost
        assert [fresh.spent(label) for label in ("all", "some")] == [
            self.ledger.spent(label) for label in ("all", "some")
        ]
        self.ledger = fresh
        self.next_unit()

    @invariant()
    def both_say_the_same(self):
        if hasattr(self, "twin"):
            assert self.ledger.cost.epsilon == self.twin.cost
            assert self.twin.worst <= self.twin.epsilon

    def teardown(self):
        """The accountant, from the lines alone, agrees about every window that ends with a unit."""
        if hasattr(self, "twin"):
            found = account(self.lines, self.promise, units=self.twin.unit)
            windows = [
                self.twin.cost_of(unit - self.twin.window + 1)
                for unit in range(1, self.twin.unit + 1)
            ]
            assert [found.window(unit) for unit in range(1, self.twin.unit + 1)] == windows
            assert found.kept
            assert found.worst == max(windows)


class SpendsAndExposures(Lockstep):
    """Pan-private streams: what stands in memory unpaid, and is paid for or not."""

    @rule(twelfths=TWELFTHS)
    def expose(self, twelfths):
        amount = self.budget(twelfths)
        self.agree(self.twin.expose(amount.epsilon), lambda: self.ledger.expose(amount, "memory"))

    @rule(twelfths=TWELFTHS)
    def settle(self, twelfths):
        amount = self.budget(twelfths)
        exposed = self.twin.exposed.get(self.twin.unit, Fraction(0))
        assert self.ledger.exposed.epsilon == exposed
        if amount.epsilon > exposed:
            with pytest.raises((ConfigurationError, BudgetError)):
                self.ledger.spend(amount, "all", settle=True)
            return
        self.twin.exposed.setdefault(self.twin.unit, Fraction(0))
        fits = self.twin.spend([amount.epsilon] * self.twin.keys, settle=amount.epsilon)
        self.agree(fits, lambda: self.ledger.spend(amount, "all", settle=True))


class SpendsAndRuns(Lockstep):
    """Sparse-vector runs with a price of their own, beside plain spends."""

    def __init__(self):
        super().__init__()
        self.open: dict[int, TwinRun] = {}

    @precondition(lambda self: len(self.open) < 3)
    @rule(threshold=st.integers(1, 8), question=st.integers(2, 6))
    def open_a_run(self, threshold, question):
        one, two = (
            self.ledger.grid.floor(self.promise.epsilon * part / 40)
            for part in (threshold, question)
        )
        number = self.ledger.open("run", threshold=one, question=two)
        assert number == len(self.twin.runs) + 1
        run = TwinRun(one.epsilon, two.epsilon, self.twin.unit)
        self.twin.runs.append(run)
        self.open[number] = run

    @precondition(lambda self: self.open)
    @rule(answers=st.lists(st.lists(st.booleans(), min_size=3, max_size=3), min_size=1, max_size=8))
    def ask_in_several_units(self, answers):
        for row in answers:
            self.next_unit()
            for number, positive in zip(sorted(self.open), row, strict=False):
                self.ask_one(number, positive)
            self.both_say_the_same()

    @precondition(lambda self: self.open)
    @rule(data=st.data(), positive=st.booleans())
    def ask(self, data, positive):
        self.ask_one(data.draw(st.sampled_from(sorted(self.open))), positive)

    def ask_one(self, number, positive):
        run = self.open[number]
        if self.twin.unit in run.asked:
            with pytest.raises(ConfigurationError, match="already"):
                self.ledger.ask(number)
            return
        if self.twin.unit - run.start >= self.twin.window:
            with pytest.raises(ConfigurationError, match="close it and open another"):
                self.ledger.ask(number)
            return
        fits = self.twin.ask(run)
        self.agree(fits, lambda: self.ledger.ask(number))
        if fits and positive:
            self.ledger.yes(number)
            run.positive.add(self.twin.unit)

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def close_a_run(self, data):
        number = data.draw(st.sampled_from(sorted(self.open)))
        self.ledger.close(number)
        self.open.pop(number).closed = True


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_long_runs_cost_what_the_twin_says(seed):
    """Runs that are asked in every unit, so that threshold and positives are what they cost, beside
    small spends.
    """
    rng = np.random.default_rng(seed)
    both = SpendsAndRuns()
    both.begin_both(window=int(rng.integers(6, 14)), keys=1, epsilon="1")
    refused = 0
    for _ in range(50):
        both.next_unit()
        for number in list(both.open):
            if both.twin.unit - both.open[number].start >= both.twin.window or rng.random() < 0.05:
                both.ledger.close(number)
                both.open.pop(number)
        if len(both.open) < 2 and rng.random() < 0.7:
            both.open_a_run(threshold=int(rng.integers(1, 8)), question=int(rng.integers(1, 5)))
        for number in both.open:
            held = len(both.lines)
            both.ask_one(number, rng.random() < 0.25)
            refused += len(both.lines) == held
        if rng.random() < 0.3:
            both.spend_on_all(twelfths=int(rng.integers(1, 6)))
        if rng.random() < 0.1:
            both.save_and_load()
        both.both_say_the_same()
    both.teardown()
    assert refused < 60


def fingerprint(ledger: Ledger) -> bytes:
    """Everything that a refusal must leave alone, as bytes."""
    state = ledger.save()
    plain = [
        state.unit,
        state.numbers.tolist(),
        state.exposures,
        state.labels,
        [vars(run) for run in state.runs],
        state.opened,
    ]
    return msgspec.msgpack.encode(
        [plain, ledger.cost.quanta, ledger.number.quanta, ledger.exposed.quanta]
    )


TestSpendsAndExposures = SpendsAndExposures.TestCase
TestSpendsAndExposures.settings = SETTINGS
TestSpendsAndRuns = SpendsAndRuns.TestCase
TestSpendsAndRuns.settings = SETTINGS
