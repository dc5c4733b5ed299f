"""One open unit of 2.5 million persons: text ids against whole-number ids.

    python benchmarks/text_ids.py [--json]

Each kind of ids comes in three ways: as batches of 100,000 events that are only bounded, and as a
Parquet file and a file of JSON lines that are read, checked and bounded. Each run has a process of
its own. Memory is the process's peak above what it had after a small run of the same kind. CPU
seconds are the best of `ROUNDS` processes; the kinds take turns. Making the events is not timed.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.private.bounding import Bounding
from penstock.private.sources.base import Columns, Intake, Kind
from penstock.private.sources.files import FileSource, Format
from penstock.private.sources.jsonl import JsonLinesFormat
from penstock.private.sources.parquet import ParquetFormat

from report import Figure, main

PERSONS = 2_500_000
SMALL = 1_000
ROWS = 100_000
KEYS = tuple(f"station{number:03d}" for number in range(1_000))
START = 1_790_000_000_000_000
ROUNDS = 5
FILES: dict[str, Format] = {
    "parquet": ParquetFormat(),
    "jsonl": JsonLinesFormat(),
}
WAYS = {"bounding": "bounded", "parquet": "from Parquet", "jsonl": "from JSON lines"}


def batches(kind: str, persons: int) -> Iterator[tuple[Any, Any, Any]]:
    """Batches of events, one per person."""
    rng = np.random.default_rng(6)
    for start in range(0, persons, ROWS):
        rows = min(ROWS, persons - start)
        ids = rng.integers(-(2**62), 2**62, rows)
        key, moment = np.arange(rows) % len(KEYS), START + np.arange(start, start + rows)
        yield (pa.array(ids).cast(pa.string()) if kind == "text" else ids), key, moment


def write(folder: Path, kind: str, name: str, persons: int) -> None:
    """The events as a Parquet file with groups of 500,000 rows, and as JSON lines."""
    tables = []
    mark = '"' if kind == "text" else ""
    with (folder / f"{name}-{kind}.jsonl").open("w", encoding="utf-8") as lines:
        for ids, codes, moment in batches(kind, persons):
            key = [KEYS[code] for code in codes.tolist()]
            tables.append(pa.table({"time": moment, "key": key, "person": ids}))
            rows = zip(moment.tolist(), key, pa.array(ids).to_pylist(), strict=True)
            lines.writelines(
                f'{{"time":{when},"key":"{where}","person":{mark}{who}{mark},"gate":"by card"}}\n'
                for when, where, who in rows
            )
    path = folder / f"{name}-{kind}.parquet"
    pq.write_table(pa.concat_tables(tables), path, row_group_size=500_000)


def unit(folder: str, way: str, kind: Kind, name: str, persons: int) -> float:
    """Bound one unit, and return the CPU seconds."""
    bounding, seconds = Bounding(keys=len(KEYS), contribution=1), 0.0
    if way == "bounding":
        for batch in batches(kind, persons):
            start = time.process_time()
            bounding.add(*batch)
            seconds += time.process_time() - start
    start = time.process_time()
    if way != "bounding":
        columns = Columns("time", "key", person="person", clock="microseconds", person_type=kind)
        source = FileSource(
            pattern=f"{folder}/{name}-{kind}.{way}",
            format=FILES[way],
            intake=Intake(columns=columns, domain=KEYS),
        )
        for each in source.batches():
            bounding.add(each.person, each.key, each.time)
    if bounding.counts().sum() != persons:
        sys.exit("not every person was counted.")
    return seconds + time.process_time() - start


def child(folder: str, way: str, kind: Any) -> None:
    """Print the peak memory in MB and the CPU seconds."""
    unit(folder, way, kind, "small", SMALL)
    before = _peak()
    seconds = unit(folder, way, kind, "large", PERSONS)
    print(_peak() - before, seconds)


def _peak() -> float:
    """The most memory of this process. `getrusage` would also see the process that started it."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:"))


def measure() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        for kind in ("text", "integer"):
            write(Path(folder), kind, "small", SMALL)
            write(Path(folder), kind, "large", PERSONS)
        for way, shown in WAYS.items():
            yield from _figures(folder, way, shown)


def _figures(folder: str, way: str, shown: str) -> Iterator[Figure]:
    found: dict[str, list[tuple[float, ...]]] = {"text": [], "integer": []}
    for _ in range(ROUNDS):
        for kind, costs in found.items():
            run = subprocess.run(
                [sys.executable, __file__, "--child", folder, way, kind],
                check=True,
                capture_output=True,
                text=True,
            )
            costs.append(tuple(map(float, run.stdout.split())))
    seconds = {kind: min(cost[1] for cost in costs) for kind, costs in found.items()}
    for kind, costs in found.items():
        memory, limit = max(each[0] for each in costs), 300.0 if kind == "text" else None
        yield Figure(f"{kind} ids, {shown}: memory of the unit", memory, "MB", limit)
        yield Figure(f"{kind} ids, {shown}: CPU time", seconds[kind] / PERSONS * 1e9, "ns/event")
    ratio = seconds["text"] / seconds["integer"]
    yield Figure(f"text ids / integer ids, {shown}: CPU", ratio, "x", 2.5)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(*sys.argv[2:])
        sys.exit()
    main(str(__doc__).partition("\n")[0], measure)
