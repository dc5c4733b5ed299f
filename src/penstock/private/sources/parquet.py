"""Parquet files: only the needed columns, one row group after the other."""

from __future__ import annotations

import json
import os
import re
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import accumulate, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from penstock.core.declaration import Option, Options
from penstock.core.deprecated import moved
from penstock.core.errors import ConfigurationError, InputError
from penstock.private.sources.base import (
    Arrow,
    Columns,
    Source,
    SourceSetup,
    TrialEvent,
    arrow,
    instants,
    release_unused_memory,
)
from penstock.private.sources.files import (
    NOTHING,
    FileReading,
    Mark,
    ahead,
    check_columns,
    check_names,
    file_kind,
)
from penstock.private.sources.schema import parquet_columns

COLUMN_BUFFER_BYTES = 2**20
"""Bytes of a column that are read at a time in a large row group, which may exceed the memory."""

LARGE_ROW_GROUP_BYTES = 2**26
"""Uncompressed bytes of a row group, with all columns, above which it counts as large."""

DECODING_THREADS = 2
"""Row groups that are decoded at the same time."""

_UNITS = {"milliseconds": "ms", "microseconds": "us", "nanoseconds": "ns"}
_TABLE_PART = re.compile(r"\w+|`[^`]+`")
_TABLE_NAME = re.compile(rf"(?:{_TABLE_PART.pattern})(?:\.(?:{_TABLE_PART.pattern})){{0,2}}")


@dataclass(frozen=True)
class ParquetFormat:
    """Finished Parquet files. Write a file under another name, then rename it: its footer comes
    last.
    """

    @property
    def streamed(self) -> bool:
        return False

    def tables(self, file: BinaryIO, mark: Mark, how: FileReading) -> Iterator[tuple[Arrow, Mark]]:
        pa, pq = arrow(), arrow("pyarrow.parquet")
        size, columns, rows = os.fstat(file.fileno()).st_size, how.columns, how.rows
        try:
            reader = pq.ParquetFile(file)
            check_columns(columns, reader.schema_arrow.names, name=how.name)
            texts = [
                key
                for key in columns.keys
                if pa.types.is_string(reader.schema_arrow.field(key).type)
            ]
            groups = map(reader.metadata.row_group, range(reader.num_row_groups))
            large = any(group.total_byte_size > LARGE_ROW_GROUP_BYTES for group in groups)
            opening = {"metadata": reader.metadata, "read_dictionary": texts, "pre_buffer": False}
            if large or reader.num_row_groups == 1:
                buffer = COLUMN_BUFFER_BYTES if large else 0
                reader = pq.ParquetFile(file, buffer_size=buffer, **opening)
                batches = ahead(
                    _batches(reader, range(reader.num_row_groups), mark.row, columns.names, rows)
                )
            else:
                batches = _side_by_side(file, opening, mark.row, columns, rows)
            for batch, row in batches:
                yield batch, Mark(size, row)
        except (pa.ArrowException, OSError):
            raise InputError(f"{how.name}: the file is not Parquet, or is damaged.") from None

    def slice(
        self,
        file: BinaryIO,
        *,
        number: int,
        of: int,
        after: int,
        how: FileReading,
        names: Sequence[str] | None = None,
    ) -> Iterator[Arrow]:
        """The rows after row `after` of every `of`-th row group, from `number` on.

        `names` are the columns that the file itself has; default: all of `how`.
        """
        names = how.columns.names if names is None else names
        pa, pq = arrow(), arrow("pyarrow.parquet")
        try:
            reader = pq.ParquetFile(file)
            check_names(names, reader.schema_arrow.names, name=how.name)
            texts = [
                key
                for key in how.columns.keys
                if key in names and pa.types.is_string(reader.schema_arrow.field(key).type)
            ]
            reader = pq.ParquetFile(
                file, metadata=reader.metadata, read_dictionary=texts, pre_buffer=False
            )
            groups = range(number, reader.num_row_groups, of)
            for batch, _ in _batches(reader, groups, after, names, how.rows, threads=False):
                yield batch
        except (pa.ArrowException, OSError):
            raise InputError(f"{how.name}: the file is not Parquet, or is damaged.") from None

    def rows(self, file: BinaryIO, names: Sequence[str], *, name: str) -> int:
        """How many rows there are in a whole file that has the columns of these names."""
        pa, pq = arrow(), arrow("pyarrow.parquet")
        try:
            reader = pq.ParquetFile(file)
        except (pa.ArrowException, OSError):
            raise InputError(f"{name}: the file is not Parquet, or is damaged.") from None
        check_names(names, reader.schema_arrow.names, name=name)
        return int(reader.metadata.num_rows)

    def check(self, file: BinaryIO, columns: Columns, *, name: str) -> None:
        """Nothing: the file's own schema is checked when it is read."""

    def length(self, file: BinaryIO) -> int:
        pa, pq = arrow(), arrow("pyarrow.parquet")
        try:
            return int(pq.ParquetFile(file).metadata.num_rows)
        except (pa.ArrowException, OSError):
            return 0

    def earliest(self, file: BinaryIO, columns: Columns) -> Sequence[tuple[int, int | None]]:
        """The smallest time of each row group by its statistics, converted as the times themselves
        are.

        The conversion keeps the order of times, so the smallest time gives the earliest instant.
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
                smallest.append(
                    NOTHING
                    if not group.num_rows
                    else None
                    if kind is None
                    else _smallest(group.column(place))
                )
            known = [each for each in smallest if each not in (None, NOTHING)]
            numbers = pa.array(known, pa.int32() if kind == pa.date32() else pa.int64())
            found = iter(instants(numbers.cast(kind), columns)[0].tolist() if known else [])
            return [
                (end, each if each in (None, NOTHING) else next(found))
                for end, each in zip(ends, smallest, strict=True)
            ]
        except (pa.ArrowException, OSError):
            return [(NOTHING, None)]


def _batches(
    reader: Arrow,
    groups: Iterable[int],
    after: int,
    names: Sequence[str],
    rows: int,
    *,
    threads: bool = True,
) -> Iterator[tuple[Arrow, int]]:
    """The rows of these row groups after row `after`, at most `rows` at a time, with the row after
    each.
    """
    starts = list(
        accumulate(
            (reader.metadata.row_group(group).num_rows for group in range(reader.num_row_groups)),
            initial=0,
        )
    )
    for group in groups:
        row = starts[group]
        if starts[group + 1] > after:
            for batch in reader.iter_batches(
                rows, row_groups=[group], columns=list(names), use_threads=threads
            ):
                skip = min(max(after - row, 0), batch.num_rows)
                row += batch.num_rows
                if skip < batch.num_rows:
                    yield batch.slice(skip), row


def _again(file: BinaryIO) -> BinaryIO:
    """The same file opened again with its own place, even if another file has its name by now."""
    own = Path(f"/proc/self/fd/{file.fileno()}")
    again = (own if own.exists() else Path(file.name)).open("rb", buffering=0)
    if not os.path.samestat(os.fstat(again.fileno()), os.fstat(file.fileno())):
        again.close()
        raise OSError
    return again


def _side_by_side(
    file: BinaryIO, opening: Mapping[str, Any], after: int, columns: Columns, rows: int
) -> Iterator[tuple[Arrow, int]]:
    """All rows after row `after`, in order. Two threads decode row groups, each with its own open
    file.
    """
    pq, own, opened = arrow("pyarrow.parquet"), threading.local(), []

    def decoded(group: int) -> list[tuple[Arrow, int]]:
        if not hasattr(own, "reader"):
            again = _again(file)
            opened.append(again)
            own.reader = pq.ParquetFile(again, **opening)
        release_unused_memory()
        return list(_batches(own.reader, [group], after, columns.names, rows, threads=False))

    following = iter(range(opening["metadata"].num_row_groups))
    with ThreadPoolExecutor(DECODING_THREADS, thread_name_prefix="penstock-reader") as readers:
        try:
            coming = deque(
                readers.submit(decoded, group) for group in islice(following, DECODING_THREADS)
            )
            while coming:
                batches = coming.popleft().result()
                coming.extend(readers.submit(decoded, group) for group in islice(following, 1))
                yield from batches
                del batches  # before the next ones come
                release_unused_memory()
        finally:
            readers.shutdown(cancel_futures=True)
            for each in opened:
                each.close()


def _time_column(reader: Arrow, columns: Columns) -> tuple[Arrow | None, int]:
    """The type and place of the time column, if its statistics describe the numbers as read."""
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
    """The smallest value in a row group; `NOTHING` if all are missing, None if the file does not
    say.
    """
    if not column.is_stats_set:
        return None
    statistics = column.statistics
    if statistics.has_min_max:
        return int(statistics.min_raw)
    return (
        NOTHING
        if statistics.has_null_count and statistics.null_count == column.num_values
        else None
    )


def _write(path: Path, events: Sequence[TrialEvent]) -> None:
    pa = arrow()
    columns = dict(zip(TrialEvent._fields, zip(*events, strict=True), strict=False))
    arrays = {name: pa.array(columns.get(name, ()), pa.string()) for name in TrialEvent._fields}
    arrow("pyarrow.parquet").write_table(pa.table(arrays), path)


FILES = file_kind(
    "parquet",
    "Parquet files.",
    lambda options: ParquetFormat(),
    suffixes=(".parquet",),
    column_types=parquet_columns,
    write=_write,
)
"""The declaration of files by path alone."""

TABLE = Option(
    name="table",
    instead_of="path",
    example="city.taps",
    help="in place of path: a table of Spark's catalogue, for --engine spark",
)


def table_parts(name: str) -> list[str]:
    """The parts of the name of a table; none if it is not such a name.

    >>> table_parts("city.`taps-2026`"), table_parts("taps; drop")
    (['city', 'taps-2026'], [])
    """
    if not _TABLE_NAME.fullmatch(name):
        return []
    return [part.strip("`") for part in _TABLE_PART.findall(name)]


def _check_table(options: Options) -> None:
    if options["table"] is not None and not table_parts(options["table"]):
        raise ConfigurationError(
            'must be the name of a table, such as table = "city.taps".', parameter="table"
        )


def _described(options: Options) -> str:
    if options["table"] is None:
        return FILES.describe(options)
    growing = ", growing" if options["growing"] else ""
    return f"the table {options['table']} of Spark's catalogue (parquet{growing})"


def _built(setup: SourceSetup) -> Source:
    if setup.options["table"] is not None:
        raise ConfigurationError(
            "source.table: only Spark reads a table of its catalogue. Start with penstock run "
            '--engine spark and without --dry, or write path = "…" with the files of the table.'
        )
    return FILES.build(setup)


KIND = replace(
    FILES,
    summary="Parquet files, or a table of them in Spark's catalogue.",
    options=(FILES.options[0], TABLE, *FILES.options[1:]),
    describe=_described,
    check=_check_table,
    build=_built,
)

if not TYPE_CHECKING:
    __getattr__ = moved(__name__)
