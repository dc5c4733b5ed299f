"""`uniform`: publish every unit with an equal share of the budget."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from penstock.budget.grid import Budget
from penstock.core.domain import Domain
from penstock.core.private import Private
from penstock.core.released import Released
from penstock.private.gate import Gate
from penstock.private.mechanisms.base import Mechanism, WithDelta


@dataclass(frozen=True)
class NoState:
    """The state of a mechanism that keeps nothing."""


@dataclass(frozen=True, kw_only=True)
class EqualShares(Mechanism[NoState]):
    """Publish every unit with an equal share of the budget, and keep nothing."""

    State = NoState
    by_key = True

    @cached_property
    def share(self) -> Budget:
        """The charge of every unit."""
        return self.total // self.window

    def start(self, domain: Domain) -> NoState:
        return NoState()

    def step(self, state: NoState, unit: Private, gate: Gate) -> tuple[NoState, Released]:
        return state, gate.noisy(unit, budget=self.share, label="publish")


@dataclass(frozen=True, kw_only=True)
class Uniform(EqualShares, WithDelta[NoState]):
    r"""Publish every unit with an equal share of the budget.

    Counts get discrete Laplace noise of scale :math:`w/\varepsilon` in every unit. With a δ they
    get Gaussian noise of variance :math:`w/2\rho`.

    Parameters
    ----------
    epsilon : int, Fraction or str
        The ε that is spent in any window: exact, above 0.
    window : int
        The number of consecutive units in which a person is protected.
    contribution : int
        The most events of one person that count in one unit. Default: 1.
    horizon : int, optional
        The last unit that is ever read; `horizon=window` is user level. Default: none.
    delta : int, Fraction or str
        The δ of the promise. Above 0, noise is Gaussian. Default: 0, a pure promise.

    Guarantee: w-event, pure or with a δ. Proof: docs/proofs/uniform.md.
    Kept between units: nothing.

    >>> Uniform(epsilon="1", window=20).share.epsilon
    Fraction(1, 20)

    References
    ----------
    Kellaris et al., PVLDB 7(12), 2014, section 3.
    """

    name = "uniform"
    paper = "Kellaris et al., PVLDB 7(12), 2014, section 3"
    proof = "uniform.md"
