"""Guess the columns of a file of events from names and types. Values are never shown."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias

ColumnTypes: TypeAlias = Callable[[Path], Mapping[str, str]]
"""Gives the columns of a file by name, each "integer" or "other"."""

_NAME = re.compile(r"[A-Za-z_][\w .:/()-]{0,63}")
_MAX_FIRST_LINE_BYTES = 65_536
"""The most bytes of a first line that are read."""

_TIMES = re.compile(r"time|stamp|date|^ts$|_ts$|_at$|when", re.IGNORECASE)
_PERSONS = re.compile(
    r"user|person|people|card|customer|member|client|patient|device|visitor|rider|passenger|phone",
    re.IGNORECASE,
)
_KEYS = re.compile(
    r"key|station|stop|place|location|room|area|gate|category|product|type|line|site|building|store",
    re.IGNORECASE,
)


@dataclass(frozen=True, kw_only=True)
class Guess:
    """The names of a file's columns, and which of them may be time, key and person."""

    names: tuple[str, ...] = ()
    time: str | None = None
    key: str | None = None
    person: str | None = None
    kinds: Mapping[str, str] = field(default_factory=dict)

    def types(self, source: Mapping[str, Any]) -> dict[str, str]:
        """The source's options for keys and persons that hold whole numbers."""
        found = {
            f"{each}_type": self.kinds.get(str(source.get(each))) for each in ("key", "person")
        }
        return {name: kind for name, kind in found.items() if kind == "integer"}

    def clock(self, source: Mapping[str, Any]) -> str:
        """How times are probably written."""
        return "seconds" if self.kinds.get(str(source.get("time"))) == "integer" else "iso"


def guess(column_types: ColumnTypes, folder: Path, pattern: str) -> Guess:
    """A guess from the schema of the first file of a pattern; empty if it cannot be read."""
    file = _first(folder, pattern)
    if file is None:
        return Guess()
    kinds = column_types(file)
    names = tuple(kinds)
    time = _like(_TIMES, names)
    person = _like(_PERSONS, names, time)
    rest = [name for name in names if name not in (time, person)]
    key = _like(_KEYS, rest) or (rest[0] if rest else None)
    return Guess(names=names, time=time, key=key, person=person, kinds=kinds)


def _first(folder: Path, pattern: str) -> Path | None:
    path = folder / pattern
    try:
        if path.is_file():
            return path
        start = Path(path.anchor) if path.is_absolute() else folder
        relative = path.relative_to(start) if path.is_absolute() else Path(pattern)
        return min((found for found in start.glob(str(relative)) if found.is_file()), default=None)
    except (OSError, ValueError, NotImplementedError):
        return None


def _like(what: re.Pattern[str], names: Sequence[str], but: str | None = None) -> str | None:
    return next((name for name in names if name != but and what.search(name)), None)


def parquet_columns(file: Path) -> dict[str, str]:
    """The names of the columns, and which of them hold whole numbers."""
    try:
        schema = import_module("pyarrow.parquet").read_schema(file)
        whole = import_module("pyarrow").types.is_integer
    except Exception:  # no PyArrow, or no Parquet: the questions do without
        return {}
    return {
        name: "integer" if whole(schema.field(name).type) else "other"
        for name in dict.fromkeys(schema.names)
    }


def _line(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            return opened.readline(_MAX_FIRST_LINE_BYTES).decode("utf-8-sig").rstrip("\r\n")
    except (OSError, UnicodeDecodeError):
        return ""


def csv_columns(file: Path) -> dict[str, str]:
    """The names in the first line; none if any does not look like a name, as it may be an event.

    Every event has a time, and no time begins with a letter or an underscore.
    """
    try:
        names = tuple(next(csv.reader([_line(file)]), ()))
    except csv.Error:
        return {}
    return dict.fromkeys(names, "other") if all(map(_NAME.fullmatch, names)) else {}


def jsonl_columns(file: Path) -> dict[str, str]:
    """The names of the fields in the first line."""
    try:
        found = json.loads(_line(file))
    except (ValueError, RecursionError):
        return {}
    names = filter(_NAME.fullmatch, found) if isinstance(found, dict) else ()
    return dict.fromkeys(names, "other")
