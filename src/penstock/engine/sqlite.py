"""The embedded store: one SQLite file that its owner writes and others may read while it grows.

The public tables (streams, releases, lines) are only ever appended to. What is secret (mechanism
state, source positions, data of open units) stands in one table of its own, sealed if there is a
key. What is sealed still shows how long it is, and so roughly how much was counted: whoever may
read the file without the key is trusted that far. Others get an export.
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

from penstock.core.errors import ConfigurationError, StateError
from penstock.engine.sealing import Key
from penstock.engine.sql_store import Kind, TableReader, TableStore, first_tables


def _first_tables(file: sqlite3.Connection) -> None:
    for statement in first_tables(whole="INTEGER", content="BLOB").values():
        file.execute(statement)


MIGRATIONS: list[Callable[[sqlite3.Connection], None]] = [_first_tables]
"""Each brings the tables from the version that is its place in this list to the next."""


class SQLiteReader(TableReader):
    """A store for reading: never written to, and without what is secret.

    It may be open while a publisher commits: a unit is there whole or not at all.
    """

    _file: sqlite3.Connection

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).absolute()
        self.name = self.path.name
        super().__init__()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"

    def _disconnect(self) -> None:
        with self._lock:  # closed under a thread that is reading, SQLite crashes
            self._file.close()

    def _connect(self) -> None:
        """Read-only, whatever happens; where the folder cannot be written and nobody is writing, as
        the file stands.
        """
        if not self.path.is_file():
            raise ConfigurationError(f"there is no store {self.name!r}.")
        live = self.path.with_name(self.name + "-wal").exists()
        for mode in ("ro",) if live else ("ro", "ro&immutable=1"):
            file = None
            try:
                file = sqlite3.connect(
                    f"file:{quote(str(self.path))}?mode={mode}",
                    uri=True,
                    isolation_level=None,
                    check_same_thread=False,
                )
                file.execute("PRAGMA query_only = ON")
                file.execute("SELECT count(*) FROM sqlite_master").fetchone()
            except sqlite3.Error as error:  # it may have gone just now
                if file is not None:
                    file.close()
                problem = self._problem(error, "read")
            else:
                file.text_factory = _text
                self._file = file
                return
        raise problem

    def _migrations(self) -> Sequence[Callable[[Any], None]]:
        return MIGRATIONS

    def _tables(self) -> set[str]:
        return {name for (name,) in self._select("name FROM sqlite_master WHERE type = 'table'")}

    def _select(self, what: str, *values: object) -> list[Any]:
        with self._lock, self._told("read"):
            return self._file.execute(f"SELECT {what}", values).fetchall()

    @contextmanager
    def _told(self, what: str) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise self._problem(error, what) from None

    def _problem(self, error: sqlite3.Error, what: str) -> StateError:
        """What happened, and what to do about it."""
        name = str(getattr(error, "sqlite_errorname", ""))
        told = str(error).rstrip(".")
        advice = next((advice for start, advice in _ADVICE.items() if name.startswith(start)), "")
        return StateError(f"{self.name} cannot be {what}: {told}.{advice}")


class SQLiteStore(TableStore, SQLiteReader):
    """A store for publishing: everything of a unit commits in one durable transaction, or nothing
    does.

    `head`: a small file, kept where a restored backup does not reach. `key`: what is secret is
    sealed with it. `wait`: seconds until a lock that somebody else holds is an error.

    >>> import tempfile
    >>> from penstock import Laplace
    >>> from penstock.released.series import Series
    >>> run = Laplace(epsilon="1").run(["north", "south"])
    >>> with tempfile.TemporaryDirectory() as folder, SQLiteStore(Path(folder) / "city.db") as store:
    ...     lease = store.begin(Series.of(run, name="visits"))
    ...     release = run.step([7, 0])
    ...     head = store.commit(
    ...         "visits", 1, lines=run.ledger, release=release, state=run.snapshot(), positions={"events.csv": 120}
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
        wait: float = 5,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.path = Path(path).absolute()
        self.name = self.path.name
        self._wait = wait
        self._clock = clock
        TableStore.__init__(self, head=head, key=key)

    def _tidy(self) -> None:
        """Bring what was sealed into the file and empty the one beside it; readers that are in the
        way only delay it.
        """
        with self._lock, self._told("written"):
            self._file.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def _now(self) -> float:
        return self._clock()

    def _ready(self) -> None:
        if self._key is None and self.path.stat().st_mode & 0o077:
            raise StateError(
                f"{self.name} can be read by others and its state is not sealed: chmod 600, or give a key."
            )

    # -- the file ----------------------------------------------------------------------------------

    def _connect(self) -> None:
        """The one connection that writes. SQLite gives the files beside it the same mode as this
        one.
        """
        try:
            with suppress(FileExistsError):
                made = os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
                os.close(made)
            file = sqlite3.connect(
                self.path, timeout=self._wait, isolation_level=None, check_same_thread=False
            )
        except OSError as error:
            raise StateError(f"{self.name} cannot be made: {error.strerror}.") from None
        except sqlite3.Error as error:
            raise self._problem(error, "opened") from None
        file.text_factory = _text
        self._file = file

    def _look_over(self) -> None:
        tables = self._tables()
        self._version()  # nothing is changed before it is known to be a store
        if tables and "secrets" not in tables:
            raise StateError(f"{self.name} is an export: it is for reading only.")
        with self._told("opened"):
            ((mode,),) = self._file.execute("PRAGMA journal_mode = WAL")
            self._file.execute("PRAGMA synchronous = FULL")
            self._file.execute(
                "PRAGMA secure_delete = ON"
            )  # what is replaced by something sealed must not stay readable
        if mode != "wal":
            raise StateError(
                f"{self.name} lies where SQLite cannot keep a log beside it: put it on a local disk."
            )
        self._bring_up_to_date()

    def _migrate(self, migrate: Callable[[Any], None]) -> None:
        with self._told("written"):
            migrate(self._file)

    def _execute(self, statement: str, *values: object) -> None:
        with self._told("written"):
            self._file.execute(statement, values)

    def _execute_many(self, statement: str, rows: Sequence[tuple[object, ...]]) -> None:
        with self._told("written"):
            self._file.executemany(statement, rows)

    @contextmanager
    def _whole(self, kind: Kind) -> Iterator[None]:
        with self._told("written"):
            try:
                self._file.execute("BEGIN" if kind == "read" else "BEGIN IMMEDIATE")
                yield
                self._file.execute("COMMIT")
            except BaseException:
                if self._file.in_transaction:  # a full disk may have ended it
                    self._file.execute("ROLLBACK")
                raise


# -- small things ----------------------------------------------------------------------------------

_ADVICE = {
    "SQLITE_BUSY": " Another program holds it: stop that one, or try again. Nothing was written.",
    "SQLITE_FULL": " Nothing was written: make room on its disk and commit again.",
    "SQLITE_READONLY": " Nothing was written: let its owner write the file and its folder.",
    "SQLITE_CANTOPEN": " Let its owner read and write the file and its folder.",
    "SQLITE_IOERR": " Nothing was written: see whether its disk is full or failing, and commit again.",
    "SQLITE_CORRUPT": " It is damaged: restore the newest backup. A head file tells if that one is too old.",
    "SQLITE_NOTADB": " It is not a store.",
}


def _text(content: bytes) -> str:
    """Text as it stands, so that damaged text can be told from text that was committed."""
    return content.decode(errors="surrogateescape")
