"""`fixed`: publish every n-th unit with an equal share of the budget."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from functools import cached_property

from penstock.budget.grid import Budget
from penstock.core.domain import Domain
from penstock.core.durations import UnitCount
from penstock.core.errors import ConfigurationError
from penstock.core.exact import whole
from penstock.core.private import Private
from penstock.core.released import Released
from penstock.private.gate import Gate
from penstock.private.histograms.base import Histogram, part, publish
from penstock.private.histograms.plain import Plain
from penstock.private.mechanisms.base import WithDelta


@dataclass(frozen=True)
class LastRelease:
    """The last release."""

    last: Released


@dataclass(frozen=True, kw_only=True)
class Periodic(WithDelta[LastRelease]):
    """Publish one unit per `interval`, and repeat it in between."""

    State = LastRelease
    by_key = True

    histogram: Histogram = field(default=Plain())

    def __post_init__(self) -> None:
        super().__post_init__()
        part(self.histogram)
        if self.delta and not isinstance(self.histogram, Plain):
            raise ConfigurationError(
                "delta must be 0 unless histogram is Plain(): "
                f"{self.histogram!r} draws Laplace noise, which has no delta.",
                parameter="delta",
            )
        object.__setattr__(
            self, "by_key", isinstance(self.histogram, Plain)
        )  # others look at several keys at once

    @property
    @abstractmethod
    def interval(self) -> int:
        """The number of units from one publication to the next."""

    @cached_property
    def share(self) -> Budget:
        """The charge of each publication."""
        return self.total // -(-self.window // self.interval)

    def start(self, domain: Domain) -> LastRelease:
        return LastRelease(Released.nothing(domain.size, self.guarantee))

    def step(self, state: LastRelease, unit: Private, gate: Gate) -> tuple[LastRelease, Released]:
        if gate.unit % self.interval != 1 % self.interval:
            return state, gate.repeat(state.last)
        fresh = publish(self.histogram, unit, self.share, gate)
        return LastRelease(fresh), fresh


@dataclass(frozen=True, kw_only=True)
class FixedSampling(Periodic):
    r"""Publish every n-th unit with an equal share of the budget, and repeat it in between.

    With :math:`I` = `every`, units 1, I + 1, 2I + 1, … are published with
    :math:`\varepsilon/\lceil w/I\rceil` each; with a δ, :math:`\rho` takes the place of
    :math:`\varepsilon`. `every=1` is `uniform`, `every=window` is `sample`.

    Parameters
    ----------
    epsilon : int, Fraction or str
        The ε that is spent in any window: exact, above 0.
    window : int
        The number of consecutive units in which a person is protected.
    contribution : int
        The most events of one person that count in one unit. Default: 1.
    horizon : int, optional
        The last unit that is ever read; `horizon=window` is user level. Default: none.
    delta : int, Fraction or str
        The δ of the promise. Above 0, noise is Gaussian. Default: 0, a pure promise.
    every : int
        The number of units from one publication to the next. Default: 10.
    histogram : Histogram
        The method that releases a unit. Default: `Plain()`, noise on every count.

    Guarantee: w-event, pure or with a δ; user level with `horizon=window`. Proof:
    docs/proofs/sample.md.
    Kept between units: the last release.

    >>> FixedSampling(epsilon="1", window=24, every=10).share.epsilon
    Fraction(1, 3)

    References
    ----------
    Li, Xiong, Jiang, Liu, CIKM 2015, section 3.
    """

    name = "fixed"
    paper = "Li et al., CIKM 2015, section 3"
    proof = "sample.md"
    family = "user"

    every: UnitCount = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "every", whole(self.every, name="every", least=1))

    @property
    def interval(self) -> int:
        return min(self.every, self.window)
