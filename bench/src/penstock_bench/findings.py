"""What the rows of a suite say: values by place, the paper's claims beside ours, who wins where."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from penstock.core.errors import ConfigurationError
from penstock_bench.cell import Cell
from penstock_bench.claims import Finding, Place, Places, Value, number
from penstock_bench.datasets.registry import find as find_dataset
from penstock_bench.labels import label
from penstock_bench.results import REFUSED, BenchRequest, Row, value_of, values_of
from penstock_bench.runner import command_of, key_of
from penstock_bench.suite import BenchQuestion, PlottedMeasure, Point, Setting, Suite, choose

ROUNDING = 1e-12
"""A standard error below this share of its mean is one of arithmetic: releases that are all the
same have none.
"""


@dataclass(frozen=True)
class Winner:
    """The best private line of a place, the next one after it, and which trivial lines are at least
    as good as both.
    """

    place: Place
    line: str
    value: Value
    second: str
    ratio: float
    """How far ahead: the second's error in multiples of the winner's; where more is better, what
    the winner has in multiples of what the second has."""
    sure: bool
    """Whether their intervals lie apart."""
    beaten_by: tuple[str, ...]


def no_worse(one: Value, other: Value, drawn: PlottedMeasure) -> bool:
    """Whether one is at least as good as the other; what differs by rounding alone is the same."""
    close = math.isclose(one.mean, other.mean, rel_tol=1e-9)
    return close or (one.mean > other.mean if drawn.more else one.mean < other.mean)


@dataclass(frozen=True)
class Answered:
    """A question with the values that are there."""

    question: BenchQuestion
    values: dict[str, dict[Place, dict[str, Value]]]
    """By measure, by place, by line."""
    expected: dict[Place, set[str]]
    """The lines that a place must have before anybody can be said to win there."""

    def places(self, drawn: PlottedMeasure) -> Places:
        return self.values[drawn.name]

    def findings(self) -> list[Finding]:
        """What the paper says and what the rows say, claim by claim."""
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
        """Those that have any value, as the suite lists them."""
        there = {
            line for places in self.values.values() for lines in places.values() for line in lines
        }
        return [
            line
            for line in dict.fromkeys(point.line for point in self.question.points)
            if line in there
        ]

    def winners(self, drawn: PlottedMeasure) -> list[Winner]:
        """The best private mechanism of every place that has all its lines; of a curve, at no
        place.
        """
        found: list[Winner] = []
        if drawn.curve:
            return found
        for place, lines in self.places(drawn).items():
            mine = {line: value for line, value in lines.items() if self._competes(line)}
            if len(mine) < 2 or not self.complete(place, lines.keys()):
                continue  # nobody wins alone
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
        """Whether everybody is there who should be; the lines that need no mechanism take no time
        either.
        """
        return all(
            line in there or self.by_line[line].cell.trivial
            for line in self.expected.get(place, ())
        )

    def _competes(self, line: str) -> bool:
        return self.by_line[line].private and not self.by_line[line].cell.trivial

    def said(self, drawn: PlottedMeasure) -> list[str]:
        """Who wins, in a sentence a panel."""
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
        """Whose curve is the best one on average over the axis, in a sentence a panel."""
        places = self.places(drawn)
        sentences = []
        for panel in dict.fromkeys(panel for panel, _ in places):
            here = [lines for (at, _), lines in places.items() if at == panel]
            whole = [
                line
                for line in here[0]
                if self._competes(line) and all(line in lines for lines in here)
            ]
            if whole:
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
    """Stream, mechanism and why, of cells that have no value."""
    versions: tuple[dict[str, str], ...]
    cells: int
    """How many runs of cells are there, of `wanted`."""
    wanted: int
    streams: dict[str, tuple[str, int, int]]
    """By stretch: its dataset, units and keys."""
    seconds: float
    selections: tuple[tuple[str, ...], ...] = ((),)
    """The parts of the suite that were asked for, one after the other."""

    @property
    def command(self) -> str:
        """What gives all of this again: one line a selection."""
        whole = any(not selection for selection in self.selections)
        return "\n".join(
            command_of(self.suite, self.setting, each)
            for each in ([()] if whole else self.selections)
        )

    def command_for(self, question: BenchQuestion) -> str:
        return command_of(self.suite, self.setting, [question.name])

    def notes(self) -> list[str]:
        """What a reader must know first: what is missing, refused, unfinished or of several
        versions.
        """
        notes = [f"{name} was not run: {reason}." for name, reason in self.skipped.items()]
        if self.setting.quick:
            notes.append(
                "This is the quick setting: short streams, few keys, few runs. It shows that all "
                "works, little more."
            )
        if self.cells < self.wanted:
            notes.append(
                f"{self.cells:,} of {self.wanted:,} runs of cells are there: the same command "
                "goes on from here."
            )
        if len({version.get("code") for version in self.versions}) > 1:
            notes.append(
                "These results were made by different versions of the code: delete the folder to "
                "have all of one."
            )
        return notes + [
            f"{label(mechanism)} on {stream} has no value: {why}"
            for stream, mechanism, why in self.refused
        ]

    def described(self) -> list[tuple[str, str, str, str, str, str]]:
        """Of every stream its name, what it is, units, keys, what a person is, and the licence."""
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
        """What must stand beside results of these data, where that is more than the name of a
        licence.
        """
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
        """Of all questions that were run."""
        return [(each.question, finding) for each in self.answered for finding in each.findings()]

    def differences(self) -> list[str]:
        """A sentence wherever we differ from the paper."""
        return [
            finding.sentence()
            for _, finding in self.findings()
            if finding.verdict in ("partly", "no")
        ]


def find(
    suite: Suite,
    asked: BenchRequest,
    rows: Sequence[Row],
    *,
    versions: Sequence[dict[str, str]] = (),
) -> SuiteFindings:
    """Everything that these rows say of a suite as it was asked for; rows of anything else are left
    out.
    """
    setting, skipped = asked.setting, asked.skipped
    values = values_of(rows)
    refused = {row["cell"] for row in rows if row["measure"] == REFUSED}
    runs = suite.repeats(setting)
    known: dict[Cell, dict[str, list[float]]] = {}
    keys: set[str] = set()
    there = wanted = 0

    def of(cell: Cell) -> dict[str, list[float]]:
        nonlocal there, wanted
        if cell not in known:
            known[cell] = {}
            for each in cell.runs(runs):
                key = key_of(each, setting.seed)
                keys.add(key)
                found = values.get(key, {})
                there += bool(found)
                wanted += cell.stream.dataset not in skipped and key not in refused
                for measure, numbers in found.items():
                    known[cell].setdefault(measure, []).extend(numbers)
        return known[cell]

    answered = []
    for question in choose(suite, setting, *asked.selections).questions:
        places: dict[str, dict[Place, dict[str, Value]]] = {
            drawn.name: {} for drawn in question.measures
        }
        expected: dict[Place, set[str]] = {}
        some = False
        for point in question.points:
            found = of(point.cell)
            if key_of(point.cell, setting.seed) not in refused:
                expected.setdefault((point.panel, point.x), set()).add(point.line)
            for drawn in question.measures:
                numbers = found.get(drawn.at(point.x, point.of))
                if numbers:
                    formula = found.get(drawn.formula_at(point.x, point.of))
                    errors = found.get(drawn.error_at(point.x, point.of), [])
                    value = value_of(numbers, formula[0] if formula else None, errors)
                    if point.cell.trivial:
                        value = replace(value, half=0.0)  # nothing in it is left to chance
                    if drawn.beside and value.error is not None:
                        value = replace(
                            value,
                            half=2 * value.error if value.error > ROUNDING * value.mean else 0.0,
                        )
                    places[drawn.name].setdefault((point.panel, point.x), {})[point.line] = value
                    some = some or not point.cell.trivial
        if some:
            answered.append(
                Answered(
                    question, {name: _ordered(each) for name, each in places.items()}, expected
                )
            )
    notes = {
        (row["stream"], row["mechanism"], row["note"]): None
        for row in rows
        if row["cell"] in keys and row["note"]
    }
    mine = [row for row in rows if row["cell"] in keys]
    taken = {row["cell"]: row["seconds"] for row in mine}
    streams = {
        row["stream"]: (row["stream"].partition(" (")[0], row["units"], row["keys"])
        for row in mine
        if row["units"]
    }
    return SuiteFindings(
        suite,
        setting,
        tuple(answered),
        dict(skipped),
        tuple(notes),
        tuple(versions),
        there,
        wanted,
        streams,
        sum(taken.values()),
        asked.selections,
    )


def _ordered(places: dict[Place, dict[str, Value]]) -> dict[Place, dict[str, Value]]:
    """Panels as they come, places along the axis."""
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
