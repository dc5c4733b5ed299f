"""`pegasus`: perturb, group, smooth."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from penstock.budget.grid import Budget, Budgets
from penstock.core.arrays import BoolArray, IntArray
from penstock.core.domain import Domain
from penstock.core.errors import ConfigurationError
from penstock.core.exact import Exact, exact, positive
from penstock.core.private import Private
from penstock.core.released import Released, Scale
from penstock.private.gate import Gate
from penstock.private.mechanisms import smoothers
from penstock.private.mechanisms.base import Mechanism
from penstock.private.mechanisms.grouper import (
    FINENESS,
    MAX_GROUP_UNITS,
    STABILITY,
    deviations,
    price_of,
)
from penstock.private.mechanisms.smoothers import SMOOTHERS, Means, Medians, Shrinking, Smoother

_MAX_GROUP_SUM = 2**60
"""A group whose noisy counts have a larger sum ends, so that one more always fits into int64."""


@dataclass(frozen=True)
class PegasusState:
    """The start of each key's group, whether it is over, and its noisy counts: all public."""

    start: IntArray
    over: BoolArray
    smoothing: Means | Shrinking | Medians
    least: IntArray

    @classmethod
    def nothing(
        cls, size: int, *, smoother: Smoother, perturb: Budget, sensitivity: int
    ) -> PegasusState:
        """The state before the first unit. Only speed depends on `perturb`, the usual budget."""
        smoothing = smoothers.start(
            smoother, size, scale=perturb.into(sensitivity) if perturb else 1
        )
        return cls(
            np.zeros(size, np.int64), np.ones(size, np.bool_), smoothing, np.zeros(size, np.int64)
        )


def threshold_of(theta: Exact, group: Budget, *, sensitivity: int) -> int:
    """θ = theta·L/ε_g for a grouper that spends `group`, in the parts that deviations have."""
    share = exact(theta)
    price = price_of(group)
    paid = price.threshold + price.question * 2
    return Budget(paid.quanta * share.denominator, paid.grid).into(
        FINENESS * share.numerator * sensitivity
    )


def advance(
    state: PegasusState,
    unit: Private,
    gate: Gate,
    *,
    perturb: Budget | Budgets,
    group: Budget,
    threshold: int,
    suffix: str = "",
    read: BoolArray | None = None,
) -> tuple[PegasusState, Released]:
    """Take one unit: perturb each number, ask whether it fits its group, smooth the group.

    It charges `perturb` under "publish" and at most `group` under "group", both with the suffix.
    Numbers whose `perturb` is 0 are grouped but not perturbed. Their release comes from the other
    units of their group, if there are any. With `read`, the groups of other numbers go on as if
    this unit had not been. Those numbers are neither read nor charged, and must not be perturbed.
    """
    noisy = gate.laplace(unit, epsilon=perturb, label=f"publish{suffix}")
    price = price_of(group)
    opens = state.over if read is None else state.over & read
    joins = ~state.over if read is None else ~state.over & read
    run = f"group{suffix}"
    fold = partial(deviations, fresh=opens, where=read)
    deviation = gate.runs.keep(run, fold, unit, price=price, stability=STABILITY, where=read)
    broken = gate.runs.ask(run, deviation, threshold=threshold, price=price, where=joins)
    fresh = opens | broken
    start = np.where(fresh, gate.unit, state.start)

    parts = noisy.scale.parts
    where = np.ones(len(start), np.bool_) if isinstance(parts, int) else parts > 0
    smoothing = state.smoothing.add(noisy.value, fresh=fresh, where=where)
    value, divisor = smoothing.smoothed()
    least = state.least
    if not isinstance(parts, int):
        last = np.where(fresh, 0, least)
        least = np.where(where & ((last == 0) | (parts < last)), parts, last)
        parts = least
    over = broken | (state.over & ~opens) | (gate.unit - start >= MAX_GROUP_UNITS - 1)
    if isinstance(smoothing, Means):
        over |= np.abs(smoothing.total) > _MAX_GROUP_SUM
    if (over & ~broken).any():
        gate.runs.close(run, where=over)
    released = Released(
        unit=gate.unit,
        value=value,
        scale=Scale(noisy.scale.base, parts),
        guarantee=noisy.guarantee,
        private=noisy.private,
        repeated=noisy.repeated,
        divisor=divisor,
        layers=np.maximum(smoothing.length, 1),
        kind=smoothing.kind,
        public={"noisy": noisy.value, "start": start},
    )
    return PegasusState(start, over, smoothing, least), released


@dataclass(frozen=True, kw_only=True)
class Pegasus(Mechanism[PegasusState]):
    r"""Perturb every count, find out where the stream is stable, and smooth the noise there.

    With :math:`\varepsilon_p` = `perturb` :math:`\cdot\varepsilon` and
    :math:`\varepsilon_g=\varepsilon-\varepsilon_p`, every count gets discrete Laplace noise of
    scale :math:`1/\varepsilon_p`. Per key, a unit joins the open group while the group is stable.
    The group's deviation :math:`\sum|c_i-\bar c|` with this unit in it, plus noise of scale
    :math:`8/\varepsilon_g`, must be below :math:`\theta` = `theta` :math:`/\varepsilon_g` plus
    noise of scale :math:`4/\varepsilon_g`, drawn once per group. The unit that breaks a group
    stands alone. The release is the median, mean or James-Stein estimate of the noisy counts of the
    unit's group so far. `public["noisy"]` has the noisy counts, `public["start"]` the first unit of
    each group.

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
    perturb : int, Fraction or str
        The share of ε for the noisy counts, between 0 and 1. Default: 0.8.
    theta : int, Fraction or str
        The threshold of a group's deviation, in units of 1/ε_g. Default: 60.
    smoother : "median", "mean" or "james_stein"
        The estimate made of a group's noisy counts. Default: "median".

    Guarantee: event level, pure; :math:`(\varepsilon, w)` for any window. Proof:
    docs/proofs/pegasus.md.
    Kept between units: the groups' noisy counts; in the gate, the counts of the open groups and
    their noisy thresholds.

    >>> from fractions import Fraction
    >>> mechanism = Pegasus(epsilon="0.1")
    >>> mechanism.guarantee, mechanism.perturber.epsilon <= Fraction("0.08")
    (Guarantee(epsilon=1/10, window=1), True)

    References
    ----------
    Chen, Machanavajjhala, Hay, Miklau, CCS 2017, section 3.
    Departures: noise is discrete, and deviations are rounded down to parts of 1/256, which needs no
    more noise. `theta` is 60 by default; with the paper's 5, groups stay short. Groups end after
    2**22 units.
    """

    name = "pegasus"
    paper = "Chen et al., CCS 2017"
    proof = "pegasus.md"
    State = PegasusState
    family = "event"
    by_key = True

    window: int = 1
    perturb: Exact = "0.8"
    theta: Exact = 60
    smoother: Smoother = "median"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "perturb", positive(self.perturb, name="perturb"))
        object.__setattr__(self, "theta", positive(self.theta, name="theta"))
        if exact(self.perturb) >= 1:
            raise ConfigurationError(
                f"perturb must lie between 0 and 1, not be {self.perturb}.", parameter="perturb"
            )
        if self.smoother not in SMOOTHERS:
            raise ConfigurationError(
                f"smoother must be one of {', '.join(SMOOTHERS)}, not {self.smoother!r}.",
                parameter="smoother",
            )

    @cached_property
    def perturber(self) -> Budget:
        """The charge of every unit for its noisy counts."""
        return self.grid.floor((self.total // self.window).epsilon * exact(self.perturb))

    @cached_property
    def grouper(self) -> Budget:
        """The charge of every unit for its question."""
        return self.total // self.window - self.perturber

    @cached_property
    def threshold(self) -> int:
        """θ, in parts of 1/256."""
        return threshold_of(self.theta, self.grouper, sensitivity=self.contribution)

    def start(self, domain: Domain) -> PegasusState:
        if not self.perturber or not price_of(self.grouper).question:
            raise ConfigurationError(
                f"perturb={self.perturb} leaves nothing for the perturber or the grouper.",
                parameter="perturb",
            )
        return PegasusState.nothing(
            domain.size,
            smoother=self.smoother,
            perturb=self.perturber,
            sensitivity=self.contribution,
        )

    def step(self, state: PegasusState, unit: Private, gate: Gate) -> tuple[PegasusState, Released]:
        return advance(
            state, unit, gate, perturb=self.perturber, group=self.grouper, threshold=self.threshold
        )
