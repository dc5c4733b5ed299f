"""`node_laplace`: separate noise on every node of a hierarchy."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from penstock.core.arrays import FloatArray, IntArray
from penstock.core.domain import Domain
from penstock.core.hierarchy import Hierarchy
from penstock.private.noise import Noise
from penstock_bench.competitors.competitor import ADDING, Competitor, Course


@dataclass(frozen=True, kw_only=True)
class NodeLaplace(Competitor):
    r"""Noise on every node of a hierarchy, with ε divided by the height.

    In every unit each node's total gets discrete Laplace noise of scale :math:`h/\varepsilon`, with
    :math:`h` nodes on the longest path. Nothing is done with the fact that a parent is the sum of
    its children. A domain that is no `Hierarchy` becomes a balanced binary tree. There is one
    number per node (`Hierarchy.nodes`).

    ε-private for adding or removing one event: it is in at most h nodes, each of which costs ε/h.

    >>> NodeLaplace(epsilon="0.1").scale(Hierarchy.binary(128))
    Fraction(80, 1)

    References
    ----------
    What Chen et al., CCS 2017, section 6.4, call HS-LM. Departures: the noise is discrete.
    """

    name = "node_laplace"
    promise = ADDING

    def scale(self, tree: Hierarchy) -> Fraction:
        """The scale of the noise of every node."""
        return tree.height / self.budget

    def begin(self, domain: Domain, *, noise: Noise) -> EveryNode:
        tree = Hierarchy.of(domain)
        return EveryNode(tree, self.scale(tree), noise)


class EveryNode(Course):
    """Only the number of the unit is kept."""

    def __init__(self, tree: Hierarchy, scale: Fraction, noise: Noise) -> None:
        self._nodes, self._scale, self._noise = tree.nodes, scale, noise
        self._unit = 0

    def step(self, counts: IntArray) -> FloatArray:
        self._unit += 1
        drawn = self._noise.laplace(self._scale, self._nodes.size, unit=self._unit, label="nodes")
        return np.asarray(self._nodes.totals(counts) + drawn, np.float64)

    def kept(self) -> int:
        return self._unit
