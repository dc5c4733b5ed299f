"""A dry run: whether a source can be read as configured. Nothing is published, stored or written.

The result comes from the events and is for the operator's terminal alone. It says as little as will
show a mistake: a share in classes of ten per cent, a reason, and two days.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

import numpy as np

from penstock.core.calendar import duration, instant
from penstock.core.errors import ConfigurationError, InputError
from penstock.engine import factory
from penstock.engine.pipeline import Pipeline
from penstock.engine.source_check import reason_in_words
from penstock.private.sources.base import FIRST, LAST, Batch, Reason, Receiver, Source

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TWO_DAYS = 2 * 86_400_000_000

CLASSES = 10
"""The share of rows that can be taken is told in this many classes."""

_SAFE_SHARE = 0.9
"""From this share on, no reason is told: a few refused rows are nothing that must be corrected."""

_MAX_FILES_NAMED = 3


@dataclass(frozen=True, kw_only=True, repr=False)
class DryRun:
    """What a dry run found. It comes from the events: only the operator may see it.

    Parameters
    ----------
    stream : str
        The name of the stream.
    columns : tuple of str
        The columns that were found.
    percent : tuple of int, optional
        Between which per cents the share of rows lies that can be taken. None if there is no row.
    reason : str
        The most frequent reason why rows cannot be taken; empty if nearly all can.
    first, last : date, optional
        The days of the earliest and the latest time that could be read, in the stream's zone.
    files : tuple of str
        Files of which fewer than half of the rows can be taken, at most three.
    empty : bool
        Whether more than half of the units of a finite run lie before the first or after the last
        of these days.
    readable : bool
        Whether at least half of the rows can be taken, of every file. A run refuses others.
    """

    stream: str
    columns: tuple[str, ...]
    percent: tuple[int, int] | None
    reason: str
    first: date | None
    last: date | None
    files: tuple[str, ...]
    empty: bool
    readable: bool

    def __repr__(self) -> str:
        return "<DryRun, private>"


def dry_run(pipeline: Pipeline, *, now: datetime | None = None) -> DryRun:
    """Read all that a source has now, and count the rows that can be taken.

    A source that cannot be read without taking events away is a `ConfigurationError`, and one
    without its file or columns an `UnusableSourceError`.

    Parameters
    ----------
    pipeline : Pipeline
        The configuration. Neither its store nor its sinks are opened.
    now : datetime, optional
        The time at which a run would start. Default: the system's time.
    """
    declared = pipeline.source.declaration
    if declared.no_dry_run:
        raise ConfigurationError(
            f"source {declared.name!r} has no dry run: {declared.no_dry_run} Nothing was read."
        )
    tally = _Tally(pipeline, now or datetime.now(UTC))
    source = factory.source(pipeline, once=True)
    try:
        for batch in _batches(source):
            tally.note(batch, source)
    finally:
        if isinstance(source, Receiver):
            source.close()
    return tally.result(source)


def _batches(source: Source) -> Iterator[Batch]:
    """All batches that the source has now. A broker may need several calls to give them."""
    after, more = None, True
    while more:
        more = False
        for batch in source.batches(after):
            after, more = batch.position, isinstance(source, Receiver)
            yield batch
    if source.problem:
        raise InputError(f"{source.problem} The source was not read to its end.")


class _Tally:
    """The private counts of a dry run."""

    def __init__(self, pipeline: Pipeline, now: datetime) -> None:
        stream = pipeline.stream
        self._pipeline = pipeline
        self._zone = ZoneInfo(stream.calendar.zone)
        self._begin = instant(stream.calendar.start(1))
        self._end = instant(stream.until or now)
        self._tolerance = (
            0 if factory.finite(pipeline) else duration(stream.tolerance, name="tolerance")
        )
        self._inside = self._outside = self._refused = 0
        self._first: int | None = None
        self._last: int | None = None
        self._part, self._part_taken, self._part_rows = "", 0, 0
        self._files: list[str] = []

    def note(self, batch: Batch, source: Source) -> None:
        """Count a batch, and the rows that were refused before it."""
        part, refused = source.part(batch.position), source.rejections.rows
        if part != self._part:
            self._judge_part()
            self._part, self._part_taken, self._part_rows = part, 0, 0
        self._part_rows += len(batch) + refused - self._refused
        self._part_taken += len(batch)
        self._refused = refused
        if not len(batch):
            return
        end = self._end + self._tolerance
        inside = int(np.count_nonzero((batch.time >= self._begin) & (batch.time < end)))
        self._inside += inside
        self._outside += len(batch) - inside
        low, high = int(batch.time.min()), int(batch.time.max())
        self._first = low if self._first is None else min(self._first, low)
        self._last = high if self._last is None else max(self._last, high)

    def _judge_part(self) -> None:
        if 2 * self._part_taken < self._part_rows and len(self._files) < _MAX_FILES_NAMED:
            self._files.append(self._part.rpartition("/")[2] or self._pipeline.stream.name)

    def result(self, source: Source) -> DryRun:
        """What may be told of it."""
        self._part_rows += source.rejections.rows - self._refused
        self._judge_part()
        taken, rows = self._inside, self._inside + self._outside + source.rejections.rows
        percent = None
        if rows:
            step = 100 // CLASSES
            low = min(CLASSES * taken // rows, CLASSES - 1) * step
            percent = low, low + step
        first, last = self._day(self._first), self._day(self._last)
        return DryRun(
            stream=self._pipeline.stream.name,
            columns=self._found(source),
            percent=percent,
            reason=self._reason(source) if rows and taken < _SAFE_SHARE * rows else "",
            first=first,
            last=last,
            files=tuple(self._files),
            empty=self._mostly_empty(first, last),
            readable=not self._files and (self._inside > 0 or not rows),
        )

    def _found(self, source: Source) -> tuple[str, ...]:
        """The columns that some row has. A row is refused for the first column that it lacks."""
        names, refused = self._pipeline.source.columns.names, source.rejections.by_column()
        lacking = [column for reason, column in refused if reason in (Reason.MISSING, Reason.FIELD)]
        judged = any(reason in (Reason.TYPE, Reason.TIME, Reason.KEY) for reason, _ in refused)
        if self._first is not None or judged:
            return names
        return names[: max((names.index(each) for each in lacking if each in names), default=0)]

    def _reason(self, source: Source) -> str:
        counts = Counter(
            {
                each: count
                for each, count in source.rejections.by_column().items()
                if each[0] not in (Reason.ORDER, Reason.FILE)
            }
        )
        columns, most = self._pipeline.source.columns, counts.most_common(1)
        if not most or self._outside > most[0][1]:
            return (
                f"the time in {columns.time!r} lies before the origin of [stream], or after its "
                f'end or now. Times are read with clock = "{columns.clock}"'
            )
        (reason, column), _ = most[0]
        return reason_in_words(reason, column, columns)

    def _day(self, moment: int | None) -> date | None:
        if moment is None:
            return None
        shown = min(max(moment, FIRST + _TWO_DAYS), LAST - _TWO_DAYS)  # in every zone
        return (EPOCH + timedelta(microseconds=shown)).astimezone(self._zone).date()

    def _mostly_empty(self, first: date | None, last: date | None) -> bool:
        """Whether most units of a finite run lie before the first day or after the last one."""
        if first is None or last is None or not factory.finite(self._pipeline):
            return False
        calendar = self._pipeline.stream.calendar
        begin = max(instant(datetime.combine(first, time(), self._zone)), self._begin)
        after = min(last, date.max - timedelta(days=1)) + timedelta(days=1)
        end = min(instant(datetime.combine(after, time(), self._zone)), self._end)
        units = calendar.unit_at(self._end) - 1
        return 2 * (calendar.unit_at(end) - calendar.unit_at(begin)) < units
