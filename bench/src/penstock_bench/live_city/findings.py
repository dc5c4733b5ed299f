"""The findings of the live city: releases beside the truth, alerts, ledger, and the crash."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from penstock.budget.joint import Joint
from penstock.core.arrays import BoolArray, FloatArray, IntArray
from penstock.core.calendar import Calendar
from penstock.core.guarantee import Guarantee
from penstock.engine.ledger_report import streams_of, together
from penstock.engine.sqlite import SQLiteReader
from penstock.engine.store import Reader, SeriesLog
from penstock.released.queries import Alerts, Jump, LowSignal, UnitCounts
from penstock.released.queries.answer import Answer
from penstock_bench.live_city.run import DAILY, DAY, HOURLY, RELEASES, STORE, STREAM, CityOutcome

JUMP = 2
LOW = 5
_BY_DAY = range(10, 20)  # the hours in which an empty station is worth an alert


@dataclass(frozen=True, kw_only=True)
class CitySeries:
    """One view: releases with 95 % intervals, and the truth."""

    view: str
    mechanism: str
    calendar: Calendar
    promise: Guarantee
    released: FloatArray
    low: FloatArray
    high: FloatArray
    truth: IntArray

    @property
    def held(self) -> float:
        """The share of intervals that contain the truth."""
        return float(((self.low <= self.truth) & (self.truth <= self.high)).mean())

    @property
    def error(self) -> float:
        """The mean absolute error."""
        return float(np.abs(self.released - self.truth).mean())


@dataclass(frozen=True, kw_only=True)
class Alert:
    """Stations that raised an alert in the same hours, and those that should have.

    Hours count from 0; both ends are included.
    """

    query: str
    first: int
    last: int
    stations: tuple[str, ...]
    true: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class AlertTally:
    """One kind of alert over all units and stations: raised, true, and both."""

    query: str
    raised: int
    true: int
    both: int


@dataclass(frozen=True, kw_only=True)
class CrashHour:
    """The total in the hour of the crash: a batch that was lost or counted twice would show
    here."""

    released: float
    low: float
    high: float
    truth: int


@dataclass(frozen=True, kw_only=True)
class CityFindings:
    """Everything that the page and the summary say."""

    outcome: CityOutcome
    hourly: CitySeries
    daily: CitySeries | None
    joint: Joint
    heads: dict[str, str]
    changed: int
    """Releases that changed after they were first seen, in the store or the sink."""

    sunk: int
    """The number of releases in the sink."""

    alerts: tuple[Alert, ...]
    tallies: tuple[AlertTally, ...]
    crash: CrashHour

    @property
    def well(self) -> bool:
        """Whether every promise was kept."""
        whole = self.sunk == len(self.outcome.seen)
        return self.joint.kept and not self.changed and whole and self.outcome.crash.whole


def find(outcome: CityOutcome) -> CityFindings:
    """Read the store as a public reader and compare it with the truth of the simulation."""
    plan = outcome.plan
    with SQLiteReader(plan.folder / STORE) as reader:
        log = SeriesLog(reader, HOURLY)
        counts = UnitCounts().series(log)
        heads = {name: str(reader.verify(name).head) for name in reader.series_names}
        joint = together(reader, streams_of(reader)[STREAM])
        hourly = _series(reader, HOURLY, outcome.truth, counts)
        whole = plan.hours // DAY
        days = outcome.truth[: whole * DAY].reshape(whole, DAY, -1).sum(axis=1)
        daily = (
            _series(reader, DAILY, days, UnitCounts().series(SeriesLog(reader, DAILY)))
            if whole
            else None
        )
        jump, low = (
            Jump(JUMP, plan.city.people // 40),
            LowSignal(LOW, max(plan.city.people * 3 // 5000, 1)),
        )
        found = [
            _judged(query.series(log), outcome, by_day=query is low)
            for query in (jump, low)
            if plan.hours >= LOW
        ]
        kept = {
            (name, each.unit): each.value
            for name in reader.series_names
            for each in reader.releases(name)
        }
    sink = _in_sink(plan.folder / RELEASES)
    changed = sum(
        not np.array_equal(value, kept.get(place, ()))
        or not np.array_equal(value, sink.get(place, ()))
        for place, value in outcome.seen.items()
    )
    return CityFindings(
        outcome=outcome,
        hourly=hourly,
        daily=daily,
        joint=joint,
        heads=heads,
        changed=changed,
        sunk=len(sink),
        alerts=tuple(alert for alerts, _ in found for alert in alerts),
        tallies=tuple(tally for _, tally in found),
        crash=_crash_hour(counts, outcome),
    )


def _series(reader: Reader, name: str, truth: IntArray, counts: Answer) -> CitySeries:
    stream = reader.series(name)
    assert stream.calendar is not None, "the city's configuration says when units are"
    low, high = counts.interval()
    return CitySeries(
        view=name.rpartition("/")[2],
        mechanism=stream.mechanism,
        calendar=stream.calendar,
        promise=stream.guarantee,
        released=counts.estimate,
        low=low,
        high=high,
        truth=truth,
    )


def _crash_hour(counts: Answer, outcome: CityOutcome) -> CrashHour:
    hour = outcome.crash.hour
    everything = counts.among([np.arange(len(counts.names))], ("all stations",))
    low, high = everything.interval("0.99")
    return CrashHour(
        released=float(everything.estimate[hour, 0]),
        low=float(low[hour, 0]),
        high=float(high[hour, 0]),
        truth=int(outcome.truth[hour].sum()),
    )


def _judged(
    alerts: Alerts, outcome: CityOutcome, *, by_day: bool
) -> tuple[list[Alert], AlertTally]:
    """The alerts of a query beside those of the same query on the truth."""
    hours = alerts.units - 1
    if by_day:
        sums = np.cumsum(np.vstack([np.zeros_like(outcome.truth[:1]), outcome.truth]), axis=0)
        true: BoolArray = sums[hours + 1] - sums[hours + 1 - LOW] < alerts.threshold
        chosen = (hours % DAY >= _BY_DAY.start + LOW - 1) & (hours % DAY < _BY_DAY.stop)
    else:
        true = outcome.truth[hours] - outcome.truth[hours - JUMP + 1] >= alerts.threshold
        chosen = np.ones(len(hours), np.bool_)
    raised, true = alerts.raised & chosen[:, None], true & chosen[:, None]
    spans: dict[tuple[int, int], list[int]] = {}
    for place in range(len(alerts.names)):
        for day in np.unique(hours[raised[:, place]] // DAY).tolist():
            mine = hours[raised[:, place] & (hours // DAY == day)]
            spans.setdefault((int(mine[0]), int(mine[-1])), []).append(place)
    width = LOW if by_day else 1
    found = [
        Alert(
            query=alerts.query,
            first=first - width + 1,
            last=last,
            stations=tuple(alerts.names[place] for place in places),
            true=tuple(
                alerts.names[place]
                for place in places
                if (raised & true)[_within(hours, first, last), place].any()
            ),
        )
        for (first, last), places in sorted(spans.items())
    ]
    tally = AlertTally(
        query=alerts.query,
        raised=int(raised.sum()),
        true=int(true.sum()),
        both=int((raised & true).sum()),
    )
    return found, tally


def _within(hours: IntArray, first: int, last: int) -> BoolArray:
    inside: BoolArray = (hours >= first) & (hours <= last)
    return inside


def _in_sink(folder: Path) -> dict[tuple[str, int], Any]:
    """The values of every series and unit in the Parquet files."""
    parquet: Any = import_module("pyarrow.parquet")
    found: dict[tuple[str, int], Any] = {}
    for path in folder.glob("*/*/*.parquet"):
        table = parquet.ParquetFile(path).read()
        series = table.schema.metadata[b"penstock.series"].decode()
        units, values = table.column("unit").to_numpy(), table.column("value").to_numpy()
        found |= {
            (series, unit): values[units == unit] for unit in np.unique(units).tolist()
        }  # a file may have several units
    return found
