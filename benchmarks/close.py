"""Time from the close of a unit to its committed release, and its growth with events and keys.

    python benchmarks/close.py [--json]

A unit has 2.5 million events, one per person, over 88,762 keys, under retroactive grouping. After
its close the publisher counts the bounded events, steps, takes a snapshot, and commits everything
durably to a SQLite store. Wall-clock seconds: the median of the units after the first, and the
slowest. Growth: half and twice as many events and keys, as a multiple of this unit; the fastest of
each, measured in turn. For twice as much of both, linear growth is 2 and quadratic growth 4; the
bar leaves room for measurement noise.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Self

import numpy as np

from penstock import RetroactiveGrouping
from penstock.core.domain import Domain
from penstock.engine.sqlite import SQLiteStore
from penstock.private.bounding import Bounding
from penstock.released.series import Series

from report import Figure, main

EVENTS, KEYS = 2_500_000, 88_762
UNITS = 7
BATCH = 1 << 18
STEPS = ("counts", "step", "snapshot", "commit")


class ClosingStream:
    """One stream with its own store."""

    def __init__(self, folder: Path, *, events: int, keys: int) -> None:
        self._rng = np.random.default_rng(6)
        self._events = events
        self._unit = Bounding(keys=keys, contribution=1)
        domain = Domain.of([f"place {number}" for number in range(keys)])
        self._run = RetroactiveGrouping(epsilon="1").run(domain)
        self._store = SQLiteStore(folder / f"{events} {keys}.db")
        self._store.begin(Series.of(self._run, name="visits"), seconds=3_600)
        self.times: list[dict[str, float]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._store.close()

    def unit(self) -> None:
        """Fill a unit, which is not timed, then close it."""
        number = self._run.unit + 1
        for start in range(0, self._events, BATCH):
            person = np.arange(start, min(start + BATCH, self._events))
            key = (self._rng.zipf(1.3, len(person)) - 1) % self._unit.keys
            self._unit.add(person, key, np.full(len(person), number * 3_600_000_000))
        marks = [time.perf_counter()]
        counts = self._unit.counts()
        marks.append(time.perf_counter())
        release = self._run.step(counts)
        marks.append(time.perf_counter())
        saved = self._run.snapshot_in_pieces()
        marks.append(time.perf_counter())
        lines = [line for line in self._run.ledger if line.unit == number]
        self._store.commit(
            "visits",
            number,
            lines=lines,
            release=release,
            state=saved.head,
            pieces=saved.pieces,
            positions={"events": number},
        )
        marks.append(time.perf_counter())
        self._unit.clear()
        self.times.append(dict(zip(STEPS, np.diff(marks).tolist(), strict=True)))

    @property
    def took(self) -> list[float]:
        """Seconds from close to commit."""
        return [sum(steps.values()) for steps in self.times]

    def part(self, step: str) -> float:
        return median(steps[step] for steps in self.times[1:])


def figures() -> Iterator[Figure]:
    sizes = {
        "whole": (EVENTS, KEYS),
        "half the events": (EVENTS // 2, KEYS),
        "twice the events": (EVENTS * 2, KEYS),
        "half the keys": (EVENTS, KEYS // 2),
        "twice the keys": (EVENTS, KEYS * 2),
        "twice of both": (EVENTS * 2, KEYS * 2),
    }
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        publishers = {
            name: stack.enter_context(ClosingStream(Path(folder), events=events, keys=keys))
            for name, (events, keys) in sizes.items()
        }
        for _ in range(UNITS):
            for publisher in publishers.values():
                publisher.unit()
        whole = publishers["whole"]
        yield Figure("2.5 M events, 88,762 keys: close to commit", median(whole.took[1:]), "s", 1.0)
        yield Figure("2.5 M events, 88,762 keys: the slowest", max(whole.took), "s", 1.0)
        for step in STEPS:
            yield Figure(f"2.5 M events, 88,762 keys: {step}", whole.part(step), "s")
        for name, publisher in publishers.items():
            if publisher is not whole:
                bar = 2.5 if name == "twice of both" else None
                yield Figure(
                    f"{name}: in multiples of this", min(publisher.took) / min(whole.took), "x", bar
                )


if __name__ == "__main__":
    main(__doc__ or "", figures)
