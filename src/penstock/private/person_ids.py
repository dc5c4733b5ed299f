"""Number the persons of one open unit 0, 1, 2, …, whatever their ids look like.

Everything here is raw data: nothing is shown, logged or raised.
"""

from __future__ import annotations

import hashlib
from importlib import import_module
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from penstock.core.arrays import BoolArray, IntArray
from penstock.core.errors import InputError
from penstock.private.counts_input import Column

Kind: TypeAlias = Literal["signed", "unsigned", "text"]
"""The kind of ids. Unsigned ids of 64 bits are kept as signed numbers of the same bits, so signed
and unsigned ids are never mixed.
"""

Slots: TypeAlias = NDArray[np.int32]
Words: TypeAlias = NDArray[np.uint64]

MIN_SLOTS = 1 << 12
IDS_PER_CHUNK = 1 << 16
MAX_PERSONS = 2**31 - 1 - IDS_PER_CHUNK
"""The most persons in a unit, as their numbers have 32 bits."""

_WORD = 8
_DIGEST_BYTES = 32
MAX_TEXT_BYTES = 128
"""Longer ids are kept as digests."""

_PADDING = b" " * (MAX_TEXT_BYTES + 1 - _DIGEST_BYTES)
_TEXT = ("string", "large_string", "binary", "large_binary", "fixed_size_binary")
_SALT = np.uint64(hash("where an id is kept") & (2**64 - 1))
"""Differs in every process, so that nobody can choose ids that collide."""


class Loops(Protocol):
    """The compiled loops of `bounding_fast`, which replace array expressions of this package."""

    def number(
        self,
        ids: IntArray,
        start: int,
        out: IntArray,
        slots: Slots,
        known: IntArray,
        size: int,
        limit: int,
        salt: np.uint64,
    ) -> tuple[int, int]: ...

    def place(self, known: IntArray, slots: Slots, salt: np.uint64) -> None: ...

    def hashes(
        self, words: Words, start: IntArray, length: IntArray, salt: np.uint64
    ) -> IntArray: ...

    def offer(
        self,
        person: IntArray,
        low: int,
        time: IntArray,
        base: int,
        key: IntArray,
        bits: int,
        first: IntArray,
        rest: bool,
    ) -> tuple[IntArray, IntArray]: ...

    def smallest(
        self, person: IntArray, value: IntArray, first: IntArray, rest: bool
    ) -> tuple[IntArray, IntArray]: ...


class IntegerIds:
    """Whole-number ids, numbered as they come, in a hash table of whole arrays.

    The first place of an id is its own lowest bits, so that ids without gaps never collide. From
    there it continues in steps of its own. At most half of the places are taken.

    >>> numbers = IntegerIds()
    >>> number = numbers.of(np.array([70, -5, 70, 2**62]))
    >>> len(numbers), numbers.known[number].tolist()
    (3, [70, -5, 70, 4611686018427387904])
    """

    def __init__(self, loops: Loops | None = None) -> None:
        self._loops = loops
        self._slots: Slots = np.full(MIN_SLOTS, -1, np.int32)
        self._known: IntArray = np.empty(MIN_SLOTS // 2, np.int64)
        self._size = 0

    def __len__(self) -> int:
        return self._size

    @property
    def known(self) -> IntArray:
        """The ids by number."""
        return self._known[: self._size]

    def clear(self) -> None:
        """Forget every id. The memory is used again."""
        self._slots.fill(-1)
        self._size = 0

    def of(self, ids: IntArray) -> IntArray:
        """The number of each id. New ids get the next numbers."""
        out = np.empty(len(ids), np.int64)
        if self._loops is not None:
            done = 0
            while done < len(ids):
                limit = len(self._slots) // 2
                done, self._size = self._loops.number(
                    ids, done, out, self._slots, self._known, self._size, limit, _SALT
                )
                if done < len(ids):
                    self._grow(limit + 1)
            return out
        for start in range(0, len(ids), IDS_PER_CHUNK):
            chunk = ids[start : start + IDS_PER_CHUNK]
            self._grow(self._size + len(chunk))
            out[start : start + len(chunk)] = self._find(chunk)
        return out

    def reserve(self, persons: int) -> None:
        """Make room for so many persons at once."""
        self._grow(persons)

    def _find(self, ids: IntArray) -> IntArray:
        out = np.empty(len(ids), np.int64)
        where, place, step = np.arange(len(ids)), ids & (len(self._slots) - 1), _mixed(ids) | 1
        while len(ids):
            found = self._slots.take(place)
            new = np.flatnonzero(found < 0)
            if len(new):
                free = place[new]
                claim = np.arange(len(new), dtype=np.int32)
                self._slots[free] = claim
                won = np.flatnonzero(self._slots.take(free) == claim)
                numbers = np.arange(self._size, self._size + len(won), dtype=np.int32)
                self._slots[free[won]] = numbers
                self._known[self._size : self._size + len(won)] = ids[new[won]]
                self._size += len(won)
                found[new] = self._slots.take(free)
            out[where] = found
            other = np.flatnonzero(self._known.take(found) != ids)
            where, ids, step = where[other], ids[other], step[other]
            place = (place[other] + step) & (len(self._slots) - 1)
        return out

    def _grow(self, persons: int) -> None:
        """Make room for `persons`, and for about as many again."""
        if 2 * persons <= len(self._slots):
            return
        if persons > MAX_PERSONS:
            raise InputError(
                f"one unit can hold at most {MAX_PERSONS} persons. It cannot continue."
            )
        size, ids = 1 << (4 * persons - 5).bit_length(), self.known
        self._slots = np.full(size, -1, np.int32)
        self._known = _grown(self._known, self._size, size // 2, spare=False)
        if self._loops is not None:
            self._loops.place(ids, self._slots, _SALT)
            return
        number, place, step = np.arange(len(ids), dtype=np.int32), ids & (size - 1), _mixed(ids) | 1
        while len(number):
            free = self._slots.take(place) < 0
            self._slots[place[free]] = number[free]
            left = np.flatnonzero(self._slots.take(place) != number)
            number, step = number[left], step[left]
            place = (place[left] + step) & (size - 1)


class TextIds:
    """Text ids, numbered as they come, by a hash of 64 bits. Equal hashes are told apart by the
    text.
    """

    def __init__(self, numbers: IntegerIds, loops: Loops | None = None) -> None:
        self._numbers = numbers
        self._loops = loops
        self._bytes: NDArray[np.uint8] = np.empty(_WORD, np.uint8)
        self._ends: IntArray = np.zeros(1, np.int64)

    @property
    def lengths(self) -> IntArray:
        """The length in bytes of every text, by number."""
        return np.diff(self._ends[: len(self._numbers) + 1])

    @property
    def text(self) -> NDArray[np.uint8]:
        """All texts by number, one after the other."""
        return self._bytes[: self._ends[len(self._numbers)]]

    def of(self, column: Any) -> IntArray:
        """The number of each text. New texts get the next numbers."""
        out = np.empty(len(column), np.int64)
        for start in range(0, len(column), IDS_PER_CHUNK):
            out[start : start + IDS_PER_CHUNK] = self._find(column.slice(start, IDS_PER_CHUNK))
        return out

    def _find(self, column: Any) -> IntArray:
        out = np.empty(len(column), np.int64)
        rows = np.arange(len(column))
        ends, text = _parts(column)
        start, length = ends[:-1], np.diff(ends)
        words = _words(np.concatenate([text, np.zeros(_WORD, np.uint8)]))
        hashes = self._hashes_of(words, start, length)
        while len(rows):
            before = len(self._numbers)
            number = self._numbers.of(hashes)
            new = np.flatnonzero(number >= before)
            first = np.empty(len(self._numbers) - before, np.int64)
            first[number[new[::-1]] - before] = new[::-1]
            self._append(before, column.take(arrow().array(rows[first])))
            out[rows] = number
            again = np.ones(len(rows), np.bool_)
            again[first] = False
            check = np.flatnonzero(again)
            other = check[
                ~self._same(words, start[rows[check]], length[rows[check]], number[check])
            ]
            rows, hashes = rows[other], _mixed(hashes[other] + 1)
        return out

    def load(self, lengths: IntArray, text: NDArray[np.uint8]) -> IntArray:
        """The numbers of saved texts, which all differ, where no text is known yet."""
        ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        content = np.concatenate([text, np.zeros(_WORD, np.uint8)])
        self._numbers.reserve(len(lengths))
        numbers = self._numbers.of(self._hashes_of(_words(content), ends[:-1], lengths))
        if len(self._numbers) < len(lengths):  # two texts have the same hash
            self._numbers.clear()
            return self.of(texts_of(lengths, text))
        if (np.diff(numbers) < 0).any():  # ids whose first place was taken are numbered last
            sorted_texts = texts_of(lengths, text).take(arrow().array(np.argsort(numbers)))
            ends, text = _parts(sorted_texts)
            content = np.concatenate([text, np.zeros(_WORD, np.uint8)])
        self._ends, self._bytes = ends, content
        return numbers

    def _hashes_of(self, words: Words, start: IntArray, length: IntArray) -> IntArray:
        if self._loops is None:
            return _hashes(words, start, length)
        return self._loops.hashes(words, start, length, _SALT)

    def _append(self, before: int, column: Any) -> None:
        ends, text = _parts(column)
        size, total = before + len(column), int(self._ends[before]) + len(text)
        if size >= len(self._ends):
            self._ends = _grown(self._ends, before + 1, size + 1)
        if total + _WORD > len(self._bytes):
            self._bytes = _grown(self._bytes, int(self._ends[before]), total + _WORD)
        self._ends[before : size + 1] = self._ends[before] + ends
        self._bytes[total - len(text) : total] = text

    def _same(self, words: Words, start: IntArray, length: IntArray, number: IntArray) -> BoolArray:
        """Whether each text equals the text that has the number."""
        theirs, known = self._ends[number], _words(self._bytes)
        same: BoolArray = self._ends[number + 1] - theirs == length
        rows = np.flatnonzero(same & (length > 0))
        at, their, left = start[rows], theirs[rows], length[rows]
        while len(rows):
            equal = _word(words, at, left) == _word(known, their, left)
            same[rows[~equal]] = False
            more = np.flatnonzero(equal & (left > _WORD))
            rows, at, their, left = (
                rows[more],
                at[more] + _WORD,
                their[more] + _WORD,
                left[more] - _WORD,
            )
        return same


def _grown(array: NDArray[Any], used: int, size: int, *, spare: bool = True) -> NDArray[Any]:
    """An array of `size` and, with `spare`, as much again, with the used part of this one.

    The system gives memory for the rest only when it is written to.
    """
    grown = np.empty(2 * size if spare else size, array.dtype)
    grown[:used] = array[:used]
    return grown


def _parts(column: Any) -> tuple[IntArray, NDArray[np.uint8]]:
    """Where each text of an Arrow column begins and ends, and the bytes of all texts."""
    _, ends, text = column.buffers()
    edges = (
        np.frombuffer(ends, np.int64)[column.offset :][: len(column) + 1]
        if len(column)
        else np.zeros(1, np.int64)
    )
    content = np.frombuffer(text, np.uint8) if text is not None else np.empty(0, np.uint8)
    return edges - edges[0], content[edges[0] : edges[-1]]


def _words(text: NDArray[np.uint8]) -> Words:
    """The eight bytes from every position on, without a copy."""
    return np.ndarray((len(text) - _WORD + 1,), "<u8", text, strides=(1,))


def _word(words: Words, at: IntArray, left: IntArray) -> Words:
    """The eight bytes at each place. If fewer are left, they follow zeros."""
    if left.min() >= _WORD:
        return words[at]
    return words[at] << (8 * (_WORD - np.minimum(left, _WORD))).view(np.uint64)


def _hashes(words: Words, start: IntArray, length: IntArray) -> IntArray:
    """A hash of each text: of its length, then of its words one by one."""
    out = _mixed(length)
    rows = np.flatnonzero(length)
    hashes, at, left = out[rows], start[rows], length[rows]
    while len(rows):
        hashes = _mixed(hashes ^ _word(words, at, left).view(np.int64))
        at, left = at + _WORD, left - _WORD
        if left.min() <= 0:
            out[rows] = hashes
            more = np.flatnonzero(left > 0)
            rows, hashes, at, left = rows[more], hashes[more], at[more], left[more]
    return out


def _mixed(ids: IntArray) -> IntArray:
    """A permutation of the bits that nobody can predict."""
    bits = ids.view(np.uint64) ^ _SALT
    bits = (bits ^ (bits >> np.uint64(32))) * np.uint64(0xFF51AFD7ED558CCD)
    bits = (bits ^ (bits >> np.uint64(32))) * np.uint64(0xC4CEB9FE1A85EC53)
    mixed: IntArray = (bits ^ (bits >> np.uint64(32))).view(np.int64)
    return mixed


def ids_of(column: Column, keep: BoolArray | None) -> tuple[Kind, Any]:
    """The ids of the events to keep: whole numbers as int64, text as one Arrow column of bytes.

    >>> ids_of(np.array([7, 8, 9], np.uint16), np.array([True, False, True]))
    ('signed', array([7, 9]))
    """
    if (
        isinstance(column, np.ndarray)
        and not isinstance(column, np.ma.MaskedArray)
        and column.dtype.kind in "iu"
    ):
        return _whole(column if keep is None else column[keep])
    column = _arrow_of(column)
    if keep is not None:
        column = column.filter(arrow().array(keep))
    if column.null_count:
        raise InputError(
            "person ids must not be missing; give an event without one the key -1. "
            "Nothing was added."
        )
    if arrow().types.is_integer(column.type):
        return _whole(column.to_numpy())
    return "text", shortened(column)


def texts_of(lengths: IntArray, text: NDArray[np.uint8]) -> Any:
    """The Arrow column of texts that stand one after the other."""
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    buffers = [None, arrow().py_buffer(ends), arrow().py_buffer(text)]
    return arrow().Array.from_buffers(arrow().large_binary(), len(lengths), buffers)


def shortened(column: Any) -> Any:
    """Texts of more than `MAX_TEXT_BYTES` bytes as digests that are longer than any other text.

    A digest stays as it is, so that a column may be shortened twice.
    """
    pa = arrow()
    sizes = pa.compute.binary_length(column)
    length = (sizes.fill_null(0) if sizes.null_count else sizes).to_numpy()
    long = np.flatnonzero(length > MAX_TEXT_BYTES)
    if not len(long):
        return column
    column = column.cast(pa.large_binary())
    ends, text = _parts(column)
    if (length == MAX_TEXT_BYTES + 1).all() and _all_digests(text):
        return column
    content = text.data
    digests = []
    for start, stop in zip(ends[long].tolist(), ends[long + 1].tolist(), strict=True):
        each = content[start:stop]
        known = len(each) == MAX_TEXT_BYTES + 1 and each[_DIGEST_BYTES:] == _PADDING
        digests.append(bytes(each) if known else hashlib.sha256(each).digest() + _PADDING)
    short = np.flatnonzero(length <= MAX_TEXT_BYTES)
    order = np.argsort(np.concatenate([short, long]))
    parts = [column.take(pa.array(short)), pa.array(digests, pa.large_binary())]
    return pa.concat_arrays(parts).take(pa.array(order))


def _all_digests(text: NDArray[np.uint8]) -> bool:
    """Whether these texts of one length are all digests as `shortened` makes them."""
    rows = text.reshape(-1, MAX_TEXT_BYTES + 1)[:, _DIGEST_BYTES:]
    return all(
        bool((rows[start : start + IDS_PER_CHUNK] == ord(" ")).all())
        for start in range(0, len(rows), IDS_PER_CHUNK)
    )


def _whole(ids: NDArray[Any]) -> tuple[Kind, IntArray]:
    if ids.dtype.kind == "u" and ids.dtype.itemsize == 8:
        return "unsigned", np.ascontiguousarray(ids, np.uint64).view(np.int64)
    return "signed", np.ascontiguousarray(ids, np.int64)


def _arrow_of(column: Column) -> Any:
    """An Arrow column of whole numbers or bytes. Another column is an `InputError` without data."""
    pa = arrow()
    try:
        if isinstance(column, np.ndarray) and not isinstance(column, np.ma.MaskedArray):
            ids = pa.array(column) if column.dtype.kind in "OSTU" else None
        elif isinstance(column, (pa.Array, pa.ChunkedArray)):
            ids = column
        else:
            ids = column.to_arrow() if hasattr(column, "to_arrow") else None
        if isinstance(ids, pa.ChunkedArray):
            ids = ids.combine_chunks()
        if isinstance(ids, pa.ExtensionArray):
            ids = ids.storage
        if isinstance(ids, pa.DictionaryArray):
            ids = ids.dictionary_decode()
        if isinstance(ids, pa.Array):
            if pa.types.is_integer(ids.type):
                return ids
            if str(ids.type).startswith(_TEXT):
                return ids.cast(pa.large_binary())
    except Exception:  # whatever another library raises: its message may show the data
        ids = None
    kind = (column.dtype.type if isinstance(column, np.ndarray) else type(column)).__name__
    raise InputError(
        f"person ids must be one column of whole numbers, text or bytes, not {kind}. "
        "Nothing was added."
    ) from None


def arrow() -> Any:
    """PyArrow, with its module `compute`, imported when it is first used."""
    import_module("pyarrow.compute")
    return import_module("pyarrow")
