"""The rows of alerts in a store: what each rule has seen so far, and its alerts in order.

A row of `alert_rules` is the state of one rule: its definition, the newest unit that it has seen,
the keys that are raised, and how many alerts there are and were sent. A row of `alerts` is never
changed. All of it is a function of releases.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from penstock.core.errors import StateError, StoreUnavailableError
from penstock.released.alerting import AlertEvent, RuleProgress

if TYPE_CHECKING:
    from penstock.engine.sql_store.reader import SqlReader

_EVENT = "rule, unit, key, state, estimate, low, high, threshold"

INSERT_ALERT = (
    "INSERT INTO alerts (stream, number, rule, unit, key, state, estimate, low, high, threshold) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)

WRITE_RULE = (
    "INSERT INTO alert_rules (stream, rule, about, since, unit, number, sent, raised) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (stream, rule) DO UPDATE SET "
    "about = excluded.about, since = excluded.since, unit = excluded.unit, "
    "number = excluded.number, raised = excluded.raised"
)
"""Writes the state of a rule. Only the part that sends alerts changes `sent` afterwards."""

MARK_SENT = "UPDATE alert_rules SET sent = ? WHERE stream = ? AND rule = ?"


def rule_row(series: str, progress: RuleProgress) -> tuple[object, ...]:
    """The values of `WRITE_RULE`."""
    return (
        series,
        progress.rule,
        progress.about,
        progress.since,
        progress.unit,
        progress.number,
        progress.sent,
        json.dumps(list(progress.raised), ensure_ascii=False),
    )


def read_rules(reader: SqlReader, series: str) -> tuple[RuleProgress, ...]:
    """The state of every rule of a series, by name; none where there are no tables of alerts."""
    rows = seen_rows(
        reader,
        "rule, about, since, unit, number, sent, raised FROM alert_rules WHERE stream = ? "
        "ORDER BY rule",
        series,
    )
    found = []
    for rule, about, since, unit, number, sent, raised in rows:
        try:
            keys = tuple(map(str, json.loads(raised)))
        except (ValueError, TypeError):
            raise StateError(
                f"{reader.name}: the state of alert {rule!r} of {series!r} is damaged."
            ) from None
        found.append(
            RuleProgress(
                rule=rule,
                about=about,
                since=since,
                unit=unit,
                number=number,
                sent=sent,
                raised=keys,
            )
        )
    return tuple(found)


def read_alerts(
    reader: SqlReader,
    series: str,
    first: int,
    last: int | None,
    *,
    rule: str | None = None,
    key: str | None = None,
    limit: int | None = None,
) -> list[AlertEvent]:
    """The alerts of some units, by unit, rule and number: see `Reader.alerts`."""
    given = (("unit <=", last), ("rule =", rule), ("key =", key))
    more = "".join(f"AND {column} ? " for column, value in given if value is not None)
    cut = "" if limit is None else "LIMIT ?"
    values = [value for _, value in (*given, ("", limit)) if value is not None]
    rows = seen_rows(
        reader,
        f"{_EVENT} FROM alerts WHERE stream = ? AND unit >= ? {more}"
        f"ORDER BY unit, rule, number {cut}",
        series,
        first,
        *values,
    )
    return [_event(row) for row in rows]


def read_numbered(
    reader: SqlReader, series: str, rule: str, first: int, last: int
) -> list[AlertEvent]:
    """The alerts of a rule with these numbers, in order."""
    rows = seen_rows(
        reader,
        f"{_EVENT} FROM alerts WHERE stream = ? AND rule = ? AND number BETWEEN ? AND ? "
        "ORDER BY number",
        series,
        rule,
        first,
        last,
    )
    return [_event(row) for row in rows]


def of_one_unit(events: Sequence[AlertEvent]) -> list[AlertEvent]:
    """The first alerts, as long as they are of one unit and have one reason.

    A change of the rule clears keys at a unit that the rule has seen already. These alerts are
    never sent together with earlier ones of that unit, which may have been sent and not marked.
    """
    found: list[AlertEvent] = []
    for event in events:
        if found and (event.unit, event.of_rule) != (found[0].unit, found[0].of_rule):
            break
        found.append(event)
    return found


def alert_rows(series: str, events: Sequence[AlertEvent], first: int) -> list[tuple[object, ...]]:
    """The values of `INSERT_ALERT` for alerts of one rule, numbered from `first` on."""
    return [
        (
            series,
            number,
            event.rule,
            event.unit,
            event.key,
            event.state,
            event.estimate,
            event.low,
            event.high,
            event.threshold,
        )
        for number, event in enumerate(events, first)
    ]


def _event(row: Sequence[Any]) -> AlertEvent:
    rule, unit, key, state, estimate, low, high, threshold = row
    return AlertEvent(
        rule=rule,
        unit=unit,
        key=key,
        state=state,
        estimate=estimate,
        low=low,
        high=high,
        threshold=threshold,
    )


def seen_rows(reader: SqlReader, what: str, *values: object) -> list[Any]:
    """Rows of a table of alerts; none where the table is missing or may not be read."""
    if not reader.has_alerts:
        return []
    try:
        return reader.rows_of(what, *values)
    except StoreUnavailableError:
        raise
    except StateError:
        return []  # a role that reads may lack the right to see these tables
