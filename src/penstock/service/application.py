"""The ASGI application of the read service. Needs FastAPI (extra `serve`)."""

from __future__ import annotations

import logging
from functools import partial
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware

import penstock
from penstock.core.errors import (
    ConfigurationError,
    InputError,
    PenstockError,
    StateError,
    StoreUnavailableError,
)
from penstock.service import (
    alert_routes,
    answer_routes,
    history_routes,
    ledger_routes,
    live_routes,
    map_routes,
    static_files,
    stream_routes,
)
from penstock.service.api_errors import ApiError, nearest
from penstock.service.forms import FormatEndings
from penstock.service.guard import Guard, digest
from penstock.service.live import LiveHub
from penstock.service.openapi import DESCRIPTION, openapi_document, operation_id
from penstock.service.options import ServiceOptions
from penstock.service.replies import error_reply
from penstock.service.streams import ServedStreams

_log = logging.getLogger(__name__)


def build(service: ServiceOptions, streams: ServedStreams) -> FastAPI:
    """Make the application.

    Parameters
    ----------
    service : ServiceOptions
        The settings.
    streams : ServedStreams
        The streams. They must be started before the first request.
    """
    app = FastAPI(
        title=service.title,
        version=penstock.__version__,
        description=DESCRIPTION,
        openapi_url="/v1/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=operation_id,
        default_response_class=Response,
    )
    app.state.hub = LiveHub(streams)
    for kind, answer in _HANDLERS.items():
        app.add_exception_handler(kind, answer)
    static_files.add_routes(app, service)
    map_routes.add_routes(app, service)
    live_routes.add_routes(app, streams, app.state.hub)
    ledger_routes.add_routes(app, streams, service)
    alert_routes.add_routes(app, streams, service)
    history_routes.add_routes(app, streams, service)
    answer_routes.add_routes(app, streams, service)
    stream_routes.add_routes(app, streams, service)  # last: a path of any length names a stream
    app.openapi = partial(  # type: ignore[method-assign]
        openapi_document, app, token=service.token is not None
    )
    app.add_middleware(FormatEndings, names=lambda: streams.names)
    app.add_middleware(Guard, token=None if service.token is None else digest(service.token))
    if service.origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(service.origins),
            allow_methods=["GET"],
            allow_headers=["authorization", "if-none-match", "last-event-id"],
            expose_headers=["etag", "link", "retry-after"],
        )
    return app


def _of_ours(_: Request, error: Exception) -> Response:
    assert isinstance(error, PenstockError)
    return error_reply(as_api_error(error))


def as_api_error(error: PenstockError) -> ApiError:
    """An error of ours with the status that it has in HTTP.

    Parameters
    ----------
    error : PenstockError
        The error.
    """
    if isinstance(error, ApiError):
        return error
    if isinstance(error, StoreUnavailableError):
        return ApiError(503, "the store cannot be read now. Try again.", retry_after=5)
    if isinstance(error, StateError):
        _log.error("service: the store cannot be read (%s).", type(error).__name__)
        return ApiError(503, "the store cannot be read. Ask whoever runs this service.")
    if isinstance(error, (ConfigurationError, InputError)):
        return ApiError(422, str(error))
    return _failed(error)


def _failed(error: Exception) -> ApiError:
    """An error without its text, which may quote anything."""
    _log.error("service: a request failed (%s).", type(error).__name__)
    return ApiError(500, "the request failed.")


def _unexpected(_: Request, error: Exception) -> Response:
    return error_reply(_failed(error))


def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return error_reply(invalid_parameter(error.errors(), tuple(_known_parameters(request))))


def _known_parameters(request: Request) -> list[str]:
    route = request.scope.get("route")
    dependant = getattr(route, "dependant", None)
    found: list[str] = []
    for field in getattr(dependant, "query_params", ()):
        model = field.field_info.annotation
        for name, each in getattr(model, "model_fields", {}).items():
            found.append(each.alias or name)
    return found


def invalid_parameter(problems: Any, known: tuple[str, ...]) -> ApiError:
    """The error of the first parameter that cannot be used.

    Parameters
    ----------
    problems : sequence of dict
        What pydantic found.
    known : tuple of str
        The names of the parameters.
    """
    first = problems[0]
    name = str(next((part for part in first["loc"][1:] if isinstance(part, str)), first["loc"][-1]))
    if first["type"] == "extra_forbidden":
        near = nearest(name, known)
        hint = f" Did you mean {near!r}?" if near else ""
        listed = ", ".join(known) or "none"
        text = f"there is no parameter {name[:100]!r}.{hint} There are: {listed}."
        return ApiError(422, text, nearest=near)
    said = str(first["msg"]).removeprefix("Input ").removeprefix("Value error, ")
    return ApiError(422, f"{name}: {said[:1].lower()}{said[1:]}.")


def _http(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    texts = {404: "there is nothing here. /v1 says where things are.", 405: "use GET."}
    made = ApiError(error.status_code, texts.get(error.status_code, "the request failed."))
    found = error_reply(made)
    found.headers.update(error.headers or {})
    return found


_HANDLERS: dict[type[Exception], Any] = {
    PenstockError: _of_ours,
    RequestValidationError: _invalid,
    HTTPException: _http,
    Exception: _unexpected,
}
