"""`sample`: publish one unit per window with the whole budget."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.private.mechanisms.fixed import Periodic


@dataclass(frozen=True, kw_only=True)
class Sample(Periodic):
    r"""Publish one unit per window with the whole budget, and repeat it in between.

    Units 1, w + 1, 2w + 1, … are released by `histogram`. By default, that is discrete Laplace
    noise of scale :math:`1/\varepsilon`, or Gaussian noise of variance :math:`1/2\rho` with a δ.

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
    histogram : Histogram
        The method that releases a unit. Default: `Plain()`, noise on every count.

    Guarantee: w-event, pure or with a δ. Proof: docs/proofs/sample.md.
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
