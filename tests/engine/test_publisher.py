from __future__ import annotations

import gc
import json
import threading
import time

import numpy as np
import pytest

import penstock as ps
from penstock.core.errors import InputError, StateError
from penstock.engine.pipeline import Pipeline
from penstock.engine.process import Process
from penstock.engine.publisher import Publisher
from penstock.engine.sqlite import SQLiteReader
from penstock.engine.store import LeaseError
from penstock.private import counting
from penstock.private.counting import Counting
from penstock.testing import ManualClock, NoNoise

from tests.engine import streams

UNTIL = {"until": "2026-01-01T12:00Z"}


def publish(tmp_path, *, noise=NoNoise, **tables):
    made = Pipeline.of(streams.pipeline(**tables), folder=tmp_path)
    told = []
    with Publisher(made, noise=noise, listener=told.append) as publisher:
        whole = publisher.run()
    assert whole, told
    return told


def released(path, name="taps"):
    with SQLiteReader(path) as reader:
        assert reader.verify(name).account.kept
        return np.array([release.value for release in reader.releases(name)])


def test_a_finished_file_is_published_unit_by_unit(tmp_path):
    columns = streams.events()
    streams.parquet(tmp_path / "taps.parquet", columns, row_group_size=100)
    told = publish(tmp_path, stream=UNTIL)
    assert [each.unit for each in told if each.kind == "release"] == list(range(1, 13))
    assert (released(tmp_path / "taps.db") == streams.truth(*columns)).all()


@pytest.mark.parametrize("order", [True, False])
def test_the_order_of_a_finished_file_does_not_matter(tmp_path, order):
    columns = streams.events(order=order)
    streams.csv(tmp_path / "taps.csv", columns)
    publish(tmp_path, stream=UNTIL, source={"kind": "csv", "path": "taps.csv"})
    assert (released(tmp_path / "taps.db") == streams.truth(*columns)).all()


def test_a_second_start_publishes_nothing_again(tmp_path):
    streams.parquet(tmp_path / "taps.parquet", streams.events())
    publish(tmp_path, noise=lambda: None, stream=UNTIL)
    before = released(tmp_path / "taps.db")
    told = publish(tmp_path, noise=lambda: None, stream=UNTIL)
    assert not [each for each in told if each.kind == "release"]
    assert (released(tmp_path / "taps.db") == before).all()


def test_what_has_begun_cannot_be_changed(tmp_path):
    streams.parquet(tmp_path / "taps.parquet", streams.events())
    publish(tmp_path, stream=UNTIL)
    with pytest.raises(StateError, match=r"is another one: .*epsilon.* differs"):
        publish(tmp_path, stream=UNTIL, privacy={"epsilon": "2"})


def test_a_store_decides_what_the_pipeline_leaves_open(tmp_path):
    """It began under other defaults, and goes on with these; what is written is compared."""
    streams.parquet(tmp_path / "taps.parquet", streams.events())
    ba = {"mechanism": "ba", "epsilon": "1", "window": 1, "contribution": 1}
    began = {**ba, "shift": False, "cut": False}
    publish(tmp_path, stream={"until": "2026-01-01T06:00Z"}, privacy=began)
    publish(tmp_path, stream=UNTIL, privacy=ba)
    with SQLiteReader(tmp_path / "taps.db") as reader:
        configuration = reader.series("taps").configuration
        assert reader.head("taps").unit == 12
    assert configuration["shift"] == "False"
    assert "cut" not in configuration  # as in stores from before `cut`
    with pytest.raises(StateError, match=r"is another one: cut, view.taps.cut differs"):
        publish(tmp_path, stream=UNTIL, privacy={**ba, "cut": True})


# -- live streams ----------------------------------------------------------------------------------


class Driven:
    """A live publisher of a growing file, one turn at a time, by a clock that the test sets."""

    def __init__(self, folder, **tables):
        source = {"kind": "csv", "path": "taps.csv", "growing": True}
        tables = {"source": source, "stream": {"lateness": "10min", "pace": "0s"}, **tables}
        self.made = Pipeline.of(streams.pipeline(**tables), folder=folder)
        self.path = folder / "taps.csv"
        if not self.path.exists():
            self.path.write_text("ts,station,card\n")
        self.clock = ManualClock("2026-01-01T00:00Z")
        self.told = []
        self.start()

    def start(self, noise=NoNoise):
        self.publisher = Publisher(
            self.made, clock=self.clock, noise=noise, listener=self.told.append
        )

    def crash(self):
        """Let go of everything without a word, as a killed process does."""
        self.publisher._closing.pop_all()
        self.publisher.store._file.close()
        gc.collect()

    def restart(self, **more):
        self.crash()
        alone = self.made.path(self.made.store.path).with_name("taps.db-taps.lock")
        alone.unlink(missing_ok=True)  # the system does it for a process that is gone
        self.start(**more)

    def turn(self, now=None):
        """What the loop does once: read, release what is due."""
        if now:
            self.clock.set(now)
        moment = self.clock.now()
        self.publisher.loop.read()
        while self.publisher.loop.draw(moment):
            self.publisher.loop.commit()

    def write(self, *events):
        with self.path.open("a") as file:
            file.writelines(f"2026-01-01T{time}Z,{key},{card}\n" for time, key, card in events)

    def values(self, name="taps"):
        with SQLiteReader(self.publisher.store.path) as reader:
            return [release.value.tolist() for release in reader.releases(name)]


@pytest.fixture
def live(tmp_path):
    return Driven(tmp_path)


def test_a_unit_closes_by_the_clock_and_silence_publishes(live):
    live.write(("00:10", "Airport", 1), ("00:20", "Airport", 1), ("00:30", "Central", 2))
    live.turn("2026-01-01T01:09Z")
    assert live.values() == []
    live.write(("00:59", "Harbour", 3), ("01:01", "Airport", 1))
    live.turn("2026-01-01T01:10Z")
    assert live.values() == [[1, 1, 1, 0]]
    live.write(("00:58", "Old Town", 4))  # too late
    live.turn("2026-01-01T03:10Z")
    assert live.values() == [[1, 1, 1, 0], [1, 0, 0, 0], [0, 0, 0, 0]]


def test_an_event_from_the_future_moves_nothing(live):
    live.write(("00:10", "Airport", 1), ("23:00", "Airport", 2), ("00:20", "Central", 3))
    live.turn("2026-01-01T00:30Z")
    live.turn("2026-01-01T01:10Z")
    assert live.values() == [[1, 1, 0, 0]]


def test_a_clock_that_is_set_back_releases_nothing_twice(live):
    live.write(("00:10", "Airport", 1))
    live.turn("2026-01-01T02:10Z")
    live.turn("2026-01-01T00:05Z")
    live.restart()
    live.write(("00:20", "Airport", 2), ("01:30", "Airport", 3), ("02:05", "Central", 3))
    live.turn("2026-01-01T00:30Z")
    assert live.values() == [[1, 0, 0, 0], [0, 0, 0, 0]]
    live.turn("2026-01-01T03:10Z")
    assert live.values()[2] == [0, 1, 0, 0]


def test_what_was_read_of_open_units_survives_a_crash(live):
    """The file is gone beyond what was read: only what was kept can know of it."""
    live.write(("00:10", "Airport", 1), ("01:05", "Central", 1), ("01:06", "Central", 2))
    live.turn("2026-01-01T01:10Z")
    live.write(("01:20", "Harbour", 3))
    live.restart()
    assert live.publisher.progress.position["offset"] > 0
    live.turn("2026-01-01T02:10Z")
    assert live.values() == [[1, 0, 0, 0], [0, 2, 1, 0]]


def test_what_was_kept_is_not_read_again(live):
    live.write(("00:10", "Airport", 1), ("00:20", "Central", 2))
    live.turn("2026-01-01T00:30Z")
    live.publisher.committer.save()
    live.restart()
    assert live.publisher.progress.pending == 0
    live.turn("2026-01-01T01:10Z")
    assert live.values() == [[1, 1, 0, 0]]


def test_a_late_event_counts_once_also_after_a_crash(tmp_path):
    live = Driven(tmp_path, stream={"lateness": "0s", "late": "current", "pace": "0s"})
    live.turn("2026-01-01T01:10Z")
    live.write(("00:50", "Airport", 7))
    live.turn("2026-01-01T01:20Z")
    live.publisher.committer.save()
    live.restart()
    live.turn("2026-01-01T02:20Z")
    live.restart()
    live.turn("2026-01-01T03:20Z")
    assert live.values() == [[0, 0, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]]


def test_whole_units_are_kept_where_events_would_be_more(live, monkeypatch):
    monkeypatch.setattr(counting, "MAX_SINGLE_EVENTS", 3)
    for minute in range(10, 20):
        live.write((f"00:{minute}", "Airport", 1), (f"00:{minute}", "Central", 2))
        live.turn(f"2026-01-01T00:{minute}Z")
        live.publisher.committer.save()
    kept = live.publisher.store.last("taps").private
    assert any(name.startswith("open ") for name in kept)
    assert len(kept) < 8
    live.restart()
    live.write(("00:05", "Old Town", 1))
    live.turn("2026-01-01T01:10Z")
    assert live.values() == [[0, 1, 0, 1]]
    assert set(live.publisher.store.last("taps").private) == {"units"}


def test_what_does_not_fit_into_memory_waits_in_files(tmp_path, monkeypatch):
    monkeypatch.setattr(
        Counting.__init__, "__kwdefaults__", {**Counting.__init__.__kwdefaults__, "rows": 150}
    )
    columns = streams.events(order=False, people=10_000)
    streams.csv(tmp_path / "taps.csv", columns)
    publish(tmp_path, stream=UNTIL, source={"kind": "csv", "path": "taps.csv"})
    assert (released(tmp_path / "taps.db") == streams.truth(*columns)).all()
    assert all(path.name.startswith("taps.") for path in tmp_path.iterdir())


def test_views_are_released_together_from_one_place(tmp_path):
    columns = streams.events()
    views = [
        {"name": "hourly", "every": "1h", "mechanism": "uniform"},
        {"name": "half", "every": "6h", "mechanism": "uniform", "contribution": 2},
    ]
    made = streams.pipeline(stream=UNTIL, privacy={"window": 6}, view=views)
    del made["privacy"]["mechanism"]
    streams.parquet(tmp_path / "taps.parquet", columns, row_group_size=50)
    with Publisher(Pipeline.of(made, folder=tmp_path), noise=NoNoise) as publisher:
        assert publisher.run()
    path = tmp_path / "taps.db"
    assert (released(path, "taps/hourly") == streams.truth(*columns)).all()
    assert (
        released(path, "taps/half")
        == streams.truth(*columns, every=6 * streams.HOUR, units=2, contribution=2)
    ).all()


def test_a_second_publisher_is_refused_and_the_first_goes_on(live):
    with pytest.raises(LeaseError, match="being published by another process"):
        Publisher(live.made, clock=live.clock, noise=NoNoise)
    live.write(("00:10", "Airport", 1))
    live.turn("2026-01-01T01:10Z")
    assert live.values() == [[1, 0, 0, 0]]


def test_stopping_leaves_everything_whole(tmp_path):
    live = Driven(tmp_path)
    live.write(("00:10", "Airport", 1))
    live.clock.set("2026-01-01T00:30Z")
    thread = threading.Thread(target=live.publisher.run)
    thread.start()
    wait_for(lambda: live.publisher.progress.pending == 1)
    live.publisher.stop()
    thread.join(20)
    live.publisher.close()
    live.start()
    assert live.publisher.progress.pending == 0
    live.turn("2026-01-01T01:10Z")
    assert live.values() == [[1, 0, 0, 0]]


def wait_for(condition, seconds=20):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_publisher_runs_once(tmp_path):
    streams.parquet(tmp_path / "taps.parquet", streams.events())
    with Publisher(
        Pipeline.of(streams.pipeline(stream=UNTIL), folder=tmp_path), noise=NoNoise
    ) as publisher:
        assert publisher.run()
        with pytest.raises(StateError, match="a publisher runs once"):
            publisher.run()


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_a_later_end_publishes_the_rest(tmp_path, kind):
    columns = streams.events()
    {"parquet": streams.parquet, "csv": streams.csv}[kind](tmp_path / "taps", columns)
    source = {"kind": kind, "path": "taps"}
    for until in ("2026-01-01T05:30Z", "2026-01-01T12:00Z"):
        publish(tmp_path, stream={"until": until}, source=source)
    assert (released(tmp_path / "taps.db") == streams.truth(*columns)).all()


def test_files_that_were_finished_may_grow_later_and_count_once(tmp_path):
    """What is read again of units that were published is dropped, also where late events count in
    the current unit.
    """
    finished = [
        ("00:10", "Airport", 1),
        ("01:10", "Airport", 2),
        ("02:30", "Central", 3),
        ("00:20", "Airport", 4),
    ]
    lines = [f"2026-01-01T{time}Z,{key},{card}\n" for time, key, card in finished]
    (tmp_path / "taps.csv").write_text("".join(["ts,station,card\n", *lines]))
    publish(
        tmp_path, stream={"until": "2026-01-01T02:00Z"}, source={"kind": "csv", "path": "taps.csv"}
    )
    grown = Driven(tmp_path, stream={"late": "current", "pace": "0s"})
    grown.write(("02:40", "Harbour", 5))
    grown.turn("2026-01-01T02:50Z")
    grown.turn("2026-01-01T03:00Z")
    assert grown.values() == [[2, 0, 0, 0], [1, 0, 0, 0], [0, 1, 1, 0]]


def test_a_source_that_cannot_go_on_ends_the_publisher(live):
    """Units without events would say that nothing happened."""
    live.write(("00:10", "Airport", 1))
    live.turn("2026-01-01T01:10Z")
    live.path.write_text("ts,station,card\n")
    with pytest.raises(StateError, match="shorter than what was already read"):
        live.turn("2026-01-01T02:10Z")
    assert len(live.values()) == 1


def test_a_release_leaves_at_a_multiple_of_the_pace(tmp_path, monkeypatch):
    """However long the work takes: here reading takes 700 ms of the clock, and drawing 400."""
    live = Driven(tmp_path, stream={"lateness": "0s", "pace": "1s"})
    left, clock, publisher = [], live.clock, live.publisher
    moments = iter(range(10_000))

    def now():
        clock.advance("0s")
        clock._now += 1_000 if next(moments) else 0
        return clock._now

    def later(moment):
        clock._now += moment

    clock._now = streams.BEGIN + streams.HOUR - 300_000
    monkeypatch.setattr(clock, "now", now)
    loop, view = publisher.loop, publisher.views[0]
    read, commit, prepare = loop.read, loop.commit, view.prepare
    monkeypatch.setattr(loop, "read", lambda: (read(), later(700_000)))
    monkeypatch.setattr(view, "prepare", lambda unit: (prepare(unit), later(400_000)))
    monkeypatch.setattr(publisher._stop, "wait", lambda seconds: later(int(seconds * 1e6)))
    monkeypatch.setattr(
        loop, "commit", lambda: (left.append(clock._now), commit(), publisher.stop())
    )
    publisher.run()
    after = left[0] - streams.BEGIN - streams.HOUR
    assert 0 <= after % 1_000_000 < 10_000
    assert after >= 1_000_000


def test_before_anything_is_released_a_mistake_can_be_corrected(tmp_path):
    """A wrong column is found when files are read: the store has the stream by then, and nothing of
    it.
    """
    streams.parquet(tmp_path / "taps.parquet", streams.events())
    with pytest.raises(InputError, match="statoin"):
        publish(
            tmp_path,
            stream=UNTIL,
            source={"key": "statoin"},
            store={"path": "taps.db", "head": "taps.head"},
        )
    publish(tmp_path, stream=UNTIL, store={"path": "taps.db", "head": "taps.head"})
    assert len(released(tmp_path / "taps.db")) == 12
    with pytest.raises(StateError, match=r"is another one: source\.key differs"):
        publish(
            tmp_path,
            stream=UNTIL,
            source={"key": "statoin"},
            store={"path": "taps.db", "head": "taps.head"},
        )


def test_what_was_kept_of_open_units_cannot_be_corrected(live):
    live.write(("00:10", "Airport", 1))
    live.turn("2026-01-01T00:30Z")
    live.publisher.committer.save()
    live.crash()
    (live.path.parent / "taps.db-taps.lock").unlink()
    live.made = Pipeline.of(
        streams.pipeline(
            source={"kind": "csv", "path": "taps.csv", "growing": True, "zone": "Asia/Tokyo"}
        ),
        folder=live.path.parent,
    )
    with pytest.raises(StateError, match=r"source\.zone differs"):
        live.start()


def test_a_head_file_that_is_gone_is_told(tmp_path):
    streams.parquet(tmp_path / "taps.parquet", streams.events())
    store = {"path": "taps.db", "head": "taps.head"}
    assert not [
        each for each in publish(tmp_path, stream=UNTIL, store=store) if each.kind == "store"
    ]
    (tmp_path / "taps.head").unlink()
    (told,) = [
        each for each in publish(tmp_path, stream=UNTIL, store=store) if each.kind == "store"
    ]
    assert "made anew. Nothing shows whether this store is the newest one." in told.text
    assert (tmp_path / "taps.head").exists()


def test_a_new_store_beside_an_old_sink_is_refused_and_says_why(tmp_path):
    streams.parquet(tmp_path / "taps.parquet", streams.events())
    sink = [{"kind": "jsonl", "path": "out.jsonl"}]
    publish(tmp_path, stream=UNTIL, sink=sink)
    for path in tmp_path.glob("taps.db*"):
        path.unlink()
    with pytest.raises(
        StateError, match=r"this store is new, and .*sink 'jsonl' has 12 units of 'taps' already"
    ):
        publish(tmp_path, stream=UNTIL, sink=sink)


def test_views_state_the_promise_of_all_of_them(tmp_path):
    """A view's mechanism has a share of epsilon; what anybody is promised is about all that was
    published.
    """
    views = [
        {"name": "hourly", "mechanism": "uniform", "share": "9/10"},
        {"name": "half", "every": "6h", "mechanism": "uniform", "share": "1/10"},
    ]
    made = streams.pipeline(
        stream=UNTIL,
        privacy={"window": 6},
        view=views,
        sink=[{"kind": "jsonl", "path": "out.jsonl"}],
    )
    del made["privacy"]["mechanism"]
    streams.parquet(tmp_path / "taps.parquet", streams.events())
    with Publisher(Pipeline.of(made, folder=tmp_path)) as publisher:
        assert publisher.run()
    documents = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert {(each["guarantee"]["epsilon"], each["guarantee"]["window"]) for each in documents} == {
        ("1", 6)
    }
    with ps.Publication.read(tmp_path / "taps.db", "taps/half") as stream:
        assert (stream.guarantee.epsilon, stream.guarantee.window) == (1, 6)
        for promise in (stream.promise, stream.log.promise):
            assert "in any 6 consecutive units" in promise
            assert "epsilon = 1)" in promise
            assert "for all views of 'taps' together; this one has 1/10 of it" in promise


def test_private_figures_go_to_the_file_that_was_named_for_them(tmp_path):
    streams.csv(tmp_path / "taps.csv", streams.events())
    with (tmp_path / "taps.csv").open("a") as file:
        file.write("yesterday,Airport,7\n")
    tables = {
        "source": {"kind": "csv", "path": "taps.csv"},
        "operator": {"figures": "private.json"},
    }
    made = Pipeline.of(streams.pipeline(stream=UNTIL, **tables), folder=tmp_path)
    with Process([made], noise=NoNoise) as process:
        process.start()
        while not process.wait(1):
            pass
    assert not process.failures
    figures = json.loads((tmp_path / "private.json").read_text())
    assert figures["rejections"] == {"wrong type": 1}
    assert (tmp_path / "private.json").stat().st_mode & 0o077 == 0


def test_a_view_without_releases_is_not_changed_while_another_has_some(tmp_path):
    """Whichever stands first: a refused start leaves the stream as it was."""
    views = [
        {"name": "days", "every": "1d", "mechanism": "uniform"},
        {"name": "hours", "mechanism": "uniform"},
    ]

    def started(until, **source):
        made = streams.pipeline(
            stream={"until": until}, privacy={"window": 6}, view=views, source=source
        )
        del made["privacy"]["mechanism"]
        with Publisher(Pipeline.of(made, folder=tmp_path), noise=NoNoise) as publisher:
            return publisher.run()

    streams.parquet(tmp_path / "taps.parquet", streams.events())
    assert started("2026-01-01T05:00Z")
    with pytest.raises(StateError, match=r"source\.zone differs"):
        started("2026-01-01T12:00Z", zone="Asia/Tokyo")
    assert started("2026-01-01T12:00Z")
    assert len(released(tmp_path / "taps.db", "taps/hours")) == 12
