"""The loops of `dense` and `bounding`, compiled: one pass over the events instead of many. Needs the extra `fast`.

Compiled when it is imported, in memory, in a second or two; no file is written.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, types
from numpy.typing import NDArray

from penstock.core.arrays import IntArray
from penstock.private.dense import Slots

_read = types.Array(types.int64, 1, "C", readonly=True)
_bytes = types.Array(types.uint8, 1, "C", readonly=True)
_tuple: Any = types.UniTuple
_longs, _shorts, _long, _salt = types.int64[::1], types.int32[::1], types.int64, types.uint64


def _mixed(wanted: np.int64, salt: np.uint64) -> np.int64:
    bits = np.uint64(wanted) ^ salt
    bits = (bits ^ (bits >> np.uint64(32))) * np.uint64(0xFF51AFD7ED558CCD)
    bits = (bits ^ (bits >> np.uint64(32))) * np.uint64(0xC4CEB9FE1A85EC53)
    return np.int64(bits ^ (bits >> np.uint64(32)))


mixed = njit(_long(_long, _salt), nogil=True)(_mixed)


def _hashes(text: NDArray[np.uint8], start: IntArray, length: IntArray, salt: np.uint64) -> IntArray:
    """A hash of each text: of its length and of eight bytes after the other."""
    out = np.empty(len(start), np.int64)
    for row in range(len(start)):
        found = mixed(length[row], salt)
        stop = start[row] + length[row]
        for at in range(start[row], stop, 8):
            word = np.uint64(0)
            for place in range(at, min(at + 8, stop)):
                word = (word << np.uint64(8)) | np.uint64(text[place])
            found = mixed(found ^ np.int64(word), salt)
        out[row] = found
    return out


def _number(
    ids: IntArray, start: int, out: IntArray, slots: Slots, known: IntArray, size: int, limit: int, salt: np.uint64
) -> tuple[int, int]:
    """Number the ids from `start` on until `limit` persons are known: how far it came, and how many there are."""
    mask = len(slots) - 1
    for row in range(start, len(ids)):
        wanted = ids[row]
        place = wanted & mask
        found = slots[place]
        if found >= 0 and known[found] != wanted:
            stride = mixed(wanted, salt) | 1
            while found >= 0 and known[found] != wanted:
                place = (place + stride) & mask
                found = slots[place]
        if found < 0:
            if size == limit:
                return row, size
            found = size
            slots[place] = found
            known[size] = wanted
            size += 1
        out[row] = found
    return len(ids), size


def _place(known: IntArray, slots: Slots, salt: np.uint64) -> None:
    """Put every number where its id will be looked for."""
    mask = len(slots) - 1
    for number in range(len(known)):
        place = known[number] & mask
        if slots[place] >= 0:
            stride = mixed(known[number], salt) | 1
            while slots[place] >= 0:
                place = (place + stride) & mask
        slots[place] = number


def _offer(
    person: IntArray, time: IntArray, key: IntArray, first: IntArray, chosen: Slots, rest: bool
) -> tuple[IntArray, IntArray, IntArray]:
    """Leave the smallest (time, key) of each person in `first` and `chosen`; give back all others if the `rest` is wanted."""
    room = len(person) if rest else 0
    persons, times, keys = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int64)
    none = np.iinfo(np.int64).max
    size = 0
    for row in range(len(person)):
        who, when, what = person[row], time[row], key[row]
        kept = first[who]
        if when < kept or (when == kept and what < chosen[who]):
            first[who] = when
            when = kept
            kept_key = np.int64(chosen[who])
            chosen[who] = what
            what = kept_key
            if when == none:
                continue
        if rest:
            persons[size], times[size], keys[size] = who, when, what
            size += 1
    return persons[:size], times[:size], keys[:size]


hashes = njit(_longs(_bytes, _read, _read, _salt), nogil=True)(_hashes)
number = njit(_tuple(_long, 2)(_read, _long, _longs, _shorts, _longs, _long, _long, _salt), nogil=True)(_number)
place = njit(types.void(_read, _shorts, _salt), nogil=True)(_place)
offer = njit(_tuple(_longs, 3)(_read, _read, _read, _longs, _shorts, types.boolean), nogil=True)(_offer)
