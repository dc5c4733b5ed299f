"""The names of lines in figures and tables."""

from __future__ import annotations

from penstock.private.mechanisms.toeplitz import CorrelatedGaussian
from penstock_bench.cell import TRIVIAL
from penstock_bench.plugins import FLAWED, LAB, competitor_class

PUBLISHED = {"IndependentAbsorption": "ba by groups", "FreshPruning": "phs_pegasus"}
"""The names of published forms."""


def label(mechanism: str) -> str:
    """The name of a line in figures. Marks lines that are not private or promise less.

    >>> label("toeplitz")
    'toeplitz (with δ)'
    >>> label("ba"), label("mean"), label("flawed:IndependentAbsorption"), label("mine:Own")
    ('ba', 'long-run mean †', 'ba by groups, as published †', 'mine:Own')
    >>> label("lab:rescuedp"), label("lab:rescuedp_published")
    ('rescuedp', 'rescuedp, as published †')
    """
    if mechanism in TRIVIAL:
        return TRIVIAL[mechanism] + (" †" if mechanism == "mean" else "")
    if mechanism == CorrelatedGaussian.name:
        return f"{mechanism} (with δ)"
    if mechanism.startswith(LAB):
        name, published, _ = mechanism.removeprefix(LAB).partition("_published")
        if competitor_class(mechanism).private:
            return name + published
        return f"{name}, as published †" if published else f"{name} †"
    if mechanism.startswith(FLAWED):
        name, comma, more = mechanism.removeprefix(FLAWED).partition(",")
        return f"{PUBLISHED.get(name, name)}{comma}{more}, as published †"
    return mechanism
