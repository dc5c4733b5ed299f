"""Fixed-point numbers with both bounds known, in Python integers. Only they decide a threshold.

A real number y is held as a pair (low, high) of integers with low ≤ y·2^bits ≤ high.
"""

from __future__ import annotations

from fractions import Fraction


def exp_bounds(x: Fraction, bits: int) -> tuple[int, int]:
    """Bounds on e^(−x)·2^bits for x ≥ 0, at most 2 apart.

    The Taylor series at y = x/2^s ≤ 2^−8, then s squarings. Every term of the series is within 2 of
    its value, and the rest is below the first term left out. Squaring a number of at most 1 at most
    doubles an error and adds 1.

    >>> exp_bounds(Fraction(0), 8)
    (256, 256)
    >>> low, high = exp_bounds(Fraction(1), 40)
    >>> low <= 0.36787944117144233 * 2**40 <= high
    True
    """
    if x == 0:
        return 1 << bits, 1 << bits
    if x * 100 > 69 * (bits + 2) * 2:  # e^(−x) < 2^(−bits), far below
        return 0, 1
    squarings = max(0, (x.numerator // x.denominator).bit_length() + 9)
    working = bits + squarings + 24
    top, bottom = x.numerator, x.denominator << squarings
    term = low = 1 << working
    count = 0
    while term:
        count += 1
        term = term * top // (bottom * count)
        low += -term if count % 2 else term
    error = 2 * count + 3
    low, high = low - error, low + error
    for _ in range(squarings):
        low = (low * low) >> working
        high = -((-high * high) >> working)
    extra = working - bits
    return low >> extra, -(-high >> extra)
