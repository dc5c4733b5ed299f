"""Errors of sums of the last units, each as first shown."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from penstock.core.arrays import FloatArray
from penstock_bench.lines import ShownUnit
from penstock_bench.measures.base import Measure, one_width, squares


class OfWindows(Measure):
    """Errors of the sums of the last `width` units, each unit as first shown."""

    def begin(self) -> None:
        self.width = one_width(self.arguments, self.name)
        self._ring = np.zeros((min(self.width, self.facts.units), self.facts.keys))
        self._sum = np.zeros(self.facts.keys)
        self._units = 0
        self.total = 0.0
        self.windows = 0

    def add(self, seen: ShownUnit) -> None:
        place = self._units % len(self._ring)
        self._sum += seen.error
        if self._units >= self.width:
            self._sum -= self._ring[place]
        self._ring[place] = seen.error
        self._units += 1
        if self._units >= self.width:
            self.total += self.of(self._sum)
            self.windows += 1

    @abstractmethod
    def of(self, errors: FloatArray) -> float:
        """The errors of one window over all keys."""


class WindowL1(OfWindows):
    """The mean absolute error of a window's sum, over all windows and keys."""

    def of(self, errors: FloatArray) -> float:
        return float(np.abs(errors).sum())

    def values(self) -> dict[str, float]:
        return {self.name: self.total / (self.windows * self.facts.keys)} if self.windows else {}


class WindowSquares(OfWindows):
    """Squared errors of windows, summed over keys: in total, and as the mean over the windows."""

    def of(self, errors: FloatArray) -> float:
        return squares(errors)

    def values(self) -> dict[str, float]:
        if not self.windows:
            return {}
        return {
            self.name: self.total,
            self.name.replace("sse", "sse_mean", 1): self.total / self.windows,
        }
