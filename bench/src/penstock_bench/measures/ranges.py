"""Errors of range counts: the events in a box, an interval of every attribute."""

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
"""The seed of the boxes: the same boxes for every line."""

SANITY = 1
"""Relative errors divide by the true answer, or by this if it is larger."""


class RangeCounts:
    """Range counts with the true answers of the last unit, shared by all cells of a pass."""

    def __init__(self, shape: tuple[int, ...], number: int, size: int | None) -> None:
        self.workload = Workload.random(shape, number=number, seed=SEED, size=size)
        self._truth: IntArray | None = None
        self._answers: FloatArray = np.zeros(number)
        self._parts: FloatArray = np.zeros(number)

    def true(self, truth: IntArray) -> tuple[FloatArray, FloatArray]:
        """The answers of a row and the weights of their parts; computed once per row."""
        if truth is not self._truth:
            self._truth = truth  # the row is kept, so no other row can have its address
            self._answers = np.asarray(self.workload.answers(truth), np.float64)
            self._parts = 1 / np.maximum(self._answers, SANITY)
        return self._answers, self._parts


class RangeError(Measure):
    """Mean errors of random range counts over all units: `ranges:NUMBER` or `ranges:NUMBER,SIZE`.

    With a size, boxes have that many cells, or the nearest possible number. A domain without
    attributes counts as one attribute. Two values: the absolute error under the measure's name, and
    the relative error.
    """

    def begin(self) -> None:
        number, size = _arguments(self.arguments, self.name)
        self._asked = asked(_shape(self.facts.domain), number, size)
        self._shown: FloatArray | None = None
        self._answers: FloatArray = np.zeros(number)
        self._absolute = self._relative = 0.0

    def add(self, seen: ShownUnit) -> None:
        if self._shown is None or not np.array_equal(seen.shown, self._shown):
            self._shown = seen.shown.copy()  # the line may overwrite the array
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
    """The range counts of this process, the same for every line."""
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
