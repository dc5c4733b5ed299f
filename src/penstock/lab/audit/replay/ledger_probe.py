"""Probes of a run's ledger: whether it adds up what it is charged, and refuses what is too much.

A probe charges a copy of a run that is thrown away afterwards. Nothing is drawn.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from penstock.budget.grid import Budget, Budgets
from penstock.budget.ledger import Ledger
from penstock.core.errors import BudgetError, MechanismError, NotCoveredError
from penstock.lab.audit.replay.ledger_books import LedgerBooks
from penstock.private.run import Run

PARTS = 16
"""A probe charges a sixteenth of what is left at a time."""


def probe(copy: Run, books: LedgerBooks, rng: np.random.Generator) -> Iterator[str]:
    """Charge the next unit of a copied run, in all ways, until the ledger must refuse.

    Parameters
    ----------
    copy : Run
        A run that was restored from a snapshot.
    books : LedgerBooks
        The books of the original.
    rng : Generator
        The source of the choices.
    """
    ledger, unit = copy._ledger, books.unit
    if ledger.cost.quanta != books.cost(unit):
        yield f"unit {unit}: a restored run says that its window has another cost"
    ledger.begin(unit + 1)
    promise = copy.guarantee
    if promise.horizon is not None and unit + 1 > promise.horizon:
        if not _refused(ledger, Budget(1, ledger.grid), NotCoveredError):
            yield f"unit {unit + 1}: the ledger takes a charge after the horizon"
        return
    left = _promised(ledger) - books.cost(unit + 1)
    if not _refused(ledger, Budget(-1, ledger.grid), MechanismError):
        yield f"unit {unit + 1}: the ledger takes a negative charge"
        return
    paid = np.zeros(copy.domain.size, np.int64)
    for kind in rng.permutation(["all", "mask", "budgets", "mask", "budgets", "all"]).tolist():
        amount, where = left // PARTS, rng.random(len(paid)) < 0.5
        where[int(rng.integers(len(paid)))] = True
        if kind == "all":
            ledger.spend(Budget(amount, ledger.grid), "probe")
            paid += amount
        elif kind == "mask":
            ledger.spend(Budget(amount, ledger.grid), "probe", where=where)
            paid[where] += amount
        else:
            each = rng.integers(0, amount + 1, len(paid))
            ledger.spend(Budgets(each, ledger.grid), "probe", where=where)
            paid[where] += each[where]
        if ledger.number.quanta != int(paid.max()):
            yield f"unit {unit + 1}: charges of single keys and of all keys do not add up"
            return
    left -= int(paid.max())
    if not _refused(ledger, Budget(left + 1, ledger.grid), BudgetError):
        yield f"unit {unit + 1}: the ledger takes one quantum more than its window has left"
    elif left and _refused(ledger, Budget(left, ledger.grid), BudgetError):
        yield f"unit {unit + 1}: the ledger refuses what its window has left"


def _promised(ledger: Ledger) -> int:
    """What a window may cost, in quanta. The books compare a ρ with the promise of ε and δ."""
    promise = ledger.guarantee
    if promise.delta:
        return ledger.promised
    return int(promise.epsilon / ledger.grid.quantum)


def _refused(ledger: Ledger, amount: Budget, expected: type[Exception]) -> bool:
    """Whether the ledger refuses a charge, with this error."""
    try:
        ledger.spend(amount, "probe")
    except expected:
        return True
    return False
