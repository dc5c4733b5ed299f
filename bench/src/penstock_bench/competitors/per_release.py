"""`noise_per_release`: the true sums, with fresh noise in every release."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from penstock.core.arrays import FloatArray, IntArray
from penstock.core.domain import Domain
from penstock.core.error_bounds import laplace_variance
from penstock.private.noise import Noise
from penstock_bench.competitors.competitor import ADDING, Course, Decayed

GRID = 2**20


@dataclass(frozen=True, kw_only=True)
class NoisePerRelease(Decayed):
    r"""Every release is the true decayed sum with noise of its own, large enough for all the
    releases that an event is in.

    Weights are :math:`W_a=\mathrm{round}(2^{20}\gamma^a)`. An event moves the release of its own
    unit by :math:`W_0`, the next by :math:`W_1`, and so on as long as it is in the window: all
    releases together by :math:`S=\sum_a W_a`, in one key. Each gets noise of scale
    :math:`S/\varepsilon`, so that they lose :math:`\sum_a W_a/(S/\varepsilon)=\varepsilon`. Noise
    of scale
    :math:`W_0/\varepsilon`, as if a release were all there is, would lose :math:`S/W_0` times that.

    ε-private for adding or removing one event. Keeps the raw counts of all units whose weight is
    not 0; no mechanism of ours keeps any.

    References
    ----------
    The window perturbation that Wang et al., Tsinghua Science and Technology 29(6), 2024, set out
    from; docs/proofs/eshp.md.
    """

    name = "noise_per_release"
    promise = ADDING

    @cached_property
    def steps(self) -> IntArray:
        """The weights by age, in parts of 2^−20, up to the last that is not 0."""
        whole = np.rint(GRID * self.weights.sequence(self.span)).astype(np.int64)
        return whole[whole > 0]

    @property
    def scale(self) -> Fraction:
        """The noise of every release, on the grid."""
        return int(self.steps.sum()) / self.budget

    @property
    def variance(self) -> float:
        """The scale of the noise of a sum."""
        return float(laplace_variance(np.array(float(self.scale)))) / GRID**2

    def begin(self, domain: Domain, *, noise: Noise) -> Course:
        return _Buffering(self, domain.size, noise)


class _Buffering(Course):
    """The counts of the window in a ring, the newest at `_unit`."""

    def __init__(self, competitor: NoisePerRelease, keys: int, noise: Noise) -> None:
        self._steps, self._scale, self._noise = competitor.steps, competitor.scale, noise
        self._ring = np.zeros((len(self._steps), keys), np.int64)
        self._unit = -1

    def step(self, counts: IntArray) -> FloatArray:
        self._unit += 1
        newest = self._unit % len(self._ring)
        self._ring[newest] = counts
        sums = self._steps[: newest + 1] @ self._ring[newest::-1]
        if newest + 1 < len(self._ring):
            sums += self._steps[newest + 1 :] @ self._ring[:newest:-1]
        drawn = self._noise.laplace(self._scale, len(counts), unit=self._unit + 1, label="publish")
        return np.asarray((sums + drawn) / GRID)

    def kept(self) -> object:
        return self._ring[: self._unit + 1]
