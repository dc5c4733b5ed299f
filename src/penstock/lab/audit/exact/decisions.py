"""All decisions that are possible in a unit, with their probabilities."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cache
from itertools import product
from typing import Final

from penstock.core.errors import ConfigurationError
from penstock.lab.audit.exact.decision_case import DecisionCase
from penstock.lab.audit.exact.errors import ExactAuditError
from penstock.lab.audit.exact.noise_law import log_between, log_probability_of, log_sum, log_tail
from penstock.lab.audit.exact.output import Numbers
from penstock.lab.audit.exact.publication import make_case
from penstock.lab.audit.exact.questions import ThresholdQuestions
from penstock.lab.audit.exact.run_state import RunState
from penstock.lab.audit.exact.scripted_noise import NoiseRequest, same_layers
from penstock.lab.audit.exact.thresholds import ThresholdAnswer
from penstock.lab.audit.exact.turning_points import FAR, turning_points, turning_points_around
from penstock.lab.audit.exact.unit_runner import UnitRunner, UnitTrial

TAIL_MASS: Final = 1e-16
"""Several distances at once are tried up to tails of this mass each."""

MAX_CASES_PER_UNIT: Final = 50_000
"""More values of decision noise than this are not tried in one unit."""

THRESHOLD_SHIFTS: Final = (-1009, 3)
"""Other threshold noise, with which an answer is tried too."""

TRIED_VALUES: Final = 16
"""The approximate number of other values of a noisy count that are tried."""


class DecisionEnumerator:
    """Finds the cases of a unit, faster near the turning points of earlier units."""

    def __init__(self, runner: UnitRunner) -> None:
        self.runner = runner
        self._hint = 0
        self._hints: dict[tuple[str, int], int] = {}

    def cases(self, state: RunState, unit: int) -> tuple[DecisionCase, ...]:
        """All decisions that are possible in this unit, with probabilities."""
        bare = self.runner.attempt(state, unit, {})
        asked: dict[str, list[NoiseRequest]] = {}
        for request in bare.requests:
            if not request.publication:
                asked.setdefault(request.label.partition(".")[0], []).append(request)
        if not asked:
            return (self._undecided(state, unit, bare),)
        runs = bare.run._gate.save().runs.keys() & asked.keys()
        pools = list(asked.values())
        if runs:
            if len(asked) > 1:
                raise ExactAuditError(self.runner.mechanism, "measures beside its questions")
            cases = tuple(self._answers(state, unit, bare, *runs))
        elif not all(same_layers(layers) for layers in pools):
            raise ExactAuditError(self.runner.mechanism, "measures with layers that differ")
        elif sum(len(layers[0].rates) for layers in pools) == 1:
            cases = tuple(self._one_number(state, unit, pools[0]))
        else:
            cases = tuple(self._many_numbers(state, unit, pools))
        measured = {request for layers in pools for request in layers}
        if any(case.measured != measured for case in cases):
            raise ExactAuditError(self.runner.mechanism, "measures again after a decision")
        return cases

    def _undecided(self, state: RunState, unit: int, bare: UnitTrial) -> DecisionCase:
        """The one case of a unit without decision noise."""
        if state.beliefs:
            shift = THRESHOLD_SHIFTS[0]
            other = self.runner.attempt(state, unit, {}, held=shift)
            after = RunState.of(other.run, held=shift)
            if not other.same_path(bare) or after.key() != RunState.of(bare.run).key():
                raise ExactAuditError(
                    self.runner.mechanism, "shows threshold noise without a question"
                )
        return make_case(self.runner, state, unit, bare, {}, 0.0, 0.0)

    # -- distances ---------------------------------------------------------------------------------

    def _one_number(
        self, state: RunState, unit: int, layers: list[NoiseRequest]
    ) -> Iterator[DecisionCase]:
        """The cases of one noisy distance."""
        label, rate = layers[0].label, layers[0].rates[0]

        @cache
        def at(value: int) -> UnitTrial:
            return self.runner.attempt(state, unit, {label: (value,)})

        if len(layers) == 1:
            points = self._turning_points(at, state, unit, layers[0], 0)
        else:  # |distance + noise| grows on either side of where it is 0
            last = 0 if state.last is None else int(state.last.value.sum())
            points = turning_points_around(at, last - int(self.runner.stream[unit - 1].sum()))
        self._hint = points[0] if points else 0
        for first, last in _intervals(points):
            if not at(first).same_end(at(last)):
                raise ExactAuditError(
                    self.runner.mechanism, "remembers a distance that it does not show"
                )
            chance = _log_between(rate, len(layers), first, last)
            yield make_case(self.runner, state, unit, at(first), {label: (first,)}, chance, chance)

    def _turning_points(
        self,
        at: Callable[[int], UnitTrial],
        state: RunState,
        unit: int,
        request: NoiseRequest,
        index: int,
    ) -> list[int]:
        """Where one number of a request changes the decision.

        That is at one value, or on both sides of the noise that would repeat the last release.
        """
        if not at(-FAR).same_path(at(FAR)):
            return turning_points(at, -FAR, FAR, self._hint)
        middle, counts = 0, self.runner.stream[unit - 1]
        if len(request.rates) == len(counts):
            middle = -int(counts[index])
            if state.last is not None and len(state.last.value) == len(counts):
                middle += round(float(state.last.estimate[index]))
        points = turning_points_around(at, middle)
        reach = math.ceil(-math.log(TAIL_MASS) / request.rates[index])
        for value in range(-reach, reach + 1, max(1, 2 * reach // TRIED_VALUES)):
            before = max((point for point in points if point <= value), default=-FAR)
            if not at(value).same_path(at(before)):
                raise ExactAuditError(
                    self.runner.mechanism, "decides neither by one threshold nor by two"
                )
        return points

    def _many_numbers(
        self, state: RunState, unit: int, pools: list[list[NoiseRequest]]
    ) -> Iterator[DecisionCase]:
        """The cases of several distances: as boxes if that works, else by every value."""
        boxes = None
        if len(pools) == 1 and len(pools[0]) == 1:
            boxes = self._boxes(state, unit, pools[0][0])
        return self._every_value(state, unit, pools) if boxes is None else iter(boxes)

    def _boxes(
        self, state: RunState, unit: int, request: NoiseRequest
    ) -> list[DecisionCase] | None:
        """The cases as boxes, or None if the corners of some box lead to different states."""
        size = len(request.rates)
        sides: list[list[tuple[int, int]]] = []
        for index in range(size):

            def at(value: int, index: int = index) -> UnitTrial:
                noise = (0,) * index + (value,) + (0,) * (size - index - 1)
                return self.runner.attempt(state, unit, {request.label: noise})

            sides.append(_intervals(self._turning_points(cache(at), state, unit, request, index)))
        if math.prod(map(len, sides)) > MAX_CASES_PER_UNIT:
            raise ConfigurationError(
                "too many groups publish independently of each other "
                "for every combination to be tried."
            )
        cases: list[DecisionCase] = []
        for box in product(*sides):
            script = {request.label: tuple(first for first, _ in box)}
            lowest = self.runner.attempt(state, unit, script)
            highest = self.runner.attempt(
                state, unit, {request.label: tuple(last for _, last in box)}
            )
            if not lowest.same_path(highest) or not lowest.same_end(highest):
                return None
            chance = math.fsum(
                _log_between(rate, 1, first, last)
                for rate, (first, last) in zip(request.rates, box, strict=True)
            )
            cases.append(make_case(self.runner, state, unit, lowest, script, chance, chance))
        return cases

    def _every_value(
        self, state: RunState, unit: int, pools: list[list[NoiseRequest]]
    ) -> Iterator[DecisionCase]:
        """The cases by every combination of values outside the cut tails.

        The mass of the tails is added to the upper bounds.
        """
        ranges: list[range] = []
        for layers in pools:
            for rate in layers[0].rates:
                reach = 1
                while log_tail(rate, len(layers), reach) > math.log(TAIL_MASS):
                    reach += 1
                ranges.append(range(1 - reach, reach))
        if math.prod(map(len, ranges)) > MAX_CASES_PER_UNIT:
            raise ConfigurationError(
                "decision noise has too many values to be tried: raise epsilon, or use fewer keys."
            )
        found: dict[object, tuple[UnitTrial, dict[str, Numbers], list[float]]] = {}
        for values in product(*ranges):
            script: dict[str, Numbers] = {}
            chance, used = 0.0, 0
            for layers in pools:
                rates = layers[0].rates
                noise = script[layers[0].label] = values[used : used + len(rates)]
                chance += log_probability_of(rates, len(layers), noise)
                used += len(rates)
            trial = self.runner.attempt(state, unit, script)
            key = trial.shown, trial.requests, RunState.of(trial.run).key()
            found.setdefault(key, (trial, script, []))[2].append(chance)
        dropped = math.log(2 * len(ranges) * TAIL_MASS)
        for trial, script, chances in found.values():
            low = log_sum(chances)
            high = min(0.0, log_sum([low, dropped]))
            yield make_case(self.runner, state, unit, trial, script, low, high)

    # -- questions ---------------------------------------------------------------------------------

    def _answers(
        self, state: RunState, unit: int, bare: UnitTrial, run: str
    ) -> Iterator[DecisionCase]:
        """The cases of a sparse-vector run that is asked once: every combination of answers.

        The probability of an answer is conditional on the answers before it.
        """
        questions = ThresholdQuestions(self.runner, state, unit, bare, run)
        keys, turns = questions.turns(self._hints)
        before = questions.beliefs(keys)
        others = [each for each in state.beliefs if each.run != run or each.key not in keys]
        for answers in product(*((False,) if turn is None else (False, True) for turn in turns)):
            near = tuple(
                FAR if turn is None else turn if yes else turn - 1
                for turn, yes in zip(turns, answers, strict=True)
            )
            far = tuple(FAR if yes else -FAR for yes in answers)
            if not questions.same(near, far) or not all(
                questions.same(near, near, shift=shift) for shift in THRESHOLD_SHIFTS
            ):
                raise ExactAuditError(
                    self.runner.mechanism, "answers in a way that shows more than the answer"
                )
            low = high = 0.0
            beliefs = others.copy()
            for old, rate, turn, yes in zip(before, questions.rates, turns, answers, strict=True):
                new = old if turn is None else old.after(ThresholdAnswer(rate, turn, yes))
                if turn is not None:
                    low += new.log_chance()[0] - old.log_chance()[1]
                    high += new.log_chance()[1] - old.log_chance()[0]
                beliefs.append(new)
            trial, script = questions.at(near)[0], {questions.label: near}
            yield make_case(self.runner, state, unit, trial, script, low, high, tuple(beliefs))


def _intervals(points: list[int]) -> list[tuple[int, int]]:
    """The intervals between turning points, from −FAR to FAR."""
    starts = [-FAR, *points]
    return [(first, last - 1) for first, last in zip(starts, [*points, FAR + 1], strict=True)]


def _log_between(rate: float, layers: int, first: int, last: int) -> float:
    """ln P(first ≤ noise ≤ last), where ±FAR stand for infinity."""
    low = -math.inf if first == -FAR else first
    return log_between(rate, layers, low, math.inf if last == FAR else last)
