"""Published forms that are not private, under a ledger that lets them lose what they lose, for figures that mark them so."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from penstock.core.exact import exact
from penstock.core.guarantee import Guarantee
from penstock.lab.audit.flawed.w_event import IndependentAbsorption as Audited

ROOM = 10_000
"""So many times the claimed ε may be spent. With G groups of keys (G + 1)/2 times are."""


@dataclass(frozen=True, kw_only=True)
class IndependentAbsorption(Audited):
    """`ba` with an independent instance for every `each` keys, as column partitioning was published.

    A person who moves collects one publication from every group (docs/proofs/grouped.md).
    """

    @cached_property
    def guarantee(self) -> Guarantee:
        return Guarantee(ROOM * exact(self.epsilon), self.window, self.contribution, self.intrusions(), horizon=self.horizon)
