"""`penstock lab city`."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Annotated

import numpy as np
from cyclopts import Parameter
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from penstock.cli.formatting import bar
from penstock.cli.options import Flag, Hours, Int
from penstock.core.errors import StateError
from penstock.engine.ledger_report import newest
from penstock.engine.sqlite import SQLiteReader
from penstock_bench.commands.compare import compare as compare_mechanisms
from penstock_bench.live_city.findings import CityFindings, find
from penstock_bench.live_city.going_on import MANY_HOURS, GoingOn, city_service
from penstock_bench.live_city.page import commands, render
from penstock_bench.live_city.publisher import CONFIGURATION
from penstock_bench.live_city.run import DAILY, DAY, HOURLY, RELEASES, CityEvent, CityPlan, run
from penstock_bench.simulated.city import City

OUT = Path("out/city")
SECONDS_PER_HOUR = 1.0
"""Real seconds per simulated hour while people watch."""

SECONDS_DOWN = 3.0
"""Real seconds between a kill and the restart then."""

SPARKLINE_HOURS = 48
"""Number of hours that a sparkline shows."""

_STATIONS = ("Grand Central", "Lantern Arena", "Orchard New Town")
_BARS = " ▁▂▃▄▅▆▇█"


def city(
    *,
    out: Annotated[Path, Parameter(name="--out")] = OUT,
    hours: Hours = 336,
    people: Int = 200_000,
    epsilon: str = "1",
    window: Hours = DAY,
    seed: Int = 1,
    seconds: float = 0.06,
    compare: Flag = False,
    serve: Annotated[bool, Parameter(name="--serve", negative="--no-serve")] = True,
) -> None:
    """Publish a simulated city live, kill the publisher in the middle, and write a page about it.

    The gates of the city send taps by HTTP to a real publisher with an embedded store, two views
    and a sink of Parquet files. No broker and no database server are needed. The command writes the
    folder OUT, with the store, and the page OUT.html, which shows the releases beside the truth.
    Then the city goes on in fast motion, and a read service shows it: open the printed address.
    Ctrl-C ends it. Without a terminal, and where the variable CI is set, nothing is served.

    For example:

    * penstock lab city

    * penstock lab city --hours 2d --people 20000 --out out/small

    * penstock lab city --no-serve

    * penstock lab city --compare --epsilon 0.5 --window 7d

    Parameters
    ----------
    out
        Folder for configuration, store and releases. A folder that this command made before is
        replaced. Default: out/city.
    hours
        Number of simulated hours, or a duration such as 2d. Default: 336.
    people
        Number of inhabitants. With fewer people the noise is larger beside the counts. Default:
        200,000.
    epsilon
        Privacy loss per window, exact: 1, 0.5 or 1/3. Default: 1.
    window
        Number of consecutive hours in which a person is protected, or a duration such as 7d.
        Default: 24.
    seed
        Seed of the city. The noise takes no seed. Default: 1.
    seconds
        Least real time per simulated hour, in seconds. Default: 0.06.
    compare
        Publish the city by several mechanisms side by side instead, without a publisher. The page
        is OUT-compare.html.
    serve
        Let the city go on in fast motion after the run, and serve it live. Default: yes, on a
        terminal.
    """
    options = {
        "out": out,
        "hours": hours,
        "people": people,
        "epsilon": epsilon,
        "window": window,
        "seed": seed,
    }
    if compare:
        compare_mechanisms(
            City(people=people, seed=seed),
            page=out.with_name(f"{out.name}-compare.html"),
            hours=hours,
            epsilon=epsilon,
            window=window,
            command=_command("--compare", **options),
        )
        return
    plan = CityPlan.of(
        out, people=people, hours=hours, epsilon=epsilon, window=window, seed=seed, seconds=seconds
    )
    screen = Console()
    _publish(plan, screen, command=_command(**options, seconds=seconds))
    if serve and _is_watched(screen):
        _go_on(plan, screen)


def _publish(plan: CityPlan, screen: Console, *, command: str) -> None:
    """Publish the city live, write the page and print the findings."""
    screen.print(
        Text(
            f"The city has {plan.city.people:,} people. Its gates send taps by HTTP to a publisher "
            f"with the store {plan.folder}/city.db."
        )
    )
    with _watching(plan, screen) as watch:
        outcome = run(plan, watch)
    found = find(outcome)
    program = _program()
    plan.page.write_text(render(found, command=command, program=program), encoding="utf-8")
    _sum_up(found, screen)
    screen.print(Text(f"Open {plan.page}", "bold"), soft_wrap=True)
    screen.print(Text("Then try:"))
    for _, line in commands(plan, program)[:3]:
        screen.print(Text(f"  {line}", "cyan"), soft_wrap=True)
    if not found.well:
        raise StateError("the run of the city found a mistake: see above, and please report it.")


def _is_watched(screen: Console) -> bool:
    """Whether somebody sits at the terminal: not in continuous integration, not in a pipe."""
    automatic = os.environ.get("CI", "").lower() not in ("", "0", "false", "no")
    return screen.is_terminal and sys.stdin.isatty() and not automatic


def _go_on(
    plan: CityPlan,
    screen: Console,
    *,
    hours: int = MANY_HOURS,
    down: Callable[[], None] = lambda: time.sleep(SECONDS_DOWN),
) -> None:
    """Let the city go on and serve it, until somebody interrupts it."""

    def watch(shown: CityEvent, reader: SQLiteReader) -> None:
        if shown.line:
            style = "bold green" if "started again" in shown.line else "bold red"
            screen.print(Text(shown.line, style), soft_wrap=True)
        elif shown.half == 0 and shown.hour % DAY == 0:
            day = plan.city.unit_names(shown.hour + 1)[shown.hour].rpartition(" ")[0]
            released = reader.head(HOURLY).unit
            screen.print(Text(f"{day}: released up to hour {released}", "dim"), soft_wrap=True)

    going_on = GoingOn(replace(plan, seconds=SECONDS_PER_HOUR), watch, down=down)
    with city_service(plan) as service:
        screen.print()
        screen.print(Text(f"Open {service.url}", "bold"), soft_wrap=True)
        screen.print(
            Text(
                "The city goes on in fast motion: a day takes "
                f"{DAY * SECONDS_PER_HOUR:.0f} seconds. Every second day the publisher is killed, "
                "and started again. Ctrl-C ends it."
            )
        )
        with suppress(KeyboardInterrupt):
            going_on.go_on(hours)
    configuration = shlex.quote(str(plan.folder / CONFIGURATION))
    screen.print(Text("The city has stopped. To look at it again:"))
    screen.print(Text(f"  {_program()} serve {configuration}", "cyan"), soft_wrap=True)


def _command(*flags: str, **options: object) -> str:
    given = [f"--{name} {shlex.quote(str(value))}" for name, value in options.items()]
    return " ".join(["penstock lab city", *flags, *given])


def _program() -> str:
    """How to call this program: `penstock` if it is on the path, else the path of the script."""
    called = Path(sys.argv[0])
    return (
        "penstock"
        if shutil.which("penstock") or called.name != "penstock"
        else shlex.quote(str(called))
    )


# -- while the city runs ---------------------------------------------------------------------------


@contextmanager
def _watching(
    plan: CityPlan, screen: Console
) -> Iterator[Callable[[CityEvent, SQLiteReader], None]]:
    """Show a live picture on a terminal; elsewhere print one line per day."""
    if not screen.is_terminal:
        yield lambda shown, reader: _say(plan, shown, reader, screen)
        return
    picture = Picture(plan)
    with Live(
        get_renderable=picture.drawn, console=screen, refresh_per_second=8, transient=True
    ) as live:

        def watch(shown: CityEvent, reader: SQLiteReader) -> None:
            picture.take(shown, reader)
            if shown.line:
                live.console.print(
                    Text(shown.line, "bold green" if "started again" in shown.line else "bold red")
                )

        yield watch


def _say(plan: CityPlan, shown: CityEvent, reader: SQLiteReader, screen: Console) -> None:
    if shown.line:
        screen.print(Text(shown.line), soft_wrap=True)
    elif shown.half and ((shown.hour + 1) % DAY == 0 or shown.hour + 1 == plan.hours):
        name = plan.city.unit_names(plan.hours)[shown.hour]
        told = (
            f"{name}: released up to hour {reader.head(HOURLY).unit} and day "
            f"{reader.head(DAILY).unit}"
        )
        screen.print(Text(f"{told}; {shown.sent.batches:,} batches sent"), soft_wrap=True)


class Picture:
    """The picture on a terminal. All but the figures of the gates is read from the public store."""

    def __init__(self, plan: CityPlan) -> None:
        self._plan = plan
        self._began = time.monotonic()
        self._shown: CityEvent | None = None
        self._units = {HOURLY: 0, DAILY: 0}
        self._spent = {HOURLY: Fraction(0), DAILY: Fraction(0)}
        self._values: list[list[float]] = []
        self._half = 0.0

    def take(self, shown: CityEvent, reader: SQLiteReader) -> None:
        """Read the new releases after a simulated half hour."""
        self._shown = shown
        for name in self._units:
            unit = reader.head(name).unit
            if unit == self._units[name]:
                continue
            if name == HOURLY:
                for release in reader.releases(name, self._units[name] + 1, unit):
                    low, high = release.interval("0.95")
                    self._values.append(np.asarray(release.estimate).tolist())
                    self._half = float(np.max(high - low)) / 2
                del self._values[:-SPARKLINE_HOURS]
            self._units[name] = unit
            self._spent[name] = newest(reader, name)

    def drawn(self) -> RenderableType:
        """Draw the picture."""
        shown, plan = self._shown, self._plan
        if shown is None:
            return Text("The city is being built, and the publisher starts …", "dim")
        keys = plan.city.keys
        lines = Table.grid(padding=(0, 2))
        for name in _STATIONS:
            place = keys.index(name)
            past = [row[place] for row in self._values]
            now = f"{past[-1]:,.0f} ± {self._half:,.0f}" if past else "no release yet"
            lines.add_row(Text(name), Text(_spark(past), "bright_blue"), Text(now, justify="right"))
        cost = self._spent[HOURLY] + 2 * self._spent[DAILY]
        files = sum(1 for _ in (plan.folder / RELEASES).glob("*/*/*.parquet"))
        state = Table.grid(padding=(0, 2))
        state.add_row("released", f"hour {self._units[HOURLY]}, day {self._units[DAILY]}")
        state.add_row(
            "window",
            Text.assemble(bar(cost, plan.epsilon, 20), f" ε {float(cost):.3f} of {plan.epsilon}"),
        )
        state.add_row("sink", f"{files:,} Parquet files")
        sent = shown.sent
        state.add_row(
            "gates",
            f"{sent.batches:,} batches, {sent.twice:,} twice, {sent.late:,} taps too late, "
            f"{sent.broken:,} broken",
        )
        hour = plan.city.unit_names(plan.hours)[shown.hour]
        title = f"{hour[:-3]}:{'30' if shown.half == 0 else '59'}"
        done = ProgressBar(total=plan.hours, completed=shown.hour + (shown.half + 1) / 2, width=60)
        head = Table.grid(padding=(0, 2))
        head.add_row(
            Text(title, "bold"), done, Text(f"{time.monotonic() - self._began:.0f} s", "dim")
        )
        return Panel(
            Group(head, Text(), lines, Text(), state),
            title="the city, published live",
            title_align="left",
            width=100,
        )


def _spark(values: list[float]) -> str:
    """A line of bars, one per hour.

    >>> _spark([0.0, 4.0, 8.0])
    ' ▄█'
    """
    top = max([1.0, *values])
    return "".join(_BARS[round(max(value, 0.0) / top * (len(_BARS) - 1))] for value in values)


# -- after the run ---------------------------------------------------------------------------------


def _sum_up(found: CityFindings, screen: Console) -> None:
    outcome, at = found.outcome, found.crash
    crash, plan = outcome.crash, outcome.plan
    table = Table(
        title=f"{plan.hours} hours in {outcome.seconds:.0f} s, epsilon {plan.epsilon} in any "
        f"{plan.window} hours"
    )
    table.title_justify, table.title_style = "left", "bold"
    for heading in ("view", "units", "mean error", "truth inside the 95 % interval"):
        table.add_column(heading, justify="left" if heading == "view" else "right")
    for series in (found.hourly, found.daily):
        if series is not None:
            error = f"{series.error:,.0f} of {series.truth.mean():,.0f}"
            table.add_row(
                series.view, f"{len(series.released):,}", error, f"{100 * series.held:.1f} %"
            )
    screen.print(table)
    name = plan.city.unit_names(plan.hours)[crash.hour]
    checks = [
        (
            found.joint.kept,
            (
                f"ledger verified: highest spend in any window: epsilon {found.joint.worst} "
                f"(limit: {plan.epsilon})"
            ),
        ),
        (
            not found.changed,
            (f"{len(outcome.seen):,} releases; none changed later, in the store or the sink"),
        ),
        (
            found.sunk == len(outcome.seen),
            f"{found.sunk:,} of {len(outcome.seen):,} releases in the Parquet files",
        ),
        (
            crash.whole,
            (
                f"killed at {name}, {crash.unanswered} batches unanswered, restarted after "
                f"{crash.down:.1f} s"
            ),
        ),
    ]
    for well, text in checks:
        screen.print(
            Text(f"{'✓' if well else '✗'} {text}", "green" if well else "bold red"), soft_wrap=True
        )
    inside = "within" if at.low <= at.truth <= at.high else "outside"
    told = (
        f"  that hour: published {at.released:,.0f}, true {at.truth:,}, {inside} the 99 % interval"
    )
    told = f"{told} {at.low:,.0f} to {at.high:,.0f}"
    screen.print(Text(told), soft_wrap=True)
    for tally in found.tallies:
        text = (
            f"  alert “{tally.query}”: raised {tally.raised}, true {tally.true}, both {tally.both}"
        )
        screen.print(Text(text), soft_wrap=True)
