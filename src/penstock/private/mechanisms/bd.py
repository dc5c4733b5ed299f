"""`bd`: budget distribution."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.private.mechanisms.distance import ByDistance
from penstock.private.mechanisms.shares import Halving


@dataclass(frozen=True, kw_only=True)
class BudgetDistribution(ByDistance):
    r"""Publish when the stream has moved; spend half of the budget that the window has left.

    With last release :math:`o` and counts :math:`c` over :math:`d` keys, the distance
    :math:`\sum_j|c_j-o_j|` is measured with :math:`\varepsilon/2w`. If it exceeds the noise
    :math:`d/e` that a publication would carry, the unit is published. A publication has half of
    :math:`e`, the budget that the window has left of :math:`\varepsilon/2`.

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
    shift : bool, optional
        Whether to spend only ε/d on a unit's distance, with d keys, and the rest on publications.
        It needs at least 2w keys. Default: None, where there are 2w keys or more. With a δ, it
        spends ρ/d², and needs √(2w) keys.
    cut : bool, optional
        Whether a distance takes negative numbers of the last release as 0. Default: None, yes.

    Guarantee: w-event, pure or with a δ. Proof: docs/proofs/bd.md.
    Kept between units: the last release. No raw data.

    >>> BudgetDistribution(epsilon="1", window=20).guarantee
    Guarantee(epsilon=1, window=20)

    References
    ----------
    Kellaris et al., PVLDB 7(12), 2014, sections 4.2 and 4.5.
    Departures: before the first release, o = 0. Distances are whole numbers. A halved budget is
    rounded down to five significant binary digits of ε. Below ε/10⁶ nothing is measured or
    published.
    """

    name = "bd"
    paper = "Kellaris et al., PVLDB 7(12), 2014, section 4.2"
    proof = "bd.md"
    sharing = Halving
