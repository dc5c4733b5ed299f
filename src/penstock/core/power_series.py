"""Power series for correlated noise: square root, quotient, and the length of sums of shifts."""

from __future__ import annotations

import numpy as np

from penstock.core.arrays import FloatArray, IntArray


def root(series: FloatArray, size: int) -> FloatArray:
    """The first coefficients of the square root of a series that begins with a positive number.

    >>> root(np.array([1.0, 2.0, 1.0]), 4)
    array([1., 1., 0., 0.])
    """
    found = np.zeros(size)
    found[0] = np.sqrt(series[0])
    for n in range(1, size):
        given = series[n] if n < len(series) else 0.0
        found[n] = (given - found[1:n] @ found[n - 1 : 0 : -1]) / (2 * found[0])
    return found


def quotient(above: FloatArray, below: FloatArray | IntArray, size: int) -> FloatArray:
    """The first `size` coefficients of a quotient of series, the one below not beginning with 0.

    >>> quotient(np.array([1.0]), np.array([1.0, -1.0]), 4)
    array([1., 1., 1., 1.])
    """
    divisor = below.astype(np.float64)
    back = divisor[:0:-1]  # the last coefficient first, the one at 0 left out
    found = np.zeros(size)
    for n in range(size):
        reach = min(n, len(back))
        given = above[n] if n < len(above) else 0.0
        found[n] = (given - back[len(back) - reach :] @ found[n - reach : n]) / divisor[0]
    return found


def longest(series: IntArray, shifts: int) -> int:
    r"""An upper bound of the squared length of any sum of signed shifts of the series.

    The sums are :math:`\sum_i s_i x^i a(x)` with 0 ≤ i < `shifts` and all :math:`|s_i| \le 1`. The
    bound is :math:`\sum_{i,j}|A_{i-j}|` with :math:`A_k=\sum_n a_n a_{n+k}`. It is reached if no
    coefficient is negative.

    >>> longest(np.array([3, 1]), 1), longest(np.array([3, 1]), 2), 3**2 + 4**2 + 1**2
    (10, 26, 26)
    """
    size = len(series)
    lags = range(1, min(shifts, size))
    return shifts * int(series @ series) + sum(
        2 * (shifts - k) * abs(int(series[k:] @ series[: size - k])) for k in lags
    )
