"""A table of PostgreSQL and its heads: one transaction, whatever is sent again or breaks."""

from __future__ import annotations

import os
import re
import secrets
import socket
import sys
import threading
from contextlib import ExitStack, suppress
from dataclasses import replace

import pytest

from penstock.core.errors import ConfigurationError, MissingExtraError
from penstock.core.released import Released
from penstock.released.release_filter import FilterChoice, ReleaseFilter
from penstock.released.sinks import postgres as module
from penstock.released.sinks.base import SinkError
from penstock.released.sinks.postgres import PostgresSink
from penstock.released.sinks.release_document import table

from tests.released.sinks.items import AWKWARD, KEYS, item, items, link, series

psycopg = pytest.importorskip("psycopg")

URL = os.environ.get("PENSTOCK_TEST_POSTGRES")
real = pytest.mark.skipif(
    URL is None, reason="PENSTOCK_TEST_POSTGRES is not set: `.ci/services` starts PostgreSQL"
)
TAPS = series()


@pytest.fixture
def name():
    """A table of this test's own, with letters that must be quoted."""
    name = f'Releases "{secrets.token_hex(6)}"; --'
    yield name
    with psycopg.connect(URL, autocommit=True) as connection:
        for each in (name, name + "_heads"):
            connection.execute(
                psycopg.sql.SQL("DROP TABLE IF EXISTS {}").format(psycopg.sql.Identifier(each))
            )


@pytest.fixture
def sink(name):
    sink = PostgresSink(URL, table=name)
    yield sink
    sink.close()


def run(query, *names, values=()):
    with psycopg.connect(URL, autocommit=True) as connection:
        cursor = connection.execute(
            psycopg.sql.SQL(query).format(*map(psycopg.sql.Identifier, names)), values
        )
        return cursor.fetchall() if cursor.description else []


def rows(name):
    return run('SELECT * FROM {} ORDER BY series, unit, key COLLATE "C"', name)


def wanted(*some):
    found = [tuple(row.values()) for one in some for row in table(one).to_pylist()]
    return sorted(found, key=lambda row: (row[0], row[1], row[4].encode()))


@real
def test_a_row_is_a_key_of_a_unit(sink, name):
    assert sink.head("taps") is None
    sink.put([])
    sink.put(items(TAPS, 1, 3))
    assert rows(name) == wanted(*items(TAPS, 1, 3))
    assert sink.head("taps") == (3, link(TAPS, 3))


@real
def test_repeating_changes_nothing(sink, name):
    sink.put(items(TAPS, 1, 3))
    before = rows(name), run("SELECT *, xmin::text FROM {}", name + "_heads")
    sink.put(items(TAPS, 1, 3))
    sink.put([item(TAPS, 2)])
    assert (rows(name), run("SELECT *, xmin::text FROM {}", name + "_heads")) == before
    sink.put(items(TAPS, 2, 5))
    assert rows(name) == wanted(*items(TAPS, 1, 5))
    again = PostgresSink(URL, table=name)
    assert again.head("taps") == (5, link(TAPS, 5))
    again.close()


@real
def test_two_series_share_a_table(sink, name):
    other = series(AWKWARD, keys=3)
    sink.put([item(TAPS, 1), item(other, 1), item(TAPS, 2)])
    assert sink.head("taps") == (2, link(TAPS, 2))
    assert sink.head(AWKWARD) == (1, link(other, 1))
    assert rows(name) == wanted(*items(TAPS, 1, 2), item(other, 1))


@real
def test_a_table_of_filtered_numbers_says_so(sink, name):
    choice = FilterChoice(periods=(24,))
    follow = ReleaseFilter(TAPS.domain, choice)
    some = [
        replace(one, release=follow.step(one.release), filter=choice) for one in items(TAPS, 1, 3)
    ]
    sink.put(some)
    assert rows(name) == wanted(*some)
    ((comment,),) = run(
        "SELECT obj_description(oid) FROM pg_class WHERE relname = %s", values=(name,)
    )
    assert "costs no privacy budget" in comment


@real
def test_a_table_of_non_negative_numbers_says_so_and_describes_its_columns(sink, name):
    some = [replace(one, nonnegative=True) for one in items(TAPS, 1, 3)]
    sink.put(some)
    assert rows(name) == wanted(*some)
    ((comment,),) = run(
        "SELECT obj_description(oid) FROM pg_class WHERE relname = %s", values=(name,)
    )
    assert "Non-negative" in comment
    columns = dict(
        run(
            "SELECT attname, col_description(attrelid, attnum) FROM pg_attribute "
            "JOIN pg_class ON attrelid = pg_class.oid WHERE relname = %s AND attnum > 0",
            values=(name,),
        )
    )
    assert all(columns.values())
    assert columns["value"].endswith("made non-negative")
    assert "at least 95 %, cut at 0" in columns["low"]


@real
def test_what_is_not_known_is_null(sink, name):
    nothing = Released.nothing(len(KEYS), TAPS.guarantee).again(1)
    sink.put([item(TAPS, 1, release=nothing)])
    assert run("SELECT DISTINCT value, deviation, low, high, repeated FROM {}", name) == [
        (0.0, None, None, None, True)
    ]


@real
def test_rows_without_their_head_are_left_alone(sink, name):
    """As after a head was deleted by hand: everything comes again, and nothing is there twice."""
    sink.put(items(TAPS, 1, 2))
    run("DELETE FROM {}", name + "_heads")
    sink.put(items(TAPS, 1, 3))
    assert rows(name) == wanted(*items(TAPS, 1, 3))


@real
def test_another_past_and_a_gap_are_refused_and_nothing_is_written(sink, name):
    other = series("aaa")
    sink.put([item(TAPS, 1)])
    with pytest.raises(SinkError, match="another link") as caught:
        sink.put([item(other, 1), replace(item(TAPS, 1), link="0" * 64)])
    assert caught.value.lasting
    with pytest.raises(SinkError, match="does not follow"):
        sink.put([item(other, 1), item(TAPS, 3)])
    assert rows(name) == wanted(item(TAPS, 1))
    sink.put([item(TAPS, 2)])
    assert sink.head("taps") == (2, link(TAPS, 2))


@real
def test_a_put_that_is_broken_off_leaves_nothing(sink, name):
    """The connection is cut by the server in the middle: units that were inserted already are gone
    too.
    """
    sink.put([item(TAPS, 1)])
    pid = sink._connection.info.backend_pid

    def torn():
        yield item(TAPS, 2)
        run("SELECT pg_terminate_backend(%s)", values=[pid])
        yield item(TAPS, 3)

    original = module.missing
    try:
        module.missing = lambda *_: Torn(torn)
        with pytest.raises(SinkError, match="did not confirm it"):
            sink.put(items(TAPS, 2, 3))
    finally:
        module.missing = original
    assert rows(name) == wanted(item(TAPS, 1))
    assert sink.head("taps") == (1, link(TAPS, 1))
    sink.put(items(TAPS, 1, 3))
    assert rows(name) == wanted(*items(TAPS, 1, 3))


class Torn:
    """Items that break something while they are taken."""

    def __init__(self, give):
        self.give = give

    def __iter__(self):
        return self.give()


@real
def test_it_comes_back_after_the_server_has_closed_the_connection(sink, name):
    sink.put([item(TAPS, 1)])
    run("SELECT pg_terminate_backend(%s)", values=[sink._connection.info.backend_pid])
    with pytest.raises(SinkError, match="it will be sent again") as caught:
        sink.put([item(TAPS, 2)])
    assert not caught.value.lasting
    sink.put([item(TAPS, 2)])
    assert rows(name) == wanted(*items(TAPS, 1, 2))


@real
def test_two_at_once_write_every_unit_once(name):
    """Two publishers are refused elsewhere; here they would do no harm."""
    first = PostgresSink(URL, table=name)
    first.put([item(TAPS, 1)])
    first.close()
    errors = []

    def write():
        sink = PostgresSink(URL, table=name)
        for unit in range(1, 21):
            try:
                sink.put(items(TAPS, 1, unit))
            except SinkError as error:
                errors.append(error)
        sink.close()

    threads = [threading.Thread(target=write) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert rows(name) == wanted(*items(TAPS, 1, 20))


@real
def test_a_table_of_another_shape_is_a_lasting_error(sink, name):
    run("CREATE TABLE {} (something int)", name)
    with pytest.raises(SinkError, match="UndefinedColumn, 42703") as caught:
        sink.put([item(TAPS, 1)])
    assert caught.value.lasting


@real
def test_a_table_may_stand_in_a_schema():
    schema = f"s{secrets.token_hex(6)}"
    run("CREATE SCHEMA {}", schema)
    try:
        sink = PostgresSink(URL, table=f"{schema}.taps")
        sink.put([item(TAPS, 1)])
        assert sink.head("taps") == (1, link(TAPS, 1))
        sink.close()
        found = run(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = %s ORDER BY 1",
            values=[schema],
        )
        assert found == [("taps",), ("taps_heads",)]
    finally:
        run("DROP SCHEMA {} CASCADE", schema)


@real
def test_an_account_that_may_not_make_tables_uses_those_that_are_there(sink, name):
    sink.put([item(TAPS, 1)])
    role = f"r{secrets.token_hex(6)}"
    run("CREATE ROLE {}", role)
    try:
        for each in (name, name + "_heads"):
            run("GRANT SELECT, INSERT, UPDATE ON {} TO {}", each, role)
        weak = PostgresSink(f"{URL}?options=-c%20role%3D{role}", table=name)
        weak.put(items(TAPS, 1, 2))
        assert weak.head("taps") == (2, link(TAPS, 2))
        weak.close()
        other = PostgresSink(f"{URL}?options=-c%20role%3D{role}", table=f"t{secrets.token_hex(6)}")
        with pytest.raises(SinkError, match="InsufficientPrivilege, 42501") as caught:
            other.put([item(TAPS, 1)])
        assert caught.value.lasting
    finally:
        run("DROP OWNED BY {}", role)
        run("DROP ROLE {}", role)


@real
def test_many_keys_fit(sink, name):
    sink.put([item(series("cells", 88_762), 1)])
    assert run("SELECT count(*), count(DISTINCT key) FROM {}", name) == [(88_762, 88_762)]


@real
def test_a_server_that_falls_silent_does_not_hold_it_up(monkeypatch):
    monkeypatch.setattr("penstock.released.sinks.postgres._SILENT_SECONDS", 0.1)
    host, port = re.search(r"@([^:/]+):(\d+)/", URL).groups()
    frozen = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as proxy, ExitStack() as opened:

        def forward(one, other):
            with suppress(OSError):
                while data := one.recv(1 << 16):
                    if not frozen.is_set():
                        other.sendall(data)

        def accept():
            client, _ = proxy.accept()
            server = socket.create_connection((host, int(port)))
            for one, other in ((client, server), (server, client)):
                opened.enter_context(one)
                threading.Thread(target=forward, args=(one, other), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        url = re.sub(r"@[^/]+/", f"@127.0.0.1:{proxy.getsockname()[1]}/", URL)
        sink = PostgresSink(f"{url}?sslmode=disable&gssencmode=disable", timeout=0.3)
        assert sink.head("taps") is None
        frozen.set()
        with pytest.raises(SinkError, match="did not confirm it"):
            sink.head("taps")
        sink.close()


@real
def test_keys_that_it_cannot_hold_are_refused_before_anything_is_written(sink):
    with pytest.raises(ConfigurationError, match="zero character"):
        sink.put([item(series("zero", ["a\0b", "c"]), 1)])


GUARDED = os.environ.get("PENSTOCK_TEST_POSTGRES_GUARDED")


@pytest.mark.skipif(
    GUARDED is None,
    reason="PENSTOCK_TEST_POSTGRES_GUARDED is not set: `.ci/services` starts PostgreSQL",
)
def test_a_password_is_used_and_never_shown():
    password = os.environ["PENSTOCK_TEST_PASSWORD"]
    table = f"t{secrets.token_hex(6)}"
    sink = PostgresSink(GUARDED, password=password, table=table)
    assert sink.head("taps") is None
    sink.close()
    wrong = PostgresSink(GUARDED, password="hidden-secret", table=table)
    with pytest.raises(SinkError, match="OperationalError") as caught:
        wrong.put([item(TAPS, 1)])
    for text in (repr(sink), repr(wrong), str(caught.value), repr(caught.value)):
        for secret in (password, "hidden-secret", "guarded", "127.0.0.1"):
            assert secret not in text


def test_a_server_that_is_down_is_an_error_that_shows_no_address():
    sink = PostgresSink("postgresql://somebody:hidden@127.0.0.1:1/nowhere", timeout=2)
    for attempt in (lambda: sink.head("taps"), lambda: sink.put([item(TAPS, 1)])):
        with pytest.raises(
            SinkError, match="table 'releases': the database did not confirm it"
        ) as caught:
            attempt()
        assert not caught.value.lasting
        for secret in ("hidden", "somebody", "127.0.0.1", "nowhere"):
            assert secret not in f"{caught.value} {sink!r}"


@pytest.mark.parametrize("url", ["postgresql://hidden:@[:", "hidden", "postgresql://a?hidden=1"])
def test_an_address_that_cannot_be_is_refused_and_not_shown(url):
    with pytest.raises(ConfigurationError, match="postgresql://writer@localhost/open") as caught:
        PostgresSink(url)
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize("table", ["", ".", "a.", "a.b.c", "x" * 58, "ü" * 29, "a\0b"])
def test_a_table_that_cannot_be_is_refused(table):
    with pytest.raises(ConfigurationError, match="table must be a name"):
        PostgresSink("postgresql://localhost/open", table=table)


def test_without_psycopg_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(
        MissingExtraError, match=r"a PostgreSQL sink needs psycopg.*penstock\[postgres\]"
    ):
        PostgresSink("postgresql://localhost/open")
