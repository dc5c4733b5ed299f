"""JSON arrays in pieces: elements become lines, without the whole array in memory."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from penstock.core.arrays import IntArray
from penstock.core.errors import InputError
from penstock.private.sources.files import MAX_LINE_BYTES

_SPACE = b" \t\r\n"
_NEXT_OBJECT = re.compile(rb"[ \t\r\n]*\{")
_MAX_TRIES = 8
_BYTES_PER_PIECE = 2**17
_EVENTS_KEY = re.compile(rb'[{,][ \t\r\n]*"events"[ \t\r\n]*:[ \t\r\n]*(?=\[)')
_MARKS = bytes(byte in b'"[]{},' for byte in range(256))
_STEPS = np.zeros(256, np.int8)
_STEPS[[ord("["), ord("{")]] = 1
_STEPS[[ord("]"), ord("}")]] = -1


class ArrayError(InputError):
    """A text that is no array of JSON values and no object."""


class LongObjectError(InputError):
    """An object that has too many bytes beside its events."""


def array_lines(pieces: Iterator[bytes], *, limit: int = MAX_LINE_BYTES) -> Iterator[bytes]:
    """The elements of a JSON array, one per line. Held are at most one piece and `limit` bytes.

    The text is an array, an object whose `events` is an array, or one object, which is one line.
    Beside its `events` an object may have `limit` bytes. Each element of at most `limit` bytes is
    checked to be JSON. A longer one is passed on unchecked, for the reader of lines to drop.

    >>> list(array_lines(iter([b'[{"a": 1}, {"a"', b": 2}]"])))
    [b'{"a": 1}\\n', b'{"a": 2}\\n']
    """
    first = next(filter(None, (piece.lstrip(_SPACE) for piece in pieces)), b"")
    if first.startswith(b"["):
        array = _Array(limit)
        yield from array.lines(first[1:], pieces)
        if array.after.strip(_SPACE) or any(piece.strip(_SPACE) for piece in pieces):
            raise ArrayError("there is more after the array.")
    elif first.startswith(b"{"):
        yield from _of_object(first, pieces, limit)
    else:
        raise ArrayError("there is no array.")


class _Envelope(msgspec.Struct):
    events: list[int]


def _of_object(first: bytes, pieces: Iterator[bytes], limit: int) -> Iterator[bytes]:
    head = _grown(first, pieces, limit)
    start = _events_start(head[:limit])
    if start is not None:
        array, following = _Array(limit), itertools.chain(_cut(head[start + 1 :]), pieces)
        yield from array.lines(b"", following)
        tail = _grown(array.after, following, limit)
        if start + len(tail) > limit:
            raise LongObjectError("there is too much beside the events.")
        try:
            events = msgspec.json.decode(head[:start] + b"[0]" + tail, type=_Envelope).events
        except (msgspec.MsgspecError, RecursionError):
            raise ArrayError("this is no object with one array of events.") from None
        if events != [0]:
            raise ArrayError("there are two arrays of events.")
    elif len(head) <= limit:
        yield _checked_lines(head)
    else:
        raise LongObjectError("there are no events near the beginning.")


def _cut(data: bytes) -> Iterator[bytes]:
    for start in range(0, len(data), _BYTES_PER_PIECE):
        yield data[start : start + _BYTES_PER_PIECE]


def _grown(data: bytes, pieces: Iterator[bytes], limit: int) -> bytes:
    """The data and the pieces that follow, until there are more than `limit` bytes."""
    parts, size = [data], len(data)
    while size <= limit and (piece := next(pieces, None)) is not None:
        parts.append(piece)
        size += len(piece)
    return b"".join(parts)


def _events_start(head: bytes) -> int | None:
    """Where the array of an object's `events` begins."""
    found = {match.end() for match in _EVENTS_KEY.finditer(head)}
    if not found:
        return None
    marks = _Scanner(depth=0).scan(head)
    arrays = marks.place[(marks.code == ord("[")) & (marks.depth == 2)]
    return next((place for place in arrays.tolist() if place in found), None)


def _checked_lines(text: bytes) -> bytes:
    """The values between commas, one per line, if there are any.

    Line breaks become spaces: JSON allows them between tokens only, never inside a text.
    """
    try:
        values = msgspec.json.decode(b"[%b]" % text, type=list[msgspec.Raw])
        if b"\n" in text:
            text = text.replace(b"\n", b" ")
            values = msgspec.json.decode(b"[%b]" % text, type=list[msgspec.Raw])
    except (msgspec.DecodeError, RecursionError):
        raise ArrayError("an element is no JSON.") from None
    return b"\n".join((*values, b"")) if values else b""


class _Array:
    """An array that is split as its pieces come. `after` is the text after its end."""

    def __init__(self, limit: int) -> None:
        self.after = b""
        self._limit = limit
        self._some = False
        self._guess = True

    def lines(self, rest: bytes, pieces: Iterator[bytes]) -> Iterator[bytes]:
        """The elements as lines. `rest` begins after the opening bracket."""
        long: _Scanner | None = None  # the state inside an element that is too long
        while True:
            if long is None and self._guess and (cut := _guessed_comma(rest)) is not None:
                try:
                    found = _checked_lines(rest[:cut])
                except ArrayError:
                    self._guess = False
                else:
                    self._some, rest = True, rest[cut + 1 :]
                    yield found
            scanner = long or _Scanner(depth=1)
            first, last, end = scanner.scan(rest).cuts()
            if long is not None and (first is not None or end is not None):
                stop = end if first is None else first
                assert stop is not None
                yield rest[:stop].replace(b"\n", b" ") + b"\n"
                long, self._some = None, True
                if first is None:
                    self.after = rest[stop + 1 :]
                    return
                rest = rest[stop + 1 :]
                continue
            if end is not None:
                yield self._last(rest[:end])
                self.after = rest[end + 1 :]
                return
            if last is not None:
                yield self._checked(rest[:last])
                rest = rest[last + 1 :]
            elif long is not None or len(rest) > self._limit:
                yield rest.replace(b"\n", b" ")
                long, rest = scanner, b""
            piece = next(pieces, None)
            if piece is None:
                raise ArrayError("the array does not end.")
            rest += piece

    def _checked(self, text: bytes) -> bytes:
        found = _checked_lines(text)
        if not found:
            raise ArrayError("there is nothing before a comma.")
        self._some = True
        return found

    def _last(self, text: bytes) -> bytes:
        """The last elements; none only if the whole array has none."""
        return self._checked(text) if self._some else _checked_lines(text)


def _guessed_comma(text: bytes) -> int | None:
    """A late comma between two objects, which may stand inside an element or a text.

    It separates elements if everything before it is a list of JSON values.
    """
    end = len(text)
    for _ in range(_MAX_TRIES):
        end = text.rfind(b"},", 0, end)
        if end < 0:
            return None
        if _NEXT_OBJECT.match(text, end + 2):
            return end + 1
    return None


class _Marks(NamedTuple):
    """The brackets and commas outside texts: place, character, and the depth after each."""

    place: IntArray
    code: NDArray[np.uint8]
    depth: IntArray

    def cuts(self) -> tuple[int | None, int | None, int | None]:
        """The first and the last comma of the array of depth 1, and its end."""
        over = np.flatnonzero(self.depth <= 0)
        size = int(over[0]) if len(over) else len(self.depth)
        commas = self.place[:size][(self.depth[:size] == 1) & (self.code[:size] == ord(","))]
        if len(over) and self.code[size] != ord("]"):
            raise ArrayError("the array ends with another bracket.")
        end = int(self.place[size]) if len(over) else None
        if not len(commas):
            return None, None, end
        return int(commas[0]), int(commas[-1]), end


class _Scanner:
    """Finds brackets and commas outside texts, piece by piece."""

    def __init__(self, *, depth: int) -> None:
        self._depth = depth
        self._inside = False
        self._escaped = False

    def scan(self, data: bytes) -> _Marks:
        if self._escaped and data:
            data = b"\0" + data[1:]
        if b"\\" in data:
            data = data.replace(b"\\\\", b"\0\0").replace(b'\\"', b"\0\0")
        self._escaped = data.endswith(b"\\")
        place = np.flatnonzero(np.frombuffer(data.translate(_MARKS), np.bool_))
        code = np.frombuffer(data, np.uint8)[place]
        quote = code == ord('"')
        inside = np.logical_xor.accumulate(quote) ^ self._inside
        outside = ~(inside | quote)
        place, code = place[outside], code[outside]
        depth = self._depth + np.cumsum(_STEPS[code], dtype=np.int64)
        if len(inside):
            self._inside = bool(inside[-1])
        if len(depth):
            self._depth = int(depth[-1])
        return _Marks(place, code, depth)
