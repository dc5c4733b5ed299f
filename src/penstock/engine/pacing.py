"""When a drawn unit leaves, and whether the clock can be trusted."""

from __future__ import annotations

from penstock.core.errors import StateError
from penstock.engine.waiting import Runtime, StopFlag
from penstock.private.units import Clock, SystemClock

IDLE_SECONDS = 0.2
"""The pause until a source that cannot call is asked again."""

MAX_LEAP_SECONDS = 600.0
"""How far a clock may run ahead of the time that has passed, whatever the length of a unit."""

MIN_LEAP_SECONDS = 1.0
"""A lead that is always accepted: a time service sets a clock by that much in one step."""

FASTEST_SLEW = 500e-6
"""How much faster than time a time service lets a clock run while it corrects it."""


class ReleasePacing:
    """Lets releases leave at multiples of `pace` after their unit closed.

    So nobody learns from the moment of a release how long the work took. A publisher that catches
    up with several units does not wait for each.
    """

    def __init__(self, clock: Clock, pace: int, stop: StopFlag) -> None:
        self.leaves_at = 0
        self._clock = clock
        self._pace = pace
        self._stop = stop
        self._paced = False

    def schedule(self, closed_at: int, *, catching_up: bool) -> None:
        """Set when a unit that was just drawn leaves."""
        self._paced = self._pace > 0 and not catching_up
        self.leaves_at = max(self.leaves_at, closed_at + (self._pace if self._paced else 0))

    def wait(self) -> bool:
        """Wait until the drawn units leave; return at once, and False, where that is not soon."""
        late = self._clock.now() - self.leaves_at
        if late > 0 and self._paced:
            self.leaves_at += -(-late // self._pace) * self._pace
        if self.leaves_at - self._clock.now() > 2 * IDLE_SECONDS * 1e6:
            return False
        while self._clock.now() < self.leaves_at:
            seconds = (self.leaves_at - self._clock.now()) / 1e6
            if self._stop.wait(min(seconds, IDLE_SECONDS)):
                return False
        return True


class ClockGuard:
    """Reads the system's clock, and stops the publisher when that has leapt ahead.

    A leap closes every unit up to the new time, for good. So the clock may run ahead of the time
    that has passed by one unit, and by ten minutes at most. Leaps add up: within a day, the lead is
    forgiven once, or as fast as a time service corrects a clock if that is faster.
    """

    def __init__(self, clock: Clock, runtime: Runtime, *, unit_seconds: float) -> None:
        self._clock = clock
        self._runtime = runtime
        self._limit = min(max(unit_seconds, MIN_LEAP_SECONDS), MAX_LEAP_SECONDS)
        self._forgiven = max(self._limit / 86_400, FASTEST_SLEW)  # per second
        self._lead = 0.0
        self._last: tuple[int, float] | None = None

    def now(self) -> int:
        """Return the clock's time in microseconds. Clocks of tests may leap."""
        now = self._clock.now()
        if not isinstance(self._clock, SystemClock):
            return now
        elapsed = self._runtime.elapsed()
        if self._last is not None:
            passed = elapsed - self._last[1]
            leap = (now - self._last[0]) / 1e6 - passed
            self._lead = max(0.0, self._lead + leap - self._forgiven * passed)
            if self._lead > self._limit:
                raise StateError(
                    f"the clock leapt ahead: it is {self._lead:.0f} seconds ahead of the time that "
                    f"has passed, and the limit is {self._limit:g}. Units close by the clock and "
                    "never open again, so no unit was closed. Correct the clock; if it is right "
                    "now, start again."
                )
        self._last = now, elapsed
        return now
