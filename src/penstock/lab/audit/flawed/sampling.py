"""The decisions of sampling by distance, as published."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from penstock.core.arrays import BoolArray, FloatArray, IntArray
from penstock.core.domain import Domain
from penstock.core.exact import exact
from penstock.core.private import Private, unseal
from penstock.core.released import Released, Scale
from penstock.lab.audit.flawed.variant import Unchecked, Variant
from penstock.lab.audit.model import Pair
from penstock.private.gate import Gate
from penstock.private.mechanisms.dsat import AdaptiveThreshold
from penstock.private.mechanisms.dsft import FixedThreshold
from penstock.private.mechanisms.sampling import MOVED

STANDING = 1000
"""The value that stands for the last release.

One more person moves a count above it further away, and a count below it nearer.
"""


@dataclass(frozen=True)
class Decided:
    """Per key: the threshold without noise, its noise, and the units of the last releases."""

    threshold: IntArray
    noise: IntArray
    made: BoolArray


@dataclass(frozen=True, kw_only=True)
class Decisions(Unchecked):
    r"""A mechanism that shows the decisions only, and spends all of :math:`\varepsilon` on them.

    The paper promises :math:`\varepsilon_1` for the decisions alone (theorem 4.1), with noise of
    scale :math:`2/\varepsilon_1` on the threshold and :math:`2C/\varepsilon_1` on every distance.
    Releases are not shown; `STANDING` stands for them. Keys do not depend on each other, so an
    audit may take independent runs as keys.
    """

    State = Decided
    by_key = True

    releases: int = 3
    population: int = 100
    first: int = 200
    """The threshold before the first question, in people."""

    def start(self, domain: Domain) -> Decided:
        nothing = np.zeros(domain.size, np.int64)
        return Decided(
            nothing + self.first, nothing, np.zeros((self.window, domain.size), np.bool_)
        )

    def step(self, state: Decided, unit: Private, gate: Gate) -> tuple[Decided, Released]:
        now, counts, size = gate.unit, unseal(unit), len(state.threshold)
        noise, share = gate._maker.noise, Fraction(self.contribution) / exact(self.epsilon)
        made = state.made.copy()
        made[now % self.window] = False
        past = made.sum(axis=0)
        if now == 1:
            fresh = np.ones(size, np.bool_)
            state = replace(
                state, noise=noise.laplace(2 * share, size, unit=now, label=f"{MOVED}.threshold")
            )
        else:
            asked = past < self.releases
            state = self.moved(state, self.excess(past, now), asked)
            distance = np.abs(counts - STANDING) + noise.laplace(
                2 * self.releases * share, size, unit=now, label=f"{MOVED}.question"
            )
            fresh = asked & (distance >= state.threshold + state.noise)
        made[now % self.window] = fresh
        shown = Released(
            now, np.zeros(size, np.int64), Scale(2 * share), self.guarantee, False, ~fresh
        )
        return replace(state, made=made), shown

    def excess(self, made: IntArray, now: int) -> IntArray:
        """The number of people by which the controller moves the threshold.

        It is the rate of releases above the intended rate, times the population.
        """
        rate: FloatArray = made / min(now, self.window) - self.releases / self.window
        return np.rint(rate * self.population).astype(np.int64)

    @abstractmethod
    def moved(self, state: Decided, excess: IntArray, asked: BoolArray) -> Decided:
        """The thresholds of this unit."""


@dataclass(frozen=True, kw_only=True)
class PublishedScales(Decisions):
    r"""`dsft` with the published scales. Its loss reaches :math:`(1.5-1/C)\,\varepsilon`.

    The negative answers together lose :math:`\varepsilon/2`, through the threshold. Each of the
    :math:`C-1` positive answers loses twice its share :math:`\varepsilon/2C`. With :math:`C=3`, the
    streams below reach 1.13 ε of 1.17 ε.
    """

    name = "dsft_published"

    def moved(self, state: Decided, excess: IntArray, asked: BoolArray) -> Decided:
        return state


@dataclass(frozen=True, kw_only=True)
class ClampedNoise(Decisions):
    r"""`dsat` as published: the controller moves the *noisy* threshold.

    The threshold is kept between 0 and twice the population. Once it is cut, its noise is lost and
    it is public. From then on every question loses its share :math:`\varepsilon/2C`, over :math:`N`
    units up to :math:`N\varepsilon/2C`. Seven questions with :math:`C=2` lose 1.75 ε.
    """

    name = "dsat_clamped"
    releases: int = 2

    def moved(self, state: Decided, excess: IntArray, asked: BoolArray) -> Decided:
        moved = np.clip(state.threshold + state.noise + excess, 0, 2 * self.population)
        return replace(
            state,
            threshold=np.where(asked, moved, state.threshold),
            noise=np.where(asked, 0, state.noise),
        )


@dataclass(frozen=True, kw_only=True)
class OneNoise(Decisions):
    r"""`dsat` on an endless stream, with one threshold noise for ever.

    The releases of earlier windows reveal the noise. Then each of the :math:`w` questions of a
    window loses its share :math:`\varepsilon/2C`, :math:`w\varepsilon/2C` in all. With
    :math:`C=1`, :math:`w=4` and three windows before the person comes, the loss is 1.77 ε of 2 ε.
    """

    name = "dsat_one_noise"
    releases: int = 1

    def moved(self, state: Decided, excess: IntArray, asked: BoolArray) -> Decided:
        moved = np.clip(state.threshold + excess, 0, 2 * self.population)
        return replace(state, threshold=np.where(asked, moved, state.threshold))


def _path(mechanism: Decisions, answers: str) -> list[int]:
    """The public threshold of every unit, given the answers.

    `+` is yes, `-` is no, `!` is the first release, and `.` is a unit without a question.
    """
    state = mechanism.start(Domain.of(1))
    asked = np.ones(1, np.bool_)
    path = []
    for now, answer in enumerate(answers, start=1):
        state.made[now % mechanism.window] = False
        if answer in "+-":
            state = mechanism.moved(state, mechanism.excess(state.made.sum(axis=0), now), asked)
        state.made[now % mechanism.window] = answer in "!+"
        path.append(int(state.threshold[0]))
    return path


def _close(mechanism: Decisions, answers: str, *, since: int = 1, nearer: bool = False) -> Pair:
    """A stream close to the threshold, and a person from unit `since` on.

    The distance is at the threshold where the answer is yes, and 1 below it where the answer is no.
    The person moves the stream away from the last release. With `nearer`, the person moves it
    towards the last release where the answer is yes.
    """
    margins = {"-": -1, "+": 0}
    path = _path(mechanism, answers)
    apart = [
        path[place] + margins[each] if each in margins else 0 for place, each in enumerate(answers)
    ]
    side = [-1 if nearer and each == "+" else 1 for each in answers]
    base = (STANDING + np.multiply(apart, side))[:, None]
    person = np.zeros_like(base)
    person[since - 1 :] = 1
    return Pair(f"close answers {answers}, a person from unit {since}", base + person, base)


_PUBLISHED = PublishedScales(epsilon=5, window=11)
_CLAMPED = ClampedNoise(epsilon=2, window=9)
_ONE = OneNoise(epsilon=3, window=4)

SAMPLING_FLAWS: tuple[Variant, ...] = (
    Variant(
        "dsft_published",
        lambda: _PUBLISHED,
        Fraction(5),
        11,
        (_close(_PUBLISHED, "!-------++", nearer=True),),
        parent=lambda: FixedThreshold(epsilon=5, window=11, horizon=11, releases=3, population=100),
        runs=2_400_000,
    ),
    Variant(
        "dsat_clamped",
        lambda: _CLAMPED,
        Fraction(2),
        9,
        (_close(_CLAMPED, "!-------"),),
        parent=lambda: AdaptiveThreshold(
            epsilon=2, window=9, horizon=9, releases=2, population=100
        ),
        runs=100_000,
    ),
    Variant(
        "dsat_one_noise",
        lambda: _ONE,
        Fraction(3),
        4,
        (_close(_ONE, "!...+...+...+...----", since=17),),
        parent=lambda: AdaptiveThreshold(epsilon=3, window=4, releases=1, population=100),
        runs=100_000,
    ),
)
