"""A small mechanism with a pot, for tests of what looks at mechanisms."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from penstock import Gate, Mechanism, Private, Released
from penstock.core.domain import Domain
from penstock.private.mechanisms.fixed import LastRelease


@dataclass(frozen=True, kw_only=True)
class Holding(Mechanism[LastRelease]):
    """Sums of two units, paid when read."""

    name = "holding"
    State = LastRelease

    def start(self, domain: Domain) -> LastRelease:
        return LastRelease(Released.nothing(domain.size, self.guarantee))

    def step(self, state: LastRelease, unit: Private, gate: Gate) -> tuple[LastRelease, Released]:
        gate.pots.hold("publish", unit, epsilon=self.total // self.window)
        if gate.unit % 2:
            return state, gate.repeat(state.last)
        everywhere = np.ones(len(state.last.value), np.bool_)
        fresh = replace(gate.pots.pour("publish", where=everywhere), divisor=2)
        return LastRelease(fresh), fresh
