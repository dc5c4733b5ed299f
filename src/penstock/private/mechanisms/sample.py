"""`sample`: one unit in w, with all of the budget."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.private.mechanisms.fixed import Periodic


@dataclass(frozen=True, kw_only=True)
class Sample(Periodic):
    r"""Publish one unit in w with the whole budget, repeat it in between.

    Units 1, w + 1, 2w + 1, … are released by `histogram`: with discrete Laplace noise of scale
    :math:`1/\varepsilon`, unless another method is given.

    Guarantee: w-event, pure. Proof: docs/proofs/sample.md.
    Kept between units: the last release.

    >>> run = Sample(epsilon="1", window=3).run(2)
    >>> [run.step([5, 5]).repeated for _ in range(4)]
    [False, True, True, False]

    References
    ----------
    Kellaris et al., PVLDB 7(12), 2014, section 3.
    """

    name = "sample"
    paper = "Kellaris et al., PVLDB 7(12), 2014, section 3"
    proof = "sample.md"

    @property
    def interval(self) -> int:
        return self.window
