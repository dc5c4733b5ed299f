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
from penstock_bench.results import Results
from penstock_bench.runner import Job, RunPlan, perform, plan, workers_for
from penstock_bench.suite import Setting, Suite, choose

OUT, QUICK_OUT = Path("out/bench"), Path("out/bench-quick")
INTERRUPTED = 130
SECONDS_BETWEEN_LINES = 30.0
"""Without a terminal, one line of progress per this time."""
SECONDS_OF_SPEED = 3600.0
"""The remaining time is estimated from this much of the past: one job may take a minute."""

Names = Annotated[list[str] | None, Parameter(consume_multiple=True, negative="")]

HELP = """Run the experiments of the papers on every mechanism and write a page about them.

* penstock bench: list the suites

* penstock bench w-event --quick: run one suite with small streams

* penstock bench w-event --only window --only covid --also bs: run one question on one stream,
  with one more mechanism

* penstock bench report out/bench: write the pages again from stored results

* penstock bench pack out/bench docs/results/rows: write the results into few small files

* penstock bench datasets: list the datasets
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

    Results are stored as Parquet in OUT/SUITE while the suite runs, with a page beside them. The
    same command continues an interrupted suite, and runs again what changed code had made. The
    same seed gives the same numbers on any number of cores.

    For example:

    * penstock bench w-event --quick

    * penstock bench w-event --only worldcup --only window --runs 1

    * penstock bench windows --also my_module:MyMechanism

    Parameters
    ----------
    suite
        The suite to run. Default: list the suites.
    quick
        Run with short streams, few keys and few runs: under two minutes.
    runs
        Number of runs per cell. Default: the suite's own number.
    seed
        Seed of the noise. Default: 1.
    out
        Folder of the results. Default: out/bench, or out/bench-quick with --quick.
    jobs
        Number of processes. Default: one per core, fewer if memory is short.
    only
        Names of questions, streams or mechanisms to run. Same kind: either matches. Different
        kinds: all must match. Default: all.
    also
        More mechanisms: registered names, names of plug-ins, or module:Class. Default: none.
    stream
        More datasets: registered names, names of plug-ins, or module:Class. Default: none.
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
    _run(chosen, setting, folder, only=tuple(only or ()), jobs=jobs)


def _run(
    suite: Suite, setting: Setting, folder: Path, *, only: tuple[str, ...], jobs: int | None
) -> None:
    """Run a suite, write its page and print the findings."""
    if folder.exists() and not folder.is_dir():
        raise ConfigurationError(f"{folder} is a file, not a folder. Nothing was run.")
    results = Results(folder)
    workers = workers_for({cell.stream for cell in choose(suite, setting, only).cells}, jobs)
    todo = plan(suite, setting, results, only=only, workers=workers)
    other = results.other(setting)
    results.note(suite.name, setting, only, todo.skipped, here=todo.here)
    try:
        with _bar(todo) as tell:
            notes = perform(todo, results, workers=workers, tell=tell)
    except KeyboardInterrupt:
        print("penstock: interrupted. The same command continues the suite.", file=sys.stderr)
        sys.exit(INTERRUPTED)
    written, found = page.write(suite, results)
    screen = Console()

    def say(text: str, style: str = "") -> None:
        screen.print(Text(text, style), soft_wrap=True)

    say(f"{todo.cells:,} runs of cells were made, {todo.done:,} were stored before.")
    for words in other:
        say(words, "yellow")
    for name, reason in todo.skipped.items():
        say(f"{name} was not run: {reason}.", "yellow")
    for words in page.sentences(found):
        say(words)
    failures = dict.fromkeys((row["stream"], row["mechanism"], row["note"]) for row in notes)
    for stream, mechanism, reason in failures:
        say(f"{mechanism} on {stream} failed: {reason}", "bold red")
    say(f"Open {written}", "bold")
    if notes:
        sys.exit(1)


@app.command
def report(folder: Path, /, *, docs: Path | None = None, mixed: Flag = False) -> None:
    """Write the pages again from stored results.

    Parameters
    ----------
    folder
        Folder with the results of one suite or of several, such as out/bench.
    docs
        Folder for Markdown pages: one page per suite with its figures, and the leaderboard.
        Default: no Markdown.
    mixed
        Write the leaderboard also where other code than the present one made some of its cells; the
        page then says so.
    """
    for written in page.rebuild(folder, docs=docs, mixed=mixed):
        Console().print(Text(f"Open {written}", "bold"), soft_wrap=True)


@app.command
def pack(folder: Path, target: Path, /) -> None:
    """Write stored results into few small files, to keep or to share.

    `penstock bench SUITE --out TARGET` goes on from them, and `penstock bench report TARGET` writes
    the pages.

    Parameters
    ----------
    folder
        Folder with the results of several suites, such as out/bench.
    target
        Folder for the packed results. What it had of these suites is replaced.
    """
    for each in page.suite_folders(folder):
        for written in Results(each).pack(Results(target / Results(each).asked().suite)):
            print(written)


@app.command
def datasets(*, as_json: Json = False) -> None:
    """List the datasets: size, meaning of key and person, licence, and whether the data are here.

    Parameters
    ----------
    as_json
        Print JSON, with the parameters of each dataset.
    """
    described = table()
    if as_json:
        print(json.dumps(described, indent=2, ensure_ascii=False, default=str))
        return
    shown = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("dataset", "units × keys", "description"):
        shown.add_column(
            heading, no_wrap=heading != "description", justify="right" if "×" in heading else "left"
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
    for name in ("suite", "title", "questions", "paper"):
        shown.add_column(name)
    for suite in SUITES.values():
        questions = ", ".join(question.name for question in suite.questions(Setting(quick=True)))
        shown.add_row(suite.name, suite.title, questions, suite.paper)
    Console().print(shown)


@contextmanager
def _bar(todo: RunPlan) -> Iterator[Callable[[Job], None]]:
    """Show a progress bar; without a terminal, print one line from time to time."""
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
        speed_estimate_period=SECONDS_OF_SPEED,
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
            if not screen.is_terminal and time.monotonic() > said + SECONDS_BETWEEN_LINES:
                said = time.monotonic()
                print(
                    f"{done} of {todo.cells} runs of cells, now {job.stream.name}",
                    file=sys.stderr,
                    flush=True,
                )

        yield tell
