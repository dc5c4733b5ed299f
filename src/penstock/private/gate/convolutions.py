"""Convolutions: weighted sums over units with Gaussian noise, paid for in ρ."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from penstock.budget.grid import Budget
from penstock.core.arrays import IntArray
from penstock.core.errors import NoiseError
from penstock.core.power_series import longest
from penstock.core.private import Private
from penstock.core.released import Released, Scale
from penstock.private.gate.release_maker import ReleaseMaker
from penstock.private.noise.gaussian import MAX_VARIANCE

MAX_WEIGHTED_SUM = 2**60
"""The largest weighted sum of counts. Larger counts are cut so that no sum passes it."""


@dataclass
class Convolution:
    """The secret of one label: the counts that later sums need, oldest first, all paid for."""

    past: IntArray
    coefficients: IntArray
    terms: tuple[int, int]
    unit: int


class Convolutions:
    """Weighted sums in a ledger of ρ. Used by `toeplitz`. Proof: docs/proofs/toeplitz.md."""

    def __init__(self, maker: ReleaseMaker) -> None:
        self._maker = maker
        self._held: dict[str, Convolution] = {}
        self._variances: dict[tuple[int, int, bytes], int] = {}

    def weighted_sum(
        self, label: str, x: Private, *, coefficients: IntArray, rho: Budget, anew: bool = False
    ) -> Released:
        """Σ_j coefficients[j]·(x of j units ago), with rounded Gaussian noise.

        Call it in every unit from the label's first on, always with the same budget and
        coefficients. Before that unit, x was 0. A person in all w units of a window changes all
        these sums together by at most the length that `longest` gives for w shifts, and pays w·ρ
        for that.

        Parameters
        ----------
        label : str
            The label of the charge.
        x : Private
            The counts of this unit.
        coefficients : array of int64
            The weights, newest unit first.
        rho : Budget
            The charge of this unit.
        anew : bool
            Whether to forget the units before this one. Default: False.
        """
        maker = self._maker
        raw, unit = maker.check_fresh(x), maker.unit
        maker.check_currency("rho")
        variance = self._variance(x.sensitivity, coefficients, rho)
        raw = np.minimum(raw, MAX_WEIGHTED_SUM // int(np.abs(coefficients).sum()))
        terms = (rho.quanta, x.sensitivity)
        held = self._held.get(label)
        if held is None:
            none = np.zeros((0, len(raw)), np.int64)
            held = Convolution(none, coefficients.copy(), terms, unit - 1)
        if (held.terms, held.unit) != (terms, unit - 1) or not np.array_equal(
            held.coefficients, coefficients
        ):
            raise maker.error(
                f"{label!r} reads every unit once, "
                "with one budget, one sensitivity, the same coefficients."
            )
        maker.ledger.spend(rho, label)
        past = held.past[len(held.past) if anew else 0 :]
        value = coefficients[0] * raw
        if len(past):
            value += np.einsum("i,ij->j", coefficients[len(past) : 0 : -1], past)
        kept = max(len(coefficients) - 2, 0)
        rows = np.concatenate([past[max(len(past) - kept, 0) :], raw[np.newaxis]])
        held.past, held.unit = rows[: len(coefficients) - 1], unit
        self._held[label] = held
        value += maker.noise.gaussian(
            Fraction(variance), len(raw), unit=unit, label=maker.once(label)
        )
        np.clip(value, -2 * MAX_WEIGHTED_SUM, 2 * MAX_WEIGHTED_SUM, out=value)
        # The square of this scale is above variance + 1/12, which rounding adds.
        scale = Scale(Fraction(math.isqrt(variance) + 1))
        return Released(
            unit=unit,
            value=value,
            scale=scale,
            guarantee=maker.guarantee,
            private=maker.private,
            kind="gaussian",
        )

    def _variance(self, sensitivity: int, coefficients: IntArray, rho: Budget) -> int:
        """The least whole σ² with sensitivity²·length²/2σ² ≤ w·ρ."""
        key = (sensitivity, rho.quanta, coefficients.tobytes())
        found = self._variances.get(key)
        if found is not None:
            return found
        maker = self._maker
        row = coefficients.dtype == np.int64 and coefficients.ndim == 1
        if not row or not 0 < int(np.abs(coefficients).sum()) <= 2**30:
            raise maker.error("coefficients must be a row of int64, of 1 to 2**30 in all.")
        if not rho:
            raise maker.error("a budget of 0 draws no noise and may read nothing.")
        window = maker.guarantee.window
        found = math.ceil(
            sensitivity**2 * longest(coefficients, window) / (2 * window * rho.amount)
        )
        if found > MAX_VARIANCE:
            raise NoiseError(
                f"unit {maker.unit}: a standard deviation of {math.isqrt(found):.3g} could "
                "overflow; give it more budget."
            )
        self._variances = {key: found}
        return found

    def save(self) -> dict[str, Convolution]:
        return self._held

    def load(self, held: dict[str, Convolution]) -> None:
        self._held = held

    def memory(self) -> dict[str, IntArray]:
        return {f"convolution {name}": held.past.copy() for name, held in self._held.items()}
