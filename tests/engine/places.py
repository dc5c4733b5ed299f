"""Where the tests of stores keep one: a file, or a schema of its own on a server."""

from __future__ import annotations

import os
import re
import secrets
import sqlite3
from contextlib import contextmanager

import pytest

from penstock.engine import postgres, sqlite
from penstock.engine.postgres import PostgresReader, PostgresStore
from penstock.engine.sealing import Key
from penstock.engine.sqlite import SQLiteReader, SQLiteStore
from penstock.private.mechanisms.ba import BudgetAbsorption
from penstock.private.noise import TestNoise
from penstock.released import encoding
from penstock.released.series import Series

KINDS = ("sqlite", "postgres")
KEY = Key(bytes(range(32)))
MARK = b"threshold noise in clear"
SERVER = os.environ.get("PENSTOCK_TEST_POSTGRES")
NO_SERVER = 'PENSTOCK_TEST_POSTGRES is not set: .ci/services start, then eval "$(.ci/services env)"'


class StoreClock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


class SQLitePlace:
    kind, module, name = "sqlite", sqlite, "city.db"

    def __init__(self, folder):
        self.path = folder / "city.db"
        self.address = str(self.path)

    def store(self, **more):
        return SQLiteStore(self.path, **more)

    def reader(self, **more):
        return SQLiteReader(self.path, **more)

    def rows(self, question):
        file = sqlite3.connect(self.path)
        try:
            return file.execute(question).fetchall()
        finally:
            file.close()

    def tamper(self, *statements):
        file = sqlite3.connect(self.path, isolation_level=None)
        for statement in statements:
            assert file.execute(statement).rowcount
        file.close()

    def backup(self):
        return self.path.read_bytes()

    def restore(self, backup):
        self.path.write_bytes(backup)

    def remove(self):
        self.path.unlink()


class PostgresPlace:
    kind, module, name = "postgres", postgres, "database 'penstock'"

    def __init__(self, server):
        self.server = server
        self.schema = f"store_{secrets.token_hex(6)}"
        self.address = f"{server}?options=-csearch_path%3D{self.schema}"
        self._do(f"CREATE SCHEMA {self.schema}")
        self._do(
            f"CREATE FUNCTION {self.schema}.zeroblob(size int) RETURNS bytea LANGUAGE sql "
            "AS $$ SELECT decode(repeat('00', size), 'hex') $$"
        )

    def _do(self, *statements, rows=False):
        import psycopg

        with psycopg.connect(self.address, autocommit=True) as server:
            for statement in statements:
                cursor = server.execute(re.sub(r"x'([0-9a-f]*)'", r"'\\x\1'::bytea", statement))
                assert cursor.rowcount or rows
            return cursor.fetchall() if rows else None

    def store(self, **more):
        return PostgresStore(self.address, **more)

    def reader(self, **more):
        return PostgresReader(self.address, **more)

    def rows(self, question):
        return self._do(question, rows=True)

    def tamper(self, *statements):
        self._do(*statements)

    def backup(self):
        """All tables copied beside themselves."""
        copy = f"{self.schema}_{secrets.token_hex(3)}"
        self._do(f"CREATE SCHEMA {copy}")
        for table in postgres._TABLES:
            self._do(f"CREATE TABLE {copy}.{table} (LIKE {self.schema}.{table})")
        self.restore(self.schema, to=copy)
        return copy

    def restore(self, backup, to=None):
        import psycopg

        with psycopg.connect(self.address) as server:
            for table in postgres._TABLES:
                server.execute(f"DELETE FROM {to or self.schema}.{table}")
                server.execute(
                    f"INSERT INTO {to or self.schema}.{table} SELECT * FROM {backup}.{table}"
                )

    def remove(self):
        """The schema as at the beginning."""
        self._do(f"DROP TABLE {', '.join(postgres._TABLES)}, penstock_store")

    def clean(self):
        import psycopg

        with psycopg.connect(self.server, autocommit=True) as server:
            found = server.execute(
                "SELECT nspname FROM pg_namespace WHERE starts_with(nspname, %s)", (self.schema,)
            )
            for (name,) in found.fetchall():
                server.execute(f"DROP SCHEMA {name} CASCADE")


@contextmanager
def opened(kind, folder):
    if kind == "sqlite":
        yield SQLitePlace(folder)
        return
    if SERVER is None:
        pytest.skip(NO_SERVER)
    place = PostgresPlace(SERVER)
    try:
        yield place
    finally:
        place.clean()


def fresh(seed=3, **more):
    return BudgetAbsorption(epsilon="1", window=4).run(
        ["north", "south", "wést"], noise=TestNoise(seed), **more
    )


def telling():
    """A run with so large a budget that every unit is published, with two lines."""
    return BudgetAbsorption(epsilon="200", window=4).run(
        ["north", "south", "wést"], noise=TestNoise(3), record=True
    )


def counts(unit):
    return [unit, 500 * (unit // 5 % 2), 7]


def stream(run=None, name="visits"):
    return Series.of(fresh() if run is None else run, name=name)


def commit(store, run, name="visits", **more):
    """Step the run once and keep the unit."""
    release = run.step(counts(run.unit + 1))
    content = {
        "lines": [line for line in run.ledger if line.unit == run.unit],
        "release": release,
        "state": run.snapshot(),
        "positions": {"events": run.unit * 10},
    }
    return store.commit(name, run.unit, **(content | more))


def filled(place, units=7, run=None, name="visits", **more):
    """A store with some units, closed again; and the run."""
    run = fresh(record=True) if run is None else run
    with place.store(**more) as store:
        store.begin(stream(run, name))
        for _ in range(units):
            commit(store, run, name)
    return run


def content(reader):
    """Everything public, as it can be read back."""
    with reader:
        return [
            (
                reader.series(name).about,
                list(reader.lines(name)),
                [encoding.body(each) for each in reader.releases(name)],
            )
            for name in reader.series_names
        ]
