"""Answers as a table, CSV, JSON or a page."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from penstock.cli.formatting import begin, fits, say, times
from penstock.cli.query.describe import promise_of
from penstock.core.calendar import Calendar
from penstock.core.durations import length
from penstock.core.errors import ConfigurationError
from penstock.core.exact import exact
from penstock.core.files import cannot
from penstock.core.nonnegative import NOTE as NONNEGATIVE
from penstock.core.notebook_html import shown
from penstock.released.log import Log
from penstock.released.pages.chart import Chart
from penstock.released.queries import Alerts, Answer, Ranking
from penstock.released.release_filter import NOTE

Answered: TypeAlias = Answer | Alerts | Ranking

MAX_TABLE_ROWS = 40
"""The most rows of a table; --csv and --json show all."""

MAX_PAGE_NUMBERS = 1_000_000
"""The most numbers on one page."""


def print_json(answer: Answered, log: Log, calendar: Calendar | None, confidence: str) -> None:
    """Print the whole answer as one JSON document."""
    content: dict[str, Any] = {"query": answer.query, "confidence": confidence}
    if log.filter is not None:
        content["filter"] = {**log.filter.facts, "confidence": confidence}
    if _is_nonnegative(answer):
        content["nonnegative"] = NONNEGATIVE
    if isinstance(answer, Alerts):
        content["threshold"] = answer.threshold
    content["rows"] = list(_rows(answer, log, calendar, confidence))
    print(json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False))


def print_csv(answer: Answered, log: Log, calendar: Calendar | None, confidence: str) -> None:
    """Print every row of the answer as CSV."""
    rows = _rows(answer, log, calendar, confidence)
    first = next(rows)
    out = csv.DictWriter(sys.stdout, list(first), lineterminator="\n")
    out.writeheader()
    out.writerow(first)
    out.writerows(rows)


def _rows(
    answer: Answered, log: Log, calendar: Calendar | None, confidence: str
) -> Iterator[dict[str, Any]]:
    """The rows of an answer, with the begin and end of their units if these are known.

    Rows of filtered and of non-negative numbers say so: CSV has no other place for it.
    """
    said = {} if log.filter is None else {"filtered": True}
    said |= {"nonnegative": True} if _is_nonnegative(answer) else {}
    for row in answer.rows(confidence):
        when = {} if calendar is None else times(calendar, row["unit"])
        yield {"unit": row["unit"], **when, **row, **said}


def print_table(
    answer: Answered, log: Log, calendar: Calendar | None, confidence: str, *, page: Path | None
) -> None:
    """Print the first rows as a table, and what the reader must know of them."""
    rows = list(islice(answer.rows(confidence), MAX_TABLE_ROWS + 1))
    console = Console()
    shape = (answer, log, calendar, confidence, rows[:MAX_TABLE_ROWS])
    table = _table(*shape, narrow=False)
    if not fits(table, console):
        table = _table(*shape, narrow=True)
    console.print(table)
    if len(rows) > MAX_TABLE_ROWS:
        size = (
            answer.places.size
            if isinstance(answer, Ranking)
            else len(answer.units) * len(answer.names)
        )
        say(f"… and {size - MAX_TABLE_ROWS:,} more: --csv and --json show all.")
    if calendar is not None:
        say(f"Times are in {calendar.zone}.")
    say(about_intervals(log))
    if _is_nonnegative(answer):
        say(NONNEGATIVE)
    if any(row.get("unread") for row in rows):
        note = "“not read”: an earlier release stands for these units, and the error is not known."
        say(note)
    if page is not None:
        console.print(Text(f"Open {page.absolute()}"), soft_wrap=True)


def _table(
    answer: Answered,
    log: Log,
    calendar: Calendar | None,
    confidence: str,
    rows: list[dict[str, Any]],
    *,
    narrow: bool,
) -> Table:
    """The rows as a table. A narrow one has fewer lines and no unit numbers beside times."""
    notes = [_note(row) for row in rows]
    table = Table(
        title=Text(_title(answer, log)),
        title_justify="left",
        title_style="bold",
        pad_edge=False,
        box=box.SIMPLE_HEAD if narrow else box.HEAVY_HEAD,
        padding=(0, 1, 0, 0) if narrow else (0, 1),
    )
    numbered = calendar is None or not narrow
    if numbered:
        table.add_column("unit", justify="right", no_wrap=True)
    if calendar is not None:
        table.add_column("begins", no_wrap=True)
    table.add_column("name", overflow="fold")
    table.add_column("estimate", justify="right", no_wrap=True)
    heading = _percent(confidence) if narrow else f"{_percent(confidence)} interval"
    table.add_column(heading, justify="right", no_wrap=True)
    if any(notes):
        table.add_column("note", overflow="fold", min_width=8)
    for row, note in zip(rows, notes, strict=True):
        name = f"{row['rank']}. {row['name']}" if "rank" in row else row["name"]
        cells: list[str | Text] = [str(row["unit"])] if numbered else []
        cells += [] if calendar is None else [begin(calendar, row["unit"])]
        cells += [Text(name), "?" if row["estimate"] is None else shown(row["estimate"])]
        cells += [_band(row), *([note] if any(notes) else [])]
        table.add_row(*cells, style="bold yellow" if row.get("raised") else "")
    return table


def about_intervals(log: Log) -> str:
    """What intervals around the numbers of this log mean, and where filtered numbers come from."""
    if log.filter is not None:
        return NOTE
    if len(log) and log[log.last].kind == "filtered":
        return "Intervals are for the counts themselves, as the filter believes."
    return "Intervals cover the added noise only."


def _title(answer: Answered, log: Log) -> str:
    filtered = "" if log.filter is None else ", filtered"
    return f"{answer.query}{filtered}{', non-negative' if _is_nonnegative(answer) else ''}"


def _is_nonnegative(answer: Answered) -> bool:
    return isinstance(answer, Answer) and answer.released is not None


def _band(row: dict[str, Any]) -> str:
    if row["low"] is None:
        return "not known"
    return f"{shown(row['low'])} to {shown(row['high'])}"


def _note(row: dict[str, Any]) -> Text:
    if "rank" in row:
        if row["surely_larger_than_the_rest"]:
            return Text("larger than the rest")
        sure = "in the top, rank uncertain"
        return Text(sure if row["surely_among_them"] else "may not be in the top")
    said = []
    if row.get("raised"):
        doubt = "" if row["doubt"] is None else f", by noise alone at most {row['doubt']:.2g}"
        said.append(f"ALERT{doubt}")
    if row["unread"]:
        said.append(f"{row['unread']} not read")
    return Text("; ".join(said))


def _percent(confidence: str) -> str:
    percent = 100 * exact(confidence, name="confidence")
    text = f"{float(percent):.6g}"
    return f"{text} %" if Fraction(text) <= percent else confidence  # never rounded up


def write_page(
    page: Path, answer: Answer | Alerts, log: Log, calendar: Calendar | None, confidence: str
) -> None:
    """Write the page of `--plot`."""
    numbers = answer.statistic if isinstance(answer, Alerts) else answer
    if numbers.estimate.size > MAX_PAGE_NUMBERS:
        raise ConfigurationError(
            f"--plot: {numbers.estimate.size:,} numbers are too many for one page "
            f"(limit: {MAX_PAGE_NUMBERS:,}). Choose fewer with --key or --last. "
            "No page was written."
        )
    low, high = numbers.interval(confidence)
    thresholds: tuple[float, ...] = ()
    if isinstance(answer, Alerts):
        both = (answer.threshold, -answer.threshold)
        thresholds = both if answer.side == "either" else both[:1]
    title = _title(answer, log)
    measure = f"{title[:1].upper()}{title[1:]}"
    every = "" if calendar is None or answer.query != "counts" else f" per {length(calendar.every)}"
    chart = Chart(
        title=f"{measure} of {log.name}" if log.name else measure,
        measure=f"{measure}{every}",
        note=about_intervals(log) + (f" {NONNEGATIVE}" if _is_nonnegative(answer) else ""),
        promise=promise_of(log),
        confidence=_percent(confidence),
        units=numbers.units,
        names=numbers.names,
        estimate=numbers.estimate,
        low=low,
        high=high,
        calendar=calendar,
        raised=answer.raised if isinstance(answer, Alerts) else None,
        thresholds=thresholds,
    )
    try:
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(chart.page(), encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"--plot: {cannot('written', page, error)}") from None
