"""The state of a run between two units, as the exact audit keeps it."""

from __future__ import annotations

import copy
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any

import numpy as np

from penstock.budget.ledger import LedgerState
from penstock.core.errors import ConfigurationError
from penstock.core.released import Released
from penstock.lab.audit.exact.errors import ExactAuditError
from penstock.lab.audit.exact.thresholds import Belief
from penstock.private.gate import Secrets
from penstock.private.run import Run


@dataclass(frozen=True, slots=True)
class RunState:
    """Everything that a run goes on from. That the gate keeps nothing else is checked.

    The threshold noise of open sparse-vector runs is 0 here; `beliefs` say what is known of it.
    """

    ledger: LedgerState
    state: Any
    last: Released | None
    secrets: Secrets | None = None
    beliefs: tuple[Belief, ...] = ()

    @classmethod
    def of(cls, run: Run, *, held: int = 0) -> RunState:
        """The state of a run. `held`: the threshold noise that its open runs must still have."""
        kept = run._gate.save()
        if not any(getattr(kept, each.name) for each in fields(kept)):
            return cls(run._ledger.save(), run._state, run.last)
        if any(
            getattr(kept, each.name)
            for each in fields(kept)
            if each.name not in ("pots", "folds", "runs")
        ):
            raise ExactAuditError(run.mechanism, "keeps other secrets between units")
        secrets: Secrets = copied(kept)
        for each in secrets.runs.values():
            if (each.noise[each.open] != held).any():
                raise ExactAuditError(run.mechanism, "changes threshold noise that it keeps")
            each.noise.fill(0)
        return cls(run._ledger.save(), run._state, run.last, secrets)

    def key(self) -> object:
        """A value to compare: states with equal keys have the same future."""
        return _hashable((self.ledger, self.state, self.secrets, self.beliefs))

    def is_open(self, run: str, key: int) -> bool:
        """Whether a sparse-vector run is open for a key."""
        return (
            self.secrets is not None
            and run in self.secrets.runs
            and bool(self.secrets.runs[run].open[key])
        )


_NEVER_CHANGE = frozenset((type(None), bool, int, float, str, bytes, Fraction))
"""Types of most of the data, which is neither copied nor taken apart."""


def copied(value: Any) -> Any:
    """A deep copy of plain data, to be changed in place."""
    if type(value) in _NEVER_CHANGE:
        return value
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, dict):
        return {key: copied(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(copied(each) for each in value)
    if isinstance(value, Released) or not hasattr(value, "__dataclass_fields__"):
        return value  # a release is read-only
    new = copy.copy(value)
    for name in value.__dataclass_fields__:
        object.__setattr__(new, name, copied(getattr(value, name)))
    return new


def _hashable(value: Any) -> object:
    """Plain data as nested tuples."""
    if type(value) in _NEVER_CHANGE:
        return value
    if isinstance(value, np.ndarray):
        return value.tobytes()
    if isinstance(value, dict):
        return tuple((key, _hashable(value)) for key, value in sorted(value.items()))
    if isinstance(value, (list, tuple)):
        return tuple(_hashable(each) for each in value)
    slots = getattr(value, "__dataclass_fields__", None)
    return value if slots is None else tuple(_hashable(getattr(value, name)) for name in slots)


def beliefs_of_open_runs(state: RunState, beliefs: tuple[Belief, ...]) -> tuple[Belief, ...]:
    """The beliefs about runs that are still open. Each open run must have one."""
    assert state.secrets is not None
    found = tuple(each for each in beliefs if state.is_open(each.run, each.key))
    if len(found) != sum(int(np.count_nonzero(each.open)) for each in state.secrets.runs.values()):
        raise ConfigurationError(
            "a sparse-vector run was opened in a way that no exact audit covers."
        )
    return found
