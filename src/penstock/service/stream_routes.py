"""The routes of the read API about streams, their keys, their releases and answers."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import FastAPI, Query, Request, Response
from fastapi import Path as PathParameter

from penstock.engine.sink_items import items_of
from penstock.released.sinks.base import ReleaseItem
from penstock.released.sinks.release_document import document, file_facts
from penstock.released.sinks.release_document import table as release_table
from penstock.service.answers import ServedAnswer, answer_content, answer_table, answered
from penstock.service.api_errors import ApiError, unknown
from penstock.service.descriptions import key_rows, stream_content, stream_details, stream_url
from penstock.service.forms import (
    JSON_FORM,
    MEDIA_TYPES,
    check_json,
    form_of,
    path_ending,
    table_reply,
    with_facts,
)
from penstock.service.live import LiveEvents, LiveHub
from penstock.service.options import LANGUAGES, ServiceOptions
from penstock.service.parameters import (
    MAX_UNIT,
    AnswerParameters,
    KeyParameters,
    LiveParameters,
    NoParameters,
    NumberParameters,
)
from penstock.service.replies import Validity, has, json_reply, reply, validity
from penstock.service.streams import ServedStream, ServedStreams


def add_routes(app: FastAPI, streams: ServedStreams, options: ServiceOptions, hub: LiveHub) -> None:
    """Add the routes.

    Parameters
    ----------
    app : FastAPI
        The application.
    streams : ServedStreams
        The streams.
    options : ServiceOptions
        The settings.
    hub : LiveHub
        Wakes readers of live events.
    """

    @app.get("/v1", summary="About the service")
    def about(request: Request, _: Annotated[NoParameters, Query()]) -> Response:
        return json_reply(request, about_content(options, app.version))

    @app.get("/v1/streams", summary="All streams")
    def list_streams(request: Request, _: Annotated[NoParameters, Query()]) -> Response:
        found = [stream_content(each) for each in streams]
        link = "-".join(each["newest"]["link"][:16] if each["newest"] else "0" for each in found)
        return json_reply(request, {"streams": found}, validity(link or "none", found))

    @app.get("/v1/streams/{stream:path}/keys", summary="The keys of a stream")
    def keys(
        request: Request, stream: str, parameters: Annotated[KeyParameters, Query()]
    ) -> Response:
        check_json(request)
        found = streams.find(stream)
        content = key_content(found, parameters)
        return json_reply(request, content, validity("keys", found.name, content))

    @app.get("/v1/streams/{stream:path}/releases/{unit}", summary="The release of one unit")
    def one_release(
        request: Request,
        stream: str,
        unit: Annotated[int, PathParameter(ge=1, le=MAX_UNIT)],
        _: Annotated[NoParameters, Query()],
    ) -> Response:
        found, form = streams.find(stream), form_of(request)
        item = release_item(found, unit)
        valid = validity(item.link, *([] if form == JSON_FORM else [form]), fixed=True)
        if form == JSON_FORM:
            return json_reply(request, document(item), valid)
        table = with_facts(release_table(item), file_facts([item]))
        return table_reply(request, form, table, valid, name=f"{stream}-{unit}")

    @app.get("/v1/streams/{stream:path}/releases", summary="Released numbers")
    def releases(
        request: Request, stream: str, parameters: Annotated[NumberParameters, Query()]
    ) -> Response:
        return _numbers(request, streams.find(stream), "counts", parameters, "releases")

    @app.get("/v1/streams/{stream:path}/answers/{question}", summary="The answer to a question")
    def answers(
        request: Request,
        stream: str,
        question: str,
        parameters: Annotated[AnswerParameters, Query()],
    ) -> Response:
        return _numbers(request, streams.find(stream), question, parameters, f"answers/{question}")

    @app.get("/v1/streams/{stream:path}/live", summary="New units, as server-sent events")
    async def live(
        request: Request, stream: str, parameters: Annotated[LiveParameters, Query()]
    ) -> Response:
        check_json(request)
        told = request.headers.get("last-event-id")
        if told is not None and not (told.isascii() and told.isdecimal() and len(told) < 16):
            raise ApiError(422, "Last-Event-ID must be the number of a unit.")
        seen = parameters.after if told is None else min(int(told), MAX_UNIT)
        return LiveEvents(hub, streams.find(stream), seen)

    @app.get("/v1/streams/{stream:path}", summary="One stream")
    def one_stream(request: Request, stream: str, _: Annotated[NoParameters, Query()]) -> Response:
        check_json(request)
        found = streams.find(stream)
        content = stream_details(found, options.events)
        link = found.head.link.hex()
        return json_reply(request, content, validity(link, content))

    @app.get("/health", summary="Whether the service answers")
    def health(request: Request, _: Annotated[NoParameters, Query()]) -> Response:
        return json_reply(request, {"status": "ok"})


def about_content(options: ServiceOptions, version: str) -> dict[str, Any]:
    """What the root of the API says.

    Parameters
    ----------
    options : ServiceOptions
        The settings.
    version : str
        The version of Penstock.
    """
    return {
        "penstock": version,
        "title": options.title,
        "streams_url": "/v1/streams",
        "openapi_url": "/v1/openapi.json",
        "map": None if options.map is None else {"url": "/v1/map", "key": options.map_key},
        "languages": list(LANGUAGES),
        "language": options.language,
    }


def key_content(stream: ServedStream, parameters: KeyParameters) -> dict[str, Any]:
    """A page of the keys of a stream.

    Parameters
    ----------
    stream : ServedStream
        The stream.
    parameters : KeyParameters
        Which keys.
    """
    rows = stream.rows_of_keys(key_rows)
    if parameters.parent is not None:
        parent = parameters.parent or None
        if parent is not None and all(parent not in (row["key"], row["parent"]) for row in rows):
            raise unknown("key", parent, [row["key"] for row in rows])
        rows = [row for row in rows if row["parent"] == parent]
    if parameters.search is not None:
        wanted = parameters.search.casefold()
        rows = [row for row in rows if wanted in row["key"].casefold()]
    total, start = len(rows), 0
    if parameters.after is not None:
        places = {row["key"]: place for place, row in enumerate(rows)}
        if parameters.after not in places:
            raise unknown("key", parameters.after, list(places))
        start = places[parameters.after] + 1
    page = rows[start : start + parameters.limit]
    more = None
    if start + len(page) < total:
        given = {**parameters.given(), "after": page[-1]["key"]}
        more = f"{stream_url(stream.name)}/keys?{urlencode(given, doseq=True)}"
    return {"keys": page, "next": more, "total": total}


def _numbers(
    request: Request,
    stream: ServedStream,
    question: str,
    parameters: NumberParameters,
    path: str,
) -> Response:
    form = form_of(request)
    found = answered(stream, parameters.request(question))
    next_url = next_page(found, parameters, f"{path}{path_ending(request)}")
    valid = answer_validity(found, form)
    if has(request, valid):
        return reply(request, b"", MEDIA_TYPES[form], valid)
    if form == JSON_FORM:
        return json_reply(request, answer_content(found, next_url=next_url), valid)
    name = f"{stream.name}-{path.rpartition('/')[2]}"
    return table_reply(request, form, answer_table(found), valid, name=name, next_url=next_url)


def release_item(stream: ServedStream, unit: int) -> ReleaseItem:
    """The release of one unit, as sinks take it.

    Parameters
    ----------
    stream : ServedStream
        The stream.
    unit : int
        The unit.
    """
    if unit > stream.head.unit:
        raise ApiError(404, f"unit {unit} is not released yet: the newest is {stream.head.unit}.")
    if stream.series.calendar is None:
        raise ApiError(
            404,
            "the units of this stream have no times, so that they have no documents. Ask "
            f"{stream_url(stream.name)}/releases?unit={unit} instead.",
        )
    return items_of(stream.reader, stream.series, unit, unit)[0]


def next_page(found: ServedAnswer, parameters: NumberParameters, path: str) -> str | None:
    """Where the next page of an answer is; None if there is none yet.

    Parameters
    ----------
    found : ServedAnswer
        The answer.
    parameters : NumberParameters
        Its parameters.
    path : str
        The path below the stream.
    """
    if found.next_after is None:
        return None
    given = {**parameters.given(), "after": found.next_after}
    return f"{stream_url(found.stream.name)}/{path}?{urlencode(given, doseq=True)}"


def answer_validity(found: ServedAnswer, *form: str) -> Validity:
    """How long an answer holds.

    Parameters
    ----------
    found : ServedAnswer
        The answer.
    form : str
        Its form, if that is not JSON.
    """
    last = found.newest if found.request.options.hindsight else found.last
    link = found.stream.link(last)
    parts = (found.request.question, found.request.given, found.first, *form)
    return validity(link, *parts, fixed=found.fixed)
