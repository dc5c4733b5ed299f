"""`laplace`: publish every unit with noise for one event."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.private.mechanisms.uniform import EqualShares


@dataclass(frozen=True, kw_only=True)
class Laplace(EqualShares):
    r"""Publish every unit with noise of its own, protecting one event.

    Counts get discrete Laplace noise of scale :math:`1/\varepsilon` in every unit. With a longer
    window it is `uniform`.

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

    Guarantee: event level, pure; :math:`(\varepsilon, w)` for any window. Proof:
    docs/proofs/uniform.md.
    Kept between units: nothing.

    >>> Laplace(epsilon="0.1").guarantee
    Guarantee(epsilon=1/10, window=1)

    References
    ----------
    Dwork et al., TCC 2006.
    """

    name = "laplace"
    paper = "Dwork et al., TCC 2006"
    proof = "uniform.md"
    family = "event"

    window: int = 1
