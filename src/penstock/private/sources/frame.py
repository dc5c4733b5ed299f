"""Data frames as a source: Polars (also lazy), pandas, Arrow tables, DuckDB relations, and others.

narwhals reads them all. Only the needed columns are taken, as Arrow arrays in memory. Nothing of a
frame is written anywhere, and no error shows a value of it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any

import numpy as np

from penstock.core.errors import (
    ConfigurationError,
    InputError,
    StateError,
    UnusableSourceError,
)
from penstock.private.sources.base import (
    Arrow,
    Batch,
    Columns,
    Intake,
    Position,
    Rejections,
    Source,
    SourceKind,
    SourceSetup,
    arrow,
    sealed,
)
from penstock.private.sources.files import MAX_ROWS_PER_BATCH, check_columns, joined

NAME = "the data frame"
"""The name of every frame in messages."""


def needed_columns(frame: Any, columns: Columns) -> Arrow:
    """The columns of a data frame that events are made of, as an Arrow table.

    Parameters
    ----------
    frame : data frame
        What narwhals takes: a Polars frame (also lazy), a pandas frame, an Arrow table, a DuckDB
        relation.
    columns : Columns
        The columns to take. One that is missing is an `UnusableSourceError`.
    """
    narwhals: Any = import_module("narwhals")
    there, problem, is_frame = list[str](), "", True
    try:
        known = narwhals.from_native(frame)
        there = [str(name) for name in known.collect_schema().names()]
    except TypeError:
        is_frame = False
    except Exception as error:  # of any library, and its text may show data
        problem = type(error).__name__
    if not is_frame:
        raise ConfigurationError(
            "source must be a path or a data frame: Polars, pandas, an Arrow table or a DuckDB "
            f"relation, and not an object of type {type(frame).__name__}. Nothing was read.",
            parameter="source",
        )
    if problem:
        raise UnusableSourceError(
            f"{NAME}: its columns cannot be read ({problem}). Nothing was released."
        )
    check_index(frame, columns, there)
    check_columns(columns, there, name=NAME)
    table = _taken(known, columns.names)
    if table is None:
        names = [name for name in columns.names if _taken(known, (name,)) is None]
        raise InputError(
            f"{NAME}: {', '.join(map(repr, names))} cannot be read as Arrow columns. Give each "
            "column values of one type, such as by astype(str) in pandas. Nothing was released."
        )
    return table


def check_index(frame: Any, columns: Columns, there: list[str]) -> None:
    """Say how a column that is an index of pandas becomes a column."""
    narwhals: Any = import_module("narwhals")
    if not narwhals.dependencies.is_pandas_dataframe(frame):
        return
    for name in columns.names:
        if name not in there and name in frame.index.names:
            raise UnusableSourceError(
                f"{NAME} has {name!r} as its index, and not as a column: publish "
                "df.reset_index(). Nothing was released."
            )


def _taken(frame: Any, names: tuple[str, ...]) -> Arrow | None:
    """Some columns as an Arrow table, in one go; None if that is not possible."""
    narwhals: Any = import_module("narwhals")
    try:
        chosen = frame.select(*names)
        if isinstance(chosen, narwhals.LazyFrame):
            return chosen.collect("pyarrow").to_arrow()
        return chosen.to_arrow()
    except Exception:  # of any library, and its text may show data
        return None


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class FrameSource(Source):
    """The events of a data frame, in the order of its rows.

    A later start goes on after the rows that were taken. They must still be there, as they were;
    otherwise a `StateError` is raised.

    Parameters
    ----------
    table : Arrow table
        The needed columns, as `needed_columns` takes them from a frame.
    intake : Intake
        Makes batches of the columns.
    rows : int
        The most rows of a batch. Default: 524,288.
    """

    table: Arrow
    intake: Intake
    rows: int = MAX_ROWS_PER_BATCH
    rejections: Rejections = field(default_factory=Rejections, init=False)

    def __repr__(self) -> str:
        return "FrameSource(private)"

    @property
    def resumable(self) -> bool:
        return True

    def progress(self, position: Position) -> float:
        """The share of the rows before a position."""
        return int(position["rows"]) / max(int(self.table.num_rows), 1)

    def batches(self, after: Position | None = None) -> Iterator[Batch]:
        """All rows after the position."""
        digest, row = _RowDigest(), 0
        if after is not None:
            row = self._rows_before(after)
            for batch, _ in self._read(0, row, Rejections()):
                digest.add(batch)
            if digest.position(row) != after:
                raise StateError(
                    f"{NAME} does not begin with the rows that were read before. Publish it under "
                    "another name, or with another store. Nothing was released."
                )
        for batch, end in self._read(row, self.table.num_rows, self.rejections):
            digest.add(batch)
            yield replace(batch, position=digest.position(end))

    def _rows_before(self, position: Position) -> int:
        rows = position.get("rows")
        if position.keys() != {"rows", "digest"} or type(rows) is not int or rows < 0:
            raise StateError("the position is not one of a data frame.")
        return min(rows, int(self.table.num_rows))

    def _read(self, first: int, end: int, rejections: Rejections) -> Iterator[tuple[Batch, int]]:
        """The batches of these rows, each with the row after it."""
        for start in range(first, end, self.rows):
            stop = min(start + self.rows, end)
            with sealed(NAME):
                table = self.table.slice(start, stop - start)
                batch = self.intake.batch(table, position=None, rejections=rejections)
            yield batch, stop


class _RowDigest:
    """A digest of events, the same whatever library they come from and however they are cut."""

    def __init__(self) -> None:
        self._parts = [hashlib.blake2b(digest_size=16) for _ in range(4)]

    def add(self, batch: Batch) -> None:
        """Take the next events in."""
        person = batch.person
        content: list[Any] = [batch.time, batch.key]
        if isinstance(person, np.ndarray):
            content.append(person)
        elif person is not None:
            pa = arrow()
            if pa.types.is_dictionary(person.type):
                person = person.dictionary_decode()
            texts = person.cast(pa.large_binary()).fill_null(b"")
            lengths = arrow("pyarrow.compute").binary_length(texts)
            content += [lengths.to_numpy(zero_copy_only=False), joined(texts)]
        for part, each in zip(self._parts, content, strict=False):
            part.update(each.tobytes() if isinstance(each, np.ndarray) else each)

    def position(self, rows: int) -> Position:
        """The position after this many rows."""
        whole = hashlib.blake2b(b"".join(part.digest() for part in self._parts), digest_size=16)
        return {"rows": rows, "digest": whole.hexdigest()}


def _build(setup: SourceSetup) -> Source:
    raise ConfigurationError("a data frame is published by penstock.publish only.")


FRAME = SourceKind(
    name=f"{__name__}:FRAME",
    summary="A data frame in memory.",
    describe=lambda options: NAME,
    build=_build,
    finite=lambda options, until: True,
)
"""The declaration of a frame. It is not a `KIND`, so no configuration lists it."""
