r"""What all views of one stream cost together, in the stream's own small units.

A stream's promise (ε, w) is about any w consecutive small units. Each view v has a ledger of its
own, in its own, perhaps larger units, for windows of k_v of them. The joint cost of the window that
ends with small unit u is

.. math:: J(u) = \sum_v t_v \cdot C_v(b_v(u))

with b_v(u) the unit of the view that u lies in, C_v(b) the cost of the view's window of k_v units
that ends with its unit b, and t_v how often that counts (`times`).

*Why this bounds the loss.* Let W be the small units u − w + 1 … u, and take away all that a person
did in W.

1. The units of a view that read anything of W are consecutive, the last of them is b_v(u), and
   there are at most k_v of them (docs/proofs/publisher.md, "Several views"). So
   they lie in the view's window that ends with b_v(u). A window's cost never falls when units are
   added to it: it is a sum of numbers, a maximum, and prices of runs that grow with what was asked
   and answered in it. So all that these units were charged is at most C_v(b_v(u)).
2. If the view's units are small ones, or the person goes from the whole stream, the bounded counts
   differ by the presence of one person in these units: one neighbour, t_v = 1. If the view's units
   are larger, bounding may choose other events of the person from the rest of a unit that W meets
   in part: first what was chosen goes, then the new choice comes, two neighbours one after the
   other, t_v = 2. For each, the probability of all that this view ever published changes by a
   factor of at most e to the power of what those units were charged (docs/proofs/ledger.md). That
   is t_v·C_v(b_v(u)).
3. The views draw noise of their own, and each looks at its own releases only. Given the data they
   are independent, the probability of all that was published is the product of theirs, and the
   factors multiply: e to the power of J(u) at most.

*What is not released yet.* If the view stands at an earlier unit T < b_v(u), the units of it that
meet W begin with b_v(u) − k_v + 1 > T − k_v + 1 or later, and those that were charged end with T.
So they lie in the view's window that ends with T, and that one counts. Before its first unit a view
costs nothing.

No window costs more than ε_v in the view's own ledger, so J(u) ≤ Σ t_v·ε_v = ε as long as each
ledger is kept. Here that is not assumed but computed, from recorded lines alone, in exact integers
of one quantum that divides all of the views'.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from penstock.budget.accountant import Account
from penstock.budget.grid import Grid
from penstock.core.arrays import IntArray
from penstock.core.errors import LedgerError
from penstock.core.exact import whole
from penstock.core.guarantee import Guarantee


@dataclass(frozen=True, kw_only=True)
class Part:
    """One view's account, its factor t_v, and `places[u - 1]`, the view's unit of small unit u."""

    account: Account
    times: int
    places: IntArray


@dataclass(frozen=True, kw_only=True)
class Joint:
    """The cost of all views together.

    `windows[u - 1]` is the cost, in quanta, of the window that ends with small unit u. `by_view`
    holds the part of each view. Quanta are Python's whole numbers, which have no limit.
    """

    guarantee: Guarantee
    quantum: Fraction
    by_view: Mapping[str, list[int]]
    windows: list[int]

    @property
    def worst(self) -> Fraction:
        """The highest cost of any window."""
        return max(self.windows, default=0) * self.quantum

    @property
    def kept(self) -> bool:
        """Whether no window cost more than was promised."""
        return self.worst <= self.guarantee.epsilon

    def window(self, unit: int, view: str | None = None) -> Fraction:
        """The cost of the window that ends with this small unit; of one view, if one is named."""
        costs = self.windows if view is None else self.by_view[view]
        if not 1 <= unit <= len(costs):
            raise IndexError(f"unit {unit} is not in 1..{len(costs)}.")
        return costs[unit - 1] * self.quantum

    @property
    def first_above(self) -> int | None:
        """The first small unit whose window cost more than was promised."""
        return next(
            (
                unit
                for unit, cost in enumerate(self.windows, 1)
                if cost * self.quantum > self.guarantee.epsilon
            ),
            None,
        )


def joint(parts: Mapping[str, Part], guarantee: Guarantee) -> Joint:
    """Add up what the views of one stream cost, for every small unit.

    Two views, one of single units with half of ε = 1 in any 2 of them, one of 3 units each with the
    other half, counted twice:

    >>> from penstock.budget.accountant import account
    >>> from penstock.budget.ledger import Line
    >>> small, large = Guarantee("1/2", 2), Guarantee("1/4", 2)
    >>> quarter = 2**25  # of a promise of two units, in quanta: there are 2**26 in all of it
    >>> lines = [Line(unit, "spend", "publish", quarter, quarter) for unit in range(1, 5)]
    >>> fine, coarse = account(lines, small), account(lines[:1], large)
    >>> found = joint({
    ...     "fine": Part(account=fine, times=1, places=np.array([1, 2, 3, 4])),
    ...     "coarse": Part(account=coarse, times=2, places=np.array([1, 1, 1, 2])),
    ... }, Guarantee("1", 2))
    >>> [str(found.window(unit)) for unit in (1, 2, 3, 4)], found.kept
    (['1/2', '3/4', '3/4', '3/4'], True)
    """
    if guarantee.delta or any(part.account.guarantee.delta for part in parts.values()):
        raise LedgerError(
            "what views with a delta cost does not add up: such a mechanism stands alone."
        )
    lengths = {len(part.places) for part in parts.values()}
    if len(lengths) != 1:
        raise LedgerError("every view must be told where all the small units lie.")
    quanta = {
        name: Grid.of(part.account.guarantee).quantum * whole(part.times, name="times", least=1)
        for name, part in parts.items()
    }
    quantum = _common(list(quanta.values()))
    by_view = {name: _costs(part, int(quanta[name] / quantum)) for name, part in parts.items()}
    return Joint(
        guarantee=guarantee,
        quantum=quantum,
        by_view=by_view,
        windows=[sum(costs) for costs in zip(*by_view.values(), strict=True)],
    )


def _common(quanta: list[Fraction]) -> Fraction:
    """The largest quantum that all of these are multiples of."""
    below = math.lcm(*(each.denominator for each in quanta))
    return Fraction(math.gcd(*(int(each * below) for each in quanta)), below)


def _costs(part: Part, factor: int) -> list[int]:
    """The cost of this view's window for each small unit, in common quanta."""
    places, released = part.places, len(part.account.windows)
    if places.size and (places[0] < 1 or (np.diff(places) < 0).any()):
        raise LedgerError(
            "the units of a view must follow one another as the small ones do, from 1 on."
        )
    costs: list[Any] = [0, *(int(cost) * factor for cost in part.account.windows)]
    return [costs[place] for place in np.minimum(places, released).tolist()]
