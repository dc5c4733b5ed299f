"""Alerts as JSON: what a receiver of alerts is sent, and what the API answers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from penstock.core.calendar import Calendar
from penstock.released.alerting.evaluation import AlertEvent
from penstock.released.sinks.release_document import moment


def event_json(event: AlertEvent, calendar: Calendar | None) -> dict[str, Any]:
    """An alert as plain data.

    Parameters
    ----------
    event : AlertEvent
        The alert.
    calendar : Calendar or None
        When units begin; None where that is not known.

    Examples
    --------
    >>> hours = Calendar(every="1h", origin="2026-01-01")
    >>> event_json(AlertEvent(rule="busy", unit=2, key="north", state="raised"), hours)["begins"]
    '2026-01-01T01:00:00Z'
    """
    return {
        "rule": event.rule,
        "unit": event.unit,
        "begins": None if calendar is None else moment(calendar.start(event.unit)),
        "key": event.key,
        "state": event.state,
        **{name: _whole_if_so(getattr(event, name)) for name in _NUMBERS},
    }


_NUMBERS = ("estimate", "low", "high", "threshold")


def alerts_document(
    series: str, events: Sequence[AlertEvent], first: int, calendar: Calendar | None
) -> bytes:
    """The body of a request: alerts of one rule and one unit. It is always the same for them.

    Parameters
    ----------
    series : str
        The series.
    events : sequence of AlertEvent
        The alerts, all of one rule and one unit.
    first : int
        The number of the first of them among all alerts of the rule.
    calendar : Calendar or None
        When units begin and end; None where that is not known.

    Examples
    --------
    >>> found = AlertEvent(rule="busy", unit=2, key="north", state="raised", estimate=7.0)
    >>> print(alerts_document("taps", [found], 5, None).decode())
    {"format": "penstock-alerts/1", "stream": "taps", "rule": "busy", "unit": 2, "begins": null,
    "ends": null, "alerts": [{"id": "taps/busy/5", "key": "north", "state": "raised",
    "estimate": 7, "low": null, "high": null, "threshold": null}]}
    """
    rule, unit = events[0].rule, events[0].unit
    bounds = (None, None) if calendar is None else (calendar.start(unit), calendar.end(unit))
    begins, ends = (None if each is None else moment(each) for each in bounds)
    content = {
        "format": "penstock-alerts/1",
        "stream": series,
        "rule": rule,
        "unit": unit,
        "begins": begins,
        "ends": ends,
        "alerts": [
            {
                "id": _id(series, rule, number),
                "key": event.key,
                "state": event.state,
                **{name: _whole_if_so(getattr(event, name)) for name in _NUMBERS},
            }
            for number, event in enumerate(events, first)
        ],
    }
    return json.dumps(content, ensure_ascii=False, allow_nan=False).encode()


def idempotency_key(series: str, event: AlertEvent, number: int) -> str:
    """The key of a request, of its first alert and the number of that one.

    Parameters
    ----------
    series : str
        The series.
    event : AlertEvent
        The first alert of the request.
    number : int
        Its number among all alerts of the rule.

    Examples
    --------
    >>> idempotency_key("taps/hourly", AlertEvent(rule="b", unit=2, key="n", state="raised"), 5)
    'taps%2Fhourly/b/2/5'
    """
    return f"{quote(series, safe='')}/{quote(event.rule, safe='')}/{event.unit}/{number}"


def _id(series: str, rule: str, number: int) -> str:
    return f"{quote(series, safe='')}/{quote(rule, safe='')}/{number}"


def _whole_if_so(value: float | None) -> float | int | None:
    """A number without a decimal point where it is whole."""
    if value is None:
        return None
    return int(value) if value.is_integer() and abs(value) < 2**53 else value
