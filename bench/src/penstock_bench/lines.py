"""The lines that step through a stream: a mechanism, a competitor, or a trivial line."""

from __future__ import annotations

import pickle
import time
from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any

import numpy as np

from penstock.core.arrays import FloatArray, IntArray
from penstock.core.errors import ConfigurationError
from penstock.core.released import Released
from penstock.core.weights import UNIT, Weights
from penstock.private.mechanisms.base import Mechanism
from penstock.private.noise import Noise, TestNoise
from penstock.private.run import Run
from penstock_bench.cell import ZEROS, Cell
from penstock_bench.competitors.competitor import Competitor, Decayed
from penstock_bench.feed import Feed


class ShownUnit:
    """One unit: its counts and the numbers shown. `weights` says whether these are sums over
    units."""

    def __init__(
        self,
        truth: IntArray,
        shown: FloatArray,
        released: Released | None,
        *,
        weights: Weights = UNIT,
    ) -> None:
        self.truth = truth
        self.shown = shown
        self.released = released
        self.weights = weights

    @property
    def weighted(self) -> bool:
        """Whether the numbers are sums over several units."""
        return self.weights != UNIT

    @cached_property
    def error(self) -> FloatArray:
        """The errors of the unit's counts."""
        if self.weighted:
            raise ConfigurationError(
                f"this line shows {self.weights.in_words()}, so a measure of unit counts "
                "does not apply."
            )
        return self.shown - self.truth

    @cached_property
    def absolute(self) -> FloatArray:
        return np.abs(self.error)


class BenchLine(ABC):
    """Takes the counts of a unit and shows numbers. `seconds` is the CPU time of the steps
    alone."""

    seconds = 0.0
    run: Run | None = None

    @abstractmethod
    def step(self, counts: IntArray) -> ShownUnit: ...

    def megabytes(self) -> float:
        """The bytes that it keeps between units: its snapshot, with ledger lines and secrets."""
        return 0.0


class Stepped(BenchLine):
    """A mechanism under noise from a seed."""

    def __init__(self, mechanism: Mechanism[Any], feed: Feed, noise: Noise) -> None:
        self.run = Run(mechanism, feed.domain, noise=noise)
        self._last: Released | None = None
        self._estimate: FloatArray | None = None

    def step(self, counts: IntArray) -> ShownUnit:
        assert self.run is not None
        begun = time.process_time()
        released = self.run.step(counts)
        self.seconds += time.process_time() - begun
        if self._estimate is None or self._last is None or released.value is not self._last.value:
            self._estimate = released.estimate
        self._last = released
        return ShownUnit(
            self.run.released.totals(counts), self._estimate, released, weights=released.weights
        )

    def megabytes(self) -> float:
        assert self.run is not None
        return len(self.run.snapshot()) / 1e6


class Competing(BenchLine):
    """A competitor under noise from a seed."""

    def __init__(self, competitor: Competitor, feed: Feed, noise: Noise) -> None:
        self._course = competitor.begin(feed.domain, noise=noise)
        self._weights = competitor.weights if isinstance(competitor, Decayed) else UNIT

    def step(self, counts: IntArray) -> ShownUnit:
        begun = time.process_time()
        shown = self._course.step(counts)
        self.seconds += time.process_time() - begun
        return ShownUnit(counts, shown, None, weights=self._weights)

    def megabytes(self) -> float:
        return len(pickle.dumps(self._course.kept())) / 1e6


class Constant(BenchLine):
    """A line that shows the same numbers in every unit."""

    def __init__(self, shown: FloatArray) -> None:
        self._shown = shown

    def step(self, counts: IntArray) -> ShownUnit:
        return ShownUnit(counts, self._shown, None)


def line_of(cell: Cell, feed: Feed, seed: int) -> BenchLine:
    """Make the line of a cell, before its first unit."""
    if cell.trivial:
        return Constant(np.zeros(feed.domain.size) if cell.mechanism == ZEROS else feed.mean)
    made, noise = cell.made(), TestNoise(cell.noise(seed))
    return (
        Competing(made, feed, noise) if isinstance(made, Competitor) else Stepped(made, feed, noise)
    )
