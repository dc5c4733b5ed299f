"""Durations as numbers of units: the one place where "1d" becomes 24."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from typing import Annotated, TypeAlias

import numpy as np

from penstock.core.calendar import Calendar
from penstock.core.errors import ConfigurationError

DURATION = re.compile(r"([0-9]{1,9}) ?(s|min|h|d|w|mo)")
"""A number and a letter, such as 15min."""

UNITS = "units"

_NOUNS = {"s": "second", "min": "minute", "h": "hour", "d": "day", "w": "week", "mo": "month"}

_EVEN_ORIGIN = "2024-01-01"
"""A Monday, and the first of a month: units of every length may begin there."""

UnitCount: TypeAlias = Annotated[int, UNITS]
"""The type of a parameter that counts units. In a pipeline it takes a duration, too."""


def units_of(value: int | str, calendar: Calendar | None, *, name: str) -> int:
    """How many units a duration has, wherever it begins; a whole number stands for itself.

    Parameters
    ----------
    value : int or str
        A number of units, at least 1, or a duration such as "1d".
    calendar : Calendar, optional
        How long units are. Where it is None, a duration is refused.
    name : str
        The parameter, for the error.

    Examples
    --------
    >>> hours = Calendar(every="1h", origin="2026-01-01")
    >>> units_of("1d", hours, name="window"), units_of(24, None, name="window")
    (24, 24)
    >>> units_of("90min", hours, name="window")
    Traceback (most recent call last):
    penstock.core.errors.ConfigurationError: window "90min" is not a whole number...
    """
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        problem = f'must be a number of units or a duration such as "1d", not {value!r}.'
    elif isinstance(value, int) and value >= 1:
        return value
    elif isinstance(value, int):
        problem = f"must be at least 1 unit, not {value}."
    elif not DURATION.fullmatch(value):
        problem = f'must be a number and one of s, min, h, d, w, mo, such as "1d", not {value!r}.'
    elif calendar is None:
        problem = f"must be a number of units, not {value!r}: nothing says how long a unit is here."
    else:
        found = _units(value.replace(" ", ""), calendar)
        if found is not None and found[0] == found[1]:
            return found[0]
        problem = (
            f'"{value}" is not a whole number of units of "{calendar.every}": '
            "write a number of units."
            if found is None
            else f'"{value}" has {found[0]} to {found[1]} units of "{calendar.every}" in '
            f"{calendar.zone}: write {name} = {found[1]} for the longest."
        )
    raise ConfigurationError(f"{name} {problem}", parameter=name)


def even_units_of(value: int | str, calendar: Calendar | None, *, name: str) -> int:
    """As `units_of`, but a day has 24 hours, also where clocks are changed.

    It is for seasons and queries. A window of a promise must hold on the longest day, too.

    >>> hours = Calendar(every="1h", zone="Europe/Zurich", origin="2026-01-01")
    >>> even_units_of("1d", hours, name="length")
    24
    """
    return units_of(value, calendar and _even(calendar), name=name)


def periods_of(
    values: Iterable[int | str], calendar: Calendar | None, *, name: str
) -> tuple[int, ...]:
    """The units of each season, the shortest first; seasons of one unit are left out.

    A day has 24 hours here, also where clocks are changed.

    Parameters
    ----------
    values : iterable of int or str
        Numbers of units, or durations such as "1d".
    calendar : Calendar, optional
        How long units are. Where it is None, durations are refused.
    name : str
        The parameter, for the error.

    Examples
    --------
    >>> hours = Calendar(every="1h", zone="Europe/Zurich", origin="2026-01-01")
    >>> periods_of(["7d", "1d", 1], hours, name="periods")
    (24, 168)
    """
    found = {even_units_of(value, calendar, name=name) for value in values}
    return tuple(sorted(found - {1}))


def fits(season: str, calendar: Calendar) -> bool:
    """Whether a season is a whole number of units, where days have 24 hours.

    >>> hours = Calendar(every="1h", zone="Europe/Zurich", origin="2026-01-01")
    >>> fits("1d", hours), fits("90min", hours)
    (True, False)
    """
    found = _units(season, _even(calendar))
    return found is not None and found[0] == found[1]


def _even(calendar: Calendar) -> Calendar:
    """Units of the same length without changes of the clock."""
    return Calendar(every=calendar.every, origin=_EVEN_ORIGIN)


@lru_cache(maxsize=256)
def _units(duration: str, calendar: Calendar) -> tuple[int, int] | None:
    """The least and the largest number of units in a duration; None if it is no whole number."""
    day = datetime.fromisoformat(str(calendar.origin)).date()
    if duration.endswith("mo"):
        day = day.replace(day=1)
    try:
        whole = Calendar(every=duration, zone=calendar.zone, origin=day.isoformat())
        return units_in(replace(calendar, origin=whole.origin), whole)
    except ConfigurationError:
        return None


def units_in(inner: Calendar, outer: Calendar) -> tuple[int, int] | None:
    """How many units of one calendar make one of another, at least and at most; None if they do not
    fit together.

    >>> hours = Calendar(every="1h", zone="Europe/Zurich", origin="2026-01-01")
    >>> units_in(hours, Calendar(every="1d", zone="Europe/Zurich", origin="2026-01-01"))
    (23, 25)
    >>> units_in(hours, Calendar(every="90min", zone="Europe/Zurich", origin="2026-01-01")) is None
    True
    """
    if _fixed(outer):
        small, large = (calendar.ends(1) - calendar.begins(1) for calendar in (inner, outer))
        fits = _fixed(inner) and large % small == 0 and inner.begins(1) == outer.begins(1)
        return (large // small, large // small) if fits else None
    starts = outer.boundaries(1, outer.last)[:-1]
    places = inner.unit_of(starts)
    before = inner.unit_of(starts - 1)
    if not (before == places - 1).all() or len(places) < 2:
        return None
    sizes = np.diff(places)
    return int(sizes.min()), int(sizes.max())


def _fixed(calendar: Calendar) -> bool:
    """Whether all units have one length, whatever the zone."""
    return calendar.every.endswith(("s", "min", "h"))


def length(every: str, number: int = 1, *, article: str = "") -> str:
    """A multiple of a duration in words; a single one is a noun, after an article if one is given.

    >>> length("1h"), length("15min"), length("1h", 24), length("1mo", article="one")
    ('hour', '15 minutes', '24 hours', 'one month')
    """
    found = re.fullmatch(r"([0-9]+)([a-z]+)", every)
    assert found is not None
    many, noun = int(found[1]) * number, _NOUNS[found[2]]
    return " ".join(filter(None, (article, noun))) if many == 1 else f"{many:,} {noun}s"
