"""JSON lines: one object per line."""

from __future__ import annotations

import io
import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from penstock.core.arrays import BoolArray, IntArray
from penstock.core.deprecated import moved
from penstock.core.errors import InputError
from penstock.private.person_ids import Words
from penstock.private.sources.base import (
    Arrow,
    Columns,
    Reason,
    Rejections,
    TrialEvent,
    arrow,
    integers,
    without_empty,
)
from penstock.private.sources.files import (
    MAX_LINE_BYTES,
    FileReading,
    LineFormat,
    Mark,
    check_columns,
    file_kind,
    joined,
    line_bounds,
    lines,
    lines_of,
    runs,
)
from penstock.private.sources.schema import jsonl_columns

MAX_LINES_PER_PARSE = 4096
BYTES_PER_PARSE = 4 * 2**20
"""Bytes of lines that Arrow reads at a time. Many small values can take far more memory."""

MAX_BRACKETS = 500
"""A line with more brackets is not given to Python's reader, which cannot read deep values."""

MAX_INTEGER_DIGITS = 20
MAX_EXPONENT = 308
"""Arrow refuses a larger exponent; each digit after the point allows one more at most."""

PADDING = b"\n" * 8
"""What must follow lines whose ends are not known: they are read eight bytes at a time."""

INT64_LIMIT = 2**63
SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
OBJECT_LINE = r"(?s)^[ \t]*\{.*\}[ \t\r\n]*\z"
BLANK_LINE = r"^[ \t\r\n]*\z"
_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,18}")


@dataclass(frozen=True, kw_only=True)
class JsonLinesFormat(LineFormat):
    """One object per line. The columns are fields at its top; other fields are ignored.

    A whole number may stand for its text in a key or a person, and a text for its number. A field
    that a line lacks is a missing value; an event that counts without a person has the field all
    the same, with null. A line that is broken, or has a field twice or of another type, is dropped
    alone. Finding such a line costs far more than reading a good one.
    """

    def tables(self, file: BinaryIO, mark: Mark, how: FileReading) -> Iterator[tuple[Arrow, Mark]]:
        if mark.offset:
            file.seek(mark.offset)
        found = lines(file, mark.offset, how, limit=self.limit, block=self.block)
        for array, offset in found:
            yield objects(array, how.columns, how.rejections), Mark(offset)

    def check(self, file: BinaryIO, columns: Columns, *, name: str) -> None:
        """Check that the beginning of a finished file has every column somewhere."""
        beginning, nowhere = file.read(MAX_LINE_BYTES), Rejections()
        how = FileReading(
            name=name,
            columns=columns,
            rows=MAX_LINE_BYTES,
            final=len(beginning) < MAX_LINE_BYTES,
            rejections=nowhere,
        )
        for array, _ in lines(io.BytesIO(beginning), 0, how):
            table = objects(array, columns, nowhere)
            if table.num_rows and absent_fields(array, table, columns.names):
                found = (_fields(line.as_py()) for line in array)
                check_columns(columns, next(filter(None, found), []), name=name)
        file.seek(0)


def schema_of(columns: Columns) -> Arrow:
    """The columns with their declared types."""
    pa = arrow()
    kinds = {"text": pa.string(), "integer": pa.int64()}
    types = {columns.time: kinds["text" if columns.clock == "iso" else "integer"]}
    types |= {name: kinds[kind] for name, kind in zip(columns.keys, columns.key_types, strict=True)}
    if columns.person:
        types[columns.person] = kinds[columns.person_type]
    return pa.schema(types.items())


class OddLinesError(InputError):
    """More lines than allowed had to be read one by one."""


def objects(
    array: Arrow, columns: Columns, rejections: Rejections, *, most_odd: int | None = None
) -> Arrow:
    """The columns of all lines that can be read. The lines are UTF-8.

    More than `most_odd` lines that must be read one by one are an `OddLinesError`: each costs
    as much as hundreds of others.
    """
    loop = compiled_loop()
    if loop is None or not len(array):
        return careful_objects(array, columns, rejections, most_odd=most_odd)
    table, sure = plain_objects(array, columns, loop)
    return table if sure.all() else _completed(table, sure, array, columns, rejections, most_odd)


def objects_of_lines(
    data: bytes, number: int, columns: Columns, rejections: Rejections, loop: Any
) -> Arrow:
    """The columns of all lines that can be read. Lines without a byte are missing values.

    Parameters
    ----------
    data : bytes
        The lines in ASCII, each with the only line break that it has, then `PADDING`.
    number : int
        The number of lines.
    columns : Columns
        The columns.
    rejections : Rejections
        Counts the lines that are dropped.
    loop : module
        The module `json_fast`.
    """
    bounds = np.full(number + 1, loop.UNKNOWN, np.int64)
    bounds[0] = 0
    table, sure = _plain(np.frombuffer(data, np.uint8), bounds, columns, loop)
    if sure.all():
        return table
    rejections.add(Reason.MISSING, int(np.count_nonzero(np.diff(bounds) == 1)))
    return _completed(table, sure, lines_of(data, bounds), columns, rejections, None)


def _completed(
    table: Arrow,
    sure: BoolArray,
    array: Arrow,
    columns: Columns,
    rejections: Rejections,
    most_odd: int | None,
) -> Arrow:
    """The columns of all lines: of plain ones from the table, of others by careful readers."""
    pa = arrow()
    if not sure.any():
        return careful_objects(array, columns, rejections, most_odd=most_odd)
    rows, others = np.flatnonzero(sure), np.flatnonzero(~sure)
    careful, found = _careful(array.take(pa.array(others)), columns, rejections, most_odd)
    order = np.argsort(np.concatenate([rows, others[found]]), kind="stable")
    return pa.concat_tables([table, careful]).take(pa.array(order))


def careful_objects(
    array: Arrow, columns: Columns, rejections: Rejections, *, most_odd: int | None = None
) -> Arrow:
    """The same as `objects`, by readers of JSON that know all of it."""
    table, rows = _careful(array, columns, rejections, most_odd)
    return table if (np.diff(rows) > 0).all() else table.take(arrow().array(np.argsort(rows)))


def _careful(
    array: Arrow, columns: Columns, rejections: Rejections, most_odd: int | None
) -> tuple[Arrow, IntArray]:
    """The columns of all lines that can be read, and the line of each row."""
    pa, pc = arrow(), arrow("pyarrow.compute")
    rows = np.arange(len(array))
    if not _framed(array):
        good = pc.match_substring_regex(array, pattern=OBJECT_LINE)
        blank = pc.match_substring_regex(array, pattern=BLANK_LINE)
        rejections.add(Reason.BROKEN, len(array) - (good.true_count + blank.true_count))
        rows = np.flatnonzero(good.to_numpy(zero_copy_only=False))
        array = array.filter(good)
    odd = itertools.count(1)

    def count_odd() -> None:
        if most_odd is not None and next(odd) > most_odd:
            raise OddLinesError("too many lines can only be read one by one.")

    reading = _Reading(columns, rejections, count_odd)
    found = [
        piece
        for start, stop in runs(line_bounds(array), BYTES_PER_PARSE)
        for piece in reading.pieces(array.slice(start, stop - start), rows[start:stop])
    ]
    table = pa.concat_tables([reading.schema.empty_table(), *(each for each, _ in found)])
    return table, np.concatenate([rows[:0], *(some for _, some in found)])


def plain_objects(array: Arrow, columns: Columns, loop: Any) -> tuple[Arrow, BoolArray]:
    """The columns of the lines about which all readers of JSON agree, and which lines these are.

    `loop` is the module `json_fast`.
    """
    bounds = line_bounds(array)
    return _plain(np.frombuffer(joined(array), np.uint8), bounds - bounds[0], columns, loop)


def _plain(
    data: NDArray[np.uint8], bounds: IntArray, columns: Columns, loop: Any
) -> tuple[Arrow, BoolArray]:
    """The same for the lines between bounds of data. Bounds that are not known are found."""
    pa = arrow()
    schema = schema_of(columns)
    names = [name.encode() for name in schema.names]
    number = len(bounds) - 1
    ends = np.zeros(len(names) + 1, np.int64)
    np.cumsum([len(name) for name in names], out=ends[1:])
    free, integer = _free(columns), [not pa.types.is_string(each.type) for each in schema]
    needed = columns.person if columns.missing_person == "each" else None
    shape = len(names), number
    numbers, there = np.empty(shape, np.int64), np.empty(shape, np.bool_)
    places = np.zeros((len(names), number + 1), np.int32)
    texts = np.empty((len(names), len(data) + 8), np.uint8)
    sure = np.empty(number, np.bool_)
    rows = loop.columns(
        data,
        _words(data),
        bounds,
        np.frombuffer(b"".join(names), np.uint8),
        ends,
        np.array(integer),
        np.array([name in free for name in schema.names]),
        -1 if needed is None else schema.names.index(needed),
        numbers,
        places,
        texts,
        _words(texts.reshape(-1)),
        there,
        sure,
    )
    made = []
    for column, whole in enumerate(integer):
        missing = None if there[column, :rows].all() else ~there[column, :rows]
        if whole:
            made.append(pa.array(numbers[column, :rows], pa.int64(), mask=missing))
            continue
        valid = None if missing is None else pa.array(~missing).buffers()[1]
        last = places[column, rows]
        buffers = [valid, pa.py_buffer(places[column]), pa.py_buffer(texts[column, :last])]
        made.append(pa.Array.from_buffers(pa.string(), rows, buffers))
    return pa.table(made, schema=schema), sure


def _words(data: NDArray[np.uint8]) -> Words:
    """The eight bytes from every place on, without a copy."""
    return np.ndarray((max(len(data) - 7, 0),), "<u8", data, strides=(1,))


@cache
def compiled_loop() -> Any:
    """The compiled loop, or None without the extra `fast`."""
    try:
        from penstock.private import json_fast
    except ImportError:
        return None
    return json_fast


def absent_fields(array: Arrow, table: Arrow, names: Iterable[str]) -> set[str]:
    """The names that no line has as a field. `table` has the lines that could be read."""
    absent = {name for name in names if table.column(name).null_count == table.num_rows}
    for line in array if absent else ():
        absent.difference_update(_fields(line.as_py()))
        if not absent:
            break
    return absent


def _framed(array: Arrow) -> bool:
    """Whether every line is in braces."""
    pc = arrow("pyarrow.compute")
    ends = (pc.starts_with(array, pattern="{"), pc.ends_with(array, pattern="}\n"))
    return all(pc.all(each).as_py() is not False for each in ends)


_Switched: TypeAlias = frozenset[str]
"""The columns of a line that have a whole number where text is declared, or the other way round."""


_Piece: TypeAlias = tuple[Arrow, IntArray]
"""A table, and the number of the line of each of its rows."""


class _Reading:
    """Lines into columns of the declared types, whichever way their keys and persons are written.

    A line is taken if Arrow reads it with the declared types, or with those of some keys and
    persons switched, and their values can be converted. So no line's fate depends on another line.
    """

    def __init__(
        self, columns: Columns, rejections: Rejections, count_odd: Callable[[], None]
    ) -> None:
        self.schema = schema_of(columns)
        self._rejections = rejections
        self._count_odd = count_odd
        self._types = _types(self.schema)
        self._free = _free(columns)
        self._needed = columns.person if columns.missing_person == "each" else None

    def pieces(self, array: Arrow, rows: IntArray) -> Iterator[_Piece]:
        """All lines that can be read, with their numbers in `rows`. Lines that fail together are
        halved, then judged one by one.
        """
        piece = self._read(array, rows, _Switched())
        if piece is None and len(array):
            first = _judged(array[0].as_py(), self._types, self._free)
            if isinstance(first, frozenset) and first:
                piece = self._read(array, rows, first)
        if piece is not None:
            yield piece
        elif len(array) > MAX_LINES_PER_PARSE:
            half = len(array) // 2
            yield from self.pieces(array.slice(0, half), rows[:half])
            yield from self.pieces(array.slice(half), rows[half:])
        else:
            yield from self._judged_pieces(array, rows)

    def _judged_pieces(self, array: Arrow, rows: IntArray) -> Iterator[_Piece]:
        """The lines that can be read, those that are written in the same way together."""
        alike: dict[_Switched | None, list[int]] = {}
        for place, line in enumerate(array.to_pylist()):
            judged = _judged(line, self._types, self._free)
            if isinstance(judged, _Verdict):
                self._rejections.add(judged.reason, 1, judged.column)
            else:
                alike.setdefault(judged, []).append(place)
        for switched, places in alike.items():
            some, theirs = array.take(arrow().array(places)), rows[places]
            piece = None if switched is None else self._read(some, theirs, switched)
            if piece is not None:
                yield piece
                continue
            for place in range(len(some)):
                yield from self._alone(some.slice(place, 1), theirs[place : place + 1])

    def _alone(self, line: Arrow, row: IntArray) -> Iterator[_Piece]:
        """One line, tried in every way in which it may be written."""
        self._count_odd()
        for size in range(len(self._free) + 1):
            for switched in itertools.combinations(sorted(self._free), size):
                piece = self._read(line, row, frozenset(switched))
                if piece is not None:
                    yield piece
                    return
        self._rejections.add(Reason.TYPE, 1)

    def _read(self, array: Arrow, rows: IntArray, switched: _Switched) -> _Piece | None:
        """The lines as columns of the declared types; None unless all can be read in this way."""
        pa = arrow()
        other = {pa.string(): pa.int64(), pa.int64(): pa.string()}
        schema = pa.schema(
            (each.name, other[each.type] if each.name in switched else each.type)
            for each in self.schema
        )
        table = _parsed(array, schema)
        if table is None:
            return None
        for name in switched:
            column = _converted(table.column(name))
            if column is None:
                return None
            table = table.set_column(schema.get_field_index(name), self.schema.field(name), column)
        return self._with_field(table, array, rows)

    def _with_field(self, table: Arrow, array: Arrow, rows: IntArray) -> _Piece:
        """The rows that have the field of the person, be it null, where that is needed.

        An event with another name of this field must not pass for an event without a person.
        """
        if self._needed is None or not table.column(self._needed).null_count:
            return table, rows
        missing = np.asarray(table.column(self._needed).combine_chunks().is_null())
        there = [self._needed in _fields(array[place].as_py()) for place in np.flatnonzero(missing)]
        keep = ~missing
        keep[missing] = there
        self._rejections.add(Reason.FIELD, int(np.count_nonzero(~keep)), self._needed)
        return table.filter(arrow().array(keep)), rows[keep]


def _converted(column: Arrow) -> Arrow | None:
    """Whole numbers as text, or text as whole numbers; None if one of the texts is no such
    number.
    """
    pa = arrow()
    if pa.types.is_integer(column.type):
        return column.cast(pa.string())
    column = without_empty(column.combine_chunks())
    numbers, wrong = integers(column)
    if wrong is not None:
        return None
    return pa.array(numbers, pa.int64(), mask=np.asarray(column.is_null()))


def _free(columns: Columns) -> _Switched:
    """The columns whose whole numbers may be written as text, and the other way round."""
    return frozenset(columns.names) - {columns.time}


def _parsed(array: Arrow, schema: Arrow) -> Arrow | None:
    """The lines, each in braces, as columns; None unless every line is one object of the right
    types.

    No object spans two lines: a closing brace followed directly by an opening one cannot stand
    inside an object. So as many rows as lines means one row per line.
    """
    pa, pj = arrow(), arrow("pyarrow.json")
    if not len(array):
        return schema.empty_table()
    data = joined(array)
    try:
        table = pj.read_json(
            pa.BufferReader(data),
            read_options=pj.ReadOptions(use_threads=False, block_size=data.size + 1),
            parse_options=pj.ParseOptions(
                explicit_schema=schema, newlines_in_values=True, unexpected_field_behavior="ignore"
            ),
        )
    except pa.ArrowInvalid:
        return None
    return table if table.num_rows == len(array) else None


def _fields(line: bytes) -> list[str]:
    """The names of a line's fields; empty if it is no object."""
    try:
        found = json.loads(line.decode())
    except (ValueError, RecursionError):
        return []
    return list(found) if isinstance(found, dict) else []


def _types(schema: Arrow) -> dict[str, type]:
    return {each.name: str if arrow().types.is_string(each.type) else int for each in schema}


class _Verdict(NamedTuple):
    """Why a line cannot be read, and the column at fault, if it is one."""

    reason: Reason
    column: str = ""


def _judged(
    line: bytes, types: dict[str, type], free: _Switched = frozenset()
) -> _Verdict | _Switched | None:
    """Why a line certainly cannot be read, or else which columns are switched in it; None if only
    Arrow can tell.
    """
    if line.count(b"[") + line.count(b"{") > MAX_BRACKETS:
        return None
    text = line.decode()
    try:
        found = _DECODER.decode(text)
    except json.JSONDecodeError:
        return _Verdict(Reason.BROKEN)
    except _NumberError:
        return _Verdict(Reason.TYPE)
    if not isinstance(found, _Pairs):
        return _Verdict(Reason.BROKEN)
    values = [(name, value) for name, value in found if name in types]
    switched = set()
    for name, value in values:
        if value is None or _fits(value, types[name]):
            continue
        if name not in free or not _stands_for(value, types[name]):
            return _Verdict(Reason.TYPE, name)
        switched.add(name)
    twice = len({name for name, _ in values}) < len(values)
    return _Verdict(Reason.TYPE) if twice or _halves(text, found) else frozenset(switched)


class _Pairs(list[tuple[str, Any]]):
    """The fields of an object in order, also fields that are there twice."""


def _whole(text: str) -> int:
    """A whole number. One too long for Python becomes one that is too large for 64 bits."""
    return int(text) if len(text) <= MAX_INTEGER_DIGITS else INT64_LIMIT


class _NumberError(ValueError):
    """A number that Arrow refuses."""


def _fraction(text: str) -> float:
    """A number with a point or an exponent. Its value does not matter."""
    digits, mark, exponent = text.lower().partition("e")
    most = MAX_EXPONENT + len(digits.partition(".")[2])
    if mark and not exponent.startswith("-"):
        figures = exponent.lstrip("+0")
        if len(figures) > MAX_INTEGER_DIGITS or int(figures or 0) > most:
            raise _NumberError
    return 0.0


_DECODER = json.JSONDecoder(object_pairs_hook=_Pairs, parse_int=_whole, parse_float=_fraction)


def _fits(value: object, kind: type) -> bool:
    return type(value) is kind and not (
        isinstance(value, int) and not -INT64_LIMIT <= value < INT64_LIMIT
    )


def _stands_for(value: object, kind: type) -> bool:
    """Whether a whole number is written where text is declared, or its text where it is."""
    if kind is str:
        return _fits(value, int)
    if not isinstance(value, str) or not _WHOLE.fullmatch(value):
        return value == ""  # which is a missing value
    return _fits(int(value), int)


def _halves(text: str, found: object) -> bool:
    """Whether half of a surrogate pair stands alone, as in a text that was cut. That is no valid
    text.
    """
    if not SURROGATE.search(text):
        return False
    try:
        json.dumps(found, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    return False


def _write(path: Path, events: Sequence[TrialEvent]) -> None:
    lines = (json.dumps(event._asdict()) + "\n" for event in events)
    path.write_text("".join(lines), encoding="utf-8")


KIND = file_kind(
    "jsonl",
    "Files of JSON lines, one object per line.",
    lambda options: JsonLinesFormat(),
    suffixes=(".jsonl", ".ndjson"),
    column_types=jsonl_columns,
    write=_write,
)

if not TYPE_CHECKING:
    __getattr__ = moved(__name__)
