"""The OpenAPI document of the read API."""

from __future__ import annotations

import re
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute

DESCRIPTION = """\
What a publisher has released, with intervals, and the ledger that says what it cost. All of it is
public, and asking costs no budget.

The path of an answer may end with `.json`, `.csv`, `.arrow` or `.parquet`, or the header `Accept`
says which form is wanted. Numbers of units that are released never change: their answers may be
kept for ever, and their `ETag` begins with the link of the chain after the last unit.
"""

LIVE_PATH = "/v1/streams/{stream}/live"


def openapi_document(app: FastAPI, *, token: bool) -> dict[str, Any]:
    """The document of an application. It is made once.

    Parameters
    ----------
    app : FastAPI
        The application.
    token : bool
        Whether readers must show a token.
    """
    if app.openapi_schema:
        return app.openapi_schema
    found = get_openapi(
        title=app.title, version=app.version, description=app.description, routes=app.routes
    )
    for route in app.routes:
        if isinstance(route, APIRoute) and route.include_in_schema:
            _keep_examples(found["paths"][route.path_format]["get"], route)
    if token:
        bearer = {"type": "http", "scheme": "bearer", "description": "The read token."}
        found.setdefault("components", {})["securitySchemes"] = {"token": bearer}
        found["security"] = [{"token": []}]
        found["paths"]["/health"]["get"]["security"] = []
    app.openapi_schema = found
    return found


def operation_id(route: APIRoute) -> str:
    """The name of an operation, made of its path.

    Parameters
    ----------
    route : APIRoute
        The route.
    """
    parts = re.findall(r"[a-z0-9]+", route.path_format.removeprefix("/v1/"))
    return "_".join(parts) or "index"


def _keep_examples(operation: dict[str, Any], route: APIRoute) -> None:
    """Put the examples in as they are: FastAPI leaves out what is null in them."""
    for status, answer in route.responses.items():
        for media, content in answer.get("content", {}).items():
            if "example" in content:
                shown = operation["responses"][str(status)]["content"].setdefault(media, {})
                shown["example"] = content["example"]
