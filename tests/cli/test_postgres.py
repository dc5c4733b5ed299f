"""The verbs about a store, over PostgreSQL."""

from __future__ import annotations

import json
import os
import secrets
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.cli.outcome import Outcome
from tests.engine.published import publish, several

SERVER = os.environ.get("PENSTOCK_TEST_POSTGRES", "")
psycopg = pytest.importorskip(
    "psycopg", reason="psycopg is not installed: pip install 'penstock[postgres]'"
)

pytestmark = pytest.mark.skipif(
    not SERVER,
    reason='PENSTOCK_TEST_POSTGRES is not set: .ci/services start, then eval "$(.ci/services env)"',
)


@pytest.fixture
def address(monkeypatch):
    """A store with two views in a schema of its own; its address, without a password."""
    from penstock.engine.postgres import PostgresStore

    schema = f"cli_{secrets.token_hex(6)}"
    parts = urlsplit(SERVER)
    if parts.password:
        monkeypatch.setenv("PGPASSWORD", parts.password)
    bare = parts._replace(netloc=parts.netloc.replace(f":{parts.password}@", "@")).geturl()
    url = f"{bare}?options=-csearch_path%3D{schema}"
    with psycopg.connect(SERVER, autocommit=True) as server:
        server.execute(f"CREATE SCHEMA {schema}")
    try:
        publish(PostgresStore(url, password=parts.password), several(), 48)
        yield url
    finally:
        with psycopg.connect(SERVER, autocommit=True) as server:
            server.execute(f"DROP SCHEMA {schema} CASCADE")


def test_a_database_is_read_like_a_file(address, capsys):
    (stream,) = json.loads(Outcome(capsys, "status", address, "--json").out)
    assert [series["unit"] for series in stream["series"]] == [2, 48]
    assert Outcome(capsys, "ledger", "verify", address, "--note", "noted.head").code == 0
    assert Outcome(capsys, "ledger", "verify", address, "--head", "noted.head").code == 0
    assert len(json.loads(Outcome(capsys, "ledger", "show", address, "--json").out)["rows"]) == 48
    assert Outcome(capsys, "query", address, "counts", "--stream", "taps/daily").code == 0
    assert Outcome(capsys, "export", address, "out.csv").code == 0
    assert len(Path("out.csv").read_text().splitlines()) == 1 + (48 + 2) * 3
    done = Outcome(capsys, "export", address, "public.db")
    assert done.code == 0, done.err
    assert Outcome(capsys, "ledger", "verify", "public.db", "--head", "noted.head").code == 0
    assert Outcome(capsys, "ledger", "verify", address, "--export", "public.db").code == 0


def test_a_database_that_is_not_there_is_one_line_without_secrets(capsys, monkeypatch):
    monkeypatch.setenv("PGPASSWORD", "hunter2")
    done = Outcome(capsys, "status", "postgresql://nobody@127.0.0.1:1/none")
    assert done.code == 2
    assert len(done.err.splitlines()) == 1
    assert "hunter2" not in done.err
