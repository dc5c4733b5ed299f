"""The leaderboard: every mechanism on every stream and guarantee, with the command of each cell."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from penstock.core.errors import ConfigurationError
from penstock.core.guarantee import Guarantee
from penstock_bench.cell import TRIVIAL, Cell
from penstock_bench.claims import Place, Value, number
from penstock_bench.competitors.competitor import Competitor
from penstock_bench.findings import Answered, SuiteFindings, no_worse, shown
from penstock_bench.labels import label
from penstock_bench.runner import command_of
from penstock_bench.suite import PlottedMeasure, Point

TITLE = "# Leaderboard"
INTRO = """
Every mechanism on every stream and guarantee of [the bench](../how-to/bench.md)'s suites, by the
first measure of each question. Less is better, except where a heading says otherwise. `penstock
bench report` writes this page; no number is written by hand.

All mechanisms of a row make the same promise and run at their defaults, except where a heading says
otherwise. Mechanisms with a δ stand in tables of their own. The best private mechanism is **bold**,
and so are those that differ from it by less than 25 % and lie within both intervals. †: not
private. *All zeros* and each key's *long-run mean* need no mechanism; they are in *italics* where
they are at least as good as the best mechanism. The commands of all cells are below each table.
"""


@dataclass(frozen=True)
class Row:
    """One place of a question: a stream, a guarantee, and the value of every line."""

    answered: Answered
    drawn: PlottedMeasure
    place: Place
    points: tuple[Point, ...]

    @property
    def values(self) -> dict[str, Value]:
        mine = {point.line for point in self.points}
        there = self.answered.places(self.drawn)[self.place]
        return {line: value for line, value in there.items() if line in mine}

    @property
    def stream(self) -> str:
        return self.points[0].cell.stream.dataset

    @property
    def guarantee(self) -> str:
        """The promise of the first line that has one. A line with another promise says so in its
        label.
        """
        return next(
            (found for point in self.points if (found := promise(point.cell)) is not None), ""
        )

    def best(self) -> list[str]:
        """The best line with the promise of the row, and all lines that do not differ from it."""
        if not self.answered.complete(self.place, self.answered.places(self.drawn)[self.place]):
            return []
        mine = {
            point.line: self.values[point.line]
            for point in self.points
            if point.line in self.values
            and promise(point.cell) == self.guarantee
            and point.cell.comparable
        }
        order = sorted(mine, key=lambda line: mine[line].mean, reverse=self.drawn.more)
        first = mine[order[0]] if order else None
        return [line for line in order if first is not None and not apart(mine[line], first)]

    def beating(self, best: str) -> list[str]:
        """The trivial lines that are at least as good."""
        trivial = [
            point.line for point in self.points if point.cell.trivial and point.line in self.values
        ]
        return [
            line for line in trivial if no_worse(self.values[line], self.values[best], self.drawn)
        ]


def apart(one: Value, other: Value) -> bool:
    """Whether two values differ by 25 % or by more than their intervals, which single runs lack."""
    if max(one.mean, other.mean) > 1.25 * min(one.mean, other.mean) + 1e-300:
        return True
    if math.isnan(one.half) or math.isnan(other.half):
        return not math.isclose(one.mean, other.mean, rel_tol=1e-9)
    return abs(one.mean - other.mean) > one.half + other.half + 1e-9 * abs(other.mean)


def promise(cell: Cell) -> str | None:
    """The promise of a mechanism in symbols; None if it promises nothing.

    >>> from penstock_bench.cell import Stretch
    >>> covid, fleet = Stretch(dataset="covid"), Stretch(dataset="fleet")
    >>> promise(Cell.of("w-event", covid, "ba", ("mae",), epsilon="0.1", window=120))
    'ε = 0.1, w = 120'
    >>> promise(Cell.of("dsat", fleet, "dsat", ("mae",), epsilon="1", window=168, horizon=168))
    'ε = 1, user level (168 units)'
    """
    if cell.trivial or not cell.private:
        return None
    made = cell.made()
    if isinstance(made, Competitor):
        return f"ε = {_plain(made.budget)}, w = {made.protected}"
    held: Guarantee = made.guarantee
    delta = f", δ = {_plain(held.delta)}" if held.delta else ""
    span = f"user level ({held.window:,} units)" if held.user_level else f"w = {held.window}"
    return f"ε = {_plain(held.epsilon)}{delta}, {span}"


def _plain(value: object) -> str:
    return f"{float(value):g}"  # type: ignore[arg-type]


def rows(found: SuiteFindings) -> list[Row]:
    """The rows of a suite on the leaderboard: the places that it names, if they have a value."""
    kept = []
    for answered in found.answered:
        places = dict(found.suite.leaders).get(answered.question.name)
        if places is None:
            continue
        drawn = answered.question.measures[0]
        for place in answered.places(drawn):
            points = tuple(p for p in answered.question.points if (p.panel, p.x) == place)
            if not places or place[1] in places:
                kept.append(Row(answered, drawn, place, points))
    return kept


def page(every: Sequence[SuiteFindings], *, mixed: bool = False) -> str:
    """All suites in Markdown. Cells of other code than the present one are refused, unless `mixed`.

    Parameters
    ----------
    every : sequence of SuiteFindings
        The suites.
    mixed : bool
        Whether to write the page all the same, and to say so. Default: False.
    """
    shown = [found for found in every if rows(found)]
    stale = {found.suite.name: found.stale for found in shown if found.stale}
    versions = "".join(f"- {found.suite.title}: {found.made_by()}\n" for found in shown)
    told = f"Versions that made the cells:\n\n{versions}"
    if stale:
        where = ", ".join(f"{count:,} of {name}" for name, count in stale.items())
        if not mixed:
            raise ConfigurationError(
                "leaderboard: other code than the present one made some of its runs of cells "
                f"({where}). Run the suites again, or give --mixed. No page in Markdown was "
                "written."
            )
        told = f"**Other code than the present one made some runs of cells ({where}).** {told}"
    else:
        told = f"The code of this version made every cell. {told}"
    return "\n".join([TITLE, INTRO, told, *(part for found in every for part in _suite(found))])


def blocks(kept: Sequence[Row]) -> list[tuple[Fraction, list[Row]]]:
    """The rows by the δ of their lines: the pure promises first, each δ by itself."""
    deltas = {
        point.line: point.cell.delta
        for row in kept
        for point in row.points
        if point.line in row.values and not point.cell.trivial
    }
    found = []
    for delta in sorted(set(deltas.values())):
        here = [
            replace(
                row,
                points=tuple(
                    point
                    for point in row.points
                    if point.cell.trivial or deltas.get(point.line) == delta
                ),
            )
            for row in kept
        ]
        found.append(
            (delta, [row for row in here if any(not point.cell.trivial for point in row.points)])
        )
    return found


def _suite(found: SuiteFindings) -> Iterator[str]:
    kept = rows(found)
    if not kept:
        return
    yield (
        f"## {found.suite.title}\n\n[How it was measured, and what the paper "
        f"found]({found.suite.name}.md)\n"
    )
    if found.notes():
        yield "\n".join(f"- **{note}**" for note in found.notes()) + "\n"
    for answered in dict.fromkeys(id(row.answered) for row in kept):
        here = [row for row in kept if id(row.answered) == answered]
        question, drawn = here[0].answered.question, here[0].drawn
        yield f"### {question.title}: {drawn.title}\n\n`{found.command_for(question)}`\n"
        for delta, block in blocks(here):
            if delta:
                yield f"#### With δ = {_plain(delta)}\n"
            yield from _block(found, block)
    if groupings := found.groupings():
        yield f"{groupings}\n"


def _block(found: SuiteFindings, kept: Sequence[Row]) -> Iterator[str]:
    answered = kept[0].answered
    lines = [line for line in answered.lines if any(line in row.values for row in kept)]
    body = []
    several = len({(row.place[0], row.guarantee) for row in kept}) < len(kept)
    for row in kept:
        best = row.best()
        beaten = [] if not best else row.beating(best[0])
        cells = []
        for line in lines:
            value = row.values.get(line)
            text = "–" if value is None else number(value.mean)
            cells.append(f"**{text}**" if line in best else f"*{text}*" if line in beaten else text)
        body.append([row.place[0], *([row.place[1]] if several else []), row.guarantee, *cells])
    yield table(
        [
            "stream",
            *([answered.question.axis] if several else []),
            "guarantee",
            *(_name(line) for line in lines),
        ],
        body,
    )
    by_line: dict[tuple[str, str, str], list[str]] = {}
    for row in kept:
        for point in row.points:
            if point.line in row.values and not point.cell.trivial:
                command = command_of(
                    found.suite, found.setting, [answered.question.name, row.stream, point.line]
                )
                where = row.place[0], point.line, command
                at = f"{answered.question.axis} = {row.place[1]}" if several else row.guarantee
                by_line.setdefault(where, []).append(f"{at}: {shown(row.values[point.line])}")
    commands = [
        [panel, _name(line), "<br>".join(values), f"`{command}`"]
        for (panel, line, command), values in by_line.items()
    ]
    listed = table(["stream", "mechanism", "where: value", "command"], commands)
    yield f"<details><summary>The command of every cell</summary>\n\n{listed}\n</details>\n"


def _name(line: str) -> str:
    return (
        label(line)
        if line in TRIVIAL
        else f"`{label(line)}`"
        if " " not in label(line)
        else label(line)
    )


def table(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """A table in Markdown.

    >>> print(table(["a"], [["1 | 2"]]))
    | a |
    | --- |
    | 1 \\| 2 |
    <BLANKLINE>
    """
    lines = [head, ["---"] * len(head), *body]
    return "".join(
        "| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines
    )
