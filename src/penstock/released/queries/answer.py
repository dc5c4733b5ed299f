"""Answers of queries: numbers with intervals, alerts, and rankings."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from penstock.core.arrays import BoolArray, FloatArray, IntArray
from penstock.core.calendar import Calendar
from penstock.core.domain import Domain
from penstock.core.error_bounds import miss_of
from penstock.core.errors import ConfigurationError
from penstock.core.exact import Exact
from penstock.core.nearest_name import nearest_names
from penstock.core.nonnegative import cut_interval, make_nonnegative, nonnegative_facts
from penstock.core.notebook_html import (
    MAX_HTML_ROWS,
    Html,
    card,
    shown,
    shown_interval,
    sparkline,
    table,
)
from penstock.core.tables import TableColumns, Tabular
from penstock.released.queries.answer_noise import AnswerNoise

MAX_ROWS_SHOWN = 8
"""The most rows that `print` shows."""


@dataclass(frozen=True, repr=False)
class Answer(Tabular):
    """Numbers with their noise: one row per unit, one column per name.

    `variance` and `interval` cover the added noise only. Two other errors are not known: how far
    units have moved that were not read (`unread`), and how far a unit is from the mean or median
    of its smoothed group.

    Attributes
    ----------
    query : str
        The question in words.
    units : array of int
        The unit of each row.
    names : tuple of str
        The key or group of each column.
    estimate : array of float
        The numbers.
    noise : AnswerNoise or None
        The noise in each number; None where it is not known.
    unread : array of int
        How many units in each number were not read, because an earlier release stands for them.
    shared : bool
        Whether the columns share noise. Then the noise of their sums is not known.
    domain : Domain or None
        The domain of the names, if they are all keys or all nodes of one.
    released : array of float or None
        The numbers before they were made non-negative; None if they were not.
    calendar : Calendar or None
        When units begin; None where the log does not know it.
    """

    query: str
    units: IntArray
    names: tuple[str, ...]
    estimate: FloatArray
    noise: AnswerNoise | None
    unread: IntArray
    shared: bool = False
    domain: Domain | None = None
    released: FloatArray | None = None
    calendar: Calendar | None = None

    @property
    def variance(self) -> FloatArray | None:
        """An upper bound on the variance of the noise in each number.

        It is infinite where nothing was released yet, and NaN or None where it is not known.
        """
        return None if self.noise is None else self.noise.variance

    def interval(
        self, confidence: Exact = "0.95", *, together: bool = False
    ) -> tuple[FloatArray, FloatArray]:
        """The lower and upper end of an interval around each number; NaN where it is not known.

        The interval of a filtered number is for the count itself: whole numbers from 0.

        Parameters
        ----------
        confidence : int, Fraction or str
            The probability, at least, that the interval covers the noise. Default: "0.95".
        together : bool
            Whether all intervals of a unit hold at once with this probability. Default: False.
        """
        miss = miss_of(confidence)
        if self.noise is None:
            unknown = np.full(self.estimate.shape, np.nan)
            return unknown, unknown
        centre = self.estimate if self.released is None else self.released
        low, high = self.noise.interval(centre, miss / len(self.names) if together else miss)
        return (low, high) if self.released is None else cut_interval(self.estimate, low, high)

    def nonnegative(self) -> Answer:
        """This answer without negative numbers, and consistent where totals are known.

        Where the names are the keys or the nodes of a hierarchy, parents are the sums of their
        children, and totals are kept. Other numbers are cut at 0. Intervals are cut at 0, too.
        Numbers near 0 are too high on average: add up first, then make the sum non-negative.

        Examples
        --------
        >>> from penstock import Laplace
        >>> from penstock.released.log import Log
        >>> from penstock.released.queries import UnitCounts
        >>> run = Laplace(epsilon="1/100").run(["north", "south"])
        >>> log = Log.of(run)
        >>> log.append(run.step([0, 0]))
        >>> bool((UnitCounts().answer(log).nonnegative().estimate >= 0).all())
        True
        """
        if self.released is not None:
            return self
        found = make_nonnegative(self.domain, self.estimate, self.variance)
        return replace(self, estimate=found, released=self.estimate)

    @classmethod
    def stacked(cls, parts: Sequence[Answer]) -> Answer:
        """The answer whose rows are those of all parts, in order."""
        if len(parts) == 1:
            return parts[0]
        noises = [part.noise for part in parts if part.noise is not None]
        return replace(
            parts[0],
            units=np.concatenate([part.units for part in parts]),
            estimate=np.concatenate([part.estimate for part in parts]),
            noise=AnswerNoise.stacked(noises) if len(noises) == len(parts) else None,
            unread=np.concatenate([part.unread for part in parts]),
            released=None
            if parts[0].released is None
            else np.concatenate([part.released for part in parts if part.released is not None]),
        )

    def of(self, *names: str) -> Answer:
        """The columns of these names."""
        place = {name: number for number, name in enumerate(self.names)}
        for name in names:
            if name not in place:
                near = nearest_names(name, self.names)
                raise ConfigurationError(f"the answer has no {name!r}.{near}")
        return self.among([np.array([place[name]]) for name in names], names)

    def among(self, groups: Sequence[IntArray], names: tuple[str, ...], query: str = "") -> Answer:
        """The answer whose columns are sums over groups of columns."""
        together = any(len(group) > 1 for group in groups)
        # A filter follows what all keys share, so that their errors are not independent.
        shared = self.shared or (self.noise is not None and self.noise.kind == "filtered")
        return Answer(
            query=query or self.query,
            units=self.units,
            names=names,
            estimate=_summed(self.estimate, groups),
            noise=None if self.noise is None or (shared and together) else self.noise.among(groups),
            unread=np.stack([self.unread[:, group].sum(axis=1) for group in groups], axis=1),
            shared=shared,
            released=None if self.released is None else _summed(self.released, groups),
            calendar=self.calendar,
        )

    def table_columns(
        self, confidence: Exact | None = None, *, nonnegative: bool = False
    ) -> TableColumns:
        """The numbers of the table, with intervals of this confidence; not negative by choice."""
        if nonnegative and self.released is None:
            return self.nonnegative().table_columns(confidence)
        filtered = self.noise is not None and self.noise.kind == "filtered"
        chosen = ("0.9" if filtered else "0.95") if confidence is None else confidence
        low, high = self.interval(chosen)
        return TableColumns(
            units=self.units,
            keys=self.names,
            value=self.estimate,
            low=low,
            high=high,
            calendar=self.calendar,
            more={"unread": self.unread},
            confidence=str(chosen),
            filtered=filtered,
            nonnegative=None if self.released is None else nonnegative_facts(self.domain),
        )

    def largest(self, count: int) -> Answer:
        """The columns with the largest mean over time, the largest first.

        Parameters
        ----------
        count : int
            The number of columns.
        """
        places = self._largest(count)
        names = tuple(self.names[place] for place in places)
        return self.among([np.array([place]) for place in places], names)

    def _largest(self, count: int) -> Sequence[int]:
        found: list[int] = np.argsort(-self.estimate.mean(axis=0), kind="stable")[:count].tolist()
        return found

    def html_table(self, confidence: Exact | None = None) -> Html:
        """The numbers as an HTML table with small charts over time, at most ten rows."""
        shown_at = self.table_columns(confidence)
        low, high, last = shown_at.low, shown_at.high, len(self.units) - 1
        if len(self.names) == 1:
            head = ("unit" if self.calendar is None else "begins", "value", "interval")
            recent = range(max(last + 1 - MAX_HTML_ROWS, 0), last + 1)
            rows = [
                (self._when(i), shown(self.estimate[i, 0]), shown_interval(low[i, 0], high[i, 0]))
                for i in reversed(recent)
            ]
            if last:
                chart = sparkline(
                    self.estimate[:, 0], low=low[:, 0], high=high[:, 0], width=480, height=80
                )
                return Html(f"<p>{chart}</p>{table(head, rows)}")
            return table(head, rows)
        charts = ("over time",) if last else ()
        largest: Sequence[int] = range(len(self.names))
        if len(largest) > MAX_HTML_ROWS:
            largest = self._largest(MAX_HTML_ROWS)
        of_keys = [
            (
                self.names[j],
                *(sparkline(self.estimate[:, j], low=low[:, j], high=high[:, j]) for _ in charts),
                shown(self.estimate[last, j]),
                shown_interval(low[last, j], high[last, j]),
            )
            for j in largest
        ]
        made = table(("key", *charts, self._when(last), "interval"), of_keys)
        if len(largest) == len(self.names):
            return made
        return Html(f"{made}<p>These are the {len(largest)} largest of {len(self.names)} keys.</p>")

    def _when(self, row: int) -> str:
        unit = int(self.units[row])
        return f"unit {unit}" if self.calendar is None else self.calendar.short_label(unit)

    def _repr_html_(self) -> str:
        """The answer for a notebook."""
        lead = f"{_extent(self.units)}, {_names(len(self.names))}"
        return card(
            self.query[:1].upper() + self.query[1:],
            lead=f"{lead[0].upper()}{lead[1:]}.",
            parts=[self.html_table()],
            note=self._note,
        )

    @property
    def _note(self) -> str:
        if self.noise is not None and self.noise.kind == "filtered":
            return "90 % intervals are for the counts, as the filter believes."
        return "95 % intervals cover the added noise only."

    def rows(self, confidence: Exact = "0.95") -> Iterator[dict[str, Any]]:
        """One dict per number, for tables and JSON. A value is None where it is not known."""
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
        return f"<Answer {self.query!r}: {_extent(self.units)}, {_names(len(self.names))}>"

    def __str__(self) -> str:
        low, high = self.interval()
        lines = [f"{self.query}: {_extent(self.units)}, {_names(len(self.names))}"]
        cells = ((i, j) for i in range(len(self.units)) for j in range(len(self.names)))
        for _, (i, j) in zip(range(MAX_ROWS_SHOWN), cells, strict=False):
            band = shown_interval(low[i, j], high[i, j])
            lines.append(
                f"  unit {self.units[i]}  {self.names[j]}  {shown(self.estimate[i, j])}  {band}"
            )
        more = self.estimate.size - MAX_ROWS_SHOWN
        return "\n".join([*lines, f"  … and {more} more"] if more > 0 else lines)


@dataclass(frozen=True, repr=False)
class Alerts(Tabular):
    """Where a statistic passes a threshold.

    Attributes
    ----------
    query : str
        The question in words.
    statistic : Answer
        The numbers that are compared with the threshold. A ROC curve is drawn from them.
    threshold : float
        The threshold.
    side : "above", "below" or "either"
        On which side of the threshold an alert is raised.
    """

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
        """The statistic turned so that larger values are more alarming."""
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
        """An upper bound on the probability that noise alone raised the alert.

        The bound assumes that the true value is not past the threshold. It is 1 where no alert is
        raised, and NaN where the noise is not known.
        """
        noise = self.statistic.noise
        if noise is None:
            return np.full(self.statistic.estimate.shape, np.nan)
        sign = -1.0 if self.side == "below" else 1.0
        beyond = self.score - sign * self.threshold
        tail = noise.tail(beyond)
        if self.side == "either":  # noise may also come from the other threshold
            tail = np.minimum(tail + noise.tail(self.score + self.threshold), 1.0)
        return np.where(self.raised, tail, 1.0)

    def table_columns(
        self, confidence: Exact | None = None, *, nonnegative: bool = False
    ) -> TableColumns:
        """The statistic of the table, with further columns `raised` and `doubt`."""
        _refuse_nonnegative(nonnegative)
        columns = self.statistic.table_columns(confidence)
        return replace(columns, more={**columns.more, "raised": self.raised, "doubt": self.doubt})

    def rows(self, confidence: Exact = "0.95") -> Iterator[dict[str, Any]]:
        raised, doubt = self.raised.ravel().tolist(), self.doubt.ravel().tolist()
        for row, is_raised, unsure in zip(
            self.statistic.rows(confidence), raised, doubt, strict=True
        ):
            yield {**row, "raised": is_raised, "doubt": _finite(unsure)}

    def __repr__(self) -> str:
        raised = f"{int(self.raised.sum())} of {self.raised.size} raised"
        return f"<Alerts {self.query!r}: {_extent(self.units)}, {raised}>"

    def __str__(self) -> str:
        where = [(unit, name) for unit, name, raised in self._each() if raised]
        head = f"{self.query}: {_extent(self.units)}, {len(where)} of {self.raised.size} raised"
        lines = [f"  unit {unit}  {name}" for unit, name in where[:MAX_ROWS_SHOWN]]
        more = len(where) - MAX_ROWS_SHOWN
        return "\n".join([head, *lines, *([f"  … and {more} more"] if more > 0 else [])])

    def _repr_html_(self) -> str:
        """The alerts for a notebook: where they were raised, and how sure that is."""
        statistic, doubt = self.statistic, self.doubt
        found = np.argwhere(self.raised)
        rows = [
            (
                statistic._when(i),
                self.names[j],
                shown(statistic.estimate[i, j]),
                "not known" if math.isnan(doubt[i, j]) else f"{doubt[i, j]:.2g}",
            )
            for i, j in found[-MAX_HTML_ROWS:][::-1].tolist()
        ]
        lead = f"{len(found)} of {self.raised.size} raised, in {_extent(self.units)}."
        parts = [table(("when", "key", "statistic", "doubt"), rows)] if rows else []
        return card(
            self.query[:1].upper() + self.query[1:],
            lead=lead,
            parts=parts,
            note="Doubt bounds the probability that noise alone raised the alert.",
        )

    def _each(self) -> Iterator[tuple[int, str, bool]]:
        for unit, row in zip(self.units.tolist(), self.raised, strict=True):
            for name, raised in zip(self.names, row.tolist(), strict=True):
                yield unit, name, raised


@dataclass(frozen=True, repr=False)
class Ranking(Tabular):
    """The largest numbers of each unit, and how certain their order is.

    Attributes
    ----------
    query : str
        The question in words.
    everything : Answer
        All numbers that were ranked.
    places : array of int
        One row per unit: the columns with the largest numbers, the largest first.
    """

    query: str
    everything: Answer
    places: IntArray

    @property
    def units(self) -> IntArray:
        return self.everything.units

    @property
    def names(self) -> tuple[tuple[str, ...], ...]:
        """One row per unit: the names of the largest numbers, the largest first."""
        return tuple(
            tuple(self.everything.names[place] for place in row) for row in self.places.tolist()
        )

    @property
    def estimate(self) -> FloatArray:
        return np.take_along_axis(self.everything.estimate, self.places, axis=1)

    def interval(self, confidence: Exact = "0.95") -> tuple[FloatArray, FloatArray]:
        """Intervals that hold for *all* keys of a unit at once.

        So they also hold for keys that were chosen because their numbers are large.
        """
        low, high = self.everything.interval(confidence, together=True)
        return np.take_along_axis(low, self.places, axis=1), np.take_along_axis(
            high, self.places, axis=1
        )

    def sure(self, confidence: Exact = "0.95") -> BoolArray:
        """Whether each number is larger than all that follow it, listed or not.

        With at least this probability, every statement about a unit is true.
        """
        low, high = self.everything.interval(confidence, together=True)
        mine, next_ = (np.take_along_axis(each, self.places, axis=1) for each in (low, high))
        others = high.copy()
        np.put_along_axis(others, self.places, -np.inf, axis=1)
        after = np.concatenate([next_[:, 1:], others.max(axis=1, keepdims=True)], axis=1)
        return np.asarray(mine > np.maximum.accumulate(after[:, ::-1], axis=1)[:, ::-1])

    def belongs(self, confidence: Exact = "0.95") -> BoolArray:
        """Whether each number is among the k largest: fewer than k others can be as large."""
        low, high = self.everything.interval(confidence, together=True)
        k, size = self.places.shape[1], high.shape[1]
        mine = np.take_along_axis(low, self.places, axis=1)
        ordered = np.sort(high, axis=1)  # NaN comes last: an unknown number can be the largest
        smaller = [np.searchsorted(row, bounds) for row, bounds in zip(ordered, mine, strict=True)]
        return np.asarray((size - np.stack(smaller) <= k) & ~np.isnan(mine))

    def table_columns(
        self, confidence: Exact | None = None, *, nonnegative: bool = False
    ) -> TableColumns:
        """The ranked numbers of the table, with further columns `rank`, `sure` and `belongs`."""
        _refuse_nonnegative(nonnegative)
        chosen = "0.95" if confidence is None else confidence
        low, high = self.interval(chosen)
        return TableColumns(
            units=self.units,
            keys=self.everything.names,
            value=self.estimate,
            low=low,
            high=high,
            calendar=self.everything.calendar,
            places=self.places,
            more={
                "rank": np.broadcast_to(np.arange(1, low.shape[1] + 1), low.shape),
                "sure": self.sure(chosen),
                "belongs": self.belongs(chosen),
            },
            confidence=str(chosen),
        )

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

    def _repr_html_(self) -> str:
        """The ranking of the newest unit, for a notebook."""
        low, high = self.interval()
        sure, last = self.sure(), len(self.units) - 1
        rows = [
            (
                f"{j + 1}. {name}",
                shown(self.estimate[last, j]),
                shown_interval(low[last, j], high[last, j]),
                "surely larger than the rest" if sure[last, j] else "may be overtaken",
            )
            for j, name in enumerate(self.names[last][:MAX_HTML_ROWS])
        ]
        return card(
            self.query[:1].upper() + self.query[1:],
            lead=f"{self.everything._when(last)}.",
            parts=[table(("key", "value", "interval", "order"), rows)],
            note="The 95 % intervals hold for all keys of the unit at once.",
        )

    def __repr__(self) -> str:
        return f"<Ranking {self.query!r}: {_extent(self.units)}>"

    def __str__(self) -> str:
        low, high = self.interval()
        sure = self.sure()
        lines = [f"{self.query}: {_extent(self.units)}"]
        names = self.names
        cells = ((i, j) for i in range(len(names)) for j in range(len(names[i])))
        for _, (i, j) in zip(range(MAX_ROWS_SHOWN), cells, strict=False):
            mark = "surely larger than the rest" if sure[i, j] else "may be overtaken"
            numbers = f"{shown(self.estimate[i, j])}  {shown_interval(low[i, j], high[i, j])}"
            lines.append(f"  unit {self.units[i]}  {j + 1}. {names[i][j]}  {numbers}  {mark}")
        more = self.places.size - MAX_ROWS_SHOWN
        return "\n".join([*lines, f"  … and {more} more"] if more > 0 else lines)


def _refuse_nonnegative(nonnegative: bool) -> None:
    if nonnegative:
        raise ConfigurationError(
            "nonnegative cannot be used with alerts and rankings, which compare numbers as they "
            "were released. Use it with counts and sums.",
            parameter="nonnegative",
        )


def _summed(values: FloatArray, groups: Sequence[IntArray]) -> FloatArray:
    return np.stack([values[:, group].sum(axis=1) for group in groups], axis=1)


def _names(count: int) -> str:
    return "1 name" if count == 1 else f"{count} names"


def _extent(units: IntArray) -> str:
    return f"unit {units[0]}" if len(units) == 1 else f"units {units[0]}..{units[-1]}"


def _finite(value: float) -> float | int | None:
    number = float(value)
    if not math.isfinite(number):
        return None
    return int(number) if number.is_integer() and abs(number) < 2**53 else number
