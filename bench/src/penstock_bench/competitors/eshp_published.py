"""`eshp_published`: ESHP as it was published. Not private."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from penstock.core.arrays import FloatArray, IntArray
from penstock.core.domain import Domain
from penstock.core.errors import ConfigurationError
from penstock.core.exact import Exact, exact
from penstock.core.sketch import AESketch
from penstock.private.noise import Noise
from penstock_bench.competitors.apb import groups
from penstock_bench.competitors.competitor import Course, Decayed

GRID = 1024


@dataclass(frozen=True, kw_only=True)
class PublishedSketch(Decayed):
    r"""A sketch of raw counts, clusters of keys by raw sums, and noise of the wrong size.

    :math:`\varepsilon_1=\alpha\varepsilon` is for a test that never says yes with a sketch that is
    right, and
    :math:`\varepsilon_2=(1-\alpha)\varepsilon` for noise of scale :math:`\theta/\varepsilon_2` with
    :math:`\theta=\beta(1-\gamma^w)/(1-\gamma)`, divided by the size of a key's cluster. Sums below
    0 become 0.

    **Not ε-private for any ε**: one event decides who is in a cluster, and θ is not what it moves
    (docs/proofs/eshp.md). The auditor convicts both (`eshp_raw_clusters`, `eshp_noise_scale`).

    References
    ----------
    Wang et al., Tsinghua Science and Technology 29(6), 2024, algorithm 2. Departure: the sketch is
    the repaired one, which promises what theirs should.
    """

    name = "eshp_published"
    promise = "nothing"
    private = False

    beta: Exact = "0.1"
    alpha: Exact = "0.1"

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("beta", "alpha"):
            object.__setattr__(self, name, exact(getattr(self, name), name=name))
        if not 0 < exact(self.alpha) < 1:
            raise ConfigurationError(f"alpha must lie between 0 and 1, not {self.alpha}.")
        self.sketch(0)  # refuses a beta out of range

    def sketch(self, keys: int) -> AESketch:
        return AESketch.start(keys, gamma=self.gamma, span=self.span, beta=self.beta)

    @property
    def scale(self) -> Fraction:
        """θ/ε₂, on the grid."""
        return max(round(GRID * self.sketch(0).threshold), 1) / (
            self.budget * (1 - exact(self.alpha))
        )

    def begin(self, domain: Domain, *, noise: Noise) -> Course:
        return _Sketching(self, domain.size, noise)


class _Sketching(Course):
    def __init__(self, competitor: PublishedSketch, keys: int, noise: Noise) -> None:
        self._sketch, self._noise = competitor.sketch(keys), noise
        self._scales = [competitor.scale / size for size in range(1, keys + 1)]
        self._variance = 2 * (float(competitor.scale) / GRID) ** 2

    def step(self, counts: IntArray) -> FloatArray:
        self._sketch = self._sketch.add(counts)
        sums = self._sketch.estimate
        of = groups(sums, 0.0, self._variance)
        sizes = np.bincount(of)
        means = (np.bincount(of, sums) / sizes)[of]
        drawn = self._noise.laplace_each(
            self._scales, sizes[of] - 1, unit=self._sketch.unit, label="publish"
        )
        return np.maximum(means + drawn / GRID, 0.0)

    def kept(self) -> object:
        return self._sketch.first, self._sketch.weight, self._sketch.mass
