"""The number that is reported for each key, and how uncertain it is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np

from penstock.core.arrays import FloatArray
from penstock.core.released import DEVIATION, Released
from penstock.core.weights import UNIT

Point: TypeAlias = Literal["median", "mean"]
"""A median has the least mean absolute error. Means add up, so sums and roll-ups use them."""

SMALL, ROUND_UP = 20.0, 1 / 3
"""Medians below SMALL are whole numbers ⌊x + ROUND_UP⌋: the median of a Poisson count."""


FINENESS = 256
"""Released estimates are rounded to parts of 1/256."""


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
        most = 2**60 // len(value)
        error = np.sqrt(self.variance + np.square(value - self.mean))
        parts = np.ceil(np.minimum(error * FINENESS, most)).astype(np.int64)
        return replace(
            release,
            value=np.rint(np.clip(value * FINENESS, -most, most)).astype(np.int64),
            repeated=False,
            divisor=FINENESS,
            layers=1,
            public={DEVIATION: np.where(np.isfinite(error), np.maximum(parts, 1), 0)},
            kind="filtered",
            weights=UNIT,
        )
