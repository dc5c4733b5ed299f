"""The fewest nodes of a hierarchy that together are exactly some keys."""

from __future__ import annotations

import numpy as np

from penstock.core.arrays import BoolArray, IntArray
from penstock.core.hierarchy import Hierarchy


def fewest(tree: Hierarchy, chosen: BoolArray) -> IntArray:
    """The highest nodes of which every key is chosen; every number has a noise of its own, so fewer
    are better.

    >>> tree = Hierarchy.binary(["a", "b", "c", "d"])
    >>> [tree.names[node] for node in fewest(tree, np.array([True, True, True, False]))]
    ['all/0', 'all/1/c']
    """
    full = np.concatenate(
        [level.sums(chosen.astype(np.int64)) == level.sizes for level in tree.levels]
    )
    top = full & ~np.where(tree.parents >= 0, full[tree.parents], False)
    return np.flatnonzero(top).astype(np.int64)
