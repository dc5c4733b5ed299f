"""A suite has questions, each a figure of a paper; the points of a question are cells."""

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
    """The size of a run. `also` are more mechanisms, `streams` more datasets, chosen by the
    user."""

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
    """A measure in a figure.

    `name` is the name of the number, with {x} for the place on the axis and {of} for the point's
    own part.
    """

    name: str
    title: str
    formula: str = ""
    """The name of the formula's value, if there is a formula."""
    error: str = ""
    """The name of the number's standard error, if releases lie side by side."""
    more: bool = False
    """Whether more is better, as for rates. The axis of these goes from 0 to 1."""
    curve: bool = False
    """Whether a line counts as a whole, without winners at single places."""
    beside: bool = False
    """Whether intervals are two standard errors of releases side by side, for any number of runs.
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
    """One place on one line of one panel: the mean over a cell's runs. `x` is text, as configured.

    `of` tells numbers of one cell apart that belong to different panels or lines.
    """

    panel: str
    line: str
    x: str
    cell: Cell
    of: str = ""

    @property
    def streams(self) -> set[str]:
        """The names that select its stream: the dataset or the panel."""
        return {self.cell.stream.dataset, self.panel}

    @property
    def private(self) -> bool:
        return self.cell.private


@dataclass(frozen=True, kw_only=True)
class BenchQuestion:
    """A figure: its axis, panels, measures, points, and the claims of the paper about it."""

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
    """The comparison and the promise, in words."""
    leaders: ClassVar[tuple[tuple[str, tuple[str, ...]], ...]] = ()
    """The rows on the leaderboard: questions, each with places on its axis (none: all places)."""
    runs: ClassVar[int] = 10
    quick_runs: ClassVar[int] = 2
    runs_by_cell: ClassVar[bool] = False
    """Whether some cells have another number of runs, where none is asked for."""

    @abstractmethod
    def questions(self, setting: Setting) -> Sequence[BenchQuestion]:
        """All questions with all points. Points without data are removed later."""

    def repeats(self, setting: Setting, cell: Cell | None = None) -> int:
        """The number of runs of a cell.

        Parameters
        ----------
        setting : Setting
            The setting.
        cell : Cell, optional
            The cell. Default: most cells of the suite.
        """
        if setting.runs is not None:
            return setting.runs
        return self.quick_runs if setting.quick else self.runs

    def repeats_in_words(self, setting: Setting) -> str:
        """The number of runs, for a page."""
        number = self.repeats(setting)
        return "one run of each cell" if number == 1 else f"means over {number} runs of each cell"


@dataclass(frozen=True)
class Chosen:
    """The selected questions of a suite."""

    questions: tuple[BenchQuestion, ...]
    cells: tuple[Cell, ...] = field(repr=False)
    """Every cell once, as run 0."""


def choose(suite: Suite, setting: Setting, *selections: Sequence[str]) -> Chosen:
    """Choose questions, datasets and lines by name.

    Same kind: either matches. Different kinds: all must match. Trivial lines always stay. Several
    selections are united; an empty one is everything. A dataset of the suite is not added twice.
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
        raise ConfigurationError(
            f"{suite.name} has no part that matches all of {', '.join(asked)}."
        )
    cells = dict.fromkeys(point.cell for question in left for point in question.points)
    return Chosen(tuple(left), tuple(cells))
