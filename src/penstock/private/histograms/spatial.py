"""The parts of trees over a grid: noisy totals of ever smaller blocks, and their fit."""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar, TypeAlias

import numpy as np

from penstock.budget.grid import Budget, Budgets
from penstock.core.arrays import BoolArray, IntArray
from penstock.core.consistency import make_consistent
from penstock.core.cover import Groups
from penstock.core.errors import ConfigurationError
from penstock.core.exact import Exact, exact, positive, whole
from penstock.core.private import Private
from penstock.core.released import Released, Scale
from penstock.private.gate import Gate, affordable
from penstock.private.histograms.base import APART, PUBLISH

FINENESS = 256
"""Fitted totals are rounded to parts of 1/256."""

_MAX_FITTED = 2.0**61

Shape: TypeAlias = tuple[int, int]

Parts: TypeAlias = tuple[IntArray, IntArray]
"""Blocks, and which of the blocks that were divided each of them is a part of."""

# Blocks are rows of an array: the first row of cells and the one after the last, the first column
# and the one after the last.


@dataclass(frozen=True)
class LevelShares:
    """The budget of each level for its blocks' totals, and of the first levels for their cuts."""

    totals: tuple[Budget, ...]
    cuts: tuple[Budget, ...] = ()

    def rest(self, depth: int, *, uncut: bool = False) -> Budget:
        """The budget of a block of this level if nothing below it is read.

        `uncut`: the block above it was not cut either.
        """
        first = max(depth - 1, 0) if uncut else depth
        quanta = sum(each.quanta for each in (*self.totals[depth:], *self.cuts[first:]))
        return Budget(quanta, self.totals[0].grid)


@dataclass(frozen=True)
class Level:
    """The blocks of one level: their parents, whether they are divided, and their noisy totals."""

    blocks: IntArray
    parents: IntArray
    last: BoolArray
    noisy: Released


@dataclass(frozen=True)
class BlockTree:
    """The blocks of all levels, in the form that `make_consistent` takes."""

    slices: tuple[slice, ...]
    parents: IntArray
    inner: BoolArray
    leaves: IntArray

    @classmethod
    def of(cls, levels: Sequence[Level]) -> BlockTree:
        starts = [0, *itertools.accumulate(len(level.last) for level in levels)]
        above = [0, *starts[:-2]]
        return cls(
            slices=tuple(itertools.starmap(slice, itertools.pairwise(starts))),
            parents=np.concatenate(
                [level.parents + first for level, first in zip(levels, above, strict=True)]
            ),
            inner=~np.concatenate([level.last for level in levels]),
            leaves=np.concatenate([areas(level.blocks) for level in levels]),
        )


@dataclass(frozen=True, kw_only=True)
class Decomposition(ABC):
    """Noisy totals of the blocks of a grid: the whole, its parts, theirs, while they are large."""

    by_place: ClassVar[bool] = True
    """The order of keys matters: they are cells, and neighbours count."""

    shape: Shape | None = None
    height: int | None = None
    growth: Exact = "1.26"
    split: Exact | None = 20

    def __post_init__(self) -> None:
        if self.shape is not None:
            object.__setattr__(self, "shape", _sides(self.shape))
        if self.height is not None:
            object.__setattr__(self, "height", whole(self.height, name="height", least=1))
        object.__setattr__(self, "growth", positive(self.growth, name="growth"))
        if self.split is not None:
            object.__setattr__(self, "split", exact(self.split, name="split"))
            if exact(self.split) < 0:
                raise ConfigurationError(
                    f"split must be None or not negative, not {self.split}.", parameter="split"
                )

    def levels(self, shape: Shape) -> int:
        """The number of levels, at most `height`. The first is the whole grid, the last cells."""
        most = self.deepest(shape)
        return most if self.height is None else min(self.height, most)

    def deepest(self, shape: Shape) -> int:
        """The number of levels until every block is a cell."""
        return 1 + (max(shape) - 1).bit_length()

    def shares(self, epsilon: Budget, shape: Shape) -> LevelShares:
        """The budget of each level."""
        return LevelShares(growing(epsilon, self.levels(shape), exact(self.growth)))

    @abstractmethod
    def divide(
        self,
        blocks: IntArray,
        depth: int,
        counts: Private,
        shares: LevelShares,
        gate: Gate,
        shape: Shape,
    ) -> Parts:
        """The parts of these blocks of a level."""

    def release(self, counts: Private, epsilon: Budget, gate: Gate) -> Released:
        shape = self._shape_of(gate.keys)
        shares = self.shares(epsilon, shape)
        smallest = min((*shares.totals, *(cut // 2 for cut in shares.cuts)))
        if not affordable(smallest, sensitivity=counts.sensitivity, keys=gate.keys):
            raise ConfigurationError(
                f"epsilon={epsilon.amount} is too little for {len(shares.totals)} levels.",
                parameter="epsilon",
            )
        least = (
            None if self.split is None else _above(exact(self.split) * counts.sensitivity, epsilon)
        )
        blocks, parents, kept = (
            np.array([[0, shape[0], 0, shape[1]]]),
            np.full(1, -1),
            np.zeros(1, np.bool_),
        )
        levels: list[Level] = []
        for depth, each in enumerate(shares.totals):
            last = kept | (areas(blocks) == 1) | (depth + 1 == len(shares.totals))
            rest = np.where(kept, shares.rest(depth, uncut=True).quanta, shares.rest(depth).quanta)
            spend = Budgets(np.where(last, rest, each.quanta), epsilon.grid)
            noisy = gate.laplace(
                counts.sums(cells(blocks, shape)), epsilon=spend, label=f"{PUBLISH} {depth + 1}"
            )
            levels.append(Level(blocks, parents, last, noisy))
            if last.all():
                break
            divided = ~last if least is None else ~last & (noisy.value > least)
            (places,), (others,) = divided.nonzero(), (~last & ~divided).nonzero()
            parts, of = self.divide(blocks[places], depth, counts, shares, gate, shape)
            kept = np.repeat([False, True], [len(parts), len(others)])
            blocks, parents = (
                np.concatenate([parts, blocks[others]]),
                np.concatenate([places[of], others]),
            )
        return _together(levels, shape)

    def _shape_of(self, size: int) -> Shape:
        shape = square(size) if self.shape is None else self.shape
        if math.prod(shape) != size:
            raise ConfigurationError(
                f"shape: {shape[0]} rows of {shape[1]} cells are not {size} keys.",
                parameter="shape",
            )
        return shape


def growing(epsilon: Budget, levels: int, growth: Fraction) -> tuple[Budget, ...]:
    """A budget shared among levels, each `growth` times the one before; the last has the rest.

    >>> from penstock.budget.grid import promised
    >>> from penstock.core.guarantee import Guarantee
    >>> shares = growing(promised(Guarantee("1", 1)), 3, Fraction(2))
    >>> [round(float(share.epsilon), 3) for share in shares]
    [0.143, 0.286, 0.571]
    """
    weights = [growth**level for level in range(levels)]
    shares = [
        Budget(int(epsilon.quanta * weight / sum(weights)), epsilon.grid) for weight in weights[:-1]
    ]
    shares.append(Budget(epsilon.quanta - sum(share.quanta for share in shares), epsilon.grid))
    if not all(shares):
        raise ConfigurationError(
            f"epsilon={epsilon.amount} is too little for {levels} levels with growth={growth}.",
            parameter="epsilon",
        )
    return tuple(shares)


@lru_cache(maxsize=64)
def square(size: int) -> Shape:
    """The most square grid of `size` cells, with no more rows than columns.

    >>> square(6), square(50), square(7)
    ((2, 3), (5, 10), (1, 7))
    """
    rows = next(rows for rows in range(math.isqrt(size), 0, -1) if size % rows == 0)
    return rows, size // rows


def areas(blocks: IntArray) -> IntArray:
    """The number of cells of each block."""
    return (blocks[:, 1] - blocks[:, 0]) * (blocks[:, 3] - blocks[:, 2])


def cells(blocks: IntArray, shape: Shape) -> Groups:
    """The cells of blocks that do not overlap, as groups of keys; other keys are in no group.

    >>> cells(np.array([[0, 2, 1, 3], [0, 1, 0, 1]]), (2, 3)).of.tolist()
    [1, 0, 0, -1, 0, 0]
    """
    heights, widths = blocks[:, 1] - blocks[:, 0], blocks[:, 3] - blocks[:, 2]
    lines = np.repeat(np.arange(len(blocks)), heights)  # each block's rows, one after the other
    rows = blocks[lines, 0] + within(heights)
    lengths = widths[lines]
    inside = np.repeat(rows * shape[1] + blocks[lines, 2], lengths) + within(lengths)
    sizes = heights * widths
    of = np.full(math.prod(shape), -1)
    of[inside] = np.repeat(np.arange(len(blocks)), sizes)
    outside = np.flatnonzero(of < 0) if len(inside) < len(of) else inside[:0]
    return Groups(of, np.concatenate([outside, inside]), len(outside) + np.cumsum(sizes) - sizes)


def within(sizes: IntArray) -> IntArray:
    """0, 1, … within each of several runs of these sizes."""
    ends = np.cumsum(sizes)
    return np.arange(int(ends[-1]) if len(ends) else 0) - np.repeat(ends - sizes, sizes)


def cut(blocks: IntArray, axis: IntArray, at: IntArray) -> Parts:
    """Each block in two along its rows (`axis` 0) or columns (1); the second part begins `at`.

    A block stays in one piece where `at` is its first row or column.

    >>> cut(np.array([[0, 4, 0, 2], [4, 8, 0, 2]]), np.array([0, 0]), np.array([1, 4]))[0].tolist()
    [[0, 1, 0, 2], [1, 4, 0, 2], [4, 8, 0, 2]]
    """
    low = 2 * axis
    times = 1 + (at > blocks[np.arange(len(blocks)), low])
    of = np.repeat(np.arange(len(blocks)), times)
    parts, second = blocks[of], np.flatnonzero(within(times) == 1)
    divided = of[second]
    parts[second, low[divided]] = parts[second - 1, low[divided] + 1] = at[divided]
    return parts, of


def quarters(blocks: IntArray) -> Parts:
    """Each block halved along its longer side, and along the other unless it is much shorter."""
    parts, of = blocks, np.arange(len(blocks))
    rows, columns = blocks[:, 1] - blocks[:, 0], blocks[:, 3] - blocks[:, 2]
    for axis, side, other in ((0, rows, columns), (1, columns, rows)):
        half = np.where(2 * side > np.maximum(other, 2), (side + 1) // 2, 0)[of]
        parts, again = cut(parts, np.full(len(parts), axis), parts[:, 2 * axis] + half)
        of = of[again]
    return parts, of


def _together(levels: Sequence[Level], shape: Shape) -> Released:
    """One number per cell: its even share of the fitted total of the last block that it is in."""
    tree, one = BlockTree.of(levels), levels[0].noisy
    noisy = np.concatenate([level.noisy.value for level in levels])
    parts = np.concatenate(
        [np.broadcast_to(level.noisy.scale.parts, len(level.last)) for level in levels]
    )
    variances = np.concatenate([level.noisy.variance for level in levels])
    fitted = make_consistent(tree, noisy.astype(np.float64), variances)
    ends = np.concatenate([level.blocks[level.last] for level in levels])
    block = np.flatnonzero(~tree.inner)[cells(ends, shape).of]
    size = tree.leaves[block]
    return Released(
        unit=one.unit,
        value=np.rint(np.clip(fitted * FINENESS, -_MAX_FITTED, _MAX_FITTED)).astype(np.int64)[
            block
        ],
        scale=Scale(one.scale.base, np.where(size == 1, parts[block], 0)),
        guarantee=one.guarantee,
        private=all(level.noisy.private for level in levels),
        divisor=FINENESS * size,
        kind="median",
        public={
            "noisy": noisy[block],
            "start": np.full(len(block), one.unit),
            "block": block,
            APART: np.array([round(float(np.sqrt(variances[~tree.inner] / 2).sum()))]),
        },
    )


def _sides(shape: object) -> Shape:
    if not isinstance(shape, (tuple, list)) or len(shape) != 2:
        raise ConfigurationError(
            f"shape must be two numbers, of rows and of columns, not {shape!r}.", parameter="shape"
        )
    rows, columns = (whole(side, name="shape", least=1) for side in shape)
    return rows, columns


def _above(number: Fraction, epsilon: Budget) -> int:
    """`number` divided by ε, rounded down."""
    return Budget(epsilon.quanta * number.denominator, epsilon.grid).into(number.numerator)
