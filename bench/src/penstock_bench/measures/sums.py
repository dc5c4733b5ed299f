"""Errors of sums by the release log, beside the values of their formulas."""

from __future__ import annotations

import numpy as np

from penstock.core.arrays import FloatArray, IntArray
from penstock.core.weights import Weights
from penstock.private.run import Run
from penstock.released.queries import SlidingSum, WeightedSum
from penstock_bench.formulas import formula
from penstock_bench.lines import ShownUnit
from penstock_bench.measures.base import KeptReleases, sums


class WindowMse(KeptReleases):
    """Mean squared error of sums of the last W units by the release log, and the formula's
    value."""

    def values(self) -> dict[str, float]:
        found: dict[str, float] = {}
        truth = sums(self.true())
        for width in map(int, self.arguments):
            if width > self.facts.units:
                continue
            units = np.arange(width, self.facts.units + 1)
            if self.log is not None:
                shown = SlidingSum(width).series(self.log).estimate
            else:
                before = sums(np.array(self.shown))
                shown = before[width:] - before[:-width]
            squares = np.square(shown - (truth[width:] - truth[:-width])).mean(axis=0)
            found |= _over_keys(squares, str(width))
            found |= _expected(self.facts.run, Weights.window(width), units, f"formula {width}")
        return found


class LogL1(KeptReleases):
    """Mean absolute error of sums of the last W units by the release log.

    For lines that show single units, `then` is the error of the sum of the numbers as first shown.
    The log is better where a later release says more about an earlier unit.
    """

    def begin(self) -> None:
        super().begin()
        self.units_shown: list[FloatArray] | None = []

    def add(self, seen: ShownUnit) -> None:
        super().add(seen)
        if seen.weighted:
            self.units_shown = None
        elif self.units_shown is not None:
            self.units_shown.append(seen.shown)

    def values(self) -> dict[str, float]:
        found: dict[str, float] = {}
        truth = sums(self.true())
        shown = None if self.units_shown is None else sums(np.array(self.units_shown))
        for width in map(int, self.arguments):
            if width > self.facts.units:
                continue
            true = truth[width:] - truth[:-width]
            if shown is not None:
                then = np.abs(shown[width:] - shown[:-width] - true).mean(axis=0)
                found |= _over_keys(then, f"then {width}", "l1")
                if self.log is None:
                    found |= _over_keys(then, str(width), "l1")
            if self.log is not None:
                answer = SlidingSum(width).series(self.log).estimate
                found |= _over_keys(np.abs(answer - true).mean(axis=0), str(width), "l1")
        return found


class PrefixMse(KeptReleases):
    """Mean squared error of the sum of all units so far, around the named units, and the
    formula."""

    def values(self) -> dict[str, float]:
        found: dict[str, float] = {}
        for last in map(int, self.arguments):
            if last <= self.facts.units:
                units = np.unique(np.linspace(-(-3 * last // 4), last, 8).round()).astype(np.int64)
                found |= _over_keys(_weighted_squares(self, Weights.prefix(), units), str(last))
                found |= _expected(self.facts.run, Weights.prefix(), units, f"formula {last}")
        return found


class DecayMse(KeptReleases):
    """Mean squared error of sums with weights γ to the power of the age, and the formula's
    value."""

    def values(self) -> dict[str, float]:
        found: dict[str, float] = {}
        for gamma in self.arguments:
            weights = decay(gamma)
            units = np.unique(
                np.linspace(self.facts.units // 2 + 1, self.facts.units, 32).round()
            ).astype(np.int64)
            found |= _over_keys(_weighted_squares(self, weights, units), gamma)
            found |= _expected(self.facts.run, weights, units, f"formula {gamma}")
        return found


def decay(gamma: str) -> Weights:
    """Weights γ^age, cut where they fall below e^−10."""
    return Weights.decay(gamma, round(10 / (1 - float(gamma))))


def _over_keys(errors: FloatArray, x: str, name: str = "mse") -> dict[str, float]:
    """The mean over the keys and its standard error, correct if keys are independent releases."""
    found = {f"{name} {x}": float(errors.mean())}
    if len(errors) > 1:
        found[f"error {x}"] = float(errors.std(ddof=1) / np.sqrt(len(errors)))
    return found


def _weighted_squares(kept: KeptReleases, weights: Weights, units: IntArray) -> FloatArray:
    """The mean squared error of every key, over the given last units."""
    factors = weights.sequence(kept.facts.units)
    truth, total = kept.true(), np.zeros(kept.facts.keys)
    shown = None if kept.log is not None else np.array(kept.shown)
    for unit in units.tolist():
        by_age = factors[:unit][::-1]
        if kept.log is not None:
            answer = WeightedSum(weights).answer(kept.log, unit).estimate[0]
        else:
            assert shown is not None
            answer = by_age @ shown[:unit]
        total += np.square(answer - by_age @ truth[:unit])
    return total / len(units)


def _expected(run: Run | None, weights: Weights, units: IntArray, name: str) -> dict[str, float]:
    value = None if run is None else formula(run.mechanism, weights, units)
    return {} if value is None else {name: value}
