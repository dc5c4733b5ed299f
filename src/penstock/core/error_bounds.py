"""Variances of noise and half-widths of intervals, for every way in which draws are combined.

A released number is made of `layers` independent draws of one scale, and its `kind` says how:

- `sum`: their sum, to be divided by a divisor;
- `median`: their median (of an even number, the mean of the middle two);
- `shrunk`: one of them moved towards their mean, (x − mean)/n + mean;
- `weighted`: their sum with known weights;
- `gaussian`: a Gaussian with standard deviation `scale`;
- `rounded`: a Gaussian that was rounded to a whole number, of standard deviation `scale`;
- `filtered`: the estimate of a filter, whose error has the root mean square `scale`. It includes
  how far counts have moved, as the filter believes.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist
from typing import Final, Literal, TypeAlias

import numpy as np

from penstock.core.arrays import FloatArray, IntArray
from penstock.core.errors import ConfigurationError
from penstock.core.exact import Exact, exact
from penstock.core.weights import Weights

_FAR, _ROUNDING, _LONGEST_LAW = 1e-14, 1e-12, 2**19
_APART = (
    0.02  # the share of a miss that is left to the difference between discrete and continuous noise
)

_TABLE_SIZE, _LEAST_SQUARE, _AT_ONCE = 4096, 2.0**-48, 8192

Kind: TypeAlias = Literal["sum", "median", "shrunk", "weighted", "gaussian", "rounded", "filtered"]

NORMAL: Final = ("gaussian", "rounded", "filtered")
"""The kinds whose `scale` is a standard deviation."""

_LEAST_MISS = Fraction(1, 10**100)


def miss_of(confidence: Exact) -> float:
    """The probability with which an interval of this confidence may miss."""
    share = exact(confidence, name="confidence")
    if not 0 < share < 1:
        raise ConfigurationError(
            f"confidence must lie between 0 and 1, not {share}.", parameter="confidence"
        )
    if 1 - share < _LEAST_MISS:
        raise ConfigurationError(
            "confidence must not be above 1 - 1e-100: nothing is known that surely.",
            parameter="confidence",
        )
    return float(1 - share)


def variance(kind: Kind, scale: FloatArray, layers: int | IntArray, weights: Weights) -> FloatArray:
    """The variance of the combined draws; for a median, that of the mean, an upper bound."""
    if kind in NORMAL:
        return np.square(scale)
    one = laplace_variance(scale)
    n = np.float64(layers)
    if kind == "sum":
        return one * n
    if kind == "median":
        return one / n
    if kind == "weighted":
        squares = np.concatenate(
            [[0.0], np.cumsum(np.square(weights.sequence(int(np.max(layers)))))]
        )
        return np.asarray(one * squares[layers])
    return np.asarray(one * (n * n + n - 1) / n**3)


def laplace_variance(scale: FloatArray) -> FloatArray:
    """2q/(1−q)² with q = exp(−1/scale), written so that it is accurate for large scales."""
    with np.errstate(divide="ignore", over="ignore"):
        return np.where(np.isinf(scale), np.inf, 0.5 / np.sinh(0.5 / scale) ** 2)


def half_width(
    kind: Kind, scale: FloatArray, layers: int | IntArray, weights: Weights, miss: float
) -> FloatArray:
    """A k with P(|noise| > k) ≤ `miss`.

    It is the least whole one for a single draw or a sum, and an upper bound for others. For the
    estimate of a filter it is the least whole one if its error is normal.
    """
    scales, draws = np.broadcast_arrays(
        np.asarray(scale, np.float64), np.asarray(layers, np.float64)
    )
    if kind in NORMAL:
        half = -NormalDist().inv_cdf(miss / 2) * scales
        if kind == "rounded":  # a whole number beyond k was beyond k + 1/2
            return np.maximum(np.ceil(half - 0.5), 0)
        return half if kind == "gaussian" else np.ceil(half)
    if not scales.size:
        return np.zeros(scales.shape)
    pairs = np.stack([scales.ravel(), draws.ravel()])
    first = np.flatnonzero(np.append(True, (pairs[:, 1:] != pairs[:, :-1]).any(axis=0)))
    places, which = _distinct(pairs[:, first])  # neighbours mostly have the same noise
    known = pairs[:, first[places]].T.tolist()
    each = np.array([_half_width(kind, one, int(of), weights, miss) for one, of in known])
    halves = np.repeat(each[which], np.diff(first, append=scales.size))
    return np.asarray(halves.reshape(scales.shape))


def count_range(
    estimate: FloatArray, deviation: FloatArray, miss: float
) -> tuple[FloatArray, FloatArray]:
    """Whole numbers between which a count is believed to be, but for `miss`, if errors are normal.

    A count cannot be negative. Where the range begins at 0, all of `miss` is above it.

    >>> low, high = count_range(np.array([1.0, 50.0]), np.array([2.0, 10.0]), 0.1)
    >>> low.tolist(), high.tolist()
    ([0.0, 34.0], [4.0, 66.0])
    """
    both, above = (-NormalDist().inv_cdf(part) for part in (miss / 2, miss))
    low = np.maximum(np.rint(estimate - both * deviation), 0)
    return low, np.rint(estimate + np.where(low > 0, both, above) * deviation)


def _distinct(pairs: FloatArray) -> tuple[IntArray, IntArray]:
    """The places of distinct columns of two rows, and which of them each column is."""
    codes = np.zeros(pairs.shape[1], np.int64)
    for row in pairs:
        values, code = np.unique(row, return_inverse=True)
        codes = codes * len(values) + code
    _, places, which = np.unique(codes, return_index=True, return_inverse=True)
    return places, which


@lru_cache(maxsize=4096)
def _half_width(kind: Kind, scale: float, layers: int, weights: Weights, miss: float) -> float:
    if math.isinf(scale):
        return math.inf
    if layers == 1:
        return _least(scale, miss / 2)
    if kind == "sum":
        return _least_of_two(scale, miss) if layers == 2 else _least_of_many(scale, layers, miss)
    if kind == "median":
        return _least(scale, _rare(layers, miss / 2))
    if kind == "weighted":
        return _chernoff(scale, miss, weights.sequence(layers), np.ones(layers))
    return _chernoff(
        scale, miss, np.array([2 * layers - 1, layers - 1]) / layers**2, np.array([1, layers - 1])
    )


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


def _least_of_many(scale: float, layers: int, miss: float) -> float:
    """The least k of a sum, from its law.

    Chernoff's bound stands in if the law is too long or `miss` too small for floats. E exp(iuX) =
    1/(1 + v(1 − cos u)) for discrete Laplace noise of variance v, and a Fourier transform has the
    law of the sum.
    """
    bound = _chernoff(scale, miss, np.ones(1), np.full(1, layers))
    far = _chernoff(scale, _FAR, np.ones(1), np.full(1, layers))
    if miss < 1e-9 or far > _LONGEST_LAW:
        return bound
    size = 1 << math.ceil(2 * far + 2).bit_length()  # what lies beyond `far` wraps around
    angles = 2 * np.pi * np.arange(size // 2 + 1) / size
    v = float(laplace_variance(np.asarray(scale)))
    law = np.fft.irfft((1 + 2 * v * np.sin(angles / 2) ** 2) ** -float(layers), size)
    beyond = 2 * np.cumsum(law[size // 2 - 1 : 0 : -1])[::-1]  # P(|noise| > k) at place k
    return min(float(np.flatnonzero(beyond + _ROUNDING <= miss)[0]), bound)


def _chernoff(scale: float, miss: float, weights: FloatArray, times: FloatArray) -> float:
    """Chernoff's bound for a sum of draws with these weights, the i-th of them `times[i]` times.

    E exp(tX) = 1/(1 − v(cosh t − 1)) for discrete Laplace noise of variance v. Every t gives a
    bound, so a grid of t is enough.
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
    """The largest p with P(Bin(draws, p) ≥ draws/2) ≤ `tail`."""
    if draws > 4096:  # Chernoff: (4p(1 − p))^(n/2)
        return 0.5 * (1 - math.sqrt(-math.expm1(2 * math.log(tail) / draws)))
    least = (draws + 1) // 2
    k = np.arange(least, draws + 1)
    logs = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, draws + 1)))])
    choose = logs[draws] - logs[k] - logs[draws - k]
    low, high = 0.0, 0.5
    for _ in range(80):
        p = (low + high) / 2
        if (
            p == 0
            or float(np.exp(choose + k * math.log(p) + (draws - k) * math.log1p(-p)).sum()) <= tail
        ):
            low = p
        else:
            high = p
    return low


# Sums of draws that differ: a noise Σ cᵢ Xᵢ is described by its `mass` Σ bᵢ² and its `peak` max bᵢ,
# where bᵢ = |cᵢ| scaleᵢ.
# Its moments are below those of continuous Laplace noise, log E exp(tX) ≤ −Σ log(1 − bᵢ²t²),
# because sinh(x)/x grows; and
# −log(1 − xt²) is convex in x, so that is at most −(mass/peak²) log(1 − peak²t²). Larger masses and
# peaks are valid too.


def median_scale(scale: FloatArray, layers: int | IntArray) -> FloatArray:
    """The scale of one draw whose moments are above those of the median of `layers` draws.

    A median of symmetric log-concave draws is one again, and has at most their variance divided by
    their number. Of all such laws with one variance, Laplace's has the largest moments.
    """
    with np.errstate(divide="ignore", over="ignore"):
        return np.asarray(
            0.5 / np.arcsinh(np.sqrt(np.float64(layers) / (2 * laplace_variance(scale))))
        )


def grain(scale: FloatArray) -> FloatArray:
    """How far a discrete draw may be from a continuous one of this scale, drawn with it.

    |X| ≥ k has the same probability as |Y| ≥ k − δ, with δ = s log(2/(1 + exp(−1/s))) ≤ 1/2. So X
    and Y can be drawn at most 1 − δ apart.
    """
    with np.errstate(invalid="ignore"):
        return np.asarray(
            1 - np.where(np.isinf(scale), 0.5, scale * np.log(2 / (1 + np.exp(-1 / scale))))
        )


def half_width_of_many(
    mass: FloatArray,
    peak: FloatArray,
    variance: FloatArray,
    miss: float,
    *,
    grains: FloatArray | None = None,
) -> FloatArray:
    """A k with P(|noise| > k) ≤ `miss` for a sum of many independent draws: the least of several
    bounds.

    Chebyshev's; Chernoff's; and, where `grains` = Σ (cᵢ grainᵢ)² is given, the one for log-concave
    noise: sums of continuous Laplace noise have a log-concave tail G with G(0) = 1, so from G(k) =
    p follows G(y) ≥ p^(y/k) below k, and their variance ∫ 2yG(y)dy is at least 2k²(1 − (1 + a)p)/a²
    with a = −log p. What the discrete noise differs by is symmetric and bounded: Hoeffding's bound.
    A peak of 0 stands for Gaussian noise: its quantile, and √grains because it is rounded.
    """
    apart = np.nan if grains is None else grains
    given = np.stack(np.broadcast_arrays(mass, peak, variance, apart))
    flat, out = given.reshape(4, -1), np.empty(given[0].shape)
    for first in range(0, out.size, _AT_ONCE):
        part = slice(first, first + _AT_ONCE)
        out.reshape(-1)[part] = _half_widths(flat[:, part], miss)
    return out


def _half_widths(given: FloatArray, miss: float) -> FloatArray:
    """`half_width_of_many` of numbers that fit the processor's cache; NaN stands for no grains."""
    mass, peak, variance, grains = given
    rounding = np.sqrt(np.where(np.isnan(grains), 0.0, grains))
    normal = -NormalDist().inv_cdf(miss / 2) * np.sqrt(variance) + rounding
    out: FloatArray = np.where(peak > 0, np.sqrt(variance / miss), normal)
    some = ((peak > 0) & np.isfinite(mass)).nonzero()[0]
    if not len(some):
        return out
    level, top, weight = math.log(2 / miss), peak[some], mass[some]
    # The best t solves 2nt²/(1 − t²) + n log(1 − t²) = level; every t gives a bound.
    number = weight / np.square(top)
    square = _best_squares(level / number)
    chernoff = top * (level - number * np.log1p(-square)) / np.sqrt(square)
    p, rest = (1 - _APART) * miss, _APART * miss
    a = -math.log(p)
    times = a / math.sqrt(2 * (1 - (1 + a) * p))
    concave = times * np.sqrt(2 * weight) + np.sqrt(2 * math.log(2 / rest) * grains[some])
    out[some] = np.minimum(out[some], np.fmin(chernoff, concave))
    return out


def _best_squares(levels: FloatArray) -> FloatArray:
    """Numbers u near to 2u/(1 − u) + log(1 − u) = `levels`, between those of a table.

    The table is over x = levels/(1 + levels), where u is nearly a straight line.
    """
    with np.errstate(invalid="ignore"):
        place = np.where(np.isinf(levels), 1.0, levels / (1 + levels)) * _TABLE_SIZE
    below = np.minimum(place.astype(np.int64), _TABLE_SIZE - 1)
    squares = _square_table()
    low = squares.take(below)
    found = low + (place - below) * (squares.take(below + 1) - low)
    return np.clip(found, _LEAST_SQUARE, 1 - 2.0**-40)


@lru_cache(maxsize=1)
def _square_table() -> FloatArray:
    """The solutions for x from 0 to 1 in even steps, by bisection."""
    x = np.arange(_TABLE_SIZE) / _TABLE_SIZE
    low, high = np.zeros(_TABLE_SIZE), np.ones(_TABLE_SIZE)
    for _ in range(60):
        u = (low + high) / 2
        short = 2 * u / (1 - u) + np.log1p(-u) < x / (1 - x)
        low, high = np.where(short, u, low), np.where(short, high, u)
    return np.append(low, 1.0)


def tail_of_many(
    mass: FloatArray, peak: FloatArray, variance: FloatArray, beyond: FloatArray
) -> FloatArray:
    """An upper bound on P(noise ≥ `beyond`), one-sided: Chernoff's or Cantelli's; 1 where `beyond`
    is not above 0.
    """
    mass, peak, variance, beyond = np.broadcast_arrays(mass, peak, variance, beyond)
    out = np.ones(mass.shape)
    out[(variance == 0) & (beyond > 0)] = 0
    some = (beyond > 0) & (variance > 0) & np.isfinite(mass)
    out[some] = variance[some] / (variance[some] + np.square(beyond[some]))
    normal = some & (peak == 0)
    out[normal] = np.minimum(
        out[normal], np.exp(-np.square(beyond[normal]) / (2 * variance[normal]))
    )
    some &= peak > 0
    number, far = mass[some] / np.square(peak[some]), beyond[some] / peak[some]
    t = far / (number + np.hypot(number, far))
    out[some] = np.minimum(out[some], np.exp(-t * far - number * np.log1p(-t * t)))
    return out
