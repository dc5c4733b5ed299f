"""Sums over boxes, ranges of every attribute at once: thousands from one pass over the counts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from penstock.core.arrays import FloatArray, IntArray
from penstock.core.errors import ConfigurationError, InputError

Numbers = TypeVar("Numbers", IntArray, FloatArray)

MAX_ATTRIBUTES = 10
"""The most attributes of a box. Each attribute doubles the cost of a sum."""


@dataclass(frozen=True, eq=False)
class Boxes:
    """Boxes in a `shape`: one row per box of `low` and `high`, its first and last values.

    >>> boxes = Boxes((2, 3), np.array([[0, 0], [0, 1]]), np.array([[1, 2], [1, 1]]))
    >>> boxes.sizes.tolist(), boxes.sums(np.arange(6)).tolist()
    ([6, 2], [15, 5])
    """

    shape: tuple[int, ...]
    low: IntArray
    high: IntArray

    def __post_init__(self) -> None:
        if not 1 <= len(self.shape) <= MAX_ATTRIBUTES:
            raise ConfigurationError(
                f"shape must have 1 to {MAX_ATTRIBUTES} attributes, not {len(self.shape)}.",
                parameter="shape",
            )
        if self.low.shape != self.high.shape or self.low.shape[1:] != (len(self.shape),):
            raise ConfigurationError(
                f"low and high must have one row per box of {len(self.shape)} whole numbers."
            )
        if (
            (self.low < 0).any()
            or (self.low > self.high).any()
            or (self.high >= np.array(self.shape)).any()
        ):
            raise ConfigurationError(f"every box must lie in {self.shape}, with low at most high.")

    @cached_property
    def sizes(self) -> IntArray:
        """The number of cells of each box."""
        return np.asarray((self.high - self.low + 1).prod(axis=1), np.int64)

    @cached_property
    def _corners(self) -> IntArray:
        """The places of each box's corners in the running sums, one row per corner."""
        places, stride = np.zeros((1, len(self.low)), np.int64), 1
        for axis in reversed(range(len(self.shape))):
            ends = stride * np.stack([self.low[:, axis], self.high[:, axis] + 1])
            places = (ends[:, None] + places).reshape(2 * len(places), len(self.low))
            stride *= self.shape[axis] + 1
        return places

    def sums(self, values: Numbers) -> Numbers:
        """The sum of `values` over each box, exact for whole numbers if it fits into 64 bits.

        Running sums may wrap around on the way; their differences are right all the same.
        """
        if values.shape != (math.prod(self.shape),):
            raise InputError(
                f"values must be {math.prod(self.shape)} numbers for {self.shape}, "
                f"not of shape {values.shape}."
            )
        kind: Any = np.float64 if values.dtype.kind == "f" else np.int64
        running = np.zeros(tuple(side + 1 for side in self.shape), kind)
        inner = running[(slice(1, None),) * len(self.shape)]
        inner[...] = values.reshape(self.shape)
        for axis in range(len(self.shape)):
            np.cumsum(inner, axis=axis, out=inner)
        found: Numbers = running.reshape(-1)[self._corners]
        while len(found) > 1:
            lower, upper = np.split(found, 2)
            found = upper - lower
        return found.reshape(-1)
