"""The saved state of a run: secret, checked before it is believed, written whole or not at all.

A snapshot is plain data (numbers, strings, arrays, fractions and a few known dataclasses) in
MessagePack behind a header with the format's version and a digest. Nothing in it is executed when
it is read.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import typing
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from penstock.core.codec import FRACTION, MAP, TUPLE, Codec, class_name
from penstock.core.errors import StateError
from penstock.core.files import open_locked, remove_leftovers, write_file

MAGIC = b"PENSTOCK"
VERSION = 2
"""The version of the format. A reader takes its own version only; see docs/architecture.md for what
a change needs.
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
_ARRAY = 1
"""The type of MessagePack extension that holds an array."""


def encode(content: Mapping[str, Any], classes: Iterable[type]) -> bytes:
    """A snapshot: header, digest, content. It may hold instances of `classes` and of the
    dataclasses that their fields name; anything else is refused.
    """
    body = msgspec.msgpack.encode(_codec(tuple(classes)).plain(dict(content)))
    return MAGIC + VERSION.to_bytes(2, "big") + hashlib.sha256(body).digest() + body


def decode(snapshot: bytes, classes: Iterable[type]) -> dict[str, Any]:
    """The content again, with instances of `classes` and of the dataclasses their fields name."""
    if snapshot[: len(MAGIC)] != MAGIC:
        raise StateError("this is not a snapshot of a Penstock run.")
    head = len(MAGIC) + 2
    version = int.from_bytes(snapshot[len(MAGIC) : head], "big")
    if version != VERSION:
        raise StateError(
            f"this snapshot has format version {version}; this Penstock reads version {VERSION}."
        )
    body = snapshot[head + _DIGEST :]
    if hashlib.sha256(body).digest() != snapshot[head : head + _DIGEST]:
        raise StateError("this snapshot is damaged: its digest does not match its content.")
    try:
        content = _codec(tuple(classes)).rich(msgspec.msgpack.decode(body, ext_hook=_array_of))
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
    if value.dtype.hasobject or value.dtype.names:
        kind = value.dtype.type.__name__
        raise StateError(f"state must be plain data; an array of {kind} cannot be saved.")
    head = msgspec.msgpack.encode((value.dtype.str, value.shape))
    data = np.ascontiguousarray(value).tobytes()
    return msgspec.msgpack.Ext(_ARRAY, len(head).to_bytes(2, "big") + head + data)


def _array_of(code: int, data: memoryview) -> Any:
    if code != _ARRAY:
        raise ValueError("unknown extension")
    start = 2 + int.from_bytes(data[:2], "big")
    dtype, shape = msgspec.msgpack.decode(data[2:start], type=tuple[str, tuple[int, ...]])
    if np.dtype(dtype).hasobject:
        raise ValueError("an array of objects")
    return np.frombuffer(data[start:], np.dtype(dtype)).reshape(shape).copy()


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
