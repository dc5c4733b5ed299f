"""Exact binomial thinning: the number of n events that are kept, each with probability π.

Bin(n, π) is a sum of independent binomials over the set bits of n, Bin(2^k, π) each with a table.
Above 2^20, n is a multiple of 2^20 and a rest. Every table below the largest count is drawn from
for every key, whether or not its bit is set.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from typing import Final

import numpy as np

from penstock.core.arrays import IntArray
from penstock.core.errors import InputError
from penstock.private.noise.bits import Bits
from penstock.private.noise.laws import LAST, WORD, Law, alternating, alternating_row
from penstock.private.noise.tables import DIRECT, TABLES, draw

MAX_COUNT: Final = 1 << 40
"""The largest count that can be thinned; every 2^20 of it costs one draw."""

_TOP = 20
_STEP = 4  # tables are drawn from in fours: time then says little about the largest count
_GUARD = 96
_EXACT = 1 << 12
"""The most bits of the probabilities of binomials that are computed without rounding."""

_PIECE = 1 << 20


@dataclass(frozen=True, slots=True)
class BinomialLaw(Law):
    r"""X − mode for X of Bin(trials, numerator/denominator), in the order 0, 1, −1, 2, ...

    Weights are relative to that of the mode, by the ratio of neighbours
    :math:`P(x+1)/P(x) = (n-x)\,\pi / ((x+1)(1-\pi))`, each rounded down. Ratios away from the mode
    are at most 1, so the k-th weight is at most k below its value. Beyond the last weight above 0,
    the rest is below a geometric series.
    """

    trials: int
    numerator: int
    denominator: int

    @property
    def mode(self) -> int:
        return min(self.trials, (self.trials + 1) * self.numerator // self.denominator)

    @property
    def count(self) -> int:
        return self.trials + 1

    def outcome(self, index: int) -> int:
        below, above = self.mode, self.trials - self.mode
        if index <= 2 * min(below, above):
            return alternating(index)
        return index - below if above > below else above - index

    def outcomes(self, count: int) -> IntArray:
        below, above = self.mode, self.trials - self.mode
        paired = min(count, 2 * min(below, above) + 1)
        rest = np.arange(paired, count, dtype=np.int64)
        return np.concatenate(
            [alternating_row(paired), rest - below if above > below else above - rest]
        )

    def _exact_bits(self) -> int:
        return self.trials * self.denominator.bit_length()

    def _sums(self, bits: int) -> tuple[list[int], int]:
        """Cumulative weights from below while any is above 0, and a bound on their error."""
        n, mode, kept, lost = (
            self.trials,
            self.mode,
            self.numerator,
            self.denominator - self.numerator,
        )
        weights = {0: 1 << bits}
        error = 1
        for sign, room in ((1, n - mode), (-1, mode)):
            weight = 1 << bits
            for distance in range(1, room + 1):
                if sign > 0:
                    top, bottom = (n - mode - distance + 1) * kept, (mode + distance) * lost
                else:
                    top, bottom = (mode - distance + 1) * lost, (n - mode + distance) * kept
                weight = weight * top // bottom
                error += distance
                if weight == 0:
                    # the true weight is below `distance`, and those beyond fall at least as fast as
                    # top/bottom < 1
                    error += distance * (bottom // (bottom - top) + 1)
                    break
                weights[sign * distance] = weight
        farthest = max(max(weights), -min(weights))
        order = self.outcomes(min(self.count, 2 * farthest + 1)).tolist()
        return list(accumulate(weights.get(distance, 0) for distance in order)), error

    def _exact_sums(self) -> list[int]:
        """The cumulative probabilities times denominator^trials."""
        kept, lost = self.numerator, self.denominator - self.numerator
        weight, weights = lost**self.trials, []
        for x in range(self.trials + 1):
            weights.append(weight)
            weight = weight * (self.trials - x) * kept // ((x + 1) * lost)
        return list(
            accumulate(weights[self.mode + self.outcome(index)] for index in range(self.count))
        )

    def bounds(self, index: int, bits: int) -> tuple[int, int]:
        if self._exact_bits() <= max(_EXACT, bits):
            total = self.denominator**self.trials
            sum_ = self._exact_sums()[index] << bits
            return sum_ // total, -(-sum_ // total)
        sums, error = self._sums(bits + 64)
        total, below = sums[-1], sums[min(index, len(sums) - 1)]
        return (below << bits) // (total + error), min(
            1 << bits, -((-(below + error) << bits) // total)
        )

    def thresholds(self) -> list[int]:
        if self._exact_bits() <= _EXACT:
            total = self.denominator**self.trials
            return [(below << WORD) // total for below in self._exact_sums()[:-1]]
        sums, error = self._sums(WORD + _GUARD)
        total = sums[-1]
        found: list[int] = []
        for index, below in enumerate(sums[: self.count - 1]):
            low = (below << WORD) // (total + error)
            high = ((below + error) << WORD) // total
            if low >= LAST:  # beyond lies something, and less than 2^−64
                found.append(LAST)
                break
            found.append(low if low == high else self.threshold(index))
        return found


@lru_cache(maxsize=1024)
def _law(bit: int, numerator: int, denominator: int) -> BinomialLaw:
    return BinomialLaw(1 << bit, numerator, denominator)


def thin(counts: IntArray, keep: Fraction, bits: Bits) -> IntArray:
    """One independent value of Bin(counts[i], keep) for each i, exactly, from ideal bits."""
    check_counts(counts)
    if keep in (0, 1) or counts.size == 0:
        return counts * np.int64(keep)
    longest = int(counts.max()).bit_length()
    total = np.zeros(len(counts), np.int64)
    for bit in range(min(_TOP, -(-longest // _STEP) * _STEP)):
        law = _law(bit, keep.numerator, keep.denominator)
        some = draw([(TABLES.get(law, guided=len(counts) > DIRECT), 0)], len(counts), bits)
        some += law.mode
        some *= (counts >> bit) & 1
        total += some
    if longest > _TOP:
        total += _thin_blocks(counts >> _TOP, _law(_TOP, keep.numerator, keep.denominator), bits)
    return total


def _thin_blocks(blocks: IntArray, law: BinomialLaw, bits: Bits) -> IntArray:
    """The sum of blocks[i] independent draws of `law`, in pieces of bounded memory."""
    total = blocks * law.mode
    ends = np.cumsum(blocks)
    count = int(ends[-1])
    table = TABLES.get(law, guided=min(count, _PIECE) > DIRECT)
    for start in range(0, count, _PIECE):
        size = min(_PIECE, count - start)
        running = np.concatenate([[0], np.cumsum(draw([(table, 0)], size, bits))])
        reached = np.clip(ends - start, 0, size)
        total += np.diff(running[reached], prepend=0)
    return total


def check_counts(counts: IntArray) -> None:
    """Refuse counts that are not a row from 0 to `MAX_COUNT`; the message shows none of them."""
    if counts.dtype != np.int64 or counts.ndim != 1:
        raise InputError(
            f"counts to thin must be one row of int64, not {counts.ndim} of {counts.dtype}."
        )
    if counts.size and (counts.min() < 0 or counts.max() > MAX_COUNT):
        raise InputError("counts to thin must lie in 0..2**40.")
