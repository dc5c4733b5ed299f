"""Reading the table [stream], and calendars and durations in other tables."""

from __future__ import annotations

import re
import zoneinfo
from datetime import date, datetime
from functools import cache

from penstock.core.calendar import Calendar
from penstock.core.durations import DURATION, units_of
from penstock.core.errors import ConfigurationError
from penstock.engine.config_sections import Section, nearest, shown
from penstock.engine.pipeline.model import Late, StreamConfig

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


def read_stream(section: Section) -> StreamConfig | None:
    """The table [stream]; None, and its problems noted, where it cannot be used."""
    name = read_name(section, example="taps")
    every = read_duration(section, "every", example="1h")
    zone = read_zone(section, "UTC")
    origin = _moment(section, "origin")
    if "origin" not in section:
        section.missing("origin", 'write when the first unit begins, such as origin = "2026-01-01"')
    calendar = read_calendar(section, every, zone, origin)
    until = _moment(section, "until") or None
    if calendar and until:
        until = _until(section, calendar, until)
    lateness, tolerance = _length(section, "lateness", "0s"), _length(section, "tolerance", "1min")
    pace = _length(section, "pace", "1s")
    among = ("drop", "current")
    late: Late = "current" if section.text("late", "drop", among=among) == "current" else "drop"
    section.close()
    if section.faulty or calendar is None:
        return None
    return StreamConfig(
        name=name,
        calendar=calendar,
        until=until,
        lateness=lateness,
        late=late,
        tolerance=tolerance,
        pace=pace,
    )


def read_name(section: Section, *, example: str) -> str:
    """The name of a stream or a view."""
    name = section.text("name", example=example)
    if name and not _NAME.fullmatch(name):
        section.wrong(
            "name", f"must be of letters, digits, dots, dashes and underscores, not {shown(name)}."
        )
    return name


def read_duration(section: Section, name: str, default: str | None = None, *, example: str) -> str:
    """A length of time such as 15min, as text; empty if it cannot be read."""
    value = section.text(name, default, example=example)
    if not value:
        return ""
    if not DURATION.fullmatch(value):
        hint = ' Write "min" for minutes, "mo" for months.' if value[-1:] == "m" else ""
        section.wrong(
            name,
            "must be a number and one of s, min, h, d, w, mo, such as "
            f'"{example}", not {shown(value)}.{hint}',
        )
        return ""
    return value.replace(" ", "")


def _length(section: Section, name: str, default: str) -> str:
    """A duration that has one length: without months."""
    value = read_duration(section, name, default, example="10min")
    if value.endswith("mo"):
        section.wrong(
            name, f'must be a length in s, min, h, d or w, such as {name} = "10min": months differ.'
        )
    return value


@cache
def _time_zones() -> set[str]:
    """The names of all time zones; a look into the system's files takes milliseconds."""
    return zoneinfo.available_timezones()


def read_zone(section: Section, default: str) -> str:
    """The name of a time zone; empty if there is no such zone."""
    zone = section.text("zone", default, example="Europe/Zurich")
    known = _time_zones()
    if zone not in known:
        section.wrong(
            "zone",
            f"{shown(zone)} is no time zone: use UTC or a name such as Europe/Zurich."
            f"{nearest(zone, known)}",
        )
        return ""
    return zone


def _moment(section: Section, name: str) -> str:
    """A date or a time as ISO text; TOML's own dates do too."""
    value = section.take(name, "")
    if isinstance(value, (date, datetime)):
        return value.isoformat()
    if not isinstance(value, str):
        section.wrong(
            name, f'must be a date or a time, such as {name} = "2026-01-01", not {shown(value)}.'
        )
        return ""
    return value


def read_calendar(
    section: Section, every: str, zone: str, origin: str, *, blame: str | None = None
) -> Calendar | None:
    """The calendar of these three; None, and why, where they do not fit together."""
    if not (every and zone and origin):
        return None
    try:
        return Calendar(every=every, zone=zone, origin=origin)
    except ConfigurationError as error:
        section.refuse(error, at=blame)
    return None


def _until(section: Section, calendar: Calendar, until: str) -> str | None:
    try:
        moment = str(Calendar(every="1s", zone=calendar.zone, origin=until).origin)
    except ConfigurationError as error:
        section.wrong("until", str(error).removeprefix("origin "))
        return None
    if datetime.fromisoformat(moment) <= datetime.fromisoformat(str(calendar.origin)):
        section.wrong("until", f"must be after the origin, {calendar.origin}, not {moment}.")
    return moment


def read_units(section: Section, name: str, calendar: Calendar | None) -> int | None:
    """A number of units, or a duration of whole units; None if it is missing or cannot be used."""
    value = section.take(name)
    if value is None:
        return None
    if isinstance(value, str):
        value = read_duration(section, name, example="1d")
        if not value or calendar is None:
            return None
    elif isinstance(value, bool) or not isinstance(value, int) or value < 1:
        section.wrong(
            name,
            "must be a whole number of units, at least 1, or a duration such as "
            f'"1d", not {shown(value)}.',
        )
        return None
    try:
        return units_of(value, calendar, name=name)
    except ConfigurationError as error:
        section.refuse(error)
    return None
