"""`dsft`: sampling by distance, with a fixed threshold."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from penstock.core.exact import Exact, exact, positive
from penstock.private.mechanisms.sampling import MAX_PEOPLE, PAPER, ByQuestion


@dataclass(frozen=True, kw_only=True)
class FixedThreshold(ByQuestion):
    r"""Publish when the stream has moved far enough, at most a given number of times per window.

    The first unit is released. Every later unit is asked whether the distance :math:`\sum|c-o|` to
    the last release :math:`o`, with noise, reaches a noisy threshold. If so, `histogram` releases
    it with a :math:`C`-th of the budget that the questions leave, :math:`C` = `releases`. The
    threshold is :math:`T\cdot n`, `threshold` times `population`, above the expected noise of the
    last release (less than that where :math:`T` is below a thousandth).

    With `horizon=window` (user level) threshold noise is drawn once. Otherwise it is drawn in every
    block of `window` units, and every block and every window has at most :math:`C` releases. After
    the last of them, nothing is asked or read until the first has left the window. The last unit
    before a horizon is released with the rest, if a release is left. A stream that ends early
    leaves the rest unspent. If `releases` is the number of units in a window, nothing is asked:
    every unit is released with an equal share. One release at user level is the first unit.

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
    threshold : int, Fraction or str
        The share T of all people by which the stream must have moved. Default: 0.05.
    releases : int
        The most releases C per window. Default: 10.
    population : int, optional
        The public number of people n. Default: none, the last release's total stands for it.
    decide : int, Fraction or str, optional
        The share of ε for questions. Default: the share with the least error.
    histogram : Histogram
        The method that releases a unit. Default: `Plain()`, noise on every count.

    Guarantee: w-event, pure; user level with `horizon=window`. Proof: docs/proofs/dsft.md.
    Kept between units: the last release and the units of recent releases; in the gate, the noise of
    the threshold.

    >>> mechanism = FixedThreshold(epsilon="1", window=1000, horizon=1000)
    >>> mechanism.guarantee, round(float(1 - 10 * mechanism.plan(27648).each.epsilon), 4)
    (Guarantee(epsilon=1, window=1000, horizon=1000), 0.0531)

    References
    ----------
    Li, Xiong, Jiang, Liu, CIKM 2015, algorithm 1.
    Departures: the published scales lose up to 1.5 times the stated ε, and are replaced. The
    threshold stands above the noise of the last release. All numbers are whole.
    """

    name = "dsft"
    paper = f"{PAPER}, section 4.1"
    proof = "dsft.md"

    threshold: Exact = "0.05"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "threshold", positive(self.threshold, name="threshold"))

    def first_threshold(self) -> float:
        return float(min(exact(self.threshold), Fraction(MAX_PEOPLE)))
