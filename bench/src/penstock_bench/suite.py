"""What a suite is: questions, each a figure of a paper, whose points are cells; and what the paper
found.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from penstock.core.errors import ConfigurationError
from penstock_bench.cell import TRIVIAL, Cell
from penstock_bench.claims import Claim


@dataclass(frozen=True, kw_only=True)
class Setting:
    """How much is run. `also` are mechanisms, `streams` datasets that the user wants beside those
    of the suite.
    """

    quick: bool = False
    runs: int | None = None
    seed: int = 1
    also: tuple[str, ...] = ()
    streams: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.runs is not None and self.runs < 1:
            raise ConfigurationError(f"runs must be at least 1, not {self.runs}.")
        if self.seed < 0:
            raise ConfigurationError(f"seed must not be negative, not {self.seed}.")


@dataclass(frozen=True)
class PlottedMeasure:
    """A measure as a figure shows it.

    `name` is what the measure calls its number, with {x} for the place on the axis and {of} for
    what a point says it is of.
    """

    name: str
    title: str
    formula: str = ""
    """The name of what theory says it should be, where there is such a thing."""
    error: str = ""
    """The name of the standard error of the number, where releases lie side by side."""
    more: bool = False
    """Whether more is better, as it is of rates: these are drawn from 0 to 1."""
    curve: bool = False
    """Whether a line counts as a whole: nobody wins at a single place."""
    beside: bool = False
    """Whether intervals are those of releases side by side: two standard errors, however few runs
    there are.
    """

    def at(self, x: str, of: str = "") -> str:
        return _filled(self.name, x, of)

    def formula_at(self, x: str, of: str = "") -> str:
        return _filled(self.formula, x, of)

    def error_at(self, x: str, of: str = "") -> str:
        return _filled(self.error, x, of)


def _filled(name: str, x: str, of: str) -> str:
    return name.replace("{x}", x).replace("{of}", of)


@dataclass(frozen=True)
class Point:
    """One place on one line of one panel: the mean over a cell's runs. `x` is text, as it was
    configured.

    `of` tells the numbers of one cell apart that belong to different panels or lines.
    """

    panel: str
    line: str
    x: str
    cell: Cell
    of: str = ""

    @property
    def streams(self) -> set[str]:
        """What its stream may be asked for by: the dataset, or the panel that it is in."""
        return {self.cell.stream.dataset, self.panel}

    @property
    def private(self) -> bool:
        return self.cell.private


@dataclass(frozen=True, kw_only=True)
class BenchQuestion:
    """A figure: what varies along its axis, in which panels, by which measures, and what the paper
    says about it.
    """

    name: str
    title: str
    words: str
    axis: str
    measures: tuple[PlottedMeasure, ...]
    points: tuple[Point, ...]
    claims: tuple[Claim, ...] = ()
    linear: bool = False
    columns: int = 4


@dataclass(frozen=True)
class Suite(ABC):
    """An experiment of a paper, as questions."""

    name: ClassVar[str]
    title: ClassVar[str]
    paper: ClassVar[str]
    words: ClassVar[str]
    """What is compared, and under which promise."""
    leaders: ClassVar[tuple[tuple[str, tuple[str, ...]], ...]] = ()
    """What stands on the leaderboard: questions, and of each some places on its axis, or all if
    none is named.
    """
    runs: ClassVar[int] = 10
    quick_runs: ClassVar[int] = 2

    @abstractmethod
    def questions(self, setting: Setting) -> Sequence[BenchQuestion]:
        """All of them, with every point; those of data that are not here are left out later."""

    def repeats(self, setting: Setting) -> int:
        """How many runs a cell has."""
        if setting.runs is not None:
            return setting.runs
        return self.quick_runs if setting.quick else self.runs


@dataclass(frozen=True)
class Chosen:
    """The questions of a suite, without what was not asked for."""

    questions: tuple[BenchQuestion, ...]
    cells: tuple[Cell, ...] = field(repr=False)
    """One of each, run 0."""


def choose(suite: Suite, setting: Setting, *selections: Sequence[str]) -> Chosen:
    """All questions, or those parts of them that a selection names: questions, datasets, lines.

    In a selection, names of one kind add up and names of different kinds cut each other down; the
    trivial lines always stay. Several selections give what any of them gives. An empty one gives
    everything. A dataset that the suite has already is not added a second time.
    """
    own = {
        point.cell.stream.dataset
        for each in suite.questions(replace(setting, streams=()))
        for point in each.points
    }
    setting = replace(setting, streams=tuple(name for name in setting.streams if name not in own))
    questions = tuple(suite.questions(setting))
    kinds = {
        "question": {question.name for question in questions},
        "stream": {
            name for question in questions for point in question.points for name in point.streams
        },
        "line": {point.line for question in questions for point in question.points},
    }
    for name in dict.fromkeys(name for selection in selections for name in selection):
        if not any(name in names for names in kinds.values()):
            known = ", ".join(
                each for names in kinds.values() for each in sorted(names - set(TRIVIAL))
            )
            raise ConfigurationError(f"{suite.name} has no {name!r}: use {known}.")

    def kept(question: BenchQuestion, point: Point, selection: Sequence[str]) -> bool:
        here = {"question": {question.name}, "stream": point.streams, "line": {point.line}}
        for kind, names in kinds.items():
            asked = names & set(selection)
            if asked and not here[kind] & asked and not (kind == "line" and point.cell.trivial):
                return False
        return True

    left = []
    for question in questions:
        points = tuple(
            p
            for p in question.points
            if any(kept(question, p, each) for each in selections or ((),))
        )
        if any(not point.cell.trivial for point in points):
            left.append(replace(question, points=points))
    if not left:
        asked = dict.fromkeys(name for selection in selections for name in selection)
        raise ConfigurationError(f"{suite.name} has nothing that is all of {', '.join(asked)}.")
    cells = dict.fromkeys(point.cell for question in left for point in question.points)
    return Chosen(tuple(left), tuple(cells))
