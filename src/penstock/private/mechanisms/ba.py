"""`ba`: budget absorption."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.private.mechanisms.distance import ByDistance
from penstock.private.mechanisms.shares import Absorbing


@dataclass(frozen=True, kw_only=True)
class BudgetAbsorption(ByDistance):
    r"""Publish when the stream has moved; absorb the shares of the units that were skipped.

    Every unit has a share :math:`\varepsilon/2w`. A publication spends its own and those of the
    skipped units before it, :math:`A` in all and at most :math:`w`; the :math:`A-1` units after it
    are nullified: they repeat the release and are not even measured.

    Guarantee: w-event, pure. Proof: docs/proofs/ba.md.
    Kept between units: the last release, and the first unit whose share is still there. No raw
    data.

    >>> BudgetAbsorption(epsilon="1", window=120).guarantee
    Guarantee(epsilon=1, window=120)

    References
    ----------
    Kellaris et al., PVLDB 7(12), 2014, sections 4.3 and 4.5.
    Departures: before the first release, o = 0. Distances are whole numbers. A nullified unit's
    distance is not measured, because nothing could follow from it.
    """

    name = "ba"
    paper = "Kellaris et al., PVLDB 7(12), 2014, section 4.3"
    proof = "ba.md"
    sharing = Absorbing
