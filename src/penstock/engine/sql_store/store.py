"""A store in tables for publishing: each unit commits in one durable transaction.

With a fence, that transaction keeps the unit's ledger lines and release in the secret part. They
are moved to the public tables after the fence has taken the unit's head. So nobody sees a unit
that another copy of the store may release with other numbers.
"""

from __future__ import annotations

import os
import secrets
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from penstock.core.snapshot_piece import Piece
from penstock.engine.chain import Fence, FencedError, Head, HeadError, HeadFile
from penstock.engine.sealing import Key
from penstock.engine.signing import SigningKey
from penstock.engine.sql_store.alert_rows import (
    INSERT_ALERT,
    MARK_SENT,
    WRITE_RULE,
    alert_rows,
    of_one_unit,
    read_numbered,
    rule_row,
)
from penstock.engine.sql_store.leases import Leases
from penstock.engine.sql_store.proofs import UnitProofs
from penstock.engine.sql_store.schema import UnitRows
from penstock.engine.sql_store.sealed_state import (
    PENDING,
    PIECE,
    POSITIONS,
    PRIVATE,
    STATE,
    SealedState,
    StateChange,
    parts_of,
)
from penstock.engine.sql_store.verification import check_past
from penstock.engine.sql_store.writer import SqlWriter, TransactionKind
from penstock.engine.store import Committed, Lease, LeaseError
from penstock.released import encoding
from penstock.released.alerting import AlertEvent, RuleProgress
from penstock.released.series import Series
from penstock.released.sinks.base import SinkError

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

    def __init__(
        self,
        *,
        head: str | os.PathLike[str] | None,
        key: Key | None,
        signing_key: SigningKey | None = None,
    ) -> None:
        self.owner = secrets.token_hex(8)
        self._head_file = None if head is None else HeadFile(head)
        self._sealed = SealedState(self, key)
        self._unit_proofs = UnitProofs(key, signing_key)
        self._leases = Leases(self, self.owner)
        self._fences: dict[str, Fence | None] = {}
        self._fence_heads: dict[str, Head | None] = {}  # as each series' fence was last seen
        self._waiting: dict[str, UnitRows | None] = {}  # units to be shown, where known
        self._heads: dict[str, Head] = {}  # of the newest unit that was committed here
        self._together: dict[str, UnitRows] | None = None
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
        fence: Fence | None = None,
    ) -> Lease:
        """Take the lease of a series.

        `heads` are those that sinks have seen: one that is not in the store's past is refused. A
        lease that another publisher holds is refused until it expires. With `takeover` it is taken
        at once, and whatever the other publisher commits from then on is refused. `fence` is asked
        before a unit is shown; default: the head file. If another fence is away now, `settle`
        compares it later.
        """
        if not 0 < seconds <= _MAX_LEASE_SECONDS:
            raise ConfigurationError(
                f"seconds must be above 0 and at most {_MAX_LEASE_SECONDS}, not {seconds}.",
                parameter="seconds",
            )
        name = series.name
        fence = self._head_file if fence is None else fence
        with self._lock:
            if self._together is not None:
                raise ConfigurationError(
                    f"series {name!r} must begin before the transaction of several series."
                )
            self._check_privacy()
            for known in (self._fence_heads, self._waiting):
                known.pop(name, None)
            self._sealed.compare_none(name)
            with self._transaction("alone"):
                self._declare(series)
                for head in heads:
                    check_past(self, series, head, "the head that a sink has seen")
                if self._head_file is not None and fence is self._head_file:
                    self._check_fence(self._head_file, series)
                unsealed = self._sealed.unsealed(name)
                self._check_proofs(name, sealed=not unsealed)
                lease = self._leases.take(name, seconds, takeover=takeover)
                if unsealed:
                    self._sealed.put(name, unsealed, unit=self._newest_unit(name))
            self._leases.hold(lease, seconds)
            self._fences[name] = fence
            if unsealed:
                self._erase()
        views = self._views_of(name)
        if all(view in self._fences for view in views if self._pending(view) is not None):
            try:
                self.settle(view for view in views if view in self._fences)
            except (SinkError, HeadError):
                if fence is self._head_file:
                    raise
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
                f"differs. {_restore(self.series(series.name), series)}Nothing was released or "
                "changed."
            )

    def _begun(self, series: str) -> bool:
        """Whether any view of the stream has a release, or saved data of what was read."""
        views = self._views_of(series)
        if any(self.head(name).unit for name in views):
            return True
        parts = {part for name in views for part in self._sealed.parts(name)}
        return not parts <= {POSITIONS, f"{PRIVATE}units"}

    def _views_of(self, series: str) -> list[str]:
        """All series of the same stream."""
        stream = series.partition("/")[0]
        return [name for name in self.series_names if name.partition("/")[0] == stream]

    def _check_proofs(self, series: str, *, sealed: bool) -> None:
        """Refuse to go on from a newest unit whose keyed link or signature is missing or wrong."""
        head = self.head(series)
        _, mac = self.keyed_link(series, head.unit)
        self._unit_proofs.check(series, head, mac)
        if mac is not None and not sealed:
            raise StateError(
                f"unit {head.unit} of {series!r} has a keyed link, and the state is not sealed: "
                "the store was changed by others. Nothing was written."
            )
        for column, missing in (("mac", mac is None), ("signature", head.signature is None)):
            if head.unit and missing and self.has_proofs(series, column):
                raise StateError(
                    f"unit {head.unit} of {series!r} has no {column}, and earlier units have one: "
                    "the store was changed by others. Nothing was written."
                )

    def _proofs_of(self, series: str, head: Head) -> tuple[bytes | None, bytes | None]:
        return self._unit_proofs.of(series, head)

    def _lease(self, series: str) -> Lease | None:
        return self._held(series, self._locking)

    # -- units -------------------------------------------------------------------------------------

    def last(self, series: str) -> Committed | None:
        """The newest unit, with everything needed to go on; None if nothing was saved yet."""
        if series not in self.series_names:
            return None
        with self._transaction("read"):
            head = self.head(series)
            _, mac = self.keyed_link(series, head.unit)
            waiting = self._sealed.pending(series)
            released = list(self.releases(series, head.unit, head.unit)) if head.unit else [None]
            if waiting is not None:
                unit = self._unit_rows(series, waiting)
                head, mac = unit.head, unit.mac
            link = b"" if mac is None else head.link
            parts = self._sealed.load(series, unit=head.unit, link=link)
            if not parts and not head.unit:
                return None
            state, positions = parts.get(STATE), parts[POSITIONS]
        return Committed(
            unit=head.unit,
            head=head,
            release=released[0],
            state=state,
            pieces=parts.beginning(PIECE),
            positions=msgspec.msgpack.decode(positions),
            private=parts.beginning(PRIVATE),
        )

    def pending(self, series: str) -> Released | None:
        """The release of the unit that is stored and not shown yet; None if there is none."""
        rows = self._pending(series)
        if rows is None:
            return None
        _, unit, body_of, flags, _, _, body, *_ = rows.release
        body = self._body(series, body_of) if body is None else body
        release = encoding.release_of(body_of, body, self.series(series).guarantee)
        return encoding.flagged(release, unit, flags)

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
        pieces: Mapping[str, Piece] | None = None,
    ) -> Head:
        """Commit as `Store.commit` says. Outside `together`, settle the unit too."""
        lines = tuple(lines)
        unit = whole(unit, name="unit", least=1)
        self._check_unit(series, unit, lines, release)
        parts = parts_of(positions, private or {}) | {STATE: state}
        with self._transaction():
            self._leases.renew(series)
            if (waits := self._pending(series)) is not None:
                raise StateError(
                    f"unit {waits.unit} of {series!r} is stored and waits to be shown: settle it "
                    f"before unit {unit}. Nothing was written."
                )
            self._waiting.pop(series, None)
            before, rows = self.head(series), self._chained(series, unit, lines, release)
            if self._fences[series] is None:
                self._insert(rows)
            else:
                parts[PENDING] = msgspec.msgpack.encode(rows)
            self._sealed.put(series, parts, unit=unit, link=rows.link)
            change = StateChange(unit, before=before.link, after=rows.link)
            self._sealed.put_pieces(series, pieces or {}, change)
        self._note({series: rows})
        if self._together is None:
            self.settle([series])
        return rows.head

    def save(
        self, series: str, *, positions: Mapping[str, Any], private: Mapping[str, bytes | None]
    ) -> None:
        """Write the data of open units and the positions up to which they were read, all of it or
        nothing. No unit is released.
        """
        parts = parts_of(positions, private)
        with self._transaction():
            self._leases.renew(series)
            self._sealed.put(series, parts, unit=self._newest_unit(series))

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

    def record_alerts(
        self, series: str, found: Iterable[tuple[RuleProgress, Sequence[AlertEvent]]]
    ) -> None:
        """Write how far some rules have come: see `Store`."""
        with self._transaction("repeatable"):
            self._leases.check(series)
            for progress, events in found:
                first = progress.number - len(events) + 1
                if events:
                    self._execute_many(INSERT_ALERT, alert_rows(series, events, first))
                self._execute(WRITE_RULE, *rule_row(series, progress))

    def unsent_alerts(self, series: str, rule: str, limit: int) -> tuple[int, list[AlertEvent]]:
        """The first alerts of a rule that were not sent: see `Store`."""
        found = [each for each in self.alert_rules(series) if each.rule == rule]
        sent = found[0].sent if found else 0
        events = read_numbered(self, series, rule, sent + 1, sent + limit)
        return sent, of_one_unit(events)

    def mark_alerts_sent(self, series: str, rule: str, number: int) -> None:
        """Note that the alerts of a rule were sent up to this number."""
        with self._transaction("repeatable"):
            self._execute(MARK_SENT, number, series, rule)

    def _newest_unit(self, series: str) -> int:
        """The newest unit that is stored, shown or not."""
        waits = self._pending(series)
        return self.head(series).unit if waits is None else waits.unit

    # -- the fence ---------------------------------------------------------------------------------

    def settle(self, names: Iterable[str]) -> None:
        """Show the units of some series that are stored and not shown yet: see `Store.settle`."""
        names = tuple(names)
        with self._lock:
            known = {name: self._pending(name) for name in names}
            self._waiting |= known
        pending = {name: rows for name, rows in known.items() if rows is not None}
        by_fence: dict[int, list[str]] = {}
        for name in names:
            by_fence.setdefault(id(self._fences[name]), []).append(name)
        for fenced in by_fence.values():
            self._advance(fenced, pending)
        if pending:
            self._show(pending)

    def _advance(self, names: Sequence[str], pending: Mapping[str, UnitRows]) -> None:
        """Bring the heads of some series at their fence to the newest units, all at once."""
        fence = self._fences[names[0]]
        if fence is None:
            return
        for name in names:
            if name not in self._fence_heads:
                self._check_fence(fence, self.series(name))
        before = {name: self._fence_heads[name] for name in names}
        after = {name: pending[name].head if name in pending else self.head(name) for name in names}
        if before == after:
            return
        found = fence.swap(before, after)
        for name in names:
            if found.get(name) != after[name]:
                self.renew(name)  # the lease shows whether the other is a publisher of this store
                raise _fenced(fence, name, found.get(name), after[name], waits=name in pending)
        self._fence_heads |= after

    def _show(self, pending: Mapping[str, UnitRows]) -> None:
        """Move units to the public tables. A restart would do it again, so it need not be durable.

        A connection that is made again for this may have done it: then nothing waits any more.
        """
        try:
            with self._transaction("repeatable"):
                for name, rows in pending.items():
                    if self._pending(name) is not None:
                        self._move(name, rows)
        except BaseException:
            for name in pending:
                self._waiting.pop(name, None)  # only the store knows now
            raise
        self._waiting |= dict.fromkeys(pending)

    def _move(self, series: str, rows: UnitRows) -> None:
        """Move one unit from the secret part to the public tables, inside a transaction."""
        self._leases.check(series)
        self._insert(rows)
        self._sealed.put(series, {PENDING: None}, unit=rows.unit)

    def _compare_after_outage(self) -> None:
        """Refuse a server that lost a confirmed commit, and show again what it may have lost.

        To be called after each new connection to a server that may have crashed.
        """
        self._waiting.clear()
        lost = {}
        for name, head in self._heads.items():
            rows = self._pending(name)
            if rows is None or rows.head != head:
                check_past(self, self.series(name), head, "what was committed here")
            elif self._fence_heads.get(name) == head:
                lost[name] = rows
        if lost:  # showing a unit is not durable, and can be repeated
            self._show(lost)

    def _pending(self, series: str) -> UnitRows | None:
        """The unit that waits to be shown."""
        if series in self._waiting:
            return self._waiting[series]
        content = self._sealed.pending(series)
        return None if content is None else self._unit_rows(series, content)

    def _unit_rows(self, series: str, content: bytes) -> UnitRows:
        try:
            return msgspec.msgpack.decode(content, type=UnitRows)
        except msgspec.DecodeError:
            raise StateError(
                f"{self.name}: the unit of {series!r} that waits to be shown is damaged."
            ) from None

    def _check_fence(self, fence: Fence, series: Series) -> None:
        """Refuse a head at the fence that this store never had, and remember it otherwise.

        The lease must be held, or be taken in this transaction: another publisher of this store
        would move the head.
        """
        name = series.name
        noted = fence.read().get(name)
        if noted is not None and noted.unit:
            rows = self._pending(name)
            if rows is None and fence is not self._head_file and not self.head(name).unit:
                raise StateError(
                    f"this store is new, and {fence.name} has {noted.unit} units of {name!r} "
                    "already. If the store was lost, restore its newest backup. For a new stream, "
                    "use another name or another place for the sink."
                )
            if rows is None or noted.unit < rows.unit:
                check_past(self, series, noted, fence.name)
            elif noted != rows.head:
                raise _fenced(fence, name, noted, rows.head, waits=True)
        self._fence_heads[name] = noted

    # -- transactions ------------------------------------------------------------------------------

    @contextmanager
    def together(self) -> Iterator[None]:
        """All commits, saves and marks inside are one transaction. Then `settle` shows units."""
        with self._lock:
            if self._together is not None:
                raise ConfigurationError("this store is in a transaction already: end it first.")
            try:
                with self._transaction():
                    self._together = {}
                    yield
                    self._check_not_failed()
                    units = self._together
            finally:
                self._together, self._failed = None, False
            self._note(units)

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

    def _note(self, units: Mapping[str, UnitRows]) -> None:
        """Remember the newest units, once they are committed."""
        if self._together is not None:
            self._together.update(units)
            return
        for name, rows in units.items():
            self._heads[name] = rows.head
            self._waiting[name] = None if self._fences[name] is None else rows


def _fenced(
    fence: Fence, series: str, found: Head | None, mine: Head, *, waits: bool
) -> FencedError:
    """The error of a store whose fence has another head than it should have."""
    if found is None:
        what = f"{fence.name} has no head of {series!r} any more: it was removed or replaced"
    elif found.unit < mine.unit:
        what = (
            f"{fence.name} was changed by others: it has unit {found.unit} of {series!r}, and not "
            "as this store released it"
        )
    else:
        what = (
            f"another copy of this store has released unit {found.unit} of {series!r}: "
            f"{fence.name} has another head than this store"
        )
    shown = f"Unit {mine.unit} of this store was shown to nobody. " if waits else ""
    return FencedError(
        f"{what}. {shown}Nothing more is released from here. Go on with the newest copy only."
    )


def _restore(before: Series, now: Series) -> str:
    """What to write so that a series goes on as it began, or another one begins."""
    old, new = ({**each.configuration, **each.facts} for each in (before, now))
    changed = [
        f"{name} was {old[name]} and is {new[name]} now"
        for name in sorted(before.configuration.keys() & now.configuration.keys())
        if old[name] != new[name]
    ]
    told = f"{'; '.join(changed)}. " if changed else ""
    return (
        f"{told}A series goes on as it began: write what was there again, or another name in "
        "[stream] for a new series. "
    )
