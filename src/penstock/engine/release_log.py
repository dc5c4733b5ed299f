"""A release log in a file: a store with one series and without a secret part.

Version 0.1 wrote files of another kind. They can be read here, and no longer appended to.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import msgspec

from penstock.budget.ledger import Line
from penstock.core.errors import ConfigurationError, InputError, StateError
from penstock.core.released import Released
from penstock.engine.sql_store import SqlWriter
from penstock.engine.sqlite import (
    SQLiteReader,
    SQLiteWriter,
    make_public_tables,
    migrate_public_tables,
)
from penstock.engine.store import SeriesLog
from penstock.private.run import Run
from penstock.released import encoding
from penstock.released.log import Log
from penstock.released.series import Series

_OLD_FORMAT = ["penstock log", 1]
_OLD_TABLES = {"about", "units"}


def open_log(path: str | os.PathLike[str], run: Run | None = None, *, name: str = "") -> Log:
    """Open a release log in a file.

    A unit is in the file whole or not at all, with the ledger lines that paid for it. Others may
    read the file while it grows. If the run was kept and its last release did not reach the log
    before a crash, that release is appended now.

    Parameters
    ----------
    path : str or os.PathLike
        The file. With a run it is made if it is not there.
    run : Run, optional
        The run whose releases are appended, each before the next step. A log begins with unit 1.
        Default: None, the file is opened for reading only.
    name : str
        The name of the series in a new file. Default: the file's name without its ending.

    >>> import tempfile
    >>> from penstock import Laplace
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run = Laplace(epsilon="1").run(["north", "south"])
    ...     with open_log(f"{folder}/city.log", run) as log:
    ...         log.append(run.step([7, 0]))
    ...     with open_log(f"{folder}/city.log") as log:
    ...         log
    <FileLog of laplace over 2 keys, Guarantee(epsilon=1, window=1), units 1..1>
    """
    if run is None:
        return read_old_log(path) or FileLog(SQLiteReader(path))
    series = Series.of(run, name=name or Path(path).stem)
    log = FileLog(LogWriter(path, series), run)
    try:
        if not len(log) and run.unit > 1:
            raise StateError(
                f"{Path(path).name} has no units yet and the run stands at unit {run.unit}: a log "
                "file begins with unit 1. Open it before the first step."
            )
        log.catch_up(run)
    except BaseException:
        log.close()
        raise
    return log


class FileLog(SeriesLog):
    """A release log in a file, for reading or, with a run, for appending."""

    def __init__(self, file: SQLiteReader, run: Run | None = None) -> None:
        self._file = file
        self._run = run
        try:
            names = file.series_names
            if len(names) != 1:
                raise StateError(f"{file.name} is not a release log: it has {len(names)} series.")
            super().__init__(file, names[0])
        except BaseException:
            file.close()
            raise

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _add(self, release: Released) -> None:
        if self._run is None or not isinstance(self._file, LogWriter):
            raise InputError(
                f"unit {release.unit}: {self._file.name} was opened for reading: append where it "
                "is published."
            )
        self._file.append(release, _lines(self._run, release.unit))


def _lines(run: Run, unit: int) -> list[Line]:
    """The ledger lines of a unit, if the run still has them."""
    if unit > run.unit:
        raise InputError(f"unit {unit} is not of this run, which stands at unit {run.unit}.")
    known = run.ledger
    forgotten = unit <= run.unit - run.guarantee.window
    if forgotten and not any(line.unit <= unit for line in known):
        raise InputError(
            f"unit {unit}: the run stands at unit {run.unit} and no longer has the ledger lines of "
            "this unit. Append each release before the next step, or start the run with "
            "record=True."
        )
    return [line for line in known if line.unit == unit]


class LogWriter(SQLiteWriter):
    """Appends to the one series of a release log in a file."""

    _mode = 0o666  # public: as the process' umask allows

    def __init__(self, path: str | os.PathLike[str], series: Series) -> None:
        self.path = Path(path).absolute()
        self.name = self.path.name
        self._declared = series
        SqlWriter.__init__(self)

    def close(self) -> None:
        """Close the file. If nobody reads it now, nothing is left beside it, so that it can be
        read where nothing can be written.
        """
        with suppress(sqlite3.Error):  # closed already, or being read
            self._file.execute("PRAGMA busy_timeout = 0")
            self._file.execute("PRAGMA journal_mode = DELETE")
        super().close()

    def append(self, release: Released, lines: Iterable[Line]) -> None:
        """Add the next unit, all of it or nothing."""
        (name,) = self.series_names
        lines = tuple(lines)
        self._check_unit(name, release.unit, lines, release)
        with self._transaction():
            self._append(name, release.unit, lines, release)

    def _check_tables(self) -> None:
        """Make the tables of a new file; refuse a file of something else."""
        tables = self._tables()
        if tables >= _OLD_TABLES:
            raise StateError(
                f"{self.name} is a release log of version 0.1: it can be read, and not appended "
                "to. Begin another file."
            )
        self._version()
        if "secrets" in tables:
            raise StateError(f"{self.name} is the store of a publisher, not a release log.")
        self._set_up()
        with self._transaction():
            self._migrate(migrate_public_tables if self._tables() else make_public_tables)
            if not self.series_names:
                self._add_series(self._declared)
        for name in self.series_names:
            changed = self.series(name).differences(replace(self._declared, name=name))
            if changed:
                raise StateError(
                    f"{self.name} is the log of another series: its {', '.join(changed)} differs."
                )


# -- files of version 0.1 --------------------------------------------------------------------------


class _OldLogReader(SQLiteReader):
    """A file that may be a release log of version 0.1."""

    def _check_tables(self) -> None:
        self.is_log = self._tables() >= _OLD_TABLES

    def log(self) -> Log:
        """All of it, in memory."""
        rows = self._select("name, value FROM about")
        about = {name: json.loads(value) for name, value in rows}
        if about["format"] != _OLD_FORMAT:
            raise ValueError("another format")
        guarantee = encoding.rich_guarantee(about["guarantee"])
        log = Log(
            encoding.rich_domain(about["domain"]),
            guarantee=guarantee,
            mechanism=about["mechanism"],
            configuration=about["configuration"],
            name=about["name"],
        )
        body: Released | None = None
        for unit, body_of, flags, content in self._select(
            "one.unit, one.body_of, one.flags, other.body FROM units AS one "
            "LEFT JOIN units AS other ON other.unit = one.body_of ORDER BY one.unit"
        ):
            if body is None or body.unit != body_of:
                body = encoding.release_of(body_of, content, guarantee)
            log.append(encoding.flagged(body, unit, flags))
        return log


def read_old_log(path: str | os.PathLike[str]) -> Log | None:
    """A release log of version 0.1, in memory; None if the file is something else."""
    with _OldLogReader(path) as file:
        if not file.is_log:
            return None
        try:
            return file.log()
        except (
            msgspec.DecodeError,
            ConfigurationError,
            InputError,
            KeyError,
            TypeError,
            ValueError,
            AttributeError,
            ArithmeticError,
        ) as error:
            raise StateError(
                f"{file.name} is a damaged release log: {type(error).__name__}."
            ) from None
