"""The findings of a suite: values by place, verdicts on the paper's claims, and winners."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

from penstock.core.errors import ConfigurationError
from penstock.private.mechanisms.grouped import GroupedByDistance
from penstock.private.mechanisms.registry import MECHANISMS
from penstock_bench.cell import Cell
from penstock_bench.claims import Finding, Place, Places, Value, number
from penstock_bench.code_digest import code_of
from penstock_bench.datasets.registry import find as find_dataset
from penstock_bench.labels import label
from penstock_bench.results import REFUSED, BenchRequest, Row, value_of, values_of
from penstock_bench.runner import command_of, key_of
from penstock_bench.suite import BenchQuestion, PlottedMeasure, Point, Setting, Suite, choose

ROUNDING = 1e-12
"""A standard error below this share of the mean is a rounding error of equal releases."""


@dataclass(frozen=True)
class Winner:
    """The best private line of a place, the second one, and the trivial lines that are as good."""

    place: Place
    line: str
    value: Value
    second: str
    ratio: float
    """The lead: the second's error divided by the winner's; if more is better, the winner's value
    divided by the second's.
    """
    sure: bool
    """Whether their intervals lie apart."""
    beaten_by: tuple[str, ...]


def no_worse(one: Value, other: Value, drawn: PlottedMeasure) -> bool:
    """Whether `one` is at least as good as `other`. Rounding differences do not count."""
    close = math.isclose(one.mean, other.mean, rel_tol=1e-9)
    return close or (one.mean > other.mean if drawn.more else one.mean < other.mean)


@dataclass(frozen=True)
class Answered:
    """A question and its values."""

    question: BenchQuestion
    values: dict[str, dict[Place, dict[str, Value]]]
    """By measure, place and line."""
    expected: dict[Place, set[str]]
    """The lines that a place needs before it has a winner."""

    def places(self, drawn: PlottedMeasure) -> Places:
        return self.values[drawn.name]

    def findings(self) -> list[Finding]:
        """The verdict on each claim."""
        more = {drawn.name for drawn in self.question.measures if drawn.more}
        return [
            replace(claim, more=claim.measure in more).found(self.values.get(claim.measure, {}))
            for claim in self.question.claims
        ]

    @cached_property
    def by_line(self) -> dict[str, Point]:
        return {point.line: point for point in reversed(self.question.points)}

    @property
    def lines(self) -> list[str]:
        """The lines that have a value, in the order of the suite."""
        there = {
            line for places in self.values.values() for lines in places.values() for line in lines
        }
        return [
            line
            for line in dict.fromkeys(point.line for point in self.question.points)
            if line in there
        ]

    def winners(self, drawn: PlottedMeasure) -> list[Winner]:
        """The best private mechanism of every complete place. A curve has no winners by place.

        A mechanism with a δ does not compete with pure ones.
        """
        found: list[Winner] = []
        if drawn.curve:
            return found
        for place, lines in self.places(drawn).items():
            mine = {line: value for line, value in lines.items() if self._competes(line)}
            least = min((self._delta(line) for line in mine), default=0)
            mine = {line: value for line, value in mine.items() if self._delta(line) == least}
            if len(mine) < 2 or not self.complete(place, lines.keys()):
                continue  # one line alone does not win
            best, second = sorted(mine, key=lambda line: mine[line].mean, reverse=drawn.more)[:2]
            high, low = (mine[best], mine[second]) if drawn.more else (mine[second], mine[best])
            ratio = high.mean / low.mean if low.mean else float("inf")
            sure = low.mean + low.half < high.mean - high.half
            trivial = [
                line
                for line, value in lines.items()
                if self.by_line[line].cell.trivial and no_worse(value, mine[best], drawn)
            ]
            found.append(Winner(place, best, mine[best], second, ratio, sure, tuple(trivial)))
        return found

    def complete(self, place: Place, there: Collection[str]) -> bool:
        """Whether all expected lines are there. Trivial lines may be missing."""
        return all(
            line in there or self.by_line[line].cell.trivial
            for line in self.expected.get(place, ())
        )

    def _competes(self, line: str) -> bool:
        return self.by_line[line].private and not self.by_line[line].cell.trivial

    def _delta(self, line: str) -> Fraction:
        return self.by_line[line].cell.delta

    def said(self, drawn: PlottedMeasure) -> list[str]:
        """The winners, in one sentence per panel."""
        if drawn.curve:
            return self._highest(drawn)
        sentences = []
        winners = self.winners(drawn)
        for panel in dict.fromkeys(winner.place[0] for winner in winners):
            here = [winner for winner in winners if winner.place[0] == panel]
            wins = Counter(winner.line for winner in here)
            parts = []
            for line, times in wins.most_common():
                its = [winner for winner in here if winner.line == line]
                where = (
                    "everywhere"
                    if times == len(here)
                    else "at " + ", ".join(winner.place[1] for winner in its)
                )
                sure = sum(winner.sure for winner in its)
                doubt = (
                    ""
                    if sure == times
                    else f" (surely at {sure} of {times})"
                    if sure
                    else " (not surely)"
                )
                parts.append(f"{label(line)} {where}{doubt}")
            words = f"{panel}: the best mechanism is {'; '.join(parts)}"
            for trivial in dict.fromkeys(name for winner in here for name in winner.beaten_by):
                at = [winner.place[1] for winner in here if trivial in winner.beaten_by]
                words += f". {label(trivial).capitalize()} is at least as good as all of them "
                words += "everywhere" if len(at) == len(here) else f"at {', '.join(at)}"
            sentences.append(words + ".")
        return sentences

    def _highest(self, drawn: PlottedMeasure) -> list[str]:
        """The best curve on average over the axis, in one sentence per panel."""
        places = self.places(drawn)
        sentences = []
        for panel in dict.fromkeys(panel for panel, _ in places):
            here = [lines for (at, _), lines in places.items() if at == panel]
            whole = [
                line
                for line in here[0]
                if self._competes(line) and all(line in lines for lines in here)
            ]
            if len(whole) > 1:
                means = {
                    line: sum(lines[line].mean for lines in here) / len(here) for line in whole
                }
                best = (max if drawn.more else min)(means, key=means.__getitem__)
                words = (
                    f"{panel}: over the whole axis the {'highest' if drawn.more else 'lowest'} "
                    "curve is that of"
                )
                sentences.append(f"{words} {label(best)}.")
        return sentences


@dataclass(frozen=True)
class SuiteFindings:
    """Everything that a report shows."""

    suite: Suite
    setting: Setting
    answered: tuple[Answered, ...]
    skipped: dict[str, str]
    refused: tuple[tuple[str, str, str], ...]
    """Stream, mechanism and reason of each cell without a value."""
    versions: tuple[dict[str, str], ...]
    cells: int
    """The number of runs of cells that are stored, of `wanted`."""
    wanted: int
    stale: int
    """How many of the stored runs were made by other code than the present one."""
    streams: dict[str, tuple[str, int, int]]
    """By stretch: its dataset, units and keys."""
    seconds: float
    selections: tuple[tuple[str, ...], ...] = ((),)
    """The selections of the suite that were asked for, in order."""

    @property
    def command(self) -> str:
        """The commands that give the same results again: one line per selection."""
        whole = any(not selection for selection in self.selections)
        return "\n".join(
            command_of(self.suite, self.setting, each)
            for each in ([()] if whole else self.selections)
        )

    def command_for(self, question: BenchQuestion) -> str:
        return command_of(self.suite, self.setting, [question.name])

    def notes(self) -> list[str]:
        """Warnings for the reader: missing data, failures, missing runs, mixed versions."""
        notes = [f"{name} was not run: {reason}." for name, reason in self.skipped.items()]
        if self.setting.quick:
            notes.append(
                "Quick setting: short streams, few keys, few runs. It shows that everything "
                "works, little more."
            )
        if self.cells < self.wanted:
            notes.append(
                f"{self.cells:,} of {self.wanted:,} runs of cells are stored: the same "
                "command runs the others."
            )
        if self.stale:
            notes.append(
                f"{self.stale:,} runs of cells were made by other code than the present one: the "
                "same command runs them again."
            )
        return notes + [
            f"{label(mechanism)} on {stream} has no value: {why}"
            for stream, mechanism, why in self.refused
        ]

    def made_by(self) -> str:
        """The versions behind the results, in words."""
        return (
            "; ".join(
                f"penstock {version.get('penstock', '?')}, "
                f"Python {version.get('python', '?')}, NumPy {version.get('numpy', '?')}"
                for version in self.versions
            )
            or "nobody yet"
        )

    def groupings(self) -> str:
        """The domain that lines with groups of keys group by, on every stream; "" without such."""
        lines: dict[str, None] = {}
        keys: dict[str, None] = {}
        for point in (point for each in self.answered for point in each.question.points):
            known = self.streams.get(point.cell.stream.name)
            made = MECHANISMS.get(point.cell.mechanism)
            if known is None or made is None or not issubclass(made, GroupedByDistance):
                continue
            lines[f"`{point.cell.mechanism}`"] = None
            keys[f"{known[0]}: {known[2]:,} keys, each {find_dataset(known[0]).key}"] = None
        if not lines:
            return ""
        return (
            f"{' and '.join(lines)} group the keys of the stream's own domain: in alphabetical "
            "order of the keys' names at first, then by the size of their releases. "
            f"Domains: {'; '.join(keys)}."
        )

    def described(self) -> list[tuple[str, str, str, str, str, str]]:
        """One row per stream: name, title, units, keys, meaning of a person, licence."""
        rows = []
        for name, (dataset, units, keys) in sorted(self.streams.items()):
            try:
                about = find_dataset(dataset)
            except ConfigurationError:
                rows.append((name, "", f"{units:,}", f"{keys:,}", "", ""))
            else:
                changed = set(re.findall(r"(\w+)=", name)) - {"units", "keys", "copies"}
                length = f"{units:,}" if changed else f"{units:,} of {about.unit}"
                rows.append((name, about.title, length, f"{keys:,}", about.person, about.licence))
        return rows

    def notices(self) -> list[str]:
        """Notices that must stand beside results of these data, if longer than a licence's name."""
        found: dict[str, None] = {}
        for dataset in dict.fromkeys(dataset for dataset, _, _ in self.streams.values()):
            try:
                about = find_dataset(dataset)
            except ConfigurationError:
                continue
            if about.missing() is None and about.notice() != about.licence:
                found[about.notice()] = None
        return list(found)

    def findings(self) -> list[tuple[BenchQuestion, Finding]]:
        """The verdicts of all questions that were run."""
        return [(each.question, finding) for each in self.answered for finding in each.findings()]

    def differences(self) -> list[str]:
        """One sentence per claim that does not hold, or holds in part."""
        return [
            finding.sentence()
            for _, finding in self.findings()
            if finding.verdict in ("partly", "no")
        ]


class _StoredValues:
    """The stored values of cells; counts the runs that are stored, stale, and wanted."""

    def __init__(self, suite: Suite, asked: BenchRequest, rows: Sequence[Row]) -> None:
        self.refused = {row["cell"] for row in rows if row["measure"] == REFUSED}
        self.keys: set[str] = set()
        self.stored = self.wanted = self.stale = 0
        self._codes = {row["cell"]: row["code"] for row in rows}
        self._values = values_of(rows)
        self._suite, self._setting = suite, asked.setting
        self._seed = asked.setting.seed
        self._skipped = asked.skipped
        self._known: dict[Cell, dict[str, list[float]]] = {}

    def is_refused(self, cell: Cell) -> bool:
        return key_of(cell, self._seed) in self.refused

    def of(self, cell: Cell) -> dict[str, list[float]]:
        """The values of all runs of a cell, by measure."""
        if cell not in self._known:
            self._known[cell] = {}
            code = code_of(cell)
            for each in cell.runs(self._suite.repeats(self._setting, cell)):
                key = key_of(each, self._seed)
                self.keys.add(key)
                found = self._values.get(key, {})
                self.stored += bool(found)
                self.stale += bool(found) and self._codes[key] != code
                self.wanted += cell.stream.dataset not in self._skipped and key not in self.refused
                for measure, numbers in found.items():
                    self._known[cell].setdefault(measure, []).extend(numbers)
        return self._known[cell]


def find(
    suite: Suite,
    asked: BenchRequest,
    rows: Sequence[Row],
    *,
    versions: Sequence[dict[str, str]] = (),
) -> SuiteFindings:
    """Find everything that the rows say about the request. Rows of other cells are ignored."""
    cells = _StoredValues(suite, asked, rows)
    questions = choose(suite, asked.setting, *asked.selections).questions
    answered = [each for question in questions if (each := _answer(question, cells)) is not None]
    mine = [row for row in rows if row["cell"] in cells.keys]
    taken = {row["cell"]: row["seconds"] for row in mine}
    return SuiteFindings(
        suite=suite,
        setting=asked.setting,
        answered=tuple(answered),
        skipped=dict(asked.skipped),
        refused=tuple(
            dict.fromkeys(
                (row["stream"], row["mechanism"], row["note"]) for row in mine if row["note"]
            )
        ),
        versions=tuple(versions),
        cells=cells.stored,
        wanted=cells.wanted,
        stale=cells.stale,
        streams={
            row["stream"]: (row["stream"].partition(" (")[0], row["units"], row["keys"])
            for row in mine
            if row["units"]
        },
        seconds=sum(taken.values()),
        selections=asked.selections,
    )


def _answer(question: BenchQuestion, cells: _StoredValues) -> Answered | None:
    """A question with its values; None if no mechanism has a value."""
    places: dict[str, dict[Place, dict[str, Value]]] = {
        drawn.name: {} for drawn in question.measures
    }
    expected: dict[Place, set[str]] = {}
    some = False
    for point in question.points:
        place = (point.panel, point.x)
        if not cells.is_refused(point.cell):
            expected.setdefault(place, set()).add(point.line)
        found = cells.of(point.cell)
        for drawn in question.measures:
            value = _value(found, point, drawn)
            if value is not None:
                places[drawn.name].setdefault(place, {})[point.line] = value
                some = some or not point.cell.trivial
    if not some:
        return None
    return Answered(question, {name: _ordered(each) for name, each in places.items()}, expected)


def _value(found: dict[str, list[float]], point: Point, drawn: PlottedMeasure) -> Value | None:
    """The value of a measure at a point, from the numbers of its cell."""
    numbers = found.get(drawn.at(point.x, point.of))
    if not numbers:
        return None
    formula = found.get(drawn.formula_at(point.x, point.of))
    errors = found.get(drawn.error_at(point.x, point.of), [])
    value = value_of(numbers, formula[0] if formula else None, errors)
    if point.cell.trivial:
        value = replace(value, half=0.0)  # a trivial line is not random
    if drawn.beside and value.error is not None:
        exact = value.error <= ROUNDING * value.mean
        value = replace(value, half=0.0 if exact else 2 * value.error)
    return value


def _ordered(places: dict[Place, dict[str, Value]]) -> dict[Place, dict[str, Value]]:
    """Sort places along the axis; panels stay in order."""
    panels = list(dict.fromkeys(panel for panel, _ in places))
    return {
        at: places[at] for at in sorted(places, key=lambda at: (panels.index(at[0]), float(at[1])))
    }


def shown(value: Value) -> str:
    """A mean and half its interval.

    >>> shown(Value(12.345, 0.5, 3)), shown(Value(3.0, float("nan"), 1))
    ('12.3 ± 0.5', '3')
    """
    nothing = value.half != value.half or value.half <= 1e-9 * abs(value.mean)
    return number(value.mean) if nothing else f"{number(value.mean)} ± {number(value.half)}"
