"""`rg`: retroactive grouping, per key."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np

from penstock.budget.grid import Budget
from penstock.core.arrays import BoolArray, FloatArray, IntArray
from penstock.core.domain import Domain
from penstock.core.durations import UnitCount
from penstock.core.errors import ConfigurationError
from penstock.core.exact import Exact, exact, whole
from penstock.core.private import Private
from penstock.core.released import Released
from penstock.private.amplification import amplified
from penstock.private.gate import Gate
from penstock.private.mechanisms.base import Mechanism

WATCH, PUBLISH = "watch", "publish"


@dataclass(frozen=True)
class OpenGroup:
    """The last release of every key, and the number of units in its open group."""

    last: Released
    held: IntArray


@dataclass(frozen=True, kw_only=True)
class RetroactiveGrouping(Mechanism[OpenGroup]):
    r"""Publish a key that has jumped at once, and a stable key as means of growing groups of units.

    Of a unit's ε, the share `watch` is :math:`e_1` and the rest :math:`e_2`. Per key, a count c is
    watched, :math:`\tilde c = c + DLap(1/e_1)`, and compared with the last release o:

    - a jump, :math:`(\tilde c - o)^2 \ge \tau`: publish :math:`c + DLap(1/e_2)`, and drop the open
      group for good;
    - else c joins the open group; if the group now has m units, publish its mean,
      :math:`(\sum c + DLap(1/e_2))/m`;
    - else repeat o.

    m is 2 after a single publication, and twice the last group's size after a group's, up to
    `longest`. The threshold is :math:`\tau = 2/e_2^2 + 2\kappa/e_1^2` with κ = `caution`: the error
    that a single publication adds, and κ times the error of the watch. The first unit is published
    without a watch. With contribution L, noise scales and :math:`\sqrt\tau` are L times as large.

    `public["start"]` has the first of the units whose mean each number is; the `divisor` is their
    number. The sum of the estimates of consecutive units estimates their total.

    Parameters
    ----------
    epsilon : int, Fraction or str
        The ε that is spent in any window: exact, above 0.
    window : int
        The number of consecutive units in which a person is protected. Default: 1.
    contribution : int
        The most events of one person that count in one unit. Default: 1.
    horizon : int, optional
        The last unit that is ever read; `horizon=window` is user level. Default: none.
    watch : int, Fraction or str
        The share of ε for the watch, between 0 and 1. Default: 0.3.
    caution : int, Fraction or str
        The κ above, at least 0. Default: 6.
    longest : int
        The most units in a group. Default: 1024.
    keep : int, Fraction or str
        The probability with which an event is in the sample that is watched. Less than 1 buys less
        noise for the same ε (`amplified`), and never pays (`best_keep`). Default: 1.

    Guarantee: event level, pure; :math:`(\varepsilon, w)` for any window. Proof: docs/proofs/rg.md.
    Kept between units: the last release and the sizes of the open groups; in the gate, their raw
    sums.

    >>> mechanism = RetroactiveGrouping(epsilon=1, watch="0.25")
    >>> mechanism.guarantee, mechanism.watching.epsilon, mechanism.publishing.epsilon
    (Guarantee(epsilon=1, window=1), Fraction(1, 4), Fraction(3, 4))

    References
    ----------
    Chen, Shen and Jin, CIKM 2015.
    Departures: the threshold accounts for the noise of the watch, and the watch has more of ε. The
    paper has `watch="0.1", caution=0`; a constant stream is then published worse than by `laplace`.
    The watch samples nothing by default. Groups stop growing at `longest`.
    """

    name = "rg"
    paper = "Chen, Shen and Jin, CIKM 2015"
    proof = "rg.md"
    family = "event"
    State = OpenGroup
    by_key = True

    window: int = 1
    watch: Exact = "0.3"
    caution: Exact = 6
    longest: UnitCount = 1024
    keep: Exact = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, value in (("watch", self.watch), ("caution", self.caution), ("keep", self.keep)):
            object.__setattr__(self, name, exact(value, name=name))
        object.__setattr__(self, "longest", whole(self.longest, name="longest", least=1))
        if not 0 < exact(self.watch) < 1:
            raise ConfigurationError(
                f"watch must lie between 0 and 1, not {self.watch}.", parameter="watch"
            )
        if exact(self.caution) < 0:
            raise ConfigurationError(
                f"caution must not be negative, not {self.caution}.", parameter="caution"
            )
        if not 0 < exact(self.keep) <= 1:
            raise ConfigurationError(
                f"keep must lie above 0 and not above 1, not {self.keep}.", parameter="keep"
            )

    @cached_property
    def watching(self) -> Budget:
        """The charge of every unit's watch."""
        share = exact(self.watch)
        return (self.total // self.window) * share.numerator // share.denominator

    @cached_property
    def publishing(self) -> Budget:
        """The charge of every unit for its publication, in a group or alone."""
        return self.total // self.window - self.watching

    @cached_property
    def threshold(self) -> Fraction:
        """The squared distance from which a key has jumped, with the error of sampling."""
        return self._squared_noise(self.publishing) + exact(self.caution) * self._watch_noise

    @cached_property
    def _watch_noise(self) -> Fraction:
        share = exact(self.keep)
        worth = amplified(self.watching, keep=share, events=self.contribution)
        return self._squared_noise(worth) / share**2

    def _squared_noise(self, epsilon: Budget) -> Fraction:
        return 2 * (self.contribution / epsilon.epsilon) ** 2

    def start(self, domain: Domain) -> OpenGroup:
        if not self.watching or not self.publishing:
            raise ConfigurationError(
                f"watch={self.watch} leaves nothing to watch with, or nothing to publish with.",
                parameter="watch",
            )
        return OpenGroup(
            Released.nothing(domain.size, self.guarantee), np.zeros(domain.size, np.int64)
        )

    def step(self, state: OpenGroup, unit: Private, gate: Gate) -> tuple[OpenGroup, Released]:
        last, held = state.last, state.held
        if last.unit:
            jump = self._jumped(self.watched(unit, gate), last)
            gate.pots.drop(PUBLISH, where=jump)
            held = held * ~jump + 1  # products, because a mask without a pattern is slow to follow
            out = held >= np.minimum(2 * last.divisor, self.longest)
            out |= jump
        else:
            held = held + 1
            out = np.ones(len(held), np.bool_)
        gate.pots.hold(PUBLISH, unit, epsilon=self.publishing)
        fresh = gate.pots.pour(PUBLISH, where=out)
        repeated = ~out
        divisor = held * out + last.divisor * repeated
        held *= repeated
        start = gate.unit + 1 - held - divisor
        value = fresh.value + last.value * repeated
        released = replace(fresh, value=value, divisor=divisor, public={"start": start})
        return OpenGroup(released, held), released

    def watched(self, unit: Private, gate: Gate) -> FloatArray:
        """A noisy estimate of every count."""
        share = exact(self.keep)
        if share == 1:
            return gate.laplace(unit, epsilon=self.watching, label=WATCH).value.astype(np.float64)
        sample = gate.sampled(unit, keep=share, epsilon=self.watching, label=WATCH).value
        return sample * np.float64(1 / share)

    def _jumped(self, watched: FloatArray, last: Released) -> BoolArray:
        estimate = last.estimate
        distance = np.abs(watched - estimate)
        share = exact(self.keep)
        if share == 1:
            return distance >= math.sqrt(self.threshold)
        # A sample of N events with share π is off by N(1 − π)/π, squared and on average.
        sampling = float(exact(self.caution) * (1 - share) / share) * np.maximum(estimate, 0)
        return np.square(distance) >= float(self.threshold) + sampling
