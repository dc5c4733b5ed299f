"""Units of time: public arithmetic on instants, time zones and the civil calendar.

An instant is a whole number of microseconds since the beginning of 1970 in UTC. People see local
time with its offset.
"""

from __future__ import annotations

import re
import zoneinfo
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from functools import cached_property, lru_cache

import numpy as np

from penstock.core.arrays import IntArray
from penstock.core.errors import ConfigurationError, InputError

SECOND = 1_000_000
"""A second, in microseconds."""

END = date(2200, 1, 1)
"""Every calendar ends by the beginning of this day, and begins in 1970 or later."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_SECONDS = {"s": 1, "min": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_FIXED = ("s", "min", "h")
_CIVIL = ("d", "w", "mo")


@dataclass(frozen=True, kw_only=True)
class Calendar:
    """Units that follow one another without a gap, numbered from 1.

    Seconds, minutes and hours are lengths of absolute time that run on from the origin. A day on
    which clocks change has 23 or 25 units of "1h". Units of "7h" begin at another hour every day.
    Days, weeks and months are civil: they begin when a day begins in `zone`, at midnight or, where
    clocks skip midnight, at the first instant after it. So a day may last 23 or 25 hours. A date
    that a zone skipped is no unit.

    Parameters
    ----------
    every : str
        The length of a unit: a number and one of s, min, h, d, w, mo, such as "1h".
    zone : str
        The IANA name of the time zone. Default: "UTC".
    origin : datetime or str
        The beginning of unit 1, with an offset; ISO text without one is local time in `zone`. For
        days and weeks it must begin a day, for months a month. For lengths that divide a day it
        must be a multiple of `every` on the wall clock or begin a day; for others, a whole second,
        minute or hour.

    >>> calendar = Calendar(every="1d", zone="Europe/Zurich", origin="2026-03-28")
    >>> calendar.origin
    '2026-03-28T00:00:00+01:00'
    >>> calendar.label(3), calendar.end(2) - calendar.start(2)
    ('2026-03-30T00:00+02:00', datetime.timedelta(seconds=82800))
    >>> times = ("2026-03-27T22:59Z", "2026-03-29T21:59Z", "2026-03-29T22:00Z")
    >>> calendar.unit_of(np.array([instant(time) for time in times]))
    array([0, 2, 3])
    """

    every: str
    zone: str = "UTC"
    origin: datetime | str

    def __post_init__(self) -> None:
        amount, letter = self._step
        zone = _zone(self.zone)
        first = _origin(self.origin, zone)
        if not _midnight(_EPOCH.date(), zone) <= first < _midnight(END, zone):
            raise ConfigurationError(
                f"origin must be from 1970 to {END.year - 1}, not {self.origin}.",
                parameter="origin",
            )
        local = _at(first, zone)
        object.__setattr__(self, "origin", local.isoformat())
        rule = _broken(amount, letter, local, zone)
        if rule:
            raise ConfigurationError(
                f"origin must be {rule} for units of {self.every!r}, not {self.origin}.",
                parameter="origin",
            )
        if self.last < 1:
            raise ConfigurationError(
                f"every must let unit 1 end by {END}, not {self.every!r} from {self.origin}.",
                parameter="every",
            )

    def unit_of(self, times: IntArray) -> IntArray:
        """The unit of each instant: 0 before unit 1, and `last + 1` after the last unit.

        A boundary belongs to the unit that begins there.
        """
        if times.dtype != np.int64:
            raise InputError(
                f"times must be int64 microseconds since 1970 in UTC, not {times.dtype}."
            )
        if not self._length:
            return np.searchsorted(self._boundaries, times, side="right").astype(
                np.int64, copy=False
            )
        units = np.clip(
            times, self._first - 1, self._boundary(self.last)
        )  # so that no difference overflows
        units -= self._first
        units //= self._length
        units += 1
        return units

    def unit_at(self, time: int) -> int:
        """The unit of one instant, as `unit_of` gives it.

        >>> Calendar(every="1h", origin="2026-01-01").unit_at(instant("2026-01-01T02:00Z"))
        3
        """
        time = min(max(time, self._first - 1), self._boundary(self.last))
        if not self._length:
            return int(np.searchsorted(self._boundaries, time, side="right"))
        return (time - self._first) // self._length + 1

    def units_between(self, start: datetime | str, end: datetime | str) -> range:
        """The units that have any instant from `start` to before `end`.

        >>> months = Calendar(every="1mo", origin="2026-01-01")
        >>> months.units_between("2026-01-31T23:00Z", "2026-03-01T00:00Z")
        range(1, 3)
        """
        first, stop = instant(start, name="start"), instant(end, name="end")
        if stop <= first:
            return range(0)
        return range(max(self.unit_at(first), 1), min(self.unit_at(stop - 1), self.last) + 1)

    def moment(self, when: date | str, *, name: str = "time") -> int:
        """An instant, in microseconds. A time without an offset is local; a date is its beginning.

        A local time that a clock shows twice is the first one.

        >>> calendar = Calendar(every="1h", zone="Europe/Zurich", origin="2026-01-01")
        >>> calendar.moment("2026-01-01") == calendar.moment("2025-12-31T23:00Z")
        True
        """
        if isinstance(when, date) and not isinstance(when, datetime):
            return _midnight(when, _zone(self.zone))
        found = _moment(when, name)
        if found.utcoffset() is not None:
            return instant(found)
        if found.time() == time(0):
            return _midnight(found.date(), _zone(self.zone))
        return instant(found.replace(tzinfo=_zone(self.zone)))

    def begins(self, unit: int) -> int:
        """The unit's first instant, in microseconds."""
        self._check(unit)
        return self._boundary(unit - 1)

    def ends(self, unit: int) -> int:
        """The first instant after the unit, in microseconds."""
        self._check(unit)
        return self._boundary(unit)

    def boundaries(self, first: int, last: int) -> IntArray:
        """The first instants of these units, and the first one after them, in microseconds.

        >>> hours = Calendar(every="1h", origin="1970-01-01")
        >>> (hours.boundaries(2, 3) // SECOND).tolist()
        [3600, 7200, 10800]
        """
        self._check(first)
        self._check(last)
        if self._length:
            return self._first + np.arange(first - 1, last + 1, dtype=np.int64) * self._length
        return self._boundaries[first - 1 : last + 1]

    def start(self, unit: int) -> datetime:
        """The unit's first instant, in local time with its offset."""
        return _fixed(_at(self.begins(unit), _zone(self.zone)))

    def end(self, unit: int) -> datetime:
        """The first instant after the unit, in local time with its offset."""
        return _fixed(_at(self.ends(unit), _zone(self.zone)))

    def label(self, unit: int) -> str:
        """The beginning of the unit, for people: ISO, local time, with the offset.

        >>> Calendar(every="30s", zone="Asia/Kolkata", origin="2026-01-01").label(2)
        '2026-01-01T00:00:30+05:30'
        """
        return self.start(unit).isoformat(timespec="seconds" if self._step[1] == "s" else "minutes")

    def short_label(self, unit: int) -> str:
        """The beginning of the unit, short: the date of units of days and more, else with the time.

        >>> Calendar(every="1d", origin="2026-01-01").short_label(2)
        '2026-01-02'
        >>> Calendar(every="1h", origin="2026-01-01").short_label(2)
        '2026-01-01 01:00'
        """
        label = self.label(unit)
        return label[:10] if self._step[1] in _CIVIL else f"{label[:10]} {label[11:-6]}"

    @cached_property
    def last(self) -> int:
        """The number of the last unit."""
        if not self._length:
            return len(self._boundaries) - 1
        return (_midnight(END, _zone(self.zone)) - self._first) // self._length

    @cached_property
    def _step(self) -> tuple[int, str]:
        return _parsed(self.every, name="every", letters=(*_FIXED, *_CIVIL), least=1)

    @cached_property
    def _first(self) -> int:
        return instant(self.origin)

    @cached_property
    def _length(self) -> int:
        """The length of a unit in microseconds; 0 for civil units."""
        amount, letter = self._step
        return amount * _SECONDS[letter] * SECOND if letter in _FIXED else 0

    @cached_property
    def _boundaries(self) -> IntArray:
        """All boundaries of civil units."""
        amount, letter = self._step
        day = _at(self._first, _zone(self.zone)).date()
        if letter == "mo":
            months = np.arange(
                (day.year - 1970) * 12 + day.month - 1, (END.year - 1970) * 12 + 1, amount
            )
            days = months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
        else:
            step = amount * _SECONDS[letter] // _SECONDS["d"]
            days = np.arange((day - _EPOCH.date()).days, (END - _EPOCH.date()).days + 1, step)
        return np.unique(
            _midnights(self.zone)[days]
        )  # a skipped date begins when the next one does

    def _boundary(self, index: int) -> int:
        return self._first + index * self._length if self._length else int(self._boundaries[index])

    def _check(self, unit: int) -> None:
        if not 1 <= unit <= self.last:
            raise InputError(f"unit must be from 1 to {self.last}, not {unit}.")


def instant(when: datetime | str, *, name: str = "time") -> int:
    """A datetime with an offset, or ISO text with one, in microseconds.

    >>> instant("1970-01-01T01:00:01+01:00")
    1000000
    >>> instant("1970-01-01")
    Traceback (most recent call last):
    penstock.core.errors.ConfigurationError: time must have an offset from UTC, such as
    '2026-03-01T00:00+01:00', ...
    """
    moment = _moment(when, name)
    if moment.utcoffset() is None:
        raise ConfigurationError(
            f"{name} must have an offset from UTC, such as '2026-03-01T00:00+01:00', not {when}.",
            parameter=name,
        )
    return (moment - _EPOCH) // _MICROSECOND


def duration(text: str, *, name: str) -> int:
    """A length of absolute time, in microseconds; a day has 24 hours here, a week 7 days.

    >>> duration("90min", name="lateness") // SECOND
    5400
    """
    amount, letter = _parsed(text, name=name, letters=tuple(_SECONDS), least=0)
    return amount * _SECONDS[letter] * SECOND


def _parsed(text: object, *, name: str, letters: tuple[str, ...], least: int) -> tuple[int, str]:
    found = re.fullmatch(r"([0-9]{1,9})([a-z]+)", text) if isinstance(text, str) else None
    if not found or found[2] not in letters or int(found[1]) < least:
        examples = " or ".join(f"'{least}{letter}'" for letter in (letters[0], letters[-1]))
        raise ConfigurationError(
            f"{name} must be a whole number from {least} on and one of {', '.join(letters)}, "
            f"such as {examples}, not {text!r}.",
            parameter=name,
        )
    return int(found[1]), found[2]


def _moment(when: object, name: str) -> datetime:
    if isinstance(when, datetime):
        return when
    try:
        return datetime.fromisoformat(when)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise ConfigurationError(
            f"{name} must be a datetime or ISO text such as '2026-03-01T00:00Z', not {when!r}.",
            parameter=name,
        ) from None


def _origin(when: datetime | str, zone: zoneinfo.ZoneInfo) -> int:
    moment = _moment(when, "origin")
    if isinstance(when, datetime) or moment.utcoffset() is not None:
        return instant(when, name="origin")
    if moment.time() == time(0):
        return _midnight(moment.date(), zone)
    early, late = (instant(moment.replace(tzinfo=zone, fold=fold)) for fold in (0, 1))
    if early != late:
        raise ConfigurationError(
            f"origin must have an offset where clocks change, such as '{when}+01:00', "
            f"not {when!r}.",
            parameter="origin",
        )
    return early


def _broken(amount: int, letter: str, local: datetime, zone: zoneinfo.ZoneInfo) -> str:
    """The rule that an origin breaks, or nothing."""
    midnight = instant(local) == _midnight(local.date(), zone)
    if letter == "mo":
        return "" if midnight and local.day == 1 else "the beginning of a month"
    if midnight or letter in _CIVIL:
        return "" if midnight else "the beginning of a day"
    seconds = _SECONDS[letter] * (amount if _SECONDS["d"] % (amount * _SECONDS[letter]) == 0 else 1)
    since = timedelta(
        hours=local.hour, minutes=local.minute, seconds=local.second, microseconds=local.microsecond
    )
    return (
        f"a multiple of {seconds} seconds on the wall clock"
        if since % timedelta(seconds=seconds)
        else ""
    )


def _fixed(local: datetime) -> datetime:
    """The same with a fixed offset: Python ignores changes of a zone's clocks in differences."""
    return local.replace(tzinfo=timezone(local.utcoffset() or timedelta(0)), fold=0)


def _at(time: int, zone: zoneinfo.ZoneInfo) -> datetime:
    return (_EPOCH + timedelta(microseconds=time)).astimezone(zone)


@lru_cache(maxsize=64)
def _zone(name: str) -> zoneinfo.ZoneInfo:
    if name not in zoneinfo.available_timezones():
        raise ConfigurationError(
            "zone must be the IANA name of a time zone, such as 'UTC' or 'Europe/Zurich', "
            f"not {name!r}.",
            parameter="zone",
        )
    return zoneinfo.ZoneInfo(name)


def _midnight(day: date, zone: zoneinfo.ZoneInfo) -> int:
    """The first instant of a date, or of the next one that exists.

    Without `fold`, a midnight that comes twice is the first one. A midnight that clocks skip counts
    by the offset before the change, which is the instant of the change. Since 1970 no zone has
    skipped midnight from any other time.
    """
    return (datetime.combine(day, time(0), zone) - _EPOCH) // _MICROSECOND


@lru_cache(maxsize=64)
def _midnights(zone: str) -> IntArray:
    """The first instant of every date from 1970 to `END`."""
    where = _zone(zone)
    days = range(_EPOCH.date().toordinal(), END.toordinal() + 1)
    midnights = np.array([_midnight(date.fromordinal(day), where) for day in days], np.int64)
    midnights.setflags(write=False)
    return midnights
