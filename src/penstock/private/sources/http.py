"""Events by HTTP: each request is answered once its events are on disk."""

from __future__ import annotations

import asyncio
import hmac
import logging
import re
from collections.abc import Coroutine, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, TypeAlias

from penstock.core.connections import ConnectionLimits
from penstock.core.declaration import Option
from penstock.core.deprecated import moved
from penstock.core.errors import ConfigurationError, StateError
from penstock.core.exact import whole
from penstock.core.optional import require
from penstock.core.server_tls import SERVER_TLS_OPTIONS, ServerTls, check_server_tls
from penstock.core.web_server import WebServer
from penstock.private.sources.base import (
    Batch,
    Intake,
    Position,
    Receiver,
    Rejections,
    Source,
    SourceKind,
    SourceSetup,
    release_unused_memory,
)
from penstock.private.sources.idempotency import Entry, IdempotencyKeys
from penstock.private.sources.inbox import BUSY, CLOSED, KEPT, Inbox, SenderReply, Sending, merged
from penstock.private.sources.request_bodies import (
    BYTES_PER_TABLE,
    MAX_BODY_BYTES,
    MAX_ROWS_PER_BODY,
    MEDIA_TYPES,
    BodyError,
    Encoding,
    RequestBodies,
)

Request: TypeAlias = Any
Response: TypeAlias = Any

MAX_WAITING_EVENTS = 1_000_000
MAX_WAITING_BYTES = 96 * 2**20
REMEMBERED_KEYS = 100_000
PATIENCE_SECONDS = 30
MAX_CONNECTIONS = 1_000
MAX_CONNECTIONS_PER_PEER = 100
SPARE_FILES = 256
HEAD_SECONDS = 10
WRITE_SECONDS = 30
IDLE_SECONDS = 75
GRACE_SECONDS = 5
MIN_TOKEN_LENGTH = 16
PURPOSE = "taking events by HTTP"

NO_TOKEN = SenderReply(401, "a bearer token is needed.")
LATE = SenderReply(
    503, "this is not on disk yet, and may be soon. Send it again with the same idempotency key."
)
FAILED = SenderReply(500, "this could not be taken, and was not kept.")

_TOKEN = re.compile(r"[\x21-\x7e]+")
_KEY = re.compile(r"[\x20-\x7e]{1,200}")

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, eq=False)
class HttpSource(Receiver):
    """A server that takes batches of events by `POST /events` and answers 200 once they are on
    disk, and `GET /health`.

    A sender needs the token, as `Authorization: Bearer …`. The body is JSON lines, JSON or an Arrow
    stream, also with `Content-Encoding: gzip`; see `RequestBodies` for the formats and for bad
    rows. Neither answers nor logs show data, nor how many rows were good.

    With an `Idempotency-Key` (at most 200 printable characters) a batch counts once, however often
    it is sent. At least the last `window` keys are known, also after a restart. A repeated key must
    come with the same bytes, type and encoding. A request without a key is a batch of its own.

    - 200: the events are on disk and will be counted once.
    - 400: the body as a whole, the idempotency key or the request is not in its format. Rows are
      never judged: a body of rows that are all dropped is answered with 200.
    - 401: the token is missing or wrong.
    - 408: the head of the request did not come within 10 seconds, or the body not within
      `patience` seconds, or with less than 1 KiB per second.
    - 413: the body is too large. Send it in pieces.
    - 415: the type or the encoding is not accepted.
    - 422: the key came before with another body.
    - 429: too much is waiting (`most_events`, `most_bytes`). Nothing was taken; send it again after
      `Retry-After`.
    - 503: not on disk within `patience` seconds, or the server is closing. Send it again with its
      key.

    The server speaks plain HTTP, or TLS with `tls`. A connection is closed after 75 seconds without
    a request. Above the limits of connections, the ones that have waited longest without a request
    are closed first; a connection that finds no room is closed without an answer. A proxy in front
    is one peer: raise `connections_per_peer` then.

    Parameters
    ----------
    intake : Intake
        Makes batches of the columns.
    host, port : str, int
        The address to listen at.
    token : str
        The bearer token of the senders.
    size : int
        The most bytes of a body, also after decompression. Default: 64 MiB.
    rows : int
        The most events of a request. Default: 1,000,000.
    most_events, most_bytes : int
        The most events and bytes that wait to be kept: bodies as they came, and the columns that
        were read from them. Defaults: 1,000,000 and 96 MiB.
    window : int
        The number of idempotency keys that are remembered at least. Default: 100,000.
    patience : float
        Seconds to wait for a body, and for its events to be on disk. Default: 30.
    connections : int
        The most connections at the same time. Default: 1,000.
    connections_per_peer : int
        The most connections of one IPv4 address or /64 network of IPv6. Default: 100.
    tls : ServerTls, optional
        The files for TLS. Default: plain HTTP.
    """

    intake: Intake
    host: str
    port: int
    token: str = field(repr=False)
    size: int = MAX_BODY_BYTES
    rows: int = MAX_ROWS_PER_BODY
    most_events: int = MAX_WAITING_EVENTS
    most_bytes: int = MAX_WAITING_BYTES
    window: int = REMEMBERED_KEYS
    patience: float = PATIENCE_SECONDS
    connections: int = MAX_CONNECTIONS
    connections_per_peer: int = MAX_CONNECTIONS_PER_PEER
    tls: ServerTls | None = None
    rejections: Rejections = field(default_factory=Rejections, init=False)
    _servers: list[WebServer] = field(default_factory=list, init=False, repr=False)

    def __post_init__(self) -> None:
        least = {
            "port": 0,
            "size": 1,
            "rows": 1,
            "most_events": self.rows,
            "most_bytes": self.size,
            "window": 1,
            "connections": 1,
            "connections_per_peer": 1,
        }
        for name, value in least.items():
            whole(getattr(self, name), name=name, least=value)
        if self.port > 65_535:
            raise ConfigurationError(f"port must be at most 65535, not {self.port}.")
        if not self.patience > 0:
            raise ConfigurationError(f"patience must be above 0 seconds, not {self.patience}.")
        if len(self.token) < MIN_TOKEN_LENGTH or not _TOKEN.fullmatch(self.token):
            raise ConfigurationError(
                f"token must have at least {MIN_TOKEN_LENGTH} characters, "
                "all printable ASCII and no space."
            )
        for name in ("fastapi", "uvicorn"):
            require(name, "serve", PURPOSE)
        if self.tls is not None:
            self.tls.context()

    @property
    def resumable(self) -> bool:
        return True

    @property
    def answers(self) -> bool:
        return True

    @property
    def address(self) -> tuple[str, int]:
        """The host and the port that are bound."""
        return self._opened.address

    @property
    def connection_counts(self) -> Mapping[str, int]:
        return self._servers[0].table.tally.for_operator() if self._servers else {}

    def open(self, parts: Mapping[str, bytes]) -> None:
        """Start to listen, with the idempotency keys that were kept."""
        if self._servers:
            raise StateError("http: the source was opened before.")
        self._inbox.seen.restore(parts)
        server = WebServer(
            _application(self._desk),
            host=self.host,
            port=self.port,
            key="listen",
            name="http",
            limits=self._limits,
            grace=GRACE_SECONDS,
            purpose=PURPOSE,
            tls=self.tls,
            begin=self._desk.begin,
        )
        self._servers.append(server)
        server.start()

    def wait(self, seconds: float) -> None:
        self._check()
        self._inbox.wait(seconds)

    def batches(self, after: Position | None = None) -> Iterator[Batch]:
        """The waiting requests, several per batch. A batch is given again until it is kept."""
        self._check()
        yield from self._inbox.batches(after)

    def kept(self, batch: Batch) -> None:
        self._inbox.kept(batch)

    def close(self) -> None:
        """Answer 503 to all waiting senders and stop listening."""
        self._inbox.close()
        for server in self._servers:
            self._desk.end()
            server.close()
            self._desk.reader.shutdown(wait=False, cancel_futures=True)

    @property
    def _opened(self) -> WebServer:
        if not self._servers:
            raise StateError("http: the source is not open.")
        return self._servers[0]

    def _check(self) -> None:
        """Check that the server still runs."""
        if not self._opened.alive and not self._inbox.closed:
            raise StateError(
                "http: the server has stopped by itself. Start again; what was answered is on disk."
            )

    @property
    def _limits(self) -> ConnectionLimits:
        return ConnectionLimits(
            connections=self.connections,
            per_peer=self.connections_per_peer,
            spare_files=SPARE_FILES,
            head=min(HEAD_SECONDS, self.patience),
            body=self.patience,
            answer=self.patience + WRITE_SECONDS,
            idle=IDLE_SECONDS,
        )

    @cached_property
    def _inbox(self) -> Inbox:
        seen = IdempotencyKeys(window=self.window)
        return Inbox(
            rows=self.rows,
            most_events=self.most_events,
            most_bytes=self.most_bytes,
            seen=seen,
            rejections=self.rejections,
        )

    @cached_property
    def _desk(self) -> _IngestDesk:
        bodies = RequestBodies(intake=self.intake, size=self.size, rows=self.rows)
        return _IngestDesk(
            bodies=bodies, inbox=self._inbox, token=_digest(self.token), patience=self.patience
        )


@dataclass(kw_only=True, eq=False)
class _IngestDesk:
    """Answers requests, all in the server's thread."""

    bodies: RequestBodies
    inbox: Inbox
    token: bytes
    patience: float
    reader: ThreadPoolExecutor = field(init=False)
    _loop: asyncio.AbstractEventLoop = field(init=False)
    _closing: asyncio.Future[None] = field(init=False)
    _reading: set[asyncio.Future[None]] = field(default_factory=set, init=False)

    def begin(self) -> None:
        self.reader = ThreadPoolExecutor(1, thread_name_prefix="penstock-http-reader")
        self._loop = asyncio.get_running_loop()
        self._closing = self._loop.create_future()

    def end(self) -> None:
        """Stop waiting for bodies. Called from another thread."""

        def now() -> None:
            if not self._closing.done():
                self._closing.set_result(None)

        with suppress(RuntimeError):  # where the server has stopped by itself
            self._loop.call_soon_threadsafe(now)

    async def health(self, _: Request) -> Response:
        return (
            _response(503, status="closing")
            if self.inbox.closed
            else _response(200, status="listening")
        )

    async def events(self, request: Request) -> Response:
        transit = _Transit(inbox=self.inbox, most=self.bodies.size)
        try:
            answer = self._refused(request, transit) or await self._taken(request, transit)
        except BodyError as error:
            answer = SenderReply(error.status, str(error))
        except Exception as error:
            log.error("http: a request has failed (%s).", type(error).__name__)
            answer = FAILED
        finally:
            self.inbox.release(transit.give())
        if answer == KEPT:
            return _response(200, status=KEPT.text)
        again = {"retry-after": "1"}
        by_status = {401: {"www-authenticate": "Bearer"}, 429: again, 503: again}
        headers = dict(by_status.get(answer.status, {}))
        # The rest of a refused body is read and dropped, so that the sender reads the answer. The
        # server limits how long.
        if not transit.ended and (answer.status in (413, 503) or "expect" in request.headers):
            headers |= {"connection": "close"}
        return _response(answer.status, headers, error=answer.text)

    def _refused(self, request: Request, transit: _Transit) -> SenderReply | None:
        """The reply to a request that is refused before its body has come; else None."""
        headers = request.headers
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if (
            not hmac.compare_digest(_digest(token.strip()), self.token)
            or scheme.lower() != "bearer"
        ):
            return NO_TOKEN
        if self.inbox.closed:
            return CLOSED
        media, encoding = _described(request)
        if media not in MEDIA_TYPES:
            return SenderReply(
                415, f"the content type must be one of {', '.join(MEDIA_TYPES)}, in UTF-8."
            )
        if encoding not in ("", "gzip"):
            return SenderReply(415, "the content encoding must be gzip, or none.")
        if "idempotency-key" in headers and not _KEY.fullmatch(headers["idempotency-key"]):
            return SenderReply(
                400, "the idempotency key must be of 1 to 200 printable characters of ASCII."
            )
        size = int(headers.get("content-length", 0))
        if size > self.bodies.size:
            return SenderReply(413, _large(self.bodies.size))
        return None if transit.expect(size) else BUSY

    async def _taken(self, request: Request, transit: _Transit) -> SenderReply:
        """Read the body, queue its events, and wait for the outcome."""
        body = await self._unless_closing(transit.read(request))
        media, encoding = _described(request)
        key = request.headers.get("idempotency-key")
        sending = Sending(
            entry=None if key is None else Entry.of(key, f"{media} {encoding}\n".encode(), body)
        )
        first = self.inbox.enter(sending)
        if first is sending and not sending.outcome.done():
            sending.held = transit.give()
            task = asyncio.ensure_future(self._read(sending, body, media, encoding))
            self._reading.add(task)
            task.add_done_callback(self._reading.discard)
        self.inbox.release(transit.give())
        del body
        outcome: asyncio.Future[SenderReply] = asyncio.wrap_future(first.outcome)
        both: set[asyncio.Future[Any]] = {outcome, self._closing}
        await asyncio.wait(both, timeout=self.patience, return_when=asyncio.FIRST_COMPLETED)
        if first.outcome.done():
            return first.outcome.result()
        return CLOSED if self._closing.done() else LATE

    async def _read(
        self, sending: Sending, body: bytearray, media: str, encoding: Encoding
    ) -> None:
        """Read a body in the other thread and queue its events, even if the sender has gone."""
        work = self._loop.run_in_executor(self.reader, self._decode, sending, body, media, encoding)
        del body
        reply = await work
        if reply is None:
            self.inbox.put(sending)
        else:
            self.inbox.refuse(sending, reply)

    def _decode(
        self, sending: Sending, body: bytearray, media: str, encoding: Encoding
    ) -> SenderReply | None:
        """Hand the events to the inbox piece by piece; the reply if that is not possible.

        No error leaves this thread: an error in a future is part of a cycle, which would keep what
        was read until the next garbage collection.
        """
        try:
            self._hand_over(sending, body, media, encoding)
        except BodyError as error:
            return SenderReply(error.status, str(error))
        except Exception as error:
            log.error("http: a request has failed (%s).", type(error).__name__)
            return FAILED
        finally:
            if sending.held + sending.size > BYTES_PER_TABLE:
                release_unused_memory()
        return None

    def _hand_over(self, sending: Sending, body: bytearray, media: str, encoding: Encoding) -> None:
        def check(reply: SenderReply | None) -> None:
            if reply is not None:
                raise BodyError(*reply)

        batches = self.bodies.batches(
            body,
            media,
            encoding,
            sending.rejections,
            inflated=lambda size: check(self.inbox.hold(sending, size)),
        )
        for batch in batches:
            check(self.inbox.add(sending, batch))
        body.clear()  # its memory is needed now
        sending.batches = [merged(sending.batches)]

    async def _unless_closing(self, reading: Coroutine[Any, Any, bytearray]) -> bytearray:
        """The result of reading a request, unless the server closes before."""
        task = asyncio.ensure_future(reading)
        both: set[asyncio.Future[Any]] = {task, self._closing}
        try:
            done, _ = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        finally:
            task.cancel()
        if task in done:
            return task.result()
        raise BodyError(*CLOSED)


@dataclass(kw_only=True, eq=False)
class _Transit:
    """A body that is being received. Its bytes count among the waiting ones.

    A body that says its size is counted before it comes. So of several that do not fit together,
    one comes whole.
    """

    inbox: Inbox
    most: int
    held: int = 0
    ended: bool = False

    def expect(self, size: int) -> bool:
        """Reserve the size that the sender has declared. Returns whether there is space."""
        self.held = size if self.inbox.reserve(size) else 0
        return self.held == size

    async def read(self, request: Request) -> bytearray:
        body = bytearray()
        while not self.ended:
            piece = await self._next(request)
            more = len(body) + len(piece) - self.held
            if len(body) + len(piece) > self.most:
                raise BodyError(413, _large(self.most))
            if more > 0:
                if not self.inbox.reserve(more):
                    raise BodyError(*BUSY)
                self.held += more
            body += piece
        return body

    def give(self) -> int:
        """Hand over the reserved bytes; the caller releases them."""
        held, self.held = self.held, 0
        return held

    async def _next(self, request: Request) -> bytes:
        message = await request.receive()
        if message["type"] != "http.request":
            raise BodyError(400, "the sender has gone.")
        self.ended = not message.get("more_body", False)
        return bytes(message.get("body", b""))


def _described(request: Request) -> tuple[str, Encoding]:
    """The media type and encoding of a body. A text that is not in UTF-8 has no known type."""
    media, *parameters = (
        part.strip().lower() for part in request.headers.get("content-type", "").split(";")
    )
    charsets = [
        part.partition("=")[2].strip('"') for part in parameters if part.startswith("charset=")
    ]
    encoding = request.headers.get("content-encoding", "").strip().lower()
    return media if set(charsets) <= {
        "utf-8",
        "utf8",
    } else "", "" if encoding == "identity" else encoding


def _large(size: int) -> str:
    return f"the body has more than {size} bytes; send it in pieces."


def _digest(token: str) -> bytes:
    return blake2b(token.encode()).digest()


def _response(code: int, headers: Mapping[str, str] | None = None, **content: str) -> Response:
    return require("fastapi.responses", "serve", PURPOSE).JSONResponse(
        content, code, headers=dict(headers or {})
    )


def _application(desk: _IngestDesk) -> Any:
    """Two plain routes. FastAPI validates nothing, as its errors quote the input."""
    application = require("fastapi", "serve", PURPOSE).FastAPI(
        openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False
    )
    application.add_route("/events", desk.events, methods=["POST"])
    application.add_route("/health", desk.health, methods=["GET"])
    return application


def _build(setup: SourceSetup) -> Source:
    host, _, port = setup.options["listen"].rpartition(":")
    token = setup.secret("token")
    assert token is not None
    return HttpSource(
        intake=setup.intake,
        host=host.strip("[]"),
        port=int(port),
        token=token,
        connections_per_peer=setup.options["connections_per_peer"],
        tls=ServerTls.of(setup),
    )


KIND = SourceKind(
    name="http",
    summary="Batches that others send by HTTP, answered once they are on disk.",
    options=(
        Option(
            name="listen",
            type="address",
            default="127.0.0.1:8080",
            example="127.0.0.1:8080",
            asked=True,
            help="the address to listen at; for other machines than this one, use TLS",
        ),
        Option(
            name="token",
            type="secret",
            required=True,
            example="PENSTOCK_TOKEN",
            help="the token that senders need, of at least 16 visible ASCII characters",
        ),
        *SERVER_TLS_OPTIONS,
        Option(
            name="connections_per_peer",
            type="whole",
            default=MAX_CONNECTIONS_PER_PEER,
            help="the most connections of one IPv4 address or /64 network of IPv6; "
            "all senders behind a proxy share the proxy's",
        ),
    ),
    check=check_server_tls,
    describe=lambda options: (
        f"{'HTTPS' if options.get('tls_cert') else 'HTTP'} requests at {options['listen']}"
    ),
    extra="serve",
    modules=("fastapi", "uvicorn"),
    build=_build,
    no_dry_run="events are sent to it, so there is nothing to read beforehand. Run it with a "
    "stream and a store of another name, and send it some events.",
)


if not TYPE_CHECKING:
    __getattr__ = moved(__name__)
