"""What a run shows: releases, ledger lines, state, log records, text, errors; and differences."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import logging
import os
import sys
import threading
import traceback
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np

from penstock.lab.audit.replay.process_settings import watched_settings


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
        for name in dict.fromkeys((*self.shown, *other.shown)):
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
    if _same(one, other):
        return
    if type(one) is not type(other):
        yield f"the type of {name}: {type(one).__name__} and {type(other).__name__}"
    elif isinstance(one, (int, str, bytes, Fraction, set, frozenset)):
        if one != other:
            yield name
        yield from _carried(name, one, other)
    elif isinstance(one, np.ndarray):
        yield from _arrays(name, one, other)
        yield from _carried(name, one, other)
    elif isinstance(one, (Mapping, list, tuple)):
        yield from _containers(name, one, other)
        yield from _carried(name, one, other)
    elif dataclasses.is_dataclass(one) and not isinstance(one, type):
        yield from _objects(name, one, other)
    elif isinstance(one, (float, complex)):
        if repr(one) != repr(other):
            yield name
    elif hasattr(one, "__dict__"):
        yield from differing(name, vars(one), vars(other))
    elif hasattr(one, "__slots__"):
        yield from differing(name, _slots(one), _slots(other))
    elif repr(one) != repr(other):
        yield name


_COMPARED_BY_VALUE = frozenset((type(None), bool, int, str, bytes, Fraction, set, frozenset))


def _same(one: Any, other: Any) -> bool:
    """Whether two values are surely the same, by the rules of `differing`.

    Nearly all that two runs show is the same, and this says so much faster. Whatever is not of a
    common type is left to `differing`.
    """
    if one is other:
        return True
    kind: Any = type(one)
    if kind is not type(other):
        return False
    if kind in _COMPARED_BY_VALUE:
        return bool(one == other)
    if kind is float:
        return repr(one) == repr(other)
    if kind is np.ndarray:
        return _same_arrays(one, other)
    if kind is tuple or kind is list:
        return len(one) == len(other) and all(map(_same, one, other))
    if kind is dict:
        return list(one) == list(other) and all(map(_same, one.values(), other.values()))
    names = _field_names(cast("Any", kind))
    if names is None:
        return False
    more = _more(one, names), _more(other, names)
    return not any(more) and all(_same(getattr(one, x), getattr(other, x)) for x in names)


def _same_arrays(one: Any, other: Any) -> bool:
    """Whether arrays are surely the same that are no parts of others."""
    return (
        one.base is None
        and other.base is None
        and one.dtype is other.dtype
        and one.dtype.metadata is None
        and not one.dtype.hasobject
        and one.shape == other.shape
        and one.strides == other.strides
        and one.flags.writeable == other.flags.writeable
        and one.tobytes() == other.tobytes()
    )


@lru_cache(maxsize=1024)
def _field_names(kind: Any) -> tuple[str, ...] | None:
    """The names of the fields of a dataclass; None of other classes."""
    if issubclass(kind, _WITH_CONTENT) or not dataclasses.is_dataclass(kind):
        return None
    return tuple(each.name for each in dataclasses.fields(kind))


_WITH_CONTENT = (int, str, bytes, Fraction, set, frozenset, np.ndarray, Mapping, list, tuple)
"""Classes whose instances are compared by their content, even if they are dataclasses."""


def _more(value: Any, names: tuple[str, ...]) -> bool:
    """Whether an instance of a dataclass carries more than its fields and what is not compared."""
    usual = _not_compared(cast("Any", type(value))).union(names)
    return not getattr(value, "__dict__", {}).keys() <= usual


def _carried(name: str, one: Any, other: Any) -> Iterator[str]:
    """What an instance of a class of others carries beside its numbers, text or content."""
    if hasattr(one, "__dict__") and not isinstance(one, Fraction):
        yield from differing(f"{name}'s attributes", vars(one), vars(other))


def _slots(value: Any) -> dict[str, Any]:
    """The content of an object without a `__dict__`."""
    names = [each for cls in type(value).__mro__ for each in getattr(cls, "__slots__", ())]
    return {each: getattr(value, each, None) for each in names if not each.startswith("__")}


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
    one, other = one.view(np.ndarray), other.view(np.ndarray)  # also what lies below a mask
    if one.dtype != other.dtype or one.dtype.metadata != other.dtype.metadata:
        yield f"the type of numbers of {name}: {one.dtype} and {other.dtype}"
    elif one.shape != other.shape:
        yield f"the shape of {name}: {one.shape} and {other.shape}"
    elif (one.strides, one.flags.writeable) != (other.strides, other.flags.writeable):
        yield f"how {name} lies in memory"
    elif one.dtype.hasobject:
        yield from differing(name, one.tolist(), other.tolist())
    elif one.tobytes() != other.tobytes():
        yield name
    elif _behind(one) != _behind(other):
        yield f"what lies in memory behind {name}"


def _behind(array: Any) -> bytes:
    """The whole array that an array is a part of."""
    whole = array.base
    while isinstance(whole, np.ndarray) and isinstance(whole.base, np.ndarray):
        whole = whole.base
    if not isinstance(whole, np.ndarray) or whole.dtype.hasobject:
        return b""
    return whole.tobytes()


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
    cached = _not_compared(cast("Any", type(one)))
    if type(one).__module__.startswith(_OWN_FILTERS):
        cached |= {key for key in (*more, *there) if key.startswith("_")}
    yield from differing(
        f"{name}'s attributes",
        {key: more[key] for key in more if key not in cached},
        {key: there[key] for key in there if key not in cached},
    )


@lru_cache(maxsize=1024)
def _not_compared(kind: Any) -> frozenset[str]:
    """Attributes of instances of a class that follow from their fields."""
    return _CACHED | {
        key
        for cls in kind.__mro__
        for key, value in vars(cls).items()
        if type(value).__name__ == "cached_property"
    }


_OWN_FILTERS = "penstock.filters."
"""Classes of our filters keep numbers that follow from their fields in private attributes. These
are not saved, so a restart computes them again. Classes of others get no such freedom.
"""

_CACHED = frozenset(("domain", "calendar"))
"""Attributes of a release that name public keys and times."""


LogRecordFacts: TypeAlias = tuple[str, int, str, dict[str, Any]]
"""A log record: its logger, its level, its text and its other attributes."""


class _Collector(logging.Handler):
    def __init__(self) -> None:
        super().__init__(level=0)
        self.records: list[LogRecordFacts] = []

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        more = {key: value for key, value in vars(record).items() if key not in _OF_THE_MOMENT}
        if error is not None:
            more["error"] = told(error)
        self.records.append((record.name, record.levelno, record.getMessage(), more))


_OF_THE_MOMENT = frozenset(
    (
        "created",
        "msecs",
        "relativeCreated",
        "thread",
        "threadName",
        "process",
        "processName",
        "taskName",
        "exc_info",
        "exc_text",
    )
)
"""Parts of a log record that say when it was made, and by which thread. Others are compared, with
the line that it came from.
"""


CHANGES = frozenset(
    {
        "ftplib.sendcmd",
        "http.client.send",
        "imaplib.send",
        "os.chmod",
        "os.chown",
        "os.exec",
        "os.fork",
        "os.kill",
        "os.killpg",
        "os.link",
        "os.mkdir",
        "os.posix_spawn",
        "os.putenv",
        "os.remove",
        "os.removexattr",
        "os.rename",
        "os.rmdir",
        "os.setxattr",
        "os.spawn",
        "os.symlink",
        "os.system",
        "os.truncate",
        "os.unsetenv",
        "os.utime",
        "smtplib.send",
        "socket.bind",
        "socket.connect",
        "socket.getaddrinfo",
        "socket.gethostbyname",
        "socket.sendmsg",
        "socket.sendto",
        "sqlite3.connect",
        "subprocess.Popen",
        "syslog.openlog",
        "syslog.syslog",
        "urllib.Request",
    }
)
"""Events of Python's audit hooks by which a run leaves something outside of itself."""


@dataclass
class _Traces:
    """What a run leaves outside of itself."""

    written: list[str] = field(default_factory=list)
    changes: list[tuple[str, str]] = field(default_factory=list)


class _Hook:
    """Hears of files that are opened for writing, and of other traces. An audit hook of Python
    cannot be removed, so there is one, which is told when to listen.
    """

    listening: _Traces | None = None
    installed = False

    @classmethod
    def listen(cls, traces: _Traces | None) -> _Traces | None:
        if not cls.installed:
            sys.addaudithook(cls._hear)
            cls.installed = True
        before, cls.listening = cls.listening, traces
        return before

    @classmethod
    def _hear(cls, event: str, arguments: tuple[Any, ...]) -> None:
        heard = cls.listening
        if heard is None or (event != "open" and event not in CHANGES):
            return
        if event == "open":
            path, mode, flags = arguments
            writes = any(x in "wax+" for x in mode) if isinstance(mode, str) else flags & 3
            if writes and isinstance(path, (str, bytes)):
                text = path if isinstance(path, str) else path.decode(errors="replace")
                if "__pycache__" not in text and not text.startswith("/dev/"):
                    heard.written.append(text)
            return
        what = repr(arguments)
        if "__pycache__" in what:
            return
        if event == "sqlite3.connect" and isinstance(arguments[0], (str, os.PathLike)):
            heard.written.append(os.fspath(arguments[0]))
        if event in ("os.remove", "os.rename", "os.truncate"):
            what += repr(_content(os.fspath(arguments[0])))
        heard.changes.append((event, what))


class _HeardText(io.StringIO):
    """Text that is written, but for that of threads which were there before, such as a progress
    bar's. These write where they did.
    """

    def __init__(self, stream: Any) -> None:
        super().__init__()
        self.buffer = self.written = io.BytesIO()  # type: ignore[misc]
        self._stream = stream
        here = threading.get_ident()
        self._others = {each.ident for each in threading.enumerate()} - {here}

    def write(self, text: str) -> int:
        if threading.get_ident() in self._others:
            return 0 if self._stream is None else int(self._stream.write(text))
        return super().write(text)


@contextlib.contextmanager
def _own_streams(out: _HeardText, err: _HeardText, raw: list[tuple[int, bytes]]) -> Iterator[None]:
    """Give what is written to standard streams to these, however it is written."""
    streams = sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__
    write = os.write

    def heard(descriptor: int, data: Any, /) -> int:
        if threading.get_ident() in out._others:
            return write(descriptor, data)
        raw.append((min(descriptor, 3), bytes(data)))
        return len(data) if descriptor in (1, 2) else write(descriptor, data)

    sys.stdout, sys.stderr = out, err
    sys.__stdout__, sys.__stderr__ = out, err  # type: ignore[misc, assignment]
    os.write = heard
    try:
        yield
    finally:
        os.write = write
        sys.stdout, sys.stderr = streams[:2]
        sys.__stdout__, sys.__stderr__ = streams[2:]  # type: ignore[misc]


@contextlib.contextmanager
def all_logged() -> Iterator[list[LogRecordFacts]]:
    """Collect all log records inside, of any level.

    To change the level of the root logger takes long, because all loggers forget what they know
    about theirs. Inside of another `all_logged` the level is right already.
    """
    root, collector = logging.getLogger(), _Collector()
    handlers, level, off = root.handlers[:], root.level, root.manager.disable
    root.handlers[:] = [collector]
    _let_through(1, logging.NOTSET)
    try:
        yield collector.records
    finally:
        root.handlers[:] = handlers
        _let_through(level, off)


def _let_through(level: int, off: int) -> None:
    """Set the level of the root logger, and the level that is disabled for all, if they differ."""
    root = logging.getLogger()
    if root.level != level:
        root.setLevel(level)
    if root.manager.disable != off:
        logging.disable(off)


@contextlib.contextmanager
def overheard(into: dict[str, Any]) -> Iterator[None]:
    """Collect all that is logged, warned of, printed, written to files or set inside.

    Parameters
    ----------
    into : dict
        Where it is put: "log records", "warnings", "printed text", "files", "traces", and
        "settings", the settings of the process that have changed. These are set back.
    """
    traces, raw = _Traces(), list[tuple[int, bytes]]()
    before = _Hook.listen(traces)
    out, err = _HeardText(sys.stdout), _HeardText(sys.stderr)
    warned: list[warnings.WarningMessage] = []
    logged: list[LogRecordFacts] = []
    changed: dict[str, str] = {}
    try:
        with (
            all_logged() as records,
            warnings.catch_warnings(record=True) as heard,
            _own_streams(out, err, raw),
        ):
            warnings.simplefilter("always")
            warned, logged = heard, records
            with watched_settings(changed):
                yield
    finally:
        _Hook.listen(before)
        into["log records"] = logged
        into["warnings"] = [
            (each.category.__name__, str(each.message), each.filename, each.lineno)
            for each in warned
        ]
        into["printed text"] = (out.getvalue(), err.getvalue())
        into["printed bytes"] = (out.written.getvalue(), err.written.getvalue())
        into["bytes written"] = raw
        into["files"] = {path: _content(path) for path in dict.fromkeys(traces.written)}
        into["traces"] = traces.changes
        into["settings"] = changed


def _content(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError:  # it is gone
        return b""


def told(error: BaseException) -> list[tuple[Any, ...]]:
    """All that an error tells: its text, notes, attributes, what it was raised from, and where.

    Parameters
    ----------
    error : BaseException
        The error.

    >>> told(ValueError("too few"))
    [('ValueError', 'too few', ["'too few'"], [], [], {})]
    """
    found: list[tuple[Any, ...]] = []
    left: list[BaseException | None] = [error]
    while left and len(found) < 10:
        each = left.pop()
        if each is None:
            continue
        places = [
            (frame.filename, frame.lineno)
            for frame in traceback.extract_tb(each.__traceback__)
            if _LAB not in frame.filename.replace(os.sep, "/")
        ]
        notes = list(getattr(each, "__notes__", ()))
        own = {key: value for key, value in vars(each).items() if key != "__notes__"}
        arguments = [repr(x) for x in each.args]
        found.append((type(each).__name__, str(each), arguments, notes, places, own))
        left += [each.__context__] * (each.__context__ is not each.__cause__) + [each.__cause__]
    return found


_LAB = "/penstock/lab/"
"""Frames of the lab itself are not compared."""
