"""The weight of a unit in a sum, by its age."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np

from penstock.core.arrays import FloatArray
from penstock.core.errors import ConfigurationError
from penstock.core.exact import Exact, exact, whole


@dataclass(frozen=True)
class Weights:
    """The weights of the units in a sum; the newest unit has age 0.

    Parameters
    ----------
    kind : str
        "unit": the newest unit alone. "window": the last `length` units. "prefix": all units so
        far. "decay": the last `length` units, each worth γ^age. "power": the last `length` units,
        each worth (1 + age)^−p. Default: "unit".
    length : int
        The number of units. Default: 1.
    rate : Fraction
        γ or p. Default: 1.

    >>> Weights.decay("0.5", 3).sequence(5)
    array([1.  , 0.5 , 0.25, 0.  , 0.  ])
    >>> Weights.window(2).in_words()
    'the sum of the last 2 units'
    """

    kind: Literal["unit", "window", "prefix", "decay", "power"] = "unit"
    length: int = 1
    rate: Fraction = Fraction(1)

    @classmethod
    def window(cls, length: int) -> Weights:
        """The last `length` units, equally.

        Parameters
        ----------
        length : int
            The number of units.
        """
        return cls("window", whole(length, name="window", least=1))

    @classmethod
    def prefix(cls) -> Weights:
        """All units since the first, equally."""
        return cls("prefix", 0)

    @classmethod
    def decay(cls, gamma: Exact, length: int) -> Weights:
        """γ^age over the last `length` units.

        Parameters
        ----------
        gamma : int, Fraction or str
            γ: above 0, and not above 1.
        length : int
            The number of units.
        """
        rate = exact(gamma, name="gamma")
        if not 0 < rate <= 1:
            raise ConfigurationError(
                f"gamma must lie above 0 and not above 1, not {rate}.", parameter="gamma"
            )
        return cls("decay", whole(length, name="window", least=1), rate)

    @classmethod
    def power(cls, exponent: Exact, length: int) -> Weights:
        """(1 + age)^−exponent over the last `length` units.

        Parameters
        ----------
        exponent : int, Fraction or str
            The exponent: above 0.
        length : int
            The number of units.
        """
        rate = exact(exponent, name="exponent")
        if rate <= 0:
            raise ConfigurationError(
                f"exponent must be positive, not {rate}.", parameter="exponent"
            )
        return cls("power", whole(length, name="window", least=1), rate)

    def sequence(self, size: int) -> FloatArray:
        """The weights of ages 0 to `size` − 1.

        Parameters
        ----------
        size : int
            The number of ages.
        """
        ages = np.arange(size, dtype=np.float64)
        if self.kind == "prefix":
            return np.ones(size)
        rate = float(self.rate)
        with np.errstate(under="ignore"):
            if self.kind == "decay":
                weights = rate**ages
            elif self.kind == "power":
                weights = (1 + ages) ** -rate
            else:
                weights = np.ones(size)
        return np.where(ages < self.length, weights, 0.0)

    def in_words(self) -> str:
        """The sum with these weights, in words."""
        span = f"the last {self.length} units"
        return {
            "unit": "the count of one unit",
            "window": f"the sum of {span}",
            "prefix": "the sum of all units so far",
            "decay": f"the sum of {span}, each worth {float(self.rate):g} to the power of its age",
            "power": f"the sum of {span}, each worth (1 + age)^-{float(self.rate):g}",
        }[self.kind]


UNIT = Weights()
