from __future__ import annotations

import os
import signal
import sqlite3
import stat
import subprocess
import sys
import textwrap
import threading
from dataclasses import replace

import pytest

from penstock.core.errors import ConfigurationError, InputError, LedgerError, StateError
from penstock.engine import export as module
from penstock.engine.export import export
from penstock.engine.sql_store.schema import PUBLIC_TABLES
from penstock.engine.sqlite import SQLiteReader, SQLiteStore

from tests.engine.places import (
    KEY,
    KINDS,
    MARK,
    SQLitePlace,
    commit,
    content,
    filled,
    fresh,
    opened,
    stream,
    telling,
)


@pytest.fixture(params=KINDS)
def place(request, tmp_path):
    with opened(request.param, tmp_path) as place:
        yield place


@pytest.fixture
def out(tmp_path):
    return tmp_path / "open.db"


def grown(place, run, units, **more):
    """The store with some more units."""
    with place.store(**more) as store:
        store.begin(stream(run))
        for _ in range(units):
            head = commit(store, run)
    return head


def alone(out):
    """Nothing beside the file, not even after a failure."""
    return [each.name for each in out.parent.iterdir() if each.name.startswith(out.name)] == [
        out.name
    ]


def test_an_export_is_read_and_verified_like_the_store(place, out):
    run = filled(place, 80)
    with place.store() as store:
        store.begin(stream(fresh(seed=4), "rides"))
        store.mark("visits", "partners", 3)
        heads = export(store, out)
        assert heads == {"rides": store.head("rides"), "visits": store.head("visits")}
    assert content(SQLiteReader(out)) == content(place.reader())
    with SQLiteReader(out) as reader:
        assert reader.verify("visits", head=heads["visits"]).account.worst == run.account().worst
        assert reader.head("rides").unit == 0
        assert reader.marks("visits") == {}
    assert stat.S_IMODE(out.stat().st_mode) == 0o644
    assert alone(out)


def test_nothing_secret_is_in_an_export_and_nobody_publishes_from_it(place, out):
    run = fresh()
    with place.store() as store:
        store.begin(stream(run))
        commit(store, run, state=MARK, private={"open": MARK}, positions={"events": MARK})
        export(store, out)
        assert MARK not in out.read_bytes()
        assert store.owner.encode() not in out.read_bytes()
    file = sqlite3.connect(out)
    tables = {
        name for (name,) in file.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
    }
    file.close()
    assert tables == {"penstock_store", *PUBLIC_TABLES}
    before = out.read_bytes()
    with pytest.raises(StateError, match=r"open\.db is an export: it is for reading only"):
        SQLiteStore(out, key=KEY)
    assert out.read_bytes() == before


def test_an_export_is_brought_up_to_date_while_it_is_read(place, out):
    run = filled(place, 3)
    with place.reader() as reader:
        export(reader, out)
        with SQLiteReader(out) as copy:
            assert copy.head("visits").unit == 3
            first = out.stat().st_ino
            head = grown(place, run, 70)
            assert export(reader, out) == {"visits": head}
            assert copy.verify("visits", head=head).head.unit == 73
            assert export(reader, out) == {"visits": head}
        assert out.stat().st_ino == first
        assert content(SQLiteReader(out)) == content(place.reader())
    assert alone(out)


def test_a_release_that_stands_again_across_two_exports_stays_verifiable(place, out):
    run = filled(place, 5)
    with place.reader() as reader:
        for _ in range(6):
            export(reader, out)
            grown(place, run, 1)
        export(reader, out)
        assert any(each.repeated for each in reader.releases("visits", 6))
    with SQLiteReader(out) as copy:
        assert copy.verify("visits").head.unit == 11


def test_only_the_streams_that_are_named_are_exported_and_others_can_follow(place, out):
    filled(place, 2)
    filled(place, 3, run=fresh(seed=5, record=True), name="rides")
    with place.reader() as reader:
        assert list(export(reader, out, series=["rides", "rides"])) == ["rides"]
        with SQLiteReader(out) as copy:
            assert copy.series_names == ("rides",)
        export(reader, out, series=["visits"])
        with pytest.raises(InputError, match="there is no series 'trips'"):
            export(reader, out, series=["trips"])
    assert content(SQLiteReader(out)) == content(place.reader())


def test_what_is_no_export_is_replaced_only_when_told(place, out):
    filled(place, 2)
    out.write_text("somebody's notes")
    with place.reader() as reader:
        with pytest.raises(StateError, match=r"open\.db is there already and is no export"):
            export(reader, out)
        assert out.read_text() == "somebody's notes"
        export(reader, out, replace=True)
    assert content(SQLiteReader(out)) == content(place.reader())
    assert stat.S_IMODE(out.stat().st_mode) == 0o644
    assert alone(out)


@pytest.mark.parametrize("told", [False, True])
def test_a_store_is_never_overwritten(place, tmp_path, told):
    filled(place, 2)
    other = SQLitePlace(tmp_path / "elsewhere")
    other.path.parent.mkdir()
    filled(other, 4)
    before = other.path.read_bytes()
    with (
        place.reader() as reader,
        pytest.raises(StateError, match=r"city\.db is a store, and an export would destroy it"),
    ):
        export(reader, other.path, replace=told)
    assert other.path.read_bytes() == before


def test_an_export_of_another_past_is_refused_and_left_alone(place, out, tmp_path):
    run = filled(place, 3)
    backup, state = place.backup(), run.snapshot()
    grown(place, run, 2)
    with place.reader() as reader:
        export(reader, out)
    before = out.read_bytes()
    place.restore(backup)
    message = "the export open.db has another past than the store: unit 5 of 'visits' is not in it"
    with place.reader() as reader, pytest.raises(StateError, match=message):
        export(reader, out)
    other = fresh(seed=99)
    other.load(state)
    grown(place, other, 4)
    with place.reader() as reader:
        with pytest.raises(StateError, match=message):
            export(reader, out)
        assert out.read_bytes() == before
        export(reader, out, replace=True)
    assert content(SQLiteReader(out)) == content(place.reader())


def test_an_export_of_another_stream_of_that_name_is_refused(place, out, tmp_path):
    filled(place, 2)
    other = SQLitePlace(tmp_path / "elsewhere")
    other.path.parent.mkdir()
    with other.store() as store:
        store.begin(replace(stream(), facts={"source.person": "card"}))
        export(store, out)
    with (
        place.reader() as reader,
        pytest.raises(StateError, match=r"the export open\.db has another series 'visits' than"),
    ):
        export(reader, out)


def test_what_is_not_as_it_was_committed_is_not_exported(place, out):
    run = filled(place, 3, run=telling())
    with place.reader() as reader:
        export(reader, out)
    grown(place, run, 4)
    place.tamper("UPDATE lines SET amount = amount - 1 WHERE unit = 6 AND place = 1")
    with place.reader() as reader:
        with pytest.raises(LedgerError, match="line 1 of unit 6"):
            export(reader, out)
        with pytest.raises(LedgerError, match="line 1 of unit 6"):
            export(reader, out.with_name("new.db"))
    with SQLiteReader(out) as copy:
        assert copy.verify("visits").head.unit == 3
    assert not list(out.parent.glob("new.db*"))


def test_an_export_that_fails_leaves_what_was_there(place, out, monkeypatch):
    run = filled(place, 2)

    def fail(*_):
        raise OSError(28, "No space left on device")

    with place.reader() as reader:
        with monkeypatch.context() as patch:
            patch.setattr(module, "_write", fail)
            with pytest.raises(StateError, match="cannot be written: No space left on device"):
                export(reader, out)
            assert not list(out.parent.glob("open.db*"))
        export(reader, out)
        grown(place, run, 2)
        with monkeypatch.context() as patch:
            patch.setattr(module, "_write", fail)
            with pytest.raises(StateError, match="What it had is still there"):
                export(reader, out)
        with SQLiteReader(out) as copy:
            assert copy.verify("visits").head.unit == 2
        with pytest.raises(StateError, match="cannot be written"):
            export(reader, out / "below.db")


KILLED = """
    import os, signal, sys
    from penstock.engine import export as module
    from penstock.engine.sqlite import SQLiteReader

    write = module._write

    def killed(file, stream, units):
        file.execute("PRAGMA cache_size = 1")  # so that it must write before it commits
        write(file, stream, units)
        os.kill(os.getpid(), signal.SIGKILL)

    module._write = killed
    with SQLiteReader(sys.argv[1]) as reader:
        module.export(reader, sys.argv[2])
"""


@pytest.mark.slow
def test_an_export_that_was_killed_is_repaired_by_the_next_one(tmp_path, out):
    place = SQLitePlace(tmp_path)
    run = filled(place, 3)

    def kill():
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
        program = [sys.executable, "-c", textwrap.dedent(KILLED), str(place.path), str(out)]
        return subprocess.run(program, env=environment, check=False).returncode

    assert kill() == -signal.SIGKILL
    assert not out.exists()
    with place.reader() as reader:
        export(reader, out)
        grown(place, run, 60)
        assert kill() == -signal.SIGKILL
        assert out.with_name("open.db-journal").stat().st_size
        export(reader, out)
    assert content(SQLiteReader(out)) == content(place.reader())
    assert not out.with_name("open.db-journal").exists()


def test_two_exports_at_once_leave_a_good_one(place, out):
    run = filled(place, 2)
    with place.reader() as reader:
        export(reader, out)
    grown(place, run, 150)
    told = []

    def work():
        with place.reader() as reader:
            try:
                export(reader, out)
            except StateError as error:
                told.append(str(error))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all("by another program too" in each for each in told)
    assert len(told) < 3
    with SQLiteReader(out) as copy:
        assert copy.verify("visits").head.unit == 152


def test_only_a_store_in_tables_is_exported(out):
    with pytest.raises(ConfigurationError, match="not of a list"):
        export([], out)
