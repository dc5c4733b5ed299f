"""Published numbers made non-negative, and consistent where totals are known.

Where the keys are in a hierarchy, or the numbers are of its nodes, totals are known. Then the
totals are kept, and parts are moved as little as possible (`core.consistency`). Other numbers are
cut at 0. This is a function of releases and of the public domain, so it costs no budget.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from penstock.core.arrays import FloatArray
from penstock.core.consistency import from_roots_down, make_consistent
from penstock.core.domain import Domain
from penstock.core.hierarchy import Hierarchy, Nodes

NOTE: Final = (
    "Non-negative: computed from the releases, which costs no privacy budget. "
    "Numbers near 0 are too high on average."
)


def make_nonnegative(
    domain: Domain | None, estimate: FloatArray, variance: FloatArray | None = None
) -> FloatArray:
    """The numbers without negative ones, one row per unit and one column per key.

    Parameters
    ----------
    domain : Domain, optional
        The domain of the columns; None if they are not all of one.
    estimate : array of float
        The numbers.
    variance : array of float, optional
        Their variances: the nodes of a hierarchy are trusted by 1/variance. Where one is not
        known, it is taken as 1. Default: all are the same.

    Examples
    --------
    >>> make_nonnegative(Domain.of(["a", "b"]), np.array([[4.0, -3.0]])).tolist()
    [[4.0, 0.0]]
    >>> make_nonnegative(Hierarchy.of({"a": "x", "b": "x"}), np.array([[4.0, -3.0]])).tolist()
    [[1.0, 0.0]]
    """
    if isinstance(domain, Nodes):
        tree, nodes = domain.tree, estimate
        trust = np.ones_like(nodes) if variance is None else variance
        trust = np.where(np.isnan(trust), 1.0, trust)
        fitted = [make_consistent(tree, *row) for row in zip(nodes, trust, strict=True)]
        return _each(tree, fitted, nodes.shape[1])
    if isinstance(domain, Hierarchy):
        sums = [_sums(domain, row) for row in estimate]
        return _each(domain, sums, len(domain.names))[:, domain.leaf]
    return np.maximum(estimate, 0.0)


def cut_interval(
    value: FloatArray, low: FloatArray, high: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """The interval around a number, cut at 0 and made long enough to hold the number.

    A count is never negative, so the cut interval covers it as often as the whole one. NaN stays.

    >>> low, high = cut_interval(np.array([0.0, 2.0]), np.array([-9.0, 3.0]), np.array([-1.0, 7.0]))
    >>> low.tolist(), high.tolist()
    ([0.0, 2.0], [0.0, 7.0])
    """
    return np.minimum(np.maximum(low, 0.0), value), np.maximum(high, value)


def nonnegative_facts(domain: Domain | None) -> Mapping[str, str]:
    """How numbers were made non-negative, for metadata.

    >>> nonnegative_facts(Domain.of(["a"]))["method"]
    'cut at 0'
    """
    known = isinstance(domain, Nodes | Hierarchy)
    method = "projection that keeps the totals of the hierarchy" if known else "cut at 0"
    return {"method": method, "epsilon": "0", "note": NOTE}


def _each(tree: Hierarchy, consistent: list[FloatArray], size: int) -> FloatArray:
    return np.array([from_roots_down(tree, row) for row in consistent]).reshape(-1, size)


def _sums(tree: Hierarchy, keys: FloatArray) -> FloatArray:
    """The sums of all nodes, where only the keys have numbers."""
    found = np.zeros(len(tree.names))
    found[tree.leaf] = keys
    for lower in reversed(tree.slices[1:]):
        np.add.at(found, tree.parents[lower], found[lower])
    return found
