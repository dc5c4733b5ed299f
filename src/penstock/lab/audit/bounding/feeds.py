"""Rows in every format that a shipped source reads, through that source.

Files are written and read as files. Requests go through the shipped reader of bodies and the inbox
of the HTTP server, messages of brokers through the shipped decoders. No port is opened, and no
broker is needed.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np

from penstock.lab.audit.bounding.streams import Random, StreamSetting, WrittenRow, whole_number
from penstock.private.sources import mqtt
from penstock.private.sources.arrow_file import ArrowFileFormat
from penstock.private.sources.avro import AvroMessages
from penstock.private.sources.base import (
    FACTORS,
    Batch,
    Columns,
    Intake,
    Position,
    Rejections,
    arrow,
)
from penstock.private.sources.csv import CsvFormat
from penstock.private.sources.files import FileSource, Format
from penstock.private.sources.frame import FrameSource, needed_columns
from penstock.private.sources.idempotency import Entry, IdempotencyKeys
from penstock.private.sources.inbox import KEPT, Inbox, Sending
from penstock.private.sources.jsonl import JsonLinesFormat
from penstock.private.sources.message_formats import JsonMessages, MessageFormat
from penstock.private.sources.parquet import ParquetFormat
from penstock.private.sources.request_bodies import JSON, NDJSON, STREAM, Encoding, RequestBodies
from penstock.private.sources.stdin import StdinSource

FIELDS = ("time", "key", "person")


class EventFeed(Protocol):
    """A source to which rows are given, and which gives batches."""

    answers: bool
    """Whether batches are stored at once, as somebody waits for an answer."""

    @abstractmethod
    def put(self, rows: Sequence[WrittenRow]) -> None:
        """Write these rows, after all others."""

    @abstractmethod
    def batches(self, after: Position | None) -> Iterator[Batch]:
        """All batches after a position."""

    def kept(self, batch: Batch) -> None:
        """Hear that a batch and all before it are stored."""
        return

    @abstractmethod
    def restart(self, parts: Mapping[str, bytes]) -> None:
        """Make the source anew, with the parts that were stored."""


FeedMaker: TypeAlias = Callable[[StreamSetting, Path, Random], EventFeed]


@lru_cache(maxsize=8)
def intake_of(setting: StreamSetting) -> Intake:
    """The shipped intake of a setting."""
    columns = Columns(
        "time",
        "key",
        person="person",
        clock=setting.clock,
        person_type=setting.person_type,
        missing_person=setting.missing_person,
    )
    return Intake(columns=columns, domain=setting.keys, other=setting.other)


# -- rows as text, objects, tables and records -----------------------------------------------------


class _Writer:
    """Writes rows in the ways that one setting allows."""

    def __init__(self, setting: StreamSetting, rng: Random) -> None:
        self._setting = setting
        self._rng = rng

    def time(self, row: WrittenRow) -> str:
        """The time as text."""
        if isinstance(row.time, str):
            return row.time
        if self._setting.clock != "iso":
            return str(row.time // FACTORS[self._setting.clock])
        if self._rng.random() < 0.3:  # the same instant on a clock two hours ahead
            return f"{np.datetime64(row.time + 7_200_000_000, 'us')}+02:00"
        return f"{np.datetime64(row.time, 'us')}Z"

    def lines(self, rows: Sequence[WrittenRow], write: Callable[[WrittenRow], bytes]) -> bytes:
        """Rows as lines; broken ones as they are."""
        return b"".join((row.broken or write(row).rstrip(b"\r\n")) + b"\n" for row in rows)

    def csv(self, row: WrittenRow) -> bytes:
        text = io.StringIO()
        person = "" if row.person is None else str(row.person)
        csv.writer(text, lineterminator="\n").writerow([self.time(row), row.key or "", person])
        return text.getvalue().encode()

    def object(self, row: WrittenRow) -> bytes:
        """The row as a JSON object. A whole number may be written as a text, and the reverse."""
        time: str | int = self.time(row)
        if self._setting.clock != "iso" and not isinstance(row.time, str):
            time = int(time)
        person = row.person
        if isinstance(person, int) and self._rng.random() < 0.5:
            person = str(person)
        content = {"time": time, "key": row.key, "person": person, "more": [1]}
        names = list(content)
        return json.dumps(
            {names[at]: content[names[at]] for at in self._rng.permutation(len(names))},
            ensure_ascii=False,
        ).encode()

    def table(self, rows: Sequence[WrittenRow]) -> Any:
        """The rows as an Arrow table. A time that is none is missing."""
        pa = arrow()
        good = [row for row in rows if not row.broken]
        times = [row.time if isinstance(row.time, int) else None for row in good]
        kind = int(self._rng.integers(0, 2))
        if self._setting.clock == "iso" and kind:
            time = pa.array(
                [self.time(row) if isinstance(row.time, int) else None for row in good], pa.string()
            )
        elif self._setting.clock == "iso":
            time = pa.array(times, pa.timestamp("us", "UTC"))
        else:
            factor = FACTORS[self._setting.clock]
            whole = [None if each is None else each // factor for each in times]
            time = pa.array(whole, pa.int64())
        key = pa.array([row.key for row in good], pa.string())
        if self._rng.random() < 0.3:
            key = key.dictionary_encode()
        return pa.table({"person": self._people(good), "time": time, "key": key})

    def _people(self, rows: Sequence[WrittenRow]) -> Any:
        pa = arrow()
        people = [None if row.person is None else str(row.person) for row in rows]
        whole = all(each is None or whole_number(each) for each in people)
        kind = int(self._rng.integers(0, 4))
        if whole and kind < 2:
            return pa.array([None if each is None else int(each) for each in people], pa.int64())
        column = pa.array(people, pa.large_string() if kind == 2 else pa.string())
        return column.dictionary_encode() if kind == 3 else column

    def stream(self, rows: Sequence[WrittenRow]) -> bytes:
        """The rows as an Arrow stream."""
        pa = arrow()
        table = self.table(rows)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            least = 1 + len(rows) // 100  # the reader takes a thousand messages
            writer.write_table(table, max_chunksize=int(self._rng.integers(least, least + 8)))
        return bytes(sink.getvalue())

    def record(self, row: WrittenRow) -> bytes:
        """The row as an Avro record of `avro_schema`."""
        person = None if row.person is None else str(row.person)
        time, key = self.time(row), row.key or "no key"
        parts = [
            _avro_text(time)
            if self._setting.clock == "iso"
            else _avro_number(int(time) if whole_number(time) else 2**62),
            _avro_text(key),
            b"\0" if person is None else b"\2" + _avro_text(person),
        ]
        return b"".join(parts)


def avro_schema(setting: StreamSetting) -> dict[str, Any]:
    """The schema of Avro messages."""
    return {
        "type": "record",
        "name": "Event",
        "fields": [
            {"name": "time", "type": "string" if setting.clock == "iso" else "long"},
            {"name": "key", "type": "string"},
            {"name": "person", "type": ["null", "string"]},
        ],
    }


def _avro_number(number: int) -> bytes:
    zigzag = (number << 1) ^ (number >> 63)
    out = bytearray()
    while zigzag > 127:
        out.append(zigzag & 127 | 128)
        zigzag >>= 7
    return bytes((*out, zigzag))


def _avro_text(text: str) -> bytes:
    content = text.encode()
    return _avro_number(len(content)) + content


# -- files -----------------------------------------------------------------------------------------


class _FileFeed(EventFeed):
    """Files that are finished, or that grow or come one after the other."""

    answers = False

    def __init__(self, setting: StreamSetting, folder: Path, rng: Random, *, ending: str) -> None:
        self._setting = setting
        self._folder = folder
        self._rng = rng
        self._ending = ending
        self._writer = _Writer(setting, rng)
        self._files = 0
        self.restart({})

    @property
    def _lined(self) -> bool:
        return self._ending in ("csv", "jsonl")

    def restart(self, parts: Mapping[str, bytes]) -> None:
        formats: dict[str, Format] = {
            "csv": CsvFormat(),
            "jsonl": JsonLinesFormat(),
            "parquet": ParquetFormat(),
            "arrow": ArrowFileFormat(),
        }
        self._source = FileSource(
            pattern=self._folder / f"*.{self._ending}",
            format=formats[self._ending],
            intake=intake_of(self._setting),
            growing=not self._setting.finite,
            rows=self._setting.batch,
        )

    def batches(self, after: Position | None) -> Iterator[Batch]:
        return self._source.batches(after)

    def put(self, rows: Sequence[WrittenRow]) -> None:
        if self._setting.finite:
            for part in np.array_split(np.arange(len(rows)), int(self._rng.integers(1, 4))):
                self._write([rows[place] for place in part])
        elif self._lined and self._files and self._rng.random() < 0.6:
            self._append(rows)
        else:
            self._write(rows)

    def _write(self, rows: Sequence[WrittenRow]) -> None:
        self._files += 1
        path = self._folder / f"{self._files:04}.{self._ending}"
        if self._lined:
            path.write_bytes(b"time,key,person\n" if self._ending == "csv" else b"")
            self._append(rows)
            return
        table = self._writer.table(rows)
        size = int(self._rng.integers(1 + len(rows) // 50, 2 + len(rows)))
        if self._ending == "parquet":
            arrow("pyarrow.parquet").write_table(table, path, row_group_size=size)
        else:
            arrow("pyarrow.feather").write_feather(table, path, chunksize=size)

    def _append(self, rows: Sequence[WrittenRow]) -> None:
        path = self._folder / f"{self._files:04}.{self._ending}"
        write = self._writer.csv if self._ending == "csv" else self._writer.object
        with path.open("ab") as file:
            file.write(self._writer.lines(rows, write))


def _files(ending: str) -> FeedMaker:
    def make(setting: StreamSetting, folder: Path, rng: Random) -> EventFeed:
        return _FileFeed(setting, folder, rng, ending=ending)

    return make


# -- what is read once -----------------------------------------------------------------------------


class _FrameFeed(EventFeed):
    """A data frame of a library that is installed."""

    answers = False

    def __init__(self, setting: StreamSetting, folder: Path, rng: Random) -> None:
        self._setting = setting
        self._rng = rng
        self._writer = _Writer(setting, rng)
        self._table: Any = None

    def put(self, rows: Sequence[WrittenRow]) -> None:
        table = self._writer.table(rows)
        frame = table
        kind = int(self._rng.integers(0, 3))
        if kind == 1:
            frame = import_module("polars").from_arrow(table)
        elif kind == 2 and find_spec("pandas") is not None and not _lossy(table):
            frame = table.to_pandas()
        self._table = needed_columns(frame, intake_of(self._setting).columns)
        self.restart({})

    def restart(self, parts: Mapping[str, bytes]) -> None:
        self._source = FrameSource(
            table=self._table, intake=intake_of(self._setting), rows=self._setting.batch
        )

    def batches(self, after: Position | None) -> Iterator[Batch]:
        return self._source.batches(after)


def _lossy(table: Any) -> bool:
    """Whether pandas turns whole numbers beside missing ones into inexact numbers."""
    types = arrow().types
    return any(column.null_count and types.is_integer(column.type) for column in table.columns)


class _Puts(EventFeed):
    """A feed that can be read from after each `put` only."""

    answers = False

    def __init__(self, setting: StreamSetting, folder: Path, rng: Random) -> None:
        self._setting = setting
        self._rng = rng
        self._intake = intake_of(setting)
        self._writer = _Writer(setting, rng)
        self._contents: list[list[bytes]] = []

    def restart(self, parts: Mapping[str, bytes]) -> None:
        return

    def put(self, rows: Sequence[WrittenRow]) -> None:
        self._contents.append(self._written(rows))

    def batches(self, after: Position | None) -> Iterator[Batch]:
        first = 0 if after is None else int(after["puts"])
        for place, content in enumerate(self._contents[first:], start=first + 1):
            waiting: Batch | None = None
            for batch in self._read(content):
                if waiting is not None:
                    yield waiting
                waiting = replace(batch, position=None)
            if waiting is not None:
                yield replace(waiting, position={"puts": place})

    @abstractmethod
    def _written(self, rows: Sequence[WrittenRow]) -> list[bytes]:
        """The rows as bytes: one stream, or one message after the other."""

    @abstractmethod
    def _read(self, content: list[bytes]) -> Iterator[Batch]:
        """The batches of these bytes."""


class _StdinFeed(_Puts):
    """Standard input, as CSV or JSON lines."""

    lined_csv = True

    def _written(self, rows: Sequence[WrittenRow]) -> list[bytes]:
        write = self._writer.csv if self.lined_csv else self._writer.object
        head = b"time,key,person\n" if self.lined_csv else b""
        return [head + self._writer.lines(rows, write)]

    def _read(self, content: list[bytes]) -> Iterator[Batch]:
        source = StdinSource(
            format=CsvFormat() if self.lined_csv else JsonLinesFormat(),
            intake=self._intake,
            rows=self._setting.batch,
            stream=io.BytesIO(content[0]),
        )
        return source.batches()


class _StdinJsonFeed(_StdinFeed):
    lined_csv = False


class _KafkaFeed(_Puts):
    """Messages of a Kafka topic, as objects, through the decoder."""

    def _written(self, rows: Sequence[WrittenRow]) -> list[bytes]:
        return [row.broken or self._writer.object(row) for row in rows]

    def _format(self) -> MessageFormat:
        return JsonMessages()

    def _read(self, content: list[bytes]) -> Iterator[Batch]:
        rejections = Rejections()
        for start in range(0, len(content), self._setting.batch):
            values: list[bytes | None] = [*content[start : start + self._setting.batch], None]
            table = self._format().table(values, self._intake.columns, rejections=rejections)
            yield self._intake.batch(table, position=None, rejections=rejections)


class _AvroFeed(_KafkaFeed):
    """Messages of a Kafka topic, as Avro records, through the decoder."""

    def _written(self, rows: Sequence[WrittenRow]) -> list[bytes]:
        return [self._writer.record(row) for row in rows if not row.broken and row.key is not None]

    def _format(self) -> MessageFormat:
        return AvroMessages(avro_schema(self._setting), framed=False)


class _MqttFeed(_Puts):
    """Payloads of MQTT messages, through the decoder: an object, an array, or lines."""

    def _written(self, rows: Sequence[WrittenRow]) -> list[bytes]:
        payloads: list[bytes] = []
        for start in range(0, len(rows), 3):
            some = rows[start : start + 3]
            good = [self._writer.object(row) for row in some if not row.broken]
            kind = int(self._rng.integers(0, 3))
            if kind == 0:
                payloads += good
            elif kind == 1:
                payloads.append(b"[" + b", ".join(good) + b"]")
            else:
                # A payload that begins with a bracket is one array.
                lines = [row for row in some if not row.broken.startswith(b"[")]
                payloads.append(self._writer.lines(lines, self._writer.object))
        return payloads

    def _read(self, content: list[bytes]) -> Iterator[Batch]:
        rejections = Rejections()
        for start in range(0, len(content), self._setting.batch):
            some = content[start : start + self._setting.batch]
            values = [value for each in some for value in mqtt._values(each, rejections)]
            table = JsonMessages().table(values, self._intake.columns, rejections=rejections)
            yield self._intake.batch(table, position=None, rejections=rejections)


# -- requests --------------------------------------------------------------------------------------

Body: TypeAlias = tuple[bytes, str, Encoding]


class _HttpFeed(EventFeed):
    """Request bodies through the shipped reader and the inbox of the server.

    Senders repeat requests with the same key, also those that were answered. After a restart they
    repeat what was not answered.
    """

    answers = True

    def __init__(self, setting: StreamSetting, folder: Path, rng: Random) -> None:
        self._setting = setting
        self._rng = rng
        self._writer = _Writer(setting, rng)
        self._bodies = RequestBodies(intake=intake_of(setting))
        self._sent: list[Body] = []
        self._open: dict[int, Sending] = {}
        self._inbox = self._new_inbox({})

    def _new_inbox(self, parts: Mapping[str, bytes]) -> Inbox:
        seen = IdempotencyKeys(window=1_000)
        seen.restore(parts)
        return Inbox(
            rows=self._setting.batch,
            most_events=10**6,
            most_bytes=2**28,
            seen=seen,
            rejections=Rejections(),
        )

    def restart(self, parts: Mapping[str, bytes]) -> None:
        unanswered = [
            place
            for place, sending in self._open.items()
            if not (sending.outcome.done() and sending.outcome.result() == KEPT)
        ]
        self._inbox = self._new_inbox(parts)
        for place in unanswered:
            self._send(place)

    def put(self, rows: Sequence[WrittenRow]) -> None:
        size = max(2, self._setting.batch)
        for start in range(0, len(rows), size):
            self._sent.append(self._body(rows[start : start + size]))
            self._send(len(self._sent) - 1)
            if self._rng.random() < 0.3:
                self._send(int(self._rng.integers(0, len(self._sent))))

    def _body(self, rows: Sequence[WrittenRow]) -> Body:
        good = [row for row in rows if not row.broken]
        media = (NDJSON, JSON, STREAM)[int(self._rng.integers(0, 3))]
        if media == NDJSON:
            body = self._writer.lines(rows, self._writer.object)
        elif media == JSON:
            body = b"[" + b",".join(self._writer.object(row) for row in good) + b"]"
        else:
            body = self._writer.stream(rows)
        if self._rng.random() < 0.3:
            return gzip.compress(body), media, "gzip"
        return body, media, ""

    def _send(self, place: int) -> None:
        """Send a request, as the server's thread would take it."""
        body, media, encoding = self._sent[place]
        entry = Entry.of(f"request {place}", f"{media} {encoding}\n".encode(), body)
        sending = Sending(entry=entry)
        if self._inbox.enter(sending) is not sending or sending.outcome.done():
            return
        self._open[place] = sending
        for batch in self._bodies.batches(body, media, encoding, sending.rejections):
            self._inbox.add(sending, batch)
        self._inbox.put(sending)

    def batches(self, after: Position | None) -> Iterator[Batch]:
        return self._inbox.batches(after)

    def kept(self, batch: Batch) -> None:
        self._inbox.kept(batch)


class FeedKind:
    """One format: how it is made, whether it has an end, and what must be installed.

    Parameters
    ----------
    make : callable
        From a setting, a folder and choices to the feed.
    finite : bool
        Whether the input has an end.
    large : bool
        Whether it is also tried with very many persons. Default: False.
    """

    def __init__(self, make: FeedMaker, *, finite: bool, large: bool = False) -> None:
        self.make = make
        self.finite = finite
        self.large = large


FEEDS: dict[str, FeedKind] = {
    "Parquet files": FeedKind(_files("parquet"), finite=True, large=True),
    "growing CSV files": FeedKind(_files("csv"), finite=False),
    "HTTP bodies": FeedKind(_HttpFeed, finite=False, large=True),
    "data frame": FeedKind(_FrameFeed, finite=True, large=True),
    "growing JSON lines": FeedKind(_files("jsonl"), finite=False),
    "Kafka, JSON": FeedKind(_KafkaFeed, finite=False),
    "CSV files": FeedKind(_files("csv"), finite=True, large=True),
    "Kafka, Avro": FeedKind(_AvroFeed, finite=False),
    "new Parquet files": FeedKind(_files("parquet"), finite=False),
    "MQTT": FeedKind(_MqttFeed, finite=False),
    "JSON lines": FeedKind(_files("jsonl"), finite=True),
    "standard input, CSV": FeedKind(_StdinFeed, finite=False),
    "new Arrow files": FeedKind(_files("arrow"), finite=False),
    "standard input, JSON": FeedKind(_StdinJsonFeed, finite=True),
    "Arrow files": FeedKind(_files("arrow"), finite=True),
}
"""Every format of a shipped source, by name."""
