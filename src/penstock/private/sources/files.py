"""Files by name or glob, finished or growing."""

from __future__ import annotations

import glob
import hashlib
import itertools
import os
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, Protocol, TypeVar

import numpy as np

from penstock.core.arrays import IntArray
from penstock.core.declaration import Option, Options
from penstock.core.deprecated import moved
from penstock.core.errors import (
    InputError,
    StateError,
    UnreadableRowsError,
    UnusableSourceError,
)
from penstock.core.exact import whole
from penstock.core.files import cannot
from penstock.core.nearest_name import nearest_names
from penstock.private.sources.base import (
    UTF8,
    Arrow,
    Batch,
    Columns,
    Intake,
    Position,
    Reason,
    Rejections,
    Source,
    SourceKind,
    SourceSetup,
    TrialEvent,
    arrow,
    sealed,
)

MAX_ROWS_PER_BATCH = 2**18
AHEAD = 2
BYTES_PER_READ = 4 * 2**20
MAX_LINE_BYTES = 2**20
FINGERPRINT_EDGE_BYTES = 4096
MAX_COLUMNS_SHOWN = 20
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
MAX_FILES_ASKED = 1_000
"""Files that are asked beforehand how early their events are."""

NOTHING = 2**63 - 1
"""Later than any event."""

_END = object()

T = TypeVar("T")


class Mark(NamedTuple):
    """A place in a file: the bytes taken (the size, for a file that never grows), and the rows
    taken.
    """

    offset: int = 0
    row: int = 0


@dataclass(frozen=True, kw_only=True)
class FileReading:
    """How a file is read.

    Parameters
    ----------
    name : str
        The file's name in messages.
    columns : Columns
        The columns to read.
    rows : int
        The most rows of a table.
    final : bool
        Whether the file will not grow, so that its last line needs no line break.
    rejections : Rejections
        Counts the rows that are dropped.
    """

    name: str
    columns: Columns
    rows: int
    final: bool
    rejections: Rejections


class Format(Protocol):
    """How events are written in a file."""

    @property
    def streamed(self) -> bool:
        """Whether it is read line by line, so that a file may grow and a pipe can be read."""

    def tables(self, file: BinaryIO, mark: Mark, how: FileReading) -> Iterator[tuple[Arrow, Mark]]:
        """The rows after the mark, in tables of at most `how.rows`, each with the mark after it."""

    def check(self, file: BinaryIO, columns: Columns, *, name: str) -> None:
        """Check that a finished file has the columns, before any row is taken."""

    def length(self, file: BinaryIO) -> int:
        """How much there is to read: bytes, or rows if places are in rows. 0 if unknown."""

    def earliest(self, file: BinaryIO, columns: Columns) -> Sequence[tuple[int, int | None]]:
        """For each part of a finished file: the row after it, and an instant that no event in it
        precedes.

        The instant is `NOTHING` for a part without events, and None if the file does not say, is
        damaged or is of another kind.
        """


@dataclass(frozen=True, kw_only=True)
class LineFormat:
    """Settings of formats of lines.

    Parameters
    ----------
    limit : int
        The most bytes of a line; a longer line is dropped and counted. Default: 1 MiB.
    block : int
        The number of bytes that are read at once. Default: 16 MiB.
    """

    limit: int = MAX_LINE_BYTES
    block: int = BYTES_PER_READ

    def __post_init__(self) -> None:
        whole(self.limit, name="limit", least=1)
        whole(self.block, name="block", least=1)

    @property
    def streamed(self) -> bool:
        return True

    def check(self, file: BinaryIO, columns: Columns, *, name: str) -> None:
        """Nothing: only the first line could be checked, and that happens when it is read."""

    def length(self, file: BinaryIO) -> int:
        return os.fstat(file.fileno()).st_size

    def earliest(self, file: BinaryIO, columns: Columns) -> Sequence[tuple[int, int | None]]:
        return [(NOTHING, None)]


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where `FileSource` stands: the file, the place in it, its fingerprint, and its number."""

    path: str
    offset: int
    row: int
    fingerprint: str
    files: int

    @classmethod
    def of(cls, position: Position) -> Place:
        types = {each.name: int if each.type == "int" else str for each in fields(cls)}
        good = position.keys() == types.keys() and all(
            type(position[name]) is kind for name, kind in types.items()
        )
        if not good:
            raise StateError("the position is not one of files.")
        return cls(**position)  # type: ignore[arg-type]


@dataclass(frozen=True, kw_only=True)
class FilePart:
    """A finished file that is to be read elsewhere, from row `start` on, and its fingerprint."""

    path: str
    size: int
    start: int
    rows: int
    fingerprint: str


@dataclass(frozen=True, kw_only=True)
class FileSource(Source):
    """Events of one file, or of all files that match a pattern, in the order of their names.

    A file is finished as soon as a file with a later name exists. With `growing` the last file may
    still grow; an unfinished last line is left for the next call. Without `growing` all files are
    finished. A file whose name precedes the file being read is too late: it is counted, not read.
    The file that a position names must stay, as it was or longer; otherwise a `StateError` is
    raised.

    A file that is damaged or lacks a column is an `InputError`. A finite input stops there, and
    continues when the file is repaired. A growing input waits for it to become whole while it is
    the last file. Once another file follows, the rest of it is skipped, counted, and reported by
    `notes`. If it becomes whole before anything of a later file was taken, it is read after all.

    A finished file may say how early its events are, as Parquet does by its statistics. While all
    remaining files say so, batches are `certain` of it. Rows that are earlier than their file says
    are an `InputError`. With more than `MAX_FILES_ASKED` files left, batches are certain of
    nothing.

    Parameters
    ----------
    pattern : str or Path
        One file, or a glob pattern.
    format : Format
        How events are written.
    intake : Intake
        Makes batches of the columns.
    growing : bool
        Whether files may come and grow. Default: False.
    rows : int
        The most rows of a batch. Default: 524,288.
    """

    pattern: str | Path
    format: Format
    intake: Intake
    growing: bool = False
    rows: int = MAX_ROWS_PER_BATCH
    rejections: Rejections = field(default_factory=Rejections, init=False, compare=False)
    _left_out: set[str] = field(default_factory=set, init=False, repr=False, compare=False)
    _notes: list[str] = field(default_factory=list, init=False, repr=False, compare=False)
    _unread: list[bool] = field(default_factory=list, init=False, repr=False, compare=False)
    _lengths: dict[str, int] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        whole(self.rows, name="rows", least=1)

    @property
    def resumable(self) -> bool:
        return True

    @property
    def unreadable(self) -> bool:
        """Whether the last file that was tried is damaged, lacks a column, or cannot be opened."""
        return any(self._unread)

    def part(self, position: Position | None) -> str:
        """The file of a position."""
        return "" if position is None else Place.of(position).path

    def notes(self) -> list[str]:
        """Which files were skipped since the last call, and why."""
        said, self._notes[:] = self._notes[:], []
        return said

    def progress(self, position: Position) -> float:
        """The share of a finite input before a position, from 0 to 1, by file sizes at the first
        call.
        """
        place = Place.of(position)
        before, size = self._sizes.get(place.path, (0, 0))
        total = sum(size for _, size in self._sizes.values())
        if place.path not in self._lengths:
            self._lengths[place.path] = 0
            with suppress(InputError, OSError), _opened(self._root / place.path) as file:
                self._lengths[place.path] = self.format.length(file)
        length, done = (
            self._lengths[place.path],
            place.offset if self.format.streamed else place.row,
        )
        within = min(done / length, 1.0) if length else 0.0
        return (before + size * within) / total if total else 0.0

    def batches(self, after: Position | None = None) -> Iterator[Batch]:
        """All rows after the position that are there now. Call again for rows that come later."""
        try:
            self._unread[:] = [(yield from self._batches(after))]
        except InputError:
            self._unread[:] = [True]
            raise

    def _batches(self, after: Position | None) -> Generator[Batch, None, bool]:
        """The rows; at the end, whether the last file was left out."""
        place, names, first = self._standing(after)
        later: dict[int, int | None] = {}
        promised, left_out = None, False
        for number, path in enumerate(names[first:], start=first + 1):
            if number not in later:
                later = self._later(names, number)
            with _opened(self._root / path) as file:
                mark = Mark()
                if place is not None and place.path == path:
                    _unchanged(file, place, streamed=self.format.streamed)
                    mark = Mark(place.offset, place.row)
                final = not self.growing or number < len(names)
                parts = self._parts(file, later[number])
                try:
                    for batch, row in self._rows(file, path, mark, number, final=final):
                        if promised is not None and len(batch) and batch.time.min() < promised:
                            raise InputError(
                                f"{_base(path)}: its statistics do not fit its rows. "
                                "It was read up to there."
                            )
                        promised = _certain(parts, row)
                        yield replace(batch, certain=promised if promised != NOTHING else None)
                except InputError as error:
                    refused = isinstance(error, UnreadableRowsError)
                    if not (self.growing and final) or refused or may_pass(error):
                        raise
                    self._leave_out(path, error)
                    left_out = True
                else:
                    left_out = False
        return left_out

    def unread(
        self, after: Position | None, rows: Callable[[BinaryIO, str], int]
    ) -> Iterator[tuple[FilePart, Position]]:
        """The whole files after the position, unread, each with the position after it.

        Which files are taken, and what is refused, is as for `batches`.

        Parameters
        ----------
        after : Position or None
            The position of the last file that was taken.
        rows : callable
            From an open file and its name to its number of rows. It refuses a file that is damaged
            or lacks a column by an `InputError`.
        """
        place, names, first = self._standing(after)
        for number, path in enumerate(names[first:], start=first + 1):
            name = str((self._root / path).absolute())
            with _opened(self._root / path) as file:
                start = 0
                if place is not None and place.path == path:
                    _unchanged(file, place, streamed=False)
                    start = place.row
                try:
                    size, length = os.fstat(file.fileno()).st_size, rows(file, name)
                except InputError as error:
                    if not (self.growing and number < len(names)) or may_pass(error):
                        self._unread[:] = [True]
                        raise
                    self._leave_out(path, error)
                    continue
                self._unread[:] = [False]
                here = Place(
                    path=path,
                    offset=size,
                    row=length,
                    fingerprint=_fingerprint(file, size),
                    files=number,
                )
                part = FilePart(
                    path=path, size=size, start=start, rows=length, fingerprint=here.fingerprint
                )
                if place is None or place.path != path or length > start:
                    yield part, asdict(here)

    @property
    def folder(self) -> Path:
        """The folder that the names of files start from."""
        return self._root.absolute()

    def _standing(self, after: Position | None) -> tuple[Place | None, list[str], int]:
        """Where a position is: its place, the names of all files, and which file is the next."""
        place = None if after is None else Place.of(after)
        names = self._names()
        first = 0
        if place is not None:
            if place.path not in names:
                raise StateError(
                    f"{_base(place.path)}: this file, in which the source stands, is gone."
                )
            first = names.index(place.path)
            self.rejections.add(Reason.ORDER, max(first + 1 - place.files, 0))
        elif not names and not self.growing:
            raise UnusableSourceError(
                f"source.path: no file matches {Path(self.pattern).absolute()}. Write the path of "
                "a file that is there, or growing = true if it comes later."
            )
        return place, names, first

    def _rows(
        self, file: BinaryIO, path: str, mark: Mark, number: int, *, final: bool
    ) -> Iterator[tuple[Batch, int]]:
        """The batches of a file after a mark, each with the row after it."""
        name, columns = str((self._root / path).absolute()), self.intake.columns
        try:
            with sealed(name):
                if not self.growing and mark == Mark():
                    self.format.check(file, columns, name=name)
                how = FileReading(
                    name=name,
                    columns=columns,
                    rows=self.rows,
                    final=final,
                    rejections=self.rejections,
                )
                for table, (offset, row) in self.format.tables(file, mark, how):
                    here = Place(
                        path=path,
                        offset=offset,
                        row=row,
                        fingerprint=_fingerprint(file, offset),
                        files=number,
                    )
                    yield (
                        self.intake.batch(table, position=asdict(here), rejections=self.rejections),
                        row,
                    )
        except OSError as error:
            raise InputError(f"{name}: the file cannot be read ({type(error).__name__}).") from None

    def _leave_out(self, path: str, error: InputError) -> None:
        """Count a skipped file and report it, once."""
        if path not in self._left_out:
            self._left_out.add(path)
            self.rejections.add(Reason.FILE, 1)
            self._notes.append(f"{error} As another file follows, what is left of it is left out.")

    def _later(self, names: Sequence[str], number: int) -> dict[int, int | None]:
        """For this file and each later one: an instant that no event in the files after it
        precedes.
        """
        if self.growing or len(names) - number > MAX_FILES_ASKED:
            return {number: None}
        later: dict[int, int | None] = {len(names): NOTHING}
        for after in range(len(names), number, -1):
            later[after - 1] = None
            if later[after] is not None:
                with (
                    suppress(InputError),
                    _opened(self._root / names[after - 1]) as file,
                ):  # it is reported in its turn
                    _, later[after - 1] = self._parts(file, later[after])[0]
        return later

    def _parts(self, file: BinaryIO, later: int | None) -> Sequence[tuple[int, int | None]]:
        """For each part of a file: the row after it, and an instant that no event from it on
        precedes.
        """
        parts: list[tuple[int, int | None]] = [(NOTHING, later)]
        if later is not None:
            for row, earliest in reversed(self.format.earliest(file, self.intake.columns)):
                later = None if later is None or earliest is None else min(later, earliest)
                parts.append((row, later))
            file.seek(0)
        return parts[::-1]

    @cached_property
    def _sizes(self) -> dict[str, tuple[int, int]]:
        """For each file: the size of all files before it, and its own size."""
        sizes, before = {}, 0
        for name in self._names():
            with suppress(OSError):
                size = (self._root / name).stat().st_size
                sizes[name], before = (before, size), before + size
        return sizes

    @cached_property
    def _root(self) -> Path:
        """The folder that file names are relative to: the pattern up to its first wildcard."""
        path = Path(self.pattern)
        if path.is_file() or not glob.has_magic(str(path)):
            return path.parent
        return Path(*itertools.takewhile(lambda part: not glob.has_magic(part), path.parts))

    def _names(self) -> list[str]:
        path = Path(self.pattern)
        if path.is_file() or not glob.has_magic(str(path)):
            return [path.name] if path.is_file() else []
        found = map(Path, glob.iglob(str(path), recursive=True))  # noqa: PTH207  (Path.glob finds hidden files too)
        return sorted({each.relative_to(self._root).as_posix() for each in found if each.is_file()})


FILE_OPTIONS = (
    Option(
        name="path",
        type="path",
        required=True,
        example="taps/*.parquet",
        help="a file or a pattern, from the folder of this file",
    ),
    Option(
        name="growing",
        type="flag",
        default=False,
        asked=True,
        help="true if more files or more lines will come",
        advice="A finished input is read once, to its end. A growing one is followed: units close "
        "by the clock.",
    ),
)


def file_kind(
    name: str,
    summary: str,
    format_of: Callable[[Options], Format],
    *,
    options: tuple[Option, ...] = (),
    suffixes: tuple[str, ...],
    column_types: Callable[[Path], Mapping[str, str]],
    write: Callable[[Path, Sequence[TrialEvent]], None],
) -> SourceKind:
    """The declaration of a kind of file. Kinds differ in format, options and endings only."""

    def build(setup: SourceSetup) -> Source:
        pattern = setup.path("path")
        assert pattern is not None
        return FileSource(
            pattern=pattern,
            format=format_of(setup.options),
            intake=setup.intake,
            growing=setup.options["growing"],
        )

    def describe(options: Options) -> str:
        return f"{options['path']} ({name}{', growing' if options['growing'] else ''})"

    def check(options: Options) -> None:
        format_of(options)

    def trial(folder: Path, part: int, events: Sequence[TrialEvent]) -> Options:
        write(folder / f"part-{part}{suffixes[0]}", events)
        return {"path": f"*{suffixes[0]}"}

    path = replace(FILE_OPTIONS[0], example=f"taps/*{suffixes[0]}")
    return SourceKind(
        name=name,
        summary=summary,
        options=(path, FILE_OPTIONS[1], *options),
        describe=describe,
        check=check,
        build=build,
        finite=lambda options, until: not options["growing"],
        suffixes=suffixes,
        column_types=column_types,
        trial=trial,
        no_dry_run="",
    )


def lines(
    file: BinaryIO,
    offset: int,
    how: FileReading,
    *,
    limit: int = MAX_LINE_BYTES,
    block: int = BYTES_PER_READ,
    quote: bytes | None = None,
) -> Iterator[tuple[Arrow, int]]:
    """Whole lines with their line breaks, as Arrow arrays of bytes, each with the offset after it.

    A line longer than `limit` bytes or not in UTF-8 is dropped and counted. At most one block and
    one line are in memory. With `quote` a line continues while a quote is open. If it becomes too
    long, or the file ends, only its part up to the first line break is the line.
    """
    read = file.read if file.seekable() else getattr(file, "read1", file.read)
    rest, skipped, ended, moved = b"", 0, False, False
    while not ended:
        data = read(block)
        ended = not data
        if skipped:
            cut = data.find(b"\n") + 1
            skipped += cut or len(data)
            if not cut and not (ended and how.final):
                continue
            how.rejections.add(Reason.LONG, 1)
            offset, skipped, moved, data = offset + skipped, 0, True, data[cut:]
        if offset == 0 and not rest and data.startswith(BYTE_ORDER_MARK):
            data, offset = data[len(BYTE_ORDER_MARK) :], len(BYTE_ORDER_MARK)
        data = rest + data
        bounds = _bounds(data, quote=quote, limit=limit, final=ended and how.final)
        for start in range(0, len(bounds) - 1, how.rows):
            some = bounds[start : start + how.rows + 1]
            moved = False
            good = good_lines(data, some, limit=limit, rejections=how.rejections)
            yield good, offset + int(some[-1])
        offset, rest = offset + int(bounds[-1]), data[bounds[-1] :]
        if len(rest) > limit:
            rest, skipped = b"", len(rest)
    if moved:
        yield arrow().array([], arrow().large_binary()), offset


def ahead(source: Iterator[T]) -> Iterator[T]:
    """Read the source in another thread, at most `AHEAD` items ahead of the consumer."""
    with ThreadPoolExecutor(1, thread_name_prefix="penstock-reader") as reader:
        coming = deque(reader.submit(next, source, _END) for _ in range(AHEAD))
        while (each := coming.popleft().result()) is not _END:
            coming.append(reader.submit(next, source, _END))
            yield each  # type: ignore[misc]


def joined(array: Arrow) -> Arrow:
    """The bytes of all lines, one after the other."""
    if not len(array):
        return arrow().py_buffer(b"")
    bounds = line_bounds(array)
    return array.buffers()[2].slice(int(bounds[0]), int(bounds[-1] - bounds[0]))


def line_bounds(array: Arrow) -> IntArray:
    """Where each line begins in the buffer of an array, and where the last one ends."""
    if not len(array):
        return np.zeros(1, np.int64)
    places = np.frombuffer(array.buffers()[1], np.int64)
    return places[array.offset : array.offset + len(array) + 1]


def runs(bounds: IntArray, size: int) -> Iterator[tuple[int, int]]:
    """Cut lines or messages, given where each begins, into runs of about `size` bytes."""
    start = 0
    while start < len(bounds) - 1:
        stop = int(np.searchsorted(bounds, bounds[start] + size))
        stop = min(max(stop, start + 1), len(bounds) - 1)
        yield start, stop
        start = stop


def taken(array: Arrow, good: Arrow, reason: Reason, rejections: Rejections) -> Arrow:
    """The good lines; the others are counted."""
    kept = array.filter(good)
    rejections.add(reason, len(array) - len(kept))
    return kept


def check_columns(columns: Columns, there: Sequence[str], *, name: str) -> None:
    """Check that every column is there, and once."""
    check_names(columns.names, there, name=name)


def check_names(names: Sequence[str], there: Sequence[str], *, name: str) -> None:
    """Check that the columns of these names are there, each once."""
    for column in names:
        if there.count(column) != 1:
            what = "has no column" if column not in there else "has more than one column"
            shown = ", ".join(map(repr, there[:MAX_COLUMNS_SHOWN]))
            shown += ", …" if len(there) > MAX_COLUMNS_SHOWN else ""
            if not there or any(
                not each or not (each[0].isalpha() or each[0] == "_") for each in there
            ):
                shown = "names that do not look like names of columns"
                near = ""
            else:
                near = nearest_names(column, there)
            raise UnusableSourceError(
                f"{name} {what} {column!r}; it has {shown}.{near} Write the name of a column in "
                "[source]."
            )


def _bounds(data: bytes, *, quote: bytes | None, limit: int, final: bool) -> IntArray:
    """Where each whole line begins, and where the last one ends."""
    codes = np.frombuffer(data, np.uint8)
    breaks = np.flatnonzero(codes == ord("\n")) + 1
    if quote is None:
        parts = [breaks]
    else:
        parts = _outside(
            breaks, np.flatnonzero(codes == ord(quote)), len(data), limit=limit, final=final
        )
    bounds = np.concatenate([np.zeros(1, np.int64), *parts])
    return np.append(bounds, len(data)) if final and bounds[-1] < len(data) else bounds


def _outside(
    breaks: IntArray, quotes: IntArray, size: int, *, limit: int, final: bool
) -> list[IntArray]:
    """The line breaks outside quotes. For a line that is too long or never ends: its first line
    break.
    """
    parts: list[IntArray] = []
    start = 0
    while True:
        breaks = breaks[breaks > start]
        ends = breaks[(np.searchsorted(quotes, breaks) - np.searchsorted(quotes, start)) % 2 == 0]
        long = np.flatnonzero(np.diff(ends, prepend=start) > limit)
        last = int(ends[-1]) if len(ends) else start
        still_open = (len(quotes) - np.searchsorted(quotes, last)) % 2 == 1
        if len(long):
            ends = ends[: long[0]]
            last = int(ends[-1]) if len(ends) else start
        following = breaks[breaks > last]
        if not len(following) or not (len(long) or size - last > limit or (final and still_open)):
            return [*parts, ends]
        start = int(following[0])
        parts += [ends, following[:1]]


def lines_of(data: bytes, bounds: IntArray) -> Arrow:
    """The lines between the bounds, without a copy."""
    pa = arrow()
    buffers = [None, pa.py_buffer(np.ascontiguousarray(bounds)), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_binary(), len(bounds) - 1, buffers)


def good_lines(data: bytes, bounds: IntArray, *, limit: int, rejections: Rejections) -> Arrow:
    """The lines between the bounds that are short enough and in UTF-8."""
    pa, pc = arrow(), arrow("pyarrow.compute")
    array = lines_of(data, bounds)
    short = np.diff(bounds) <= limit
    if not short.all():
        array = taken(array, pa.array(short), Reason.LONG, rejections)
    if data.isascii():
        return array
    try:
        array.cast(pa.large_string())
    except pa.ArrowInvalid:
        array = taken(
            array, pc.match_substring_regex(array, pattern=UTF8), Reason.ENCODING, rejections
        )
    return array


def whole_file(path: Path, *, name: str, rows: Callable[[BinaryIO], int]) -> FilePart:
    """A finished file that is there now, to be read elsewhere from its first row on.

    Parameters
    ----------
    path : Path
        Where the file is.
    name : str
        The name of the file in the part.
    rows : callable
        From the open file to its number of rows. It refuses a file that is damaged or lacks a
        column by an `InputError`.
    """
    with _opened(path, _base(name)) as file:
        size, length = os.fstat(file.fileno()).st_size, rows(file)
        fingerprint = _fingerprint(file, size)
    return FilePart(path=name, size=size, start=0, rows=length, fingerprint=fingerprint)


def check_standing(path: Path, place: Place) -> None:
    """Refuse to go on from a place in a finished file that was changed, by a `StateError`."""
    with _opened(path, _base(place.path)) as file:
        _unchanged(file, place, streamed=False)


@contextmanager
def unchanged_file(path: Path, part: FilePart, *, name: str | None = None) -> Iterator[BinaryIO]:
    """Open a file that must be as it was when it was noted; another one is a `StateError`.

    Parameters
    ----------
    path : Path
        Where the file is.
    part : FilePart
        The file, as it was.
    name : str, optional
        Its name in messages; default: its whole path.
    """
    with _opened(path, name) as file:
        size = os.fstat(file.fileno()).st_size
        if size != part.size or _fingerprint(file, part.size) != part.fingerprint:
            raise StateError(
                f"{_base(part.path)}: this is not the file that was read before; it was replaced "
                "or changed."
            )
        yield file


@contextmanager
def _opened(path: Path, name: str | None = None) -> Iterator[BinaryIO]:
    try:
        file = path.open("rb")
    except OSError as error:
        if name is None:
            raise InputError(cannot("read", path, error)) from None
        raise InputError(f"{name} cannot be read: {error.strerror}.") from None
    with file:
        yield file


def may_pass(error: InputError) -> bool:
    """Whether an error comes from the machine rather than the file, so that it may pass."""
    cause = error.__context__
    return isinstance(cause, MemoryError) or (
        isinstance(cause, OSError) and cause.errno is not None
    )


def _unchanged(file: BinaryIO, place: Place, *, streamed: bool) -> None:
    """Check that the file is the one of the position: as long, or longer if it may grow."""
    name, size = _base(place.path), os.fstat(file.fileno()).st_size
    if size < place.offset:
        raise StateError(f"{name}: the file is shorter than what was already read from it.")
    if (size > place.offset and not streamed) or _fingerprint(
        file, place.offset
    ) != place.fingerprint:
        raise StateError(
            f"{name}: this is not the file that was read before; it was replaced or changed."
        )
    if (
        size > place.offset > 0
        and streamed
        and os.pread(file.fileno(), 1, place.offset - 1) != b"\n"
    ):
        raise StateError(f"{name}: the file went on in the middle of a line that was already read.")


def _fingerprint(file: BinaryIO, offset: int) -> str:
    """A short hash of the beginning and the end of the file's first `offset` bytes."""
    edge = min(offset, FINGERPRINT_EDGE_BYTES)
    ends = os.pread(file.fileno(), edge, 0) + os.pread(file.fileno(), edge, offset - edge)
    return hashlib.blake2b(ends, digest_size=16).hexdigest()


def _certain(parts: Sequence[tuple[int, int | None]], row: int) -> int | None:
    """The instant of the part that the next row is in."""
    return parts[bisect_right(parts, row, key=lambda part: part[0])][1]


def _base(path: str) -> str:
    return path.rpartition("/")[2]


if not TYPE_CHECKING:
    __getattr__ = moved(__name__)
