"""Parquet files: row groups one after the other, only the columns that are needed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from penstock.core.errors import InputError
from penstock.private.sources.base import Arrow, Columns, Rejections, arrow
from penstock.private.sources.files import Mark, require

BUFFER = 2**20
"""How much of a column is read at a time, so that a row group may be larger than the memory."""


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
            reader = pq.ParquetFile(file, metadata=reader.metadata, read_dictionary=texts, pre_buffer=False, buffer_size=BUFFER)
            row = 0
            for group in range(reader.num_row_groups):
                following = row + reader.metadata.row_group(group).num_rows
                if following > mark.row:
                    for batch in reader.iter_batches(rows, row_groups=[group], columns=columns.names, use_threads=False):
                        skip = min(max(mark.row - row, 0), batch.num_rows)
                        row += batch.num_rows
                        if skip < batch.num_rows:
                            yield batch.slice(skip), Mark(size, row)
                row = following
        except (pa.ArrowException, OSError):
            raise InputError(f"{name}: the file is not Parquet, or is damaged.") from None
