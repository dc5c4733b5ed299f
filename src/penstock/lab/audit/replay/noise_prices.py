"""Whether each draw is charged its price, and its law is the one that price and sensitivity need.

The loss of a transcript shows too little noise only where the two streams differ by as much as the
gate believes, and where both answers to a question are likely. The law of a draw shows it always,
and so does the ledger line of its charge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

import numpy as np

from penstock.core.private import Private
from penstock.lab.audit.replay.gate_observers import MAX_FAULTS, TranscriptSide
from penstock.lab.audit.replay.noise_choice import NoiseCall
from penstock.private.run import Run


def watch_prices(run: Run, side: TranscriptSide) -> None:
    """Compare every draw at the gate of a run, and every charge, with its price.

    Parameters
    ----------
    run : Run
        A run that has just been made or restored, after `observe`.
    side : TranscriptSide
        The side that it belongs to.
    """
    gate, watch = run._gate, _PriceWatch(run, side)
    for owner, name, make in (
        (gate, "laplace", watch.released("epsilon")),
        (gate, "number", watch.released("budget")),
        (gate, "gaussian", watch.released("rho")),
        (gate, "sampled", watch.sampled),
        (gate, "split", watch.split),
        (gate.runs, "keep", watch.kept),
        (gate.runs, "ask", watch.asked),
        (gate.pots, "hold", watch.held),
        (gate.pots, "pour", watch.poured),
        (gate.counters, "prime", watch.primed),
        (gate.trees, "window_sum", watch.summed),
        (gate.convolutions, "weighted_sum", watch.weighted),
    ):
        setattr(owner, name, make(getattr(owner, name)))


class _PriceWatch:
    """Wraps the ways to draw. Each knows its price, its sensitivity and what it must be charged."""

    def __init__(self, run: Run, side: TranscriptSide) -> None:
        self._run = run
        self._side = side

    def released(self, price: str) -> Callable[[Any], Any]:
        def make(shipped: Any) -> Any:
            def method(x: Private, *, label: str, **how: Any) -> Any:
                budget = how[price]
                with (
                    self._charged(label, _quanta(budget, how.get("where"))),
                    self._drawing(x.sensitivity, budget),
                ):
                    return shipped(x, label=label, **how)

            return method

        return make

    def sampled(self, shipped: Any) -> Any:
        def method(x: Private, *, epsilon: Any, label: str, **how: Any) -> Any:
            with self._charged(label, epsilon.quanta):
                return shipped(x, epsilon=epsilon, label=label, **how)

        return method

    def split(self, shipped: Any) -> Any:
        """A whole tree is split for one price (Zhang, Xiao and Xie, SIGMOD 2016, theorem 3.1)."""

        def method(
            x: Private, tree: Any, *, epsilon: Any, label: str, kappa: int = 2, **how: Any
        ) -> Any:
            path = Fraction(2 * kappa - 1, kappa - 1)
            with (
                self._charged(label, epsilon.quanta),
                self._drawing(x.sensitivity * path, epsilon),
            ):
                return shipped(x, tree, epsilon=epsilon, label=label, kappa=kappa, **how)

        return method

    def kept(self, shipped: Any) -> Any:
        def keep(run: str, fold: Any, x: Private, *, price: Any, **how: Any) -> Any:
            each, where = price.threshold + price.question * 2, how.get("where")

            def watched(secret: Any, counts: Any) -> Any:
                if where is not None and counts[~where].any():
                    self._fault(f"counts that are not charged are folded for {run!r}")
                return fold(secret, counts)

            with self._charged(run, _quanta(each, where)):
                return shipped(run, watched, x, price=price, **how)

        return keep

    def asked(self, shipped: Any) -> Any:
        def ask(run: str, statistic: Private, *, price: Any, **how: Any) -> Any:
            given = self._side.noise.given
            before = len(given)
            each = price.threshold + price.question * 2
            quanta = 0 if statistic.fold else _quanta(each, how.get("where"))
            kind = "ask" if statistic.cover.every else "spend"
            with self._charged(run, 0 if statistic.cover.every else quanta, kind):
                answers = shipped(run, statistic, price=price, **how)
            for (call, _), paid in zip(
                given[before:], (price.threshold, price.question), strict=False
            ):
                self._compare(call, statistic.sensitivity, paid)
            if statistic.cover.every and answers[0]:
                self._expect_line("yes", run)
            return answers

        return ask

    def held(self, shipped: Any) -> Any:
        def hold(pot: str, x: Private, *, epsilon: Any, **how: Any) -> None:
            with self._charged(pot, _quanta(epsilon, how.get("where"))):
                shipped(pot, x, epsilon=epsilon, **how)
            self._side.pots[pot] = (x.sensitivity, epsilon)

        return hold

    def poured(self, shipped: Any) -> Any:
        def pour(pot: str, **how: Any) -> Any:
            with self._drawing(*self._side.pots.get(pot, (0, None))):
                return shipped(pot, **how)

        return pour

    def primed(self, shipped: Any) -> Any:
        def prime(counter: str, *, exposed: bool | None, **how: Any) -> None:
            quanta = how["epsilon"].quanta if exposed in (None, True) else 0
            kind = "spend" if exposed is None else "expose"
            with (
                self._charged(counter, quanta, kind),
                self._drawing(how["sensitivity"], how["epsilon"]),
            ):
                shipped(counter, exposed=exposed, **how)

        return prime

    def summed(self, shipped: Any) -> Any:
        def window_sum(label: str, x: Private, *, epsilon: Any, nodes: Any, **how: Any) -> Any:
            with (
                self._charged(label, epsilon.quanta),
                self._drawing(x.sensitivity * len(nodes.sizes), epsilon),
            ):
                return shipped(label, x, epsilon=epsilon, nodes=nodes, **how)

        return window_sum

    def weighted(self, shipped: Any) -> Any:
        def weighted_sum(label: str, x: Private, *, rho: Any, **how: Any) -> Any:
            with self._charged(label, rho.quanta):
                return shipped(label, x, rho=rho, **how)

        return weighted_sum

    @contextmanager
    def _drawing(self, sensitivity: int | Fraction, budget: Any) -> Iterator[None]:
        """All draws inside have this sensitivity and this price."""
        given = self._side.noise.given
        before = len(given)
        yield
        for call, _ in given[before:]:
            self._compare(call, sensitivity, budget)

    @contextmanager
    def _charged(self, label: str, quanta: int, kind: str = "spend") -> Iterator[None]:
        """Inside, at least this much must be charged for the label."""
        lines = self._run._lines
        before = len(lines)
        yield
        new = [line for line in list(lines)[before:] if line.label == label]
        paid = sum(line.amount for line in new if line.kind == kind)
        missing = kind == "ask" and not any(line.kind == kind for line in new)
        if paid < quanta or missing:
            quantum = self._run.mechanism.grid.quantum
            self._fault(
                f"{float(paid * quantum):.6g} is charged for {label!r}, whose price is "
                f"{float(quanta * quantum):.6g}"
                if not missing
                else f"a question for {label!r} is not charged"
            )

    def _expect_line(self, kind: str, label: str) -> None:
        unit = self._run._gate.unit
        if not any(
            (line.unit, line.kind, line.label) == (unit, kind, label) for line in self._run._lines
        ):
            self._fault(f"a positive answer for {label!r} is not in the ledger")

    def _compare(self, call: NoiseCall, sensitivity: int | Fraction, budget: Any) -> None:
        if budget is None or not call.size or call.kind == "thin":
            return
        amount = int(np.max(budget.quanta, initial=0)) * budget.grid.quantum
        if not amount:
            return
        if call.kind == "laplace":
            needed = sensitivity / amount
        else:
            needed = Fraction(sensitivity) ** 2 / (2 * amount)
        law = min(call.laws)
        if law < needed:
            self._fault(
                f"{call.kind} noise for {call.label!r} has parameter {float(law):.6g}; its price "
                f"and its sensitivity need {float(needed):.6g}"
            )

    def _fault(self, what: str) -> None:
        if len(self._side.faults) < MAX_FAULTS:
            self._side.faults.append(f"unit {self._run._gate.unit}: {what}")


def _quanta(budget: Any, where: Any) -> int:
    """The highest charge of any number that is chosen."""
    quanta = np.asarray(budget.quanta)
    if where is None:
        return int(quanta.max(initial=0))
    chosen = np.broadcast_to(quanta, np.shape(where))[where]
    return int(chosen.max(initial=0))
