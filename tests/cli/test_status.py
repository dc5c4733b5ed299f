"""`penstock status`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock.cli.store_argument import open_store
from penstock.engine.ledger_report import spent, streams_of, together
from penstock.engine.sqlite import SQLiteReader, SQLiteStore
from penstock.released.series import Series

from tests.cli.outcome import Outcome
from tests.engine.published import pipeline, publish, several

TAPS = Path("taps.db")


def told(capsys, where: str = "taps.db") -> list[dict]:
    done = Outcome(capsys, "status", where, "--json")
    assert done.code == 0, done.err
    return json.loads(done.out)


def test_where_a_stream_stands_is_shown(capsys):
    publish(TAPS, pipeline(), 30)
    (stream,) = told(capsys)
    (series,) = stream["series"]
    assert stream["promise"] == pipeline().guarantee.in_words()
    assert (series["series"], series["mechanism"], series["unit"], series["numbers"]) == (
        "taps",
        "ba",
        30,
        3,
    )
    assert (series["begins"], series["ends"]) == (
        "2026-01-02T05:00:00+00:00",
        "2026-01-02T06:00:00+00:00",
    )
    with SQLiteReader("taps.db") as reader:
        assert series["window"] == str(spent(reader, "taps").window(30))
    out = Outcome(capsys, "status", "taps.db").out
    for text in (
        "can hardly tell",
        "ba (",
        "30, 2026-01-02T05:00+00:00 to 2026-01-02T06:00+00:00",
        "3 numbers",
        "(limit: 1), newest",
    ):
        assert text in out


def test_views_are_shown_together_and_one_by_one(capsys):
    publish(TAPS, several(), 30)
    (stream,) = told(capsys)
    assert [(series["view"], series["unit"]) for series in stream["series"]] == [
        ("daily", 1),
        ("hourly", 30),
    ]
    with SQLiteReader("taps.db") as reader:
        assert stream["together"]["window"] == str(
            together(reader, streams_of(reader)["taps"]).window(30)
        )
    assert stream["together"]["promised"] == "1"
    out = Outcome(capsys, "status", "taps.db").out
    assert "all views together" in out
    assert "per person count" not in out


def test_before_the_first_unit_there_is_nothing_to_show(capsys):
    publish(TAPS, several(), 0)
    (stream,) = told(capsys)
    assert {series["unit"] for series in stream["series"]} == {0}
    assert "none yet" in Outcome(capsys, "status", "taps.db").out


def test_an_empty_store_says_so(capsys):
    SQLiteStore(TAPS).close()
    assert "nothing was published yet" in Outcome(capsys, "status", "taps.db").out
    assert told(capsys) == []


def test_marks_of_sinks_are_shown(capsys):
    declared = pipeline()
    publish(TAPS, declared, 5)
    with SQLiteStore(TAPS) as store:
        store.mark("taps", "partners", 4)
    assert told(capsys)[0]["series"][0]["sinks"] == {"partners": 4}
    assert "partners up to unit 4" in Outcome(capsys, "status", "taps.db").out


def test_who_may_publish_is_shown(capsys):
    """Held, expired, and given back."""
    declared = pipeline()
    what = Series.of(declared.mechanism().run(declared.domain()), name="taps")
    with SQLiteStore(TAPS) as store:
        store.begin(what, seconds=3600)
        held = told(capsys)[0]["series"][0]["lease"]
        assert (held["publisher"], held["expired"]) == (store.owner, False)
        assert "unless it is renewed" in Outcome(capsys, "status", "taps.db").out
    assert told(capsys)[0]["series"][0]["lease"]["publisher"] is None
    assert "any publisher may start" in Outcome(capsys, "status", "taps.db").out
    crashed = SQLiteStore(TAPS, clock=lambda: 1_000_000.0)
    crashed.begin(what)
    assert told(capsys)[0]["series"][0]["lease"]["expired"] is True
    assert "its lease has expired" in Outcome(capsys, "status", "taps.db").out
    crashed.close()


def test_releases_of_a_test_promise_nothing(capsys):
    publish(TAPS, pipeline(), 3, seed=1)
    assert told(capsys)[0]["private"] is False
    assert "NONE: released with test noise" in Outcome(capsys, "status", "taps.db").out


def test_neither_state_nor_positions_are_shown(capsys):
    publish(TAPS, several(), 30)
    for tokens in (["status", "taps.db"], ["status", "taps.db", "--json"]):
        done = Outcome(capsys, *tokens)
        assert "123456" not in done.out
        assert "position" not in done.out


CONFIGURATION = """
[stream]
name = "taps"
every = "1h"
origin = "2026-01-01"
[source]
kind = "stdin"
time = "ts"
key = "station"
[domain]
keys = ["north"]
[privacy]
mechanism = "ba"
epsilon = "1"
window = 24
[store]
"""


def test_a_configuration_stands_for_its_store(capsys, monkeypatch):
    Path("deep").mkdir()
    Path("deep/taps.toml").write_text(CONFIGURATION + 'path = "city.db"\n')
    done = Outcome(capsys, "status", "deep/taps.toml")
    assert done.code == 2
    assert done.err == (
        f"penstock: there is no store {Path.cwd()}/deep/city.db yet: penstock run deep/taps.toml "
        "makes it.\n"
    )
    publish(Path("deep/city.db"), pipeline(), 3)
    assert told(capsys, "deep/taps.toml")[0]["stream"] == "taps"
    Path("deep/wrong.toml").write_text(CONFIGURATION + "paths = 1\nkay = 2\n")
    wrong = Outcome(capsys, "status", "deep/wrong.toml")
    assert wrong.code == 2
    assert len(wrong.err.splitlines()) == 3
    Path("deep/database.toml").write_text(CONFIGURATION + 'url_env = "NO_SUCH_VARIABLE"\n')
    monkeypatch.delenv("NO_SUCH_VARIABLE", raising=False)
    missing = Outcome(capsys, "status", "deep/database.toml")
    assert missing.code == 2
    assert "NO_SUCH_VARIABLE is not set" in missing.err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not a store"),
        (b"no database" * 100, "is not a store"),
        (None, "there is no store"),
    ],
)
def test_what_is_no_store_is_refused(content, message, capsys):
    if content is not None:
        Path("some.db").write_bytes(content)
    done = Outcome(capsys, "status", "some.db")
    assert done.code == 2
    assert message in done.err or "publisher must open it once" in done.err
    assert len(done.err.splitlines()) == 1


def test_a_database_is_opened_with_the_password_of_the_environment(monkeypatch):
    """The address has none, and only the environment gives one: what reaches the driver is looked
    at instead of a server.
    """
    seen = {}

    class StatusReader:
        def __init__(self, url: str, *, password: str | None) -> None:
            seen.update(url=url, password=password)

    monkeypatch.setattr("penstock.engine.postgres.PostgresReader", StatusReader)
    monkeypatch.setenv("PGPASSWORD", "hunter2")
    open_store("postgresql://reader@localhost/penstock")
    assert seen == {"url": "postgresql://reader@localhost/penstock", "password": "hunter2"}
