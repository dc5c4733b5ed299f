"""The answers about alerts, as the OpenAPI document describes them. Needs pydantic."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from penstock.service.schemas import Described, Number


class AlertContent(Described):
    """A key that was raised or cleared at a unit."""

    rule: str
    unit: int
    begins: str | None = Field(description="The first instant of the unit, in UTC.")
    key: str
    state: Literal["raised", "cleared"]
    estimate: Number = Field(
        description="The number; null if the rule itself was changed or removed."
    )
    low: Number
    high: Number
    threshold: Number = Field(description="The threshold that was passed.")


class AlertPage(Described):
    """A page of alerts, by unit."""

    alerts: list[AlertContent]
    next: str | None
    unit: int | None = Field(
        description="The newest unit that all rules have seen; null without rules."
    )


class RuleContent(Described):
    """A rule, with the keys that are raised now."""

    name: str
    words: str
    question: str
    window: int | None
    side: Literal["above", "below", "either"]
    threshold: int | float
    clear: int | float
    sure: str | None
    for_: int = Field(alias="for")
    keys: list[str] | None = Field(description="The keys that are watched; null for all.")
    together: bool
    roll_up: bool
    filtered: bool
    definition: dict[str, Any] = Field(description="All that differs from the defaults.")
    since: int | None = Field(description="The first unit that it has seen; null before that.")
    unit: int | None = Field(description="The newest unit that it has seen; null before that.")
    raised: list[str] = Field(description="The keys that are raised now.")


class RuleList(Described):
    rules: list[RuleContent]


class TrialContent(Described):
    """How often a rule would have fired."""

    words: str
    fired: int
    cleared: int
    units: int
    first: int
    last: int
    raised: list[str] = Field(description="The keys that are raised after the last unit.")
    events: list[AlertContent] = Field(description="The newest alerts, at most 10,000.")
    left_out: int = Field(description="How many earlier alerts are not shown.")


_ALERT_EXAMPLE = {
    "rule": "busy",
    "unit": 42,
    "begins": "2026-01-02T17:00:00Z",
    "key": "Airport",
    "state": "raised",
    "estimate": 553,
    "low": 512,
    "high": 594,
    "threshold": 500,
}
_WORDS = (
    "counts: a key is raised at 500 or more and cleared below 400, each time only if the whole "
    "0.95 interval lies there"
)
ALERTS_EXAMPLE = {"alerts": [_ALERT_EXAMPLE], "next": None, "unit": 48}
RULES_EXAMPLE = {
    "rules": [
        {
            "name": "busy",
            "words": _WORDS,
            "question": "counts",
            "window": None,
            "side": "above",
            "threshold": 500.0,
            "clear": 400.0,
            "sure": "0.95",
            "for": 1,
            "keys": None,
            "together": False,
            "roll_up": False,
            "filtered": False,
            "definition": {"above": 500.0, "clear": 400.0, "sure": "0.95"},
            "since": 1,
            "unit": 48,
            "raised": ["Airport"],
        }
    ]
}
TRIAL_EXAMPLE = {
    "words": _WORDS,
    "fired": 1,
    "cleared": 0,
    "units": 48,
    "first": 1,
    "last": 48,
    "raised": ["Airport"],
    "events": [{**_ALERT_EXAMPLE, "rule": "try"}],
    "left_out": 0,
}
