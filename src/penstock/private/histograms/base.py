"""What a histogram method is: one unit's counts in, one release out, for so much of the budget."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np

from penstock.budget.grid import Budget
from penstock.core.errors import ConfigurationError
from penstock.core.private import Private
from penstock.core.released import Released
from penstock.private.gate import Gate

PUBLISH = "publish"
"""The label of every publication in the ledger; a method that makes several draws writes more
behind it.
"""

APART = "apart"
"""The name of a public array of one number: how far noise is expected to keep a release from the
counts, over all keys.
"""


@runtime_checkable
class Histogram(Protocol):
    """Releases the counts of one unit.

    A frozen dataclass, so that its parameters show in a run's configuration. It reads the counts
    through the gate, spends at most `epsilon` on any key, and gives a release with one number per
    key. A class attribute `by_place = True` says that the order of keys matters to it. Where the
    noise of a release is not what its variances say, `public["apart"]` may have one number, how far
    noise is expected to keep it from the counts, over all keys: `dsft` and `dsat` look for movement
    beyond that. docs/how-to/add-a-histogram.md makes one.
    """

    def release(self, counts: Private, epsilon: Budget, gate: Gate) -> Released:
        """The counts, as anyone may see them."""
        ...


def part(histogram: object) -> None:
    """Refuse what is no histogram method, as a mechanism's parameter."""
    if isinstance(histogram, type):
        raise ConfigurationError(
            f"histogram must be an instance, {histogram.__name__}(...), unlike {histogram!r}.",
            parameter="histogram",
        )
    if not isinstance(histogram, Histogram):
        raise ConfigurationError(
            f"histogram must have a method release(counts, epsilon, gate), unlike {histogram!r}.",
            parameter="histogram",
        )


def publish(histogram: Histogram, counts: Private, epsilon: Budget, gate: Gate) -> Released:
    """A unit's release by this method; one that spends more than it was given is not let out."""
    left = gate.left
    released = histogram.release(counts, epsilon, gate)
    if left - gate.left > epsilon:
        raise ConfigurationError(
            f"unit {gate.unit}: {histogram} was given epsilon={epsilon.epsilon} and spent {(left - gate.left).epsilon}."
        )
    return released


def apart(released: Released) -> float:
    """How far noise is expected to keep a release from the counts, over all keys: as it says, or by
    its variances.
    """
    if APART in released.public:
        return float(released.public[APART][0])
    spread = np.sqrt(released.variance / 2)  # the mean of |noise|, for Laplace noise
    return float(spread[np.isfinite(spread)].sum())
