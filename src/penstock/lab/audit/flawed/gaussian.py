"""Gaussian noise that is too small for its ε and δ."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

from penstock.core.exact import exact
from penstock.core.private import Private, unseal
from penstock.core.released import Released
from penstock.lab.audit.flawed.variant import Variant, present, stream
from penstock.private.gate import Gate
from penstock.private.mechanisms.uniform import NoState, Uniform


@dataclass(frozen=True, kw_only=True)
class ClassicalGaussian(Uniform):
    """Gaussian noise of standard deviation √(2 ln(1.25/δ))·L/ε, as published for ε below 1.

    The proof of Dwork and Roth, Foundations and Trends in TCS 9, 2014, theorem A.1, needs ε < 1.
    Above it the formula gives less noise than (ε, δ) takes.
    """

    name = "gaussian_classical"

    def step(self, state: NoState, unit: Private, gate: Gate) -> tuple[NoState, Released]:
        epsilon, delta = float(exact(self.epsilon)), float(exact(self.delta))
        deviation = self.contribution * math.sqrt(2 * math.log(1.25 / delta)) / epsilon
        noise = gate._maker.noise.gaussian(
            Fraction(deviation**2), len(unseal(unit)), unit=gate.unit, label="publish"
        )
        _, released = super().step(state, unit, gate)
        return state, replace(released, value=unseal(unit) + noise)


@dataclass(frozen=True, kw_only=True)
class UnchargedChoice(Uniform):
    """`uniform` that draws once with half of the budget, and then chooses which number to show.

    Both numbers are released, and only the second is charged. A filter of ρ must add up all draws,
    also those by which others were chosen.
    """

    name = "gaussian_uncharged_choice"

    def step(self, state: NoState, unit: Private, gate: Gate) -> tuple[NoState, Released]:
        counts = unseal(unit)
        first = gate._maker.gaussian(unit.sensitivity, self.share // 2)
        look = counts + gate._maker.noise.gaussian(
            first.variance, len(counts), unit=gate.unit, label="look"
        )
        large = look > int(10 * float(first.scale))
        _, released = super().step(state, unit, gate)
        value = released.value.copy()
        value[large] = look[large]  # the noise of a large count matters less
        return state, replace(released, value=value, public={"look": look})


GAUSSIAN_FLAWS: tuple[Variant, ...] = (
    Variant(
        "gaussian_classical",
        lambda: ClassicalGaussian(epsilon=6, window=1, contribution=100, delta="0.5"),
        Fraction(6),
        1,
        (present(stream([0]), 100),),
        parent=lambda: Uniform(epsilon=6, window=1, contribution=100, delta="0.5"),
        runs=200_000,
        delta=Fraction(1, 2),
    ),
    Variant(
        "gaussian_uncharged_choice",
        lambda: UnchargedChoice(epsilon=1, window=1, contribution=100, delta="0.05"),
        Fraction(1),
        1,
        (present(stream([0]), 100),),
        parent=lambda: Uniform(epsilon=1, window=1, contribution=100, delta="0.05"),
        runs=200_000,
        delta=Fraction(1, 20),
    ),
)
