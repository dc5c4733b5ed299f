"""A law to draw from: outcomes in a fixed order, and bounds on the probability up to each.

A uniform number U in [0, 1) picks the first outcome whose cumulative probability F is above U. U is
known by its leading bits only; `settle` asks for more of them until bounds on F decide. No float
takes part.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np

from penstock.core.arrays import IntArray

WORD = 64
"""Bits of U by which almost every draw is decided, and by which it is refined when not."""

LAST = (1 << WORD) - 1


def alternating(index: int) -> int:
    """0, 1, −1, 2, −2, ...

    >>> [alternating(index) for index in range(5)]
    [0, 1, -1, 2, -2]
    """
    return (index + 1) // 2 if index % 2 else -(index // 2)


def alternating_row(count: int) -> IntArray:
    """The first `count` of them.

    >>> alternating_row(5)
    array([ 0,  1, -1,  2, -2])
    """
    return _ALTERNATING[:count] if count <= len(_ALTERNATING) else _alternating_row(count)


def _alternating_row(count: int) -> IntArray:
    row = np.arange(count, dtype=np.int64)
    values = np.where(row % 2, (row + 1) // 2, -(row // 2))
    values.flags.writeable = False
    return values


_ALTERNATING = _alternating_row(1 << 14)
"""The outcomes that all tables share: they stay in the processor's cache."""


class Law(ABC):
    """A law on the integers. Equal parameters make equal laws, and tables are cached by them."""

    __slots__ = ()

    @property
    @abstractmethod
    def count(self) -> int | None:
        """The number of outcomes; None if there is no last one."""

    @abstractmethod
    def outcome(self, index: int) -> int:
        """The outcome at this place of the order."""

    def outcomes(self, count: int) -> IntArray:
        """The first `count` outcomes."""
        return np.array([self.outcome(index) for index in range(count)], np.int64)

    @abstractmethod
    def bounds(self, index: int, bits: int) -> tuple[int, int]:
        """low ≤ F·2^bits ≤ high, with F the probability of outcomes 0..index."""

    @abstractmethod
    def thresholds(self) -> list[int]:
        """floor(F·2^64) of all outcomes but the last, or up to the first of 2^64 − 1."""

    def threshold(self, index: int) -> int:
        """floor(F·2^64) of one outcome, with as much precision as needed.

        It ends because F is not a multiple of 2^−64, or because its bounds become exact.
        """
        bits = 2 * WORD
        while True:
            low, high = self.bounds(index, bits)
            if low >> (bits - WORD) == high >> (bits - WORD):
                return low >> (bits - WORD)
            bits *= 2


def settle(law: Law, word: int, start: int, more: Callable[[], int]) -> int:
    """The place of the outcome that U picks, given 64 bits of U and a place to start from.

    At each precision, U lies in [u, u+1) and F in [low, high], in units of 2^−bits. U < F is
    certain if u + 1 ≤ low, and U ≥ F if u ≥ high. The search finds a place whose predecessor is
    certainly passed. If its own side is certain too, that is the answer. Otherwise U gets 64 more
    bits.
    """
    place, bits = start, WORD
    while True:
        word, bits = word << WORD | more(), bits + WORD
        place = _pass(law, word, bits, place)
        if place + 1 == law.count or word + 1 <= law.bounds(place, bits)[0]:
            return place


def _pass(law: Law, word: int, bits: int, place: int) -> int:
    """The first place from `place` on that U has not certainly passed."""

    def passed(index: int) -> bool:
        return (law.count is None or index + 1 < law.count) and word >= law.bounds(index, bits)[1]

    step = 1
    while passed(place + step - 1):
        place += step
        step *= 2
    reached = place + step - 1
    while place < reached:
        middle = (place + reached) // 2
        if passed(middle):
            place = middle + 1
        else:
            reached = middle
    return place
