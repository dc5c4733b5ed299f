"""One stream through one mechanism, followed along given outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from penstock.core.arrays import IntArray
from penstock.core.errors import ConfigurationError
from penstock.lab.audit.exact.decision_case import DecisionCase, WeightedState
from penstock.lab.audit.exact.decisions import DecisionEnumerator
from penstock.lab.audit.exact.errors import ExactAuditError
from penstock.lab.audit.exact.output import Numbers, SeenUnit
from penstock.lab.audit.exact.run_state import RunState, beliefs_of_open_runs
from penstock.lab.audit.exact.unit_runner import UnitRunner
from penstock.private.mechanisms.base import Mechanism


class StreamFollower:
    """Follows one stream along given outputs, with the probability of each state on the way."""

    def __init__(
        self, mechanism: Mechanism[Any], stream: IntArray, look: tuple[int, IntArray] | None
    ) -> None:
        self.runner = UnitRunner(mechanism, stream, look)
        self.cases = DecisionEnumerator(self.runner).cases

    def start(self) -> tuple[WeightedState, ...]:
        """The state before the first unit."""
        return (WeightedState(self.runner.start(), 0.0, 0.0),)

    def complete(
        self, state: RunState, unit: int, case: DecisionCase, target: SeenUnit
    ) -> SeenUnit:
        """The output of this case when its counts are those of the target.

        Public arrays may follow from the counts, so they are computed.
        """
        fitting = case.noise_for(target) if target.public else None
        return target if fitting is None else self._with_noise(state, unit, case, fitting[0])[0]

    def extend(
        self, branch: WeightedState, cases: Sequence[DecisionCase], unit: int, target: SeenUnit
    ) -> list[WeightedState]:
        """The states after a unit that showed the target, each confirmed by running the unit."""
        found: dict[object, WeightedState] = {}
        for case in cases:
            fitting = case.noise_for(target)
            if fitting is None:
                continue
            noise, chance = fitting
            shown, state = self._with_noise(branch.state, unit, case, noise)
            if shown != target:
                if shown.public and not target.public:
                    raise ConfigurationError(
                        f"{self.runner.mechanism.name} shows more than values: "
                        "the output must have its public arrays too."
                    )
                if not target.public or shown.numbers != target.numbers:
                    raise ExactAuditError(
                        self.runner.mechanism, "does not add its noise to what it shows"
                    )
                continue  # with this noise, the public arrays differ
            new = WeightedState(
                state,
                branch.log_low + case.log_low + chance,
                branch.log_high + case.log_high + chance,
            )
            key = state.key() if len(cases) > 2 else id(case)
            old = found.get(key)
            found[key] = new if old is None else old.merged(new)
        return list(found.values())

    def _with_noise(
        self, state: RunState, unit: int, case: DecisionCase, noise: Mapping[str, Numbers]
    ) -> tuple[SeenUnit, RunState]:
        """The output of a case with this publication noise, and the state after it."""
        key = tuple(sorted(noise.items()))
        known = case.tried.get(key)
        if known is not None:
            return known
        trial = self.runner.attempt(state, unit, {**case.script, **noise})
        after = RunState.of(trial.run)
        if after.secrets is not None and after.secrets.runs:
            after = replace(after, beliefs=beliefs_of_open_runs(after, case.beliefs))
        if trial.shown.public:
            case.tried[key] = trial.shown, after
        return trial.shown, after
