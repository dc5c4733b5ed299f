"""The ledger: a privacy filter that refuses a charge before any noise is drawn, and its lines.

One number is kept per unit: the highest charge of any (unit, key). The cost of a window is

- the sum of those numbers over its units,
- plus, for every *priced run* of the sparse vector technique, min(n·Q, T + (p + p_W)·Q): T and Q
  are the prices of its threshold and of a question, n the questions asked inside the window, p all
  positive answers of the run, p_W those inside the window,
- plus the largest *exposure* of its units: the unpaid content of the memory, for one look into it.

No window may ever cost more than the promise; docs/proofs/ledger.md proves that this is enough.
Budgets may depend on earlier releases. Memory is O(window + keys), whatever the length of the
stream.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from typing import Literal, TypeAlias

import numpy as np

from penstock.budget.grid import Budget, Budgets, Grid, promised
from penstock.core.arrays import BoolArray, IntArray
from penstock.core.errors import BudgetError, InputError, MechanismError, NotCoveredError
from penstock.core.guarantee import Guarantee

Kind: TypeAlias = Literal["spend", "expose", "settle", "open", "ask", "yes", "close"]
"""What a line says. A `settle` is a spend that takes the place of an exposure of the same unit."""


@dataclass(frozen=True, slots=True, init=False)
class Line:
    """One append-only line of the ledger. Amounts are in quanta of the promise's grid.

    Parameters
    ----------
    unit : int
        The unit.
    kind : str
        "spend", "expose", "settle", "open", "ask", "yes" or "close".
    label : str
        The purpose of the charge.
    amount : int
        The charge (spend, settle), the exposure (expose), or the price T of a threshold (open).
        Default: 0.
    number : int
        The unit's number (spend, settle) or exposure (expose) after this line, or the price Q of a
        question (open). Default: 0.
    run : int
        The run of an open, ask, yes or close; runs are numbered from 1. Default: 0.

    >>> Line(unit=1, kind="spend", label="publish", amount=5, number=5).unit
    1
    """

    unit: int
    kind: Kind
    label: str
    amount: int = 0
    number: int = 0
    run: int = 0

    def __init__(
        self, unit: int, kind: Kind, label: str, amount: int = 0, number: int = 0, run: int = 0
    ) -> None:
        _set_unit(self, unit)  # twice as fast as the `__init__` of a frozen dataclass
        _set_kind(self, kind)
        _set_label(self, label)
        _set_amount(self, amount)
        _set_number(self, number)
        _set_run(self, run)


_set_unit, _set_kind, _set_label, _set_amount, _set_number, _set_run = (
    vars(Line)[each.name].__set__ for each in fields(Line)
)


Sink: TypeAlias = Callable[[Line], object]


MOST_COSTS = 2**60
"""Above every promise, and a few of them still fit into int64: what would cost more is cut there.
"""


@dataclass
class PricedRun:
    """One run of the sparse vector technique over all keys; each question reads one unit."""

    label: str
    number: int
    threshold: int
    question: int
    start: int
    asked: list[int] = field(default_factory=list)
    positive: list[int] = field(default_factory=list)
    closed: bool = False

    @property
    def end(self) -> int:
        return self.asked[-1] if self.asked else self.start

    @property
    def opening(self) -> Line:
        return Line(self.start, "open", self.label, self.threshold, self.question, self.number)

    def copy(self) -> PricedRun:
        return replace(self, asked=list(self.asked), positive=list(self.positive))

    def cost(self, first: int, last: int) -> int:
        """The cost of the run in the window of units `first` to `last`."""
        asked = bisect_right(self.asked, last) - bisect_left(self.asked, first)
        inside = bisect_right(self.positive, last) - bisect_left(self.positive, first)
        return min(
            asked * self.question, self.threshold + (len(self.positive) + inside) * self.question
        )


@dataclass(frozen=True)
class LedgerState:
    """Everything the ledger keeps, as plain data."""

    unit: int
    numbers: IntArray
    exposures: list[tuple[int, int]]
    labels: dict[str, list[tuple[int, int]]]
    runs: list[PricedRun]
    opened: int


class Ledger:
    """Refuses whatever would break the promise; hands every line to a sink before the noise is
    drawn.

    >>> from penstock.budget.grid import Grid
    >>> promise = Guarantee("1", 3)
    >>> ledger, share = Ledger(promise, keys=2), Grid.of(promise).floor(Fraction(1, 2))
    >>> for unit in (1, 2):
    ...     ledger.begin(unit)
    ...     ledger.spend(share, "publish")
    >>> ledger.begin(3)
    >>> ledger.spend(share, "publish")
    Traceback (most recent call last):
    penstock.core.errors.BudgetError: unit 3: spending epsilon=1/2 for 'publish' would bring units
    1..3 to 3/2, \
above the promised 1. Nothing was drawn or recorded.
    """

    def __init__(self, guarantee: Guarantee, *, keys: int, sink: Sink | None = None) -> None:
        self.guarantee = guarantee
        self.grid = Grid.of(guarantee)
        self.promised = promised(guarantee).quanta
        self.unit = 0
        self._keys = keys
        self._sink = sink
        self._window = guarantee.window
        self._horizon = guarantee.horizon
        # A ring of the numbers of two windows: one more than the sum needs, because a positive
        # answer also costs past
        # windows. It grows with the stream until it has that size.
        self._numbers = array("q", bytes(8 * min(2 * self._window, 64)))
        self._here = 0  # the slot of this unit
        self._sum = 0
        self._common = 0
        self._by_key: IntArray | None = None
        self._exposed = 0
        self._exposures: deque[tuple[int, int]] = (
            deque()
        )  # of past units, falling from left to right
        self._labels: dict[str, deque[tuple[int, int]]] = {}
        self._label_sums: dict[str, int] = {}
        self._runs: list[PricedRun] = []
        self._opened = 0
        self._question = 0  # the run whose question was the last thing that happened

    # -- units -------------------------------------------------------------------------------------

    def begin(self, unit: int) -> None:
        """Go on to the next unit; units come one by one, each once."""
        if unit != self.unit + 1:
            raise InputError(
                f"unit {unit} cannot follow unit {self.unit}: units come one by one, each once."
            )
        if self._exposed:
            _push(self._exposures, self.unit, self._exposed)
            self._exposed = 0
        self.unit = unit
        size = len(self._numbers)
        if unit >= size and size < 2 * self._window:
            self._numbers.extend(bytes(min(size, 2 * self._window - size)))
        gone = unit - self._window
        if gone > 0:
            self._sum -= self._numbers[self._slot(gone)]
        self._here = self._slot(unit)
        self._numbers[self._here] = 0
        self._common = 0
        self._by_key = None
        while self._exposures and self._exposures[0][0] <= gone:
            self._exposures.popleft()
        for label, entries in list(self._labels.items()):
            while entries and entries[0][0] <= gone:
                self._label_sums[label] -= entries.popleft()[1]
            if not entries:
                del self._labels[label], self._label_sums[label]
        if self._runs:
            self._runs = [
                run for run in self._runs if not run.closed or run.end > unit - 2 * self._window
            ]

    def _slot(self, unit: int) -> int:
        return unit % len(self._numbers)

    # -- what is known -----------------------------------------------------------------------------

    @property
    def number(self) -> Budget:
        """This unit's number: the highest charge of any of its keys."""
        return Budget(self._numbers[self._here], self.grid)

    @property
    def cost(self) -> Budget:
        """The cost of the window that ends now."""
        return Budget(self._cost(), self.grid)

    def spent(self, label: str) -> Budget:
        """The charges under this label in the window that ends now."""
        return Budget(self._label_sums.get(label, 0), self.grid)

    @property
    def left(self) -> Budget:
        """The budget that is left in the window that ends now."""
        return Budget(self.promised - self._cost(), self.grid)

    @property
    def exposed(self) -> Budget:
        """The unpaid content of this unit's memory."""
        return Budget(self._exposed, self.grid)

    def _cost(self) -> int:
        past = self._exposures[0][1] if self._exposures else 0
        return self._sum + (self._run_cost() if self._runs else 0) + max(past, self._exposed)

    def _run_cost(self) -> int:
        first = self.unit - self._window + 1
        return sum(run.cost(first, self.unit) for run in self._runs)

    # -- charges -----------------------------------------------------------------------------------

    def spend(
        self,
        amount: Budget | Budgets,
        label: str,
        *,
        where: BoolArray | None = None,
        settle: bool = False,
    ) -> None:
        """Charge this unit; with `where` only those keys, with `Budgets` each key its own amount.

        `settle`: the amount was exposed in this unit and is now paid for.
        """
        charge = self._amount(amount, where)
        if charge > self.promised:  # also keeps the sums below from passing int64
            raise self._refusal(label, charge, charge)
        old = self._numbers[self._here]
        common, by_key = self._common, self._by_key
        if where is None and isinstance(amount, Budget):
            common += charge
            number = old + charge  # the fullest key is charged too
        else:
            by_key = self._charged(amount, where)
            number = common + int(by_key.max())
        exposed = self._exposed - charge if settle else self._exposed
        if exposed < 0:
            raise MechanismError(f"unit {self.unit}: {label!r} settles more than it had exposed.")
        past = self._exposures[0][1] if self._exposures else 0
        total = self._sum + number - old + (past if past > exposed else exposed)
        if self._runs:
            total += self._run_cost()
        if total > self.promised:
            raise self._refusal(label, charge, total)
        line = Line(self.unit, "settle" if settle else "spend", label, charge, number)
        if self._sink is not None:
            self._sink(line)
        self._question = 0
        self._common, self._by_key = common, by_key
        self._exposed = exposed
        self._sum += number - old
        self._numbers[self._here] = number
        self._enter(label, charge)

    def expose(self, amount: Budget, label: str) -> None:
        """Announce that this unit's memory will hold `amount` unpaid, for one look ever."""
        self._only_one_kind(bool(self._runs))
        exposed = self._exposed + self._amount(amount)
        past = self._exposures[0][1] if self._exposures else 0
        total = self._sum + max(past, exposed)
        if total > self.promised:
            raise self._refusal(label, amount.quanta, total)
        self._hand_over(Line(self.unit, "expose", label, amount.quanta, exposed))
        self._exposed = exposed

    def _charged(self, amount: Budget | Budgets, where: BoolArray | None) -> IntArray:
        """What each key has paid beside the common part, after this charge."""
        by_key = np.zeros(self._keys, np.int64) if self._by_key is None else self._by_key.copy()
        extra = amount.quanta
        if where is None:
            by_key += extra
        elif isinstance(extra, int):
            by_key[where] += extra
        else:
            by_key[where] += extra[where]
        return by_key

    def _amount(self, amount: Budget | Budgets, where: BoolArray | None = None) -> int:
        """The highest charge of any key, after the amount was checked."""
        if amount.grid is not self.grid and amount.grid != self.grid:
            raise MechanismError("this budget lies on another grid: it belongs to another promise.")
        if self.unit == 0 or self._horizon is not None:
            self._readable()
        quanta = amount.quanta
        if (quanta if isinstance(quanta, int) else int(np.min(quanta, initial=0))) < 0:
            raise MechanismError("a charge cannot be negative.")
        if isinstance(quanta, int):
            return quanta if where is None or where.any() else 0
        return int(np.max(quanta if where is None else quanta[where], initial=0))

    def _readable(self) -> None:
        """Refuse to read before the first unit and after the promise's last one."""
        if self.unit == 0:
            raise InputError("no unit has begun.")
        if self._horizon is not None and self.unit > self._horizon:
            raise NotCoveredError(
                f"unit {self.unit}: the promise is that nothing is read after unit {self._horizon}."
            )

    def _enter(self, label: str, charge: int) -> None:
        entries = self._labels.get(label)
        if entries is None:
            self._labels[label] = deque([(self.unit, charge)])
            self._label_sums[label] = charge
            return
        if entries and entries[-1][0] == self.unit:
            entries[-1] = (self.unit, entries[-1][1] + charge)
        else:
            entries.append((self.unit, charge))
        self._label_sums[label] += charge

    def _refusal(
        self, label: str, charge: int, total: int, first: int | None = None
    ) -> BudgetError:
        return BudgetError(
            unit=self.unit,
            label=label,
            amount=charge * self.grid.quantum,
            first=max(1, self.unit - self._window + 1) if first is None else first,
            last=self.unit if first is None else min(first + self._window - 1, self.unit),
            total=total * self.grid.quantum,
            promised=promised(self.guarantee).amount,
            currency=self.grid.currency,
        )

    def _hand_over(self, line: Line) -> None:
        if self._sink is not None:
            self._sink(line)
        self._question = line.run if line.kind == "ask" else 0

    # -- priced runs -------------------------------------------------------------------------------

    def open(self, label: str, *, threshold: Budget, question: Budget) -> int:
        """Begin a priced run and return its number. Only its questions cost anything."""
        run = self._new_run(label, threshold, question)
        self._hand_over(run.opening)
        self._opened = run.number
        self._runs.append(run)
        return run.number

    def open_and_ask(self, label: str, *, threshold: Budget, question: Budget) -> int:
        """`open` and the first `ask`, or neither if the first question is refused."""
        run = self._new_run(label, threshold, question)
        self._runs.append(run)
        try:
            self._admit(run, run.opening)
        except BaseException:
            self._runs.pop()
            raise
        self._opened = run.number
        return run.number

    def ask(self, number: int) -> None:
        """Pay for one question about this unit, as if its answer were positive."""
        self._admit(self._run(number))

    def _new_run(self, label: str, threshold: Budget, question: Budget) -> PricedRun:
        self._only_one_kind(bool(self._exposed or self._exposures))
        price, each = self._amount(threshold), self._amount(question)
        if not price or not each:
            raise MechanismError(
                f"unit {self.unit}: run {label!r} needs a budget for its threshold "
                "and its questions."
            )
        return PricedRun(label, self._opened + 1, price, each, self.unit)

    def _admit(self, run: PricedRun, *before: Line) -> None:
        """Enter a question, if every window of the run can bear a positive answer."""
        self._readable()
        if run.asked and run.end == self.unit:
            raise MechanismError(
                f"unit {self.unit}: run {run.label!r} has asked about this unit already."
            )
        if self.unit - run.start >= self._window:
            raise MechanismError(
                f"unit {self.unit}: run {run.label!r} began in unit {run.start} and may span "
                f"{self._window} units: close it and open another."
            )
        run.asked.append(self.unit)
        run.positive.append(self.unit)
        try:
            first, total = self._costliest_window(run)
            if total > self.promised:
                raise self._refusal(run.label, run.question, total, first)
            for line in (*before, Line(self.unit, "ask", run.label, run=run.number)):
                self._hand_over(line)
        except BaseException:
            run.asked.pop()
            raise
        finally:
            run.positive.pop()

    def yes(self, number: int) -> None:
        """The answer to this unit's question was positive."""
        run = self._run(number)
        if self._question != number or run.end != self.unit:
            raise MechanismError(f"unit {self.unit}: run {run.label!r} has no open question.")
        self._hand_over(Line(self.unit, "yes", run.label, run=number))
        run.positive.append(self.unit)

    def close(self, number: int) -> None:
        """End a run: it is never asked again."""
        run = self._run(number)
        self._hand_over(Line(self.unit, "close", run.label, run=number))
        run.closed = True

    def _run(self, number: int) -> PricedRun:
        for run in self._runs:
            if run.number == number and not run.closed:
                return run
        raise MechanismError(f"unit {self.unit}: there is no open run {number}.")

    def _only_one_kind(self, other: bool) -> None:
        if other:
            raise MechanismError("one ledger takes priced runs or exposures, not both.")

    def _costliest_window(self, run: PricedRun) -> tuple[int, int]:
        """First unit and cost of the costliest window that meets `run`, past ones included."""
        first = max(1, run.start - self._window + 1)
        units = np.arange(first, self.unit + 1)
        numbers = np.frombuffer(self._numbers, np.int64)[units % len(self._numbers)]
        ends = np.minimum(units + self._window - 1, self.unit)
        costs = _between(np.cumsum(numbers), ends - first, units - first)
        for each in self._runs:
            asked, positive = np.asarray(each.asked, np.int64), np.asarray(each.positive, np.int64)
            inside = np.searchsorted(asked, ends, "right") - np.searchsorted(asked, units)
            hits = np.searchsorted(positive, ends, "right") - np.searchsorted(positive, units)
            asking = (
                np.minimum(inside, MOST_COSTS // each.question) * each.question
            )  # more is too much in any case
            answers = np.minimum(len(each.positive) + hits, MOST_COSTS // each.question)
            costs += np.minimum(asking, each.threshold + answers * each.question)
            np.minimum(costs, MOST_COSTS, out=costs)
        costliest = int(np.argmax(costs))
        return int(units[costliest]), int(costs[costliest])

    # -- saving ------------------------------------------------------------------------------------

    def save(self) -> LedgerState:
        """Everything, as plain data; only between units."""
        exposures = self._exposures.copy()
        if self._exposed:
            _push(exposures, self.unit, self._exposed)
        return LedgerState(
            unit=self.unit,
            numbers=np.array(self._numbers, np.int64),
            exposures=list(exposures),
            labels={label: list(entries) for label, entries in self._labels.items()},
            runs=[run.copy() for run in self._runs],
            opened=self._opened,
        )

    def load(self, state: LedgerState) -> None:
        """Go on from a saved state, after its last unit."""
        self.unit = state.unit
        self._numbers = array("q", state.numbers.astype(np.int64).tobytes())
        units = range(max(1, state.unit - self._window + 1), state.unit + 1)
        self._here = self._slot(self.unit)
        self._sum = sum(self._numbers[self._slot(unit)] for unit in units)
        self._common, self._by_key = 0, None
        self._exposed = 0
        self._exposures = deque(state.exposures)
        self._labels = {label: deque(entries) for label, entries in state.labels.items()}
        self._label_sums = {
            label: sum(amount for _, amount in entries) for label, entries in state.labels.items()
        }
        self._runs = [run.copy() for run in state.runs]
        self._opened = state.opened


def _push(exposures: deque[tuple[int, int]], unit: int, amount: int) -> None:
    """Append to a queue whose left end is the largest of a sliding window."""
    while exposures and exposures[-1][1] <= amount:
        exposures.pop()
    exposures.append((unit, amount))


def _between(sums: IntArray, last: IntArray, first: IntArray) -> IntArray:
    """The sum of the elements from `first` to `last` inclusive, given the running sums."""
    return sums[last] - np.where(first > 0, sums[first - 1], 0)


def epsilons(lines: Iterable[Line], grid: Grid) -> list[dict[str, object]]:
    """Lines for people: amounts as exact fractions of ε, or of ρ where the grid counts that."""
    return [
        {
            "unit": line.unit,
            "kind": line.kind,
            "label": line.label,
            grid.currency: str(Fraction(line.amount) * grid.quantum),
            "number": str(Fraction(line.number) * grid.quantum),
            "run": line.run,
        }
        for line in lines
    ]
