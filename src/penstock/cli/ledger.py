"""`penstock ledger`."""

from __future__ import annotations

import csv
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any, NoReturn

from cyclopts import App, Parameter
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from penstock.budget.accountant import Account
from penstock.budget.grid import Grid, promised
from penstock.budget.ledger import Line
from penstock.cli.formatting import amount, bar, begin, decimal, fraction, times
from penstock.cli.options import Json
from penstock.cli.store_argument import chosen, open_store
from penstock.core.calendar import Calendar
from penstock.core.errors import ConfigurationError, LedgerError, StateError
from penstock.core.guarantee import Guarantee
from penstock.engine.chain import Head, HeadFile
from penstock.engine.ledger_report import ViewsLedger, spent, streams_of, together, units_from
from penstock.engine.store import Reader, VerifiedLedger
from penstock.released.series import Series

MAX_UNITS_SHOWN = 40
"""The most units that a table shows; --csv and --json have all of them."""

_MIN_WIDTH_FOR_BARS = 80
_ANY_WIDTH = 10_000
"""A width in which every table fits."""

HELP = """Show and verify what every unit was charged.

For example:

* penstock ledger show taps.db --stream taps

* penstock ledger verify taps.db --head elsewhere/taps.head
"""

_WORDS = {
    "expose": "exposed: ",
    "open": "threshold: ",
    "ask": "asked: ",
    "yes": "answered yes: ",
    "close": "closed: ",
}
_HEAD = re.compile(r"([0-9]+):([0-9a-f]{64})")


app = App(name="ledger", help=HELP, help_format="markdown")


# -- show ------------------------------------------------------------------------------------------


@app.command
def show(
    store: str,
    /,
    *,
    stream: str | None = None,
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
    if as_json:
        print(json.dumps(book, indent=2, ensure_ascii=False))
    elif as_csv:
        _print_csv(book)
    else:
        _print_book(book, calendar)


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
            **_both("charged", int(found.numbers[unit - 1]) * quantum),
            **_both("window", found.window(unit)),
        }
        for unit in units
    ]
    return {**_about(series.name, series.guarantee, chosen_units), "rows": rows}


def _charge(line: Line, quantum: Fraction) -> dict[str, Any]:
    charged = {"kind": line.kind, "label": line.label, **_both("amount", line.amount * quantum)}
    if line.kind == "open":
        charged |= _both("question", line.number * quantum)
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
                        **_both("window", found.window(unit, view)),
                    }
                    for view, series in views.series.items()
                },
                **_both("window", found.window(unit)),
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


def _both(name: str, value: Fraction) -> dict[str, Any]:
    return {name: str(value), f"{name}_decimal": float(value)}


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
    wide = Measurement.get(console, console.options.update_width(_ANY_WIDTH), table).maximum
    if wide > console.width and (views or console.width < _MIN_WIDTH_FOR_BARS):
        table = _table(book, views, calendar, bars=False)
    console.print(table)
    if len(rows) < book["units"]:
        _print(
            f"The newest {len(rows)} of {book['units']:,} units: --from and --to choose others, "
            "--csv and --json show all."
        )
    if not rows:
        _print("No units.")
    elif views:
        _print(
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


# -- verify ----------------------------------------------------------------------------------------


@app.command
def verify(
    store: str,
    /,
    *,
    stream: str | None = None,
    head: str | None = None,
    export: str | None = None,
    note: Path | None = None,
    as_json: Json = False,
) -> None:
    """Recompute every link of the chain and the cost of every window. Exit code 1 if anything is
    not as it was committed.

    Everything is recomputed from the store, for several views also their joint cost. The printed
    head stands for all of it. Note it elsewhere: later it shows whether anything up to it was
    changed, or an old backup restored.

    For example:

    * penstock ledger verify taps.db

    * penstock ledger verify taps.db --note elsewhere/auditor.head

    * penstock ledger verify taps.db --head elsewhere/auditor.head

    * penstock ledger verify pipeline.toml --stream taps --export public.db

    Parameters
    ----------
    store
        The store: a file, postgresql://… (the password in PGPASSWORD), or the pipeline.toml that
        names it.
    stream
        Only this stream with all its views, or only this view. Default: everything.
    head
        A head file, or one printed head: each head must be in the store's past.
    export
        An exported store: every head of it must be in the store's past.
    note
        Write the heads into this file, if everything is valid.
    as_json
        As JSON, for programs.
    """
    with open_store(store) as reader:
        known = streams_of(reader)
        wanted = _wanted(known, stream)
        noted = [*_heads(head, wanted), *_exported(export, stream, wanted)]
        try:
            if stream is None:
                _check_names(reader, noted)
            found = {series: _verified(reader, series, noted) for series in wanted}
            together = _verified_together(reader, known, found)
        except (LedgerError, StateError) as error:
            _not_valid(str(error), as_json=as_json)
        rows = [_row(reader.series(series), each) for series, each in found.items()]
    if note is not None:
        HeadFile(note).update({series: each.head for series, each in found.items()})
    if as_json:
        content = {"valid": True, "series": rows, "together": together}
        print(json.dumps(content, indent=2, ensure_ascii=False))
    else:
        _print_verified(rows, together, note)


def _check_names(reader: Reader, noted: Sequence[tuple[str, Head]]) -> None:
    """Refuse heads of series that the store does not have."""
    for name, head in noted:
        if name not in reader.series_names:
            raise LedgerError(
                f"series {name!r} is not in the store, and a head of unit {head.unit} of it was "
                "noted."
            )


def _verified(reader: Reader, series: str, noted: Sequence[tuple[str, Head]]) -> VerifiedLedger:
    """A series whose chain was followed, and which has all of these heads in its past."""
    heads = [head for name, head in noted if name == series]
    for head in heads[1:]:
        reader.verify(series, head=head)
    return reader.verify(series, head=heads[0] if heads else None)


def _verified_together(
    reader: Reader, known: Mapping[str, ViewsLedger], found: Mapping[str, VerifiedLedger]
) -> list[dict[str, Any]]:
    """The highest joint spend of each stream with several views, if all of them were verified."""
    rows = []
    for views in known.values():
        if views.several and {each.name for each in views.series.values()} <= found.keys():
            worst = _together(reader, views, found)
            limit = {"promised": str(views.guarantee.epsilon)}
            rows.append({"stream": views.name, **_both("worst_window", worst), **limit})
    return rows


def _wanted(known: Mapping[str, ViewsLedger], stream: str | None) -> tuple[str, ...]:
    every = {each.name: (each.name,) for views in known.values() for each in views.series.values()}
    whole = {
        name: tuple(each.name for each in views.series.values()) for name, views in known.items()
    }
    if stream is None:
        return tuple(sorted(every))
    return {**every, **whole}[chosen({**every, **whole}, stream)]


def _heads(head: str | None, wanted: tuple[str, ...]) -> list[tuple[str, Head]]:
    if head is None:
        return []
    literal = _HEAD.fullmatch(head)
    if literal:
        if len(wanted) != 1:
            raise ConfigurationError(
                "a head alone does not say whose it is: choose a stream with --stream."
            )
        return [(wanted[0], Head(int(literal[1]), bytes.fromhex(literal[2])))]
    if not Path(head).is_file():
        raise ConfigurationError(f"there is no head file {head!r}.")
    return list(HeadFile(head).read().items())


def _exported(
    export: str | None, stream: str | None, wanted: tuple[str, ...]
) -> list[tuple[str, Head]]:
    if export is None:
        return []
    with open_store(export) as copy:
        return [
            (name, copy.head(name))
            for name in copy.series_names
            if stream is None or name in wanted
        ]


def _together(reader: Reader, views: ViewsLedger, found: Mapping[str, VerifiedLedger]) -> Fraction:
    accounts: dict[str, Account] = {
        view: found[series.name].account for view, series in views.series.items()
    }
    joint = together(reader, views, accounts)
    unit = joint.first_above
    if unit is not None:
        raise LedgerError(
            f"stream {views.name!r}: the window that ends with unit {unit} cost "
            f"{joint.window(unit)} in all views together, above {views.guarantee.epsilon}."
        )
    return joint.worst


def _not_valid(message: str, *, as_json: bool) -> NoReturn:
    if as_json:
        print(json.dumps({"valid": False, "problem": message}, indent=2, ensure_ascii=False))
    print(f"penstock: not valid: {' '.join(message.split())}", file=sys.stderr)
    sys.exit(1)


def _row(series: Series, verified: VerifiedLedger) -> dict[str, Any]:
    most = promised(series.guarantee)
    return {
        "series": series.name,
        "units": verified.head.unit,
        "currency": most.grid.currency,
        **_both("worst_window", verified.account.worst),
        "promised": str(most.amount),
        "head": str(verified.head),
    }


def _print_verified(
    rows: list[dict[str, Any]], together: list[dict[str, Any]], note: Path | None
) -> None:
    if not rows:
        _print("The store is empty.")
        return
    _print("Valid: every link and every window was recomputed.", "bold green")
    for row in rows:
        units = "1 unit" if row["units"] == 1 else f"{row['units']:,} units"
        _print(f"{row['series']}: {units}; {_highest_spend(row)}")
        _print(f"  head {row['head']}")
    for row in together:
        _print(f"{row['stream']}, all views together: {_highest_spend(row)}")
    if note is not None:
        _print(f"The heads are noted in {note}: give it as --head next time.")
    else:
        _print(
            "Note the head elsewhere, or use --note FILE. With --head it shows later whether "
            "anything was changed."
        )


def _highest_spend(row: Mapping[str, Any]) -> str:
    sign = "ρ" if row.get("currency") == "rho" else "ε"
    spent, limit = amount(Fraction(row["worst_window"])), amount(Fraction(row["promised"]))
    return f"highest spend in any window: {sign} {spent} (limit: {limit})."


def _print(text: str, style: str = "") -> None:
    Console().print(Text(text, style), soft_wrap=True)
