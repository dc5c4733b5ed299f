"""A public sample from a file: events, counts per time and key, or one column of counts per key."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np

from penstock.core.arrays import IntArray
from penstock.core.calendar import Calendar
from penstock.core.domain import Domain
from penstock.core.errors import ConfigurationError
from penstock.engine.plan.public_counts import PublicCounts
from penstock.private.sources.base import Arrow, Columns, Intake, Rejections, arrow

COUNT = "count"
"""The column of counts. Without it, each row is one event."""

MAX_SAMPLE_CELLS = 20_000_000
"""The most units × keys of a sample."""

_ROW = "penstock row"


def counts_of_sample(
    path: Path,
    *,
    columns: Columns | None,
    domain: Domain,
    every: str,
    zone: str = "UTC",
    other: str | None = None,
) -> PublicCounts:
    """Read a public sample.

    Parameters
    ----------
    path : Path
        A CSV or Parquet file. With the columns of time and key it holds events, or counts if it
        has a column `count`. Otherwise each column is a key, and each row a unit.
    columns : Columns, optional
        The names of the columns of events. Default: every column is a key.
    domain : Domain
        The keys. If fewer than half of the rows have one of them, the keys of the sample stand in.
    every : str
        The length of a unit.
    zone : str
        The time zone of units. Default: "UTC".
    other : str, optional
        The key that counts unknown keys. Default: none, they are dropped.
    """
    table = _table(path, columns)
    names = table.column_names
    if columns is not None and {columns.time, *columns.keys} <= set(names):
        return _events(path, table, columns, domain, every, zone, other)
    return _wide(path, table, domain, every)


def _table(path: Path, columns: Columns | None) -> Arrow:
    pa = arrow()
    try:
        if path.suffix == ".parquet":
            return arrow("pyarrow.parquet").read_table(path)
        if path.suffix == ".csv":
            csv = arrow("pyarrow.csv")
            texts = {} if columns is None else dict.fromkeys(columns.names, pa.string())
            if columns is not None and columns.clock != "iso":
                texts[columns.time] = pa.int64()
            return csv.read_csv(path, convert_options=csv.ConvertOptions(column_types=texts))
    except pa.ArrowException as error:
        raise ConfigurationError(
            f"sample: {path.name} cannot be read ({type(error).__name__}: {error}).",
            parameter="sample",
        ) from None
    raise ConfigurationError(
        f"sample: {path.name} must end in .csv or .parquet.", parameter="sample"
    )


def _events(
    path: Path,
    table: Arrow,
    columns: Columns,
    domain: Domain,
    every: str,
    zone: str,
    other: str | None,
) -> PublicCounts:
    counted = COUNT in table.column_names and COUNT not in columns.names
    number = _whole(path, table, COUNT) if counted else np.ones(table.num_rows, np.int64)
    time, key, rows = _read(table, columns, domain, other)
    notes: tuple[str, ...] = ()
    if 2 * len(rows) < table.num_rows:
        several = [table.column(name).cast(arrow().string()) for name in columns.keys]
        if len(several) == 1:
            domain = Domain(tuple(sorted(filter(None, several[0].unique().to_pylist()))))
            time, key, rows = _read(table, columns, domain, None)
            notes = ("The sample has other keys than the pipeline. Its own keys stand in.",)
    if not len(rows):
        raise ConfigurationError(
            f"sample: no row of {path.name} has a time and a key that can be read.",
            parameter="sample",
        )
    first = datetime.fromtimestamp(int(time.min()) // 1_000_000, UTC).astimezone(ZoneInfo(zone))
    day = first.date().replace(day=1) if every.endswith("mo") else first.date()
    units = Calendar(every=every, zone=zone, origin=day.isoformat()).unit_of(time)
    units = units - units.min()
    if (int(units.max()) + 1) * domain.size > MAX_SAMPLE_CELLS:
        raise ConfigurationError(
            f"sample: {path.name} covers {int(units.max()) + 1:,} units of {every}, too many for "
            f"{domain.size:,} keys.",
            parameter="sample",
        )
    counts = np.zeros((int(units.max()) + 1, domain.size), np.int64)
    np.add.at(counts, (units, key), number[rows])
    what = "counts" if counted else "events"
    return PublicCounts(
        counts=counts,
        domain=domain,
        every=every,
        words=f"The counts come from {path.name}, a sample of {what} that is public by your "
        "statement.",
        notes=notes,
    )


def _read(
    table: Arrow, columns: Columns, domain: Domain, other: str | None
) -> tuple[IntArray, IntArray, IntArray]:
    """Time and key of each good row, and which row it is."""
    numbered = table.append_column(_ROW, arrow().array(np.arange(table.num_rows)))
    which = replace(columns, person=_ROW, person_type="integer", missing_person="drop")
    batch = Intake(columns=which, domain=domain, other=other).batch(
        numbered, position=None, rejections=Rejections()
    )
    assert isinstance(batch.person, np.ndarray)
    return batch.time, batch.key, batch.person


def _wide(path: Path, table: Arrow, domain: Domain, every: str) -> PublicCounts:
    """One column per key, one row per unit."""
    keys = [key for key in domain.keys if key in table.column_names]
    notes: tuple[str, ...] = ()
    if not keys:
        integer = arrow().types.is_integer
        keys = [each.name for each in table.schema if integer(each.type)]
        notes = ("The sample has other keys than the pipeline. Its own keys stand in.",)
    if not keys or not table.num_rows:
        raise ConfigurationError(
            f"sample: {path.name} has neither the columns of time and key, nor columns of counts "
            "that are named like keys.",
            parameter="sample",
        )
    if not notes and len(keys) < domain.size:
        notes = (f"The sample has {len(keys):,} of {domain.size:,} keys.",)
    counts = np.stack([_whole(path, table, key) for key in keys], axis=1)
    whole = len(keys) == domain.size and not notes
    return PublicCounts(
        counts=counts,
        domain=domain if whole else Domain(tuple(keys)),
        every=every,
        words=f"The counts come from {path.name}, a sample of counts that is public by your "
        "statement.",
        notes=notes,
    )


def _whole(path: Path, table: Arrow, name: str) -> IntArray:
    try:
        counts = np.asarray(table.column(name).cast(arrow().int64()).to_numpy(), np.int64)
        good = not table.column(name).null_count and (counts >= 0).all()
    except arrow().ArrowException:
        good = False
    if not good:
        raise ConfigurationError(
            f"sample: column {name!r} of {path.name} must hold whole numbers from 0 on.",
            parameter="sample",
        )
    return counts
