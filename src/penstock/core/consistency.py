"""Make parents and children agree: weighted least squares over a forest, on released numbers."""

from __future__ import annotations

from itertools import pairwise
from typing import Protocol

import numpy as np

from penstock.core.arrays import BoolArray, FloatArray, IntArray


class Forest(Protocol):
    """Nodes level by level, outermost first: a `Hierarchy`, or any object with these properties."""

    @property
    def slices(self) -> tuple[slice, ...]:
        """The places of each level's nodes."""
        ...

    @property
    def parents(self) -> IntArray:
        """Each node's parent, on the level above it; −1 at a root."""
        ...

    @property
    def inner(self) -> BoolArray:
        """Whether each node has children."""
        ...

    @property
    def leaves(self) -> IntArray:
        """The number of keys under each node."""
        ...


def make_consistent(tree: Forest, estimates: FloatArray, variances: FloatArray) -> FloatArray:
    """The closest numbers, by 1/variance, in which every parent is the sum of its children.

    An infinite variance says that there is no estimate. The part of a parent beyond its children
    then goes to those without an estimate, by the number of such keys under each. Two passes, level
    by level.

    >>> from penstock.core.hierarchy import Hierarchy
    >>> pair = Hierarchy.of({"a": "both", "b": "both"})
    >>> make_consistent(pair, np.array([10.0, 3.0, 4.0]), np.array([1.0, 1.0, 1.0])).tolist()
    [9.0, 4.0, 5.0]
    >>> make_consistent(pair, np.array([10.0, 0.0, 4.0]), np.array([1.0, np.inf, 1.0])).tolist()
    [10.0, 6.0, 4.0]
    """
    open_ = np.isinf(variances)
    best = np.where(open_, 0.0, estimates)  # from the node and all below it
    spread = np.where(open_, 0.0, variances)  # its variance, where it is known
    unknown = open_.astype(np.float64)  # keys below that leave it open
    steps = list(pairwise(tree.slices))
    for upper, lower in reversed(steps):
        sums, spreads, unknowns = (
            _to_parents(tree, each, upper, lower) for each in (best, spread, unknown)
        )
        inner, own, known = tree.inner[upper], ~open_[upper], unknowns == 0
        with np.errstate(invalid="ignore"):
            trust = np.where(known, spreads / (spreads + spread[upper]), 1.0)
        trust = np.where(
            own, np.where(np.isnan(trust), 0.5, trust), 0.0
        )  # in the node's own estimate
        fitted = sums + trust * (best[upper] - sums)
        best[upper] = np.where(inner, fitted, best[upper])
        spread[upper] = np.where(
            inner, np.where(own, trust * spread[upper], spreads), spread[upper]
        )
        unknown[upper] = np.where(inner, np.where(own, 0.0, unknowns), unknown[upper])
    for upper, lower in steps:
        sums, spreads, unknowns, keys = (
            _to_parents(tree, each, upper, lower)
            for each in (best, spread, unknown, tree.leaves.astype(np.float64))
        )
        to = tree.parents[lower] - upper.start
        missing = (best[upper] - sums)[to]
        share = np.where(
            unknowns[to] > 0,
            unknown[lower],
            np.where(spreads[to] > 0, spread[lower], tree.leaves[lower]),
        )
        of = np.where(unknowns > 0, unknowns, np.where(spreads > 0, spreads, keys))[to]
        best[lower] += missing * share / of
    return best


def _to_parents(tree: Forest, values: FloatArray, upper: slice, lower: slice) -> FloatArray:
    """The sum over each node's children."""
    return np.bincount(
        tree.parents[lower] - upper.start, values[lower], upper.stop - upper.start
    ).astype(np.float64)
