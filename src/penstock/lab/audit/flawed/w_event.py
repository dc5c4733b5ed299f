"""The w-event mechanisms as published, and mutants of our own core."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from penstock.budget.grid import Budget, Budgets
from penstock.core.arrays import IntArray
from penstock.core.cover import Groups
from penstock.core.domain import Domain
from penstock.core.exact import exact
from penstock.core.private import Private, unseal
from penstock.core.released import Released, Scale
from penstock.lab.audit.flawed.variant import FAR, Unchecked, Variant, present, stream
from penstock.lab.audit.model import Look, Pair
from penstock.lab.audit.noise import LabNoise
from penstock.private.gate import Gate
from penstock.private.histograms.base import PUBLISH
from penstock.private.mechanisms.ba import BudgetAbsorption
from penstock.private.mechanisms.base import Mechanism
from penstock.private.mechanisms.bd import BudgetDistribution
from penstock.private.mechanisms.distance import DistanceState
from penstock.private.mechanisms.grouped import GroupedAbsorption, GroupedDistribution
from penstock.private.mechanisms.pan import PanDistribution
from penstock.private.mechanisms.shares import DISTANCE, Absorbing, Halving, Sharing
from penstock.private.mechanisms.uniform import NoState, Uniform

# -- independent instances per group of keys (Kellaris et al., section 4.5) ------------------------


@dataclass(frozen=True)
class Instances:
    """The last release and, per group, the spends of the last units and the position.

    The position of a group is the first unit whose share the group still has.
    """

    last: Released
    spent: IntArray
    positions: IntArray


@dataclass(frozen=True, kw_only=True)
class Independent(Unchecked, Sharing[Instances]):
    """An independent instance with its own budget per group of `each` keys, all in one step.

    Groups do not depend on each other, so an audit may take independent runs as further groups.
    """

    State = Instances
    by_key = True
    each: int = 8

    def start(self, domain: Domain) -> Instances:
        groups = domain.size // self.each
        nothing = Released.nothing(domain.size, self.guarantee)
        return Instances(
            nothing, np.zeros((self.window, groups), np.int64), np.ones(groups, np.int64)
        )

    def step(self, state: Instances, unit: Private, gate: Gate) -> tuple[Instances, Released]:
        watch, pool = self.budgets(0)
        groups = _blocks(len(state.last.value), self.each)
        spent = state.spent.copy()
        spent[gate.unit % self.window] = 0
        distances = gate.laplace(
            unit.distances(state.last.value, groups), epsilon=watch, label=DISTANCE
        ).value
        offers = self._offers(spent, state.positions, pool, gate)
        quantum = self.grid.quantum
        noise = (
            self.each
            * self.contribution
            * quantum.denominator
            // (np.maximum(offers, 1) * quantum.numerator)
        )
        moved = (offers > 0) & (distances > noise)
        where = np.repeat(moved, self.each)
        budgets = Budgets(np.repeat(np.where(moved, offers, 0), self.each), self.grid)
        fresh = gate.laplace(unit, epsilon=budgets, label=PUBLISH)
        last = fresh.over(state.last, where)
        spent[gate.unit % self.window] = np.where(moved, offers, 0)
        positions = np.where(moved, self._after(offers, pool, gate), state.positions)
        return Instances(last, spent, positions), last

    @abstractmethod
    def _offers(self, spent: IntArray, positions: IntArray, pool: Budget, gate: Gate) -> IntArray:
        """The amount that each group may spend, in quanta."""

    def _after(self, offers: IntArray, pool: Budget, gate: Gate) -> IntArray:
        return gate.unit + offers // (pool // self.window).quanta


@lru_cache(maxsize=4)
def _blocks(size: int, each: int) -> Groups:
    return Groups.from_labels(np.arange(size) // each)


@dataclass(frozen=True, kw_only=True)
class IndependentAbsorption(Independent):
    """`ba` with an independent instance per group."""

    name = "ba_independent_groups"
    sharing = Absorbing

    def _offers(self, spent: IntArray, positions: IntArray, pool: Budget, gate: Gate) -> IntArray:
        return (pool // self.window).quanta * np.clip(gate.unit - positions + 1, 0, self.window)


@dataclass(frozen=True, kw_only=True)
class IndependentDistribution(Independent):
    """`bd` with an independent instance per group."""

    name = "bd_independent_groups"
    sharing = Halving

    def _offers(self, spent: IntArray, positions: IntArray, pool: Budget, gate: Gate) -> IntArray:
        return np.asarray((pool.quanta - spent.sum(axis=0)) // 2, np.int64)


def _in_turn(window: int, each: int, rest: int) -> Pair:
    """`window` groups of `each` keys that leap one after the other.

    Group g rests until unit `rest` + g and leaps then. The person has an event in that unit.
    """
    units, keys = rest + window, window * each
    base, person = np.zeros((units, keys), np.int64), np.zeros((units, keys), np.int64)
    for group in range(window):
        base[rest + group :, group * each : (group + 1) * each] = FAR
        person[rest + group, group * each] = 1
    return Pair("every group leaps in its turn, and the person is there", base + person, base)


# -- pan-privacy -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Thirds(Halving):
    """Offer a third of the rest of ε/2 that the window has left."""

    @classmethod
    def of(cls, pool: Budget, total: Budget, window: int) -> Thirds:
        return cls(total // 2, total)

    def offer(self, position: int, gate: Gate) -> Budget:
        return (self.pool - gate.spent(PUBLISH)) // 3


@dataclass(frozen=True, kw_only=True)
class PanThird(Unchecked, PanDistribution):
    """Pan-private `bd` with a third of the rest, as published. Its loss reaches 7/6 ε."""

    name = "bd_pan_third"
    sharing = Thirds


@dataclass(frozen=True, kw_only=True)
class PanReusedNoise(PanDistribution):
    """`bd_pan` with the same noise in memory and in the output, so their difference is exact."""

    name = "bd_pan_reused_noise"

    def _publish(self, gate: Gate) -> Released:
        return gate.counters.read(PUBLISH, again=False)


@dataclass(frozen=True, kw_only=True)
class PanKeptKey(PanDistribution):
    """`bd_pan` over a noise source that keeps one AES-CTR key from unit to unit.

    Counter mode runs backwards. One look between units gives all noise of the past.
    """

    name = "bd_pan_kept_key"


def _looked_at_after() -> Pair:
    """The person has one event in unit 1, and a look is taken after that unit."""
    base = np.full((2, 1), FAR)
    left = base.copy()
    left[0, 0] += 1
    return Pair("one event, and a look after its unit", left, base, Look(1, left[0], base[0], True))


def _looked_at_first(base: IntArray) -> Pair:
    """The person has events in every unit. A look is taken when the first unit is complete."""
    return Pair(
        "a person in every unit, the first looked into",
        base + 1,
        base,
        Look(1, base[0] + 1, base[0]),
    )


def _looked_into() -> Pair:
    """The person has one event in unit 1, after the look."""
    base = np.full((2, 1), FAR)
    left, right = base.copy(), base.copy()
    left[0, 0] += 1
    return Pair("one event after the look", left, right, Look(1, base[0], base[0]))


# -- noise -----------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class FloatLaplace(Mechanism[NoState]):
    """NumPy's floating-point Laplace noise on counts, the usual first attempt."""

    name = "float_laplace"
    State = NoState
    by_key = True

    def start(self, domain: Domain) -> NoState:
        return NoState()

    def step(self, state: NoState, unit: Private, gate: Gate) -> tuple[NoState, Released]:
        counts = unseal(unit)
        scale = Fraction(self.window * self.contribution) / exact(self.epsilon)
        seed = np.abs(
            gate._maker.noise.laplace(Fraction(2**40), 4, unit=gate.unit, label="seed")
        )  # so that an audit repeats itself
        value: Any = counts + np.random.default_rng(seed.tolist()).laplace(
            0.0, float(scale), len(counts)
        )
        return state, Released(gate.unit, value, Scale(scale), self.guarantee, False)


# -- mutants of the core ---------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class HalfSensitivity(Uniform):
    """`uniform` with noise for half of the events that a person may have."""

    name = "half_sensitivity"

    def step(self, state: NoState, unit: Private, gate: Gate) -> tuple[NoState, Released]:
        return super().step(state, Private(unseal(unit), sensitivity=self.contribution // 2), gate)


@dataclass(frozen=True, kw_only=True)
class ForgetfulLedger(Unchecked, BudgetDistribution):
    """`bd` with a ledger that forgets the line of every publication."""

    name = "forgetful_ledger"

    def step(
        self, state: DistanceState, unit: Private, gate: Gate
    ) -> tuple[DistanceState, Released]:
        after = super().step(state, unit, gate)
        gate._ledger._label_sums.pop(PUBLISH, None)
        gate._ledger._labels.pop(PUBLISH, None)
        return after


@dataclass(frozen=True, kw_only=True)
class ShortWindow(Uniform):
    """`uniform` with shares for w − 1 units, claimed for w: a unit is forgotten too early."""

    name = "short_window"


@dataclass(frozen=True)
class NonNullifyingAbsorption(Absorbing):
    """A budget rule that absorbs shares and nullifies no unit."""

    def after(self, position: int, gate: Gate, spent: Budget) -> int:
        return gate.unit + 1


@dataclass(frozen=True, kw_only=True)
class NoNullifying(Unchecked, BudgetAbsorption):
    """`ba` that also publishes in units that should be nullified."""

    name = "ba_no_nullifying"
    sharing = NonNullifyingAbsorption


_ONE = Fraction(1)
_LEAPS = stream([FAR], [0], [FAR], [0], [FAR], [0])

W_EVENT: tuple[Variant, ...] = (
    Variant(
        "ba_independent_groups",
        lambda: IndependentAbsorption(epsilon=1, window=3, each=8),
        _ONE,
        3,
        (_in_turn(3, 8, 2),),
        parent=lambda: GroupedAbsorption(epsilon=1, window=3, groups=3),
        runs=100_000,
    ),
    Variant(
        "bd_independent_groups",
        lambda: IndependentDistribution(epsilon=Fraction(3, 2), window=6, each=12),
        Fraction(3, 2),
        6,
        (_in_turn(6, 12, 0),),
        parent=lambda: GroupedDistribution(epsilon=Fraction(3, 2), window=6, groups=6),
        runs=160_000,
    ),
    Variant(
        "bd_pan_third",
        lambda: PanThird(epsilon=1, window=6, intrusion="between"),
        _ONE,
        6,
        (_looked_at_first(stream([60], [60], [56], [52], [48], [44])),),
        parent=lambda: PanDistribution(epsilon=1, window=6),
        exact=True,
    ),
    Variant(
        "bd_pan_reused_noise",
        lambda: PanReusedNoise(epsilon=1, window=2, intrusion="within"),
        _ONE,
        2,
        (_looked_into(),),
        parent=lambda: PanDistribution(epsilon=1, window=2, intrusion="within"),
        runs=4_000,
    ),
    Variant(
        "bd_pan_kept_key",
        lambda: PanKeptKey(epsilon=1, window=2, intrusion="between"),
        _ONE,
        2,
        (_looked_at_after(),),
        parent=lambda: PanDistribution(epsilon=1, window=2, intrusion="between"),
        runs=400,
        noise=LabNoise,
    ),
    Variant(
        "float_laplace",
        lambda: FloatLaplace(epsilon=1, window=1),
        _ONE,
        1,
        (Pair("one event", stream([1]), stream([0])),),
        parent=lambda: Uniform(epsilon=1, window=1),
        runs=400_000,
    ),
    Variant(
        "half_sensitivity",
        lambda: HalfSensitivity(epsilon=1, window=1, contribution=2),
        _ONE,
        1,
        (present(stream([0]), 2),),
        parent=lambda: Uniform(epsilon=1, window=1, contribution=2),
    ),
    Variant(
        "forgetful_ledger",
        lambda: ForgetfulLedger(epsilon=1, window=6),
        _ONE,
        6,
        (present(_LEAPS),),
        parent=lambda: BudgetDistribution(epsilon=1, window=6),
        exact=True,
    ),
    Variant(
        "short_window",
        lambda: ShortWindow(epsilon=1, window=1),
        _ONE,
        2,
        (present(stream([0], [0])),),
        parent=lambda: Uniform(epsilon=1, window=2),
    ),
    Variant(
        "ba_no_nullifying",
        lambda: NoNullifying(epsilon=2, window=2),
        Fraction(2),
        2,
        (
            Pair(
                "a rest, then two units near the threshold",
                stream([0], [3], [7]),
                stream([0], [2], [6]),
            ),
        ),
        parent=lambda: BudgetAbsorption(epsilon=2, window=2),
        exact=True,
    ),
)
