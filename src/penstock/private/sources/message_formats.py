"""Formats of messages: many messages at once become columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from penstock.core.arrays import IntArray
from penstock.core.exact import whole
from penstock.private.sources.base import Arrow, Columns, Reason, Rejections, arrow
from penstock.private.sources.files import MAX_LINE_BYTES, good_lines, runs
from penstock.private.sources.jsonl import (
    PADDING,
    compiled_loop,
    objects,
    objects_of_lines,
    schema_of,
)

BYTES_PER_PIECE = 4 * 2**20
"""Bytes of messages that are packed, and made into columns, at a time. They bound the memory."""

BYTES_PER_JSON_PIECE = 16 * 2**20
"""The same for JSON, whose readers have a bound of their own for lines that take much memory."""


class PackedMessages(NamedTuple):
    """Messages one after the other, and the bytes of each; or only their number, if each ends with
    the only line break that it has.
    """

    data: bytes
    sizes: IntArray | int


class MessageFormat(Protocol):
    """How one event is written in a message."""

    def check(self, columns: Columns) -> None:
        """Check that these columns can be read, as far as the format itself tells."""

    def packed(
        self, values: Sequence[bytes | None], *, rejections: Rejections
    ) -> Sequence[PackedMessages]:
        """The messages that are there and short enough, packed. The others are counted.

        Packing is cheap while the messages are in the processor's cache.
        """

    def tables(
        self, packs: Sequence[PackedMessages], columns: Columns, *, rejections: Rejections
    ) -> Iterator[Arrow]:
        """The columns of all readable messages. A broken message loses only itself."""

    def table(
        self, values: Sequence[bytes | None], columns: Columns, *, rejections: Rejections
    ) -> Arrow:
        """One table of all readable messages."""


@dataclass(frozen=True, kw_only=True)
class JsonMessages:
    """One object per message, of at most `limit` bytes. The columns are fields at its top."""

    limit: int = MAX_LINE_BYTES

    def __post_init__(self) -> None:
        whole(self.limit, name="limit", least=1)

    def check(self, columns: Columns) -> None:
        """Nothing: an object's fields are not known beforehand."""

    def packed(
        self, values: Sequence[bytes | None], *, rejections: Rejections
    ) -> Sequence[PackedMessages]:
        try:
            plain = b"\n" not in b"".join(values)  # type: ignore[arg-type]
        except TypeError:  # one of them is None
            plain = False
        if plain:
            data = b"\n".join((*values, b""))  # type: ignore[arg-type]
            if len(data) <= self.limit:
                return (PackedMessages(data, len(values)),)
        return pack(values, rejections=rejections, limit=self.limit, end=b"\n")

    def tables(
        self, packs: Sequence[PackedMessages], columns: Columns, *, rejections: Rejections
    ) -> Iterator[Arrow]:
        loop = compiled_loop()
        for some in _groups(packs, BYTES_PER_JSON_PIECE):
            numbers = [each.sizes for each in some if isinstance(each.sizes, int)]
            if loop is not None and len(numbers) == len(some):
                data = b"".join([*(each.data for each in some), PADDING])
                if data.isascii():
                    yield objects_of_lines(data, sum(numbers), columns, rejections, loop)
                    continue
            data, bounds = _joined(some)
            # Messages without a byte are lines without text, which are skipped.
            rejections.add(Reason.MISSING, int(np.count_nonzero(np.diff(bounds) == 1)))
            lines = good_lines(data, bounds, limit=self.limit + 1, rejections=rejections)
            yield objects(lines, columns, rejections)

    def table(
        self, values: Sequence[bytes | None], columns: Columns, *, rejections: Rejections
    ) -> Arrow:
        """One table of all messages."""
        packs = self.packed(values, rejections=rejections)
        found = self.tables(packs, columns, rejections=rejections)
        return arrow().concat_tables([schema_of(columns).empty_table(), *found])


def pack(
    values: Sequence[bytes | None], *, rejections: Rejections, limit: int, end: bytes = b""
) -> list[PackedMessages]:
    """The messages that are there and short enough, each with `end`, in packs of bounded size."""
    there = list(filter(None, values))
    rejections.add(Reason.MISSING, len(values) - len(there))
    sizes = np.fromiter(map(len, there), np.int64, len(there))
    if len(sizes) and sizes.max() > limit:
        short = sizes <= limit
        there = [there[place] for place in np.flatnonzero(short)]
        rejections.add(Reason.LONG, int(np.count_nonzero(~short)))
        sizes = sizes[short]
    sizes += len(end)
    return [
        PackedMessages(end.join((*there[start:stop], b"")), sizes[start:stop])
        for start, stop in runs(_bounds(sizes), BYTES_PER_PIECE)
    ]


def together(
    packs: Sequence[PackedMessages], *, most: int = BYTES_PER_PIECE
) -> Iterator[tuple[bytes, IntArray]]:
    """The data of packs, small ones together, and where each message begins."""
    return map(_joined, _groups(packs, most))


def _groups(packs: Sequence[PackedMessages], most: int) -> Iterator[list[PackedMessages]]:
    """Packs that follow each other, of at most so many bytes together where there are several."""
    waiting: list[PackedMessages] = []
    size = 0
    for one in packs:
        if waiting and size + len(one.data) > most:
            yield waiting
            waiting, size = [], 0
        waiting.append(one)
        size += len(one.data)
    if waiting:
        yield waiting


def _joined(packs: Sequence[PackedMessages]) -> tuple[bytes, IntArray]:
    data = b"".join([each.data for each in packs])
    if all(isinstance(each.sizes, int) for each in packs):
        breaks = np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n"))
        return data, np.append(0, breaks + 1)
    return data, _bounds(np.concatenate([_sizes(each) for each in packs]))


def _sizes(packed: PackedMessages) -> IntArray:
    if not isinstance(packed.sizes, int):
        return packed.sizes
    breaks = np.flatnonzero(np.frombuffer(packed.data, np.uint8) == ord("\n"))
    return np.diff(breaks, prepend=-1)


def _bounds(sizes: IntArray) -> IntArray:
    bounds = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=bounds[1:])
    return bounds
