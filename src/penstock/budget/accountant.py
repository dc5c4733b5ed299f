"""The accountant: the cost of every window, recomputed from recorded lines alone.

It shares no code with the ledger. The ledger decides which noise may be drawn. The accountant
verifies afterwards.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from penstock.budget.grid import Grid, promised
from penstock.budget.ledger import Line
from penstock.core.arrays import IntArray
from penstock.core.errors import LedgerError
from penstock.core.guarantee import Guarantee
from penstock.core.notebook_html import card, sparkline

_MAX_QUANTA = 2**60
"""More quanta than any promise has."""


@dataclass
class _Run:
    threshold: int
    question: int
    asked: list[int] = field(default_factory=list)
    positive: list[int] = field(default_factory=list)
    closed: bool = False


@dataclass(frozen=True, repr=False)
class Account:
    """The cost of every window of a stream, recomputed from its ledger.

    Parameters
    ----------
    guarantee : Guarantee
        The promise.
    numbers : array of int64
        The charge of each unit, in quanta.
    exposures : array of int64
        The unpaid content of the memory in each unit, in quanta.
    windows : array of int64
        `windows[t - 1]` is the cost, in quanta, of the window that ends with unit t.

    Examples
    --------
    >>> from penstock import Guarantee, account
    >>> account([], Guarantee("1", 3), units=2)
    <Account of 2 units: highest spend in any window: ε 0 (limit: 1), promise kept>
    """

    guarantee: Guarantee
    numbers: IntArray
    exposures: IntArray
    windows: IntArray

    @property
    def worst(self) -> Fraction:
        """The highest cost of any window, in the promise's currency."""
        return int(self.windows.max(initial=0)) * Grid.of(self.guarantee).quantum

    @property
    def kept(self) -> bool:
        """Whether no window cost more than was promised."""
        return self.worst <= promised(self.guarantee).amount

    def __repr__(self) -> str:
        return f"<Account of {len(self.windows)} units: {self.verdict}>"

    @property
    def verdict(self) -> str:
        """The highest spend, the limit, and whether the promise was kept, in words."""
        return f"{self._spend}, {self._kept}"

    @property
    def _spend(self) -> str:
        limit = promised(self.guarantee).amount
        sign = "ρ" if self.guarantee.delta else "ε"
        return f"highest spend in any window: {sign} {self.worst} (limit: {limit})"

    @property
    def _kept(self) -> str:
        return "promise kept" if self.kept else "PROMISE BROKEN"

    def _repr_html_(self) -> str:
        """The account for a notebook: the cost of every window, and the limit."""
        quantum = Grid.of(self.guarantee).quantum
        costs = self.windows * np.float64(quantum)
        limit = float(promised(self.guarantee).amount)
        chart = sparkline(costs, limit=limit, width=480, height=64)
        return card(
            f"Account of {len(self.windows)} units: {self._kept}",
            lead=f"{self._spend[0].upper()}{self._spend[1:]}.",
            promise=self.guarantee.in_words(),
            parts=[chart],
            note="The line is the cost of the window that ends with each unit. "
            "The dashed line is the limit.",
        )

    def window(self, unit: int) -> Fraction:
        """The cost of the window that ends with this unit, in the promise's currency.

        Parameters
        ----------
        unit : int
            The unit.
        """
        if not 1 <= unit <= len(self.windows):
            raise IndexError(f"unit {unit} is not in 1..{len(self.windows)}.")
        return int(self.windows[unit - 1]) * Grid.of(self.guarantee).quantum


def account(lines: Iterable[Line], guarantee: Guarantee, *, units: int | None = None) -> Account:
    """Read all lines of a stream, in order, and recompute the cost of every window.

    Lines that contradict each other (a unit out of order, a number that falls, an answer without a
    question) are a `LedgerError`.

    Parameters
    ----------
    lines : iterable of Line
        All lines of the ledger, in order.
    guarantee : Guarantee
        The promise.
    units : int, optional
        The number of units that were released. Default: that of the last line.

    Examples
    --------
    >>> from penstock import Guarantee, Uniform, account
    >>> run = Uniform(epsilon="1", window=3).run(2, record=True)
    >>> for counts in ([7, 0], [8, 1]):
    ...     _ = run.step(counts)
    >>> account(run.ledger, run.guarantee)
    <Account of 2 units: highest spend in any window: ε 2/3 (limit: 1), promise kept>
    """
    numbers: dict[int, int] = {}
    exposures: dict[int, int] = {}
    runs: dict[int, _Run] = {}
    unit = 0
    for line in lines:
        if line.unit < unit or line.unit < 1:
            raise LedgerError(f"a line of unit {line.unit} stands after one of unit {unit}.")
        unit = line.unit
        if guarantee.horizon is not None and unit > guarantee.horizon and line.kind != "close":
            raise LedgerError(
                f"unit {unit} was read, and the promise is that nothing is read "
                f"after unit {guarantee.horizon}."
            )
        _read(line, numbers, exposures, runs)
    length = max(unit, units or 0)
    spent = _per_unit(numbers, length)
    exposed = _per_unit(exposures, length)
    costs = _window_sums(spent, guarantee.window) + _window_maxima(exposed, guarantee.window)
    for run in runs.values():
        costs = np.minimum(costs + _run_costs(run, length, guarantee.window), _MAX_QUANTA)
    return Account(guarantee, spent, exposed, costs)


def _read(
    line: Line, numbers: dict[int, int], exposures: dict[int, int], runs: dict[int, _Run]
) -> None:
    unit, where = line.unit, f"unit {line.unit}, {line.kind} {line.label!r}"
    if line.amount < 0 or line.number < 0:
        raise LedgerError(f"{where}: an amount is negative.")
    if line.kind in ("spend", "settle"):
        before = numbers.get(unit, 0)
        if not max(before, line.amount) <= line.number <= before + line.amount:
            raise LedgerError(
                f"{where}: the unit's number cannot go from {before} to {line.number} "
                f"by {line.amount}."
            )
        numbers[unit] = line.number
    if line.kind in ("expose", "settle"):
        exposures[unit] = exposures.get(unit, 0) + (
            line.amount if line.kind == "expose" else -line.amount
        )
        if exposures[unit] < 0 or (line.kind == "expose" and exposures[unit] != line.number):
            raise LedgerError(f"{where}: the unit's exposure does not add up.")
    if line.kind not in ("spend", "settle", "expose"):
        _read_run(line, where, runs)


def _read_run(line: Line, where: str, runs: dict[int, _Run]) -> None:
    """One line of a priced run."""
    unit = line.unit
    if line.kind == "open":
        if line.run in runs:
            raise LedgerError(f"{where}: run {line.run} was opened before.")
        if not line.amount or not line.number:
            raise LedgerError(f"{where}: a run without a price.")
        runs[line.run] = _Run(line.amount, line.number)
        return
    run = runs.get(line.run)
    if run is None or run.closed:
        raise LedgerError(f"{where}: run {line.run} is not open.")
    if line.kind == "ask":
        if run.asked[-1:] == [unit]:
            raise LedgerError(f"{where}: run {line.run} asked twice about one unit.")
        run.asked.append(unit)
    elif line.kind == "yes":
        if run.asked[-1:] != [unit] or run.positive[-1:] == [unit]:
            raise LedgerError(f"{where}: an answer without a question.")
        run.positive.append(unit)
    elif line.kind == "close":
        run.closed = True
    else:
        raise LedgerError(f"{where}: there is no such line.")


def _per_unit(values: dict[int, int], length: int) -> IntArray:
    result = np.zeros(length, np.int64)
    for unit, value in values.items():
        result[unit - 1] = value
    return result


def _window_sums(values: IntArray, window: int) -> IntArray:
    sums = np.concatenate([[0], np.cumsum(values)])
    ends = np.arange(1, len(values) + 1)
    return np.asarray(sums[ends] - sums[np.maximum(ends - window, 0)], np.int64)


def _window_maxima(values: IntArray, window: int) -> IntArray:
    result = np.zeros(len(values), np.int64)
    if not values.any():
        return result
    largest: deque[int] = deque()
    for end in range(len(values)):
        while largest and values[largest[-1]] <= values[end]:
            largest.pop()
        largest.append(end)
        if largest[0] <= end - window:
            largest.popleft()
        result[end] = values[largest[0]]
    return result


def _run_costs(run: _Run, length: int, window: int) -> IntArray:
    """min(n·Q, T + (p + p_W)·Q) for the window ending with each unit."""
    asked, positive = np.zeros(length, np.int64), np.zeros(length, np.int64)
    asked[np.array(run.asked, np.int64) - 1] = 1
    positive[np.array(run.positive, np.int64) - 1] = 1
    most = _MAX_QUANTA // run.question  # beyond that it does not matter how much it was
    alone = np.minimum(_window_sums(asked, window), most) * run.question
    together = (
        run.threshold
        + np.minimum(len(run.positive) + _window_sums(positive, window), most) * run.question
    )
    return np.asarray(np.minimum(alone, together), np.int64)
