"""The routes of the read API about alerts: what was raised, by which rules, and rules on trial."""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import FastAPI, Query, Request, Response

from penstock.core.errors import ConfigurationError
from penstock.core.unit_range import units_from
from penstock.released.alerting import AlertEvent, AlertRule, RuleProgress, evaluate
from penstock.released.alerting.alert_document import event_json
from penstock.released.log import Log
from penstock.released.queries.refusal import as_parameter
from penstock.service.alert_parameters import MAX_ALERTS, AlertParameters, TrialParameters
from penstock.service.alert_schemas import (
    ALERTS_EXAMPLE,
    RULES_EXAMPLE,
    TRIAL_EXAMPLE,
    AlertPage,
    RuleList,
    TrialContent,
)
from penstock.service.answers import MAX_COMPUTED, check_added_up
from penstock.service.api_errors import ApiError, unknown
from penstock.service.descriptions import stream_url
from penstock.service.forms import check_json
from penstock.service.options import ServiceOptions
from penstock.service.parameters import NoParameters, StreamName
from penstock.service.replies import json_reply, validity
from penstock.service.schemas import described
from penstock.service.streams import ServedStream, ServedStreams

NUMBERS_PER_STEP = 200_000
"""How many numbers are compared before it is asked whether there is time for more."""


def add_routes(app: FastAPI, streams: ServedStreams, options: ServiceOptions) -> None:
    """Add the routes.

    Parameters
    ----------
    app : FastAPI
        The application.
    streams : ServedStreams
        The streams.
    options : ServiceOptions
        The settings.
    """

    @app.get(
        "/v1/streams/{stream:path}/alerts/rules",
        summary="The rules of alerts",
        responses=described(RuleList, RULES_EXAMPLE),
    )
    def rules(
        request: Request, stream: StreamName, _: Annotated[NoParameters, Query()]
    ) -> Response:
        check_json(request)
        content = {"rules": watched(streams.find(stream), options)}
        return json_reply(request, content, validity("rules", stream, content))

    @app.get(
        "/v1/streams/{stream:path}/alerts/try",
        summary="A rule, tried on past releases",
        responses=described(TrialContent, TRIAL_EXAMPLE),
    )
    def trial(
        request: Request, stream: StreamName, parameters: Annotated[TrialParameters, Query()]
    ) -> Response:
        check_json(request)
        found = streams.find(stream)
        content = trial_content(found, parameters)
        link = found.link(content["last"])
        return json_reply(request, content, validity(link, "try", parameters.given()))

    @app.get(
        "/v1/streams/{stream:path}/alerts",
        summary="Keys that were raised and cleared",
        responses=described(AlertPage, ALERTS_EXAMPLE),
    )
    def alerts(
        request: Request, stream: StreamName, parameters: Annotated[AlertParameters, Query()]
    ) -> Response:
        check_json(request)
        content = alerts_content(streams.find(stream), parameters, options)
        return json_reply(request, content, validity("alerts", stream, content))


def alerts_content(
    stream: ServedStream, parameters: AlertParameters, options: ServiceOptions
) -> dict[str, Any]:
    """A page of the alerts of a stream, by unit.

    Parameters
    ----------
    stream : ServedStream
        The stream.
    parameters : AlertParameters
        Which alerts.
    options : ServiceOptions
        The settings, with the rules of pipelines.
    """
    first, until, after = parameters.from_, parameters.to, parameters.after
    if first is not None and after is not None:
        raise ConfigurationError("from and after exclude each other: each says where to begin.")
    calendar, newest = stream.series.calendar, stream.head.unit
    wanted = units_from(calendar, newest, first, until, spelling=as_parameter)
    check_names(stream, parameters, options)
    start, last = max(wanted.start, (after or 0) + 1), wanted.stop - 1
    read = partial(stream.reader.alerts, stream.name, rule=parameters.rule, key=parameters.key)
    found: list[AlertEvent] = []
    more = False
    if start <= last:
        limit = parameters.limit
        found = read(start, last, limit=limit + 1)
        more = len(found) > limit
    if more:  # a page ends with a whole unit
        cut = found[-1].unit
        kept = [event for event in found if event.unit < cut]
        found = kept or read(cut, cut)
        more = bool(kept) or cut < last
    next_url = None
    if more:
        given = {**parameters.given(), "after": found[-1].unit}
        given.pop("from", None)
        next_url = f"{stream_url(stream.name)}/alerts?{urlencode(given, doseq=True)}"
    return {
        "alerts": [event_json(event, calendar) for event in found],
        "next": next_url,
        "unit": min(
            (each["unit"] for each in watched(stream, options) if each["unit"]), default=None
        ),
    }


def check_names(stream: ServedStream, parameters: AlertParameters, options: ServiceOptions) -> None:
    """Refuse a rule or a key that no alert can have, with the nearest one.

    Rules that are not watched any more are known: their alerts are still listed.

    Parameters
    ----------
    stream : ServedStream
        The stream.
    parameters : AlertParameters
        Which alerts.
    options : ServiceOptions
        The settings, with the rules of pipelines.
    """
    rules = rules_of(stream, options)
    if parameters.rule is not None:
        stored = (each.rule for each in stream.reader.alert_rules(stream.name))
        names = tuple(dict.fromkeys((*(rule.name for rule in rules), *stored)))
        if parameters.rule not in names:
            raise unknown("rule", parameters.rule, names)
    key, log = parameters.key, stream.log()
    if key is None or key in log.domain.places:
        return
    sums = {name for rule in rules for name in rule.names(log)} - set(log.keys)
    if key not in sums and not stream.reader.alerts(stream.name, key=key, limit=1):
        raise unknown("key", key, (*log.keys, *sorted(sums)))


def rules_of(stream: ServedStream, options: ServiceOptions) -> tuple[AlertRule, ...]:
    """The rules of a stream: those of the pipeline, or else those that the store names.

    Parameters
    ----------
    stream : ServedStream
        The stream.
    options : ServiceOptions
        The settings, with the rules of pipelines.
    """
    own = options.rules.get(stream.name)
    if own is not None:
        return own
    stored = stream.reader.alert_rules(stream.name)
    return tuple(
        AlertRule.read(each.rule, stream.name, each.about) for each in stored if each.about
    )


def watched(stream: ServedStream, options: ServiceOptions) -> list[dict[str, Any]]:
    """The rules of a stream, each with the keys that are raised now, as plain data.

    Parameters
    ----------
    stream : ServedStream
        The stream.
    options : ServiceOptions
        The settings, with the rules of pipelines.
    """
    known = {each.rule: each for each in stream.reader.alert_rules(stream.name) if each.about}
    return [_rule_json(rule, known.get(rule.name)) for rule in rules_of(stream, options)]


def _rule_json(rule: AlertRule, progress: RuleProgress | None) -> dict[str, Any]:
    applied = progress is not None and progress.about == rule.about
    return {
        "name": rule.name,
        "words": rule.in_words(),
        "question": rule.question,
        "window": rule.window,
        "side": rule.side,
        "threshold": rule.threshold,
        "clear": rule.clears_at,
        "sure": rule.sure,
        "for": rule.units_in_a_row,
        "keys": list(rule.keys) or None,
        "together": rule.together,
        "roll_up": rule.roll_up,
        "filtered": rule.filter is not None,
        "definition": rule.definition(),
        "since": progress.since if progress is not None and applied else None,
        "unit": progress.unit if progress is not None and applied else None,
        "raised": list(progress.raised) if progress is not None and applied else [],
    }


def trial_content(stream: ServedStream, parameters: TrialParameters) -> dict[str, Any]:
    """How often a rule would have fired.

    Parameters
    ----------
    stream : ServedStream
        The stream.
    parameters : TrialParameters
        The rule, and the units to try it on.
    """
    log = stream.log()
    if not len(log):
        raise ApiError(404, f"stream {stream.name!r} has no units yet. Ask again later.")
    with stream.filtered(parameters.filtering, log, single=parameters.single) as asked:
        rule = parameters.rule(asked)
        choices = rule.choices(asked)
        known = frozenset(choices)
        for key in rule.keys:
            if key not in known:
                raise unknown("key", key, choices)
        return _tried(rule, asked, parameters)


def _tried(rule: AlertRule, log: Log, parameters: TrialParameters) -> dict[str, Any]:
    query = rule.query()
    units = parameters.units.of(query, log, log.calendar)
    if not isinstance(units, range):
        query.answer(log)  # says how many units it needs
        raise ApiError(404, "no unit of these can be answered.")
    names = len(rule.names(log))
    if names * len(units) > MAX_COMPUTED:
        raise ApiError(
            413,
            f"{names * len(units):,} numbers are too many to compute for one answer (limit: "
            f"{MAX_COMPUTED:,}). Choose fewer keys with key, or fewer units with last.",
        )
    check_added_up(query, log, len(units))
    step = max(NUMBERS_PER_STEP // names, 1)
    raised: tuple[str, ...] = ()
    fired = cleared = 0
    newest: deque[AlertEvent] = deque(maxlen=MAX_ALERTS)
    for start in range(units.start, units.stop, step):
        found = evaluate(rule, log, range(start, min(start + step, units.stop)), raised)
        raised = found.raised
        fired, cleared = fired + found.fired, cleared + found.cleared
        newest.extend(found.events)
    return {
        "words": rule.in_words(),
        "fired": fired,
        "cleared": cleared,
        "units": len(units),
        "first": units[0],
        "last": units[-1],
        "raised": list(raised),
        "events": [event_json(event, log.calendar) for event in newest],
        "left_out": fired + cleared - len(newest),
    }
