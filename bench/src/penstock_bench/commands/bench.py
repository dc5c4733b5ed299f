"""`penstock bench`."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter
from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from penstock.cli.options import Flag, Int, Json, MaybeInt, with_own_modules
from penstock.core.errors import ConfigurationError
from penstock.core.exact import whole
from penstock_bench import report as page
from penstock_bench.datasets.registry import find as find_dataset
from penstock_bench.datasets.registry import table
from penstock_bench.plugins import mechanism_class
from penstock_bench.registry import SUITES, find_suite
from penstock_bench.results import Results, version
from penstock_bench.runner import Job, RunPlan, perform, plan, workers_for
from penstock_bench.suite import Setting, choose

OUT, QUICK_OUT = Path("out/bench"), Path("out/bench-quick")
INTERRUPTED = 130
EVERY = 30.0
"""Where there is no terminal, a line of progress in so many seconds."""
LONG = 3600.0
"""The time left is told from what was done in so many seconds: a piece of work may take a minute.
"""

Names = Annotated[list[str] | None, Parameter(consume_multiple=True, negative="")]

HELP = """Run the experiments of the papers on every mechanism, at one guarantee, and write a page
about them.

* penstock bench: which suites there are

* penstock bench w-event --quick: one of them, small

* penstock bench w-event --only window --only covid --also rg: one question on one stream, with
  one mechanism more

* penstock bench report out/bench: write the pages anew from the results

* penstock bench datasets: which streams there are
"""


app = App(name="bench", help=HELP, help_format="markdown")


@app.default
def bench(
    suite: str | None = None,
    /,
    *,
    quick: Flag = False,
    runs: MaybeInt = None,
    seed: Int = 1,
    out: Path | None = None,
    jobs: MaybeInt = None,
    only: Names = None,
    also: Names = None,
    stream: Names = None,
) -> None:
    """Run a suite, or list the suites. Exit code 1 if a mechanism failed on a stream.

    Results are kept as Parquet in OUT/SUITE as they come, and a page beside them. Started again, a
    suite goes on from what is there. The same seed gives the same numbers on any number of cores.

    For example:

    * penstock bench w-event --quick

    * penstock bench w-event --only worldcup --only window --runs 1

    * penstock bench windows --also my_module:MyMechanism

    Parameters
    ----------
    suite
        Which one; without it they are listed.
    quick
        Short streams, few keys and runs: under two minutes.
    runs
        How often every cell is run; what the suite says unless told.
    seed
        Of the noise: another seed, other numbers.
    out
        The folder of results; out/bench unless told, out/bench-quick with --quick.
    jobs
        How many processes; one a core unless told, and fewer where memory would not suffice.
    only
        Some questions, streams or mechanisms of the suite, by name.
    also
        Further mechanisms: registered ones, those of plug-ins, or module:Class.
    stream
        Further datasets: registered ones, those of plug-ins, or module:Class.
    """
    if suite is None:
        _list()
        return
    chosen = find_suite(suite)
    if jobs is not None:
        whole(jobs, name="jobs", least=1)
    for name in also or ():
        with_own_modules(name, lambda name=name: mechanism_class(name))  # type: ignore[misc]
    for name in stream or ():
        with_own_modules(name, lambda name=name: find_dataset(name))  # type: ignore[misc]
    setting = Setting(
        quick=quick, runs=runs, seed=seed, also=tuple(also or ()), streams=tuple(stream or ())
    )
    folder = (out if out is not None else QUICK_OUT if quick else OUT) / chosen.name
    if folder.exists() and not folder.is_dir():
        raise ConfigurationError(f"{folder} is a file, not a folder.")
    results = Results(folder)
    workers = workers_for(
        {cell.stream for cell in choose(chosen, setting, tuple(only or ())).cells}, jobs
    )
    todo = plan(chosen, setting, results, only=only or (), workers=workers)
    other = results.other(setting, version()["code"])
    results.note(chosen.name, setting, tuple(only or ()), todo.skipped, here=todo.here)
    try:
        with _bar(todo) as tell:
            notes = perform(todo, results, workers=workers, tell=tell)
    except KeyboardInterrupt:
        print(
            "penstock: interrupted; the same command goes on from what was done.", file=sys.stderr
        )
        sys.exit(INTERRUPTED)
    written, found = page.write(chosen, results)
    screen = Console()

    def say(text: str, style: str = "") -> None:
        screen.print(Text(text, style), soft_wrap=True)

    say(f"{todo.cells:,} runs of cells were made, {todo.done:,} were there.")
    for words in other:
        say(words, "yellow")
    for name, reason in todo.skipped.items():
        say(f"{name} was not run: {reason}.", "yellow")
    for words in page.sentences(found):
        say(words)
    for stream_name, mechanism, why in dict.fromkeys(
        (row["stream"], row["mechanism"], row["note"]) for row in notes
    ):
        say(f"{mechanism} on {stream_name} failed: {why}", "bold red")
    say(f"Open {written}", "bold")
    if notes:
        sys.exit(1)


@app.command
def report(folder: Path, /, *, docs: Path | None = None) -> None:
    """Write the pages anew from the results in a folder: that of one suite, or one with several.

    Parameters
    ----------
    folder
        Where suites have left their results, such as out/bench.
    docs
        Also write Markdown to this folder: a page a suite, with figures, and the leaderboard of all
        of them.
    """
    for written in page.rebuild(folder, docs=docs):
        Console().print(Text(f"Open {written}", "bold"), soft_wrap=True)


@app.command
def datasets(*, as_json: Json = False) -> None:
    """List every dataset: its size, what a key and what a person is, its licence, and whether it
    can be had here.

    Parameters
    ----------
    as_json
        The same as JSON, with parameters, for programs.
    """
    described = table()
    if as_json:
        print(json.dumps(described, indent=2, ensure_ascii=False, default=str))
        return
    shown = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("dataset", "units × keys", "what"):
        shown.add_column(
            heading, no_wrap=heading != "what", justify="right" if "×" in heading else "left"
        )
    for one in described:
        if one["title"] is None:
            shown.add_row(one["name"], "", Text(one["missing"], "yellow"))
            continue
        what = Text(f"{one['title']}; a unit is {one['unit']}, a person {one['person']}")
        what.append(
            f", a key {one['key']}" + (f" ({one['levels']} levels)" if one["levels"] > 1 else "")
        )
        what.append(f"\n{one['licence']}", "dim")
        what.append(f"\nnot here: {one['missing']}" if one["missing"] else "", "yellow")
        shown.add_row(
            one["name"], f"{one['units']:,} × {one['keys']:,}" if one["units"] else "", what
        )
    Console().print(shown)


def _list() -> None:
    shown = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("suite", "what", "questions", "after"):
        shown.add_column(name)
    for suite in SUITES.values():
        questions = ", ".join(question.name for question in suite.questions(Setting(quick=True)))
        shown.add_row(suite.name, suite.title, questions, suite.paper)
    Console().print(shown)


@contextmanager
def _bar(todo: RunPlan) -> Iterator[Callable[[Job], None]]:
    """How much is done and how long the rest will take; without a terminal, a line now and then."""
    screen = Console(stderr=True)
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[cells]}", markup=False),
        TimeElapsedColumn(),
        TextColumn("left:"),
        TimeRemainingColumn(),
    )
    done, said = 0, time.monotonic()
    with Progress(
        *columns,
        console=screen,
        transient=True,
        disable=not screen.is_terminal,
        speed_estimate_period=LONG,
    ) as progress:
        task = progress.add_task("starting", total=todo.effort, cells=f"0 of {todo.cells}")

        def tell(job: Job) -> None:
            nonlocal done, said
            done += len(job.cells)
            progress.update(
                task,
                advance=job.effort,
                description=job.stream.dataset,
                cells=f"{done} of {todo.cells}",
            )
            if not screen.is_terminal and time.monotonic() > said + EVERY:
                said = time.monotonic()
                print(
                    f"{done} of {todo.cells} runs of cells, now {job.stream.name}",
                    file=sys.stderr,
                    flush=True,
                )

        yield tell
