"""Ten million keys on Spark: from the counts of a unit to its commit, in time and memory.

    python benchmarks/spark_keys.py [--json] [--keys 10000000] [--events 10000000]

Events are in a Parquet file: a time, a key and one of five million cards; one unit of an hour. The
store is a SQLite file. Each mechanism has a process of its own. The time begins when Spark's job
has given the counts, and ends with the commit; the job is told beside it. Memory is the largest
resident size of the publisher, and of Spark's Java process and Python workers. Needs the extra
`spark` and Java 17.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.core.domain import Domain
from penstock.engine.pipeline import Pipeline
from penstock.engine.publisher import Publisher
from penstock.engine.publishing_loop import LiveLoop
from penstock.engine.spark.engine import SparkEngine
from penstock.testing import ManualClock

from report import Figure, main

KEYS, EVENTS, CARDS = 10_000_000, 10_000_000, 5_000_000
MECHANISMS = ("uniform", "rg")
BEGIN = np.datetime64("2026-01-01T00:00:00", "us")
HOUR = 3_600_000_000
CLOSES = "2026-01-01T01:01Z"
MAX_SECONDS, MAX_GIGABYTES = 60.0, 8.0


def fill(path: Path, events: int, keys: int) -> None:
    rng = np.random.default_rng(1)
    times = np.sort(rng.integers(0, HOUR, events))
    table = pa.table(
        {
            "ts": pa.array(BEGIN + times.astype("timedelta64[us]"), pa.timestamp("us", "UTC")),
            "station": pa.array(rng.integers(0, keys, events), pa.int64()),
            "card": pa.array(rng.integers(0, CARDS, events), pa.int64()),
        }
    )
    pq.write_table(table, path, row_group_size=2**19)


def pipeline(folder: Path, mechanism: str, keys: int, master: str) -> Pipeline:
    content: dict[str, Any] = {
        "stream": {"name": "taps", "every": "1h", "origin": "2026-01-01", "lateness": "1min"},
        "source": {
            "kind": "parquet",
            "path": "taps/*.parquet",
            "growing": True,
            "time": "ts",
            "key": "station",
            "key_type": "integer",
            "person": "card",
            "person_type": "integer",
        },
        "domain": Domain(tuple(map(str, range(keys)))),
        "privacy": {"mechanism": mechanism, "epsilon": "1", "window": 24},
        "store": {"path": f"{mechanism}.db"},
        "engine": {"master": master},
    }
    return Pipeline.of(content, folder=folder)


class PeakMemory(threading.Thread):
    """The largest resident size of this process, and of all that descend from it, in bytes."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.own = self.others = 0
        self._over = threading.Event()

    def run(self) -> None:
        while not self._over.wait(0.1):
            self._look()

    def finish(self) -> None:
        self._over.set()
        self.join()

    def _look(self) -> None:
        sizes: dict[int, tuple[int, int]] = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    fields = (entry / "stat").read_text().rpartition(")")[2].split()
                    # Pages that a forked worker shares with its parent count once.
                    told = (entry / "smaps_rollup").read_text()
                except OSError:
                    continue
                size = next((line for line in told.splitlines() if line.startswith("Pss:")), "")
                kilobytes = int(size.split()[1]) if size else 0
                sizes[int(entry.name)] = int(fields[1]), kilobytes * 1024
        own = int(Path("/proc/self").resolve().name)
        ours = {own}
        while more := {pid for pid, (parent, _) in sizes.items() if parent in ours} - ours:
            ours |= more
        self.own = max(self.own, sizes[own][1])
        others = sum(sizes[pid][1] for pid in ours if pid != own)
        self.others = max(self.others, others)


def one(text: str) -> None:
    """Count and commit one unit with one mechanism, and print what that took."""
    given = json.loads(text)
    memory = PeakMemory()
    memory.start()
    declared = pipeline(Path(given["folder"]), given["mechanism"], given["keys"], given["master"])
    clock = ManualClock(CLOSES)
    with Publisher(declared, clock=clock, engine=SparkEngine(declared)) as publisher:
        loop = publisher.loop
        assert isinstance(loop, LiveLoop)
        loop.read()
        publisher.committer.save()
        (view,) = publisher.views
        marks = [time.perf_counter()]
        view.counting.ready(view.counting.due(clock.now()))
        marks.append(time.perf_counter())
        counted = int(view.counting.counts(1).sum())
        loop.draw(clock.now())
        loop.commit()
        marks.append(time.perf_counter())
        unit = publisher.store.head(view.name).unit
    memory.finish()
    found = {
        "job": marks[1] - marks[0],
        "commit": marks[2] - marks[1],
        "own": memory.own,
        "others": memory.others,
        "committed": unit == 1 and counted > 0,
    }
    print(json.dumps(found))


def measure(given: argparse.Namespace) -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "taps").mkdir()
        fill(Path(name) / "taps" / "0.parquet", given.events, given.keys)
        for mechanism in MECHANISMS:
            asked = {
                "folder": name,
                "mechanism": mechanism,
                "keys": given.keys,
                "master": given.master,
            }
            done = subprocess.run(
                [sys.executable, __file__, "--one", json.dumps(asked)],
                check=True,
                stdout=subprocess.PIPE,
            )
            found = json.loads(done.stdout.splitlines()[-1])
            whole = (found["own"] + found["others"]) / 1e9
            yield Figure(f"{mechanism}: counts to commit", found["commit"], "s", MAX_SECONDS)
            yield Figure(f"{mechanism}: the job before it", found["job"], "s")
            yield Figure(f"{mechanism}: memory of the publisher", found["own"] / 1e9, "GB")
            yield Figure(f"{mechanism}: memory of all processes", whole, "GB", MAX_GIGABYTES)
            committed = float(found["committed"])
            yield Figure(f"{mechanism}: unit 1 is committed", committed, "", 1.0, at_least=True)


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--keys", type=int, default=KEYS)
    parser.add_argument("--events", type=int, default=EVENTS)
    parser.add_argument("--master", default="local[2]")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        one(sys.argv[2])
    else:
        main(__doc__ or "", measure, options)
