"""The map of the read API: a GeoJSON file with the places of keys."""

from __future__ import annotations

from hashlib import blake2b
from typing import Annotated

from fastapi import FastAPI, Query, Request, Response

from penstock.service.api_errors import ApiError
from penstock.service.options import ServiceOptions
from penstock.service.parameters import NoParameters
from penstock.service.replies import Validity, reply
from penstock.service.schemas import described

GEOJSON = "application/geo+json"


def add_routes(app: FastAPI, options: ServiceOptions) -> None:
    """Add the route.

    Parameters
    ----------
    app : FastAPI
        The application.
    options : ServiceOptions
        The settings.
    """

    answers = described(None, None)
    answers[200]["content"] = {GEOJSON: {"schema": {"type": "object"}}}

    @app.get("/v1/map", summary="The places of keys, as GeoJSON", responses=answers)
    def places(request: Request, _: Annotated[NoParameters, Query()]) -> Response:
        if options.map is None:
            raise ApiError(404, "this service has no map: [service] map names a GeoJSON file.")
        try:
            content = options.map.read_bytes()
        except OSError:
            raise ApiError(503, "the map cannot be read now.", retry_after=60) from None
        tag = blake2b(content, digest_size=16).hexdigest()
        return reply(request, content, GEOJSON, Validity(tag=tag))
