"""Avro messages into columns: field by field over all messages of a batch.

fastavro decodes message by message and takes 6 to 9 times the CPU time (`benchmarks/avro.py`).
It also has no bound for hostile messages: ten bytes can claim an array of 2**62 nulls.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from penstock.core.arrays import BoolArray, IntArray
from penstock.core.errors import ConfigurationError
from penstock.core.exact import whole
from penstock.private.sources.base import Arrow, Columns, Reason, Rejections, arrow
from penstock.private.sources.files import MAX_LINE_BYTES
from penstock.private.sources.message_formats import PackedMessages, pack, together

REGISTRY_HEADER_BYTES = 5
MAX_ITEMS_PER_MESSAGE = 1_000
"""A message whose arrays and maps have more items, counted one by one, is refused."""

MAX_DEPTH = 32
MAX_FIXED_BYTES = 2**31
"""A longer value of fixed size counts as one of this size: no message is so long."""

_PADDING = bytes(16)
_TEXTS_PER_STEP = 2**14
_BYTES_PER_STEP = 2**20
_SIZES = {"null": 0, "boolean": 1, "float": 4, "double": 8}
_TIMESTAMPS = {
    f"{local}timestamp-{name}": (unit, not local)
    for local in ("", "local-")
    for name, unit in (("millis", "ms"), ("micros", "us"), ("nanos", "ns"))
}

Bytes: TypeAlias = NDArray[np.uint8]


@dataclass(frozen=True)
class AvroMessages:
    """Records of one schema.

    A column is a field at the top: a whole number (also a timestamp or a date), text, bytes or an
    enumeration, or a union of null and one of these. Other fields may have any type; they are
    skipped. A message that does not end where the schema says is broken and loses only itself. All
    messages of a topic must have the same schema: other versions cannot be told from broken ones.

    Parameters
    ----------
    schema : str or mapping
        The schema as JSON text, or that text parsed.
    framed : bool or None
        Whether messages begin with the five bytes of a schema registry: a zero and the number of a
        schema, which is ignored. Default: None, which tries a message without these bytes if it is
        no record with them.
    limit : int
        The most bytes of a message. Default: 1 MiB.

    >>> station = {"name": "station", "type": "string"}
    >>> AvroMessages({"type": "record", "name": "Tap", "fields": [station]}).fields
    ('station',)
    """

    schema: str | Mapping[str, Any] = field(repr=False)
    _: KW_ONLY
    framed: bool | None = None
    limit: int = MAX_LINE_BYTES

    def __post_init__(self) -> None:
        whole(self.limit, name="limit", least=1)
        if not isinstance(self._record, _Record):
            raise ConfigurationError("avro: the schema must be of a record.")

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of the record's fields."""
        return tuple(self._record.fields)

    def check(self, columns: Columns) -> None:
        """Check that the schema has every column, of a type that can be read."""
        fields = self._record.fields
        for name in columns.names:
            if name not in fields:
                raise ConfigurationError(
                    f"avro: the schema has no field {name!r}; "
                    f"it has {', '.join(map(repr, fields))}."
                )
            if not fields[name].readable:
                raise ConfigurationError(
                    f"avro: the field {name!r} must be a whole number, text, bytes, "
                    "an enumeration, or a union of null and one of these."
                )

    def packed(
        self, values: Sequence[bytes | None], *, rejections: Rejections
    ) -> Sequence[PackedMessages]:
        return pack(values, rejections=rejections, limit=self.limit)

    def tables(
        self, packs: Sequence[PackedMessages], columns: Columns, *, rejections: Rejections
    ) -> Iterator[Arrow]:
        for data, bounds in together(packs):
            yield self._piece(data, bounds, columns, rejections)

    def table(
        self, values: Sequence[bytes | None], columns: Columns, *, rejections: Rejections
    ) -> Arrow:
        """One table of all messages."""
        self.check(columns)
        packs = self.packed(values, rejections=rejections) or [
            PackedMessages(b"", np.zeros(0, np.int64))
        ]
        return arrow().concat_tables(list(self.tables(packs, columns, rejections=rejections)))

    def _piece(
        self, packed: bytes, bounds: IntArray, columns: Columns, rejections: Rejections
    ) -> Arrow:
        data = np.frombuffer(packed + _PADDING, np.uint8)
        start, end = bounds[:-1], bounds[1:]
        zero, after_header = data[start] == 0, start + REGISTRY_HEADER_BYTES
        found, good = self._read(data, after_header if self.framed else start, end)
        if self.framed:
            good &= zero
        elif self.framed is None and not good.all():
            found, good = self._read(data, np.where(zero & ~good, after_header, start), end)
        rejections.add(Reason.BROKEN, int(np.count_nonzero(~good)))
        fields = self._record.fields
        return arrow().table(
            {name: fields[name].column(data, found[name].where(good)) for name in columns.names}
        )

    def _read(
        self, data: Bytes, start: IntArray, end: IntArray
    ) -> tuple[dict[str, _Values], BoolArray]:
        """Each field in all messages, and which messages are whole records."""
        cursor = _Cursor(data, start.copy(), end, start > end, np.zeros(len(end), np.int64))
        cursor.stop(cursor.bad)
        found = {name: kind.read(cursor, MAX_DEPTH) for name, kind in self._record.fields.items()}
        return found, ~cursor.bad & (cursor.at == end)

    @cached_property
    def _record(self) -> Any:
        content = self.schema
        if isinstance(content, str):
            try:
                content = json.loads(content)
            except (ValueError, RecursionError):
                raise ConfigurationError("avro: the schema is not JSON.") from None
        try:
            return _Schema().type_of(content, "")
        except RecursionError:
            raise ConfigurationError("avro: the schema is nested too deeply.") from None


class _Values(NamedTuple):
    """A field in all messages: a number, or the place and length of a text; and if it is there."""

    number: IntArray
    length: IntArray
    there: BoolArray

    def where(self, rows: BoolArray) -> _Values:
        return _Values(self.number[rows], self.length[rows], self.there[rows])


def _missing(size: int) -> _Values:
    return _Values(np.zeros(size, np.int64), np.zeros(size, np.int64), np.zeros(size, np.bool_))


@dataclass
class _Cursor:
    """Where each message is read, and how many items it had. A bad message stands at its end."""

    data: Bytes
    at: IntArray
    end: IntArray
    bad: BoolArray
    items: IntArray

    def __len__(self) -> int:
        return len(self.at)

    def stop(self, wrong: BoolArray | bool = False) -> None:
        """Stop messages that are wrong or past their end."""
        over = (self.at > self.end) | wrong
        self.bad |= over
        np.copyto(self.at, self.end, where=over)

    def skip(self, size: IntArray | int) -> None:
        """Skip that many bytes. Sizes are checked first, as large ones would overflow."""
        wrong = np.broadcast_to((size < 0) | (size > self.end - self.at), self.at.shape)
        self.at += np.where(wrong, 0, size)
        self.stop(wrong)

    def long(self) -> IntArray:
        """A number of variable length, in zigzag code."""
        value = np.zeros(len(self), np.uint64)
        rows = np.arange(len(self))
        wrong = np.zeros(len(self), np.bool_)
        for step in range(10):
            byte = self.data[np.minimum(self.at[rows], len(self.data) - 1)]
            value[rows] |= (byte & np.uint8(0x7F)).astype(np.uint64) << np.uint64(7 * step)
            self.at[rows] += 1
            if step == 9:
                wrong[rows[byte > 1]] = True
            rows = rows[byte >= 0x80]
            if not len(rows):
                break
        self.stop(wrong)
        return ((value >> np.uint64(1)) ^ (~(value & np.uint64(1)) + np.uint64(1))).view(np.int64)

    def number_below(self, size: int) -> IntArray:
        """A number from 0 to below `size`."""
        number = self.long()
        self.stop((number < 0) | (number >= size))
        return number

    def some(self, rows: IntArray) -> _Cursor:
        return _Cursor(self.data, self.at[rows], self.end[rows], self.bad[rows], self.items[rows])

    def update(self, some: _Cursor, rows: IntArray) -> None:
        self.at[rows], self.bad[rows], self.items[rows] = some.at, some.bad, some.items


class _Type:
    """A type of Avro. Only types that are `readable` become columns."""

    readable = False

    def read(self, cursor: _Cursor, depth: int) -> _Values:
        """Read one value in each message; the cursor moves past it."""
        self.skip(cursor, depth)
        return _missing(len(cursor))

    def skip(self, cursor: _Cursor, depth: int) -> None:
        self.read(cursor, depth)

    def column(self, data: Bytes, values: _Values) -> Arrow:
        raise NotImplementedError


@dataclass
class _Fixed(_Type):
    size: int

    def skip(self, cursor: _Cursor, depth: int) -> None:
        cursor.skip(self.size)


@dataclass
class _Number(_Type):
    logical: str | None
    readable = True

    def read(self, cursor: _Cursor, depth: int) -> _Values:
        return _missing(len(cursor))._replace(
            number=cursor.long(), there=np.ones(len(cursor), np.bool_)
        )

    def column(self, data: Bytes, values: _Values) -> Arrow:
        pa = arrow()
        if self.logical == "date":
            days = np.clip(values.number, -(2**31), 2**31 - 1).astype(np.int32)
            return pa.array(days, mask=~values.there).cast(pa.date32())
        array = pa.array(values.number, mask=~values.there)
        if self.logical not in _TIMESTAMPS:
            return array
        unit, instant = _TIMESTAMPS[self.logical]
        return array.cast(pa.timestamp(unit, "UTC" if instant else None))


@dataclass
class _Text(_Type):
    readable: bool = True

    def read(self, cursor: _Cursor, depth: int) -> _Values:
        length = cursor.long()
        start = cursor.at.copy()
        cursor.skip(length)
        return _Values(start, length, np.ones(len(cursor), np.bool_))

    def column(self, data: Bytes, values: _Values) -> Arrow:
        pa = arrow()
        sizes = np.where(values.there, values.length, 0)
        bounds = np.zeros(len(sizes) + 1, np.int64)
        np.cumsum(sizes, out=bounds[1:])
        text = np.empty(bounds[-1], np.uint8)
        for first in range(0, len(sizes), _TEXTS_PER_STEP):
            rows = slice(first, first + _TEXTS_PER_STEP)
            low, high = bounds[first], bounds[min(first + _TEXTS_PER_STEP, len(sizes))]
            if high - low > _BYTES_PER_STEP:  # long texts are copied one by one
                for start, size, place in zip(
                    values.number[rows], sizes[rows], bounds[:-1][rows], strict=True
                ):
                    text[place : place + size] = data[start : start + size]
            else:
                places = np.repeat(values.number[rows] - bounds[:-1][rows], sizes[rows])
                text[low:high] = data[places + np.arange(low, high)]
        there = pa.array(values.there).buffers()[1]
        buffers = [there, pa.py_buffer(bounds), pa.py_buffer(text)]
        return pa.Array.from_buffers(pa.large_binary(), len(sizes), buffers)


@dataclass
class _Enum(_Type):
    symbols: tuple[str, ...]
    readable = True

    def read(self, cursor: _Cursor, depth: int) -> _Values:
        return _missing(len(cursor))._replace(
            number=cursor.number_below(len(self.symbols)), there=np.ones(len(cursor), np.bool_)
        )

    def column(self, data: Bytes, values: _Values) -> Arrow:
        pa = arrow()
        codes = np.where(values.there, values.number, 0).astype(np.int32)
        return pa.DictionaryArray.from_arrays(
            pa.array(codes, mask=~values.there), pa.array(self.symbols, pa.string())
        )


@dataclass
class _Record(_Type):
    fields: dict[str, _Type] = field(default_factory=dict)

    def skip(self, cursor: _Cursor, depth: int) -> None:
        cursor.stop(not depth)
        for kind in self.fields.values():
            if cursor.bad.all():
                return
            kind.skip(cursor, depth - 1)


@dataclass
class _Union(_Type):
    branches: tuple[_Type, ...]

    def __post_init__(self) -> None:
        self._others = [each for each in self.branches if each != _Fixed(0)]
        self.readable = len(self._others) == 1 and self._others[0].readable

    def read(self, cursor: _Cursor, depth: int) -> _Values:
        which = cursor.number_below(len(self.branches))
        values = _missing(len(cursor))
        for number, kind in enumerate(self.branches):
            rows = np.flatnonzero((which == number) & ~cursor.bad)
            if len(rows):
                some = cursor.some(rows)
                for column, part in zip(values, kind.read(some, depth), strict=True):
                    column[rows] = part
                cursor.update(some, rows)
        return values

    def column(self, data: Bytes, values: _Values) -> Arrow:
        return self._others[0].column(data, values)


@dataclass
class _Blocks(_Type):
    """An array or a map: blocks of items, each with its count. A size follows a negative count."""

    item: tuple[_Type, ...]

    def skip(self, cursor: _Cursor, depth: int) -> None:
        cursor.stop(not depth)
        rows = np.flatnonzero(~cursor.bad)
        while len(rows):
            some = cursor.some(rows)
            more = self._skip_block(some, depth)
            cursor.update(some, rows)
            rows = rows[more]

    def _skip_block(self, cursor: _Cursor, depth: int) -> BoolArray:
        """Skip one block of each message. Returns which messages have another block."""
        count = cursor.long()
        cursor.items += 1
        sized = np.flatnonzero((count < 0) & ~cursor.bad)
        if len(sized):
            some = cursor.some(sized)
            some.skip(some.long())
            cursor.update(some, sized)
        cursor.items += np.clip(count, 0, MAX_ITEMS_PER_MESSAGE + 1)
        cursor.stop(cursor.items > MAX_ITEMS_PER_MESSAGE)
        rows = np.flatnonzero((count > 0) & ~cursor.bad)
        left = count[rows]
        while len(rows):
            some = cursor.some(rows)
            for kind in self.item:
                kind.skip(some, depth - 1)
            cursor.update(some, rows)
            left = left - 1
            going = (left > 0) & ~some.bad
            rows, left = rows[going], left[going]
        more: BoolArray = (count != 0) & ~cursor.bad
        return more


class _Schema:
    """Makes types of a schema. Types with names are made once, and may contain themselves."""

    def __init__(self) -> None:
        self._named: dict[str, _Type] = {}

    def type_of(self, schema: Any, space: str) -> _Type:
        """The type of a part of the schema within a name space."""
        if isinstance(schema, str):
            return self._plain_type(schema, None, space)
        if isinstance(schema, list) and schema:
            return _Union(tuple(self.type_of(each, space) for each in schema))
        if not isinstance(schema, Mapping) or "type" not in schema:
            raise ConfigurationError("avro: the schema has a part that is no type.")
        kind = schema["type"]
        if not isinstance(kind, str):
            return self.type_of(kind, space)
        if kind == "array":
            return _Blocks((self.type_of(schema.get("items"), space),))
        if kind == "map":
            return _Blocks((_Text(), self.type_of(schema.get("values"), space)))
        if kind in ("record", "error", "enum", "fixed"):
            return self._named_type(kind, schema, space)
        return self._plain_type(kind, schema.get("logicalType"), space)

    def _plain_type(self, kind: str, logical: Any, space: str) -> _Type:
        if kind in _SIZES:
            return _Fixed(_SIZES[kind])
        if kind in ("int", "long"):
            return _Number(logical if isinstance(logical, str) else None)
        if kind in ("string", "bytes"):
            return _Text(readable=logical != "decimal")
        for name in (f"{space}.{kind}", kind):
            if name in self._named:
                return self._named[name]
        raise ConfigurationError(
            f"avro: the schema names the type {kind!r} and does not say what it is."
        )

    def _named_type(self, kind: str, schema: Mapping[str, Any], space: str) -> _Type:
        name = schema.get("name")
        if not isinstance(name, str) or not name:
            raise ConfigurationError(f"avro: the schema has a {kind} without a name.")
        space = name.rpartition(".")[0] if "." in name else str(schema.get("namespace", space))
        name = f"{space}.{name.rpartition('.')[2]}"
        if kind == "enum":
            self._named[name] = _Enum(tuple(map(str, _list(schema, "symbols"))))
        elif kind == "fixed":
            size = whole(schema.get("size"), name="size", least=0)
            self._named[name] = _Fixed(min(size, MAX_FIXED_BYTES))
        else:
            self._named[name] = record = _Record()
            for each in _list(schema, "fields"):
                if not (
                    isinstance(each, Mapping)
                    and isinstance(each.get("name"), str)
                    and each["name"] not in record.fields
                    and "type" in each
                ):
                    raise ConfigurationError(
                        "avro: the schema has a record with a field that lacks its name or type, "
                        "or has the name of another field."
                    )
                record.fields[each["name"]] = self.type_of(each["type"], space)
        return self._named[name]


def _list(schema: Mapping[str, Any], name: str) -> Sequence[Any]:
    """An array of a type's schema; empty if it is left out."""
    found = schema.get(name, ())
    if not isinstance(found, (list, tuple)):
        raise ConfigurationError(f"avro: the schema has {name} that are not an array.")
    return found
