r"""Gaussian noise of any rational variance, rounded to whole numbers.

It takes a small table, uniform bits and a rare rejection. With the k for which
:math:`64 < \sigma/2^k \le 128`,

.. math:: G = \pm 2^k (Y + e)

where Y ≥ 0 is half a discrete Gaussian of variance :math:`\sigma^2/4^k` and e is uniform on [0, 1).
The pair is kept with probability :math:`\exp(-e(2Y + e)4^k/2\sigma^2)`, which is 0.99 and more on
average. G is a continuous Gaussian, of which only the bits that are needed are drawn. The result is
the whole number next to it. Proof: docs/proofs/gaussian.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from typing import Final

import numpy as np

from penstock.core.arrays import BoolArray, IntArray
from penstock.core.errors import NoiseError
from penstock.private.noise.bits import Bits
from penstock.private.noise.fixed import exp_bounds
from penstock.private.noise.laws import LAST, WORD, Law
from penstock.private.noise.tables import DIRECT, TABLES, draw

MAX_VARIANCE: Final = 1 << 100
"""The largest variance: |G| reaches 2^61 with probability below e^(−2^20), and is cut near 2^62."""

LARGEST_WHOLE: Final = 128
"""The largest standard deviation of Y; the smallest is half of it."""

KNOWN: Final = 63
"""Bits of e, and of V, by which nearly every pair is settled."""

_GUARD = 96
_FINE = 16  # bits of e, and of 1/2s², by which nearly every pair is kept or not
_PIECE = 1 << 15
_FAR = 1 << 11  # every outcome of a table is below


@dataclass(frozen=True, slots=True)
class HalfGaussianLaw(Law):
    """P(k) ∝ exp(−k²·denominator/(2·numerator)) on 0, 1, 2, ..."""

    numerator: int
    denominator: int

    @property
    def count(self) -> None:
        return None

    def outcome(self, index: int) -> int:
        return index

    def outcomes(self, count: int) -> IntArray:
        return np.arange(count, dtype=np.int64)

    def _weights(self, bits: int, least: int) -> tuple[list[int], list[int]]:
        """exp(−k²/2σ²)·2^bits for k = 0, 1, ... from below and from above.

        There are at least `least`, and enough that all that follow are worth 1 or less together.
        """
        one = 1 << bits
        rate = Fraction(self.denominator, 2 * self.numerator)
        low_step, high_step = exp_bounds(rate, bits)  # from k to k + 1, times exp(−(2k + 1)·rate)
        low_ratio, high_ratio = exp_bounds(2 * rate, bits)
        lows, highs = [one], [one]
        # Steps fall, so what follows the last weight is below a geometric series of the next step's
        # ratio.
        while len(lows) < least or highs[-1] * high_step > one - high_step:
            lows.append(lows[-1] * low_step >> bits)
            highs.append(-(-highs[-1] * high_step >> bits))
            low_step = low_step * low_ratio >> bits
            high_step = -(-high_step * high_ratio >> bits)
        return lows, highs

    def _sums(self, bits: int, least: int) -> tuple[list[int], list[int], int, int]:
        """Cumulative weights, from below and from above, and the bounds of their total."""
        lows, highs = self._weights(bits, least + 1)
        low, high = list(accumulate(lows)), list(accumulate(highs))
        return low, high, low[-1], high[-1] + 1

    def bounds(self, index: int, bits: int) -> tuple[int, int]:
        # The bounds of weight k are less than 3(k + 1)² apart, so those of the sums less than 3K³
        # for K weights.
        extra = 3 * (index + self.numerator // self.denominator + bits).bit_length() + 8
        low, high, least, most = self._sums(bits + extra, index)
        return (low[index] << bits) // most, min(1 << bits, -((-high[index] << bits) // least))

    def thresholds(self) -> list[int]:
        low, high, least, most = self._sums(WORD + _GUARD, 0)
        found: list[int] = []
        for index, (below, above) in enumerate(zip(low, high, strict=True)):
            first, last = (below << WORD) // most, (above << WORD) // least
            each = first if first == last else self.threshold(index)
            found.append(min(each, LAST))
            if each >= LAST:
                return found
        found.append(LAST)
        return found


@dataclass(frozen=True, slots=True)
class _Shape:
    """The parts of a draw that follow from the variance."""

    shift: int
    small: Fraction
    """The variance of Y."""
    law: HalfGaussianLaw
    rate: int
    """2^30/variance of Y, rounded down: units of 2^−32 in e(2Y + e)."""


@lru_cache(maxsize=4096)
def _shape(numerator: int, denominator: int) -> _Shape:
    shift = _shift(numerator, denominator)
    small = Fraction(numerator, denominator) * (4**-shift if shift < 0 else Fraction(1, 4**shift))
    rate = int(Fraction(1 << KNOWN - 2 * _FINE, 2) / small)
    return _Shape(shift, small, HalfGaussianLaw(small.numerator, small.denominator), rate)


def _shift(numerator: int, denominator: int) -> int:
    """The smallest k with σ/2^k ≤ 128; below 0 for a small σ."""
    shift = 0
    while numerator > LARGEST_WHOLE**2 * denominator << 2 * shift:
        shift += 1
    while shift <= 0 and numerator << 2 * (1 - shift) <= LARGEST_WHOLE**2 * denominator:
        shift -= 1
    return shift


def check_variance(variance: Fraction) -> None:
    """Refuse a variance above `MAX_VARIANCE`."""
    if variance.numerator > MAX_VARIANCE * variance.denominator:
        raise NoiseError(
            "the variance is above 2**100, where noise could pass the range of int64. "
            "Nothing was drawn."
        )


def gaussian(variance: Fraction, size: int, bits: Bits) -> IntArray:
    """`size` independent values, each exactly the whole number next to a Gaussian.

    Their own variance is larger by 1/12 at most.
    """
    check_variance(variance)
    shape = _shape(variance.numerator, variance.denominator)
    values = np.empty(size, np.int64)
    filled = 0
    while filled < size:
        wanted = min(size - filled, _PIECE)
        kept = _pairs(shape, wanted, bits)
        taken = kept[:wanted]
        values[filled : filled + len(taken)] = taken
        filled += len(taken)
        kept.fill(0)
    return values


def _pairs(shape: _Shape, wanted: int, bits: Bits) -> IntArray:
    """The pairs that are kept of somewhat more than `wanted`: nearly always enough."""
    size = wanted + wanted // 64 + 64
    above = max(shape.shift, 0)
    table = TABLES.get(shape.law, guided=size > DIRECT)
    values = draw([(table, above)], size, bits)
    raw = bits.bytes(8 * size)
    words = raw.view(np.int64)
    e = words & LAST >> 1
    chance = bits.bytes(8 * size)
    v = (chance.view(np.uint64) >> np.uint64(1)).view(np.int64)
    kept = _kept(values >> above, e, v, shape, bits)
    _round(values, e, shape.shift)
    np.negative(values, out=values, where=words < 0)
    chosen = values[kept]
    for scratch in (values, e, v, raw, chance):
        scratch.fill(0)
    return chosen


def _round(values: IntArray, e: IntArray, shift: int) -> None:
    """From 2^k·Y, or Y for k < 0, to ⌊2^k·(Y + e) + 1/2⌋, in place; that takes k + 1 bits of e."""
    if shift >= 0:
        low = e >> KNOWN - 1 - shift
        low += 1
        low >>= 1
        values += low
        low.fill(0)
    elif shift > -KNOWN:
        values += 1 << -shift - 1
        values >>= -shift
    else:  # Y is below 2^62
        values.fill(0)


def _kept(high: IntArray, e: IntArray, v: IntArray, shape: _Shape, bits: Bits) -> BoolArray:
    """Whether each pair is kept: with probability exp(−γ), γ = e(2Y + e)/2s², s² the variance of Y.

    In units of 2^−63, and with the leading 16 bits of e, γ lies between two integers. With V
    uniform, a pair is certainly kept if V ≥ γ and certainly not kept if V < γ − γ²/2. The few
    others are settled in big integers.
    """
    rate_low, rate_high = shape.rate, shape.rate + 1
    fine = e >> KNOWN - _FINE
    doubled = np.minimum(high, _FAR) << _FINE + 1
    least = fine * (doubled + fine) * rate_low
    most = (fine + 1) * (doubled + fine + 1) * rate_high
    kept: BoolArray = v >= most
    square = (least >> 32) + 1
    square *= square  # γ²/2, rounded up
    undecided = ~kept & (v >= least - square)
    undecided |= high >= _FAR
    for place in np.flatnonzero(undecided).tolist():
        kept[place] = survives(int(high[place]), int(e[place]), int(v[place]), shape.small, bits)
    for scratch in (fine, doubled, least, most, square):
        scratch.fill(0)
    return kept


def survives(high: int, e: int, v: int, small: Fraction, bits: Bits) -> bool:
    """Whether V ≥ 1 − exp(−γ), given 63 bits of e and V, and more as needed."""
    known = KNOWN
    while True:
        low, _ = exp_bounds(_gamma(high, Fraction(e + 1, 1 << known), small), known)
        _, most = exp_bounds(_gamma(high, Fraction(e, 1 << known), small), known)
        if (1 << known) - v <= low:
            return True
        if (1 << known) - v - 1 >= most:
            return False
        e, v, known = e << WORD | _word(bits), v << WORD | _word(bits), known + WORD


def _gamma(high: int, e: Fraction, small: Fraction) -> Fraction:
    return e * (2 * high + e) / (2 * small)


def _word(bits: Bits) -> int:
    return int.from_bytes(bits.bytes(8).tobytes(), "little")
