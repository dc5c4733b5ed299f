"""Made-up streams for tests of the publisher: a few people at a few stations every few minutes."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.core.calendar import instant

KEYS = ["Airport", "Central", "Harbour", "Old Town"]
ORIGIN = "2026-01-01"
BEGIN = instant("2026-01-01T00:00Z")
HOUR = 3_600_000_000
MINUTE = 60_000_000


def events(hours=12, each=200, people=150, seed=1, order=True):
    """Times in µs, stations and cards."""
    rng = np.random.default_rng(seed)
    size = hours * each
    times = BEGIN + rng.integers(0, hours * HOUR, size)
    if order:
        times.sort()
    return times, rng.integers(0, len(KEYS), size), rng.integers(0, people, size)


def truth(times, keys, cards, *, every=HOUR, units=12, contribution=1):
    """The counts of every unit: each person's earliest events, then by key."""
    counts = np.zeros((units, len(KEYS)), np.int64)
    kept = {}
    for time, key, card in sorted(zip(times.tolist(), keys.tolist(), cards.tolist(), strict=True)):
        unit = (time - BEGIN) // every
        if 0 <= unit < units and kept.get((unit, card), 0) < contribution:
            kept[unit, card] = kept.get((unit, card), 0) + 1
            counts[unit, key] += 1
    return counts


def table(times, keys, cards):
    return pa.table(
        {
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
            "station": np.array(KEYS)[keys],
            "card": cards,
        }
    )


def parquet(path, columns, **more):
    pq.write_table(table(*columns), path, **more)


def csv(path, columns, *, header=True):
    rows = zip(*columns, strict=True)
    lines = [f"{moment(int(time))},{KEYS[key]},{card}\n" for time, key, card in rows]
    path.write_text("".join((["ts,station,card\n"] if header else []) + lines))


def moment(time):
    return datetime.fromtimestamp(time / 1e6, UTC).isoformat()


def pipeline(**more):
    """The tables of a configuration; what is given replaces a whole table or, for a dict, some of
    its entries.
    """
    content = {
        "stream": {"name": "taps", "every": "1h", "origin": ORIGIN},
        "source": {
            "kind": "parquet",
            "path": "taps.parquet",
            "time": "ts",
            "key": "station",
            "person": "card",
            "person_type": "integer",
        },
        "domain": {"keys": KEYS},
        "privacy": {"mechanism": "laplace", "epsilon": "1"},
        "store": {"path": "taps.db"},
    }
    for name, value in more.items():
        content[name] = {**content.get(name, {}), **value} if isinstance(value, dict) else value
    return content
