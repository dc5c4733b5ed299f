"""How far noise spreads: variances and half-widths of intervals, for every way in which draws are combined.

A released number is made of `layers` independent draws of one scale, and its `kind` says how:

- `sum`: their sum, to be divided by a divisor;
- `median`: their median (of an even number, the mean of the middle two);
- `shrunk`: one of them moved towards their mean, (x − mean)/n + mean;
- `weighted`: their sum with known weights;
- `gaussian`: a Gaussian whose standard deviation is `scale`, whatever it was made of.
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist
from typing import Literal, TypeAlias

import numpy as np

from penstock.core.arrays import FloatArray, IntArray
from penstock.core.weights import Weights

Kind: TypeAlias = Literal["sum", "median", "shrunk", "weighted", "gaussian"]


def variance(kind: Kind, scale: FloatArray, layers: int | IntArray, weights: Weights) -> FloatArray:
    """The variance of the combined draws; of a median, an upper bound: that of the mean, which it never exceeds."""
    if kind == "gaussian":
        return np.square(scale)
    one = laplace_variance(scale)
    n = np.float64(layers)
    if kind == "sum":
        return one * n
    if kind == "median":
        return one / n
    if kind == "weighted":
        squares = np.concatenate([[0.0], np.cumsum(np.square(weights.sequence(int(np.max(layers)))))])
        return np.asarray(one * squares[layers])
    return np.asarray(one * (n * n + n - 1) / n**3)


def laplace_variance(scale: FloatArray) -> FloatArray:
    """2q/(1−q)² with q = exp(−1/scale), written so that it is accurate for large scales."""
    with np.errstate(divide="ignore", over="ignore"):
        return np.where(np.isinf(scale), np.inf, 0.5 / np.sinh(0.5 / scale) ** 2)


def half_width(kind: Kind, scale: FloatArray, layers: int | IntArray, weights: Weights, miss: float) -> FloatArray:
    """A k with P(|noise| > k) ≤ `miss`: the least whole one for one or two layers, an upper bound for others."""
    scales, draws = np.broadcast_arrays(np.asarray(scale, np.float64), np.asarray(layers, np.float64))
    if kind == "gaussian":
        return NormalDist().inv_cdf(1 - miss / 2) * scales
    pairs, which = np.unique(np.stack([scales.ravel(), draws.ravel()]), axis=1, return_inverse=True)
    each = [_half_width(kind, one, int(of), weights, miss) for one, of in pairs.T]
    return np.array(each)[which.ravel()].reshape(scales.shape)


@lru_cache(maxsize=4096)
def _half_width(kind: Kind, scale: float, layers: int, weights: Weights, miss: float) -> float:
    if math.isinf(scale):
        return math.inf
    if layers == 1:
        return _least(scale, miss / 2)
    if kind == "sum":
        return _least_of_two(scale, miss) if layers == 2 else _chernoff(scale, miss, np.ones(1), np.full(1, layers))
    if kind == "median":
        return _least(scale, _rare(layers, miss / 2))
    if kind == "weighted":
        return _chernoff(scale, miss, weights.sequence(layers), np.ones(layers))
    return _chernoff(scale, miss, np.array([2 * layers - 1, layers - 1]) / layers**2, np.array([1, layers - 1]))


def _least(scale: float, tail: float) -> float:
    """The least k with P(noise > k) ≤ `tail`."""
    q = math.exp(-1 / scale)
    return max(math.ceil(scale * -math.log(tail * (1 + q))) - 1, 0)


def _least_of_two(scale: float, miss: float) -> float:
    """Newton's steps on the tail of the sum of two, from the single tail upwards."""
    q, k = math.exp(-1 / scale), _least(scale, miss / 2)
    while True:
        step = math.ceil(scale * math.log(_tail_of_two(q, k) / miss))
        if step <= 0:
            return k
        k += step


def _tail_of_two(q: float, k: float) -> float:
    """P(|X + Y| > k) for independent discrete Laplace X, Y with ratio q."""
    p: float = (1 - q) / (1 + q)
    first = k + 1
    # P(X+Y = n) = p² qⁿ (n + 1 + 2q²/(1−q²)) for n ≥ 0; summed over n ≥ k + 1 in closed form
    weight = first + 1 + 2 * q**2 / (1 - q**2)
    tail: float = 2 * p**2 * q**first * (weight / (1 - q) + q / (1 - q) ** 2)
    return max(tail, 5e-324)


def _chernoff(scale: float, miss: float, weights: FloatArray, times: FloatArray) -> float:
    """Chernoff's bound for a sum of draws with these weights, the i-th of them `times[i]` times.

    E exp(tX) = 1/(1 − v(cosh t − 1)) for discrete Laplace noise of variance v. Every t gives a bound, so a grid will do.
    """
    v = float(laplace_variance(np.asarray(scale)))
    bounds = []
    for t in np.linspace(0.01, 0.99, 99) / (scale * float(weights.max())):
        moments = 1 - v * 2 * np.sinh(t * weights / 2) ** 2
        if (moments > 0).all():
            bounds.append((math.log(2 / miss) - float(times @ np.log(moments))) / t)
    return min(bounds, default=math.inf)


@lru_cache(maxsize=4096)
def _rare(draws: int, tail: float) -> float:
    """The largest p for which at least half of `draws` events of probability p happen with at most probability `tail`."""
    if draws > 4096:  # Chernoff: (4p(1 − p))^(n/2)
        return 0.5 * (1 - math.sqrt(-math.expm1(2 * math.log(tail) / draws)))
    least = (draws + 1) // 2
    k = np.arange(least, draws + 1)
    logs = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, draws + 1)))])
    choose = logs[draws] - logs[k] - logs[draws - k]
    low, high = 0.0, 0.5
    for _ in range(80):
        p = (low + high) / 2
        if p == 0 or float(np.exp(choose + k * math.log(p) + (draws - k) * math.log1p(-p)).sum()) <= tail:
            low = p
        else:
            high = p
    return low
