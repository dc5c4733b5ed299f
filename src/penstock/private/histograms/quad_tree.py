"""`QuadTree`: totals of the quarters of a grid, of their quarters, and so on."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.core.arrays import IntArray
from penstock.core.private import Private
from penstock.private.gate import Gate
from penstock.private.histograms.spatial import Decomposition, LevelShares, Parts, Shape, quarters


@dataclass(frozen=True, kw_only=True)
class QuadTree(Decomposition):
    r"""Noisy totals of a grid, its quarters, theirs and so on, as long as there are people to see;
    then least squares.

    The keys are the cells of a grid of `shape` (rows, columns), row by row; without a shape, of the
    most square grid that has as many cells (a strip, if their number is prime). Level 1 is the
    whole grid. To divide a block is to halve it along its longer side, and along the other too
    unless that is half as long or less; sides may have any length, and halves may be uneven. Each
    level has `growth` times the budget of the one above it, and all of them together the whole
    :math:`\varepsilon`. There are as many levels as it takes to come to single cells, or `height`.

    A block is divided if its noisy total is above `split` :math:`/\varepsilon` (always, if that is
    None); one that is not spends all that the levels below it would have on a second noisy total.
    In the end all totals are fitted by least squares, each counted by the inverse of its variance,
    so that every block is the sum of its parts, and a block that was not divided shares its total
    evenly among its cells.

    `scale` is that of a cell's own noisy count *before* the fit. A cell that has none, because its
    block was not divided down to it, has an infinite variance: how people lie within the block is
    not known. `public["block"]` has the number of each cell's block, `public["noisy"]` the last
    noisy total of that block.

    Guarantee: spends at most its :math:`\varepsilon` on any key. Proof: docs/proofs/spatial.md.

    >>> from penstock.private.mechanisms.sample import Sample
    >>> from penstock.testing import NoNoise
    >>> run = Sample(epsilon="1", window=1, histogram=QuadTree(shape=(2, 4), split=5)).run(8, noise=NoNoise())
    >>> run.step([9, 0, 0, 1, 3, 0, 1, 0]).estimate.tolist()
    [9.0, 0.0, 0.5, 0.5, 3.0, 0.0, 0.5, 0.5]

    References
    ----------
    Cormode, Procopiuc, Srivastava, Shen, Yu, ICDE 2012.
    Departures: small blocks are not divided, and spend what is left; sides that are no powers of
    two; whole numbers.
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
