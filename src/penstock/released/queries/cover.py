"""The fewest nodes of a hierarchy that make up a set of keys."""

from __future__ import annotations

import numpy as np

from penstock.core.arrays import BoolArray, IntArray
from penstock.core.hierarchy import Hierarchy


def fewest(tree: Hierarchy, chosen: BoolArray) -> IntArray:
    """The highest nodes whose keys are all chosen.

    Every node has noise of its own, so the sum of fewer nodes has less noise.

    >>> tree = Hierarchy.binary(["a", "b", "c", "d"])
    >>> [tree.names[node] for node in fewest(tree, np.array([True, True, True, False]))]
    ['all/0', 'all/1/c']
    """
    full = np.concatenate(
        [level.sums(chosen.astype(np.int64)) == level.sizes for level in tree.levels]
    )
    top = full & ~np.where(tree.parents >= 0, full[tree.parents], False)
    return np.flatnonzero(top).astype(np.int64)
