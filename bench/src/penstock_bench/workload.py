"""Random range counts, and the errors of released numbers on them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise, zip_longest
from typing import Any, Final, TypeAlias

import numpy as np

from penstock.core.arrays import FloatArray, IntArray
from penstock.core.box_sums import Boxes
from penstock.core.errors import ConfigurationError, InputError
from penstock.core.exact import whole

Stream: TypeAlias = Iterable[Any]
"""One row of numbers per unit: an array, or an iterable of rows."""

BUCKETS: Final = 10
"""The ratio between the sizes of consecutive buckets."""


@dataclass(frozen=True, eq=False)
class Workload:
    """Range counts for every unit: the number of events in a box, an interval of each attribute.

    >>> workload = Workload.random((2, 73, 9), number=100, seed=1)
    >>> workload
    <Workload of 100 range counts over 2 × 73 × 9 cells>
    >>> bool((workload.answers(np.ones(2 * 73 * 9, np.int64)) == workload.sizes).all())
    True
    """

    boxes: Boxes

    @classmethod
    def random(
        cls, shape: tuple[int, ...], *, number: int = 5000, seed: int = 0, size: int | None = None
    ) -> Workload:
        """Draw a random interval of each attribute; all intervals are equally likely.

        With `size`, boxes have that many cells, or the nearest possible number: first the lengths
        of the intervals are drawn among all that fit, then the place.
        """
        sides = np.array([whole(side, name="shape", least=1) for side in shape], np.int64)
        number = whole(number, name="number", least=1)
        rng = np.random.default_rng(seed)
        if size is None:
            one = rng.integers(0, sides + 1, (number, len(sides)))
            other = rng.integers(0, sides, (number, len(sides)))
            other += other >= one  # two different borders between values
            low, high = np.minimum(one, other), np.maximum(one, other) - 1
        else:
            ways = _lengths(sides.tolist(), whole(size, name="size", least=1))
            lengths = ways[rng.integers(0, len(ways), number)]
            low = rng.integers(0, sides - lengths + 1)
            high = low + lengths - 1
        return cls(Boxes(tuple(sides.tolist()), low, high))

    def __repr__(self) -> str:
        return (
            f"<Workload of {self.number} range counts over {' × '.join(map(str, self.shape))} "
            "cells>"
        )

    @property
    def shape(self) -> tuple[int, ...]:
        return self.boxes.shape

    @property
    def number(self) -> int:
        """The number of range counts."""
        return len(self.boxes.low)

    @property
    def sizes(self) -> IntArray:
        """The number of cells of each range count."""
        return self.boxes.sizes

    def answers(self, values: Any) -> IntArray | FloatArray:
        """The range counts of a unit's numbers; exact for whole numbers."""
        answers: IntArray | FloatArray = self.boxes.sums(_row(values))
        return answers

    def errors(self, truth: Stream, shown: Stream, *, sanity: float = 1.0) -> Errors:
        """The error of each range count of `shown` against `truth`, on average over the units.

        Relative errors divide by the true answer, or by `sanity` if that is larger, because empty
        boxes have no relative error. Both streams are read once, unit by unit.
        """
        if not 0 < sanity < math.inf:
            raise ConfigurationError(f"sanity must be a finite number above 0, not {sanity!r}.")
        absolute, relative, units = np.zeros(self.number), np.zeros(self.number), 0
        for true, off in self._off(truth, shown):
            absolute += off
            relative += off / np.maximum(self.boxes.sums(true), sanity)
            units += 1
        return Errors(sizes=self.sizes, absolute=absolute / units, relative=relative / units)

    def mean_absolute_error(self, truth: Stream, shown: Stream) -> float:
        """The mean absolute error over all units and range counts.

        >>> single = Workload.random((4,), number=50, seed=1, size=1)
        >>> single.mean_absolute_error([[1, 2, 3, 4]], [[2, 3, 4, 5]])
        1.0
        """
        total, units = 0.0, 0
        for _, off in self._off(truth, shown):
            total, units = total + float(off.mean()), units + 1
        return total / units

    def _off(self, truth: Stream, shown: Stream) -> Iterator[tuple[Any, Any]]:
        """The true numbers of each unit, and the error of every range count."""
        none = True
        for one, other in zip_longest(truth, shown):
            if one is None or other is None:
                raise InputError("truth and shown must have the same number of units.")
            true, said = _row(one), _row(other)
            if true.shape != said.shape:
                raise InputError(
                    "truth and shown must have the same number of numbers per unit, not "
                    f"{true.shape} and {said.shape}."
                )
            yield true, np.abs(self.boxes.sums(true - said))
            none = False
        if none:
            raise InputError("truth and shown must have at least one unit.")


@dataclass(frozen=True, eq=False, kw_only=True)
class Errors:
    """The errors of range counts: for each, the mean over the units."""

    sizes: IntArray
    absolute: FloatArray
    relative: FloatArray

    @property
    def mean_absolute(self) -> float:
        return float(self.absolute.mean())

    @property
    def mean_relative(self) -> float:
        return float(self.relative.mean())

    def by_size(self, borders: Iterable[int] | None = None) -> tuple[Bucket, ...]:
        """The mean errors of range counts by size: one bucket from each border to below the next.

        Default borders: 1, 10, 100 and so on. Sizes outside the borders and empty buckets are left
        out.
        """
        if borders is None:
            steps = math.floor(math.log10(int(self.sizes.max()))) + 2
            borders = [BUCKETS**step for step in range(steps)]
        ends = [whole(border, name="borders", least=1) for border in borders]
        if len(ends) < 2 or ends != sorted(set(ends)):
            raise ConfigurationError("borders must be at least two increasing numbers.")
        found = []
        for first, end in pairwise(ends):
            inside = (self.sizes >= first) & (self.sizes < end)
            if inside.any():
                absolute, relative = (
                    float(self.absolute[inside].mean()),
                    float(self.relative[inside].mean()),
                )
                found.append(
                    Bucket(
                        first=first,
                        last=end - 1,
                        number=int(inside.sum()),
                        absolute=absolute,
                        relative=relative,
                    )
                )
        return tuple(found)


@dataclass(frozen=True, kw_only=True)
class Bucket:
    """The mean errors of the range counts with `first` to `last` cells."""

    first: int
    last: int
    number: int
    absolute: float
    relative: float


def _row(values: Any) -> Any:
    """Whole numbers as 64-bit integers, all others as floats."""
    row = np.asarray(values)
    return row.astype(np.int64 if row.dtype.kind in "iub" else np.float64)


def _lengths(sides: list[int], size: int) -> IntArray:
    """All lengths of intervals whose product is nearest to `size`; of two, the smaller product."""
    products = np.ones(1, np.int64)
    for side in sides:
        products = np.unique(products[:, None] * np.arange(1, side + 1))
    size = int(products[np.abs(products - size).argmin()])
    ways, left = np.zeros((1, 0), np.int64), np.array([size])
    for axis, side in enumerate(sides):
        length = np.arange(1, side + 1)
        way, place = np.nonzero(
            (left[:, None] % length == 0)
            & (left[:, None] // length <= math.prod(sides[axis + 1 :]))
        )
        ways = np.column_stack([ways[way], length[place]])
        left = left[way] // length[place]
    return ways
