"""Streams that make a mechanism publish or skip as a test wishes, with the noise off."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from penstock import Mechanism, Run
from penstock.private.noise import NoNoise

FAR = 10**9


def play(mechanism: Mechanism, pattern: Sequence[bool], *, keys: int = 2) -> Run:
    """Leap far away where the pattern says so, stand still elsewhere; the mechanism decides what it
    makes of that.
    """
    run = mechanism.run(keys, noise=NoNoise(), record=True)
    for leap in pattern:
        still = np.zeros(keys, np.int64) if run.last is None else run.last.value
        run.step((still + FAR) % (2 * FAR) if leap else still)
    return run


def charged(run: Run, label: str) -> list[Fraction]:
    """What was charged under the label in each unit."""
    amounts = [Fraction(0)] * run.unit
    for line in run.ledger:
        if line.label == label and line.kind in ("spend", "settle"):
            amounts[line.unit - 1] += line.amount * run.mechanism.grid.quantum
    return amounts


def worst_window(amounts: Sequence[Fraction], window: int) -> Fraction:
    """The largest sum over any `window` consecutive units."""
    return max(
        sum(amounts[max(0, end - window) : end], Fraction(0)) for end in range(1, len(amounts) + 1)
    )
