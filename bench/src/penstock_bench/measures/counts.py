"""Errors of unit counts, and how often their intervals hold."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from penstock.core.arrays import FloatArray
from penstock.core.errors import ConfigurationError
from penstock_bench.lines import ShownUnit
from penstock_bench.measures.base import Measure, squares

BOUND = 1.0
"""The default least divisor of relative errors."""

SHARE = 0.001
"""`mre:total` divides by at least this share of all events of the unit."""

KEY_SHARE = 0.01
"""`mre:key` divides by at least this share of all events of the key, and by at least `BOUND`."""

CONFIDENCE = "0.9"
"""The confidence of the intervals that `coverage` looks at."""


class Mean(Measure):
    """The mean of a quantity over all units and keys."""

    def begin(self) -> None:
        self.total = 0.0

    def add(self, seen: ShownUnit) -> None:
        self.total += self.of(seen)

    def values(self) -> dict[str, float]:
        return {self.name: self.total / (self.facts.units * self.facts.keys)}

    @abstractmethod
    def of(self, seen: ShownUnit) -> float:
        """The sum over the keys of one unit."""


class AbsoluteError(Mean):
    """Mean absolute error."""

    def of(self, seen: ShownUnit) -> float:
        return float(seen.absolute.sum())


class SquaredError(Mean):
    """Mean squared error of unit counts."""

    def of(self, seen: ShownUnit) -> float:
        return squares(seen.error)


class RelativeError(Mean):
    """Mean relative error: each error divided by its count, or by the sanity bound if larger.

    The bound is a number, `total` for a share of the unit's events, or `key` for a share of the
    key's events in all units.
    """

    def begin(self) -> None:
        super().begin()
        self.bound: float | FloatArray = BOUND
        if self.arguments == ("key",):
            self.bound = np.maximum(KEY_SHARE * self.facts.totals(), BOUND)
        elif self.arguments and self.arguments != ("total",):
            self.bound = float(self.arguments[0])

    def of(self, seen: ShownUnit) -> float:
        bound = self.bound
        if self.arguments == ("total",):
            bound = max(SHARE * float(seen.truth.sum()), BOUND)
        return float((seen.absolute / np.maximum(seen.truth, bound)).sum())


class ScaledError(Measure):
    """Scaled L1: the sum of all errors divided by the number of events."""

    def begin(self) -> None:
        self.off, self.events = 0.0, 0

    def add(self, seen: ShownUnit) -> None:
        self.off += float(seen.absolute.sum())
        self.events += int(seen.truth.sum())

    def values(self) -> dict[str, float]:
        return {self.name: self.off / self.events if self.events else float("nan")}


class Coverage(Measure):
    """The share of counts inside their 90 % intervals, after the first window.

    Only for filtered numbers: intervals of other releases are for the noise, not for the count.
    """

    def begin(self) -> None:
        self.inside, self.units = 0.0, 0

    def add(self, seen: ShownUnit) -> None:
        run, released = self.facts.run, seen.released
        if run is None or released is None or released.kind != "filtered":
            raise ConfigurationError(f"the measure {self.name!r} is for filtered numbers.")
        if released.unit > min(run.guarantee.window, self.facts.units // 2):
            low, high = released.interval(CONFIDENCE)
            self.inside += float(((low <= seen.truth) & (seen.truth <= high)).mean())
            self.units += 1

    def values(self) -> dict[str, float]:
        return {self.name: self.inside / self.units}
