"""The flaws of `eshp` as published, one by one, and the negative survey it is compared with."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np

from penstock.budget.grid import Budget, Budgets
from penstock.core.arrays import FloatArray, IntArray
from penstock.core.domain import Domain
from penstock.core.exact import Exact
from penstock.core.private import Private, unseal
from penstock.core.released import Released, Scale
from penstock.core.sketch import AESketch
from penstock.lab.audit.flawed.variant import Unchecked, Variant, stream
from penstock.lab.audit.model import Pair
from penstock.lab.survey_answers import answers, negative
from penstock.private.gate import Gate
from penstock.private.mechanisms.eshp import GRID, WeightedHistogram
from penstock.private.mechanisms.uniform import NoState


@dataclass(frozen=True)
class Raw:
    """A sketch of counts without noise."""

    sketch: AESketch


@dataclass(frozen=True, kw_only=True)
class NoiseScale(Unchecked):
    r"""Noise of scale :math:`\theta/\varepsilon_2` on every release of raw sums.

    This scale would be right if an event changed the sums by θ in all. But an event changes w sums,
    by γ^age each. Its loss is
    :math:`\varepsilon_2\sum_a\gamma^a/\theta=\varepsilon_2/\beta`. The test that the paper pays
    for with ε₁ is left out: with a correct sketch its answer is always no.
    """

    name = "eshp_noise_scale"
    State = Raw
    by_key = True

    gamma: Exact = "0.5"
    span: int = 5
    beta: Exact = "0.1"

    def start(self, domain: Domain) -> Raw:
        return Raw(AESketch.start(domain.size, gamma=self.gamma, span=self.span, beta=self.beta))

    @cached_property
    def publish(self) -> Budget:
        """ε₂ = 0.9 ε."""
        return self.total * 9 // 10

    def theta(self, sketch: AESketch) -> int:
        return round(GRID * sketch.threshold)

    def step(self, state: Raw, unit: Private, gate: Gate) -> tuple[Raw, Released]:
        sketch = state.sketch.add(unseal(unit))
        sums = np.rint(GRID * sketch.estimate).astype(np.int64)
        return Raw(sketch), gate.laplace(
            Private(sums, sensitivity=self.theta(sketch)), epsilon=self.publish, label="publish"
        )


@dataclass(frozen=True, kw_only=True)
class RawClusters(NoiseScale):
    """Clusters of keys that are formed from raw sums.

    Each key gets the mean of its cluster, and noise divided by the size of the cluster. With β = 1
    the noise covers all changes by an event over time, so it would be private without clusters. But
    one event decides which keys form a cluster, without any noise. That moves releases by more than
    their noise. The loss grows with the size of the cluster, without bound.
    """

    name = "eshp_raw_clusters"
    by_key = False

    beta: Exact = "1"

    def step(self, state: Raw, unit: Private, gate: Gate) -> tuple[Raw, Released]:
        sketch = state.sketch.add(unseal(unit))
        noise = sketch.threshold / float(self.publish.epsilon)
        of = clusters(sketch.estimate, 2 * noise**2)
        sizes = np.bincount(of)
        means = np.rint(GRID * np.bincount(of, sketch.estimate) / sizes).astype(np.int64)[of]
        each = Budgets(self.publish.quanta * sizes[of], self.publish.grid)
        lent = Budget(
            8 * self.total.quanta, self.total.grid
        )  # all that the ledger has; the noise below is the paper's
        gate._maker.ledger.spend(lent, "publish")
        noisy = gate._maker.noisy(
            means, Scale(self.theta(sketch) / each.grid.quantum, each.quanta), "publish", None
        )
        return Raw(sketch), replace(noisy, value=noisy.value // GRID)


def clusters(sums: FloatArray, variance: float) -> IntArray:
    """The cluster of each key.

    Keys are taken in the order of their sums. A key joins the last cluster if that lowers the
    expected error.
    """
    of = np.zeros(len(sums), np.int64)
    number, members, error = -1, list[float](), 0.0
    for key in np.argsort(sums, kind="stable").tolist():
        joined = [*members, float(sums[key])]
        grown = len(joined) * float(np.var(joined)) + variance / len(joined)
        if members and grown <= error + variance:
            members, error = joined, grown
        else:
            number, members, error = number + 1, joined[-1:], variance
        of[key] = number
    return of


@dataclass(frozen=True, kw_only=True)
class FlawedNegativeSurvey(Unchecked):
    """Each person names a key that is not their own, and the answers are counted.

    The number of answers is fixed: a random answer is added for each absent person. An answer
    excludes one key with certainty.
    """

    name = "negative_survey"
    State = NoState

    respondents: int = 1

    def start(self, domain: Domain) -> NoState:
        return NoState()

    def step(self, state: NoState, unit: Private, gate: Gate) -> tuple[NoState, Released]:
        counts = unseal(unit)
        keys = len(counts)
        said = answers(counts, negative(keys), noise=gate._maker.noise, unit=gate.unit)
        absent = np.zeros(keys, np.int64)
        absent[0] = self.respondents - counts.sum()
        said = said + answers(absent, Fraction(1, keys), noise=gate._maker.noise, unit=gate.unit)
        return state, Released(gate.unit, said, Scale(Fraction(1)), self.guarantee, False)


_HALF = Fraction(1, 2)

ESHP_FLAWS: tuple[Variant, ...] = (
    Variant(
        "eshp_noise_scale",
        lambda: NoiseScale(epsilon=1, window=1),
        Fraction(1),
        1,
        (Pair("one event", stream([1]), stream([0])),),
        parent=lambda: WeightedHistogram(epsilon=1, window=1, gamma="0.5", span=5),
    ),
    Variant(
        "eshp_raw_clusters",
        lambda: RawClusters(epsilon=_HALF, window=1, gamma="0.5", span=2),
        _HALF,
        1,
        (
            Pair(
                "one event takes a key out of its cluster",
                stream([0, 0, 0, 0, 6]),
                stream([0, 0, 0, 0, 5]),
            ),
        ),
        parent=lambda: WeightedHistogram(epsilon=_HALF, window=1, gamma="0.5", span=2),
        runs=2_000,
    ),
    Variant(
        "negative_survey",
        lambda: FlawedNegativeSurvey(epsilon=1, window=1),
        Fraction(1),
        1,
        (Pair("one answer", stream([1, 0, 0]), stream([0, 0, 0])),),
        parent=lambda: WeightedHistogram(epsilon=1, window=1, gamma="0.5", span=2),
        runs=2_000,
    ),
)
