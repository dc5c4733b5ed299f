"""`tide` with blocks that depend on raw counts, or with a front that nobody pays for."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from penstock.budget.grid import Budget
from penstock.core.arrays import BoolArray, IntArray
from penstock.core.private import Private, unseal
from penstock.lab.audit.flawed.variant import Unchecked, Variant, stream
from penstock.lab.audit.model import Pair
from penstock.private.gate import Gate
from penstock.private.mechanisms.tide import Tide, TideState


@dataclass(frozen=True, kw_only=True)
class ClosesOnCounts(Unchecked, Tide):
    """`tide` that ends the block of a key in which somebody is.

    The sums are noisy, but when blocks end shows the counts without noise.
    """

    name = "tide_closes_on_counts"

    def closes(self, state: TideState, held: IntArray, unit: Private, gate: Gate) -> BoolArray:
        return super().closes(state, held, unit, gate) | (unseal(unit) > 0)


@dataclass(frozen=True, kw_only=True)
class FrontForNothing(Unchecked, Tide):
    """`tide` whose first unit has all of ε, and later units a full share: a window costs more."""

    name = "tide_front_for_nothing"

    def budget(self, unit: int) -> Budget:
        return self.total if unit <= self.period else super().budget(self.window + 1)


_PAUSE = stream([1000, 0], [1000, 0], [1000, 0], [1000, 0], [1000, 0], [1000, 0])
_SOMEBODY = np.zeros_like(_PAUSE)
_SOMEBODY[3, 1] = 1  # the block of the second key is open in 19 of 20 runs

TIDE_FLAWS: tuple[Variant, ...] = (
    Variant(
        "tide_closes_on_counts",
        lambda: ClosesOnCounts(epsilon=1, window=2, share_total=0),
        Fraction(1),
        2,
        (Pair("somebody in an open block", _PAUSE + _SOMEBODY, _PAUSE),),
        parent=lambda: Tide(epsilon=1, window=2, share_total=0),
        runs=200,
    ),
    Variant(
        "tide_front_for_nothing",
        lambda: FrontForNothing(epsilon=2, window=3, share_total=0),
        Fraction(2),
        3,
        (Pair("a person in every unit", stream([1], [1], [1]), stream([0], [0], [0])),),
        parent=lambda: Tide(epsilon=2, window=3, share_total=0),
        runs=4_000,
    ),
)
