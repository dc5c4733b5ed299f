"""Parquet files in folders by series and day, for polars, DuckDB, Spark and PyArrow.

::

    releases/series=taps/day=2026-01-01/units-0000000001-0000000024.parquet
    releases/series=taps/day=2026-01-02/unit-0000000025.parquet
    releases/series=taps/day=2026-01-02/unit-0000000026.parquet

The name of a series is quoted as in a URL ("/" is %2F), which readers undo. The day is that of the
unit's beginning, in UTC. A file holds the units of one put and day; its metadata hold the newest
unit and its link, the promise, and what each column means. It is written under a name that begins
with a dot, synced to disk and renamed, and never changed. So a reader sees a unit whole and once,
or not at all. When a day is over, its files become one (`parquet_days`). Read
`releases/**/*.parquet`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from penstock.core.declaration import EndpointSetup, Option
from penstock.core.deprecated import moved
from penstock.core.files import make_folder, replacing
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
from penstock.released.sinks.parquet_days import PART_NAME, ROWS_PER_GROUP, DayMerger, file_name
from penstock.released.sinks.release_document import (
    COLUMNS,
    LONG_COLUMNS,
    arrow,
    file_facts,
    table,
)

MAX_ROWS_PER_FILE = 1_000_000
"""About the most rows of a file. A single unit may have more."""


class ParquetSink:
    """A folder of Parquet files: one row per key and unit.

    Parameters
    ----------
    path : path
        The folder.
    compact : bool
        Whether the files of a day become one when the day is over. Default: True.
    long : bool
        Whether files have the columns of the long format only. Default: False.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, compact: bool = True, long: bool = False
    ) -> None:
        self.path = Path(path).absolute()
        self._columns = LONG_COLUMNS if long else COLUMNS[1:]
        self._merger = DayMerger(self.path) if compact else None
        self._heads: dict[str, SinkHead | None] = {}
        self._tidy: set[Path] = set()

    def __repr__(self) -> str:
        return f"<Parquet {self.path.name!r}>"

    def head(self, series: str) -> tuple[int, str] | None:
        """The newest unit of the newest day, from the newest file's metadata."""
        with on_disk(self.path):
            self._heads[series] = head = _head(self._folder(series), series)
            return head

    def put(self, items: Sequence[ReleaseItem]) -> None:
        fresh: list[Sequence[ReleaseItem]] = []
        for series, each in in_order(items).items():
            if series not in self._heads:
                self.head(series)
            fresh.append(missing(each, self._heads[series]))
        for part in (part for each in fresh for part in _parts(each)):
            last = part[-1]
            try:
                with on_disk(self.path):
                    self._write(part)
            except BaseException:
                self._heads.pop(last.series.name, None)
                raise
            self._heads[last.series.name] = SinkHead(last.unit, last.link)
        for newest in (each[-1] for each in fresh if each):
            with on_disk(self.path):
                self._merge(newest)

    def close(self) -> None:
        """Nothing is open."""

    def _merge(self, newest: ReleaseItem) -> None:
        if self._merger is not None:
            over = newest.ends.date() > newest.begins.date()
            self._merger.merge(self._folder(newest.series.name), _day(newest), included=over)

    def _folder(self, series: str) -> Path:
        return self.path / f"series={quote(series, safe='')}"

    def _write(self, items: Sequence[ReleaseItem]) -> None:
        first, last = items[0], items[-1]
        folder = self._folder(first.series.name) / _day(first)
        make_folder(folder)
        if folder not in self._tidy:
            for left in folder.iterdir():
                if left.name.startswith(".unit") and left.suffix == ".new":
                    left.unlink()
            self._tidy = {each for each in self._tidy if each.parent != folder.parent} | {folder}
        path = folder / file_name(first.unit, last.unit)
        with replacing(path) as fresh, fresh.open("wb") as file:
            _encode(items, self._columns, file)


def _day(item: ReleaseItem) -> str:
    return f"day={item.begins.date().isoformat()}"


def _parts(items: Sequence[ReleaseItem]) -> Iterator[list[ReleaseItem]]:
    """The items of each file: of one day, and not too many."""
    for _, day in groupby(items, _day):
        part: list[ReleaseItem] = []
        for item in day:
            if part and (len(part) + 1) * item.series.domain.size > MAX_ROWS_PER_FILE:
                yield part
                part = []
            part.append(item)
        yield part


def _encode(items: Sequence[ReleaseItem], columns: Sequence[str], file: Any) -> None:
    pa, pq = arrow(), arrow("pyarrow.parquet")
    last, waiting, rows = items[-1], [], 0
    schema = table(items[0], columns).schema.with_metadata(file_facts(items))
    with pq.ParquetWriter(file, schema, compression="zstd", write_statistics=True) as writer:
        for item in items:
            waiting.append(table(item, columns))
            rows += item.series.domain.size
            if rows >= ROWS_PER_GROUP or item is last:
                writer.write_table(pa.concat_tables(waiting), row_group_size=rows)
                waiting, rows = [], 0


def _head(folder: Path, series: str) -> SinkHead | None:
    try:
        days = sorted(
            (day for day in folder.iterdir() if day.name.startswith("day=")), reverse=True
        )
    except FileNotFoundError:
        return None
    for day in days:
        found = [
            (int(match[2]), match[0])
            for match in map(PART_NAME.fullmatch, (file.name for file in day.iterdir()))
            if match
        ]
        if found:
            return _told(day / max(found)[1], max(found)[0], series)
    return None


def _told(path: Path, unit: int, series: str) -> SinkHead:
    pa, pq = arrow(), arrow("pyarrow.parquet")
    try:
        about = pq.read_metadata(path).metadata or {}
    except pa.ArrowException:
        about = {}
    link = about.get(b"penstock.link", b"").decode()
    if (
        not link
        or about.get(b"penstock.unit") != b"%d" % unit
        or about.get(b"penstock.series") != series.encode()
    ):
        raise SinkError(
            f"{path.name}, the newest file of {series!r}, is damaged or was not written by this "
            "sink: move it away, and what is missing will be written again.",
            lasting=True,
        )
    return SinkHead(unit, link)


def _build(setup: EndpointSetup) -> ParquetSink:
    options = setup.options
    return ParquetSink(
        setup.folder / options["path"],
        compact=options["compact"],
        long=options["format"] == "long",
    )


KIND = SinkKind(
    name="parquet",
    summary="A folder of Parquet files by series and day, one row per key and unit.",
    options=(
        path_option("releases", "the folder, from the folder of this file"),
        Option(
            name="compact",
            type="flag",
            default=True,
            example=True,
            help="whether the files of a day become one when the day is over, in UTC",
        ),
        format_option(),
    ),
    describe=lambda options: f"Parquet files in {options['path']}",
    build=_build,
    fence=lambda setup: head_file_beside(setup.folder / setup.options["path"]),
    place=("path",),
    trial=lambda folder: {"path": "releases"},
    gathers=True,
)

if not TYPE_CHECKING:
    __getattr__ = moved(__name__)
