from __future__ import annotations

import time

import pytest

from penstock.core.errors import StateError
from penstock.engine.pacing import ClockGuard, ReleasePacing
from penstock.engine.waiting import Runtime, StopFlag
from penstock.private.units import SystemClock
from penstock.testing import ManualClock

SECOND = 1_000_000


def test_a_clock_that_leaps_ahead_closes_nothing():
    wall = time.time_ns()
    guard = ClockGuard(SystemClock(lambda: wall), Runtime())
    guard.now()
    wall += 3_600 * 10**9
    with pytest.raises(StateError, match="leapt ahead by 3600 seconds"):
        guard.now()


def test_a_clock_of_a_test_may_leap():
    clock = ManualClock("2026-01-01T00:00Z")
    guard = ClockGuard(clock, Runtime())
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
