"""The noise in the numbers of an answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.core.arrays import BoolArray, FloatArray, IntArray
from penstock.core.error_bounds import (
    NORMAL,
    Kind,
    count_range,
    grain,
    half_width,
    half_width_of_many,
    laplace_variance,
    median_scale,
    tail_of_many,
)
from penstock.core.weights import UNIT, Weights

_CLOSE = 1e-9


@dataclass(frozen=True)
class AnswerNoise:
    """The noise of each number of an answer: a sum of independent draws, one row per unit.

    `mass`, `peak` and `grain` bound its tails (see `core.error_bounds`); `peak` is 0 for Gaussian
    noise. `single` marks noise that is `coefficient` times the noise of one release of this
    `kind`. `alike` marks a sum of `draws` with one scale and coefficient. For both, the interval of
    that release or sum is used if it is shorter.
    """

    variance: FloatArray
    mass: FloatArray
    peak: FloatArray
    grain: FloatArray
    draws: IntArray
    scale: FloatArray
    coefficient: FloatArray
    single: BoolArray
    alike: BoolArray
    kind: Kind = "sum"
    weights: Weights = UNIT

    def half_width(self, miss: float) -> FloatArray:
        """For each number, a k with P(|noise| > k) ≤ `miss`."""
        out = half_width_of_many(self.mass, self.peak, self.variance, miss, grains=self.grain)
        for which, kind in ((self.alike & ~self.single, "sum"), (self.single, self.kind)):
            if which.any():
                one = half_width(kind, self.scale[which], self.draws[which], self.weights, miss)  # type: ignore[arg-type]
                out[which] = np.minimum(out[which], _times(self.coefficient[which], one))
        return out

    def interval(self, estimate: FloatArray, miss: float) -> tuple[FloatArray, FloatArray]:
        """For each number, a range that it misses with a probability of `miss` at most."""
        half = self.half_width(miss)
        low, high = estimate - half, estimate + half
        if self.kind == "filtered":
            some = self.single & np.isfinite(self.scale)
            low[some], high[some] = count_range(estimate[some], self.scale[some], miss)
        return low, high

    def tail(self, beyond: FloatArray) -> FloatArray:
        """For each number, a bound on P(noise ≥ `beyond`); 1 where `beyond` is not above 0."""
        return tail_of_many(self.mass, self.peak, self.variance, beyond)

    def among(self, groups: Sequence[IntArray]) -> AnswerNoise:
        """The noise of sums over groups of columns, whose noises are independent."""
        if all(len(group) == 1 for group in groups):
            return self.of(np.concatenate([*groups, np.zeros(0, np.int64)]).astype(np.int64))
        each = [self.of(group) for group in groups]

        def column(values: list[FloatArray]) -> FloatArray:
            return np.stack(values, axis=1)

        alike = [
            part.alike.all(axis=1)
            & (part.scale == part.scale[:, :1]).all(axis=1)
            & (part.coefficient == part.coefficient[:, :1]).all(axis=1)
            for part in each
        ]
        alone = [part.single.all(axis=1) & (part.single.shape[1] == 1) for part in each]
        return replace(
            self,
            variance=column([part.variance.sum(axis=1) for part in each]),
            mass=column([part.mass.sum(axis=1) for part in each]),
            peak=column([part.peak.max(axis=1) for part in each]),
            grain=column([part.grain.sum(axis=1) for part in each]),
            draws=np.stack([part.draws.sum(axis=1) for part in each], axis=1),
            scale=column([part.scale[:, 0] for part in each]),
            coefficient=column([part.coefficient[:, 0] for part in each]),
            single=np.stack(alone, axis=1),
            alike=np.stack(alike, axis=1),
        )

    def of(self, columns: IntArray) -> AnswerNoise:
        """The noise of some columns."""
        return replace(self, **{name: getattr(self, name)[:, columns] for name in _ARRAYS})

    def beside(self, columns: BoolArray, others: AnswerNoise) -> AnswerNoise:
        """This noise at the columns that are marked, that of `others` elsewhere."""
        arrays: dict[str, Any] = {
            name: beside(columns, getattr(self, name), getattr(others, name)) for name in _ARRAYS
        }
        return replace(self, **arrays)

    @classmethod
    def stacked(cls, parts: Sequence[AnswerNoise]) -> AnswerNoise:
        """The noise of all parts, row by row."""
        if len(parts) == 1:
            return parts[0]
        arrays: dict[str, Any] = {
            name: np.concatenate([getattr(part, name) for part in parts]) for name in _ARRAYS
        }
        return replace(parts[0], **arrays)


_ARRAYS = ("variance", "mass", "peak", "grain", "draws", "scale", "coefficient", "single", "alike")


def beside(columns: BoolArray, these: NDArray[Any], others: NDArray[Any]) -> NDArray[Any]:
    """An array with `these` at the columns that are marked and `others` elsewhere."""
    out = np.empty((len(these), len(columns)), these.dtype)
    out[:, columns], out[:, ~columns] = these, others
    return out


def _times(coefficient: FloatArray, half: FloatArray) -> FloatArray:
    with np.errstate(invalid="ignore"):
        return np.where(coefficient == 0, 0.0, coefficient * half)


def terms(
    kind: Kind, scale: FloatArray, layers: IntArray, divisor: FloatArray, weights: Weights
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Mass, peak and grain of the noise of one release."""
    apart = np.square(grain(scale))
    if kind in NORMAL:
        rounding = 0.5 / divisor if kind == "rounded" else 0.0
        each = np.broadcast_to(np.square(rounding), scale.shape)
        return np.square(scale / divisor) / 2, np.zeros_like(scale), each
    if kind == "sum":
        one = scale / divisor
        return np.square(one) * layers, one, apart * layers / np.square(divisor)
    if kind == "median":
        one = median_scale(scale, layers)
        return np.square(one), one, apart
    if kind == "weighted":
        factors = weights.sequence(int(layers.max()))
        squares = np.concatenate([[0.0], np.cumsum(np.square(factors))])
        return (
            np.square(scale) * squares[layers],
            scale * np.maximum.accumulate(np.append(0.0, factors))[layers],
            apart * squares[layers],
        )
    n = layers.astype(np.float64)  # shrunk: one draw with (2n − 1)/n², the others with (n − 1)/n²
    squares = (np.square(2 * n - 1) + np.power(n - 1, 3)) / n**4
    return np.square(scale) * squares, scale * (2 * n - 1) / n**2, apart * squares


def alike(
    mass: FloatArray, peak: FloatArray, draws: IntArray, variance: FloatArray, scale: FloatArray
) -> BoolArray:
    """Where all draws of a sum have this scale and one coefficient.

    Then each draw reaches the peak, and the variance agrees.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        one = np.square(peak / scale) * laplace_variance(scale)
        return (np.abs(mass - draws * np.square(peak)) <= _CLOSE * mass) & (
            np.abs(variance - draws * one) <= _CLOSE * variance
        )
