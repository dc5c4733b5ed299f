"""The saved state of a run: secret, checked before it is believed, written whole or not at all.

A snapshot is plain data (numbers, strings, arrays, fractions and a few known dataclasses) in
MessagePack behind a header with the format's version and a digest. Nothing in it is executed when
it is read.

A snapshot can be taken in pieces. Then its large arrays stand outside of it, in pieces of
`PIECE_BYTES`, and it holds the digest of each piece. So a store can leave out pieces that it has,
and a snapshot is read only with exactly the pieces that belong to it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from penstock.core.codec import FRACTION, MAP, TUPLE, Codec, class_name
from penstock.core.errors import StateError
from penstock.core.files import open_locked, remove_leftovers, write_file
from penstock.core.snapshot_piece import Piece

MAGIC = b"PENSTOCK"
VERSION, IN_PIECES = 2, 3
"""The version of the format, of a whole snapshot and of one in pieces. A reader takes these two
only; see docs/architecture.md for what a change needs.
"""

PIECE_BYTES = 2**17
"""The size of a piece. Arrays that are not larger stand in the snapshot itself."""

COMPARED = frozenset({"state", "last"})
"""The contents that are functions of releases and public numbers. Whoever sees which pieces were
written again learns no more than that.
"""

_RENAMED = {
    "private.gate:Nodes": "TreeNodes",
    "private.mechanisms.bs:Recent": "SmoothingState",
    "private.mechanisms.distance:Position": "DistanceState",
    "private.mechanisms.eshp:Fading": "SketchState",
    "private.mechanisms.fast:Following": "FilterSamplingState",
    "private.mechanisms.filters:Track": "FilterState",
    "private.mechanisms.fixed:Last": "LastRelease",
    "private.mechanisms.grouped:Grouping": "GroupedState",
    "private.mechanisms.hierarchical:Levels": "HierarchyState",
    "private.mechanisms.pegasus:Grouped": "PegasusState",
    "private.mechanisms.rg:Open": "OpenGroup",
    "private.mechanisms.sampling:Standing": "SamplingState",
    "private.mechanisms.toeplitz:Counts": "UnitEstimates",
    "private.mechanisms.uniform:Nothing": "NoState",
}
"""The present name of each class that snapshots of version 0.1 know by another one."""

_OURS = "penstock."
_DIGEST = hashlib.sha256().digest_size
_ARRAY, _PIECES = 1, 2
"""The types of MessagePack extension that hold an array, and the digests of its pieces."""


@dataclass(frozen=True, kw_only=True, repr=False)
class PiecewiseSnapshot:
    """A snapshot in pieces. Its pieces are those of the run's own arrays, so the run must not go on
    before they are written.
    """

    head: bytes
    pieces: Mapping[str, Piece]


def encode(content: Mapping[str, Any], classes: Iterable[type]) -> bytes:
    """A whole snapshot: header, digest, content. It may hold instances of `classes` and of the
    dataclasses that their fields name; anything else is refused.
    """
    return _sealed(_codec(tuple(classes)).plain(dict(content)), VERSION)


def encode_in_pieces(content: Mapping[str, Any], classes: Iterable[type]) -> PiecewiseSnapshot:
    """A snapshot in pieces of the same content. Each piece is named after its place."""
    codec, pieces, plain = _codec(tuple(classes)), dict[str, Piece](), []
    for name, value in content.items():
        cut = replace(codec, array=_ArrayCutter(name, pieces))
        plain.append([name, cut.plain(value)])
    head = _sealed({MAP.tag: plain}, IN_PIECES if pieces else VERSION)
    return PiecewiseSnapshot(head=head, pieces=pieces)


def _sealed(plain: Any, version: int) -> bytes:
    body = msgspec.msgpack.encode(plain)
    return b"".join((MAGIC, version.to_bytes(2, "big"), hashlib.sha256(body).digest(), body))


def decode(
    snapshot: bytes, classes: Iterable[type], pieces: Mapping[str, bytes] | None = None
) -> dict[str, Any]:
    """The content again, with instances of `classes` and of the dataclasses their fields name.

    `pieces` are those of a snapshot in pieces, by name. A piece that is missing, or is not the one
    that the snapshot was saved with, is a `StateError`.
    """
    if snapshot[: len(MAGIC)] != MAGIC:
        raise StateError("this is not a snapshot of a Penstock run.")
    head = len(MAGIC) + 2
    version = int.from_bytes(snapshot[len(MAGIC) : head], "big")
    if version not in (VERSION, IN_PIECES):
        raise StateError(
            f"this snapshot has format version {version}; this Penstock reads versions {VERSION} "
            f"and {IN_PIECES}."
        )
    body = snapshot[head + _DIGEST :]
    if hashlib.sha256(body).digest() != snapshot[head : head + _DIGEST]:
        raise StateError("this snapshot is damaged: its digest does not match its content.")
    arrays = _ArrayReader({} if pieces is None else pieces)
    try:
        content = _codec(tuple(classes)).rich(msgspec.msgpack.decode(body, ext_hook=arrays))
    except (
        msgspec.DecodeError,
        KeyError,
        TypeError,
        ValueError,
        AttributeError,
        ArithmeticError,
    ) as error:
        raise StateError(f"this snapshot cannot be read here: {type(error).__name__}.") from None
    if not isinstance(content, dict):
        raise StateError("this snapshot cannot be read here: it has no content.")
    if arrays.in_pieces != (version == IN_PIECES):
        raise StateError("this snapshot is damaged: its version does not match its content.")
    return typing.cast("dict[str, Any]", content)


@lru_cache(maxsize=32)
def _codec(classes: tuple[type, ...]) -> Codec:
    """The codec for instances of these classes and of the dataclasses that their fields name."""
    known: dict[str, type] = {}
    for cls in classes:
        _collect(cls, known)
    ours = {cls.__qualname__: cls for name, cls in known.items() if name.startswith(_OURS)}

    def renamed(name: str) -> type | None:
        """The class that has moved to another module, or has another name, since it was saved."""
        if not name.startswith(_OURS):
            return None
        return ours.get(_RENAMED.get(name.removeprefix(_OURS)) or name.rpartition(":")[2])

    return Codec((FRACTION, TUPLE, MAP), known, _array, renamed)


def _collect(cls: Any, known: dict[str, type]) -> None:
    """Add `cls` and every dataclass that its fields mention."""
    for part in typing.get_args(cls):
        _collect(part, known)
    if isinstance(cls, type) and dataclasses.is_dataclass(cls) and class_name(cls) not in known:
        known[class_name(cls)] = cls
        for hint in typing.get_type_hints(cls).values():
            _collect(hint, known)


def _array(value: Any) -> msgspec.msgpack.Ext:
    head = msgspec.msgpack.encode(_form(value))
    data = np.ascontiguousarray(value).tobytes()
    return msgspec.msgpack.Ext(_ARRAY, len(head).to_bytes(2, "big") + head + data)


def _form(value: Any) -> tuple[str, tuple[int, ...]]:
    """Type and shape of an array that can be saved."""
    if value.dtype.hasobject or value.dtype.names:
        kind = value.dtype.type.__name__
        raise StateError(f"state must be plain data; an array of {kind} cannot be saved.")
    return value.dtype.str, value.shape


class _ArrayCutter:
    """Writes the arrays of one content of a snapshot: a large one as the digests of its pieces."""

    def __init__(self, name: str, pieces: dict[str, Piece]) -> None:
        self._name = name
        self._pieces = pieces
        self._arrays = 0

    def __call__(self, value: Any) -> msgspec.msgpack.Ext:
        if value.nbytes <= PIECE_BYTES:
            return _array(value)
        form, place = _form(value), f"{self._name} {self._arrays}"
        self._arrays += 1
        whole, digests = _bytes_of(np.ascontiguousarray(value)).toreadonly(), list[bytes]()
        for number, first in enumerate(range(0, len(whole), PIECE_BYTES)):
            content = whole[first : first + PIECE_BYTES]
            digests.append(hashlib.sha256(content).digest())
            self._pieces[f"{place} {number}"] = Piece(
                content=content, digest=digests[-1], compared=self._name in COMPARED
            )
        head = msgspec.msgpack.encode((*form, place, PIECE_BYTES, b"".join(digests)))
        return msgspec.msgpack.Ext(_PIECES, head)


class _ArrayReader:
    """Reads the arrays of a snapshot, from its pieces where they are outside of it."""

    def __init__(self, pieces: Mapping[str, bytes]) -> None:
        self._pieces = pieces
        self.in_pieces = False

    def __call__(self, code: int, data: memoryview) -> Any:
        if code == _PIECES:
            self.in_pieces = True
            return self._joined(data)
        if code != _ARRAY:
            raise ValueError("unknown extension")
        start = 2 + int.from_bytes(data[:2], "big")
        dtype, shape = msgspec.msgpack.decode(data[2:start], type=tuple[str, tuple[int, ...]])
        return np.frombuffer(data[start:], _known(dtype)).reshape(shape).copy()

    def _joined(self, data: memoryview) -> Any:
        dtype, shape, place, size, digests = msgspec.msgpack.decode(
            data, type=tuple[str, tuple[int, ...], str, int, bytes]
        )
        whole = np.empty(shape, _known(dtype))
        room = _bytes_of(whole)
        for number, first in enumerate(range(0, len(room), size)):
            content = self._pieces.get(f"{place} {number}")
            if content is None:
                raise StateError("a piece of this snapshot is missing.")
            digest = digests[number * _DIGEST : (number + 1) * _DIGEST]
            if hashlib.sha256(content).digest() != digest:
                raise StateError(
                    "a piece of this snapshot is not the one that it was saved with: it is "
                    "damaged, or of another unit."
                )
            room[first : first + size] = content
        return whole


def _bytes_of(array: Any) -> memoryview:
    """The bytes of a contiguous array of any type."""
    return memoryview(array.reshape(-1).view(np.uint8))


def _known(dtype: str) -> np.dtype[Any]:
    """The type of an array that can be read."""
    if np.dtype(dtype).hasobject:
        raise ValueError("an array of objects")
    return np.dtype(dtype)


class StateFile:
    """A file that holds the newest snapshot, replaced whole, readable by its owner only, and used
    by one run at a time.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).resolve()
        self._lock: int | None = None
        try:
            self._lock = open_locked(self.path.with_name(f"{self.path.name}.lock"))
        except BlockingIOError:
            raise StateError(
                f"{self.path.name} is in use by another run: two runs would draw the same unit "
                "twice."
            ) from None
        remove_leftovers(self.path)

    def read(self) -> bytes | None:
        """The newest snapshot, or None if there is none yet."""
        try:
            return self.path.read_bytes()
        except FileNotFoundError:
            return None

    def write(self, snapshot: bytes) -> None:
        """Replace the snapshot: killed at any point, the old or the new one is read."""
        if self._lock is None:
            raise StateError(f"{self.path.name} was closed.")
        write_file(self.path, snapshot, mode=0o600)

    def close(self) -> None:
        """Let another run have the file."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
