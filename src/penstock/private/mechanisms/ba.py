"""`ba`: budget absorption."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.private.mechanisms.distance import ByDistance
from penstock.private.mechanisms.shares import Absorbing


@dataclass(frozen=True, kw_only=True)
class BudgetAbsorption(ByDistance):
    r"""Publish when the stream has moved; absorb the shares of the units that were skipped.

    Every unit has a share :math:`\varepsilon/2w`. A publication spends its own share and those of
    the skipped units before it, :math:`A` shares in all and at most :math:`w`. The :math:`A-1`
    units after it are nullified: they repeat the release and are not measured.

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

    Guarantee: w-event, pure or with a δ. Proof: docs/proofs/ba.md.
    Kept between units: the last release, and the first unit whose share is unspent. No raw data.

    >>> BudgetAbsorption(epsilon="1", window=120).guarantee
    Guarantee(epsilon=1, window=120)

    References
    ----------
    Kellaris et al., PVLDB 7(12), 2014, sections 4.3 and 4.5.
    Departures: before the first release, o = 0. Distances are whole numbers. The distance of a
    nullified unit is not measured, because nothing could follow from it.
    """

    name = "ba"
    paper = "Kellaris et al., PVLDB 7(12), 2014, section 4.3"
    proof = "ba.md"
    sharing = Absorbing
