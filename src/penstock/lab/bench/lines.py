"""What is stepped through a stream: a mechanism, or a line that needs none."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from functools import cached_property

import numpy as np

from penstock.core.arrays import FloatArray, IntArray
from penstock.core.released import Released
from penstock.lab.bench.cell import ZEROS, Cell
from penstock.lab.bench.feed import Feed
from penstock.private.noise import TestNoise
from penstock.private.run import Run


class Seen:
    """One unit: what was true, and what was shown of it."""

    def __init__(self, truth: IntArray, shown: FloatArray, released: Released | None) -> None:
        self.truth = truth
        self.shown = shown
        self.released = released

    @cached_property
    def error(self) -> FloatArray:
        return self.shown - self.truth

    @cached_property
    def absolute(self) -> FloatArray:
        return np.abs(self.error)


class Line(ABC):
    """Takes a unit's counts, shows numbers. `seconds` is the CPU time of the steps alone."""

    seconds = 0.0
    run: Run | None = None

    @abstractmethod
    def step(self, counts: IntArray) -> Seen: ...

    def megabytes(self) -> float:
        """What it keeps between units: the size of its snapshot, the ledger's lines and the gate's secrets included."""
        return 0.0


class Stepped(Line):
    """A mechanism under noise that follows from a seed."""

    def __init__(self, cell: Cell, feed: Feed, seed: int) -> None:
        self.run = Run(cell.made(), feed.domain, noise=TestNoise(cell.noise(seed)))
        self._last: Released | None = None
        self._estimate: FloatArray | None = None

    def step(self, counts: IntArray) -> Seen:
        assert self.run is not None
        begun = time.process_time()
        released = self.run.step(counts)
        self.seconds += time.process_time() - begun
        if self._estimate is None or self._last is None or released.value is not self._last.value:
            self._estimate = released.estimate
        self._last = released
        return Seen(self.run.released.totals(counts), self._estimate, released)

    def megabytes(self) -> float:
        assert self.run is not None
        return len(self.run.snapshot()) / 1e6


class Constant(Line):
    """The same numbers in every unit."""

    def __init__(self, shown: FloatArray) -> None:
        self._shown = shown

    def step(self, counts: IntArray) -> Seen:
        return Seen(counts, self._shown, None)


def line_of(cell: Cell, feed: Feed, seed: int) -> Line:
    """The line of a cell, before its first unit."""
    if cell.trivial:
        return Constant(np.zeros(feed.domain.size) if cell.mechanism == ZEROS else feed.mean)
    return Stepped(cell, feed, seed)
