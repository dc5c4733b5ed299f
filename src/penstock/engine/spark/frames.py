"""`penstock.engine.spark.count`: the bounded counts of a data frame of Spark, unit by unit."""

from __future__ import annotations

import time as clocks
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from penstock.core.arrays import IntArray
from penstock.core.calendar import Calendar, instant
from penstock.core.domain import AnyDomain, Domain
from penstock.core.errors import ConfigurationError, UnreadableRowsError
from penstock.engine.source_check import reason_in_words
from penstock.engine.spark.jobs import SparkCounter
from penstock.engine.spark.sources import SparkInput
from penstock.private.partial_counts import CountedUnits, FrameReader, RangeRule
from penstock.private.sources.base import Clock, Columns, Intake, Kind, MissingPerson
from penstock.private.sources.files import check_columns
from penstock.private.units import Units


@dataclass(frozen=True, kw_only=True, eq=False)
class BoundedCounts:
    """The counts of some units. They are private: give them to a run, which adds the noise.

    Parameters
    ----------
    units : range
        The units, from 1 on.
    calendar : Calendar
        When they begin and end.
    contribution : int
        The most events of a person in a unit. The run must have the same.
    """

    units: range
    calendar: Calendar
    contribution: int
    _counts: CountedUnits = field(repr=False)

    def __repr__(self) -> str:
        return f"<BoundedCounts of {len(self.units)} units, private>"

    def __iter__(self) -> Iterator[tuple[int, IntArray]]:
        """Each unit with its counts, in the order of the domain."""
        return ((unit, self._counts.of(unit)) for unit in self.units)


def count(
    df: Any,
    *,
    time: str,
    key: str | Sequence[str],
    domain: AnyDomain,
    every: str,
    origin: str | datetime,
    until: str | datetime | None = None,
    person: str | None = None,
    contribution: int = 1,
    other: str | None = None,
    clock: Clock = "iso",
    zone: str = "UTC",
    key_type: Kind = "text",
    person_type: Kind = "text",
    missing_person: MissingPerson = "drop",
    partitions: int | None = None,
) -> BoundedCounts:
    """Count a data frame of Spark: at most `contribution` events of each person in a unit.

    The rows are read, judged and bounded by the code that `penstock run` uses.

    Parameters
    ----------
    df : pyspark.sql.DataFrame
        The events, one per row.
    time : str
        The column of the time.
    key : str or sequence of str
        The column of the key, or one column per attribute of the domain.
    domain : Domain or sequence of str
        The declared keys.
    every : str
        The length of a unit, such as "1h".
    origin : str or datetime
        When unit 1 begins.
    until : str or datetime, optional
        The end of the events; default: now. Units that end later are not counted.
    person : str, optional
        The column of the person; default: None, each event is its own person.
    contribution : int
        The most events of a person in a unit; default: 1.
    other : str, optional
        The key that counts unknown keys; default: None, they are dropped.
    clock : {"iso", "seconds", "milliseconds", "microseconds"}
        How times are written, where the column is not one of timestamps; default: "iso".
    zone : str
        The time zone of units, and of times without an offset; default: "UTC".
    key_type, person_type : {"text", "integer"}
        The types of key and person; default: "text".
    missing_person : {"drop", "each", "refuse"}
        What happens to an event without a person; default: "drop".
    partitions : int, optional
        The places that persons are spread over; default: twice the cores.

    Examples
    --------
    >>> import penstock as ps
    >>> def publish(taps):  # a data frame of Spark
    ...     counts = count(taps, time="ts", key="station", person="card", every="1h",
    ...                    origin="2026-01-01", until="2026-02-01", domain=["north", "south"])
    ...     run = ps.Uniform(epsilon="1", window=24).run(["north", "south"])
    ...     return [run.step(numbers, unit=unit) for unit, numbers in counts]
    """
    keys = Domain.of(domain)
    columns = Columns(
        time,
        key if isinstance(key, str) else tuple(key),
        person=person,
        clock=clock,
        zone=zone,
        key_type=key_type,
        person_type=person_type,
        missing_person=missing_person,
    )
    intake = Intake(columns=columns, domain=keys, other=other)
    if contribution < 1:
        raise ConfigurationError(
            f"contribution must be 1 or more, not {contribution}.", parameter="contribution"
        )
    calendar = Calendar(every=every, zone=zone, origin=origin)
    end = clocks.time_ns() // 1_000 if until is None else instant(until, name="until")
    units = range(1, max(calendar.unit_at(end), 1))
    check_columns(columns, df.columns, name="the data frame")
    counter = SparkCounter(
        spark=df.sparkSession,
        intake=intake,
        calendar=calendar,
        tolerance="1min",
        keys=keys.size,
        contribution=contribution,
        finite=True,
        partitions=partitions,
    )
    rows = SparkInput(rows=df.select(*columns.names), reader=FrameReader())
    rule = RangeRule(now=end, units=Units(calendar).judging(), tallied=True)
    found = counter.counted(rows, [rule], units)
    _check_rows(found, columns)
    return BoundedCounts(units=units, calendar=calendar, contribution=contribution, _counts=found)


def _check_rows(found: CountedUnits, columns: Columns) -> None:
    """Refuse a frame of whose rows fewer than half can be taken."""
    refused, taken = found.rejections.by_column(), found.tally.get("taken", 0)
    if refused and sum(refused.values()) > taken:
        reason, column = max(refused, key=lambda each: refused[each])
        raise UnreadableRowsError(
            "source: fewer than half of the rows of the data frame can be taken. The most frequent "
            f"reason: {reason_in_words(reason, column, columns)}."
        )
