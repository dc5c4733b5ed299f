"""`Released`: what everybody may see, with the noise in it known exactly."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np

from penstock.core.arrays import BoolArray, FloatArray, IntArray
from penstock.core.error_bounds import Kind, half_width, miss_of, variance
from penstock.core.errors import ConfigurationError
from penstock.core.exact import Exact
from penstock.core.guarantee import Guarantee
from penstock.core.weights import UNIT, Weights


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

    `value` holds whole numbers in the domain's order, `divisor` what to divide them by. `scale` is
    the noise of one draw, `layers` how many independent draws are in each number, and `kind` how
    they were combined (see `core.spread`). `weights` says what each number is a sum of: one unit,
    unless it says otherwise. `repeated` says that the last release stands again: its noise is that
    of the unit it was made for, and how far the stream has moved since is not known. `public` holds
    what else may be seen, such as the counts before smoothing and where groups began. `private` is
    False for ever if the noise was a test's.
    """

    unit: int
    value: IntArray
    scale: Scale
    guarantee: Guarantee
    private: bool
    repeated: bool | BoolArray = False
    divisor: int | IntArray = 1
    layers: int | IntArray = 1
    public: Mapping[str, IntArray] = field(default_factory=dict)
    kind: Kind = "sum"
    weights: Weights = UNIT

    @classmethod
    def nothing(cls, size: int, guarantee: Guarantee) -> Released:
        """What stands before the first release: zeros that say nothing."""
        zeros = np.zeros(size, np.int64)
        return cls(
            unit=0,
            value=zeros,
            scale=Scale(Fraction(1), 0),
            guarantee=guarantee,
            private=True,
            repeated=True,
        )

    def __post_init__(self) -> None:
        self.value.flags.writeable = False
        for array in (self.repeated, self.divisor, self.layers, self.scale.parts):
            if not isinstance(array, int):
                array.flags.writeable = False
        for array in self.public.values():
            array.flags.writeable = False

    def again(self, unit: int, *, private: bool = True) -> Released:
        """The same release standing for a later unit; `private` only if it was and still is."""
        return replace(self, unit=unit, private=self.private and private, repeated=True)

    def over(self, last: Released, where: BoolArray) -> Released:
        """This release where it is fresh, the last one elsewhere, each key with its own noise."""
        base = self.scale.base
        same = (base is last.scale.base or base == last.scale.base) and self.kind == last.kind
        if not same and np.any(last.scale.parts):
            raise ConfigurationError(
                "a release stands over another only if both carry noise of one kind."
            )
        return replace(
            self,
            value=np.where(where, self.value, last.value),
            scale=Scale(base, np.where(where, self.scale.parts, last.scale.parts)),
            private=self.private and last.private,
            repeated=~where,
            divisor=_either(where, self.divisor, last.divisor),
            layers=_either(where, self.layers, last.layers),
        )

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
        """The variance of the noise in each estimate, of a median at most; infinite where nothing
        was released yet.
        """
        one = variance(self.kind, self.scale.floats(), self.layers, self.weights)
        return np.broadcast_to(one / np.float64(self._noise_divisor) ** 2, self.value.shape)

    def interval(self, confidence: Exact = "0.95") -> tuple[FloatArray, FloatArray]:
        """Per key, the range that contains the true number *of the units it was read in* with at
        least this probability.
        """
        one = half_width(
            self.kind, self.scale.floats(), self.layers, self.weights, miss_of(confidence)
        )
        half = one / np.float64(self._noise_divisor)
        return self.estimate - half, self.estimate + half

    @property
    def _noise_divisor(self) -> int | IntArray:
        """What the noise is divided by: in medians, shrunk and weighted values the divisor is only
        a finer grid.
        """
        return self.divisor if self.kind in ("sum", "gaussian") else 1


def _either(where: BoolArray, here: int | IntArray, there: int | IntArray) -> int | IntArray:
    if isinstance(here, int) and isinstance(there, int) and here == there:
        return here
    return np.where(where, here, there)
