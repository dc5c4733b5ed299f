"""Request bodies in JSON or Arrow, from senders that may be careless or hostile."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO, Literal, TypeAlias, cast

import numpy as np

from penstock.core.arrays import IntArray
from penstock.core.errors import InputError, UnreadableRowsError
from penstock.core.exact import whole
from penstock.private.sources.base import Arrow, Batch, Columns, Intake, Rejections, arrow
from penstock.private.sources.files import MAX_LINE_BYTES, FileReading, lines
from penstock.private.sources.json_arrays import ArrayError, LongObjectError, array_lines
from penstock.private.sources.jsonl import OddLinesError, absent_fields, objects, schema_of

NDJSON = "application/x-ndjson"
JSON = "application/json"
STREAM = "application/vnd.apache.arrow.stream"
MEDIA_TYPES = (NDJSON, JSON, STREAM)

MAX_ROWS_PER_BODY = 1_000_000
MAX_BODY_BYTES = 64 * 2**20
MAX_MESSAGES_PER_STREAM = 1024
MAX_MESSAGE_HEAD_BYTES = 2**20
MAX_ODD_LINES = 1_000
"""Lines of one table that may have to be read one by one."""

BYTES_PER_STEP = 2**18
"""Bytes that are decompressed or split in one call, which holds the interpreter's lock."""

BYTES_PER_TABLE = 5 * 2**20
ROWS_PER_TABLE = 2**17
MAX_KEPT_DICTIONARY_BYTES = 2**16
"""A larger dictionary is written out, as it must not be looked at once per record batch."""

Encoding: TypeAlias = Literal["", "gzip"]
Body: TypeAlias = bytes | bytearray


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

    A bad row is dropped alone and counted, even if there is no other: no answer depends on the
    values in a row. A body is refused as a whole in these cases:

    - No event of it has one of the fields, as when the name of a field is wrong.
    - An event has no person, where `missing_person` is "refuse".
    - Its array is not closed.
    - It is one object with more than 1 MiB beside its `events`.
    - Very many of its lines have numbers near the largest exponent, or very deep values. Each of
      them would have to be read by itself.
    - Its Arrow stream is damaged or compressed, or lacks a column.
    - A column of its Arrow stream has a type that is not accepted. Accepted are numbers, text,
      bytes, and dictionaries of them; for the time also timestamps and dates.

    A body is decompressed, split and read in small pieces, and each piece is held to the limits
    before it is read. So memory does not depend on how far a body could be inflated.
    """

    intake: Intake
    size: int = MAX_BODY_BYTES
    rows: int = MAX_ROWS_PER_BODY

    def __post_init__(self) -> None:
        whole(self.size, name="size", least=1)
        whole(self.rows, name="rows", least=1)

    def batches(
        self,
        body: Body,
        media: str,
        encoding: Encoding,
        rejections: Rejections,
        *,
        inflated: Callable[[int], None] = lambda size: None,
    ) -> Iterator[Batch]:
        """Give the events in one batch or more, which hold nothing of the body.

        After a `BodyError` none of them may count. `inflated` hears of bytes that are held beside
        the body, and may raise a `BodyError`.
        """
        if encoding == "gzip":
            steps = self._unzipped(body)
        else:
            steps = _steps(body, BYTES_PER_TABLE if media == NDJSON else BYTES_PER_STEP)
        try:
            if media == STREAM:
                if encoding:
                    body = bytearray()
                    for step in steps:
                        inflated(len(step))
                        body += step
                streams = ArrowStreams(columns=self.intake.columns, size=self.size, rows=self.rows)
                for table in streams.tables(body):
                    yield _copied(self.intake.batch(table, position=None, rejections=rejections))
            else:
                for table in self._text(steps, media, rejections):
                    yield self.intake.batch(table, position=None, rejections=rejections)
        except (BodyError, MemoryError):
            raise
        except UnreadableRowsError:
            person = self.intake.columns.person
            raise BodyError(400, f"an event has no {person!r}. Nothing was kept.") from None
        except Exception:  # a damaged schema raises errors of many kinds
            raise BodyError(400, "the body cannot be read.") from None

    def _unzipped(self, body: Body) -> Iterator[bytes]:
        reader, size = zlib.decompressobj(wbits=31), 0
        for step in _steps(body, BYTES_PER_STEP):
            left, more = step, True
            while more:
                try:
                    found = reader.decompress(left, BYTES_PER_STEP)
                except zlib.error:
                    raise BodyError(400, "the body is not gzip.") from None
                size += len(found)
                if size > self.size:
                    raise BodyError(
                        413, f"the body has more than {self.size} bytes when decompressed."
                    )
                if found:
                    yield found
                left = reader.unconsumed_tail
                more = bool(left) or len(found) == BYTES_PER_STEP
            if reader.unused_data:
                break
        if not reader.eof or reader.unused_data:
            raise BodyError(400, "the body is not one whole piece of gzip.")

    def _text(self, steps: Iterator[bytes], media: str, rejections: Rejections) -> Iterator[Arrow]:
        columns, found = self.intake.columns, 0
        absent = set(columns.names)
        how = FileReading(
            name="body",
            columns=columns,
            rows=ROWS_PER_TABLE,
            final=True,
            rejections=rejections,
        )
        text = _BodyText(steps if media == NDJSON else array_lines(steps), self)
        try:
            for array, _ in lines(cast("BinaryIO", text), 0, how, block=BYTES_PER_TABLE):
                table = objects(array, columns, rejections, most_odd=MAX_ODD_LINES)
                found += table.num_rows
                absent = absent_fields(array, table, absent)
                yield table
        except ArrayError:
            raise BodyError(400, "the body is not JSON.") from None
        except LongObjectError:
            raise BodyError(
                413, f"the object has more than {MAX_LINE_BYTES} bytes beside its events."
            ) from None
        except OddLinesError:
            raise BodyError(
                400, "the body has too many lines with very large exponents or very deep values."
            ) from None
        if absent and (found or len(absent) < len(columns.names)):
            name = next(name for name in columns.names if name in absent)
            raise BodyError(400, f"no event has the field {name!r}. Nothing was kept.")
        if not found:
            yield schema_of(columns).empty_table()

    def too_many_rows(self) -> BodyError:
        return _too_many(self.rows)


def _too_many(rows: int) -> BodyError:
    return BodyError(413, f"the body has more than {rows} events.")


@dataclass(frozen=True, kw_only=True)
class ArrowStreams:
    """Reads Arrow IPC streams of at most `rows` events and `size` bytes, dictionaries written out.

    What is refused raises a `BodyError` or an error of Arrow, which may show data.

    Parameters
    ----------
    columns : Columns
        The columns to read.
    size : int
        The most bytes of these columns when their dictionaries are written out.
    rows : int
        The most events.
    """

    columns: Columns
    size: int
    rows: int

    def tables(self, body: Body) -> Iterator[Arrow]:
        """The columns of the events, in tables of bounded size. They are slices of the body."""
        pa, ipc = arrow(), arrow("pyarrow.ipc")
        data = pa.py_buffer(body)
        self._check_messages(data)
        with ipc.open_stream(pa.BufferReader(data)) as reader:
            places = _places(reader.schema, self.columns)
        options = ipc.IpcReadOptions(included_fields=places, use_threads=False)
        found = _StreamColumns(keys=self.columns.keys, size=self.size)
        waiting: list[Arrow] = []
        rows = size = 0
        with ipc.open_stream(pa.BufferReader(data), options=options) as reader:
            for batch in reader:
                for part in found.parts(batch):
                    if waiting and (
                        rows + part.num_rows > ROWS_PER_TABLE
                        or size >= BYTES_PER_TABLE
                        or part.schema != waiting[0].schema
                    ):
                        yield pa.Table.from_batches(waiting)
                        waiting, rows, size = [], 0, 0
                    waiting.append(part)
                    rows, size = rows + part.num_rows, size + part.nbytes
            yield pa.Table.from_batches(waiting) if waiting else reader.schema.empty_table()

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
                    raise _too_many(self.rows)


def _steps(body: Body, size: int) -> Iterator[bytes]:
    """The body in pieces."""
    for start in range(0, len(body), size):
        yield bytes(memoryview(body)[start : start + size])


class _BodyText(io.RawIOBase):
    """Pieces of text that are read once, like a pipe. The last line gets a line break if it lacks
    one. Lines are counted before anybody parses them.
    """

    def __init__(self, steps: Iterator[bytes], bodies: RequestBodies) -> None:
        self._steps = steps
        self._bodies = bodies
        self._rows = 0
        self._open = False  # whether the last line has begun and not ended

    def seekable(self) -> bool:
        return False

    def read(self, size: int = -1) -> bytes:
        parts: list[bytes] = []
        length = 0
        while length < size and (step := next(self._steps, None)) is not None:
            parts.append(step)
            length += len(step)
            self._rows += step.count(b"\n")
            self._open = not step.endswith(b"\n")
            if self._rows + self._open > self._bodies.rows:
                raise self._bodies.too_many_rows()
        if length < size and self._open:
            parts.append(b"\n")
            self._open = False
        return b"".join(parts)


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
        kind, time = kind.value_type, False
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


@dataclass(kw_only=True, eq=False)
class _StreamColumns:
    """Checks the columns of record batches and cuts them into parts of bounded size.

    Text becomes bytes, without a copy, so that a text that is not UTF-8 loses only its row. Only a
    key may stay a small dictionary. All parts together have at most `size` bytes.
    """

    keys: tuple[str, ...]
    size: int
    _written: int = field(default=0, init=False)
    _words: dict[str, tuple[object, Arrow, IntArray]] = field(default_factory=dict, init=False)

    def parts(self, batch: Arrow) -> Iterator[Arrow]:
        pa = arrow()
        size, arrays = 0, []
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            column.validate()
            if pa.types.is_dictionary(column.type):
                column, written = self._dictionary(name, column)
            else:
                column = _bytes(column)
                column.validate(full=True)
                written = column.nbytes
            size += written
            arrays.append((name, column))
        self._written += size
        if self._written > self.size:
            raise BodyError(
                413,
                f"the body has more than {self.size} bytes when its dictionaries are written out.",
            )
        rows = max(1, min(ROWS_PER_TABLE, batch.num_rows * BYTES_PER_TABLE // max(size, 1)))
        for start in range(0, batch.num_rows, rows):
            yield pa.record_batch(
                {name: self._plain(name, column.slice(start, rows)) for name, column in arrays}
            )

    def _dictionary(self, name: str, column: Arrow) -> tuple[Arrow, int]:
        """The column over checked words, and its bytes when it is written out."""
        pa = arrow()
        words = column.dictionary
        known = (
            words.type,
            len(words),
            words.offset,
            *(each and (each.address, each.size) for each in words.buffers()),
        )
        if name not in self._words or self._words[name][0] != known:
            words.validate()
            words = _bytes(words)
            words.validate(full=True)
            self._words[name] = known, words, _lengths(words)
        _, words, lengths = self._words[name]
        places = column.indices
        numbers = places.drop_null().to_numpy(zero_copy_only=False)
        if len(numbers) and not (numbers.min() >= 0 and numbers.max() < len(words)):
            raise BodyError(400, "the body cannot be read.")
        column = pa.DictionaryArray.from_arrays(places, words, safe=False)
        return column, int(lengths[numbers].sum()) + 8 * len(column)

    def _plain(self, name: str, column: Arrow) -> Arrow:
        if not arrow().types.is_dictionary(column.type) or (
            name in self.keys and column.dictionary.nbytes <= MAX_KEPT_DICTIONARY_BYTES
        ):
            return column
        return column.dictionary.take(column.indices)


def _bytes(column: Arrow) -> Arrow:
    pa = arrow()
    raw = {pa.string(): pa.binary(), pa.large_string(): pa.large_binary()}
    return column.cast(raw[column.type]) if column.type in raw else column


def _lengths(words: Arrow) -> IntArray:
    """The bytes of each word; 0 for numbers."""
    pa, pc = arrow(), arrow("pyarrow.compute")
    if pa.types.is_integer(words.type):
        return np.zeros(len(words), np.int64)
    lengths = pc.fill_null(pc.binary_length(words), 0)
    return np.asarray(lengths.to_numpy(zero_copy_only=False)).astype(np.int64)


def _copied(batch: Batch) -> Batch:
    """The batch in memory of its own."""
    person = batch.person
    if isinstance(person, np.ndarray):
        person = person.copy()
    elif person is not None:
        person = arrow().concat_arrays([person, person.slice(0, 0)])
    return replace(batch, time=batch.time.copy(), key=batch.key.copy(), person=person)


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
