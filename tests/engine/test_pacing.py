from __future__ import annotations

import pytest

from penstock.core.errors import StateError
from penstock.engine.pacing import ClockGuard, ReleasePacing
from penstock.engine.waiting import Runtime, StopFlag
from penstock.private.units import SystemClock
from penstock.testing import ManualClock

SECOND = 1_000_000


class Hours:
    """A wall clock beside the time that passes; both move by hand."""

    def __init__(self, *, unit_seconds):
        self.wall, self.passed = 1_767_225_600.0, 100.0
        runtime = Runtime()
        runtime.elapsed = lambda: self.passed
        clock = SystemClock(lambda: int(self.wall * 1e9))
        self.guard = ClockGuard(clock, runtime, unit_seconds=unit_seconds)
        self.guard.now()

    def go(self, seconds, *, leap=0.0):
        self.passed += seconds
        self.wall += seconds + leap
        return self.guard.now()


@pytest.mark.parametrize(("unit", "limit"), [(86_400, 600), (3_600, 600), (60, 60), (2, 2)])
def test_a_clock_that_leaps_ahead_by_more_than_a_unit_closes_nothing(unit, limit):
    hours = Hours(unit_seconds=unit)
    assert hours.go(1, leap=limit) == int(hours.wall * 1e6)
    hours = Hours(unit_seconds=unit)
    with pytest.raises(StateError, match=f"leapt ahead.* and the limit is {limit}[.]"):
        hours.go(1, leap=limit + 2)


@pytest.mark.parametrize("unit", [3_600, 2])
def test_leaps_add_up(unit):
    hours = Hours(unit_seconds=unit)
    limit = min(unit, 600)
    for _ in range(2):
        hours.go(60, leap=0.4 * limit)
    with pytest.raises(StateError, match="leapt ahead"):
        hours.go(60, leap=0.4 * limit)


def test_a_clock_that_is_corrected_slowly_goes_on_for_ever():
    hours = Hours(unit_seconds=2)
    for _ in range(5_000):
        hours.go(3_600, leap=3_600 * 500e-6)


def test_a_clock_that_is_set_by_less_than_a_second_is_accepted_with_the_shortest_units():
    hours = Hours(unit_seconds=0.1)
    hours.go(1, leap=0.9)


def test_a_clock_that_is_set_back_and_forward_again_stops_nothing_by_that_alone():
    hours = Hours(unit_seconds=60)
    hours.go(10, leap=-45)
    hours.go(10, leap=45)


def test_a_clock_of_a_test_may_leap():
    clock = ManualClock("2026-01-01T00:00Z")
    guard = ClockGuard(clock, Runtime(), unit_seconds=1)
    guard.now()
    clock.advance("1d")
    assert guard.now() == clock.now()


class Turning(StopFlag):
    """Time passes by waiting only."""

    def __init__(self, clock):
        super().__init__()
        self.clock = clock

    def wait(self, seconds):
        self.clock._now += int(seconds * 1e6) + 1
        return self.is_set()


def paced(pace):
    clock = ManualClock("2026-01-01T00:00Z")
    return clock, ReleasePacing(clock, pace, Turning(clock))


def test_a_late_unit_leaves_at_the_next_multiple_of_the_pace():
    clock, pacing = paced(SECOND)
    closed = clock.now()
    pacing.schedule(closed, catching_up=False)
    clock._now += 2_700_000  # the work took so long
    assert pacing.wait()
    assert pacing.leaves_at == closed + 3 * SECOND
    assert 0 <= clock.now() - pacing.leaves_at < 1_000


def test_a_unit_that_leaves_much_later_is_not_waited_for():
    clock, pacing = paced(60 * SECOND)
    before = clock.now()
    pacing.schedule(before, catching_up=False)
    assert not pacing.wait()
    assert clock.now() == before


def test_whoever_catches_up_waits_for_no_unit():
    clock, pacing = paced(60 * SECOND)
    before = clock.now()
    pacing.schedule(before - 3600 * SECOND, catching_up=True)
    assert pacing.wait()
    assert clock.now() == before


def test_a_stop_ends_the_wait():
    clock, pacing = paced(SECOND)
    pacing.schedule(clock.now() - 700_000, catching_up=False)
    pacing._stop.set()
    assert not pacing.wait()
