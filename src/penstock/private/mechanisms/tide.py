"""`tide`: sums over blocks of units, of another length for each key, and filters after the gate."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, ClassVar, get_args

import numpy as np

from penstock.budget.grid import Budget
from penstock.core.arrays import BoolArray, IntArray
from penstock.core.cover import ALL
from penstock.core.domain import Domain
from penstock.core.durations import UnitCount
from penstock.core.error_bounds import laplace_variance
from penstock.core.errors import ConfigurationError
from penstock.core.exact import Exact, exact, whole
from penstock.core.hierarchy import Hierarchy
from penstock.core.private import Private
from penstock.core.released import DEVIATION, Released
from penstock.filters.observation import FilterSettings, Observation, StreamKind
from penstock.filters.report import FINENESS, Estimate, Point, deviations, in_parts
from penstock.filters.tide import TideFilter
from penstock.private.gate import Gate
from penstock.private.mechanisms.base import WithDelta

BLOCKS, TOTAL = "blocks", "total"
SUMS, UNITS, TOTAL_UNITS = "sums", "units", "total_units"

EVENT_LEVEL_LONGEST = 1024
"""The default for `longest` at event level, where blocks are not limited by a window."""

LEAST_LONGEST, LEAST_DECISION = 8, 8
"""Blocks may have 8 units in the shortest window. Totals are looked at after 8 units or later."""

SHORT_STOCK_WINDOW = 24
"""A stock is read about once per window up to this one, and twice in a longer window."""

PHASE_SHARE, FEWEST_PHASES = 6, 4
"""The phases of two neighbouring readings of a stock differ by at least a sixth of a period, and
all readings together have at least 4 phases. Or all have one phase."""

FIRST, PROBES, READS = 3, 4, 100
"""If all readings of a stock would have one phase, some of each READS are late. After FIRST usual
pulses, they go around the period once in PROBES steps and show what happens in between."""

SHARE, SHARE_WITH_DELTA = Fraction(1, 10), Fraction(1, 25)
"""The defaults for `share_total`, without and with a δ."""

HARD_COUNT = 10**6
"""A count that moves far in the stream for audits."""

_ONE = np.ones(1, np.bool_)


@dataclass(frozen=True)
class UnitPrice:
    """The charges of a unit for counts and total, and the variances of the noise they buy.

    A charge of 0 buys nothing, and its variance is infinite.
    """

    counts: Budget
    total: Budget
    counts_noise: float
    total_noise: float


@dataclass(frozen=True)
class TideState:
    """The filter, and how many units are in each open block and each open total: all public.

    A step changes the arrays in place, because copies would take most of its time.
    """

    filter: TideFilter
    held: IntArray
    days: IntArray
    tree: Hierarchy | None = None


@dataclass(frozen=True, kw_only=True)
class Tide(WithDelta[TideState]):
    r"""Release block sums, long for quiet keys and short for busy ones, and a total of all keys.

    Unit t has a budget :math:`a_t`. The share α = `share_total` of it is for the total over all
    keys, the rest for the counts. Per key, consecutive units are a block. Each unit's count joins
    its key's open block and is paid for at once, and a block that is full is released as one sum,

    .. math:: y_k=\sum_{t\in\text{block}}c_{t,k}+DLap(1/((1-\alpha)a_t)).

    So the mean over a block of m units has m times less noise than one unit. Every key has block
    lengths of its own, for nothing: each count is in one block, and the ledger keeps the largest
    charge of any key. The total is released per unit, :math:`\sum_kc_{t,k}+DLap(1/(\alpha a_t))`,
    or as a sum over several days per phase of the shortest period if totals are small.

    A filter follows from these releases what all keys share, how each key moves, and its season
    (`penstock.filters`). It also chooses the length of each key's next block. Nothing is spent on
    that.

    With p the shortest period and β = `front`, if w ≥ 3p, the first p units have
    :math:`\beta\varepsilon/p` each, the rest of the first window
    :math:`(1-\beta)\varepsilon/(w-p)`, and later units :math:`\varepsilon/w`. Otherwise all have
    :math:`\varepsilon/w`. All blocks end where the budget changes. With contribution L, noise
    scales are L times as large.

    With a δ, noise is Gaussian, and every unit is released by itself with :math:`\rho/w`: a person
    who stays in one key changes the sum of a block by its length, and the price of Gaussian noise
    grows with the square of that. The filter averages afterwards.

    A stock, such as bikes docked, has no blocks and no total. It is read with
    :math:`\varepsilon/\lceil w/k\rceil` about once in k units: k = w up to w = 24, else ⌈w/2⌉, or
    a little more, so that readings have many phases of the shortest period. If they would all have
    one, a few are late and show others. With a δ, k = 1.

    Released numbers are estimates of the unit's counts. `variance` is the expected squared error
    and `interval` a range for the count, both as the filter believes. `public` has all that the
    filter saw: the sums of blocks that ended, their numbers of units (0 elsewhere), and the total.

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
    periods : tuple of int
        The seasons of the stream in units, such as (24, 168) for days and weeks of hours. Default:
        none.
    kind : "flow" or "stock"
        Whether counts are events of a unit, or what is present in it. Default: "flow".
    point : "median" or "mean"
        The number to report. Medians have the least absolute error. Means add up: use them for
        sums over keys or units. Default: "median".
    share_total : int, Fraction or str, optional
        The share α of the budget for totals, at least 0 and below 1. One key has no total.
        Default: 1/10; with a δ 1/25, because noise of a share α is only 1/√α times as large there.
    front : int, Fraction or str
        The share β of ε for the first period: 0, or from p/w up to below 1. With a δ, all units
        have equal shares. Default: 1/2.
    longest : int, optional
        The most units in a block. Default: the window, at least 8; 1024 if the window is 1.
    nodes : bool
        Whether to release all nodes of the hierarchy, with numbers that add up: means of keys that
        agree with the total, and their sums. Default: False, the keys alone.
    phases : bool, optional
        Whether readings of a stock show many phases of the shortest period, so that intervals know
        its season. Default: None, yes for a stock.

    Guarantee: w-event, pure or with a δ. Proof: docs/proofs/tide.md.
    Kept between units: the filter's beliefs and the lengths of open blocks; in the gate, the raw
    sums of open blocks and open totals. With a δ, no raw data.

    >>> mechanism = Tide(epsilon=1, window=48, periods=(12,))
    >>> mechanism.guarantee, mechanism.budget(1).epsilon, mechanism.budget(49).epsilon
    (Guarantee(epsilon=1, window=48), Fraction(1, 24), Fraction(1, 48))

    References
    ----------
    None: made for Penstock. Sums that are paid for when they are read, and released later, are
    those of `rg` (Chen, Shen and Jin, CIKM 2015).
    """

    before: ClassVar[Mapping[str, Any]] = {"delta": 0, "phases": False}

    name = "tide"
    paper = "none: made for Penstock"
    proof = "tide.md"
    State = TideState

    periods: tuple[UnitCount, ...] = ()
    kind: StreamKind = "flow"
    point: Point = "median"
    share_total: Exact | None = None
    front: Exact = "1/2"
    longest: UnitCount | None = None
    nodes: bool = False
    phases: bool | None = None

    def released(self, domain: Domain) -> Domain:
        return tree_of(domain).nodes if self.nodes else domain

    def __post_init__(self) -> None:
        super().__post_init__()
        given: Any = self.periods
        periods = (given,) if isinstance(given, int) else tuple(given)
        cleaned = {whole(period, name="periods", least=1) for period in periods}
        object.__setattr__(self, "periods", tuple(sorted(cleaned - {1})))
        for name, value, known in (
            ("kind", self.kind, get_args(StreamKind)),
            ("point", self.point, get_args(Point)),
        ):
            if value not in known:
                raise ConfigurationError(
                    f"{name} must be one of {', '.join(known)}, not {value!r}.", parameter=name
                )
        if not isinstance(self.nodes, bool):
            raise ConfigurationError(
                f"nodes must be True or False, not {self.nodes!r}.", parameter="nodes"
            )
        for name in ("share_total", "front"):
            if getattr(self, name) is None:
                continue
            share = exact(getattr(self, name), name=name)
            object.__setattr__(self, name, share)
            if not 0 <= share < 1:
                raise ConfigurationError(
                    f"{name} must be at least 0 and below 1, not {share}.", parameter=name
                )
        if self.longest is not None:
            object.__setattr__(self, "longest", whole(self.longest, name="longest", least=1))
        if self.has_front and exact(self.front) * self.window < self.period:
            raise ConfigurationError(
                f"front must be 0, or at least {self.period}/{self.window}, not {self.front}: "
                "the first period would have less than an even share.",
                parameter="front",
            )

    # -- the budget of each unit -------------------------------------------------------------------

    @cached_property
    def period(self) -> int:
        """The shortest period p; 1 if there is none."""
        return self.periods[0] if self.periods else 1

    @cached_property
    def has_front(self) -> bool:
        """Whether the first period has a larger budget."""
        wanted = self.kind == "flow" and bool(self.front) and not self.delta
        return wanted and self.window >= 3 * self.period

    def defaults(self, domain: Domain) -> Mapping[str, bool | int]:
        return {"phases": self.kind == "stock"}

    @cached_property
    def pulse(self) -> int:
        """How many units after a reading of a stock the next one usually is."""
        if self.delta:
            return 1
        least = self.window if self.window <= SHORT_STOCK_WINDOW else -(-self.window // 2)
        period = self.period
        for units in range(least, least + period) if self._shows_phases else ():
            phase = units % period
            away = min(phase, period - phase)
            spread = PHASE_SHARE * away >= period
            if not phase or (spread and FEWEST_PHASES * math.gcd(phase, period) <= period):
                return units
        return least

    @property
    def probes(self) -> bool:
        """Whether the usual readings of a stock have one phase, and some show others."""
        alike = self.period > 1 and self.pulse % self.period == 0
        return self._shows_phases and alike and not self.delta

    @property
    def _shows_phases(self) -> bool:
        return self.phases is not False  # None is decided when a run begins

    @property
    def longest_pulse(self) -> int:
        """The most units from a reading of a stock to the next one."""
        return self.pulse + (-(-self.period // PROBES) if self.probes else 0)

    def is_read(self, unit: int) -> bool:
        """Whether a unit of a stock is read. Readings are at least `pulse` units apart."""
        pulse, place = self.pulse, unit - 1
        if self.probes:
            place %= READS * pulse + self.period
            if place >= (FIRST + PROBES) * pulse + self.period:
                place -= self.period
            elif place >= FIRST * pulse:
                late = [probe * self.period // PROBES for probe in range(PROBES)]
                return place - FIRST * pulse in [
                    probe * pulse + units for probe, units in enumerate(late)
                ]
        return place % pulse == 0

    def budget(self, unit: int) -> Budget:
        """The charge of a unit for counts and total: 0 if it is not read."""
        first, second, later, unread = self._budgets
        if self.kind == "stock":
            return later if self.is_read(unit) else unread
        if not self.has_front or unit > self.window:
            return later
        return first if unit <= self.period else second

    @cached_property
    def _budgets(self) -> tuple[Budget, Budget, Budget, Budget]:
        """The budgets of the first period, of the rest of its window, of later units, and none."""
        none = Budget(0, self.grid)
        reads = -(-self.window // self.pulse) if self.kind == "stock" else self.window
        later = self.total // reads
        if not self.has_front:
            return later, later, later, none
        front = self.grid.floor(self.total.amount * exact(self.front))
        rest = (self.total - front) // (self.window - self.period)
        return front // self.period, rest, later, none

    @cached_property
    def total_share(self) -> Fraction:
        """The share α of the budget for totals."""
        if self.share_total is None:
            return SHARE_WITH_DELTA if self.delta else SHARE
        return exact(self.share_total)

    def has_total(self, keys: int) -> bool:
        """Whether totals are released."""
        return self.kind == "flow" and keys > 1 and bool(self.total_share)

    def price(self, unit: int, keys: int) -> UnitPrice:
        """The charges of a unit. Units have three prices at most."""
        budget = self.budget(unit)
        known = self._prices.get((budget.quanta, keys))
        if known is None:
            share = self.total_share if self.has_total(keys) else Fraction(0)
            total = budget * share.numerator // share.denominator
            counts = budget - total
            known = UnitPrice(counts, total, self._noise(counts), self._noise(total))
            self._prices[budget.quanta, keys] = known
        return known

    @cached_property
    def _prices(self) -> dict[tuple[int, int], UnitPrice]:
        return {}

    def _noise(self, budget: Budget) -> float:
        """The variance of noise with this budget: of rounded Gaussian noise if there is a δ."""
        if not budget:
            return float("inf")
        if self.delta:
            return float(self.contribution**2 / (2 * budget.amount)) + 1 / 12
        return float(laplace_variance(np.asarray(float(self.contribution / budget.epsilon))))

    def is_last(self, unit: int) -> bool:
        """Whether all blocks end with this unit: the next one has another price, or is not read."""
        changes = self.has_front and unit in (self.period, self.window)
        return changes or unit == self.horizon

    # -- one unit ----------------------------------------------------------------------------------

    def start(self, domain: Domain) -> TideState:
        keys = domain.size
        price = self.price(1 if self.kind == "stock" else self.window + 1, keys)  # of most units
        if not price.counts or (self.has_total(keys) and not price.total):
            raise ConfigurationError(
                f"share_total={self.total_share} leaves nothing for the total, or for the counts.",
                parameter="share_total",
            )
        settings = FilterSettings(
            keys=keys,
            periods=self.periods,
            kind=self.kind,
            longest=self.longest_block,
            first_length=self.period if self.has_front else 1,
            total_noise=price.total_noise if price.total else None,
            decide_at=tuple(sorted({max(self.period, LEAST_DECISION), self.window})),
            law="gaussian" if self.delta else "laplace",
            chooses_lengths=not self.delta,
        )
        return TideState(
            TideFilter.nothing(settings),
            np.zeros(keys, np.int64),
            np.zeros(self.period, np.int64),
            tree_of(domain) if self.nodes else None,
        )

    @property
    def longest_block(self) -> int:
        """The most units in a block."""
        if self.longest is not None:
            return self.longest
        return EVENT_LEVEL_LONGEST if self.window == 1 else max(self.window, LEAST_LONGEST)

    def step(self, state: TideState, unit: Private, gate: Gate) -> tuple[TideState, Released]:
        price = self.price(gate.unit, gate.keys).counts
        if not price:
            return self._unread(state, gate)
        total = self._total(state, unit, gate)
        held = state.held + 1
        close = self.closes(state, held, unit, gate)
        if self.delta:
            fresh = gate.gaussian(unit, rho=price, label=BLOCKS)
        else:
            gate.pots.hold(BLOCKS, unit, epsilon=price)
            fresh = gate.pots.pour(BLOCKS, where=close)
        units = held if close.all() else held * close
        public = {SUMS: fresh.value, UNITS: units}
        if total is not None:
            public[TOTAL], public[TOTAL_UNITS] = np.array([total[0]]), np.array([total[1]])
        estimate = state.filter.step(self._observation(gate.unit, public))
        np.subtract(held, units, out=state.held)
        return state, self._report(state, estimate, fresh, public)

    def closes(self, state: TideState, held: IntArray, unit: Private, gate: Gate) -> BoolArray:
        """The keys whose block ends with this unit: decided from releases alone."""
        if self.delta or self.is_last(gate.unit):
            return np.ones(len(held), np.bool_)
        return held >= state.filter.lengths

    def _total(self, state: TideState, unit: Private, gate: Gate) -> tuple[int, int] | None:
        """The total of this unit, or the sum of totals of its phase, and its number of units.

        None if nothing is released.
        """
        share, days = self.price(gate.unit, gate.keys).total, state.days
        if not share:
            return None
        total = unit.map(lambda counts: counts.sum(keepdims=True), stability=1, cover=ALL)
        if self.delta or not state.filter.days:
            if days.any():
                self._drop_totals(days, gate)
            return gate.number(total, budget=share, label=TOTAL), 1
        phase, found = (gate.unit - 1) % self.period, None
        gate.pots.hold(_pot(phase), total, epsilon=share)
        days[phase] += 1
        if days[phase] >= state.filter.days or self.is_last(gate.unit):
            found = gate.pots.pour(_pot(phase), where=_ONE).number, int(days[phase])
            days[phase] = 0
        if self.is_last(gate.unit):
            self._drop_totals(days, gate)
        return found

    def _drop_totals(self, days: IntArray, gate: Gate) -> None:
        """Drop the open totals of all phases."""
        for phase in days.nonzero()[0].tolist():
            gate.pots.drop(_pot(phase), where=_ONE)
        days[:] = 0

    def observation(self, released: Released) -> Observation:
        """What the filter sees of a release: a function of the release and public settings.

        Parameters
        ----------
        released : Released
            A release of this mechanism.
        """
        return self._observation(released.unit, released.public)

    def _observation(self, unit: int, public: Mapping[str, IntArray]) -> Observation:
        keys = len(public[SUMS])
        total, price = public.get(TOTAL), self.price(unit, keys)
        read = price if price.counts else self.price(1, keys)
        later = self.price(unit + 1, keys)
        return Observation(
            unit=unit,
            fresh=public[UNITS] > 0,
            sums=public[SUMS].astype(np.float64),
            units=public[UNITS],
            noise=read.counts_noise,
            next_noise=(later if later.counts else read).counts_noise,
            total=None if total is None else float(total[0]),
            total_units=1 if total is None else int(public[TOTAL_UNITS][0]),
            total_noise=0.0 if total is None else price.total_noise,
        )

    def _unread(self, state: TideState, gate: Gate) -> tuple[TideState, Released]:
        """A unit of a stock that is not read: the filter goes on by itself."""
        none = np.zeros(gate.keys, np.int64)
        empty = Released.nothing(gate.keys, gate.guarantee)
        empty = empty.again(gate.unit, private=gate.private)
        public = {SUMS: none, UNITS: none}
        estimate = state.filter.step(self._observation(gate.unit, public))
        return state, self._report(state, estimate, empty, public)

    def _report(
        self,
        state: TideState,
        estimate: Estimate,
        fresh: Released,
        public: Mapping[str, IntArray],
    ) -> Released:
        """The estimates as a release, in parts of 1/256."""
        if state.tree is None:
            point = estimate.point(self.point, counted=self.kind == "flow")
            value = in_parts(point, len(point))
            variance = estimate.error(point)
        else:
            point, shrink = estimate.with_total()
            value = state.tree.nodes.totals(in_parts(point, len(point)))
            known = estimate.variance.astype(np.float64)
            variance = np.concatenate(
                [np.add.reduceat(known[each.order], each.starts) for each in state.tree.levels]
            )
            variance -= np.square(variance) * shrink if shrink else 0.0
        return Released(
            fresh.unit,
            value,
            fresh.scale,
            fresh.guarantee,
            fresh.private,
            divisor=FINENESS,
            public={**public, DEVIATION: deviations(variance)},
            kind="filtered",
        )

    def hard_streams(self) -> Iterable[IntArray]:
        """A busy key in blocks of one unit beside quiet keys in growing blocks: a person may be in
        another one in each unit.
        """
        units = 2 * self.window + 3
        quiet = np.zeros((units, max(self.window, 2)), np.int64)
        quiet[::2, 0] = HARD_COUNT
        return (quiet,)


@lru_cache(maxsize=8)
def tree_of(domain: Domain) -> Hierarchy:
    """The hierarchy of a domain."""
    return Hierarchy.of(domain)


def _pot(phase: int) -> str:
    """The pot of one phase's totals."""
    return f"{TOTAL} {phase}"
