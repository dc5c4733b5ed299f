"""One Parquet file per day: the files of a day that is over become one.

Several names cannot be replaced by one in a single step, but a folder can be exchanged for another.
The one file is written into a folder beside the releases (`….compacting`), which no reader of the
releases looks into. Then the two folders are exchanged, and the old files are removed. So a reader
that lists the folder of a day sees the old files or the new one. A process that is killed leaves
one of the two, and what it left beside them is removed at the next start.

Where folders cannot be exchanged, files stay as they are: a file system without that step, or
releases that are a mount point of their own.
"""

from __future__ import annotations

import logging
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

from penstock.core.files import exchange, make_folder, replacing
from penstock.released.sinks.release_document import arrow

MAX_DAYS_PER_PUT = 10
"""The most days that are merged after one put. More of them wait for the next put."""

ROWS_PER_GROUP = 2**17
"""About the rows of a row group."""

PART_NAME = re.compile(r"units?-(?:([0-9]{10,})-)?([0-9]{10,})\.parquet")
"""The name of a file: its first unit, if it has several, and its last."""

_LEFT = re.compile(r"\.units?-.*\.new")
_OF_EACH = (b"penstock.unit", b"penstock.link", b"penstock.signature", b"penstock.private")
"""Facts of a file that the files of a day may differ in."""

log = logging.getLogger(__name__)


def file_name(first: int, last: int) -> str:
    """The name of a file with these units."""
    if first == last:
        return f"unit-{last:010}.parquet"
    return f"units-{first:010}-{last:010}.parquet"


class DayMerger:
    """Merges the files of days that are over, below one folder of releases.

    Parameters
    ----------
    path : Path
        The folder of the releases.
    """

    def __init__(self, path: Path) -> None:
        self._beside = path.with_name(f"{path.name}.compacting")
        self._done: dict[Path, tuple[str, tuple[str, bool]]] = {}
        """Of each series: the last day that was merged, and what was asked for last."""

    def merge(self, series: Path, until: str, *, included: bool) -> None:
        """Merge the days of a series before `until`, or up to it; those of earlier starts too.

        An error of the disk is logged and changes nothing: all releases are in the files of before.

        Parameters
        ----------
        series : Path
            The folder of the series.
        until : str
            The name of a day's folder.
        included : bool
            Whether that day is over, too.
        """
        beside = self._beside / series.name
        if series not in self._done:
            shutil.rmtree(beside, ignore_errors=True)
        done, asked = self._done.get(series, ("", ("", False)))
        if asked == (until, included):
            return
        names = (day.name for day in series.iterdir() if day.name.startswith("day="))
        days = sorted(day for day in names if done < day < until or (included and day == until))
        for day in days[:MAX_DAYS_PER_PUT]:
            self._try(series / day, beside / day)
            done = day
        all_done = len(days) <= MAX_DAYS_PER_PUT
        self._done[series] = done, (until, included) if all_done else ("", False)

    def _try(self, day: Path, beside: Path) -> None:
        try:
            _merge(day, beside)
        except (OSError, arrow().ArrowException) as error:
            reason = error.strerror if isinstance(error, OSError) else None
            log.warning(
                "parquet: the files of a day were not merged (%s). All releases are there.",
                reason or type(error).__name__,
            )
            shutil.rmtree(beside, ignore_errors=True)


def _merge(day: Path, beside: Path) -> None:
    """Make the files of a day one. A folder with anything else in it is left alone."""
    pq = arrow("pyarrow.parquet")
    parts = _parts(day)
    if len(parts) < 2:
        return
    files = [pq.ParquetFile(day / name) for _, _, name in parts]
    try:
        schema = _schema([each.schema_arrow for each in files])
        if schema is None:
            return
        make_folder(beside)
        with (
            replacing(beside / file_name(parts[0][0], parts[-1][1])) as fresh,
            fresh.open("wb") as out,
            pq.ParquetWriter(out, schema, compression="zstd", write_statistics=True) as writer,
        ):
            for group in _groups(files):
                writer.write_table(group.cast(schema), row_group_size=group.num_rows)
    finally:
        for each in files:
            each.close()
    exchange(day, beside)
    shutil.rmtree(beside)
    with suppress(OSError):  # other series may be there
        beside.parent.rmdir()
        beside.parent.parent.rmdir()


def _parts(day: Path) -> list[tuple[int, int, str]]:
    """The files of a day: first unit, last unit and name, in order; empty if they are not all ours.

    They must follow each other without a gap.
    """
    found = []
    for path in day.iterdir():
        name = PART_NAME.fullmatch(path.name)
        if name:
            found.append((int(name[1] or name[2]), int(name[2]), path.name))
        elif not _LEFT.fullmatch(path.name):
            return []
    found.sort()
    follows = all(one[1] + 1 == other[0] for one, other in pairwise(found))
    return found if follows else []


def _schema(schemas: Sequence[Any]) -> Any:
    """The schema of all, with the facts of the last one; None if they differ in more than units."""
    first, last = schemas[0], schemas[-1]
    for each in schemas:
        if not each.remove_metadata().equals(last.remove_metadata()):
            return None
        if _lasting(each) != _lasting(last):
            return None
    private = all(_facts(each).get(b"penstock.private") == b"true" for each in schemas)
    return first.with_metadata({**_facts(last), b"penstock.private": str(private).lower()})


def _facts(schema: Any) -> dict[bytes, bytes]:
    return dict(schema.metadata or {})


def _lasting(schema: Any) -> dict[bytes, bytes]:
    return {name: text for name, text in _facts(schema).items() if name not in _OF_EACH}


def _groups(files: Sequence[Any]) -> Iterator[Any]:
    """The rows of all files in order, in row groups of about one size."""
    pa = arrow()
    waiting: list[Any] = []
    for file in files:
        for group in range(file.num_row_groups):
            waiting.append(file.read_row_group(group))
            if sum(each.num_rows for each in waiting) >= ROWS_PER_GROUP:
                yield pa.concat_tables(waiting)
                waiting = []
    if waiting:
        yield pa.concat_tables(waiting)
