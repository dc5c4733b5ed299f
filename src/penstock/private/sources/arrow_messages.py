"""Arrow messages: each is one IPC stream of many events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from penstock.core.errors import InputError
from penstock.core.exact import whole
from penstock.private.sources.base import Arrow, Columns, Reason, Rejections, arrow
from penstock.private.sources.files import MAX_LINE_BYTES
from penstock.private.sources.jsonl import schema_of
from penstock.private.sources.message_formats import PackedMessages, pack, together
from penstock.private.sources.request_bodies import ROWS_PER_TABLE, ArrowStreams

MAX_MESSAGE_BYTES = 16 * MAX_LINE_BYTES
MAX_GROWTH = 8
"""A message whose dictionaries, written out, have so many times its own bytes is refused."""


@dataclass(frozen=True, kw_only=True)
class ArrowMessages:
    """One Arrow IPC stream per message, of at most `limit` bytes and `rows` events.

    The limits and the accepted types are those of Arrow bodies over HTTP: see `RequestBodies`. A
    message that is damaged or compressed, lacks a column, or is too large when its dictionaries are
    written out is broken as a whole and loses only itself. A bad row loses only itself.

    Parameters
    ----------
    limit : int
        The most bytes of a message. Default: 16 MiB.
    rows : int
        The most events of a message. Default: 1,000,000.

    >>> ArrowMessages().rows
    1000000
    """

    limit: int = MAX_MESSAGE_BYTES
    rows: int = 1_000_000

    def __post_init__(self) -> None:
        whole(self.limit, name="limit", least=1)
        whole(self.rows, name="rows", least=1)

    def check(self, columns: Columns) -> None:
        """Nothing: a stream's columns are not known beforehand."""

    def packed(
        self, values: Sequence[bytes | None], *, rejections: Rejections
    ) -> Sequence[PackedMessages]:
        return pack(values, rejections=rejections, limit=self.limit)

    def tables(
        self, packs: Sequence[PackedMessages], columns: Columns, *, rejections: Rejections
    ) -> Iterator[Arrow]:
        """Tables of the events, those of one schema together."""
        pa = arrow()
        waiting: dict[Arrow, list[Arrow]] = {}
        for data, bounds in together(packs):
            for start, stop in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
                # A copy begins at an address that all types of numbers can be read from.
                for table in self._read(data[start:stop], columns, rejections):
                    some = waiting.setdefault(table.schema, [])
                    some.append(table)
                    if sum(each.num_rows for each in some) >= ROWS_PER_TABLE:
                        yield pa.concat_tables(waiting.pop(table.schema))
        yield from map(pa.concat_tables, waiting.values())

    def table(
        self, values: Sequence[bytes | None], columns: Columns, *, rejections: Rejections
    ) -> Arrow:
        """One table of all messages. Types that do not go together are an `InputError`."""
        pa = arrow()
        packs = self.packed(values, rejections=rejections)
        found = list(self.tables(packs, columns, rejections=rejections))
        try:
            return pa.concat_tables(
                [*map(_plain, found), *([] if found else [schema_of(columns).empty_table()])],
                promote_options="permissive",
            )
        except pa.ArrowException:
            raise InputError("arrow: messages have columns of different types.") from None

    def _read(self, message: bytes, columns: Columns, rejections: Rejections) -> list[Arrow]:
        streams = ArrowStreams(columns=columns, size=MAX_GROWTH * len(message), rows=self.rows)
        try:
            return list(streams.tables(message))
        except MemoryError:
            raise
        except Exception:  # a damaged schema raises errors of many kinds, which may show data
            rejections.add(Reason.BROKEN, 1)
            return []


def _plain(table: Arrow) -> Arrow:
    """The table with dictionaries written out."""
    pa = arrow()
    kinds = [
        each.type.value_type if pa.types.is_dictionary(each.type) else each.type
        for each in table.schema
    ]
    return table.cast(pa.schema(zip(table.schema.names, kinds, strict=True)))
