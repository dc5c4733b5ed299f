"""CSV files by series and day, and a JSON file beside them that says what they hold.

::

    releases/series=taps/2026-01-01.csv
    releases/series=taps/2026-01-02.csv
    releases/series=taps/about.json

The name of a series is quoted as in a URL ("/" is %2F). The day is that of the unit's beginning, in
UTC. Every put writes the newest file anew under another name and renames it: a reader sees a unit
whole or not at all. A large file is followed by another of the same day, `2026-01-01.2.csv`, so
that little is written twice.

`about.json` is renamed after each CSV file. It has the promise, the meaning of each column, the
newest unit with its link, and how long the newest file was then. If a crash falls between the two,
the next put cuts the file to that length and writes the same units again.
"""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from penstock.core.declaration import EndpointSetup, Option
from penstock.core.files import make_folder, remove_leftovers, replacing, write_file
from penstock.released.sinks.base import (
    ReleaseItem,
    SinkError,
    SinkHead,
    SinkKind,
    format_option,
    head_file_beside,
    in_order,
    missing,
    on_disk,
    path_option,
)
from penstock.released.sinks.release_document import (
    COLUMNS,
    LONG_COLUMNS,
    column_descriptions,
    file_facts,
    item_numbers,
    moment,
    plain,
)

FORMAT = ("penstock csv", 1)
MAX_BYTES_PER_FILE = 2**24
"""A file that is longer than this is not continued."""

BYTES_PER_COPY = 2**20
_NAME = re.compile(r"(\d{4}-\d\d-\d\d)(?:\.(\d+))?\.csv")


@dataclass(frozen=True)
class _CsvState:
    """What `about.json` says: the newest unit, the newest file and its length, and all facts."""

    head: SinkHead
    file: str
    size: int
    facts: Mapping[str, Any] = field(repr=False)


class CsvSink:
    """A folder of CSV files, one row per key and unit, one file per day.

    Parameters
    ----------
    path : path
        The folder.
    long : bool
        Whether files have the columns of the long format only. Default: False.
    comments : bool
        Whether each file begins with lines that start with "#" and have the promise and the meaning
        of the columns. Default: False, `about.json` alone has them.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, long: bool = False, comments: bool = False
    ) -> None:
        self.path = Path(path).absolute()
        self._columns = LONG_COLUMNS if long else COLUMNS[1:]
        self._comments = comments
        self._states: dict[str, _CsvState | None] = {}
        self._tidy: set[Path] = set()

    def __repr__(self) -> str:
        return f"<Csv {self.path.name!r}>"

    def head(self, series: str) -> tuple[int, str] | None:
        """The newest unit, from `about.json`."""
        with on_disk(self.path):
            self._states[series] = state = _read(self._folder(series) / "about.json", series)
        return None if state is None else state.head

    def put(self, items: Sequence[ReleaseItem]) -> None:
        fresh: list[Sequence[ReleaseItem]] = []
        for series, each in in_order(items).items():
            if series not in self._states:
                self.head(series)
            state = self._states[series]
            fresh.append(missing(each, None if state is None else state.head))
        for day in (list(day) for each in fresh for _, day in groupby(each, _day)):
            series = day[-1].series.name
            try:
                with on_disk(self.path):
                    self._states[series] = self._write(day, self._states[series])
            except BaseException:
                self._states.pop(series, None)
                raise

    def close(self) -> None:
        """Nothing is open."""

    def _folder(self, series: str) -> Path:
        return self.path / f"series={quote(series, safe='')}"

    def _write(self, items: Sequence[ReleaseItem], state: _CsvState | None) -> _CsvState:
        last = items[-1]
        folder = self._folder(last.series.name)
        make_folder(folder)
        facts = self._facts(items, state)
        file, size = self._place(folder, items, state, facts)
        path = folder / file
        if folder not in self._tidy:
            remove_leftovers(path)
            remove_leftovers(folder / "about.json")
            self._tidy.add(folder)
        with replacing(path) as fresh, fresh.open("wb") as out:
            if size:
                _copy(path, out, size)
            else:
                out.write(self._beginning(last))
            for item in items:
                out.write(_rows(item, self._columns))
            size = out.tell()
        content = {
            "format": FORMAT,
            "series": last.series.name,
            "unit": last.unit,
            "link": last.link,
            "file": file,
            "bytes": size,
            **facts,
        }
        write_file(
            folder / "about.json",
            msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n",
        )
        return _CsvState(SinkHead(last.unit, last.link), file, size, facts)

    def _facts(self, items: Sequence[ReleaseItem], state: _CsvState | None) -> dict[str, Any]:
        """What everybody who gets the files must know."""
        found: dict[str, Any] = {
            name.removeprefix("penstock."): text
            for name, text in file_facts(items).items()
            if name not in ("penstock.series", "penstock.unit", "penstock.link")
        }
        for name in ("filter", "nonnegative"):
            if name in found:
                found[name] = msgspec.json.decode(found[name])
        before = state is None or state.facts.get("private", False)
        found["private"] = bool(before and found["private"] == "true")
        means = column_descriptions(items[-1])
        return {**found, "columns": {name: means[name] for name in self._columns}}

    def _place(
        self,
        folder: Path,
        items: Sequence[ReleaseItem],
        state: _CsvState | None,
        facts: Mapping[str, Any],
    ) -> tuple[str, int]:
        """The file for these items, and how many of its bytes are kept."""
        day = _day(items[0])
        name = None if state is None else _NAME.fullmatch(state.file)
        if state is None or name is None or name[1] != day:
            return _unused(folder, f"{day}.csv"), 0
        size = _size(folder / state.file)
        if size is not None and size < state.size:
            raise SinkError(
                f"{state.file} is shorter than about.json says: something else has changed it. "
                "Move both away, and all files will be written again.",
                lasting=True,
            )
        same = all(state.facts.get(each) == facts.get(each) for each in _LASTING)
        if size is None:
            return state.file, 0  # it was moved away
        if same and state.size <= MAX_BYTES_PER_FILE:
            beginning = self._beginning(items[0])
            with (folder / state.file).open("rb") as file:
                if file.read(len(beginning)) == beginning:
                    return state.file, state.size
        return _unused(folder, f"{day}.{int(name[2] or 1) + 1}.csv"), 0

    def _beginning(self, item: ReleaseItem) -> bytes:
        """The first lines of every file."""
        lines = io.StringIO()
        if self._comments:
            means = column_descriptions(item)
            told = [f"series: {item.series.name}", f"promise: {item.series.promise}"]
            told += [f"{name}: {means[name]}" for name in self._columns]
            lines.writelines(f"# {' '.join(text.split())}\n" for text in told)
        csv.writer(lines, lineterminator="\n").writerow(self._columns)
        return lines.getvalue().encode()


_LASTING = ("mechanism", "guarantee", "filter", "nonnegative", "columns")
"""Facts that hold of a whole file. If one changes, another file is begun."""


def _day(item: ReleaseItem) -> str:
    return item.begins.date().isoformat()


def _rows(item: ReleaseItem, columns: Sequence[str]) -> bytes:
    """One line per key."""
    of, rows = item_numbers(item), item.series.domain.size
    made: dict[str, Any] = {
        "unit": [item.unit] * rows,
        "begins": [moment(item.begins)] * rows,
        "ends": [moment(item.ends)] * rows,
        "key": item.series.domain.keys,
        "value": plain(of.value),
        "deviation": plain(of.deviation),
        "low": plain(of.low),
        "high": plain(of.high),
        "repeated": ["true" if each else "false" for each in of.repeated.tolist()],
    }
    lines = io.StringIO()
    table: Iterator[tuple[Any, ...]] = zip(*(made[name] for name in columns), strict=True)
    csv.writer(lines, lineterminator="\n").writerows(table)
    return lines.getvalue().encode()


def _copy(path: Path, out: io.BufferedWriter, size: int) -> None:
    """Copy the first bytes of a file."""
    with path.open("rb") as file:
        while size:
            part = file.read(min(size, BYTES_PER_COPY))
            out.write(part)
            size -= len(part)


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return None


def _unused(folder: Path, name: str) -> str:
    """This name, if no file of others has it. A file of ours from before a crash is replaced."""
    try:
        with (folder / name).open("rb") as file:
            line = next((line for line in file if not line.startswith(b"#")), b"")
    except FileNotFoundError:
        return name
    if not line.startswith(b"unit,begins,"):
        raise SinkError(
            f"{name} was not written by this sink: move it away, or give the sink a folder of its "
            "own. Nothing was written.",
            lasting=True,
        )
    return name


def _read(path: Path, series: str) -> _CsvState | None:
    try:
        content = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
        if tuple(content["format"]) != FORMAT or content["series"] != series:
            raise ValueError
        head = SinkHead(int(content["unit"]), str(content["link"]))
        return _CsvState(head, str(content["file"]), int(content["bytes"]), content)
    except FileNotFoundError:
        return None
    except (msgspec.DecodeError, KeyError, TypeError, ValueError):
        raise SinkError(
            f"{path.name} of {series!r} is damaged or was not written by this sink: move it away, "
            "and all files of the series will be written again.",
            lasting=True,
        ) from None


def _build(setup: EndpointSetup) -> CsvSink:
    options = setup.options
    return CsvSink(
        setup.folder / options["path"],
        long=options["format"] == "long",
        comments=options["comments"],
    )


KIND = SinkKind(
    name="csv",
    summary="A folder of CSV files by series and day, one row per key and unit.",
    options=(
        path_option("releases", "the folder, from the folder of this file"),
        format_option(),
        Option(
            name="comments",
            type="flag",
            default=False,
            example=True,
            help='whether files begin with lines that start with "#" and have the promise and the '
            "meaning of columns; about.json has both in any case",
        ),
    ),
    describe=lambda options: f"CSV files in {options['path']}",
    build=_build,
    fence=lambda setup: head_file_beside(setup.folder / setup.options["path"]),
    place=("path",),
    trial=lambda folder: {"path": "releases"},
    gathers=True,
)
