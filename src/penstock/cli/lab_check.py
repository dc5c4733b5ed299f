"""`penstock lab check`."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table
from rich.text import Text

from penstock.cli.options import Flag, Json, with_own_modules
from penstock.core.errors import ConfigurationError
from penstock.lab.checks import CHECKS, CheckResult, run_checks, title
from penstock.lab.histogram_checks import HISTOGRAM_CHECKS, run_histogram_checks
from penstock.lab.sink_checks import SINK_CHECKS, run_sink_checks
from penstock.lab.source_checks import SOURCE_CHECKS, run_source_checks
from penstock.private.histograms import registry as histograms
from penstock.private.mechanisms import registry as mechanisms
from penstock.private.sources.registry import SOURCES
from penstock.released.sinks.registry import SINKS


def check(
    name: str,
    /,
    *,
    histogram: Flag = False,
    source: Flag = False,
    sink: Flag = False,
    as_json: Json = False,
    quick: Flag = False,
) -> None:
    """Run all checks on one mechanism, histogram method, source or sink. Exit code 1 if one fails.

    For example:

    * penstock lab check ba

    * penstock lab check my_module:MyMechanism --quick

    * penstock lab check --histogram greedy

    * penstock lab check --source my_module:KIND

    * penstock lab check --sink jsonl

    Parameters
    ----------
    name
        A name that is registered, also by a plug-in, or the import path of your own:
        module:Class, or module:KIND for a source or a sink. Modules in the current directory are
        found too.
    histogram
        NAME is a histogram method.
    source
        NAME is a kind of source.
    sink
        NAME is a kind of sink.
    as_json
        Print the results as JSON: a list of name, ok, seconds, message.
    quick
        Try fewer and shorter streams.
    """
    if histogram + source + sink > 1:
        raise ConfigurationError("use only one of --histogram, --source and --sink.")
    find: Callable[[str], Any] = mechanisms.find
    every: Sequence[Callable[..., None]] = CHECKS
    run: Callable[..., list[CheckResult]] = run_checks
    if histogram:
        find, every = (lambda method: histograms.find(method)()), HISTOGRAM_CHECKS
        run = run_histogram_checks
    elif source:
        find, every, run = SOURCES.find, SOURCE_CHECKS, run_source_checks
    elif sink:
        find, every, run = SINKS.find, SINK_CHECKS, run_sink_checks
    found = with_own_modules(name, lambda: find(name))
    titles = {each.__name__: title(each) for each in every}
    with _bar(titles) as progress, _no_hypothesis_folder():
        results = run(found, quick=quick, progress=progress)
    if as_json:
        rows = [dataclasses.asdict(result) for result in results]
        print(json.dumps(rows, indent=2, ensure_ascii=False))
    else:
        _show(name, results, titles)
    if not all(result.ok for result in results):
        sys.exit(1)


@contextmanager
def _bar(titles: dict[str, str]) -> Iterator[Callable[[str, CheckResult | None], None]]:
    """A progress bar with the title of the check that is running."""
    screen = Console(stderr=True)
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal) as bar:
        task = bar.add_task("", total=len(titles))

        def progress(each: str, result: CheckResult | None) -> None:
            bar.update(task, description=titles[each], advance=0 if result is None else 1)

        yield progress


@contextmanager
def _no_hypothesis_folder() -> Iterator[None]:
    """Keep Hypothesis from creating its folder in the current directory."""
    name = "HYPOTHESIS_STORAGE_DIRECTORY"
    if name in os.environ:
        yield
        return
    with tempfile.TemporaryDirectory() as folder:
        os.environ[name] = folder
        try:
            yield
        finally:
            del os.environ[name]


def _show(name: str, results: list[CheckResult], titles: dict[str, str]) -> None:
    console = Console()
    passed = sum(result.ok for result in results)
    table = Table(title=f"{name}: {passed} of {len(results)} checks passed")
    table.title_justify, table.title_style = "left", "bold"
    table.add_column("")
    table.add_column("check", overflow="fold")
    table.add_column("seconds", justify="right")
    for result in results:
        mark = Text("ok", "green") if result.ok else Text("FAILS", "bold red")
        table.add_row(mark, Text(titles[result.name]), f"{result.seconds:.2f}")
    console.print(table)
    for result in results:
        if not result.ok:
            console.print(Text(f"\n{result.name}", "bold red"))
            console.print(Text(result.message), soft_wrap=True)
