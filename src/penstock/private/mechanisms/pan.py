"""`bd_pan` and `ba_pan`: the promise also covers a look into the mechanism's memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias, get_args

import numpy as np

from penstock.budget.grid import Budget
from penstock.core.cover import Groups
from penstock.core.domain import Domain
from penstock.core.errors import ConfigurationError
from penstock.core.exact import whole
from penstock.core.guarantee import Intrusion
from penstock.core.private import Private
from penstock.core.released import Released
from penstock.private.gate import Gate
from penstock.private.histograms.base import PUBLISH
from penstock.private.mechanisms.base import Incremental
from penstock.private.mechanisms.shares import DISTANCE, Absorbing, Halving, Sharing

IntrusionName: TypeAlias = Literal["between", "within", "announced"]


@dataclass(frozen=True)
class PanState:
    """The last release, the position of the budget rule, and the buckets of the distance."""

    last: Released
    position: int
    buckets: Groups


@dataclass(frozen=True, kw_only=True)
class PanPrivate(Sharing[PanState], Incremental[PanState]):
    """Counts stand in memory only on top of noise that was there first.

    Within a unit, absolute differences cannot be added up without raw counts. The distance is then
    the sum of |Σ(c − o)| over buckets of keys.
    """

    reserve: ClassVar[int]
    """An unannounced look must be survived: publications then have only this part of ε."""
    State = PanState

    intrusion: IntrusionName = "within"
    buckets: int = 32

    def __post_init__(self) -> None:
        if self.intrusion not in get_args(IntrusionName):
            raise ConfigurationError(
                f"intrusion must be 'between', 'within' or 'announced', not {self.intrusion!r}.",
                parameter="intrusion",
            )
        object.__setattr__(self, "buckets", whole(self.buckets, name="buckets", least=1))
        super().__post_init__()

    def intrusions(self) -> Intrusion:
        return Intrusion[self.intrusion.upper()]

    @property
    def in_parts(self) -> bool:
        return self.intrusion != "between"

    @property
    def announced(self) -> bool:
        return self.guarantee.intrusion.announced

    def budgets(self, size: int) -> tuple[Budget, Budget]:
        watch, pool = super().budgets(size)
        return watch, pool if self.announced else self.total // self.reserve

    def start(self, domain: Domain) -> PanState:
        self.plan(domain.size)  # refuses a domain that the budget cannot serve
        buckets = Groups.from_labels(domain.ranks % min(self.buckets, domain.size))
        return PanState(Released.nothing(domain.size, self.guarantee), 1, buckets)

    def begin(self, state: PanState, gate: Gate) -> None:
        offer = self.plan(len(state.last.value)).shares.offer(state.position, gate)
        if not offer:
            return  # whatever arrives in this unit is not counted anywhere
        if self.in_parts:
            watch = self.plan(len(state.last.value)).watch
            gate.counters.prime(
                DISTANCE,
                epsilon=watch,
                sensitivity=self.contribution,
                size=state.buckets.number,
                exposed=None,
            )
        size = len(state.last.value)
        gate.counters.prime(
            PUBLISH,
            epsilon=offer,
            sensitivity=self.contribution,
            size=size,
            exposed=not self.announced,
        )

    def feed(self, state: PanState, part: Private, gate: Gate) -> None:
        if gate.counters.primed(PUBLISH) is not None:
            gate.counters.count(PUBLISH, part)
            if self.in_parts:
                gate.counters.count(DISTANCE, part.sums(state.buckets))

    def step(self, state: PanState, unit: Private, gate: Gate) -> tuple[PanState, Released]:
        offer = gate.counters.primed(PUBLISH)
        if offer is None:
            return state, gate.repeat(state.last)
        self.feed(state, unit, gate)
        forced = gate.counters.disturbed
        if (
            self._distance(state, unit, gate)
            > offer.into(len(state.last.value) * self.contribution)
            or forced
        ):
            fresh = self._publish(gate)
            shares = self.plan(len(fresh.value)).shares
            return PanState(fresh, shares.after(state.position, gate, offer), state.buckets), fresh
        gate.counters.forget(PUBLISH)
        return state, gate.repeat(state.last)

    def _publish(self, gate: Gate) -> Released:
        """The counter, with fresh noise if somebody may have looked into it before it was full."""
        return gate.counters.read(PUBLISH, again=self.in_parts)

    def _distance(self, state: PanState, unit: Private, gate: Gate) -> int:
        watch = self.plan(len(state.last.value)).watch
        if not self.in_parts:
            return gate.laplace(
                unit.distance(state.last.value), epsilon=watch, label=DISTANCE
            ).number
        noisy = gate.counters.read(DISTANCE, again=True).value - state.buckets.sums(
            state.last.value
        )
        # |X + Y| of two Laplace variables of scale s has mean 3s/2: what the noise alone adds to
        # the distance.
        from_noise = (watch * 2).into(3 * state.buckets.number * self.contribution)
        return int(np.abs(noisy).sum()) - from_noise


_PAPER = "Kellaris et al., PVLDB 7(12), 2014, section 4.5"


@dataclass(frozen=True, kw_only=True)
class PanDistribution(PanPrivate):
    """Budget distribution that survives a look into its memory.

    Publications have a pool of ε/3 (ε/2 if looks are announced) and spend half of the pool that the
    window has left. One unpaid look, worth at most ε/6, then still fits into ε.

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
    intrusion : "between", "within" or "announced"
        The looks into the memory that are survived: one unannounced look between units; one at any
        moment; or any number that the run is told of (`run.intruded()`). Default: "within".
    buckets : int
        The number of buckets of keys in a distance. "between" measures keys, not buckets. Default:
        32.

    Guarantee: w-event and pan-private, pure. Proof: docs/proofs/pan.md.
    Kept between units: the last release, and no key of the noise. Within a unit: counts on top of
    noise. The guarantee covers the run's memory, freed memory included. It does not cover the
    caller's counts, nor the sources and the store of a publisher.

    >>> PanDistribution(epsilon="1", window=20).guarantee.intrusion.name
    'WITHIN'

    References
    ----------
    Kellaris et al., PVLDB 7(12), 2014, section 4.5.
    Departures: the paper spends a third of the rest of ε/2, which reaches 7/6 ε. Within a unit it
    uses the same noise in memory and in the output, so that their difference is exact.
    """

    name = "bd_pan"
    paper = _PAPER
    proof = "pan.md"
    sharing = Halving
    reserve = 3


@dataclass(frozen=True, kw_only=True)
class PanAbsorption(PanPrivate):
    """Budget absorption that survives a look into its memory.

    Shares are ε/4w (ε/2w if looks are announced). One unpaid look, worth at most ε/4, then still
    fits into ε. Data of nullified units are not counted anywhere.

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
    intrusion : "between", "within" or "announced"
        The looks into the memory that are survived: one unannounced look between units; one at any
        moment; or any number that the run is told of (`run.intruded()`). Default: "within".
    buckets : int
        The number of buckets of keys in a distance. "between" measures keys, not buckets. Default:
        32.

    Guarantee: w-event and pan-private, pure. Proof: docs/proofs/pan.md.
    Kept between units: the last release, and no key of the noise. Within a unit: counts on top of
    noise. The guarantee covers the run's memory, freed memory included. It does not cover the
    caller's counts, nor the sources and the store of a publisher.

    >>> PanAbsorption(epsilon="1", window=20, intrusion="between").guarantee.intrusion.name
    'BETWEEN'

    References
    ----------
    Kellaris et al., PVLDB 7(12), 2014, section 4.5.
    Departures: within a unit, fresh noise is added to the output (see `bd_pan`).
    """

    name = "ba_pan"
    paper = _PAPER
    proof = "pan.md"
    sharing = Absorbing
    reserve = 4
