"""A store in tables of a database: everything that does not depend on which database it is.

Subclasses give the connection, the transactions and the words of their database: see `sqlite` and
`postgres`.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from itertools import groupby
from typing import Any, Literal, Self

import msgspec

from penstock.budget.accountant import account
from penstock.budget.grid import promised
from penstock.budget.ledger import Line
from penstock.core.errors import (
    ConfigurationError,
    InputError,
    LedgerError,
    StateError,
    StoreUnavailableError,
)
from penstock.core.exact import whole
from penstock.core.released import Released
from penstock.engine.chain import Head, HeadFile, after_line, after_release, beginning
from penstock.engine.sealing import Key
from penstock.engine.store import Committed, Lease, LeaseError, VerifiedLedger
from penstock.released import encoding
from penstock.released.series import Series

Kind = Literal["write", "alone", "migrate", "read"]
"""A transaction that writes, that writes while no other does, that changes tables, or that reads
all as of one moment.
"""

_AT_ONCE = 64
"""Units a read takes at a time: a long one would keep the writer from tidying up."""

_LONGEST = 86_400
"""Seconds of a lease: after a crash nobody waits longer."""

_STATE, _POSITIONS, _PRIVATE = "state", "positions", "private "


def first_tables(*, whole: str, content: str) -> dict[str, str]:
    """The statement that makes each table of version 1, with a database's types of whole numbers
    and of bytes.
    """
    releases = (
        f"stream TEXT NOT NULL, unit {whole} NOT NULL, body_of {whole} NOT NULL, flags {content} NOT NULL, "
        f"digest {content} NOT NULL, link {content} NOT NULL, body {content}, PRIMARY KEY (stream, unit)"
    )
    lines = (
        f"stream TEXT NOT NULL, unit {whole} NOT NULL, place {whole} NOT NULL, kind TEXT NOT NULL, label TEXT NOT NULL, "
        f"amount BIGINT NOT NULL, number BIGINT NOT NULL, run {whole} NOT NULL, link {content} NOT NULL, "
        "PRIMARY KEY (stream, unit, place)"
    )
    marks = f"stream TEXT NOT NULL, sink TEXT NOT NULL, unit {whole} NOT NULL, PRIMARY KEY (stream, sink)"
    leases = (
        f"stream TEXT NOT NULL PRIMARY KEY, owner TEXT NOT NULL, number {whole} NOT NULL, "
        "since DOUBLE PRECISION NOT NULL, expires DOUBLE PRECISION NOT NULL"
    )
    kept = (
        f"stream TEXT NOT NULL, part TEXT NOT NULL, unit {whole} NOT NULL, key TEXT NOT NULL, content {content} NOT NULL, "
        "PRIMARY KEY (stream, part)"
    )
    return {
        "streams": "CREATE TABLE streams (name TEXT NOT NULL PRIMARY KEY, about TEXT NOT NULL)",
        "releases": f"CREATE TABLE releases ({releases})",
        "lines": f"CREATE TABLE lines ({lines})",
        "marks": f"CREATE TABLE marks ({marks})",
        "leases": f"CREATE TABLE leases ({leases})",
        "secrets": f"CREATE TABLE secrets ({kept})",
    }


PUBLIC = ("streams", "releases", "lines", "marks")
"""The tables that anybody may read, beside the version."""


class UncertainError(StoreUnavailableError):
    """The connection was lost during a commit: all of it is there or nothing, and only the store
    can tell which.
    """


class TableReader(ABC):
    """What anybody may read of a store in tables."""

    name: str
    """What messages call the store."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._streams: dict[str, Series] = {}
        self._connect()
        try:
            self._look_over()
        except BaseException:
            self._disconnect()
            raise

    def close(self) -> None:
        """Let go of the store."""
        self._disconnect()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- what a database must give -----------------------------------------------------------------

    @abstractmethod
    def _connect(self) -> None:
        """Open the connection."""

    @abstractmethod
    def _disconnect(self) -> None:
        """Close the connection; a second time changes nothing."""

    @abstractmethod
    def _select(self, what: str, *values: object) -> list[Any]:
        """The rows of a question, each a tuple; `?` stands for a value. A problem is a
        `StateError`.
        """

    @abstractmethod
    def _tables(self) -> set[str]:
        """The names of the tables that are there."""

    @abstractmethod
    def _migrations(self) -> Sequence[Callable[[Any], None]]:
        """Each brings the tables from the version that is its place here to the next."""

    # -- what it holds -----------------------------------------------------------------------------

    @property
    def series_names(self) -> tuple[str, ...]:
        """The names of all series."""
        return tuple(sorted(name for (name,) in self._select("name FROM streams")))

    def series(self, name: str) -> Series:
        """What a stream is of."""
        if name not in self._streams:
            rows = self._select("about FROM streams WHERE name = ?", name)
            if not rows:
                raise InputError(f"there is no stream {name!r} in {self.name}.")
            try:
                rows[0][0].encode()  # damaged text cannot be
                self._streams[name] = Series.read(rows[0][0])
            except (ValueError, KeyError, TypeError, AttributeError):
                raise StateError(
                    f"{self.name}: what stream {name!r} is of cannot be read."
                ) from None
        return self._streams[name]

    def head(self, stream: str) -> Head:
        """The newest unit and the link after it."""
        rows = self._select(
            "unit, link FROM releases WHERE stream = ? ORDER BY unit DESC LIMIT 1", stream
        )
        return Head(*rows[0]) if rows else Head(0, beginning(self.series(stream).about))

    def at(self, stream: str, unit: int) -> Head:
        """The link after a unit that was released; unit 0 is the beginning."""
        if not unit:
            return Head(0, beginning(self.series(stream).about))
        rows = self._select("link FROM releases WHERE stream = ? AND unit = ?", stream, unit)
        if not rows:
            raise InputError(
                f"unit {unit} is not in {stream!r}: it has units 1..{self.head(stream).unit}."
            )
        return Head(unit, rows[0][0])

    def releases(self, stream: str, first: int = 1, last: int | None = None) -> Iterator[Released]:
        """What was released of these units, one after the other."""
        what = self.series(stream)
        made, body = 0, b""
        for start, end in self._portions(stream, first, last):
            rows = self._select(
                "unit, body_of, flags FROM releases WHERE stream = ? AND unit BETWEEN ? AND ? ORDER BY unit",
                stream,
                start,
                end,
            )
            if [unit for unit, _, _ in rows] != list(range(start, end + 1)):
                raise StateError(
                    f"{self.name}: some of the units {start}..{end} of {stream!r} are missing."
                )
            for unit, of, flags in rows:
                if of != made:
                    made, body = of, self._body(stream, of)
                yield self._release(what, unit, flags, body)

    def lines(self, stream: str, first: int = 1, last: int | None = None) -> Iterator[Line]:
        """The ledger lines of these units, in order."""
        self.series(stream)
        for start, end in self._portions(stream, first, last):
            for unit, _, kind, label, amount, number, run, _ in self._line_rows(stream, start, end):
                yield Line(unit, kind, label, amount, number, run)

    def lease(self, stream: str) -> Lease | None:
        """Who may publish it; None if nobody ever did, or the store does not say (an export, or a
        reader without the right).
        """
        if "leases" not in self._tables():
            return None
        try:
            return self._held(stream)
        except StateError:
            return None

    def marks(self, stream: str) -> dict[str, int]:
        """Up to which unit each sink that was marked has the stream's releases."""
        return dict(self._select("sink, unit FROM marks WHERE stream = ?", stream))

    def verify(self, stream: str, *, head: Head | None = None) -> VerifiedLedger:
        """Recompute every link and the cost of every window; the first line that is wrong is a
        `LedgerError`.

        `head`, if somebody has noted one, must be in the stream's past.
        """
        what, newest = self.series(stream), self.head(stream)
        (about,) = self._select("about FROM streams WHERE name = ?", stream)[0]
        if what.about != about or what.name != stream:
            raise LedgerError(f"stream {stream!r}: what it is of is not what was committed.")
        found = account(self._followed(what, newest), what.guarantee, units=newest.unit)
        if not found.kept:
            raise LedgerError(
                f"stream {stream!r}: a window cost {found.worst}, above {promised(what.guarantee).amount}."
            )
        later = "(SELECT coalesce(max(unit), 0) FROM releases WHERE stream = ?)"
        ((stray,),) = self._select(
            f"count(*) FROM lines WHERE stream = ? AND (unit < 1 OR unit > {later})",
            stream,
            stream,
        )
        if stray:
            raise LedgerError(
                f"stream {stream!r}: {stray} lines are of units that were never released."
            )
        if head is not None:
            self._in_the_past(what, head, "the head that was noted")
        return VerifiedLedger(head=newest, account=found)

    # -- inside ------------------------------------------------------------------------------------

    def _held(self, stream: str, locking: str = "") -> Lease | None:
        rows = self._select(
            f"owner, number, since, expires FROM leases WHERE stream = ?{locking}", stream
        )
        if not rows:
            return None
        owner, number, since, expires = rows[0]
        return Lease(stream=stream, owner=owner, number=number, since=since, expires=expires)

    def _look_over(self) -> None:
        version = self._version()
        if version < len(self._migrations()):
            raise StateError(
                f"{self.name} has tables of version {version}: its publisher must open it once first."
            )

    def _version(self) -> int:
        """The version of the tables, 0 where there are none yet."""
        tables = self._tables()
        if not tables:
            return 0
        if "penstock_store" not in tables:
            raise StateError(f"{self.name} is not a store: it holds something else.")
        version = int(self._select("version FROM penstock_store")[0][0])
        known = len(self._migrations())
        if version > known:
            raise StateError(
                f"{self.name} has tables of version {version}; this Penstock knows versions up to {known}."
            )
        return version

    def _portions(self, stream: str, first: int, last: int | None) -> Iterator[tuple[int, int]]:
        newest = self.head(stream).unit
        end = newest if last is None else last
        if first > end:
            return
        if first < 1 or end > newest:
            raise InputError(
                f"units {first}..{end} are not all in {stream!r}: it has units 1..{newest}."
            )
        for start in range(first, end + 1, _AT_ONCE):
            yield start, min(start + _AT_ONCE - 1, end)

    def _line_rows(self, stream: str, first: int, last: int) -> list[Any]:
        return self._select(
            "unit, place, kind, label, amount, number, run, link FROM lines "
            "WHERE stream = ? AND unit BETWEEN ? AND ? ORDER BY unit, place",
            stream,
            first,
            last,
        )

    def _body(self, stream: str, unit: int) -> bytes:
        rows = self._select("body FROM releases WHERE stream = ? AND unit = ?", stream, unit)
        if not rows or not isinstance(rows[0][0], bytes):
            raise StateError(f"{self.name}: the release of unit {unit} of {stream!r} is missing.")
        return rows[0][0]

    def _release(self, stream: Series, unit: int, flags: bytes, body: bytes) -> Released:
        try:
            return encoding.flagged(encoding.release_of(unit, body, stream.guarantee), unit, flags)
        except (msgspec.DecodeError, KeyError, TypeError, ValueError, ArithmeticError) as error:
            raise StateError(
                f"{self.name}: unit {unit} of {stream.name!r} cannot be read: {type(error).__name__}."
            ) from None

    def _followed(self, stream: Series, newest: Head) -> Iterator[Line]:
        """Every line up to the newest unit; what is not as it was committed ends it."""
        for _, lines in self.unbroken(stream, newest):
            for unit, _, kind, label, amount, number, run, _ in lines:
                yield Line(unit, kind, label, amount, number, run)

    def unbroken(
        self, stream: Series, newest: Head, after: Head | None = None
    ) -> Iterator[tuple[Any, list[Any]]]:
        """Each unit's row of `releases` and rows of `lines`, without the stream, if their links are
        right.

        The first that is not ends it with a `LedgerError`. `after` is where to begin, if everything
        up to there is known.
        """
        name = stream.name
        link, made, digest = beginning(stream.about), 0, b""
        if after is not None and after.unit:
            link = after.link
            ((made, digest),) = self._select(
                "body_of, digest FROM releases WHERE stream = ? AND unit = ?", name, after.unit
            )
        for start in range(after.unit + 1 if after else 1, newest.unit + 1, _AT_ONCE):
            end = min(start + _AT_ONCE - 1, newest.unit)
            by_unit = {
                unit: list(rows)
                for unit, rows in groupby(self._line_rows(name, start, end), key=lambda row: row[0])
            }
            released = {
                row[0]: row[1:]
                for row in self._select(
                    "unit, body_of, flags, digest, link FROM releases WHERE stream = ? AND unit BETWEEN ? AND ?",
                    name,
                    start,
                    end,
                )
            }
            for unit in range(start, end + 1):
                lines = by_unit.get(unit, [])
                for place, (_, stored_place, kind, label, amount, number, run, stored) in enumerate(
                    lines, 1
                ):
                    with _wrong(
                        f"stream {name!r}: line {place} of unit {unit} is not what was committed."
                    ):
                        link = after_line(link, Line(unit, kind, label, amount, number, run))
                        _same(link, stored)
                        _same(place, stored_place)
                bodies = self._select(
                    "body FROM releases WHERE stream = ? AND unit = ? AND body IS NOT NULL",
                    name,
                    unit,
                )
                with _wrong(
                    f"stream {name!r}: the release of unit {unit} is not what was committed, or a line is missing."
                ):
                    of, flags, stored_digest, stored = released[unit]
                    if bodies:
                        made, digest = unit, hashlib.sha256(bodies[0][0]).digest()
                    _same(made, of)
                    _same(digest, stored_digest)
                    link = after_release(link, unit, flags, digest)
                    _same(link, stored)
                yield (unit, of, flags, digest, link, bodies[0][0] if bodies else None), lines
        with _wrong(f"stream {name!r}: its head is not what was committed."):
            _same(link, newest.link)

    def _in_the_past(self, stream: Series, head: Head, whose: str) -> None:
        """Refuse a head that this store has never had: it was restored from an old backup, or it is
        another one.
        """
        newest = self.head(stream.name)
        if head.unit > newest.unit:
            raise StateError(
                f"{self.name} was restored from an old backup: stream {stream.name!r} ends with unit {newest.unit}, and "
                f"{whose} is of unit {head.unit}. Going on would release units again with fresh noise: restore the newest one."
            )
        rows = self._select(
            "link FROM releases WHERE stream = ? AND unit = ?", stream.name, head.unit
        )
        link = rows[0][0] if rows else beginning(stream.about)
        if link != head.link:
            raise StateError(
                f"{self.name} has another past than {whose}: unit {head.unit} of {stream.name!r} differs. Either it was "
                "restored from an old backup and went on, or this is another store. Restore the newest store."
            )


class TableStore(TableReader):
    """A store in tables for publishing: everything of a unit commits in one durable transaction, or
    nothing does.
    """

    _locking = ""
    """The end of a question whose rows nobody else may change until the transaction ends."""

    def __init__(self, *, head: str | os.PathLike[str] | None, key: Key | None) -> None:
        self.owner = secrets.token_hex(8)
        self._head_file = None if head is None else HeadFile(head)
        self._key = key
        self._leases: dict[str, tuple[int, float]] = {}
        self._heads: dict[str, Head] = {}
        self._together: dict[str, Head] | None = None
        self._failed = False
        TableReader.__init__(self)

    def close(self) -> None:
        """Give every lease back and let go of the store."""
        for stream in list(self._leases):
            try:
                self.end(stream)
            except LeaseError:
                continue
            except StateError:
                break  # one that cannot be reached: they expire
        super().close()

    # -- what a database must give -----------------------------------------------------------------

    @abstractmethod
    def _execute(self, statement: str, *values: object) -> None:
        """Do it, inside a transaction. A problem is a `StateError`."""

    @abstractmethod
    def _execute_many(self, statement: str, rows: Sequence[tuple[object, ...]]) -> None:
        """Do it for every row."""

    @abstractmethod
    def _whole(self, kind: Kind) -> AbstractContextManager[None]:
        """A transaction: what is done inside is kept, durably, or nothing of it is."""

    @abstractmethod
    def _now(self) -> float:
        """The seconds of the clock that leases go by."""

    @abstractmethod
    def _migrate(self, migrate: Callable[[Any], None]) -> None:
        """Do one migration, inside a transaction."""

    def _ready(self) -> None:
        """Refuse to begin where what is secret would not be."""

    def _tidy(self) -> None:
        """Take away what the database still keeps of what was just replaced."""

    # -- who may publish ---------------------------------------------------------------------------

    def begin(
        self,
        stream: Series,
        *,
        seconds: float = 30,
        heads: Iterable[Head] = (),
        takeover: bool = False,
    ) -> Lease:
        """Take the stream's lease. `heads` are what sinks have seen: one that is not in the store's
        past is refused.

        A lease that another publisher holds is refused until it expires; with `takeover` it is
        taken at once, and whatever the other one commits from then on is refused.
        """
        if not 0 < seconds <= _LONGEST:
            raise ConfigurationError(
                f"seconds must be above 0 and at most {_LONGEST}, not {seconds}."
            )
        with self._lock:
            if self._together is not None:
                raise ConfigurationError(
                    f"stream {stream.name!r} must begin before what is committed together."
                )
            self._ready()
            with self._transaction("alone"):
                self._declare(stream)
                for head in heads:
                    self._in_the_past(stream, head, "the head that a sink has seen")
                noted = self._head_file.read().get(stream.name) if self._head_file else None
                if noted and noted.unit:
                    self._in_the_past(stream, noted, "the head file")
                clear = self._clear_parts(stream.name)
                now = self._now()
                held = self._lease(stream.name)
                if (
                    held
                    and held.owner not in ("", self.owner)
                    and now < held.expires
                    and not takeover
                ):
                    raise LeaseError(
                        f"stream {stream.name!r} is {_holder(held)}, until {_when(held.expires)} if it does not renew: "
                        "two publishers would release a unit twice. Stop it first, or wait."
                    )
                number = held.number + 1 if held else 1
                lease = Lease(
                    stream=stream.name,
                    owner=self.owner,
                    number=number,
                    since=now,
                    expires=now + seconds,
                )
                self._write_lease(lease)
                if clear:
                    self._put(stream.name, clear)
            self._leases[stream.name] = number, seconds
            if clear:
                self._tidy()
            head = self.head(stream.name)
            if noted != head:
                self._noted({stream.name: head})
            return lease

    def renew(self, stream: str) -> Lease:
        """Hold the lease longer. A commit does so too."""
        with self._transaction():
            return self._renewed(stream)

    def end(self, stream: str) -> None:
        """Give the lease back."""
        with self._transaction():
            lease = self._renewed(stream)
            self._write_lease(replace(lease, owner="", expires=self._now()))
        del self._leases[stream]

    def _declare(self, stream: Series) -> None:
        """Write what the stream is of, or see that it is the same as before."""
        if stream.name not in self.series_names:
            self._execute(
                "INSERT INTO streams (name, about) VALUES (?, ?)", stream.name, stream.about
            )
            return
        changed = self.series(stream.name).differences(stream)
        if changed and not self._begun(stream.name):
            self._execute("DELETE FROM secrets WHERE stream = ?", stream.name)
            self._execute("UPDATE streams SET about = ? WHERE name = ?", stream.about, stream.name)
            self._streams.pop(stream.name, None)
        elif changed:
            raise StateError(
                f"stream {stream.name!r} in {self.name} is another one: {', '.join(changed)} differs. What has begun goes "
                "on as it began: restore what was changed, or begin a stream of another name."
            )

    def _begun(self, stream: str) -> bool:
        """Whether anything was released of a stream, or of another view of it, or is kept of what
        was read.
        """
        whole = stream.partition("/")[0]
        views = [name for name in self.series_names if name.partition("/")[0] == whole]
        parts = {
            part
            for name in views
            for (part,) in self._select("part FROM secrets WHERE stream = ?", name)
        }
        return any(self.head(name).unit for name in views) or not parts <= {
            _POSITIONS,
            _PRIVATE + "units",
        }

    def _lease(self, stream: str) -> Lease | None:
        return self._held(stream, self._locking)

    def _write_lease(self, lease: Lease) -> None:
        self._execute(
            "INSERT INTO leases (stream, owner, number, since, expires) VALUES (?, ?, ?, ?, ?) ON CONFLICT (stream) DO UPDATE "
            "SET owner = excluded.owner, number = excluded.number, since = excluded.since, expires = excluded.expires",
            lease.stream,
            lease.owner,
            lease.number,
            lease.since,
            lease.expires,
        )

    def _renewed(self, stream: str) -> Lease:
        """The lease, if it is still this publisher's, with a later end: never an earlier one,
        whatever the clock does.
        """
        if stream not in self._leases:
            raise StateError(
                f"stream {stream!r} has not begun here: take its lease first. Nothing was written."
            )
        number, seconds = self._leases[stream]
        held = self._lease(stream)
        if held is None or held.number != number or held.owner != self.owner:
            raise LeaseError(
                f"stream {stream!r} is {_holder(held)}: another publisher has taken it over. Nothing was written."
            )
        lease = replace(held, expires=max(held.expires, self._now() + seconds))
        self._write_lease(lease)
        return lease

    # -- one unit ----------------------------------------------------------------------------------

    def last(self, stream: str) -> Committed | None:
        """Where the stream stands, with everything needed to go on; None if nothing was kept yet."""
        if stream not in self.series_names:
            return None
        with self._transaction("read"):
            head = self.head(stream)
            rows = self._select("part, unit, key, content FROM secrets WHERE stream = ?", stream)
            released = list(self.releases(stream, head.unit, head.unit)) if head.unit else [None]
        if not rows and not head.unit:
            return None
        units = {part: unit for part, unit, _, _ in rows}
        if units.get(_POSITIONS) is None or (units.get(_STATE, 0), units[_POSITIONS]) != (
            head.unit,
            head.unit,
        ):
            raise StateError(
                f"{self.name}: what was kept of {stream!r} is not of unit {head.unit}, its newest one."
            )
        parts = {
            part: self._revealed(stream, part, unit, key, content)
            for part, unit, key, content in rows
        }
        return Committed(
            unit=head.unit,
            head=head,
            release=released[0],
            state=parts.get(_STATE),
            positions=msgspec.msgpack.decode(parts[_POSITIONS]),
            private={
                part.removeprefix(_PRIVATE): content
                for part, content in parts.items()
                if part.startswith(_PRIVATE)
            },
        )

    @contextmanager
    def together(self) -> Iterator[None]:
        """What is committed, saved and marked inside is one transaction: all of it or nothing."""
        with self._lock:
            if self._together is not None:
                raise ConfigurationError(
                    "one thing after the other: this store is in a transaction already."
                )
            try:
                with self._transaction():
                    self._together = {}
                    yield
                    self._not_failed()
                    heads = self._together
            finally:
                self._together, self._failed = None, False
            self._noted(heads)

    def mark(self, stream: str, sink: str, unit: int) -> None:
        """Note that a sink has all releases up to this unit."""
        with self._transaction():
            self._execute(
                "INSERT INTO marks (stream, sink, unit) VALUES (?, ?, ?) ON CONFLICT (stream, sink) "
                "DO UPDATE SET unit = excluded.unit",
                stream,
                sink,
                unit,
            )

    def commit(
        self,
        stream: str,
        unit: int,
        *,
        lines: Iterable[Line],
        release: Released,
        state: bytes,
        positions: Mapping[str, Any],
        private: Mapping[str, bytes | None] | None = None,
    ) -> Head:
        """Keep everything of the next unit, all of it or nothing, before anyone can see it.

        `positions` replace the earlier ones. `private` holds what is kept of units that are still
        open, in named parts: those given are replaced, None takes one away, and the others stay. If
        the head file then cannot be written, that is an error although the unit is committed:
        `head` tells.
        """
        lines = tuple(lines)
        unit = whole(unit, name="unit", least=1)
        self._fits(stream, unit, lines, release)
        flags, body = encoding.flags(release), encoding.body(release)
        digest = hashlib.sha256(body).digest()
        content = _parts(positions, private or {}) | {_STATE: state}
        with self._transaction():
            self._renewed(stream)
            before = self.head(stream)
            if unit != before.unit + 1:
                raise StateError(
                    f"unit {unit} of {stream!r} cannot follow unit {before.unit}. Nothing was written."
                )
            link, rows = before.link, []
            for place, line in enumerate(lines, 1):
                link = after_line(link, line)
                rows.append(
                    (
                        stream,
                        unit,
                        place,
                        line.kind,
                        line.label,
                        line.amount,
                        line.number,
                        line.run,
                        link,
                    )
                )
            link = after_release(link, unit, flags, digest)
            ((of, known),) = self._select(
                "body_of, digest FROM releases WHERE stream = ? AND unit = ?", stream, before.unit
            ) or [(unit, None)]
            again = known == digest
            row = (
                stream,
                unit,
                of if again else unit,
                flags,
                digest,
                link,
                None if again else body,
            )
            self._execute_many("INSERT INTO lines VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
            self._execute("INSERT INTO releases VALUES (?, ?, ?, ?, ?, ?, ?)", *row)
            self._put(stream, content, unit=unit)
        head = Head(unit, link)
        self._noted({stream: head})
        return head

    def save(
        self, stream: str, *, positions: Mapping[str, Any], private: Mapping[str, bytes | None]
    ) -> None:
        """Keep what was read of open units, and how far that was: all of it or nothing, and no unit
        is released.
        """
        content = _parts(positions, private)
        with self._transaction():
            self._renewed(stream)
            self._put(stream, content)

    def _fits(self, stream: str, unit: int, lines: tuple[Line, ...], release: Released) -> None:
        """Refuse what is no release of this unit of this stream, or lines of another."""
        what = self.series(stream)
        if not isinstance(release, Released):
            raise InputError(f"a store takes what was released, not {type(release).__name__}.")
        if release.unit != unit or release.value.shape != (what.domain.size,):
            raise InputError(
                f"unit {unit}: the release is of unit {release.unit} with {release.value.size} numbers."
            )
        if release.guarantee != what.guarantee:
            raise InputError(
                f"unit {unit}: released under {release.guarantee}, and {stream!r} is of {what.guarantee}."
            )
        other = {line.unit for line in lines} - {unit}
        if other:
            raise InputError(f"unit {unit}: a line is of unit {min(other)}.")

    # -- what is secret ----------------------------------------------------------------------------

    def _put(self, stream: str, parts: Mapping[str, bytes | None], unit: int | None = None) -> None:
        unit = self.head(stream).unit if unit is None else unit
        key = self._key.id if self._key else ""
        for part, content in parts.items():
            if content is None:
                self._execute("DELETE FROM secrets WHERE stream = ? AND part = ?", stream, part)
                continue
            kept = (
                self._key.seal(content, about=_about(stream, part, unit)) if self._key else content
            )
            self._execute(
                "INSERT INTO secrets (stream, part, unit, key, content) VALUES (?, ?, ?, ?, ?) ON CONFLICT (stream, part) "
                "DO UPDATE SET unit = excluded.unit, key = excluded.key, content = excluded.content",
                stream,
                part,
                unit,
                key,
                kept,
            )

    def _revealed(self, stream: str, part: str, unit: int, key: str, content: bytes) -> bytes:
        if not key:
            return content
        self._right_key(stream, key)
        assert self._key is not None
        return self._key.reveal(content, about=_about(stream, part, unit))

    def _right_key(self, stream: str, key: str) -> None:
        if self._key is None:
            raise StateError(f"the state of {stream!r} is sealed with key {key}: give that key.")
        if self._key.id != key:
            raise StateError(
                f"the state of {stream!r} is sealed with key {key}, and the key given is {self._key.id}."
            )

    def _clear_parts(self, stream: str) -> dict[str, bytes | None]:
        """What lies there unsealed although there is a key now; a wrong key is refused."""
        for (key,) in self._select(
            "DISTINCT key FROM secrets WHERE stream = ? AND key <> ''", stream
        ):
            self._right_key(stream, key)
        if self._key is None:
            return {}
        return dict(
            self._select("part, content FROM secrets WHERE stream = ? AND key = ''", stream)
        )

    # -- transactions ------------------------------------------------------------------------------

    def _bring_up_to_date(self) -> None:
        """Bring the tables to this version, all at once or not at all."""
        migrations = self._migrations()
        if self._version() == len(migrations):
            return
        with self._transaction("migrate"):
            version = self._version()  # somebody may have been faster
            if not version:
                self._execute("CREATE TABLE penstock_store (version INTEGER NOT NULL)")
                self._execute("INSERT INTO penstock_store VALUES (0)")
            for migrate in migrations[version:]:
                self._migrate(migrate)
            self._execute("UPDATE penstock_store SET version = ?", len(migrations))

    @contextmanager
    def _transaction(self, kind: Kind = "write") -> Iterator[None]:
        """All of it or nothing, and nobody else in between; inside `together`, part of that one."""
        with self._lock:
            try:
                if self._together is None:
                    with self._whole(kind):
                        yield
                else:
                    self._not_failed()
                    yield
            except BaseException:
                self._failed = self._together is not None
                self._streams.clear()  # one of them may be about not to be there
                raise

    def _not_failed(self) -> None:
        if self._failed:
            raise StateError(
                f"{self.name}: an earlier part of this transaction failed. Nothing of it was written."
            )

    def _noted(self, heads: Mapping[str, Head]) -> None:
        """Remember the newest heads, here and in the head file, once they are committed."""
        if self._together is not None:
            self._together.update(heads)
            return
        self._heads.update(heads)
        if self._head_file and heads:
            self._head_file.update(heads)


# -- small things ----------------------------------------------------------------------------------


def _about(stream: str, part: str, unit: int) -> bytes:
    return json.dumps([stream, part, unit]).encode()


def _parts(
    positions: Mapping[str, Any], private: Mapping[str, bytes | None]
) -> dict[str, bytes | None]:
    try:
        encoded = msgspec.msgpack.encode(dict(positions))
    except (TypeError, ValueError, OverflowError):
        raise ConfigurationError(
            "positions must be plain data: text, numbers, bytes, lists and maps of them."
        ) from None
    return {_POSITIONS: encoded} | {_PRIVATE + name: content for name, content in private.items()}


def _holder(lease: Lease | None) -> str:
    if lease is None or not lease.owner:
        return "held by nobody"
    return f"held by publisher {lease.owner} since {_when(lease.since)}"


def _when(moment: float) -> str:
    return f"{datetime.fromtimestamp(moment, UTC):%Y-%m-%d %H:%M:%S} UTC"


@contextmanager
def _wrong(message: str) -> Iterator[None]:
    try:
        yield
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError):
        raise LedgerError(message) from None


def _same(one: object, other: object) -> None:
    if one != other:
        raise ValueError("not the same")
