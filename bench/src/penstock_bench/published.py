"""Published forms that are not private, for figures that mark them as such.

Their ledger has room for what they really spend.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np

from penstock.budget.grid import Budget
from penstock.core.arrays import BoolArray
from penstock.core.exact import exact
from penstock.core.guarantee import Guarantee
from penstock.core.hierarchy import Hierarchy
from penstock.core.private import Private
from penstock.lab.audit.flawed.w_event import IndependentAbsorption as Audited
from penstock.private.gate import Gate
from penstock.private.mechanisms.base import Mechanism
from penstock.private.mechanisms.hierarchical import PrunedPegasus

ROOM = 10_000
"""The ledger allows this many times the claimed ε. With G groups of keys, (G + 1)/2 times is spent.
"""


@dataclass(frozen=True, kw_only=True)
class PublishedIndependentAbsorption(Audited):
    """`ba` with an independent instance for every `each` keys, as column partitioning was
    published.

    A person who moves collects one publication from every group (docs/proofs/grouped.md).
    """

    @cached_property
    def guarantee(self) -> Guarantee:
        return Guarantee(
            ROOM * exact(self.epsilon),
            self.window,
            self.contribution,
            self.intrusions(),
            horizon=self.horizon,
        )


DEEP = 64
"""The same for a hierarchy with at most this many levels. Less room makes the grid of ε finer."""


@dataclass(frozen=True, kw_only=True)
class PublishedFreshPruning(PrunedPegasus):
    """`phs_pegasus` with the pruning of Chen et al., CCS 2017, section 5.2; the rest is ours.

    Counts and thresholds have noise of scale 2/ε_pr, both drawn again at every node. A path of h
    nodes therefore loses up to (h − 1)/2·ε_pr: more than ε_pr from h = 4 on
    (docs/proofs/hierarchy.md). `rule` and `kappa` are not used.
    """

    name = "phs_pegasus_fresh"

    @cached_property
    def guarantee(self) -> Guarantee:
        return Guarantee(
            DEEP * exact(self.epsilon),
            self.window,
            self.contribution,
            self.intrusions(),
            horizon=self.horizon,
        )

    @cached_property
    def total(self) -> Budget:
        return self.grid.floor(exact(self.epsilon))

    def splits(self, tree: Hierarchy, unit: Private, gate: Gate) -> BoolArray:
        half = self.pruner(tree) // 2
        splits = tree.inner.copy()
        for depth, (level, groups) in enumerate(
            zip(tree.slices[:-1], tree.levels[:-1], strict=True)
        ):
            if depth:
                splits[level] &= splits[tree.parents[level]]
            counts = unit.sums(groups)
            nothing = counts.map(np.zeros_like, stability=1, cover=groups.cover)
            noisy = gate.laplace(
                counts, epsilon=half, label=f"prune {depth + 1}", where=splits[level]
            )
            threshold = gate.laplace(
                nothing, epsilon=half, label=f"threshold {depth + 1}", where=splits[level]
            )
            splits[level] &= noisy.value >= self.least + threshold.value
        return splits


FORMS: Final[Mapping[str, type[Mechanism[Any]]]] = {
    "IndependentAbsorption": PublishedIndependentAbsorption,
    "FreshPruning": PublishedFreshPruning,
}
"""The published forms by the name that suites and stored results use after `flawed:`."""
