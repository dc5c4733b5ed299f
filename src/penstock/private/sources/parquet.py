"""Parquet files: row groups one after the other, only the columns that are needed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO

from penstock.core.errors import InputError
from penstock.private.sources.base import Arrow, Columns, Rejections, arrow, instants
from penstock.private.sources.files import NOTHING, Mark, ahead, require

BUFFER = 2**20
"""How much of a column is read at a time where a row group is large, so that it may be larger than the memory."""

LARGE = 2**26
"""The bytes of a row group, with all its columns and before they are compressed, from which on it is large."""

_UNITS = {"milliseconds": "ms", "microseconds": "us", "nanoseconds": "ns"}


@dataclass(frozen=True)
class Parquet:
    """Finished Parquet files. Write one under another name and rename it, as a file without its end cannot be read."""

    @property
    def streamed(self) -> bool:
        return False

    def tables(
        self, file: BinaryIO, mark: Mark, columns: Columns, *, name: str, rows: int, final: bool, rejections: Rejections
    ) -> Iterator[tuple[Arrow, Mark]]:
        pa, pq = arrow(), arrow("pyarrow.parquet")
        size = os.fstat(file.fileno()).st_size
        try:
            reader = pq.ParquetFile(file)
            require(columns, reader.schema_arrow.names, name=name)
            texts = [key for key in columns.keys if pa.types.is_string(reader.schema_arrow.field(key).type)]
            groups = map(reader.metadata.row_group, range(reader.num_row_groups))
            buffer = BUFFER if any(group.total_byte_size > LARGE for group in groups) else 0
            reader = pq.ParquetFile(file, metadata=reader.metadata, read_dictionary=texts, pre_buffer=False, buffer_size=buffer)
            for batch, row in ahead(_batches(reader, mark.row, columns, rows)):
                yield batch, Mark(size, row)
        except (pa.ArrowException, OSError):
            raise InputError(f"{name}: the file is not Parquet, or is damaged.") from None

    def check(self, file: BinaryIO, columns: Columns, *, name: str) -> None:
        """That is done when it is read, by the file's own schema."""

    def length(self, file: BinaryIO) -> int:
        pa, pq = arrow(), arrow("pyarrow.parquet")
        try:
            return int(pq.ParquetFile(file).metadata.num_rows)
        except (pa.ArrowException, OSError):
            return 0

    def earliest(self, file: BinaryIO, columns: Columns) -> Sequence[tuple[int, int | None]]:
        """The smallest time of each row group by its statistics, made an instant by the same rules as the times themselves.

        Those rules never bring a later time before an earlier one, of those that count: of a time that a clock shows
        twice the first is meant, and one that it skips is the moment of the jump.
        """
        pa, pq = arrow(), arrow("pyarrow.parquet")
        try:
            reader = pq.ParquetFile(file)
            metadata = reader.metadata
            kind, place = _time_column(reader, columns)
            ends: list[int] = []
            smallest: list[int | None] = []
            for group in map(metadata.row_group, range(metadata.num_row_groups)):
                ends.append((ends[-1] if ends else 0) + group.num_rows)
                smallest.append(NOTHING if not group.num_rows else None if kind is None else _smallest(group.column(place)))
            known = [each for each in smallest if each not in (None, NOTHING)]
            numbers = pa.array(known, pa.int32() if kind == pa.date32() else pa.int64())
            found = iter(instants(numbers.cast(kind), columns)[0].tolist() if known else [])
            return [(end, each if each in (None, NOTHING) else next(found)) for end, each in zip(ends, smallest, strict=True)]
        except (pa.ArrowException, OSError):
            return [(NOTHING, None)]


def _batches(reader: Arrow, after: int, columns: Columns, rows: int) -> Iterator[tuple[Arrow, int]]:
    """The rows after so many, at most `rows` at a time and none of two row groups, each time with the row after them."""
    row = 0
    for group in range(reader.num_row_groups):
        following = row + reader.metadata.row_group(group).num_rows
        if following > after:
            for batch in reader.iter_batches(rows, row_groups=[group], columns=columns.names):
                skip = min(max(after - row, 0), batch.num_rows)
                row += batch.num_rows
                if skip < batch.num_rows:
                    yield batch.slice(skip), row
        row = following


def _time_column(reader: Arrow, columns: Columns) -> tuple[Arrow | None, int]:
    """The type of the column of times and its place, if its statistics are of the very numbers that are read."""
    pa, schema = arrow(), reader.metadata.schema
    leaves = [place for place in range(len(schema)) if schema.column(place).path == columns.time]
    if len(leaves) != 1 or reader.schema_arrow.names.count(columns.time) != 1:
        return None, 0
    leaf, kind = schema.column(leaves[0]), reader.schema_arrow.field(columns.time).type
    stored = json.loads(leaf.logical_type.to_json())
    if leaf.physical_type not in ("INT32", "INT64"):
        good = False
    elif pa.types.is_timestamp(kind):
        good = stored["Type"] == "Timestamp" and _UNITS.get(stored["timeUnit"]) == kind.unit
    elif pa.types.is_date32(kind):
        good = stored["Type"] == "Date"
    else:
        plain = stored["Type"] == "None" or (stored["Type"] == "Int" and stored["isSigned"])
        good = pa.types.is_signed_integer(kind) and columns.clock != "iso" and plain
        kind = pa.int64()
    return (kind if good else None), leaves[0]


def _smallest(column: Arrow) -> int | None:
    """The smallest value of a column in a row group; `NOTHING` if all are missing, None if the file does not say."""
    if not column.is_stats_set:
        return None
    statistics = column.statistics
    if statistics.has_min_max:
        return int(statistics.min_raw)
    return NOTHING if statistics.has_null_count and statistics.null_count == column.num_values else None
