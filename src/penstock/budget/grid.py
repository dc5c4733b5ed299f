"""Amounts of ε as integers on a grid: sums are exact, and a share is the same number everywhere.

A promise with δ is kept in ρ instead, the currency of zero-concentrated differential privacy. A
ledger has one currency.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, total_ordering
from typing import Literal, Self, TypeAlias

import numpy as np

from penstock.budget.zcdp import rho_of
from penstock.core.arrays import IntArray
from penstock.core.errors import ConfigurationError
from penstock.core.guarantee import Guarantee

FINENESS = 2**24
"""How many quanta the share ε/2w of one unit has."""

Currency: TypeAlias = Literal["epsilon", "rho"]

_PI = Fraction(math.pi)


@dataclass(frozen=True, slots=True)
class Grid:
    """Multiples of one quantum that divides ε/2w, or ρ/2w where the promise has a δ.

    >>> grid = Grid.of(Guarantee("1", 3))
    >>> grid.floor(Fraction(1, 6)).epsilon
    Fraction(1, 6)
    >>> grid.floor(Fraction(1, 7)).epsilon < Fraction(1, 7)
    True
    """

    quantum: Fraction
    currency: Currency = "epsilon"

    @staticmethod
    def of(guarantee: Guarantee) -> Grid:
        """The grid of a promise: the same object for the same ε, δ and window."""
        return _grid(guarantee.epsilon, guarantee.delta, guarantee.window)

    def floor(self, amount: Fraction) -> Budget:
        """The largest amount on the grid that is not above `amount`."""
        return Budget(amount // self.quantum, self)


@lru_cache(maxsize=256)
def _grid(epsilon: Fraction, delta: Fraction, window: int) -> Grid:
    if delta:
        return Grid(rho_of(epsilon, delta) / (2 * window * FINENESS), "rho")
    return Grid(epsilon / (2 * window * FINENESS))


@lru_cache(maxsize=4096)
def _gaussian_error(number: int, quanta: int, numerator: int, denominator: int) -> int:
    """number/√(πρ), rounded down, for ρ = quanta·numerator/denominator."""
    return math.isqrt(int(Fraction(number**2 * denominator, quanta * numerator) / _PI))


def promised(guarantee: Guarantee) -> Budget:
    """The budget of a window, in the promise's currency.

    >>> promised(Guarantee("1", 3))
    Budget(1)
    """
    return Budget(2 * guarantee.window * FINENESS, Grid.of(guarantee))


@total_ordering
class Budget:
    """An amount of ε (or ρ) on a grid. Noise, thresholds and the ledger all use this same number.

    Parameters
    ----------
    quanta : int
        The amount, in quanta of the grid.
    grid : Grid
        The grid of the promise.

    >>> whole = Grid.of(Guarantee("1", 3)).floor(Fraction(1))
    >>> half = whole // 2
    >>> (whole - half * 2).epsilon, bool(whole - half * 2)
    (Fraction(0, 1), False)
    """

    __slots__ = ("grid", "quanta")

    def __init__(self, quanta: int, grid: Grid) -> None:
        self.quanta = quanta
        self.grid = grid

    @property
    def amount(self) -> Fraction:
        """The exact amount, in the grid's currency."""
        return self.quanta * self.grid.quantum

    @property
    def epsilon(self) -> Fraction:
        if self.grid.currency != "epsilon":
            raise ConfigurationError("this budget counts rho, not epsilon: ask for its amount.")
        return self.quanta * self.grid.quantum

    def into(self, number: int) -> int:
        """The expected |noise| of a statistic of sensitivity `number` under this budget, rounded
        down: number/ε for Laplace noise, number/√(πρ) for Gaussian noise.

        A whole number exceeds the expectation if and only if it exceeds this.

        Parameters
        ----------
        number : int
            The sensitivity.

        >>> Grid.of(Guarantee("1", 3)).floor(Fraction(1, 3)).into(7)
        21
        """
        quantum = self.grid.quantum
        if self.grid.currency == "rho":
            return _gaussian_error(number, self.quanta, quantum.numerator, quantum.denominator)
        return number * quantum.denominator // (self.quanta * quantum.numerator)

    def rounded(self, bits: int, *, of: Budget) -> Budget:
        """The largest share m/2ᵏ of `of` up to this amount, with m of at most `bits` binary digits.

        Few such shares exist, so noise scales repeat, and the noise tables with them.

        Parameters
        ----------
        bits : int
            The most binary digits of m.
        of : Budget
            The whole that shares are of.

        >>> whole = Grid.of(Guarantee("1", 3)).floor(Fraction(1))
        >>> (whole // 3).rounded(2, of=whole).epsilon
        Fraction(1, 4)
        """
        if self.quanta <= 0:
            return Budget(0, self.grid)
        whole = self._same(of)
        shift = max(bits + whole.bit_length() - self.quanta.bit_length(), 0)
        shares = (self.quanta << shift) // whole
        while shares >> bits and shift:
            shares, shift = shares >> 1, shift - 1
        shares = min(shares, (1 << bits) - 1)
        return Budget(shares * whole >> shift, self.grid)

    def _same(self, other: Budget) -> int:
        if other.grid is not self.grid and other.grid != self.grid:
            raise ConfigurationError(
                "these two budgets lie on different grids: they belong to different promises."
            )
        return other.quanta

    def __add__(self, other: Budget) -> Budget:
        return Budget(self.quanta + self._same(other), self.grid)

    def __sub__(self, other: Budget) -> Budget:
        return Budget(self.quanta - self._same(other), self.grid)

    def __mul__(self, times: int) -> Budget:
        return Budget(self.quanta * times, self.grid)

    def __floordiv__(self, parts: int) -> Budget:
        return Budget(self.quanta // parts, self.grid)

    def __bool__(self) -> bool:
        return self.quanta > 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Budget) and self.quanta == self._same(other)

    def __lt__(self, other: Self) -> bool:
        return self.quanta < self._same(other)

    def __hash__(self) -> int:
        return hash((self.quanta, self.grid))

    def __repr__(self) -> str:
        return (
            f"Budget({self.amount})"
            if self.grid.currency == "epsilon"
            else f"Budget(rho={self.amount})"
        )


@dataclass(frozen=True, slots=True)
class Budgets:
    """One amount per number of a statistic."""

    quanta: IntArray
    grid: Grid

    @property
    def most(self) -> Budget:
        return Budget(int(np.max(self.quanta, initial=0)), self.grid)
