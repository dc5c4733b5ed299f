"""What is measured of a line, unit by unit. No measure loops over keys.

A measure is named in a cell as text, with arguments behind a colon: `mae`, `l1:64`, `window_mse:2,64`, `roc:jump,12,60`. What
it gives are one or more named numbers a run.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.core.arrays import BoolArray, FloatArray, IntArray
from penstock.core.errors import ConfigurationError
from penstock.core.weights import Weights
from penstock.lab.bench.formulas import formula
from penstock.lab.bench.lines import Seen
from penstock.private.run import Run
from penstock.released.log import Log
from penstock.released.queries import Drop, Jump, LowSignal, SlidingSum, WeightedSum

TIME, MEMORY = "time", "memory"
"""Milliseconds of CPU a publication, and megabytes that are kept between units: taken by whoever steps the line."""

BOUND = 1.0
"""Relative errors divide by no less than this, unless another bound is named."""

SHARE = 0.001
"""`mre:total` divides by no less than this share of all events of the unit."""

ROC_AT = tuple((place / 20) ** 2 for place in range(21))
"""The false positive rates at which a curve is kept."""


@dataclass(frozen=True)
class Facts:
    """What a measure may know before the first unit."""

    units: int
    keys: int
    run: Run | None


class Measure(ABC):
    """Something that is added up over a run."""

    def __init__(self, name: str, arguments: tuple[str, ...], facts: Facts) -> None:
        self.name = name
        self.arguments = arguments
        self.facts = facts
        self.begin()

    @abstractmethod
    def begin(self) -> None:
        """Before the first unit."""

    @abstractmethod
    def add(self, seen: Seen) -> None:
        """One unit."""

    @abstractmethod
    def values(self) -> dict[str, float]:
        """What was found, by name."""


class Mean(Measure):
    """The mean of something over all units and keys."""

    def begin(self) -> None:
        self.total = 0.0

    def add(self, seen: Seen) -> None:
        self.total += self.of(seen)

    def values(self) -> dict[str, float]:
        return {self.name: self.total / (self.facts.units * self.facts.keys)}

    @abstractmethod
    def of(self, seen: Seen) -> float:
        """The sum over one unit's keys."""


class AbsoluteError(Mean):
    """MAE."""

    def of(self, seen: Seen) -> float:
        return float(seen.absolute.sum())


class SquaredError(Mean):
    """MSE of unit counts."""

    def of(self, seen: Seen) -> float:
        return float(seen.error @ seen.error)


class RelativeError(Mean):
    """MRE: every error divided by its count, or by the sanity bound where that is more."""

    def of(self, seen: Seen) -> float:
        if self.arguments == ("total",):
            bound = max(SHARE * float(seen.truth.sum()), BOUND)
        else:
            bound = float(self.arguments[0]) if self.arguments else BOUND
        return float((seen.absolute / np.maximum(seen.truth, bound)).sum())


class ScaledError(Measure):
    """Scaled L1: the sum of all errors, divided by the number of all events."""

    def begin(self) -> None:
        self.off, self.events = 0.0, 0

    def add(self, seen: Seen) -> None:
        self.off += float(seen.absolute.sum())
        self.events += int(seen.truth.sum())

    def values(self) -> dict[str, float]:
        return {self.name: self.off / self.events if self.events else float("nan")}


class OfWindows(Measure):
    """Errors of the sums of the last `width` units, each unit as it was shown then."""

    def begin(self) -> None:
        self.width = _whole(self.arguments, self.name)
        self._ring = np.zeros((min(self.width, self.facts.units), self.facts.keys))
        self._sum = np.zeros(self.facts.keys)
        self._units = 0
        self.total = 0.0
        self.windows = 0

    def add(self, seen: Seen) -> None:
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
        """Of one window's errors, over all keys."""


class WindowL1(OfWindows):
    """L1 of windows: the mean error of a window's sum, over all windows and keys."""

    def of(self, errors: FloatArray) -> float:
        return float(np.abs(errors).sum())

    def values(self) -> dict[str, float]:
        return {self.name: self.total / (self.windows * self.facts.keys)} if self.windows else {}


class WindowSquares(OfWindows):
    """SSE per window: the squared errors of a window's sums over all keys; in total, and as the mean over the windows."""

    def of(self, errors: FloatArray) -> float:
        return float(errors @ errors)

    def values(self) -> dict[str, float]:
        if not self.windows:
            return {}
        return {self.name: self.total, self.name.replace("sse", "sse_mean", 1): self.total / self.windows}


class Kept(Measure):
    """Keeps what was shown, for questions that are asked afterwards."""

    def begin(self) -> None:
        self.truth = list[IntArray]()
        self.shown = list[FloatArray]()
        self.log = None if self.facts.run is None else Log.of(self.facts.run)

    def add(self, seen: Seen) -> None:
        self.truth.append(seen.truth)
        if self.log is not None and seen.released is not None:
            self.log.append(seen.released)
        else:
            self.shown.append(seen.shown)

    def true(self) -> IntArray:
        return np.array(self.truth)


class WindowMse(Kept):
    """MSE of sums of the last W units as the release log answers them, and what the formula says it should be."""

    def values(self) -> dict[str, float]:
        found: dict[str, float] = {}
        truth = _sums(self.true())
        for width in map(int, self.arguments):
            if width > self.facts.units:
                continue
            units = np.arange(width, self.facts.units + 1)
            if self.log is not None:
                shown = SlidingSum(width).series(self.log).estimate
            else:
                sums = _sums(np.array(self.shown))
                shown = sums[width:] - sums[:-width]
            squares = np.square(shown - (truth[width:] - truth[:-width])).mean(axis=0)
            found |= _over_keys(squares, str(width))
            found |= _expected(self.facts.run, Weights.window(width), units, f"formula {width}")
        return found


class PrefixMse(Kept):
    """MSE of the sum of all units so far, around the units named, and what the formula says it should be."""

    def values(self) -> dict[str, float]:
        found: dict[str, float] = {}
        for last in map(int, self.arguments):
            if last <= self.facts.units:
                units = np.unique(np.linspace(-(-3 * last // 4), last, 8).round()).astype(np.int64)
                found |= _over_keys(_weighted_squares(self, Weights.prefix(), units), str(last))
                found |= _expected(self.facts.run, Weights.prefix(), units, f"formula {last}")
        return found


class DecayMse(Kept):
    """MSE of sums in which a unit is worth γ to the power of its age, and what the formula says it should be."""

    def values(self) -> dict[str, float]:
        found: dict[str, float] = {}
        for gamma in self.arguments:
            weights = decay(gamma)
            units = np.unique(np.linspace(self.facts.units // 2 + 1, self.facts.units, 32).round()).astype(np.int64)
            found |= _over_keys(_weighted_squares(self, weights, units), gamma)
            found |= _expected(self.facts.run, weights, units, f"formula {gamma}")
        return found


def decay(gamma: str) -> Weights:
    """Weights γ^age, cut where a unit is worth less than e^−10."""
    return Weights.decay(gamma, round(10 / (1 - float(gamma))))


class Roc(Kept):
    """True against false positive rates of jumps, drops and low signals as the alarm's threshold varies, and the area."""

    def values(self) -> dict[str, float]:
        if self.log is None or len(self.arguments) != 3:
            return {}
        kind, width, delta = self.arguments[0], int(self.arguments[1]), int(self.arguments[2])
        truth = self.true()
        if width > len(truth):
            return {}
        event, score = _alarms(kind, width, delta, truth, self.log)
        false, true = roc(event, score)
        area = float(np.sum(np.diff(false) * (true[1:] + true[:-1]) / 2))
        at = {f"{self.name} at {x:g}": float(y) for x, y in zip(ROC_AT, np.interp(ROC_AT, false, true), strict=True)}
        return {f"{self.name} area": area, f"{self.name} share": float(event.mean()), **at}


def _alarms(kind: str, width: int, delta: int, truth: IntArray, log: Log) -> tuple[BoolArray, FloatArray]:
    """Where it happened, and how much it looks as if it had."""
    if kind == "low":
        sums = _sums(truth)
        return sums[width:] - sums[:-width] < delta, LowSignal(width, delta).series(log).score
    if kind not in ("jump", "drop"):
        raise ConfigurationError(f"roc: there are jump, drop and low, not {kind!r}.")
    rise = truth[width - 1 :] - truth[: len(truth) - width + 1]
    if kind == "jump":
        return rise >= delta, Jump(width, delta).series(log).score
    return rise <= -delta, Drop(width, delta).series(log).score


def roc(event: BoolArray, score: FloatArray) -> tuple[FloatArray, FloatArray]:
    """False and true positive rates, from no alarm at all to one everywhere; equal scores cannot be told apart.

    >>> roc(np.array([True, False, True]), np.array([3.0, 1.0, 2.0]))
    (array([0., 0., 0., 1.]), array([0. , 0.5, 1. , 1. ]))
    """
    truth, order = event.ravel(), np.argsort(-score.ravel(), kind="stable")
    hits, last = truth[order], score.ravel()[order]
    ends = np.append(np.flatnonzero(np.diff(last)), len(last) - 1)
    true = np.concatenate([[0.0], np.cumsum(hits)[ends] / max(int(truth.sum()), 1)])
    false = np.concatenate([[0.0], np.cumsum(~hits)[ends] / max(int((~truth).sum()), 1)])
    return false, true


def _over_keys(squares: FloatArray, x: str) -> dict[str, float]:
    """The mean over the keys, and its standard error, which is true where keys are independent releases of one stream."""
    found = {f"mse {x}": float(squares.mean())}
    if len(squares) > 1:
        found[f"error {x}"] = float(squares.std(ddof=1) / np.sqrt(len(squares)))
    return found


def _weighted_squares(kept: Kept, weights: Weights, units: IntArray) -> FloatArray:
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


def _sums(rows: IntArray | FloatArray) -> Any:
    """What came before each unit, and before the one after the last."""
    return np.concatenate([np.zeros((1, rows.shape[1]), rows.dtype), np.cumsum(rows, axis=0)])


def _whole(arguments: tuple[str, ...], name: str) -> int:
    if len(arguments) != 1 or not arguments[0].isdigit() or not int(arguments[0]):
        raise ConfigurationError(f"the measure {name!r} needs one width, such as {name.partition(':')[0]}:64.")
    return int(arguments[0])


MEASURES: dict[str, Callable[[str, tuple[str, ...], Facts], Measure]] = {
    "mae": AbsoluteError,
    "mre": RelativeError,
    "mse": SquaredError,
    "scaled_l1": ScaledError,
    "l1": WindowL1,
    "sse": WindowSquares,
    "window_mse": WindowMse,
    "prefix_mse": PrefixMse,
    "decay_mse": DecayMse,
    "roc": Roc,
}


def measure_of(name: str, facts: Facts) -> Measure:
    """The measure of this name, before the first unit."""
    kind, _, arguments = name.partition(":")
    if kind not in MEASURES:
        raise ConfigurationError(f"there is no measure {kind!r}: use {', '.join([*MEASURES, TIME, MEMORY])}.")
    return MEASURES[kind](name, tuple(arguments.split(",")) if arguments else (), facts)
