"""`Released`: what everybody may see, with the noise in it known exactly."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from penstock.core.arrays import BoolArray, FloatArray, IntArray
from penstock.core.errors import ConfigurationError
from penstock.core.exact import Exact, exact
from penstock.core.guarantee import Guarantee


@dataclass(frozen=True)
class Scale:
    """The exact scale of discrete Laplace noise, `base / parts`; per key where `parts` is an array.

    0 parts: nothing was released there yet, and the number shown stands for nothing.
    """

    base: Fraction
    parts: int | IntArray = 1

    def __float__(self) -> float:
        if isinstance(self.parts, np.ndarray):
            raise TypeError("this release has a scale per key: use scale.floats()")
        return float(self.base / self.parts) if self.parts else math.inf

    def floats(self) -> FloatArray:
        """The scales as floats, for looking at; privacy never depends on them."""
        with np.errstate(divide="ignore"):
            return np.float64(self.base) / np.asarray(self.parts, np.float64)


@dataclass(frozen=True)
class Released:
    """What anyone may see of one unit, with the noise in it known exactly.

    `value` holds whole numbers in the domain's order, `scale` the noise in each, `layers` how many independent draws
    of that scale were added, `divisor` what to divide by. `repeated` says that the last release stands again: its
    noise is that of the unit it was made for, and how far the stream has moved since is not known.
    `private` is False for ever if the noise was a test's.
    """

    unit: int
    value: IntArray
    scale: Scale
    guarantee: Guarantee
    private: bool
    repeated: bool | BoolArray = False
    divisor: int | IntArray = 1
    layers: int = 1
    public: Mapping[str, IntArray] = field(default_factory=dict)

    @classmethod
    def nothing(cls, size: int, guarantee: Guarantee) -> Released:
        """What stands before the first release: zeros that say nothing."""
        zeros = np.zeros(size, np.int64)
        return cls(unit=0, value=zeros, scale=Scale(Fraction(1), 0), guarantee=guarantee, private=True, repeated=True)

    def __post_init__(self) -> None:
        self.value.flags.writeable = False
        for array in (self.repeated, self.divisor, self.scale.parts):
            if not isinstance(array, int):
                array.flags.writeable = False

    def again(self, unit: int, *, private: bool = True) -> Released:
        """The same release standing for a later unit; `private` only if it was and still is."""
        marked = self.private and private
        return Released(unit, self.value, self.scale, self.guarantee, marked, True, self.divisor, self.layers, self.public)

    def over(self, last: Released, where: BoolArray) -> Released:
        """This release where it is fresh, the last one elsewhere, each key with its own noise scale."""
        base = self.scale.base
        same = (base is last.scale.base or base == last.scale.base) and self.layers == last.layers
        if not same and np.any(last.scale.parts):
            raise ConfigurationError("a release stands over another only if both carry noise of one kind.")
        if not (isinstance(self.divisor, int) and isinstance(last.divisor, int) and self.divisor == last.divisor):
            raise ConfigurationError("a release stands over another only if both have one divisor.")
        value = np.where(where, self.value, last.value)
        scale = Scale(base, np.where(where, self.scale.parts, last.scale.parts))
        marked = self.private and last.private
        return Released(self.unit, value, scale, self.guarantee, marked, ~where, self.divisor, self.layers, self.public)

    @property
    def number(self) -> int:
        """The value of a release of one number."""
        return int(self.value[0])

    @property
    def estimate(self) -> FloatArray:
        """`value / divisor`, as floats."""
        return self.value / np.float64(self.divisor)

    @property
    def variance(self) -> FloatArray:
        """The variance of the noise in each estimate; infinite where nothing was released yet."""
        one = _variance(self.scale.floats())
        return np.broadcast_to(one * self.layers / np.float64(self.divisor) ** 2, self.value.shape)

    def interval(self, confidence: Exact = "0.95") -> tuple[FloatArray, FloatArray]:
        """Per key, the range that contains the true number *of the unit it was read in* with this probability."""
        share = exact(confidence, name="confidence")
        if not 0 < share < 1:
            raise ConfigurationError(f"confidence must lie between 0 and 1, not {share}.")
        half = _half_width(self.scale.floats(), self.layers, float(1 - share)) / np.float64(self.divisor)
        return self.estimate - half, self.estimate + half


def _variance(scale: FloatArray) -> FloatArray:
    """2q/(1−q)² with q = exp(−1/scale), written so that it is accurate for large scales."""
    with np.errstate(divide="ignore", over="ignore"):
        return np.where(np.isinf(scale), np.inf, 0.5 / np.sinh(0.5 / scale) ** 2)


def _half_width(scale: FloatArray, layers: int, miss: float) -> FloatArray:
    """The least k with P(|noise| > k) ≤ `miss`; for more than two layers an upper bound, pair by pair."""
    if layers > 2:
        pairs = layers // 2
        rest = _half_width(scale, 1, miss / (pairs + 1)) if layers % 2 else 0.0
        share = miss / (pairs + layers % 2)
        return pairs * _half_width(scale, 2, share) + rest
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        q = np.exp(-1 / scale)
        half: FloatArray = np.ceil(scale * np.log(2 / (miss * (1 + q)))) - 1
        if layers == 2:  # Newton's steps on the tail of the sum of two, from the single tail upwards
            half = np.maximum(half, 0)
            for _ in range(60):
                half = half + np.maximum(np.ceil(scale * np.log(_tail_of_two(q, half) / miss)), 0)
        half = np.maximum(half, 0)
    return np.where(np.isinf(scale), np.inf, half)


def _tail_of_two(q: FloatArray, k: FloatArray) -> FloatArray:
    """P(|X + Y| > k) for independent discrete Laplace X, Y with ratio q."""
    p = (1 - q) / (1 + q)
    first = k + 1
    # P(X+Y = n) = p² qⁿ (n + 1 + 2q²/(1−q²)) for n ≥ 0; summed over n ≥ k + 1 in closed form
    weight = first + 1 + 2 * q**2 / (1 - q**2)
    return 2 * p**2 * q**first * (weight / (1 - q) + q / (1 - q) ** 2)
