"""`penstock plan`."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as ProgressBar
from rich.table import Table
from rich.text import Text

from penstock.cli.formatting import terminal_width
from penstock.cli.options import Flag, Json, Season
from penstock.cli.store_argument import is_address, open_store, read_pipeline
from penstock.core.errors import ConfigurationError
from penstock.core.exact import positive
from penstock.core.optional import require
from penstock.engine.explain import wrapped
from penstock.engine.plan.duration import Progress
from penstock.engine.plan.judgement import SIMULATED, number, percent
from penstock.engine.plan.knowledge import (
    HOW_TO_KNOW,
    TABLES,
    PlannedView,
    knowledge,
    public_counts,
)
from penstock.engine.plan.plan import Plan, make_plan
from penstock.engine.plan.rewrite import write_mechanism


def plan(
    configuration: Path,
    /,
    *,
    view: str | None = None,
    sample: Path | None = None,
    releases: str | None = None,
    stream: str | None = None,
    typical: str | None = None,
    season: Season = (),
    sparse: Flag = False,
    stock: Flag = False,
    delta: str | None = None,
    page: Path | None = None,
    write: Flag = False,
    as_json: Json = False,
) -> None:
    """Simulate every mechanism on public counts, and recommend one for a configuration.

    The private source is never opened. Counts come from a public sample, from past releases, or
    from public sentences, in this order; the table [plan] of the configuration holds for what is
    not given here. Beside a sample or past releases, --typical is the size of the counts. All
    mechanisms that can keep the promise are ranked by their mean absolute error, beside all zeros
    and the long-run mean of each key.

    For example:

    * penstock plan pipeline.toml --typical 2 --season 1d --season 7d

    * penstock plan pipeline.toml --sample public.csv --page plan.html

    * penstock plan pipeline.toml --sample public.csv --typical 40

    * penstock plan pipeline.toml --releases taps.db --write

    Parameters
    ----------
    configuration
        The TOML file of the pipeline. penstock init writes one.
    view
        The view to plan for. Needed if there are several.
    sample
        A public CSV or Parquet file: events with the columns of the source, counts with a column
        count besides, or one column of counts per key and one row per unit.
    releases
        Past releases: a store, a pipeline.toml, postgresql://…, or a table of penstock export.
    stream
        The series in --releases. Default: that of the view.
    typical
        The mean count of a key in a unit, as far as it is publicly known. Beside --sample or
        --releases, counts of their form are scaled to this mean.
    season
        A duration after which the stream looks similar again, such as 1d. May be repeated.
    sparse
        A few keys have almost all events.
    stock
        Counts are what is present in a unit, such as docked bikes, and not events.
    delta
        Mechanisms may use this delta. Default: that of the configuration, or none.
    page
        Write the plan as an HTML page with charts to this file.
    write
        Write the recommended mechanism into the configuration. Comments stay.
    as_json
        The whole plan as JSON for programs.
    """
    if write:
        require("tomlkit", "plan", "writing a mechanism into a configuration")
    pipeline = read_pipeline(configuration)
    allowed = None if delta is None else positive(delta, name="delta")
    planned = PlannedView.of(pipeline, view, delta=allowed)
    known = knowledge(
        pipeline.plan,
        typical=typical,
        seasons=season,
        sparse=sparse,
        stock=stock,
        sample=sample,
    )
    with ExitStack() as stack:
        past = None
        if releases is not None:
            table = Path(releases).suffix in TABLES and not is_address(releases)
            past = Path(releases) if table else stack.enter_context(open_store(releases))
        public = public_counts(planned, known, pipeline=pipeline, releases=past, series=stream)
    if public is None:
        raise ConfigurationError(f"nothing public is known about the counts. {HOW_TO_KNOW}")
    with _progress() as progress:
        found = make_plan(planned, public, progress=progress)
    if write:
        write_mechanism(configuration, found, view)
    if page is not None:
        page.parent.mkdir(parents=True, exist_ok=True)
        command = shlex.join(["penstock", *sys.argv[1:]]) if sys.argv[1:2] == ["plan"] else ""
        page.write_text(found.page(command=command), encoding="utf-8")
    if as_json:
        print(json.dumps(found.plain(), indent=2, ensure_ascii=False, allow_nan=False))
        return
    _print(found)
    console = Console()
    if page is not None:
        console.print(Text(f"Open {page.absolute()}"), soft_wrap=True)
    if write:
        console.print(Text(f"Wrote mechanism {found.best.name} into {configuration}."))


@contextmanager
def _progress() -> Iterator[Progress]:
    """Say on standard error how long it will take, and show the progress on a terminal."""
    console = Console(stderr=True)
    columns = TextColumn("simulating"), BarColumn(), TimeRemainingColumn()
    said = False
    with ProgressBar(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=None)

        def tell(done: float, total: float) -> None:
            nonlocal said
            if not said:
                said = True
                seconds = max(round(total), 1)
                text = f"This takes about {seconds} s of computing. The source is not opened."
                console.print(Text(text), soft_wrap=True)
            bar.update(task, completed=done, total=total)

        yield tell


def _print(plan: Plan) -> None:
    """Print the ranking, the recommendation, and what it rests on."""
    console = Console()
    table = Table(title=Text(f"Mechanisms for {plan.view.name}"), title_justify="left")
    table.add_column("mechanism", overflow="fold")
    table.add_column("mean absolute error", justify="right")
    table.add_column("95 % interval", justify="right")
    table.add_column("of the mean count", justify="right")
    for row in (*plan.figures.rows, *plan.figures.trivial):
        mae, range_ = row.error.mae, row.error.interval
        table.add_row(
            Text(row.label),
            number(mae),
            "" if range_ is None else " to ".join(map(number, range_)),
            percent(mae / plan.public.mean),
            style="bold green" if row is plan.best else "dim" if row.choice is None else "",
        )
    console.print(table)
    columns = terminal_width()
    console.print(Text(wrapped(plan.words, columns), "bold"), soft_wrap=True)
    notes = wrapped([plan.public.words, *plan.public.notes, SIMULATED], columns)
    console.print(Text(notes, "dim"), soft_wrap=True)
