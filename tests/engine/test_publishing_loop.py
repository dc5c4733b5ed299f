"""Units of a source that can be replayed: they close by the clock, or wait until it is back."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.core.calendar import instant
from penstock.engine.pipeline import Pipeline
from penstock.engine.publisher import Publisher
from penstock.private.sources.base import Batch, Receiver, Rejections
from penstock.testing import ManualClock, NoNoise

from tests.engine import streams


class ReplayableSource(Receiver):
    """A broker that keeps its events, and that may be away."""

    def __init__(self, *, waits):
        self.rejections = Rejections()
        self.waits = waits
        self.away = False
        self.events = []
        self._complete = False

    @property
    def resumable(self):
        return True

    @property
    def complete(self):
        return self._complete or not self.waits

    @property
    def problem(self):
        return "the broker is away." if self.away else ""

    def open(self, parts):
        pass

    def wait(self, seconds):
        pass

    def close(self):
        pass

    def send(self, *moments):
        """One event of a new person at each moment."""
        self.events += [instant(moment) for moment in moments]

    def batches(self, after=None):
        self._complete = not self.away
        start = after["next"] if after else 0
        some = self.events[start:]
        if some and not self.away:
            yield Batch(
                time=np.array(some),
                key=np.zeros(len(some), np.int64),
                person=np.arange(start, start + len(some)),
                position={"next": start + len(some)},
            )


class Outage:
    """A live publisher whose source is away from 01:30 to 05:20."""

    def __init__(self, folder, *, waits):
        self.source = ReplayableSource(waits=waits)
        self.clock = ManualClock("2026-01-01T00:00Z")
        content = streams.pipeline(stream={"pace": "0s", "lateness": "10min"})
        self.pipeline = Pipeline.of(content, folder=folder)

    def opened(self):
        return Publisher(self.pipeline, clock=self.clock, noise=NoNoise, source=self.source)

    def turn(self, publisher, now):
        """One round of the loop; return the units that it released."""
        before = publisher.views[0].closed
        self.clock.set(now)
        publisher.loop.read()
        while publisher.loop.draw(self.clock.now()):
            publisher.loop.commit()
        publisher.committer.save()
        return list(range(before + 1, publisher.views[0].closed + 1))


def counts(publisher):
    (view,) = publisher.views
    return [int(each.value[0]) for each in publisher.store.releases(view.name)]


@pytest.mark.parametrize("restarts", [False, True])
def test_units_wait_for_a_source_that_can_be_replayed(tmp_path, restarts):
    outage = Outage(tmp_path, waits=True)
    source = outage.source
    publisher = outage.opened()
    try:
        source.send("2026-01-01T00:10Z", "2026-01-01T01:05Z")
        assert outage.turn(publisher, "2026-01-01T01:12Z") == [1]
        source.away = True
        source.send("2026-01-01T01:40Z", "2026-01-01T02:30Z", "2026-01-01T04:30Z")
        for now in ("2026-01-01T02:20Z", "2026-01-01T03:20Z", "2026-01-01T05:00Z"):
            assert outage.turn(publisher, now) == []
        if restarts:
            publisher.close()
            publisher = outage.opened()
        assert outage.turn(publisher, "2026-01-01T05:10Z") == []
        source.away = False
        assert outage.turn(publisher, "2026-01-01T05:15Z") == []  # senders may still have some
        source.send("2026-01-01T03:30Z")
        assert outage.turn(publisher, "2026-01-01T05:25Z") == [2, 3, 4, 5]
        assert counts(publisher) == [1, 2, 1, 1, 1]
        assert publisher.views[0].counting.units.tally.late == 0
        assert outage.turn(publisher, "2026-01-01T06:10Z") == [6]
    finally:
        publisher.close()


def test_units_close_by_the_clock_where_nothing_else_is_said(tmp_path):
    outage = Outage(tmp_path, waits=False)
    with outage.opened() as publisher:
        outage.source.away = True
        outage.source.send("2026-01-01T00:10Z")
        assert outage.turn(publisher, "2026-01-01T01:12Z") == [1]
        outage.source.away = False
        assert outage.turn(publisher, "2026-01-01T01:20Z") == []
        assert counts(publisher) == [0]
        assert publisher.views[0].counting.units.tally.late == 1


def test_a_source_that_asks_for_a_pause_is_asked_before_a_unit_closes(tmp_path, monkeypatch):
    outage = Outage(tmp_path, waits=False)
    asked, batches = [], ReplayableSource.batches
    monkeypatch.setattr(
        ReplayableSource,
        "batches",
        lambda self, after=None: asked.append(1) or batches(self, after),
    )
    monkeypatch.setattr(ReplayableSource, "pause", 1e9)
    with outage.opened() as publisher:
        outage.source.send("2026-01-01T00:10Z")
        for now in ("2026-01-01T00:20Z", "2026-01-01T00:30Z", "2026-01-01T00:40Z"):
            assert outage.turn(publisher, now) == []
        assert len(asked) == 1
        outage.source.send("2026-01-01T00:50Z")
        assert outage.turn(publisher, "2026-01-01T01:12Z") == [1]
        assert (counts(publisher), len(asked)) == ([2], 2)


def test_a_drawn_unit_leaves_although_the_source_has_gone_away_meanwhile(tmp_path):
    outage = Outage(tmp_path, waits=True)
    with outage.opened() as publisher:
        outage.clock.set("2026-01-01T01:12Z")
        publisher.loop.read()
        assert publisher.loop.draw(outage.clock.now())
        outage.source.away = True
        publisher.loop.read()
        assert publisher.loop.draw(outage.clock.now())
        publisher.loop.commit()
        assert publisher.views[0].closed == 1
