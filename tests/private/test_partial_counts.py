"""Parts that are counted elsewhere, against one `Counting` that reads everything here.

No cluster is needed: what a cluster does between the two functions, a dictionary does here.
"""

from __future__ import annotations

import json
import pickle
from collections import defaultdict
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.calendar import Calendar
from penstock.core.errors import StateError, UnreadableRowsError
from penstock.private import partial_counts
from penstock.private.counting import Counting
from penstock.private.partial_counts import (
    CountedUnits,
    MessageReader,
    PartCounting,
    PartFailedError,
    PartitionCheck,
    PartMerging,
    RangeRule,
    own_version,
)
from penstock.private.person_places import partition_of
from penstock.private.sources.base import Columns, Intake, Rejections
from penstock.private.sources.message_formats import JsonMessages
from penstock.private.units import Units

KEYS = ["north", "south", "west"]
HOUR = 3_600_000_000
CALENDAR = Calendar(every="1h", origin="1970-01-01")


def intake(person_type="text", person="person", missing="drop"):
    return Intake(
        columns=Columns(
            "time",
            "key",
            person=person,
            clock="microseconds",
            person_type=person_type,
            missing_person=missing,
        ),
        domain=KEYS,
    )


def message(time, key, person):
    return json.dumps({"time": time, "key": key, "person": person}).encode()


class Topic:
    """Messages in two partitions, in stretches that were noted one after the other."""

    def __init__(self, stretches):
        self.values = {0: [], 1: []}
        self.ends = []
        for rows in stretches:
            for partition, value in rows:
                self.values[partition].append(value)
            self.ends.append({each: len(values) for each, values in self.values.items()})

    def batches(self, partition, rows):
        values = self.values[partition]
        columns = {
            "partition": pa.array([partition] * len(values), pa.int32()),
            "offset": pa.array(range(len(values)), pa.int64()),
            "value": pa.array(values, pa.binary()),
        }
        return pa.table(columns).to_batches(max_chunksize=rows)

    def stretch(self, number, partition):
        start = self.ends[number - 1][partition] if number else 0
        return self.values[partition][start : self.ends[number][partition]]


def here(topic, nows, reader, contribution, units):
    """What one `Counting` makes of the same messages, taken at the same times."""
    counting = Counting(
        Units(CALENDAR, lateness="30min"), keys=3, contribution=contribution, finite=False
    )
    rules, rejections, taken = [], Rejections(), 0
    for number, now in enumerate(nows):
        rules.append(RangeRule(now=now, units=counting.units.judging(), tallied=True))
        for partition in (0, 1):
            values = topic.stretch(number, partition)
            table = JsonMessages().table(values, reader.columns, rejections=rejections)
            batch = reader.batch(table, position=None, rejections=rejections)
            taken += len(batch)
            counting.take(batch, now)
        counting.due(now)
    counts = {unit: counting.counts(unit).tolist() for unit in units}
    tally = counting.units.tally
    return counts, rules, rejections, (taken, tally.late, tally.future, tally.past)


def elsewhere(topic, rules, reader, contribution, units, *, places, check=None, rows=3):
    """Each partition by a process of its own, then each place by another one."""
    task = PartCounting(
        reader=MessageReader(format=JsonMessages(), ends=topic.ends, starts={0: 0, 1: 0}),
        intake=SimpleNamespace(value=reader),
        rules=rules,
        calendar=CALENDAR,
        tolerance="1min",
        units=units,
        keys=3,
        contribution=contribution,
        finite=False,
        places=places,
        check=check,
        version=own_version(),
    )
    total = CountedUnits(units, 3, reader.columns)
    sent = defaultdict(list)
    for partition in (0, 1):
        for batch in task(iter(topic.batches(partition, rows))):
            if places:
                sent[batch.column("place")[0].as_py()].append(batch)
            else:
                total.add(pa.Table.from_batches([batch]))
    merging = pickle.loads(pickle.dumps(PartMerging(keys=3, contribution=contribution)))
    for pieces in sent.values():
        for batch in merging(iter(pieces)):
            total.add(pa.Table.from_batches([batch]))
    return total


rows = st.tuples(
    st.integers(0, 1),
    st.one_of(
        st.builds(
            message,
            st.integers(-1, 10).map(lambda half: half * HOUR // 2) | st.just("no time"),
            st.sampled_from([*KEYS, "nowhere"]),
            st.sampled_from(["1", "2", "33", 4, None, ""]),
        ),
        st.sampled_from([b"", b"{", b"[1]", b'{"time": 1}', b"\xff"]),
    ),
)


@settings(max_examples=60)
@given(
    stretches=st.lists(st.lists(rows, max_size=12), min_size=1, max_size=4),
    contribution=st.sampled_from([1, 3]),
    person_type=st.sampled_from(["text", "integer"]),
    missing=st.sampled_from(["drop", "each"]),
    held=st.sampled_from([1, 100]),
)
def test_parts_count_what_one_process_counts(stretches, contribution, person_type, missing, held):
    reader = intake(person_type, missing=missing)
    topic, units = Topic(stretches), range(1, 7)
    nows = [number * HOUR + HOUR // 2 for number in range(1, len(stretches) + 1)]
    counts, rules, rejections, tally = here(topic, nows, reader, contribution, units)
    before = partial_counts.MAX_EVENTS_HELD
    partial_counts.MAX_EVENTS_HELD = held
    try:
        total = elsewhere(topic, rules, reader, contribution, units, places=[5, 6, 9])
    finally:
        partial_counts.MAX_EVENTS_HELD = before
    assert {unit: total.of(unit).tolist() for unit in units} == counts
    assert total.rejections.by_column() == rejections.by_column()
    names = ("taken", "late", "future", "past")
    assert tuple(total.tally.get(name, 0) for name in names) == tally


def test_a_person_in_two_partitions_loses_events_and_counts_no_more_than_the_bound():
    people = [str(number) for number in range(40)]
    rightly = partition_of(pa.array(people), 2, "murmur2").tolist()
    stretches = [
        [(where, message(10, "north", each)) for each in people for where in (0, 1)]
        + [(0, message(10, "north", None))]
    ]
    topic, reader = Topic(stretches), intake(missing="each")
    rules = [RangeRule(now=HOUR, units=Units(CALENDAR).judging(), tallied=True)]
    check = PartitionCheck(partitions=2)
    total = elsewhere(topic, rules, reader, 1, range(1, 2), places=(), check=check)
    assert total.of(1).tolist() == [41, 0, 0]
    assert total.rejections.for_operator() == {"wrong partition": 40}
    assert sorted(set(rightly)) == [0, 1]
    without = elsewhere(topic, rules, reader, 1, range(1, 2), places=())
    assert without.of(1).tolist() == [81, 0, 0]


@pytest.mark.parametrize("contribution", [1, 3])
def test_a_part_with_final_counts_bounds_a_person_over_all_its_rows(monkeypatch, contribution):
    monkeypatch.setattr(partial_counts, "MAX_EVENTS_HELD", 1)
    monkeypatch.setattr(partial_counts, "VALUES_PER_TABLE", 3)
    person = next(each for each in map(str, range(9)) if partition_of(pa.array([each]), 2, "crc32"))
    topic = Topic([[(1, message(second, "north", person)) for second in range(20)]])
    rules = [RangeRule(now=HOUR, units=Units(CALENDAR).judging(), tallied=True)]
    check = PartitionCheck(partitions=2, partitioner="crc32")
    total = elsewhere(topic, rules, intake(), contribution, range(1, 2), places=(), check=check)
    assert total.of(1).tolist() == [contribution, 0, 0]


def test_stretches_that_were_tallied_are_not_tallied_again_and_other_units_are_left_out():
    topic = Topic([[(0, message(10, "north", "1")), (0, b"{")], [(0, message(HOUR, "south", "1"))]])
    rules = [
        RangeRule(now=HOUR // 2, units=Units(CALENDAR).judging()),
        RangeRule(now=HOUR, units=Units(CALENDAR).judging(), tallied=True),
    ]
    total = elsewhere(topic, rules, intake(), 1, range(2, 3), places=[0])
    assert total.of(2).tolist() == [0, 1, 0]
    assert total.of(1).tolist() == [0, 0, 0]
    assert (total.tally, total.rejections.for_operator()) == ({"taken": 1}, {})


def test_an_error_of_a_part_is_raised_again_where_the_counts_are():
    topic = Topic([[(0, message(10, "north", None))]])
    rules = [RangeRule(now=HOUR, units=Units(CALENDAR).judging())]
    for places in ([0], []):
        with pytest.raises(UnreadableRowsError, match="refuse"):
            elsewhere(topic, rules, intake(missing="refuse"), 1, range(1, 2), places=places)


def test_another_version_is_refused_and_other_errors_lose_their_text(monkeypatch):
    topic = Topic([[(0, message(10, "north", "1"))]])
    rules = [RangeRule(now=HOUR, units=Units(CALENDAR).judging())]
    with monkeypatch.context() as patch:
        patch.setattr(partial_counts, "own_version", lambda: "9.9", raising=True)
        total = CountedUnits(range(1), 3, intake().columns)
        note = pa.table(
            {"unit": [-2], "key": [0], "number": [0], "note": ["StateError: a worker has …"]}
        )
        with pytest.raises(StateError, match="a worker has"):
            total.add(note)
        with pytest.raises(StateError, match=r"Penstock 9\.9, and the publisher has"):
            partial_counts.check_version("1.0")

    def broken(*_, **__):
        raise ValueError("planted 7734")

    monkeypatch.setattr(Intake, "batch", broken)
    with pytest.raises(PartFailedError) as caught:
        elsewhere(topic, rules, intake(), 1, range(1, 2), places=[0])
    assert str(caught.value) == "ValueError"
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_nothing_of_counts_is_shown():
    total = CountedUnits(range(1, 2), 3, intake().columns)
    total.counts[1] = np.array([7734, 0, 0])
    assert "7734" not in repr(total)
