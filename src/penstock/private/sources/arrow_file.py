"""Arrow files (IPC, Feather): only the needed columns, one record batch after the other."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from penstock.core.errors import InputError
from penstock.private.sources.base import Arrow, Columns, TrialEvent, arrow
from penstock.private.sources.files import NOTHING, FileReading, Mark, check_columns, file_kind
from penstock.private.sources.schema import arrow_columns


@dataclass(frozen=True)
class ArrowFileFormat:
    """Finished Arrow files. Write a file under another name, then rename it: its footer comes
    last.
    """

    @property
    def streamed(self) -> bool:
        return False

    def tables(self, file: BinaryIO, mark: Mark, how: FileReading) -> Iterator[tuple[Arrow, Mark]]:
        pa, ipc = arrow(), arrow("pyarrow.ipc")
        size, row = os.fstat(file.fileno()).st_size, 0
        try:
            names = ipc.open_file(file).schema.names
            check_columns(how.columns, names, name=how.name)
            needed = [names.index(name) for name in how.columns.names]
            options = ipc.IpcReadOptions(included_fields=sorted(needed))
            reader = ipc.open_file(file, options=options)
            for number in range(reader.num_record_batches):
                batch = reader.get_batch(number)
                start = min(max(mark.row - row, 0), batch.num_rows)
                for first in range(start, batch.num_rows, how.rows):
                    part = batch.slice(first, how.rows)
                    yield part, Mark(size, row + first + part.num_rows)
                row += batch.num_rows
        except (pa.ArrowException, OSError):
            raise InputError(f"{how.name}: the file is not Arrow, or is damaged.") from None

    def check(self, file: BinaryIO, columns: Columns, *, name: str) -> None:
        """Nothing: the file's own schema is checked when it is read."""

    def length(self, file: BinaryIO) -> int:
        """Unknown: the footer does not say how many rows there are."""
        return 0

    def earliest(self, file: BinaryIO, columns: Columns) -> Sequence[tuple[int, int | None]]:
        """Unknown: the file has no statistics."""
        return [(NOTHING, None)]


def _write(path: Path, events: Sequence[TrialEvent]) -> None:
    pa = arrow()
    columns = dict(zip(TrialEvent._fields, zip(*events, strict=True), strict=False))
    arrays = {name: pa.array(columns.get(name, ()), pa.string()) for name in TrialEvent._fields}
    arrow("pyarrow.feather").write_feather(pa.table(arrays), path)


KIND = file_kind(
    "arrow",
    "Arrow files (IPC, also named Feather).",
    lambda options: ArrowFileFormat(),
    suffixes=(".arrow", ".feather"),
    column_types=arrow_columns,
    write=_write,
)
