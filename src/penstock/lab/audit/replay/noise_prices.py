"""Whether the law of each draw is the one that its price and its sensitivity need.

The loss of a transcript shows too little noise only where the two streams differ by as much as the
gate believes, and where both answers to a question are likely. The law of a draw shows it always.
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
    """Compare the law of every draw at the gate of a run with its price.

    Parameters
    ----------
    run : Run
        A run that has just been made or restored, after `observe`.
    side : TranscriptSide
        The side that it belongs to.
    """
    gate = run._gate
    watch = _PriceWatch(side)
    gate.laplace = watch.priced(gate.laplace, "epsilon")  # type: ignore[method-assign]
    gate.number = watch.priced(gate.number, "budget")  # type: ignore[method-assign]
    gate.gaussian = watch.priced(gate.gaussian, "rho")  # type: ignore[method-assign]
    gate.runs.ask = watch.asked(gate.runs.ask)  # type: ignore[method-assign]
    gate.pots.hold = watch.held(gate.pots.hold)  # type: ignore[method-assign]
    gate.pots.pour = watch.poured(gate.pots.pour)  # type: ignore[method-assign]
    gate.counters.prime = watch.primed(gate.counters.prime)  # type: ignore[method-assign]
    gate.trees.window_sum = watch.summed(gate.trees.window_sum)  # type: ignore[method-assign]


class _PriceWatch:
    def __init__(self, side: TranscriptSide) -> None:
        self._side = side

    def priced(self, shipped: Any, price: str) -> Callable[..., Any]:
        def method(x: Private, *, label: str, **how: Any) -> Any:
            with self._drawing(x.sensitivity, how[price]):
                return shipped(x, label=label, **how)

        return method

    def asked(self, shipped: Any) -> Callable[..., Any]:
        def ask(run: str, statistic: Private, *, price: Any, **how: Any) -> Any:
            given = self._side.noise.given
            before = len(given)
            answers = shipped(run, statistic, price=price, **how)
            for (call, _), paid in zip(
                given[before:], (price.threshold, price.question), strict=False
            ):
                self._compare(call, statistic.sensitivity, paid)
            return answers

        return ask

    def held(self, shipped: Any) -> Callable[..., Any]:
        def hold(pot: str, x: Private, *, epsilon: Any, **how: Any) -> None:
            shipped(pot, x, epsilon=epsilon, **how)
            self._side.pots[pot] = (x.sensitivity, epsilon)

        return hold

    def poured(self, shipped: Any) -> Callable[..., Any]:
        def pour(pot: str, **how: Any) -> Any:
            with self._drawing(*self._side.pots.get(pot, (0, None))):
                return shipped(pot, **how)

        return pour

    def primed(self, shipped: Any) -> Callable[..., Any]:
        def prime(counter: str, **how: Any) -> None:
            with self._drawing(how["sensitivity"], how["epsilon"]):
                shipped(counter, **how)

        return prime

    def summed(self, shipped: Any) -> Callable[..., Any]:
        def window_sum(label: str, x: Private, *, epsilon: Any, nodes: Any, **how: Any) -> Any:
            with self._drawing(x.sensitivity * len(nodes.sizes), epsilon):
                return shipped(label, x, epsilon=epsilon, nodes=nodes, **how)

        return window_sum

    @contextmanager
    def _drawing(self, sensitivity: int, budget: Any) -> Iterator[None]:
        """All draws inside have this sensitivity and this price."""
        given = self._side.noise.given
        before = len(given)
        yield
        for call, _ in given[before:]:
            self._compare(call, sensitivity, budget)

    def _compare(self, call: NoiseCall, sensitivity: int, budget: Any) -> None:
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
        side = self._side
        if law < needed and len(side.faults) < MAX_FAULTS:
            side.faults.append(
                f"unit {call.unit}: {call.kind} noise for {call.label!r} has parameter "
                f"{float(law):.6g}; its price and its sensitivity need {float(needed):.6g}"
            )
