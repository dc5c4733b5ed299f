"""The input of a filter: public settings, and the numbers that were released for one unit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from penstock.core.arrays import BoolArray, FloatArray, IntArray

StreamKind: TypeAlias = Literal["flow", "stock"]
"""A flow counts events of a unit. A stock counts what is present in it, such as docked bikes."""

NoiseLaw: TypeAlias = Literal["laplace", "gaussian"]


@dataclass(frozen=True)
class FilterSettings:
    """Public knowledge about a stream.

    Parameters
    ----------
    keys : int
        The number of keys.
    periods : tuple of int
        The lengths of the stream's seasons in units, the shortest first. Default: none.
    kind : "flow" or "stock"
        Whether counts are events of a unit, or what is present in it. Default: "flow".
    longest : int
        The most units in a block. Default: 24.
    first_length : int
        The units of the first blocks, of all keys. Default: 1.
    total_noise : float, optional
        The variance of the noise in the total of one unit, in the long run. Default: none, there
        are no totals.
    decide_at : tuple of int
        The units after which the filter decides whether totals are read by unit or by phase. The
        last of them is the end of the first window. Default: none.
    law : "laplace" or "gaussian"
        The law of the noise. Default: "laplace".
    chooses_lengths : bool
        Whether the filter chooses how many units each key's next block has. If not, somebody else
        does, and blocks of one unit are expected. Default: True.

    >>> FilterSettings(keys=3, periods=(24, 168)).shortest_period
    24
    """

    keys: int
    periods: tuple[int, ...] = ()
    kind: StreamKind = "flow"
    longest: int = 24
    first_length: int = 1
    total_noise: float | None = None
    decide_at: tuple[int, ...] = ()
    law: NoiseLaw = "laplace"
    chooses_lengths: bool = True

    @property
    def shortest_period(self) -> int:
        """The units of the shortest season; 1 without seasons."""
        return self.periods[0] if self.periods else 1


@dataclass(frozen=True)
class Observation:
    """The numbers that were released for one unit.

    Parameters
    ----------
    unit : int
        The unit, counted from 1.
    fresh : array of bool
        The keys that have a new number.
    sums : array of float
        Per key, the noisy sum of its counts. It is read at fresh keys only.
    units : array of int
        Per key, how many units its sum covers, up to this one: 1, or all since its last sum.
    noise : float or array of float
        The variance of the noise in each fresh sum; an array has one number per key.
    next_noise : float
        The variance of the noise in the sums that begin with the next unit.
    total : float, optional
        The noisy sum of totals over all keys. Default: none.
    total_units : int
        How many units the total covers: this one, and earlier ones of its phase. Default: 1.
    total_noise : float
        The variance of the noise in the total. Default: 0.
    """

    unit: int
    fresh: BoolArray
    sums: FloatArray
    units: IntArray
    noise: float | FloatArray
    next_noise: float
    total: float | None = None
    total_units: int = 1
    total_noise: float = 0.0
