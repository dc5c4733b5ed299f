"""`penstock export`."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import numpy as np
from cyclopts import Parameter
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from penstock.cli.completers import StreamNames
from penstock.cli.store_argument import chosen, open_store
from penstock.core.arrays import BoolArray, FloatArray
from penstock.core.column_descriptions import describe_columns
from penstock.core.errors import ConfigurationError
from penstock.core.files import replacing
from penstock.core.released import Released
from penstock.engine.ledger_report import streams_of
from penstock.engine.store import Reader
from penstock.released import encoding
from penstock.released.series import Series
from penstock.released.sinks.release_document import (
    COLUMNS,
    CONFIDENCE,
    ReleasedNumbers,
    arrow,
    moment,
    numbers,
    plain,
)

Format: TypeAlias = Literal["store", "parquet", "csv", "jsonl"]

_SUFFIXES: dict[str, Format] = {
    ".db": "store",
    ".parquet": "parquet",
    ".csv": "csv",
    ".jsonl": "jsonl",
}
_NUMBERS_PER_BATCH = 1_000_000
"""About how many numbers are held in memory at a time."""

Batch: TypeAlias = tuple[Series, list[Released]]


def export(
    store: str,
    out: Path,
    /,
    *,
    stream: StreamNames = (),
    as_format: Annotated[Format | None, Parameter(name="--format")] = None,
) -> None:
    """Write the public part of a store into one file, for others without access to the store.

    An exported store has releases and ledgers. It can be verified and queried like the original;
    export to the same file again to bring it up to date. A table has one row per unit and key, with
    these columns: series, unit, begins, ends, key, value, deviation (of the noise), low and high
    (a 95 % interval), repeated (whether an earlier release is repeated).

    For example:

    * penstock export taps.db public.db

    * penstock export taps.db taps.parquet --stream taps/hourly

    * penstock export pipeline.toml releases.csv

    Parameters
    ----------
    store
        The store: a file, postgresql://… (the password in PGPASSWORD), or the pipeline.toml that
        names it.
    out
        The file to write. A table never replaces a file.
    stream
        Only this stream with all its views, or only this view. May be given several times.
    as_format
        The format. Default: by the file's ending, which is .db, .parquet, .csv or .jsonl.
    """
    form = as_format or _SUFFIXES.get(out.suffix)
    if form is None:
        raise ConfigurationError(
            f"{out.name} does not end in .db, .parquet, .csv or .jsonl: choose a format with "
            "--format."
        )
    if form != "store" and out.exists():
        raise ConfigurationError(
            f"{out} exists already, and is not replaced: choose another file, or delete it."
        )
    if not out.parent.is_dir():
        raise ConfigurationError(
            f"there is no folder {out.parent.absolute()}. Make it, or name another place."
        )
    with open_store(store) as reader:
        names = _names(reader, stream)
        units = {name: reader.head(name).unit for name in names}
        if form == "store":
            from penstock.engine.export import export as export_store

            export_store(reader, out, series=names)
        else:
            with _new(out) as fresh, _WRITERS[form](fresh) as write:
                for batch in _batches(reader, units):
                    write(batch)
    told = ", ".join(
        f"{name} ({unit:,} {'unit' if unit == 1 else 'units'})" for name, unit in units.items()
    )
    Console().print(Text(f"Wrote {out}: {told or 'nothing, the store is empty'}."), soft_wrap=True)


def _names(reader: Reader, streams: Sequence[str]) -> tuple[str, ...]:
    """The names of the chosen series, each once."""
    if not streams:
        return reader.series_names
    known = {
        name: tuple(each.name for each in views.series.values())
        for name, views in streams_of(reader).items()
    }
    every = {name: (name,) for name in reader.series_names} | known
    return tuple(dict.fromkeys(name for stream in streams for name in every[chosen(every, stream)]))


def _batches(reader: Reader, units: dict[str, int]) -> Iterator[Batch]:
    """All releases up to these units, some units at a time, with a progress bar."""
    screen = Console(stderr=True)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeRemainingColumn())
    with Progress(
        *columns, console=screen, transient=True, disable=not screen.is_terminal
    ) as progress:
        for name, last in units.items():
            task = progress.add_task(name, total=last)
            series = reader.series(name)
            step = max(_NUMBERS_PER_BATCH // series.domain.size, 1)
            for first in range(1, last + 1, step):
                end = min(first + step - 1, last)
                yield series, list(reader.releases(name, first, end))
                progress.update(task, completed=end)


@contextmanager
def _new(out: Path) -> Iterator[Path]:
    """A temporary file that gets its name when it is whole."""
    with replacing(out) as fresh:
        yield fresh
        if out.exists():
            raise ConfigurationError(
                f"{out} was made by another program meanwhile, and is not replaced."
            )


# -- tables ----------------------------------------------------------------------------------------


def _times(series: Series, unit: int) -> tuple[datetime | None, datetime | None]:
    if series.calendar is None:
        return None, None
    return series.calendar.start(unit).astimezone(UTC), series.calendar.end(unit).astimezone(UTC)


def _computed(releases: Iterable[Released]) -> Iterator[tuple[Released, ReleasedNumbers]]:
    """Every release with its numbers; those of a repeated release are not computed again."""
    before, of = b"", None
    for release in releases:
        body = encoding.body(release)
        if of is None or body != before:
            before, of = body, numbers(release)
        else:
            of = replace(
                of, repeated=np.broadcast_to(np.asarray(release.repeated, np.bool_), of.value.shape)
            )
        yield release, of


def _rows(batch: Batch) -> Iterator[tuple[Any, ...]]:
    """One row per unit and key, as plain values."""
    series, releases = batch
    for release, of in _computed(releases):
        begins, ends = (
            None if when is None else moment(when) for when in _times(series, release.unit)
        )
        columns: list[Iterable[Any]] = [
            plain(each) for each in (of.value, of.deviation, of.low, of.high)
        ]
        for row in zip(series.domain.keys, *columns, of.repeated.tolist(), strict=True):
            yield (series.name, release.unit, begins, ends, *row)


Writer: TypeAlias = Callable[[Batch], None]


@contextmanager
def _csv(path: Path) -> Iterator[Writer]:
    with path.open("w", encoding="utf-8", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(COLUMNS)
        yield lambda batch: out.writerows((*row[:-1], str(row[-1]).lower()) for row in _rows(batch))


@contextmanager
def _jsonl(path: Path) -> Iterator[Writer]:
    with path.open("w", encoding="utf-8", newline="") as file:

        def write(batch: Batch) -> None:
            for row in _rows(batch):
                file.write(
                    json.dumps(
                        dict(zip(COLUMNS, row, strict=True)), ensure_ascii=False, allow_nan=False
                    )
                    + "\n"
                )

        yield write


@contextmanager
def _parquet(path: Path) -> Iterator[Writer]:
    pa, pq = arrow(), arrow("pyarrow.parquet")
    number, when = pa.float64(), pa.timestamp("us", "UTC")
    kinds = (
        pa.string(),
        pa.int64(),
        when,
        when,
        pa.string(),
        number,
        number,
        number,
        number,
        pa.bool_(),
    )
    means = describe_columns(confidence=CONFIDENCE)
    schema = pa.schema(
        [
            pa.field(name, kind, metadata={"description": means[name]})
            for name, kind in zip(COLUMNS, kinds, strict=True)
        ]
    )
    with pq.ParquetWriter(path, schema, compression="zstd") as out:

        def write(batch: Batch) -> None:
            series, releases = batch
            size = series.domain.size
            every = [of for _, of in _computed(releases)]
            units = [release.unit for release in releases]
            spans = [_times(series, unit) for unit in units]
            columns = [
                pa.repeat(pa.scalar(series.name), size * len(units)),
                np.repeat(np.array(units, np.int64), size),
                *(
                    pa.array([span[end] for span in spans], when).take(_each(len(units), size))
                    for end in (0, 1)
                ),
                pa.array(series.domain.keys * len(units), pa.string()),
                *(
                    _known([getattr(of, name) for of in every])
                    for name in ("value", "deviation", "low", "high")
                ),
                np.concatenate([of.repeated for of in every]),
            ]
            out.write_table(pa.table([pa.array(each) for each in columns], schema=schema))

        yield write


def _each(units: int, size: int) -> Any:
    return arrow().array(np.repeat(np.arange(units), size))


def _known(columns: Sequence[FloatArray | BoolArray]) -> Any:
    """Null where a number is not known or has no bounds."""
    values = np.concatenate(columns)
    return arrow().array(values, mask=~np.isfinite(values))


_WRITERS: dict[str, Callable[[Path], AbstractContextManager[Writer]]] = {
    "csv": _csv,
    "jsonl": _jsonl,
    "parquet": _parquet,
}
