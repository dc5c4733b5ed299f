"""What a run shows: releases, ledger lines, state, log records, text, errors; and differences."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import logging
import sys
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np


@dataclass
class ObservedUnit:
    """Everything that one unit of a run shows.

    Parameters
    ----------
    unit : int
        The unit.
    shown : dict
        By name: the release, the ledger lines, the mechanism's state, log records, text, errors.
    """

    unit: int
    shown: dict[str, Any] = field(default_factory=dict)

    def differences(self, other: ObservedUnit) -> Iterator[str]:
        """All that is not the same in both, in words."""
        for name in self.shown.keys() | other.shown.keys():
            for place in differing(name, self.shown.get(name), other.shown.get(name)):
                yield f"unit {self.unit}: {place}"


def differing(name: str, one: Any, other: Any) -> Iterator[str]:
    """The places at which two values differ: type, keys, order, dtype, shape or content.

    Parameters
    ----------
    name : str
        What they are.
    one, other : object
        The values: plain data, arrays, dataclasses.

    >>> list(differing("public", {"a": 1, "b": 2}, {"b": 2, "a": 1}))
    ['the names in public or their order']
    >>> list(differing("value", np.zeros(2), np.zeros(2, np.int64)))
    ['the type of numbers of value: float64 and int64']
    """
    if one is other:
        return
    if type(one) is not type(other):
        yield f"the type of {name}: {type(one).__name__} and {type(other).__name__}"
    elif isinstance(one, (int, str, bytes, Fraction, set, frozenset)):
        if one != other:
            yield name
    elif isinstance(one, np.ndarray):
        yield from _arrays(name, one, other)
    elif isinstance(one, (Mapping, list, tuple)):
        yield from _containers(name, one, other)
    elif dataclasses.is_dataclass(one) and not isinstance(one, type):
        yield from _objects(name, one, other)
    elif isinstance(one, (float, complex)):
        if repr(one) != repr(other):
            yield name
    elif hasattr(one, "__dict__"):
        yield from differing(name, vars(one), vars(other))
    elif repr(one) != repr(other):
        yield name


def _containers(name: str, one: Any, other: Any) -> Iterator[str]:
    if isinstance(one, Mapping):
        if list(one) != list(other):
            yield f"the names in {name} or their order"
            return
        for key in one:
            yield from differing(f"{name}[{key!r}]", one[key], other[key])
    elif len(one) != len(other):
        yield f"the length of {name}"
    else:
        for place, (here, there) in enumerate(zip(one, other, strict=True)):
            yield from differing(f"{name}[{place}]", here, there)


def _arrays(name: str, one: Any, other: Any) -> Iterator[str]:
    if one.dtype != other.dtype:
        yield f"the type of numbers of {name}: {one.dtype} and {other.dtype}"
    elif one.shape != other.shape:
        yield f"the shape of {name}: {one.shape} and {other.shape}"
    elif one.dtype.hasobject:
        yield from differing(name, one.tolist(), other.tolist())
    elif one.tobytes() != other.tobytes():
        yield name


def _objects(name: str, one: Any, other: Any) -> Iterator[str]:
    """Fields, and whatever else an instance carries."""
    known = [each.name for each in dataclasses.fields(one)]
    for each in known:
        yield from differing(f"{name}.{each}", getattr(one, each), getattr(other, each))
    more, there = (
        {key: value for key, value in getattr(each, "__dict__", {}).items() if key not in known}
        for each in (one, other)
    )
    if not more and not there:
        return
    cached = _CACHED | {
        key
        for cls in type(one).__mro__
        for key, value in vars(cls).items()
        if type(value).__name__ == "cached_property"
    }
    yield from differing(
        f"{name}'s attributes",
        {key: more[key] for key in more if key not in cached},
        {key: there[key] for key in there if key not in cached},
    )


_CACHED = {"domain", "calendar"}
"""Attributes of a release that name public keys and times."""


class _Collector(logging.Handler):
    def __init__(self) -> None:
        super().__init__(level=0)
        self.records: list[tuple[str, int, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        more = f" {record.exc_info[1]!r}" if record.exc_info and record.exc_info[1] else ""
        own = {
            key: repr(value)
            for key, value in vars(record).items()
            if key not in _PLAIN_RECORD and isinstance(value, (int, float, str, Fraction, tuple))
        }
        text = record.getMessage() + more + (f" {own}" if own else "")
        self.records.append((record.name, record.levelno, text))


_PLAIN_RECORD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "taskName"}


class _Files:
    """The files that are opened for writing. An audit hook of Python cannot be removed, so there is
    one, which is told when to listen.
    """

    listening: list[str] | None = None
    installed = False

    @classmethod
    def listen(cls, paths: list[str] | None) -> list[str] | None:
        if not cls.installed:
            sys.addaudithook(cls._hear)
            cls.installed = True
        before, cls.listening = cls.listening, paths
        return before

    @classmethod
    def _hear(cls, event: str, arguments: tuple[Any, ...]) -> None:
        heard = cls.listening
        if heard is None or event != "open":
            return
        path, mode, flags = arguments
        writes = any(letter in "wax+" for letter in mode) if isinstance(mode, str) else flags & 3
        if writes and isinstance(path, (str, bytes)):
            text = path if isinstance(path, str) else path.decode(errors="replace")
            if "__pycache__" not in text and not text.startswith("/dev/"):
                heard.append(text)


@contextlib.contextmanager
def overheard(into: dict[str, Any]) -> Iterator[None]:
    """Collect all that is logged, warned of, printed or written to files inside.

    Parameters
    ----------
    into : dict
        Where it is put: "log records", "warnings", "printed text", "files".
    """
    root, collector = logging.getLogger(), _Collector()
    handlers, level, off = root.handlers[:], root.level, logging.root.manager.disable
    root.handlers[:] = [collector]
    root.setLevel(1)
    logging.disable(logging.NOTSET)
    paths: list[str] = []
    before = _Files.listen(paths)
    out, err = io.StringIO(), io.StringIO()
    warned: list[warnings.WarningMessage] = []
    try:
        with (
            warnings.catch_warnings(record=True) as heard,
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            warnings.simplefilter("always")
            warned = heard
            yield
    finally:
        _Files.listen(before)
        root.handlers[:] = handlers
        root.setLevel(level)
        logging.disable(off)
        into["log records"] = collector.records
        into["warnings"] = [str(each.message) for each in warned]
        into["printed text"] = (out.getvalue(), err.getvalue())
        into["files"] = {
            path: _content(path) for path in dict.fromkeys(paths) if Path(path).exists()
        }


def _content(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""
