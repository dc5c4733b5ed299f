"""A publisher with another counter: what it takes is stored before a unit is counted."""

from __future__ import annotations

from penstock.engine.counting_engine import LocalEngine
from penstock.engine.pipeline import Pipeline
from penstock.engine.publisher import Publisher
from penstock.private.counting import Counting
from penstock.testing import ManualClock, NoNoise

from tests.engine import streams
from tests.engine.test_publishing_loop import ReplayableSource


class NotedCounting(Counting):
    """Counts here, as one that reads a range of its input again would be asked to."""

    def __init__(self, units, *, calls, stopped, **more):
        super().__init__(units, **more)
        self.calls = calls
        self.stopped = stopped
        self._unstored = False

    @property
    def unstored(self):
        return self._unstored

    def take(self, batch, now):
        self._unstored = True
        return super().take(batch, now)

    def settled(self):
        self.calls.append("settled")
        self._unstored = False
        super().settled()

    def ready(self, due):
        self.calls.append(f"ready {due.start} to {due.stop - 1}")
        assert not self._unstored
        return not self.stopped

    def counts(self, unit):
        self.calls.append(f"counts {unit}")
        return super().counts(unit)


class NotedEngine(LocalEngine):
    def __init__(self, *, stopped=False):
        self.calls = []
        self.stopped = stopped

    def counter(self, pipeline, view, host):
        def made(units, keys, contribution):
            return NotedCounting(
                units,
                keys=keys,
                contribution=contribution,
                finite=host.finite,
                calls=self.calls,
                stopped=self.stopped,
            )

        return made


def turned(folder, engine):
    source, clock = ReplayableSource(waits=False), ManualClock("2026-01-01T00:00Z")
    pipeline = Pipeline.of(streams.pipeline(stream={"pace": "0s"}), folder=folder)
    with Publisher(pipeline, clock=clock, noise=NoNoise, source=source, engine=engine) as publisher:
        source.send("2026-01-01T00:10Z", "2026-01-01T01:05Z")
        clock.set("2026-01-01T02:01Z")
        publisher.loop.read()
        while publisher.loop.draw(clock.now()):
            publisher.loop.commit()
        (view,) = publisher.views
        return [int(each.value[0]) for each in publisher.store.releases(view.name)]


def test_what_was_taken_is_stored_before_a_unit_is_counted(tmp_path):
    engine = NotedEngine()
    assert turned(tmp_path, engine) == [1, 1]
    assert engine.calls == [
        "settled",
        "ready 1 to 2",
        "counts 1",
        "settled",
        "ready 2 to 2",
        "counts 2",
        "settled",
    ]


def test_nothing_is_drawn_where_a_stop_is_wanted_before_the_counts_are_there(tmp_path):
    engine = NotedEngine(stopped=True)
    assert turned(tmp_path, engine) == []
    assert engine.calls == ["settled", "ready 1 to 2"]
