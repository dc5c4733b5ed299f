"""A restart with 13 million open events, as a multiple of reading the same events once.

    python benchmarks/restart.py [--json]

The events are synthetic, one per person, with text ids, in batches of 100,000: in one open unit, in
thirteen, or 2.5 million in one. The store is SQLite with a key, and every batch is saved, as for
senders who wait for an answer. A restart reads what the store has and restores the open units. The
yardstick counts the same batches, which are in memory already, once. The first close after the
restart reads what the restart left in the store; its figure is a multiple of the same yardstick.
Wall-clock seconds; the counts of both must be the same.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from penstock import Laplace
from penstock.core.calendar import Calendar, instant
from penstock.engine.sealing import Key
from penstock.engine.sqlite import SQLiteStore
from penstock.private.counting import Counting
from penstock.private.sources.base import Batch
from penstock.private.units import Units
from penstock.released.series import Series

from report import Figure, main

BEGIN, HOUR = instant("2026-01-01T00:00Z"), 3_600_000_000
ROWS, KEYS = 100_000, 1_000
CASES = ((13_000_000, 1), (13_000_000, 13), (2_500_000, 1))
LIMIT = 0.25


def counting() -> Counting:
    calendar = Calendar(every="1h", origin="2026-01-01")
    return Counting(Units(calendar), keys=KEYS, contribution=1, finite=False)


def made(events: int, units: int) -> list[Batch]:
    """Batches of text ids, in order of time."""
    rng = np.random.default_rng(6)
    batches = []
    for start in range(0, events, ROWS):
        unit = BEGIN + HOUR * (start * units // events)
        batches.append(
            Batch(
                time=unit + np.sort(rng.integers(0, HOUR, ROWS)),
                key=rng.integers(0, KEYS, ROWS),
                person=pa.array(rng.integers(0, 2**62, ROWS)).cast(pa.string()),
                position=None,
            )
        )
    return batches


def measured(folder: Path, events: int, units: int) -> Iterator[Figure]:
    now = BEGIN + units * HOUR
    batches = made(events, units)
    began = time.perf_counter()
    once = counting()
    for batch in batches:
        once.take(batch, now)
    yardstick = time.perf_counter() - began
    run = Laplace(epsilon="1").run(["north", "south"])
    with SQLiteStore(folder / f"{events} {units}.db", key=Key(bytes(32))) as store:
        store.begin(Series.of(run, name="visits"), seconds=3_600)
        live = counting()
        for batch in batches:
            live.take(batch, now)
            store.save("visits", positions={}, private=live.changes())
            live.settled()
        del batches, live
        began = time.perf_counter()
        last = store.last("visits")
        assert last is not None
        again = counting()
        again.restore(last.private)
        restart = time.perf_counter() - began
        began = time.perf_counter()
        first = again.counts(1)
        close = time.perf_counter() - began
        if (first != once.counts(1)).any():
            sys.exit("the counts after a restart are others")
    what = f"{events / 1e6:g} M events in {units} open unit{'s' if units > 1 else ''}"
    yield Figure(f"{what}: restart", restart / yardstick, "x", LIMIT if events > 3e6 else None)
    yield Figure(f"{what}: restart", restart, "s")
    yield Figure(f"{what}: first close after it", close / yardstick, "x")


def figures() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        for events, units in CASES:
            yield from measured(Path(folder), events, units)


if __name__ == "__main__":
    main("Restart with open events, as a multiple of reading them once.", figures)
