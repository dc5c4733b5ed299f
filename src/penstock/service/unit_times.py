"""When units begin and end, as text in UTC, for many units at once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from penstock.core.arrays import IntArray
from penstock.core.calendar import Calendar


@dataclass(frozen=True)
class UnitTimes:
    """The beginnings and ends of consecutive units; None where they have no times."""

    begins: list[str | None]
    ends: list[str | None]

    def lists(self, rows: IntArray | None = None) -> dict[str, list[str | None]]:
        """Both as JSON, of all units or of those at some places."""
        if rows is None:
            return {"begins": self.begins, "ends": self.ends}
        places = rows.tolist()
        return {
            "begins": [self.begins[place] for place in places],
            "ends": [self.ends[place] for place in places],
        }


@lru_cache(maxsize=8)  # each may be of 100,000 units
def unit_times(calendar: Calendar | None, first: int, last: int) -> UnitTimes:
    """When units begin and end.

    Parameters
    ----------
    calendar : Calendar or None
        The calendar of the units; None where they have no times.
    first, last : int
        The first and the last unit.

    Examples
    --------
    >>> unit_times(Calendar(every="1h", origin="2026-01-01"), 2, 3).begins
    ['2026-01-01T01:00:00Z', '2026-01-01T02:00:00Z']
    """
    if calendar is None:
        unknown: list[str | None] = [None] * (last - first + 1)
        return UnitTimes(unknown, unknown)
    edges = calendar.boundaries(first, last)
    whole = edges % 1_000_000 == 0
    unit = "s" if whole.all() else "us"
    moments = edges.astype("datetime64[us]").astype(f"datetime64[{unit}]")
    texts = [f"{text}Z" for text in np.datetime_as_string(moments).tolist()]
    return UnitTimes(list(texts[:-1]), list(texts[1:]))
