"""Probabilities of discrete Laplace noise, as logarithms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache


@lru_cache(maxsize=65536)
def log_probability(rate: float, layers: int, value: int) -> float:
    """ln P(noise = value) for the sum of one or two discrete Laplace variables.

    One variable has P(k) ∝ exp(−rate·|k|).
    """
    far = abs(value)
    one = math.log(math.tanh(rate / 2)) - rate * far
    if layers == 1:
        return one
    # P(X + Y = n) = p²·qⁿ·(n + (1 + q²)/(1 − q²)), with p = tanh(rate/2)
    return one + math.log(math.tanh(rate / 2)) + math.log(far + 1 / math.tanh(rate))


def log_tail(rate: float, layers: int, first: int) -> float:
    """ln P(noise ≥ first), first ≥ 1."""
    q = math.exp(-rate)
    if layers == 1:
        return -rate * first - math.log1p(q)
    weight = first + 1 / math.tanh(rate)
    return (
        2 * math.log(math.tanh(rate / 2))
        - rate * first
        + math.log(weight / (1 - q) + q / (1 - q) ** 2)
    )


def log_between(rate: float, layers: int, first: float, last: float) -> float:
    """ln P(first ≤ noise ≤ last); the ends may be infinite."""
    if last < 0:
        first, last = -last, -first
    if first > 0:
        whole = log_tail(rate, layers, int(first))
        if last == math.inf:
            return whole
        if layers == 1:
            return whole + math.log(-math.expm1(-rate * (last + 1 - first)))
        return log_sum(
            [log_probability(rate, layers, value) for value in range(int(first), int(last) + 1)]
        )
    if first == last:
        return log_probability(rate, layers, 0)
    outside = [log_tail(rate, layers, int(end) + 1) for end in (-first, last) if end != math.inf]
    return math.log1p(-math.exp(log_sum(outside))) if outside else 0.0


def log_sum(logs: Sequence[float]) -> float:
    """ln Σ exp(log)."""
    largest = max(logs, default=-math.inf)
    if largest == -math.inf:
        return largest
    return largest + math.log(math.fsum(math.exp(each - largest) for each in logs))


def log_probability_of(rates: Sequence[float], layers: int, values: Sequence[int]) -> float:
    """ln P(noise = values) for independent noise with these rates."""
    return math.fsum(
        log_probability(rate, layers, value) for rate, value in zip(rates, values, strict=True)
    )
