"""Sources whose events Spark reads: they say which offsets or files there are, and read nothing."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from penstock.core.errors import InputError, StateError
from penstock.engine.spark.ranges import FileRange, OffsetRange, RangeBatch
from penstock.private.partial_counts import (
    FileSlice,
    MessageReader,
    ParquetReader,
    PartReader,
)
from penstock.private.sources.base import Batch, Intake, Position, Receiver, Rejections, Source
from penstock.private.sources.files import FileSource
from penstock.private.sources.kafka import TOPIC_FIELD, KafkaSource, offsets_of
from penstock.private.sources.parquet import ParquetFormat
from penstock.private.sources.table_layout import TableLayout

BYTES_PER_SLICE = 32 * 2**20
"""Bytes of a file that are read by one task, about."""

TASKS_PER_CORE = 4

_FETCHING = {
    "kafka.max.partition.fetch.bytes": str(8 * 2**20),
    "kafka.max.poll.records": "10000",
    "kafka.receive.buffer.bytes": str(2**20),
}
"""A task reads one partition. With the client's own limits it would wait for each megabyte."""


@dataclass(frozen=True, kw_only=True)
class SparkInput:
    """Rows for the workers, how they turn them into tables, and the partitions of a topic."""

    rows: Any
    reader: PartReader
    partitions: int | None = None


class RangeSource(Source, Protocol):
    """A source that gives `RangeBatch`es, and the rows of ranges for Spark."""

    @property
    def intake(self) -> Intake:
        """Makes batches of the columns."""

    def rows(self, spark: Any, ranges: Sequence[Any]) -> SparkInput | None:
        """What Spark reads for these ranges; None if they are empty.

        What cannot be read now is an `InputError`, and what is gone a `StateError`.
        """


@dataclass(kw_only=True, eq=False)
class SparkKafkaSource(Receiver):
    """The offsets of a topic, for Spark to read. Ours is the one client that asks for them.

    Parameters
    ----------
    kafka : KafkaSource
        The topic, as a publisher without Spark would read it.
    partitioned : bool
        Whether each person has one partition. Then their number must not change.
    """

    kafka: KafkaSource
    partitioned: bool = False
    rejections: Rejections = field(default_factory=Rejections, init=False)
    _idle: threading.Event = field(default_factory=threading.Event, init=False, repr=False)

    @property
    def intake(self) -> Intake:
        """Makes batches of the columns."""
        return self.kafka.intake

    @property
    def resumable(self) -> bool:
        return True

    @property
    def problem(self) -> str:
        return self.kafka.problem

    @property
    def complete(self) -> bool:
        return self.kafka.complete

    def open(self, parts: Mapping[str, bytes]) -> None:
        """Start to connect."""
        self.kafka.open(parts)

    def wait(self, seconds: float) -> None:
        """Wait so long: what has come is found when the offsets are asked for."""
        self._idle.wait(seconds)

    def close(self) -> None:
        """Leave the broker."""
        self.kafka.close()

    def batches(self, after: Position | None = None) -> Iterator[Batch]:
        """The range from the position to the end of what is there now, if it has any message."""
        found = self.kafka.stretch(after)
        if found is None or (self.partitioned and not self.kafka.reached):
            return
        start, end = found
        starts, ends = offsets_of(start), offsets_of(end)
        if self.partitioned and after is not None:
            self._same_partitions(offsets_of(after), ends)
        if after is None or end != after:
            topic = str(end[TOPIC_FIELD])
            yield RangeBatch.of(OffsetRange(topic=topic, starts=starts, ends=ends), end)

    def _same_partitions(self, before: Mapping[int, int], now: Mapping[int, int]) -> None:
        if len(before) != len(now):
            raise StateError(
                f"kafka: topic {self.kafka.topic!r} has {len(now)} partitions, and had "
                f"{len(before)}: the messages of a person may lie in two of them now. Nothing was "
                'counted. Remove partitioned = "person" from [engine]; the stream goes on.'
            )

    def rows(self, spark: Any, ranges: Sequence[OffsetRange]) -> SparkInput | None:
        """The messages of these ranges, by Spark's own connector.

        Messages of an earlier topic of the same name are gone, where that was accepted.
        """
        there = [each if each.topic == ranges[-1].topic else each.emptied() for each in ranges]
        starts: dict[int, int] = {}
        for each in reversed(there):
            starts |= each.starts
        ends = {partition: end for each in there for partition, end in each.ends.items()}
        if not any(starts[partition] < end for partition, end in ends.items()):
            return None
        starts = self._there(ranges[-1].topic, starts)
        topic = self.kafka.topic
        wanted = [partition for partition in sorted(ends) if starts[partition] < ends[partition]]
        if not wanted:
            return None
        options = {
            **_settings(self.kafka),
            "assign": json.dumps({topic: wanted}),
            "startingOffsets": json.dumps({topic: {str(each): starts[each] for each in wanted}}),
            "endingOffsets": json.dumps({topic: {str(each): ends[each] for each in wanted}}),
            "failOnDataLoss": "true",
            "kafka.isolation.level": "read_committed",
            **_FETCHING,
        }
        rows = spark.read.format("kafka").options(**options).load()
        reader = MessageReader(
            format=self.kafka.format, ends=[each.ends for each in there], starts=starts
        )
        return SparkInput(
            rows=rows.select("partition", "offset", "value"),
            reader=reader,
            partitions=len(ranges[-1].ends),
        )

    def _there(self, topic: str, starts: Mapping[int, int]) -> dict[int, int]:
        """The offsets to read from. Messages that the broker has deleted are a `StateError`."""
        position: dict[str, str | int] = {
            TOPIC_FIELD: topic,
            **{str(each): starts[each] for each in starts},
        }
        found = self.kafka.stretch(position)
        if found is None:
            raise InputError(f"{self.kafka.problem.partition(';')[0]}.")
        return offsets_of(found[0])


@dataclass(kw_only=True, eq=False)
class SparkParquetSource(Source):
    """Parquet files, for Spark's workers to read. Every worker must see them at the same path."""

    files: FileSource
    rejections: Rejections = field(default_factory=Rejections, init=False)

    @property
    def intake(self) -> Intake:
        """Makes batches of the columns."""
        return self.files.intake

    @property
    def resumable(self) -> bool:
        return True

    @property
    def unreadable(self) -> bool:
        return self.files.unreadable

    def notes(self) -> Sequence[str]:
        return self.files.notes()

    def batches(self, after: Position | None = None) -> Iterator[Batch]:
        """The whole files after the position, as one range."""
        found, position, failure = [], after, None
        try:
            for part, here in self.files.unread(after, self._rows):
                found.append(part)
                position = here
        except InputError as error:
            failure = error
        self.rejections.add_all(self.files.rejections.take())
        if found and position is not None and (failure is None or self.files.growing):
            yield RangeBatch.of(FileRange(files=tuple(found)), position)
        if failure is not None:
            raise failure

    def _rows(self, file: BinaryIO, name: str) -> int:
        return ParquetFormat().rows(file, self.intake.columns.names, name=name)

    def rows(self, spark: Any, ranges: Sequence[FileRange]) -> SparkInput | None:
        """The numbers of slices of these files."""
        return file_rows(spark, ranges, root=self.files.folder)


def file_rows(
    spark: Any, ranges: Sequence[FileRange], *, root: Path, layout: TableLayout | None = None
) -> SparkInput | None:
    """The numbers of slices of the files of these ranges, for workers to read.

    Parameters
    ----------
    spark : SparkSession
        The session.
    ranges : sequence of FileRange
        The files.
    root : Path
        The folder that their names start from.
    layout : TableLayout, optional
        The table that they belong to; default: None, no table.
    """
    slices = [
        FileSlice(stretch=stretch, part=part, number=number, of=of)
        for stretch, each in enumerate(ranges)
        for part in each.files
        if part.rows > part.start
        for of in (max(1, -(-part.size // BYTES_PER_SLICE)),)
        for number in range(of)
    ]
    if not slices:
        return None
    tasks = min(len(slices), TASKS_PER_CORE * spark.sparkContext.defaultParallelism)
    groups = neighbours(slices, tasks)
    reader = ParquetReader(root=str(root), slices=groups, layout=layout)
    return SparkInput(rows=spark.range(0, len(groups), 1, len(groups)), reader=reader)


def neighbours(slices: Sequence[FileSlice], tasks: int) -> list[list[FileSlice]]:
    """At most so many groups of slices, of about the same size, in order.

    Files that follow each other often have events of the same units. A task that reads them
    together sends fewer events of a person on.
    """
    sizes = [each.part.size / each.of for each in slices]
    whole = max(sum(sizes), 1.0)
    groups: dict[int, list[FileSlice]] = {}
    before = 0.0
    for each, size in zip(slices, sizes, strict=True):
        number = min(int((before + size / 2) / whole * tasks), tasks - 1)
        groups.setdefault(number, []).append(each)
        before += size
    return list(groups.values())


def _settings(kafka: KafkaSource) -> dict[str, str]:
    """The settings of Kafka's Java client that are those of ours."""
    ours = kafka.settings()
    settings = {
        "kafka.bootstrap.servers": ours["bootstrap.servers"],
        "kafka.security.protocol": ours["security.protocol"],
    }
    if "sasl.username" in ours:
        module = "plain.PlainLoginModule"
        if ours["sasl.mechanisms"] != "PLAIN":
            module = "scram.ScramLoginModule"
        settings["kafka.sasl.mechanism"] = ours["sasl.mechanisms"]
        settings["kafka.sasl.jaas.config"] = (
            f"org.apache.kafka.common.security.{module} required "
            f"username={_quoted(ours['sasl.username'])} password={_quoted(ours['sasl.password'])};"
        )
    if "ssl.ca.location" in ours:
        settings["kafka.ssl.truststore.type"] = "PEM"
        settings["kafka.ssl.truststore.location"] = ours["ssl.ca.location"]
    return settings


def _quoted(text: str) -> str:
    """A text as the Java client's login configuration quotes it."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
