"""`bd_grouped` and `ba_grouped`: only groups of keys that have moved publish."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from penstock.budget.grid import Budget
from penstock.core.arrays import BoolArray, FloatArray, IntArray
from penstock.core.cover import Groups
from penstock.core.domain import Domain
from penstock.core.durations import UnitCount
from penstock.core.errors import ConfigurationError
from penstock.core.exact import Exact, exact, whole
from penstock.core.private import Private
from penstock.core.released import Released
from penstock.private.gate import Gate
from penstock.private.histograms.base import PUBLISH
from penstock.private.mechanisms.shares import DISTANCE, Absorbing, Halving, Shifting


@dataclass(frozen=True)
class GroupedState:
    """The last release, the budget rule's position, and the groups: all public."""

    last: Released
    position: int
    groups: Groups
    ranks: IntArray
    squares: FloatArray


@dataclass(frozen=True, kw_only=True)
class GroupedByDistance(Shifting[GroupedState]):
    """Keys in groups of similar size; the groups that have moved publish, all with the same budget.

    Groups of nearly equal numbers of keys are formed from the root mean square of the releases.
    """

    State = GroupedState

    groups: int = 20
    regroup: UnitCount = 0
    caution: Exact = "0.05"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "groups", whole(self.groups, name="groups", least=1))
        object.__setattr__(self, "regroup", whole(self.regroup, name="regroup", least=0))
        object.__setattr__(self, "caution", exact(self.caution, name="caution"))
        if exact(self.caution) < 0:
            raise ConfigurationError(
                f"caution must not be negative, not {self.caution}.", parameter="caution"
            )

    @property
    def distances(self) -> int:
        return self.groups

    def defaults(self, domain: Domain) -> Mapping[str, bool | int]:
        """Without a δ, no shift: ε/d is too little for a distance over a few of the d keys."""
        chosen = super().defaults(domain)
        return chosen if self.delta else {**chosen, "shift": False}

    @cached_property
    def _caution(self) -> Fraction:
        return exact(self.caution)

    def start(self, domain: Domain) -> GroupedState:
        self.plan(domain.size)  # refuses a domain that the budget cannot serve
        groups = Groups.from_ranks(domain.ranks, min(self.groups, domain.size))
        nothing = Released.nothing(domain.size, self.guarantee)
        return GroupedState(nothing, 1, groups, domain.ranks, np.zeros(domain.size))

    def step(self, state: GroupedState, unit: Private, gate: Gate) -> tuple[GroupedState, Released]:
        plan = self.plan(len(state.ranks))
        last, groups, position = state.last, state.groups, state.position
        out = None
        offer = plan.shares.offer(position, gate)
        if offer:
            distances = gate.noisy(
                unit.distances(self.compared(last), groups), budget=plan.watch, label=DISTANCE
            ).value
            moved = self._moved(distances, groups, offer)
            publishing = np.count_nonzero(moved)
            if publishing == groups.number:
                last = gate.noisy(unit, budget=offer, label=PUBLISH)
            elif publishing:
                where = moved[groups.of]
                last = gate.noisy(unit, budget=offer, label=PUBLISH, where=where).over(last, where)
            if publishing:
                out, position = last, plan.shares.after(position, gate, offer)
        squares = state.squares + np.square(last.value, dtype=np.float64)
        if gate.unit % (self.regroup or max(self.window, 20)) == 0:
            ranks = np.empty_like(state.ranks)
            ranks[np.lexsort((state.ranks, squares))] = np.arange(len(ranks))
            groups, squares = Groups.from_ranks(ranks, groups.number), np.zeros(len(ranks))
        return GroupedState(last, position, groups, state.ranks, squares), out or gate.repeat(last)

    def _moved(self, distances: IntArray, groups: Groups, offer: Budget) -> BoolArray:
        """The groups that publish: those above their noise, if their excess is large enough."""
        # What the noise of a publication is expected to add, to each group and to the fraction
        # `caution` of all keys.
        sizes, which = groups.distinct_sizes
        expected = np.array([offer.into(size * self.contribution) for size in sizes])[which]
        share = self._caution
        keys = len(groups.of) * self.contribution
        worth = offer.into(keys * share.numerator) // share.denominator
        excess = np.maximum(distances - expected, 0)
        return excess > 0 if np.add.reduce(excess) > worth else np.zeros(len(excess), np.bool_)


_PAPER = "Kellaris et al., PVLDB 7(12), 2014, section 4.5"


@dataclass(frozen=True, kw_only=True)
class GroupedDistribution(GroupedByDistance):
    """Budget distribution in which only the groups of keys that have moved publish.

    One distance per group is measured with ε/2w, because a person is in one group per unit. All
    groups that publish in a unit spend the same budget, and it is charged once.

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
    groups : int
        The number of groups. Default: 20.
    regroup : int
        The number of units after which groups are formed anew. Default: 0, every max(w, 20) units.
    caution : int, Fraction or str
        Groups publish if their excess is above this fraction of the noise of publishing every key.
        Default: 0.05.
    shift : bool, optional
        Whether to spend only ε/d on a unit's distance, with d keys, and the rest on publications.
        It needs at least 2w keys. With a δ, it spends ρ/d² for d keys per group, and needs √(2w)
        keys per group. Default: None, only with a δ, where groups have as many.
    cut : bool, optional
        Whether a distance takes negative numbers of the last release as 0. Default: None, yes.

    Guarantee: w-event, pure or with a δ. Proof: docs/proofs/grouped.md.
    Kept between units: the last release and public figures made from releases. No raw data.

    >>> GroupedDistribution(epsilon="1", window=40, groups=10).guarantee
    Guarantee(epsilon=1, window=40)

    References
    ----------
    Kellaris et al., PVLDB 7(12), 2014, section 4.5.
    Departures: the paper runs an independent instance per group. That is not w-event private for
    people who move between groups. Here one ledger serves all groups.
    """

    name = "bd_grouped"
    paper = _PAPER
    proof = "grouped.md"
    sharing = Halving


@dataclass(frozen=True, kw_only=True)
class GroupedAbsorption(GroupedByDistance):
    """Budget absorption in which only the groups of keys that have moved publish.

    As `bd_grouped`, with the shares of `ba`. Shares are absorbed and nullified for all groups,
    whichever group publishes.

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
    groups : int
        The number of groups. Default: 20.
    regroup : int
        The number of units after which groups are formed anew. Default: 0, every max(w, 20) units.
    caution : int, Fraction or str
        Groups publish if their excess is above this fraction of the noise of publishing every key.
        Default: 0.05.
    shift : bool, optional
        Whether to spend only ε/d on a unit's distance, with d keys, and the rest on publications.
        It needs at least 2w keys. With a δ, it spends ρ/d² for d keys per group, and needs √(2w)
        keys per group. Default: None, only with a δ, where groups have as many.
    cut : bool, optional
        Whether a distance takes negative numbers of the last release as 0. Default: None, yes.

    Guarantee: w-event, pure or with a δ. Proof: docs/proofs/grouped.md.
    Kept between units: the last release and public figures made from releases. No raw data.

    >>> GroupedAbsorption(epsilon="1", window=40).guarantee
    Guarantee(epsilon=1, window=40)

    References
    ----------
    Kellaris et al., PVLDB 7(12), 2014, section 4.5.
    Departures: as in `bd_grouped`.
    """

    name = "ba_grouped"
    paper = _PAPER
    proof = "grouped.md"
    sharing = Absorbing
