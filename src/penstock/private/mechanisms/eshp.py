"""`eshp`: histograms over a window in which older units count less."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from penstock.budget.grid import Budget
from penstock.core.arrays import FloatArray, IntArray
from penstock.core.cover import EACH
from penstock.core.domain import Domain
from penstock.core.durations import UnitCount
from penstock.core.errors import ConfigurationError
from penstock.core.exact import Exact, exact, whole
from penstock.core.grouping import similar
from penstock.core.private import Private
from penstock.core.released import Released
from penstock.core.sketch import AESketch
from penstock.core.weights import Weights
from penstock.private.gate import Gate
from penstock.private.mechanisms.base import Mechanism

GRID = 1024
"""Weighted sums are released as multiples of 1/1024."""

_APART = 0.2
"""Two sums share at most this part of their noise variance if the one may order the keys and the
other be averaged.
"""


@dataclass(frozen=True)
class SketchState:
    """The sketch of the noisy counts, the last release, and two earlier histograms: all public."""

    sketch: AESketch
    value: IntArray
    layers: IntArray
    group: IntArray
    off: IntArray
    ranks: IntArray
    older: FloatArray
    newer: FloatArray


@dataclass(frozen=True, kw_only=True)
class WeightedHistogram(Mechanism[SketchState]):
    r"""Publish sums over a window in which older units count less, from noise that is added once.

    Counts get discrete Laplace noise of scale :math:`1/\varepsilon` in every unit, once and first.
    The release is made of these noisy counts: per key :math:`\sum_{a<w}\gamma^a\tilde c_{t-a}` with
    w = `span`, from a sketch that is off by a factor of at most 1 + β. The noise of a sum has
    variance :math:`2(1-\gamma^{2w})/((1-\gamma^2)\varepsilon^2)` (discrete noise a little less).
    Noise drawn for every release would need :math:`2S^2/\varepsilon^2` with
    :math:`S=(1-\gamma^w)/(1-\gamma)`: 247 in place of 11.6 for γ = 0.91, 20 000 in place of 100.5
    for γ = 0.99, at ε = 1 and w = 2000.

    With `grouping`, keys of similar size share their mean. All keys, in the order of an *earlier*
    histogram, are one group if their variance is clearly below twice that of the noise
    (:math:`2\sigma^2(1-\sqrt{2/(m-1)})` for m keys). Otherwise each half is asked the same.
    Averaging m equal keys divides the noise variance by m. From twice that variance on, averaging
    would add more error than it removes.

    `public` holds the unit's `noisy` counts, from which anybody can make sums with other weights;
    the size of the `group` that each number is the mean of; and the largest error of the sketch
    (`off`), in 1/1024. The variance of a release is that of the noise of a single key. For the mean
    of a group it is an upper bound. No interval covers how far the keys of a group differ.

    No sketch is needed where :math:`\gamma^w` is negligible. One number per key,
    :math:`G\leftarrow\gamma G+\tilde c`, is enough then, and so is the query for decayed sums over
    the releases of `laplace`. See `AESketch`.

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
    gamma : int, Fraction or str
        The weight γ of a unit relative to the next newer one. Default: 0.95.
    span : int
        The number of units w in a sum. Default: 100.
    beta : int, Fraction or str
        The largest relative error β of the sketch. Default: 0.1.
    grouping : bool
        Whether keys of similar size share their mean. Default: True.
    tolerance : int, Fraction or str
        A key repeats its last release while it has moved by at most this many standard deviations
        of its noise. It saves no budget. Default: 0, always release.
    replacement : bool
        Whether the promise covers a person whose events are replaced by others. The noise then has
        twice the scale. Default: False, events are added or removed.

    Guarantee: event level, pure; :math:`(\varepsilon, w')` for any privacy `window` w'. Proof:
    docs/proofs/eshp.md.
    Kept between units: sums of noisy counts. No raw data.

    >>> WeightedHistogram(epsilon="1", gamma="0.9", span=50).weights.in_words()
    'the sum of the last 50 units, each worth 0.9 to the power of its age'
    >>> WeightedHistogram(epsilon="1").guarantee
    Guarantee(epsilon=1, window=1)

    References
    ----------
    Wang et al., Tsinghua Science and Technology 29(6), 2024, section 4.
    Departures: the paper tests and clusters raw sums and adds noise of scale θ/ε, which is no
    sensitivity; that is not private. Here the noise comes first and everything else follows from
    it. Keys are ordered by an earlier histogram, not by the one that is averaged: averaging does
    not improve keys that only their noise made look alike. Groups are sought from the largest down.
    Sums are not cut at 0, which would bias small ones.
    """

    name = "eshp"
    paper = "Wang et al., Tsinghua Science and Technology 29(6), 2024, section 4"
    proof = "eshp.md"
    State = SketchState
    family = "event"

    window: int = 1
    gamma: Exact = "0.95"
    span: UnitCount = 100
    beta: Exact = "0.1"
    grouping: bool = True
    tolerance: Exact = "0"
    replacement: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("gamma", "beta", "tolerance"):
            object.__setattr__(self, name, exact(getattr(self, name), name=name))
        object.__setattr__(self, "span", whole(self.span, name="span", least=1))
        if exact(self.tolerance) < 0:
            raise ConfigurationError(
                f"tolerance must not be negative, not {self.tolerance}.", parameter="tolerance"
            )
        for name in ("grouping", "replacement"):
            if not isinstance(getattr(self, name), bool):
                raise ConfigurationError(
                    f"{name} must be True or False, not {getattr(self, name)!r}.", parameter=name
                )
        self._sketch(0)  # refuses a gamma and a beta that make no sense

    @cached_property
    def share(self) -> Budget:
        """The charge of every unit."""
        return self.total // self.window

    @cached_property
    def weights(self) -> Weights:
        """The weights of the sum that each released number is."""
        return Weights.decay(self.gamma, self.span)

    @cached_property
    def lag(self) -> int:
        """The number of units after which two sums share little of their noise."""
        gamma = float(exact(self.gamma))
        return (
            self.span if gamma**self.span > _APART else int(np.ceil(np.log(_APART) / np.log(gamma)))
        )

    def _sketch(self, keys: int) -> AESketch:
        return AESketch.start(keys, gamma=self.gamma, span=self.span, beta=self.beta)

    def start(self, domain: Domain) -> SketchState:
        size = domain.size
        nothing = np.zeros(size, np.int64)
        return SketchState(
            self._sketch(size),
            nothing,
            nothing,
            nothing,
            nothing,
            domain.ranks,
            np.zeros(0),
            np.zeros(0),
        )

    def step(self, state: SketchState, unit: Private, gate: Gate) -> tuple[SketchState, Released]:
        read = (
            unit.map(lambda counts: counts, stability=2, cover=EACH) if self.replacement else unit
        )
        noisy = gate.laplace(read, epsilon=self.share, label="publish")
        sketch = state.sketch.add(noisy.value)
        size, layers = len(noisy.value), min(gate.unit, self.span)
        estimate, most = sketch.even, 2**60 // size
        value = np.clip(np.rint(estimate * GRID), -most, most).astype(np.int64)
        fresh = replace(
            noisy, value=value, divisor=GRID, layers=layers, kind="weighted", weights=self.weights
        )
        spread = GRID * np.sqrt(fresh.variance)
        value, group = self._grouped(value, state, float(spread[0]))
        off = np.ceil(np.minimum(sketch.even_error * GRID, most)).astype(np.int64)
        of = np.full(size, layers)
        if self.tolerance:
            still = (state.layers > 0) & (
                np.abs(value - state.value) <= float(exact(self.tolerance)) * spread
            )
            value, of, group, off = (
                np.where(still, old, new)
                for old, new in (
                    (state.value, value),
                    (state.layers, of),
                    (state.group, group),
                    (state.off, off),
                )
            )
            fresh = replace(fresh, layers=of, repeated=still)
        fresh = replace(
            fresh, value=value, public={"noisy": noisy.value, "group": group, "off": off}
        )
        older, newer = (
            (state.newer, estimate) if gate.unit % self.lag == 0 else (state.older, state.newer)
        )
        return SketchState(sketch, value, of, group, off, state.ranks, older, newer), fresh

    def _grouped(
        self, value: IntArray, state: SketchState, spread: float
    ) -> tuple[IntArray, IntArray]:
        """The means of groups of similar keys, and the sizes of the groups."""
        alone = np.ones(len(value), np.int64)
        if not (self.grouping and len(state.older)):
            return value, alone
        order = np.lexsort((state.ranks, state.older))
        means, sizes = np.empty_like(value), alone
        means[order], sizes[order] = similar(value[order], spread**2)
        return means, sizes
