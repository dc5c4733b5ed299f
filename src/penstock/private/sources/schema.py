"""Guess the columns of a file of events from names and types. Values are never shown."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Final, TypeAlias

ColumnTypes: TypeAlias = Callable[[Path], Mapping[str, str]]
"""Gives the columns of a file by name, each with one of `KINDS`."""

KINDS: Final = ("time", "integer", "text", "number", "flag", "other")
"""What a column holds by its type; "other" if the type is not known."""

_NAME = re.compile(r"[A-Za-z_][\w .:/()-]{0,63}")
_MAX_FIRST_LINE_BYTES = 65_536
"""The most bytes of a first line that are read."""

_TIMES = re.compile(r"time|stamp|date|^ts$|_ts$|_at$|when|^(start|begin|pick_?up)$", re.IGNORECASE)
_PERSONS = re.compile(
    r"user|person|people|card|customer|member|client|patient|device|visitor|rider|passenger|phone|"
    r"author|account|student|employee|subscriber|vehicle|bike|medallion|tail",
    re.IGNORECASE,
)
_KEYS = re.compile(
    r"key|station|stop|place|location|room|area|gate|category|product|type|line|site|building|"
    r"store|zone|borough|region|city|district|ward|airport|origin|dest|carrier|package|page|channel",
    re.IGNORECASE,
)
_SEVERAL = re.compile(r"[^s]s$", re.IGNORECASE)
"""A plural counts persons and does not name one: `passengers`."""


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
    file = first_file(folder, pattern)
    if file is None:
        return Guess()
    kinds = column_types(file)
    names = tuple(kinds)
    times = [name for name in names if kinds[name] == "time"]
    dated = times or [name for name in names if kinds[name] in ("integer", "text", "other")]
    time = _like(_TIMES, dated) or next(iter(times), None)
    rest = [name for name in names if name != time and kinds[name] in ("integer", "text", "other")]
    person = _like(_PERSONS, [name for name in rest if not _SEVERAL.search(name)])
    rest = [name for name in rest if name != person]
    texts = [name for name in rest if kinds[name] != "integer"]
    key = _like(_KEYS, rest) or next(iter(texts), None)
    return Guess(names=names, time=time, key=key, person=person, kinds=kinds)


def first_file(folder: Path, pattern: str) -> Path | None:
    """The file of this name, or the first of this pattern; None if there is none."""
    path = folder / pattern
    try:
        if path.is_file():
            return path
        start = Path(path.anchor) if path.is_absolute() else folder
        relative = path.relative_to(start) if path.is_absolute() else Path(pattern)
        return min((found for found in start.glob(str(relative)) if found.is_file()), default=None)
    except (OSError, ValueError, NotImplementedError):
        return None


def _like(what: re.Pattern[str], names: Sequence[str]) -> str | None:
    return next((name for name in names if what.search(name)), None)


def parquet_columns(file: Path) -> dict[str, str]:
    """The names and types in the footer of a Parquet file. No row is read."""
    try:
        return _kinds(import_module("pyarrow.parquet").read_schema(file))
    except Exception:  # it is not Parquet: the questions do without
        return {}


def arrow_columns(file: Path) -> dict[str, str]:
    """The names and types in the schema of an Arrow file. No row is read."""
    try:
        with file.open("rb") as opened:
            return _kinds(import_module("pyarrow.ipc").open_file(opened).schema)
    except Exception:  # it is not Arrow: the questions do without
        return {}


def _kinds(schema: Any) -> dict[str, str]:
    """The columns of a schema of Arrow."""
    types = import_module("pyarrow").types
    tests = {
        "time": (types.is_timestamp, types.is_date),
        "integer": (types.is_integer,),
        "text": (types.is_string, types.is_large_string, types.is_dictionary),
        "number": (types.is_floating, types.is_decimal),
        "flag": (types.is_boolean,),
    }
    return {
        name: next(
            (
                kind
                for kind, matching in tests.items()
                if any(test(schema.field(place).type) for test in matching)
            ),
            "other",
        )
        for place, name in enumerate(schema.names)
    }


def _line(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            return opened.readline(_MAX_FIRST_LINE_BYTES).decode("utf-8-sig").rstrip("\r\n")
    except (OSError, UnicodeDecodeError):
        return ""


def _header(file: Path) -> str:
    """The first line, byte by byte: nothing after it is read, not even into a buffer."""
    line = bytearray()
    try:
        with file.open("rb", buffering=0) as opened:
            while len(line) < _MAX_FIRST_LINE_BYTES and not line.endswith(b"\n"):
                byte = opened.read(1)
                if not byte:
                    break
                line += byte
        return line.decode("utf-8-sig").rstrip("\r\n")
    except (OSError, UnicodeDecodeError):
        return ""


def csv_columns(file: Path) -> dict[str, str]:
    """The names in the first line; none if any does not look like a name, as it may be an event.

    Every event has a time, and no time begins with a letter or an underscore.
    """
    try:
        names = tuple(next(csv.reader([_header(file)]), ()))
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
