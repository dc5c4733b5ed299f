"""A check that the gate of a run refuses what no mechanism may do.

A mechanism that keeps its promise never does these things, so no stream shows whether they are
refused. The check does them itself, on runs that it throws away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from penstock.budget.grid import Budget, Grid
from penstock.core.arrays import IntArray
from penstock.core.cover import ALL
from penstock.core.errors import (
    BudgetError,
    InputError,
    MechanismError,
    NotCoveredError,
    StateError,
)
from penstock.core.guarantee import Guarantee
from penstock.core.private import Private
from penstock.lab.checks.base import AnyMechanism, CheckError, failure
from penstock.private.gate import Combination, Gate, Price
from penstock.private.run import Run
from penstock.testing import NoNoise, RecordingNoise, TestNoise

_SIZE, _WINDOW = 4, 3
_COUNTS = np.array([5, 6, 7, 8])
_SOME = np.array([True, False, True, False])

Probe = tuple[str, Callable[[], object], type[Exception]]


def check_the_gate_keeps_its_rules(cls: AnyMechanism, *, quick: bool = False) -> None:
    """The gate refuses what no mechanism may do.

    Numbers of an earlier unit, folded numbers, no budget, a negative one, one of another promise,
    another currency, masks that do not fit, more than is left, and units after the horizon are
    refused, and nothing is drawn. Pots, runs, counters, trees and weighted sums keep their prices.
    What is charged for some keys is read for those only, and what was poured is gone. A snapshot of
    another promise or of other keys is refused, and so is one in a run that has begun.
    """
    for contribution in (1,) if quick else (1, 3):
        _Probes(cls, contribution).all()


class _Probes:
    """The probes of one mechanism, each on a run of its own."""

    def __init__(self, cls: AnyMechanism, contribution: int) -> None:
        self._cls = cls
        self._mechanism = cls(epsilon="1", window=_WINDOW, contribution=contribution)
        self._contribution = contribution

    def all(self) -> None:
        gaussian = self._mechanism.grid.currency == "rho"
        for probe in self._of_any_promise():
            self._expect(*probe)
        for probe in self._of_rho() if gaussian else self._of_epsilon():
            self._expect(*probe)
        for probe in self._of_snapshots():
            self._expect(*probe)
        self._refuses_before_it_draws()
        self._charges_by_key()
        if not gaussian:
            self._pots()
            self._thresholds()

    # -- what is needed for a probe ----------------------------------------------------------------

    def _begun(self, unit: int = 1) -> tuple[Run, Gate]:
        run = self._mechanism.run(_SIZE, noise=NoNoise())
        for each in range(1, unit + 1):
            run._gate.begin(each)
        return run, run._gate

    def _part(self, parts: int) -> Budget:
        return self._mechanism.total // parts

    def _counts(self, unit: int = 0) -> Private:
        return Private(_COUNTS.copy(), sensitivity=self._contribution, unit=unit)

    def _price(self, parts: int = 64) -> Price:
        return Price(self._part(parts), self._part(parts))

    def _expect(self, what: str, call: Callable[[], object], error: type[Exception]) -> None:
        try:
            call()
        except error:
            return
        except Exception as other:
            raise self._failure(
                f"{what} raises {type(other).__name__}, not {error.__name__}"
            ) from other
        raise self._failure(f"{what} is accepted")

    def _failure(self, problem: str) -> CheckError:
        return failure(self._cls, f"the gate of {self._mechanism}: {problem}.")

    # -- refusals ----------------------------------------------------------------------------------

    def _of_any_promise(self) -> Iterator[Probe]:
        _, gate = self._begun(2)
        old, some = self._counts(unit=1), self._part(8)
        one = old.map(lambda counts: counts.sum(keepdims=True), stability=1, cover=ALL)
        yield (
            "a release of numbers of an earlier unit",
            lambda: gate.noisy(old, budget=some, label="probe"),
            MechanismError,
        )
        yield (
            "a number of an earlier unit",
            lambda: gate.number(one, budget=some, label="probe"),
            MechanismError,
        )
        yield (
            "a release without a budget",
            lambda: gate.noisy(self._counts(), budget=self._part(1) * 0, label="probe"),
            MechanismError,
        )
        yield (
            "a negative charge",
            lambda: gate._ledger.spend(some * -1, "probe"),
            MechanismError,
        )
        yield (
            "a budget of another promise",
            lambda: gate.noisy(self._counts(), budget=_foreign(), label="probe"),
            MechanismError,
        )
        yield (
            "a mask of another size",
            lambda: gate.noisy(self._counts(), budget=some, label="probe", where=_SOME[:3]),
            MechanismError,
        )
        yield (
            "a mask of places",
            lambda: gate.noisy(
                self._counts(),
                budget=some,
                label="probe",
                where=np.array([0, 1, 2, 3]),
            ),
            MechanismError,
        )
        yield "the same unit again", lambda: gate.begin(2), InputError
        yield "a unit that is left out", lambda: gate.begin(4), InputError

    def _of_snapshots(self) -> Iterator[Probe]:
        run = self._mechanism.run(_SIZE, noise=NoNoise())
        snapshot = run.snapshot()
        promise: dict[str, Any] = {
            "epsilon": "1",
            "window": _WINDOW,
            "contribution": self._contribution,
        }
        for name, other in (("epsilon", "2"), ("window", 2 * _WINDOW), ("contribution", 7)):
            there = self._cls(**promise | {name: other}).run(_SIZE, noise=NoNoise())
            yield f"a snapshot of another {name}", partial(there.load, snapshot), StateError
        names = [f"other {number}" for number in range(_SIZE)]
        there = self._mechanism.run(names, noise=NoNoise())
        yield "a snapshot of other keys", partial(there.load, snapshot), StateError
        run._begin()
        yield "a snapshot in a run that has begun", partial(run.load, snapshot), StateError

    def _of_rho(self) -> Iterator[Probe]:
        _, gate = self._begun()
        some = self._part(8)
        weights = np.array([2, 1])
        yield (
            "Laplace noise under a promise with δ",
            lambda: gate.laplace(self._counts(), epsilon=some, label="probe"),
            MechanismError,
        )
        gate.convolutions.weighted_sum("sum", self._counts(), coefficients=weights, rho=some)
        gate.begin(2)
        yield (
            "a weighted sum with another price",
            lambda: gate.convolutions.weighted_sum(
                "sum", self._counts(), coefficients=weights, rho=some // 2
            ),
            MechanismError,
        )
        yield (
            "a weighted sum with other weights",
            lambda: gate.convolutions.weighted_sum(
                "sum", self._counts(), coefficients=weights[::-1].copy(), rho=some
            ),
            MechanismError,
        )

    def _of_epsilon(self) -> Iterator[Probe]:
        _, gate = self._begun()
        some, price = self._part(32), self._price()
        counts = self._counts()
        yield (
            "Gaussian noise under a promise without δ",
            lambda: gate.gaussian(counts, rho=some, label="probe"),
            MechanismError,
        )
        folded = gate.runs.keep("fold", _fold, counts, price=price, stability=1)
        yield (
            "a release of folded numbers",
            lambda: gate.laplace(folded, epsilon=some, label="probe"),
            MechanismError,
        )
        yield (
            "a question of another run about folded numbers",
            lambda: gate.runs.ask("other", folded, threshold=1, price=price),
            MechanismError,
        )
        gate.runs.ask("fold", folded, threshold=10**6, price=price)
        yield (
            "a second question about folded numbers",
            lambda: gate.runs.ask("fold", folded, threshold=1, price=price),
            MechanismError,
        )
        gate.counters.prime("one", epsilon=some, sensitivity=1, size=4, exposed=None)
        yield (
            "a counter that is primed twice",
            lambda: gate.counters.prime("one", epsilon=some, sensitivity=1, size=4, exposed=None),
            MechanismError,
        )
        yield "the end of a unit with an open counter", gate.end, MechanismError
        yield from self._of_trees()
        yield from self._of_priced_runs()

    def _of_trees(self) -> Iterator[Probe]:
        _, gate = self._begun()
        some, counts = self._part(32), self._counts()
        whole = Combination((1,), ((0, 0),), (), (0,))
        yield (
            "nodes that are not those of the window",
            lambda: gate.trees.window_sum(
                "wrong",
                counts,
                epsilon=some,
                span=2,
                nodes=Combination((1,), ((0, 0), (0, 1)), (), (0,)),
            ),
            MechanismError,
        )
        gate.trees.window_sum("tree", counts, epsilon=some, span=2, nodes=whole)
        gate.begin(2)
        both = Combination((1,), ((0, 0), (0, 1)), (), (0,))
        yield (
            "a window sum with another price",
            lambda: gate.trees.window_sum("tree", counts, epsilon=some // 2, span=2, nodes=both),
            MechanismError,
        )

    def _of_priced_runs(self) -> Iterator[Probe]:
        _, gate = self._begun()
        price = self._price()

        def total() -> Private:
            return Private(np.array([26]), sensitivity=self._contribution, cover=ALL)

        def ask(**how: Any) -> Any:
            return gate.runs.ask("all", total(), threshold=10**6, price=price, **how)

        ask()
        yield "a second question about one unit", ask, MechanismError
        yield (
            "a part of one number",
            lambda: ask(where=np.array([True])),
            MechanismError,
        )
        for unit in range(2, _WINDOW + 1):
            gate.begin(unit)
            ask()
        gate.begin(_WINDOW + 1)
        yield "a run that spans more than a window", ask, MechanismError

    def _refuses_before_it_draws(self) -> None:
        """Each way to charge must refuse what the window has not, and draw nothing."""
        for name, charge in self._charges():
            noise = RecordingNoise(TestNoise(5))
            run = self._mechanism.run(_SIZE, noise=noise)
            run._gate.begin(1)
            run._ledger.spend(self._mechanism.total, "probe")
            self._expect(f"{name} after all was spent", lambda: charge(run._gate), BudgetError)  # noqa: B023
            if noise.draws or noise.gaussians:
                raise self._failure(f"{name} was refused after noise was drawn for it")

    def _charges(self) -> Iterator[tuple[str, Callable[[Gate], object]]]:
        some, price = self._part(8), self._price(16)
        yield "a release", lambda gate: gate.noisy(self._counts(), budget=some, label="a")
        yield (
            "a masked release",
            lambda gate: gate.noisy(self._counts(), budget=some, label="a", where=_SOME),
        )
        if self._mechanism.grid.currency == "rho":
            weights = np.array([2, 1])
            yield (
                "a weighted sum",
                lambda gate: gate.convolutions.weighted_sum(
                    "a", self._counts(), coefficients=weights, rho=some
                ),
            )
            return
        yield "a pot", lambda gate: gate.pots.hold("a", self._counts(), epsilon=some)
        yield (
            "a fold",
            lambda gate: gate.runs.keep("a", _fold, self._counts(), price=price, stability=1),
        )
        yield (
            "a question per key",
            lambda gate: gate.runs.ask("a", self._counts(), threshold=1, price=price),
        )
        total = Private(np.array([26]), sensitivity=self._contribution, cover=ALL)
        yield (
            "a priced question",
            lambda gate: gate.runs.ask("a", total, threshold=1, price=price),
        )
        for exposed in (None, True):
            yield "a counter", partial(_prime, epsilon=some, exposed=exposed)
        nodes = Combination((1,), ((0, 0),), (), (0,))
        yield (
            "a window sum",
            lambda gate: gate.trees.window_sum(
                "a", self._counts(), epsilon=some, span=2, nodes=nodes
            ),
        )

    # -- what is read, charged and kept ------------------------------------------------------------

    def _charges_by_key(self) -> None:
        """Charges of different keys stand side by side, charges of one key add up."""
        run, gate = self._begun()
        some = self._part(8)
        for times, (where, expected) in enumerate(
            ((_SOME, 1), (~_SOME, 1), (_SOME, 2), (None, 3), (~_SOME, 3), (~_SOME, 4)), start=1
        ):
            released = gate.noisy(self._counts(), budget=some, label=f"a{times}", where=where)
            shown = _COUNTS if where is None else np.where(where, _COUNTS, 0)
            if not np.array_equal(released.value, shown):
                raise self._failure("a masked release shows other numbers than the mask")
            if run._ledger.number != some * expected:
                raise self._failure("charges of single keys and of all keys do not add up")
        if self._mechanism.horizon is None:
            self._expect_horizon()

    def _expect_horizon(self) -> None:
        cls = self._cls
        try:
            ended = cls(epsilon="1", window=2, horizon=2)
            run = ended.run(_SIZE, noise=NoNoise())
        except Exception:  # a mechanism may have no form with an end
            return
        for unit in (1, 2, 3):
            run._gate.begin(unit)
        self._expect(
            "a release after the horizon",
            lambda: run._gate.noisy(
                Private(_COUNTS.copy(), sensitivity=1), budget=ended.total // 8, label="a"
            ),
            NotCoveredError,
        )

    def _pots(self) -> None:
        run, gate = self._begun()
        some = self._part(32)

        def poured(where: Any) -> IntArray:
            return gate.pots.pour("a", where=where).value

        gate.pots.hold("a", self._counts(), epsilon=some, where=_SOME)
        gate.pots.hold("a", self._counts(), epsilon=some)
        if run._ledger.number != some * 2:
            raise self._failure("a pot is not paid for in full")
        for what, error in (
            ("another price", lambda: gate.pots.hold("a", self._counts(), epsilon=some // 2)),
            (
                "another sensitivity",
                lambda: gate.pots.hold(
                    "a",
                    Private(_COUNTS, sensitivity=self._contribution + 1),
                    epsilon=some,
                ),
            ),
        ):
            self._expect(f"a pot that goes on with {what}", error, MechanismError)
        first = np.array([True, True, False, False])
        if not np.array_equal(poured(first), [10, 6, 0, 0]):
            raise self._failure("a pot holds other numbers than were paid for")
        gate.pots.drop("a", where=np.array([False, False, True, False]))
        if not np.array_equal(poured(np.ones(4, np.bool_)), [0, 0, 0, 8]):
            raise self._failure("a pot still holds what was poured or dropped, or lost the rest")
        self._expect("a pot that was poured", lambda: poured(np.ones(4, np.bool_)), MechanismError)

    def _thresholds(self) -> None:
        """A run per key has a threshold of its own until its first positive answer."""
        noise = RecordingNoise(NoNoise())
        run = self._mechanism.run(_SIZE, noise=noise)
        price, sizes = self._price(256), []
        for unit in (1, 2, 3):
            run._gate.begin(unit)
            noise.draws.clear()
            answers = run._gate.runs.ask("a", self._counts(), threshold=7, price=price)
            sizes.append([draw.size for draw in noise.draws if "threshold" in draw.label])
            if not np.array_equal(answers, _COUNTS >= 7):
                raise self._failure("an answer is not that of the numbers and the threshold")
        if sizes != [[4], [2], [2]]:
            raise self._failure(
                f"{sizes} thresholds were drawn in three units, not 4 and then 2 after two "
                "positive answers"
            )


def _fold(secret: Any, counts: IntArray) -> tuple[Any, IntArray]:
    total = counts if secret is None else secret + counts
    return total, total


def _prime(gate: Gate, *, epsilon: Budget, exposed: bool | None) -> None:
    gate.counters.prime("a", epsilon=epsilon, sensitivity=1, size=4, exposed=exposed)


def _foreign() -> Budget:
    """A budget of a promise that nobody made here."""
    return Budget(5, Grid.of(Guarantee("7/11", 5)))
