"""`rtp_dmm`: a tree of decayed sums over each block of units."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from penstock.core.arrays import FloatArray, IntArray
from penstock.lab.competitors.competitor import Competitor
from penstock.private.noise import Noise

GRID = 1024
_STEPS = 2**16


@dataclass(frozen=True, kw_only=True)
class DecayedTree(Competitor):
    r"""Noise on the nodes of a binary tree whose sums decay inside each node, levels with budgets of their own.

    Units lie in blocks of B, the least power of two that `span` fits into. A node of :math:`2^l` units up to unit e holds
    :math:`\sum_i\mathrm{round}(1024\,\gamma^{e-i})\,x_i`, with noise of scale :math:`1024/\varepsilon_l` that is drawn once. A
    window is a suffix of one block and a prefix of the next: at most two nodes a level, each worth γ to the power of its age.
    An event is in one node a level, so :math:`\sum_l\varepsilon_l=\varepsilon` is spent. Levels have the shares of the least
    mean square error: :math:`\varepsilon_l\propto n_l^{1/3}`, with :math:`n_l` the mean over windows of the sum of the squared
    weights that they give to nodes of level l.

    ε-private for adding or removing one event.

    References
    ----------
    Sun et al., Computers, Materials & Continua 58(1), 2019, as described by Wang et al., Tsinghua Science and Technology
    29(6), 2024. Departures: nodes on a grid, with exact noise; both ends of a window from one tree; the paper optimises a
    strategy matrix, here its diagonal alone, in closed form.
    """

    name = "rtp_dmm"
    promise = "adding or removing one event"

    @cached_property
    def block(self) -> int:
        """The units of a tree."""
        return 1 << (self.span - 1).bit_length()

    @cached_property
    def levels(self) -> tuple[Fraction, ...]:
        """ε of every level, the leaves first: together at most ε, all of it but for rounding down."""
        rate = float(self.weights.rate)
        uses = np.zeros(self.block.bit_length())
        for last in range(self.block, 2 * self.block):
            for level, node in self._nodes(last):
                uses[level] += rate ** (2 * (last - (((node + 1) << level) - 1)))
        roots = np.cbrt(np.maximum(uses / self.block, 1e-9))
        shares = np.floor(roots / roots.sum() * _STEPS).astype(int).tolist()
        return tuple(self.budget * max(share, 1) / (_STEPS + len(shares)) for share in shares)

    def variance(self, last: int) -> float:
        """The variance of the noise in the answer of one unit, counted from 0, up to the discreteness of the noise."""
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
                (start & -start).bit_length() - 1 if start else self.block.bit_length() - 1, self.block.bit_length() - 1
            )
            while start + (1 << level) > end:
                level -= 1
            yield level, start >> level
            start += 1 << level

    def run(self, stream: IntArray, *, noise: Noise) -> FloatArray:
        rate = float(self.weights.rate)
        weights = np.rint(GRID * rate ** np.arange(self.block, dtype=np.float64)).astype(np.int64)
        nodes: dict[tuple[int, int], IntArray] = {}
        out = np.zeros(stream.shape)
        for last in range(len(stream)):
            for level, epsilon in enumerate(self.levels):
                size = 1 << level
                if (last + 1) % size == 0:
                    raw = weights[:size][::-1] @ stream[last + 1 - size : last + 1]
                    drawn = noise.laplace(GRID / epsilon, stream.shape[1], unit=last + 1, label=f"level {level}")
                    nodes[level, last >> level] = raw + drawn
            for level, node in self._nodes(last):
                out[last] += nodes[level, node] / GRID * rate ** (last - (((node + 1) << level) - 1))
            nodes = {key: kept for key, kept in nodes.items() if (key[1] + 1) << key[0] > last - self.span + 1}
        return out
