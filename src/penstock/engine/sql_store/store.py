"""A store in tables for publishing: each unit commits in one durable transaction."""

from __future__ import annotations

import os
import secrets
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import msgspec

from penstock.budget.ledger import Line
from penstock.core.errors import (
    ChangedPromiseError,
    ConfigurationError,
    StateError,
    StoreUnavailableError,
)
from penstock.core.exact import whole
from penstock.core.released import Released
from penstock.engine.chain import Head, HeadFile
from penstock.engine.sealing import Key
from penstock.engine.sql_store.leases import Leases
from penstock.engine.sql_store.sealed_state import (
    POSITIONS,
    PRIVATE,
    STATE,
    SealedState,
    parts_of,
)
from penstock.engine.sql_store.verification import check_past
from penstock.engine.sql_store.writer import SqlWriter, TransactionKind
from penstock.engine.store import Committed, Lease, LeaseError
from penstock.released.series import Series

_MAX_LEASE_SECONDS = 86_400
"""The longest lease: after a crash nobody waits longer."""


class UncertainError(StoreUnavailableError):
    """The connection was lost during a commit. All of it is written or nothing; ask the store."""


class SqlStore(SqlWriter):
    """A store in tables for publishing: everything of a unit commits in one durable transaction, or
    nothing does.
    """

    padding = b""
    """What stands before every secret content; see `SQLiteStore`."""

    _locking = ""
    """The end of a SELECT whose rows no other transaction may change until this one ends."""

    def __init__(self, *, head: str | os.PathLike[str] | None, key: Key | None) -> None:
        self.owner = secrets.token_hex(8)
        self._head_file = None if head is None else HeadFile(head)
        self._sealed = SealedState(self, key)
        self._leases = Leases(self, self.owner)
        self._heads: dict[str, Head] = {}
        self._together: dict[str, Head] | None = None
        self._failed = False
        SqlWriter.__init__(self)

    def close(self) -> None:
        """Give every lease back and close the connection."""
        for series in self._leases.series:
            try:
                self.end(series)
            except LeaseError:
                continue
            except StateError:
                break  # the store cannot be reached: the leases expire
        with suppress(StateError):
            self.erase()
        super().close()

    # -- the database ------------------------------------------------------------------------------

    @abstractmethod
    def _now(self) -> float:
        """The seconds of the clock that leases go by."""

    def _check_privacy(self) -> None:
        """Refuse to begin where others could read the secret part."""

    def _erase(self) -> None:
        """Remove what the tables still keep of rows that were just sealed."""

    def erase(self) -> bool:
        """Erase as `Store.erase` says. Most databases keep removed rows, and nobody can tell them
        not to: only a key protects those.
        """
        return True

    # -- who may publish ---------------------------------------------------------------------------

    def begin(
        self,
        series: Series,
        *,
        seconds: float = 30,
        heads: Iterable[Head] = (),
        takeover: bool = False,
    ) -> Lease:
        """Take the lease of a series.

        `heads` are those that sinks have seen: one that is not in the store's past is refused. A
        lease that another publisher holds is refused until it expires. With `takeover` it is taken
        at once, and whatever the other publisher commits from then on is refused.
        """
        if not 0 < seconds <= _MAX_LEASE_SECONDS:
            raise ConfigurationError(
                f"seconds must be above 0 and at most {_MAX_LEASE_SECONDS}, not {seconds}.",
                parameter="seconds",
            )
        name = series.name
        with self._lock:
            if self._together is not None:
                raise ConfigurationError(
                    f"series {name!r} must begin before the transaction of several series."
                )
            self._check_privacy()
            with self._transaction("alone"):
                self._declare(series)
                for head in heads:
                    check_past(self, series, head, "the head that a sink has seen")
                noted = self._head_file.read().get(name) if self._head_file else None
                if noted and noted.unit:
                    check_past(self, series, noted, "the head file")
                unsealed = self._sealed.unsealed(name)
                lease = self._leases.take(name, seconds, takeover=takeover)
                if unsealed:
                    self._sealed.put(name, unsealed, unit=self.head(name).unit)
            self._leases.hold(lease, seconds)
            if unsealed:
                self._erase()
            head = self.head(name)
            if noted != head:
                self._note({name: head})
            return lease

    def renew(self, series: str) -> Lease:
        """Hold the lease longer. A commit does so too."""
        with self._transaction():
            return self._leases.renew(series)

    def end(self, series: str) -> None:
        """Give the lease back."""
        with self._transaction():
            self._leases.give_back(series)
        self._leases.drop(series)

    def _declare(self, series: Series) -> None:
        """Add the series, or check that it is the same as before."""
        if series.name not in self.series_names:
            self._add_series(series)
            return
        changed = self.series(series.name).differences(series)
        if changed and not self._begun(series.name):
            self._sealed.forget(series.name)
            self._execute("UPDATE streams SET about = ? WHERE name = ?", series.about, series.name)
            self._series.pop(series.name, None)
        elif changed:
            raise ChangedPromiseError(
                f"series {series.name!r} in {self.name} is another one: {', '.join(changed)} "
                "differs. A series goes on as it began: restore what was changed, or begin one "
                "with another name."
            )

    def _begun(self, series: str) -> bool:
        """Whether any view of the stream has a release, or saved data of what was read."""
        stream = series.partition("/")[0]
        views = [name for name in self.series_names if name.partition("/")[0] == stream]
        if any(self.head(name).unit for name in views):
            return True
        parts = {part for name in views for part in self._sealed.parts(name)}
        return not parts <= {POSITIONS, f"{PRIVATE}units"}

    def _lease(self, series: str) -> Lease | None:
        return self._held(series, self._locking)

    # -- units -------------------------------------------------------------------------------------

    def last(self, series: str) -> Committed | None:
        """The newest unit, with everything needed to go on; None if nothing was saved yet."""
        if series not in self.series_names:
            return None
        with self._transaction("read"):
            head = self.head(series)
            rows = self._sealed.rows(series)
            released = list(self.releases(series, head.unit, head.unit)) if head.unit else [None]
        if not rows and not head.unit:
            return None
        parts = self._sealed.reveal(series, rows, unit=head.unit)
        return Committed(
            unit=head.unit,
            head=head,
            release=released[0],
            state=parts.get(STATE),
            positions=msgspec.msgpack.decode(parts[POSITIONS]),
            private={
                part.removeprefix(PRIVATE): content
                for part, content in parts.items()
                if part.startswith(PRIVATE)
            },
        )

    def commit(
        self,
        series: str,
        unit: int,
        *,
        lines: Iterable[Line],
        release: Released,
        state: bytes,
        positions: Mapping[str, Any],
        private: Mapping[str, bytes | None] | None = None,
    ) -> Head:
        """Commit as `Store.commit` says. Then write the head file.

        If the head file cannot be written, that is a `HeadError` although the unit is committed.
        """
        lines = tuple(lines)
        unit = whole(unit, name="unit", least=1)
        self._check_unit(series, unit, lines, release)
        parts = parts_of(positions, private or {}) | {STATE: state}
        with self._transaction():
            self._leases.renew(series)
            head = self._append(series, unit, lines, release)
            self._sealed.put(series, parts, unit=unit)
        self._note({series: head})
        return head

    def save(
        self, series: str, *, positions: Mapping[str, Any], private: Mapping[str, bytes | None]
    ) -> None:
        """Write the data of open units and the positions up to which they were read, all of it or
        nothing. No unit is released.
        """
        parts = parts_of(positions, private)
        with self._transaction():
            self._leases.renew(series)
            self._sealed.put(series, parts, unit=self.head(series).unit)

    def mark(self, series: str, sink: str, unit: int) -> None:
        """Note that a sink has all releases up to this unit."""
        with self._transaction():
            self._execute(
                "INSERT INTO marks (stream, sink, unit) VALUES (?, ?, ?) "
                "ON CONFLICT (stream, sink) DO UPDATE SET unit = excluded.unit",
                series,
                sink,
                unit,
            )

    # -- transactions ------------------------------------------------------------------------------

    @contextmanager
    def together(self) -> Iterator[None]:
        """All commits, saves and marks inside are one transaction."""
        with self._lock:
            if self._together is not None:
                raise ConfigurationError("this store is in a transaction already: end it first.")
            try:
                with self._transaction():
                    self._together = {}
                    yield
                    self._check_not_failed()
                    heads = self._together
            finally:
                self._together, self._failed = None, False
            self._note(heads)

    @contextmanager
    def _transaction(self, kind: TransactionKind = "write") -> Iterator[None]:
        """As a writer's; inside `together`, part of that transaction."""
        with self._lock:
            if self._together is None:
                with super()._transaction(kind):
                    yield
                return
            self._check_not_failed()
            try:
                yield
            except BaseException:
                self._failed = True
                self._series.clear()
                raise

    def _check_not_failed(self) -> None:
        if self._failed:
            raise StateError(
                f"{self.name}: an earlier part of this transaction failed. Nothing of it was "
                "written."
            )

    def _note(self, heads: Mapping[str, Head]) -> None:
        """Remember the newest heads, here and in the head file, once they are committed."""
        if self._together is not None:
            self._together.update(heads)
            return
        self._heads.update(heads)
        if self._head_file and heads:
            self._head_file.update(heads)
