"""`toeplitz`: sums over many units, with Gaussian noise whose errors cancel."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Literal

import numpy as np

from penstock.budget.grid import Budget
from penstock.core.arrays import FloatArray, IntArray
from penstock.core.domain import Domain
from penstock.core.durations import UnitCount
from penstock.core.errors import ConfigurationError
from penstock.core.exact import Exact, exact, positive, whole
from penstock.core.power_series import longest, quotient, root
from penstock.core.private import Private
from penstock.core.released import Released, Scale
from penstock.core.weights import Weights
from penstock.private.gate import Gate
from penstock.private.mechanisms.base import WithDelta

ONE = 2**12
"""The first coefficient: the others are whole numbers too, so that sums of counts are exact."""

FINE = 2**8
"""Released sums are multiples of 1/256."""

REACH = 2
"""The number of spans that coefficients reach back."""

DAMPING = 0.2
"""By which part a coefficient is below the root's, per span: old noise dies out."""

MAX_SPAN = 2**14
"""The most units in a span or an epoch."""

_MAX_RELEASED = 2.0**62
_MANY = 256  # keys for which going row by row is faster than all at once


@dataclass(frozen=True)
class UnitEstimates:
    """Estimates of the last units, oldest first, and of the sum of all units before them."""

    recent: FloatArray
    before: FloatArray
    epochs: int


@dataclass(frozen=True, kw_only=True)
class CorrelatedGaussian(WithDelta[UnitEstimates]):
    r"""Publish a weighted sum of the last units; later Gaussian noise cancels part of the earlier.

    With weights :math:`a(x)=\sum_j a_j x^j` by age, :math:`l(x)` is :math:`\sqrt{a(x)}`, slightly
    damped, cut after 2 spans and rounded to multiples of :math:`2^{-12}`. In every unit only
    :math:`y_t=\sum_j l_j c_{t-j}+z_t` leaves the gate. The sum :math:`\sum_j a_j c_{t-j}` is
    estimated by :math:`(a/l)(y)`. The noise :math:`z_t` is a rounded Gaussian. For a window of 1
    its variance is :math:`\|l\|^2/2\rho`, and that of the estimate :math:`\|a/l\|^2` times as much.
    For a sum over W units that is about :math:`(\ln W/\pi+1.07)^2/2\rho`, where one draw per unit
    would leave :math:`W/2\rho`.

    Parameters
    ----------
    epsilon : int, Fraction or str
        The ε that is spent in any window: exact, above 0.
    window : int
        The number of consecutive units in which a person is protected. Default: 1.
    contribution : int
        The most events of one person that count in one unit. Default: 1.
    horizon : int, optional
        The last unit that is ever read; `horizon=window` is user level. Default: none.
    delta : int, Fraction or str
        The δ of the promise, above 0. Default: 0.000001.
    weights : "window", "decay", "power" or "prefix"
        The weights of the last `span` units: all 1; γ to the power of the age, γ = `rate`; or (1 +
        age) to the power of −`rate`. "prefix" sums all units so far. Default: "window".
    span : int
        The number of units in a sum. Default: 24.
    rate : int, Fraction or str
        The rate of "decay" or "power". Default: 0.9.
    epoch : int
        The number of units in an epoch of "prefix". Within it the variance grows like the square of
        a logarithm, and every past epoch leaves its own behind. Default: 1024.

    Guarantee: event level (or any window), (ε, δ), of Gaussian noise; ρ-zCDP too. Proof:
    docs/proofs/toeplitz.md.
    Kept between units: noisy counts of the last 2 spans (or of the epoch). The gate keeps the raw
    counts of as many units.

    >>> CorrelatedGaussian(epsilon="1").guarantee
    Guarantee(epsilon=1, delta=1/1000000, window=1)
    >>> CorrelatedGaussian(epsilon="1", span=3).coefficients
    array([4096, 1911, 1338, -624,   73,  170])

    References
    ----------
    Fichtenberger, Henzinger and Upadhyay, ICML 2023, and Henzinger, Upadhyay and Upadhyay, SODA
    2023 (prefix sums); Henzinger, Upadhyay and Upadhyay, SODA 2024 (decaying sums); Balle and Wang,
    ICML 2018, and Dong, Roth and Su, JRSS B 2022 (the ε and δ of Gaussian noise).
    Departures: coefficients are whole numbers and the noise is rounded, so that the promise holds
    for the numbers that are computed. Coefficients are damped and cut, so that a stream may be
    endless. A window w above 1 pays for the length of overlapping shifts, not for w² times that of
    one. Counts above 2^60/Σ|l| (2^40 and more) are taken for that.
    """

    name = "toeplitz"
    paper = "Fichtenberger, Henzinger and Upadhyay, ICML 2023"
    proof = "toeplitz.md"
    State = UnitEstimates
    family = "event"
    by_key = True

    window: int = 1
    delta: Exact = "0.000001"
    weights: Literal["window", "prefix", "decay", "power"] = "window"
    span: UnitCount = 24
    rate: Exact = "0.9"
    epoch: UnitCount = 1024

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(self.delta, name="delta")
        object.__setattr__(self, "span", whole(self.span, name="span", least=1))
        object.__setattr__(self, "rate", exact(self.rate, name="rate"))
        object.__setattr__(self, "epoch", whole(self.epoch, name="epoch", least=1))
        if max(self.span, self.epoch) > MAX_SPAN:
            longer = "span" if self.span > MAX_SPAN else "epoch"
            raise ConfigurationError(
                f"span and epoch must be at most {MAX_SPAN} units.", parameter=longer
            )
        self.sums  # noqa: B018  (checks the weights and their rate)

    @cached_property
    def share(self) -> Budget:
        """The ρ that every unit pays."""
        return self.total // self.window

    @cached_property
    def sums(self) -> Weights:
        """The weights of the sum that each released number is."""
        if self.weights == "window":
            return Weights.window(self.span)
        if self.weights == "prefix":
            return Weights.prefix()
        if self.weights == "decay":
            return Weights.decay(self.rate, self.span)
        if self.weights == "power":
            return Weights.power(self.rate, self.span)
        raise ConfigurationError(
            f"weights must be 'window', 'prefix', 'decay' or 'power', not {self.weights!r}.",
            parameter="weights",
        )

    @cached_property
    def coefficients(self) -> IntArray:
        """The l_j, times 2^12: whole numbers, public."""
        if self.weights == "prefix":
            found = root(np.ones(self.epoch), self.epoch)
        else:
            found = root(self.sums.sequence(self.span), REACH * self.span)
            found *= (1 - DAMPING / self.span) ** np.arange(len(found))
        return np.rint(ONE * found).astype(np.int64)

    @cached_property
    def spread(self) -> FloatArray:
        """The standard deviation of a sum's noise after 1, 2, … units, in those of one draw.

        After the last of these it grows by less than a millionth.
        """
        size = self.epoch if self.weights == "prefix" else 4 * REACH * self.span
        each = quotient(self.sums.sequence(size), self.coefficients, size)
        return np.asarray(np.sqrt(np.cumsum(np.square(each))))

    @cached_property
    def variance(self) -> int:
        """The variance of the Gaussian that is rounded to make one draw."""
        length = longest(self.coefficients, self.window)
        return math.ceil(self.contribution**2 * length / (2 * self.window * self.share.amount))

    @property
    def deviation(self) -> float:
        """The standard deviation of one draw: rounding adds at most 1/12 to the variance."""
        return math.sqrt(self.variance + 1 / 12)

    def start(self, domain: Domain) -> UnitEstimates:
        return UnitEstimates(np.zeros((0, domain.size)), np.zeros(domain.size), 0)

    def step(
        self, state: UnitEstimates, unit: Private, gate: Gate
    ) -> tuple[UnitEstimates, Released]:
        recent, before, epochs = state.recent, state.before, state.epochs
        over = self.weights == "prefix" and len(recent) == self.epoch
        if over:
            recent, before, epochs = recent[:0], before + recent.sum(axis=0), epochs + 1
        seen = gate.convolutions.weighted_sum(
            "sum", unit, coefficients=self.coefficients, rho=self.share, anew=over
        )
        latest = (seen.value - _weighted(self.coefficients[1:], recent)) / self.coefficients[0]
        recent = np.concatenate(
            [recent[max(len(recent) - self._kept + 1, 0) :], latest[np.newaxis]]
        )
        sums = before + _weighted(self.sums.sequence(len(recent)), recent)
        value = np.rint(np.clip(sums * FINE, -_MAX_RELEASED, _MAX_RELEASED)).astype(np.int64)
        out = Released(
            unit=seen.unit,
            value=value,
            scale=Scale(Fraction(math.ceil(FINE * 1.000001 * self._deviation_after(gate.unit)))),
            guarantee=seen.guarantee,
            private=seen.private,
            divisor=FINE,
            kind="gaussian",
            weights=self.sums,
            public={"sums": seen.value},
        )
        return UnitEstimates(recent, before, epochs), out

    @property
    def _kept(self) -> int:
        """The number of units whose counts are kept."""
        return (
            self.epoch if self.weights == "prefix" else max(len(self.coefficients) - 1, self.span)
        )

    def _deviation_after(self, units: int) -> float:
        """The standard deviation of the noise in the sum after `units` units."""
        if self.weights != "prefix":
            return self.deviation * float(self.spread[min(units, len(self.spread)) - 1])
        epochs, inside = divmod(units - 1, self.epoch)
        return self.deviation * math.sqrt(epochs * self.spread[-1] ** 2 + self.spread[inside] ** 2)


def _weighted(by_age: FloatArray | IntArray, rows: FloatArray) -> FloatArray:
    """Σ by_age[j]·(the j-th last row). Every key has the same additions in the same order."""
    size = min(len(by_age), len(rows))
    ages, taken = by_age[:size][::-1], rows[len(rows) - size :]
    if taken.shape[1] < _MANY:
        return np.asarray((ages[:, np.newaxis] * taken).sum(axis=0))
    total, part = np.zeros(taken.shape[1]), np.empty(taken.shape[1])
    for age, row in zip(ages, taken, strict=True):
        total += np.multiply(row, age, out=part)
    return total
