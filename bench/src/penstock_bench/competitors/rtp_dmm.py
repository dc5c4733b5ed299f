"""`rtp_dmm`: a tree of decayed sums over each block of units."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from penstock.core.arrays import FloatArray, IntArray
from penstock.core.domain import Domain
from penstock.private.noise import Noise
from penstock_bench.competitors.competitor import ADDING, Course, Decayed

GRID = 2**20
_STEPS = 2**16


@dataclass(frozen=True, kw_only=True)
class DecayedTree(Decayed):
    r"""Noise on the nodes of a binary tree whose sums decay inside each node, levels with budgets
    of their own.

    Units lie in blocks of B, the least power of two that `span` fits into. A node of :math:`2^l`
    units up to unit e holds
    :math:`\sum_i\mathrm{round}(2^{20}\gamma^{e-i})\,x_i`, with noise of scale
    :math:`2^{20}/\varepsilon_l`, drawn once. A
    window is a suffix of one block and a prefix of the next: at most two nodes a level, each worth
    γ to the power of its age. An event is in one node a level, so
    :math:`\sum_l\varepsilon_l=\varepsilon` is spent. Levels have the shares of the least mean
    square error: :math:`\varepsilon_l\propto n_l^{1/3}`, with :math:`n_l` the mean over windows of
    the sum of the squared weights that they give to nodes of level l.

    ε-private for adding or removing one event.

    References
    ----------
    Sun et al., Computers, Materials & Continua 58(1), 2019, as described by Wang et al., Tsinghua
    Science and Technology 29(6), 2024. Departures: nodes on a grid, with exact noise; both ends of
    a window from one tree; the paper optimises a strategy matrix, here its diagonal alone, in
    closed form.
    """

    name = "rtp_dmm"
    promise = ADDING

    @cached_property
    def block(self) -> int:
        """The number of units of a tree."""
        return 1 << (self.span - 1).bit_length()

    @cached_property
    def levels(self) -> tuple[Fraction, ...]:
        """ε of every level, the leaves first. The sum is at most ε, and less only by rounding."""
        rate = float(self.weights.rate)
        uses = np.zeros(self.block.bit_length())
        for last in range(self.block, 2 * self.block):
            for level, node in self._nodes(last):
                uses[level] += rate ** (2 * (last - (((node + 1) << level) - 1)))
        roots = np.cbrt(np.maximum(uses / self.block, 1e-9))
        shares = np.floor(roots / roots.sum() * _STEPS).astype(int).tolist()
        return tuple(self.budget * max(share, 1) / (_STEPS + len(shares)) for share in shares)

    def variance(self, last: int) -> float:
        """The variance of the noise in the answer of a unit, counted from 0, apart from
        discreteness.
        """
        rate = float(self.weights.rate)
        return sum(
            2 / float(self.levels[level]) ** 2 * rate ** (2 * (last - (((node + 1) << level) - 1)))
            for level, node in self._nodes(last)
        )

    def _nodes(self, last: int) -> Iterator[tuple[int, int]]:
        """The complete nodes (level, number) that make up the window that ends with a unit."""
        start, end = max(0, last - self.span + 1), last + 1
        while start < end:
            level = min(
                (start & -start).bit_length() - 1 if start else self.block.bit_length() - 1,
                self.block.bit_length() - 1,
            )
            while start + (1 << level) > end:
                level -= 1
            yield level, start >> level
            start += 1 << level

    def begin(self, domain: Domain, *, noise: Noise) -> Course:
        return _Growing(self, domain.size, noise)


class _Growing(Course):
    """The open sums, one per level, and the noisy nodes that a later window may need."""

    def __init__(self, tree: DecayedTree, keys: int, noise: Noise) -> None:
        self._tree, self._noise, self._rate = tree, noise, float(tree.weights.rate)
        self._sizes = 1 << np.arange(len(tree.levels))
        self._weights = np.rint(
            GRID * self._rate ** np.arange(tree.block, dtype=np.float64)
        ).astype(np.int64)
        self._open = np.zeros((len(tree.levels), keys), np.int64)
        self._done = [
            np.zeros((-(-tree.span // size) + 1, keys), np.int64) for size in self._sizes.tolist()
        ]
        self._last = -1

    def step(self, counts: IntArray) -> FloatArray:
        self._last += 1
        last = self._last
        left = self._sizes - 1 - last % self._sizes  # units until a node is complete
        self._open += self._weights[left][:, None] * counts
        for level in np.flatnonzero(left == 0).tolist():
            scale = GRID / self._tree.levels[level]
            drawn = self._noise.laplace(scale, len(counts), unit=last + 1, label=f"level {level}")
            done = self._done[level]
            done[(last >> level) % len(done)] = self._open[level] + drawn
            self._open[level] = 0
        out = np.zeros(len(counts))
        for level, node in self._tree._nodes(last):
            done = self._done[level]
            out += done[node % len(done)] * (
                self._rate ** (last + 1 - ((node + 1) << level)) / GRID
            )
        return out

    def kept(self) -> object:
        there = [done[: (self._last + 1) >> level] for level, done in enumerate(self._done)]
        return self._open, there
