"""How useful the numbers of each view will be, in one line, from public knowledge."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.engine.pipeline import Pipeline, PlanConfig
from penstock.engine.plan.candidates import MechanismChoice, unfit
from penstock.engine.plan.judgement import number, percent, verdict
from penstock.engine.plan.knowledge import PlannedView, public_counts
from penstock.engine.plan.simulation import simulate, trivial


@dataclass(frozen=True, kw_only=True)
class Usefulness:
    """The simulated error of a view's mechanism; None if it cannot be judged."""

    view: str
    words: str
    mae: float | None = None
    mean: float | None = None


def usefulness(pipeline: Pipeline, known: PlanConfig) -> list[Usefulness]:
    """One line per view: how far its numbers will be off, simulated on public counts.

    Only the public knowledge is read, never the private source or the store.
    """
    return [_of(pipeline, view.name, known) for view in pipeline.views]


def _of(pipeline: Pipeline, name: str, known: PlanConfig) -> Usefulness:
    planned = PlannedView.of(pipeline, name)
    public = public_counts(planned, known, pipeline=pipeline)
    if public is None:
        words = (
            "it cannot be judged whether the numbers are useful, because nothing public is known "
            "about the counts. Give --typical 2 or --sample FILE, or write the table [plan]."
        )
        return Usefulness(view=name, words=words)
    mechanism = pipeline.mechanism(name)
    choice = MechanismChoice.of(mechanism)
    problem = unfit(choice, public.domain, planned.promise, public.facts)
    if problem is not None:
        return Usefulness(view=name, words=f"{mechanism.name} cannot be simulated: {problem}")
    mae = simulate(choice.made(planned.promise, public.facts), public).mae
    word = verdict(mae, public.mean, trivial(public)["all zeros"])
    words = (
        f"with {mechanism.name}, a number will be off by {number(mae)} on average, where the mean "
        f"count is {number(public.mean)} ({percent(mae / public.mean)}): {word}."
    )
    return Usefulness(view=name, words=words, mae=mae, mean=public.mean)
