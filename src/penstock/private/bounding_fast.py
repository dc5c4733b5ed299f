"""The loops of `person_ids` and `earliest_events`, compiled. Needs the extra `fast`.

Each loop makes one pass over the events. Numba compiles it at the first import and caches it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, types

from penstock.core.arrays import IntArray
from penstock.private.person_ids import Slots, Words

_read = types.Array(types.int64, 1, "C", readonly=True)
_words = types.Array(types.uint64, 1, "A", readonly=True, aligned=False)
_tuple: Any = types.UniTuple
_BLOCK = 256
_WORD = 8
_NEVER = np.iinfo(np.int64).max
_longs, _shorts, _long, _salt = types.int64[::1], types.int32[::1], types.int64, types.uint64


def _mixed(wanted: np.int64, salt: np.uint64) -> np.int64:
    bits = np.uint64(wanted) ^ salt
    bits = (bits ^ (bits >> np.uint64(32))) * np.uint64(0xFF51AFD7ED558CCD)
    bits = (bits ^ (bits >> np.uint64(32))) * np.uint64(0xC4CEB9FE1A85EC53)
    return np.int64(bits ^ (bits >> np.uint64(32)))


mixed = njit(_long(_long, _salt), nogil=True, cache=True)(_mixed)


def _hashes(words: Words, start: IntArray, length: IntArray, salt: np.uint64) -> IntArray:
    """A hash of each text: of its length, then of its words one by one."""
    out = np.empty(len(start), np.int64)
    for row in range(len(start)):
        found, at, left = mixed(length[row], salt), start[row], length[row]
        while left >= _WORD:
            found = mixed(found ^ np.int64(words[at]), salt)
            at, left = at + _WORD, left - _WORD
        if left > 0:
            found = mixed(found ^ np.int64(words[at] << np.uint64(8 * (_WORD - left))), salt)
        out[row] = found
    return out


def _number(
    ids: IntArray,
    start: int,
    out: IntArray,
    slots: Slots,
    known: IntArray,
    size: int,
    limit: int,
    salt: np.uint64,
) -> tuple[int, int]:
    """Number the ids from `start` on until `limit` persons are known. Returns the next row and the
    size.

    All ids of a block are looked up at their first place before any is compared, so that memory
    accesses overlap.
    """
    mask = len(slots) - 1
    guess, theirs = np.empty(_BLOCK, np.int32), np.empty(_BLOCK, np.int64)
    for first in range(start, len(ids), _BLOCK):
        rows = min(_BLOCK, len(ids) - first)
        for row in range(rows):
            guess[row] = slots[ids[first + row] & mask]
        for row in range(rows):
            theirs[row] = known[max(guess[row], 0)]
        for row in range(rows):
            wanted = ids[first + row]
            found = np.int64(guess[row])
            if found < 0 or theirs[row] != wanted:
                place = wanted & mask
                found = np.int64(slots[place])
                if found >= 0 and known[found] != wanted:
                    stride = mixed(wanted, salt) | 1
                    while found >= 0 and known[found] != wanted:
                        place = (place + stride) & mask
                        found = np.int64(slots[place])
                if found < 0:
                    if size == limit:
                        return first + row, size
                    found = np.int64(size)
                    slots[place] = found
                    known[size] = wanted
                    size += 1
            out[first + row] = found
    return len(ids), size


def _place(known: IntArray, slots: Slots, salt: np.uint64) -> None:
    """Put every number at the place where its id will be looked up."""
    mask = len(slots) - 1
    for number in range(len(known)):
        place = known[number] & mask
        if slots[place] >= 0:
            stride = mixed(known[number], salt) | 1
            while slots[place] >= 0:
                place = (place + stride) & mask
        slots[place] = number


def _offer(
    person: IntArray,
    low: int,
    time: IntArray,
    base: int,
    key: IntArray,
    bits: int,
    first: IntArray,
    rest: bool,
) -> tuple[IntArray, IntArray]:
    """Pack each event into one value and leave the smallest of each person in `first`.

    Returns the other values as `_smallest` does.
    """
    if not rest:
        for row in range(len(person)):
            who, value = person[row] - low, ((time[row] - base) << bits) | key[row]
            if value < first[who]:
                first[who] = value
        return np.empty(0, np.int64), np.empty(0, np.int64)
    persons, values = np.empty(len(person), np.int64), np.empty(len(person), np.int64)
    size = 0
    for row in range(len(person)):
        who, value = person[row] - low, ((time[row] - base) << bits) | key[row]
        kept = first[who]
        if value < kept:
            first[who], value = value, kept
        if value != _NEVER:
            persons[size], values[size] = who, value
            size += 1
    return persons[:size], values[:size]


def _smallest(
    person: IntArray, value: IntArray, first: IntArray, rest: bool
) -> tuple[IntArray, IntArray]:
    """Leave the smallest value of each person in `first`. Returns the others if `rest` is set."""
    room = len(person) if rest else 0
    persons, values = np.empty(room, np.int64), np.empty(room, np.int64)
    size = 0
    for row in range(len(person)):
        who, some = person[row], value[row]
        kept = first[who]
        if some < kept:
            first[who], some = some, kept
        if rest and some != _NEVER:
            persons[size], values[size] = who, some
            size += 1
    return persons[:size], values[:size]


hashes = njit(_longs(_words, _read, _read, _salt), nogil=True, cache=True)(_hashes)
number = njit(
    _tuple(_long, 2)(_read, _long, _longs, _shorts, _longs, _long, _long, _salt),
    nogil=True,
    cache=True,
)(_number)
place = njit(types.void(_read, _shorts, _salt), nogil=True, cache=True)(_place)
offer = njit(
    _tuple(_longs, 2)(_read, _long, _read, _long, _read, _long, _longs, types.boolean),
    nogil=True,
    cache=True,
)(_offer)
smallest = njit(_tuple(_longs, 2)(_read, _read, _longs, types.boolean), nogil=True, cache=True)(
    _smallest
)
