"""How useful the numbers of each view will be, and what would help, from public knowledge."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import exp
from typing import NamedTuple

import numpy as np

from penstock.core.arrays import IntArray
from penstock.core.domain import Domain
from penstock.core.errors import ConfigurationError
from penstock.engine.pipeline import Pipeline, PlanConfig
from penstock.engine.plan.candidates import AskedPromise, MechanismChoice, candidates, unfit
from penstock.engine.plan.judgement import Judgement, about, published, verdict
from penstock.engine.plan.knowledge import PlannedView, public_counts
from penstock.engine.plan.planner import LENGTHS
from penstock.engine.plan.public_counts import (
    PublicCounts,
    levels,
    made_up,
    periods_of,
)
from penstock.engine.plan.simulation import SimulatedError, simulate, trivial

MAX_QUICK_CELLS, MAX_QUICK_UNITS = 40_000, 500
"""Units × keys, and units, of a quick simulation. It has three windows, if these are fewer units.
"""

SUGGESTED_DELTA = "1e-6"
"""The δ that is tried where the promise has none."""

_KEYS_PER_GROUP = 10
"""Keys that are counted together where the domain has no levels of its own."""

_COMPARED = 3
"""How many of the best mechanisms are tried with other units and keys."""

_WORTH_SAYING = 0.9
"""A change is suggested if it brings the error, relative to the count, to this part or less."""

_LEAST_UNITS = 12
"""Longer units are tried while a sample has this many of them."""


@dataclass(frozen=True, kw_only=True)
class Accuracy:
    """How a count is published: its mean, the error, and what that is worth.

    Parameters
    ----------
    mechanism : str
        The name of the mechanism.
    mean : float
        The mean count of a key in a unit.
    mae : float
        The mean absolute error.
    deviation : float
        The root of the mean squared error.
    verdict : "useful", "rough" or "noise"
        What the numbers are worth.
    """

    mechanism: str
    mean: float
    mae: float
    deviation: float
    verdict: Judgement

    @property
    def relative(self) -> float:
        """The error as a share of the mean count."""
        return self.mae / self.mean

    @property
    def shown(self) -> str:
        """How a count is published, and what that is worth."""
        return f"{published(self.mean, self.deviation)}: {self.verdict}"


@dataclass(frozen=True, kw_only=True)
class Suggestion:
    """A change that would bring more useful numbers.

    Parameters
    ----------
    what : str
        What changes: "another mechanism", "delta", "longer units", "coarser keys", or "longer units
        and coarser keys".
    change : str
        The change itself, such as `every = "1d"`.
    accuracy : Accuracy
        The numbers after it.
    """

    what: str
    change: str
    accuracy: Accuracy

    @property
    def words(self) -> str:
        """The change and its figure."""
        using = "" if self.what == "another mechanism" else f" with {self.accuracy.mechanism}"
        return f"{self.change}{using} gives {self.accuracy.shown}."


@dataclass(frozen=True, kw_only=True)
class Usefulness:
    """What is known beforehand about the numbers of a view.

    Parameters
    ----------
    view : str
        The name of the view.
    accuracy : Accuracy, optional
        The numbers as declared. Default: None, they cannot be judged.
    problem : str
        Why they cannot be judged. Default: empty.
    suggestions : tuple of Suggestion
        What would help. Default: nothing.
    empty : float, optional
        The expected share of units without any event. Default: None, unknown.
    """

    view: str
    accuracy: Accuracy | None = None
    problem: str = ""
    suggestions: tuple[Suggestion, ...] = ()
    empty: float | None = None

    @property
    def words(self) -> str:
        """The judgement in one sentence."""
        if self.accuracy is None:
            return self.problem
        found = self.accuracy
        return (
            f"a count of about {about(found.mean)} is published as {found.shown}. "
            f"On average, a number is off by {about(found.mae)}."
        )


UNKNOWN = (
    "it cannot be judged whether the numbers are useful, because nothing public is known about "
    "the counts. Give the typical count of a key in a unit, such as --typical 2, or a file of "
    "past public counts, such as --typical counts.csv; or write the table [plan]. Never take the "
    "figure from the private events."
)


def usefulness(pipeline: Pipeline, known: PlanConfig) -> list[Usefulness]:
    """For each view: how its numbers will be published, simulated on public counts.

    Only the public knowledge is read, never the private source or the store.
    """
    return [_of(pipeline, view.name, known) for view in pipeline.views]


def _of(pipeline: Pipeline, name: str, known: PlanConfig) -> Usefulness:
    planned = PlannedView.of(pipeline, name)
    stated = planned.typical(known)
    try:
        public = public_counts(planned, known, pipeline=pipeline)
    except ConfigurationError as error:
        if error.parameter != "typical" or stated is None:
            raise
        problem = (  # the simulated counts are all 0
            f"a count of about {about(float(stated))} is almost always 0, and what is published is "
            "noise. Use longer units or coarser keys."
        )
        empty = exp(-float(stated) * planned.domain.size)
        return Usefulness(view=name, problem=problem, empty=empty)
    if public is None:
        return Usefulness(view=name, problem=UNKNOWN)
    choice = MechanismChoice.of(pipeline.mechanism(name))
    misfit = unfit(choice, public.domain, planned.promise, public.facts)
    if misfit is not None:
        problem = f"{choice.name} cannot be simulated: {misfit}"
        return Usefulness(view=name, problem=problem, empty=_empty(public, planned.domain))
    look = _QuickLook(planned, known, public, choice, alone=len(pipeline.views) == 1)
    present = look.present
    if stated is not None and known.sample is None:
        present = replace(present, mean=float(stated))
    return Usefulness(
        view=name,
        accuracy=present,
        suggestions=tuple(look.suggestions()),
        empty=_empty(public, planned.domain),
    )


def _empty(public: PublicCounts, domain: Domain) -> float:
    """The expected share of units without any event."""
    if public.domain.size < domain.size:  # some keys were left out
        return exp(-public.mean * domain.size)
    return float((public.counts.sum(axis=1) == 0).mean())


class _Counted(NamedTuple):
    """The same events in other units or with other keys, and the promise in these units."""

    public: PublicCounts
    promise: AskedPromise


class _QuickLook:
    """A few seconds of simulation: the mechanism in use, and what would be better."""

    def __init__(
        self,
        view: PlannedView,
        known: PlanConfig,
        public: PublicCounts,
        choice: MechanismChoice,
        *,
        alone: bool,
    ) -> None:
        self._view = view
        self._known = known
        self._all = _Counted(public, view.promise)
        self._now = _Counted(_quick(public, view.promise.window), view.promise)
        self._choice = choice
        self._alone = alone  # with other views, delta does not add up

    @cached_property
    def present(self) -> Accuracy:
        """The numbers as declared."""
        found = self._accuracy(self._choice, self._all)
        assert found is not None
        return found

    def suggestions(self) -> Iterator[Suggestion]:
        """What would help where the numbers are not useful, each with its figure."""
        if self.present.verdict == "useful":
            return
        found = [
            ("another mechanism", *self._other_mechanism()),
            ("delta", *self._with_delta()),
            ("longer units", *_chosen(self._longer_units())),
            ("coarser keys", *_chosen(self._coarser_keys(self._now))),
        ]
        if all(each is None or each.verdict != "useful" for _, _, each in found):
            both = "longer units and coarser keys"
            found.append((both, *_chosen(self._longer_and_coarser())))
        for what, change, accuracy in found:
            if accuracy is not None and self._better(accuracy):
                yield Suggestion(what=what, change=change, accuracy=accuracy)

    def _better(self, accuracy: Accuracy) -> bool:
        return accuracy.relative <= _WORTH_SAYING * self.present.relative

    def _accuracy(self, choice: MechanismChoice, counted: _Counted) -> Accuracy | None:
        """The numbers of one mechanism, by one run; None if it cannot be used."""
        public, promise = counted
        if (
            not public.counts.any()
            or unfit(choice, public.domain, promise, public.facts) is not None
        ):
            return None
        error: SimulatedError = simulate(choice.made(promise, public.facts), public)
        assert error.deviation is not None
        return Accuracy(
            mechanism=choice.name,
            mean=public.mean,
            mae=error.mae,
            deviation=error.deviation,
            verdict=verdict(error.mae, public.mean, trivial(public)["all zeros"]),
        )

    def _best(self, choices: Sequence[MechanismChoice], counted: _Counted) -> Accuracy | None:
        found = (self._accuracy(choice, counted) for choice in choices)
        return min(filter(None, found), key=lambda each: each.relative, default=None)

    # -- mechanisms --------------------------------------------------------------------------------

    @cached_property
    def _ranked(self) -> list[tuple[Accuracy, MechanismChoice]]:
        """All mechanisms that keep the promise, the best first."""
        public, promise = self._now
        choices, _ = candidates(public.domain, promise, public.facts)
        usable = [
            choice
            for choice in choices
            if unfit(choice, self._view.domain, promise, public.facts) is None
        ]
        found = ((self._accuracy(choice, self._now), choice) for choice in usable)
        good = [(accuracy, choice) for accuracy, choice in found if accuracy is not None]
        return sorted(good, key=lambda each: each[0].relative)

    @cached_property
    def _compared(self) -> list[MechanismChoice]:
        """The mechanism in use, the best ones, and plain noise, which wins for high counts."""
        best = [choice for _, choice in self._ranked[:_COMPARED]]
        plain = [choice for _, choice in self._ranked if choice.name == "uniform"]
        found = [self._choice, *best, *plain]
        return [each for place, each in enumerate(found) if each not in found[:place]]

    def _other_mechanism(self) -> tuple[str, Accuracy | None]:
        if not self._ranked:
            return "", None
        accuracy, choice = self._ranked[0]
        return f'mechanism = "{choice.name}"', accuracy

    def _with_delta(self) -> tuple[str, Accuracy | None]:
        """The best mechanism with Gaussian noise, if no mechanism without δ is as good."""
        public, promise = self._now
        if promise.delta is not None or not self._alone:
            return "", None
        allowed = replace(promise, delta=Fraction(SUGGESTED_DELTA))
        choices, _ = candidates(public.domain, allowed, public.facts)
        gaussian = [choice for choice in choices if choice.gaussian]
        found = self._best(gaussian, _Counted(public, allowed))
        pure = self._ranked[0][0].relative if self._ranked else float("inf")
        if found is None or found.relative > _WORTH_SAYING * pure:
            return "", None
        return f'delta = "{SUGGESTED_DELTA}"', found

    # -- other units and keys ----------------------------------------------------------------------

    @property
    def _longer(self) -> Iterator[_Counted]:
        """The events in longer units."""
        every, promise, known = self._view.every, self._now.promise, self._known
        if promise.horizon is not None:
            return  # the horizon is in units, so longer ones read more
        for length in LENGTHS:
            for units in periods_of([length], every):
                asked = promise.over(units)
                if known.sample is None and known.typical is not None:
                    yield _Counted(self._made_up(length, units, asked.window), asked)
                elif len(self._now.public.counts) // units >= _LEAST_UNITS:
                    yield _Counted(self._now.public.merged(units, length), asked)

    def _made_up(self, every: str, units: int, window: int) -> PublicCounts:
        known = self._known
        assert known.typical is not None
        facts = replace(self._now.public.facts, periods=periods_of(known.seasons, every))
        factor = 1 if facts.kind == "stock" else units * self._view.units
        public = made_up(
            self._view.domain,
            every,
            typical=known.typical * factor,
            facts=facts,
            sparse=known.sparse,
            window=window,
        )
        return _quick(public.lengthened(window).thinned(), window)

    def _longer_units(self) -> Iterator[tuple[str, Accuracy]]:
        for counted in self._longer:
            accuracy = self._best(self._compared, counted)
            if accuracy is not None:
                yield f'every = "{counted.public.every}"', accuracy

    def _coarser_keys(self, counted: _Counted) -> Iterator[tuple[str, Accuracy]]:
        public, whole = counted.public, _groups(self._view.domain)
        for level, (names, of) in _groups(public.domain).items():
            number = len(whole.get(level, (names,))[0])
            coarse = public.grouped(names, of)
            # Groups of the whole domain may have more keys than those that are simulated.
            scale = self._view.domain.size * len(names) / (public.domain.size * number)
            if scale > 1:
                coarse = replace(coarse, counts=np.rint(coarse.counts * scale).astype(np.int64))
            accuracy = self._best(self._compared, _Counted(coarse, counted.promise))
            if accuracy is not None:
                yield f"{level} ({number:,} number{'' if number == 1 else 's'})", accuracy

    def _longer_and_coarser(self) -> Iterator[tuple[str, Accuracy]]:
        for counted in self._longer:
            for level, accuracy in self._coarser_keys(counted):
                yield f'every = "{counted.public.every}", {level},', accuracy


def _chosen(ways: Iterator[tuple[str, Accuracy]]) -> tuple[str, Accuracy | None]:
    """The first useful way, which changes least; else the one with the least error."""
    least: tuple[str, Accuracy] | None = None
    for change, accuracy in ways:
        if accuracy.verdict == "useful":
            return change, accuracy
        if least is None or accuracy.relative < least[1].relative:
            least = change, accuracy
    return ("", None) if least is None else least


def _groups(domain: Domain) -> dict[str, tuple[tuple[str, ...], IntArray]]:
    """The coarser ways to count, from fine to coarse."""
    found = levels(domain)
    if len(found) == 1 and domain.size >= 2 * _KEYS_PER_GROUP:  # the domain has no levels
        of = np.arange(domain.size, dtype=np.int64) // _KEYS_PER_GROUP
        names = tuple(map(str, range(int(of[-1]) + 1)))
        found = {f"keys in groups of {_KEYS_PER_GROUP}": (names, of)} | found
    return found


def _quick(public: PublicCounts, window: int) -> PublicCounts:
    """As many keys and units as a quick simulation needs: of the units, those whose mean is
    nearest to that of all.
    """
    least = min(3 * window, MAX_QUICK_UNITS)
    public = public.thinned(most=MAX_QUICK_CELLS // least)
    units = min(max(MAX_QUICK_CELLS // public.domain.size, 3 * window), MAX_QUICK_UNITS)
    last = len(public.counts) - units
    if last <= 0:
        return public
    before = np.concatenate([[0], np.cumsum(public.counts.sum(axis=1))])
    means = (before[units:] - before[:-units]) / (units * public.domain.size)
    first = int(np.abs(means - public.mean).argmin())
    return replace(public, counts=public.counts[first : first + units])
