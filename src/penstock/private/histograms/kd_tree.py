"""`KdTree`: totals of blocks of a grid, first cut at the noisy median of their people."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.budget.grid import Budget, Budgets
from penstock.core.arrays import IntArray
from penstock.core.errors import ConfigurationError
from penstock.core.exact import Exact, exact, positive, whole
from penstock.core.private import Private
from penstock.private.gate import Gate
from penstock.private.histograms.base import PUBLISH
from penstock.private.histograms.spatial import (
    Decomposition,
    LevelShares,
    Parts,
    Shape,
    cells,
    cut,
    growing,
    quarters,
    within,
)


@dataclass(frozen=True, kw_only=True)
class KdTree(Decomposition):
    r"""Add noise to block totals as `QuadTree`, but cut the first levels at noisy medians.

    On each of the first `cuts` levels, a block that is divided is cut across its longer side, and
    each part across its own longer side again. The totals of its rows or columns are read with
    noise. The cut lies where the sums on both sides differ least. Cuts take `decide` of
    :math:`\varepsilon`, in equal shares. Below these levels blocks are quartered.

    Cuts may be uneven, so there are `cuts` more levels than in a `QuadTree` until every block is a
    cell. A block that is not divided also spends the share of its cuts on its total.

    Parameters
    ----------
    shape : (int, int), optional
        The rows and columns of the grid. Default: the most square grid with as many cells.
    height : int, optional
        The most levels of the tree. Default: as many as lead to single cells.
    growth : int, Fraction or str
        The budget of a level relative to the level above it. Default: 1.26.
    split : int, Fraction, str or None
        A block is divided if its noisy total is above this, in units of 1/ε. None: always divide.
        Default: 20.
    cuts : int
        The number of levels that are cut at medians. Default: 2.
    decide : int, Fraction or str
        The share of ε for the medians, between 0 and 1. Default: 0.05.

    Guarantee: spends at most its :math:`\varepsilon` on any key. Proof: docs/proofs/spatial.md.

    >>> from penstock.private.mechanisms.sample import Sample
    >>> from penstock.testing import NoNoise
    >>> tree = KdTree(shape=(1, 8), cuts=1, split=5)
    >>> run = Sample(epsilon="1", window=1, histogram=tree).run(8, noise=NoNoise())
    >>> run.step([0, 1, 9, 9, 1, 0, 0, 0]).estimate.tolist()
    [0.5, 0.5, 9.0, 9.0, 0.25, 0.25, 0.25, 0.25]

    References
    ----------
    Cormode, Procopiuc, Srivastava, Shen, Yu, ICDE 2012 (the hybrid tree).
    Departures: medians from noisy sums of rows and columns; as in `QuadTree`.
    """

    cuts: int = 2
    decide: Exact = "0.05"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "cuts", whole(self.cuts, name="cuts", least=1))
        object.__setattr__(self, "decide", positive(self.decide, name="decide"))
        if exact(self.decide) >= 1:
            raise ConfigurationError(
                f"decide must lie between 0 and 1, not be {self.decide}.", parameter="decide"
            )

    def deepest(self, shape: Shape) -> int:
        return super().deepest(shape) + (self.cuts if max(shape) > 1 else 0)

    def shares(self, epsilon: Budget, shape: Shape) -> LevelShares:
        levels = self.levels(shape)
        cuts = min(self.cuts, levels - 1)
        each = epsilon.grid.floor(epsilon.epsilon * exact(self.decide)) // max(2 * cuts, 1)
        if not each:
            raise ConfigurationError(
                f"epsilon={epsilon.epsilon} is too little for cuts on {cuts} levels "
                f"with decide={self.decide}.",
                parameter="epsilon",
            )
        return LevelShares(
            growing(epsilon - each * (2 * cuts), levels, exact(self.growth)), (each * 2,) * cuts
        )

    def divide(
        self,
        blocks: IntArray,
        depth: int,
        counts: Private,
        shares: LevelShares,
        gate: Gate,
        shape: Shape,
    ) -> Parts:
        if depth >= len(shares.cuts):
            return quarters(blocks)
        of = np.arange(len(blocks))
        for turn in (1, 2):
            blocks, again = _halves(
                blocks,
                counts,
                shares.cuts[depth] // 2,
                gate,
                f"{PUBLISH} cut {2 * depth + turn}",
                shape,
            )
            of = of[again]
        return blocks, of


def _halves(
    blocks: IntArray, counts: Private, epsilon: Budget, gate: Gate, label: str, shape: Shape
) -> Parts:
    """The blocks, each cut across its longer side at the noisy median; single cells stay."""
    sides = blocks[:, 1::2] - blocks[:, ::2]
    axis, side = sides.argmax(axis=1), sides.max(axis=1)
    at = np.take_along_axis(blocks, 2 * axis[:, None], axis=1)[:, 0]
    (wide,) = (side > 1).nonzero()
    if len(wide):
        lines = _lines(blocks[wide], axis[wide], side[wide])
        spend = Budgets(np.full(len(lines), epsilon.quanta), epsilon.grid)
        noisy = gate.laplace(counts.sums(cells(lines, shape)), epsilon=spend, label=label).value
        at[wide] += _medians(noisy, side[wide])
    return cut(blocks, axis, at)


def _lines(blocks: IntArray, axis: IntArray, side: IntArray) -> IntArray:
    """The rows or columns of each block, as blocks of their own."""
    lines, low = np.repeat(blocks, side, axis=0), np.repeat(2 * axis, side)
    place = np.arange(len(lines))
    lines[place, low] += within(side)
    lines[place, low + 1] = lines[place, low] + 1
    return lines


def _medians(values: IntArray, sizes: IntArray) -> IntArray:
    """For each run of values, the place where the sums on both sides differ least; not the end.

    >>> _medians(np.array([1, 5, 2, 9, 0, 0, 4]), np.array([3, 4])).tolist()
    [2, 1]
    """
    last = np.cumsum(sizes) - 1
    sums = np.cumsum(values)
    before = sums[last] - np.add.reduceat(values, last + 1 - sizes)
    apart = np.abs(2 * sums - np.repeat(before + sums[last], sizes))
    apart[last] = np.iinfo(np.int64).max
    nearest = np.flatnonzero(
        apart == np.repeat(np.minimum.reduceat(apart, last + 1 - sizes), sizes)
    )
    _, first = np.unique(np.repeat(np.arange(len(sizes)), sizes)[nearest], return_index=True)
    return within(sizes)[nearest[first]] + 1
