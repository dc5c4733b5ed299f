"""The budget rules of the w-event family: distances have a fixed part, publications the rest."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np

from penstock.budget.grid import Budget
from penstock.core.arrays import IntArray
from penstock.core.domain import Domain
from penstock.core.errors import ConfigurationError
from penstock.core.released import Released
from penstock.private.gate import Gate
from penstock.private.histograms.base import PUBLISH
from penstock.private.mechanisms.base import Mechanism, WithDelta

S = TypeVar("S")

DISTANCE = "distance"
"""The label of every measured distance in the ledger."""

SIGNIFICANT_BITS = 5
"""Binary digits of a halved budget. At most 1/17 is given up, and noise tables are used again."""

_ZERO = np.zeros((), np.int64)

SMALLEST_SHARE = 10**6
"""A halved budget below ε divided by this publishes nothing."""


LEAST_WATCH = 64
"""With δ and `shift`, all distances of a window have at least ρ divided by this."""


class ShareRule(Protocol):
    """A rule for the budget of the next publication.

    Its `position` is public, and part of the mechanism's state.
    """

    def offer(self, position: int, gate: Gate) -> Budget:
        """The budget that a publication of this unit may spend; 0 if it must not publish."""
        ...

    def after(self, position: int, gate: Gate, spent: Budget) -> int:
        """The position after this unit has published with `spent`."""
        ...


@dataclass(frozen=True)
class Halving:
    """Half of the pool that the window has left (budget distribution)."""

    pool: Budget
    total: Budget

    @classmethod
    def of(cls, pool: Budget, total: Budget, window: int) -> Halving:
        return cls(pool, total)

    def offer(self, position: int, gate: Gate) -> Budget:
        left = self.pool.quanta - gate.spent(PUBLISH).quanta
        half = Budget(left // 2, self.pool.grid).rounded(SIGNIFICANT_BITS, of=self.total)
        return half * 0 if half.quanta * SMALLEST_SHARE < self.total.quanta else half

    def after(self, position: int, gate: Gate, spent: Budget) -> int:
        return position


@dataclass(frozen=True)
class Absorbing:
    """One share per unit, and those of the skipped units before it (budget absorption).

    `position` is the first unit whose share is unspent. Units before it are nullified.
    """

    share: Budget
    window: int

    @classmethod
    def of(cls, pool: Budget, total: Budget, window: int) -> Absorbing:
        if not pool // window:
            raise ConfigurationError(
                "the budget of one unit rounds to nothing: raise epsilon or shorten the window.",
                parameter="epsilon",
            )
        return cls(pool // window, window)

    def offer(self, position: int, gate: Gate) -> Budget:
        shares = gate.unit - position + 1
        return self.share * (min(shares, self.window) if shares > 0 else 0)

    def after(self, position: int, gate: Gate, spent: Budget) -> int:
        return gate.unit + spent.quanta // self.share.quanta


@dataclass(frozen=True)
class BudgetPlan:
    """The budget of a unit's distance, and the rule for publications: public and constant."""

    watch: Budget
    shares: ShareRule


@dataclass(frozen=True, kw_only=True)
class Sharing(Mechanism[S]):
    """A mechanism that measures every unit with a fixed budget and publishes some with the rest."""

    sharing: ClassVar[type[Halving] | type[Absorbing]]

    def budgets(self, size: int) -> tuple[Budget, Budget]:
        """For `size` keys: the budget of one distance, and the pool of a window's publications."""
        watch = self.total // (2 * self.window)
        return watch, self.total - watch * self.window

    def plan(self, size: int) -> BudgetPlan:
        plan = self._plans.get(size)
        if plan is None:
            watch, pool = self.budgets(size)
            plan = self._plans[size] = BudgetPlan(
                watch, self.sharing.of(pool, self.total, self.window)
            )
        return plan

    @cached_property
    def _plans(self) -> dict[int, BudgetPlan]:
        return {}


@dataclass(frozen=True, kw_only=True)
class Shifting(Sharing[S], WithDelta[S]):
    """`shift` spends only ε/d on a distance, with at least 2w keys; `cut` measures it from 0 up.

    With a δ, `shift` spends ρ/d² on a distance over d keys, with d² at least 2w, and no less than
    ρ/64w. That is as small beside the noise of a publication, which grows with 1/√ρ.
    """

    before: ClassVar[Mapping[str, Any]] = {"cut": False, "delta": 0}

    shift: bool | None = None
    cut: bool | None = None

    @property
    def distances(self) -> int:
        """The number of distances per unit, each over some of the keys."""
        return 1

    def defaults(self, domain: Domain) -> Mapping[str, bool | int]:
        return {"shift": domain.size // self.distances >= self._fewest_keys, "cut": True}

    @property
    def _fewest_keys(self) -> int:
        """The fewest keys with which `shift` spends at most half of the budget on distances."""
        return math.isqrt(2 * self.window - 1) + 1 if self.delta else 2 * self.window

    def compared(self, last: Released) -> IntArray:
        """The numbers that the distance of a unit is measured to: the last release, cut at 0."""
        return np.maximum(last.value, _ZERO) if self.cut else last.value

    def budgets(self, size: int) -> tuple[Budget, Budget]:
        if not self.shift:
            return super().budgets(size)
        keys = size // self.distances if self.delta else size
        if keys < self._fewest_keys:
            rule = "√(2·window), so {} keys per distance" if self.delta else "2·window = {} keys"
            raise ConfigurationError(
                f"shift needs at least {rule.format(self._fewest_keys)}, not {keys}.",
                parameter="shift",
            )
        watch = self.total // (min(keys**2, LEAST_WATCH * self.window) if self.delta else keys)
        if not watch:
            raise ConfigurationError(
                f"with shift, the distance's share of epsilon rounds to nothing for {size} keys.",
                parameter="shift",
            )
        return watch, self.total - watch * self.window
