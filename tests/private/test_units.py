"""Events into units, and units closed by the clock."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.calendar import SECOND, Calendar, instant
from penstock.core.errors import ConfigurationError, InputError, StateError
from penstock.private.units import (
    FUTURE,
    LATE,
    PAST,
    HeartbeatClock,
    ReplayClock,
    SystemClock,
    Units,
)
from penstock.testing import ManualClock

MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
HOURS = Calendar(every="1h", origin="2026-01-01")
START = HOURS.begins(1)


def hourly(**options: str) -> Units:
    return Units(HOURS, **options)


def sort(units: Units, *times: int, now: int) -> list[int]:
    return units.sort(np.array(times, np.int64), now).tolist()


def tally(units: Units) -> tuple[int, int, int]:
    return units.tally.late, units.tally.future, units.tally.past


def close_all(units: Units, now: int) -> list[int]:
    due = list(units.due(now))
    for unit in due:
        units.close(unit)
    return due


# -- closing ---------------------------------------------------------------------------------------


def test_a_unit_is_due_at_its_end_and_not_before():
    units = hourly()
    assert list(units.due(START - 1)) == []
    assert list(units.due(START + HOUR - 1)) == []
    assert list(units.due(START + HOUR)) == [1]
    assert list(units.due(START + 2 * HOUR - 1)) == [1]
    assert list(units.due(START + 2 * HOUR)) == [1, 2]


def test_a_unit_is_due_when_its_lateness_has_passed():
    units = hourly(lateness="2h")
    assert list(units.due(START + 3 * HOUR - 1)) == []
    assert list(units.due(START + 3 * HOUR)) == [1]


def test_events_close_nothing():
    units = hourly()
    for time in (START + HOUR, START + 500 * HOUR, 2**63 - 1, -(2**63)):
        sort(units, time, now=START)
    assert list(units.due(START)) == []
    assert sort(units, START, now=START) == [1]


def test_silence_closes_units_in_order():
    units = hourly()
    assert close_all(units, START + 5 * HOUR) == [1, 2, 3, 4, 5]
    assert units.closed == 5
    assert close_all(units, START + 5 * HOUR) == []
    assert close_all(units, START + 7 * HOUR) == [6, 7]


def test_a_year_of_silence_in_seconds_is_one_range():
    units = Units(Calendar(every="1s", origin="2026-01-01"))
    assert units.due(START + 365 * 24 * HOUR) == range(1, 365 * 86_400 + 1)
    units.close(1)
    assert units.due(START) == range(2, 365 * 86_400 + 1)


def test_units_close_in_order_once_they_are_due():
    units = hourly()
    with pytest.raises(InputError, match="unit 1 cannot be closed"):
        units.close(1)
    units.due(START + 3 * HOUR)
    for unit in (0, 2, 3, 4):
        with pytest.raises(InputError, match=f"unit {unit} cannot be closed"):
            units.close(unit)
    units.close(1)
    with pytest.raises(InputError, match="unit 1 cannot be closed"):
        units.close(1)
    assert units.closed == 1


def test_days_close_by_the_wall_clock_of_their_zone():
    calendar = Calendar(every="1d", zone="Europe/Zurich", origin="2026-03-28")
    units = Units(calendar)
    assert list(units.due(instant("2026-03-29T21:59:59.999999Z"))) == [1]
    assert list(units.due(instant("2026-03-29T22:00Z"))) == [1, 2]


def test_after_the_last_unit_nothing_more_is_due():
    calendar = Calendar(every="600mo", origin="2000-01-01")
    for late in ("drop", "current"):
        units = Units(calendar, late=late)
        assert close_all(units, 2**70) == [1, 2, 3, 4]
        assert sort(units, START, 2**62, 2**63 - 1, now=2**70) == [LATE, FUTURE, FUTURE]
        assert len(units.open(2**70)) == 0


# -- sorting ---------------------------------------------------------------------------------------


def test_a_boundary_belongs_to_the_unit_that_begins_there():
    units = hourly()
    now = START + 2 * HOUR + MINUTE
    assert sort(units, START, START + HOUR - 1, START + HOUR, START + 2 * HOUR, now=now) == [
        1,
        1,
        2,
        3,
    ]


def test_without_lateness_the_last_instant_counts_until_the_end():
    units = hourly()
    last = START + HOUR - 1
    units.due(last)
    assert sort(units, last, now=last) == [1]
    units.due(last + 1)
    assert sort(units, last, last + 1, now=last + 1) == [LATE, 2]
    assert tally(units) == (1, 0, 0)


def test_several_units_are_open_while_lateness_lasts():
    units = hourly(lateness="2h")
    now = START + 5 * HOUR + 30 * MINUTE
    assert close_all(units, now) == [1, 2, 3]
    assert units.open(now) == range(4, 7)
    assert sort(units, *(START + hour * HOUR for hour in range(6)), now=now) == [
        LATE,
        LATE,
        LATE,
        4,
        5,
        6,
    ]
    near = START + 6 * HOUR - MINUTE
    assert units.open(near - 1) == range(4, 7)
    assert units.open(near) == range(4, 8)


def test_lateness_of_many_units():
    units = Units(Calendar(every="1min", origin="2026-01-01"), lateness="1d")
    now = START + 24 * HOUR + MINUTE
    assert list(units.due(now - 1)) == []
    assert units.open(now - 1) == range(1, 24 * 60 + 2 + 1)
    assert list(units.due(now)) == [1]
    assert len(units.open(now)) == 24 * 60 + 2


def test_what_is_due_takes_no_events_even_before_it_is_closed():
    units = hourly()
    assert list(units.due(START + 3 * HOUR)) == [1, 2, 3]
    units.close(1)
    assert sort(units, START, START + 2 * HOUR, START + 3 * HOUR, now=START + 3 * HOUR) == [
        LATE,
        LATE,
        4,
    ]


def test_late_events_can_count_in_the_current_unit():
    units = hourly(lateness="1h", late="current")
    now = START + 4 * HOUR + 5 * MINUTE
    units.due(now)
    assert sort(units, START, START + HOUR, START + 3 * HOUR, now, now=now) == [5, 5, 4, 5]
    assert tally(units) == (2, 0, 0)
    assert sort(units, START - 1, now + HOUR, now=now) == [PAST, FUTURE]


def test_the_future_is_refused_beyond_the_tolerance():
    units = hourly(tolerance="90s")
    now = START + HOUR - MINUTE
    edge = now + 90 * SECOND
    assert sort(units, now, edge, edge + 1, START + 100 * HOUR, 2**63 - 1, now=now) == [
        1,
        2,
        FUTURE,
        FUTURE,
        FUTURE,
    ]
    assert tally(units) == (0, 3, 0)
    assert sort(hourly(tolerance="0s"), now, now + 1, now=now) == [1, FUTURE]


def test_what_is_before_unit_1_is_refused():
    units = hourly()
    assert sort(units, START - 1, 0, -(2**63), START, now=START) == [PAST, PAST, PAST, 1]
    assert tally(units) == (0, 0, 3)
    assert sort(units, START - HOUR, START, now=START - 2 * HOUR) == [PAST, FUTURE]


def test_no_events_are_sorted_too():
    units = hourly()
    assert sort(units, now=START) == []
    assert tally(units) == (0, 0, 0)


def test_times_stay_as_they_are():
    units = hourly()
    units.due(START + HOUR)
    times = np.array([START, START - 1, START + HOUR, 2**62])
    before = times.copy()
    units.sort(times, START + HOUR)
    assert (times == before).all()


def test_figures_are_not_shown():
    units = hourly()
    sort(units, *[START - 1] * 771, *[2**62] * 772, now=START)
    units.due(START + HOUR)
    sort(units, *[START] * 773, now=START + HOUR)
    assert tally(units) == (773, 772, 771)
    shown = f"{units!r} {units} {units.tally!r} {units.tally}"
    assert "77" not in shown


def slow_place(units: Units, lateness: int, time: int, now: int) -> int:
    """What the description says, one event at a time, with whole hours counted by `datetime`."""
    origin = datetime.fromisoformat(str(units.calendar.origin))
    unit = (timedelta(microseconds=time - START) // timedelta(hours=1)) + 1
    if unit < 1:
        return PAST
    if time > now + MINUTE:
        return FUTURE
    end = instant(origin + timedelta(hours=unit))
    return LATE if end + lateness <= now else unit


@settings(max_examples=300, deadline=None)
@given(
    st.integers(0, 5),
    st.integers(-HOUR, 50 * HOUR),
    st.lists(st.integers(-2 * HOUR, 60 * HOUR), max_size=30),
    st.booleans(),
)
def test_every_event_of_an_open_unit_lands_in_exactly_that_unit(
    hours, passed, offsets, on_boundaries
):
    units = hourly(lateness=f"{hours}h")
    now = START + (passed // HOUR * HOUR if on_boundaries else passed)
    times = [START + (offset // HOUR * HOUR if on_boundaries else offset) for offset in offsets]
    units.due(now)
    places = sort(units, *times, now=now)
    assert places == [slow_place(units, hours * HOUR, time, now) for time in times]
    open_units = units.open(now)
    for time, place in zip(times, places, strict=True):
        if place > 0:
            assert place in open_units
            assert HOURS.begins(place) <= time < HOURS.ends(place)
        elif time <= now + MINUTE:
            assert HOURS.unit_at(time) not in open_units
    assert tally(units) == (places.count(LATE), places.count(FUTURE), places.count(PAST))


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 3), st.lists(st.integers(0, 30 * HOUR), min_size=1, max_size=20))
def test_whatever_the_clock_does_each_unit_closes_once_and_in_order(hours, readings):
    units = hourly(lateness=f"{hours}h")
    closed = []
    for reading in readings:
        closed += close_all(units, START + reading)
    assert all(later == one + 1 for one, later in pairwise([0, *closed]))
    assert len(closed) == max((max(readings) - hours * HOUR) // HOUR, 0)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.integers(0, 10 * HOUR), max_size=10),
    st.lists(st.integers(-(2**63), 2**63 - 1), max_size=10),
)
def test_another_event_changes_nobody_elses_place(offsets, others):
    now = START + 6 * HOUR
    times = [START + offset for offset in offsets]
    alone, together = hourly(lateness="1h"), hourly(lateness="1h")
    for units in (alone, together):
        units.due(now)
    sort(together, *others, now=now)
    assert sort(together, *others, *times, now=now)[len(others) :] == sort(alone, *times, now=now)
    later = now + 2 * HOUR
    assert alone.due(later) == together.due(later)
    assert alone.open(later) == together.open(later)


# -- clocks ----------------------------------------------------------------------------------------


def test_the_system_clock_never_goes_back():
    readings = iter([5_000_999, 7_000_000, 3_000_000, 6_999_999, 7_001_000])
    clock = SystemClock(lambda: next(readings))
    assert [clock.now() for _ in range(5)] == [5_000, 7_000, 7_000, 7_000, 7_001]


def test_the_system_clock_tells_the_time():
    one = SystemClock().now()
    assert one > instant("2025-01-01T00:00Z")
    assert one < HOURS.ends(HOURS.last)


def test_a_clock_that_is_set_back_reopens_nothing():
    clock = ManualClock("2026-01-01T03:00Z")
    units = hourly()
    assert close_all(units, clock.now()) == [1, 2, 3]
    clock.set("2026-01-01T01:30Z")
    assert close_all(units, clock.now()) == []
    assert sort(units, START + 2 * HOUR, START + 3 * HOUR, now=clock.now()) == [LATE, 4]
    clock.advance("90min")
    assert close_all(units, clock.now()) == []
    clock.advance("1h")
    assert close_all(units, clock.now()) == [4]


def test_late_events_count_in_an_open_unit_even_if_the_clock_was_set_back():
    units = hourly(late="current")
    units.due(START + 3 * HOUR)
    assert sort(units, START, now=START + HOUR) == [4]


def test_units_can_close_by_a_heartbeat():
    clock = HeartbeatClock()
    units = hourly()
    assert close_all(units, clock.now()) == []
    clock.beat(START + HOUR)
    assert close_all(units, clock.now()) == [1]
    clock.beat(START)
    assert clock.now() == START + HOUR


def test_nothing_in_a_finished_file_is_late():
    clock = ReplayClock(START + 5 * HOUR)
    units = hourly()
    backwards = [START + hour * HOUR for hour in reversed(range(5))]
    for time in backwards:
        assert close_all(units, clock.now()) == []
        assert sort(units, time, now=clock.end) == [HOURS.unit_at(time)]
    assert sort(units, START + 6 * HOUR, now=clock.end) == [FUTURE]
    clock.finish()
    assert close_all(units, clock.now()) == [1, 2, 3, 4, 5]
    assert tally(units) == (0, 1, 0)


def test_a_file_in_order_can_be_closed_while_it_is_read():
    clock = ReplayClock(START + 5 * HOUR)
    units = hourly(late="current")
    clock.beat(START + 2 * HOUR)
    assert close_all(units, clock.now()) == [1, 2]
    assert sort(units, START, START + 4 * HOUR, now=clock.end) == [3, 5]


# -- saving ----------------------------------------------------------------------------------------


def saved_after(*, due: int, closed: int) -> tuple[Units, dict[str, object]]:
    units = hourly(lateness="1h")
    sort(units, START - 1, 2**62, 2**62, now=START)
    units.due(due)
    for unit in range(1, closed + 1):
        units.close(unit)
    sort(units, *[START] * 3, now=due)
    return units, json.loads(json.dumps(units.save()))


def test_a_restart_changes_nothing():
    now = START + 6 * HOUR
    units, saved = saved_after(due=now, closed=5)
    again = hourly(lateness="1h")
    again.load(saved)
    assert again.save() == units.save() == saved
    assert (again.closed, tally(again)) == (5, (3, 2, 1))
    assert again.open(now) == units.open(now)
    times = np.array([START, START + 5 * HOUR, now])
    assert again.sort(times, now).tolist() == units.sort(times, now).tolist() == [LATE, 6, 7]
    assert again.due(now + HOUR) == units.due(now + HOUR) == range(6, 7)


def test_after_a_restart_what_was_due_can_be_read_again_and_is_still_due():
    now = START + 6 * HOUR
    _, saved = saved_after(due=now, closed=2)
    again = hourly(lateness="1h")
    again.load(saved)
    assert sort(again, START + HOUR, START + 2 * HOUR, now=now) == [LATE, 3]
    assert again.due(now) == range(3, 6)
    assert sort(again, START + 2 * HOUR, now=now) == [LATE]


def test_a_clock_set_back_during_a_restart_reopens_nothing():
    _, saved = saved_after(due=START + 6 * HOUR, closed=2)
    again = hourly(lateness="1h", late="current")
    again.load(saved)
    assert again.due(START) == range(3, 6)
    assert sort(again, START, START + 2 * HOUR, START + 5 * HOUR, now=START) == [7, 7, 6]


def test_a_longer_lateness_after_a_restart_reopens_nothing():
    now = START + 6 * HOUR
    _, saved = saved_after(due=now, closed=5)
    again = hourly(lateness="4h")
    again.load(saved)
    assert list(again.due(now)) == []
    assert sort(again, START + 4 * HOUR, START + 5 * HOUR, now=now) == [LATE, 6]
    assert list(again.due(now + 3 * HOUR)) == []
    assert list(again.due(now + 4 * HOUR)) == [6]


def test_a_save_before_the_first_unit_can_be_loaded():
    units = Units(Calendar(every="1d", origin="1970-01-01"))
    again = Units(Calendar(every="1d", origin="1970-01-01"))
    again.load(units.save())
    assert again.save() == units.save()


@pytest.mark.parametrize(
    "change",
    [
        {"closed": 6},
        {"closed": 7},
        {"closed": -1},
        {"closed": True},
        {"closed": "2"},
        {"now": 0},
        {"now": 1.5},
        {"tally": {}},
        {"tally": {"late": -771, "future": 0, "past": 0}},
        {"tally": None},
        {"calendar": {}},
        {"calendar": {"every": "1h", "zone": "Nowhere", "origin": "2026-01-01"}},
        {"calendar": {"every": "1h", "zone": "UTC", "origin": "2026-01-02"}},
        {"calendar": {"every": "2h", "zone": "UTC", "origin": "2026-01-01"}},
        {"calendar": {"every": "1h", "zone": "Africa/Abidjan", "origin": "2026-01-01"}},
    ],
)
def test_a_save_of_something_else_is_refused_and_changes_nothing(change):
    _, saved = saved_after(due=START + 5 * HOUR, closed=2)
    units = hourly(lateness="1h")
    before = units.save()
    with pytest.raises(StateError, match="this is") as raised:
        units.load({**saved, **change})
    assert "771" not in str(raised.value)
    assert units.save() == before
    with pytest.raises(StateError):
        units.load({name: value for name, value in saved.items() if name not in change})


# -- configuration ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"late": "keep"}, "late must be 'drop' or 'current', not 'keep'"),
        (
            {"lateness": "1mo"},
            "lateness must be a whole number from 0 on and one of s, min, h, d, w",
        ),
        ({"lateness": 5}, "lateness must be"),
        ({"tolerance": "-1s"}, "tolerance must be"),
    ],
)
def test_options_that_cannot_be_used_are_refused(options, message):
    with pytest.raises(ConfigurationError, match=message):
        hourly(**options)
