"""The routes of the read API about the service, its streams and their keys."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import FastAPI, Query, Request, Response

from penstock.service.api_errors import unknown
from penstock.service.descriptions import key_rows, stream_content, stream_details, stream_url
from penstock.service.forms import (
    check_json,
)
from penstock.service.options import LANGUAGES, ServiceOptions
from penstock.service.parameters import (
    KeyParameters,
    NoParameters,
    StreamName,
)
from penstock.service.replies import json_reply, validity
from penstock.service.schemas import (
    ABOUT_EXAMPLE,
    DETAILS_EXAMPLE,
    KEYS_EXAMPLE,
    STREAM_EXAMPLE,
    AboutContent,
    HealthContent,
    KeyList,
    StreamDetails,
    StreamList,
    described,
)
from penstock.service.streams import ServedStream, ServedStreams


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
        "/v1",
        summary="About the service",
        responses=described(AboutContent, ABOUT_EXAMPLE),
    )
    def about(request: Request, _: Annotated[NoParameters, Query()]) -> Response:
        return json_reply(request, about_content(options, app.version))

    @app.get(
        "/v1/streams",
        summary="All streams",
        responses=described(StreamList, {"streams": [STREAM_EXAMPLE]}),
    )
    def list_streams(request: Request, _: Annotated[NoParameters, Query()]) -> Response:
        found = [stream_content(each) for each in streams]
        link = "-".join(each["newest"]["link"][:16] if each["newest"] else "0" for each in found)
        return json_reply(request, {"streams": found}, validity(link or "none", found))

    @app.get(
        "/v1/streams/{stream:path}/keys",
        summary="The keys of a stream",
        responses=described(KeyList, KEYS_EXAMPLE),
    )
    def keys(
        request: Request, stream: StreamName, parameters: Annotated[KeyParameters, Query()]
    ) -> Response:
        check_json(request)
        found = streams.find(stream)
        content = key_content(found, parameters)
        return json_reply(request, content, validity("keys", found.name, content))

    @app.get(
        "/v1/streams/{stream:path}",
        summary="One stream",
        responses=described(StreamDetails, DETAILS_EXAMPLE),
    )
    def one_stream(
        request: Request, stream: StreamName, _: Annotated[NoParameters, Query()]
    ) -> Response:
        check_json(request)
        found = streams.find(stream)
        content = stream_details(found, options.events)
        link = found.head.link.hex()
        return json_reply(request, content, validity(link, content))

    @app.get(
        "/health",
        summary="Whether the service answers",
        responses=described(HealthContent, {"status": "ok"}),
    )
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
