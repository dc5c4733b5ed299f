"""One stream of events, published by both engines in the same turns of the same clock."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.core.calendar import instant
from penstock.engine.pipeline import Pipeline
from penstock.engine.publisher import Publisher
from penstock.private.noise import TestNoise
from penstock.testing import ManualClock

WITH_REAL_SPARK = [
    pytest.mark.slow,  # PySpark leaves sockets to the garbage collector:
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

KEYS = ["north", "south", "west"]
HOUR = 3_600_000_000
BEGIN = instant("2026-01-01T00:00Z")

TURNS = ("00:40", "01:12", "02:30", "05:12", "06:12")
"""When the engines read and release. Units 3 to 5 close together, and unit 4 is empty."""

VIEWS = [
    {"name": "hours", "every": "1h", "mechanism": "ba", "contribution": 1, "share": "1/2"},
    {"name": "pairs", "every": "2h", "mechanism": "uniform", "contribution": 3, "share": "1/2"},
]


def at(clock):
    return instant(f"2026-01-01T{clock}Z")


def told(time):
    return datetime.fromtimestamp(time / 1e6, UTC).isoformat()


def rows_of_turn(number, *, integer=False):
    """Time, key and person of the events that come before a turn: good and bad ones."""
    now = at(TURNS[number])
    before = at(TURNS[number - 1]) if number else BEGIN
    step = (now - before) // 40
    rows = []
    for place in range(40):
        time = before + place * step
        if HOUR * 3 <= time - BEGIN < HOUR * 4:
            continue
        person = (place * 7 + number) % 9
        rows.append((told(time), KEYS[(place + number) % 3], person))
        if place % 5 == 0:  # the same person again, at the same time or a little later
            rows.append((told(time), KEYS[place % 3], person))
            rows.append((told(time + 1), KEYS[(place + 1) % 3], person))
    rows += [
        (told(now - 90 * 60_000_000), "north", 77),  # late, but for the pairs
        (told(BEGIN + 60_000_000), "south", 78),  # late, after the first turns
        (told(now + 10 * HOUR), "north", 79),  # from the future
        (told(now + 30_000_000), "north", 80),  # within the tolerance
        ("2025-06-01T00:00:00Z", "north", 81),  # from before unit 1
        (told(now - step), "nowhere", 82),
        ("yesterday", "north", 83),
        (told(now - step), "west", None),
    ]
    return [
        (time, key, person if integer or person is None else f"card-{person}")
        for time, key, person in rows
    ]


def settings(source, *, integer=False, missing="drop", store, **more):
    columns = {
        "time": "ts",
        "key": "station",
        "person": "card",
        "person_type": "integer" if integer else "text",
        "missing_person": missing,
    }
    return {
        "stream": {
            "name": "taps",
            "every": "1h",
            "origin": "2026-01-01",
            "lateness": "10min",
            "pace": "0s",
            **more.pop("stream", {}),
        },
        "source": {**source, **columns},
        "domain": {"keys": KEYS},
        "privacy": {"epsilon": "1", "window": 24},
        "view": VIEWS,
        "store": {"path": store},
        **more,
    }


@dataclass
class Engine:
    """A publisher that can be opened again, and the turns that it makes."""

    pipeline: Pipeline
    engine: object = None
    clock: ManualClock = field(default_factory=lambda: ManualClock("2026-01-01T00:00Z"))
    more: dict = field(default_factory=dict)
    publisher: Publisher | None = None

    def open(self):
        made = self.engine(self.pipeline) if self.engine is not None else None
        self.publisher = Publisher(
            self.pipeline,
            clock=self.clock,
            noise=lambda: TestNoise(5),
            engine=made,
            **self.more,
        )

    def close(self):
        if self.publisher is not None:
            self.publisher.close()
        self.publisher = None

    def turn(self, now):
        self.clock.set(f"2026-01-01T{now}Z")
        self.publisher.loop.read()
        while self.publisher.loop.draw(self.clock.now()):
            self.publisher.loop.commit()
        self.publisher.committer.save()


def outcome(publisher):
    """All that both engines must agree on: releases, links, and what was not counted."""
    found = {}
    for view in publisher.views:
        releases = [
            (each.unit, each.value.tolist()) for each in publisher.store.releases(view.name)
        ]
        tally = view.counting.units.tally
        found[view.name] = (
            releases,
            str(publisher.store.head(view.name)),
            (tally.late, tally.future, tally.past),
        )
    return found, publisher.source.rejections.for_operator()


def write_parquet(path, rows, *, integer=False):
    time, key, person = (list(column) for column in zip(*rows, strict=True))
    kind = pa.int64() if integer else pa.string()
    columns = {"ts": pa.array(time), "station": pa.array(key), "card": pa.array(person, kind)}
    part = path.with_suffix(".part")
    pq.write_table(pa.table(columns), part, row_group_size=16)
    part.rename(path)


def message(row):
    time, key, person = row
    return json.dumps({"ts": time, "station": key, "card": person, "more": [1]}).encode()


BROKEN = [b"", b"{", b'{"ts": "2026-01-01T00:30Z"}', b"[]", b"\xff\xfe"]


def taps_toml(source, *, store="taps.db", engine=""):
    """A pipeline file of two units. `source` has its own lines, `engine` a table of its own."""
    return f"""
[stream]
name = "taps"
every = "1h"
origin = "2026-01-01"
until = "2026-01-01T02:00Z"
[source]
{source}
time = "ts"
key = "station"
person = "card"
[domain]
keys = ["north", "south"]
[privacy]
mechanism = "uniform"
epsilon = "1"
window = 2
[store]
path = "{store}"
{engine}
"""
