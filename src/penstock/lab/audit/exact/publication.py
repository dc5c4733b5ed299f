"""Which keys the publication noise of a unit is added to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.lab.audit.exact.decision_case import DecisionCase
from penstock.lab.audit.exact.errors import ExactAuditError
from penstock.lab.audit.exact.output import Numbers
from penstock.lab.audit.exact.run_state import RunState
from penstock.lab.audit.exact.scripted_noise import NoiseRequest, same_layers
from penstock.lab.audit.exact.thresholds import Belief
from penstock.lab.audit.exact.unit_runner import UnitRunner, UnitTrial


def make_case(
    runner: UnitRunner,
    state: RunState,
    unit: int,
    trial: UnitTrial,
    script: Mapping[str, Numbers],
    log_low: float,
    log_high: float,
    beliefs: tuple[Belief, ...] | None = None,
) -> DecisionCase:
    """The case of a trial without publication noise, once its publication noise is understood."""
    shown = trial.shown
    layers = tuple(request for request in trial.requests if request.publication and request.rates)
    fresh = tuple(key for key, new in enumerate(shown.fresh) if new)
    if shown.smoothed:
        if shown.seen is not None:
            raise ExactAuditError(runner.mechanism, "smooths what a look saw")
        if layers and len(layers[0].rates) == len(shown.numbers):
            fresh = tuple(range(len(shown.numbers)))
    parts: tuple[tuple[NoiseRequest, Numbers], ...] = ()
    if fresh and layers and same_layers(layers) and len(layers[0].rates) == len(fresh):
        parts = ((layers[0], fresh),)
    elif fresh and not shown.seen:
        parts = _keys_of_parts(runner, state, unit, trial, script, layers)
    if (fresh and not parts) or (layers and not parts and not same_layers(layers)):
        raise ExactAuditError(runner.mechanism, "publishes in a way that cannot be followed")
    if layers and not fresh:
        _check_skipped(runner, state, unit, trial, {**script, layers[0].label: _other(layers[0])})
    return DecisionCase(
        log_low,
        log_high,
        script,
        shown,
        layers,
        parts,
        measured={each for each in trial.requests if not each.publication},
        beliefs=state.beliefs if beliefs is None else beliefs,
    )


def _other(request: NoiseRequest) -> Numbers:
    return tuple(range(1001, 1001 + len(request.rates)))


def _check_skipped(
    runner: UnitRunner, state: RunState, unit: int, trial: UnitTrial, script: Mapping[str, Numbers]
) -> None:
    """A skipped unit must not depend on the noise of a counter that is then forgotten."""
    other = runner.attempt(state, unit, script)
    same = (other.shown.values, other.shown.fresh) == (trial.shown.values, trial.shown.fresh)
    if not same or not other.same_end(trial):
        raise ExactAuditError(runner.mechanism, "shows or remembers noise of a unit that it skips")


def _keys_of_parts(
    runner: UnitRunner,
    state: RunState,
    unit: int,
    trial: UnitTrial,
    script: Mapping[str, Numbers],
    layers: Sequence[NoiseRequest],
) -> tuple[tuple[NoiseRequest, Numbers], ...]:
    """The keys of each of several publications: those that move with its noise.

    Empty if the keys overlap.
    """
    parts: list[tuple[NoiseRequest, Numbers]] = []
    for request in layers:
        steps = range(1, len(request.rates) + 1)
        moved = runner.attempt(state, unit, {**script, request.label: tuple(steps)}).shown
        numbers = zip(moved.numbers, trial.shown.numbers, strict=True)
        by_step = {now - then: key for key, (now, then) in enumerate(numbers)}
        parts.append((request, tuple(by_step.get(step, -1) for step in steps)))
    keys = sorted(key for _, part in parts for key in part)
    wanted = [key for key, new in enumerate(trial.shown.fresh) if new or trial.shown.smoothed]
    return tuple(parts) if keys == wanted else ()
