"""The step of `bd` and `ba`: publish if the stream has moved by more than the noise."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.budget.grid import Budget
from penstock.core.domain import Domain
from penstock.core.private import Private
from penstock.core.released import Released
from penstock.private.gate import Gate
from penstock.private.histograms.base import PUBLISH
from penstock.private.mechanisms.shares import DISTANCE, Shifting


@dataclass(frozen=True)
class DistanceState:
    """The last release, and the position of the budget rule."""

    last: Released
    position: int


@dataclass(frozen=True, kw_only=True)
class ByDistance(Shifting[DistanceState]):
    """Publish when the distance to the last release exceeds the noise of a publication."""

    State = DistanceState

    def start(self, domain: Domain) -> DistanceState:
        self.plan(domain.size)  # refuses a domain that the budget cannot serve
        return DistanceState(Released.nothing(domain.size, self.guarantee), 1)

    def step(
        self, state: DistanceState, unit: Private, gate: Gate
    ) -> tuple[DistanceState, Released]:
        plan = self.plan(len(state.last.value))
        offer = plan.shares.offer(state.position, gate)
        if not offer or not self._moved(unit, state.last, offer, plan.watch, gate):
            return state, gate.repeat(state.last)
        fresh = gate.noisy(unit, budget=offer, label=PUBLISH)
        return DistanceState(fresh, plan.shares.after(state.position, gate, offer)), fresh

    def _moved(
        self, unit: Private, last: Released, offer: Budget, watch: Budget, gate: Gate
    ) -> bool:
        """Whether the noisy distance is above the expected noise of a publication."""
        distance = gate.number(unit.distance(self.compared(last)), budget=watch, label=DISTANCE)
        return distance > offer.into(len(last.value) * self.contribution)
