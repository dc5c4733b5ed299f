from __future__ import annotations

import json
import threading
import time
from fractions import Fraction

import pytest

import penstock
from penstock.engine import publisher_figures
from penstock.engine.pipeline import Pipeline
from penstock.engine.publisher import Publisher
from penstock.testing import ManualClock, NoNoise

from tests.engine import streams

MUCH = [
    (f"00:{minute:02d}", key, card) for minute in range(60) for card, key in enumerate(streams.KEYS)
]


class WatchedPublisher:
    """A live publisher of a growing file, one turn at a time, by a clock that the test sets."""

    def __init__(self, folder, **tables):
        folder.mkdir(exist_ok=True)
        source = {"kind": "csv", "path": "taps.csv", "growing": True}
        tables = {"source": source, "stream": {"lateness": "10min", "pace": "0s"}, **tables}
        self.path = folder / "taps.csv"
        if not self.path.exists():
            self.path.write_text("ts,station,card\n")
        self.clock = ManualClock("2026-01-01T00:00Z")
        content = streams.pipeline(**tables)
        if "view" in tables:
            del content["privacy"]["mechanism"]
        self.publisher = Publisher(
            Pipeline.of(content, folder=folder), clock=self.clock, noise=NoNoise
        )
        self.publisher.state = "publishing"

    def write(self, *events):
        with self.path.open("a") as file:
            file.writelines(f"2026-01-01T{moment}Z,{key},{card}\n" for moment, key, card in events)

    def read(self, now):
        self.clock.set(now)
        self.publisher.loop.read()

    def turn(self, now):
        self.read(now)
        while self.publisher.loop.draw(self.clock.now()):
            self.publisher.loop.commit()

    @property
    def stream(self):
        (stream,) = publisher_figures.public([self.publisher]).streams
        return stream

    @property
    def series(self):
        (series,) = self.stream.series
        return series

    @property
    def private(self):
        (stream,) = publisher_figures.private([self.publisher])
        return stream


@pytest.fixture
def watched(tmp_path):
    made = []

    def make(name="here", **tables):
        made.append(WatchedPublisher(tmp_path / name, **tables))
        return made[-1]

    yield make
    for each in made:
        each.publisher.close()


def wait_for(condition, seconds=20):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


# -- what anybody may know -------------------------------------------------------------------------


def test_before_the_first_unit_nothing_is_released_and_nothing_is_spent(watched):
    live = watched()
    live.turn("2026-01-01T00:30Z")
    series = live.series
    assert (series.unit, series.ends, series.behind, series.overdue) == (0, None, 0, 0)
    assert (series.cost, series.most, series.fresh, series.private) == (0, 1, None, None)
    assert live.stream.on_time
    assert live.stream.lease
    assert publisher_figures.public([live.publisher]).version == penstock.__version__


def test_a_release_is_shown_with_its_exact_cost(watched):
    live = watched(privacy={"mechanism": "uniform", "epsilon": "1", "window": 24})
    live.turn("2026-01-01T02:10Z")
    series = live.series
    assert (series.unit, series.ends.isoformat()) == (2, "2026-01-01T02:00:00+00:00")
    assert (series.cost, series.most, series.currency) == (Fraction(1, 12), 1, "epsilon")
    assert (series.epsilon, series.delta, series.window) == (1, 0, 24)
    assert (series.fresh, series.private) == (1.0, False)


def test_a_promise_with_delta_counts_in_rho(watched):
    live = watched(
        privacy={
            "mechanism": "toeplitz",
            "epsilon": "1",
            "delta": "1e-6",
            "window": 6,
            "horizon": 12,
        }
    )
    live.turn("2026-01-01T01:10Z")
    assert live.series.currency == "rho"
    assert live.series.delta == Fraction(1, 10**6)
    assert 0 < live.series.cost <= live.series.most


def test_units_that_the_clock_has_closed_are_behind_until_they_are_released(watched):
    live = watched()
    live.turn("2026-01-01T01:10Z")
    live.clock.set("2026-01-01T03:10:30Z")
    assert (live.series.behind, live.series.overdue) == (2, 3630)
    assert not live.stream.on_time
    live.turn("2026-01-01T03:10:30Z")
    assert (live.series.behind, live.series.overdue) == (0, 0)
    assert live.stream.on_time


def test_a_unit_may_be_overdue_for_a_minute(watched):
    live = watched()
    live.clock.set("2026-01-01T01:11:00Z")
    assert live.stream.on_time
    live.clock.set("2026-01-01T01:11:01Z")
    assert not live.stream.on_time


def test_what_leaves_at_a_pace_is_not_overdue_before_it(watched):
    live = watched(stream={"lateness": "0s", "pace": "10min"})
    live.clock.set("2026-01-01T01:10:00Z")
    assert (live.series.behind, live.series.overdue) == (1, 0)


def test_nothing_of_a_unit_that_is_drawn_and_not_committed_is_shown(watched):
    live = watched(privacy={"mechanism": "ba", "epsilon": "1", "window": 24})
    live.write(*MUCH)
    live.turn("2026-01-01T01:10Z")
    live.clock.set("2026-01-01T02:10Z")
    before = publisher_figures.public([live.publisher])
    assert live.publisher.loop.draw(live.clock.now())
    assert live.publisher.views[0].run.unit == 2
    assert publisher_figures.public([live.publisher]) == before
    live.publisher.loop.commit()
    assert publisher_figures.public([live.publisher]) != before
    assert live.series.unit == 2


def test_a_restart_shows_what_was_committed(watched):
    live = watched(privacy={"mechanism": "ba", "epsilon": "1", "window": 24})
    live.write(*MUCH)
    live.turn("2026-01-01T02:10Z")
    before = live.series
    live.publisher.close()
    again = watched(privacy={"mechanism": "ba", "epsilon": "1", "window": 24})
    again.clock.set("2026-01-01T02:10Z")
    assert again.series == before
    assert before.cost > 0


def test_public_figures_are_the_same_whatever_the_events_are(watched):
    """A mechanism whose ledger does not depend on data: then nothing public may."""
    empty, full = watched("empty"), watched("full")
    full.write(*MUCH, ("00:01", "nowhere", 7), ("23:00", "Airport", 8))
    with full.path.open("a") as file:
        file.write("broken\n")
    for now in ("2026-01-01T00:30Z", "2026-01-01T01:09Z", "2026-01-01T01:10Z", "2026-01-01T03:10Z"):
        for live in (empty, full):
            live.turn(now)
        full.write(("00:30", "Airport", 9))
        assert publisher_figures.public([empty.publisher]) == publisher_figures.public(
            [full.publisher]
        )
    assert publisher_figures.private([empty.publisher]) != publisher_figures.private(
        [full.publisher]
    )


def test_views_are_shown_one_by_one(watched):
    views = [
        {"name": "hourly", "every": "1h", "mechanism": "uniform"},
        {"name": "half", "every": "6h", "mechanism": "uniform", "contribution": 2},
    ]
    live = watched(stream={"pace": "0s"}, privacy={"epsilon": "1", "window": 6}, view=views)
    live.turn("2026-01-01T07:00Z")
    assert [(each.view, each.series, each.unit) for each in live.stream.series] == [
        ("hourly", "taps/hourly", 7),
        ("half", "taps/half", 1),
    ]
    assert (live.stream.epsilon, live.stream.window) == (1, 6)
    assert all(each.epsilon < 1 for each in live.stream.series)


def test_a_sink_that_has_everything_and_one_that_is_down(watched):
    sinks = [
        {"kind": "jsonl", "path": "releases.jsonl"},
        {"kind": "webhook", "url": "http://127.0.0.1:1/"},
    ]
    live = watched(sink=sinks)
    live.turn("2026-01-01T02:10Z")
    wait_for(lambda: live.stream.sinks[0].behind == 0 and not live.stream.sinks[1].up)
    good, bad = live.stream.sinks
    assert (good.name, good.up) == ("jsonl", True)
    assert (bad.name, bad.up) == ("webhook", False)
    assert "could not be reached" in live.private.sinks["webhook"]
    assert live.private.sinks["jsonl"] == ""


def test_a_sink_that_lacks_units_is_behind(watched):
    live = watched(sink=[{"kind": "jsonl", "path": "releases.jsonl"}])
    assert live.publisher.deliveries.finish(20)
    live.turn("2026-01-01T03:10Z")
    assert live.stream.sinks[0].behind == 3


def test_no_clock_closes_a_finite_input(tmp_path):
    streams.parquet(tmp_path / "taps.parquet", streams.events())
    made = Pipeline.of(streams.pipeline(stream={"until": "2026-01-01T12:00Z"}), folder=tmp_path)
    with Publisher(made, noise=NoNoise) as publisher:
        (before,) = publisher_figures.public([publisher]).streams
        assert (before.state, before.on_time) == ("starting", False)
        publisher.run()
        (after,) = publisher_figures.public([publisher]).streams
    assert (after.state, after.on_time, after.finite) == ("ended", True, True)
    assert (after.series[0].unit, after.series[0].behind, after.series[0].overdue) == (
        12,
        None,
        None,
    )


def test_a_publisher_that_has_failed_is_not_on_time(tmp_path):
    made = Pipeline.of(streams.pipeline(stream={"until": "2026-01-01T12:00Z"}), folder=tmp_path)
    with Publisher(made, noise=NoNoise) as publisher:
        with pytest.raises(penstock.InputError, match="no file matches"):
            publisher.run()
        figure = publisher_figures.public([publisher])
        assert figure.streams[0].state == "failed"
        assert not figure.on_time
        assert "no file matches" in publisher_figures.private([publisher])[0].problem
        assert "no file matches" not in json.dumps(publisher_figures.plain(figure))


def test_a_lease_that_could_not_be_renewed_is_not_held(watched, monkeypatch):
    live = watched()
    assert live.stream.lease
    later = time.monotonic() + 60
    monkeypatch.setattr(live.publisher._stop.runtime, "monotonic", lambda: later)
    assert not live.stream.lease
    live.publisher.committer.leases.renew_if_due()
    assert live.stream.lease


def test_figures_can_be_read_while_it_publishes(watched):
    live = watched()
    live.write(*MUCH)
    stop, failures = threading.Event(), []

    def look():
        while not stop.is_set():
            try:
                json.dumps(publisher_figures.plain(publisher_figures.public([live.publisher])))
                json.dumps(publisher_figures.plain(publisher_figures.private([live.publisher])))
            except Exception as error:
                failures.append(error)
                return

    thread = threading.Thread(target=look)
    thread.start()
    for hour in range(1, 24):
        live.write((f"{hour:02d}:05", "Airport", hour))
        live.turn(f"2026-01-01T{hour:02d}:10Z")
    stop.set()
    thread.join(20)
    assert not failures
    assert live.series.unit == 23


# -- what only the operator may know ---------------------------------------------------------------


def test_the_operator_sees_what_was_not_counted(watched):
    live = watched()
    live.write(("00:10", "Airport", 1), ("00:20", "Airport", 2), ("01:05", "Central", 3))
    live.write(("23:00", "Airport", 4), ("00:30", "nowhere", 5))
    with live.path.open("a") as file:
        file.write("2025-12-31T23:00Z,Airport,6\n2026-01-01T00:40Z,Airport,seven\n")
    live.read("2026-01-01T01:09Z")
    (series,) = live.private.series
    assert (series.late, series.future, series.past) == (0, 1, 1)
    assert series.open == {1: 2, 2: 1}
    assert series.pending == 3
    assert live.private.rejections == {"unknown key": 1, "wrong type": 1}
    assert live.private.commits == ()
    live.turn("2026-01-01T01:10Z")
    live.write(("00:50", "Airport", 8))
    live.read("2026-01-01T01:10Z")
    (series,) = live.private.series
    assert (series.late, series.open, series.pending) == (1, {2: 1}, 0)
    assert len(live.private.commits) == 1


def test_only_the_last_commits_are_remembered(watched):
    live = watched()
    live.turn("2026-01-03T00:10Z")
    assert live.series.unit == 48
    assert len(live.private.commits) == 20


def test_private_figures_do_not_print(watched):
    live = watched()
    live.write(*MUCH)
    live.read("2026-01-01T00:30Z")
    private = live.private
    assert repr(private) == str(private) == "PrivateStream(private)"
    assert f"{private.series[0]}" == "PrivateSeries(private)"


def test_figures_are_plain_json(watched):
    live = watched(privacy={"mechanism": "uniform", "epsilon": "1", "window": 24})
    live.turn("2026-01-01T01:10Z")
    told = json.loads(
        json.dumps(publisher_figures.plain(publisher_figures.public([live.publisher])))
    )
    (stream,) = told["streams"]
    (series,) = stream["series"]
    assert (series["cost"], series["most"], series["ends"]) == (
        "1/24",
        "1",
        "2026-01-01T01:00:00+00:00",
    )
    assert stream["promise"].startswith("An observer may see everything")
    operator = json.loads(
        json.dumps(publisher_figures.plain(publisher_figures.private([live.publisher])))
    )
    assert operator[0]["series"][0]["open"] == {}
