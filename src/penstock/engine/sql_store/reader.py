"""The public part of a store in tables, for reading."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, Self

import msgspec

from penstock.budget.ledger import Line
from penstock.core.errors import (
    InputError,
    NotAStoreError,
    StateError,
    StoreUnavailableError,
)
from penstock.core.released import Released
from penstock.engine.chain import Head, beginning
from penstock.engine.sealing import Key
from penstock.engine.signing import PublicKey
from penstock.engine.sql_store.alert_rows import read_alerts, read_rules, seen_rows
from penstock.engine.sql_store.schema import (
    ALERT_TABLES,
    ALERTS_SINCE,
    OLDEST_READABLE,
    SIGNED_SINCE,
    UNITS_PER_READ,
    VERSION_TABLE,
    Migration,
    known_version,
)
from penstock.engine.sql_store.sealed_state import waiting_unit
from penstock.engine.sql_store.verification import check_past, verify
from penstock.engine.store import Lease, VerifiedLedger
from penstock.released import encoding
from penstock.released.alerting import AlertEvent, RuleProgress
from penstock.released.series import Series

_NEWEST = "(SELECT coalesce(max(unit), 0) FROM releases WHERE stream = ?)"


class SqlReader(ABC):
    """Reads the public part of a store in tables."""

    name: str
    """The name of the store in messages."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._series: dict[str, Series] = {}
        self._proofs = "mac, signature"
        self.has_alerts = True
        """Whether the tables are of a version that has alerts."""
        self._connect()
        try:
            self._check_tables()
        except BaseException:
            self._disconnect()
            raise

    def close(self) -> None:
        """Close the connection."""
        self._disconnect()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- the database ------------------------------------------------------------------------------

    @abstractmethod
    def _connect(self) -> None:
        """Open the connection."""

    @abstractmethod
    def _disconnect(self) -> None:
        """Close the connection; a second call changes nothing."""

    @abstractmethod
    def _select(self, what: str, *values: object) -> list[Any]:
        """The rows of a SELECT, each a tuple; `?` stands for a value.

        A problem is a `StateError`, or a `StoreUnavailableError` if it may pass.
        """

    @abstractmethod
    def _tables(self) -> set[str]:
        """The names of the tables that are there."""

    @abstractmethod
    def _migrations(self) -> Sequence[Migration]:
        """The migration from each version of the tables to the next, from version 0 on."""

    def refresh(self) -> bool:
        """Go over to the file that has taken the place of the open one; return whether one has."""
        return False

    def data_version(self) -> int | None:
        """A number that changes when others commit; None where the database announces commits."""
        return None

    # -- the content -------------------------------------------------------------------------------

    @property
    def series_names(self) -> tuple[str, ...]:
        """The names of all series."""
        return tuple(sorted(name for (name,) in self._select("name FROM streams")))

    def series(self, name: str) -> Series:
        """A series by its name."""
        if name not in self._series:
            about = self.about(name)
            try:
                about.encode()  # damaged text cannot be encoded
                self._series[name] = Series.read(about)
            except (ValueError, KeyError, TypeError, AttributeError):
                raise StateError(
                    f"{self.name}: the description of series {name!r} is damaged."
                ) from None
        return self._series[name]

    def about(self, name: str) -> str:
        """The stored text that describes a series."""
        rows = self._select("about FROM streams WHERE name = ?", name)
        if not rows:
            raise InputError(f"there is no series {name!r} in {self.name}.")
        return str(rows[0][0])

    def head(self, series: str) -> Head:
        """The newest unit and the link after it."""
        rows = self._select(
            f"unit, link, {self._proofs} FROM releases WHERE stream = ? ORDER BY unit DESC LIMIT 1",
            series,
        )
        if not rows:
            return Head(0, beginning(self.series(series).about))
        unit, link, _, signature = rows[0]
        if not isinstance(unit, int):
            raise StateError(
                f"{self.name}: the number of the newest unit of {series!r} is damaged."
            )
        return Head(unit, link, signature)

    def at(self, series: str, unit: int) -> Head:
        """The link after a released unit; unit 0 is the beginning."""
        if not unit:
            return Head(0, beginning(self.series(series).about))
        rows = self._select(
            f"link, {self._proofs} FROM releases WHERE stream = ? AND unit = ?", series, unit
        )
        if not rows:
            newest = self.head(series).unit
            raise InputError(f"unit {unit} is not in {series!r}: it has units 1..{newest}.")
        link, _, signature = rows[0]
        return Head(unit, link, signature)

    def releases(self, series: str, first: int = 1, last: int | None = None) -> Iterator[Released]:
        """The releases of these units, one after the other."""
        what = self.series(series)
        decoded: Released | None = None
        for start, end in self._portions(series, first, last):
            rows = self._select(
                "unit, body_of, flags FROM releases WHERE stream = ? AND unit BETWEEN ? AND ? "
                "ORDER BY unit",
                series,
                start,
                end,
            )
            if [unit for unit, _, _ in rows] != list(range(start, end + 1)):
                raise StateError(
                    f"{self.name}: some of the units {start}..{end} of {series!r} are missing."
                )
            for unit, body_of, flags in rows:
                try:
                    if decoded is None or decoded.unit != body_of:
                        body = self._body(series, body_of)
                        decoded = encoding.release_of(body_of, body, what.guarantee)
                    yield encoding.flagged(decoded, unit, flags)
                except (
                    msgspec.DecodeError,
                    KeyError,
                    TypeError,
                    ValueError,
                    ArithmeticError,
                ) as error:
                    raise StateError(
                        f"{self.name}: unit {unit} of {series!r} cannot be read: "
                        f"{type(error).__name__}."
                    ) from None

    def lines(self, series: str, first: int = 1, last: int | None = None) -> Iterator[Line]:
        """The ledger lines of these units, in order."""
        self.series(series)
        for start, end in self._portions(series, first, last):
            for unit, _, kind, label, amount, number, run, _ in self.line_rows(series, start, end):
                yield Line(unit, kind, label, amount, number, run)

    def lease(self, series: str) -> Lease | None:
        """The newest lease of a series.

        None if nobody ever held one, or if the store does not say: an export has no leases, and a
        reader may lack the right to see them.
        """
        if "leases" not in self._tables():
            return None
        try:
            return self._held(series)
        except StateError:
            return None

    def marks(self, series: str) -> dict[str, int]:
        """The newest unit that each marked sink has of a series."""
        return dict(self._select("sink, unit FROM marks WHERE stream = ?", series))

    def alert_rules(self, series: str) -> tuple[RuleProgress, ...]:
        """How far each rule of a series has come: see `Reader`."""
        return read_rules(self, series)

    def alerts(
        self,
        series: str,
        first: int = 1,
        last: int | None = None,
        *,
        rule: str | None = None,
        key: str | None = None,
        limit: int | None = None,
    ) -> list[AlertEvent]:
        """The alerts of some units: see `Reader`."""
        return read_alerts(self, series, first, last, rule=rule, key=key, limit=limit)

    def verify(
        self,
        series: str,
        *,
        head: Head | None = None,
        public_key: PublicKey | None = None,
        key: Key | None = None,
    ) -> VerifiedLedger:
        """Recompute every link and the cost of every window: see `Reader.verify`."""
        return verify(self, series, head=head, public_key=public_key, key=key)

    def check_past(self, series: str, head: Head, whose: str) -> None:
        """Refuse a head that this store never had, by a `StateError`; `whose` names the witness."""
        check_past(self, self.series(series), head, whose)

    # -- rows, for verification and export ---------------------------------------------------------

    def rows_of(self, what: str, *values: object) -> list[Any]:
        """The rows of a SELECT from public tables, each a tuple; `?` stands for a value."""
        return self._select(what, *values)

    def line_rows(self, series: str, first: int, last: int) -> list[Any]:
        """The rows of `lines` of these units, without the name of the series."""
        return self._select(
            "unit, place, kind, label, amount, number, run, link FROM lines "
            "WHERE stream = ? AND unit BETWEEN ? AND ? ORDER BY unit, place",
            series,
            first,
            last,
        )

    def release_rows(self, series: str, first: int, last: int) -> dict[int, Any]:
        """By unit: body_of, flags, digest, link, mac and signature."""
        rows = self._select(
            f"unit, body_of, flags, digest, link, {self._proofs} FROM releases "
            "WHERE stream = ? AND unit BETWEEN ? AND ?",
            series,
            first,
            last,
        )
        return {row[0]: row[1:] for row in rows}

    def own_body(self, series: str, unit: int) -> bytes | None:
        """The body that was stored with a unit; None if it repeats an earlier one."""
        rows = self._select(
            "body FROM releases WHERE stream = ? AND unit = ? AND body IS NOT NULL", series, unit
        )
        return rows[0][0] if rows else None

    def keyed_link(self, series: str, unit: int) -> tuple[bytes, bytes | None]:
        """The link after a unit, and the code over it if it has one; unit 0 is the beginning."""
        if not unit:
            return beginning(self.series(series).about), None
        rows = self._select(
            f"link, {self._proofs} FROM releases WHERE stream = ? AND unit = ?", series, unit
        )
        if not rows:
            raise InputError(f"unit {unit} is not in {series!r}.")
        link, mac, _ = rows[0]
        return link, mac

    def secret_rows(self, series: str, part: str) -> list[Any]:
        """Unit, key and content of a part of the secret rows, for whoever has the key."""
        rows = self._select(
            "unit, key, content FROM secrets WHERE stream = ? AND part = ?", series, part
        )
        return [(unit, key, self._unpadded(content)) for unit, key, content in rows]

    def _unpadded(self, content: bytes) -> bytes:
        """A secret content without what the database puts before it."""
        return content

    def shows_state(self) -> bool:
        """Whether this connection could read state that is not sealed. No state is read."""
        if "secrets" not in self._tables():
            return False
        try:
            return bool(self._select("1 FROM secrets WHERE key = '' LIMIT 1"))
        except StoreUnavailableError:
            raise
        except StateError:  # no right to see them
            return False

    def has_proofs(self, series: str, column: str) -> bool:
        """Whether any unit has a value in a column, which is `mac` or `signature`."""
        there = f"{column} IS NOT NULL"
        return bool(self._select(f"1 FROM releases WHERE stream = ? AND {there} LIMIT 1", series))

    def next_unit(self, series: str, unit: int) -> int:
        """The first released unit after this one; where a damaged table has none, the next."""
        ((found,),) = self._select(
            "min(unit) FROM releases WHERE stream = ? AND unit > ?", series, unit
        )
        return unit + 1 if found is None else int(found)

    def count_releases(self, series: str, last: int) -> int:
        """The number of rows of `releases` up to a unit."""
        ((count,),) = self._select(
            "count(*) FROM releases WHERE stream = ? AND unit <= ?", series, last
        )
        return int(count)

    def stray_units(self, table: str, series: str) -> list[Any]:
        """The units of rows that are no number from 1 to the newest release, each once.

        SQLite keeps fractions and text in a column of whole numbers, too.
        """
        rows = self._select(
            f"DISTINCT unit FROM {table} WHERE stream = ? AND (unit < 1 "
            f"OR unit > {_NEWEST} OR unit <> CAST(unit AS BIGINT)) ORDER BY unit",
            series,
            series,
        )
        return [unit for (unit,) in rows]

    def stray_marks(self, series: str) -> list[Any]:
        """Marks of units that were never released: sink, unit, and the newest release."""
        return self._select(
            f"sink, unit, {_NEWEST} FROM marks WHERE stream = ? AND (unit < 1 OR unit > {_NEWEST})",
            series,
            series,
            series,
        )

    def waiting_head(self, series: str, key: Key | None) -> Head | None:
        """The head of a unit that is stored and not shown yet: see `Reader`."""
        rows = waiting_unit(self, series, key)
        return None if rows is None else rows.head

    def strays(self) -> tuple[str, ...]:
        """A sentence for each series that has rows, and is not in the store."""
        found = []
        for table in ("releases", "lines", "marks", *ALERT_TABLES):
            what = (
                f"stream, count(*) FROM {table} "  # noqa: S608 - one of the names above
                "WHERE stream NOT IN (SELECT name FROM streams) GROUP BY stream ORDER BY stream"
            )
            rows = seen_rows(self, what) if table in ALERT_TABLES else self._select(what)
            for stream, count in rows:
                many = f"1 row of {table} is" if count == 1 else f"{count} rows of {table} are"
                found.append(f"{many} of series {stream!r}, which is not in the store.")
        return tuple(found)

    # -- inside ------------------------------------------------------------------------------------

    def _held(self, series: str, locking: str = "") -> Lease | None:
        rows = self._select(
            f"owner, number, since, expires FROM leases WHERE stream = ?{locking}", series
        )
        if not rows:
            return None
        owner, number, since, expires = rows[0]
        return Lease(series=series, owner=owner, number=number, since=since, expires=expires)

    def _check_tables(self) -> None:
        """Refuse tables that this reader cannot read."""
        version = self._version()
        if version < OLDEST_READABLE:
            raise StateError(
                f"{self.name} has tables of version {version}: its publisher must open it once "
                "first."
            )
        self._proofs = "mac, signature" if version >= SIGNED_SINCE else "NULL, NULL"
        self.has_alerts = version >= ALERTS_SINCE

    def _version(self) -> int:
        """The version of the tables, 0 where there are none yet."""
        tables = self._tables()
        if not tables:
            return 0
        if VERSION_TABLE not in tables:
            raise NotAStoreError(f"{self.name} is not a store: it holds something else.")
        rows = self._select(f"version FROM {VERSION_TABLE}")
        if not rows or not isinstance(rows[0][0], int):
            raise StateError(
                f"{self.name}: the version of its tables is damaged. Restore the newest backup."
            )
        return known_version(rows[0][0], self._migrations(), self.name)

    def _portions(self, series: str, first: int, last: int | None) -> Iterator[tuple[int, int]]:
        newest = self.head(series).unit
        end = newest if last is None else last
        if first > end:
            return
        if first < 1 or end > newest:
            raise InputError(
                f"units {first}..{end} are not all in {series!r}: it has units 1..{newest}."
            )
        for start in range(first, end + 1, UNITS_PER_READ):
            yield start, min(start + UNITS_PER_READ - 1, end)

    def _body(self, series: str, unit: int) -> bytes:
        body = self.own_body(series, unit)
        if not isinstance(body, bytes):
            raise StateError(f"{self.name}: the release of unit {unit} of {series!r} is missing.")
        return body
