"""The step of `dsft` and `dsat`: release a unit if the stream has moved away from the last release.

The question is that of the sparse vector technique. Distance and threshold both carry noise, and
only the answer leaves.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property

import numpy as np

from penstock.budget.grid import Budget
from penstock.core.arrays import IntArray
from penstock.core.domain import Domain
from penstock.core.errors import ConfigurationError
from penstock.core.exact import Exact, exact, whole
from penstock.core.private import Private
from penstock.core.released import Released
from penstock.private.gate import Gate, Price, affordable, count_limit
from penstock.private.histograms.base import Histogram, apart, part, publish
from penstock.private.histograms.plain import Plain
from penstock.private.mechanisms.base import Mechanism

MOVED = "moved"
"""The label of the questions in the ledger."""

PAPER = "Li et al., CIKM 2015"

MAX_PEOPLE = 2**60
"""The largest sum of a unit's counts (`count_limit`)."""

SMALL_THRESHOLD = 0.001
"""Thresholds below this lower the floor too."""


@dataclass(frozen=True)
class SamplingState:
    """The last release, the units of recent releases, and the threshold: all public."""

    last: Released
    made: tuple[int, ...] = ()
    """The units of the last window's releases, oldest first: those of this block are among them."""
    people: int = 1
    """What thresholds are shares of."""
    floor: int = 0
    """How far the noise of the last release alone is expected to be from it."""
    threshold: float = 0.0
    errors: tuple[float, ...] = ()


@dataclass(frozen=True)
class SamplingCosts:
    """The budget of a release, and the price of a question.

    Without a price nothing is asked: units are released while releases are left.
    """

    each: Budget
    price: Price | None


@dataclass(frozen=True, kw_only=True)
class ByQuestion(Mechanism[SamplingState]):
    """Release when a noisy distance reaches a noisy threshold, a limited number of times."""

    State = SamplingState
    family = "user"

    releases: int = 10
    population: int | None = None
    decide: Exact | None = None
    histogram: Histogram = field(default=Plain())

    def __post_init__(self) -> None:
        super().__post_init__()
        part(self.histogram)
        object.__setattr__(self, "releases", whole(self.releases, name="releases", least=1))
        if self.population is not None:
            object.__setattr__(
                self, "population", whole(self.population, name="population", least=1)
            )
            if self.population > MAX_PEOPLE:
                raise ConfigurationError(
                    f"population must be at most {MAX_PEOPLE}, not {self.population}.",
                    parameter="population",
                )
        if self.decide is not None:
            object.__setattr__(self, "decide", exact(self.decide, name="decide"))
            if not 0 < exact(self.decide) < 1:
                raise ConfigurationError(
                    f"decide must lie between 0 and 1, not {self.decide}.", parameter="decide"
                )

    @property
    def most(self) -> int:
        """C: the most releases of a window. There is at most one per unit."""
        return min(self.releases, self.window)

    @property
    def weights(self) -> tuple[int, int]:
        """How often a window pays for a threshold and for a question, at worst.

        At user level there is one run. It has C − 1 positive answers beside the first release, and
        each counts twice: once for the run, once for the window. Otherwise two runs meet a window,
        of C positive answers each, and C of them are inside it.
        """
        return (1, 2 * (self.most - 1)) if self.guarantee.user_level else (2, 3 * self.most)

    @cached_property
    def _plans(self) -> dict[int, SamplingCosts]:
        return {}

    def plan(self, size: int) -> SamplingCosts:
        """The costs, for `size` keys."""
        if size not in self._plans:
            self._plans[size] = self._planned(size)
        return self._plans[size]

    def _planned(self, size: int) -> SamplingCosts:
        thresholds, questions = self.weights
        if self.most == self.window or not questions:
            return self._affordable(SamplingCosts(self.total // self.most, None), size)
        share = (
            _share(size, self.most, self.window, self.weights)
            if self.decide is None
            else exact(self.decide)
        )
        decide = self.grid.floor(self.total.epsilon * share)
        ratio = Fraction((questions / thresholds) ** (1 / 3)).limit_denominator(10**6)
        question = self.grid.floor(decide.epsilon / (questions + thresholds * ratio))
        threshold = (decide - question * questions) // thresholds
        return self._affordable(
            SamplingCosts((self.total - decide) // self.most, Price(threshold, question)), size
        )

    def _affordable(self, plan: SamplingCosts, size: int) -> SamplingCosts:
        """The plan, if the gate would accept all its noise."""
        costs = (
            [plan.each]
            if plan.price is None
            else [plan.each, plan.price.threshold, plan.price.question]
        )
        if not affordable(min(costs), sensitivity=self.contribution, keys=size):
            raise ConfigurationError(
                f"{self.name}: epsilon={self.epsilon} is too little for {self.most} releases "
                f"of {size} keys per window.",
                parameter="epsilon",
            )
        return plan

    def start(self, domain: Domain) -> SamplingState:
        self.plan(domain.size)  # refuses a domain that the budget cannot serve
        return SamplingState(
            Released.nothing(domain.size, self.guarantee), threshold=self.first_threshold()
        )

    @abstractmethod
    def first_threshold(self) -> float:
        """T before the first question."""

    def adjust(self, state: SamplingState, unit: int) -> SamplingState:
        """The state with the threshold for this unit's question, from the releases so far."""
        return state

    def resting(self, unit: int) -> bool:
        """Whether nothing is asked about this unit, whatever was released."""
        return False

    def step(
        self, state: SamplingState, unit: Private, gate: Gate
    ) -> tuple[SamplingState, Released]:
        plan, now = self.plan(len(state.last.value)), gate.unit
        if (now - 1) % self.window == 0:  # a new block, with threshold noise of its own
            gate.runs.close(MOVED)
        state = replace(state, made=tuple(made for made in state.made if made > now - self.window))
        if len(state.made) >= self.most:
            return state, gate.repeat(state.last)
        if plan.price is not None and not self._unasked(now):
            if self.resting(now):
                return state, gate.repeat(state.last)
            state = self.adjust(state, now)
            if not self._moved(state, unit, plan.price, gate):
                return state, gate.repeat(state.last)
        fresh = publish(self.histogram, unit, gate.left if now == self.horizon else plan.each, gate)
        return self._after(state, fresh, now), fresh

    def _unasked(self, now: int) -> bool:
        """Whether to release without a question: unit 1, and the last unit if a release is left."""
        return now == 1 or now == self.horizon

    def _moved(self, state: SamplingState, unit: Private, price: Price, gate: Gate) -> bool:
        return bool(
            gate.runs.ask(
                MOVED, unit.distance(rounded(state.last)), threshold=bound(state), price=price
            )[0]
        )

    def _after(self, state: SamplingState, fresh: Released, now: int) -> SamplingState:
        people = self.population or max(1, round(float(fresh.estimate.sum())))
        floor = round(min(apart(fresh), MAX_PEOPLE))
        return replace(state, last=fresh, made=(*state.made, now), people=people, floor=floor)


def bound(state: SamplingState) -> int:
    """The distance that must be reached: the threshold's share of all people, above the floor.

    Below `SMALL_THRESHOLD` the floor is lowered. A release may know its noise badly, and a floor
    that is too high would never be reached.
    """
    share = min(1.0, state.threshold / SMALL_THRESHOLD)
    return math.ceil(share * state.floor) + math.ceil(
        min(state.threshold * state.people, MAX_PEOPLE)
    )


def rounded(released: Released) -> IntArray:
    """The release in whole numbers within the range of counts. Distances to it fit into int64."""
    most = count_limit(len(released.value))
    if isinstance(released.divisor, int) and released.divisor == 1:
        return np.clip(released.value, -most, most)
    return np.rint(np.clip(released.estimate, -most, most)).astype(np.int64)


def _share(size: int, most: int, window: int, weights: tuple[int, int]) -> Fraction:
    """The share of ε for questions with the least noise in a distance.

    The noise is A/(1 − k)² + B/k² in all. A stands for C releases over all keys, B for threshold
    and question, with ε shared between them in the best way. A release never has less than it would
    have if every unit were released.
    """
    thresholds, questions = weights
    releases = 2 * size * most**2
    asking = 2 * (thresholds ** (2 / 3) + questions ** (2 / 3)) ** 3
    ratio = (asking / releases) ** (1 / 3)
    return min(Fraction(ratio / (1 + ratio)).limit_denominator(10**6), 1 - Fraction(most, window))
