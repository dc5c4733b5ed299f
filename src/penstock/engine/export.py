"""The public part of a store in a file of its own, for readers without access to the store.

The file holds series, releases, ledger lines and alerts. It has no tables for the secret part.
`SQLiteReader` reads and verifies it like the store itself, and no publisher can go on from it.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import quote

from penstock.core.errors import ConfigurationError, StateError, StoreUnavailableError
from penstock.core.files import replacing
from penstock.engine.chain import Head, beginning
from penstock.engine.sql_store import SqlReader
from penstock.engine.sql_store.alert_rows import (
    INSERT_ALERT,
    WRITE_RULE,
    alert_rows,
    read_numbered,
    rule_row,
)
from penstock.engine.sql_store.schema import INSERT_RELEASE, OLDEST_READABLE
from penstock.engine.sql_store.verification import verified_units
from penstock.engine.sqlite import MIGRATIONS, make_public_tables, migrate_public_tables
from penstock.engine.store import Reader
from penstock.released.alerting import RuleProgress
from penstock.released.series import Series

_UNITS_PER_TRANSACTION = 64
"""Programs that read the file meanwhile wait no longer than for these units."""

_ALERTS_PER_TRANSACTION = 10_000

_MAX_WAIT_SECONDS = 30
"""How long to wait for programs that read the file."""


def export(
    reader: Reader,
    path: str | os.PathLike[str],
    *,
    series: Iterable[str] | None = None,
    replace: bool = False,
) -> dict[str, Head]:
    """Write the public part of a store into a file that anybody may read; return its heads.

    A new file appears when it is whole. An export that is there already gets the units that it
    lacks, if its newest one is in the store's past. Every link is recomputed before it is written.

    Parameters
    ----------
    reader : Reader
        The store.
    path : str or os.PathLike
        The file.
    series : Iterable[str], optional
        The names of the series to write. Default: all.
    replace : bool
        Whether to replace a file that is there. A store is never replaced. Default: False.

    >>> import tempfile
    >>> from penstock import Laplace
    >>> from penstock.engine.sqlite import SQLiteReader, SQLiteStore
    >>> run = Laplace(epsilon="1").run(["north", "south"])
    >>> with tempfile.TemporaryDirectory() as folder, SQLiteStore(Path(folder) / "c.db") as store:
    ...     lease = store.begin(Series.of(run, name="visits"))
    ...     unit = {"release": run.step([7, 0]), "lines": run.ledger, "state": run.snapshot()}
    ...     head = store.commit("visits", 1, positions={}, **unit)
    ...     heads = export(store, Path(folder) / "open.db")
    ...     with SQLiteReader(Path(folder) / "open.db") as copy:
    ...         copy.verify("visits").head == head == heads["visits"]
    True
    """
    if not isinstance(reader, SqlReader):
        raise ConfigurationError(
            f"an export is made of a store in tables, not of a {type(reader).__name__}."
        )
    path = Path(path).absolute()
    wanted = [
        reader.series(name)
        for name in (reader.series_names if series is None else dict.fromkeys(series))
    ]
    try:
        found = _found(path)
        if found == "store":
            raise StateError(
                f"{path.name} is a store, and an export would destroy it: give the export another "
                "name."
            )
        if found == "export" and not replace:
            with _open(path) as file:
                with _transaction(file):
                    migrate_public_tables(file)
                return {
                    each.name: _bring_up_to_date(reader, each, file, path.name) for each in wanted
                }
        if found and not replace:
            raise StateError(
                f"{path.name} is there already and is no export of this version: replace it, or "
                "take another name."
            )
        return _anew(reader, wanted, path)
    except sqlite3.Error as error:
        raise StateError(
            f"the export {path.name} cannot be written: {error}. What it had is still there."
        ) from None
    except OSError as error:
        raise StateError(
            f"the export {path.name} cannot be written: {error.strerror}. What it had is still "
            "there."
        ) from None


def _found(path: Path) -> str:
    """The kind of file: "" if there is none, "export", "store", or "something else"."""
    if not path.exists():
        return ""
    try:
        return _kind(path, "ro")
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorname == "SQLITE_NOTADB":
            return "something else"
        if not path.with_name(f"{path.name}-journal").exists():
            raise
        return _kind(
            path, "rw"
        )  # an export that was killed: SQLite takes back what was half written


def _kind(path: Path, mode: str) -> str:
    with closing(
        sqlite3.connect(f"file:{quote(str(path))}?mode={mode}", uri=True, timeout=_MAX_WAIT_SECONDS)
    ) as file:
        tables = {
            name for (name,) in file.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        }
        if "penstock_store" not in tables:
            return "something else"
        if not tables.isdisjoint({"secrets", "leases"}):
            return "store"
        ((version,),) = file.execute("SELECT version FROM penstock_store")
        readable = OLDEST_READABLE <= version <= len(MIGRATIONS)
        return "export" if readable else "something else"


def _anew(reader: SqlReader, wanted: Iterable[Series], path: Path) -> dict[str, Head]:
    """Write the whole export; killed at any point, the old file stays."""
    with replacing(path) as fresh:
        with _open(fresh) as file:
            with _transaction(file):
                make_public_tables(file)
            heads = {each.name: _bring_up_to_date(reader, each, file, path.name) for each in wanted}
        fresh.chmod(0o644)
    return heads


def _bring_up_to_date(
    reader: SqlReader, series: Series, file: sqlite3.Connection, name: str
) -> Head:
    rules = reader.alert_rules(series.name)  # before the head: no rule is ahead of the units
    newest = reader.head(series.name)
    with _transaction(file):
        have = _had(series, file, name)
        if have.unit > newest.unit or reader.at(series.name, have.unit) != have:
            raise StateError(
                f"the export {name} has another past than the store: unit {have.unit} of "
                f"{series.name!r} is not in it. Either the store was restored from an old backup, "
                "or they do not belong together. Nothing was written."
            )
    units = verified_units(reader, series, newest, after=have)
    while some := list(islice(units, _UNITS_PER_TRANSACTION)):
        with _transaction(file):
            if _had(series, file, name).unit != some[0][0][0] - 1:
                raise StoreUnavailableError(
                    f"the export {name} is being written by another program too: try again."
                )
            _write(file, series.name, some)
    _copy_alerts(reader, series.name, rules, file)
    return newest


def _copy_alerts(
    reader: SqlReader, series: str, rules: Sequence[RuleProgress], file: sqlite3.Connection
) -> None:
    """Add the alerts that the export lacks, up to where each rule was when it was read."""
    for rule in rules:
        while True:
            with _transaction(file):
                have = file.execute(
                    "SELECT coalesce(max(number), 0) FROM alerts WHERE stream = ? AND rule = ?",
                    (series, rule.rule),
                )
                ((number,),) = have.fetchall()
                last = min(rule.number, number + _ALERTS_PER_TRANSACTION)
                events = read_numbered(reader, series, rule.rule, number + 1, last)
                file.executemany(INSERT_ALERT, alert_rows(series, events, number + 1))
                if last >= rule.number:
                    file.execute(WRITE_RULE, rule_row(series, rule))
                    break


def _had(series: Series, file: sqlite3.Connection, name: str) -> Head:
    """The newest unit that the export has of a series, which is added if it is new."""
    kept = file.execute("SELECT about FROM streams WHERE name = ?", (series.name,)).fetchall()
    if not kept:
        file.execute("INSERT INTO streams (name, about) VALUES (?, ?)", (series.name, series.about))
    elif kept != [(series.about,)]:
        raise StateError(
            f"the export {name} has another series {series.name!r} than the store. Nothing was "
            "written."
        )
    last = "SELECT unit, link FROM releases WHERE stream = ? ORDER BY unit DESC LIMIT 1"
    rows = file.execute(last, (series.name,)).fetchall()
    return Head(*rows[0]) if rows else Head(0, beginning(series.about))


def _write(file: sqlite3.Connection, series: str, units: Iterable[tuple[Any, list[Any]]]) -> None:
    for row, lines in units:
        file.executemany(
            "INSERT INTO lines VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [(series, *line) for line in lines],
        )
        file.execute(INSERT_RELEASE, (series, *row))


@contextmanager
def _open(path: Path) -> Iterator[sqlite3.Connection]:
    """Open the file so that nothing is left beside it: it can be read where nothing can be
    written.
    """
    with closing(sqlite3.connect(path, timeout=_MAX_WAIT_SECONDS, isolation_level=None)) as file:
        file.execute("PRAGMA journal_mode = DELETE")
        file.execute("PRAGMA synchronous = EXTRA")
        yield file


@contextmanager
def _transaction(file: sqlite3.Connection) -> Iterator[None]:
    file.execute("BEGIN IMMEDIATE")
    try:
        yield
        file.execute("COMMIT")
    except BaseException:
        if file.in_transaction:
            file.execute("ROLLBACK")
        raise
