"""What `penstock audit` prints about verdicts."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from penstock.lab.audit import report, suite
from penstock.lab.audit.bounding.verdict import BoundingVerdict
from penstock.lab.audit.engine import Verdict
from penstock.lab.audit.model import Pair
from penstock.lab.audit.noise_audit import NoiseVerdict
from penstock.lab.audit.replay import ReplayVerdict

STYLES: dict[report.Tone, str] = {
    "good": "bold green",
    "bad": "bold red",
    "neutral": "bold",
    "unknown": "bold yellow",
}
"""The style of each kind of verdict. No conviction is green."""

MAX_UNITS_SHOWN = 30
"""The most units of a replay's streams that are printed."""


def print_json(data: object) -> None:
    """Print JSON. JSON has no infinity, so null stands for it."""
    print(json.dumps(_finite(data), indent=2, ensure_ascii=False, allow_nan=False))


def _finite(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, list):
        return [_finite(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data


def print_verdict(verdict: Verdict, mechanism: str, command: str) -> None:
    """Print one verdict: the streams, the event, its meaning, and the command that repeats it."""
    console = Console()

    def say(text: str = "", style: str = "") -> None:
        console.print(Text(text, style), soft_wrap=True)

    say(
        f"{verdict.name}: {report.sentence(verdict)}",
        STYLES[report.tone(verdict)],
    )
    say(f"{mechanism}: {report.configured(verdict)}", "yellow" if verdict.chosen else "dim")
    if verdict.flawed:
        said = "convicted, as it should be" if verdict.convicted else "NOT convicted, though flawed"
        say(f"Flawed on purpose: {said}; {report.windows(verdict)}.")
    say()
    say(f"The two streams: {verdict.pair.name} (* where they differ)", "bold")
    for table in _tables_that_fit(verdict.pair, console):
        console.print(table)
    look = report.look_in_words(verdict.pair)
    if look is not None:
        say(look)
    say()
    if verdict.failure is None:
        for line, style in _event_lines(verdict):
            say(line, style)
        say()
    seen = report.hits(verdict)
    if seen is not None:
        say(f"Seen in {seen}.")
    say(report.meaning(verdict))
    if verdict.replay is not None:
        say()
        _say_replay(verdict.replay, say, flawed=verdict.flawed)
    if verdict.noise is not None:
        say(f"{verdict.name}: {verdict.noise.sentence()}", noise_style(verdict.noise))
    say()
    say("Tried:", "bold")
    for line in report.tried(verdict):
        say(f"  {line}")
    if verdict.outcome == "acquitted":
        say(report.weakest(verdict))
    say()
    say("Repeat it:", "bold")
    say(f"  {command}")


def print_replay(verdict: ReplayVerdict, mechanism: str, command: str) -> None:
    """Print the verdict of a replay: what was found and tried, and the command that repeats it."""
    console = Console()

    def say(text: str = "", style: str = "") -> None:
        console.print(Text(text, style), soft_wrap=True)

    _say_replay(verdict, say, mechanism)
    spot = verdict.spot
    if verdict.convicted and spot is not None and spot.pair.units <= MAX_UNITS_SHOWN:
        say()
        say("The two streams (* where they differ)", "bold")
        for table in _tables_that_fit(spot.pair, console):
            console.print(table)
    say()
    say("Repeat it:", "bold")
    say(f"  {command}")


def print_noise(verdict: NoiseVerdict) -> None:
    """Print the verdict of a noise audit, and all that it found."""
    console = Console()
    said = [
        f"{verdict.name}: {verdict.sentence()}",
        *(f"  · {each}" for each in verdict.violations),
    ]
    for line, style in zip(said, [noise_style(verdict), *[""] * len(said)], strict=False):
        console.print(Text(line, style), soft_wrap=True)


def noise_style(verdict: NoiseVerdict) -> str:
    """The style of a noise audit's sentence."""
    return {"acquitted": "green", "convicted": "bold red"}.get(verdict.outcome, "bold yellow")


def print_bounding(verdict: BoundingVerdict, command: str) -> None:
    """Print the verdict on bounding, and the command that repeats it."""
    console = Console()

    def say(text: str = "", style: str = "") -> None:
        console.print(Text(text, style), soft_wrap=True)

    say_bounding(verdict, say)
    say()
    say("Repeat it:", "bold")
    say(f"  {command}")


def say_bounding(verdict: BoundingVerdict, say: Callable[[str, str], None]) -> None:
    """Say what a bounding audit found and tried."""
    say(verdict.sentence(), STYLES[report.tone(verdict)])
    for each in verdict.violations[1:]:
        say(f"  · {each}", "")
    say(verdict.meaning(), "")
    say(f"Tried: {verdict.tried()}", "")
    lines = verdict.weakest()
    if lines:
        say("The weakest spot:", "bold")
    for line in lines:
        say(f"  {line}", "")


def _say_replay(
    verdict: ReplayVerdict,
    say: Callable[[str, str], None],
    mechanism: str = "",
    *,
    flawed: bool = False,
) -> None:
    tones: dict[str, report.Tone] = {"acquitted": "good", "convicted": "bad"}
    style = STYLES[tones.get(verdict.outcome, "unknown")]
    if flawed:  # a variant that is flawed on purpose should be convicted
        style = STYLES["neutral"]
    say(f"{verdict.name}: {verdict.sentence()}", style)
    if mechanism:
        say(f"Class: {mechanism}", "dim")
    for more in verdict.violations[1 if not verdict.loss > float(verdict.claimed) else 0 :]:
        say(f"  · {more}", "")
    say(verdict.meaning(), "")
    say(f"Tried: {verdict.tried()}", "")
    lines = verdict.weakest()
    if lines:
        say("The weakest spot:" if verdict.outcome == "acquitted" else "Where:", "bold")
    for line in lines:
        say(f"  {line}", "")


def _event_lines(verdict: Verdict) -> Iterator[tuple[str, str]]:
    """The event as lines, each with its style."""
    first, *points = report.in_words(verdict)
    if verdict.left_hits > verdict.right_hits:
        yield "The event, likelier on the left:", "bold"
    else:
        exact = verdict.method == "exact"
        yield "The output with the largest loss:" if exact else "The event:", "bold"
    yield first, ""
    for point in points:
        yield f"  · {point}", ""
    listed, more = report.event_cells(verdict)
    if listed:
        seen = ", with how often each was seen on the left and on the right"
        yield "", ""
        yield f"Its cells{seen if verdict.half else ''}:", ""
    for cell, left, right in listed:
        counts = "" if left is None or right is None else f"   {left:,} : {right:,}"
        yield f"  {cell}{counts}", ""
    if more:
        yield f"  and {more} more", ""
    for letter, meaning in report.alphabet(verdict):
        yield f"    {letter:<8} {meaning}", "dim"


def _tables_that_fit(pair: Pair, console: Console) -> Iterator[Table]:
    """Both streams side by side; if that is too wide, one below the other, in groups of keys."""
    shown = report.columns(pair)
    both = _streams(pair, ("left", "right"), shown)
    if _width(both, console) <= console.width:
        yield both
        return
    for side in ("left", "right"):
        rest = shown
        while rest:
            fits = len(rest)
            while fits > 1 and _width(_streams(pair, [side], rest[:fits]), console) > console.width:
                fits -= 1
            yield _streams(pair, [side], rest[:fits])
            rest = rest[fits:]


def _width(table: Table, console: Console) -> int:
    return Measurement.get(console, console.options.update(width=100_000), table).maximum


def _streams(pair: Pair, sides: Sequence[str], shown: Sequence[report.Column]) -> Table:
    table = Table()
    table.add_column("")
    for at, side in enumerate(sides):
        if at:
            table.add_column("")
        for column in shown:
            table.add_column(f"{side}\n{column.label}", justify="right", no_wrap=True)
    for unit in range(pair.units):
        row = [Text(f"unit {unit + 1}")]
        for at, side in enumerate(sides):
            row += [Text()] if at else []
            row += [
                Text(f"{count}*", "bold yellow") if differs else Text(f"{count} ")
                for count, differs in report.counts(pair, side, unit, shown)
            ]
        table.add_row(*row)
    return table


def print_verdicts(verdicts: Sequence[Verdict], bounding: BoundingVerdict | None = None) -> None:
    """Print one row per verdict, and whether all of them are as expected."""
    console = Console()

    def say(text: str = "", style: str = "") -> None:
        console.print(Text(text, style), soft_wrap=True)

    console.print(Text("Audits", "bold"))
    for kind, flawed in (("registered mechanism", False), ("flawed variant", True)):
        some = [verdict for verdict in verdicts if verdict.flawed is flawed]
        if some:
            console.print(_verdict_table(kind, some))
    for verdict in verdicts:
        if verdict.failure is not None:
            say(f"{verdict.name}: {report.sentence(verdict)}", STYLES["unknown"])
        if verdict.flawed and verdict.used_window != verdict.window:
            say(f"{verdict.name}: {report.windows(verdict)}.")
    if bounding is not None:
        say_bounding(bounding, say)
        say()
    say(report.tried_by_all(verdicts, bounding))
    say(report.weakest_of_all(verdicts))
    say(report.closing(verdicts, false_alarm=suite.FALSE_ALARM))


def _verdict_table(kind: str, verdicts: Sequence[Verdict]) -> Table:
    """One row per verdict. Nothing is cut at 80 columns."""
    exact = any(verdict.exact is not None for verdict in verdicts)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    table.add_column(kind, no_wrap=True)
    table.add_column("claimed", justify="right")
    table.add_column("bound", justify="right", no_wrap=True)
    if exact:
        table.add_column("exact", justify="right", no_wrap=True)
    table.add_column("replay", justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    table.add_column("s", justify="right", no_wrap=True)
    for verdict in verdicts:
        above = float(verdict.claimed) if verdict.exceeded else None
        table.add_row(
            Text(verdict.name),
            report.claim(verdict),
            report.at_least(verdict.lower_bound, above=above),
            *([Text(report.exact_at_most(verdict))] if exact else []),
            Text(report.replay_cell(verdict)),
            Text(report.verdict_mark(verdict), STYLES[report.tone(verdict)]),
            f"{verdict.seconds:.1f}",
        )
    return table
