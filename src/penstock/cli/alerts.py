"""`penstock alerts`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any

from cyclopts import Parameter
from rich.console import Console
from rich.table import Table
from rich.text import Text

from penstock.cli.completers import StreamName
from penstock.cli.options import Flag, Json
from penstock.cli.store_argument import chosen, configures, open_store, read_pipeline
from penstock.core.calendar import Calendar
from penstock.core.errors import ConfigurationError
from penstock.engine.store import Reader, SeriesLog
from penstock.released.alerting import AlertEvent, AlertRule, RuleProgress, evaluate
from penstock.released.alerting.alert_document import event_json
from penstock.released.queries.unit_choice import count_of

MAX_ROWS_SHOWN = 20
"""The most alerts that the table shows, the newest ones. `--json` has all."""


def alerts(
    store: str,
    /,
    *,
    stream: StreamName = None,
    last: str | None = None,
    rules: Flag = False,
    try_: Annotated[bool, Parameter(name="--try", negative="")] = False,
    as_json: Json = False,
) -> None:
    """Show the alerts of a stream, its rules, or how often the rules would have fired.

    Alerts are computed from releases. This costs no budget and reads nothing private.

    Examples:

    * penstock alerts taps.db --last 7d

    * penstock alerts taps.toml --rules

    * penstock alerts taps.toml --try

    Parameters
    ----------
    store
        The store: a file, postgresql://… (with the password in PGPASSWORD), or the pipeline.toml
        that names it. The rules are those of the pipeline, else those that the store names.
    stream
        The stream or view, such as taps/hourly. Needed if the store has several.
    last
        The newest units only: their number, or a duration such as 7d.
    rules
        Show the rules, with the keys that are raised now.
    try_
        Apply the rules to past releases, and show how often they would have fired. Nothing is sent
        or stored.
    as_json
        Print JSON, for programs.
    """
    if rules and try_:
        raise ConfigurationError("--rules and --try exclude each other.")
    if rules and last is not None:
        raise ConfigurationError("--last chooses alerts: it cannot be used with --rules.")
    with open_store(store) as reader:
        name = chosen(reader.series_names, stream)
        calendar, newest = reader.series(name).calendar, reader.head(name).unit
        first = 1 if last is None else max(newest - count_of(last, calendar, name="--last") + 1, 1)
        if rules:
            found = _rules(store, reader, name)
            rows = [_rule_json(rule, progress) for rule, progress in found]
            _show(rows, _RULE_COLUMNS, "There are no rules.", as_json=as_json)
        elif try_:
            units = range(first, newest + 1)
            tried = [_tried(rule, reader, units) for rule, _ in _rules(store, reader, name)]
            _show(tried, _TRIAL_COLUMNS, "There are no rules.", as_json=as_json)
        else:
            _show_alerts(reader.alerts(name, first), calendar, as_json=as_json)


def _rules(store: str, reader: Reader, series: str) -> list[tuple[AlertRule, RuleProgress | None]]:
    """The rules of a series, each with how far it has come."""
    known = {each.rule: each for each in reader.alert_rules(series) if each.about}
    if configures(store):
        own = [each.rule for each in read_pipeline(store).alerts if each.rule.series == series]
    else:
        own = [AlertRule.read(name, series, each.about) for name, each in known.items()]
    found = []
    for rule in own:
        progress = known.get(rule.name)
        same = progress is not None and progress.about == rule.about
        found.append((rule, progress if same else None))
    return found


def _rule_json(rule: AlertRule, progress: RuleProgress | None) -> dict[str, Any]:
    return {
        "rule": rule.name,
        "words": rule.in_words(),
        "since": None if progress is None else progress.since,
        "unit": None if progress is None else progress.unit,
        "raised": [] if progress is None else list(progress.raised),
    }


def _tried(rule: AlertRule, reader: Reader, units: range) -> dict[str, Any]:
    found = evaluate(rule, SeriesLog(reader, rule.series), units)
    return {
        "rule": rule.name,
        "words": rule.in_words(),
        "units": len(units),
        "fired": found.fired,
        "cleared": found.cleared,
        "raised": list(found.raised),
    }


_RULE_COLUMNS = ("rule", "words", "since", "unit", "raised")
_TRIAL_COLUMNS = ("rule", "words", "units", "fired", "cleared", "raised")
_ALERT_COLUMNS = ("when", "rule", "key", "state", "number", "threshold")


def _show_alerts(events: Sequence[AlertEvent], calendar: Calendar | None, *, as_json: bool) -> None:
    rows = [event_json(event, calendar) for event in events]
    if not as_json:
        for row, event in zip(rows, events, strict=True):
            label = f"unit {event.unit}" if calendar is None else calendar.short_label(event.unit)
            row |= {"when": label, "number": _number(event)}
    _show(rows, _ALERT_COLUMNS, "There are no alerts.", as_json=as_json)


def _number(event: AlertEvent) -> str | None:
    """The number with its interval; None if the rule itself was changed or removed."""
    if event.estimate is None:
        return None
    if event.low is None or event.high is None:
        return f"{event.estimate:.6g}"
    return f"{event.estimate:.6g} ({event.low:.6g} to {event.high:.6g})"


def _show(
    rows: Sequence[dict[str, Any]], columns: Sequence[str], nothing: str, *, as_json: bool
) -> None:
    """Print rows as JSON, or the last of them as a table."""
    if as_json:
        print(json.dumps(rows, indent=2, ensure_ascii=False))
        return
    console = Console()
    if not rows:
        console.print(Text(nothing))
        return
    table = Table(box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, justify="right" if column in _RIGHT else "left", overflow="fold")
    for row in rows[-MAX_ROWS_SHOWN:]:
        table.add_row(*(Text(_cell(row[column])) for column in columns))
    console.print(table)
    more = len(rows) - MAX_ROWS_SHOWN
    if more > 0:
        console.print(Text(f"… and {more} earlier ones: --json shows all."))


_RIGHT = ("unit", "units", "since", "fired", "cleared", "number", "threshold")


def _cell(value: Any) -> str:
    if value is None or value == []:
        return "–"
    if isinstance(value, list):
        return ", ".join(value[:3]) + (f" and {len(value) - 3} more" if len(value) > 3 else "")
    return f"{value:.6g}" if isinstance(value, float) else str(value)
