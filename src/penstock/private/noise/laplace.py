r"""Discrete Laplace noise of any rational scale, as a sum of few small tables.

With scale b and M = 256, let J be the smallest integer with :math:`b/M^J \le 128`. Then

.. math:: X = \sum_{j<J} M^j W_j + M^J Y

where Y is discrete Laplace of scale :math:`b/M^J` and :math:`W_j` is the difference of two digits,
geometric of scale :math:`b/M^j` cut to 0..M−1, all independent. Proof: docs/proofs/noise.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from typing import Final

from penstock.core.arrays import IntArray
from penstock.core.errors import NoiseError
from penstock.core.exact import positive
from penstock.private.noise.bits import Bits
from penstock.private.noise.fixed import exp_bounds
from penstock.private.noise.laws import LAST, WORD, Law, alternating, alternating_row
from penstock.private.noise.tables import DIRECT, TABLES, draw

MAX_SCALE: Final = 1 << 50
"""The largest scale: |X| reaches 2^62 with probability below e^−4096, and is then cut to about
2^62.
"""

BASE: Final = 256
LARGEST_WHOLE: Final = 128
"""The largest scale that has a table of its own."""

_GUARD = 96
"""Bits beyond 64 in the bulk computation of thresholds; what they leave open is settled one by one.
"""


@dataclass(frozen=True, slots=True)
class LaplaceLaw(Law):
    r"""P(k) ∝ q^|k| with q = exp(−denominator/numerator), the scale being numerator/denominator.

    In the order 0, 1, −1, 2, −2, ... what lies beyond is :math:`q^k` after k, and
    :math:`2q^{k+1}/(1+q)` after −k.
    """

    numerator: int
    denominator: int

    @property
    def count(self) -> None:
        return None

    def outcome(self, index: int) -> int:
        return alternating(index)

    def outcomes(self, count: int) -> IntArray:
        return alternating_row(count)

    def bounds(self, index: int, bits: int) -> tuple[int, int]:
        rate = Fraction(self.denominator, self.numerator)
        one = 1 << bits
        power = (index + 1) // 2 if index % 2 else index // 2 + 1
        low, high = exp_bounds(power * rate, bits + 8)
        if index % 2 == 0:
            q_low, q_high = exp_bounds(rate, bits + 8)
            scaled = one << 8
            low = (2 * low << bits + 8) // (scaled + q_high)
            high = -((-2 * high << bits + 8) // (scaled + q_low))
        return one - -(-high >> 8), one - (low >> 8)

    def thresholds(self) -> list[int]:
        bits = WORD + _GUARD
        one, fraction = 1 << bits, (1 << _GUARD) - 1
        q_low, q_high = exp_bounds(Fraction(self.denominator, self.numerator), bits)
        half_low = (2 * q_low << bits) // (one + q_low)
        half_high = -((-2 * q_high << bits) // (one + q_high))
        # Both rows follow y ← y·q, from below: a step adds at most q_high − q_low + 1 to the error.
        step = q_high - q_low + 1
        odd, even = q_low, half_low
        found: list[int] = []
        error = step + half_high - half_low
        while True:
            for beyond in (even, odd):
                if beyond + error <= fraction:  # what lies beyond is positive and below 2^−64
                    found.append(LAST)
                    return found
                low = one - beyond - error
                if low & fraction > fraction - error:
                    found.append(self.threshold(len(found)))
                else:
                    found.append(low >> _GUARD)
            even = even * q_low >> bits
            odd = odd * q_low >> bits
            error += step


@dataclass(frozen=True, slots=True)
class DigitLaw(Law):
    r"""D − D′ with P(D = d) ∝ r^d on 0..255, r = exp(−denominator/numerator).

    P(w) is proportional to :math:`\sum_i r^{|w|+2i}` over 0 ≤ i < 256 − |w|: sums of positive
    terms, with nothing cancelled.
    """

    numerator: int
    denominator: int

    @property
    def count(self) -> int:
        return 2 * BASE - 1

    def outcome(self, index: int) -> int:
        return alternating(index)

    def outcomes(self, count: int) -> IntArray:
        return alternating_row(count)

    def _sums(self, bits: int) -> tuple[list[int], int]:
        """The cumulative weights, as integers from below, and a bound on the error of each."""
        low, high = exp_bounds(Fraction(self.denominator, self.numerator), bits)
        step = high - low + 1
        powers = [1 << bits]
        for _ in range(2 * BASE - 2):
            powers.append(powers[-1] * low >> bits)
        # same[e] = r^e + r^(e−2) + ..., so a weight is a difference of two, and the sum of its
        # terms as they were rounded
        same = powers[:2]
        for exponent in range(2, 2 * BASE - 1):
            same.append(same[exponent - 2] + powers[exponent])
        weights = [same[2 * BASE - 2 - w] - (same[w - 2] if w >= 2 else 0) for w in range(BASE)]
        terms = BASE * BASE
        return list(
            accumulate(weights[abs(alternating(index))] for index in range(self.count))
        ), terms * 2 * BASE * step

    def bounds(self, index: int, bits: int) -> tuple[int, int]:
        sums, error = self._sums(bits + 64)
        total = sums[-1]
        return (sums[index] << bits) // (total + error), min(
            1 << bits, -((-(sums[index] + error) << bits) // total)
        )

    def thresholds(self) -> list[int]:
        bits = WORD + _GUARD
        sums, error = self._sums(bits)
        total = sums[-1]
        found: list[int] = []
        for index, below in enumerate(sums[:-1]):
            low = (below << WORD) // (total + error)
            high = ((below + error) << WORD) // total
            found.append(low if low == high else self.threshold(index))
        return found


def parts(numerator: int, denominator: int) -> tuple[tuple[Law, int], ...]:
    """The laws whose sum is discrete Laplace of this scale, and their powers of two.

    >>> [(type(law).__name__, shift) for law, shift in parts(100_000, 1)]
    [('LaplaceLaw', 16), ('DigitLaw', 8), ('DigitLaw', 0)]
    """
    scale, shift = Fraction(numerator, denominator), 0
    check_scale(scale)
    digits: list[tuple[Law, int]] = []
    while scale > LARGEST_WHOLE:
        digits.append((DigitLaw(scale.numerator, scale.denominator), shift))
        scale /= BASE
        shift += 8
    return (LaplaceLaw(scale.numerator, scale.denominator), shift), *reversed(digits)


def check_scale(scale: Fraction) -> None:
    """Refuse a scale that is not above 0, or is above `MAX_SCALE`."""
    positive(scale, name="scale")
    if scale.numerator > MAX_SCALE * scale.denominator:
        raise NoiseError(
            f"scale={scale} is above 2**50, where noise could pass the range of int64. "
            "Nothing was drawn."
        )


def laplace(scale: Fraction, size: int, bits: Bits) -> IntArray:
    """`size` independent values with P(k) ∝ exp(−|k|/scale), exactly, from ideal bits."""
    numerator, denominator = scale.as_integer_ratio()
    guided = size > DIRECT
    row = TABLES.rows.get((numerator, denominator, guided))
    if row is None:
        row = TABLES.row(parts, numerator, denominator, guided=guided)
    return draw(row, size, bits)
