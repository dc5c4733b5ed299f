"""Formats of messages: many messages at once become columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from penstock.core.arrays import IntArray
from penstock.core.exact import whole
from penstock.private.sources.base import Arrow, Columns, Reason, Rejections, arrow
from penstock.private.sources.files import MAX_LINE_BYTES, good_lines
from penstock.private.sources.jsonl import objects, schema_of

BYTES_PER_PIECE = 4 * 2**20
"""Bytes of messages that are made into columns at a time, which bounds the memory needed."""


class MessageFormat(Protocol):
    """How one event is written in a message."""

    def check(self, columns: Columns) -> None:
        """Check that these columns can be read, as far as the format itself tells."""

    def table(
        self, values: Sequence[bytes | None], columns: Columns, *, rejections: Rejections
    ) -> Arrow:
        """The columns of all readable messages. A missing, long or broken message loses only
        itself.
        """


@dataclass(frozen=True, kw_only=True)
class JsonMessages:
    """One object per message, of at most `limit` bytes. The columns are fields at its top."""

    limit: int = MAX_LINE_BYTES

    def __post_init__(self) -> None:
        whole(self.limit, name="limit", least=1)

    def check(self, columns: Columns) -> None:
        """Nothing: an object's fields are not known beforehand."""

    def table(
        self, values: Sequence[bytes | None], columns: Columns, *, rejections: Rejections
    ) -> Arrow:
        there, bounds = lengths(values, rejections=rejections, limit=self.limit, gap=1)
        tables = [schema_of(columns).empty_table()]
        for start, stop in pieces(bounds):
            data = b"\n".join((*there[start:stop], b""))
            found = bounds[start : stop + 1] - bounds[start]
            lines = good_lines(data, found, limit=self.limit + 1, rejections=rejections)
            tables.append(objects(lines, columns, rejections))
        return arrow().concat_tables(tables)


def pieces(bounds: IntArray) -> Iterator[tuple[int, int]]:
    """Cut messages, given where each begins, into runs of about `BYTES_PER_PIECE` bytes."""
    start = 0
    while start < len(bounds) - 1:
        stop = int(np.searchsorted(bounds, bounds[start] + BYTES_PER_PIECE))
        stop = min(max(stop, start + 1), len(bounds) - 1)
        yield start, stop
        start = stop


def lengths(
    values: Sequence[bytes | None], *, rejections: Rejections, limit: int, gap: int = 0
) -> tuple[Sequence[bytes], IntArray]:
    """The messages that are there and short enough, and where each begins when they are joined."""
    there = list(filter(None, values))
    rejections.add(Reason.MISSING, len(values) - len(there))
    sizes = np.fromiter(map(len, there), np.int64, len(there))
    if len(sizes) and sizes.max() > limit:
        short = sizes <= limit
        there = [there[place] for place in np.flatnonzero(short)]
        rejections.add(Reason.LONG, int(np.count_nonzero(~short)))
        sizes = sizes[short]
    bounds = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes + gap, out=bounds[1:])
    return there, bounds
