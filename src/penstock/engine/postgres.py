"""The store of a team: tables of a PostgreSQL database, for several publishers and readers.

The tables stand in the first schema of the connection's `search_path` that exists. Give the store
a schema of its own, such as `postgresql://publisher@db/city?options=-csearch_path%3Dpenstock`. A
role that reads needs no more than::

    GRANT USAGE ON SCHEMA penstock TO reader;
    GRANT SELECT ON penstock_store, streams, releases, lines, marks, alert_rules, alerts
        TO reader;

and never gets `secrets` (mechanism state, source positions, data of open units) or `leases`.
Without a key, the secret part is as readable as that table, its backups and the server's log of
statements: give a key.

Leases go by the database's clock, which all publishers share. A lost connection is made again by
the next call. If it was lost during a commit, that is an `UncertainError`; the next call waits
until the database has ended that commit, so that `head` and `last` tell how it went. A server that
lost a confirmed commit, such as a standby that was behind and took over, is refused. A pooler must
keep sessions whole.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from penstock.core.errors import ConfigurationError, StateError, StoreUnavailableError
from penstock.core.optional import require
from penstock.engine.sealing import Key
from penstock.engine.signing import SigningKey
from penstock.engine.sql_store import SqlReader, SqlStore, UncertainError
from penstock.engine.sql_store.schema import (
    ALERT_INDEX,
    VERSION_TABLE,
    Migration,
    UnitRows,
    alert_tables,
    first_tables,
    proof_columns,
)
from penstock.engine.sql_store.sealed_state import PENDING
from penstock.engine.sql_store.verification import check_past
from penstock.engine.sql_store.writer import TransactionKind

if TYPE_CHECKING:
    import psycopg

_DEFAULTS = {
    "application_name": "penstock",
    "connect_timeout": "10",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "60000",
}
"""How a connection is made and when it counts as lost. The address may say otherwise."""

CHANNEL = "penstock_units"
"""Where the database announces the series of a unit that was shown."""

LISTEN_SECONDS = 1.0
"""How often whoever listens looks whether to stop."""

_MAX_IDLE_SECONDS = 300
"""After this time the server ends a publisher's idle transaction, which would block all others."""

_FIRST_TABLES = first_tables(whole="BIGINT", content="BYTEA")
_ALERT_TABLES = alert_tables(whole="BIGINT")
_TABLES = (*_FIRST_TABLES, *_ALERT_TABLES)


def _first_tables(server: psycopg.Connection[Any]) -> None:
    for statement in _FIRST_TABLES.values():
        server.execute(statement.encode())
    for column in ("releases ALTER COLUMN body", "secrets ALTER COLUMN content"):
        # Noise and sealed content cannot be compressed.
        server.execute(f"ALTER TABLE {column} SET STORAGE EXTERNAL".encode())


def _proof_columns(server: psycopg.Connection[Any]) -> None:
    for statement in proof_columns(content="BYTEA"):
        server.execute(statement.encode())


def _alert_tables(server: psycopg.Connection[Any]) -> None:
    for statement in (*_ALERT_TABLES.values(), ALERT_INDEX):
        server.execute(statement.encode())


MIGRATIONS: list[Migration] = [_first_tables, _proof_columns, _alert_tables]
"""The migration from each version of the tables to the next."""


class _AlreadyThereError(StateError):
    """A row that was to be inserted is there already: another publisher has written it."""


class PostgresReader(SqlReader):
    """A store for reading: never written to, and without its secret part.

    Parameters
    ----------
    url : str
        The address, such as postgresql://reader@localhost/city.
    password : str, optional
        The password. Default: as in the address, or in libpq's own files.
    wait : float
        Seconds until a lock that another program holds is an error. Default: 5.
    timeout : float
        Seconds after which a statement is given up. Default: 60.
    """

    _server: psycopg.Connection[Any]
    _session = "; SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY"

    def __init__(
        self, url: str, *, password: str | None = None, wait: float = 5, timeout: float = 60
    ) -> None:
        self._prepare(url, password, wait, timeout)
        super().__init__()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"

    def _prepare(self, url: str, password: str | None, wait: float, timeout: float) -> None:
        self._psycopg = require("psycopg", "postgres", "a store in PostgreSQL")
        self._parameters = self._parsed(url, password)
        self.name = (
            f"database {self._parameters.get('dbname', '')!r}"
            if "dbname" in self._parameters
            else "the database"
        )
        for what, seconds in (("wait", wait), ("timeout", timeout)):
            if not 0 < seconds <= 86_400:
                raise ConfigurationError(
                    f"{what} must be above 0 and at most 86400 seconds, not {seconds}.",
                    parameter=what,
                )
        self._limits = (
            f"SET lock_timeout = {max(1, int(wait * 1000))}; "
            f"SET statement_timeout = {max(1, int(timeout * 1000))}"
        )
        self._inside = False
        self._closed = False
        self._connected_once = False

    def _parsed(self, url: str, password: str | None) -> dict[str, Any]:
        """The address in parts. A character of a password that is not encoded may end up in any
        part, so the error shows none of them.
        """
        try:
            found: dict[str, Any] = self._psycopg.conninfo.conninfo_to_dict(url)
        except self._psycopg.Error:
            found = {"host": "@"}
        if any("@" in str(found.get(part, "")) for part in ("host", "port", "dbname")):
            raise ConfigurationError(
                "url must be the address of a PostgreSQL database, such as "
                "postgresql://publisher@localhost/penstock. Signs such as @ and / in a password "
                "must be percent-encoded: better give the password apart.",
                parameter="url",
            )
        given = {} if password is None else {"password": password}
        return _DEFAULTS | found | given | {"client_encoding": "utf8"}

    def listen(self, woken: Callable[[], None], stop: Callable[[], bool]) -> None:
        """Call a function whenever a unit is shown, until asked to stop. It takes this connection.

        Parameters
        ----------
        woken : callable
            Called for each unit that was shown, and after each lost connection.
        stop : callable
            Asked about once a second whether to end.
        """
        while not stop():
            try:
                server = self._live()
                server.execute(f"LISTEN {CHANNEL}".encode())
                woken()
                while not stop():
                    for _ in server.notifies(timeout=LISTEN_SECONDS, stop_after=1):
                        woken()
            except self._psycopg.Error as error:
                self._lost(error)
                self._server.close()
            except StoreUnavailableError:
                time.sleep(LISTEN_SECONDS)

    # -- the connection ----------------------------------------------------------------------------

    def _connect(self) -> None:
        try:
            server = self._psycopg.connect(**self._parameters, autocommit=True)
        except self._psycopg.Error as error:
            told = (str(error).splitlines() or [""])[0].rstrip(".")
            hidden = self._parameters.get("password")
            told = told.replace(hidden, "…") if hidden else told
            kind = StateError if self._refused(error) else StoreUnavailableError
            raise kind(f"{self.name} cannot be reached: {told}.") from None
        self._server = server
        try:
            server.execute(f"{self._limits}{self._session}")
            ((schema,),) = server.execute("SELECT current_schema()")
            if schema is None:
                raise ConfigurationError(
                    f"{self.name} has no schema of the search_path: CREATE SCHEMA first, or grant "
                    "USAGE on it."
                )
            self._connected()
        except self._psycopg.Error as error:
            server.close()
            raise self._problem(error, "opened") from None
        except BaseException:
            server.close()
            raise
        self._connected_once = True

    def _refused(self, error: psycopg.Error) -> bool:
        """Whether the server refuses this connection for good: a wrong password, no such database.

        The client has no SQLSTATE for a connection that was never made. The first connection counts
        as refused if the server takes connections just then. A later one is worth a retry.
        """
        if error.sqlstate is not None:
            return error.sqlstate[:2] in _REFUSED
        if self._connected_once:
            return False
        pq = self._psycopg.pq
        address = self._psycopg.conninfo.make_conninfo(**self._parameters)
        return bool(pq.PGconn.ping(address.encode()) == pq.Ping.OK)

    def _connected(self) -> None:
        """Prepare a new connection."""

    def _disconnect(self) -> None:
        self._closed = True
        self._server.close()

    def _live(self) -> psycopg.Connection[Any]:
        """The connection, made again if it was lost. Inside a transaction, which was lost with it,
        that is an error.
        """
        if self._closed:
            raise StateError(f"{self.name} was closed here.")
        if self._server.closed:
            if self._inside:
                raise StoreUnavailableError(
                    f"{self.name}: the connection was lost. Nothing was written."
                )
            self._series.clear()
            self._connect()
            try:
                self._still_the_same()
            except BaseException:
                self._server.close()
                raise
        return self._server

    def _still_the_same(self) -> None:
        """Refuse a server whose store is another one, or an older one."""
        SqlReader._check_tables(self)

    def _lost(self, error: psycopg.Error) -> bool:
        """Whether the connection went with this error; if so it is closed."""
        if not self._server.closed and error.diag.severity_nonlocalized in ("FATAL", "PANIC"):
            self._server.close()
        return self._server.closed

    def _rows(self, statement: str, values: Sequence[object], what: str) -> list[Any]:
        with self._lock:
            once_more = not self._inside
            while True:
                server = self._live()
                try:
                    cursor = server.execute(
                        statement.replace("?", "%s").encode(), values, binary=True
                    )
                    return cursor.fetchall() if cursor.description else []
                except self._psycopg.Error as error:
                    if not (self._lost(error) and once_more):
                        raise self._problem(error, what) from None
                    once_more = False

    def _select(self, what: str, *values: object) -> list[Any]:
        return self._rows(f"SELECT {what}", values, "read")

    def _tables(self) -> set[str]:
        names = {
            name
            for (name,) in self._select(
                "tablename::text FROM pg_tables WHERE schemaname = current_schema()"
            )
        }
        return names & {VERSION_TABLE, *_TABLES}

    def _migrations(self) -> Sequence[Migration]:
        return MIGRATIONS

    def _problem(self, error: psycopg.Error, what: str) -> StateError:
        """The error with advice, and nothing that could quote a value."""
        state = error.sqlstate or ""
        if self._server.closed:
            told = "the connection was lost"
        elif state[:2] in _TELLING:
            told = (error.diag.message_primary or type(error).__name__).rstrip(".")
        else:
            told = f"{type(error).__name__} {state}".rstrip()
        advice = next((advice for start, advice in _ADVICE.items() if state.startswith(start)), "")
        may_pass = self._server.closed or state.startswith(_MAY_PASS)
        kind = StoreUnavailableError if may_pass else StateError
        if state == "23505":
            kind = _AlreadyThereError
        return kind(f"{self.name} cannot be {what}: {told}.{advice}")


class PostgresStore(SqlStore, PostgresReader):
    """A store for publishing: everything of a unit commits in one durable transaction, or nothing
    does.

    A secret part that was there before a key was given is sealed, and the table is written anew.
    The server's log of changes and its backups may hold the old one longer.

    A transaction locks the row of the lease until it ends. Of two publishers of one series, the
    second waits and then finds itself overtaken. Publishers of other series go on.

    Parameters
    ----------
    url : str
        The address, such as postgresql://publisher@localhost/city.
    password : str, optional
        The password. Default: as in the address, or in libpq's own files.
    head : str or os.PathLike, optional
        A small file, kept where a restored backup does not reach. Default: none.
    key : Key, optional
        The key that seals the secret part. Default: none.
    signing_key : SigningKey, optional
        The key that heads are signed with. Default: none; then they are not signed.
    wait : float
        Seconds until a lock that another program holds is an error. Default: 5.
    timeout : float
        Seconds after which a statement is given up. Default: 60.
    clock : Callable[[], float], optional
        The clock that leases go by. Default: the database's.
    """

    _session = f"; SET idle_in_transaction_session_timeout = {_MAX_IDLE_SECONDS * 1000}"
    _locking = " FOR UPDATE"

    def __init__(
        self,
        url: str,
        *,
        password: str | None = None,
        head: str | os.PathLike[str] | None = None,
        key: Key | None = None,
        signing_key: SigningKey | None = None,
        wait: float = 5,
        timeout: float = 60,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._prepare(url, password, wait, timeout)
        self._clock = clock
        self._backend: tuple[int, object] | None = None
        self._left: tuple[int, object] | None = None
        SqlStore.__init__(self, head=head, key=key, signing_key=signing_key)

    def _insert(self, rows: UnitRows) -> None:
        """Add a unit to the public tables, and announce it when the transaction commits."""
        super()._insert(rows)
        self._execute("SELECT pg_notify(?, ?)", CHANNEL, rows.release[0][:1000])

    def _now(self) -> float:
        if self._clock is not None:
            return self._clock()
        ((now,),) = self._select("extract(epoch FROM clock_timestamp())::float8")
        return float(now)

    def _erase(self) -> None:
        """Write the table of secrets anew: replaced rows would stay in it until their place is
        needed.
        """
        self._rows("VACUUM (FULL) secrets", (), "written")

    # -- the connection ----------------------------------------------------------------------------

    def _connected(self) -> None:
        ((fsync, durable, encoding, pid),) = self._server.execute(
            "SELECT current_setting('fsync'), current_setting('synchronous_commit'), "
            "current_setting('server_encoding'), pg_backend_pid()"
        )
        if fsync != "on":
            raise StateError(
                f"{self.name} would lose units in a power cut, and draw them again: set fsync = on."
            )
        if encoding != "UTF8":
            raise StateError(f"{self.name} is kept in {encoding}: create one WITH ENCODING 'UTF8'.")
        stricter = durable == "remote_apply"
        self._durable = "" if stricter else "; SET LOCAL synchronous_commit = on"
        self._left = self._left or self._backend
        started = self._server.execute(
            "SELECT backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()"
        ).fetchall()
        # Behind a pooler the backend may serve another client next.
        mine = started and pid == self._server.info.backend_pid
        self._backend = (pid, started[0][0]) if mine else None

    def _check_tables(self) -> None:
        self._bring_up_to_date()

    def _still_the_same(self) -> None:
        """End what the lost connection left open, wait for it, and refuse a server that lost a
        confirmed commit.
        """
        super()._still_the_same()
        try:
            if self._left is not None:
                self._server.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = %s "
                    "AND backend_start = %s AND usename = current_user",
                    self._left,
                )
            self._server.execute("BEGIN; LOCK TABLE leases IN EXCLUSIVE MODE; ROLLBACK")
        except self._psycopg.Error as error:
            raise self._problem(error, "read") from None
        self._left = None
        self._compare_after_outage()

    # -- transactions ------------------------------------------------------------------------------

    def _execute(self, statement: str, *values: object) -> None:
        self._rows(statement, values, "written")

    def _execute_many(self, statement: str, rows: Sequence[tuple[object, ...]]) -> None:
        try:
            self._live().cursor().executemany(statement.replace("?", "%s").encode(), rows)
        except self._psycopg.Error as error:
            self._lost(error)
            raise self._problem(error, "written") from None

    def _show(self, pending: Mapping[str, UnitRows]) -> None:
        """Show units as the base does, except those that another publisher has just shown."""
        try:
            super()._show(pending)
        except _AlreadyThereError:
            left = {}
            for name, rows in pending.items():
                if self._pending(name) == rows:
                    left[name] = rows
                else:
                    check_past(self, self.series(name), rows.head, "what was stored here")
            if len(left) == len(pending):
                raise
            if left:
                self._show(left)

    def _move(self, series: str, rows: UnitRows) -> None:
        """Move one unit as the base does, in one exchange with the server.

        No lease is needed: of two publishers that move the same unit, the second waits for the
        first and then finds nothing to remove.
        """
        server = self._live()
        together = self._psycopg.Pipeline.is_supported()  # not by libpq before version 14
        try:
            with server.pipeline() if together else nullcontext():
                removed = server.execute(
                    "DELETE FROM secrets WHERE stream = %s AND part = %s AND unit = %s",
                    (series, PENDING, rows.unit),
                )
                self._insert(rows)
        except self._psycopg.Error as error:
            self._lost(error)
            raise self._problem(error, "written") from None
        if removed.rowcount != 1:
            raise _AlreadyThereError(
                f"{self.name}: unit {rows.unit} of {series!r} does not wait to be shown any more. "
                "Nothing was written."
            )

    def _migrate(self, migrate: Migration) -> None:
        try:
            migrate(self._live())
        except self._psycopg.Error as error:
            self._lost(error)
            raise self._problem(error, "written") from None

    @contextmanager
    def _whole(self, kind: TransactionKind) -> Iterator[None]:
        self._start(kind)
        self._inside = True
        try:
            try:
                yield
            except BaseException:
                self._undo()
                raise
            self._finish(kind)
        finally:
            self._inside = False

    def _start(self, kind: TransactionKind) -> None:
        once_more = True
        while True:
            server = self._live()
            if kind == "read":
                statement = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
            else:
                durable = (
                    "; SET LOCAL synchronous_commit = off"
                    if kind == "repeatable"
                    else self._durable
                )
                statement = (
                    f"BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE{durable}"
                    f"{_LOCKS.get(kind, '')}"
                )
            try:
                server.execute(statement.encode())
                return
            except self._psycopg.Error as error:
                lost = self._lost(error)
                self._undo()
                if not (lost and once_more):
                    raise self._problem(error, "written") from None
                once_more = False
            except BaseException:
                self._undo()
                raise

    def _undo(self) -> None:
        """Roll the transaction back; close a connection that cannot do that."""
        if self._server.closed:
            return
        try:
            self._server.execute("ROLLBACK")
        except BaseException as error:
            self._server.close()
            if not isinstance(error, self._psycopg.Error):
                raise

    def _finish(self, kind: TransactionKind) -> None:
        """Commit. An error that the server reports means that nothing was written. Without a
        report, only the store can tell.
        """
        server = self._live()
        if server.info.transaction_status != self._psycopg.pq.TransactionStatus.INTRANS:
            self._undo()
            raise StateError(
                f"{self.name}: something in this transaction failed. Nothing of it was written."
            )
        try:
            # A commit that waits for a standby must not be given up: it would stand here and
            # perhaps not there.
            cursor = server.execute("SET LOCAL statement_timeout = 0; COMMIT")
            while cursor.nextset():
                pass
            done = cursor.statusmessage == "COMMIT"
        except self._psycopg.Error as error:
            if not self._lost(error):
                self._undo()
                raise self._problem(error, "written") from None
            if kind == "read":
                raise self._problem(error, "read") from None
            raise UncertainError(
                f"{self.name}: the connection was lost during a commit, so all of it is written or "
                "nothing. Ask the store which before going on: a unit that it has must not be "
                "drawn again."
            ) from None
        except BaseException:
            server.close()
            raise
        if not done:
            raise StateError(f"{self.name} has not taken the transaction. Nothing was written.")


_LOCKS = {
    "alone": "; LOCK TABLE leases, secrets IN EXCLUSIVE MODE",
    "migrate": "; SELECT pg_advisory_xact_lock(hashtext('penstock'), hashtext(current_schema()))",
}
"""The lock that each kind of transaction takes first."""

_TELLING = ("08", "25", "28", "3D", "42", "53", "54", "55", "57", "58")
"""The classes of SQLSTATE whose message names things of the database and never a value."""

_REFUSED = ("28", "3D")
"""The classes of SQLSTATE that refuse a connection for good: a wrong password, no such database."""

_MAY_PASS = ("08", "25006", "40", "53", "55P03", "57", "58")
"""The SQLSTATEs after which the same call is worth a retry, once the cause is gone."""

_ADVICE = {
    "55P03": " Another program holds it: stop that one, or try again. Nothing was written.",
    "40P01": " Another program was in the way: try again. Nothing was written.",
    "57014": " It took too long: see what holds the server up, or give it a longer timeout. "
    "Nothing was written.",
    "53": " Nothing was written: make room on the server and commit again.",
    "54": " Nothing was written: it is more than PostgreSQL takes at once. penstock check says how "
    "many keys fit.",
    "25006": " Nothing was written: this server, or this connection, only reads.",
    "42501": " Grant it to this role.",
    "58": " Nothing was written: see whether the server's disk is full or failing, and commit "
    "again.",
    "XX001": " It is damaged: restore the newest backup. A head file tells if that one is too old.",
    "XX002": " An index is damaged: REINDEX it.",
}
