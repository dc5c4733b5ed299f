"""One unit of one stream through the shipped code of a mechanism, with noise that we choose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.core.arrays import IntArray
from penstock.core.domain import Domain
from penstock.core.errors import ConfigurationError
from penstock.lab.audit.exact.errors import ExactAuditError
from penstock.lab.audit.exact.output import Numbers, SeenUnit
from penstock.lab.audit.exact.run_state import RunState, copied
from penstock.lab.audit.exact.scripted_noise import NoiseRequest, ScriptedNoise
from penstock.private.histograms.base import PUBLISH
from penstock.private.mechanisms.base import Incremental, Mechanism
from penstock.private.run import Run
from penstock.testing import intrude


@dataclass(frozen=True, slots=True)
class UnitTrial:
    """One unit that was run with chosen noise: its output, its requests for noise, and the run."""

    shown: SeenUnit
    requests: tuple[NoiseRequest, ...]
    run: Run

    def same_path(self, other: UnitTrial) -> bool:
        """Whether both trials show the same and ask for the same noise."""
        return self.shown == other.shown and self.requests == other.requests

    def same_end(self, other: UnitTrial) -> bool:
        """Whether both trials leave the run in the same state."""
        return RunState.of(self.run).key() == RunState.of(other.run).key()


class UnitRunner:
    """Runs single units of one stream. `look` is the unit of a look into the memory, if any,
    and the part of its counts that has arrived by then.
    """

    def __init__(
        self, mechanism: Mechanism[Any], stream: IntArray, look: tuple[int, IntArray] | None
    ) -> None:
        self.stream = np.asarray(stream, np.int64)
        self.look = look
        self.domain = Domain.of(int(self.stream.shape[1]))
        self.mechanism = mechanism.decided(self.domain)  # once, not for every unit
        self._in_parts = isinstance(mechanism, Incremental) and mechanism.in_parts
        if look is None:
            return
        if isinstance(mechanism, Incremental) and mechanism.announced:
            raise ExactAuditError(mechanism, "as configured must be told of a look")
        if not self._in_parts and not np.array_equal(look[1], self.stream[look[0] - 1]):
            raise ConfigurationError(
                f"{mechanism.name} takes whole units, so a look must see all counts of its unit."
            )

    def start(self) -> RunState:
        """The state before the first unit."""
        return RunState.of(self.mechanism.run(self.domain, noise=ScriptedNoise({})))

    def attempt(
        self, state: RunState, unit: int, script: Mapping[str, Numbers], *, held: int = 0
    ) -> UnitTrial:
        """Run one unit from a state with this noise. `held`: the threshold noise of open runs."""
        counts = self.stream[unit - 1]
        seen: list[Numbers] = []

        def look() -> None:
            if not seen:
                counter = intrude(run).get(f"counter {PUBLISH}")
                seen.append(() if counter is None else tuple(counter.tolist()))

        looked = self.look is not None and self.look[0] == unit
        noise = ScriptedNoise(
            script, before_decision=look if looked and not self._in_parts else None
        )
        run = self._resumed(state, noise, held)
        if looked and self._in_parts and self.look is not None:
            run.feed(self.look[1])
            look()
            counts = counts - self.look[1]
        released = run.step(counts)
        if looked and not seen:
            seen.append(())  # nothing was decided, so nothing was counted
        return UnitTrial(
            SeenUnit.of(released, seen[0] if looked else None), tuple(noise.requests), run
        )

    def _resumed(self, state: RunState, noise: ScriptedNoise, held: int) -> Run:
        run = self.mechanism.run(self.domain, noise=noise)
        run._ledger.load(state.ledger)
        run._state, run.last = state.state, state.last
        if state.secrets is not None:
            # Folds, and states that have grown with them, are changed in place: work on a copy.
            secrets, run._state = copied((state.secrets, state.state))
            for each in secrets.runs.values():
                each.noise[each.open] = held
            run._gate.load(secrets, private=False)
        return run
