"""Tables of Parquet files: columns that lie in the names of folders, and times in UTC."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from typing import Final
from urllib.parse import unquote

from penstock.private.sources.base import Arrow, Columns, arrow

FOLDER_TYPES: Final[Mapping[str, str]] = {
    "string": "string",
    "varchar": "string",
    "tinyint": "int8",
    "smallint": "int16",
    "int": "int32",
    "bigint": "int64",
    "date": "date32",
}
"""The types of columns that can be read from the names of folders, and Arrow's names of them.

A timestamp is not among them: its text is in the time zone of whoever wrote it.
"""

INSTANT: Final = "timestamp_ltz"
"""The type of times that are instants. Files may hold them without a time zone, in UTC."""

_NULL: Final = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True, kw_only=True)
class TableLayout:
    """What a table knows of its columns and its files do not.

    Parameters
    ----------
    folders : mapping of str to str
        Columns that partition the table, so that their values are in the names of folders, as in
        `station=north`. Each has a type of `FOLDER_TYPES`. Default: none.
    instants : sequence of str
        Columns of times that are instants, also where a file has no time zone. Default: none.
    """

    folders: Mapping[str, str] = field(default_factory=dict)
    instants: Sequence[str] = ()

    def names_in_files(self, columns: Columns) -> tuple[str, ...]:
        """The columns that files themselves must have."""
        return tuple(name for name in columns.names if name not in self.folders)

    def lacks(self, path: str) -> str:
        """A column whose value is in no name of a folder of this path; empty if all are."""
        found = folder_values(path)
        return next((name for name in self.folders if name.casefold() not in found), "")

    def completed(self, rows: Arrow, path: str) -> Arrow:
        """The rows of a file with all columns.

        >>> layout = TableLayout(folders={"station": "string", "year": "int"})
        >>> rows = arrow().record_batch({"card": [1, 2]})
        >>> layout.completed(rows, "year=2026/station=Old%3ATown/part-0.parquet").to_pylist()[0]
        {'card': 1, 'station': 'Old:Town', 'year': 2026}
        """
        pa, found = arrow(), folder_values(path)
        arrays = {name: self._in_utc(name, rows.column(name)) for name in rows.schema.names}
        for name, kind in self.folders.items():
            scalar = pa.scalar(
                _value(found.get(name.casefold()), kind), pa.type_for_alias(FOLDER_TYPES[kind])
            )
            arrays[name] = pa.repeat(scalar, rows.num_rows)
        return pa.record_batch(arrays)

    def _in_utc(self, name: str, column: Arrow) -> Arrow:
        pa = arrow()
        kind = column.type
        if name in self.instants and pa.types.is_timestamp(kind) and kind.tz is None:
            return column.cast(pa.timestamp(kind.unit, "UTC"))
        return column


def folder_values(path: str) -> dict[str, str | None]:
    """The values that the names of a path's folders give to columns, by name in small letters.

    >>> folder_values("Day=2026-01-01/station=a%2Fb/part=0.parquet")
    {'day': '2026-01-01', 'station': 'a/b'}
    """
    found: dict[str, str | None] = {}
    for folder in path.split("/")[:-1]:
        name, equals, value = folder.partition("=")
        if equals:
            found[unquote(name).casefold()] = None if value == _NULL else unquote(value)
    return found


def _value(text: str | None, kind: str) -> str | int | date | None:
    """The value of a text; None if it is not of its type."""
    if text is None or FOLDER_TYPES[kind] == "string":
        return text
    with suppress(ValueError):
        if kind == "date":
            return date.fromisoformat(text)
        bits = int(FOLDER_TYPES[kind].removeprefix("int"))
        number = int(text)
        return number if -(2 ** (bits - 1)) <= number < 2 ** (bits - 1) else None
    return None
