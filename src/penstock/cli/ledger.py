"""`penstock ledger`."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter
from rich.console import Console
from rich.table import Table
from rich.text import Text

from penstock.budget.grid import Grid, promised
from penstock.budget.ledger import Line
from penstock.cli.completers import StreamName
from penstock.cli.formatting import (
    amount,
    bar,
    begin,
    decimal,
    exact_and_decimal,
    fits,
    fraction,
    say,
    times,
)
from penstock.cli.ledger_verify import verify
from penstock.cli.options import Json
from penstock.cli.store_argument import chosen, open_store
from penstock.core.calendar import Calendar
from penstock.core.errors import ConfigurationError
from penstock.core.guarantee import Guarantee
from penstock.core.unit_range import units_from
from penstock.engine.ledger_report import ViewsLedger, spent, streams_of, together
from penstock.engine.signing import named_key, write_key_pair
from penstock.engine.store import Reader
from penstock.released.series import Series

MAX_UNITS_SHOWN = 40
"""The most units that a table shows; --csv and --json have all of them."""

_MIN_WIDTH_FOR_BARS = 80
HELP = """Show and verify what every unit was charged.

For example:

* penstock ledger show taps.db --stream taps

* penstock ledger verify taps.db --head elsewhere/taps.head

* penstock ledger keygen secrets/signing
"""

_WORDS = {
    "expose": "exposed: ",
    "open": "threshold: ",
    "ask": "asked: ",
    "yes": "answered yes: ",
    "close": "closed: ",
}


app = App(name="ledger", help=HELP, help_format="markdown")
app.command(verify)


# -- keygen ----------------------------------------------------------------------------------------


@app.command
def keygen(file: Path, /) -> None:
    """Make a key pair, so that readers can tell the publisher's history from a rewritten one.

    The secret key goes to FILE (mode 0600), the public key to FILE.pub. Name the secret key in the
    pipeline; from the next unit on, every head is signed. Give the public key to readers, by
    another way than the releases.

    For example:

    * penstock ledger keygen secrets/signing

    Parameters
    ----------
    file
        The file for the secret key. A file that exists is never replaced.
    """
    key = write_key_pair(file)
    say(f"Wrote {file} (secret: keep a copy away from the store) and {file}.pub (for readers).")
    say(f"Public key {key.public.fingerprint}.")
    say(f'Write signing_key_file = "{file}" in [store].')


# -- show ------------------------------------------------------------------------------------------


@app.command
def show(
    store: str,
    /,
    *,
    stream: StreamName = None,
    first: Annotated[str | None, Parameter(name="--from")] = None,
    until: Annotated[str | None, Parameter(name="--to")] = None,
    as_json: Json = False,
    as_csv: Annotated[bool, Parameter(name="--csv", negative="")] = False,
) -> None:
    """Show what every unit was charged, and the cost of the window that ends with it.

    The ledger is public: it shows what was spent, never what was counted. For a stream with several
    views it is the joint ledger, in the stream's own units: the cost of a window for each view, and
    for all of them together.

    For example:

    * penstock ledger show taps.db

    * penstock ledger show pipeline.toml --from 2026-03-01 --to 2026-03-02

    * penstock ledger show taps.db --stream taps/daily --from 10 --to 20 --json

    Parameters
    ----------
    store
        The store: a file, postgresql://… (the password in PGPASSWORD), or the pipeline.toml that
        names it.
    stream
        A stream, or a view of one, such as taps/daily. Default: the only stream.
    first
        From this unit on: its number, or a date or time in it.
    until
        Up to this unit: its number, or a date or time in it.
    as_json
        As JSON, with exact fractions, for programs.
    as_csv
        As CSV, one line per unit.
    """
    if as_json and as_csv:
        raise ConfigurationError("either --json or --csv, not both.")
    with open_store(store) as reader:
        known = streams_of(reader)
        name = chosen(
            [*known, *(each for each in reader.series_names if each not in known)]
            if stream
            else known,
            stream,
        )
        views = known.get(name)
        most = None if as_json or as_csv else MAX_UNITS_SHOWN
        if views is not None and views.several:
            calendar, book = views.calendar, _joint(reader, views, first, until, most)
        else:
            series = reader.series(name)
            calendar, book = series.calendar, _single(reader, series, first, until, most)
        names = [name] if views is None else [each.name for each in views.series.values()]
        book |= _signed(reader, names)
    if as_json:
        print(json.dumps(book, indent=2, ensure_ascii=False))
    elif as_csv:
        _print_csv(book)
    else:
        _print_book(book, calendar)


def _signed(reader: Reader, names: Iterable[str]) -> dict[str, Any]:
    """The fingerprint of the public key that the newest units name, if they are signed."""
    heads = ((name, reader.head(name)) for name in names)
    keys = {named_key(name, head).fingerprint for name, head in heads if head.signature is not None}
    return {"public_key": ", ".join(sorted(keys))} if keys else {}


def _single(
    reader: Reader, series: Series, first: str | None, until: str | None, most: int | None
) -> dict[str, Any]:
    """One series: the charges of each unit, by label."""
    found = spent(reader, series.name)
    chosen_units = units_from(series.calendar, len(found.windows), first, until)
    units = _newest(chosen_units, most)
    quantum = Grid.of(series.guarantee).quantum
    lines = reader.lines(series.name, units[0], units[-1]) if units else iter(())
    by_unit = {unit: list(group) for unit, group in groupby(lines, key=lambda line: line.unit)}
    rows = [
        {
            "unit": unit,
            **times(series.calendar, unit),
            "charges": [_charge(line, quantum) for line in by_unit.get(unit, ())],
            **exact_and_decimal("charged", int(found.numbers[unit - 1]) * quantum),
            **exact_and_decimal("window", found.window(unit)),
        }
        for unit in units
    ]
    return {**_about(series.name, series.guarantee, chosen_units), "rows": rows}


def _charge(line: Line, quantum: Fraction) -> dict[str, Any]:
    charged = {
        "kind": line.kind,
        "label": line.label,
        **exact_and_decimal("amount", line.amount * quantum),
    }
    if line.kind == "open":
        charged |= exact_and_decimal("question", line.number * quantum)
    return charged | ({"run": line.run} if line.run else {})


def _newest(units: range, most: int | None) -> range:
    return units if most is None else units[-most:]


def _joint(
    reader: Reader, views: ViewsLedger, first: str | None, until: str | None, most: int | None
) -> dict[str, Any]:
    """All views: the cost of each in the window that ends with a unit of the stream."""
    found, calendar = together(reader, views), views.calendar
    rows = []
    units = units_from(calendar, len(found.windows), first, until)
    for unit in _newest(units, most):
        begins = calendar.begins(unit) if calendar else 0
        rows.append(
            {
                "unit": unit,
                **times(calendar, unit),
                "views": {
                    view: {
                        "unit": series.calendar.unit_at(begins) if series.calendar else None,
                        **exact_and_decimal("window", found.window(unit, view)),
                    }
                    for view, series in views.series.items()
                },
                **exact_and_decimal("window", found.window(unit)),
            }
        )
    return {**_about(views.name, views.guarantee, units), "rows": rows}


def _about(name: str, guarantee: Guarantee, units: range) -> dict[str, Any]:
    most = promised(guarantee)
    return {
        "stream": name,
        "currency": most.grid.currency,
        "promised": str(most.amount),
        "units_in_a_window": guarantee.window,
        "units": len(units),
    }


def _print_csv(book: Mapping[str, Any]) -> None:
    out = csv.writer(sys.stdout, lineterminator="\n")
    rows = list(_flat(book))
    head = [
        "stream",
        "unit",
        "begins",
        "ends",
        "charges",
        "charged",
        "charged_decimal",
        "window",
        "window_decimal",
        "promised",
    ]
    out.writerow(list(rows[0]) if rows else head)
    out.writerows(row.values() for row in rows)


def _flat(book: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for row in book["rows"]:
        flat = {"stream": book["stream"]} | {name: row[name] for name in ("unit", "begins", "ends")}
        for view, cost in row.get("views", {}).items():
            flat |= {f"{view}_unit": cost["unit"], f"{view}_window": cost["window"]}
        if "charges" in row:
            flat["charges"] = "; ".join(
                f"{each['kind']} {each['label']} {each['amount']}" for each in row["charges"]
            )
            flat |= {"charged": row["charged"], "charged_decimal": row["charged_decimal"]}
        yield flat | {
            "window": row["window"],
            "window_decimal": row["window_decimal"],
            "promised": book["promised"],
        }


def _print_book(book: Mapping[str, Any], calendar: Calendar | None) -> None:
    console, rows = Console(), book["rows"]
    views = list(rows[0].get("views", ())) if rows else []
    table = _table(book, views, calendar, bars=True)
    if not fits(table, console) and (views or console.width < _MIN_WIDTH_FOR_BARS):
        table = _table(book, views, calendar, bars=False)
    console.print(table)
    if len(rows) < book["units"]:
        say(
            f"The newest {len(rows)} of {book['units']:,} units: --from and --to choose others, "
            "--csv and --json show all."
        )
    if "public_key" in book:
        say(f"Signed; the store names public key {book['public_key']}.")
    if not rows:
        say("No units.")
    elif views:
        say(
            "Each view: its own unit at that time, and the cost of its window. "
            "The window: all views together."
        )


def _table(
    book: Mapping[str, Any], views: list[str], calendar: Calendar | None, *, bars: bool
) -> Table:
    """A table with one row per unit. A narrow screen folds cells and gets no bars; numbers are
    never cut off.
    """
    rows, most = book["rows"], Fraction(book["promised"])
    sign = "ε" if book["currency"] == "epsilon" else "ρ"
    window = book["units_in_a_window"]
    where = "per unit" if window == 1 else f"in any {window} units"
    begins = "" if calendar is None else f"begins ({calendar.zone})"
    short = len(begins) <= len("2026-01-01 00:00")
    zone = "" if calendar is None or short else f"; times in {calendar.zone}"
    title = Text(f"{book['stream']}: at most {sign} = {amount(most)} {where}{zone}")
    table = Table(title=title, title_justify="left", title_style="bold", pad_edge=False)
    table.add_column("unit", justify="right", no_wrap=True)
    if calendar is not None:
        table.add_column(Text(begins if short else "begins"), no_wrap=True)
    for heading in views or [f"charged for ({sign})", "in all"]:
        table.add_column(
            Text(heading),
            overflow="fold",
            justify="left" if heading.startswith("charged") else "right",
        )
    table.add_column("the window", justify="right", overflow="fold")
    if bars:
        table.add_column("", no_wrap=True, min_width=8)
    for row in rows:
        cells = (
            [_cost(row["views"][view]) for view in views]
            if views
            else [_charges(row), decimal(Fraction(row["charged"]))]
        )
        cost = Fraction(row["window"])
        when = [] if calendar is None else [begin(calendar, row["unit"])]
        drawn = [bar(cost, most)] if bars else []
        table.add_row(str(row["unit"]), *when, *map(Text, cells), amount(cost), *drawn)
    return table


def _cost(view: Mapping[str, Any]) -> str:
    return f"unit {view['unit']}: {fraction(Fraction(view['window']))}"


def _charges(row: Mapping[str, Any]) -> str:
    told = []
    for each in row["charges"]:
        if each["kind"] in ("ask", "yes", "close"):
            told.append(f"{_WORDS[each['kind']]}{each['label']}")
            continue
        text = f"{_WORDS.get(each['kind'], '')}{each['label']} {fraction(Fraction(each['amount']))}"
        told.append(
            text
            + (f", {fraction(Fraction(each['question']))} a question" if "question" in each else "")
        )
    return "; ".join(told) or "nothing"
