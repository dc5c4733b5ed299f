"""What a unit of a wide domain writes: its snapshot whole, and in the pieces that changed.

    python benchmarks/snapshot.py [--json]

`tide` with periods of 24 and 168 units over 100,000 keys keeps d · Σ periods numbers. After each
unit, the publisher takes a snapshot and commits it, sealed, to a SQLite store. Bytes are those that
SQLite writes to its log. Medians of the units after the first, which writes everything.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from penstock.core.domain import Domain
from penstock.engine.sealing import Key
from penstock.engine.sqlite import SQLiteStore
from penstock.private.mechanisms.tide import Tide
from penstock.private.run import Run
from penstock.released.series import Series

from report import Figure, main

KEYS, PERIODS, WINDOW = 100_000, (24, 168), 24
UNITS = 10


class CommittedStream:
    """One stream with its own store. Seconds and bytes of each unit are noted."""

    def __init__(self, folder: Path, *, in_pieces: bool) -> None:
        self._in_pieces = in_pieces
        self._rng = np.random.default_rng(6)
        self._level = 3 * self._rng.pareto(1.2, KEYS)
        self._log = folder / "visits.db-wal"
        self._mechanism = Tide(epsilon="1", window=WINDOW, periods=PERIODS)
        self._domain = Domain.of(KEYS)
        self._run = self._mechanism.run(self._domain)
        self._store = SQLiteStore(folder / "visits.db", key=Key(bytes(32)))
        self._store.begin(Series.of(self._run, name="visits"), seconds=3_600)
        self.seconds: list[float] = []
        self.megabytes: list[float] = []

    def unit(self) -> None:
        """Step, which is not timed; then save the state and commit."""
        number = self._run.unit + 1
        season = 1 + 0.8 * np.sin(2 * np.pi * number / PERIODS[0])
        release = self._run.step(self._rng.poisson(self._level * season))
        lines = [line for line in self._run.ledger if line.unit == number]
        began = time.perf_counter()
        self._store.commit(
            "visits",
            number,
            lines=lines,
            release=release,
            positions={"events": number},
            **self._saved(),
        )
        self.seconds.append(time.perf_counter() - began)
        self.megabytes.append(self._log.stat().st_size / 1e6)
        self._store.erase()

    def _saved(self) -> dict[str, Any]:
        if not self._in_pieces:
            return {"state": self._run.snapshot()}
        saved = self._run.snapshot_in_pieces()
        return {"state": saved.head, "pieces": saved.pieces}

    def restart(self) -> float:
        """Seconds to go on from the store."""
        began = time.perf_counter()
        last = self._store.last("visits")
        assert last is not None
        assert last.state is not None
        again: Run = self._mechanism.run(self._domain)
        again.load(last.state, last.pieces)
        assert again.unit == self._run.unit
        return time.perf_counter() - began

    def close(self) -> None:
        self._store.close()


def figures() -> Iterator[Figure]:
    took, written = dict[str, float](), dict[str, float]()
    for name in ("whole", "in pieces"):
        with tempfile.TemporaryDirectory() as folder:
            stream = CommittedStream(Path(folder), in_pieces=name == "in pieces")
            for _ in range(UNITS):
                stream.unit()
            took[name], written[name] = median(stream.seconds[1:]), median(stream.megabytes[1:])
            yield Figure(f"{name}: snapshot and commit", took[name], "s")
            yield Figure(f"{name}: the first unit", stream.seconds[0], "s")
            yield Figure(f"{name}: written per unit", written[name], "MB")
            yield Figure(f"{name}: restart", stream.restart(), "s")
            stream.close()
    for what, found in (("time", took), ("bytes", written)):
        yield Figure(
            f"{what} in pieces, of those whole", found["in pieces"] / found["whole"], "x", 0.2
        )


if __name__ == "__main__":
    main(__doc__ or "", figures)
