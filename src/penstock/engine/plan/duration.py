"""How long a plan takes, found by a short trial of every mechanism."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from penstock.engine.plan.candidates import AskedPromise, MechanismChoice, unfit
from penstock.engine.plan.public_counts import PublicCounts
from penstock.engine.plan.simulation import simulate

Progress: TypeAlias = Callable[[float, float], None]
"""Hears how many seconds of work are done, and how many there are in all, both estimates."""

TRIAL_UNITS = 40
"""How many units of a mechanism are tried with all keys, and with one."""

_WARM_UNITS = 2
"""Units before that fill tables and caches, and are not timed."""


@dataclass(frozen=True, kw_only=True)
class Trial:
    """What a few units of a mechanism showed. Times are of the processor, in seconds.

    Parameters
    ----------
    error : float
        The mean absolute error.
    keys : int
        The number of keys.
    begin : float
        The time before the first unit.
    unit : float
        The time of a unit with all keys.
    unit_of_one : float
        The time of a unit with one key.
    """

    error: float
    keys: int
    begin: float
    unit: float
    unit_of_one: float

    @classmethod
    def of(cls, choice: MechanismChoice, promise: AskedPromise, public: PublicCounts) -> Trial:
        """Try a mechanism on the first units, and on their totals."""
        few = replace(public, counts=public.counts[:TRIAL_UNITS])
        begun = time.process_time()
        unfit(choice, few.domain, promise, few.facts)
        begin = time.process_time() - begun
        error, unit = _timed(choice, promise, few)
        one = few.grouped(("all",), np.zeros(few.domain.size, np.int64))
        fits = unfit(choice, one.domain, promise, one.facts) is None
        return cls(
            error=error,
            keys=few.domain.size,
            begin=begin,
            unit=unit,
            unit_of_one=_timed(choice, promise, one)[1] if fits else 0.0,
        )

    def seconds(self, public: PublicCounts, promise: AskedPromise) -> float:
        """About how long the processor needs for a simulation on these counts."""
        units = min(len(public.counts), promise.horizon or len(public.counts))
        share = (public.domain.size - 1) / max(self.keys - 1, 1)
        return self.begin + units * (self.unit_of_one + share * (self.unit - self.unit_of_one))


def _timed(
    choice: MechanismChoice, promise: AskedPromise, public: PublicCounts
) -> tuple[float, float]:
    """The error, and the time of a unit."""
    mechanism = choice.made(promise, public.facts)
    simulate(mechanism, replace(public, counts=public.counts[:_WARM_UNITS]))
    begun = time.process_time()
    error = simulate(mechanism, public)
    return error.mae, (time.process_time() - begun) / len(public.counts)
