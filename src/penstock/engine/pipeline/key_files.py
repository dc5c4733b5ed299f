"""Public files of keys: one key per line, or a column of a CSV, Parquet or Arrow file."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from penstock.core.errors import ConfigurationError
from penstock.core.optional import require
from penstock.engine.config_sections import nearest

TABLE_SUFFIXES: Final = (".csv", ".tsv", ".parquet", ".arrow", ".feather")
"""Endings of files whose keys are one of their columns."""

_CSV: Final = (".csv", ".tsv")
_ARROW: Final = (".arrow", ".feather")


def read_keys(path: Path, column: str | None = None) -> list[str]:
    """The keys in a file, each once, in the order of the file.

    Parameters
    ----------
    path : Path
        The file. By its ending it is a table (CSV, Parquet, Arrow) or a text.
    column : str, optional
        The column of a table. Default: the only column of a Parquet or Arrow file. A CSV file
        without a column is a text with one key per line.
    """
    if path.suffix in TABLE_SUFFIXES and (column is not None or path.suffix not in _CSV):
        with _explained(path):
            found = (_csv if path.suffix in _CSV else _arrow)(path.absolute(), column)
            return [key for key in dict.fromkeys(found) if key]
    if column is not None:
        raise ConfigurationError(
            f"{path.absolute()} is a text with one key per line: leave out column, which is for "
            f"files ending in {', '.join(TABLE_SUFFIXES)}."
        )
    return read_lines(path)


def read_lines(path: Path) -> list[str]:
    """The lines of a text that are not empty."""
    with _explained(path):
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    return [line.strip() for line in lines if line.strip()]


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Say with the whole path why a file cannot be read."""
    try:
        yield
    except OSError as error:
        raise ConfigurationError(
            f"{path.absolute()} cannot be read: {error.strerror or error}."
        ) from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"{path.absolute()} is not UTF-8: save it as UTF-8.") from None


def _csv(path: Path, column: str | None) -> list[str]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = csv.reader(file, delimiter="\t" if path.suffix == ".tsv" else ",")
        try:
            names = next(rows, [])
            place = names.index(chosen_column(path, names, column))
            return [row[place].strip() for row in rows if len(row) > place]
        except csv.Error as error:
            raise ConfigurationError(f"{path} is not CSV: {error}.") from None


def _arrow(path: Path, column: str | None) -> list[str]:
    pa = require("pyarrow", "columns", "reading keys from a table")
    table = _table(path, column)
    kind = table.column(0).type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if not (
        pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind)
    ):
        raise ConfigurationError(
            f"{path}: column {table.column_names[0]!r} is of type {kind}: keys must be texts or "
            "whole numbers."
        )
    return [str(value).strip() for value in table.column(0).to_pylist() if value is not None]


def _table(path: Path, column: str | None) -> Any:
    """The chosen column of a Parquet or Arrow file, or the error of one that is neither."""
    pa = require("pyarrow", "columns", "reading keys from a table")
    try:
        return _opened(path, column)
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        kind = "an Arrow" if path.suffix in _ARROW else "a Parquet"
        raise ConfigurationError(f"{path.absolute()} is not {kind} file.") from None


def _opened(path: Path, column: str | None) -> Any:
    """The chosen column of a Parquet or Arrow file, as a table."""
    if path.suffix in _ARROW:
        feather = require("pyarrow.feather", "columns", "reading keys from a table")
        table = feather.read_table(path)
        return table.select([chosen_column(path, table.column_names, column)])
    parquet = require("pyarrow.parquet", "columns", "reading keys from a table")
    name = chosen_column(path, parquet.read_schema(path).names, column)
    return parquet.read_table(path, columns=[name])


def only_column(path: Path) -> str | None:
    """The column that has the keys if nobody names one; None for a text. Values are not kept."""
    if path.suffix not in TABLE_SUFFIXES:
        return None
    if path.suffix in _CSV:
        with _explained(path), path.open(encoding="utf-8-sig", newline="") as file:
            rows = csv.reader(file, delimiter="\t" if path.suffix == ".tsv" else ",")
            return chosen_column(path, next(rows, []), None)
    with _explained(path):
        return str(_table(path, None).column_names[0])


def chosen_column(path: Path, names: list[str], column: str | None) -> str:
    """The column that was named, or the only one."""
    path, listed = path.absolute(), ", ".join(map(repr, names)) or "no columns"
    if column is None and len(names) == 1:
        return names[0]
    if column is None:
        raise ConfigurationError(
            f'{path} has several columns: write column = "…" beside it (with --keys: '
            f"{path.name}:COLUMN), one of {listed}."
        )
    if column not in names:
        raise ConfigurationError(
            f"{path} has no column {column!r}: it has {listed}.{nearest(column, names)}"
        )
    return column
