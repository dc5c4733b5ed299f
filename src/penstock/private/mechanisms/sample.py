"""`sample`: one unit in w, with all of the budget."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.core.domain import Domain
from penstock.core.private import Private
from penstock.core.released import Released
from penstock.private.gate import Gate
from penstock.private.mechanisms.base import Mechanism


@dataclass(frozen=True)
class Last:
    """The last release."""

    last: Released


@dataclass(frozen=True, kw_only=True)
class Sample(Mechanism[Last]):
    r"""Publish one unit in w with the whole budget, repeat it in between.

    Units 1, w + 1, 2w + 1, … get discrete Laplace noise of scale :math:`1/\varepsilon`.

    Guarantee: w-event, pure. Proof: docs/proofs/sample.md.
    Kept between units: the last release.

    >>> run = Sample(epsilon="1", window=3).run(2)
    >>> [run.step([5, 5]).repeated for _ in range(4)]
    [False, True, True, False]

    References
    ----------
    Kellaris et al., PVLDB 7(12), 2014, section 3.
    """

    name = "sample"
    paper = "Kellaris et al., PVLDB 7(12), 2014, section 3"
    proof = "sample.md"
    State = Last
    by_key = True

    def start(self, domain: Domain) -> Last:
        return Last(Released.nothing(domain.size, self.guarantee))

    def step(self, state: Last, unit: Private, gate: Gate) -> tuple[Last, Released]:
        if gate.unit % self.window != 1 % self.window:
            return state, gate.repeat(state.last)
        fresh = gate.laplace(unit, epsilon=self.total, label="publish")
        return Last(fresh), fresh
