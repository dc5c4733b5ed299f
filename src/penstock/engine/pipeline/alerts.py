"""Reading the tables [[alert]]: which released numbers are watched, and where alerts go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.core.domain import Domain
from penstock.core.durations import fits
from penstock.core.errors import ConfigurationError
from penstock.core.nearest_name import MAX_NAMES_COMPARED
from penstock.engine.config_sections import Section, nearest, shown
from penstock.engine.pipeline.model import AlertConfig, PlanConfig, StreamConfig, View
from penstock.engine.pipeline.options import ALERT
from penstock.released.alerting import AlertRule
from penstock.released.log import Log
from penstock.released.release_filter import FilterChoice

_ADDRESS = ("url", "url_env", "token_env", "token_file")
_FILTER = ("filter_periods", "filter_kind", "filter_point")


def read_alerts(
    sections: Sequence[Section],
    stream: StreamConfig | None,
    views: Sequence[View],
    keys: Domain | None,
    plan: PlanConfig,
) -> tuple[AlertConfig, ...]:
    """All tables [[alert]]. No two of one view have one name."""
    alerts: list[AlertConfig] = []
    for section in sections:
        found = _alert(section, stream, views, keys, plan)
        if found is None:
            continue
        rule = found.rule
        if any((rule.name, rule.series) == (each.rule.name, each.rule.series) for each in alerts):
            section.wrong(
                "name", f"{shown(rule.name)} names two alerts: give each a name of its own."
            )
        alerts.append(found)
    return tuple(alerts)


def _alert(
    section: Section,
    stream: StreamConfig | None,
    views: Sequence[View],
    keys: Domain | None,
    plan: PlanConfig,
) -> AlertConfig | None:
    given = section.options(ALERT)
    for name in ("above", "below", "delta", "clear", "sure", "gamma", "power", "window"):
        given[name] = _number(section, name)
    given["depth"] = section.whole("depth", 0, least=0) if "depth" in section else None
    section.close()
    view = _view(section, given.pop("view"), views)
    if section.faulty or view is None or stream is None:
        return None
    filtered = {name: given.pop(name) for name in (*_FILTER, "filtered")}
    try:
        rule = AlertRule.of(
            given.pop("name"),
            series=stream.name if view.name == stream.name else f"{stream.name}/{view.name}",
            keys=given.pop("keys") or (),
            calendar=view.calendar,
            choice=_filter(section, filtered, view, plan),
            **{name: value for name, value in given.items() if name not in _ADDRESS},
        )
        if keys is not None:
            _check_keys(section, rule, Log(view.mechanism.released(keys)))
    except ConfigurationError as error:
        section.refuse(error)
        return None
    if ("token_env" in given or "token_file" in given) and not (
        "url" in given or "url_env" in given
    ):
        section.wrong(None, "a token needs an address: write url or url_env as well.")
    address = {name: given[name] for name in _ADDRESS if name in given}
    return AlertConfig(rule=rule, view=view.name, options=address)


def _check_keys(section: Section, rule: AlertRule, log: Log) -> None:
    """Note every key that is not there."""
    try:
        names = rule.choices(log)
    except ConfigurationError as error:
        section.refuse(error, at="depth" if rule.depth is not None else "roll_up")
        return
    known = frozenset(names)
    for key in rule.keys:
        if key not in known:
            near = nearest(key, names[:MAX_NAMES_COMPARED])
            section.wrong("keys", f"there is no key {shown(key)}.{near}")


def _view(section: Section, name: str | None, views: Sequence[View]) -> View | None:
    """The view that is watched: the one that is named, or the only one."""
    known = tuple(view.name for view in views)
    if name is None:
        if len(views) > 1:
            section.missing("view", f"use {', '.join(known)}")
        return views[0] if len(views) == 1 else None
    if known and name not in known:
        section.wrong(
            "view", f"there is no view {shown(name)}: use {', '.join(known)}.{nearest(name, known)}"
        )
    return next((view for view in views if view.name == name), None)


def _number(section: Section, name: str) -> Any:
    """A number, or a text that is read as one later; anything else is noted."""
    value = section.take(name)
    if value is None:
        return None
    if isinstance(value, (bool, list, tuple, dict)):
        section.wrong(name, f"must be a number, such as {name} = 5, not {shown(value)}.")
        return None
    return value


def _filter(
    section: Section, given: dict[str, Any], view: View, plan: PlanConfig
) -> FilterChoice | None:
    """The settings of the filter; what is not given is taken from the table [plan]."""
    if not given["filtered"]:
        for name in _FILTER:
            if name in section:
                section.wrong(name, "can only be used with filtered = true.")
        return None
    periods = given["filter_periods"]
    if periods is None:
        periods = [each for each in plan.seasons if fits(each, view.calendar)]
    kind = given["filter_kind"] or ("stock" if plan.stock else "flow")
    single = section.content.get("question", "counts") == "counts" and not any(
        section.content.get(name) for name in ("together", "roll_up")
    )
    point = given["filter_point"] or ("median" if single else "mean")
    try:
        return FilterChoice.of(periods, kind, point, calendar=view.calendar)
    except ConfigurationError as error:
        message = str(error).removeprefix(f"{error.parameter} ")
        raise ConfigurationError(
            f"filter_{error.parameter} {message}", parameter=f"filter_{error.parameter}"
        ) from None
