"""Random bits: the key stream of AES-256 in counter mode, which is faster than PCG64.

Two things could go wrong with a key that lies in memory, and `SystemBits` has a method for each:

- A copy of the process has the key too, and would repeat the noise. `refresh`, at the start of each
  unit, moves the stream to a place that new randomness of the operating system and the clock
  choose.
- Counter mode runs backwards: whoever finds the key computes all that was drawn under it. `erase`
  drops the key. A pan-private run calls it whenever control leaves the run, so that between units
  no key exists. The next few bytes come from the operating system itself, and more from a new key.

docs/proofs/noise.md has the argument.
"""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable
from typing import Final, Protocol

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes
from numpy.typing import NDArray

REKEY_AFTER = 1 << 26
"""A key of `SystemBits` makes at most about this many bytes; the next comes from the operating
system.
"""

FEW: Final = 1 << 10
"""Bytes for which the operating system is faster than the set-up of a cipher."""

_KEY = 32
_BLOCK = 16  # of AES; the cipher wants room for one block less a byte behind what it writes
_LOW = (1 << 64) - 1
_PIECE = 1 << 16
_ZEROS = memoryview(bytes(_PIECE))


class Bits(Protocol):
    """A stream of independent uniform bits, read in bytes."""

    def bytes(self, count: int) -> NDArray[np.uint8]:
        """The next `count` bytes, in an array of the caller's own."""
        ...


class KeyedBits:
    """The key stream of one AES-256 key, from a place that is a number of 16 bytes. Default: zero.

    >>> one, two = KeyedBits(bytes(32)), KeyedBits(bytes(32))
    >>> bool((one.bytes(100) == two.bytes(100)).all())
    True
    """

    __slots__ = ("_stream", "read")

    def __init__(self, key: bytes, place: bytes = bytes(_BLOCK)) -> None:
        self.read = 0
        """How many bytes were given since the start. The work of a draw is constant: it is public.
        """
        self._stream: CipherContext = Cipher(algorithms.AES(key), modes.CTR(place)).encryptor()

    def restart(self, place: bytes) -> None:
        """Start again from another place of the stream."""
        self._stream.reset_nonce(place)
        self.read = 0

    def bytes(self, count: int) -> NDArray[np.uint8]:
        self.read += count
        made = np.empty(count + _BLOCK - 1, np.uint8)
        if count <= _PIECE:
            self._stream.update_into(_ZEROS[:count], made)  # type: ignore[arg-type]
        else:
            room = made.data
            for start in range(0, count, _PIECE):
                self._stream.update_into(_ZEROS[: min(_PIECE, count - start)], room[start:])
        return made[:count]


class SystemBits:
    """Unpredictable bits: the stream of AES-256-CTR under a key from the operating system.

    Parameters
    ----------
    system : callable, optional
        `system(count)` gives that many random bytes. Default: `os.urandom`.
    clock : callable
        The time in nanoseconds. Default: `time.time_ns`.
    few : int
        The number of bytes after `erase` for which no key is made. Default: `FEW`.

    >>> bits = SystemBits()
    >>> len(bits.bytes(5000)), bits.stream is None
    (5000, False)
    >>> bits.erase()
    >>> bits.stream is None
    True
    """

    __slots__ = ("_clock", "_direct", "_few", "_left", "_stale", "_system", "stream")

    def __init__(
        self,
        *,
        system: Callable[[int], bytes] | None = None,
        clock: Callable[[], int] = time.time_ns,
        few: int = FEW,
    ) -> None:
        self._system = _from_operating_system if system is None else system
        self._clock = clock
        self._few = few
        self._direct = self._left = 0
        self._stale = False
        self.stream: KeyedBits | None = None
        """The stream of the key that is held, if any: all that it gave can be computed from it."""

    def bytes(self, count: int) -> NDArray[np.uint8]:
        stream = self.stream
        if stream is None and count <= self._direct:
            self._direct -= count
            return self._from_system(count)
        if stream is None or self._left <= 0:
            self._left = REKEY_AFTER
            stream = self.stream = self._new_stream()
        elif self._stale:
            stream.restart(_moved(self._system(_BLOCK), self._clock()))
        self._stale = False
        self._left -= count
        return stream.bytes(count)

    def refresh(self) -> None:
        """Let the next bits depend on new randomness of the operating system, and on the clock."""
        self._stale = True

    def erase(self) -> None:
        """Drop the key, so that no bits that were given can be computed from what is held.

        OpenSSL overwrites the memory of a cipher before it frees it.
        """
        self.stream = None
        self._direct = self._few

    def _from_system(self, count: int) -> NDArray[np.uint8]:
        given = self._system(count)
        made = np.frombuffer(given, np.uint8).copy()
        _overwrite(given)
        return made

    def _new_stream(self) -> KeyedBits:
        key = self._system(_KEY)
        try:
            return KeyedBits(key, _moved(self._system(_BLOCK), self._clock()))
        finally:
            _overwrite(key)


def _from_operating_system(count: int) -> bytes:
    return os.urandom(count)


def _overwrite(given: bytes) -> None:
    """Overwrite a bytes object that nobody else holds. CPython shares those of 0 and 1 bytes."""
    if len(given) > 1:
        ctypes.memset(given, 0, len(given))  # type: ignore[arg-type]


def _moved(place: bytes, by: int) -> bytes:
    """A place whose upper half is changed by the time, in case the system repeats the place."""
    return (int.from_bytes(place, "big") ^ (by & _LOW) << 64).to_bytes(_BLOCK, "big")
