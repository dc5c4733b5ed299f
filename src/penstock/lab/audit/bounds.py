"""A lower bound on ε from how often an event was seen."""

from __future__ import annotations

import math
from typing import Any

from penstock.core.errors import ConfigurationError
from penstock.core.optional import require


def lower(hits: int, runs: int, miss: float) -> float:
    """The Clopper–Pearson lower bound on a probability; it is too high with probability `miss`.

    >>> lower(0, 100, 0.01), round(lower(100, 100, 0.01), 3)
    (0.0, 0.955)
    """
    return 0.0 if hits == 0 else float(_special().betaincinv(hits, runs - hits + 1, miss))


def upper(hits: int, runs: int, miss: float) -> float:
    """The Clopper–Pearson upper bound on a probability; it is too low with probability `miss`.

    >>> upper(100, 100, 0.01), round(upper(0, 100, 0.01), 3)
    (1.0, 0.045)
    """
    return 1.0 if hits == runs else float(_special().betainccinv(hits + 1, runs - hits, miss))


def epsilon_bound(
    left: int, left_runs: int, right: int, right_runs: int, *, confidence: float, delta: float = 0.0
) -> float:
    """A lower bound on ln (P(event | left) − δ)/P(event | right), at least 0.

    It is wrong with probability at most 1 − confidence. No smaller ε keeps the promise (ε, δ). The
    event must have been chosen before these runs were looked at.

    >>> epsilon_bound(0, 100, 50, 100, confidence=0.99)
    0.0
    >>> 0.8 < epsilon_bound(27_183, 100_000, 10_000, 100_000, confidence=0.999) < 1
    True
    """
    if not 0 < confidence < 1:
        raise ConfigurationError(
            f"confidence must lie between 0 and 1, not {confidence}.", parameter="confidence"
        )
    miss = (1 - confidence) / 2
    low, high = lower(left, left_runs, miss), upper(right, right_runs, miss)
    return max(0.0, math.log((low - delta) / high)) if low > delta else 0.0


def can_convict(epsilon: float, runs: int, *, confidence: float, delta: float = 0.0) -> bool:
    """Whether so many runs bound an event above ε that tells the streams apart in every run.

    >>> can_convict(2, 100, confidence=0.999), can_convict(6, 1000, confidence=0.999)
    (True, False)
    """
    return epsilon_bound(runs, runs, 0, runs, confidence=confidence, delta=delta) > epsilon


def _special() -> Any:
    return require("scipy.special", "lab", "an audit's confidence bounds")
