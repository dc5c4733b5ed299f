"""The pruning of a hierarchy as published: all of ε is spent on which nodes are pruned."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from penstock.budget.grid import Budget
from penstock.core.arrays import BoolArray, IntArray
from penstock.core.cover import EACH, Groups
from penstock.core.domain import Domain
from penstock.core.hierarchy import Hierarchy
from penstock.core.private import Private
from penstock.core.released import Released, Scale
from penstock.lab.audit.flawed.variant import Unchecked, Variant, stream
from penstock.lab.audit.model import Pair
from penstock.private.gate import Gate
from penstock.private.mechanisms.hierarchical import PrunedPegasus


@dataclass(frozen=True)
class Size:
    """The number of keys."""

    keys: int


@dataclass(frozen=True, kw_only=True)
class Pruning(Unchecked):
    """A mechanism that shows which nodes are pruned, and nothing else.

    Counts and the threshold have noise of scale 2/ε. Each key has its own path of `height` nodes,
    and `each` keys are one forest. So an audit may take independent runs as further forests. A key
    is fresh if no node on its path was pruned. Its value is the number of paths of its forest that
    were pruned at their root.
    """

    State = Size
    by_key = True
    height: int = 6
    each: int = 1
    beta: int = 5

    def start(self, domain: Domain) -> Size:
        return Size(domain.size)

    def step(self, state: Size, unit: Private, gate: Gate) -> tuple[Size, Released]:
        forests, half = _forests(state.keys, self.each), self.total // 2
        survived: list[BoolArray] = []
        for level, threshold in enumerate(self._thresholds(unit, gate, half, forests)):
            counts = gate.laplace(unit, epsilon=half, label=f"count {level}").value
            alive: BoolArray = counts >= threshold
            survived.append(alive & survived[-1] if survived else alive)
        pruned = forests.sums((~survived[0]).astype(np.int64))[forests.of]
        return state, Released(
            gate.unit, pruned, Scale(1 / half.epsilon), self.guarantee, False, ~survived[-1]
        )

    @abstractmethod
    def _thresholds(
        self, unit: Private, gate: Gate, epsilon: Budget, forests: Groups
    ) -> Iterator[IntArray]:
        """The noisy threshold of each key's node, level by level."""


@lru_cache(maxsize=4)
def _forests(size: int, each: int) -> Groups:
    return Groups.from_labels(np.arange(size) // each)


@dataclass(frozen=True, kw_only=True)
class FreshPruning(Pruning):
    """Each node has its own noise on its count and threshold. A path loses up to (h − 1)/2·ε."""

    name = "prune_fresh_noise"

    def _thresholds(
        self, unit: Private, gate: Gate, epsilon: Budget, forests: Groups
    ) -> Iterator[IntArray]:
        nothing = unit.map(np.zeros_like, stability=1, cover=EACH)
        for level in range(self.height - 1):
            yield (
                self.beta + gate.laplace(nothing, epsilon=epsilon, label=f"threshold {level}").value
            )


@dataclass(frozen=True, kw_only=True)
class SharedPruning(Pruning):
    """One noisy threshold for the whole forest.

    The other nodes of the forest reveal it. A path then loses as much as in `FreshPruning`.
    """

    name = "prune_shared_threshold"

    def _thresholds(
        self, unit: Private, gate: Gate, epsilon: Budget, forests: Groups
    ) -> Iterator[IntArray]:
        nothing = unit.sums(forests).map(np.zeros_like, stability=1, cover=forests.cover)
        threshold = (
            self.beta + gate.laplace(nothing, epsilon=epsilon, label="threshold").value[forests.of]
        )
        for _ in range(self.height - 1):
            yield threshold


def _revealed(beta: int, others: int) -> Pair:
    """The person's path is at the threshold, and so are other paths.

    If all of the others are pruned, the noise of the threshold is high.
    """
    base = np.full((1, 1 + others), beta, np.int64)
    person = np.zeros_like(base)
    person[0, 0] = 1
    return Pair(
        f"a person on one path, and {others} others that reveal the threshold", base + person, base
    )


def _paths(keys: int, height: int) -> Hierarchy:
    """Keys that each have a path of `height` nodes of their own."""
    return Hierarchy.of(
        {
            f"key {key}": tuple(f"{key}.{level}" for level in range(height - 1))
            for key in range(1, keys + 1)
        }
    )


_FOUR = Fraction(4)

HIERARCHY_FLAWS: tuple[Variant, ...] = (
    Variant(
        "prune_fresh_noise",
        lambda: FreshPruning(epsilon=4, window=1),
        _FOUR,
        1,
        (Pair("a person on a path of five tests at the threshold", stream([5]), stream([4])),),
        parent=lambda: PrunedPegasus(epsilon=4, window=1, beta=5),
        domain=_paths(1, 6),
        runs=50_000,
    ),
    Variant(
        "prune_shared_threshold",
        lambda: SharedPruning(epsilon=4, window=1, each=7, beta=5),
        _FOUR,
        1,
        (_revealed(5, 6),),
        parent=lambda: PrunedPegasus(epsilon=4, window=1, beta=5),
        domain=_paths(7, 6),
        runs=200_000,
    ),
)
