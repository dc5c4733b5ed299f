"""Random bits: the key stream of AES-256 in counter mode, which is faster than PCG64."""

from __future__ import annotations

import os
from typing import Protocol

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes
from numpy.typing import NDArray

REKEY_AFTER = 1 << 26
"""A key of `SystemBits` makes at most about this many bytes; the next comes from the operating
system.
"""

_BLOCK = 16  # of AES; the cipher wants room for one block less a byte behind what it writes
_PIECE = 1 << 16
_FEW = 1 << 10  # bytes for which the operating system is faster than the set-up of a cipher
_ZEROS = memoryview(bytes(_PIECE))


class Bits(Protocol):
    """A stream of independent uniform bits, read in bytes."""

    def bytes(self, count: int) -> NDArray[np.uint8]:
        """The next `count` bytes, in an array of the caller's own."""
        ...


class KeyedBits:
    """The key stream of one AES-256 key, counted from zero.

    >>> one, two = KeyedBits(bytes(32)), KeyedBits(bytes(32))
    >>> bool((one.bytes(100) == two.bytes(100)).all())
    True
    """

    __slots__ = ("_stream",)

    def __init__(self, key: bytes | bytearray) -> None:
        self._stream: CipherContext = Cipher(
            algorithms.AES(key), modes.CTR(bytes(_BLOCK))
        ).encryptor()

    def bytes(self, count: int) -> NDArray[np.uint8]:
        made = np.empty(count + _BLOCK - 1, np.uint8)
        if count <= _PIECE:
            self._stream.update_into(_ZEROS[:count], made.data)
        else:
            room = made.data
            for start in range(0, count, _PIECE):
                self._stream.update_into(_ZEROS[: min(_PIECE, count - start)], room[start:])
        return made[:count]


class SystemBits:
    """Unpredictable bits: AES-256-CTR under a key from the operating system, replaced regularly."""

    __slots__ = ("_left", "_stream")

    def __init__(self) -> None:
        self._left = REKEY_AFTER
        self._stream = system_key_stream()

    def bytes(self, count: int) -> NDArray[np.uint8]:
        if self._left <= 0:
            self._left = REKEY_AFTER
            self._stream = system_key_stream()
        self._left -= count
        return self._stream.bytes(count)


class FreshBits:
    """Bits for one draw alone: from the operating system, or under a key that is not kept."""

    __slots__ = ("_stream",)

    def __init__(self) -> None:
        self._stream: KeyedBits | None = None

    def bytes(self, count: int) -> NDArray[np.uint8]:
        if self._stream is None:
            if count <= _FEW:
                return np.frombuffer(bytearray(os.urandom(count)), np.uint8)
            self._stream = system_key_stream()
        return self._stream.bytes(count)


def system_key_stream() -> KeyedBits:
    """The stream of a new key from the operating system; our copy of the key is overwritten."""
    key = bytearray(os.urandom(32))
    try:
        return KeyedBits(key)
    finally:
        key[:] = bytes(32)
