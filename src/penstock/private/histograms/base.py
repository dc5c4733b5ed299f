"""The protocol of a histogram method: the counts of one unit in, one release out."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np

from penstock.budget.grid import Budget
from penstock.core.errors import ConfigurationError, MechanismError
from penstock.core.private import Private
from penstock.core.released import Released
from penstock.private.gate import Gate

PUBLISH = "publish"
"""The label of every publication in the ledger. A method with several draws appends to it."""

APART = "apart"
"""The name of a public array of one number: the expected distance of a release from the counts."""


@runtime_checkable
class Histogram(Protocol):
    """A method that releases the counts of one unit.

    It is a frozen dataclass, so that its parameters show in a run's configuration. It reads the
    counts through the gate, spends at most `epsilon` on any key, and gives a release with one
    number per key. A class attribute `by_place = True` says that the order of keys matters to it.

    If the noise of a release is not that of its variances, `public["apart"]` may have one number:
    the expected distance between release and counts, over all keys. `dsft` and `dsat` look for
    movement beyond that. docs/how-to/add-a-histogram.md makes a method.

    >>> from penstock.private.histograms.plain import Plain
    >>> isinstance(Plain(), Histogram)
    True
    """

    def release(self, counts: Private, epsilon: Budget, gate: Gate) -> Released:
        """Release the counts.

        Parameters
        ----------
        counts : Private
            The counts of the unit.
        epsilon : Budget
            The most that may be spent on any key.
        gate : Gate
            The gate through which the counts are read.
        """
        ...


def part(histogram: object) -> None:
    """Refuse a parameter that is no histogram method."""
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
    """Release a unit by this method; refuse a method that spends more than it was given."""
    left = gate.left
    released = histogram.release(counts, epsilon, gate)
    if left - gate.left > epsilon:
        raise MechanismError(
            f"unit {gate.unit}: {histogram} was given epsilon={epsilon.epsilon} "
            f"and spent {(left - gate.left).epsilon}."
        )
    return released


def apart(released: Released) -> float:
    """The expected distance between a release and the counts, over all keys."""
    if APART in released.public:
        return float(released.public[APART][0])
    spread = np.sqrt(released.variance / 2)  # the mean of |noise|, for Laplace noise
    return float(spread[np.isfinite(spread)].sum())
