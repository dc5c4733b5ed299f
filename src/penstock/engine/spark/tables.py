"""Tables of Spark's catalogue: where their Parquet files are, and which of them are new."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final
from urllib.parse import unquote

from penstock.core.errors import (
    ConfigurationError,
    InputError,
    PenstockError,
    StateError,
    UnusableSourceError,
)
from penstock.engine.spark.ranges import FileRange, RangeBatch
from penstock.engine.spark.session import CATALOGUE, DRIVER_ENDED, driver_ended
from penstock.engine.spark.sources import SparkInput, file_rows
from penstock.private.sources.base import (
    Batch,
    Columns,
    Intake,
    Position,
    Reason,
    Rejections,
    Source,
)
from penstock.private.sources.files import (
    FilePart,
    Place,
    check_columns,
    check_standing,
    may_pass,
    whole_file,
)
from penstock.private.sources.parquet import ParquetFormat, table_parts
from penstock.private.sources.table_layout import FOLDER_TYPES, INSTANT, TableLayout

LISTING_SECONDS: Final = 5.0
"""How often the catalogue is asked for new files, besides whenever a unit closes."""

DIGEST_BYTES: Final = 8
"""Bytes by which a position remembers a file that was taken. Two of a million files have the same
with a probability of 3e-8."""

_TAKEN: Final = "taken"
_NO_SUCH: Final = {
    "CATALOG_NOT_FOUND",
    "REQUIRES_SINGLE_PART_NAMESPACE",
    "SCHEMA_NOT_FOUND",
    "TABLE_OR_VIEW_NOT_FOUND",
}
"""Conditions by which Spark says that a table is not there."""


class CatalogueError(InputError):
    """Spark's catalogue cannot be asked just now."""


@dataclass(frozen=True, kw_only=True)
class CatalogueTable:
    """A table of Parquet files in Spark's catalogue.

    Parameters
    ----------
    spark : SparkSession
        The session.
    name : str
        The name of the table, as in the pipeline.
    root : Path
        The folder of the table.
    layout : TableLayout
        What the catalogue knows of the columns that are read.
    """

    spark: Any
    name: str
    root: Path
    layout: TableLayout

    def files(self) -> list[str]:
        """The files that the table has now, from its folder on."""
        with _catalogue_errors(self.name, _gone):
            self.spark.catalog.refreshTable(self.name)
            found = self.spark.table(self.name).inputFiles()
        return [self._relative(each) for each in found]

    def _relative(self, address: str) -> str:
        path = local_path(unquote(address), self.name)
        relative = path.relative_to(self.root) if path.is_relative_to(self.root) else path
        missing = self.layout.lacks(relative.as_posix())
        if missing:
            raise UnusableSourceError(
                f"source.table: {self.name} has a partition whose folder is not named after the "
                f"value of {missing!r}. Give the partition a folder such as {missing}=… in the "
                "folder of the table."
            )
        return relative.as_posix()


def catalogue_table(spark: Any, name: str, columns: Columns) -> CatalogueTable:
    """The table of this name. A table that cannot be read is a `ConfigurationError`.

    Parameters
    ----------
    spark : SparkSession
        The session.
    name : str
        The name of the table, with its database where that is not the current one.
    columns : Columns
        The columns that are read.
    """
    try:
        with _catalogue_errors(name, _no_such_table):
            if not spark.catalog.tableExists(name):
                raise _missing(spark, name)
            (row,) = spark.sql(f"DESCRIBE TABLE EXTENDED {name} AS JSON").collect()
    except CatalogueError as error:
        raise StateError(f"{error} Nothing was released.") from None
    about = json.loads(row[0])
    if about.get("type") == "VIEW":
        raise ConfigurationError(
            f"source.table: {name} is a view, which has no files of its own. Write the name of a "
            "table of Parquet files."
        )
    provider = str(about.get("provider", "unknown")).lower()
    if provider == "hive" and "parquet" in str(about.get("serde_library", "")).lower():
        provider = "parquet"
    if provider != "parquet":
        raise ConfigurationError(
            f"source.table: {name} is a table of {provider} files, and only Parquet can be read. "
            "Write the name of a table of Parquet files, or count it with "
            "penstock.engine.spark.count."
        )
    kinds = {each["name"]: str(each["type"]["name"]) for each in about["columns"]}
    check_columns(columns, list(kinds), name=f"source.table: {name}")
    folders = {each: kinds[each] for each in about.get("partition_columns", ())}
    return CatalogueTable(
        spark=spark,
        name=name,
        root=local_path(about["location"], name),
        layout=_layout(name, columns, kinds, folders),
    )


def _layout(
    name: str, columns: Columns, kinds: Mapping[str, str], folders: Mapping[str, str]
) -> TableLayout:
    for column in columns.names:
        if column in folders and folders[column] not in FOLDER_TYPES:
            raise ConfigurationError(
                f"source.table: {name} is partitioned by {column!r}, of type {folders[column]}, "
                f"and only {', '.join(FOLDER_TYPES)} can be read from the names of folders. Name "
                "another column in [source]."
            )
    return TableLayout(
        folders={column: folders[column] for column in columns.names if column in folders},
        instants=tuple(column for column in columns.names if kinds[column] == INSTANT),
    )


def _missing(spark: Any, name: str) -> PenstockError:
    """Why a table is not there."""
    *namespace, _ = table_parts(name)
    if spark.conf.get(CATALOGUE) == "in-memory":
        return ConfigurationError(
            f"source.table: there is no table {name}, because Spark was started without a "
            "metastore. Publish this stream in a process of its own."
        )
    database = ".".join(f"`{part}`" for part in namespace)
    if namespace and not spark.catalog.databaseExists(database):
        return ConfigurationError(
            f"source.table: Spark's catalogue has no database {'.'.join(namespace)}. Correct the "
            "name, or name the metastore in the hive-site.xml of SPARK_CONF_DIR."
        )
    return _no_such_table(name)


def _no_such_table(name: str) -> ConfigurationError:
    return ConfigurationError(
        f"source.table: Spark's catalogue has no table {name}. Correct the name, or name the "
        "metastore in the hive-site.xml of SPARK_CONF_DIR."
    )


def _gone(name: str) -> StateError:
    return StateError(f"source.table: Spark's catalogue no longer has the table {name}.")


def local_path(address: str, name: str) -> Path:
    """The path at which every machine sees a file or folder of the table of this name."""
    scheme, path = "", address
    if not address.startswith("/"):
        scheme, _, path = address.partition(":")
    if scheme not in ("", "file"):
        raise ConfigurationError(
            f"source.table: the files of {name} are at {scheme}://, and workers read files at a "
            "path that every machine sees. Mount them there, or count the table with "
            "penstock.engine.spark.count."
        )
    return Path("/" + path.lstrip("/"))


@contextmanager
def _catalogue_errors(name: str, missing: Callable[[str], PenstockError]) -> Iterator[None]:
    """Raise errors of PySpark and Java in our words: their texts may be long and may quote."""
    try:
        yield
    except PenstockError:
        raise
    except Exception as error:
        if driver_ended(error):
            raise StateError(DRIVER_ENDED) from None
        condition = getattr(error, "getCondition", lambda: None)()
        if condition in _NO_SUCH:
            raise missing(name) from None
        raise CatalogueError(
            f"source.table: Spark's catalogue cannot be asked for {name} "
            f"({condition or type(error).__name__})."
        ) from None


@dataclass(frozen=True, kw_only=True)
class TablePlace:
    """Where `SparkTableSource` stands: the last file that was taken, and digests of all."""

    last: Place
    taken: frozenset[bytes]

    @classmethod
    def of(cls, position: Position) -> TablePlace:
        """The place of a position, which must be one of a table."""
        rest = {name: value for name, value in position.items() if name != _TAKEN}
        text = position.get(_TAKEN)
        if not isinstance(text, str):
            raise StateError("the position is not one of a table.")
        content = base64.b64decode(text)
        starts = range(0, len(content), DIGEST_BYTES)
        return cls(
            last=Place.of(rest),
            taken=frozenset(content[start : start + DIGEST_BYTES] for start in starts),
        )

    def position(self) -> Position:
        """The place as plain data."""
        content = b"".join(sorted(self.taken))
        return {**asdict(self.last), _TAKEN: base64.b64encode(content).decode()}


def file_digest(path: str) -> bytes:
    """By what a position remembers a file."""
    return hashlib.blake2b(path.encode(), digest_size=DIGEST_BYTES).digest()


@dataclass(kw_only=True, eq=False)
class SparkTableSource(Source):
    """The Parquet files of a table, for Spark's workers to read.

    Names of files say nothing about their order, so a position remembers all files that were taken
    and are still there. Everything else is as for files: a file that was taken must not change,
    and the last one must stay.

    Parameters
    ----------
    table : CatalogueTable
        The table.
    intake : Intake
        Makes batches of the columns.
    growing : bool
        Whether more files will come. Default: False.
    """

    table: CatalogueTable
    intake: Intake
    growing: bool = False
    rejections: Rejections = field(default_factory=Rejections, init=False)
    _left_out: set[str] = field(default_factory=set, init=False, repr=False)
    _notes: list[str] = field(default_factory=list, init=False, repr=False)
    _unreadable: bool = field(default=False, init=False, repr=False)

    @property
    def resumable(self) -> bool:
        return True

    @property
    def unreadable(self) -> bool:
        """Whether the last file that was tried is damaged, lacks a column, or cannot be opened."""
        return self._unreadable

    @property
    def pause(self) -> float:
        return LISTING_SECONDS

    def notes(self) -> list[str]:
        """Which files were skipped since the last call, and why."""
        said, self._notes = self._notes, []
        return said

    def batches(self, after: Position | None = None) -> Iterator[Batch]:
        """All files that were not taken yet, as one range."""
        place = None if after is None else TablePlace.of(after)
        listed = self.table.files()
        if place is not None:
            self._check(place.last, listed)
        elif not listed and not self.growing:
            raise UnusableSourceError(
                f"source.table: {self.table.name} has no files. Fill the table, or write "
                "growing = true if they come later."
            )
        taken = frozenset() if place is None else place.taken
        fresh = self._in_order(path for path in listed if file_digest(path) not in taken)
        found, passed, failure = self._noted(fresh)
        if found and (failure is None or self.growing):
            there = {file_digest(path) for path in listed}
            here = TablePlace(
                last=_place(found[-1]),
                taken=(taken & there) | {file_digest(path) for path in passed},
            )
            yield RangeBatch.of(FileRange(files=tuple(found)), here.position())
        if failure is not None:
            raise failure

    def _check(self, last: Place, listed: Sequence[str]) -> None:
        if last.path not in listed:
            name = last.path.rpartition("/")[2]
            raise StateError(f"{name}: this file, in which the source stands, is gone.")
        check_standing(self.table.root / last.path, last)

    def _in_order(self, paths: Iterable[str]) -> list[str]:
        """The files from the oldest to the newest."""
        times = {}
        for path in paths:
            try:
                times[path] = (self.table.root / path).stat().st_mtime_ns
            except OSError:
                times[path] = 0  # opening it says why
        return sorted(times, key=lambda path: (times[path], path))

    def _noted(self, fresh: Sequence[str]) -> tuple[list[FilePart], list[str], InputError | None]:
        """The whole files among new ones, the files that are behind, and why it ended before the
        last of them.
        """
        found: list[FilePart] = []
        for number, path in enumerate(fresh):
            try:
                found.append(self._part(path))
                self._unreadable = False
            except InputError as error:
                if not (self.growing and number + 1 < len(fresh)) or may_pass(error):
                    self._unreadable = True
                    return found, list(fresh[:number]), error
                self._leave_out(path, error)
        return found, list(fresh), None

    def _part(self, path: str) -> FilePart:
        names = self.table.layout.names_in_files(self.intake.columns)

        def rows(file: BinaryIO) -> int:
            return ParquetFormat().rows(file, names, name=path.rpartition("/")[2])

        return whole_file(self.table.root / path, name=path, rows=rows)

    def _leave_out(self, path: str, error: InputError) -> None:
        """Count a skipped file and report it, once."""
        if path not in self._left_out:
            self._left_out.add(path)
            self.rejections.add(Reason.FILE, 1)
            self._notes.append(f"{error} As another file follows, it is left out.")

    def rows(self, spark: Any, ranges: Sequence[FileRange]) -> SparkInput | None:
        """The numbers of slices of these files."""
        return file_rows(spark, ranges, root=self.table.root, layout=self.table.layout)


def _place(part: FilePart) -> Place:
    return Place(
        path=part.path,
        offset=part.size,
        row=part.rows,
        fingerprint=part.fingerprint,
        files=1,
    )
