"""Avro values, all of a batch at once: field by field over all messages, not message by message."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from penstock.core.arrays import BoolArray, IntArray
from penstock.core.errors import ConfigurationError
from penstock.core.exact import whole
from penstock.private.sources.base import Arrow, Columns, Reason, Rejections, arrow
from penstock.private.sources.files import LIMIT
from penstock.private.sources.message_formats import lengths

HEADER = 5
ITEMS = 1_000
"""Items of arrays and maps of one message that are looked at one by one; with more, a message is
refused.
"""

DEPTH = 32
PADDING = bytes(16)

SIZES = {"null": 0, "boolean": 1, "float": 4, "double": 8}
NUMBERS = ("int", "long")
TEXTS = ("string", "bytes")
TIMES = {
    f"{local}timestamp-{name}": (unit, not local)
    for local in ("", "local-")
    for name, unit in (("millis", "ms"), ("micros", "us"), ("nanos", "ns"))
}


@dataclass(frozen=True)
class AvroMessages:
    """Records of one schema, given as JSON text or as what that text says.

    A column is a field at the top, of a whole number (also a timestamp or a date), text, bytes or
    an enumeration, or a union of null and one of these. Other fields may be of any type; they are
    passed over. A value that does not end where the schema says is broken and loses only itself.

    `framed`: whether values begin with the five bytes that schema registries put there (a zero, and
    the number of a schema, which is not looked at). Where nothing is said, a value that is no
    record of the schema is tried without these bytes. Values of other versions of the schema cannot
    be told from broken ones, or worse, so a topic must keep to one.

    >>> AvroMessages('{"type": "record", "name": "Tap", "fields": [{"name": "station", "type": "string"}]}').fields
    ('station',)
    """

    schema: str | Mapping[str, Any] = field(repr=False)
    _: KW_ONLY
    framed: bool | None = None
    limit: int = LIMIT

    def __post_init__(self) -> None:
        whole(self.limit, name="limit", least=1)
        if not isinstance(self._record, _Record):
            raise ConfigurationError("avro: the schema must be of a record.")

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of the record's fields."""
        return tuple(name for name, _ in self._record.fields)

    def check(self, columns: Columns) -> None:
        """That the schema has every column, of a type that can be read."""
        nodes = dict(self._record.fields)
        for name in columns.names:
            if name not in nodes:
                raise ConfigurationError(
                    f"avro: the schema has no field {name!r}; it has {', '.join(map(repr, nodes))}."
                )
            if nodes[name].arrow is None:
                raise ConfigurationError(
                    f"avro: the field {name!r} must be a whole number, text, bytes, an enumeration, "
                    "or a union of null and one of these."
                )

    def table(
        self, values: Sequence[bytes | None], columns: Columns, *, rejections: Rejections
    ) -> Arrow:
        self.check(columns)
        there, bounds = lengths(values, rejections=rejections, limit=self.limit)
        data = np.frombuffer(b"".join((*there, PADDING)), np.uint8)
        first, end = bounds[:-1], bounds[1:]
        zero = data[first] == 0
        found, good = self._read(data, first + HEADER if self.framed else first, end)
        if self.framed:
            good &= zero
        elif self.framed is None and not good.all():
            found, good = self._read(data, np.where(zero & ~good, first + HEADER, first), end)
        rejections.add(Reason.BROKEN, int(np.count_nonzero(~good)))
        nodes = dict(self._record.fields)
        return arrow().table(
            {name: nodes[name].arrow(data, found[name].of(good)) for name in columns.names}
        )

    def _read(
        self, data: Bytes, first: IntArray, end: IntArray
    ) -> tuple[dict[str, _Found], BoolArray]:
        """What every field is, and which values are whole records."""
        cursor = _Cursor.of(data, first, end)
        found = {name: node.read(cursor, DEPTH) for name, node in self._record.fields}
        return found, cursor.good

    @cached_property
    def _record(self) -> Any:
        content = self.schema
        if isinstance(content, str):
            try:
                content = json.loads(content)
            except (ValueError, RecursionError):
                raise ConfigurationError("avro: the schema is not JSON.") from None
        return _Schema().node(content, "")


Bytes = np.ndarray[Any, np.dtype[np.uint8]]


class _Found(NamedTuple):
    """What a field is in every message: a number, or where a text begins and how long it is; and
    whether it is there.
    """

    number: IntArray
    length: IntArray
    there: BoolArray

    @classmethod
    def nothing(cls, size: int) -> _Found:
        return cls(np.zeros(size, np.int64), np.zeros(size, np.int64), np.zeros(size, np.bool_))

    def of(self, rows: BoolArray) -> _Found:
        return _Found(self.number[rows], self.length[rows], self.there[rows])


@dataclass
class _Cursor:
    """Where each message is being read. A message that goes wrong stops at a place where nothing
    good follows.
    """

    data: Bytes
    at: IntArray
    end: IntArray
    bad: BoolArray
    items: IntArray

    @classmethod
    def of(cls, data: Bytes, first: IntArray, end: IntArray) -> _Cursor:
        cursor = cls(data, first.copy(), end, first > end, np.zeros(len(end), np.int64))
        cursor.check()
        return cursor

    @property
    def good(self) -> BoolArray:
        """Which messages ended where they should."""
        good: BoolArray = ~self.bad & (self.at == self.end)
        return good

    def __len__(self) -> int:
        return len(self.at)

    def check(self, wrong: BoolArray | None = None) -> None:
        """Stop messages that went beyond their end, or are wrong."""
        over = self.at > self.end
        if wrong is not None:
            over |= wrong
        self.bad |= over
        np.copyto(self.at, self.end, where=over)

    def skip(self, size: IntArray | int) -> None:
        """Pass over so many bytes. Sizes are checked first, as sums of large ones would turn
        around.
        """
        wrong = np.broadcast_to((size < 0) | (size > self.end - self.at), self.at.shape)
        self.at += np.where(wrong, 0, size)
        self.check(wrong)

    def long(self) -> IntArray:
        """A number of variable length."""
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
        self.check(wrong)
        return ((value >> np.uint64(1)) ^ (~(value & np.uint64(1)) + np.uint64(1))).view(np.int64)

    def part(self, rows: IntArray) -> _Cursor:
        return _Cursor(self.data, self.at[rows], self.end[rows], self.bad[rows], self.items[rows])

    def join(self, part: _Cursor, rows: IntArray) -> None:
        self.at[rows], self.bad[rows], self.items[rows] = part.at, part.bad, part.items


Make = Callable[[Bytes, _Found], Arrow]


@dataclass
class _Node:
    """A type of Avro. `arrow` makes a column of what was found, and is None where no column can be
    made.
    """

    arrow: Make | None = field(default=None, init=False)

    def read(self, cursor: _Cursor, depth: int) -> _Found:
        """What comes next in each message; the cursor stands after it."""
        self.skip(cursor, depth)
        return _Found.nothing(len(cursor))

    def skip(self, cursor: _Cursor, depth: int) -> None:
        self.read(cursor, depth)


@dataclass
class _Fixed(_Node):
    size: int

    def skip(self, cursor: _Cursor, depth: int) -> None:
        cursor.skip(self.size)


@dataclass
class _Number(_Node):
    kind: Any

    def __post_init__(self) -> None:
        self.arrow = self._array

    def read(self, cursor: _Cursor, depth: int) -> _Found:
        return _Found(
            cursor.long(), np.zeros(len(cursor), np.int64), np.ones(len(cursor), np.bool_)
        )

    def _array(self, data: Bytes, found: _Found) -> Arrow:
        pa = arrow()
        if self.kind == "date":
            days = np.clip(found.number, -(2**31), 2**31 - 1).astype(np.int32)
            return pa.array(days, mask=~found.there).cast(pa.date32())
        array = pa.array(found.number, mask=~found.there)
        if self.kind not in TIMES:
            return array
        unit, instant = TIMES[self.kind]
        return array.cast(pa.timestamp(unit, "UTC" if instant else None))


@dataclass
class _Text(_Node):
    readable: bool = True

    def __post_init__(self) -> None:
        self.arrow = self._array if self.readable else None

    def read(self, cursor: _Cursor, depth: int) -> _Found:
        length = cursor.long()
        start = cursor.at.copy()
        cursor.skip(length)
        return _Found(start, length, np.ones(len(cursor), np.bool_))

    @staticmethod
    def _array(data: Bytes, found: _Found) -> Arrow:
        pa = arrow()
        sizes = np.where(found.there, found.length, 0)
        bounds = np.zeros(len(sizes) + 1, np.int64)
        np.cumsum(sizes, out=bounds[1:])
        places = np.repeat(found.number - bounds[:-1], sizes) + np.arange(bounds[-1])
        missing = pa.array(found.there).buffers()[1]
        return pa.Array.from_buffers(
            pa.large_binary(),
            len(sizes),
            [missing, pa.py_buffer(bounds), pa.py_buffer(np.ascontiguousarray(data[places]))],
        )


@dataclass
class _Enum(_Node):
    symbols: tuple[str, ...]

    def __post_init__(self) -> None:
        self.arrow = self._array

    def read(self, cursor: _Cursor, depth: int) -> _Found:
        number = cursor.long()
        cursor.check((number < 0) | (number >= len(self.symbols)))
        return _Found(number, np.zeros(len(cursor), np.int64), np.ones(len(cursor), np.bool_))

    def _array(self, data: Bytes, found: _Found) -> Arrow:
        pa = arrow()
        codes = pa.array(np.where(found.there, found.number, 0).astype(np.int32), mask=~found.there)
        return pa.DictionaryArray.from_arrays(codes, pa.array(self.symbols, pa.string()))


@dataclass
class _Record(_Node):
    fields: list[tuple[str, _Node]] = field(default_factory=list)

    def skip(self, cursor: _Cursor, depth: int) -> None:
        if not depth:
            cursor.check(np.ones(len(cursor), np.bool_))
        for _, node in self.fields:
            if cursor.bad.all():
                return
            node.skip(cursor, depth - 1)


@dataclass
class _Union(_Node):
    branches: tuple[_Node, ...]

    def __post_init__(self) -> None:
        some = [node for node in self.branches if not (isinstance(node, _Fixed) and node.size == 0)]
        self.arrow = some[0].arrow if len(some) == 1 else None

    def read(self, cursor: _Cursor, depth: int) -> _Found:
        which = cursor.long()
        cursor.check((which < 0) | (which >= len(self.branches)))
        found = _Found.nothing(len(cursor))
        for number, node in enumerate(self.branches):
            rows = np.flatnonzero((which == number) & ~cursor.bad)
            if len(rows):
                part = cursor.part(rows)
                for whole_column, column in zip(found, node.read(part, depth), strict=True):
                    whole_column[rows] = column
                cursor.join(part, rows)
        return found

    def skip(self, cursor: _Cursor, depth: int) -> None:
        self.read(cursor, depth)


@dataclass
class _Blocks(_Node):
    """An array or a map: blocks of items, each with their number; a negative one is followed by the
    block's size.
    """

    item: tuple[_Node, ...]

    def skip(self, cursor: _Cursor, depth: int) -> None:
        if not depth:
            cursor.check(np.ones(len(cursor), np.bool_))
            return
        rows = np.arange(len(cursor))
        while len(rows):
            part = cursor.part(rows)
            more = self._block(part, depth)
            cursor.join(part, rows)
            rows = rows[more]

    def _block(self, part: _Cursor, depth: int) -> BoolArray:
        """Pass over one block of each message, and say which ones have another."""
        count = part.long()
        part.items += 1
        sized = np.flatnonzero((count < 0) & ~part.bad)
        if len(sized):
            some = part.part(sized)
            some.skip(some.long())
            part.join(some, sized)
        part.items += np.clip(count, 0, ITEMS + 1)
        part.check(part.items > ITEMS)
        rows = np.flatnonzero((count > 0) & ~part.bad)
        left = count[rows]
        while len(rows):
            some = part.part(rows)
            for node in self.item:
                node.skip(some, depth - 1)
            part.join(some, rows)
            left = left - 1
            go_on = (left > 0) & ~some.bad
            rows, left = rows[go_on], left[go_on]
        more: BoolArray = (count != 0) & ~part.bad
        return more


class _Schema:
    """Makes nodes of a schema. Types with names are made once, and may hold themselves."""

    def __init__(self) -> None:
        self.names: dict[str, _Node] = {}

    def node(self, schema: Any, space: str) -> _Node:
        if isinstance(schema, str):
            return self._plain(schema, None, space)
        if isinstance(schema, list) and schema:
            return _Union(tuple(self.node(each, space) for each in schema))
        if not isinstance(schema, Mapping) or "type" not in schema:
            raise ConfigurationError("avro: the schema has a part that is no type.")
        kind = schema["type"]
        if not isinstance(kind, str):
            return self.node(kind, space)
        if kind in ("array", "map"):
            inner = self.node(schema.get("items" if kind == "array" else "values"), space)
            return _Blocks((inner,) if kind == "array" else (_Text(), inner))
        if kind in ("record", "error", "enum", "fixed"):
            return self._named(kind, schema, space)
        return self._plain(kind, schema.get("logicalType"), space)

    def _plain(self, kind: str, logical: Any, space: str) -> _Node:
        if kind in SIZES:
            return _Fixed(SIZES[kind])
        if kind in NUMBERS:
            return _Number(logical if logical in (*TIMES, "date") else None)
        if kind in TEXTS:
            return _Text(logical != "decimal")
        for name in (f"{space}.{kind}", kind):
            if name in self.names:
                return self.names[name]
        raise ConfigurationError(
            f"avro: the schema names the type {kind!r} and does not say what it is."
        )

    def _named(self, kind: str, schema: Mapping[str, Any], space: str) -> _Node:
        name = schema.get("name")
        if not isinstance(name, str) or not name:
            raise ConfigurationError(f"avro: the schema has a {kind} without a name.")
        space = name.rpartition(".")[0] if "." in name else str(schema.get("namespace", space))
        name = f"{space}.{name.rpartition('.')[2]}"
        if kind == "enum":
            node: _Node = _Enum(tuple(map(str, schema.get("symbols", ()))))
        elif kind == "fixed":
            node = _Fixed(whole(schema.get("size"), name="size", least=0))
        else:
            node = record = _Record()
            self.names[name] = record
            for each in schema.get("fields", ()):
                if (
                    not isinstance(each, Mapping)
                    or not isinstance(each.get("name"), str)
                    or "type" not in each
                ):
                    raise ConfigurationError(
                        "avro: the schema has a record with a field that lacks its name or type."
                    )
                record.fields.append((each["name"], self.node(each["type"], space)))
        self.names[name] = node
        return node
