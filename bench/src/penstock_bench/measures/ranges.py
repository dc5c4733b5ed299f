"""Errors of range counts: how many events lie in a box, an interval of every attribute."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from penstock.core.arrays import FloatArray, IntArray
from penstock.core.domain import Domain
from penstock.core.errors import ConfigurationError
from penstock.core.product import Product
from penstock_bench.lines import ShownUnit
from penstock_bench.measures.base import Measure
from penstock_bench.workload import Workload

SEED = 1
"""Of the boxes: the same ones for everybody, whatever the seed of the noise."""

SANITY = 1
"""Relative errors are to the true answer, or to this where that is less."""


class RangeCounts:
    """Some range counts, with the true answers of the last unit: cells that go through a stream
    together share them.
    """

    def __init__(self, shape: tuple[int, ...], number: int, size: int | None) -> None:
        self.workload = Workload.random(shape, number=number, seed=SEED, size=size)
        self._truth: IntArray | None = None
        self._answers: FloatArray = np.zeros(number)
        self._parts: FloatArray = np.zeros(number)

    def true(self, truth: IntArray) -> tuple[FloatArray, FloatArray]:
        """The answers of this row, and what each part of one of them counts for; once for everybody
        who has the same row.
        """
        if truth is not self._truth:
            self._truth = truth  # it is kept, so no other row can stand at its place in memory
            self._answers = np.asarray(self.workload.answers(truth), np.float64)
            self._parts = 1 / np.maximum(self._answers, SANITY)
        return self._answers, self._parts


class RangeError(Measure):
    """`ranges:NUMBER` or `ranges:NUMBER,SIZE`: mean errors of so many random range counts, over all
    units.

    With a size, boxes of that many cells, or of the nearest number that there is. A domain without
    attributes is one attribute, its keys in their order. Two numbers are given: the absolute error
    under the measure's own name, and the relative one.
    """

    def begin(self) -> None:
        number, size = _arguments(self.arguments, self.name)
        self._asked = asked(_shape(self.facts.domain), number, size)
        self._shown: FloatArray | None = None
        self._answers: FloatArray = np.zeros(number)
        self._absolute = self._relative = 0.0

    def add(self, seen: ShownUnit) -> None:
        if self._shown is None or not np.array_equal(seen.shown, self._shown):
            self._shown = seen.shown.copy()  # whoever shows it may write into it
            self._answers = np.asarray(self._asked.workload.answers(seen.shown), np.float64)
        answers, parts = self._asked.true(seen.truth)
        off = self._answers - answers
        np.abs(off, out=off)
        self._absolute += float(off.mean())
        off *= parts
        self._relative += float(off.mean())

    def values(self) -> dict[str, float]:
        units = self.facts.units
        return {self.name: self._absolute / units, f"{self.name} relative": self._relative / units}


@lru_cache(maxsize=8)
def asked(shape: tuple[int, ...], number: int, size: int | None) -> RangeCounts:
    """The range counts of this process: the same ones for everybody who asks for so many."""
    return RangeCounts(shape, number, size)


def _shape(domain: Domain) -> tuple[int, ...]:
    return domain.shape if isinstance(domain, Product) else (domain.size,)


def _arguments(arguments: tuple[str, ...], name: str) -> tuple[int, int | None]:
    if len(arguments) not in (1, 2) or not all(each.isdigit() and int(each) for each in arguments):
        raise ConfigurationError(
            f"the measure {name!r} needs a number and perhaps a size, such as ranges:5000 or "
            "ranges:5000,10."
        )
    number, *size = map(int, arguments)
    return number, size[0] if size else None
