"""Sort events into units. A unit closes by the clock alone.

No event moves anything here. Time comes from a `Clock`, which is public: the system's, a heartbeat
from outside, or the declared end of a finished file. A clock computed from event times would let
one person's wrong timestamp close units and drop the events of all others. No noise covers that.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Literal, Protocol, TypeAlias, get_args

import numpy as np

from penstock.core.arrays import IntArray
from penstock.core.calendar import Calendar, duration
from penstock.core.errors import ConfigurationError, InputError, StateError

Late: TypeAlias = Literal["drop", "current"]

PAST = 0
"""The place of an event from before unit 1."""

LATE = -1
"""The place of an event whose unit has closed."""

FUTURE = -2
"""The place of an event from after the clock."""


class Clock(Protocol):
    """A public source of time."""

    def now(self) -> int:
        """Microseconds since the beginning of 1970 in UTC."""
        ...


class SystemClock:
    """The system's clock. It never goes back: if set back, it waits until the time is reached
    again.

    `wall` gives nanoseconds; it is a parameter for tests.
    """

    def __init__(self, wall: Callable[[], int] = time.time_ns) -> None:
        self._wall = wall
        self._now = 0

    def now(self) -> int:
        self._now = max(self._now, self._wall() // 1_000)
        return self._now


class HeartbeatClock:
    """A clock that stands still until a public heartbeat moves it; it never goes back.

    >>> clock = HeartbeatClock()
    >>> clock.beat(2_000_000)
    >>> clock.beat(1_000_000)
    >>> clock.now()
    2000000
    """

    def __init__(self) -> None:
        self._now = 0

    def now(self) -> int:
        return self._now

    def beat(self, now: int) -> None:
        """Move the clock to `now` at least. It must come from outside, never from events."""
        self._now = max(self._now, now)


class ReplayClock(HeartbeatClock):
    """The clock of a finished file: it stands still while the file is read, then jumps to the end.

    `end` is declared, not found in the file. The file's events are sorted with it as `now`. Nothing
    closes before `finish`, so no event of a finished file is late. `beat` says how far an ordered
    file has been read for certain.

    >>> clock = ReplayClock(7_200_000_000)
    >>> clock.now()
    0
    >>> clock.finish()
    >>> clock.now()
    7200000000
    """

    def __init__(self, end: int) -> None:
        super().__init__()
        self.end = end

    def finish(self) -> None:
        """Jump to the end, once all has been read."""
        self.beat(self.end)


class LateTally:
    """The numbers of events that were late, from the future and from the past. Private."""

    def __init__(self, late: int = 0, future: int = 0, past: int = 0) -> None:
        self.late = late
        self.future = future
        self.past = past

    def __repr__(self) -> str:
        return "<Tally, private>"


class Units:
    """The open units of a stream.

    Several units may be open. A unit closes when the clock reaches its end plus the lateness, with
    or without events. Events from more than `tolerance` after the clock are refused, and so are
    events from before unit 1.

    Call `due` whenever the clock may have moved: the units that it names take no more events.
    Release them in order, and `close` each in the transaction of its release. `due` and `sort` take
    the clock's time and not the clock, so that a whole batch is sorted with the time at which it
    came.

    Parameters
    ----------
    calendar : Calendar
        Defines the units.
    lateness : str
        How long after its end a unit stays open. Default: "0s".
    tolerance : str
        How far an event may lie after the clock. Default: "1min".
    late : {"drop", "current"}
        An event after its unit has closed is dropped, or counts in the unit of the clock's time,
        for bounding and promise too. Default: "drop".

    >>> import numpy as np
    >>> from penstock.core.calendar import instant
    >>> units = Units(Calendar(every="1h", origin="2026-01-01"), lateness="10min")
    >>> one, two = instant("2026-01-01T00:59Z"), instant("2026-01-01T01:09Z")
    >>> units.due(two), units.sort(np.array([one, two]), two)
    (range(1, 1), array([1, 2]))
    >>> later = instant("2026-01-01T01:10Z")
    >>> units.due(later), units.sort(np.array([one, two]), later)
    (range(1, 2), array([-1,  2]))
    >>> units.close(1)
    >>> units, units.tally
    (<Units, 1 closed>, <Tally, private>)
    """

    def __init__(
        self,
        calendar: Calendar,
        *,
        lateness: str = "0s",
        late: Late = "drop",
        tolerance: str = "1min",
    ) -> None:
        if late not in get_args(Late):
            raise ConfigurationError(f"late must be 'drop' or 'current', not {late!r}.")
        self.calendar = calendar
        self.late = late
        self.tally = LateTally()
        self._lateness = duration(lateness, name="lateness")
        self._tolerance = duration(tolerance, name="tolerance")
        self._now = 0
        self._shut = 0  # the last unit that takes no more events
        self._closed = 0

    def __repr__(self) -> str:
        return f"<Units, {self._closed} closed>"

    @property
    def closed(self) -> int:
        """The last unit that was released and closed; 0 before the first."""
        return self._closed

    def judging(self) -> dict[str, Any]:
        """The state by which events are judged now, without a tally.

        `load` takes it elsewhere: `sort` gives the same places there.
        """
        return self.save() | {
            "closed": self._shut,
            "tally": {"late": 0, "future": 0, "past": 0},
        }

    def latest(self, now: int) -> int:
        """The last instant that an event may have at the clock's time."""
        return self._latest(now)

    def due(self, now: int) -> range:
        """The units to release and close, in order, also empty ones. They take no more events.

        A clock that was set back changes nothing until it has caught up.
        """
        self._now = max(self._now, now)
        self._shut = max(self._shut, self.calendar.unit_at(self._now - self._lateness) - 1)
        return range(self._closed + 1, self._shut + 1)

    def close(self, unit: int) -> None:
        """Mark a unit as released. Units close in order, once they are due."""
        if unit != self._closed + 1 or unit > self._shut:
            raise InputError(
                f"unit {unit} cannot be closed: the last closed unit is {self._closed}, "
                f"the last due one {self._shut}."
            )
        self._closed = unit

    def open(self, now: int) -> range:
        """The units that an event can count in, as of the last `due`; also the next one within the
        tolerance.
        """
        return range(self._shut + 1, self.calendar.unit_at(self._latest(now)) + 1)

    def sort(self, times: IntArray, now: int) -> IntArray:
        """For each event the open unit that it counts in, or `LATE`, `FUTURE` or `PAST`.

        `now` is the clock's time, or the end of a finished file. The tally counts late events (also
        where they count in the current unit) and events from the future and the past. If all places
        are the same, they may be one number in memory.
        """
        one = self._one(times, now)
        if one:
            return np.broadcast_to(np.int64(one), times.shape)
        places = self.calendar.unit_of(times)
        past = places == PAST
        late = (places <= self._shut) & ~past
        future = (times > self._latest(now)) & ~past
        current = self.calendar.unit_at(self._now)
        places[late] = current if self.late == "current" and current <= self.calendar.last else LATE
        places[future] = FUTURE
        self.tally.past += int(past.sum())
        self.tally.late += int(late.sum())
        self.tally.future += int(future.sum())
        return places

    def _one(self, times: IntArray, now: int) -> int:
        """The open unit of all events, by the first and the last of them; 0 if there is no such
        unit.
        """
        if not len(times):
            return 0
        first, last = int(times.min()), int(times.max())
        unit = self.calendar.unit_at(first)
        return (
            unit
            if unit == self.calendar.unit_at(last)
            and unit > self._shut
            and last <= self._latest(now)
            else 0
        )

    def save(self) -> dict[str, Any]:
        """The state as plain data. The tally in it is private."""
        calendar = {
            "every": self.calendar.every,
            "zone": self.calendar.zone,
            "origin": self.calendar.origin,
        }
        tally = {"late": self.tally.late, "future": self.tally.future, "past": self.tally.past}
        return {"calendar": calendar, "now": self._now, "closed": self._closed, "tally": tally}

    def load(self, saved: Mapping[str, Any]) -> None:
        """Continue from a saved state. A state of another calendar is refused, and nothing has
        changed.

        Units that were due but not closed take events again until `due` is called. Nothing of them
        has been released, so events that are read again go to the same units. Closed units stay
        closed, whatever the clock says.
        """
        try:
            calendar = Calendar(**saved["calendar"])
            now, closed = (_natural(saved[name]) for name in ("now", "closed"))
            late, future, past = (
                _natural(saved["tally"][name]) for name in ("late", "future", "past")
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise StateError(f"this is no save of units: {type(error).__name__}.") from None
        if calendar != self.calendar:
            raise StateError(f"this is a save of {calendar}, not of {self.calendar}.")
        if closed >= max(self.calendar.unit_at(now), 1):
            raise StateError(f"this is no save of units: unit {closed} was not over yet.")
        self._now, self._shut, self._closed, self.tally = (
            now,
            closed,
            closed,
            LateTally(late, future, past),
        )

    def _latest(self, now: int) -> int:
        """The last instant that an event may have."""
        return min(
            max(self._now, now) + self._tolerance, self.calendar.ends(self.calendar.last) - 1
        )


def _natural(number: object) -> int:
    if isinstance(number, bool) or not isinstance(number, int) or number < 0:
        raise TypeError
    return number
