"""Counts of a part of the input, made on another machine than the publisher's, and their merging.

Two functions over Arrow batches do the work, each in a process of its own. `PartCounting` reads a
part of the input, judges and bounds its events as `Counting` would, and sends what is kept of each
person to that person's place. `PartMerging` merges what came to a place, and gives counts. Neither
knows who runs it. Both are pure: run again over the same input, they give the same result.

Everything here is raw data. An error that is not ours is raised again without its text.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from penstock.core import errors
from penstock.core.arrays import BoolArray, IntArray
from penstock.core.calendar import Calendar
from penstock.core.errors import PenstockError, StateError
from penstock.private.bounding import Bounding
from penstock.private.counting import Events, add_events
from penstock.private.person_places import Partitioner, partition_of, place_of
from penstock.private.sources.base import (
    Arrow,
    Batch,
    Columns,
    Reason,
    Rejections,
    arrow,
)
from penstock.private.sources.files import FilePart, FileReading, unchanged_file
from penstock.private.sources.message_formats import MessageFormat
from penstock.private.sources.parquet import ParquetFormat
from penstock.private.sources.table_layout import TableLayout
from penstock.private.units import Units

MAX_EVENTS_HELD = 4_000_000
"""Events of persons that a part holds before it sends them to their places. A part whose counts are
final holds all: a person who was counted and forgotten would count again."""

MAX_EVENTS_PER_PIECE = 4_096
"""Events that are sent together, so that a batch of such rows fits into memory."""

MAX_COUNTS_PER_BATCH = 2**18
VALUES_PER_TABLE = 20_000
ROWS_PER_TABLE = 2**18

PIECES = "place int, kind int, content binary"
"""The columns of what `PartCounting` sends on, as SQL names types."""

COUNTS = "unit long, key int, number long, note string"
"""The columns of counts. A unit below 0 is a tally or an error."""

TALLY = -1
"""The unit of a row that is a tally: its key says of what."""

FAILURE = -2
"""The unit of a row whose note is an error."""

READ = -3
"""The unit of a row that says which partition was read: its key."""

_EVENTS, _COUNTS = 0, 1
"""The kinds of pieces: events that are to be merged, and rows that are final."""

TAKEN, LATE_EVENTS, FUTURE_EVENTS, PAST_EVENTS = "taken", "late", "future", "past"


class PartFailedError(Exception):
    """An error without its text, which might hold data."""


@dataclass(frozen=True, kw_only=True)
class RangeRule:
    """How the events of a stretch of the input are judged.

    Parameters
    ----------
    now : int
        The clock's time when the stretch was noted; for a finite input, its declared end.
    units : mapping
        The state of `Units` at that time, as `Units.save` gives it.
    tallied : bool
        Whether its rows are tallied: those that are read again are not.
    """

    now: int
    units: Mapping[str, Any]
    tallied: bool = False


@dataclass(frozen=True, kw_only=True)
class PartTable:
    """Rows of one stretch as columns, and the partition of the topic that they are from."""

    stretch: int
    rows: Arrow
    partition: int | None = None


class PartReader(Protocol):
    """Turns what a machine was given into tables."""

    def tables(
        self, batches: Iterator[Arrow], columns: Columns, rejections: Callable[[int], Rejections]
    ) -> Iterator[PartTable]:
        """The tables; `rejections` gives the tally of a stretch."""


@dataclass(frozen=True, kw_only=True)
class FrameReader:
    """Reads rows that already are columns: those of a data frame."""

    def tables(
        self, batches: Iterator[Arrow], columns: Columns, rejections: Callable[[int], Rejections]
    ) -> Iterator[PartTable]:
        for batch in batches:
            yield PartTable(stretch=0, rows=batch)


@dataclass(frozen=True, kw_only=True)
class MessageReader:
    """Reads messages of a topic: columns `partition`, `offset` and `value`.

    Parameters
    ----------
    format : MessageFormat
        How a message is written.
    ends : sequence of mappings of int to int
        For each stretch, the offset after its last message in each partition.
    starts : mapping of int to int
        The offset of the first message of the first stretch in each partition.
    """

    format: MessageFormat
    ends: Sequence[Mapping[int, int]]
    starts: Mapping[int, int]

    def tables(
        self, batches: Iterator[Arrow], columns: Columns, rejections: Callable[[int], Rejections]
    ) -> Iterator[PartTable]:
        waiting: dict[tuple[int, int], list[bytes | None]] = {}
        for batch in batches:
            for place, rows in self._stretches(batch):
                values = waiting.setdefault(place, [])
                values += batch.column("value").take(arrow().array(rows)).to_pylist()
                if len(values) >= VALUES_PER_TABLE:
                    yield self._table(place, waiting.pop(place), columns, rejections)
        for place, values in waiting.items():
            yield self._table(place, values, columns, rejections)

    def _table(
        self,
        place: tuple[int, int],
        values: list[bytes | None],
        columns: Columns,
        rejections: Callable[[int], Rejections],
    ) -> PartTable:
        partition, stretch = place
        rows = self.format.table(values, columns, rejections=rejections(stretch))
        return PartTable(stretch=stretch, rows=rows, partition=partition)

    def _stretches(self, batch: Arrow) -> Iterator[tuple[tuple[int, int], IntArray]]:
        """The rows of each partition and stretch. Rows outside all of them are left out."""
        partitions = np.asarray(batch.column("partition")).astype(np.int64)
        offsets = np.asarray(batch.column("offset")).astype(np.int64)
        for partition in np.unique(partitions).tolist():
            rows = np.flatnonzero(partitions == partition)
            start = self.starts.get(partition, 0)
            ends = [each.get(partition, start) for each in self.ends]
            number = np.searchsorted(np.maximum.accumulate(ends), offsets[rows], side="right")
            number[offsets[rows] < start] = len(ends)
            for stretch in np.unique(number).tolist():
                if stretch < len(ends):
                    yield (partition, stretch), rows[number == stretch]


@dataclass(frozen=True, kw_only=True)
class FileSlice:
    """Every `of`-th row group of a file, from `number` on.

    Parameters
    ----------
    stretch : int
        The stretch of the input that the file belongs to.
    part : FilePart
        The file, as it was when the stretch was noted.
    number, of : int
        Which row groups.
    """

    stretch: int
    part: FilePart
    number: int
    of: int


@dataclass(frozen=True, kw_only=True)
class ParquetReader:
    """Reads slices of Parquet files. It is given their numbers, in a column `id`.

    Parameters
    ----------
    root : str
        The folder of the files, on every machine.
    slices : sequence of sequences of FileSlice
        The slices of each number.
    layout : TableLayout or None
        The table that the files belong to. Then messages do not name folders, which may be keys
        or persons. Default: None, no table.
    """

    root: str
    slices: Sequence[Sequence[FileSlice]]
    layout: TableLayout | None = None

    def tables(
        self, batches: Iterator[Arrow], columns: Columns, rejections: Callable[[int], Rejections]
    ) -> Iterator[PartTable]:
        for batch in batches:
            for number in batch.column("id").to_pylist():
                for each in self.slices[number]:
                    for rows in self._rows(each, columns, rejections(each.stretch)):
                        yield PartTable(stretch=each.stretch, rows=rows)

    def _rows(self, each: FileSlice, columns: Columns, rejections: Rejections) -> Iterator[Arrow]:
        path, layout = Path(self.root) / each.part.path, self.layout
        how = FileReading(
            name=str(path.absolute()) if layout is None else path.name,
            columns=columns,
            rows=ROWS_PER_TABLE,
            final=True,
            rejections=rejections,
        )
        if layout is None:
            with unchanged_file(path, each.part) as file:
                yield from ParquetFormat().slice(
                    file, number=each.number, of=each.of, after=each.part.start, how=how
                )
            return
        with unchanged_file(path, each.part, name=path.name) as file:
            for rows in ParquetFormat().slice(
                file,
                number=each.number,
                of=each.of,
                after=each.part.start,
                how=how,
                names=layout.names_in_files(columns),
            ):
                yield layout.completed(rows, each.part.path)


@dataclass(frozen=True, kw_only=True)
class PartitionCheck:
    """The partitions of a topic, in which each person should have one.

    Parameters
    ----------
    partitions : int
        Their number.
    partitioner : {"murmur2", "crc32"}
        How producers choose the partition of a person.
    """

    partitions: int
    partitioner: Partitioner = "murmur2"

    def misplaced(self, batch: Batch, partition: int) -> BoolArray | None:
        """Which events are of a person who belongs to another partition; None for no event."""
        if batch.person is None or not len(batch):
            return None
        wrong: BoolArray = (
            partition_of(batch.person, self.partitions, self.partitioner) != partition
        )
        if not isinstance(batch.person, np.ndarray) and batch.person.null_count:
            wrong &= ~np.asarray(batch.person.is_null())
        return wrong if wrong.any() else None


@dataclass(frozen=True, kw_only=True)
class PartCounting:
    """Reads and bounds a part of the input: from Arrow batches to Arrow batches.

    Parameters
    ----------
    reader : PartReader
        Turns the given batches into tables.
    intake : object with `value`
        Holds the `Intake`, such as a broadcast variable.
    rules : sequence of RangeRule
        How the events of each stretch are judged.
    calendar : Calendar
        The units of the view.
    tolerance : str
        How far an event may lie after the clock.
    units : range
        The units to count.
    keys : int
        The number of keys.
    contribution : int
        The most events of a person in a unit.
    finite : bool
        Whether the input has an end; then no event is tallied as late.
    places : sequence of int
        The names of the places that persons are spread over. Empty: all events of a person are in
        this part, and its counts are final.
    check : PartitionCheck or None
        Drops events of persons who belong to another part.
    version : str
        The version of Penstock that the publisher has, which must be the same here.
    """

    reader: PartReader
    intake: Any
    rules: Sequence[RangeRule]
    calendar: Calendar
    tolerance: str
    units: range
    keys: int
    contribution: int
    finite: bool
    places: Sequence[int]
    check: PartitionCheck | None
    version: str

    def __call__(self, batches: Iterator[Arrow]) -> Iterator[Arrow]:
        return _Work(self).run(batches) if self.places else _final(_Work(self).run(batches))


class _Work:
    """One run of a `PartCounting`."""

    def __init__(self, task: PartCounting) -> None:
        self.task = task
        self.columns: Columns = task.intake.value.columns
        self.codes = tally_codes(self.columns)
        self.units = [self._units(rule) for rule in task.rules]
        self.rejections = [Rejections() for _ in task.rules]
        self.open: dict[int, Bounding] = {}
        self.held = self.taken = 0
        self.partitions: set[int] = set()

    def _units(self, rule: RangeRule) -> Units:
        units = Units(self.task.calendar, tolerance=self.task.tolerance)
        units.load(rule.units)
        return units

    def run(self, batches: Iterator[Arrow]) -> Iterator[Arrow]:
        """The pieces of this part: what is kept of persons, final counts, and the tally."""
        try:
            check_version(self.task.version)
            for table in self.task.reader.tables(
                batches, self.columns, lambda stretch: self.rejections[stretch]
            ):
                self._take(table)
                if self.task.places and self.held > MAX_EVENTS_HELD:
                    yield from self._flush()  # persons are merged at their places
            yield from self._flush()
            yield from self._final(self._tally())
        except PenstockError as error:
            yield from self._final([_failure(error)])
        except Exception as error:
            raise PartFailedError(type(error).__name__) from None

    def _take(self, table: PartTable) -> None:
        task, rule = self.task, self.task.rules[table.stretch]
        batch = task.intake.value.batch(
            table.rows, position=None, rejections=self.rejections[table.stretch]
        )
        events = Events(unit=batch.time, time=batch.time, key=batch.key, person=batch.person)
        if task.check is not None and table.partition is not None:
            self.partitions.add(table.partition)
            wrong = task.check.misplaced(batch, table.partition)
            if wrong is not None:
                self.rejections[table.stretch].add(
                    Reason.PARTITION, int(wrong.sum()), self.columns.person or ""
                )
                events = events.where(~wrong)
        if rule.tallied:
            self.taken += len(events)
        places = self.units[table.stretch].sort(events.time, rule.now)
        events = Events(unit=places, time=events.time, key=events.key, person=events.person)
        wanted = (places >= task.units.start) & (places < task.units.stop)
        for number, part in events.where(wanted).by_unit():
            if number not in self.open:
                self.open[number] = Bounding(keys=task.keys, contribution=task.contribution)
            add_events(self.open[number], part)
            self.held += len(part)

    def _flush(self) -> Iterator[Arrow]:
        """Send what is kept of persons to their places, and give the counts of all others."""
        parts: list[Events] = []
        final: list[Arrow] = []
        for number in sorted(self.open):
            bounding = self.open.pop(number)
            if not self.task.places:
                final.append(_rows(number, bounding.counts()))
                continue
            unit = bounding.save()
            final.append(_rows(number, unit.each))
            person, key, time = unit.events()
            if len(key):
                where = np.broadcast_to(np.int64(number), len(key))
                parts.append(Events(unit=where, time=time, key=key, person=person))
        self.held = 0
        if parts:
            yield from self._sent(Events.joined(parts))
        yield from self._final(final)

    def _sent(self, events: Events) -> Iterator[Arrow]:
        place = place_of(events.person, len(self.task.places))
        for number, name in enumerate(self.task.places):
            own = events.where(place == number)
            for start in range(0, len(own), MAX_EVENTS_PER_PIECE):
                piece = own.part(start, start + MAX_EVENTS_PER_PIECE)
                yield _piece(name, _EVENTS, piece.encode())

    def _final(self, rows: Sequence[Arrow]) -> Iterator[Arrow]:
        """Rows that need no merging. They go to the first place, if anywhere."""
        name = self.task.places[0] if self.task.places else 0
        for table in rows:
            if table.num_rows:
                yield _piece(name, _COUNTS, _encoded(table))

    def _tally(self) -> list[Arrow]:
        """What the operator may know of the stretches that are read for the first time."""
        numbers: dict[str, int] = {TAKEN: self.taken}
        tables = [_row(READ, partition, 1) for partition in sorted(self.partitions)]
        for rule, units, rejections in zip(
            self.task.rules, self.units, self.rejections, strict=True
        ):
            if not rule.tallied:
                continue
            for (reason, column), count in rejections.by_column().items():
                name = tally_name(reason, column)
                numbers[name] = numbers.get(name, 0) + count
            tally = units.tally
            late = 0 if self.task.finite else tally.late
            for name, count in (
                (LATE_EVENTS, late),
                (FUTURE_EVENTS, tally.future),
                (PAST_EVENTS, tally.past),
            ):
                numbers[name] = numbers.get(name, 0) + count
        for name, count in numbers.items():
            if count:
                tables.append(_row(TALLY, self.codes.index(name), count))
        return tables


def _final(pieces: Iterator[Arrow]) -> Iterator[Arrow]:
    """The counts of pieces that are all final."""
    for batch in pieces:
        for content in batch.column("content").to_pylist():
            yield from _decoded(content).to_batches()


@dataclass(frozen=True, kw_only=True)
class PartMerging:
    """Merges what came to a place: from Arrow batches of pieces to Arrow batches of counts.

    Parameters
    ----------
    keys : int
        The number of keys.
    contribution : int
        The most events of a person in a unit.
    """

    keys: int
    contribution: int

    def __call__(self, batches: Iterator[Arrow]) -> Iterator[Arrow]:
        opened: dict[int, Bounding] = {}
        try:
            for batch in batches:
                kinds, contents = batch.column("kind").to_pylist(), batch.column("content")
                for kind, content in zip(kinds, contents, strict=True):
                    if kind == _COUNTS:
                        yield from _decoded(content.as_py()).to_batches()
                        continue
                    for number, part in Events.decode(content.as_py()).by_unit():
                        if number not in opened:
                            opened[number] = Bounding(
                                keys=self.keys, contribution=self.contribution
                            )
                        add_events(opened[number], part)
            for number in sorted(opened):
                counts = opened.pop(number).counts()
                yield from _rows(number, counts).to_batches(max_chunksize=MAX_COUNTS_PER_BATCH)
        except PenstockError as error:
            yield from _failure(error).to_batches()
        except Exception as error:
            raise PartFailedError(type(error).__name__) from None


@dataclass(eq=False)
class CountedUnits:
    """The counts of some units, and the tally, from the rows of all places. Private."""

    units: range
    keys: int
    columns: Columns
    counts: dict[int, IntArray] = field(default_factory=dict, init=False)
    tally: dict[str, int] = field(default_factory=dict, init=False)
    _read: dict[int, int] = field(default_factory=dict, init=False)

    def __repr__(self) -> str:
        return "CountedUnits(private)"

    def add(self, table: Arrow) -> None:
        """Add rows of counts. An error among them is raised here as it was there."""
        unit, key, number = (
            np.asarray(table.column(name).combine_chunks()).astype(np.int64)
            for name in ("unit", "key", "number")
        )
        for row in np.flatnonzero(unit == FAILURE).tolist():
            raise _raised(table.column("note")[row].as_py() or "")
        codes = tally_codes(self.columns)
        for row in np.flatnonzero(unit == TALLY).tolist():
            name = codes[int(key[row])]
            self.tally[name] = self.tally.get(name, 0) + int(number[row])
        for row in np.flatnonzero(unit == READ).tolist():
            partition = int(key[row])
            self._read[partition] = self._read.get(partition, 0) + int(number[row])
            if self._read[partition] > 1:
                raise StateError(
                    "two workers read one partition, so that a person could count twice. Nothing "
                    'was released. Remove partitioned = "person" from [engine].'
                )
        for each in self.units:
            rows = np.flatnonzero(unit == each)
            if len(rows):
                counts = self.counts.setdefault(each, np.zeros(self.keys, np.int64))
                np.add.at(counts, key[rows], number[rows])

    def of(self, unit: int) -> IntArray:
        """The counts of a unit, which may have no events."""
        found = self.counts.get(unit)
        return np.zeros(self.keys, np.int64) if found is None else found

    @property
    def rejections(self) -> Rejections:
        """The rows that were not taken, by reason."""
        found = Rejections()
        for reason in Reason:
            for column in _columns_named(self.columns):
                found.add(reason, self.tally.get(tally_name(reason, column), 0), column)
        return found


def own_version() -> str:
    """The version of Penstock on this machine."""
    return str(sys.modules["penstock"].__version__)


def check_version(version: str) -> None:
    """Refuse to count with another version than the publisher's."""
    own = own_version()
    if version != own:
        raise StateError(
            f"a worker has Penstock {own}, and the publisher has {version}. Install the same "
            "version on every machine. Nothing was released."
        )


def tally_codes(columns: Columns) -> list[str]:
    """The names of all tallies, by code."""
    named = [tally_name(reason, column) for reason in Reason for column in _columns_named(columns)]
    return [TAKEN, LATE_EVENTS, FUTURE_EVENTS, PAST_EVENTS, *named]


def tally_name(reason: Reason, column: str) -> str:
    """The name of the tally of rejected rows."""
    return f"{reason.name} {column}"


def _columns_named(columns: Columns) -> list[str]:
    """The columns that a rejection can name."""
    return list(dict.fromkeys(["", *columns.names, ", ".join(columns.keys)]))


_FIELDS = {"unit": "int64", "key": "int32", "number": "int64", "note": "string"}


def _table(unit: Any, key: Any, number: Any, note: Any) -> Arrow:
    pa = arrow()
    columns = dict(zip(_FIELDS, (unit, key, number, note), strict=True))
    return pa.table({name: pa.array(columns[name], kind) for name, kind in _FIELDS.items()})


def _rows(unit: int, counts: IntArray) -> Arrow:
    """The counts of a unit that are not 0, as rows."""
    keys = np.flatnonzero(counts)
    note = arrow().nulls(len(keys), "string")
    return _table(np.full(len(keys), unit), keys.astype(np.int32), counts[keys], note)


def _row(unit: int, key: int, number: int, note: str | None = None) -> Arrow:
    return _table([unit], [key], [number], [note])


def _failure(error: PenstockError) -> Arrow:
    return _row(FAILURE, 0, 0, f"{type(error).__name__}: {error}")


def _raised(note: str) -> PenstockError:
    """The error of a worker, of the same class where that takes a text alone."""
    name, _, text = note.partition(": ")
    kind = getattr(errors, name, StateError)
    if not (isinstance(kind, type) and issubclass(kind, PenstockError)):
        kind = StateError
    try:
        return kind(text)
    except TypeError:
        return StateError(text)


def _piece(place: int, kind: int, content: bytes) -> Arrow:
    pa = arrow()
    columns = {"place": "int32", "kind": "int32", "content": "binary"}
    arrays = [
        pa.array([value], type_)
        for value, type_ in zip((place, kind, content), columns.values(), strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))


def _encoded(table: Arrow) -> bytes:
    pa = arrow()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _decoded(content: bytes) -> Arrow:
    return arrow().ipc.open_stream(content).read_all()
