"""What a query gives: numbers, how far off they may be, and a table of them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from penstock.core.arrays import BoolArray, FloatArray, IntArray
from penstock.core.error_bounds import miss_of
from penstock.core.errors import ConfigurationError
from penstock.core.exact import Exact
from penstock.released.queries.answer_noise import AnswerNoise

SHOWN = 8
"""How many rows a repr shows."""


@dataclass(frozen=True)
class Answer:
    """Numbers, one row a unit and one column a name, and what is known of their error.

    `variance` and `interval` speak of the noise: how far a number is from what the same sum gives
    of the units that were read. `unread` counts the units in each number that were not, because an
    earlier release stands for them. How far these have moved is not known to anybody, and neither
    is how far a unit is from the mean or median of its group.
    """

    query: str
    units: IntArray
    names: tuple[str, ...]
    estimate: FloatArray
    noise: AnswerNoise | None
    unread: IntArray
    shared: bool = False
    """Whether the names share noise, so that of their sums it is not known."""

    @property
    def variance(self) -> FloatArray | None:
        """Of the noise in each number, at most; infinite where nothing was released yet, NaN or
        None where it is not known.
        """
        return None if self.noise is None else self.noise.variance

    def interval(
        self, confidence: Exact = "0.95", *, together: bool = False
    ) -> tuple[FloatArray, FloatArray]:
        """Around each number, the range that holds what was read with at least this probability;
        NaN if it is not known.

        `together`: the ranges of all names of a unit hold at once with this probability.
        """
        miss = miss_of(confidence)
        if self.noise is None:
            unknown = np.full(self.estimate.shape, np.nan)
            return unknown, unknown
        half = self.noise.half_width(miss / len(self.names) if together else miss)
        return self.estimate - half, self.estimate + half

    @classmethod
    def stacked(cls, parts: Sequence[Answer]) -> Answer:
        """One after the other, unit by unit."""
        if len(parts) == 1:
            return parts[0]
        noises = [part.noise for part in parts if part.noise is not None]
        return replace(
            parts[0],
            units=np.concatenate([part.units for part in parts]),
            estimate=np.concatenate([part.estimate for part in parts]),
            noise=AnswerNoise.stacked(noises) if len(noises) == len(parts) else None,
            unread=np.concatenate([part.unread for part in parts]),
        )

    def of(self, name: str) -> Answer:
        """One name's column."""
        if name not in self.names:
            raise ConfigurationError(f"the answer has no {name!r}.")
        return self.among([np.array([self.names.index(name)])], (name,))

    def among(self, groups: Sequence[IntArray], names: tuple[str, ...], query: str = "") -> Answer:
        """The sums of the numbers of each group of columns."""
        together = any(len(group) > 1 for group in groups)
        return Answer(
            query=query or self.query,
            units=self.units,
            names=names,
            estimate=np.stack([self.estimate[:, group].sum(axis=1) for group in groups], axis=1),
            noise=None
            if self.noise is None or (self.shared and together)
            else self.noise.among(groups),
            unread=np.stack([self.unread[:, group].sum(axis=1) for group in groups], axis=1),
            shared=self.shared,
        )

    def rows(self, confidence: Exact = "0.95") -> Iterator[dict[str, Any]]:
        """One plain dict a number, for tables and JSON; None where something is not known or has no
        bounds.
        """
        low, high = self.interval(confidence)
        for i, unit in enumerate(self.units.tolist()):
            for j, name in enumerate(self.names):
                yield {
                    "unit": unit,
                    "name": name,
                    "estimate": _finite(self.estimate[i, j]),
                    "low": _finite(low[i, j]),
                    "high": _finite(high[i, j]),
                    "variance": None if self.noise is None else _finite(self.noise.variance[i, j]),
                    "unread": int(self.unread[i, j]),
                }

    def __repr__(self) -> str:
        low, high = self.interval()
        lines = [
            f"{self.query}: {_extent(self.units)}, {len(self.names)} {'name' if len(self.names) == 1 else 'names'}"
        ]
        cells = ((i, j) for i in range(len(self.units)) for j in range(len(self.names)))
        for _, (i, j) in zip(range(SHOWN), cells, strict=False):
            band = _band(low[i, j], high[i, j])
            lines.append(
                f"  unit {self.units[i]}  {self.names[j]}  {shown(self.estimate[i, j])}  {band}"
            )
        more = self.estimate.size - SHOWN
        return "\n".join([*lines, f"  … and {more} more"] if more > 0 else lines)


@dataclass(frozen=True)
class Alerts:
    """Where a statistic passes a threshold. The statistic itself is what a ROC curve is drawn from."""

    query: str
    statistic: Answer
    threshold: float
    side: Literal["above", "below", "either"]

    @property
    def units(self) -> IntArray:
        return self.statistic.units

    @property
    def names(self) -> tuple[str, ...]:
        return self.statistic.names

    @property
    def score(self) -> FloatArray:
        """What must reach a bound for an alert: larger is more alarming."""
        if self.side == "below":
            return -self.statistic.estimate
        return np.abs(self.statistic.estimate) if self.side == "either" else self.statistic.estimate

    @property
    def raised(self) -> BoolArray:
        """Whether the statistic is at or beyond the threshold; below it, for a low signal."""
        if self.side == "below":
            return self.statistic.estimate < self.threshold
        return self.score >= self.threshold

    @property
    def doubt(self) -> FloatArray:
        """How likely noise alone carries the statistic as far as this if the truth is not past the
        threshold, at most.

        1 where no alert is raised; NaN where the noise is not known.
        """
        noise = self.statistic.noise
        if noise is None:
            return np.full(self.statistic.estimate.shape, np.nan)
        sign = -1.0 if self.side == "below" else 1.0
        beyond = self.score - sign * self.threshold
        tail = noise.tail(beyond)
        if self.side == "either":  # or from beyond the threshold on the other side
            tail = np.minimum(tail + noise.tail(self.score + self.threshold), 1.0)
        return np.where(self.raised, tail, 1.0)

    def rows(self, confidence: Exact = "0.95") -> Iterator[dict[str, Any]]:
        raised, doubt = self.raised.ravel().tolist(), self.doubt.ravel().tolist()
        for row, is_raised, unsure in zip(
            self.statistic.rows(confidence), raised, doubt, strict=True
        ):
            yield {**row, "raised": is_raised, "doubt": _finite(unsure)}

    def __repr__(self) -> str:
        where = [(unit, name) for unit, name, raised in self._each() if raised]
        head = f"{self.query}: {_extent(self.units)}, {len(where)} of {self.raised.size} raised"
        lines = [f"  unit {unit}  {name}" for unit, name in where[:SHOWN]]
        return "\n".join(
            [head, *lines, *([f"  … and {len(where) - SHOWN} more"] if len(where) > SHOWN else [])]
        )

    def _each(self) -> Iterator[tuple[int, str, bool]]:
        for unit, row in zip(self.units.tolist(), self.raised, strict=True):
            for name, raised in zip(self.names, row.tolist(), strict=True):
                yield unit, name, raised


@dataclass(frozen=True)
class Ranking:
    """The largest numbers of every unit, and how sure their order is."""

    query: str
    everything: Answer
    places: IntArray
    """One row a unit: which columns are the largest, the largest first."""

    @property
    def units(self) -> IntArray:
        return self.everything.units

    @property
    def names(self) -> tuple[tuple[str, ...], ...]:
        """One row a unit: the largest first."""
        return tuple(
            tuple(self.everything.names[place] for place in row) for row in self.places.tolist()
        )

    @property
    def estimate(self) -> FloatArray:
        return np.take_along_axis(self.everything.estimate, self.places, axis=1)

    def interval(self, confidence: Exact = "0.95") -> tuple[FloatArray, FloatArray]:
        """Ranges that hold for *all* keys of a unit at once: that a key was chosen for being large
        spoils nothing.
        """
        low, high = self.everything.interval(confidence, together=True)
        return np.take_along_axis(low, self.places, axis=1), np.take_along_axis(
            high, self.places, axis=1
        )

    def sure(self, confidence: Exact = "0.95") -> BoolArray:
        """Whether each of them is surely larger than all that come after it, listed or not.

        With at least this probability, all that is said of a unit is true.
        """
        low, high = self.everything.interval(confidence, together=True)
        mine, next_ = (np.take_along_axis(each, self.places, axis=1) for each in (low, high))
        others = high.copy()
        np.put_along_axis(others, self.places, -np.inf, axis=1)
        after = np.concatenate([next_[:, 1:], others.max(axis=1, keepdims=True)], axis=1)
        return np.asarray(mine > np.maximum.accumulate(after[:, ::-1], axis=1)[:, ::-1])

    def belongs(self, confidence: Exact = "0.95") -> BoolArray:
        """Whether each of them is surely among the k largest: fewer than k others can be as large."""
        low, high = self.everything.interval(confidence, together=True)
        k, size = self.places.shape[1], high.shape[1]
        mine = np.take_along_axis(low, self.places, axis=1)
        ordered = np.sort(
            high, axis=1
        )  # what is not known comes last: it can be as large as anything
        smaller = [np.searchsorted(row, bounds) for row, bounds in zip(ordered, mine, strict=True)]
        return np.asarray((size - np.stack(smaller) <= k) & ~np.isnan(mine))

    def rows(self, confidence: Exact = "0.95") -> Iterator[dict[str, Any]]:
        low, high = self.interval(confidence)
        sure, belongs, estimate = self.sure(confidence), self.belongs(confidence), self.estimate
        for i, (unit, names) in enumerate(zip(self.units.tolist(), self.names, strict=True)):
            for j, name in enumerate(names):
                yield {
                    "unit": unit,
                    "rank": j + 1,
                    "name": name,
                    "estimate": _finite(estimate[i, j]),
                    "low": _finite(low[i, j]),
                    "high": _finite(high[i, j]),
                    "surely_larger_than_the_rest": bool(sure[i, j]),
                    "surely_among_them": bool(belongs[i, j]),
                }

    def __repr__(self) -> str:
        low, high = self.interval()
        sure = self.sure()
        lines = [f"{self.query}: {_extent(self.units)}"]
        names = self.names
        cells = ((i, j) for i in range(len(names)) for j in range(len(names[i])))
        for _, (i, j) in zip(range(SHOWN), cells, strict=False):
            mark = "surely larger than the rest" if sure[i, j] else "may be overtaken"
            numbers = f"{shown(self.estimate[i, j])}  {_band(low[i, j], high[i, j])}"
            lines.append(f"  unit {self.units[i]}  {j + 1}. {names[i][j]}  {numbers}  {mark}")
        more = self.places.size - SHOWN
        return "\n".join([*lines, f"  … and {more} more"] if more > 0 else lines)


def _extent(units: IntArray) -> str:
    return f"unit {units[0]}" if len(units) == 1 else f"units {units[0]}..{units[-1]}"


def _finite(value: float) -> float | int | None:
    number = float(value)
    if not math.isfinite(number):
        return None
    return int(number) if number.is_integer() and abs(number) < 2**53 else number


def shown(value: float) -> str:
    """A number for people."""
    if not math.isfinite(value):
        return "?" if math.isnan(value) else "∞" if value > 0 else "−∞"
    return (
        f"{value:,.0f}"
        if float(value).is_integer() or abs(value) >= 1000
        else f"{value:,.1f}"
        if abs(value) >= 10
        else f"{value:.2f}"
    )


def _band(low: float, high: float) -> str:
    return "(error not known)" if math.isnan(low) else f"[{shown(low)}, {shown(high)}]"
