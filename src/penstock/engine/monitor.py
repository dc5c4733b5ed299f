"""The monitor: shows the figures of running publishers by HTTP.

=============  ==========================================================================
GET /metrics   public figures of the publisher, in the format of Prometheus
GET /releases  the newest release of each view, in the same format; `?key=…` chooses keys
GET /health    200 while every unit is on time, 503 otherwise
GET /status    public figures, as JSON
GET /operator  private figures, as JSON, with the operator's token; 404 without a token in
               the configuration
=============  ==========================================================================

The usual process metrics of Prometheus clients are left out on purpose. CPU seconds, memory and
collected garbage grow with the number of events, which is private. Every answer is computed when it
is asked for, without the store: so nobody delays a commit by looking.
"""

from __future__ import annotations

import hmac
import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from hashlib import blake2b
from typing import Any, Self, TypeAlias

from penstock.core.connections import ConnectionLimits
from penstock.core.errors import ConfigurationError
from penstock.core.optional import require
from penstock.core.server_tls import ServerTls
from penstock.core.web_server import WebServer
from penstock.engine import factory, publisher_figures
from penstock.engine.pipeline import Pipeline
from penstock.engine.publisher import Publisher
from penstock.engine.release_metrics import NewestReleases

Request: TypeAlias = Any
Response: TypeAlias = Any

MIN_TOKEN_LENGTH = 16
"""A shorter token could be guessed."""

PURPOSE = "serving metrics"
SHUTDOWN_SECONDS = 2
LIMITS = ConnectionLimits(connections=100, per_peer=50, spare_files=64)
"""More files stay free for it than for senders of events, so senders cannot use them all up."""

_NO_STORE = {"cache-control": "no-store"}

log = logging.getLogger(__name__)


class Monitor:
    """Serves figures at every address that the pipelines name, each in a thread of its own.

    The constructor finds missing packages and secrets, before anything is opened. `watch` binds the
    addresses; call it before anything is published. Pipelines with the same address share a server,
    and the operator of one sees nothing private of the others. Each server has limits of
    connections and of time of its own, so nothing that happens to a source delays it.

    Parameters
    ----------
    pipelines : sequence of Pipeline
        The configurations; those without `[operator] metrics` are not served.
    """

    def __init__(self, pipelines: Sequence[Pipeline]) -> None:
        self._desks: dict[str, _MonitorDesk] = {}
        self._servers: list[WebServer] = []
        for pipeline in pipelines:
            address = pipeline.operator.metrics
            if address is not None:
                for name in ("fastapi", "uvicorn", "prometheus_client"):
                    require(name, "serve", PURPOSE)
                tls = factory.operator_tls(pipeline)
                if tls is not None:
                    tls.context()
                desk = self._desks.setdefault(address, _MonitorDesk(tls=tls))
                if desk.tls != tls:
                    raise ConfigurationError(
                        f"two of these pipelines serve metrics at {address} and differ in their "
                        "TLS files. Write the same in both, or use two addresses."
                    )
                desk.tokens[pipeline.stream.name] = _token(pipeline)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def addresses(self) -> tuple[tuple[str, int], ...]:
        """The hosts and ports where it listens."""
        return tuple(server.address for server in self._servers)

    @property
    def urls(self) -> tuple[str, ...]:
        """Where it listens, as URLs."""
        return tuple(server.url for server in self._servers)

    def watch(self, publishers: Sequence[Publisher]) -> None:
        """Listen at every address, or at none: an address in use is an error."""
        try:
            for address, desk in self._desks.items():
                desk.publishers = tuple(
                    each for each in publishers if each.pipeline.stream.name in desk.tokens
                )
                self._servers.append(_server(desk, address))
        except BaseException:
            self.close()
            raise
        for server in self._servers:
            server.start()

    def close(self) -> None:
        """Stop listening."""
        for server in self._servers:
            server.close()
        self._servers.clear()


def _token(pipeline: Pipeline) -> bytes | None:
    """Return a digest of the operator's token; None where no token is configured.

    Digests have one length, so the time of a comparison says nothing about the token.
    """
    token = factory.operator_token(pipeline)
    if token is None:
        return None
    if len(token) < MIN_TOKEN_LENGTH or not all("!" <= letter <= "~" for letter in token):
        raise ConfigurationError(
            f"operator: the token must have at least {MIN_TOKEN_LENGTH} characters, all of them "
            "printable ASCII without spaces."
        )
    return _digest(token)


def _digest(token: str) -> bytes:
    return blake2b(token.encode("utf-8", "surrogateescape")).digest()


@dataclass(kw_only=True, eq=False)
class _MonitorDesk:
    """Answers the requests at one address."""

    tls: ServerTls | None = None
    counts: Callable[[], Mapping[str, int]] = dict
    tokens: dict[str, bytes | None] = field(default_factory=dict, repr=False)
    publishers: tuple[Publisher, ...] = ()

    @cached_property
    def newest(self) -> NewestReleases:
        """The newest releases of the publishers."""
        return NewestReleases(self.publishers)

    def metrics(self, _: Request) -> Response:
        return _exposition(_Metrics(publisher_figures.public(self.publishers)).collect())

    def releases(self, request: Request) -> Response:
        """Answer with the newest releases; `key` chooses keys and may be repeated."""
        unknown = sorted(set(request.query_params) - {"key"})
        try:
            if unknown:
                raise ConfigurationError(f"there is no parameter {unknown[0]!r}: use key.")
            return _exposition(self.newest.gauges(request.query_params.getlist("key")))
        except ConfigurationError as error:
            return _json(400, {"error": str(error)})

    def health(self, _: Request) -> Response:
        streams = publisher_figures.public(self.publishers).streams
        late = [stream.stream for stream in streams if not stream.on_time]
        unhealthy = [stream.stream for stream in streams if stream.source == "unhealthy"]
        content = {
            "status": "not on time" if late else "on time",
            "late": late,
            "source": "unhealthy" if unhealthy else "healthy",
            "unhealthy": unhealthy,
        }
        return _json(503 if late else 200, content)

    def status(self, _: Request) -> Response:
        return _json(200, publisher_figures.plain(publisher_figures.public(self.publishers)))

    def operator(self, request: Request) -> Response:
        """Answer with the private figures of the streams whose token was given."""
        if not any(self.tokens.values()):
            return _json(
                404,
                {
                    "error": "no operator's token is configured: set token_env or token_file "
                    "in [operator]."
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
                {"error": "this needs the operator's token, as a bearer token."},
                {"www-authenticate": "Bearer"},
            )
        told = publisher_figures.private(
            each for each in self.publishers if each.pipeline.stream.name in known
        )
        return _json(200, {"streams": publisher_figures.plain(told), "connections": self.counts()})


def _exposition(families: Iterable[Any]) -> Response:
    """Metrics as text for Prometheus."""
    client = require("prometheus_client", "serve", PURPOSE)
    registry = client.CollectorRegistry(auto_describe=False)
    registry.register(_Collected(families))
    headers = _NO_STORE | {"content-type": client.CONTENT_TYPE_LATEST}
    return require("fastapi.responses", "serve", PURPOSE).Response(
        client.generate_latest(registry), headers=headers
    )


class _Collected:
    """Metrics that were collected already."""

    def __init__(self, families: Iterable[Any]) -> None:
        self._families = families

    def collect(self) -> Iterable[Any]:
        return self._families


def _json(status: int, content: Any, headers: dict[str, str] | None = None) -> Response:
    return require("fastapi.responses", "serve", PURPOSE).JSONResponse(
        content, status, headers=_NO_STORE | (headers or {})
    )


class _Metrics:
    """Public figures as gauges. All gauges of one scrape are of one moment."""

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
        yield family("info", "Version of Penstock.", "version", iter([((self._told.version,), 1)]))
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
    """Round up to a float: no cost looks smaller than it was."""
    near = float(number)
    return near if near >= number else math.nextafter(near, math.inf)


_Number: TypeAlias = "Fraction | float | None"

_OF_STREAMS: tuple[tuple[str, str, Callable[[publisher_figures.StreamFigures], _Number]], ...] = (
    (
        "publishing",
        "1 while the stream is being published.",
        lambda each: each.state == "publishing",
    ),
    (
        "failed",
        "1 if the publisher ended with an error.",
        lambda each: each.state == "failed",
    ),
    ("on_time", "1 while every unit is released on time.", lambda each: each.on_time),
    (
        "source_healthy",
        "1 while no file is unreadable and refusals are below the operator's limit.",
        lambda each: each.source == "healthy",
    ),
    ("lease_held", "1 while this process holds the lease of the stream.", lambda each: each.lease),
    ("promised_epsilon", "Promised epsilon of any window.", lambda each: each.epsilon),
    ("promised_delta", "Promised delta of any window.", lambda each: each.delta),
    (
        "promised_window_units",
        "Consecutive units in which a person is protected.",
        lambda each: each.window,
    ),
)

_OF_SERIES: tuple[tuple[str, str, Callable[[publisher_figures.SeriesFigures], _Number]], ...] = (
    (
        "released_unit",
        "Newest released unit; 0 before the first.",
        lambda each: each.unit,
    ),
    (
        "released_unit_end_timestamp_seconds",
        "End of the newest released unit.",
        lambda each: None if each.ends is None else each.ends.timestamp(),
    ),
    (
        "units_behind",
        "Closed units that are not released.",
        lambda each: each.behind,
    ),
    (
        "overdue_seconds",
        "Seconds since the next unit should have been released.",
        lambda each: each.overdue,
    ),
    (
        "fresh_ratio",
        "Share of the newest release that does not repeat an earlier one.",
        lambda each: each.fresh,
    ),
)

_OF_COSTS: tuple[tuple[str, str, Callable[[publisher_figures.SeriesFigures], _Number]], ...] = (
    (
        "window_cost",
        "Cost of the newest window, in the currency of the promise.",
        lambda each: each.cost,
    ),
    (
        "window_promised",
        "Limit of the cost of a window, in the currency of the promise.",
        lambda each: each.most,
    ),
)

_OF_SINKS: tuple[tuple[str, str, Callable[[publisher_figures.SinkFigures], _Number]], ...] = (
    ("sink_up", "1 while the sink takes releases.", lambda each: each.up),
    ("sink_units_behind", "Units that the sink lacks.", lambda each: each.behind),
)


def _server(desk: _MonitorDesk, address: str) -> WebServer:
    """Use plain routes, so that no library adds to the answers; log nothing about requests."""
    application = require("fastapi", "serve", PURPOSE).FastAPI(
        openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False
    )
    for name in ("metrics", "releases", "health", "status", "operator"):
        application.add_route(f"/{name}", _guarded(getattr(desk, name)), methods=["GET"])
    host, _, port = address.rpartition(":")
    server = WebServer(
        application,
        host=host,
        port=int(port),
        key="operator: metrics",
        name="metrics",
        limits=LIMITS,
        grace=SHUTDOWN_SECONDS,
        purpose=PURPOSE,
        tls=desk.tls,
    )
    desk.counts = server.table.tally.for_operator
    return server


def _guarded(answer: Callable[[Request], Response]) -> Callable[[Request], Response]:
    """Answer errors without their message, which may quote data."""

    def guarded(request: Request) -> Response:
        try:
            return answer(request)
        except Exception as error:
            log.error("metrics: a request failed (%s).", type(error).__name__)
            return _json(500, {"error": "the request failed."})

    return guarded
