"""The saved state of a run: secret, checked before it is believed, written whole or not at all.

A snapshot is plain data (numbers, strings, arrays, fractions and a few known dataclasses) in
MessagePack behind a header with the format's version and a digest. Nothing in it is executed when
it is read.
"""

from __future__ import annotations

import dataclasses
import fcntl
import hashlib
import os
import typing
from collections.abc import Iterable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from penstock.core.errors import StateError

MAGIC = b"PENSTOCK"
VERSION = 2
"""The version of the format. A reader takes its own version only; see docs/architecture.md for what
a change needs.
"""

_DIGEST = hashlib.sha256().digest_size
_ARRAY = 1
_INT64 = range(-(2**63), 2**64)


def encode(content: Mapping[str, Any], classes: Iterable[type]) -> bytes:
    """A snapshot: header, digest, content. What `decode` could not read back with the same classes
    is refused.
    """
    body = msgspec.msgpack.encode(_plain(dict(content), _known(classes)))
    return MAGIC + VERSION.to_bytes(2, "big") + hashlib.sha256(body).digest() + body


def decode(snapshot: bytes, classes: Iterable[type]) -> dict[str, Any]:
    """The content again, with instances of `classes` and of what their fields name."""
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
        content = _rich(msgspec.msgpack.decode(body, ext_hook=_array_of), _known(classes))
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


def _known(classes: Iterable[type]) -> dict[str, type]:
    known: dict[str, type] = {}
    for cls in classes:
        _collect(cls, known)
    return known


def _collect(cls: Any, known: dict[str, type]) -> None:
    """`cls` and every dataclass that its fields mention."""
    for part in typing.get_args(cls):
        _collect(part, known)
    if isinstance(cls, type) and dataclasses.is_dataclass(cls) and _name(cls) not in known:
        known[_name(cls)] = cls
        for hint in typing.get_type_hints(cls).values():
            _collect(hint, known)


def _name(cls: type) -> str:
    return f"{cls.__module__}:{cls.__qualname__}"


def _plain(value: Any, known: Mapping[str, type]) -> Any:
    if value is None or isinstance(value, (bool, str, bytes)):
        return value
    if isinstance(value, (int, np.integer)):
        return int(value) if int(value) in _INT64 else {"int": str(int(value))}
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, (float, np.floating)):
        return float(value)
    if isinstance(value, Fraction):
        return {"ratio": str(value)}
    if isinstance(value, np.ndarray):
        if value.dtype.hasobject or value.dtype.names:
            raise StateError(
                f"state must be plain data; an array of {value.dtype.type.__name__} cannot be saved."
            )
        head = msgspec.msgpack.encode((value.dtype.str, value.shape))
        return msgspec.msgpack.Ext(
            _ARRAY, len(head).to_bytes(2, "big") + head + np.ascontiguousarray(value).tobytes()
        )
    if isinstance(value, tuple):
        return {"tuple": [_plain(each, known) for each in value]}
    if isinstance(value, list):
        return [_plain(each, known) for each in value]
    if isinstance(value, Mapping):
        return {"map": [[_plain(key, known), _plain(each, known)] for key, each in value.items()]}
    if _name(type(value)) in known:
        fields = {
            field.name: _plain(getattr(value, field.name), known)
            for field in dataclasses.fields(value)
        }
        return {"class": _name(type(value)), "fields": fields}
    raise StateError(f"state must be plain data; {type(value).__name__} cannot be saved.")


def _rich(value: Any, known: Mapping[str, type]) -> Any:
    if isinstance(value, list):
        return [_rich(each, known) for each in value]
    if not isinstance(value, dict):
        return value
    if "class" in value:
        return known[value["class"]](
            **{name: _rich(each, known) for name, each in value["fields"].items()}
        )
    ((kind, content),) = value.items()
    if kind == "map":
        return {_rich(key, known): _rich(each, known) for key, each in content}
    if kind == "tuple":
        return tuple(_rich(each, known) for each in content)
    return Fraction(content) if kind == "ratio" else int(content)


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
        lock = os.open(
            self.path.with_name(self.path.name + ".lock"),
            os.O_CREAT | os.O_RDWR | os.O_CLOEXEC,
            0o600,
        )
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            raise StateError(
                f"{self.path.name} is in use by another run: two runs would draw the same unit twice."
            ) from None
        self._lock: int | None = lock

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
        fresh = self.path.with_name(self.path.name + ".new")
        handle = os.open(fresh, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        os.fchmod(handle, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(snapshot)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self.path)
        folder = os.open(self.path.parent, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def close(self) -> None:
        """Let another run have the file."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
