"""Windows of releases that later releases correct, and the least error of retroactive grouping."""

from __future__ import annotations

import numpy as np

from penstock.core.arrays import FloatArray
from penstock.core.error_bounds import laplace_variance
from penstock.core.errors import ConfigurationError
from penstock.private.mechanisms.rg import RetroactiveGrouping
from penstock_bench.lines import ShownUnit
from penstock_bench.measures.base import Measure, one_width, squares


class CorrectedSquares(Measure):
    """Squared error per window by the release log: each unit with its best known value.

    A release stands for all units from its `start` on, as in `SlidingSum`. The values have the
    names of `sse`, so that both can be lines of one figure. At most one window of releases is kept.
    """

    def begin(self) -> None:
        widths = [int(width) for width in self.arguments if width.isdigit() and int(width)]
        if len(widths) != len(self.arguments) or widths != sorted(set(widths)) or not widths:
            raise ConfigurationError(
                f"the measure {self.name!r} needs growing widths, such as log_sse:1,15."
            )
        self._totals = {width: 0.0 for width in widths if width <= self.facts.units}
        held = max(self._totals, default=1)
        self._shown = np.zeros((held, self.facts.keys))
        self._truth = np.zeros((held, self.facts.keys))
        self._unit = np.zeros(held, np.int64)
        self._units = 0

    def add(self, seen: ShownUnit) -> None:
        place = self._units % len(self._shown)
        self._units += 1
        self._shown[place], self._truth[place], self._unit[place] = (
            seen.shown,
            seen.truth,
            self._units,
        )
        if seen.released is not None and "start" in seen.released.public:
            start = seen.released.public["start"]
            for at in np.flatnonzero(
                (self._unit >= int(start.min())) & (self._unit < self._units)
            ).tolist():
                np.copyto(self._shown[at], seen.shown, where=self._unit[at] >= start)
        errors: FloatArray = np.zeros(self.facts.keys)
        for age in range(min(self._units, len(self._shown))):
            at = (place - age) % len(self._shown)
            errors += self._shown[at]
            errors -= self._truth[at]
            if age + 1 in self._totals:
                self._totals[age + 1] += squares(errors)

    def values(self) -> dict[str, float]:
        found: dict[str, float] = {}
        for width, total in self._totals.items():
            if self._units >= width:
                found |= {
                    f"sse:{width}": total,
                    f"sse_mean:{width}": total / (self._units - width + 1),
                }
        return found


class GroupingFloor(Measure):
    r"""The least mean SSE of `rg`: Theorem 7 of Chen, Shen and Jin, recomputed.

    On a constant stream, in T = 2^(l+1) − 1 units with groups of 1, 2, 4, …, the units of a group
    but the last show the mean of the previous group. On average over the units a count has (2 −
    2^−l)²/T times the squared error of one publication. A window of W units has W times as much, if
    the noises were independent. For other T there is no value.
    """

    def begin(self) -> None:
        self.width = one_width(self.arguments, self.name)

    def add(self, seen: ShownUnit) -> None:
        """It depends on no data."""

    def values(self) -> dict[str, float]:
        mechanism = None if self.facts.run is None else self.facts.run.mechanism
        units = self.facts.units
        if not isinstance(mechanism, RetroactiveGrouping) or units & (units + 1):
            return {}
        scale = mechanism.contribution / float(mechanism.publishing.epsilon)
        one = float(laplace_variance(np.array(scale)))
        return {self.name: self.width * self.facts.keys * one * (2 - 2 / (units + 1)) ** 2 / units}
