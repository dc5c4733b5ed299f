"""Two copies of one store, or two new ones: of each unit, one content is ever seen by anybody."""

from __future__ import annotations

import json
import shutil

import pytest

from penstock.core.errors import StoreUnavailableError
from penstock.engine import committer
from penstock.engine.chain import FencedError, Head, HeadError, HeadFile
from penstock.engine.pipeline import Pipeline
from penstock.engine.publisher import Publisher
from penstock.engine.sqlite import SQLiteReader, SQLiteStore
from penstock.released.sinks.base import SinkError
from penstock.released.sinks.postgres import PostgresSink
from penstock.testing import ManualClock, TestNoise

from tests.engine import streams
from tests.engine.places import NO_SERVER, SERVER, PostgresPlace

VIEWS = [
    {"name": "hourly", "every": "1h", "mechanism": "laplace"},
    {"name": "quarterly", "every": "6h", "mechanism": "laplace", "contribution": 2},
]


class Copy:
    """A publisher of the stream on a store of its own, moved by a clock that the test sets."""

    def __init__(self, folder, name, *, seed, **tables):
        self.store = folder / f"{name}.db"
        self.sink = folder / f"{name}.jsonl"
        tables = {
            "source": {"kind": "csv", "path": "taps.csv", "growing": True},
            "stream": {"lateness": "10min", "pace": "0s"},
            "store": {"path": f"{name}.db", "head": "taps.head"},
            "sink": [{"kind": "jsonl", "path": f"{name}.jsonl"}],
            **tables,
        }
        (folder / "taps.csv").touch()
        content = streams.pipeline(**tables) | {
            name: tables[name] for name in tables.keys() & {"privacy", "store"}
        }
        self.made = Pipeline.of(content, folder=folder)
        self.clock = ManualClock("2026-01-01T00:00Z")
        self.told = []
        noises = (TestNoise(number) for number in range(seed, seed + 100))
        self.publisher = Publisher(
            self.made, clock=self.clock, noise=lambda: next(noises), listener=self.told.append
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.publisher.deliveries.finish(10)
        self.publisher.close()

    def turn(self, hour):
        """Release everything that has closed ten minutes after this hour."""
        self.clock.set(f"2026-01-01T{hour:02d}:10Z")
        moment = self.clock.now()
        self.publisher.loop.read()
        while self.publisher.loop.draw(moment):
            self.publisher.loop.commit()

    def seen(self):
        """What anybody can see: in the store, and in the sink."""
        found = set()
        with SQLiteReader(self.store) as reader:
            for name in reader.series_names:
                assert reader.verify(name).account.kept
                for each in reader.releases(name):
                    found.add((name, each.unit, tuple(each.value.tolist())))
        if self.sink.exists():
            whole, _, _ = self.sink.read_text().rpartition("\n")  # one more may be on its way
            for line in whole.splitlines():
                content = json.loads(line)
                found.add((content["series"], content["unit"], tuple(content["values"])))
        return found


def one_content(*copies):
    """Everything that is seen anywhere, where no unit has two contents."""
    seen = set().union(*(copy.seen() for copy in copies))
    assert len({(name, unit) for name, unit, _ in seen}) == len(seen), sorted(seen)
    return seen


def copied(folder):
    for path in folder.glob("taps.db*"):
        shutil.copy2(path, folder / path.name.replace("taps", "twin"))
    if (folder / "taps.jsonl").exists():
        shutil.copy2(folder / "taps.jsonl", folder / "twin.jsonl")


@pytest.mark.parametrize("views", [None, VIEWS], ids=["one view", "two views"])
def test_of_two_copies_of_a_store_one_goes_on(tmp_path, views):
    more = {"view": views, "privacy": {"epsilon": "2", "window": 6}} if views else {}
    with Copy(tmp_path, "taps", seed=1, **more) as first:
        first.turn(3)
    copied(tmp_path)
    with (
        Copy(tmp_path, "taps", seed=100, **more) as first,
        Copy(tmp_path, "twin", seed=200, **more) as twin,
    ):
        first.turn(4)
        with pytest.raises(
            FencedError, match=r"another copy of this store has released unit 4 of 'taps.*nobody"
        ):
            twin.turn(4)
        assert not [each for each in twin.told if each.kind == "release"]
        first.turn(6)
    name = "taps/hourly" if views else "taps"
    units = [unit for series, unit, _ in one_content(first, twin) if series == name]
    assert sorted(units) == [1, 2, 3, 4, 5, 6]
    assert max(unit for series, unit, _ in twin.seen() if series == name) == 3
    with pytest.raises(FencedError, match="another copy of this store has released unit 6"):
        Copy(tmp_path, "twin", seed=300, **more)


def test_of_two_new_stores_of_one_stream_one_goes_on(tmp_path):
    with Copy(tmp_path, "taps", seed=1) as first, Copy(tmp_path, "twin", seed=200) as twin:
        twin.turn(1)
        with pytest.raises(FencedError, match="has released unit 1 of 'taps'"):
            first.turn(1)
        twin.turn(3)
    assert [unit for _, unit, _ in sorted(one_content(first, twin))] == [1, 2, 3]
    assert first.seen() == set()


def test_the_loser_tells_no_sender_that_events_of_its_unit_are_stored(tmp_path):
    with Copy(tmp_path, "taps", seed=1) as first, Copy(tmp_path, "twin", seed=200) as twin:
        first.turn(1)
        answered = []
        twin.publisher.progress.stored = lambda: answered.append(True)
        with pytest.raises(FencedError):
            twin.turn(1)
        assert not answered


@pytest.mark.parametrize("change", ["removed", "replaced", "damaged"])
def test_a_head_file_that_is_changed_while_a_publisher_runs_stops_it(tmp_path, change):
    with Copy(tmp_path, "taps", seed=1) as copy:
        copy.turn(2)
        before = copy.seen()
        head = tmp_path / "taps.head"
        if change == "removed":
            head.unlink()
        elif change == "replaced":
            HeadFile(head).write("taps", Head(2, bytes(32)))
        else:
            head.write_text("{}")
        with pytest.raises(Exception, match=r"removed or replaced|by others|damaged"):
            copy.turn(3)
    assert copy.seen() == before


def test_while_the_head_cannot_be_written_a_unit_waits_and_events_are_stored(tmp_path, monkeypatch):
    with Copy(tmp_path, "taps", seed=1) as copy:
        copy.turn(2)
        before = copy.seen()
        (tmp_path / "taps.csv").write_text(
            "ts,station,card\n2026-01-01T02:30Z,Airport,1\n2026-01-01T03:05Z,Airport,2\n"
        )
        with monkeypatch.context() as patch:
            patch.setattr(HeadFile, "swap", away)
            copy.turn(3)
            assert copy.publisher.committer.hidden
            copy.publisher.committer.save()
            copy.turn(5)
            assert copy.seen() == before
            assert copy.publisher.views[0].committed.unit == 2
            assert "disk is full" in copy.publisher.problem
            waiting = [each.text for each in copy.told if each.kind == "waiting"]
            assert waiting == [
                "the disk is full. Nobody sees a unit until its head is there. It is tried again."
            ]
        waits = copy.publisher.views[0].run.last
        copy.publisher.committer._next_try = 0.0
        copy.turn(5)
        assert not copy.publisher.problem
        assert ("taps", 3, tuple(waits.value.tolist())) in copy.seen()
        assert [each.unit for each in copy.told if each.kind == "release"] == [1, 2, 3, 4, 5]
    assert len(one_content(copy)) == 5


@pytest.mark.parametrize("stopped", [True, False], ids=["stopped", "out of patience"])
def test_a_finite_input_that_ends_while_a_unit_waits_says_so(tmp_path, monkeypatch, stopped):
    monkeypatch.setattr(committer, "RETRY_SECONDS", (0.001, 0.001))
    streams.parquet(tmp_path / "taps.parquet", streams.events(hours=3))
    tables = {
        "stream": {"until": "2026-01-01T03:00Z"},
        "store": {"path": "taps.db", "head": "taps.head"},
    }
    made = Pipeline.of(streams.pipeline(**tables), folder=tmp_path)
    told = []

    def hear(notice):
        told.append(notice)
        if stopped and notice.kind == "waiting":
            publisher.stop()

    with Publisher(made, listener=hear, patience=60 if stopped else 0.05) as publisher:
        with monkeypatch.context() as patch:
            patch.setattr(HeadFile, "swap", away)
            if stopped:
                assert publisher.run() is False
                assert told[-1].text.startswith("a unit is stored and waits to be shown")
            else:
                with pytest.raises(HeadError, match="disk is full"):
                    publisher.run()
        waits = publisher.views[0].run.last
    assert not [each for each in told if each.kind == "release"]
    with Publisher(made) as publisher:
        assert publisher.run()
    with SQLiteReader(tmp_path / "taps.db") as reader:
        first, *others = reader.releases("taps")
        assert (first.unit, first.value.tolist()) == (1, waits.value.tolist())
        assert len(others) == 2


# -- a sink as the fence ---------------------------------------------------------------------------


@pytest.fixture(params=["jsonl", "parquet", "postgres"])
def shared(request, tmp_path):
    """The tables of copies that have no head file, and one sink in common."""
    if request.param != "postgres":
        place = {"path": "releases.jsonl" if request.param == "jsonl" else "deep/releases"}
        yield {"store": None, "sink": [{"kind": request.param, **place}]}
        return
    if SERVER is None:
        pytest.skip(NO_SERVER)
    place = PostgresPlace(SERVER)
    yield {"store": None, "sink": [{"kind": "postgres", "url": place.address, "table": "taps"}]}
    place.clean()


def own(shared, name):
    """The tables of one copy: the sink in common is its fence, and another one is its own."""
    mine = {"kind": "webhook", "url": "http://127.0.0.1:1/"}
    return {**shared, "store": {"path": f"{name}.db"}, "sink": [mine, *shared["sink"]]}


def test_of_two_copies_with_a_sink_in_common_one_goes_on(tmp_path, shared):
    with Copy(tmp_path, "taps", seed=1, **own(shared, "taps")) as first:
        first.turn(3)
    copied(tmp_path)
    with (
        Copy(tmp_path, "taps", seed=100, **own(shared, "taps")) as first,
        Copy(tmp_path, "twin", seed=200, **own(shared, "twin")) as twin,
    ):
        twin.turn(4)
        with pytest.raises(FencedError, match=r"has released unit 4 of 'taps'.* sink .*nobody"):
            first.turn(4)
        twin.turn(5)
        assert [each.unit for each in twin.told if each.kind == "release"] == [4, 5]
    assert len(one_content(first, twin)) == 5
    assert len(first.seen()) == 3
    with pytest.raises(FencedError, match="has released unit 5 of 'taps'"):
        Copy(tmp_path, "taps", seed=300, **own(shared, "taps"))


def test_of_two_new_stores_with_a_sink_in_common_one_goes_on(tmp_path, shared):
    with (
        Copy(tmp_path, "taps", seed=1, **own(shared, "taps")) as first,
        Copy(tmp_path, "twin", seed=200, **own(shared, "twin")) as twin,
    ):
        first.turn(2)
        with pytest.raises(FencedError, match="has released unit 2 of 'taps'"):
            twin.turn(1)
    assert len(one_content(first, twin)) == 2
    assert twin.seen() == set()


def test_while_the_sink_that_is_the_fence_is_away_a_unit_waits(tmp_path, monkeypatch, shared):
    with Copy(tmp_path, "taps", seed=1, **own(shared, "taps")) as copy:
        copy.turn(2)
        with monkeypatch.context() as patch:
            patch.setattr(HeadFile, "swap", away)
            patch.setattr(PostgresSink, "swap", gone)
            copy.turn(3)
            assert copy.publisher.committer.hidden
            assert len(copy.seen()) == 2
            copy.publisher.committer.save()
        waits = copy.publisher.views[0].run.last
    with monkeypatch.context() as patch:  # it is still away at the next start
        patch.setattr(HeadFile, "swap", away)
        patch.setattr(HeadFile, "read", away)
        patch.setattr(PostgresSink, "read", gone)
        copy = Copy(tmp_path, "taps", seed=100, **own(shared, "taps"))
        assert copy.publisher.committer.hidden
        assert copy.publisher.views[0].committed.unit == 2
        copy.turn(4)
        assert len(copy.seen()) == 2
    with copy:
        copy.publisher.committer._next_try = 0.0
        copy.turn(4)
        assert ("taps", 3, tuple(waits.value.tolist())) in copy.seen()
    assert len(one_content(copy)) == 4


def test_a_sink_that_has_a_unit_which_waits_shows_no_old_backup(tmp_path, monkeypatch, shared):
    """A power cut has undone that the unit was shown, after a sink got it, and now the fence is
    away.
    """
    with Copy(tmp_path, "taps", seed=1, **own(shared, "taps")) as copy:
        copy.turn(1)
        with monkeypatch.context() as patch:
            patch.setattr(SQLiteStore, "_show", no_room)
            copy.turn(2)
        shutil.copy2(tmp_path / "taps.db", tmp_path / "before.db")
        shutil.copy2(tmp_path / "taps.db-wal", tmp_path / "before.db-wal")
        copy.publisher.committer._next_try = 0.0
        copy.turn(2)
        shown = copy.seen()
    for name in ("taps.db", "taps.db-wal"):
        shutil.copy2(tmp_path / name.replace("taps", "before"), tmp_path / name)
    with monkeypatch.context() as patch:
        patch.setattr(HeadFile, "read", away)
        patch.setattr(PostgresSink, "read", gone)
        copy = Copy(tmp_path, "taps", seed=100, **own(shared, "taps"))
    with copy:
        assert copy.publisher.committer.hidden
        copy.turn(3)
    assert shown < one_content(copy)


def gone(*_):
    raise SinkError("the database is away.")


def away(*_):
    raise HeadError("the disk is full.")


def test_a_unit_that_waited_when_the_publisher_was_stopped_is_shown_by_the_next(
    tmp_path, monkeypatch
):
    with monkeypatch.context() as patch:
        with Copy(tmp_path, "taps", seed=1) as copy:
            copy.turn(2)
            patch.setattr(HeadFile, "swap", away)
            copy.turn(3)
            waits = copy.publisher.views[0].run.last
        assert len(copy.seen()) == 2
    with Copy(tmp_path, "taps", seed=200) as copy:
        assert ("taps", 3, tuple(waits.value.tolist())) in copy.seen()
        copy.turn(4)
    assert len(one_content(copy)) == 4


def test_a_unit_that_cannot_be_shown_for_lack_of_room_is_shown_later(tmp_path, monkeypatch):
    """The head has moved, and the second transaction fails."""
    with Copy(tmp_path, "taps", seed=1) as copy:
        copy.turn(2)
        with monkeypatch.context() as patch:
            patch.setattr(SQLiteStore, "_show", no_room)
            copy.turn(3)
            assert len(copy.seen()) == 2
            assert HeadFile(tmp_path / "taps.head").read()["taps"].unit == 3
        copy.publisher.committer._next_try = 0.0
        copy.turn(4)
    assert len(one_content(copy)) == 4


def no_room(*_):
    raise StoreUnavailableError("taps.db is full.")
