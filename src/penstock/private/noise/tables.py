"""Guided lazy tables: inversion of a law by 16 bits, rarely 64, and as many more as it takes.

A `Table` holds floor(F·2^64) for the outcomes of a law, and a guide over the first 16 bits of U:
the outcome, where no threshold falls into that cell, and a mark where one does. `draw` reads 16
bits for every value and 48 more for the marked; where those tie with a threshold, `settle` goes on
in big integers. So every value is what exact inversion of an infinitely long U would give. What a
draw leaves in memory is overwritten before it returns, except in what it returns.

The number of bytes read, and of values refined, depends on the size and the tables only: marked
values are padded with dummies to a count that is exceeded with probability below 2^−64 (then all
are refined, and the draw is still exact). Ties, of probability below 2^−50 a value, are the only
other exception.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from math import isqrt
from operator import attrgetter
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from penstock.core.arrays import IntArray
from penstock.private.noise.bits import Bits
from penstock.private.noise.laws import Law, settle

LIMIT: Final = 1 << 62
"""The largest absolute value of a part: what exact inversion puts beyond it, with probability below
e^−4096, is cut to it.
"""

DIRECT: Final = 512
"""Up to this many values at once, 64 bits are read for each and the guide is left out."""

CACHE_BYTES: Final = 1 << 26
"""What the cached tables may hold in all."""

_CELL_BITS = 16
_CELLS = 1 << _CELL_BITS
_REST = np.uint64(64 - _CELL_BITS)
_USED = np.uint64(_CELL_BITS)
_MARK: Final = -(
    1 << 14
)  # below every outcome of a table; even times the highest power of two it is within int64
_CHUNK = 1 << 15
_WORDS: Final = np.dtype(np.uint64)


class Table:
    """The outcomes of a law by the leading 64 bits of U. A table is public, as its law is."""

    __slots__ = ("_before", "_guide", "_outcomes", "_thresholds", "law", "marked", "used")

    def __init__(self, law: Law) -> None:
        self.law = law
        thresholds = law.thresholds()
        self._before = np.array(
            [thresholds[0], *thresholds], np.uint64
        )  # at i, the threshold that ends outcome i − 1
        self._thresholds = self._before[1:]
        self._outcomes = law.outcomes(len(self._before))
        self._guide: NDArray[np.int16] | None = None
        cells = self._thresholds >> _REST
        self.marked = 1 + int(np.count_nonzero(cells[1:] != cells[:-1]))
        """How many of the 65536 cells hold a threshold."""
        self.used = 0
        """When a cache gave it last, as a number of uses."""

    @property
    def guided(self) -> bool:
        """Whether the guide was made."""
        return self._guide is not None

    @property
    def guide(self) -> NDArray[np.int16]:
        """The outcome of each cell of the first 16 bits, or the mark."""
        if self._guide is None:
            cells = (self._thresholds >> _REST).astype(np.intp)
            held = np.bincount(cells, minlength=_CELLS)
            guide = self._outcomes.astype(np.int16)[np.cumsum(held) - held]
            guide[held > 0] = _MARK
            self._guide = guide
        return self._guide

    @property
    def nbytes(self) -> int:
        guide = 0 if self._guide is None else self._guide.nbytes
        return self._before.nbytes + self._outcomes.nbytes + guide

    def invert(self, words: NDArray[np.uint64], bits: Bits, *, shift: int = 0) -> IntArray:
        """The outcomes that 64 bits pick; `bits` gives more where they tie."""
        places = self._thresholds.searchsorted(words, "right")
        values: IntArray = self._outcomes[places]
        tied = self._before[places] == words
        if 1 in tied.tobytes():  # for few values, much faster than tied.any()
            for position in tied.nonzero()[0].tolist():
                word = int(words[position])
                start = int(self._thresholds.searchsorted(words[position], side="left"))
                value = self.law.outcome(settle(self.law, word, start, partial(_word, bits)))
                most = (LIMIT >> shift) - 1
                values[position] = max(-most, min(value, most))
        places.fill(0)
        return values

    def most(self, size: int) -> int:
        """How many of `size` values to refine. More are marked with probability below 2^−64.

        By Bernstein's inequality, a binomial of variance at most v = size·p is beyond its mean by t
        with probability at most exp(−t²/(2v + 2t/3)). That is below 2^−64 for t = L/3 + √(L²/9 +
        2Lv) with L = 45 > 64 ln 2.
        """
        mean = -(-size * self.marked // _CELLS)
        return min(size, mean + 16 + isqrt(225 + 90 * mean) + 1)


Part: TypeAlias = tuple[Table, int]
"""A table and the power of two, as a shift, by which its outcomes count."""

LawsOfScale: TypeAlias = Callable[[int, int], Sequence[tuple[Law, int]]]
"""The laws whose sum has the scale of this numerator and denominator, with their powers of two."""


def draw(parts: Sequence[Part], size: int, bits: Bits) -> IntArray:
    """`size` independent sums of one outcome of every part, times its power of two."""
    if size > DIRECT:
        return _draw_guided(parts, size, bits)
    total: IntArray | None = None
    for table, shift in parts:
        words = bits.bytes(8 * size).view(_WORDS)
        values = table.invert(words, bits, shift=shift)
        words.fill(0)
        if shift:
            values <<= shift
        if total is None:
            total = values
        else:
            total += values
            values.fill(0)
    assert total is not None
    return total


def _draw_guided(parts: Sequence[Part], size: int, bits: Bits) -> IntArray:
    total = np.zeros(size + 1, np.int64)  # one more, for the dummies
    found: list[list[NDArray[np.intp]]] = [[] for _ in parts]
    cells: list[list[NDArray[np.uint16]]] = [[] for _ in parts]
    small = np.empty(_CHUNK, np.int16)
    is_marked = np.empty(_CHUNK, np.bool_)
    for start in range(0, size, _CHUNK):
        chunk = total[start : min(start + _CHUNK, size)]
        values, marks = small[: len(chunk)], is_marked[: len(chunk)]
        above = 0
        for number, (table, shift) in enumerate(parts):
            raw = bits.bytes(2 * len(chunk))
            cell = raw.view(np.uint16)
            table.guide.take(cell, mode="clip", out=values)
            np.equal(values, _MARK, out=marks)
            (places,) = marks.nonzero()
            cells[number].append(cell[places])
            places += start
            found[number].append(places)
            if number:
                chunk <<= above - shift
                chunk += values
            else:
                chunk[...] = values
            above = shift
            raw.fill(0)
        if above:
            chunk <<= above
    for (table, shift), places_found, cells_found in zip(parts, found, cells, strict=True):
        count = sum(map(len, places_found))
        refined = max(count, table.most(size))
        where = np.full(refined, size, np.intp)
        words = np.zeros(refined, np.uint64)
        np.concatenate(places_found, out=where[:count])
        np.concatenate(cells_found, out=words[:count])
        raw = bits.bytes(8 * refined)
        words <<= _REST
        rest = raw.view(np.uint64)
        rest >>= _USED
        words |= rest
        values64 = table.invert(words, bits, shift=shift)
        values64 -= _MARK  # which was added above as if it were an outcome
        values64 <<= shift
        values64 += total[where]
        total[where] = values64
        used: list[NDArray[np.generic]] = [raw, words, values64, where, *places_found, *cells_found]
        for scratch in used:
            scratch.fill(0)
    small.fill(0)
    is_marked.fill(False)
    total[size] = 0
    return total[:size]


def _word(bits: Bits) -> int:
    return int.from_bytes(bits.bytes(8).tobytes(), "little")


class TableCache:
    """The tables that were used last, within a limit of bytes. All sources share them."""

    def __init__(self, most: int = CACHE_BYTES) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._tables: dict[Law, Table] = {}
        self._uses = 0
        self.rows: dict[tuple[int, int, bool], tuple[Part, ...]] = {}
        """The tables of each scale that was asked of `row` since a table was last dropped. Scales
        in use are asked for again then, so that their tables count as used last.
        """

    def row(
        self, laws: LawsOfScale, numerator: int, denominator: int, *, guided: bool
    ) -> tuple[Part, ...]:
        """The tables of `laws(numerator, denominator)`. All calls give the same function."""
        row = tuple(
            (self.get(law, guided=guided), shift) for law, shift in laws(numerator, denominator)
        )
        with self._lock:
            if all(self._tables.get(table.law) is table for table, _ in row):
                self.rows[numerator, denominator, guided] = row
        return row

    def get(self, law: Law, *, guided: bool) -> Table:
        """The table of this law, built if missing, with its guide if a large draw needs it."""
        table = self._tables.get(law)
        if table is None or (guided and not table.guided):
            table = self._add(Table(law) if table is None else table, guided=guided)
        self._uses = table.used = self._uses + 1
        return table

    def _add(self, table: Table, *, guided: bool) -> Table:
        if guided:
            table.guide  # noqa: B018
        with self._lock:
            table = self._tables.setdefault(table.law, table)
            held = sum(each.nbytes for each in self._tables.values())
            while held > self._most and len(self._tables) > 1:
                others = (each for each in self._tables.values() if each is not table)
                oldest = min(others, key=attrgetter("used"))
                held -= self._tables.pop(oldest.law).nbytes
                self.rows.clear()
        return table

    @property
    def nbytes(self) -> int:
        with self._lock:
            return sum(table.nbytes for table in self._tables.values())


TABLES: Final = TableCache()
