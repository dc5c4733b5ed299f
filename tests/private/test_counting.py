from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.calendar import Calendar, instant
from penstock.core.errors import StateError, StoreUnavailableError
from penstock.private import counting
from penstock.private.counting import Counting, Events
from penstock.private.sources.base import Batch
from penstock.private.units import Units

BEGIN = instant("2026-01-01T00:00Z")
HOUR = 3_600_000_000
KEYS = 3


def units(**more):
    return Units(Calendar(every="1h", origin="2026-01-01"), **more)


def made(*, finite=False, rows=10**6, contribution=1, **more):
    return Counting(units(**more), keys=KEYS, contribution=contribution, finite=finite, rows=rows)


def batch(*events, person="number"):
    """Events as (hour, minute, key, person)."""
    hours, minutes, keys, people = (
        np.array(column, np.int64) for column in zip(*events, strict=True)
    )
    who = {
        "number": lambda: people,
        "text": lambda: pa.array([f"card {each}" for each in people]),
        "words": lambda: pa.array([f"card {each}" for each in people]).dictionary_encode(),
        "some": lambda: pa.array([f"card {each}" if each else None for each in people]),
        "none": lambda: None,
    }[person]()
    return Batch(
        time=BEGIN + hours * HOUR + minutes * HOUR // 60, key=keys, person=who, position=None
    )


def drained(each, hours=4):
    """The counts of all units."""
    found = []
    for unit in each.due(BEGIN + hours * HOUR):
        found.append(each.counts(unit).tolist())
        each.close(unit)
    return found


NIGHT = [
    (hour, (7 * place) % 60, place % KEYS, place % 5)
    for place, hour in enumerate([0, 1, 0, 2, 3, 1, 0, 3, 2, 2, 1, 0] * 9)
]


@pytest.mark.parametrize("person", ["number", "text", "words", "some", "none"])
@pytest.mark.parametrize("rows", [1, 7, 10**6])
def test_whatever_waits_in_files_is_counted_the_same(person, rows):
    one, other = made(rows=rows), made()
    for start in range(0, len(NIGHT), 6):
        one.take(batch(*NIGHT[start : start + 6], person=person), BEGIN + 4 * HOUR)
    other.take(batch(*NIGHT, person=person), BEGIN + 4 * HOUR)
    assert drained(one) == drained(other)


@pytest.mark.filterwarnings("ignore:.*:pytest.PytestUnraisableExceptionWarning")  # files left open
@pytest.mark.parametrize("rows", [2, 40, 10**6])
@pytest.mark.parametrize("apart", [0, 5, 10**6])
@pytest.mark.parametrize("person", ["number", "text", "words", "some", "none"])
def test_a_restart_at_any_point_changes_nothing(person, apart, rows, monkeypatch):
    monkeypatch.setattr(counting, "MAX_SINGLE_EVENTS", apart)
    now = BEGIN + 4 * HOUR
    whole = made(contribution=2)
    whole.take(batch(*NIGHT, person=person), now)
    each, kept = made(contribution=2, rows=rows), {}
    for start in range(0, len(NIGHT), 9):
        each.take(batch(*NIGHT[start : start + 9], person=person), now)
        for name, content in each.changes().items():
            kept.pop(name, None)
            if content is not None:
                kept[name] = content
        each.settled()
        each = made(contribution=2, rows=rows)
        each.restore(dict(kept))
        assert each.pending == 0
    assert drained(each) == drained(whole)


def test_an_event_without_an_id_is_a_person_of_its_own():
    each = made()
    each.take(
        batch((0, 1, 0, 0), (0, 2, 0, 0), (0, 3, 1, 4), (0, 4, 1, 4), person="some"), BEGIN + HOUR
    )
    assert drained(each, hours=1) == [[2, 1, 0]]


def test_parts_of_closed_units_go_and_others_stay():
    each = made()
    each.take(batch((0, 1, 0, 1)), BEGIN + HOUR)
    assert sorted(each.changes()) == ["events 000000000000 of 1", "units"]
    each.settled()
    each.take(batch((1, 1, 1, 1)), BEGIN + HOUR)
    assert sorted(each.changes()) == ["events 000000000001 of 2", "units"]
    each.settled()
    assert list(each.due(BEGIN + HOUR)) == [1]
    closing = each.changes(closing=1)
    assert closing["events 000000000000 of 1"] is None
    assert "events 000000000001 of 2" not in closing
    each.settled()
    each.close(1)
    each.take(batch((1, 2, 1, 7)), BEGIN + 2 * HOUR)
    assert [name for name, content in each.changes().items() if content] == [
        "units",
        "events 000000000002 of 2",
    ]


class PartsOfStore(dict):
    """Parts that note when they are read, and cannot be read while the store is away."""

    def __init__(self, parts):
        super().__init__(parts)
        self.read, self.away = [], False

    def __getitem__(self, name):
        if self.away:
            raise StoreUnavailableError("the connection was lost.")
        self.read.append(name)
        return super().__getitem__(name)


def test_units_that_do_not_fit_are_not_read_at_a_restart_but_when_they_close():
    live = made()
    live.take(batch(*NIGHT), BEGIN + 4 * HOUR)
    parts = PartsOfStore(live.changes())
    again = made(rows=10)
    again.restore(parts)
    assert parts.read == ["units"]
    late = (0, 59, 2, 77)
    again.take(batch(late), BEGIN + 4 * HOUR)
    live.take(batch(late), BEGIN + 4 * HOUR)
    assert again.held == live.held
    assert list(again.due(BEGIN + HOUR)) == [1]
    parts.away = True
    with pytest.raises(StoreUnavailableError):
        again.counts(1)
    parts.away = False
    assert drained(again) == drained(live)


def test_what_was_not_settled_is_given_again():
    each = made()
    each.take(batch((0, 1, 0, 1)), BEGIN + HOUR)
    assert each.changes() == each.changes()
    assert each.pending == 1
    each.settled()
    assert each.pending == 0
    assert set(each.changes()) == {"units"}


@pytest.mark.parametrize(
    "kinds", [("number", "number"), ("text", "words"), ("words", "words"), ("none", "none")]
)
def test_several_batches_are_kept_as_one(kinds):
    each, now = made(), BEGIN + HOUR
    for minute, kind in enumerate(kinds):
        each.take(batch((0, minute, minute, 5), (0, 30, 2, minute), person=kind), now)
    kept = each.changes()
    assert sorted(kept) == ["events 000000000000 of 1", "units"]
    again = made()
    again.restore(kept)
    assert again.due(now) == each.due(now)
    assert (
        again.counts(1).tolist()
        == each.counts(1).tolist()
        == ([1, 1, 2] if kinds[0] == "none" else [1, 0, 2])
    )


def test_whole_units_are_kept_instead_of_too_many_parts(monkeypatch):
    monkeypatch.setattr(counting, "MIN_EVENT_PARTS", 5)
    each, names = made(), set()
    for minute in range(20):
        each.take(batch((0, minute, 0, minute)), BEGIN + HOUR)
        changes = each.changes()
        names = {name for name in names if name not in changes} | {
            name for name, content in changes.items() if content
        }
        each.settled()
        assert len(names) <= 8


def test_nothing_of_a_finite_input_is_kept_and_closed_units_are_not_counted_again():
    each = made(finite=True)
    assert each.take(batch((0, 1, 0, 1), (2, 1, 0, 1)), BEGIN + 4 * HOUR) == 3
    each.due(BEGIN + HOUR)
    kept = each.changes(closing=1)
    assert set(kept) == {"units"}
    again = made(finite=True)
    again.restore(kept)
    assert again.take(batch((0, 1, 0, 1)), BEGIN + 4 * HOUR) == 0
    assert again.take(batch((0, 1, 0, 1), (2, 1, 0, 1)), BEGIN + 4 * HOUR) == 3
    assert again.units.tally.late == 0
    assert drained(again) == [[0, 0, 0], [1, 0, 0], [0, 0, 0]]


@pytest.mark.parametrize("damage", [{}, {"units": b"\xff"}, {"units": b"\x80"}, "events", "open"])
def test_what_is_damaged_is_refused_without_a_word_of_it(damage, monkeypatch):
    monkeypatch.setattr(counting, "MAX_SINGLE_EVENTS", 0 if damage == "open" else 10)
    each = made()
    each.take(batch((0, 1, 0, 7777)), BEGIN)
    kept = each.changes()
    if isinstance(damage, str):
        name = next(name for name in kept if name.startswith(damage))
        damage = kept | {name: kept[name][: len(kept[name]) // 2]}
    with pytest.raises(StateError) as refused:
        made().restore(damage)
    assert "7777" not in str(refused.value)


def test_nothing_of_it_is_shown():
    each = made()
    each.take(batch((0, 1, 0, 7777)), BEGIN)
    shown = repr(each) + repr(
        Events(unit=np.array([1]), time=np.array([1]), key=np.array([1]), person=np.array([7777]))
    )
    assert "7777" not in shown


EVENTS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 59), st.integers(0, KEYS - 1), st.integers(0, 4)),
    min_size=1,
)


@settings(max_examples=60, deadline=None)
@given(
    events=EVENTS,
    seed=st.integers(0, 2**31),
    rows=st.integers(1, 20),
    contribution=st.integers(1, 3),
)
def test_the_counts_are_those_of_the_persons_earliest_events(events, seed, rows, contribution):
    """Whatever the order, the batches and what waits in files."""
    expected = np.zeros((4, KEYS), np.int64)
    kept = {}
    for hour, _, key, person in sorted(events):
        if kept.setdefault((hour, person), 0) < contribution:
            kept[hour, person] += 1
            expected[hour, key] += 1
    shuffled = [events[place] for place in np.random.default_rng(seed).permutation(len(events))]
    each = made(rows=rows, contribution=contribution)
    for start in range(0, len(shuffled), 3):
        each.take(batch(*shuffled[start : start + 3]), BEGIN + 4 * HOUR)
    assert drained(each) == expected.tolist()
