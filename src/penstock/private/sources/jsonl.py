"""JSON lines: one object per line."""

from __future__ import annotations

import io
import itertools
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from penstock.core.deprecated import moved
from penstock.core.errors import InputError
from penstock.private.sources.base import Arrow, Columns, Reason, Rejections, TrialEvent, arrow
from penstock.private.sources.files import (
    MAX_LINE_BYTES,
    FileReading,
    LineFormat,
    Mark,
    check_columns,
    file_kind,
    joined,
    lines,
    taken,
)
from penstock.private.sources.schema import jsonl_columns

MAX_LINES_PER_PARSE = 4096
MAX_BRACKETS = 500
"""A line with more brackets is not given to Python's reader, which cannot read deep values."""

MAX_INTEGER_DIGITS = 20
MAX_EXPONENT = 308
"""Arrow refuses a larger exponent; each digit after the point allows one more at most."""

INT64_LIMIT = 2**63
SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
OBJECT_LINE = r"(?s)^[ \t]*\{.*\}[ \t\r\n]*\z"
BLANK_LINE = r"^[ \t\r\n]*\z"


@dataclass(frozen=True, kw_only=True)
class JsonLinesFormat(LineFormat):
    """One object per line. The columns are fields at its top; other fields are ignored.

    A field that a line lacks is a missing value. A line that is broken, or has a field twice or of
    another type, is dropped alone. Finding such a line costs far more than reading a good one.
    """

    def tables(self, file: BinaryIO, mark: Mark, how: FileReading) -> Iterator[tuple[Arrow, Mark]]:
        schema = schema_of(how.columns)
        if mark.offset:
            file.seek(mark.offset)
        found = lines(file, mark.offset, how, limit=self.limit, block=self.block)
        for array, offset in found:
            yield objects(array, schema, how.rejections), Mark(offset)

    def check(self, file: BinaryIO, columns: Columns, *, name: str) -> None:
        """Check that the beginning of a finished file has every column somewhere."""
        beginning, schema, nowhere = file.read(MAX_LINE_BYTES), schema_of(columns), Rejections()
        how = FileReading(
            name=name,
            columns=columns,
            rows=MAX_LINE_BYTES,
            final=len(beginning) < MAX_LINE_BYTES,
            rejections=nowhere,
        )
        for array, _ in lines(io.BytesIO(beginning), 0, how):
            table = objects(array, schema, nowhere)
            if table.num_rows and any(
                column.null_count == table.num_rows for column in table.columns
            ):
                found = (_fields(line.as_py()) for line in array)
                check_columns(columns, next(filter(None, found), []), name=name)
        file.seek(0)


def schema_of(columns: Columns) -> Arrow:
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
    array: Arrow, schema: Arrow, rejections: Rejections, *, most_odd: int | None = None
) -> Arrow:
    """The columns of all lines that can be read.

    More than `most_odd` lines that must be read one by one are an `OddLinesError`: each costs
    as much as hundreds of others.
    """
    pa, pc = arrow(), arrow("pyarrow.compute")
    if not _framed(array):
        array = array.filter(pc.invert(pc.match_substring_regex(array, pattern=BLANK_LINE)))
        array = taken(
            array, pc.match_substring_regex(array, pattern=OBJECT_LINE), Reason.BROKEN, rejections
        )
    odd = itertools.count(1)

    def count_odd() -> None:
        if most_odd is not None and next(odd) > most_odd:
            raise OddLinesError("too many lines can only be read one by one.")

    pieces = _pieces(array, schema, rejections, count_odd)
    return pa.concat_tables([schema.empty_table(), *pieces])


def _framed(array: Arrow) -> bool:
    """Whether every line is in braces."""
    pc = arrow("pyarrow.compute")
    ends = (pc.starts_with(array, pattern="{"), pc.ends_with(array, pattern="}\n"))
    return all(pc.all(each).as_py() is not False for each in ends)


def _pieces(
    array: Arrow, schema: Arrow, rejections: Rejections, count_odd: Callable[[], None]
) -> Iterator[Arrow]:
    """All lines that can be read. Lines that fail together are halved, then judged one by one."""
    table = _parsed(array, schema)
    if table is not None:
        yield table
        return
    if len(array) > MAX_LINES_PER_PARSE:
        half = len(array) // 2
        yield from _pieces(array.slice(0, half), schema, rejections, count_odd)
        yield from _pieces(array.slice(half), schema, rejections, count_odd)
        return
    types = _types(schema)
    verdicts = [_verdict(line, types) for line in array.to_pylist()]
    for verdict in filter(None, verdicts):
        rejections.add(verdict.reason, 1, verdict.column)
    perhaps = array.filter(arrow().array([verdict is None for verdict in verdicts]))
    table = _parsed(perhaps, schema)
    if table is not None:
        yield table
        return
    for place in range(len(perhaps)):
        count_odd()
        table = _parsed(perhaps.slice(place, 1), schema)
        if table is None:
            rejections.add(Reason.TYPE, 1)
        else:
            yield table


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


def _verdict(line: bytes, types: dict[str, type]) -> _Verdict | None:
    """Why a line certainly cannot be read; None if it may be readable."""
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
    for name, value in values:
        if value is not None and not _fits(value, types[name]):
            return _Verdict(Reason.TYPE, name)
    twice = len({name for name, _ in values}) < len(values)
    return _Verdict(Reason.TYPE) if twice or _halves(text, found) else None


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
