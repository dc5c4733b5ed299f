"""Checks that the promise holds: the cost of every window, and what the ledger refuses."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from penstock.budget.accountant import account
from penstock.budget.grid import Budget
from penstock.budget.zcdp import rho_of
from penstock.core.errors import BudgetError, LedgerError
from penstock.core.guarantee import Guarantee
from penstock.core.private import Private
from penstock.lab.checks.base import AnyMechanism, explore, failure
from penstock.lab.checks.streams import Script, restless, scripts
from penstock.private.run import Run
from penstock.testing import RecordingNoise, TestNoise


def check_no_window_costs_more_than_promised(cls: AnyMechanism, *, quick: bool = False) -> None:
    """No window costs more than was promised.

    Random streams force each key to publish or to repeat in each unit; others have small counts
    and noise. After every unit the accountant recomputes every window from the ledger lines alone.
    The ledger's own figure must agree.
    """

    def act_out(script: Script) -> None:
        run = script.start(cls)
        for counts in script.stream(run):
            run.step(counts)
            try:
                books = account(run.ledger, run.guarantee, units=run.unit)
            except LedgerError as error:
                raise failure(cls, f"{script}: the lines cannot be true: {error}") from error
            promise = _promise(run.guarantee, script.epsilon)
            for unit in range(1, run.unit + 1):
                if (cost := books.window(unit)) > promise:
                    raise failure(
                        cls,
                        f"{script}: by its ledger lines the window that ends with unit {unit} "
                        f"costs {cost}, but {promise} was promised.",
                    )
            if (cost := books.window(run.unit)) != run.cost.amount:
                raise failure(
                    cls,
                    f"{script}: by its ledger lines the window that ends with unit {run.unit} "
                    f"costs {cost}, but the run says {run.cost.amount}.",
                )

    explore(act_out, scripts(), examples=60 if quick else 250)


def _promise(guarantee: Guarantee, epsilon: Fraction) -> Fraction:
    """The limit of a window: ε, or the ρ that implies (ε, δ) if there is a δ."""
    return rho_of(epsilon, guarantee.delta) if guarantee.delta else epsilon


def check_the_stated_guarantee_is_the_enforced_one(
    cls: AnyMechanism, *, quick: bool = False
) -> None:
    """The stated guarantee is the one that is enforced.

    Mechanism, run and every release state the guarantee that was asked for. After every unit, and
    at the start of the next one, a charge of one quantum more than the window has left is refused
    and changes nothing. A charge of exactly what is left is accepted.
    """
    for epsilon, window, contribution in (("1", 4, 1), ("0.3", 1, 2), ("2/3", 3, 3)):
        mechanism = cls(epsilon=epsilon, window=window, contribution=contribution)
        where = f"{mechanism}"
        asked = (Fraction(epsilon), window, contribution)
        stated = mechanism.guarantee
        if (stated.epsilon, stated.window, stated.contribution) != asked:
            raise failure(cls, f"{where} states {stated}.")
        noise = RecordingNoise(TestNoise(3))
        run = mechanism.run(4, noise=noise, record=True)
        if run.guarantee != stated:
            raise failure(cls, f"{where} states {stated}, but its run states {run.guarantee}.")
        for counts in restless(4, 6 if quick else 15, seed=9):
            released = run.step(counts)
            if released.guarantee != stated:
                raise failure(
                    cls,
                    f"{where} states {stated}, but its release of unit {released.unit} states "
                    f"{released.guarantee}.",
                )
            _refuses_more(cls, run, noise)
            ahead = mechanism.restore(run.snapshot(), 4, noise=noise, record=True)
            ahead._gate.begin(run.unit + 1)
            _refuses_more(cls, ahead, noise)
            _accepts_the_rest(cls, ahead)


def _left(run: Run) -> Budget:
    """The budget that the current window has left."""
    grid, guarantee = run.mechanism.grid, run.mechanism.guarantee
    return grid.floor(_promise(guarantee, guarantee.epsilon)) - run.cost


def _refuses_more(cls: AnyMechanism, run: Run, noise: RecordingNoise) -> None:
    where = f"{run.mechanism}, unit {run._ledger.unit}"
    left = _left(run)
    nobody = Private(np.zeros(run.domain.size, np.int64), sensitivity=run.mechanism.contribution)
    before = (run.ledger, run.cost, len(noise.draws), len(noise.gaussians), run._ledger.number)
    more = Budget(left.quanta + 1, left.grid)
    try:
        run._gate.noisy(nobody, budget=more, label="probe")
    except BudgetError:
        pass
    else:
        raise failure(
            cls,
            f"{where}: a charge of one quantum more than the window has left ({left.amount}) "
            "was accepted.",
        )
    if before != (run.ledger, run.cost, len(noise.draws), len(noise.gaussians), run._ledger.number):
        raise failure(
            cls, f"{where}: a refused charge left a trace in the ledger, or noise was drawn for it."
        )


def _accepts_the_rest(cls: AnyMechanism, run: Run) -> None:
    where, left = f"{run.mechanism}, unit {run._ledger.unit}", _left(run)
    try:
        run._ledger.spend(left, "probe")
    except BudgetError as error:
        raise failure(
            cls, f"{where}: exactly what the window has left ({left.amount}) was refused: {error}"
        ) from error
    if _left(run):
        raise failure(
            cls, f"{where}: after all of it was spent, the window still has {_left(run).amount}."
        )
