"""Worlds whose publisher counts on Spark, and the processes of that Spark."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

from tests.engine import streams
from tests.engine.places import PostgresPlace
from tests.engine.spark.conftest import JARS
from tests.recovery.world import POSTGRES, KafkaWorld, ParquetWorld, World, wait_for

JAVA, WORKERS = "org.apache.spark.deploy.SparkSubmit", "pyspark.daemon"
GONE = ("Spark's driver process has ended", "Spark did not start")
"""How a publisher refuses to go on whose Java process was killed."""


class OnSpark(World):
    """A world on Spark, with sinks of files and, where the server is there, of a table."""

    while_ = 5.0
    settings: ClassVar = {"engine": "spark"}
    engine: ClassVar = {"master": "local[2]", "partitions": 3}

    def __init__(self, *args, **more):
        self.java = set()
        self.table = PostgresPlace(POSTGRES) if POSTGRES else None
        sinks = [
            {"kind": "parquet", "path": "releases"},
            {"kind": "jsonl", "path": "releases.jsonl"},
            {"kind": "csv", "path": "tables"},
        ]
        if self.table is not None:
            sinks.append({"kind": "postgres", "url": self.table.address, "table": "taps"})
        super().__init__(*args, **{"sink": sinks, "engine": dict(self.engine), **more})

    def tidy(self):
        super().tidy()
        if self.table is not None:
            self.table.clean()
        wait_for(lambda: not any(map(alive, self.java)), "the end of Spark's Java processes")

    def disturb(self, random):
        """Kill the driver: the publisher's process or, as often, the Java process beside it."""
        started = self.starts[-1]
        java = [pid for pid, _ in descendants(started.process, JAVA)]
        self.java |= set(java)
        if not java or random.random() < 0.5:
            return super().disturb(random)
        for pid in java:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if started.until("refused", seconds=2 * self.while_):
            assert any(text in started.of("refused")[0]["text"] for text in GONE), started.told[-3:]
            started.ended()
            return True
        return super().disturb(random)  # it had nothing to count, and has not noticed


class SparkParquetWorld(OnSpark, ParquetWorld):
    """A finished file."""

    while_ = 5.0


class SparkFilesWorld(OnSpark):
    """Files that come hour by hour."""

    def prepare(self):
        (self.folder / "taps").mkdir()
        self.source = {"kind": "parquet", "path": "taps/*.parquet", "growing": True}

    def send(self, rows, hour):
        times, keys, cards = zip(*rows, strict=True)
        columns = (
            [streams.instant(each) for each in times],
            [streams.KEYS.index(each) for each in keys],
            list(cards),
        )
        path = self.folder / "taps" / f"{hour:03d}.parquet"
        streams.parquet(path.with_suffix(".part"), columns, row_group_size=30)
        path.with_suffix(".part").rename(path)


class SparkKafkaWorld(OnSpark, KafkaWorld):
    """A topic of three partitions."""

    while_ = 5.0
    settings: ClassVar = {"engine": "spark"}
    engine: ClassVar = {**OnSpark.engine, "jars": JARS}


class StandInFilesWorld(SparkFilesWorld):
    """Files that come hour by hour, counted in the publisher's process as Spark would."""

    while_ = 0.15
    settings: ClassVar = {"engine": "in process"}


class StandInKafkaWorld(SparkKafkaWorld):
    """A topic, counted in the publisher's process as Spark would."""

    while_ = 0.15
    settings: ClassVar = {"engine": "in process"}


def descendants(process, name):
    """Processes with this name in their command that descend from a process, with their parents."""
    parents, commands = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                parents[int(entry.name)] = int(fields[1])
                commands[int(entry.name)] = (entry / "cmdline").read_text()

    def ours(pid):
        while pid in parents and pid != process:
            pid = parents[pid]
        return pid == process

    return [
        (pid, parents[pid])
        for pid, command in commands.items()
        if name in command and pid != process and ours(pid)
    ]


def python_workers(process):
    """The Python workers of the Spark that a process has started."""
    found = descendants(process, WORKERS)
    daemons = {pid for pid, _ in found}
    return [pid for pid, parent in found if parent in daemons]


def alive(pid):
    """Whether a process runs: one that nobody has waited for yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
