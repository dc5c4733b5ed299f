"""A sparse-vector run in a unit in which it is asked."""

from __future__ import annotations

from typing import Final, NoReturn

from penstock.lab.audit.exact.errors import ExactAuditError
from penstock.lab.audit.exact.output import Numbers
from penstock.lab.audit.exact.run_state import RunState
from penstock.lab.audit.exact.thresholds import Belief
from penstock.lab.audit.exact.turning_points import FAR, first_change
from penstock.lab.audit.exact.unit_runner import UnitRunner, UnitTrial

MAX_OPEN_RUNS: Final = 2
"""More sparse-vector runs than this are not followed at once."""


class ThresholdQuestions:
    """Runs a unit in which a sparse-vector run is asked, with question noise that we choose."""

    def __init__(
        self, runner: UnitRunner, state: RunState, unit: int, bare: UnitTrial, run: str
    ) -> None:
        self.runner, self.state, self.unit, self.run = runner, state, unit, run
        self.label, self._opening = f"{run}.question", f"{run}.threshold"
        drawn = [request for request in bare.requests if not request.publication]
        found = {request.label: request.rates for request in drawn}
        self.rates, self._started = found.get(self.label, ()), found.get(self._opening, ())
        if not found.keys() <= {self.label, self._opening} or len(found) < len(drawn):
            self._refuse("asks twice in a unit")
        if len(self.rates) > MAX_OPEN_RUNS:
            self._refuse(f"asks about {len(self.rates)} keys, more than {MAX_OPEN_RUNS}")
        self._tried: dict[tuple[Numbers, int], tuple[UnitTrial, RunState]] = {}

    def _refuse(self, behaviour: str) -> NoReturn:
        raise ExactAuditError(self.runner.mechanism, behaviour)

    def at(self, noise: Numbers, *, shift: int = 0) -> tuple[UnitTrial, RunState]:
        """The unit with this question noise, and the state after it.

        `shift` is added to the question noise and to the threshold noise.
        """
        known = self._tried.get((noise, shift))
        if known is None:
            script = {
                self.label: tuple(each + shift for each in noise),
                self._opening: (shift,) * len(self._started),
            }
            trial = self.runner.attempt(self.state, self.unit, script, held=shift)
            known = self._tried[noise, shift] = trial, RunState.of(trial.run, held=shift)
        return known

    def same(self, one: Numbers, two: Numbers, *, shift: int = 0) -> bool:
        """Whether two values of question noise lead to the same release and state.

        `shift` applies to the second value.
        """
        (first, here), (second, there) = self.at(one), self.at(two, shift=shift)
        return first.same_path(second) and here.key() == there.key()

    def turns(self, hints: dict[tuple[str, int], int]) -> tuple[list[int], list[int | None]]:
        """The keys that are asked about, and the noise from which each answer is yes.

        None stands for a key whose answer has no consequence.
        """
        size = len(self.rates)
        nobody = (-FAR,) * size
        trial, after = self.at(nobody)
        every = len(trial.run._gate.save().runs[self.run].open)
        keys: list[int] = []
        turns: list[int | None] = []
        for index in range(size):

            def only(value: int, index: int = index) -> Numbers:
                return (*nobody[:index], value, *nobody[index + 1 :])

            other = self.at(only(FAR))[1]
            closed = [
                key
                for key in range(every)
                if after.is_open(self.run, key) and not other.is_open(self.run, key)
            ]
            if size != every and len(closed) != 1:
                self._refuse("asks about some keys and goes on with all")
            keys.append(index if size == every else closed[0])
            if self.same(nobody, only(FAR)):
                turns.append(None)
                continue
            turn = first_change(only, self.same, -FAR, FAR, hints.get((self.run, index), 0))
            hints[self.run, index] = turn
            turns.append(turn)
        return keys, turns

    def beliefs(self, keys: list[int]) -> list[Belief]:
        """The beliefs about these keys before the question; empty ones where a run begins."""
        starting = (
            keys
            if len(self._started) == len(keys)
            else [key for key in keys if not self.state.is_open(self.run, key)]
        )
        if len(starting) != len(self._started):
            self._refuse("closes some runs and asks again")
        known = {each.key: each for each in self.state.beliefs if each.run == self.run}
        known |= {
            key: Belief(self.run, key, rate)
            for key, rate in zip(starting, self._started, strict=True)
        }
        return [known[key] for key in keys]
