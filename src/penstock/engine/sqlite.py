"""The embedded store: one SQLite file that its owner writes and others may read while it grows.

The public tables (streams, releases, lines) are only ever appended to. The secret part (mechanism
state, source positions, data of open units) has a table of its own, sealed if there is a key. A
sealed row still shows how long it is, and so roughly how much was counted. Trust whoever may read
the file that far, and give others an export.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

from penstock.core.errors import (
    ConfigurationError,
    NotAStoreError,
    StateError,
    StoreUnavailableError,
)
from penstock.core.files import cannot
from penstock.engine.sealing import Key
from penstock.engine.signing import SigningKey
from penstock.engine.sql_store import SqlReader, SqlStore, SqlWriter
from penstock.engine.sql_store.schema import (
    ALERT_INDEX,
    PRIVATE_TABLES,
    Migration,
    alert_tables,
    first_tables,
    proof_columns,
)
from penstock.engine.sql_store.writer import TransactionKind


def _first_tables(file: sqlite3.Connection) -> None:
    for statement in first_tables(whole="INTEGER", content="BLOB").values():
        file.execute(statement)


def _proof_columns(file: sqlite3.Connection) -> None:
    for statement in proof_columns(content="BLOB"):
        file.execute(statement)


def _alert_tables(file: sqlite3.Connection) -> None:
    for statement in (*alert_tables(whole="INTEGER").values(), ALERT_INDEX):
        file.execute(statement)


MIGRATIONS: list[Migration] = [_first_tables, _proof_columns, _alert_tables]
"""The migration from each version of the tables to the next."""


def make_public_tables(file: sqlite3.Connection) -> None:
    """Bring an empty file to the newest version, without the private tables."""
    file.execute("CREATE TABLE penstock_store (version INTEGER NOT NULL)")
    file.execute("INSERT INTO penstock_store VALUES (?)", (len(MIGRATIONS),))
    for migrate in MIGRATIONS:
        migrate(file)
    for table in PRIVATE_TABLES:
        file.execute(f"DROP TABLE {table}")


def migrate_public_tables(file: sqlite3.Connection) -> None:
    """Bring a file without private tables to the newest version."""
    ((version,),) = file.execute("SELECT version FROM penstock_store").fetchall()
    for migrate in MIGRATIONS[version:]:
        migrate(file)
    if version < len(MIGRATIONS):
        file.execute("UPDATE penstock_store SET version = ?", (len(MIGRATIONS),))


class SQLiteReader(SqlReader):
    """A store for reading: never written to, and without its secret part.

    It may be open while a publisher commits: a unit is there whole or not at all.

    Parameters
    ----------
    path : str or os.PathLike
        The file: a store, an export, or a release log.
    """

    _file: sqlite3.Connection

    _driver = staticmethod(sqlite3.connect)
    """Opens a connection to a file. A simulated disk has a driver of its own."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).absolute()
        self.name = str(self.path)
        self._opened = self._identity()
        super().__init__()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.path.name}>"

    def _disconnect(self) -> None:
        with self._lock:  # closed under a thread that is reading, SQLite crashes
            self._file.close()

    def _connect(self) -> None:
        """Open the file read-only. Where nobody writes, it may lie in a folder that cannot be
        written.
        """
        if not self.path.is_file():
            raise ConfigurationError(
                f"there is no store {self.name}. Name the file of a store, or the configuration "
                "that names it. penstock run makes a store."
            )
        self._check_content()
        live = self.path.with_name(self.path.name + "-wal").exists()
        for mode in ("ro",) if live else ("ro", "ro&immutable=1"):
            file = None
            try:
                file = self._driver(
                    f"file:{quote(str(self.path))}?mode={mode}",
                    uri=True,
                    isolation_level=None,
                    check_same_thread=False,
                )
                file.execute("PRAGMA query_only = ON")
                file.execute("SELECT count(*) FROM sqlite_master").fetchone()
            except _ERRORS as error:  # the file may have gone just now
                if file is not None:
                    file.close()
                problem = self._problem(error, "read")
            else:
                file.text_factory = _text
                self._file = file
                return
        raise problem

    def _check_content(self) -> None:
        """Refuse a file that is no database. SQLite itself would overwrite a file of one byte.

        An empty file is accepted: SQLite takes it for a new database, and it holds nothing. A file
        with a journal beside it is left to SQLite: a power cut has torn what the journal repairs.
        """
        if not self.path.is_file():
            raise NotAStoreError(f"{self.name} is not a store: it is not a file.")
        start = b""
        with suppress(OSError), self.path.open("rb") as file:  # SQLite says what the matter is
            start = file.read(len(_FILE_HEADER))
        torn = self.path.with_name(self.path.name + "-journal").exists()
        if start not in (b"", _FILE_HEADER) and not torn:
            raise NotAStoreError(
                f"{self.name} cannot be read: file is not a database. It is not a store. It "
                "was not changed: name another file, or move this one away."
            )

    def _migrations(self) -> Sequence[Migration]:
        return MIGRATIONS

    def _tables(self) -> set[str]:
        return {name for (name,) in self._select("name FROM sqlite_master WHERE type = 'table'")}

    def refresh(self) -> bool:
        """Open the file again if another one has taken its place: an export may be replaced whole.

        While there is none, or none that can be read, the open one stays.
        """
        with self._lock:
            now = self._identity()
            if now is None or now == self._opened:
                return False
            old = self._file
            try:
                self._connect()
                self._series.clear()
                self._check_tables()
            except StateError:
                if self._file is not old:
                    self._file.close()
                self._file = old
                return False
            self._opened = now
            old.close()
            return True

    def _identity(self) -> tuple[int, int] | None:
        """Which file has the name now; None if there is none."""
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def data_version(self) -> int | None:
        """A number that changes when another connection commits."""
        with self._lock, self._explained("read"):
            ((version,),) = self._file.execute("PRAGMA data_version").fetchall()
        return int(version)

    def _unpadded(self, content: bytes) -> bytes:
        ((size,),) = self._select("* FROM pragma_page_size")
        return content.removeprefix(bytes(size))

    def _select(self, what: str, *values: object) -> list[Any]:
        with self._lock, self._explained("read"):
            return self._file.execute(f"SELECT {what}", values).fetchall()

    @contextmanager
    def _explained(self, action: str) -> Iterator[None]:
        """Turn errors of SQLite into ours."""
        try:
            yield
        except _ERRORS as error:
            raise self._problem(error, action) from None

    def _problem(self, error: sqlite3.Error | UnicodeDecodeError, action: str) -> StateError:
        """The error with advice. A closed connection has no error code, and no advice helps."""
        if isinstance(error, UnicodeDecodeError):  # SQLite's message quotes a damaged table
            error, code = sqlite3.DatabaseError("its tables are damaged"), sqlite3.SQLITE_CORRUPT
        else:  # the low byte is the primary code
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        message = str(error).rstrip(".")
        text = f"{self.name} cannot be {action}: {message}.{_ADVICE.get(code, '')}"
        if code == sqlite3.SQLITE_NOTADB:
            return NotAStoreError(text)
        return StoreUnavailableError(text) if code in _MAY_PASS else StateError(text)


class SQLiteWriter(SqlWriter, SQLiteReader):
    """A file for writing, by one process at a time."""

    _wait: float = 5
    """Seconds until a lock that another program holds is an error."""

    _mode = 0o600

    def _connect(self) -> None:
        """Open the one connection that writes. The files beside it get the same mode."""
        try:
            with suppress(FileExistsError):
                flags = os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC
                os.close(os.open(self.path, flags, self._mode))
            self._check_content()
            file = self._driver(
                self.path, timeout=self._wait, isolation_level=None, check_same_thread=False
            )
        except OSError as error:
            raise StateError(cannot("made", self.path, error)) from None
        except sqlite3.Error as error:
            raise self._problem(error, "opened") from None
        file.text_factory = _text
        self._file = file

    def _set_up(self) -> None:
        """Make every commit durable."""
        with self._explained("opened"):
            ((mode,),) = self._file.execute("PRAGMA journal_mode = WAL")
            self._file.execute("PRAGMA synchronous = FULL")
            # Replaced rows must not stay readable in the file.
            self._file.execute("PRAGMA secure_delete = ON")
            self._file.execute("PRAGMA temp_store = MEMORY")
        if mode != "wal":
            raise StateError(
                f"{self.name} lies where SQLite cannot keep a log beside it: put it on a local "
                "disk."
            )

    def _migrate(self, migrate: Migration) -> None:
        with self._explained("written"):
            migrate(self._file)

    def _execute(self, statement: str, *values: object) -> None:
        with self._explained("written"):
            self._file.execute(statement, values)

    def _execute_many(self, statement: str, rows: Sequence[tuple[object, ...]]) -> None:
        with self._explained("written"):
            self._file.executemany(statement, rows)

    @contextmanager
    def _whole(self, kind: TransactionKind) -> Iterator[None]:
        with self._explained("written"):
            try:
                if kind != "read":
                    level = "NORMAL" if kind == "repeatable" else "FULL"
                    self._file.execute(f"PRAGMA synchronous = {level}")
                self._file.execute("BEGIN" if kind == "read" else "BEGIN IMMEDIATE")
                yield
                self._file.execute("COMMIT")
            except BaseException:
                if self._file.in_transaction:  # a full disk may have ended it
                    self._file.execute("ROLLBACK")
                raise


class SQLiteStore(SqlStore, SQLiteWriter):
    """A store for publishing: everything of a unit commits in one durable transaction, or nothing
    does.

    Nothing of a closed unit stays in the file or in the log beside it. SQLite zeroes what is
    removed (`secure_delete`), but when it splits a page it leaves old copies of rows behind, which
    it never zeroes. So a page of zeros stands before every secret content. The content itself then
    lies in pages of its own, which SQLite never splits. `erase` empties the log.

    Parameters
    ----------
    path : str or os.PathLike
        The file. It is made if it is not there.
    head : str or os.PathLike, optional
        A small file, kept where a restored backup does not reach. Default: none.
    key : Key, optional
        The key that seals the secret part. Default: none; then only its owner may read the file.
    signing_key : SigningKey, optional
        The key that heads are signed with. Default: none; then they are not signed.
    wait : float
        Seconds until a lock that another program holds is an error. Default: 5.
    clock : Callable[[], float]
        The clock that leases go by. Default: the system's.

    >>> import tempfile
    >>> from penstock import Laplace
    >>> from penstock.released.series import Series
    >>> run = Laplace(epsilon="1").run(["north", "south"])
    >>> with tempfile.TemporaryDirectory() as folder, SQLiteStore(Path(folder) / "c.db") as store:
    ...     lease = store.begin(Series.of(run, name="visits"))
    ...     release = run.step([7, 0])
    ...     head = store.commit(
    ...         "visits",
    ...         1,
    ...         lines=run.ledger,
    ...         release=release,
    ...         state=run.snapshot(),
    ...         positions={"events.csv": 120},
    ...     )
    ...     store.last("visits").positions, store.verify("visits").account.worst
    ({'events.csv': 120}, Fraction(1, 1))
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        head: str | os.PathLike[str] | None = None,
        key: Key | None = None,
        signing_key: SigningKey | None = None,
        wait: float = 5,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.path = Path(path).absolute()
        self.name = str(self.path)
        self._wait = wait
        self._clock = clock
        SqlStore.__init__(self, head=head, key=key, signing_key=signing_key)

    def _erase(self) -> None:
        self.erase()

    def erase(self) -> bool:
        """Empty the log beside the file; a reader in the way only delays this."""
        with self._lock, self._explained("written"):
            self._file.execute("PRAGMA busy_timeout = 0")
            try:
                ((busy, *_),) = self._file.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            finally:
                self._file.execute(f"PRAGMA busy_timeout = {int(1000 * self._wait)}")
            return not busy

    def _now(self) -> float:
        return self._clock()

    def _check_privacy(self) -> None:
        if not self._sealed.sealed and self.path.stat().st_mode & 0o077:
            raise StateError(
                f"{self.name} can be read by others and its state is not sealed: chmod 600, or "
                "give a key."
            )

    def _check_tables(self) -> None:
        tables = self._tables()
        self._version()  # nothing is changed before it is known to be a store
        if tables and "secrets" not in tables:
            raise NotAStoreError(f"{self.name} is an export: it is for reading only.")
        self._set_up()
        self._bring_up_to_date()
        ((size,),) = self._select("* FROM pragma_page_size")
        self.padding = bytes(size)
        self._check_types()
        self._pad_old_secrets()

    def _check_types(self) -> None:
        """Refuse rows that nobody wrote: a disk that lost a page may leave such."""
        for table, types in _TYPES.items():
            wrong = " OR ".join(f"typeof({name}) <> '{kind}'" for name, kind in types.items())
            if self._select(f"1 FROM {table} WHERE {wrong} LIMIT 1"):
                raise StateError(
                    f"{self.name} is damaged: a row of {table} is not what was written. Restore "
                    "the newest backup. A head file tells if that one is too old."
                )

    def _pad_old_secrets(self) -> None:
        """Write secrets of version 0.1, which had no padding, anew, and leave no copy behind."""
        place = "FROM secrets WHERE substr(content, 1, ?) <> ? LIMIT 1"
        if not self._select(f"1 {place}", len(self.padding), self.padding):
            return
        with self._transaction():
            rows = self._select("stream, part, unit, key, content FROM secrets")
            self._execute("DELETE FROM secrets")  # without a condition: every page is zeroed
            self._execute_many(
                "INSERT INTO secrets (stream, part, unit, key, content) VALUES (?, ?, ?, ?, ?)",
                [
                    (*row, content if content.startswith(self.padding) else self.padding + content)
                    for *row, content in rows
                ],
            )


_TYPES = {
    "secrets": {
        "stream": "text",
        "part": "text",
        "unit": "integer",
        "key": "text",
        "content": "blob",
    },
    "leases": {
        "stream": "text",
        "owner": "text",
        "number": "integer",
        "since": "real",
        "expires": "real",
    },
    "marks": {"stream": "text", "sink": "text", "unit": "integer"},
    "alert_rules": {
        "stream": "text",
        "rule": "text",
        "about": "text",
        "since": "integer",
        "unit": "integer",
        "number": "integer",
        "sent": "integer",
        "raised": "text",
    },
}
"""The types of the columns that a publisher goes on from. SQLite itself accepts any."""

_ERRORS = (sqlite3.Error, UnicodeDecodeError)
"""What SQLite raises. Python decodes its message, which may quote damaged text."""

_FILE_HEADER = b"SQLite format 3\x00"
"""The first bytes of every SQLite database."""

_MAY_PASS = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PROTOCOL,
    sqlite3.SQLITE_NOMEM,
}
"""The errors after which the same call is worth a retry, once the cause is gone."""

_ADVICE = {
    sqlite3.SQLITE_BUSY: " Another program holds it: stop that one, or try again. "
    "Nothing was written.",
    sqlite3.SQLITE_FULL: " Nothing was written: make room on its disk and commit again.",
    sqlite3.SQLITE_READONLY: " Nothing was written: let its owner write the file and its folder.",
    sqlite3.SQLITE_CANTOPEN: " Let its owner read and write the file and its folder.",
    sqlite3.SQLITE_IOERR: " Nothing was written: see whether its disk is full or failing, and "
    "commit again.",
    sqlite3.SQLITE_TOOBIG: " Nothing was written: a value has at most 1 GB. penstock check says "
    "how many keys fit.",
    sqlite3.SQLITE_CORRUPT: " It is damaged: restore the newest backup. A head file tells if that "
    "one is too old.",
    sqlite3.SQLITE_NOTADB: " It is not a store.",
}


def _text(content: bytes) -> str:
    """Decode text so that damaged text can be told from text that was committed."""
    return content.decode(errors="surrogateescape")
