"""What lines are called where people read of them."""

from __future__ import annotations

from penstock.lab.bench.cell import TRIVIAL
from penstock.lab.bench.plugins import FLAWED, LAB
from penstock.private.mechanisms.toeplitz import CorrelatedGaussian


def label(mechanism: str) -> str:
    """What a line is called in figures: what is not private is marked, and what promises less than the others.

    >>> label("toeplitz")
    'toeplitz (with δ)'
    >>> label("ba"), label("mean"), label("flawed:IndependentAbsorption"), label("mine:Own")
    ('ba', 'long-run mean †', 'IndependentAbsorption, as published †', 'mine:Own')
    """
    if mechanism in TRIVIAL:
        return TRIVIAL[mechanism] + (" †" if mechanism == "mean" else "")
    if mechanism == CorrelatedGaussian.name:
        return f"{mechanism} (with δ)"
    return f"{mechanism.removeprefix(FLAWED)}, as published †" if mechanism.startswith(FLAWED) else mechanism.removeprefix(LAB)
