"""Bounded counting of a Parquet file, unit by unit, as a multiple of DuckDB's time.

    python benchmarks/ingest.py [--events 50000000] [--json]

The events are synthetic, in units of one hour with 2.5 million events in order of time: one per
person and unit, or four of which one counts. Ids are integers without gaps, integers with large
gaps, or text. Every method reads the file itself, in its own process, with all cores. The methods
take turns; wall-clock and CPU seconds are the best of three. Compilation is not timed. Penstock
counts as in a publisher: `FileSource`, `Intake`, and `Counting` with its `Bounding`; a unit closes
when the file shows that it is complete. The yardsticks are plain unbounded counting and the same
bounding in SQL: `arg_min(key, ts)` per unit and person. If the bounded counts of two methods
differ, nothing is printed.
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
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.core.arrays import IntArray
from penstock.core.calendar import Calendar
from penstock.private.bounding import Bounding
from penstock.private.counting import Counting
from penstock.private.sources.base import Columns, Intake, Kind
from penstock.private.sources.files import FileSource
from penstock.private.sources.parquet import ParquetFormat
from penstock.private.units import ReplayClock, Units

from report import Figure, main

HOUR = 3_600_000_000
UNIT_EVENTS = 2_500_000
KEYS = 1_000
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
    "select unit, key, count(*) from (select ts // {hour} as unit, person, arg_min(key, ts) as "
    "key from '{path}' group by all) group by all"
)


@dataclass(frozen=True)
class Cost:
    """The cost of one method: seconds, peak memory in MB, and a digest of the counts."""

    wall: float
    cpu: float
    start: float
    peak: float
    digest: str


def write(path: Path, events: int, *, each: int, ids: str) -> None:
    """A file of `events` events in order of time, `each` per person and unit."""
    rng = np.random.default_rng(6)
    size = min(events, UNIT_EVENTS)
    people = (
        np.arange(size // each) if ids == "gapless" else rng.integers(-(2**62), 2**62, size // each)
    )
    with pq.ParquetWriter(
        path, SCHEMA.set(1, pa.field("person", pa.string())) if ids == "text" else SCHEMA
    ) as writer:
        for unit in range(events // size):
            person = pa.array(rng.permutation(np.repeat(people, each)))
            ts = unit * HOUR + np.sort(rng.choice(HOUR // 1000, len(person), replace=False) * 1000)
            key = rng.integers(0, KEYS, len(person), np.int32)
            columns = [pa.array(ts), person.cast(writer.schema.field(1).type), pa.array(key)]
            writer.write_table(pa.table(columns, schema=writer.schema), row_group_size=500_000)


def bounded(path: str) -> Iterator[IntArray]:
    """The bounded counts of every unit by Penstock."""
    ids: Kind = (
        "text" if pa.types.is_string(pq.read_schema(path).field("person").type) else "integer"
    )
    columns = Columns(
        "ts", "key", person="person", clock="microseconds", key_type="integer", person_type=ids
    )
    files = FileSource(
        pattern=path,
        format=ParquetFormat(),
        intake=Intake(columns=columns, domain=tuple(map(str, range(KEYS)))),
    )
    events = pq.read_metadata(path).num_rows
    clock = ReplayClock(HOUR * (events // min(events, UNIT_EVENTS)))
    counting = Counting(
        Units(Calendar(every="1h", origin="1970-01-01")), keys=KEYS, contribution=1, finite=True
    )

    def closed() -> Iterator[IntArray]:
        for unit in counting.due(clock.now()):
            yield counting.counts(unit)
            counting.close(unit)

    for batch in files.batches():
        counting.take(batch, clock.end)
        if batch.certain is not None:
            clock.beat(min(batch.certain, clock.end))
            yield from closed()
    clock.finish()
    yield from closed()


def sql(path: str, *, query: str) -> Iterator[IntArray]:
    """The counts of every unit by DuckDB."""
    units, keys, counts = duckdb.execute(query.format(hour=HOUR, path=path)).fetchnumpy().values()
    table = np.zeros((int(units.max()) + 1, KEYS), np.int64)
    table[units, keys] = counts
    yield from table


WAYS: dict[str, Callable[[str], Iterator[IntArray]]] = {
    "plain SQL": lambda path: sql(path, query=PLAIN),
    "arg_min SQL": lambda path: sql(path, query=ARG_MIN),
    "fast": bounded,
    "NumPy": bounded,
}


def child(way: str, path: str) -> None:
    """Count once per line of standard input, and print the cost."""
    began = time.perf_counter()
    if way != "fast":
        sys.modules["numba"] = None  # type: ignore[assignment]  # as if it were not installed
    unit = Bounding(keys=KEYS, contribution=1)
    assert unit.fast is (way == "fast")
    for rows in (10, 10_000):
        unit.add(np.arange(rows), np.zeros(rows, np.int64), np.zeros(rows, np.int64))
    start = time.perf_counter() - began
    for _ in sys.stdin:
        wall, cpu = time.perf_counter(), time.process_time()
        counts = np.stack(list(WAYS[way](path)))
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        digest = hashlib.sha256(counts.tobytes()).hexdigest()
        print(
            json.dumps(asdict(Cost(wall=wall, cpu=cpu, start=start, peak=peak, digest=digest))),
            flush=True,
        )


def costs(path: Path) -> dict[str, Cost]:
    """Run every method in its own process; they take turns."""
    turns: dict[str, list[Cost]] = {way: [] for way in WAYS}
    with ExitStack() as stack:
        children = {
            way: stack.enter_context(
                subprocess.Popen(
                    [sys.executable, __file__, "--child", way, str(path)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                    bufsize=1,
                )
            )
            for way in WAYS
        }
        for _ in range(ROUNDS):
            for way, process in children.items():
                turns[way].append(_turn(process))
    if len({cost.digest for way, some in turns.items() for cost in some if way != "plain SQL"}) > 1:
        sys.exit("the methods give different bounded counts")
    return {
        way: replace(
            some[-1], wall=min(cost.wall for cost in some), cpu=min(cost.cpu for cost in some)
        )
        for way, some in turns.items()
    }


def _turn(process: subprocess.Popen[str]) -> Cost:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("again\n")
    return Cost(**json.loads(process.stdout.readline()))


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
                yield Figure(
                    f"{name}: {way} / plain SQL",
                    cost.wall / plain.wall,
                    "x",
                    most if issue else None,
                )
                yield Figure(f"{name}: {way} / plain SQL, CPU", cost.cpu / plain.cpu, "x")
                least = {
                    ("fast", "gapless"): 3.0,
                    ("fast", "text"): 1.0,
                    ("NumPy", "text"): 1.0,
                }.get((way, ids))
                bar = least if each == 1 else None
                yield Figure(
                    f"{name}: arg_min SQL / {way}",
                    arg_min.wall / cost.wall,
                    "x",
                    bar,
                    at_least=True,
                )
                yield Figure(f"{name}: arg_min SQL / {way}, CPU", arg_min.cpu / cost.cpu, "x")
                yield Figure(f"{name}: {way}, most memory", cost.peak, "MB", 1000.0)
            yield Figure(f"{name}: arg_min SQL, most memory", arg_min.peak, "MB")
        yield Figure("fast: import and compile, once in a process", found["fast"].start, "s")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(*sys.argv[2:])
        sys.exit()
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--events", type=int, default=50_000_000)
    chosen, sys.argv[1:] = parser.parse_known_args()
    main(__doc__ or "", lambda: figures(chosen.events))
