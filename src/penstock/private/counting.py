"""The open units of one view: events in, counts of closed units out, and the state for a restart.

Everything here is raw data. The state for a restart goes into the store's private part. Events that
do not fit into memory go to unnamed temporary files, encrypted with a key that is never saved.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

import msgspec
import numpy as np
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from penstock.core.arrays import BoolArray, IntArray
from penstock.core.errors import StateError
from penstock.private import state as saved
from penstock.private.bounding import Bounding, OpenUnit
from penstock.private.sources.base import Arrow, Batch, arrow, joined_texts
from penstock.private.units import FUTURE, LATE, Units

MAX_EVENTS_IN_MEMORY = 6_000_000
"""The most events of all open units in memory; others wait in files."""

MAX_SINGLE_EVENTS = 2_000_000
"""Events that are kept one by one before whole units are kept instead."""

MAX_EVENTS_PER_PART = 2**15
"""Events that are encoded together, so that encoding needs little memory."""

MIN_EVENT_PARTS = 1_000
"""Parts with such events that are allowed at least."""

_MAX_RUNS = 64
"""A batch with more runs of one unit is sorted by unit; with fewer it is cut."""

_UNITS, _EVENTS, _OPEN = "units", "events ", "open "


@dataclass(frozen=True, kw_only=True, eq=False)
class Events:
    """Events of one view, each with the unit that it counts in."""

    unit: IntArray
    time: IntArray
    key: IntArray
    person: IntArray | Arrow | None

    def __len__(self) -> int:
        return len(self.unit)

    def __repr__(self) -> str:
        return "Events(private)"

    def where(self, mask: BoolArray) -> Events:
        """The events of the mask, in the same order."""
        if mask.all():
            return self
        person = self.person
        if person is not None:
            person = (
                person[mask]
                if isinstance(person, np.ndarray)
                else person.filter(arrow().array(mask))
            )
        return Events(unit=self.unit[mask], time=self.time[mask], key=self.key[mask], person=person)

    def part(self, start: int, stop: int) -> Events:
        """The events from one place to another."""
        person = None if self.person is None else self.person[start:stop]
        return Events(
            unit=self.unit[start:stop],
            time=self.time[start:stop],
            key=self.key[start:stop],
            person=person,
        )

    @classmethod
    def joined(cls, parts: Sequence[Events]) -> Events:
        """All events, one part after the other. Ids have one type, in several encodings."""
        parts = [part for part in parts if len(part)]
        if len(parts) == 1:
            return parts[0]
        none = np.empty(0, np.int64)
        people: list[Any] = [part.person for part in parts if part.person is not None]
        person = None
        if people and isinstance(people[0], np.ndarray):
            person = np.concatenate(people)
        elif people:
            person = joined_texts(people)
        columns = {
            name: np.concatenate([none, *(getattr(part, name) for part in parts)])
            for name in ("unit", "time", "key")
        }
        return cls(**columns, person=person)

    def by_unit(self) -> Iterator[tuple[int, Events]]:
        """The events unit by unit. A unit may come more than once."""
        if not len(self):
            return
        if self.unit.strides == (0,):  # one unit for all events, as a broadcast array
            yield int(self.unit[0]), self
            return
        events, cuts = self, np.flatnonzero(np.diff(self.unit)) + 1
        if len(cuts) > _MAX_RUNS:
            order = np.argsort(self.unit, kind="stable")
            person = self.person
            if person is not None:
                person = (
                    person[order]
                    if isinstance(person, np.ndarray)
                    else person.take(arrow().array(order))
                )
            events = Events(
                unit=self.unit[order], time=self.time[order], key=self.key[order], person=person
            )
            cuts = np.flatnonzero(np.diff(events.unit)) + 1
        for start, stop in pairwise([0, *cuts.tolist(), len(self)]):
            yield int(events.unit[start]), events.part(start, stop)

    def encode(self) -> bytes:
        """The events as bytes, which are secret."""
        pa = arrow()
        columns = {
            "unit": pa.array(self.unit),
            "time": pa.array(self.time),
            "key": pa.array(self.key.astype(np.int32)),
        }
        if self.person is not None:
            columns["person"] = (
                pa.array(self.person) if isinstance(self.person, np.ndarray) else self.person
            )
        table = pa.table(columns)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        return bytes(sink.getvalue())

    @classmethod
    def decode(cls, content: bytes) -> Events:
        """The events of these bytes."""
        pa = arrow()
        try:
            table = pa.ipc.open_stream(content).read_all()
            columns = {name: _one(table.column(name)) for name in table.column_names}
            numbers = {
                name: np.asarray(columns[name]).astype(np.int64, copy=False)
                for name in ("unit", "time", "key")
            }
        except (pa.ArrowException, KeyError, TypeError, ValueError):
            raise StateError("what was kept of open units is damaged.") from None
        person = columns.get("person")
        if person is not None and pa.types.is_integer(person.type):
            person = np.asarray(person)
        return cls(**numbers, person=person)


def _one(column: Arrow) -> Arrow:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


@dataclass
class _Unit:
    """An open unit: counted in memory, or waiting in parts of the store and in a file."""

    bounding: Bounding | None
    rows: int = 0
    stored: Sequence[str] = ()
    waiting: list[Events] = field(default_factory=list)
    file: _File | None = None

    @property
    def held(self) -> int:
        """The most events that are in memory."""
        return self.rows if self.bounding is not None else sum(map(len, self.waiting))


class _File:
    """Encrypted contents one after the other. Only this object has the key."""

    def __init__(self, folder: Path | None) -> None:
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115
        self._cipher = AESGCM(AESGCM.generate_key(256))
        self._lengths: list[int] = []

    def write(self, content: bytes) -> None:
        sealed = self._cipher.encrypt(len(self._lengths).to_bytes(12, "big"), content, None)
        self._file.write(sealed)
        self._lengths.append(len(sealed))

    def read(self) -> Iterator[bytes]:
        self._file.seek(0)
        for place, length in enumerate(self._lengths):
            yield self._cipher.decrypt(place.to_bytes(12, "big"), self._file.read(length), None)
        self._file.close()


@dataclass(frozen=True)
class _Part:
    """A part in the store: the unit of its events, and their number.

    A part has events of one unit only, so that nothing of a closed unit stays in the store.
    """

    unit: int
    rows: int


class Counted(Protocol):
    """Counts the events of one view, wherever the counting is done: `Counting` does it here.

    The publisher calls `take` for each batch and `due` with the clock's time. Where units are due,
    it stores what `unstored` says, and waits until the first of them is `ready`. Then it asks for
    the `counts`, stores the `changes`, and `close`s the unit.

    Attributes
    ----------
    units : Units
        The units by the clock, and the private tally of late events.
    """

    units: Units

    @property
    def pending(self) -> int:
        """The number of events that a restart would have to read again. Private."""

    @property
    def held(self) -> dict[int, int]:
        """The events of each open unit so far, before bounding. Private."""

    @property
    def unstored(self) -> bool:
        """Whether `changes` must be on disk before a unit may be counted."""

    def take(self, batch: Batch, now: int) -> int:
        """Take a batch at the clock's time; return the last unit with an event, or 0."""

    def due(self, now: int) -> range:
        """The units to release, in order, also empty ones. They take no more events."""

    def ready(self, due: range) -> bool:
        """Wait until the first of these units can be counted; False if a stop is wanted before."""

    def counts(self, unit: int) -> IntArray:
        """The counts of a unit that is due and ready."""

    def close(self, unit: int) -> None:
        """Forget a unit that has been released."""

    def changes(self, *, closing: int | None = None) -> dict[str, bytes | None]:
        """What the store keeps for a restart, by name; None for a part that is over."""

    def settled(self) -> None:
        """Note that the last `changes` are on disk."""

    def restore(self, parts: Mapping[str, bytes]) -> None:
        """Continue from the parts that were kept."""


class Counting:
    """The open units of one view, counted in this process.

    Parameters
    ----------
    units : Units
        Sorts events into units.
    keys : int
        The number of keys of the domain.
    contribution : int
        The most events of a person in a unit.
    finite : bool
        Whether the input has an end and can be read again. Then nothing is kept for a restart:
        events of closed units were counted before. Otherwise `changes` gives the state for a
        restart, and `restore` continues from it.
    rows : int
        The most events in memory; others wait in files. Default: 6,000,000.
    folder : Path or None
        The folder of these files. Default: None, the system's.
    """

    def __init__(
        self,
        units: Units,
        *,
        keys: int,
        contribution: int,
        finite: bool,
        rows: int = MAX_EVENTS_IN_MEMORY,
        folder: Path | None = None,
    ) -> None:
        self.units = units
        self.finite = finite
        self._keys = keys
        self._contribution = contribution
        self._rows = rows
        self._folder = folder
        self._open: dict[int, _Unit] = {}
        self._spare: Bounding | None = Bounding(
            keys=keys, contribution=contribution
        )  # loops are compiled before the first event comes
        self._fresh: list[Events] = []  # events since the last settled `changes`
        self._parts: Mapping[str, bytes] = {}  # of units that wait in the store
        self._kept: dict[str, _Part] = {}
        self._asked: dict[str, _Part] | None = None
        self._next = 0
        self._again = 0  # the last unit counted from an input that may be read again

    def __repr__(self) -> str:
        return "<Counting, private>"

    @property
    def pending(self) -> int:
        """The number of events that a restart would have to read again. Private."""
        return sum(map(len, self._fresh))

    @property
    def held(self) -> dict[int, int]:
        """The events of each open unit so far, before bounding. Private."""
        return {number: unit.rows for number, unit in list(self._open.items())}

    @property
    def unstored(self) -> bool:
        """False: events are counted as they come, and are stored with the unit."""
        return False

    # -- events in ---------------------------------------------------------------------------------

    def take(self, batch: Batch, now: int) -> int:
        """Count a batch. For a finite input `now` is its declared end.

        Returns the last unit with an event, or 0. Events beyond the end belong to a unit that never
        closes; a start with a later end will find them.
        """
        places = self.units.sort(batch.time, now)
        if self._again:
            before = batch.time < self.units.calendar.ends(self._again)
            places = np.where(before & (places > 0), LATE, places)
        if self.finite:
            self.units.tally.late = 0
        events = Events(unit=places, time=batch.time, key=batch.key, person=batch.person)
        good = places > 0
        if not good.all():
            events = events.where(good)
        self._count(events)
        if len(events) and not self.finite:
            self._fresh.append(events)
        if self.finite and (places == FUTURE).any():
            return self.units.calendar.last + 1
        return int(events.unit.max(initial=0))

    def _count(self, events: Events) -> None:
        for number, part in events.by_unit():
            unit = self._open.pop(number, None) or _Unit(self._bounding())
            self._open[number] = unit  # the most recently used unit is last
            unit.rows += len(part)
            if unit.bounding is None:
                unit.waiting.append(part)
            else:
                add_events(unit.bounding, part)
        if sum(unit.held for unit in self._open.values()) > self._rows:
            self._make_room()

    def _bounding(self) -> Bounding:
        spare, self._spare = self._spare, None
        return spare or Bounding(keys=self._keys, contribution=self._contribution)

    def _make_room(self) -> None:
        """Write the least recently used units to files, until half of the memory is free."""
        held = 0
        for unit in reversed(list(self._open.values())):
            held += unit.held
            if held <= self._rows // 2:
                continue
            if unit.file is None:
                unit.file = _File(self._folder)
            if unit.bounding is not None:
                unit.file.write(_encoded(unit.bounding.save()))
                unit.bounding = None
            for events in unit.waiting:
                unit.file.write(events.encode())
            unit.waiting = []

    # -- counts out --------------------------------------------------------------------------------

    def due(self, now: int) -> range:
        """The units to release, in order, also empty ones. They take no more events."""
        return self.units.due(now)

    def ready(self, due: range) -> bool:
        """True: the events are here."""
        return True

    def counts(self, unit: int) -> IntArray:
        """The counts of a unit. Events that wait in the store may be read from it."""
        held = self._open.get(unit)
        if held is None:
            return np.zeros(self._keys, np.int64)
        if held.bounding is None:
            bounding = self._bounding()
            for name in held.stored:
                _load(bounding, self._parts[name])
            for content in held.file.read() if held.file else ():
                _load(bounding, content)
            for events in held.waiting:
                add_events(bounding, events)
            held.bounding, held.stored, held.file, held.waiting = bounding, (), None, []
        return held.bounding.counts()

    def close(self, unit: int) -> None:
        """Forget a unit that has been released."""
        self.units.close(unit)
        held = self._open.pop(unit, None)
        if held is not None and held.bounding is not None:
            held.bounding.clear()
            self._spare = held.bounding

    # -- for a restart -----------------------------------------------------------------------------

    def changes(self, *, closing: int | None = None) -> dict[str, bytes | None]:
        """The parts that changed since the last call, by name; None for a part that is no longer
        needed.

        `closing` is the unit that closes with them. Call `settled` once they are on disk; if that
        fails, ask again. Events are kept as they came, or as whole units where that is less to read
        again.
        """
        closed = self.units.closed if closing is None else closing
        units = self.units.save() | {
            "closed": closed,
            "again": closed if self.finite else self._again,
            "rows": {} if self.finite else {n: rows for n, rows in self.held.items() if n > closed},
        }
        parts: dict[str, bytes | None] = {_UNITS: msgspec.msgpack.encode(units)}
        kept = {name: part for name, part in self._kept.items() if part.unit > closed}
        if not self.finite:
            fresh = [events.where(events.unit > closed) for events in self._fresh]
            apart = [part.rows for name, part in kept.items() if name.startswith(_EVENTS)] + [
                sum(map(len, fresh))
            ]
            whole = sum(part.rows for name, part in kept.items() if name.startswith(_OPEN))
            many = (
                sum(apart) > MAX_SINGLE_EVENTS + whole
                or len(apart) > MIN_EVENT_PARTS + whole // 1_000
            )
            if many and all(unit.bounding is not None for unit in self._open.values()):
                kept, new = {}, self._whole(closed)
            else:
                new = self._apart(fresh)
            for name, content, part in new:
                parts[name], kept[name] = content, part
        parts |= dict.fromkeys(sorted(self._kept.keys() - kept.keys()))
        self._asked = kept
        return parts

    def _apart(self, fresh: Sequence[Events]) -> Iterator[tuple[str, bytes, _Part]]:
        """The events in parts of one unit and a bounded number of events each."""
        units: dict[int, list[Events]] = {}
        for events in fresh:
            for number, part in events.by_unit():
                units.setdefault(number, []).append(part)
        place = itertools.count(self._next)
        for number in sorted(units):
            for events in _in_parts(units[number]):
                name = f"{_EVENTS}{next(place):012d} of {number}"
                yield name, events.encode(), _Part(number, len(events))

    def _whole(self, closed: int) -> Iterator[tuple[str, bytes, _Part]]:
        for number, unit in self._open.items():
            if number > closed and unit.bounding is not None:
                saving = unit.bounding.save()
                yield (
                    f"{_OPEN}{number:012d}",
                    _encoded(saving),
                    _Part(number, max(len(saving.ids), 1)),
                )

    def settled(self) -> None:
        """The parts that `changes` gave last are on disk."""
        if self._asked is not None:
            self._next += len(self._asked.keys() - self._kept.keys())
            self._kept, self._asked = self._asked, None
            self._fresh.clear()

    def restore(self, parts: Mapping[str, bytes]) -> None:
        """Continue from the parts that were kept."""
        try:
            content = msgspec.msgpack.decode(parts[_UNITS])
        except (KeyError, msgspec.DecodeError):
            raise StateError("what was kept of open units is damaged.") from None
        if isinstance(content, dict) and "ranges" in content:
            raise StateError(
                "this stream is counted on Spark, and its open units are there: go on with "
                "--engine spark. Nothing was released."
            )
        self.units.load(content)
        self._again = 0 if self.finite else content.get("again", 0)
        if (
            self.finite
        ):  # the rest is read again: what was due by its end is not complete before that
            closed = self.units.closed
            self.units.load(content | {"now": self.units.calendar.ends(closed) if closed else 0})
        self._restore_parts(parts, dict(content.get("rows", {})))

    def _restore_parts(self, parts: Mapping[str, bytes], rows: Mapping[int, int]) -> None:
        """Restore the newest units in memory. The others stay in the store until they close: what
        lies there need not be read, and changes nothing until then.
        """
        found: dict[int, list[str]] = {}
        for name in sorted(parts, reverse=True):  # whole units first
            if name.startswith(_OPEN):
                found.setdefault(int(name.removeprefix(_OPEN)), []).append(name)
            elif name.startswith(_EVENTS):
                place, _, unit = name.removeprefix(_EVENTS).partition(" of ")
                self._next = max(self._next, int(place) + 1)
                found.setdefault(int(unit or 0), []).append(name)
        held = 0
        for number in sorted(found, reverse=True):
            names = found[number]
            held += rows.get(number, 0)
            if number > self.units.closed and held > self._rows // 2:
                self._open[number] = _Unit(None, rows=rows[number], stored=names)
                each = max(rows[number] // len(names), 1)
                self._kept |= dict.fromkeys(names, _Part(number, each))
            else:
                for name in names:
                    self._restore_part(name, parts[name])
        self._parts = parts
        self._open = {number: self._open[number] for number in sorted(self._open)}

    def _restore_part(self, name: str, content: bytes) -> None:
        if name.startswith(_OPEN):
            number, saving = int(name.removeprefix(_OPEN)), _decoded(content)
            bounding = self._bounding()
            bounding.load(saving)
            self._open[number] = _Unit(bounding, rows=len(saving.ids))
            self._kept[name] = _Part(number, max(len(saving.ids), 1))
            return
        events = Events.decode(content)
        units = events.unit
        one = len(units) > 0 and bool((units == units[0]).all())
        self._kept[name] = _Part(int(units[0]) if one else 0, len(events))
        if not one or units[0] <= self.units.closed:
            events = events.where(units > self.units.closed)
        if not one and len(events):  # version 0.1 mixed units in a part: it is replaced soon
            self._fresh.append(events)
        self._count(events)


def _in_parts(some: Sequence[Events]) -> Iterator[Events]:
    """The events, small ones joined and large ones cut to at most `MAX_EVENTS_PER_PART`."""
    waiting: list[Events] = []
    rows = 0
    for events in some:
        for start in range(0, len(events), MAX_EVENTS_PER_PART):
            piece = events.part(start, start + MAX_EVENTS_PER_PART)
            if rows + len(piece) > MAX_EVENTS_PER_PART:
                yield Events.joined(waiting)
                waiting, rows = [], 0
            waiting.append(piece)
            rows += len(piece)
    if waiting:
        yield Events.joined(waiting)


def add_events(bounding: Bounding, events: Events) -> None:
    """Add events of the unit. An event whose id is null counts as a person of its own."""
    person = events.person
    if person is None or isinstance(person, np.ndarray) or not person.null_count:
        bounding.add(person, events.key, events.time)
        return
    alone = np.asarray(person.is_null())
    bounding.add(None, events.key[alone], events.time[alone])
    named = events.where(~alone)
    bounding.add(named.person, named.key, named.time)


def _load(bounding: Bounding, content: bytes) -> None:
    """Add what was kept: a whole unit, which comes first, or single events."""
    if content.startswith(saved.MAGIC):
        bounding.load(_decoded(content))
    else:
        add_events(bounding, Events.decode(content))


def _encoded(unit: OpenUnit) -> bytes:
    return saved.encode({"unit": unit}, (OpenUnit,))


def _decoded(content: bytes) -> OpenUnit:
    unit = saved.decode(content, (OpenUnit,)).get("unit")
    if not isinstance(unit, OpenUnit):
        raise StateError("what was kept of an open unit is damaged.")
    return unit
