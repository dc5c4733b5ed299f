"""The steps that all protocols of the gate share: check, scale, draw and make a release."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from penstock.budget.grid import Budget, Budgets, Currency
from penstock.budget.ledger import Ledger
from penstock.core.arrays import BoolArray, IntArray
from penstock.core.error_bounds import Kind
from penstock.core.errors import MechanismError, NoiseError
from penstock.core.guarantee import Guarantee
from penstock.core.private import Private, unseal
from penstock.core.released import Released, Scale
from penstock.private.gate.limits import MAX_SUM, SCALES_TO_LIMIT, count_limit
from penstock.private.noise import Noise

_MOST_SCALES = 4096
"""Scales that are kept. A stream uses the same few in every unit."""

_PARTS = 24
"""Binary digits of the `parts` in the scale of Gaussian noise that costs one quantum."""


@dataclass(frozen=True, slots=True)
class GaussianNoise:
    """The exact variance of a Gaussian before it is rounded, and a bound on the standard deviation
    of the whole number that it is rounded to.
    """

    variance: Fraction
    scale: Scale
    deviation: float
    """The scale as a float, for the check of its size."""


@lru_cache(maxsize=4096)
def gaussian_noise(
    sensitivity: int, quanta: int, numerator: int, denominator: int
) -> GaussianNoise:
    """The noise of variance sensitivity²/2ρ, for ρ = quanta·numerator/denominator.

    All amounts of a grid have scales of one base.

    >>> found = gaussian_noise(1, 2, 1, 4)
    >>> found.variance, 1 + 1 / 12 <= float(found.scale) ** 2 < 1.0834
    (Fraction(1, 1), True)
    """
    one = Fraction(sensitivity**2 * denominator, 2 * numerator)
    base = (math.isqrt(math.ceil(one)) + 1) << _PARTS
    variance = one / quanta
    # Rounding to whole numbers adds at most 1/12 to the variance.
    parts = math.isqrt(int(base**2 / (variance + Fraction(1, 12))))
    scale = Scale(Fraction(base), parts)
    return GaussianNoise(variance, scale, float(scale))


class ReleaseMaker:
    """Checks what a mechanism gives, draws noise, and makes releases; it charges nothing itself."""

    def __init__(self, *, ledger: Ledger, noise: Noise, keys: int) -> None:
        self.ledger = ledger
        self.noise = noise
        self.private = noise.private
        self.limit = count_limit(keys)
        self._scales: dict[tuple[int | Fraction, int], Scale] = {}
        self._bases: dict[int | Fraction, Fraction] = {}
        self._drawn: dict[str, int] = {}

    @property
    def unit(self) -> int:
        """The unit whose data are being read."""
        return self.ledger.unit

    @property
    def guarantee(self) -> Guarantee:
        return self.ledger.guarantee

    def begin(self, unit: int) -> None:
        """Go on to the next unit."""
        self.ledger.begin(unit)
        self._drawn.clear()
        self.noise.refresh()

    def error(self, rule: str) -> MechanismError:
        """The error for a mechanism that breaks this rule."""
        return MechanismError(f"unit {self.unit}: {rule}")

    # -- checks ------------------------------------------------------------------------------------

    def check_fresh(self, x: Private) -> IntArray:
        """Open numbers of this unit that no run has folded from earlier units."""
        if x.unit != self.ledger.unit:
            self.check_unit(x)
        if x.fold:
            raise self.error(
                "this statistic was folded from earlier units too; "
                f"only its run {x.fold!r} may ask about it."
            )
        return unseal(x)

    def check_unit(self, x: Private) -> None:
        """Refuse numbers of an earlier unit: this unit would pay for them."""
        if x.unit not in (0, self.ledger.unit):
            raise self.error(f"these numbers are of unit {x.unit}, to be read in that unit only.")

    def mask(self, where: Any, size: int) -> BoolArray | None:
        """A mask of `size` numbers, or None for all of them."""
        return None if where is None else self.mask_of(where, size)

    def mask_of(self, where: Any, size: int) -> BoolArray:
        """A mask of `size` numbers. NumPy would take any other array for places."""
        if isinstance(where, np.ndarray) and where.dtype == np.bool_ and where.shape == (size,):
            return where
        raise self.error(f"`where` must be an array of {size} bools, one per number.")

    def check_currency(self, currency: Currency) -> None:
        """Refuse noise of the other kind: a ledger of ρ promises ε and δ for Gaussian noise alone
        (`budget.zcdp`).
        """
        counted = self.ledger.grid.currency
        if counted != currency:
            raise self.error(
                f"the ledger counts {counted}, and this noise is paid for in {currency}."
            )

    # -- noise and releases ------------------------------------------------------------------------

    def scale(self, sensitivity: int | Fraction, epsilon: Budget | Budgets) -> Scale:
        """The noise scale sensitivity/ε, if the noise fits the range of counts."""
        quanta = epsilon.quanta
        if not isinstance(quanta, int):
            return self._new_scale(sensitivity, quanta)
        scale = self._scales.get((sensitivity, quanta))
        if scale is None:
            scale = self._new_scale(sensitivity, quanta)
            if len(self._scales) >= _MOST_SCALES:
                self._scales.clear()
            self._scales[sensitivity, quanta] = scale
        return scale

    def _new_scale(self, sensitivity: int | Fraction, quanta: int | IntArray) -> Scale:
        base = self.base(sensitivity)
        least = (
            quanta
            if isinstance(quanta, int)
            else int(np.min(quanta[quanta > 0], initial=np.iinfo(np.int64).max))
        )
        if least <= 0:
            raise self.error("a budget of 0 draws no noise and may read nothing.")
        if base.numerator * SCALES_TO_LIMIT > self.limit * least * base.denominator:
            scale = Decimal(base.numerator) / (base.denominator * least)  # beyond floats as well
            raise NoiseError(
                f"unit {self.unit}: a noise scale of {scale:.3g} could overflow; "
                "give it more budget."
            )
        return Scale(base, quanta)

    def gaussian(self, sensitivity: int, rho: Budget) -> GaussianNoise:
        """Gaussian noise that costs ρ, if it fits the range of counts."""
        self.check_currency("rho")
        if not rho:
            raise self.error("a budget of 0 draws no noise and may read nothing.")
        quantum = rho.grid.quantum
        found = gaussian_noise(sensitivity, rho.quanta, quantum.numerator, quantum.denominator)
        if found.deviation * SCALES_TO_LIMIT > self.limit:
            raise NoiseError(
                f"unit {self.unit}: a standard deviation of {found.deviation:.3g} could overflow; "
                "give it more budget."
            )
        return found

    def base(self, sensitivity: int | Fraction) -> Fraction:
        """The noise scale of one quantum."""
        base = self._bases.get(sensitivity)
        if base is None:
            self.check_currency("epsilon")
            base = self._bases[sensitivity] = sensitivity / self.ledger.grid.quantum
        return base

    def noisy(self, raw: IntArray, scale: Scale, label: str, where: BoolArray | None) -> Released:
        """A release of `raw` with noise of this scale; zeros outside of `where`."""
        if where is None or where.all():
            value = self.draw(scale, len(raw), label)
            value += raw
            return self.release(value, scale, repeated=False if where is None else ~where)
        value = np.zeros(len(raw), np.int64)
        (places,) = where.nonzero()  # much faster than a mask without a pattern
        parts = scale.parts
        chosen = scale if isinstance(parts, int) else Scale(scale.base, parts[places])
        noisy = self.draw(chosen, len(places), label)
        noisy += raw.take(places)
        value[places] = noisy
        return self.release(value, scale, repeated=~where)

    def noisy_number(self, raw: IntArray, scale: Scale, label: str) -> int:
        """The only number of `raw`, with noise of this scale."""
        value = self.draw(scale, 1, label)
        value += raw
        return min(max(int(value[0]), -self.limit), self.limit)

    def noisy_gaussian(
        self, raw: IntArray, noise: GaussianNoise, label: str, where: BoolArray | None
    ) -> Released:
        """A release of `raw` with this Gaussian noise; zeros outside of `where`."""
        unit, label = self.unit, self.once(label)
        raw = np.minimum(raw, MAX_SUM)  # docs/proofs/gaussian.md needs numbers in this range
        np.maximum(raw, -MAX_SUM, out=raw)
        if where is None:
            value = self.noise.gaussian(noise.variance, len(raw), unit=unit, label=label)
            value += raw
            return self.release(value, noise.scale, kind="rounded")
        value = np.zeros(len(raw), np.int64)
        (places,) = where.nonzero()
        noisy = self.noise.gaussian(noise.variance, len(places), unit=unit, label=label)
        noisy += raw.take(places)
        value[places] = noisy
        return self.release(value, noise.scale, repeated=~where, kind="rounded")

    def release(
        self,
        value: IntArray,
        scale: Scale,
        *,
        repeated: bool | BoolArray = False,
        layers: int = 1,
        kind: Kind = "sum",
    ) -> Released:
        """A release of these numbers, cut to the range in which no sum of them overflows."""
        limit = self.limit
        if len(value) and (value[value.argmax()] > limit or value[value.argmin()] < -limit):
            np.clip(value, -limit, limit, out=value)
        unit, guarantee = self.ledger.unit, self.ledger.guarantee
        return Released(
            unit, value, scale, guarantee, self.private, repeated, layers=layers, kind=kind
        )

    def draw(self, scale: Scale, size: int, label: str) -> IntArray:
        """Laplace noise. A label is used once per unit, so test noise repeats after a restart."""
        if label in self._drawn:
            label = self.once(label)
        else:
            self._drawn[label] = 1
        if isinstance(scale.parts, int):
            return self.noise.laplace(scale.ratio, size, unit=self.ledger.unit, label=label)
        quanta, which = np.unique(scale.parts, return_inverse=True)
        scales = [scale.base / int(each) for each in quanta]
        return self.noise.laplace_each(scales, which.astype(np.int64), unit=self.unit, label=label)

    def once(self, label: str) -> str:
        """The label, with a number if it was used in this unit before."""
        drawn = self._drawn
        times = drawn[label] = drawn.get(label, 0) + 1
        return label if times == 1 else f"{label}#{times}"
