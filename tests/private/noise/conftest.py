"""Bits that a test writes itself, or counts."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest

from penstock.private.noise.bits import KeyedBits


class ScriptedBits:
    """Gives the 64-bit words it was made of, then fails. `left` says how many were not read."""

    def __init__(self, words: Iterable[int]) -> None:
        self._bytes = b"".join(word.to_bytes(8, "little") for word in words)

    def bytes(self, count):
        assert count <= len(self._bytes), "the script has run out"
        given, self._bytes = self._bytes[:count], self._bytes[count:]
        return np.frombuffer(bytearray(given), np.uint8)

    @property
    def left(self) -> int:
        return len(self._bytes) // 8


class RecordedBits:
    """A key stream that remembers what it gave."""

    def __init__(self, seed: int) -> None:
        self._bits = KeyedBits(seed.to_bytes(32, "big"))
        self.reads: list[bytes] = []

    def bytes(self, count):
        given = self._bits.bytes(count)
        self.reads.append(given.tobytes())
        return given

    @property
    def counts(self) -> list[int]:
        return [len(read) for read in self.reads]


@pytest.fixture
def scripted():
    return ScriptedBits


@pytest.fixture
def recorded():
    return RecordedBits
