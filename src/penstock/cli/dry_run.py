"""`penstock run --dry`: what a dry run found, on the operator's terminal."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime

from rich.console import Console
from rich.text import Text

from penstock.cli.formatting import terminal_width
from penstock.core.errors import ConfigurationError
from penstock.engine.dry_run import DryRun, dry_run
from penstock.engine.explain import units_to_publish, wrapped
from penstock.engine.pipeline import Pipeline

PRIVATE = (
    "This comes from the events, and no promise covers it: keep it to those who may see the "
    "events. Nothing was published, and nothing was written to disk."
)


def show_dry_runs(pipelines: Sequence[Pipeline]) -> None:
    """Read the source of each pipeline and print what was found; exit with 2 if a run would fail.

    A file is refused as standard output: the result is private and must not stay anywhere.
    """
    _refuse_file()
    console = Console()
    results = []
    for pipeline in pipelines:
        found = dry_run(pipeline)
        results.append(found)
        _print(console, pipeline, found)
    console.print(Text(wrapped([PRIVATE], terminal_width()), "dim"), soft_wrap=True)
    if not all(each.readable for each in results):
        sys.exit(2)


def _refuse_file() -> None:
    mode = 0
    with suppress(OSError, ValueError):  # standard output may be closed, or no file at all
        mode = os.fstat(sys.stdout.fileno()).st_mode
    if stat.S_ISREG(mode):
        raise ConfigurationError(
            "the result of a dry run is private, so it goes to a terminal and not into a file. "
            "Leave out the redirection. Nothing was read."
        )


def _print(console: Console, pipeline: Pipeline, found: DryRun) -> None:
    rows: list[tuple[str, str]] = []
    columns = pipeline.source.columns
    if found.columns:
        roles = {columns.time: "time", columns.person: "person"} | dict.fromkeys(
            columns.keys, "key"
        )
        rows.append(
            ("columns found", ", ".join(f"{each!r} ({roles[each]})" for each in found.columns))
        )
    if found.percent is not None:
        low, high = found.percent
        rows.append(("rows that can be taken", f"{low} to {high} %"))
    if found.first is not None and found.last is not None:
        rows.append(("first day", found.first.isoformat()))
        rows.append(("last day", found.last.isoformat()))
    console.print(_headline(found), soft_wrap=True)
    for name, value in rows:
        console.print(Text(f"  {name:<24}{value}"), soft_wrap=True)
    if notes := _notes(pipeline, found):
        style = "yellow" if found.readable else "red"
        console.print(Text(wrapped(notes, terminal_width()), style), soft_wrap=True)


def _headline(found: DryRun) -> Text:
    if found.percent is None:
        return Text(f"{found.stream}: the source has no events now.", "bold yellow")
    if found.readable:
        return Text(f"{found.stream}: the source can be read.", "bold green")
    return Text(f"{found.stream}: the source cannot be read as configured.", "bold red")


def _notes(pipeline: Pipeline, found: DryRun) -> list[str]:
    notes = []
    if found.reason:
        notes.append(f"The most frequent reason why rows cannot be taken: {found.reason}.")
    if found.files and pipeline.source.options.get("path"):
        notes.append(f"Fewer than half of the rows can be taken of: {', '.join(found.files)}.")
    if found.empty:
        now = datetime.now(UTC)
        units = units_to_publish(pipeline, pipeline.views[0], now=now)
        notes.append(
            f"More than half of the {units:,} units will be empty: they lie before the first day "
            "or after the last one. Declare the public beginning and end of the stream as origin "
            "and until in [stream]."
        )
    if pipeline.source.kind == "stdin":
        notes.append("Standard input was read to its end. Give it again to the run.")
    return notes
