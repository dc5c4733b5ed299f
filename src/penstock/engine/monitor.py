"""What can be watched of a running publisher, by HTTP: metrics for Prometheus, health, and for the
operator private figures.

===============
======================================================================================== GET
/metrics    public figures, in the format of Prometheus GET /health     200 while every unit is on
time, 503 otherwise GET /status     public figures, as JSON GET /operator   private figures, as
JSON, for who has the token; 404 where no token was configured ===============
========================================================================================

What Prometheus clients usually tell of their process is left out on purpose: seconds of CPU, memory
and collected garbage grow with the events that were read, and how many those were is private.
Everything here is computed when it is asked for, from `figures`; nothing is asked of the store, so
that nobody holds up a commit by looking.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from hashlib import blake2b
from typing import Any, Self, TypeAlias

from penstock.core.errors import ConfigurationError
from penstock.core.optional import require
from penstock.core.web_server import bound, configuration
from penstock.engine import factory, publisher_figures
from penstock.engine.pipeline import Pipeline
from penstock.engine.publisher import Publisher

Request: TypeAlias = Any
Response: TypeAlias = Any

LEAST = 16
"""Characters of a token: a shorter one could be guessed."""

PURPOSE = "serving metrics"
CONNECTIONS = 100
IDLE = 75
PATIENCE = 30
GRACE = 2

_NO_STORE = {"cache-control": "no-store"}

log = logging.getLogger(__name__)


class Monitor:
    """Servers of figures, one for each address that the pipelines name, in threads of their own.

    Made before anything else, it finds out what is missing; `watch` binds the addresses, and is to
    be called before anything is published. Pipelines with the same address share a server, and the
    operator of one sees nothing private of another. It speaks plain HTTP: towards other machines a
    proxy before it adds encryption.
    """

    def __init__(self, pipelines: Sequence[Pipeline]) -> None:
        self._desks: dict[str, _MonitorDesk] = {}
        self._servers: list[_MonitorServer] = []
        for pipeline in pipelines:
            address = pipeline.operator.metrics
            if address is not None:
                for name in ("fastapi", "uvicorn", "prometheus_client"):
                    require(name, "serve", PURPOSE)
                desk = self._desks.setdefault(address, _MonitorDesk())
                desk.tokens[pipeline.stream.name] = _token(pipeline)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def addresses(self) -> tuple[tuple[str, int], ...]:
        """Where it listens: hosts and ports, as they were bound."""
        return tuple(server.address for server in self._servers)

    def watch(self, publishers: Sequence[Publisher]) -> None:
        """Listen at every address; one that is in use is a `ConfigurationError`, and none is
        listened at.
        """
        try:
            for address, desk in self._desks.items():
                desk.publishers = tuple(
                    each for each in publishers if each.pipeline.stream.name in desk.tokens
                )
                self._servers.append(_MonitorServer(desk, address))
        except BaseException:
            self.close()
            raise
        for server in self._servers:
            server.start()

    def close(self) -> None:
        """Listen no more."""
        for server in self._servers:
            server.close()
        self._servers.clear()


def _token(pipeline: Pipeline) -> bytes | None:
    """A digest of the operator's token, so that comparing takes the same time for any other; None
    if there is none.
    """
    token = factory.operator_token(pipeline)
    if token is None:
        return None
    if len(token) < LEAST or not all("!" <= letter <= "~" for letter in token):
        raise ConfigurationError(
            f"operator: the token must have at least {LEAST} characters, all printable ASCII and no space."
        )
    return _digest(token)


def _digest(token: str) -> bytes:
    return blake2b(token.encode("utf-8", "surrogateescape")).digest()


@dataclass(kw_only=True, eq=False)
class _MonitorDesk:
    """Answers the questions at one address."""

    tokens: dict[str, bytes | None] = field(default_factory=dict, repr=False)
    publishers: tuple[Publisher, ...] = ()

    def metrics(self, _: Request) -> Response:
        client = require("prometheus_client", "serve", PURPOSE)
        registry = client.CollectorRegistry(auto_describe=False)
        registry.register(_Metrics(publisher_figures.public(self.publishers)))
        headers = _NO_STORE | {"content-type": client.CONTENT_TYPE_LATEST}
        return require("fastapi.responses", "serve", PURPOSE).Response(
            client.generate_latest(registry), headers=headers
        )

    def health(self, _: Request) -> Response:
        streams = publisher_figures.public(self.publishers).streams
        late = [stream.stream for stream in streams if not stream.on_time]
        return _json(
            503 if late else 200, {"status": "not on time" if late else "on time", "late": late}
        )

    def status(self, _: Request) -> Response:
        return _json(200, publisher_figures.plain(publisher_figures.public(self.publishers)))

    def operator(self, request: Request) -> Response:
        """Private figures of the streams whose token was given; which streams there are is no
        secret.
        """
        if not any(self.tokens.values()):
            return _json(
                404,
                {
                    "error": "no token was configured for the operator: [operator] has token_env or token_file."
                },
            )
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        given = _digest(token.strip() if scheme.lower() == "bearer" else "")
        known = {
            name
            for name, digest in self.tokens.items()
            if hmac.compare_digest(digest or _digest(""), given) and digest
        }
        if not known:
            return _json(
                401,
                {"error": "the operator's token is needed, as a bearer token."},
                {"www-authenticate": "Bearer"},
            )
        told = publisher_figures.private(
            each for each in self.publishers if each.pipeline.stream.name in known
        )
        return _json(200, {"streams": publisher_figures.plain(told)})


def _json(status: int, content: Any, headers: dict[str, str] | None = None) -> Response:
    return require("fastapi.responses", "serve", PURPOSE).JSONResponse(
        content, status, headers=_NO_STORE | (headers or {})
    )


class _Metrics:
    """Public figures as families of gauges; all of one scrape are of one moment."""

    def __init__(self, told: publisher_figures.Figures) -> None:
        self._told = told

    def collect(self) -> Iterator[Any]:
        gauge = require("prometheus_client.core", "serve", PURPOSE).GaugeMetricFamily

        def family(
            name: str,
            text: str,
            labels: str,
            rows: Iterator[tuple[tuple[str, ...], Fraction | float | None]],
        ) -> Any:
            made = gauge(f"penstock_{name}", text, labels=labels.split())
            for values, number in rows:
                if number is not None:
                    made.add_metric(values, _up(number))
            return made

        streams = self._told.streams
        yield family(
            "info", "The software that publishes.", "version", iter([((self._told.version,), 1)])
        )
        for name, text, of_stream in _OF_STREAMS:
            yield family(
                name, text, "stream", (((each.stream,), of_stream(each)) for each in streams)
            )
        for name, text, of_series in _OF_SERIES:
            rows = (
                ((each.stream, one.view), of_series(one)) for each in streams for one in each.series
            )
            yield family(name, text, "stream view", rows)
        for name, text, of_cost in _OF_COSTS:
            costs = (
                ((each.stream, one.view, one.currency), of_cost(one))
                for each in streams
                for one in each.series
            )
            yield family(name, text, "stream view currency", costs)
        for name, text, of_sink in _OF_SINKS:
            sinks = (
                ((each.stream, one.name), of_sink(one)) for each in streams for one in each.sinks
            )
            yield family(name, text, "stream sink", sinks)


def _up(number: Fraction | float) -> float:
    """As a float that is not below it: nothing looks cheaper than it was."""
    near = float(number)
    return near if near >= number else math.nextafter(near, math.inf)


_Number: TypeAlias = "Fraction | float | None"

_OF_STREAMS: tuple[tuple[str, str, Callable[[publisher_figures.StreamFigures], _Number]], ...] = (
    (
        "publishing",
        "Whether the stream is being published.",
        lambda each: each.state == "publishing",
    ),
    (
        "failed",
        "Whether its publisher has ended with an error.",
        lambda each: each.state == "failed",
    ),
    ("on_time", "Whether every unit was released when it was due.", lambda each: each.on_time),
    ("lease_held", "Whether this process holds the lease of the stream.", lambda each: each.lease),
    ("promised_epsilon", "The epsilon that is promised for any window.", lambda each: each.epsilon),
    ("promised_delta", "The delta that is promised for any window.", lambda each: each.delta),
    (
        "promised_window_units",
        "The consecutive units in which a person is protected.",
        lambda each: each.window,
    ),
)

_OF_SERIES: tuple[tuple[str, str, Callable[[publisher_figures.SeriesFigures], _Number]], ...] = (
    (
        "released_unit",
        "The unit that was released last; 0 before the first.",
        lambda each: each.unit,
    ),
    (
        "released_unit_end_timestamp_seconds",
        "When the unit that was released last had ended.",
        lambda each: None if each.ends is None else each.ends.timestamp(),
    ),
    (
        "units_behind",
        "Units that the clock has closed and that are not released.",
        lambda each: each.behind,
    ),
    (
        "overdue_seconds",
        "For how long the next unit should have been released.",
        lambda each: each.overdue,
    ),
    (
        "fresh_ratio",
        "The part of the newest release that does not repeat an earlier one.",
        lambda each: each.fresh,
    ),
)

_OF_COSTS: tuple[tuple[str, str, Callable[[publisher_figures.SeriesFigures], _Number]], ...] = (
    (
        "window_cost",
        "What the newest window has cost, in the currency of the promise.",
        lambda each: each.cost,
    ),
    (
        "window_promised",
        "What a window may cost, in the currency of the promise.",
        lambda each: each.most,
    ),
)

_OF_SINKS: tuple[tuple[str, str, Callable[[publisher_figures.SinkFigures], _Number]], ...] = (
    ("sink_up", "Whether the sink takes what is sent.", lambda each: each.up),
    ("sink_units_behind", "Units that the sink lacks.", lambda each: each.behind),
)


class _MonitorServer:
    """A thread that serves one address."""

    def __init__(self, desk: _MonitorDesk, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = bound(host, int(port), key="operator: metrics")
        self.address: tuple[str, int] = self._socket.getsockname()[:2]
        self._server = require("uvicorn", "serve", PURPOSE).Server(_configuration(desk))
        self._thread = threading.Thread(target=self._run, name="penstock-monitor", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._server.should_exit = True
        if self._thread.ident is not None:
            self._thread.join(2 * GRACE)
        self._socket.close()

    def _run(self) -> None:
        try:
            asyncio.run(self._server.serve(sockets=[self._socket]))
        except Exception as error:
            log.error(
                "metrics: the server has failed (%s); publishing goes on.", type(error).__name__
            )


def _configuration(desk: _MonitorDesk) -> Any:
    """Plain routes, whose answers no library words; nothing about requests is logged."""
    application = require("fastapi", "serve", PURPOSE).FastAPI(
        openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False
    )
    for name in ("metrics", "health", "status", "operator"):
        application.add_route(f"/{name}", _guarded(getattr(desk, name)), methods=["GET"])
    return configuration(
        application,
        patience=PATIENCE,
        connections=CONNECTIONS,
        idle=IDLE,
        grace=GRACE,
        purpose=PURPOSE,
    )


def _guarded(answer: Callable[[Request], Response]) -> Callable[[Request], Response]:
    """The same, but what goes wrong is told without its message, which may hold anything."""

    def guarded(request: Request) -> Response:
        try:
            return answer(request)
        except Exception as error:
            log.error("metrics: a request has failed (%s).", type(error).__name__)
            return _json(500, {"error": "this could not be answered."})

    return guarded
