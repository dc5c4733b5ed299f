"""Ranges of units that people choose by numbers, dates or times."""

from __future__ import annotations

from collections.abc import Callable

from penstock.core.calendar import Calendar
from penstock.core.errors import ConfigurationError, InputError


def units_from(
    calendar: Calendar | None,
    last: int,
    first: str | None,
    until: str | None,
    *,
    spelling: Callable[[str], str] = "--{}".format,
) -> range:
    """The units from `first` to `until`, each a number, a date or a time. Default: all to `last`.

    A time means its unit; a date means all units of that day.

    Parameters
    ----------
    calendar : Calendar or None
        When units begin; None where only numbers can be used.
    last : int
        The newest unit.
    first, until : str or None
        The ends, both of which belong to the range.
    spelling : callable
        How the names "from" and "to" are written in messages. Default: as options of a command
        line.

    Examples
    --------
    >>> hours = Calendar(every="1h", origin="2026-01-01")
    >>> units_from(hours, 100, "2026-01-02", "2026-01-02T03:00")
    range(25, 29)
    >>> units_from(hours, 100, None, "2026-01-01")
    range(1, 25)
    """
    low = 1 if first is None else _unit(calendar, first, spelling("from"), end=False)
    high = last if until is None else _unit(calendar, until, spelling("to"), end=True)
    return range(max(low, 1), min(high, last) + 1)


def _unit(calendar: Calendar | None, text: str, name: str, *, end: bool) -> int:
    if text.isascii() and text.isdecimal():
        return int(text)
    if calendar is None:
        raise InputError(
            f"{name}: these units have no times: give the number of a unit, not {text!r}."
        )
    try:
        when = Calendar(every="1s", zone=calendar.zone, origin=text)
        day = len(text) == len("2026-01-01") and Calendar(
            every="1d", zone=calendar.zone, origin=text
        )
    except ConfigurationError:
        raise ConfigurationError(
            f"{name} must be a unit's number, or a date or time such as 2026-03-01 or "
            f"2026-03-01T08:00, not {text!r}."
        ) from None
    return calendar.unit_at(day.ends(1) - 1 if end and day else when.begins(1))
