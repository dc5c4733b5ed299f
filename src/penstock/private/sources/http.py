"""Events by HTTP: batches that are answered once they are on disk."""

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
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, TypeAlias

from penstock.core.declaration import Option
from penstock.core.deprecated import moved
from penstock.core.errors import ConfigurationError, StateError
from penstock.core.exact import whole
from penstock.core.optional import require
from penstock.core.web_server import bound, configuration
from penstock.private.sources.base import (
    Batch,
    Intake,
    Position,
    Receiver,
    Rejections,
    Source,
    SourceKind,
    SourceSetup,
)
from penstock.private.sources.idempotency import Entry, IdempotencyKeys
from penstock.private.sources.inbox import BUSY, CLOSED, KEPT, Inbox, SenderReply, Sending
from penstock.private.sources.request_bodies import (
    MAX_BODY_BYTES,
    MAX_ROWS_PER_BODY,
    MEDIA_TYPES,
    BodyError,
    Encoding,
    RequestBodies,
)

Request: TypeAlias = Any
Response: TypeAlias = Any

EVENTS = 4_000_000
BYTES = 256 * 2**20
WINDOW = 100_000
PATIENCE = 30
CONNECTIONS = 1_000
IDLE = 75
GRACE = 5
LEAST = 16
PURPOSE = "taking events by HTTP"

UNKNOWN = SenderReply(401, "a bearer token is needed.")
SLOW = SenderReply(408, "the body did not come in time; nothing was taken.")
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
    disk.

    Whoever sends needs the `token`, as `Authorization: Bearer …`. The body is JSON lines, JSON or
    an Arrow stream, perhaps with `Content-Encoding: gzip`; `RequestBodies` says which and what
    becomes of bad rows. The answer is the same whatever is in it: neither answers nor logs show
    data, nor how much of it was good.

    With an `Idempotency-Key` (up to 200 printable characters) a batch counts once, however often it
    is sent: at least the last `window` keys are known, after a restart too, as they are kept with
    the events. A key that comes again with another body is answered 422: the bytes that are sent
    must be the same, with their type and encoding. Requests without a key are batches of their own.

    ======
    ==============================================================================================
    200    kept: it is on disk, and will be counted once 400    the body or the key cannot be read
    413  it is too large: send it in pieces 401    no token, or a wrong one                      415
    another type or encoding 408    the body did not come within `patience`       422  the key came
    before with another body 429    too much is waiting (`most_events`, `most_bytes`): nothing was
    taken, send it again after `Retry-After` 503    not on disk within `patience` seconds, or the
    server is closing: send it again with its key ======
    ==============================================================================================

    It speaks plain HTTP: towards other machines a proxy before it adds encryption, and limits who
    may connect.
    """

    intake: Intake
    host: str
    port: int
    token: str = field(repr=False)
    size: int = MAX_BODY_BYTES
    rows: int = MAX_ROWS_PER_BODY
    most_events: int = EVENTS
    most_bytes: int = BYTES
    window: int = WINDOW
    patience: float = PATIENCE
    connections: int = CONNECTIONS
    rejections: Rejections = field(default_factory=Rejections, init=False)

    def __post_init__(self) -> None:
        least = {
            "port": 0,
            "size": 1,
            "rows": 1,
            "most_events": self.rows,
            "most_bytes": self.size,
            "window": 1,
            "connections": 1,
        }
        for name, value in least.items():
            whole(getattr(self, name), name=name, least=value)
        if self.port > 65_535:
            raise ConfigurationError(f"port must be at most 65535, not {self.port}.")
        if not self.patience > 0:
            raise ConfigurationError(f"patience must be above 0 seconds, not {self.patience}.")
        if len(self.token) < LEAST or not _TOKEN.fullmatch(self.token):
            raise ConfigurationError(
                f"token must have at least {LEAST} characters, all printable ASCII and no space."
            )
        for name in ("fastapi", "uvicorn"):
            require(name, "serve", PURPOSE)

    @property
    def resumable(self) -> bool:
        return True

    @property
    def answers(self) -> bool:
        return True

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens: the host and the port, as they were bound."""
        return self._server.address

    def open(self, parts: Mapping[str, bytes]) -> None:
        """Listen, with the idempotency keys that were kept."""
        self._inbox.seen.restore(parts)
        self._server.open(self.host, self.port)

    def wait(self, seconds: float) -> None:
        self._server.check()
        self._inbox.wait(seconds)

    def batches(self, after: Position | None = None) -> Iterator[Batch]:
        """What has come until now, several requests in one batch. A batch is given again until it
        is kept or passed.
        """
        self._server.check()
        yield from self._inbox.batches(after)

    def kept(self, batch: Batch) -> None:
        self._inbox.kept(batch)

    def close(self) -> None:
        """Answer 503 to all who wait, and listen no more."""
        self._inbox.close()
        self._server.close()

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
    def _server(self) -> _IngestServer:
        bodies = RequestBodies(intake=self.intake, size=self.size, rows=self.rows)
        desk = _IngestDesk(
            bodies=bodies, inbox=self._inbox, token=_digest(self.token), patience=self.patience
        )
        return _IngestServer(desk=desk, connections=self.connections)


@dataclass(kw_only=True, eq=False)
class _IngestServer:
    """The thread that serves, and the one that reads bodies so that the first can go on answering."""

    desk: _IngestDesk
    connections: int
    _server: Any = field(default=None, init=False)
    _thread: Thread | None = field(default=None, init=False)
    _address: tuple[str, int] | None = field(default=None, init=False)

    @property
    def address(self) -> tuple[str, int]:
        if self._address is None:
            raise StateError("http: the source is not open.")
        return self._address

    def open(self, host: str, port: int) -> None:
        if self._thread is not None:
            raise StateError("http: the source was opened before.")
        listening = bound(host, port, key="listen")
        self._address = listening.getsockname()[:2]
        ready = Event()
        self._server = require("uvicorn", "serve", PURPOSE).Server(self._configuration())

        async def serve() -> None:
            self.desk.begin()
            ready.set()
            await self._server.serve(sockets=[listening])

        def run() -> None:
            try:
                asyncio.run(serve())
            except Exception as error:
                log.error("http: the server has failed (%s).", type(error).__name__)
            finally:
                ready.set()
                listening.close()

        self._thread = Thread(target=run, name="penstock-http", daemon=True)
        self._thread.start()
        ready.wait()

    def _configuration(self) -> Any:
        return configuration(
            _application(self.desk),
            patience=self.desk.patience,
            connections=self.connections + 1,
            idle=IDLE,
            grace=GRACE,
            purpose=PURPOSE,
        )

    def check(self) -> None:
        """That whoever sends is still heard."""
        if self._thread is None:
            raise StateError("http: the source is not open.")
        if not self._thread.is_alive() and not self.desk.inbox.closed:
            raise StateError(
                "http: the server has stopped by itself. Start again; what was answered is on disk."
            )

    def close(self) -> None:
        if self._thread is not None:
            self.desk.end()
            self._server.should_exit = True
            self._thread.join(2 * GRACE)
            self.desk.reader.shutdown(wait=False, cancel_futures=True)


@dataclass(kw_only=True, eq=False)
class _IngestDesk:
    """Answers requests, all in the thread of the server."""

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
        """From another thread: wait for no body any more."""

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
            answer = self._refused(request)
            if answer is None:
                answer = await self._taken(request, transit)
            elif answer.status not in (413, 503) and "expect" not in request.headers:
                with suppress(BodyError):
                    await self._within(transit.discard(request))
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
        headers = {401: {"www-authenticate": "Bearer"}, 429: again, 503: again}.get(
            answer.status, {}
        )
        return _response(
            answer.status,
            headers if transit.ended else {**headers, "connection": "close"},
            error=answer.text,
        )

    def _refused(self, request: Request) -> SenderReply | None:
        """What can be said before the body has come."""
        headers = request.headers
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if (
            not hmac.compare_digest(_digest(token.strip()), self.token)
            or scheme.lower() != "bearer"
        ):
            return UNKNOWN
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
        return None if self.inbox.space(size) else BUSY

    async def _taken(self, request: Request, transit: _Transit) -> SenderReply:
        """Read the body, put the events in line, and wait for what becomes of them."""
        body = await self._within(transit.read(request))
        media, encoding = _described(request)
        key = request.headers.get("idempotency-key")
        sending = Sending(
            entry=None if key is None else Entry.of(key, f"{media} {encoding}\n".encode(), body)
        )
        first = self.inbox.enter(sending)
        if first is sending and not sending.outcome.done():
            task = asyncio.ensure_future(self._read(sending, transit.give(), body, media, encoding))
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
        self, sending: Sending, held: int, body: bytes, media: str, encoding: Encoding
    ) -> None:
        """Read a body in the other thread and put its events in line, even if the sender waits no
        longer.
        """
        work = self._loop.run_in_executor(
            self.reader, self.bodies.read, body, media, encoding, sending.rejections
        )
        del body
        try:
            batch, size = await work
        except BodyError as error:
            self.inbox.refuse(sending, SenderReply(error.status, str(error)))
        except Exception as error:
            log.error("http: a request has failed (%s).", type(error).__name__)
            self.inbox.refuse(sending, FAILED)
        else:
            self.inbox.put(sending, batch, size, held)
            return
        self.inbox.release(held)

    async def _within(self, reading: Coroutine[Any, Any, bytes]) -> bytes:
        """What is read of a request, unless it takes too long or the server closes."""
        task = asyncio.ensure_future(reading)
        both: set[asyncio.Future[Any]] = {task, self._closing}
        try:
            done, _ = await asyncio.wait(
                both, timeout=self.patience, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            task.cancel()
        if task in done:
            return task.result()
        raise BodyError(*(CLOSED if self._closing.done() else SLOW))


@dataclass(kw_only=True, eq=False)
class _Transit:
    """A body on its way in: its bytes count among those that wait."""

    inbox: Inbox
    most: int
    held: int = 0
    ended: bool = False

    async def read(self, request: Request) -> bytes:
        pieces = []
        while not self.ended:
            piece = await self._next(request)
            if self.held + len(piece) > self.most:
                raise BodyError(413, _large(self.most))
            if not self.inbox.reserve(len(piece)):
                raise BodyError(*BUSY)
            self.held += len(piece)
            pieces.append(piece)
        return b"".join(pieces)

    async def discard(self, request: Request) -> bytes:
        """Let the sender finish, so that it hears why it was refused."""
        size = 0
        while not self.ended and size <= self.most:
            size += len(await self._next(request))
        return b""

    def give(self) -> int:
        """The bytes that count, which somebody else will release."""
        held, self.held = self.held, 0
        return held

    async def _next(self, request: Request) -> bytes:
        message = await request.receive()
        if message["type"] != "http.request":
            raise BodyError(400, "the sender has gone.")
        self.ended = not message.get("more_body", False)
        return bytes(message.get("body", b""))


def _described(request: Request) -> tuple[str, Encoding]:
    """The type and the encoding of a body, as the sender says; a text that is not in UTF-8 is of no
    known type.
    """
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
    """Two plain routes: nothing is validated by FastAPI, as its errors quote what they refuse."""
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
    return HttpSource(intake=setup.intake, host=host.strip("[]"), port=int(port), token=token)


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
            help="the address to listen at; it speaks plain HTTP, so put a proxy with TLS before it",
        ),
        Option(
            name="token",
            type="secret",
            required=True,
            example="PENSTOCK_TOKEN",
            help="the token that senders need, of at least 16 visible ASCII characters",
        ),
    ),
    describe=lambda options: f"HTTP requests at {options['listen']}",
    extra="serve,columns",
    build=_build,
)


if not TYPE_CHECKING:
    __getattr__ = moved(__name__)
