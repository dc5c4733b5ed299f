"""`penstock lab check`."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

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
from penstock.lab import checks, histogram_checks
from penstock.lab.checks import Result
from penstock.private.histograms import registry as histograms
from penstock.private.mechanisms import registry as mechanisms


def check(
    name: str,
    /,
    *,
    histogram: Flag = False,
    as_json: Json = False,
    quick: Flag = False,
) -> None:
    """Try everything that a mechanism or a histogram method must pass on one of them. Exit code 1
    if something fails.

    For example:

    * penstock lab check ba

    * penstock lab check my_module:MyMechanism --quick

    * penstock lab check --histogram greedy

    Parameters
    ----------
    name
        A registered mechanism, one of a plug-in, or the import path module:Class of your own, also
        from the current directory.
    histogram
        It names a histogram method.
    as_json
        The results as JSON: a list of name, ok, seconds, message.
    quick
        Fewer and shorter streams.
    """
    titles: dict[str, str]
    run: Callable[..., list[Result]]
    if histogram:
        method = with_own_modules(name, lambda: histograms.find(name)())
        titles = {
            each.__name__: histogram_checks.title(each)
            for each in histogram_checks.HISTOGRAM_CHECKS
        }
        run = partial(histogram_checks.run_histogram_checks, method)
    else:
        cls = with_own_modules(name, lambda: mechanisms.find(name))
        titles = {each.__name__: checks.title(each) for each in checks.CHECKS}
        run = partial(checks.run_checks, cls)
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

        def progress(each: str, result: Result | None) -> None:
            bar.update(task, description=titles[each], advance=0 if result is None else 1)

        with _no_traces():
            results = run(quick=quick, progress=progress)
    if as_json:
        print(
            json.dumps(
                [dataclasses.asdict(result) for result in results], indent=2, ensure_ascii=False
            )
        )
    else:
        _show(name, results, titles)
    if not all(result.ok for result in results):
        sys.exit(1)


@contextmanager
def _no_traces() -> Iterator[None]:
    """Hypothesis would leave a folder of its own in the current directory."""
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


def _show(name: str, results: list[Result], titles: dict[str, str]) -> None:
    console = Console()
    table = Table(
        title=f"{name}: {sum(result.ok for result in results)} of {len(results)} checks passed"
    )
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
