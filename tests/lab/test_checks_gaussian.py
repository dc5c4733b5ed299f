"""The checks understand Gaussian noise, and mechanisms that draw too little of it fail them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from penstock.core.private import Private
from penstock.core.released import Released, Scale
from penstock.lab import checks
from penstock.lab.checks import CheckError
from penstock.lab.checks.paid_noise import watch_convolutions
from penstock.private.gate import Gate
from penstock.private.mechanisms.toeplitz import CorrelatedGaussian, UnitEstimates
from penstock.private.mechanisms.uniform import NoState, Uniform


@dataclass(frozen=True, kw_only=True)
class DrawsTooLittle(CorrelatedGaussian):
    """A variance that is a little too small, as if the gate had a bug."""

    def step(
        self, state: UnitEstimates, unit: Private, gate: Gate
    ) -> tuple[UnitEstimates, Released]:
        key = (self.contribution, self.share.quanta, self.coefficients.tobytes())
        gate.convolutions._variances[key] = self.variance * 99 // 100
        return super().step(state, unit, gate)


@dataclass(frozen=True, kw_only=True)
class ForgetsTheWindow(CorrelatedGaussian):
    """Noise for a person in one unit, under a promise for several."""

    def step(
        self, state: UnitEstimates, unit: Private, gate: Gate
    ) -> tuple[UnitEstimates, Released]:
        key = (self.contribution, self.share.quanta, self.coefficients.tobytes())
        length = int(self.coefficients @ self.coefficients)
        gate.convolutions._variances[key] = (
            int(self.contribution**2 * length / (2 * self.share.amount)) + 1
        )
        return super().step(state, unit, gate)


@dataclass(frozen=True, kw_only=True)
class DrawsGaussianUnderAPurePromise(Uniform):
    """Pays ε for Laplace noise, and draws Gaussian noise besides."""

    def step(self, state: NoState, unit: Private, gate: Gate) -> tuple[NoState, Released]:
        gate._maker.noise.gaussian(Fraction(10**9), 1, unit=gate.unit, label="publish")
        return super().step(state, unit, gate)


@dataclass(frozen=True, kw_only=True)
class DrawsWithoutALine(CorrelatedGaussian):
    """A draw that no line of the ledger pays for."""

    def step(
        self, state: UnitEstimates, unit: Private, gate: Gate
    ) -> tuple[UnitEstimates, Released]:
        gate._maker.noise.gaussian(Fraction(10**30), 1, unit=gate.unit, label="elsewhere")
        return super().step(state, unit, gate)


@dataclass(frozen=True, kw_only=True)
class ClaimsLessNoise(CorrelatedGaussian):
    """A standard deviation that is a tenth too small."""

    def step(
        self, state: UnitEstimates, unit: Private, gate: Gate
    ) -> tuple[UnitEstimates, Released]:
        after, released = super().step(state, unit, gate)
        return after, replace(released, scale=Scale(released.scale.base * Fraction(9, 10)))


@pytest.mark.parametrize(
    ("cls", "said"),
    [
        (DrawsTooLittle, "is worth rho="),
        (ForgetsTheWindow, "is worth rho="),
        (DrawsGaussianUnderAPurePromise, "not paid for in the currency"),
        (DrawsWithoutALine, "'elsewhere' is worth rho="),
    ],
)
def test_too_little_noise_is_caught(cls: Any, said: str) -> None:
    with pytest.raises(CheckError, match=said):
        checks.check_noise_is_what_was_paid_for(cls, quick=True)


def test_a_false_claim_is_caught() -> None:
    with pytest.raises(CheckError, match="too large for the claimed scale"):
        checks.check_noise_has_the_scale_it_claims(ClaimsLessNoise, quick=True)


def test_the_watched_length_is_that_of_the_dearest_signs() -> None:
    run = CorrelatedGaussian(epsilon="1", window=3, span=4).run(1)
    lengths = watch_convolutions(run)
    run.step([1])
    row = run.mechanism.coefficients
    padded = np.zeros((3, len(row) + 2), np.int64)
    for shift in range(3):
        padded[shift, shift : shift + len(row)] = row
    signs = [(1, one, two) for one in (1, -1) for two in (1, -1)]
    assert lengths == {"sum": max(int(np.square(np.array(each) @ padded).sum()) for each in signs)}
