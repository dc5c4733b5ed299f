"""The counter of a view whose units Spark counts, each from the ranges that can hold its events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import msgspec
import numpy as np

from penstock.core.arrays import IntArray
from penstock.core.calendar import duration
from penstock.core.errors import InputError, StateError, UnreadableRowsError, UnusableSourceError
from penstock.engine.counting_engine import CountingHost
from penstock.engine.spark.jobs import POLL_SECONDS, JobThread, SparkCounter, spark_errors
from penstock.engine.spark.ranges import NotedRange, RangeBatch
from penstock.engine.spark.sources import RangeSource
from penstock.engine.waiting import Backoff
from penstock.private.partial_counts import CountedUnits
from penstock.private.sources.base import Batch
from penstock.private.units import Units

RETRY_SECONDS = (1.0, 30.0)
MAX_TRIES = 3
"""Jobs that may fail one after the other with a finite input. A live stream tries for ever."""

MAX_UNITS_PER_JOB = 1_000
MAX_CELLS_PER_JOB = 2**26
"""Units times keys that are counted by one job, where several units are due."""

RANGES_PER_UNIT = 60
"""Ranges of a unit that are kept apart, at most. Others are joined while they are not stored."""

_UNITS, _RANGE = "units", "range "
_LOCAL = ("events ", "open ")
"""How the names of parts begin that a publisher without Spark keeps."""


@dataclass(eq=False, repr=False)
class ReportedRanges:
    """Up to which time of the clock the views of a stream have reported the rows of ranges."""

    until: int = -(2**63)


class SparkCounting:
    """Notes ranges of the input, and has Spark count units that are due from them.

    A range is judged as if its events had been read when it was noted, by the clock of that moment
    and the units that were open. A unit is counted from all ranges that can hold an event of it.
    They are stored before that, so a job that is run again counts the same.

    Parameters
    ----------
    units : Units
        Sorts ranges and events into units.
    counter : SparkCounter
        Runs a job.
    source : RangeSource
        The source of ranges.
    host : CountingHost
        The publisher.
    reported : ReportedRanges
        Shared by all views of the stream.
    """

    def __init__(
        self,
        units: Units,
        *,
        counter: SparkCounter,
        source: RangeSource,
        host: CountingHost,
        reported: ReportedRanges,
    ) -> None:
        self.units = units
        self._counter = counter
        self._source = source
        self._host = host
        self._reported = reported
        self._tolerance = duration(counter.tolerance, name="tolerance")
        length = units.calendar.end(1) - units.calendar.start(1)
        self._grain = max(
            self._tolerance, int(length.total_seconds() * 1_000_000) // RANGES_PER_UNIT
        )
        self._ranges: dict[int, NotedRange] = {}
        self._stored: set[int] = set()
        self._asked: set[int] | None = None
        self._next = 0
        self._counted: CountedUnits | None = None

    def __repr__(self) -> str:
        return "<SparkCounting, private>"

    @property
    def pending(self) -> int:
        """0: a restart reads ranges, not events."""
        return 0

    @property
    def held(self) -> dict[int, int]:
        """Nothing: events are not here."""
        return {}

    @property
    def unstored(self) -> bool:
        """Whether a range is not on disk yet."""
        return not self._ranges.keys() <= self._stored

    # -- ranges in ---------------------------------------------------------------------------------

    def take(self, batch: Batch, now: int) -> int:
        """Note a range at the clock's time. It counts as read: the store has it."""
        assert isinstance(batch, RangeBatch)
        fresh = NotedRange(content=batch.content, since=now, now=now, units=self.units.judging())
        last = self._next - 1
        before = self._ranges.get(last)
        if (
            before is not None
            and last not in self._stored
            and not self._host.finite
            and before.shut == fresh.shut
            and now - before.since < self._grain
        ):
            joined = before.content.joined(batch.content)  # type: ignore[arg-type]
            self._ranges[last] = replace(fresh, content=joined, since=before.since)
            return 0
        self._ranges[self._next] = fresh
        self._next += 1
        return 0

    # -- counts out --------------------------------------------------------------------------------

    def due(self, now: int) -> range:
        """The units to release, in order, also empty ones. They take no more events."""
        return self.units.due(now)

    def ready(self, due: range) -> bool:
        """Wait until Spark has counted the first of these units; False if a stop is wanted."""
        if self._counted is not None and due.start in self._counted.units:
            return True
        most = min(MAX_UNITS_PER_JOB, max(MAX_CELLS_PER_JOB // self._counter.keys, 1))
        units = range(due.start, min(due.stop, due.start + most))
        backoff, tries, told = Backoff(*RETRY_SECONDS), 0, ""
        while True:
            try:
                found = self._count(units)
            except (UnreadableRowsError, UnusableSourceError):
                raise
            except InputError as error:
                tries += 1
                if self._host.finite and tries >= MAX_TRIES:
                    raise StateError(f"{error} Nothing of these units was released.") from None
                if str(error) != told:
                    told = str(error)
                    text = f"{told} The same range is counted again; units wait for it."
                    self._host.notify("source", text, level="warning")
                if self._waited(backoff.next_pause()):
                    return False
                continue
            if found is None:
                return False
            if told:
                self._host.notify("source", "Spark counts again.")
            self._counted = found
            return True

    def _waited(self, seconds: float) -> bool:
        """Wait before the next try, and renew the leases; return whether a stop is wanted."""
        clock = self._host.stop.runtime
        until = clock.monotonic() + seconds
        while clock.monotonic() < until:
            self._host.meanwhile()
            if self._host.stop.wait(min(until - clock.monotonic(), POLL_SECONDS)):
                return True
        return self._host.stop.is_set()

    def _count(self, units: range) -> CountedUnits | None:
        """Run the job of some units; None if a stop is wanted before it has ended."""
        needed = [number for number in sorted(self._ranges) if self._holds(number, units)]
        ranges = [self._ranges[number] for number in needed]
        spark = self._counter.spark
        with spark_errors():
            given = self._source.rows(spark, [each.content for each in ranges]) if ranges else None
        if given is None:
            return CountedUnits(units, self._counter.keys, self._source.intake.columns)
        rules = [each.rule() for each in ranges]
        with spark_errors():
            job = JobThread(spark, lambda: self._counter.counted(given, rules, units))
        while job.running:
            self._host.meanwhile()
            if self._host.stop.wait(POLL_SECONDS):
                with spark_errors():
                    job.cancel()
                return None
        found = job.result()
        self._tell(found, needed)
        return found

    def _holds(self, number: int, units: range) -> bool:
        """Whether a range can hold an event of these units."""
        noted = self._ranges[number]
        return noted.shut < units.stop - 1 and noted.now + self._tolerance >= self._starts(
            units.start
        )

    def _starts(self, unit: int) -> int:
        """When a unit begins, in microseconds; for the first one, before everything."""
        return self.units.calendar.ends(unit - 1) if unit > 1 else -(2**63)

    def _tell(self, found: CountedUnits, needed: list[int]) -> None:
        """Add the tallies of ranges that were read for the first time."""
        new = [number for number in needed if not self._ranges[number].tallied]
        for number in new:
            self._ranges[number] = replace(self._ranges[number], tallied=True)
        tally = self.units.tally
        tally.late += found.tally.get("late", 0)
        tally.future += found.tally.get("future", 0)
        tally.past += found.tally.get("past", 0)
        newest = max((self._ranges[number].now for number in new), default=self._reported.until)
        if newest > self._reported.until:
            self._reported.until = newest
            self._source.rejections.add_all(found.rejections)
            outside = found.tally.get("future", 0) + found.tally.get("past", 0)
            self._host.counted(found.tally.get("taken", 0), outside)

    def counts(self, unit: int) -> IntArray:
        """The counts of a unit that is ready."""
        if self._counted is None or unit not in self._counted.units:
            return np.zeros(self._counter.keys, np.int64)
        return self._counted.of(unit)

    def close(self, unit: int) -> None:
        """Forget a unit that has been released, and ranges without events of later ones."""
        self.units.close(unit)
        if self._counted is not None and unit + 1 not in self._counted.units:
            self._counted = None
        self._ranges = {number: self._ranges[number] for number in self._needed(unit)}

    def _needed(self, closed: int) -> set[int]:
        """The ranges that can hold an event of a unit after this one."""
        return {
            number
            for number, noted in self._ranges.items()
            if self._host.finite or noted.now + self._tolerance >= self._starts(closed + 1)
        }

    # -- for a restart -----------------------------------------------------------------------------

    def changes(self, *, closing: int | None = None) -> dict[str, bytes | None]:
        """The ranges that are new since the last call, and None for those that are over."""
        closed = self.units.closed if closing is None else closing
        kept = self._needed(closed)
        ranges = [[number, self._ranges[number].tallied] for number in sorted(kept)]
        state = {"closed": closed, "again": closed if self._host.finite else 0, "rows": {}}
        units = self.units.save() | state | {"ranges": ranges, "next": self._next}
        parts: dict[str, bytes | None] = {_UNITS: msgspec.msgpack.encode(units)}
        for number in sorted(kept - self._stored):
            parts[f"{_RANGE}{number:012d}"] = self._ranges[number].encode()
        parts |= {f"{_RANGE}{number:012d}": None for number in sorted(self._stored - kept)}
        self._asked = kept
        return parts

    def settled(self) -> None:
        """Note that the last `changes` are on disk."""
        if self._asked is not None:
            self._stored, self._asked = self._asked, None
            self._ranges = {n: each for n, each in self._ranges.items() if n in self._stored}

    def restore(self, parts: Mapping[str, bytes]) -> None:
        """Continue with the ranges that were kept."""
        try:
            content = msgspec.msgpack.decode(parts[_UNITS])
            ranges = {int(number): bool(tallied) for number, tallied in content.get("ranges", ())}
            following = int(content.get("next", 0))
        except (KeyError, TypeError, ValueError, AttributeError, msgspec.DecodeError):
            raise StateError("what was kept of open units is damaged.") from None
        if any(name.startswith(_LOCAL) for name in parts):
            raise StateError(
                "this stream has open units that were counted without Spark. Go on without "
                "--engine spark. Nothing was released."
            )
        self.units.load(content)
        if self._host.finite:
            closed = self.units.closed
            self.units.load(content | {"now": self.units.calendar.ends(closed) if closed else 0})
        for number, tallied in ranges.items():
            name = f"{_RANGE}{number:012d}"
            if name not in parts:
                raise StateError("what was kept of a range of the input is missing.")
            self._ranges[number] = NotedRange.decode(parts[name], tallied=tallied)
        self._stored, self._next = set(ranges), following
