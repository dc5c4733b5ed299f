"""The releases of a store as sinks take them: as they are, or filtered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from penstock.engine.store import Reader
from penstock.released.release_filter import FilterChoice, ReleaseFilter
from penstock.released.series import Series
from penstock.released.sinks.base import ReleaseItem

UNITS_PER_READ = 100
"""How many units are read at a time when the state of a filter is rebuilt."""


def items_of(
    store: Reader, series: Series, first: int, last: int, *, nonnegative: bool = False
) -> list[ReleaseItem]:
    """Return the releases of some units as sinks take them."""
    calendar = series.calendar
    assert calendar is not None
    items = []
    for release in store.releases(series.name, first, last):
        head = store.at(series.name, release.unit)
        items.append(
            ReleaseItem(
                series=series,
                unit=release.unit,
                begins=calendar.start(release.unit),
                ends=calendar.end(release.unit),
                release=release,
                link=head.link.hex(),
                signature="" if head.signature is None else head.signature.hex(),
                nonnegative=nonnegative,
            )
        )
    return items


class SinkItems:
    """The items that a sink lacks, in order. It keeps filters, so that no unit is read twice.

    A filter begins with unit 1. After a restart it is rebuilt from the releases in the store, which
    gives the same numbers. Filtered items are kept until the sink has them.

    Parameters
    ----------
    store : Reader
        The store.
    filters : mapping of str to FilterChoice
        The series that are filtered, by name. Default: none.
    nonnegative : bool
        Whether the sink is to hold no negative numbers. Default: False.
    """

    def __init__(
        self,
        store: Reader,
        filters: Mapping[str, FilterChoice] | None = None,
        *,
        nonnegative: bool = False,
    ) -> None:
        self._store = store
        self._nonnegative = nonnegative
        self._choices = filters or {}
        self._filters: dict[str, ReleaseFilter] = {}
        self._made: dict[str, list[ReleaseItem]] = {}

    def after(self, series: Series, unit: int, last: int) -> list[ReleaseItem]:
        """Return the items after a unit that the sink has, up to `last` at most."""
        choice = self._choices.get(series.name)
        if choice is None:
            return self._released(series, unit, last)
        made = self._made.pop(series.name, [])
        left = [item for item in made if unit < item.unit <= last]
        if not left or left[0].unit != unit + 1:
            left = self._filtered(series, choice, unit, last)
        self._made[series.name] = left
        return left

    def _released(self, series: Series, unit: int, last: int) -> list[ReleaseItem]:
        return items_of(self._store, series, unit + 1, last, nonnegative=self._nonnegative)

    def _filtered(
        self, series: Series, choice: FilterChoice, unit: int, last: int
    ) -> list[ReleaseItem]:
        found = self._filters.pop(series.name, None)
        if found is None or found.unit > unit:
            found = ReleaseFilter(series.domain, choice)
        for first in range(found.unit + 1, unit + 1, UNITS_PER_READ):
            until = min(first + UNITS_PER_READ - 1, unit)
            for release in self._store.releases(series.name, first, until):
                found.step(release)
        items = [
            replace(item, release=found.step(item.release), filter=choice)
            for item in self._released(series, unit, last)
        ]
        self._filters[series.name] = found
        return items
