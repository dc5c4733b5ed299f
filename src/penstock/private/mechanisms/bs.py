"""`bs`: publish the mean of the last noisy counts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from penstock.budget.grid import Budget
from penstock.core.arrays import IntArray
from penstock.core.domain import Domain
from penstock.core.durations import UnitCount
from penstock.core.errors import ConfigurationError
from penstock.core.exact import whole
from penstock.core.private import Private
from penstock.core.released import Released
from penstock.private.gate import Gate
from penstock.private.mechanisms.base import Mechanism

MAX_SMOOTHED_UNITS = 4096
"""The most units in a mean: the sum of their noisy counts stays inside int64."""


@dataclass(frozen=True)
class SmoothingState:
    """The last noisy counts, the oldest first, and their sum: all released."""

    noisy: tuple[IntArray, ...]
    total: IntArray


@dataclass(frozen=True, kw_only=True)
class BackwardSmoothing(Mechanism[SmoothingState]):
    r"""Publish the mean of the last few noisy counts.

    Counts get discrete Laplace noise of scale :math:`1/\varepsilon` in every unit. The release of
    unit t is the mean of the noisy counts of units :math:`t-k+1` to t, with k = `over`. Its noise
    has a variance k times smaller, but a change is seen in full only after k units.
    `public["noisy"]` has the unit's own noisy counts.

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
    over : int
        The number of units k in a mean. Default: 8.

    Guarantee: event level, pure; :math:`(\varepsilon, w)` for any window. Proof: docs/proofs/bs.md.
    Kept between units: the last k noisy counts and their sum. No raw data.

    >>> BackwardSmoothing(epsilon="0.1", over=4).guarantee
    Guarantee(epsilon=1/10, window=1)
    >>> run = BackwardSmoothing(epsilon=1, over=3).run(["north", "south"])
    >>> [run.step([7, 0]).divisor for _ in range(5)]
    [1, 2, 3, 3, 3]

    References
    ----------
    Chen, Machanavajjhala, Hay and Miklau, CCS 2017, section 6.1, where it is a competitor.
    Departures: before unit k, the mean of all units so far.
    """

    name = "bs"
    paper = "Chen et al., CCS 2017, section 6.1"
    proof = "bs.md"
    family = "event"
    State = SmoothingState
    by_key = True

    window: int = 1
    over: UnitCount = 8

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "over", whole(self.over, name="over", least=1))
        if self.over > MAX_SMOOTHED_UNITS:
            raise ConfigurationError(
                f"over must be at most {MAX_SMOOTHED_UNITS}, not {self.over}.", parameter="over"
            )

    @cached_property
    def share(self) -> Budget:
        """The charge of every unit."""
        return self.total // self.window

    def start(self, domain: Domain) -> SmoothingState:
        return SmoothingState((), np.zeros(domain.size, np.int64))

    def step(
        self, state: SmoothingState, unit: Private, gate: Gate
    ) -> tuple[SmoothingState, Released]:
        fresh = gate.laplace(unit, epsilon=self.share, label="publish")
        noisy = fresh.value
        total, recent = state.total + noisy, (*state.noisy, noisy)
        if len(recent) > self.over:
            total -= recent[0]
            recent = recent[1:]
        units = len(recent)
        smooth = replace(fresh, value=total, divisor=units, layers=units, public={"noisy": noisy})
        return SmoothingState(recent, total), smooth
