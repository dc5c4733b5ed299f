"""One growing file of JSON lines, one line per unit, for any number of series.

A line is a document of `release_document.py` and a newline. A put is on disk before it returns. A
last line that a crash has torn is cut off at the next put, and its unit is written again. If the
file is moved away, the next put starts a new file with the next unit. After a restart without a
file, all units are written again.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from penstock.core.declaration import EndpointSetup
from penstock.core.deprecated import moved
from penstock.core.errors import ConfigurationError
from penstock.core.files import make_folder, open_locked, sync_folder
from penstock.released.sinks.base import (
    ReleaseItem,
    SinkError,
    SinkHead,
    SinkKind,
    head_file_beside,
    in_order,
    missing,
    on_disk,
    path_option,
)
from penstock.released.sinks.release_document import beginning, document

BYTES_PER_READ = 2**20
"""Bytes that are read at a time in the search from the end."""

_REST = re.compile(rb'"unit":([0-9]+),"link":"([0-9a-f]{64})"')
_MAX_REST_BYTES = 128


class JsonLinesSink:
    """A file of JSON lines that only grows and belongs to one publisher."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).absolute()
        self._heads: dict[str, SinkHead | None] = {}
        self._file: int | None = None

    def __repr__(self) -> str:
        return f"<JsonLines {self.path.name!r}>"

    def head(self, series: str) -> tuple[int, str] | None:
        """The newest line of the series, searched from the end."""
        with on_disk(self.path):
            try:
                file = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                head = None
            else:
                try:
                    head = _newest(file, self._end(file), series)
                finally:
                    os.close(file)
        self._heads[series] = head
        return head

    def put(self, items: Sequence[ReleaseItem]) -> None:
        with on_disk(self.path):
            file = self._opened()
        fresh: list[ReleaseItem] = []
        for series, each in in_order(items).items():
            if series not in self._heads:
                self.head(series)
            fresh += missing(each, self._heads[series])
        try:
            with on_disk(self.path):
                self._append(file, fresh)
        except BaseException:
            self._heads.clear()
            self.close()
            raise
        self._heads |= {item.series.name: SinkHead(item.unit, item.link) for item in fresh}

    def close(self) -> None:
        if self._file is not None:
            file, self._file = self._file, None
            os.close(file)

    def _append(self, file: int, items: Sequence[ReleaseItem]) -> None:
        """Write all lines, or leave the file as it was.

        Each line is on disk before the next one, so that a power cut tears the last line only. The
        first bytes of a new file are on disk before the rest: they show that it is ours.
        """
        if not items:
            return
        size = os.fstat(file).st_size
        try:
            if not size:
                _write(file, beginning())
            for item in items:
                line = document(item) + b"\n"
                _write(file, line if size or item is not items[0] else line[len(beginning()) :])
        except BaseException:
            os.ftruncate(file, size)
            raise

    def _opened(self) -> int:
        """The file, locked for this sink and ending with a whole line."""
        if self._file is not None and _same(self._file, self.path):
            return self._file
        self.close()
        make_folder(self.path.parent)
        try:
            file = open_locked(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, mode=0o644)
        except BlockingIOError:
            raise SinkError(
                f"{self.path.name} is being written by another sink: give each a file of its own."
            ) from None
        try:
            end = self._end(file)
            if end < os.fstat(file).st_size:
                os.ftruncate(file, end)
            os.fsync(file)
            sync_folder(self.path.parent)
        except BaseException:
            os.close(file)
            raise
        self._file = file
        return file

    def _end(self, file: int) -> int:
        """The end of the last whole line. The rest must be a torn line, as other content is not
        ours to cut.
        """
        end = os.fstat(file).st_size
        first = os.pread(file, len(beginning()), 0)
        torn = end <= len(beginning()) and not first.strip(b"\0")  # a new file after a power cut
        ours = torn or beginning().startswith(first)
        for start in _starts(file, end):
            if start == end:
                continue
            told = os.pread(file, len(beginning()), start)
            if not ours or not (
                beginning().startswith(told) or told[:1] == b"\0"
            ):  # a power cut may leave zeros
                raise ConfigurationError(
                    f"{self.path.name} holds something that is no release: "
                    "give the sink a file of its own. "
                    "It was left as it is."
                )
            if _whole(file, start, end):
                return end
            end = start
        return end


def _write(file: int, content: bytes) -> None:
    """Write all of it, and wait until it is on disk."""
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(file, rest) :]
    os.fsync(file)


def _same(file: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except FileNotFoundError:
        return False


def _starts(file: int, end: int) -> Iterator[int]:
    """The starts of lines, the last one first; also the end of the file after a newline."""
    while end > 0:
        start = max(end - BYTES_PER_READ, 0)
        chunk = os.pread(file, end - start, start)
        at = chunk.rfind(b"\n")
        while at >= 0:
            yield start + at + 1
            at = chunk.rfind(b"\n", 0, at)
        end = start
    yield 0


def _whole(file: int, start: int, end: int) -> bool:
    """Whether a line is a whole document."""
    line = b"".join(
        os.pread(file, min(BYTES_PER_READ, end - at), at)
        for at in range(start, end, BYTES_PER_READ)
    )
    if not line.endswith(b"\n"):
        return False
    try:
        msgspec.json.decode(line, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return True


def _newest(file: int, end: int, series: str) -> SinkHead | None:
    mine = beginning(series)
    for start in _starts(file, end):
        told = os.pread(file, len(mine) + _MAX_REST_BYTES, start) if start < end else b""
        if told.startswith(mine):
            rest = _REST.match(told, len(mine))
            if rest:
                return SinkHead(int(rest[1]), rest[2].decode())
    return None


def _build(setup: EndpointSetup) -> JsonLinesSink:
    return JsonLinesSink(setup.folder / setup.options["path"])


KIND = SinkKind(
    name="jsonl",
    summary="One growing file of JSON lines, one line per unit.",
    options=(path_option("releases.jsonl", "the file, from the folder of this file"),),
    describe=lambda options: f"JSON lines in {options['path']}",
    build=_build,
    fence=lambda setup: head_file_beside(setup.folder / setup.options["path"]),
    place=("path",),
    trial=lambda folder: {"path": "releases.jsonl"},
)

if not TYPE_CHECKING:
    __getattr__ = moved(__name__)
