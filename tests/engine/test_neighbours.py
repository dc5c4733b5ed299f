"""One person more or less changes no unit by more than promised: whatever comes, in any order, cut
and stopped anywhere.

Both streams go through a real publisher into a real store, with the noise off, so that releases are
the counts that reach the mechanism.
"""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, event, example, given, settings
from hypothesis import strategies as st

from penstock.engine.pipeline import Pipeline
from penstock.engine.publisher import Publisher
from penstock.engine.sqlite import SQLiteReader
from penstock.private.sources.base import Batch, Rejections, Source
from penstock.testing import ManualClock, NoNoise

from tests.engine import streams
from tests.engine.streams import BEGIN, HOUR, KEYS, MINUTE

HOURS = 4
HALF = 30 * MINUTE
TURNS = 2 * HOURS + 1
"""The publisher looks every half hour: at 0:30, 1:00, …, 4:30."""

PERSON = 0
STAGES = ("read", "kept", "drawn", "committed")


class NeighbourScript(Source):
    """A source of given rows, each of which is there from a turn on; batches end wherever they are
    told to.
    """

    resumable = True

    def __init__(self, rows, cuts):
        self.rows, self.cuts, self.turn = rows, cuts, 0
        self.rejections = Rejections()

    def batches(self, after=None):
        start = 0 if after is None else after["row"]
        there = sum(row[0] <= self.turn for row in self.rows)
        while start < there:
            stop = min([cut for cut in self.cuts if cut > start] + [there])
            _, times, keys, people = (
                np.array(column, np.int64) for column in zip(*self.rows[start:stop], strict=True)
            )
            yield Batch(
                time=BEGIN + times * MINUTE, key=keys, person=people, position={"row": stop}
            )
            start = stop


class Finished(NeighbourScript):
    """The same rows as a finished file that says how early the rest of its events are."""

    def batches(self, after=None):
        self.turn = TURNS
        for batch in super().batches(after):
            rest = [BEGIN + row[1] * MINUTE for row in self.rows[batch.position["row"] :]]
            certain = min(rest, default=None)
            yield Batch(
                time=batch.time,
                key=batch.key,
                person=batch.person,
                position=batch.position,
                certain=certain,
            )


class NeighbourWorld:
    """A folder and the pipelines in it; each run begins with an empty store."""

    def __init__(self, folder):
        self.folder, self._made = folder, {}

    def pipeline(self, content):
        name = json.dumps(content)
        if name not in self._made:
            self._made[name] = Pipeline.of(content, folder=self.folder)
        for path in self.folder.glob("taps.db*"):
            path.unlink()
        return self._made[name]

    def released(self, made):
        with SQLiteReader(self.folder / "taps.db") as reader:
            return {
                view.name: np.array(
                    [release.value for release in reader.releases(made.series(view.name))]
                )
                for view in made.views
            }

    def lived(self, content, rows, cuts, kills):
        """The counts of each view of a live stream."""
        made = self.pipeline(content)
        driven = DrivenNeighbour(made, NeighbourScript(sorted(rows, key=lambda row: row[0]), cuts))
        for number in range(TURNS):
            driven.turn(number, kills.get(number, ()))
        driven.publisher.close()
        return self.released(made)

    def replayed(self, content, rows, cuts, stops):
        """The counts of each view of a finite input, which is stopped after some releases and
        started again.
        """
        made = self.pipeline(content)
        for stop in [*stops, None]:
            left = [stop]

            def listener(told, left=left):
                if told.kind == "release" and left[0] is not None:
                    left[0] -= 1
                    if left[0] <= 0:
                        publisher.stop()

            with Publisher(
                made, source=Finished(rows, cuts), noise=NoNoise, listener=listener
            ) as publisher:
                publisher.run()
        return self.released(made)


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return NeighbourWorld(tmp_path_factory.mktemp("neighbours"))


class DrivenNeighbour:
    """A publisher of a script, one turn at a time, that is killed where it is told to."""

    def __init__(self, made, source):
        self.made, self.source, self.clock = made, source, ManualClock(streams.moment(BEGIN))
        self.start()

    def start(self):
        self.publisher = Publisher(self.made, source=self.source, clock=self.clock, noise=NoNoise)

    def restart(self):
        self.publisher._closing.pop_all()
        self.publisher.store._file.close()
        self.made.path(self.made.store.path).with_name("taps.db-taps.lock").unlink(missing_ok=True)
        self.start()

    def turn(self, number, kill):
        self.source.turn = number
        self.clock._now = BEGIN + (number + 1) * HALF
        for stage in [*kill, None]:
            self.publisher.loop.read()
            if stage == "read":
                self.restart()
                continue
            if stage == "kept":
                self.publisher.committer.save()
                self.restart()
                continue
            while self.publisher.loop.draw(self.clock.now()):
                if stage == "drawn":
                    break
                self.publisher.loop.commit()
                if stage == "committed":
                    break
            if stage is not None:
                self.restart()


def alone(contribution, **stream):
    return streams.pipeline(
        stream={"lateness": "10min", "pace": "0s", **stream},
        privacy={"contribution": contribution},
        source=STDIN,
    )


def views(contribution, **stream):
    content = streams.pipeline(
        stream={"lateness": "10min", "pace": "0s", **stream},
        privacy={"window": 3},
        source=STDIN,
        view=[
            {"name": "hourly", "every": "1h", "mechanism": "uniform", "contribution": contribution},
            {"name": "double", "every": "2h", "mechanism": "uniform", "contribution": contribution},
        ],
    )
    del content["privacy"]["mechanism"]
    return content


STDIN = {"kind": "csv", "path": "taps.csv", "growing": True}
UNTIL = {"until": streams.moment(BEGIN + 4 * HOUR)}

YEAR = 365 * 24 * 60
FATE = st.integers(0, 45) | st.integers(-90, 240) | st.sampled_from([-YEAR, 0, 30, YEAR])
"""How many minutes after its time an event comes: most in time, some late, some from the future or
from another year.
"""

ROW = st.builds(
    lambda turn, late, key, person: (turn, 30 * (turn + 1) - late, key, person),
    st.integers(0, TURNS - 1),
    FATE,
    st.integers(0, len(KEYS) - 1),
    st.sampled_from([PERSON, PERSON, PERSON, 1, 2]),
)
ROWS = st.lists(ROW, min_size=12, max_size=30)
CUTS = st.sets(st.integers(1, 30), max_size=8)
KILLS = st.dictionaries(
    st.integers(0, TURNS - 1), st.lists(st.sampled_from(STAGES), max_size=2), max_size=4
)
FEW = settings(
    max_examples=10,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow],
)


def unit(row):
    """The small unit of an event's own time."""
    return row[1] // 60 + 1


def compared(one, other, rows, gone, contribution, *, size=1, current=False):
    """That only units of removed events differ, each by at most L, or twice that where the person
    still has others there.
    """
    assert len(one) == len(other)
    kept = [row for row in rows if row not in gone and row[3] == PERSON]
    for number, (here, there) in enumerate(zip(one, other, strict=True), start=1):
        distance = np.abs(here - there).sum()
        if number not in places(gone, size, current=current):
            assert distance == 0
        elif number in places(kept, size, current=current):
            assert distance <= 2 * contribution
        else:
            assert distance <= contribution
            assert (here >= there).all()
        event(f"distance {distance}, L {contribution}")


def places(rows, size, *, current):
    """The units that these events may count in: that of their time, and where late ones go on, that
    of the clock.
    """
    found = {(unit(row) - 1) // size + 1 for row in rows}
    if current:  # late events are placed by the clock of the last look, or of the last commit
        found |= {(turn - back) // 2 // size + 1 for turn, *_ in rows for back in range(-1, 4)}
    return found


def apart(rows, first, window):
    """The person's events of some units, and what is left without them."""
    gone = [row for row in rows if row[3] == PERSON and first <= unit(row) < first + window]
    return gone, [row for row in rows if row not in gone]


@FEW
@given(
    rows=ROWS,
    first=st.integers(1, HOURS),
    window=st.integers(1, 3),
    contribution=st.integers(1, 2),
    cuts=st.tuples(CUTS, CUTS),
    kills=st.tuples(KILLS, KILLS),
)
def test_one_view_differs_by_at_most_its_contribution_and_only_in_the_window(
    world, rows, first, window, contribution, cuts, kills
):
    """Restarts and batches of the two streams need not even be the same.

    That holds but for an event from the future: one that is read again after a crash may have come
    of age, so there is none.
    """
    rows = [row for row in rows if row[1] <= (row[0] + 1) * 30 or row[1] > YEAR // 2]
    gone, rest = apart(rows, first, window)
    (one,) = world.lived(alone(contribution), rows, cuts[0], kills[0]).values()
    (other,) = world.lived(alone(contribution), rest, cuts[1], kills[1]).values()
    assert len(one) == HOURS
    compared(one, other, rows, gone, contribution)


@FEW
@given(
    rows=ROWS,
    first=st.integers(1, HOURS),
    contribution=st.integers(1, 2),
    cuts=st.tuples(CUTS, CUTS),
    kills=KILLS,
)
def test_larger_units_of_another_view_differ_by_at_most_twice_that_where_a_window_cuts_them(
    world, rows, first, contribution, cuts, kills
):
    gone, rest = apart(rows, first, 3)
    one = world.lived(views(contribution), rows, cuts[0], kills)
    other = world.lived(views(contribution), rest, cuts[1], kills)
    compared(one["hourly"], other["hourly"], rows, gone, contribution)
    compared(one["double"], other["double"], rows, gone, contribution, size=2)


@FEW
@given(rows=ROWS, contribution=st.integers(1, 2), cuts=st.tuples(CUTS, CUTS), kills=KILLS)
def test_late_events_that_count_in_the_current_unit_are_bounded_there(
    world, rows, contribution, cuts, kills
):
    """Both streams stop at the same moments: the clock decides where a late event counts."""
    gone = [row for row in rows if row[3] == PERSON]
    rest = [row for row in rows if row[3] != PERSON]
    (one,) = world.lived(alone(contribution, late="current"), rows, cuts[0], kills).values()
    (other,) = world.lived(alone(contribution, late="current"), rest, cuts[1], kills).values()
    compared(one, other, rows, gone, contribution, current=True)


@pytest.mark.slow
@pytest.mark.parametrize("ordered", [True, False])
@FEW
@given(
    rows=ROWS,
    first=st.integers(1, 4),
    contribution=st.integers(1, 2),
    cuts=st.tuples(CUTS, CUTS),
    stops=st.tuples(
        st.lists(st.integers(1, 3), max_size=2), st.lists(st.integers(1, 3), max_size=2)
    ),
)
@example(  # units due by the end of the input are complete only once it is read again to its end
    rows=[(0, 0, 0, 0), (0, 91, 0, 0), (0, 0, 0, 0), (0, 142, 0, 0)],
    first=4,
    contribution=1,
    cuts=({1, 2}, {1, 2}),
    stops=([], [1]),
)
def test_a_finite_input_differs_by_no_more_wherever_it_was_stopped(
    world, ordered, rows, first, contribution, cuts, stops
):
    """Also where the input itself says early that a unit is complete."""
    rows = sorted(rows, key=lambda row: row[1]) if ordered else rows
    gone, rest = apart(rows, first, 3)
    one = world.replayed(views(contribution, **UNTIL), rows, cuts[0], stops[0])
    other = world.replayed(views(contribution, **UNTIL), rest, cuts[1], stops[1])
    truth = streams.truth(*taken(rows), units=4, contribution=contribution)
    assert one["hourly"].tolist() == truth.tolist()
    compared(one["hourly"], other["hourly"], rows, gone, contribution)
    compared(one["double"], other["double"], rows, gone, contribution, size=2)


def taken(rows):
    _, minutes, keys, people = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    return BEGIN + minutes * MINUTE, keys, people
