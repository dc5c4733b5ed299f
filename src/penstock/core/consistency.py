"""Make parents and children agree, and numbers non-negative: arithmetic on released numbers."""

from __future__ import annotations

from itertools import pairwise
from typing import Final, Protocol

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


PARTS_PER_COUNT: Final = 1_000_000
"""Consistent non-negative numbers are whole multiples of 1/PARTS_PER_COUNT."""


def from_roots_down(tree: Forest, consistent: FloatArray) -> FloatArray:
    """Numbers from 0 in which every parent is the sum of its children; totals come first.

    Roots below 0 become 0. Then, level by level, the children of each node become the closest
    numbers (least squares) from 0 with its sum. Keys are rounded to millionths and added up, so
    that parts and totals agree digit by digit.

    >>> from penstock.core.hierarchy import Hierarchy
    >>> pair = Hierarchy.of({"a": "both", "b": "both"})
    >>> from_roots_down(pair, np.array([4.0, 7.0, -3.0])).tolist()
    [4.0, 4.0, 0.0]
    """
    best = np.where(tree.parents < 0, np.maximum(consistent, 0.0), consistent)
    steps = list(pairwise(tree.slices))
    for upper, lower in steps:
        best[lower] = onto_simplexes(best[lower], tree.parents[lower] - upper.start, best[upper])
    parts = np.where(tree.inner, 0, np.rint(best * PARTS_PER_COUNT)).astype(np.int64)
    for _, lower in reversed(steps):
        np.add.at(parts, tree.parents[lower], parts[lower])
    return parts / np.float64(PARTS_PER_COUNT)


def onto_simplexes(values: FloatArray, groups: IntArray, totals: FloatArray) -> FloatArray:
    """The closest numbers (least squares) from 0 whose sum over each group is the group's total.

    Each number loses the same amount as the others of its group and is cut at 0 [1]_. Totals are
    not negative. A group without numbers is left alone.

    >>> onto_simplexes(np.array([5.0, 1.0, -2.0]), np.array([0, 0, 0]), np.array([4.0])).tolist()
    [4.0, 0.0, 0.0]

    References
    ----------
    .. [1] Duchi, Shalev-Shwartz, Singer, Chandra, ICML 2008, figure 1.
    """
    if not values.size:
        return values
    order = np.lexsort((-values, groups))
    of = groups[order]
    starts = np.flatnonzero(np.r_[True, of[1:] != of[:-1]])
    sizes = np.diff(np.r_[starts, of.size])
    rank = np.arange(of.size) - np.repeat(starts, sizes) + 1
    sums = np.cumsum(values[order])
    before = np.repeat(sums[starts] - values[order][starts], sizes)
    lost = (sums - before - totals[of]) / rank
    kept = (values[order] >= lost) | (rank == 1)
    last = np.maximum.reduceat(np.where(kept, np.arange(of.size), 0), starts)
    found = np.empty_like(values)
    found[order] = np.maximum(values[order] - np.repeat(lost[last], sizes), 0.0)
    return found


def _to_parents(tree: Forest, values: FloatArray, upper: slice, lower: slice) -> FloatArray:
    """The sum over each node's children."""
    return np.bincount(
        tree.parents[lower] - upper.start, values[lower], upper.stop - upper.start
    ).astype(np.float64)
