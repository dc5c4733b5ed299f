"""Random range counts, and how far what was released is from them."""

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
"""One row of numbers a unit: an array, or rows that come one after the other."""

BUCKETS: Final = 10
"""How many times larger the sizes of the next bucket are."""


@dataclass(frozen=True, eq=False)
class Workload:
    """Range counts to be asked of every unit: how many events lie in a box, an interval of each
    attribute.

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
        """Each attribute's interval at random, every interval of its values as likely as any other.

        With a `size`, boxes of that many cells, or of the nearest number that intervals can make:
        of all ways to choose the intervals' lengths one at random, and then a place.
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
        """How many range counts there are."""
        return len(self.boxes.low)

    @property
    def sizes(self) -> IntArray:
        """How many cells each of them is over."""
        return self.boxes.sizes

    def answers(self, values: Any) -> IntArray | FloatArray:
        """What each range count is of a unit's numbers; exact for whole numbers."""
        answers: IntArray | FloatArray = self.boxes.sums(_row(values))
        return answers

    def errors(self, truth: Stream, shown: Stream, *, sanity: float = 1.0) -> Errors:
        """How far each range count of `shown` is from that of `truth`, on average over the units.

        Relative to the true answer, or to `sanity` where that is larger: empty boxes would have no
        relative error at all. Both streams are read unit by unit, once.
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
        """The mean over all units and range counts of how far an answer is from the truth.

        >>> single = Workload.random((4,), number=50, seed=1, size=1)
        >>> single.mean_absolute_error([[1, 2, 3, 4]], [[2, 3, 4, 5]])
        1.0
        """
        total, units = 0.0, 0
        for _, off in self._off(truth, shown):
            total, units = total + float(off.mean()), units + 1
        return total / units

    def _off(self, truth: Stream, shown: Stream) -> Iterator[tuple[Any, Any]]:
        """Each unit's true numbers, and how far every range count is off."""
        none = True
        for one, other in zip_longest(truth, shown):
            if one is None or other is None:
                raise InputError("truth and shown must have as many units as each other.")
            true, said = _row(one), _row(other)
            if true.shape != said.shape:
                raise InputError(
                    f"truth and shown must have as many numbers a unit, not {true.shape} and "
                    f"{said.shape}."
                )
            yield true, np.abs(self.boxes.sums(true - said))
            none = False
        if none:
            raise InputError("truth and shown must have at least one unit.")


@dataclass(frozen=True, eq=False, kw_only=True)
class Errors:
    """The errors of range counts: the mean over the units for each of them."""

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
        """The mean errors of smaller and larger range counts: a bucket from each border to below
        the next.

        Unless told otherwise, the borders are 1, 10, 100 and so on. Sizes outside them and buckets
        without a range count are left out.
        """
        if borders is None:
            steps = math.floor(math.log10(int(self.sizes.max()))) + 2
            borders = [BUCKETS**step for step in range(steps)]
        ends = [whole(border, name="borders", least=1) for border in borders]
        if len(ends) < 2 or ends != sorted(set(ends)):
            raise ConfigurationError("borders must be at least two, each above the one before.")
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
    """The mean errors of the range counts over `first` to `last` cells."""

    first: int
    last: int
    number: int
    absolute: float
    relative: float


def _row(values: Any) -> Any:
    """Whole numbers as 64 bits of them, all others as floats."""
    row = np.asarray(values)
    return row.astype(np.int64 if row.dtype.kind in "iub" else np.float64)


def _lengths(sides: list[int], size: int) -> IntArray:
    """All lengths of intervals whose product is the number nearest to `size` that there is; the
    smaller of two.
    """
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
