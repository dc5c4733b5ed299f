"""`dsft`: sampling by distance, with a fixed threshold."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from penstock.core.exact import Exact, exact, positive
from penstock.private.mechanisms.sampling import MOST_PEOPLE, PAPER, ByQuestion


@dataclass(frozen=True, kw_only=True)
class FixedThreshold(ByQuestion):
    r"""Release when the stream has moved far enough from the last release, at most so often.

    The first unit is released. Then every unit is asked whether the distance :math:`\sum|c-o|` to
    the last release :math:`o`, with noise, reaches a noisy threshold; if so, it is released by
    `histogram` with a :math:`C`-th, :math:`C` = `releases`, of what the questions do not take. The
    threshold is :math:`T\cdot n`, `threshold` times `population`, above what the last release's own
    noise is expected to add (less than that where :math:`T` is below a thousandth); if :math:`n` is
    not public, the last release's total stands for it. `decide` is the share of :math:`\varepsilon`
    for questions; if it is not given, the one that makes the error least.

    With `horizon=window` (user level) there is one threshold noise; else there is a fresh one in
    every block of `window` units, and at most :math:`C` releases in every block and in every
    window. When they are made, nothing more is asked or read until the first of them has left the
    window. The last unit before a horizon is released with whatever is left, if a release is; what
    comes after it repeats, and a stream that ends early leaves the rest unspent. As many releases
    as the window has units need no questions: every unit is released with an equal share. One
    release at user level is the first unit.

    Guarantee: w-event, pure; user level with `horizon=window`. Proof: docs/proofs/dsft.md.
    Kept between units: the threshold's noise, in the gate; the last release, and when the last ones
    were made.

    >>> mechanism = FixedThreshold(epsilon="1", window=1000, horizon=1000)
    >>> mechanism.guarantee, round(float(1 - 10 * mechanism.plan(27648).each.epsilon), 4)
    (Guarantee(epsilon=1, window=1000, horizon=1000), 0.0531)

    References
    ----------
    Li, Xiong, Jiang, Liu, CIKM 2015, algorithm 1.
    Departures: the published scales lose up to 1.5 times what they claim, and are replaced; the
    threshold stands above the noise of the last release; whole numbers.
    """

    name = "dsft"
    paper = f"{PAPER}, section 4.1"
    proof = "dsft.md"

    threshold: Exact = "0.05"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "threshold", positive(self.threshold, name="threshold"))

    def first_threshold(self) -> float:
        return float(min(exact(self.threshold), Fraction(MOST_PEOPLE)))
