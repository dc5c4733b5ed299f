"""The documented rule, written down once more: slow, plain, and without any shipped code.

A row becomes an event of a unit by the clock alone. Of each person and unit the earliest events
count; at the same time, those with the smallest keys.
"""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple, TypeAlias

from penstock.core.calendar import SECOND
from penstock.lab.audit.bounding.streams import (
    EventCase,
    StreamSetting,
    ViewSetting,
    WrittenRow,
    whole_number,
)

Counts: TypeAlias = dict[int, tuple[int, ...]]
"""The counts of each closed unit of a view, by key."""


class PlacedEvent(NamedTuple):
    """A row that is an event of a unit."""

    unit: int
    person: str | None
    time: int
    key: int
    mine: bool


def placed(case: EventCase, view: ViewSetting) -> list[PlacedEvent]:
    """All rows that are events of a unit of a view. The unit may still be open at the end."""
    events = []
    before = 0  # the clock at the last look; units were closed by it
    for step in case.steps:
        for row in step.rows:
            event = _placed(row, case.setting, view, step.now, before)
            if event is not None:
                events.append(event)
        before = step.now
    return events


def _placed(
    row: WrittenRow, setting: StreamSetting, view: ViewSetting, now: int, before: int
) -> PlacedEvent | None:
    if row.broken or isinstance(row.time, str) or row.key is None:
        return None
    key = row.key if row.key in setting.keys else setting.other
    person = None if row.person in (None, "") else str(row.person)
    if key is None or (person is None and setting.missing_person != "each"):
        return None
    if setting.person_type == "integer" and person is not None and not whole_number(person):
        return None
    unit = view.unit(row.time)
    closed = 0 if setting.finite else max(view.unit(before - setting.lateness * SECOND) - 1, 0)
    if not unit or row.time > max(now, before) + setting.tolerance * SECOND:
        return None
    if unit <= closed:
        if setting.late == "drop":
            return None
        unit = view.unit(before)
    return PlacedEvent(unit, person, row.time, setting.keys.index(key), row.mine)


def naive_counts(
    case: EventCase, view: ViewSetting, events: list[PlacedEvent] | None = None
) -> Counts:
    """The counts of every unit that closes, by the documented rule.

    Parameters
    ----------
    case : EventCase
        The stream and how it is counted.
    view : ViewSetting
        The view.
    events : list of PlacedEvent, optional
        The events of the view. Default: those of the case.
    """
    setting = case.setting
    last = view.unit(case.steps[-1].now - setting.lateness * SECOND) - 1
    found = {unit: [0] * len(setting.keys) for unit in range(1, last + 1)}
    people: dict[tuple[int, str], list[tuple[int, int]]] = defaultdict(list)
    for event in placed(case, view) if events is None else events:
        if event.unit > last:
            continue
        if event.person is None:
            found[event.unit][event.key] += 1
        else:
            people[event.unit, event.person].append((event.time, event.key))
    for (unit, _), theirs in people.items():
        for _, key in sorted(theirs)[: view.contribution]:
            found[unit][key] += 1
    return {unit: tuple(counts) for unit, counts in found.items()}
