"""Retroactive grouping with a sampled watch that adds its noise in the wrong place."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from penstock.core.arrays import FloatArray
from penstock.core.exact import exact
from penstock.core.private import Private, unseal
from penstock.lab.audit.flawed.variant import Unchecked, Variant, stream
from penstock.lab.audit.model import Pair
from penstock.private.amplification import amplified
from penstock.private.gate import Gate
from penstock.private.mechanisms.rg import WATCH, RetroactiveGrouping


@dataclass(frozen=True, kw_only=True)
class NoiseAfterDividing(Unchecked, RetroactiveGrouping):
    """`rg` with a watch that divides the sample by its share π first, and adds noise then.

    One event in the sample changes the estimate by 1/π, and the noise is made for a change of 1.
    """

    name = "rg_noise_after_dividing"

    def watched(self, unit: Private, gate: Gate) -> FloatArray:
        share = exact(self.keep)
        worth = amplified(self.watching, keep=share, events=unit.sensitivity)
        sample = gate._maker.noise.thin(unseal(unit), share, unit=gate.unit, label=WATCH)
        estimate = Private(
            sample * share.denominator // share.numerator, sensitivity=unit.sensitivity
        )
        return gate.laplace(estimate, epsilon=worth, label=WATCH).value.astype(float)


RG_FLAWS: tuple[Variant, ...] = (
    Variant(
        "rg_noise_after_dividing",
        lambda: NoiseAfterDividing(epsilon=2, window=1, watch="1/2", caution=2, keep="1/10"),
        Fraction(2),
        1,
        (Pair("nobody, then one event", stream([0], [1]), stream([0], [0])),),
        parent=lambda: RetroactiveGrouping(
            epsilon=2, window=1, watch="1/2", caution=2, keep="1/10"
        ),
    ),
)
