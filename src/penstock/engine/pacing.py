"""When a drawn unit leaves, and whether the clock can be trusted."""

from __future__ import annotations

from penstock.core.errors import StateError
from penstock.engine.waiting import Runtime, StopFlag
from penstock.private.units import Clock, SystemClock

IDLE_SECONDS = 0.2
"""The pause until a source that cannot call is asked again."""

MAX_LEAP_SECONDS = 600.0
"""How far a clock may run ahead of the time that has passed."""


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

    A leap would close every unit up to the new time, for good.
    """

    def __init__(self, clock: Clock, runtime: Runtime) -> None:
        self._clock = clock
        self._runtime = runtime
        self._last: tuple[float, float] | None = None

    def now(self) -> int:
        """Return the clock's time in microseconds. Clocks of tests may leap."""
        now = self._clock.now()
        if not isinstance(self._clock, SystemClock):
            return now
        passed = self._runtime.elapsed()
        if self._last is not None:
            leap = (now / 1e6 - self._last[0]) - (passed - self._last[1])
            if leap > MAX_LEAP_SECONDS:
                raise StateError(
                    f"the clock leapt ahead by {leap:.0f} seconds. Units close by the clock and "
                    "never open again, so no unit was closed. Correct the clock; if it is right "
                    "now, start again."
                )
        self._last = now / 1e6, passed
        return now
