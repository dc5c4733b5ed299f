"""CSV files."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from penstock.core.declaration import Option, Options
from penstock.core.deprecated import moved
from penstock.core.errors import ConfigurationError
from penstock.private.sources.base import Arrow, Columns, Reason, Rejections, TrialEvent, arrow
from penstock.private.sources.files import (
    FileReading,
    LineFormat,
    Mark,
    check_columns,
    file_kind,
    joined,
    lines,
    taken,
)
from penstock.private.sources.schema import csv_columns


@dataclass(frozen=True, kw_only=True)
class CsvFormat(LineFormat):
    """Comma-separated values, or values with another delimiter.

    Fields may be in double quotes. An empty field is a missing value. The first line of each file
    names the columns, unless `names` does. A broken line is dropped alone.

    With `quoted_newlines` a field in quotes may continue over several lines. A lost quote then
    takes all text up to the next quote with it, at most `limit` bytes. Use it only if it is needed.
    """

    delimiter: str = ","
    names: tuple[str, ...] | None = None
    quoted_newlines: bool = False

    def __post_init__(self) -> None:
        if len(self.delimiter) != 1 or not self.delimiter.isascii() or self.delimiter in '"\r\n':
            raise ConfigurationError(
                "delimiter must be one ASCII character, not a quote or a line break.",
                parameter="delimiter",
            )
        super().__post_init__()

    def tables(self, file: BinaryIO, mark: Mark, how: FileReading) -> Iterator[tuple[Arrow, Mark]]:
        names, columns = self.names, how.columns
        if mark.offset:
            if names is None:
                file.seek(0)
                first = replace(how, rows=1, final=True, rejections=Rejections())
                names = next(
                    self._names(array) for array, _ in self._lines(file, 0, first) if len(array)
                )
            file.seek(mark.offset)
        if names is not None:
            check_columns(columns, names, name=how.name)
        for array, offset in self._lines(file, mark.offset, how):
            if names is None and len(array):
                names, array = self._names(array), array.slice(1)
                check_columns(columns, names, name=how.name)
            if names is not None:
                yield self._table(array, names, columns, how.rejections), Mark(offset)

    def _lines(self, file: BinaryIO, offset: int, how: FileReading) -> Iterator[tuple[Arrow, int]]:
        quote = b'"' if self.quoted_newlines else None
        return lines(file, offset, how, limit=self.limit, block=self.block, quote=quote)

    def _names(self, array: Arrow) -> tuple[str, ...]:
        first = array[0].as_py().decode().rstrip("\r\n")
        try:
            return tuple(next(csv.reader([first], delimiter=self.delimiter), ()))
        except csv.Error:
            return ()

    def _table(
        self, array: Arrow, names: tuple[str, ...], columns: Columns, rejections: Rejections
    ) -> Arrow:
        pa, pc, pcsv = arrow(), arrow("pyarrow.compute"), arrow("pyarrow.csv")
        data = joined(array)
        if self._suspicious(data):
            array = taken(
                array,
                pc.match_substring_regex(array, pattern=self._pattern),
                Reason.BROKEN,
                rejections,
            )
            data = joined(array)
        places = [str(names.index(column)) for column in columns.names]
        if not data.size:
            return pa.table({column: pa.array([], pa.string()) for column in columns.names})

        def skip(row: object) -> str:
            rejections.add(Reason.FIELDS, 1)
            return "skip"

        # While it reads in the main thread, PyArrow has handlers of its own for SIGINT and SIGTERM.
        # A signal at the wrong moment would be lost, and a publisher that was asked to stop go on.
        pa.enable_signal_handlers(False)
        return pcsv.read_csv(
            pa.BufferReader(data),
            read_options=pcsv.ReadOptions(
                use_threads=False,
                block_size=data.size + 1,
                column_names=[*map(str, range(len(names)))],
            ),
            parse_options=pcsv.ParseOptions(
                delimiter=self.delimiter, newlines_in_values=True, invalid_row_handler=skip
            ),
            convert_options=pcsv.ConvertOptions(
                check_utf8=False,
                include_columns=places,
                column_types=dict.fromkeys(places, pa.string()),
                null_values=[""],
                strings_can_be_null=True,
            ),
        ).rename_columns(list(columns.names))

    @staticmethod
    def _suspicious(data: Arrow) -> bool:
        """Whether a line has a quote, or a carriage return that does not end it."""
        text = memoryview(data).tobytes()
        return b'"' in text or (b"\r" in text and text.count(b"\r") != text.count(b"\r\n"))

    @property
    def _pattern(self) -> str:
        """A whole line: fields without quotes, or in quotes, in which a quote is written twice."""
        mark = re.escape(self.delimiter)
        one = rf'(?:[^"\r\n{mark}]*|"(?:[^"]|"")*")'
        return rf"^{one}(?:{mark}{one})*\r?\n?\z"


CSV_OPTIONS = (
    Option(name="delimiter", default=",", example=";", help="the character between two fields"),
    Option(
        name="names",
        several=True,
        example=["tapped_at", "station", "card"],
        help="the columns, where the first line does not name them",
    ),
    Option(
        name="quoted_newlines",
        type="flag",
        default=False,
        help="true if a field in quotes may go on over several lines",
    ),
)


def csv_format(options: Options) -> CsvFormat:
    """The format that these options describe."""
    return CsvFormat(
        delimiter=options["delimiter"],
        names=options["names"],
        quoted_newlines=options["quoted_newlines"],
    )


def _write(path: Path, events: Sequence[TrialEvent]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([TrialEvent._fields, *events])


KIND = file_kind(
    "csv",
    "Files of comma-separated values, or with another delimiter.",
    csv_format,
    options=CSV_OPTIONS,
    suffixes=(".csv",),
    column_types=csv_columns,
    write=_write,
)

if not TYPE_CHECKING:
    __getattr__ = moved(__name__)
