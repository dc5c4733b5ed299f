"""`recurrence`: noise once, and one number per key in place of a window."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.core.arrays import FloatArray, IntArray
from penstock.core.domain import Domain
from penstock.private.noise import Noise
from penstock_bench.competitors.competitor import ADDING, Course, Decayed


@dataclass(frozen=True, kw_only=True)
class Recurrence(Decayed):
    r"""Noise of scale 1/ε on every unit's counts, and :math:`G\leftarrow\gamma G+\tilde x`: no
    window, no sketch.

    What left the window long ago is still in G: :math:`\gamma^w` of the sum as it was w units ago.
    Where that is negligible, nothing else is needed; where it is not, G is too large, for ever if γ
    = 1.

    ε-private for adding or removing one event: it is in one count of one unit. Sums are
    post-processing.

    References
    ----------
    docs/proofs/eshp.md, "Sketch".
    """

    name = "recurrence"
    promise = ADDING

    def begin(self, domain: Domain, *, noise: Noise) -> Course:
        return _Recurring(self, domain.size, noise)


class _Recurring(Course):
    def __init__(self, competitor: Recurrence, keys: int, noise: Noise) -> None:
        self._rate, self._scale, self._noise = (
            float(competitor.weights.rate),
            1 / competitor.budget,
            noise,
        )
        self._sum = np.zeros(keys)
        self._unit = 0

    def step(self, counts: IntArray) -> FloatArray:
        self._unit += 1
        drawn = self._noise.laplace(self._scale, len(counts), unit=self._unit, label="publish")
        self._sum = self._rate * self._sum + (counts + drawn)
        return self._sum

    def kept(self) -> object:
        return self._sum
