"""Limits that keep every count, release and sum inside int64."""

from __future__ import annotations

from penstock.budget.grid import Budget

MAX_COUNT = 2**50
"""The largest count of a key, for any number of keys."""

MAX_SUM = 2**60
"""The largest number that gets Gaussian noise. A larger one is cut there before."""

SCALES_TO_LIMIT = 64
"""How often a noise scale must fit into the limit of a count. Noise then passes the limit with
probability e^-64 per draw.
"""


def count_limit(keys: int) -> int:
    """Return the largest count and released value for `keys` keys. Sums over all keys fit int64."""
    return min(MAX_COUNT, 2**60 // keys)


def affordable(epsilon: Budget, *, sensitivity: int, keys: int) -> bool:
    """Whether noise for this budget fits the range of counts. The gate refuses any other budget."""
    return count_limit(keys) * epsilon.epsilon >= SCALES_TO_LIMIT * sensitivity
