"""`penstock status`."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from penstock.budget.grid import promised
from penstock.cli.formatting import amount, bar, span, times
from penstock.cli.options import Json
from penstock.cli.store_argument import open_store
from penstock.engine.ledger_report import ViewsLedger, newest, streams_of, together
from penstock.engine.store import Reader
from penstock.released.series import Series


def status(store: str, /, *, as_json: Json = False) -> None:
    """Show the promise, newest unit, spend and publisher of every stream in a store.

    It reads public figures only, and neither the mechanism's state nor the source's position.

    Examples:

    * penstock status taps.db

    * penstock status pipeline.toml --json

    Parameters
    ----------
    store
        The store: a file, postgresql://… (with the password in PGPASSWORD), or the pipeline.toml
        that names it.
    as_json
        Print JSON, for programs.
    """
    with open_store(store) as reader:
        streams = [_stream(reader, views) for views in streams_of(reader).values()]
    if as_json:
        print(json.dumps(streams, indent=2, ensure_ascii=False))
        return
    console = Console()
    if not streams:
        console.print(Text("The store is empty: nothing was published yet."))
    for place, each in enumerate(streams):
        if place:
            console.print()
        _print(console, each)


def _stream(reader: Reader, views: ViewsLedger) -> dict[str, Any]:
    series = [_series(reader, view, each) for view, each in views.series.items()]
    guarantee = views.guarantee
    about: dict[str, Any] = {
        "stream": views.name,
        "guarantee": str(guarantee),
        "promise": next(iter(views.series.values())).stream_promise,
        "private": all(each["private"] is not False for each in series),
        "series": series,
    }
    if views.several:
        found = together(reader, views)
        cost = found.window(len(found.windows)) if found.windows else Fraction(0)
        about["together"] = {
            "window": str(cost),
            "window_decimal": float(cost),
            "promised": str(guarantee.epsilon),
        }
    return about


def _series(reader: Reader, view: str, series: Series) -> dict[str, Any]:
    unit = reader.head(series.name).unit
    most = promised(series.guarantee)
    cost = newest(reader, series.name)
    release = next(reader.releases(series.name, unit, unit)) if unit else None
    return {
        "series": series.name,
        "view": view,
        "mechanism": series.mechanism,
        "configuration": dict(series.configuration),
        "every": series.calendar.every if series.calendar else None,
        "unit": unit,
        **({"begins": None, "ends": None} if not unit else times(series.calendar, unit)),
        "span": span(series.calendar, unit) if unit else "",
        "numbers": series.domain.size,
        "fresh": None
        if release is None
        else int(np.sum(~np.broadcast_to(release.repeated, release.value.shape))),
        "private": None if release is None else release.private,
        "window": str(cost),
        "window_decimal": float(cost),
        "promised": str(most.amount),
        "currency": most.grid.currency,
        "units_in_a_window": series.guarantee.window,
        "lease": _lease(reader, series.name),
        "sinks": dict(sorted(reader.marks(series.name).items())),
    }


def _lease(reader: Reader, series: str) -> dict[str, Any] | None:
    held = reader.lease(series)
    if held is None:
        return None
    held_by = held.owner or None
    return {
        "publisher": held_by,
        "since": _when(held.since),
        "until": _when(held.expires),
        "expired": held_by is not None and held.expires <= time.time(),
    }


def _when(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="seconds")


def _print(console: Console, stream: Mapping[str, Any]) -> None:
    console.print(Text(stream["stream"], "bold"))
    promise = stream["promise"] if stream["private"] else "NONE: released with test noise."
    several = "together" in stream
    table = _table()
    table.add_row("promise", Text(promise))
    if several:
        cost, most = (
            Fraction(stream["together"]["window"]),
            Fraction(stream["together"]["promised"]),
        )
        table.add_row("spend", _spend(cost, most, "ε", "all views together"))
    for each in stream["series"]:
        if several:
            table.add_row("", "")
            table.add_row("view", Text(each["view"], "bold"))
        for name, text in _rows(each).items():
            table.add_row(name, text)
    console.print(table)


def _table() -> Table:
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    return table


def _rows(series: Mapping[str, Any]) -> dict[str, Text]:
    parameters = ", ".join(f"{name}={value}" for name, value in series["configuration"].items())
    unit = (
        f"{series['unit']}" + (f", {series['span']}" if series["span"] else "")
        if series["unit"]
        else "none yet"
    )
    cost, most = Fraction(series["window"]), Fraction(series["promised"])
    sign = "ε" if series["currency"] == "epsilon" else "ρ"
    width = series["units_in_a_window"]
    window = "newest unit" if width == 1 else f"newest {width} units"
    release = (
        "none yet"
        if series["fresh"] is None
        else f"{series['numbers']:,} numbers, {series['fresh']:,} not repeated"
    )
    rows = {
        "mechanism": Text(
            f"{series['mechanism']} ({parameters})" if parameters else series["mechanism"]
        ),
        "newest unit": Text(unit),
        "release": Text(release),
        "spend": _spend(cost, most, sign, window),
        "publisher": Text(_publisher(series["lease"])),
    }
    if series["sinks"]:
        rows["sinks"] = Text(
            ", ".join(f"{sink} up to unit {unit}" for sink, unit in series["sinks"].items())
        )
    return rows


def _spend(cost: Fraction, limit: Fraction, sign: str, of: str) -> Text:
    return Text.assemble(f"{sign} {amount(cost)} (limit: {amount(limit)}), {of} ", bar(cost, limit))


def _publisher(lease: Mapping[str, Any] | None) -> str:
    if lease is None:
        return "unknown: this store does not hold leases, or they cannot be read"
    if lease["publisher"] is None:
        return f"none since {lease['until']}; any publisher may start"
    if lease["expired"]:
        return (
            f"{lease['publisher']} until {lease['until']}: its lease has expired, "
            "and any publisher may start"
        )
    return (
        f"{lease['publisher']} since {lease['since']}; its lease ends {lease['until']} "
        "unless it is renewed"
    )
