"""Appending units to the public tables of a store, in whole transactions."""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Literal, TypeAlias

from penstock.budget.ledger import Line
from penstock.core.errors import InputError, StateError
from penstock.core.released import Released
from penstock.engine.chain import Head, after_line, after_release
from penstock.engine.sql_store.reader import SqlReader
from penstock.engine.sql_store.schema import INSERT_RELEASE, Migration, UnitRows
from penstock.released import encoding
from penstock.released.series import Series

TransactionKind: TypeAlias = Literal["write", "alone", "repeatable", "migrate", "read"]
"""A transaction that writes, that writes while no other does, that writes what a restart would
write again, that changes tables, or that reads everything as of one moment.
"""


class SqlWriter(SqlReader):
    """Writes the public part of a store in tables: series, releases and ledger lines."""

    # -- the database ------------------------------------------------------------------------------

    @abstractmethod
    def _execute(self, statement: str, *values: object) -> None:
        """Execute a statement inside a transaction; `?` stands for a value.

        A problem is a `StateError`, or a `StoreUnavailableError` if it may pass.
        """

    @abstractmethod
    def _execute_many(self, statement: str, rows: Sequence[tuple[object, ...]]) -> None:
        """Execute a statement for every row."""

    @abstractmethod
    def _whole(self, kind: TransactionKind) -> AbstractContextManager[None]:
        """A transaction: everything in it is kept or nothing is.

        It is durable, unless it is `repeatable`: a power cut may undo that one.
        """

    @abstractmethod
    def _migrate(self, migrate: Migration) -> None:
        """Do one migration, inside a transaction."""

    # -- transactions ------------------------------------------------------------------------------

    @contextmanager
    def _transaction(self, kind: TransactionKind = "write") -> Iterator[None]:
        """Everything in it is written or nothing is, with no other writer in between."""
        with self._lock:
            try:
                with self._whole(kind):
                    yield
            except BaseException:
                self._series.clear()  # the transaction may have made one of them
                raise

    def _bring_up_to_date(self) -> None:
        """Bring the tables to this version, all at once or not at all."""
        migrations = self._migrations()
        if self._version() == len(migrations):
            return
        with self._transaction("migrate"):
            version = self._version()  # another process may have been faster
            if not version:
                self._execute("CREATE TABLE penstock_store (version INTEGER NOT NULL)")
                self._execute("INSERT INTO penstock_store VALUES (0)")
            for migrate in migrations[version:]:
                self._migrate(migrate)
            self._execute("UPDATE penstock_store SET version = ?", len(migrations))

    # -- content -----------------------------------------------------------------------------------

    def _add_series(self, series: Series) -> None:
        self._execute("INSERT INTO streams (name, about) VALUES (?, ?)", series.name, series.about)

    def _append(self, series: str, unit: int, lines: Sequence[Line], release: Released) -> Head:
        """Add the next unit's ledger lines and release, inside a transaction; the new head."""
        rows = self._chained(series, unit, lines, release)
        self._insert(rows)
        return rows.head

    def _chained(
        self, series: str, unit: int, lines: Sequence[Line], release: Released
    ) -> UnitRows:
        """The rows of the next unit, chained to the newest one."""
        flags, body = encoding.flags(release), encoding.body(release)
        digest = hashlib.sha256(body).digest()
        before = self.head(series)
        if unit != before.unit + 1:
            raise StateError(
                f"unit {unit} of {series!r} cannot follow unit {before.unit}. Nothing was written."
            )
        link, rows = before.link, []
        for place, line in enumerate(lines, 1):
            link = after_line(link, line)
            charge = (line.kind, line.label, line.amount, line.number, line.run)
            rows.append((series, unit, place, *charge, link))
        link = after_release(link, unit, flags, digest)
        earlier = self.release_rows(series, before.unit, before.unit).get(before.unit)
        again = earlier is not None and earlier[2] == digest  # a repeated body is stored once
        body_of = earlier[0] if earlier is not None and again else unit
        row = (series, unit, body_of, flags, digest, link, None if again else body)
        return UnitRows(unit, link, rows, (*row, *self._proofs_of(series, Head(unit, link))))

    def _proofs_of(self, series: str, head: Head) -> tuple[bytes | None, bytes | None]:
        """The keyed link and the signature of a new unit, as far as there are keys."""
        return None, None

    def _insert(self, rows: UnitRows) -> None:
        """Add the rows of a unit to the public tables, inside a transaction."""
        self._execute_many("INSERT INTO lines VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows.lines)
        self._execute(INSERT_RELEASE, *rows.release)

    def _check_unit(self, name: str, unit: int, lines: Sequence[Line], release: Released) -> None:
        """Refuse a release or lines that are not of this unit of this series."""
        series = self.series(name)
        if not isinstance(release, Released):
            raise InputError(f"a store takes a release, not {type(release).__name__}.")
        if release.unit != unit or release.value.shape != (series.domain.size,):
            raise InputError(
                f"unit {unit}: the release is of unit {release.unit} with {release.value.size} "
                "numbers."
            )
        if release.guarantee != series.guarantee:
            raise InputError(
                f"unit {unit}: released under {release.guarantee}, and {name!r} is of "
                f"{series.guarantee}."
            )
        other = {line.unit for line in lines} - {unit}
        if other:
            raise InputError(f"unit {unit}: a line is of unit {min(other)}.")
