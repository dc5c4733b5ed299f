"""Errors over all nodes of a hierarchy."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from penstock.core.arrays import FloatArray, IntArray
from penstock.core.domain import Domain
from penstock.core.errors import ConfigurationError
from penstock.core.hierarchy import Hierarchy
from penstock_bench.lines import ShownUnit
from penstock_bench.measures.base import Measure


class NodeErrors(Measure):
    """Mean absolute error over all nodes; counts of keys are added up to the nodes above.

    `nodes_l1` is the mean over all units and nodes, `nodes_l1 2` that of the second level from the
    top. Most nodes are keys, so `levels_l1` is the mean over the levels. A domain without a
    hierarchy becomes a balanced binary tree, as in `hs_pegasus`.
    """

    of_keys = False

    def begin(self) -> None:
        self.tree = _tree(self.facts.domain)
        if self.tree.size > 1 and self.tree.height == 1:
            raise ConfigurationError(
                f"{self.name}: every key is a root here; use a measure of keys, such as mae."
            )
        self.off = np.zeros(self.tree.nodes.size)

    def add(self, seen: ShownUnit) -> None:
        truth = self._of_nodes(seen.truth)
        self.off += np.abs(self._of_nodes(seen.shown) - truth)

    def _of_nodes(self, values: IntArray | FloatArray) -> Any:
        if len(values) == self.tree.size:
            totals: Any = self.tree.nodes.totals
            return totals(values)
        if len(values) == self.tree.nodes.size:
            return values
        raise ConfigurationError(
            f"{self.name}: {len(values)} numbers are neither the {self.tree.size} keys nor the "
            f"{self.tree.nodes.size} nodes."
        )

    def values(self) -> dict[str, float]:
        off = self.off / self.facts.units
        levels = [float(off[level].mean()) for level in self.tree.slices]
        found = {f"{self.name} {number}": mean for number, mean in enumerate(levels, start=1)}
        return {self.name: float(off.mean()), "levels_l1": float(np.mean(levels)), **found}


@lru_cache(maxsize=4)
def _tree(domain: Domain) -> Hierarchy:
    return Hierarchy.of(domain)
