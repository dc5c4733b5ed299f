"""Books of a replay: what the ledger lines of a run pay for, added up again.

Nothing here is shared with the ledger or with the accountant. The books say what a transcript may
lose: what was charged in the units in which the two streams differ. That is less than the promise
wherever a mechanism does not use all of it, so a charge that is missing shows at once.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction

from penstock.budget.ledger import Line
from penstock.core.guarantee import Guarantee
from penstock.lab.audit.replay.probabilities import gaussian_delta
from penstock.lab.audit.replay.transcript_loss import ROUNDING, TranscriptLoss


@dataclass
class BookedRun:
    """The units of the questions and positive answers of one priced run, in order."""

    label: str
    threshold: int
    question: int
    asked: list[int] = field(default_factory=list)
    positive: list[int] = field(default_factory=list)

    def cost(self, units: Collection[int]) -> int:
        """What the run costs a person who is there in these units."""
        asked = sum(unit in units for unit in self.asked)
        return self._cost(asked, sum(unit in units for unit in self.positive))

    def cost_between(self, first: int, last: int) -> int:
        """What the run costs a person who is there from one unit to another."""
        asked, positive = self.asked, self.positive
        return self._cost(
            bisect_right(asked, last) - bisect_left(asked, first),
            bisect_right(positive, last) - bisect_left(positive, first),
        )

    def _cost(self, asked: int, inside: int) -> int:
        together = self.threshold + (len(self.positive) + inside) * self.question
        return min(asked * self.question, together)


@dataclass
class LedgerBooks:
    """All lines of a run, unit by unit. Amounts are in quanta.

    Parameters
    ----------
    guarantee : Guarantee
        The promise.
    quantum : Fraction
        What one quantum is worth.

    >>> books = LedgerBooks(Guarantee("1", 2), Fraction(1, 4))
    >>> list(books.enter(1, [Line(1, "spend", "publish", 2, 2)], cost=2))
    []
    >>> list(books.enter(2, [Line(2, "spend", "publish", 3, 3)], cost=5))
    ['unit 2: its window costs 5/4, above the promised 1']
    """

    guarantee: Guarantee
    quantum: Fraction
    unit: int = 0
    numbers: dict[int, int] = field(default_factory=dict)
    exposures: dict[int, int] = field(default_factory=dict)
    labels: dict[str, dict[int, int]] = field(default_factory=dict)
    runs: dict[int, BookedRun] = field(default_factory=dict)
    unusual: set[str] = field(default_factory=set)
    """Labels that are not judged one by one: of priced runs, counters and weighted sums."""
    _sums: list[int] = field(default_factory=lambda: [0])
    """The sum of all numbers up to a unit, for the units from 0 on that were added up."""
    _earlier_changed: bool = False
    """Whether lines of this unit changed what windows that end before it cost."""
    _exceeded: bool = False
    """Whether a window has cost too much before."""
    _judged: dict[int, bool] = field(default_factory=dict)
    """Whether an amount breaks the promise, for amounts that were compared with it."""

    def enter(self, unit: int, lines: Iterable[Line], cost: int) -> Iterator[str]:
        """Enter the lines of one unit, and say what is wrong with them.

        Parameters
        ----------
        unit : int
            The unit.
        lines : iterable of Line
            Its lines.
        cost : int
            What the run says that its window costs.
        """
        self._earlier_changed = self._exceeded or unit != self.unit + 1
        self.unit = unit
        for line in lines:
            yield from self._enter(line)
        found = self.cost(unit)
        if found != cost:
            yield (
                f"unit {unit}: the run says that its window costs {self._worth(cost)}, but its "
                f"ledger lines add up to {self._worth(found)}"
            )
        first = max(1, unit - self.guarantee.window + 1)
        earlier = range(unit - 1, first - 1, -1) if self.runs and self._earlier_changed else ()
        for last in (unit, *earlier):
            total = found if last == unit else self.cost(last)
            if self._too_much(total):
                self._exceeded = True
                yield (
                    f"unit {unit}: its window costs {self._worth(total)}, above the promised "
                    f"{self._promise}"
                )
                return

    def _enter(self, line: Line) -> Iterator[str]:
        unit = line.unit
        if unit != self.unit or line.kind == "yes":  # the latter costs all units of its run
            self._earlier_changed = True
            del self._sums[max(1, unit) :]
        if line.kind in ("spend", "settle"):
            before = self.numbers.get(unit, 0)
            if not max(before, line.amount) <= line.number <= before + line.amount:
                yield (
                    f"unit {unit}: the charge for {line.label!r} cannot bring the unit's number "
                    f"from {self._worth(before)} to {self._worth(line.number)}"
                )
            self.numbers[unit] = line.number
            charged = self.labels.setdefault(line.label, {})
            charged[unit] = charged.get(unit, 0) + line.amount
        if line.kind in ("expose", "settle"):
            sign = 1 if line.kind == "expose" else -1
            self.exposures[unit] = self.exposures.get(unit, 0) + sign * line.amount
            self.unusual.add(line.label)
        elif line.kind == "open":
            self.runs[line.run] = BookedRun(line.label, line.amount, line.number)
            self.unusual.add(line.label)
        elif line.kind == "ask" and line.run in self.runs:
            insort(self.runs[line.run].asked, unit)
        elif line.kind == "yes" and line.run in self.runs:
            insort(self.runs[line.run].positive, unit)

    def cost(self, last: int) -> int:
        """The cost of the window that ends with a unit."""
        first = max(1, last - self.guarantee.window + 1)
        sums = self._sums
        for unit in range(len(sums), self.unit):  # this unit may yet be charged
            sums.append(sums[-1] + self.numbers.get(unit, 0))
        known = len(sums) - 1
        spent = sums[min(last, known)] - sums[min(first - 1, known)]
        for unit in range(max(first, known + 1), last + 1):
            spent += self.numbers.get(unit, 0)
        for run in self.runs.values():
            spent += run.cost_between(first, last)
        return spent + self._exposed(range(first, last + 1))

    def cost_of(self, units: Collection[int]) -> int:
        """What a person pays who is there in these units."""
        spent = sum(self.numbers.get(unit, 0) for unit in units)
        return spent + self._exposed(units) + sum(run.cost(units) for run in self.runs.values())

    def _exposed(self, units: Collection[int]) -> int:
        if not self.exposures:
            return 0
        return max((self.exposures.get(unit, 0) for unit in units), default=0)

    @property
    def _promise(self) -> str:
        promise = self.guarantee
        more = f", δ = {float(promise.delta):g}" if promise.delta else ""
        return f"{promise.epsilon}{more}"

    def _worth(self, quanta: int) -> str:
        worth = quanta * self.quantum
        return str(worth) if worth.denominator < 10**6 else f"{float(worth):.9g}"

    def _too_much(self, quanta: int) -> bool:
        if quanta not in self._judged:
            self._judged[quanta] = self._breaks(quanta)
        return self._judged[quanta]

    def _breaks(self, quanta: int) -> bool:
        worth, promise = quanta * self.quantum, self.guarantee
        if not promise.delta:
            return worth > promise.epsilon
        reached = gaussian_delta(float(worth), float(promise.epsilon))
        return reached > float(promise.delta) * (1 + ROUNDING)

    def unpaid(self, loss: TranscriptLoss, units: Collection[int]) -> Iterator[str]:
        """Losses that nobody was charged for.

        Parameters
        ----------
        loss : TranscriptLoss
            The loss of a transcript.
        units : collection of int
            The units in which the two streams differ.
        """
        delta = bool(self.guarantee.delta)
        paid = self.cost_of(units) * self.quantum
        lost = loss.rho if delta else abs(loss.exact) + abs(Fraction(loss.computed))
        if not delta and loss.computed:
            lost = abs(Fraction(loss.total))
        if lost > paid + _margin(loss, paid) and not (self.unusual and delta):
            yield (
                f"the answers lose {float(lost):.6g}, and {float(paid):.6g} was charged for the "
                "units in which the streams differ"
            )
        for label, (exact, computed, rho) in loss.labels.items():
            charged = self.labels.get(label, {})
            if label in self.unusual or label.endswith(" in memory"):
                continue
            have = sum(amount for unit, amount in charged.items() if unit in units) * self.quantum
            lost = rho if delta else abs(exact + Fraction(computed))
            if lost > have + (Fraction(ROUNDING) if computed else 0):
                yield (
                    f"the answers for {label!r} lose {float(lost):.6g}, and {float(have):.6g} was "
                    "charged for them"
                )


def _margin(loss: TranscriptLoss, paid: Fraction) -> Fraction:
    """How far a sum of floats may be off."""
    return Fraction(ROUNDING) * (1 + paid) if loss.computed else Fraction(0)
