"""What is sent in one piece: JSON or Arrow, perhaps compressed, by somebody who may be careless or
worse.
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import msgspec
import numpy as np

from penstock.core.errors import InputError
from penstock.core.exact import whole
from penstock.private.sources.base import Arrow, Batch, Columns, Intake, Rejections, arrow
from penstock.private.sources.files import Mark
from penstock.private.sources.jsonl import JsonLinesFormat

NDJSON = "application/x-ndjson"
JSON = "application/json"
STREAM = "application/vnd.apache.arrow.stream"
MEDIA = (NDJSON, JSON, STREAM)

ROWS = 1_000_000
SIZE = 64 * 2**20
MESSAGES = 1024
HEAD = 2**20

Encoding: TypeAlias = Literal["", "gzip"]


class BodyError(InputError):
    """A body that cannot be taken as a whole, with the status of HTTP that says so. It never shows
    what is in it.
    """

    def __init__(self, status: int, text: str) -> None:
        self.status = status
        super().__init__(text)


@dataclass(frozen=True, kw_only=True)
class RequestBodies:
    """Reads bodies of at most `size` bytes, also when decompressed, and `rows` events.

    - `application/x-ndjson`: one object a line.
    - `application/json`: an array of objects, an object whose `events` is such an array, or one
      object. It is brought into lines first, which costs a quarter more; and where one object is
      broken, so is the array.
    - `application/vnd.apache.arrow.stream`: an Arrow IPC stream, perhaps with its own compression;
      five times as fast.

    A bad row is dropped by itself and counted. A body is refused as a whole if it cannot be read at
    all: not one readable line, an array that is not closed, an Arrow stream that is damaged or
    lacks a column or has one of a type that is not taken (numbers, text, bytes, and dictionaries of
    them; for the time also timestamps and dates).
    """

    intake: Intake
    size: int = SIZE
    rows: int = ROWS
    _lines: JsonLinesFormat = field(default=JsonLinesFormat(), init=False, repr=False)

    def __post_init__(self) -> None:
        whole(self.size, name="size", least=1)
        whole(self.rows, name="rows", least=1)

    def read(
        self, body: bytes, media: str, encoding: Encoding, rejections: Rejections
    ) -> tuple[Batch, int]:
        """The events, and how many bytes they keep in memory."""
        if encoding == "gzip":
            body = self._unzipped(body)
        try:
            table = self._stream(body) if media == STREAM else self._text(body, media, rejections)
            batch = self.intake.batch(table, position=None, rejections=rejections)
        except (BodyError, MemoryError):
            raise
        except Exception:  # of many kinds where a schema is damaged
            raise BodyError(400, "the body cannot be read.") from None
        return batch, len(body) + batch.time.nbytes + batch.key.nbytes + (
            0 if batch.person is None else batch.person.nbytes
        )

    def _unzipped(self, body: bytes) -> bytes:
        reader = zlib.decompressobj(wbits=31)
        try:
            found = reader.decompress(body, self.size + 1)
        except zlib.error:
            raise BodyError(400, "the body is not gzip.") from None
        if len(found) > self.size:
            raise BodyError(413, f"the body has more than {self.size} bytes when decompressed.")
        if not reader.eof or reader.unused_data:
            raise BodyError(400, "the body is not one whole piece of gzip.")
        return found

    def _text(self, body: bytes, media: str, rejections: Rejections) -> Arrow:
        pa = arrow()
        data = body if media == NDJSON else _in_lines(body)
        if data.count(b"\n") + (not data.endswith(b"\n")) > self.rows:
            raise self._many()
        tables = self._lines.tables(
            _Once(data),
            Mark(),
            self.intake.columns,
            name="body",
            rows=self.rows,
            final=True,
            rejections=rejections,
        )
        table = pa.concat_tables([each for each, _ in tables] or [_empty(self.intake.columns)])
        if not table.num_rows and rejections.for_operator():
            raise BodyError(400, "the body has no line that can be read.")
        return table

    def _stream(self, body: bytes) -> Arrow:
        pa, ipc = arrow(), arrow("pyarrow.ipc")
        data = pa.py_buffer(body)
        self._fits(data)
        with ipc.open_stream(pa.BufferReader(data)) as reader:
            places = _places(reader.schema, self.intake.columns)
        options = ipc.IpcReadOptions(included_fields=places, use_threads=False)
        with ipc.open_stream(pa.BufferReader(data), options=options) as reader:
            table = reader.read_all()
        table.validate()
        table = pa.table([_bytes(column) for column in table.columns], table.column_names)
        table.validate(full=True)
        if sum(_decoded(column) for column in table.columns) > self.size:
            raise BodyError(
                413,
                f"the body has more than {self.size} bytes when its dictionaries are written out.",
            )
        return table

    def _fits(self, data: Arrow) -> None:
        """That no message of the stream claims more rows or bytes than allowed, before anything is
        allocated for it.
        """
        rows = size = 0
        for count, message in enumerate(_messages(data)):
            head = memoryview(message.metadata)
            if count > MESSAGES or len(head) > HEAD:
                raise BodyError(
                    413,
                    f"the stream has more than {MESSAGES} messages, or one with too much of a head.",
                )
            if message.type in ("record batch", "dictionary"):
                length, inflated = _claims(head, message)
                size += inflated
                rows += length if message.type == "record batch" else 0
                if length > self.rows or rows > self.rows:
                    raise self._many()
                if size > self.size:
                    raise BodyError(
                        413, f"the body has more than {self.size} bytes when decompressed."
                    )

    def _many(self) -> BodyError:
        return BodyError(413, f"the body has more than {self.rows} events.")


class _Once(io.BytesIO):
    """Bytes that are read once, like a pipe: what a sender leaves out is a missing value, not
    another file.
    """

    def seekable(self) -> bool:
        return False


class _Envelope(msgspec.Struct):
    events: list[msgspec.Raw]


def _in_lines(body: bytes) -> bytes:
    """The objects of an array, one a line. Outside of texts a line break is a space, and inside it
    cannot be.
    """
    try:
        objects = _objects(body)
        if b"\n" in body:
            objects = _objects(body.replace(b"\n", b" "))
    except (msgspec.DecodeError, RecursionError):
        raise BodyError(400, "the body is not JSON.") from None
    return b"\n".join(objects)


def _objects(body: bytes) -> list[Any]:
    if not body.lstrip(b" \t\r\n").startswith(b"{"):
        return msgspec.json.decode(body, type=list[msgspec.Raw])
    try:
        return msgspec.json.decode(body, type=_Envelope).events
    except msgspec.ValidationError:
        return [msgspec.json.decode(body, type=msgspec.Raw)]


def _empty(columns: Columns) -> Arrow:
    pa = arrow()
    return pa.table({name: pa.array([], pa.string()) for name in columns.names})


def _messages(data: Arrow) -> Iterator[Any]:
    pa, ipc = arrow(), arrow("pyarrow.ipc")
    reader = pa.BufferReader(data)
    while True:
        try:
            yield ipc.read_message(reader)
        except EOFError:
            return


def _places(schema: Arrow, columns: Columns) -> list[int]:
    """Where the columns stand; each must be there once and of a type that cannot grow when it is
    read.
    """
    places = []
    for name in columns.names:
        found = schema.get_all_field_indices(name)
        if len(found) != 1:
            raise BodyError(400, f"the stream must have one column {name!r}.")
        if not _taken(schema.field(found[0]).type, time=name == columns.time):
            raise BodyError(400, f"the stream's column {name!r} is of a type that is not taken.")
        places += found
    return places


def _taken(kind: Arrow, *, time: bool) -> bool:
    types = arrow().types
    if types.is_dictionary(kind):
        return _taken(kind.value_type, time=False)
    if time and (types.is_timestamp(kind) or types.is_date(kind)):
        return True
    plain = (
        types.is_integer,
        types.is_string,
        types.is_large_string,
        types.is_binary,
        types.is_large_binary,
    )
    return any(test(kind) for test in plain)


def _bytes(column: Arrow) -> Arrow:
    """Text as bytes, without a copy: that a text is not UTF-8 is found by row, later."""
    pa = arrow()
    raw = {pa.string(): pa.binary(), pa.large_string(): pa.large_binary()}
    kind = column.type
    if pa.types.is_dictionary(kind) and kind.value_type in raw:
        chunks = [
            pa.DictionaryArray.from_arrays(each.indices, each.dictionary.cast(raw[kind.value_type]))
            for each in column.chunks
        ]
        return pa.chunked_array(chunks, pa.dictionary(kind.index_type, raw[kind.value_type]))
    return column.cast(raw[kind]) if kind in raw else column


def _decoded(column: Arrow) -> int:
    """The bytes of a dictionary's words, each as often as it is used."""
    pa, pc = arrow(), arrow("pyarrow.compute")
    if not pa.types.is_dictionary(column.type) or pa.types.is_integer(column.type.value_type):
        return 0
    total = 0
    for chunk in column.chunks:
        if len(chunk.dictionary):
            lengths = (
                pc.fill_null(pc.binary_length(chunk.dictionary), 0)
                .to_numpy(zero_copy_only=False)
                .astype(np.int64)
            )
            total += int(lengths[chunk.indices.drop_null().to_numpy(zero_copy_only=False)].sum())
    return total


def _claims(head: memoryview, message: Any) -> tuple[int, int]:
    """The rows of a message, and the bytes that its buffers say they have when decompressed; 0 if
    they are not compressed.

    Arrow does not tell, so this looks into the message's head, a FlatBuffer that Arrow has
    verified: `Message.header` is field 2, a dictionary's `data` field 1, and of a record batch 0 is
    the `length`, 2 the `buffers`, 3 the `compression`.
    """
    batch = _table(head, _number(head, 0, "I"), 2)
    if message.type == "dictionary":
        batch = _table(head, batch, 1)
    length, buffers = _field(head, batch, 0), _field(head, batch, 2)
    rows = _number(head, length, "q") if length else 0
    if not (buffers and _field(head, batch, 3)):
        return rows, 0
    start = buffers + _number(head, buffers, "I")
    places = np.frombuffer(head, np.int64, 2 * _number(head, start, "I"), start + 4).reshape(-1, 2)
    body = memoryview(message.body)
    sizes = [_number(body, offset, "q") for offset, size in places.tolist() if size]
    return rows, sum(max(size, 0) for size in sizes)


def _field(head: memoryview, table: int, field: int) -> int:
    """Where a field of a table is written; 0 if it is left out."""
    entries = table - _number(head, table, "i")
    place = 4 + 2 * field
    offset = _number(head, entries + place, "H") if place < _number(head, entries, "H") else 0
    return table + offset if offset else 0


def _table(head: memoryview, table: int, field: int) -> int:
    """Where the table is that a field names."""
    place = _field(head, table, field)
    if not place:
        raise BodyError(400, "the body cannot be read.")
    return place + _number(head, place, "I")


def _number(data: memoryview, place: int, kind: str) -> int:
    try:
        number: int = struct.unpack_from("<" + kind, data, place)[0]
    except struct.error:
        raise BodyError(400, "the body cannot be read.") from None
    return number
