"""The number that is reported for each key, and how uncertain it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from penstock.core.arrays import FloatArray

Point: TypeAlias = Literal["median", "mean"]
"""A median has the least mean absolute error. Means add up, so sums and roll-ups use them."""

SMALL, ROUND_UP = 20.0, 1 / 3
"""Medians below SMALL are whole numbers ⌊x + ROUND_UP⌋: the median of a Poisson count."""


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
    """

    mean: FloatArray
    level_variance: FloatArray
    variance: FloatArray

    def point(self, point: Point, *, counted: bool = True) -> FloatArray:
        r"""The number to report.

        A median is :math:`x=\max(\mu-v/\mu,0)` with level variance v, because levels cannot be
        negative; and :math:`\lfloor x+1/3\rfloor` below 20.

        Parameters
        ----------
        point : "median" or "mean"
            Which number of its distribution.
        counted : bool
            Whether counts are events (a flow). The median of a stock is its mean. Default: True.

        >>> one = np.array([1.0, 30.0])
        >>> Estimate(one, one * 0.5, one).point("median").round(2)
        array([ 0. , 29.5])
        """
        if point == "mean" or not counted:
            return self.mean
        shifted = np.maximum(self.mean - self.level_variance / np.maximum(self.mean, 1e-9), 0)
        return np.where(shifted < SMALL, np.floor(shifted + ROUND_UP), shifted)
