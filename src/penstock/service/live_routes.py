"""The route of the read API for live updates."""

from __future__ import annotations

from typing import Annotated

from fastapi import FastAPI, Query, Request, Response

from penstock.service.api_errors import ApiError
from penstock.service.forms import check_json
from penstock.service.live import LiveEvents, LiveHub
from penstock.service.parameters import MAX_UNIT, LiveParameters, StreamName
from penstock.service.schemas import described
from penstock.service.streams import ServedStreams

EXAMPLE = 'id: 240\nevent: unit\ndata: {"unit":240,"link":"ab72…"}\n\n'


def add_routes(app: FastAPI, streams: ServedStreams, hub: LiveHub) -> None:
    """Add the route.

    Parameters
    ----------
    app : FastAPI
        The application.
    streams : ServedStreams
        The streams.
    hub : LiveHub
        Wakes readers.
    """
    answers = described(None, None)
    answers[200]["content"] = {
        "text/event-stream": {"schema": {"type": "string"}, "example": EXAMPLE}
    }

    @app.get(
        "/v1/streams/{stream:path}/live",
        summary="New units, as server-sent events",
        responses=answers,
    )
    async def live(
        request: Request, stream: StreamName, parameters: Annotated[LiveParameters, Query()]
    ) -> Response:
        check_json(request)
        told = request.headers.get("last-event-id")
        if told is not None and not (told.isascii() and told.isdecimal() and len(told) < 16):
            raise ApiError(422, "Last-Event-ID must be the number of a unit.")
        seen = parameters.after if told is None else min(int(told), MAX_UNIT)
        return LiveEvents(hub, streams.find(stream), seen)
