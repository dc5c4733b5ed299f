"""Which of several places a person belongs to, by a hash of the id.

All events of a person must meet in one place to be bounded. The hash depends on the id alone: every
machine computes the same place. Everything here is raw data: nothing is shown, logged or raised.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from penstock.core.arrays import IntArray
from penstock.private.person_ids import arrow

Partitioner: TypeAlias = Literal["murmur2", "crc32"]
"""How producers of Kafka choose the partition of a key: Java's default, or librdkafka's."""

_MURMUR2_SEED = 0x9747B28C
_MURMUR2_FACTOR = np.uint32(0x5BD1E995)
_MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))

Hashes: TypeAlias = NDArray[np.uint32]
Bytes: TypeAlias = NDArray[np.uint8]


def place_of(person: Any, places: int) -> IntArray:
    """The place of each person, from 0 on. An event without a person has place 0.

    Parameters
    ----------
    person : array of int64 or Arrow column
        The ids, whole numbers or texts.
    places : int
        The number of places.

    >>> place_of(np.array([7, 8, 7]), 1)
    array([0, 0, 0])
    """
    if isinstance(person, np.ndarray):
        bits = person.astype(np.int64, copy=False).view(np.uint64)
        for factor, shift in zip(_MIX, (np.uint64(30), np.uint64(27)), strict=True):
            bits = (bits ^ (bits >> shift)) * factor
        return ((bits ^ (bits >> np.uint64(31))) % np.uint64(places)).astype(np.int64)
    return partition_of(person, places, "murmur2")


def partition_of(person: Any, partitions: int, partitioner: Partitioner) -> IntArray:
    """The partition that a producer chooses for each person's id as the key of a message.

    A whole number is hashed as the text of its digits.

    >>> partition_of(np.array([7, 1234]), 6, "murmur2")
    array([3, 0])
    """
    pa = arrow()
    if isinstance(person, np.ndarray):
        person = pa.array(person).cast(pa.string())
    if pa.types.is_dictionary(person.type):
        person = person.dictionary_decode()
    person = person.cast(pa.large_binary())
    if person.null_count:
        person = person.fill_null(b"")
    ends, text = _ends_and_text(person)
    hashes = _HASHES[partitioner](ends, text)
    return hashes.astype(np.int64) % partitions


def _ends_and_text(column: Any) -> tuple[IntArray, Bytes]:
    """Where each text begins and ends, and the bytes of all texts, with three more."""
    _, ends, text = column.buffers()
    edges = np.frombuffer(ends, np.int64)[column.offset :][: len(column) + 1]
    if not len(column):
        edges = np.zeros(1, np.int64)
    content = np.frombuffer(text, np.uint8) if text is not None else np.empty(0, np.uint8)
    content = content[edges[0] : edges[-1]]
    return edges - edges[0], np.concatenate([content, np.zeros(4, np.uint8)])


def _murmur2(ends: IntArray, text: Bytes) -> Hashes:
    """The hash of Kafka's default partitioner, without its sign."""
    start, length = ends[:-1], np.diff(ends)
    words = np.ndarray((len(text) - 3,), "<u4", text, strides=(1,))
    factor = _MURMUR2_FACTOR
    hashes = length.astype(np.uint32) ^ np.uint32(_MURMUR2_SEED)
    whole = length // 4
    for number in range(int(whole.max(initial=0))):
        rows = np.flatnonzero(whole > number)
        word = words[start[rows] + 4 * number] * factor
        word = (word ^ (word >> np.uint32(24))) * factor
        hashes[rows] = (hashes[rows] * factor) ^ word
    rest = length % 4
    rows = np.flatnonzero(rest)
    if len(rows):
        tail = words[start[rows] + 4 * whole[rows]]
        tail &= (np.uint32(1) << (8 * rest[rows]).astype(np.uint32)) - np.uint32(1)
        hashes[rows] = (hashes[rows] ^ tail) * factor
    hashes ^= hashes >> np.uint32(13)
    hashes *= factor
    hashes ^= hashes >> np.uint32(15)
    return hashes & np.uint32(0x7FFFFFFF)


def _crc32(ends: IntArray, text: Bytes) -> Hashes:
    """The checksum by which librdkafka chooses a partition."""
    start, length = ends[:-1], np.diff(ends)
    hashes = np.full(len(length), 0xFFFFFFFF, np.uint32)
    for number in range(int(length.max(initial=0))):
        rows = np.flatnonzero(length > number)
        index = (hashes[rows] ^ text[start[rows] + number]) & np.uint32(0xFF)
        hashes[rows] = _CRC_TABLE[index] ^ (hashes[rows] >> np.uint32(8))
    return hashes ^ np.uint32(0xFFFFFFFF)


def _crc_table() -> Hashes:
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, np.uint32(0xEDB88320) ^ (table >> 1), table >> 1)
    return table.astype(np.uint32)


_CRC_TABLE = _crc_table()
_HASHES: dict[str, Callable[[IntArray, Bytes], Hashes]] = {"murmur2": _murmur2, "crc32": _crc32}
