"""A PostgreSQL table: one row per key and unit. A small table beside it holds each series' head.

Both change in one transaction, so a unit is there whole or not at all. A third table is the fence:
it has the head of a unit before anybody sees the unit. Missing tables are created. An account that
may not create tables needs SELECT, INSERT and UPDATE on tables that somebody else created as in
`TABLE` and, for both tables of heads, `HEADS`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.core.arrays import FloatArray
from penstock.core.declaration import EndpointSetup, Option
from penstock.core.deprecated import moved
from penstock.core.errors import ConfigurationError
from penstock.core.nonnegative import NOTE as NONNEGATIVE
from penstock.core.optional import require
from penstock.released.release_filter import NOTE
from penstock.released.sinks.base import (
    ReleaseItem,
    SinkError,
    SinkHead,
    SinkKind,
    in_order,
    missing,
)
from penstock.released.sinks.deadline import ConnectionDeadline
from penstock.released.sinks.release_document import column_descriptions, item_numbers

TABLE = """CREATE TABLE IF NOT EXISTS {} (
    series text NOT NULL, unit bigint NOT NULL, begins timestamptz NOT NULL,
    ends timestamptz NOT NULL, key text NOT NULL, value double precision NOT NULL,
    deviation double precision, low double precision, high double precision,
    repeated boolean NOT NULL, PRIMARY KEY (series, unit, key))"""
COLUMNS = (
    "series",
    "unit",
    "begins",
    "ends",
    "key",
    "value",
    "deviation",
    "low",
    "high",
    "repeated",
)
HEADS = """CREATE TABLE IF NOT EXISTS {} (
    series text PRIMARY KEY, unit bigint NOT NULL, link text NOT NULL)"""

_INSERT = """INSERT INTO {} (series, unit, begins, ends, key, value, deviation, low, high, repeated)
    SELECT %s, %s, %s, %s, * FROM unnest(
        %s::text[], %s::float8[], %s::float8[], %s::float8[], %s::float8[], %s::bool[])
    ON CONFLICT DO NOTHING"""
_ADVANCE = """INSERT INTO {0} (series, unit, link) VALUES (%s, %s, %s)
    ON CONFLICT (series) DO UPDATE SET unit = excluded.unit, link = excluded.link
    WHERE {0}.unit < excluded.unit"""

_SET = """INSERT INTO {0} (series, unit, link) VALUES (%s, %s, %s)
    ON CONFLICT (series) DO UPDATE SET unit = excluded.unit, link = excluded.link"""

_HELD = "SELECT unit, link FROM {} WHERE series = %s"
_LOCKED = f"{_HELD} FOR UPDATE"

_SILENT_SECONDS = 2.0
"""How long after its own timeout a server may stay silent before the connection is given up."""

_FENCE_SECONDS = 5.0
"""The most seconds of a statement at the fence: the publisher reads no events meanwhile."""

_MAX_NAME_BYTES = 63
_HEADS, _FENCE = "_heads", "_fence"
_LASTING = ("28", "3D", "42", "22", "0A")
"""Classes of SQLSTATE that probably do not pass by themselves: login, database, names or rights,
values, features.
"""


class PostgresSink:
    """A table of PostgreSQL.

    Parameters
    ----------
    url : str
        The database, as "postgresql://user@host/database".
    table : str
        The table's name, with or without its schema. Default: "releases".
    password : str or None
        The password. Default: None, as the URL and libpq's settings say.
    timeout : float
        The most seconds of a connection or a statement. Default: 60.
    """

    def __init__(
        self,
        url: str,
        *,
        table: str = "releases",
        password: str | None = None,
        timeout: float = 60.0,
    ) -> None:
        self._psycopg = require("psycopg", "postgres", "a PostgreSQL sink")
        parts = table.split(".")
        if not 1 <= len(parts) <= 2 or any(
            not part or "\0" in part or len((part + _HEADS).encode()) > _MAX_NAME_BYTES
            for part in parts
        ):
            raise ConfigurationError(
                "table must be a name, or a schema and a name with a dot between, of at most "
                f"{_MAX_NAME_BYTES - len(_HEADS)} bytes each, not {table!r}."
            )
        try:
            self._psycopg.conninfo.conninfo_to_dict(url)
        except self._psycopg.Error:
            raise ConfigurationError(
                "postgres: the address must be like postgresql://writer@localhost/open."
            ) from None
        self.table = table
        self.timeout = timeout
        self._url = url
        self._password = password
        self._table = self._psycopg.sql.Identifier(*parts)
        self._heads = self._psycopg.sql.Identifier(*parts[:-1], parts[-1] + _HEADS)
        self._fence = self._psycopg.sql.Identifier(*parts[:-1], parts[-1] + _FENCE)
        self._connection: Any = None
        self._deadline: ConnectionDeadline | None = None

    def __repr__(self) -> str:
        return f"<Postgres {self.table!r}>"

    def head(self, series: str) -> tuple[int, str] | None:
        """The newest unit in the table of heads."""
        with self._transaction() as do:
            there = self._there(do, self._table, self._heads)
            return self._head(do, series) if there else None

    def put(self, items: Sequence[ReleaseItem]) -> None:
        series = in_order(items)
        for item in items:
            if "\0" in item.series.name or any("\0" in key for key in item.series.domain.keys):
                raise ConfigurationError(
                    f"the keys of {item.series.name!r} hold a zero character, "
                    "which PostgreSQL cannot."
                )
        with self._transaction() as do:
            if items and not self._there(do, self._table, self._heads):
                do(TABLE, self._table)
                do(HEADS, self._heads)
                self._describe(do, items[0])
            for name in sorted(series):
                fresh = missing(series[name], self._head(do, name, lock=True))
                for item in fresh:
                    do(_INSERT, self._table, *_row(item))
                if fresh:
                    do(_ADVANCE, self._heads, name, fresh[-1].unit, fresh[-1].link)

    def read(self) -> dict[str, SinkHead]:
        """All heads of the fence."""
        with self._transaction() as do:
            return self._fenced(do) if self._there(do, self._fence) else {}

    def swap(
        self, before: Mapping[str, SinkHead | None], after: Mapping[str, SinkHead]
    ) -> dict[str, SinkHead]:
        """Replace heads of the fence as `SinkFence` says; others wait until this has ended."""
        with self._transaction() as do:
            do("SET TRANSACTION ISOLATION LEVEL READ COMMITTED", None)  # look after the lock
            do("SET LOCAL synchronous_commit = on", None)
            do("SELECT pg_advisory_xact_lock(hashtext(%s))", None, self._fence.as_string(None))
            if not self._there(do, self._fence):
                do(HEADS, self._fence)
            heads = self._fenced(do)
            if all(heads.get(name) in (before[name], head) for name, head in after.items()):
                for name, head in after.items():
                    do(_SET, self._fence, name, *head)
                heads |= after
        return {name: heads[name] for name in after if name in heads}

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def interrupt(self) -> None:
        """End a transaction under way."""
        deadline = self._deadline
        if deadline is not None:
            deadline.abort()

    def _describe(self, do: Any, item: ReleaseItem) -> None:
        """Comment a new table and its columns. Literals are safe: `COMMENT` takes no values."""
        sql = self._psycopg.sql
        notes = [NOTE] if item.filter is not None else []
        notes += [NONNEGATIVE] if item.nonnegative else []
        comments = [("TABLE", self._table, " ".join(notes))] if notes else []
        described = column_descriptions(item)
        for name in COLUMNS:
            column = sql.Identifier(*self.table.split("."), name)
            comments.append(("COLUMN", column, described[name]))
        for what, which, text in comments:
            literal = sql.Literal(text).as_string(None).replace("%", "%%")
            do(f"COMMENT ON {what} {{}} IS {literal}", which)

    def _head(self, do: Any, series: str, *, lock: bool = False) -> SinkHead | None:
        row = do(_LOCKED if lock else _HELD, self._heads, series).fetchone()
        return None if row is None else SinkHead(*row)

    def _fenced(self, do: Any) -> dict[str, SinkHead]:
        rows = do("SELECT series, unit, link FROM {}", self._fence).fetchall()
        return {series: SinkHead(unit, link) for series, unit, link in rows}

    @staticmethod
    def _there(do: Any, *tables: Any) -> bool:
        """Whether all these tables are there."""
        names = [each.as_string(None) for each in tables]
        row = do(
            "SELECT bool_and(to_regclass(name) IS NOT NULL) FROM unnest(%s::text[]) AS name",
            None,
            names,
        ).fetchone()
        return bool(row[0])

    @contextmanager
    def _transaction(self) -> Iterator[Any]:
        """A function that runs statements in one transaction. After an error the connection is
        closed.
        """
        done = False
        try:
            connection = self._opened()
            # The server ends a statement by itself; the deadline is for a server that is silent.
            with ConnectionDeadline(self.timeout + _SILENT_SECONDS) as deadline:
                deadline.watch(connection.fileno())
                self._deadline = deadline

                def do(query: str, name: Any, *values: Any) -> Any:
                    deadline.renew()
                    return connection.execute(self._psycopg.sql.SQL(query).format(name), values)

                with connection.transaction():
                    connection.execute(f"SET LOCAL statement_timeout = {int(1000 * self.timeout)}")
                    connection.execute(f"SET LOCAL lock_timeout = {int(1000 * self.timeout)}")
                    yield do
                    deadline.renew()
            done = True
        except self._psycopg.Error as error:
            code = error.sqlstate or ""
            what = f"{type(error).__name__}, {code}" if code else type(error).__name__
            raise SinkError(
                f"table {self.table!r}: the database did not confirm it ({what}); "
                "it will be sent again.",
                lasting=code[:2] in _LASTING,
            ) from None
        finally:
            self._deadline = None
            if not done:
                self.close()

    def _opened(self) -> Any:
        if self._connection is None or self._connection.closed:
            wait = max(int(min(self.timeout, 10)), 2)
            options: dict[str, Any] = {
                "connect_timeout": wait,
                "tcp_user_timeout": int(1000 * self.timeout),
            }
            if self._password is not None:
                options["password"] = self._password
            self._connection = self._psycopg.connect(
                self._url,
                autocommit=True,
                prepare_threshold=None,
                application_name="penstock",
                **options,
            )
        return self._connection


def _row(item: ReleaseItem) -> tuple[Any, ...]:
    of = item_numbers(item)
    known = (_known(column) for column in (of.deviation, of.low, of.high))
    keys = list(item.series.domain.keys)
    return (
        item.series.name,
        item.unit,
        item.begins,
        item.ends,
        keys,
        of.value.tolist(),
        *known,
        of.repeated.tolist(),
    )


def _known(values: FloatArray) -> list[float | None]:
    if np.isfinite(values).all():
        return values.tolist()  # type: ignore[no-any-return]
    return [
        value if finite else None
        for value, finite in zip(values.tolist(), np.isfinite(values).tolist(), strict=True)
    ]


def _build(setup: EndpointSetup, timeout: float = 60.0) -> PostgresSink:
    return PostgresSink(
        setup.url(),
        password=setup.secret("password"),
        table=setup.options["table"],
        timeout=timeout,
    )


KIND = SinkKind(
    name="postgres",
    summary="A table of PostgreSQL, one row per key and unit.",
    options=(
        Option(
            name="url",
            type="url",
            required=True,
            prefixes=("postgresql://", "postgres://"),
            example="postgresql://writer@localhost/open",
            help="the database, without a password; or url_env",
        ),
        Option(
            name="table",
            default="published",
            example="published",
            help="the table, with its schema if it has one",
        ),
        Option(
            name="password",
            type="variable",
            example="OPEN_PASSWORD",
            help="the environment variable with the password",
        ),
    ),
    describe=lambda options: f"table {options['table']} of PostgreSQL",
    extra="postgres",
    modules=("psycopg",),
    build=_build,
    fence=lambda setup: _build(setup, _FENCE_SECONDS),
    place=("url", "url_env", "table"),
)


if not TYPE_CHECKING:
    __getattr__ = moved(__name__)
