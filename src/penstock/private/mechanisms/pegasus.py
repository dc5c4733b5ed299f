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
from penstock.private.mechanisms.grouper import FINENESS, LONGEST, STABILITY, deviations, price_of
from penstock.private.mechanisms.smoothers import SMOOTHERS, Means, Medians, Shrinking, Smoother

_MOST = 2**60
"""A group whose noisy counts have a larger sum ends, so that one more always fits into int64."""


@dataclass(frozen=True)
class PegasusState:
    """Where each key's group began, whether it is over, its noisy counts and the smallest budget
    among them: all public.
    """

    start: IntArray
    over: BoolArray
    smoothing: Means | Shrinking | Medians
    least: IntArray

    @classmethod
    def nothing(
        cls, size: int, *, smoother: Smoother, perturb: Budget, sensitivity: int
    ) -> PegasusState:
        """Before the first unit. `perturb` is the perturber's usual budget; only speed depends on
        it.
        """
        smoothing = smoothers.start(
            smoother, size, scale=perturb.into(sensitivity) if perturb else 1
        )
        return cls(
            np.zeros(size, np.int64), np.ones(size, np.bool_), smoothing, np.zeros(size, np.int64)
        )


def threshold_of(theta: Exact, group: Budget, *, sensitivity: int) -> int:
    """θ = theta·L/ε_g for a grouper that spends `group`, on the grid on which deviations are
    compared.
    """
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
    """One unit of every number in `unit`: perturb it, ask whether it fits its group, smooth the
    group.

    Charges `perturb` under "publish" and at most `group` under "group", both with the suffix.
    Numbers whose `perturb` is 0 are grouped but not perturbed; what is released of them comes from
    the other units of their group, if there are any. With `read`, the others' groups go on as if
    this unit had not been: they are neither read nor charged, and must not be perturbed.
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
    over = broken | (state.over & ~opens) | (gate.unit - start >= LONGEST - 1)
    if isinstance(smoothing, Means):
        over |= np.abs(smoothing.total) > _MOST
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
    scale :math:`1/\varepsilon_p`. Per key, a unit joins the open group while the group's deviation
    from its mean, :math:`\sum|c_i-\bar c|` with this unit in it, plus noise of scale
    :math:`8/\varepsilon_g`, is below :math:`\theta` = `theta` :math:`/\varepsilon_g` plus noise of
    scale :math:`4/\varepsilon_g`, drawn once a group. The unit that breaks a group stands alone.
    What is released is the median (or mean, or James-Stein's estimate) of the noisy counts of the
    unit's group so far. `public["noisy"]` has the noisy counts, `public["start"]` where each group
    began.

    Guarantee: event level, pure; :math:`(\varepsilon, w)` for any window. Proof:
    docs/proofs/pegasus.md. Kept between units: the counts of the open groups and their noisy
    thresholds, in the gate; the groups' noisy counts.

    >>> from fractions import Fraction
    >>> mechanism = Pegasus(epsilon="0.1")
    >>> mechanism.guarantee, mechanism.perturber.epsilon <= Fraction("0.08")
    (Guarantee(epsilon=1/10, window=1), True)

    References
    ----------
    Chen, Machanavajjhala, Hay, Miklau, CCS 2017, section 3.
    Departures: noise is discrete and deviations are rounded down to parts of 1/256, which needs no
    more noise; `theta` is 60 by default, not 5, with which groups stay short; groups end after
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
        """What the perturber spends in every unit."""
        return self.grid.floor((self.total // self.window).epsilon * exact(self.perturb))

    @cached_property
    def grouper(self) -> Budget:
        """What the grouper spends in every unit."""
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
