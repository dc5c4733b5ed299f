"""What is of the SQLite file alone; what every store does is in test_stores.py."""

from __future__ import annotations

import os
import random
import sqlite3
import stat
import subprocess
import sys
import tempfile
import textwrap
from fractions import Fraction
from pathlib import Path

import pytest

from penstock.core.errors import (
    ConfigurationError,
    InputError,
    LedgerError,
    NotAStoreError,
    StateError,
    StoreUnavailableError,
)
from penstock.engine.sqlite import SQLiteReader, SQLiteStore

from tests.engine.places import (
    KEY,
    MARK,
    SQLitePlace,
    commit,
    content,
    counts,
    filled,
    fresh,
    stream,
    telling,
)


@pytest.fixture
def place(tmp_path):
    return SQLitePlace(tmp_path)


@pytest.fixture
def path(place):
    return place.path


# -- what is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [SQLiteStore, SQLiteReader])
def test_a_file_that_is_no_store_is_refused_and_left_alone(tmp_path, path, kind):
    file = sqlite3.connect(path)
    file.execute("CREATE TABLE other (a)")
    file.close()
    before = path.read_bytes()
    with pytest.raises(StateError, match="is not a store"):
        kind(path)
    assert path.read_bytes() == before
    (tmp_path / "text").write_bytes(b"a text that is long enough to be no database" * 100)
    with pytest.raises(NotAStoreError, match="is not a store"):
        kind(tmp_path / "text")


@pytest.mark.parametrize("kind", [SQLiteStore, SQLiteReader])
@pytest.mark.parametrize("content", [b"\n", b"x", b"SQLite format 3", b"x" * 512], ids=len)
def test_a_file_with_any_content_of_another_kind_is_never_overwritten(path, kind, content):
    path.write_bytes(content)
    with pytest.raises(NotAStoreError, match=r"city\.db .* It is not a store"):
        kind(path)
    assert path.read_bytes() == content
    assert [each.name for each in path.parent.iterdir()] == ["city.db"]


def test_a_folder_is_no_store(path):
    path.mkdir()
    with pytest.raises(NotAStoreError, match=r"city\.db is not a store: it is not a file"):
        SQLiteStore(path)


@pytest.mark.parametrize("kind", [SQLiteReader, SQLiteStore])
@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM penstock_store",
        "UPDATE penstock_store SET version = 'x'",
        """
        DROP TABLE penstock_store;
        CREATE TABLE penstock_store (version INTEGER);
        INSERT INTO penstock_store VALUES (NULL);
        """,
    ],
)
def test_a_store_whose_version_is_damaged_is_refused(path, kind, damage):
    SQLiteStore(path).close()
    file = sqlite3.connect(path)
    file.executescript(damage)
    file.close()
    with pytest.raises(StateError, match="the version of its tables is damaged"):
        kind(path)


def test_a_power_cut_while_the_file_is_made_leaves_a_file_that_becomes_a_store(tmp_path, path):
    """SQLite's journal says that the file was empty; its first sector was not written."""
    file = sqlite3.connect(tmp_path / "made", isolation_level=None)
    file.execute("PRAGMA cache_size = 1")
    file.execute("BEGIN")
    file.execute("CREATE TABLE half (content)")
    file.executemany("INSERT INTO half VALUES (?)", [(bytes(10_000),)] * 50)
    path.write_bytes(bytes(512) + (tmp_path / "made").read_bytes()[512:])
    path.chmod(0o600)
    path.with_name(f"{path.name}-journal").write_bytes((tmp_path / "made-journal").read_bytes())
    file.close()
    SQLiteStore(path).close()
    with SQLiteReader(path) as reader:
        assert reader.series_names == ()


def test_an_empty_file_becomes_a_store(path):
    """SQLite takes a file of 0 bytes for a new database, and nothing in it can be lost."""
    path.touch(0o600)
    with SQLiteStore(path) as store:
        assert store.series_names == ()


def test_a_store_that_is_not_there_cannot_be_read(tmp_path, path):
    with pytest.raises(ConfigurationError, match=r"there is no store /.*/city\.db\. Name"):
        SQLiteReader(path)
    assert not path.exists()
    with pytest.raises(StateError, match="cannot be made: there is no folder"):
        SQLiteStore(tmp_path / "none" / "city.db")


# -- all or nothing --------------------------------------------------------------------------------


def test_a_commit_that_ends_anywhere_leaves_nothing(path):
    run = fresh()
    with SQLiteStore(path, key=KEY) as store:
        store.begin(stream(run))
        for _ in range(3):
            commit(store, run, private={"unit 4": b"old"})
        before = store.last("visits")
        lines = list(store.lines("visits"))
        run.step(counts(4))
        unit = {
            "lines": [line for line in run.ledger if line.unit == 4],
            "release": run.last,
            "state": run.snapshot(),
            "positions": {"events": 40},
            "private": {"unit 4": None, "unit 5": b"new"},
        }
        failures = []
        for steps in range(1, 5000, 7):
            left = [steps]

            def stop(left=left):
                left[0] -= 1 if store._file.in_transaction or left[0] == 0 else 0
                return left[0] == 0

            store._file.set_progress_handler(stop, 1)
            try:
                store.commit("visits", 4, **unit)
                break
            except StateError as error:
                failures.append(str(error))
            finally:
                store._file.set_progress_handler(None, 1)
            after = store.last("visits")
            assert (after.unit, after.head, after.state) == (before.unit, before.head, before.state)
            assert (after.positions, after.private) == (before.positions, before.private)
            assert list(store.lines("visits")) == lines
        assert len(failures) > 20
        assert all("interrupted" in message for message in failures)
        assert store.last("visits").private == {"unit 5": b"new"}
        store.verify("visits")


def test_a_reader_writes_nothing_and_has_no_way_to_what_is_secret(place, path):
    filled(place, key=KEY)
    before = path.read_bytes()
    with SQLiteReader(path) as reader:
        for statement in (
            "DELETE FROM lines",
            "UPDATE leases SET number = 0",
            "CREATE TABLE x (a)",
        ):
            with pytest.raises(sqlite3.OperationalError, match="readonly"):
                reader._file.execute(statement)
        assert not {"last", "commit", "save", "begin"} & set(dir(reader))
    assert path.read_bytes() == before


# -- one publisher at a time -----------------------------------------------------------------------


ODD = [
    (
        "UPDATE lines SET label = CAST(x'ff' AS TEXT) WHERE unit = 3 AND place = 1",
        "line 1 of unit 3",
    ),
    (
        "UPDATE lines SET label = CAST(label AS BLOB) WHERE unit = 3 AND place = 1",
        "line 1 of unit 3",
    ),
    ("UPDATE lines SET amount = 'much' WHERE unit = 3 AND place = 1", "line 1 of unit 3"),
    ("UPDATE releases SET body = 7 WHERE unit = 1", "release of unit 1"),
]


@pytest.mark.parametrize(("statement", "message"), ODD, ids=[each for each, _ in ODD])
def test_what_is_not_of_its_kind_any_more_is_found_and_named(place, statement, message):
    filled(place, run=telling())
    place.tamper(statement)
    with (
        place.reader() as reader,
        pytest.raises(LedgerError, match=f"series 'visits': .*{message}"),
    ):
        reader.verify("visits")


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE secrets SET part = CAST(part AS BLOB)",
        "UPDATE secrets SET content = 'text'",
        "UPDATE leases SET number = 'many'",
        "INSERT INTO marks VALUES ('visits', 'a sink', 'late')",
    ],
)
def test_a_private_row_that_is_not_of_its_kind_stops_the_start(place, path, statement):
    filled(place)
    place.tamper(statement)
    with pytest.raises(StateError, match=r"is damaged: a row of \w+ is not what was written"):
        SQLiteStore(path)


@pytest.mark.slow
def test_a_flipped_byte_of_the_file_is_found_or_changes_nothing(place, path, tmp_path):
    """400 flips at seeded places: each is refused by `verify` or by SQLite, or what is read is the
    same to the byte.
    """
    filled(place, 60, run=telling())
    good, chooser, found = path.read_bytes(), random.Random(5), 0
    before, copy = content(SQLiteReader(path)), tmp_path / "copy.db"
    for _ in range(400):
        for leftover in tmp_path.glob("copy.db*"):
            leftover.unlink()
        changed = bytearray(good)
        changed[chooser.randrange(len(good))] ^= 1 << chooser.randrange(8)
        copy.write_bytes(changed)
        try:
            with SQLiteReader(copy) as reader:
                reader.verify("visits")
            after = content(SQLiteReader(copy))
        except (LedgerError, StateError, InputError):
            found += 1
        else:
            assert after == before
    assert found > 50


# -- for its owner only ----------------------------------------------------------------------------


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
def test_the_files_are_readable_by_their_owner_only(path, tmp_path, mask):
    before = os.umask(mask)
    tmp_path.chmod(0o755)
    try:
        with SQLiteStore(path) as store:
            run = fresh()
            store.begin(stream(run))
            commit(store, run)
            modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in tmp_path.iterdir()}
    finally:
        os.umask(before)
    assert modes == dict.fromkeys(["city.db", "city.db-wal", "city.db-shm"], 0o600)
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755


def test_a_file_that_others_can_read_is_taken_only_with_a_key(path):
    path.touch(mode=0o644)
    path.chmod(0o644)
    with (
        SQLiteStore(path) as store,
        pytest.raises(StateError, match="can be read by others and its state is not sealed"),
    ):
        store.begin(stream())
    with SQLiteStore(path, key=KEY) as store:
        store.begin(stream())


def everything(folder):
    return b"".join(each.read_bytes() for each in folder.iterdir() if each.is_file())


def test_with_a_key_nothing_secret_lies_there_in_clear(path, tmp_path):
    run = fresh()
    with SQLiteStore(path, key=KEY) as store:
        store.begin(stream(run))
        for _ in range(3):
            commit(
                store,
                run,
                state=MARK + b"1",
                private={"open": MARK + b"2"},
                positions={"events": MARK + b"3"},
            )
        assert MARK not in everything(tmp_path)
        last = store.last("visits")
        assert (last.state, last.private, last.positions) == (
            MARK + b"1",
            {"open": MARK + b"2"},
            {"events": MARK + b"3"},
        )
    assert MARK not in everything(tmp_path)
    with SQLiteReader(path) as reader:
        assert reader.verify("visits").head.unit == len(list(reader.releases("visits"))) == 3


def test_a_key_that_comes_later_seals_what_lay_there_in_clear(path, tmp_path):
    run = fresh()
    with SQLiteStore(path) as store:
        store.begin(stream(run))
        for unit in range(5):
            commit(store, run, state=MARK * 1000 * (5 - unit), private={"open": MARK * 300})
        assert MARK in everything(tmp_path)
    with SQLiteStore(path, key=KEY) as store:
        before = store.last("visits")
        private = dict(before.private)  # it is read when it is asked for
        store.begin(stream(run))
        assert MARK not in everything(tmp_path)
        assert store.last("visits").state == before.state == MARK * 1000
        assert store.last("visits").private == private
    with (
        SQLiteStore(path) as store,
        pytest.raises(StateError, match=f"sealed with key {KEY.id}: give that key"),
    ):
        store.begin(stream(run))


# -- trouble ---------------------------------------------------------------------------------------


def test_a_store_that_somebody_else_locks_says_so(path):
    run = fresh()
    with SQLiteStore(path, wait=0.01) as store:
        store.begin(stream(run))
        commit(store, run)
        run.step(counts(2))
        unit = {"lines": run.ledger[-1:], "release": run.last, "state": b"", "positions": {}}
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(
            StoreUnavailableError,
            match=r"locked\. Another program holds it: stop that one, or try again",
        ):
            store.commit("visits", 2, **unit)
        assert store.last("visits").unit == 1
        other.execute("ROLLBACK")
        other.close()
        store.commit("visits", 2, **unit)


def child(script, *arguments):
    """Run a script, as nobody if we are root, whom no file mode stops."""
    lead = """
    import os, sys
    import tests.engine.places as t
    from penstock.core.errors import StateError, StoreUnavailableError
    from penstock.private.noise import TestNoise
    """
    program = textwrap.dedent(lead) + textwrap.dedent(script)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(Path.cwd()), *sys.path])}
    return subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )


def test_a_full_disk_leaves_the_last_unit_and_can_be_gone_on_from(path):
    done = child(
        """
        import resource
        run = t.fresh()
        with t.SQLiteStore(sys.argv[1]) as store:
            store.begin(t.stream(run))
            t.commit(store, run)
            size = max(os.stat(sys.argv[1] + end).st_size for end in ("", "-wal"))
            hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
            resource.setrlimit(resource.RLIMIT_FSIZE, (size + 40_000, hard))
            state = run.snapshot()
            try:
                t.commit(store, run, state=b"x" * 200_000)
            except StoreUnavailableError as error:
                print(error)
            assert store.last("visits").unit == 1 and store.last("visits").state == state
            store.verify("visits")
            resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
            again = t.fresh()
            again.load(state)
            t.commit(store, again, state=b"x" * 200_000)
            assert store.verify("visits").head.unit == 2
        """,
        path,
    )
    assert done.returncode == 0, done.stderr
    assert "Nothing was written: " in done.stdout
    assert "disk" in done.stdout
    with SQLiteReader(path) as reader:
        assert reader.verify("visits").head.unit == 2


def test_a_store_that_cannot_be_written_says_so_and_can_still_be_read():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        place = SQLitePlace(folder)
        path = place.path
        filled(place)
        path.chmod(0o444)
        folder.chmod(0o555)
        done = child(
            """
            if os.getuid() == 0:
                os.setgid(65534)
                os.setuid(65534)
            with t.SQLiteReader(sys.argv[1]) as reader:
                assert reader.verify("visits").head.unit == 7
            try:
                with t.SQLiteStore(sys.argv[1], key=t.KEY) as store:
                    store.begin(t.stream())
            except StateError as error:
                print(error)
            """,
            path,
        )
        folder.chmod(0o755)
        assert done.returncode == 0, done.stderr
        assert "let its owner" in done.stdout.lower()
        assert sorted(each.name for each in folder.iterdir()) == ["city.db"]
        path.chmod(0o600)
        with SQLiteStore(path) as store:
            assert store.verify("visits").account.worst <= Fraction(1)


def test_a_store_that_goes_away_while_it_is_opened_is_a_state_error(path, monkeypatch):
    SQLiteStore(path).close()
    path.rename(path.with_name("away"))
    monkeypatch.setattr(Path, "is_file", lambda self: True)
    with pytest.raises(StateError, match="cannot be read: unable to open database file"):
        SQLiteReader(path)
