"""The secret part of a store: mechanism state, source positions and data of open units."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from penstock.core.errors import (
    ConfigurationError,
    InputError,
    LedgerError,
    StateError,
    StoreUnavailableError,
)
from penstock.core.snapshot_piece import Piece
from penstock.engine.sealing import Key
from penstock.engine.sql_store.schema import UnitRows

if TYPE_CHECKING:
    from penstock.engine.sql_store.reader import SqlReader
    from penstock.engine.sql_store.store import SqlStore

STATE, PIECE, POSITIONS, PRIVATE, PENDING = "state", "piece ", "positions", "private ", "pending"
"""The parts of a series: one of state and any number of pieces of it, one of positions, any number
of data of open units, and a unit that is stored and not shown yet.
"""

PIECES_AT_ONCE = 64
"""Pieces that one call writes: together they are in memory twice."""


@dataclass(frozen=True)
class StateChange:
    """The commit that replaces the state: its unit, and the links before and after it."""

    unit: int
    before: bytes
    after: bytes


def parts_of(
    positions: Mapping[str, Any], private: Mapping[str, bytes | None]
) -> dict[str, bytes | None]:
    """Positions and private data by the names of their parts."""
    try:
        encoded = msgspec.msgpack.encode(dict(positions))
    except (TypeError, ValueError, OverflowError):
        raise ConfigurationError(
            "positions must be plain data: text, numbers, bytes, lists and maps of them.",
            parameter="positions",
        ) from None
    return {POSITIONS: encoded} | {PRIVATE + name: content for name, content in private.items()}


_REMOVE = "DELETE FROM secrets WHERE stream = ? AND part = ?"
_REPLACE = (
    "INSERT INTO secrets (stream, part, unit, key, content) VALUES (?, ?, ?, ?, ?) "
    "ON CONFLICT (stream, part) DO UPDATE SET unit = excluded.unit, key = excluded.key, "
    "content = excluded.content"
)


class SealedState:
    """The table of secrets, sealed with a key if there is one.

    Each part is sealed together with the series, part and unit that it belongs to, so that it
    cannot be moved to another place in the table. The state is sealed with the link after its unit
    as well: a store with another history has no state to go on from. The state holds the digests of
    its pieces, which stay as they are until they change.
    """

    def __init__(self, store: SqlStore, key: Key | None) -> None:
        self._store = store
        self._key = key
        self._digests: dict[str, dict[bytes, dict[str, bytes]]] = {}  # by series, link and piece

    @property
    def sealed(self) -> bool:
        """Whether there is a key."""
        return self._key is not None

    def put(
        self, series: str, parts: Mapping[str, bytes | None], *, unit: int, link: bytes = b""
    ) -> None:
        """Replace some parts as of this unit; None removes a part, the others stay.

        `link` is that after the unit; none where the unit was committed before there was a key.
        """
        for part, content in parts.items():
            if content is None:
                self._store._execute(_REMOVE, series, part)
            else:
                self._store._execute(_REPLACE, *self._row(series, part, unit, content, link))

    def put_pieces(self, series: str, pieces: Mapping[str, Piece], change: StateChange) -> None:
        """Replace the pieces of the state: write those that have changed, remove all others.

        A piece is left out if it is as this object wrote it, or left it out, in the commit whose
        link is the newest in the store. A commit that failed has left another link there. After a
        start, all pieces are written.
        """
        known = self._digests.get(series, {}).get(change.before)
        if known is None:
            self._store._execute(
                "DELETE FROM secrets WHERE stream = ? AND part LIKE ?", series, PIECE + "%"
            )
            known = {}
        gone = [(series, PIECE + name) for name in known.keys() - pieces.keys()]
        if gone:
            self._store._execute_many(_REMOVE, gone)
        changed = [
            name
            for name, piece in pieces.items()
            if not (piece.compared and known.get(name) == piece.digest)
        ]
        for first in range(0, len(changed), PIECES_AT_ONCE):
            rows = [
                self._row(series, PIECE + name, change.unit, pieces[name].content)
                for name in changed[first : first + PIECES_AT_ONCE]
            ]
            self._store._execute_many(_REPLACE, rows)
        self._digests[series] = {
            change.before: known,
            change.after: {name: piece.digest for name, piece in pieces.items()},
        }

    def compare_none(self, series: str) -> None:
        """Write all pieces with the next commit: others may have written some."""
        self._digests.pop(series, None)

    def _row(
        self, series: str, part: str, unit: int, content: bytes | memoryview, link: bytes = b""
    ) -> tuple[object, ...]:
        """The row of a part, sealed if there is a key."""
        place, key = _place(series, part, unit, link), self._key
        kept = content if key is None else key.seal(content, about=place)
        stored = b"".join((self._store.padding, kept))
        return series, part, unit, "" if key is None else key.id, stored

    def pending(self, series: str) -> bytes | None:
        """The unit that is stored and not shown yet; None if there is none."""
        rows = self._store._select(
            "unit, key, content FROM secrets WHERE stream = ? AND part = ?", series, PENDING
        )
        if not rows:
            return None
        unit, key, content = rows[0]  # in one statement: another publisher may show it now
        return self._opened(series, PENDING, unit, key, b"", content)

    def load(self, series: str, *, unit: int, link: bytes) -> SealedParts:
        """The parts of a series, if state and positions are both of this unit."""
        rows = self._store._select("part, unit, key FROM secrets WHERE stream = ?", series)
        parts = {part: (of, key) for part, of, key in rows}
        units = {part: of for part, (of, _) in parts.items()}
        if parts and (units.get(STATE, 0), units.get(POSITIONS)) != (unit, unit):
            raise StateError(
                f"{self._store.name}: the saved state of {series!r} is not of unit {unit}, its "
                "newest one."
            )
        return SealedParts(self, series, parts, link)

    def reveal(self, series: str, part: str, unit: int, key: str, link: bytes = b"") -> bytes:
        """The content of a part that was stored as of this unit with this key."""
        rows = self._store._select(
            "content FROM secrets WHERE stream = ? AND part = ? AND unit = ? AND key = ?",
            series,
            part,
            unit,
            key,
        )
        if not rows:
            raise StateError(f"{self._store.name}: the saved state of {series!r} has just changed.")
        return self._opened(series, part, unit, key, link, rows[0][0])

    def _opened(
        self, series: str, part: str, unit: int, key: str, link: bytes, stored: bytes
    ) -> bytes:
        content = memoryview(stored)[len(self._store.padding) :]
        if not key:
            return bytes(content)
        return self._check_key(series, key).reveal(content, about=_place(series, part, unit, link))

    def parts(self, series: str) -> set[str]:
        """The names of the parts of a series."""
        return {
            part for (part,) in self._store._select("part FROM secrets WHERE stream = ?", series)
        }

    def forget(self, series: str) -> None:
        """Remove all parts of a series."""
        self._store._execute("DELETE FROM secrets WHERE stream = ?", series)

    def unsealed(self, series: str) -> dict[str, bytes | None]:
        """The parts that are not sealed although there is a key now; a wrong key is refused."""
        for (key,) in self._store._select(
            "DISTINCT key FROM secrets WHERE stream = ? AND key <> ''", series
        ):
            self._check_key(series, key)
        if self._key is None:
            return {}
        rows = self._store._select(
            "part, content FROM secrets WHERE stream = ? AND key = ''", series
        )
        return {part: content[len(self._store.padding) :] for part, content in rows}

    def _check_key(self, series: str, key: str) -> Key:
        if self._key is None:
            raise StateError(f"the state of {series!r} is sealed with key {key}: give that key.")
        if self._key.id != key:
            raise StateError(
                f"the state of {series!r} is sealed with key {key}, and the key given is "
                f"{self._key.id}."
            )
        return self._key


class SealedParts(Mapping[str, bytes]):
    """The parts of a series by name. Each is read when it is asked for: together they may not fit
    into memory. Only whoever holds the lease may read them, because nobody else writes then.
    """

    def __init__(
        self,
        state: SealedState,
        series: str,
        parts: Mapping[str, tuple[int, str]],
        link: bytes,
        prefix: str = "",
    ) -> None:
        self._state = state
        self._series = series
        self._parts = parts
        self._link = link
        self._prefix = prefix

    def __repr__(self) -> str:
        return "<SealedParts, private>"

    def __getitem__(self, name: str) -> bytes:
        part = self._prefix + name
        return self._state.reveal(self._series, part, *self._parts[part], self._link)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._prefix + name in self._parts

    def __iter__(self) -> Iterator[str]:
        return (
            part.removeprefix(self._prefix) for part in self._parts if part.startswith(self._prefix)
        )

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def beginning(self, prefix: str) -> SealedParts:
        """The parts whose names begin so, by the rest of their names."""
        return SealedParts(self._state, self._series, self._parts, self._link, prefix)


def check_state(reader: SqlReader, series: str, key: Key) -> None:
    """Refuse a history that the sealed state does not belong to.

    Nobody without the key can seal a state, and it is sealed with the link of its unit. So this
    notices a rewritten history also if all keyed links were removed. An export has no state, and a
    reader may lack the right to see it: then nothing is checked.
    """
    if "secrets" not in reader._tables() or not reader.head(series).unit:
        return
    try:
        rows = reader.secret_rows(series, STATE)
        waits = waiting_unit(reader, series, key)
    except StoreUnavailableError:
        raise
    except StateError:
        return
    try:
        ((unit, of, content),) = rows
        if of != key.id:
            raise StateError("not sealed with this key")
        if waits is not None and waits.unit == unit:
            link, mac = waits.link, waits.mac
        else:
            link, mac = reader.keyed_link(series, unit)
        about = _place(series, STATE, unit, b"" if mac is None else link)
        key.reveal(content, about=about)
    except (StateError, InputError, ValueError, TypeError):
        raise LedgerError(
            f"series {series!r}: the state in the store was not sealed with this key, or belongs "
            "to another history. The history was rewritten, or the key is another one."
        ) from None


def waiting_unit(reader: SqlReader, series: str, key: Key | None) -> UnitRows | None:
    """The unit that is stored and not shown yet; None if none is, or the key is another one."""
    if "secrets" not in reader._tables():
        return None
    try:
        for unit, of, content in reader.secret_rows(series, PENDING):
            if of and key is not None:
                content = key.reveal(content, about=_place(series, PENDING, unit, b""))
            return msgspec.msgpack.decode(content, type=UnitRows)
    except StoreUnavailableError:
        raise
    except (StateError, msgspec.DecodeError, TypeError):
        return None
    return None


def _place(series: str, part: str, unit: int, link: bytes) -> bytes:
    bound = [link.hex()] if part == STATE and link else []
    return json.dumps([series, part, unit, *bound]).encode()
