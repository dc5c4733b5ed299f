"""Counting on Spark: our bounding, the same in SQL, a plain groupBy, and `penstock run` without it.

    python benchmarks/spark.py [--json] [--events 5000000] [--master local[2]]

Events are in Parquet files: a time, one of 265 stations, one of a million cards; 24 units of an
hour. Every way runs once over a small input before it is measured, so that Spark has compiled its
plan and its workers are there. CPU seconds are those of this process and of all processes of Spark.
Needs the extra `spark` and Java 17.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.engine.pipeline import EngineConfig, Pipeline
from penstock.engine.publisher import Publisher
from penstock.engine.spark.engine import SparkEngine
from penstock.engine.spark.session import spark_session
from penstock.private.noise import NoNoise

from report import Figure, main

EVENTS = 50_000_000
FILES = 20
STATIONS = 265
CARDS = 1_000_000
WARMING_EVENTS = 1_000_000
HOURS = 24
BEGIN = np.datetime64("2026-01-01T00:00:00", "us")
HOUR = 3_600_000_000
TICKS = os.sysconf("SC_CLK_TCK")


def fill(folder: Path, events: int) -> None:
    """Write the events, in order of time."""
    folder.mkdir()
    rng = np.random.default_rng(1)
    each = -(-events // FILES)
    for number in range(FILES):
        size = min(each, events - number * each)
        start = number * HOURS * HOUR // FILES
        times = start + np.sort(rng.integers(0, HOURS * HOUR // FILES, size))
        table = pa.table(
            {
                "ts": pa.array(BEGIN + times.astype("timedelta64[us]"), pa.timestamp("us", "UTC")),
                "station": pa.array(rng.integers(0, STATIONS, size), pa.int32()),
                "card": pa.array(rng.integers(0, CARDS, size), pa.int64()),
            }
        )
        pq.write_table(table, folder / f"taps-{number:02d}.parquet", row_group_size=2**19)


def pipeline(folder: Path, store: str, engine: dict[str, Any] | None = None) -> Pipeline:
    content: dict[str, Any] = {
        "stream": {
            "name": "taps",
            "every": "1h",
            "origin": "2026-01-01",
            "until": "2026-01-02T00:00Z",
        },
        "source": {
            "kind": "parquet",
            "path": "taps/*.parquet",
            "time": "ts",
            "key": "station",
            "key_type": "integer",
            "person": "card",
            "person_type": "integer",
        },
        "domain": {"keys": [str(number) for number in range(STATIONS)]},
        "privacy": {"mechanism": "uniform", "epsilon": "1", "window": 24},
        "store": {"path": store},
    }
    if engine is not None:
        content["engine"] = engine
    return Pipeline.of(content, folder=folder)


def published(declared: Pipeline, engine: SparkEngine | None) -> np.ndarray[Any, Any]:
    """The releases without noise, one row per unit."""
    with Publisher(declared, noise=NoNoise, engine=engine) as publisher:
        publisher.run()
        releases = publisher.store.releases(publisher.views[0].name)
        return np.array([each.value for each in releases])


def by_sql(spark: Any, folder: Path, *, bounded: bool) -> np.ndarray[Any, Any]:
    """The counts by Spark's SQL, with one event per person and unit, or with all events."""
    spark.read.parquet(str(folder / "taps")).createOrReplaceTempView("taps")
    unit = "cast(unix_micros(ts) div 3600000000 as bigint)"
    begin = int(BEGIN.astype(np.int64)) // HOUR
    source = f"select {unit} as unit, ts, station, card from taps"
    if bounded:
        source = (
            f"select unit, first.station as station from (select unit, card, "
            f"min(struct(ts, station)) as first from ({source}) group by unit, card)"
        )
    asked = f"select unit, station, count(*) as n from ({source}) group by unit, station"
    table = spark.sql(asked).toArrow()
    counts = np.zeros((HOURS, STATIONS), np.int64)
    np.add.at(
        counts,
        (np.asarray(table["unit"]) - begin, np.asarray(table["station"])),
        np.asarray(table["n"]),
    )
    return counts


def cpu_seconds() -> float:
    """CPU seconds of this process and of all that descend from it, so far."""
    parents: dict[int, int] = {}
    seconds: dict[int, float] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(entry.name)] = int(fields[1])
            seconds[int(entry.name)] = sum(map(int, fields[11:15])) / TICKS

    def ours(pid: int) -> bool:
        while pid in parents and pid != os.getpid():
            pid = parents[pid]
        return pid == os.getpid()

    return sum(spent for pid, spent in seconds.items() if ours(pid))


def timed(work: Callable[[], Any]) -> tuple[float, float, Any]:
    """Seconds, CPU seconds and the result of one call."""
    start, spent = time.perf_counter(), cpu_seconds()
    result = work()
    return time.perf_counter() - start, cpu_seconds() - spent, result


def measure(given: argparse.Namespace) -> Iterator[Figure]:
    events, master = given.events, given.master
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        warming = folder / "warming"
        warming.mkdir()
        for place, size in ((folder, events), (warming, min(events, WARMING_EVENTS))):
            fill(place / "taps", size)
        spark = spark_session(EngineConfig(master=master), folder=folder, kafka=False)
        table = {"master": master}
        stores = iter(range(1_000))

        def ours(place: Path) -> np.ndarray[Any, Any]:
            declared = pipeline(place, f"spark-{next(stores)}.db", table)
            return published(declared, SparkEngine(declared))

        def here(place: Path) -> np.ndarray[Any, Any]:
            return published(pipeline(place, f"here-{next(stores)}.db"), None)

        ways: dict[str, Callable[[Path], np.ndarray[Any, Any]]] = {
            "our bounding on Spark": ours,
            "min(struct(time, key)) in SQL": lambda place: by_sql(spark, place, bounded=True),
            "plain groupBy": lambda place: by_sql(spark, place, bounded=False),
            "penstock run without Spark": here,
        }
        found = {}
        for way, work in ways.items():
            work(warming)
            wall, spent, counts = timed(partial(work, folder))
            found[way] = counts
            yield Figure(f"{way}: time", wall, "s")
            yield Figure(f"{way}: CPU per 1 M events", spent / events * 1e6, "s")
            if way == "our bounding on Spark":
                first = wall, spent
            elif way.startswith("min"):
                yield Figure("our time, of that in SQL", first[0] / wall, "×", 1.0)
                yield Figure("our CPU, of that in SQL", first[1] / spent, "×", 1.0)
        counted = [found[way] for way in ways if way != "plain groupBy"]
        same = all(np.array_equal(counted[0], each) for each in counted)
        yield Figure("the three bounded ways agree", float(same), "", 1.0, at_least=True)
        spark.stop()


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--events", type=int, default=EVENTS)
    parser.add_argument("--master", default="local[2]")


if __name__ == "__main__":
    main(__doc__ or "", measure, options)
