"""The history of a series as bytes: what the public part of a store holds of each unit.

A service hands it out, and `penstock.connect` reads it. Releases, ledger lines and links are
exactly those of the store, so that a reader far away can ask every query and follow the chain.
"""

from __future__ import annotations

from itertools import groupby
from typing import Final

import msgspec

from penstock.core.errors import InputError, StateError
from penstock.engine.sql_store import SqlReader

FORMAT: Final = "penstock history 1"
"""The name and version of the format."""

MEDIA_TYPE: Final = "application/vnd.msgpack"

MAX_UNITS: Final = 4_096
"""The most units of one reply."""

MAX_BYTES: Final = 4_000_000
"""About the most bytes of one reply. A reply has one unit at least, however large it is."""

UNITS_PER_READ: Final = 64
"""How many units are read from the store at a time."""


class HistoryLine(msgspec.Struct, frozen=True, array_like=True):
    """One ledger line of a unit, with the link after it."""

    place: int
    kind: str
    label: str
    amount: int
    number: int
    run: int
    link: bytes


class UnitHistory(msgspec.Struct, frozen=True, array_like=True):
    """Everything public of one unit: its release, its ledger lines and its proofs.

    `body` is None where the release repeats an earlier one, which is that of unit `body_of`.
    """

    unit: int
    body_of: int
    flags: bytes
    digest: bytes
    link: bytes
    mac: bytes | None
    signature: bytes | None
    body: bytes | None
    lines: list[HistoryLine]

    @property
    def size(self) -> int:
        """About how many bytes it has."""
        return len(self.body or b"") + len(self.flags) + 300 + 150 * len(self.lines)


class History(msgspec.Struct, frozen=True):
    """Consecutive units of one series.

    `before` is the link before the first of them.
    """

    format: str
    series: str
    before: bytes
    units: list[UnitHistory]


def history(
    reader: SqlReader,
    series: str,
    *,
    after: int = 0,
    limit: int = MAX_UNITS,
    newest: int | None = None,
) -> History:
    """The units of a series after a unit, as many as fit into one reply.

    Parameters
    ----------
    reader : SqlReader
        The store.
    series : str
        The name of the series.
    after : int
        The unit before the first one. Default: 0.
    limit : int
        The most units. Default: `MAX_UNITS`.
    newest : int, optional
        The last unit that may be told. Default: the newest of the store.

    Examples
    --------
    >>> import tempfile
    >>> from penstock.engine.release_log import open_log
    >>> from penstock.engine.sqlite import SQLiteReader
    >>> from penstock.private.mechanisms.laplace import Laplace
    >>> path = f"{tempfile.mkdtemp()}/taps.db"
    >>> run = Laplace(epsilon="1").run(["north", "south"])
    >>> with open_log(path, run) as log:
    ...     for counts in ([7, 0], [8, 1]):
    ...         log.append(run.step(counts))
    >>> with SQLiteReader(path) as reader:
    ...     found = history(reader, "taps", after=1)
    >>> [unit.unit for unit in found.units], len(found.units[0].lines)
    ([2], 1)
    """
    end = reader.head(series).unit if newest is None else newest
    if not 0 <= after <= end:
        raise InputError(f"after must be a unit of {series!r}, from 0 to {end}, not {after}.")
    last, room, units = min(end, after + min(limit, MAX_UNITS)), MAX_BYTES, list[UnitHistory]()
    for start in range(after + 1, last + 1, UNITS_PER_READ):
        for unit in _units(reader, series, start, min(start + UNITS_PER_READ - 1, last)):
            room -= unit.size
            if room < 0 and units:
                return History(FORMAT, series, reader.at(series, after).link, units)
            units.append(unit)
    return History(FORMAT, series, reader.at(series, after).link, units)


def _units(reader: SqlReader, series: str, first: int, last: int) -> list[UnitHistory]:
    rows = groupby(reader.line_rows(series, first, last), key=lambda row: row[0])
    lines = {unit: [HistoryLine(*row[1:]) for row in each] for unit, each in rows}
    releases = reader.release_rows(series, first, last)
    try:
        found = list[UnitHistory]()
        for unit in range(first, last + 1):
            body_of, flags, digest, link, mac, signature = releases[unit]
            body, own = reader.own_body(series, unit), lines.get(unit, [])
            found.append(UnitHistory(unit, body_of, flags, digest, link, mac, signature, body, own))
        return found
    except KeyError:
        raise StateError(
            f"{reader.name}: some of the units {first}..{last} of {series!r} are missing."
        ) from None


def written(found: History) -> bytes:
    """A history as bytes.

    Parameters
    ----------
    found : History
        The units.
    """
    return msgspec.msgpack.encode(found)


def read(content: bytes) -> History:
    """The history of these bytes; a `StateError` if they are something else.

    Parameters
    ----------
    content : bytes
        What `written` made.

    Examples
    --------
    >>> read(written(History(FORMAT, "taps", bytes(32), []))).series
    'taps'
    >>> read(b"<html>")
    Traceback (most recent call last):
    penstock.core.errors.StateError: this is not the history of a stream.
    """
    try:
        found = msgspec.msgpack.decode(content, type=History)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        found = None
    if found is None or found.format != FORMAT:
        raise StateError("this is not the history of a stream.")
    return found
