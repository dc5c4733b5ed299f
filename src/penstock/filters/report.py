"""The number that is reported for each key, and how uncertain it is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np

from penstock.core.arrays import FloatArray, IntArray, SmallFloats
from penstock.core.released import DEVIATION, Released
from penstock.core.weights import UNIT

Point: TypeAlias = Literal["median", "mean"]
"""A median has the least mean absolute error. Means add up, so sums and roll-ups use them."""

SMALL, ROUND_UP = 20.0, 1 / 3
"""Medians below SMALL are whole numbers ⌊x + ROUND_UP⌋: the median of a Poisson count."""


LEAST_SQUARE = 1e-17
"""Joins nine times the square of a mean, so that a mean of 0 has a relative variance."""

FINENESS = 256
"""Released estimates are rounded to parts of 1/256."""

_ONE, _NINE, _LEAST_SQUARE = (np.array(each, np.float32) for each in (1, 9, LEAST_SQUARE))
_SMALL, _ROUND_UP, _FINENESS = (np.array(each, np.float64) for each in (SMALL, ROUND_UP, FINENESS))
"""NumPy is slower with a number of Python than with an array without axes."""


@dataclass(frozen=True)
class Estimate:
    """What is believed of each key's count in one unit.

    Parameters
    ----------
    mean : array of float
        The expected count.
    level_variance : array of float
        The variance of the mean itself.
    variance : array of float
        The variance of the count around the mean, infinite where nothing was released yet.
    total : tuple of two floats, optional
        The estimated total over all keys, and its variance. Default: none.
    """

    mean: FloatArray
    level_variance: SmallFloats | FloatArray
    variance: SmallFloats | FloatArray
    total: tuple[float, float] | None = None

    def with_total(self) -> tuple[FloatArray, float]:
        r"""The means, moved by least squares so that their sum agrees with the total.

        With variances :math:`v_k` of sum V and a total of variance :math:`v`, key k takes the share
        :math:`v_k/V` of the gap, times :math:`g=V/(V+v)`. The second number is g/V: the sum over a
        set of keys with variance U then has the variance :math:`U-U^2g/V`.

        >>> one = np.array([1.0, 1.0])
        >>> means, shrink = Estimate(10 * one, one, one, total=(26.0, 1.0)).with_total()
        >>> means.round(6), round(shrink, 6)
        (array([12., 12.]), 0.333333)
        """
        known = float(self.variance.sum(dtype=np.float64))
        if self.total is None or not np.isfinite(known):
            return self.mean, 0.0
        total, variance = self.total
        shrink = 1 / (known + variance)
        gap = total - float(self.mean.sum())
        return np.maximum(self.mean + self.variance * (shrink * gap), 0), shrink

    def point(self, point: Point, *, counted: bool = True) -> FloatArray:
        r"""The number to report.

        With level variance v, levels are taken to have a gamma distribution, whose median is about
        :math:`x=\mu(1-v/(9\mu^2))^3`. The median of a count is :math:`\lfloor x+1/3\rfloor` below
        20, else x.

        Parameters
        ----------
        point : "median" or "mean"
            Which number of its distribution.
        counted : bool
            Whether counts are events (a flow). The median of a stock is its mean. Default: True.

        >>> one = np.array([1.0, 30.0])
        >>> Estimate(one, one * 0.5, one).point("median").round(2)
        array([ 1.  , 29.83])
        """
        if point == "mean" or not counted:
            return self.mean
        root = self.mean.astype(np.float32)
        root *= root
        root *= _NINE
        root += _LEAST_SQUARE
        np.maximum(root, self.level_variance, out=root)
        np.divide(self.level_variance, root, out=root)
        np.subtract(_ONE, root, out=root)
        cube = root * root
        cube *= root
        median: FloatArray = cube.astype(np.float64)
        median *= self.mean
        small = median < _SMALL
        number = np.count_nonzero(small)
        if number:
            whole = median + _ROUND_UP
            np.floor(whole, out=whole)
            if number == len(median):
                return whole
            np.copyto(median, whole, where=small)
        return median

    def error(self, point: FloatArray) -> SmallFloats:
        """The expected squared error of a reported number."""
        away = (point - self.mean).astype(np.float32)
        away *= away
        away += self.variance.astype(np.float32, copy=False)
        return away

    def released(self, release: Released, point: Point, *, counted: bool = True) -> Released:
        """The estimates in place of the numbers of a release of the same unit.

        Parameters
        ----------
        release : Released
            The release: unit, promise and noise are taken from it.
        point : "median" or "mean"
            Which number of its distribution.
        counted : bool
            Whether counts are events (a flow). Default: True.
        """
        value = self.point(point, counted=counted)
        return replace(
            release,
            value=in_parts(value, len(value)),
            repeated=False,
            divisor=FINENESS,
            layers=1,
            public={DEVIATION: deviations(self.error(value))},
            kind="filtered",
            weights=UNIT,
        )


def in_parts(numbers: FloatArray, keys: int) -> IntArray:
    """Numbers in parts of 1/256, small enough for sums over all keys."""
    parts, most = numbers * _FINENESS, 2**60 // keys
    if parts[parts.argmax()] > most:
        np.minimum(parts, most, out=parts)
    return np.rint(parts, out=parts).astype(np.int64)


def deviations(variance: SmallFloats | FloatArray) -> IntArray:
    """The roots of variances in parts of 1/256, rounded up, from 1; 0 if they are infinite."""
    parts = np.sqrt(variance)
    parts *= FINENESS
    np.ceil(parts, out=parts)
    unknown = np.isinf(parts)
    parts.clip(1, 2**60 // len(parts), out=parts)
    if np.count_nonzero(unknown):
        parts[unknown] = 0
    return parts.astype(np.int64)
