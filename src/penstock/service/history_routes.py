"""The routes of the read API for readers far away: what is stored of each unit, as it is stored.

`penstock.connect` uses them. They give releases, ledger lines and links, so that a reader can
follow the hash chain and ask every query by itself.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import FastAPI, Query, Request, Response
from pydantic import Field

from penstock.engine.history import MAX_UNITS, MEDIA_TYPE, history, written
from penstock.service.options import ServiceOptions
from penstock.service.parameters import After, ApiParameters, NoParameters, StreamName
from penstock.service.replies import JSON, reply, validity
from penstock.service.schemas import described
from penstock.service.streams import ServedStreams


class HistoryParameters(ApiParameters):
    """Which units of a history."""

    after: After = Field(default=0, description="The unit before the first one. Default: 0.")
    limit: Annotated[int, Field(ge=1, le=MAX_UNITS)] = Field(
        default=MAX_UNITS,
        description="The most units. An answer has fewer if they are large: ask on from the last.",
    )


def add_routes(app: FastAPI, streams: ServedStreams, _: ServiceOptions) -> None:
    """Add the routes.

    Parameters
    ----------
    app : FastAPI
        The application.
    streams : ServedStreams
        The streams.
    _ : ServiceOptions
        The settings, which these routes do not need.
    """

    @app.get(
        "/v1/streams/{stream:path}/about",
        summary="The text that the chain begins with",
        responses=described(None, {"name": "taps"}),
    )
    def about(
        request: Request, stream: StreamName, _: Annotated[NoParameters, Query()]
    ) -> Response:
        found = streams.find(stream)
        text = found.series.about
        return reply(request, text.encode(), JSON, validity("about", text, fixed=True))

    packed = described(None, None)
    packed[200]["content"] = {MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}}}

    @app.get(
        "/v1/streams/{stream:path}/history",
        summary="Releases, ledger lines and links as they are stored (MessagePack)",
        responses=packed,
    )
    def units(
        request: Request, stream: StreamName, parameters: Annotated[HistoryParameters, Query()]
    ) -> Response:
        found = streams.find(stream)
        newest = found.head.unit
        told = history(
            found.reader,
            found.name,
            after=parameters.after,
            limit=parameters.limit,
            newest=newest,
        )
        last = told.units[-1] if told.units else None
        full = last is not None and (len(told.units) == parameters.limit or last.unit < newest)
        link = last.link if last else told.before
        valid = validity(link.hex(), "history", parameters.after, parameters.limit, fixed=full)
        return reply(request, written(told), MEDIA_TYPE, valid)
