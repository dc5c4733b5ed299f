"""Errors of unit counts with standard errors from releases side by side."""

from __future__ import annotations

import numpy as np

from penstock_bench.lines import ShownUnit
from penstock_bench.measures.base import Measure


class UnitL1(Measure):
    """Scaled L1 and mean absolute error, with standard errors over keys.

    The standard errors are correct if keys are independent releases of one stream.
    """

    def begin(self) -> None:
        self.off = np.zeros(self.facts.keys)
        self.events = 0

    def add(self, seen: ShownUnit) -> None:
        self.off += seen.absolute
        self.events += int(seen.truth.sum())

    def values(self) -> dict[str, float]:
        found: dict[str, float] = {}
        keys = self.facts.keys
        mean = self.events / (self.facts.units * keys)
        for name, each in (
            ("scaled_l1", self.off / mean if mean else self.off * np.nan),
            ("l1", self.off),
        ):
            each = each / self.facts.units
            found[name] = float(each.mean())
            if keys > 1:
                found[f"{name} error"] = float(each.std(ddof=1) / np.sqrt(keys))
        return found
