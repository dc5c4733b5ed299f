"""A small dataset and a small suite, for tests of the bench."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from penstock import Gate, Mechanism, Private, Released
from penstock.core.arrays import IntArray
from penstock.core.domain import Domain
from penstock_bench.cell import MEAN, ZEROS, Cell, Stretch
from penstock_bench.claims import Better, Inside
from penstock_bench.datasets.base import Dataset, DatasetStream
from penstock_bench.suite import BenchQuestion, PlottedMeasure, Point, Setting, Suite

TINY = "bench.tests.tiny:Tiny"
ABSENT = "bench.tests.tiny:Absent"


class Steps(DatasetStream):
    """Key k has k·10 + the unit's place in a cycle of seven."""

    def __init__(self, units: int, keys: int) -> None:
        self.domain, self.units, self.period = Domain.of(keys), units, None

    def row(self, unit: int) -> IntArray:
        return np.arange(self.domain.size, dtype=np.int64) * 10 + unit % 7


@dataclass(frozen=True)
class Tiny(Dataset):
    name: ClassVar[str] = "tiny"
    title: ClassVar[str] = "a made-up cycle"
    licence: ClassVar[str] = "generated"
    unit: ClassVar[str] = "an hour"
    person: ClassVar[str] = "nobody"

    units: int = 30
    keys: int = 4

    def make(self) -> DatasetStream:
        return Steps(self.units, self.keys)


@dataclass(frozen=True)
class Absent(Tiny):
    name: ClassVar[str] = "absent"

    def missing(self) -> str | None:
        return "it was never collected."


@dataclass(frozen=True, kw_only=True)
class Failing(Mechanism[Any]):
    """Fails in its second unit."""

    name = "failing"
    paper = "none"
    proof = "none"
    State = Released

    def start(self, domain: Domain) -> Released:
        return Released.nothing(domain.size, self.guarantee)

    def step(self, state: Released, unit: Private, gate: Gate) -> tuple[Released, Released]:
        if gate.unit == 2:
            raise RuntimeError("it broke")
        return state, gate.laplace(unit, epsilon=self.total // self.window, label="publish")


@dataclass(frozen=True, kw_only=True)
class Dying(Failing):
    """Takes its process with it, as a machine without memory does."""

    name = "dying"

    def step(self, state: Released, unit: Private, gate: Gate) -> tuple[Released, Released]:
        os._exit(9)


@dataclass(frozen=True)
class TinySuite(Suite):
    name = "tiny"
    title = "A tiny <suite>"
    paper = "nobody, nowhere"
    words = "Everybody promises (ε, w) & nothing else; `ba` is code."
    leaders = (("window", ("5",)),)
    runs = 3
    quick_runs = 2

    def questions(self, setting: Setting) -> Sequence[BenchQuestion]:
        lines = ("uniform", "sample", "ba", *setting.also, ZEROS, MEAN)
        points = [
            Point(dataset.rpartition(":")[2], line, str(window), self.cell(dataset, line, window))
            for dataset in (TINY, ABSENT, *setting.streams)
            for window in (2, 5)
            for line in lines
        ]
        return (
            BenchQuestion(
                name="window",
                title="The window",
                words="As `w` grows.",
                axis="window w",
                measures=(
                    PlottedMeasure("mae", "mean absolute error"),
                    PlottedMeasure("mre", "mean relative error"),
                ),
                points=tuple(points),
                claims=(
                    Better(
                        paper="uniform is better than all zeros",
                        measure="mae",
                        line="uniform",
                        rival=ZEROS,
                    ),
                    Better(
                        paper="all zeros is a thousand times better",
                        measure="mae",
                        line=ZEROS,
                        rival="uniform",
                        up_to=1000,
                    ),
                    Inside(
                        paper="no error is above 1e9", measure="mae", line="ba", low=0, high=1e9
                    ),
                    Inside(paper="it has no error", measure="mae", line="nobody", low=0, high=0),
                ),
            ),
        )

    def cell(self, dataset: str, line: str, window: int) -> Cell:
        return Cell.of(
            self.name,
            Stretch(dataset=dataset),
            line,
            ("mae", "mre", "time"),
            epsilon="1",
            window=window,
        )
