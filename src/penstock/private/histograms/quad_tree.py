"""`QuadTree`: totals of the quarters of a grid, of their quarters, and so on."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.core.arrays import IntArray
from penstock.core.private import Private
from penstock.private.gate import Gate
from penstock.private.histograms.spatial import Decomposition, LevelShares, Parts, Shape, quarters


@dataclass(frozen=True, kw_only=True)
class QuadTree(Decomposition):
    r"""Add noise to the totals of a grid, its quarters, their quarters and so on; then fit them.

    The keys are the cells of a grid of `shape` (rows, columns), row by row. Level 1 is the whole
    grid. A block is divided by halving it along its longer side, and along the other too unless
    that is half as long or less. Sides may have any length, and halves may be uneven. Each level
    has `growth` times the budget of the one above it, and all of them together the whole
    :math:`\varepsilon`.

    A block that is not divided spends the budget of the levels below it on a second noisy total. In
    the end all totals are fitted by least squares, each weighted by the inverse of its variance.
    Then every block is the sum of its parts, and a block that was not divided shares its total
    evenly among its cells.

    `scale` is that of a cell's own noisy count *before* the fit. A cell whose block was not divided
    down to it has an infinite variance: nothing is known of how people lie within the block.
    `public["block"]` has the number of each cell's block, `public["noisy"]` the last noisy total of
    that block.

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

    Guarantee: spends at most its :math:`\varepsilon` on any key. Proof: docs/proofs/spatial.md.

    >>> from penstock.private.mechanisms.sample import Sample
    >>> from penstock.testing import NoNoise
    >>> tree = QuadTree(shape=(2, 4), split=5)
    >>> run = Sample(epsilon="1", window=1, histogram=tree).run(8, noise=NoNoise())
    >>> run.step([9, 0, 0, 1, 3, 0, 1, 0]).estimate.tolist()
    [9.0, 0.0, 0.5, 0.5, 3.0, 0.0, 0.5, 0.5]

    References
    ----------
    Cormode, Procopiuc, Srivastava, Shen, Yu, ICDE 2012.
    Departures: small blocks are not divided, and spend the rest; sides need be no powers of two;
    whole numbers.
    """

    def divide(
        self,
        blocks: IntArray,
        depth: int,
        counts: Private,
        shares: LevelShares,
        gate: Gate,
        shape: Shape,
    ) -> Parts:
        return quarters(blocks)
