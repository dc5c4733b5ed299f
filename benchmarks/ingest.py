"""Bounded counting of a Parquet file, unit by unit, in multiples of what DuckDB takes for the same file.

    python benchmarks/ingest.py [--events 10000000] [--json]

Synthetic events in units of one hour, 2.5 million each and in order of time: one a person and unit, or four of which one
counts. Ids are whole numbers without gaps, whole numbers with large gaps, or text. Every way to count reads the file itself, in
a process of its own, with all cores; seconds on the wall and of all threads, the best of three. Compiled loops are compiled
before. The yardsticks are plain unbounded counting, and the same bounding in SQL: `arg_min(key, ts)` per unit and person.
All ways to bound must agree to the last count, or nothing is printed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.core.arrays import IntArray
from penstock.private.bounding import Bounding

from report import Figure, main

HOUR = 3_600_000_000
UNIT_EVENTS = 2_500_000
KEYS = 1_000
BATCH = 1 << 17
ROUNDS = 3

SCHEMA = pa.schema({"ts": pa.int64(), "person": pa.int64(), "key": pa.int32()})
FILES = (
    ("gapless ids", 1, "gapless"),
    ("ids with gaps", 1, "gaps"),
    ("ids with gaps, 4 events each", 4, "gaps"),
    ("text ids", 1, "text"),
)

PLAIN = "select ts // {hour} as unit, key, count(*) from '{path}' group by all"
ARG_MIN = (
    "select unit, key, count(*) from (select ts // {hour} as unit, person, arg_min(key, ts) as key from '{path}' group by all)"
    " group by all"
)


@dataclass(frozen=True)
class Cost:
    """What one way to count took: seconds, the most memory in MB, and a digest of the counts."""

    wall: float
    cpu: float
    start: float
    peak: float
    digest: str


def write(path: Path, events: int, *, each: int, ids: str) -> None:
    """A file of `events` events in order of time, `each` of them a person and unit."""
    rng = np.random.default_rng(6)
    size = min(events, UNIT_EVENTS)
    people = np.arange(size // each) if ids == "gapless" else rng.integers(-(2**62), 2**62, size // each)
    with pq.ParquetWriter(path, SCHEMA.set(1, pa.field("person", pa.string())) if ids == "text" else SCHEMA) as writer:
        for unit in range(events // size):
            person = pa.array(rng.permutation(np.repeat(people, each)))
            ts = unit * HOUR + np.sort(rng.choice(HOUR // 1000, len(person), replace=False) * 1000)
            key = rng.integers(0, KEYS, len(person), np.int32)
            columns = [pa.array(ts), person.cast(writer.schema.field(1).type), pa.array(key)]
            writer.write_table(pa.table(columns, schema=writer.schema), row_group_size=500_000)


def ahead(batches: Iterable[Any]) -> Iterator[Any]:
    """The batches, each read while the one before it is counted."""
    source = iter(batches)
    with ThreadPoolExecutor(1) as reader:
        coming = reader.submit(next, source, None)
        while (batch := coming.result()) is not None:
            coming = reader.submit(next, source, None)
            yield batch


def bounded(path: str, *, fast: bool) -> Iterator[IntArray]:
    """The bounded counts of every unit."""
    unit, number = Bounding(keys=KEYS, contribution=1, fast=fast), 0
    for batch in ahead(pq.ParquetFile(path, pre_buffer=False).iter_batches(BATCH)):
        ts, person, key = batch.column(0).to_numpy(), batch.column(1), batch.column(2).to_numpy()
        units = ts // HOUR
        for start, stop in pairwise([0, *(np.flatnonzero(np.diff(units)) + 1).tolist(), len(ts)]):
            if units[start] != number:
                number = units[start]
                yield unit.counts()
                unit.clear()
            unit.add(person[start:stop], key[start:stop], ts[start:stop])
    yield unit.counts()


def sql(path: str, *, query: str) -> Iterator[IntArray]:
    """The counts of every unit by DuckDB."""
    units, keys, counts = duckdb.execute(query.format(hour=HOUR, path=path)).fetchnumpy().values()
    table = np.zeros((int(units.max()) + 1, KEYS), np.int64)
    table[units, keys] = counts
    yield from table


WAYS: dict[str, Callable[[str], Iterator[IntArray]]] = {
    "plain SQL": lambda path: sql(path, query=PLAIN),
    "arg_min SQL": lambda path: sql(path, query=ARG_MIN),
    "fast": lambda path: bounded(path, fast=True),
    "NumPy": lambda path: bounded(path, fast=False),
}


def child(way: str, path: str) -> Cost:
    """Count in some rounds, in this process."""
    began = time.perf_counter()
    unit = Bounding(keys=KEYS, contribution=1, fast=way == "fast")
    for rows in (10, 10_000):
        unit.add(np.arange(rows), np.zeros(rows, np.int64), np.zeros(rows, np.int64))
    start, walls, cpus, digest = time.perf_counter() - began, [], [], ""
    for _ in range(ROUNDS):
        wall, cpu = time.perf_counter(), time.process_time()
        counts = np.stack(list(WAYS[way](path)))
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
        digest = hashlib.sha256(counts.tobytes()).hexdigest()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return Cost(wall=min(walls), cpu=min(cpus), start=start, peak=peak, digest=digest)


def costs(path: Path) -> dict[str, Cost]:
    """Every way, each in a process of its own."""
    found = {}
    for way in WAYS:
        command = [sys.executable, __file__, "--child", way, str(path)]
        found[way] = Cost(**json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
    if len({cost.digest for way, cost in found.items() if way != "plain SQL"}) > 1:
        sys.exit("the ways to bound do not agree")
    return found


def figures(events: int) -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        for name, each, ids in FILES:
            path = Path(folder) / "events.parquet"
            write(path, events, each=each, ids=ids)
            found = costs(path)
            plain, arg_min = found["plain SQL"], found["arg_min SQL"]
            yield Figure(f"{name}: plain SQL", plain.wall / events * 1e9, "ns/event")
            yield Figure(f"{name}: arg_min SQL", arg_min.wall / events * 1e9, "ns/event")
            for way, most in (("fast", 2.5), ("NumPy", 5.0)):
                cost, issue = found[way], ids == "gapless" and each == 1
                yield Figure(f"{name}: {way}", cost.wall / events * 1e9, "ns/event")
                yield Figure(f"{name}: {way} / plain SQL", cost.wall / plain.wall, "x", most if issue else None)
                yield Figure(f"{name}: {way} / plain SQL, CPU", cost.cpu / plain.cpu, "x")
                least = {("fast", "gapless"): 3.0, ("fast", "text"): 1.0, ("NumPy", "text"): 1.0}.get((way, ids))
                bar = least if each == 1 else None
                yield Figure(f"{name}: arg_min SQL / {way}", arg_min.wall / cost.wall, "x", bar, at_least=True)
                yield Figure(f"{name}: arg_min SQL / {way}, CPU", arg_min.cpu / cost.cpu, "x")
                yield Figure(f"{name}: {way}, most memory", cost.peak, "MB", 1000.0)
            yield Figure(f"{name}: arg_min SQL, most memory", arg_min.peak, "MB")
        yield Figure("fast: import and compile, once in a process", found["fast"].start, "s")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        print(json.dumps(asdict(child(*sys.argv[2:]))))
        sys.exit()
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--events", type=int, default=10_000_000)
    chosen, sys.argv[1:] = parser.parse_known_args()
    main(__doc__ or "", lambda: figures(chosen.events))
