"""Mechanisms run on public counts with test noise, and the mean absolute error of each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.core.arrays import FloatArray
from penstock.engine.pipeline import AnyMechanism
from penstock.engine.plan.candidates import places
from penstock.engine.plan.public_counts import PublicCounts
from penstock.private.noise import TestNoise

RUNS = 3
"""How often a good mechanism is simulated for the ranking, each time with other noise."""

_T = 4.303
"""The 97.5 % point of Student's t with `RUNS` − 1 degrees of freedom."""


@dataclass(frozen=True)
class SimulatedError:
    """The mean absolute error of a key and unit, and half of its 95 % interval.

    The interval says how much the error differs from run to run; it is None for a single run.
    `deviation` is the root of the mean squared error, of a single run.
    """

    mae: float
    half: float | None = None
    deviation: float | None = None

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % interval; None for a single run."""
        if self.half is None:
            return None
        return max(self.mae - self.half, 0.0), self.mae + self.half


def repeated(
    mechanism: AnyMechanism, public: PublicCounts, first: SimulatedError
) -> SimulatedError:
    """The error by `RUNS` runs, of which `first` was one."""
    found = [
        first.mae,
        *(simulate(mechanism, public, seed=each).mae for each in range(2, RUNS + 1)),
    ]
    return SimulatedError(float(np.mean(found)), _T * float(np.std(found, ddof=1)) / RUNS**0.5)


def simulate(mechanism: AnyMechanism, public: PublicCounts, *, seed: int = 1) -> SimulatedError:
    """The error of a mechanism on public counts, by one run."""
    run = mechanism.run(public.domain, noise=TestNoise(seed))
    where = places(run.released, public.domain)
    assert where is not None
    whole = run.released.size == public.domain.size
    counts = public.counts[: mechanism.guarantee.horizon]
    off = squares = 0.0
    for row in counts:
        estimate = run.step(row).estimate
        error = (estimate if whole else estimate[where]) - row
        off += float(np.abs(error).sum())
        squares += float(np.square(error, dtype=np.float64).sum())
    return SimulatedError(off / counts.size, deviation=(squares / counts.size) ** 0.5)


def trivial(public: PublicCounts) -> dict[str, float]:
    """The errors of all zeros, and of each key's long-run mean, which is not private."""
    counts: FloatArray = public.counts.astype(np.float64)
    return {
        "all zeros": float(np.abs(counts).mean()),
        "long-run mean": float(np.abs(counts - counts.mean(axis=0)).mean()),
    }
