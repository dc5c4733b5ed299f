"""Synthetic streams of events with one person whose events are added or removed."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from functools import cached_property
from typing import Any, Literal, NamedTuple, TypeAlias
from zoneinfo import ZoneInfo

import numpy as np

from penstock.core.calendar import SECOND
from penstock.private import person_ids
from penstock.private.sources.base import FACTORS, Clock, Kind, MissingPerson
from penstock.private.units import Late

ORIGIN = date(2026, 3, 27)
"""The first day of all streams. Clocks in Europe change two days later."""

CALENDARS = (
    ("1min", "UTC", 60),
    ("1h", "UTC", 3_600),
    ("7h", "Asia/Kolkata", 25_200),
    ("1d", "Europe/Zurich", 0),
)
"""Units: their length, the time zone, and the length in seconds (0: civil days)."""

BOUNDARIES = 400
"""The number of boundaries that are computed."""

CONTRIBUTIONS = (1, 2, 3, 5)
WINDOWS = (1, 2, 3, 5)
OTHERS = 40
MANY_PERSONS = 70_000
"""More persons than the number at which ids are looked at anew."""

Written: TypeAlias = str | int | None
Random: TypeAlias = np.random.Generator


class WrittenRow(NamedTuple):
    """An event as it is written, or a line that is none."""

    time: int | str
    """Microseconds since 1970, or a text that is no time."""
    key: str | None
    person: Written
    mine: bool = False
    """Whether it is an event of the person who is added or removed."""
    broken: bytes = b""
    """A line that cannot be read, instead of an event."""


class ClockStep(NamedTuple):
    """Events that come between two looks at the clock."""

    now: int
    rows: tuple[WrittenRow, ...]


@dataclass(frozen=True)
class ViewSetting:
    """Units and contribution of one view."""

    every: str
    zone: str
    seconds: int
    contribution: int

    @cached_property
    def boundaries(self) -> tuple[int, ...]:
        """The first instants of the first units, computed apart from the shipped calendar."""
        zone, epoch = ZoneInfo(self.zone), datetime(1970, 1, 1, tzinfo=UTC)
        days = (
            datetime.combine(ORIGIN + timedelta(days=place), time(), zone)
            for place in range(1 if self.seconds else BOUNDARIES)
        )
        begins = tuple(round((day - epoch).total_seconds()) * SECOND for day in days)
        if not self.seconds:
            return begins
        return tuple(begins[0] + place * self.seconds * SECOND for place in range(BOUNDARIES))

    def unit(self, instant: int) -> int:
        """The unit of an instant; 0 before unit 1."""
        return bisect_right(self.boundaries, instant)


@dataclass(frozen=True)
class StreamSetting:
    """How the streams of a round are counted."""

    views: tuple[ViewSetting, ...]
    keys: tuple[str, ...]
    other: str | None
    window: int
    units: int
    finite: bool
    lateness: int
    """Seconds that a unit stays open after its end."""
    tolerance: int
    """Seconds that an event may lie after the clock."""
    late: Late
    missing_person: MissingPerson
    person_type: Kind
    clock: Clock
    batch: int
    """The most events of a batch."""
    held: int
    """The most events in memory."""
    whole_units: bool
    """Whether open units are stored whole, and not as single events."""
    fast: bool | None
    """Whether compiled loops are used. None: the default."""

    @property
    def grain(self) -> int:
        """The smallest difference of two times that can be written, in microseconds."""
        return 1 if self.clock == "iso" else FACTORS[self.clock]

    def words(self) -> dict[str, str]:
        """The setting as text, for a report."""
        views = "; ".join(
            f"units of {view.every}, contribution {view.contribution}" for view in self.views
        )
        return {
            "views": views,
            "keys": str(len(self.keys)),
            "window": str(self.window),
            "late": self.late,
            "lateness": f"{self.lateness}s",
            "missing_person": self.missing_person,
            "person_type": self.person_type,
            "other": "none" if self.other is None else "a key",
            "batch": str(self.batch),
        }


@dataclass(frozen=True)
class EventCase:
    """A setting and the events that come, with those of the person."""

    setting: StreamSetting
    steps: tuple[ClockStep, ...]

    @property
    def rows(self) -> list[WrittenRow]:
        """All rows, in the order in which they come."""
        return [row for step in self.steps for row in step.rows]

    def without_person(self) -> EventCase:
        """The neighbour: the same events without those of the person."""
        return self._only(lambda row: not row.mine)

    def with_fewer_others(self, rng: Random) -> EventCase:
        """The person's events among other people's events of which half are gone."""
        gone = {
            place
            for place, row in enumerate(self.rows)
            if not row.mine and row.person is not None and rng.random() < 0.5
        }
        place = -1
        steps = []
        for step in self.steps:
            kept = []
            for row in step.rows:
                place += 1
                if place not in gone:
                    kept.append(row)
            steps.append(ClockStep(step.now, tuple(kept)))
        return replace(self, steps=tuple(steps))

    def in_another_order(self, rng: Random) -> EventCase:
        """The same events at the same time of the clock, in another order and other batches."""
        batch = int(rng.choice([1, 2, 5, 1_000])) if self.setting.batch < 1_000 else 4_096
        steps = tuple(
            ClockStep(step.now, tuple(step.rows[at] for at in rng.permutation(len(step.rows))))
            for step in self.steps
        )
        return EventCase(replace(self.setting, batch=batch), steps)

    def _only(self, wanted: Any) -> EventCase:
        steps = tuple(ClockStep(step.now, tuple(filter(wanted, step.rows))) for step in self.steps)
        return replace(self, steps=steps)


# -- ids -------------------------------------------------------------------------------------------


class Ids(NamedTuple):
    """The forms in which the person's id is written, and the ids of others."""

    mine: tuple[str | int, ...]
    others: tuple[str | int, ...]


def colliding_texts(rng: Random, words: int = 0) -> tuple[str, str]:
    """Two texts with the same hash of 64 bits in this process: some words, then 16 characters.

    The hash of a text is a permutation of its last word, so that word can be chosen. Hashes differ
    from process to process, so these texts do, too.

    Parameters
    ----------
    rng : Generator
        Makes all choices.
    words : int
        The number of words of 8 characters with which both texts begin. Default: 0.
    """
    letters = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz0123456789", np.uint8)
    good = np.zeros(256, np.bool_)
    good[[*range(0x23, 0x2C), *range(0x2D, 0x5C), *range(0x5D, 0x7F)]] = True
    same = letters[rng.integers(0, len(letters), (words, 8))]
    start = person_ids._mixed(np.array([8 * words + 16]))
    for word in same.view("<i8").ravel():
        start = person_ids._mixed(start ^ word)
    wanted = letters[rng.integers(0, len(letters), (1, 16))]
    first, last = wanted.view("<u8")[0]
    target = person_ids._mixed(start ^ np.int64(first.astype(np.int64))) ^ last.astype(np.int64)
    for _ in range(1_000):
        tried = letters[rng.integers(0, len(letters), (4_096, 8))].view("<i8").ravel()
        rest = target ^ person_ids._mixed(start ^ tried)
        found = np.flatnonzero(good[rest.astype("<i8").view(np.uint8).reshape(-1, 8)].all(axis=1))
        if len(found):
            other = tried[found[0]].tobytes() + rest[found[0]].tobytes()
            beginning = same.tobytes()
            return (beginning + wanted.tobytes()).decode(), (beginning + other).decode()
    raise AssertionError("no two texts with the same hash were found")


def families(rng: Random) -> dict[str, Ids]:
    """Ids that could be mistaken for each other, by kind."""
    number = int(rng.integers(1, 1_000))
    long = "".join(rng.choice(list("abc"), 300))
    chosen = np.random.default_rng(rng.integers(0, 2**62))
    one, other = colliding_texts(chosen, int(chosen.choice([0, 1, 3, 6])))
    near = tuple(number + 1 + each for each in range(20))
    far = tuple(number + sign * 2**bits for bits in (8, 16, 24, 32, 48, 62) for sign in (1, -1))
    return {
        "numbers": Ids((number, str(number)), (*near, f"0{number}", f"{number} ", f"{number}.0")),
        "close together": Ids((number,), near),
        "far apart": Ids((number,), (*far, 2**63 - 1, -(2**63))),
        "largest": Ids((2**63 - 1,), (-(2**63), 2**63 - 2, -1, 0)),
        "texts": Ids(("ada",), ("Ada", "ada ", "ad", "adaa", "a", 'a"b', "a,b", "ådä", "null")),
        "same beginning": Ids(
            (long,), (long[:-1], long[:-1] + "d", long[:128], long[:129], "d" + long[1:])
        ),
        "same hash": Ids((one,), (other, one[:8], other[:8])),
    }


def whole_number(text: str) -> bool:
    """Whether a text is a whole number of 64 bits as Python writes it."""
    try:
        return str(int(text)) == text and -(2**63) <= int(text) < 2**63
    except ValueError:
        return False


# -- cases -----------------------------------------------------------------------------------------

BROKEN = (b"", b'"', b'{"time": ', b"a,b,c,d,e,f", b"\xff\xfe", b"[1, 2", b"}{")
"""Lines that are no events. An empty one is only left out."""


def make_case(rng: Random, *, finite: bool) -> EventCase:
    """A stream with one person in a window, and how it is counted.

    Parameters
    ----------
    rng : Generator
        Makes all choices.
    finite : bool
        Whether the input has an end, or comes step by step while a clock goes on.
    """
    setting = _setting(rng, finite=finite)
    known = families(rng)
    if setting.person_type == "integer":
        known = {name: known[name] for name in list(known)[:4]}
    ids = known[str(rng.choice(list(known)))]
    if setting.person_type == "text" and rng.random() < 0.7:
        ids = Ids(ids.mine, tuple(each for family in known.values() for each in family.others))
        mine = {str(each) for each in ids.mine}
        ids = Ids(ids.mine, tuple(each for each in ids.others if str(each) not in mine))
    first = int(rng.integers(1, setting.units - setting.window + 1))
    rows = [*_mine(rng, setting, ids, first), *_others(rng, setting, ids)]
    rows = [rows[place] for place in rng.permutation(len(rows))]
    return EventCase(setting, _arrivals(rng, setting, rows))


def make_large_case(rng: Random, *, finite: bool) -> EventCase:
    """A stream with so many persons in a unit that ids are looked up, then not, then again."""
    contribution = int(rng.choice([1, 2]))
    view = ViewSetting("1h", "UTC", 3_600, contribution)
    text = rng.random() < 0.3
    setting = StreamSetting(
        views=(view,),
        keys=tuple(f"k{place}" for place in range(int(rng.choice([3, 300])))),
        other=None,
        window=2,
        units=4,
        finite=finite,
        lateness=0,
        tolerance=60,
        late="drop",
        missing_person="drop",
        person_type="text" if text else "integer",
        clock="microseconds",
        batch=1_000,
        held=10**6,
        whole_units=bool(rng.random() < 0.5),
        fast=None if rng.random() < 0.5 else False,
    )
    low = view.boundaries[1]
    sparse = rng.choice(400_000, 900, replace=False) + 100_000
    people = np.concatenate([sparse, rng.permutation(MANY_PERSONS), [10**15, -(10**15), 5]])
    me = int(people[950])
    times = low + rng.integers(0, 3_600 * SECOND, len(people))
    keys = rng.integers(0, len(setting.keys), len(people))
    rows = [
        WrittenRow(int(when), setting.keys[key], int(who))
        for when, key, who in zip(times, keys, people, strict=True)
        if who != me
    ]
    mine = [
        WrittenRow(int(view.boundaries[unit] + rng.integers(0, 3_600 * SECOND)), key, me, mine=True)
        for unit in (1, 1, 1, 2, 2)
        for key in rng.choice(setting.keys, contribution + 1)
    ]
    places = sorted(rng.integers(0, len(rows), len(mine)).tolist(), reverse=True)
    for place, row in zip(places, mine, strict=True):
        rows.insert(place, row)
    rows += [WrittenRow(int(view.boundaries[unit]), setting.keys[0], 17) for unit in (0, 3)]
    end = view.boundaries[setting.units]
    if finite:
        return EventCase(setting, (ClockStep(end, tuple(rows)),))
    return EventCase(setting, (ClockStep(view.boundaries[1], tuple(rows)), ClockStep(end, ())))


def _setting(rng: Random, *, finite: bool) -> StreamSetting:
    first = int(rng.integers(0, len(CALENDARS)))
    second = min(first + int(rng.integers(0, 2)), len(CALENDARS) - 1)
    views = [
        ViewSetting(*CALENDARS[place], contribution=int(rng.choice(CONTRIBUTIONS)))
        for place in ([first] if rng.random() < 0.5 else [first, second])
    ]
    window = int(rng.choice(WINDOWS))
    keys = tuple(f"key {place}" for place in range(int(rng.choice([1, 2, 3, 7, 300]))))
    missing: tuple[MissingPerson, ...] = ("drop", "each", "refuse")
    clocks: tuple[Clock, ...] = ("iso", "seconds", "milliseconds", "microseconds")
    lateness = int(rng.choice([0, 0, 30, 5_400]))
    late: Late = "current" if rng.random() < 0.4 else "drop"
    return StreamSetting(
        views=tuple(views),
        keys=keys,
        other=str(rng.choice(keys)) if rng.random() < 0.4 else None,
        window=window,
        units=window + 4,
        finite=finite,
        lateness=0 if finite else lateness,
        tolerance=int(rng.choice([0, 60])),
        late="drop" if finite else late,
        missing_person=missing[int(rng.choice(3, p=[0.5, 0.4, 0.1]))],
        person_type="integer" if rng.random() < 0.4 else "text",
        clock=clocks[int(rng.choice(4, p=[0.4, 0.2, 0.2, 0.2]))],
        batch=int(rng.choice([1, 2, 3, 7, 64, 10_000])),
        held=int(rng.choice([8, 10**6])),
        whole_units=bool(rng.random() < 0.4),
        fast=None if rng.random() < 0.7 else False,
    )


def _moments(rng: Random, setting: StreamSetting, unit: int) -> Iterator[int]:
    """Times in a unit of the first view: its edges, within it, and the last one again."""
    edges = setting.views[0].boundaries
    low, high, grain = edges[unit - 1], edges[unit], setting.grain
    last = low
    while True:
        kind = rng.random()
        if kind < 0.2:
            last = low
        elif kind < 0.4:
            last = high - grain
        elif kind < 0.75:
            last = low + int(rng.integers(0, (high - low) // grain)) * grain
        yield last


def _mine(rng: Random, setting: StreamSetting, ids: Ids, first: int) -> list[WrittenRow]:
    """The person's events: more than count, in some or all units of the window."""
    most = max(view.contribution for view in setting.views)
    forms = list(ids.mine)
    moves, goes = rng.random() < 0.6, rng.random() < 0.4
    rows: list[WrittenRow] = []
    key = str(rng.choice(setting.keys))
    for unit in range(first, first + setting.window):
        if goes and rng.random() < 0.5:
            continue
        moments = _moments(rng, setting, unit)
        for _ in range(int(rng.integers(1, most + 4))):
            if moves:
                key = str(rng.choice(setting.keys))
            form = forms[int(rng.integers(0, len(forms)))]
            rows.append(WrittenRow(next(moments), key, form, mine=True))
            if rng.random() < 0.2:
                rows.append(rows[-1])
            if rng.random() < 0.1:
                rows.append(WrittenRow(rows[-1].time, "nowhere", form, mine=True))
    edges = setting.views[0].boundaries
    strange = [
        WrittenRow(edges[0] - setting.grain, key, forms[0], mine=True),
        WrittenRow(edges[-1] + setting.grain, key, forms[0], mine=True),
        WrittenRow("no time", key, forms[0], mine=True),
        WrittenRow(edges[first], None, forms[0], mine=True),
        *(
            WrittenRow(edges[first - 1], key, forms[0], mine=True, broken=each)
            for each in BROKEN[1:]
        ),
    ]
    if setting.missing_person == "drop":
        strange += [
            WrittenRow(edges[first], key, None, mine=True),
            WrittenRow(edges[first], key, "", mine=True),
        ]
    return rows + [each for each in strange if rng.random() < 0.3]


def _others(rng: Random, setting: StreamSetting, ids: Ids) -> list[WrittenRow]:
    """Other people's events, also of people whose ids look like the person's."""
    rows: list[WrittenRow] = []
    known = [*ids.others]
    for _ in range(OTHERS):
        unit = int(rng.integers(1, setting.units + 1))
        moment = next(_moments(rng, setting, unit))
        who = known[int(rng.integers(0, len(known)))]
        rows.append(WrittenRow(moment, str(rng.choice(setting.keys)), who))
        if rng.random() < 0.3:
            rows.append(rows[-1])
    nobody = {"drop": 0.05, "each": 0.2, "refuse": 0.005}[setting.missing_person]
    return [
        row._replace(person=None) if rng.random() < nobody else row
        for row in rows
        if setting.person_type == "text" or whole_number(str(row.person)) or rng.random() < 0.3
    ]


def _arrivals(
    rng: Random, setting: StreamSetting, rows: Sequence[WrittenRow]
) -> tuple[ClockStep, ...]:
    """When each event comes: in time, late, or from the future."""
    end = _end(setting)
    if setting.finite:
        return (ClockStep(end, tuple(rows)),)
    clocks = sorted({*_clocks(rng, setting, end), end})
    coming: list[list[WrittenRow]] = [[] for _ in clocks]
    for row in rows:
        moment = row.time if isinstance(row.time, int) else clocks[0]
        prompt = min(int(np.searchsorted(clocks, moment)), len(clocks) - 1)
        kind: Literal["prompt", "late", "any"] = "prompt"
        if rng.random() < 0.4:
            kind = "late" if rng.random() < 0.7 else "any"
        first = 0 if kind == "any" else prompt
        last = prompt if kind == "prompt" else len(clocks) - 1
        coming[int(rng.integers(first, last + 1))].append(row)
    return tuple(ClockStep(now, tuple(some)) for now, some in zip(clocks, coming, strict=True))


def _end(setting: StreamSetting) -> int:
    """An instant at which every unit that may have events has closed, in every view."""
    last = setting.views[0].boundaries[setting.units]
    return max(
        view.boundaries[view.unit(last + 60 * SECOND)] + setting.lateness * SECOND
        for view in setting.views
        if view.unit(last + 60 * SECOND) < len(view.boundaries)
    )


def _clocks(rng: Random, setting: StreamSetting, end: int) -> Iterator[int]:
    """Times of the clock: anywhere, at the edges of units, and when a unit closes."""
    edges = setting.views[0].boundaries[: setting.units + 1]
    for edge in edges:
        yield edge + int(rng.choice([-1, 0, 1]))
        closing = edge + setting.lateness * SECOND + int(rng.choice([-1, 0]))
        if rng.random() < 0.5 and closing < end:
            yield closing
    for _ in range(4):
        yield int(rng.integers(edges[0] - SECOND, end))
