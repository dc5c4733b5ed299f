"""Request bodies in JSON or Arrow, from senders that may be careless or hostile."""

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
from penstock.private.sources.files import FileReading, Mark
from penstock.private.sources.jsonl import JsonLinesFormat

NDJSON = "application/x-ndjson"
JSON = "application/json"
STREAM = "application/vnd.apache.arrow.stream"
MEDIA_TYPES = (NDJSON, JSON, STREAM)

MAX_ROWS_PER_BODY = 1_000_000
MAX_BODY_BYTES = 64 * 2**20
MAX_MESSAGES_PER_STREAM = 1024
MAX_MESSAGE_HEAD_BYTES = 2**20

Encoding: TypeAlias = Literal["", "gzip"]


class BodyError(InputError):
    """A body that is refused as a whole, with its HTTP status. The message shows no data."""

    def __init__(self, status: int, text: str) -> None:
        self.status = status
        super().__init__(text)


@dataclass(frozen=True, kw_only=True)
class RequestBodies:
    """Reads bodies of at most `size` bytes (also after decompression) and `rows` events.

    - `application/x-ndjson`: one object per line.
    - `application/json`: an array of objects, an object whose `events` is such an array, or one
      object. It is split into lines first, which costs a quarter more. One broken object breaks the
      whole array.
    - `application/vnd.apache.arrow.stream`: an Arrow IPC stream without compressed buffers, five
      times as fast. To compress it, use `Content-Encoding: gzip`.

    A bad row is dropped alone and counted, even if there is no other: no answer depends on what is
    in a row. A body is refused as a whole in these cases:

    - Its array is not closed.
    - Its Arrow stream is damaged or compressed, or lacks a column.
    - A column of its Arrow stream has a type that is not accepted. Accepted are numbers, text,
      bytes, and dictionaries of them; for the time also timestamps and dates.
    """

    intake: Intake
    size: int = MAX_BODY_BYTES
    rows: int = MAX_ROWS_PER_BODY
    _lines: JsonLinesFormat = field(default=JsonLinesFormat(), init=False, repr=False)

    def __post_init__(self) -> None:
        whole(self.size, name="size", least=1)
        whole(self.rows, name="rows", least=1)

    def read(
        self, body: bytes, media: str, encoding: Encoding, rejections: Rejections
    ) -> tuple[Batch, int]:
        """Return the events, and the bytes that they keep in memory."""
        if encoding == "gzip":
            body = self._unzipped(body)
        try:
            table = self._stream(body) if media == STREAM else self._text(body, media, rejections)
            batch = self.intake.batch(table, position=None, rejections=rejections)
        except (BodyError, MemoryError):
            raise
        except Exception:  # a damaged schema raises errors of many kinds
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
            raise self._too_many_rows()
        how = FileReading(
            name="body",
            columns=self.intake.columns,
            rows=self.rows,
            final=True,
            rejections=rejections,
        )
        tables = self._lines.tables(_ReadOnce(data), Mark(), how)
        return pa.concat_tables([each for each, _ in tables] or [_empty(self.intake.columns)])

    def _stream(self, body: bytes) -> Arrow:
        pa, ipc = arrow(), arrow("pyarrow.ipc")
        data = pa.py_buffer(body)
        self._check_messages(data)
        with ipc.open_stream(pa.BufferReader(data)) as reader:
            places = _places(reader.schema, self.intake.columns)
        options = ipc.IpcReadOptions(included_fields=places, use_threads=False)
        with ipc.open_stream(pa.BufferReader(data), options=options) as reader:
            table = reader.read_all()
        table.validate()
        table = pa.table([_bytes(column) for column in table.columns], table.column_names)
        table.validate(full=True)
        if sum(_decoded_bytes(column) for column in table.columns) > self.size:
            raise BodyError(
                413,
                f"the body has more than {self.size} bytes when its dictionaries are written out.",
            )
        return table

    def _check_messages(self, data: Arrow) -> None:
        """Refuse compressed buffers and large claims before memory is allocated for them.

        PyArrow has no option for this: it allocates the size that a compressed buffer claims.
        Buffers without compression are slices of the body, so they allocate nothing.
        """
        rows = 0
        for count, message in enumerate(_messages(data)):
            if count > MAX_MESSAGES_PER_STREAM or message.metadata.size > MAX_MESSAGE_HEAD_BYTES:
                raise BodyError(
                    413,
                    f"the stream has more than {MAX_MESSAGES_PER_STREAM} messages, "
                    f"or a message head of more than {MAX_MESSAGE_HEAD_BYTES} bytes.",
                )
            if message.type in ("record batch", "dictionary"):
                length, compressed = _claims(message)
                if compressed:
                    raise BodyError(
                        415,
                        "the stream's buffers are compressed: send them uncompressed, "
                        "or use Content-Encoding: gzip.",
                    )
                rows += length if message.type == "record batch" else 0
                if length > self.rows or rows > self.rows:
                    raise self._too_many_rows()

    def _too_many_rows(self) -> BodyError:
        return BodyError(413, f"the body has more than {self.rows} events.")


class _ReadOnce(io.BytesIO):
    """Bytes that are read once, like a pipe.

    A column that a sender leaves out is then a missing value in each row, as the first line is not
    looked at twice.
    """

    def seekable(self) -> bool:
        return False


class _Envelope(msgspec.Struct):
    events: list[msgspec.Raw]


def _in_lines(body: bytes) -> bytes:
    """The objects of an array, one per line.

    Line breaks become spaces: JSON allows them between tokens only, never inside a text.
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
    """The places of the columns. Each must be there once, of a type that cannot grow when read."""
    places = []
    for name in columns.names:
        found = schema.get_all_field_indices(name)
        if len(found) != 1:
            raise BodyError(400, f"the stream must have one column {name!r}.")
        if not _accepted(schema.field(found[0]).type, time=name == columns.time):
            raise BodyError(400, f"the stream's column {name!r} is of a type that is not accepted.")
        places += found
    return places


def _accepted(kind: Arrow, *, time: bool) -> bool:
    types = arrow().types
    if types.is_dictionary(kind):
        return _accepted(kind.value_type, time=False)
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
    """Text as bytes, without a copy, so that a text that is not UTF-8 loses only its row."""
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


def _decoded_bytes(column: Arrow) -> int:
    """The bytes of a dictionary column when each row has its own text."""
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


def _claims(message: Any) -> tuple[int, bool]:
    """The rows that a record batch or dictionary claims, and whether its buffers are compressed.

    PyArrow tells neither. Both are fields of the message's head, a FlatBuffer that PyArrow has
    verified: `Message.header` is field 2, `DictionaryBatch.data` field 1, `RecordBatch.length`
    field 0 and `RecordBatch.compression` field 3. A field that is left out has offset 0.
    """
    head = memoryview(message.metadata)

    def number(place: int, kind: str) -> int:
        found: int = struct.unpack_from(f"<{kind}", head, place)[0]
        return found

    def offset(table: int, part: int) -> int:
        entries, entry = table - number(table, "i"), 4 + 2 * part
        return number(entries + entry, "H") if entry < number(entries, "H") else 0

    table = number(0, "I")
    for part in (2, 1) if message.type == "dictionary" else (2,):
        place = table + offset(table, part)
        if place == table:
            raise BodyError(400, "the body cannot be read.")
        table = place + number(place, "I")
    length = offset(table, 0)
    return (number(table + length, "q") if length else 0), bool(offset(table, 3))
