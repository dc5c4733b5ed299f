"""What a release log holds and can answer: `penstock query` without a question."""

from __future__ import annotations

import json
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from penstock.cli.formatting import times
from penstock.core.calendar import Calendar
from penstock.core.product import Product
from penstock.core.weights import UNIT
from penstock.released.log import Log
from penstock.released.queries.questions import reasons


def describe(log: Log, calendar: Calendar | None, file: str, *, as_json: bool) -> None:
    """Print what the log holds, what it promises and which questions it can answer."""
    facts = _facts(log, calendar)
    if as_json:
        print(json.dumps(facts, indent=2, ensure_ascii=False))
        return
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in _lines(log, calendar, facts, file).items():
        if text:
            table.add_row(name, Text(text))
    Console().print(table)


def promise_of(log: Log) -> str:
    """The promise in words; releases with test noise have none."""
    return log.promise if log.private else "NONE: made with a test's noise."


def _facts(log: Log, calendar: Calendar | None) -> dict[str, Any]:
    weights = log[log.last].weights if len(log) else UNIT
    attributes = _attributes(log)
    why_not = _reasons(log) if len(log) else {}
    return {
        "name": log.name,
        "mechanism": log.mechanism,
        "configuration": log.configuration,
        "guarantee": "" if log.guarantee is None else str(log.guarantee),
        "promise": promise_of(log),
        "private": log.private,
        "keys": log.domain.size,
        "attributes": attributes,
        "first_unit": log.first if len(log) else None,
        "last_unit": log.last if len(log) else None,
        "every": calendar.every if calendar else None,
        "begins": times(calendar, log.first)["begins"] if len(log) else None,
        "ends": times(calendar, log.last)["ends"] if len(log) else None,
        "numbers": weights.in_words() if len(log) else None,
        "answers": [name for name, reason in why_not.items() if not reason],
        "cannot_answer": {name: reason for name, reason in why_not.items() if reason},
    }


def _attributes(log: Log) -> dict[str, tuple[str, ...]]:
    return dict(log.domain.attributes) if isinstance(log.domain, Product) else {}


def _reasons(log: Log) -> dict[str, str]:
    """Why each question cannot be answered; alerts on moves together."""
    found = reasons(log)
    moves = {"jump", "drop", "change"}
    shown = {"jump": "jump, drop, change", "roll_up": "--roll-up", "where": "--where"}
    return {
        shown.get(name, name): reason
        for name, reason in found.items()
        if name not in moves - {"jump"} and (name != "where" or _attributes(log))
    }


def _lines(log: Log, calendar: Calendar | None, facts: dict[str, Any], file: str) -> dict[str, str]:
    parameters = ", ".join(f"{name}={value}" for name, value in log.configuration.items())
    units = f"{log.first} to {log.last}" if len(log) else "none yet"
    if calendar is not None and len(log):
        units += f", {calendar.label(log.first)} to {facts['ends']}, every {calendar.every}"
    reasons = facts["cannot_answer"].items()
    return {
        "log": log.name or file,
        "mechanism": f"{log.mechanism} ({parameters})" if parameters else log.mechanism,
        "guarantee": facts["guarantee"],
        "promise": facts["promise"],
        "keys": f"{log.domain.size:,}: {_some(log.keys, 5)}",
        "attributes": "; ".join(
            f"{name}: {_ends(values)}" for name, values in facts["attributes"].items()
        ),
        "units": units,
        "each number is": facts["numbers"] or "",
        "answers": ", ".join(facts["answers"]),
        "cannot answer": "; ".join(f"{name}: {reason.rstrip('.')}" for name, reason in reasons),
    }


def _some(values: tuple[str, ...], most: int) -> str:
    return ", ".join(values[:most]) + (", …" if len(values) > most else "")


def _ends(values: tuple[str, ...]) -> str:
    return ", ".join(values if len(values) <= 6 else (*values[:3], "…", values[-1]))
