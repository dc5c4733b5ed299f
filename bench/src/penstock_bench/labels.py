"""What lines are called where people read of them."""

from __future__ import annotations

from penstock.private.mechanisms.toeplitz import CorrelatedGaussian
from penstock_bench.cell import TRIVIAL
from penstock_bench.plugins import FLAWED, LAB, competitor_class

PUBLISHED = {"IndependentAbsorption": "ba by groups", "FreshPruning": "phs_pegasus"}
"""What published forms are called."""


def label(mechanism: str) -> str:
    """What a line is called in figures: what is not private is marked, and what promises less than
    the others.

    >>> label("toeplitz")
    'toeplitz (with δ)'
    >>> label("ba"), label("mean"), label("flawed:IndependentAbsorption"), label("mine:Own")
    ('ba', 'long-run mean †', 'ba by groups, as published †', 'mine:Own')
    """
    if mechanism in TRIVIAL:
        return TRIVIAL[mechanism] + (" †" if mechanism == "mean" else "")
    if mechanism == CorrelatedGaussian.name:
        return f"{mechanism} (with δ)"
    if mechanism.startswith(LAB):
        return mechanism.removeprefix(LAB) + ("" if competitor_class(mechanism).private else " †")
    if mechanism.startswith(FLAWED):
        name, comma, more = mechanism.removeprefix(FLAWED).partition(",")
        return f"{PUBLISHED.get(name, name)}{comma}{more}, as published †"
    return mechanism
