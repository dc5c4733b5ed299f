"""Every parser that strangers or files reach, each as a function from bytes to nothing.

A parser returns, or refuses the input with an error that is named here. No other error may leave
it. Where inputs are private, no error, answer, log line or `repr` shows a piece of `SECRET`, which
the corpus has in many places.
"""

from __future__ import annotations

import gzip
import json
import logging
import socket
import struct
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeAlias

import h11

from penstock.core.errors import ConfigurationError
from penstock.engine.pipeline import Pipeline
from penstock.private.sources import mqtt
from penstock.private.sources.avro import AvroMessages
from penstock.private.sources.base import Columns, Intake, Rejections
from penstock.private.sources.http import HttpSource
from penstock.private.sources.json_arrays import ArrayError, LongObjectError, array_lines
from penstock.private.sources.message_formats import JsonMessages
from penstock.private.sources.request_bodies import (
    JSON,
    NDJSON,
    STREAM,
    BodyError,
    Encoding,
    RequestBodies,
)

SECRET = "kestrel71-marigold-Quartz5"
LEAK_BYTES = 8
MAX_SIZE = 2**16
MAX_ROWS = 50
MAX_LINES_ALONE = 6
TOKEN = "0123456789abcdef-fuzz"
STATUSES = {100, 200, 400, 401, 404, 405, 408, 413, 415, 422, 429}

COLUMNS = Columns("time", "key", person="person")
INTAKE = Intake(columns=COLUMNS, domain=("north", "south"))
NUMBERS = Intake(
    columns=Columns("time", "key", person="person", clock="milliseconds", person_type="integer"),
    domain=("north", "south"),
    other="south",
)
SCHEMA = (Path(__file__).parent / "corpus" / "avro_schemas" / "all_types.json").read_text("utf-8")

Parse: TypeAlias = Callable[[bytes], None]


class LeakError(AssertionError):
    """A text that shows a piece of the secret."""


class LimitError(AssertionError):
    """More rows than the limit, or an answer that the server never gives on purpose."""


def check_text(*texts: object) -> None:
    """Check that no piece of the secret shows in these texts."""
    shown = " ".join(map(str, texts))
    for start in range(len(SECRET) - LEAK_BYTES + 1):
        if SECRET[start : start + LEAK_BYTES] in shown:
            raise LeakError("a text shows a piece of the secret")


@dataclass(frozen=True, kw_only=True)
class Target:
    """A parser, and what it may do.

    Parameters
    ----------
    name : str
        The name, which is that of its folder in `corpus`.
    opened : callable
        Gives a context manager with the parser.
    refusals : tuple of exception types
        The errors by which it may refuse an input. Default: none.
    private : bool
        Whether inputs are private. Default: True.
    tokens : sequence of bytes
        Words of the format. Default: none.
    pack : callable
        Makes an input of a file of the corpus. Default: it is the file's content.
    corpus : str, optional
        The folder of another target's corpus. Default: `name`.
    mutants : int
        How many mutants a quick test tries, which takes less than a CPU second.
    """

    name: str
    opened: Callable[[], AbstractContextManager[Parse]]
    refusals: tuple[type[Exception], ...] = ()
    private: bool = True
    tokens: Sequence[bytes] = ()
    pack: Callable[[bytes], bytes] = bytes
    corpus: str = ""
    mutants: int

    def check(self, parse: Parse, data: bytes) -> None:
        """Check one input. Errors that are not refusals are left to the caller."""
        try:
            parse(data)
        except self.refusals as error:
            if self.private:
                check_text(*_chain(error))

    def inputs(self) -> dict[str, bytes]:
        """The files of its corpus."""
        folder = Path(__file__).parent / "corpus" / (self.corpus or self.name)
        return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def _chain(error: BaseException | None) -> Iterator[str]:
    """All texts that a traceback would show."""
    while error is not None:
        yield f"{error} {error!r} {error.__dict__}"
        hidden = error.__suppress_context__ or error.__cause__ is not None
        error = error.__cause__ if hidden else error.__context__


@contextmanager
def _always(parse: Parse) -> Iterator[Parse]:
    """A parser that needs nothing."""
    yield parse


# -- request bodies --------------------------------------------------------------------------------


def _body(data: bytes, *, media: str, encoding: Encoding) -> None:
    for intake in (INTAKE, NUMBERS):
        rejections, rows = Rejections(), 0
        bodies = RequestBodies(intake=intake, size=MAX_SIZE, rows=MAX_ROWS)
        try:
            for batch in bodies.batches(data, media, encoding, rejections):
                rows += len(batch)
                check_text(repr(batch))
        finally:
            check_text(rejections, rejections.for_operator())
        if rows > MAX_ROWS:
            raise LimitError("more rows than the limit")


def _lines_alone(data: bytes) -> None:
    """Whether a line is taken depends on that line alone, whatever stands beside it."""
    lines = [line for line in data.split(b"\n") if line][:MAX_LINES_ALONE]
    bodies = RequestBodies(intake=INTAKE, size=MAX_SIZE, rows=MAX_ROWS)

    def read(*some: bytes) -> list[tuple[object, ...]]:
        return [
            row
            for batch in bodies.batches(b"\n".join(some), NDJSON, "", Rejections())
            for person in [batch.person.cast("large_binary").to_pylist()]
            for row in zip(batch.time, batch.key, person, strict=True)
        ]

    alone = [row for line in lines for row in read(line)]
    if not read(*lines) == alone == read(*lines, b'{"time":') == read(b"{}", *lines, b"{]}"):
        raise LimitError("a line is taken or dropped because of another")


def _array_pieces(data: bytes) -> None:
    """An array is split alike wherever its pieces end."""

    def split(size: int, limit: int) -> bytes | type[Exception]:
        pieces = (data[start : start + size] for start in range(0, len(data), size))
        try:
            return b"".join(array_lines(pieces, limit=limit))
        except (ArrayError, LongObjectError) as error:
            return type(error)

    most = max(len(data), 1)
    if not split(most, most) == split(50, most) == split(1_000, most):
        raise LimitError("where a piece ends makes a difference")
    split(7, limit=60)  # longer elements are passed on unchecked


# -- messages --------------------------------------------------------------------------------------


def _json_messages(data: bytes) -> None:
    """Messages of Kafka, which the byte 0x1e divides."""
    _taken(JsonMessages(limit=2**12), data.split(b"\x1e"), INTAKE, NUMBERS)


def _mqtt_payload(data: bytes) -> None:
    rejections = Rejections()
    _taken(JsonMessages(), mqtt._values(data, rejections), INTAKE, NUMBERS)


def _avro_values(data: bytes) -> None:
    _taken(AvroMessages(SCHEMA, limit=2**12), [data, data[1:], data[:-1]], INTAKE)


def _taken(form: JsonMessages | AvroMessages, values: Sequence[bytes], *intakes: Intake) -> None:
    for intake in intakes:
        rejections = Rejections()
        table = form.table(values, intake.columns, rejections=rejections)
        batch = intake.batch(table, position=None, rejections=rejections)
        check_text(repr(batch), rejections, rejections.for_operator())
        if len(batch) > len(values):
            raise LimitError("more rows than messages")


def _avro_schema(data: bytes) -> None:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return  # the file is read as UTF-8 before
    form = AvroMessages(text, limit=2**12)
    form.check(INTAKE.columns)
    values = [bytes(40), b"\x02" * 40, bytes(range(256)), b"\xff" * 30 + b"\x01", b"\x01"]
    _taken(form, values, INTAKE)


# -- whole requests --------------------------------------------------------------------------------


@contextmanager
def _requests() -> Iterator[Parse]:
    """The real server on the loopback, with a thread that keeps all events."""
    source = HttpSource(
        intake=INTAKE, host="127.0.0.1", port=0, token=TOKEN, size=MAX_SIZE, rows=MAX_ROWS
    )
    log = _LogChecker()
    source.open({})
    logging.getLogger().addHandler(log)
    ended = threading.Event()

    def keep() -> None:
        after = None
        while not ended.is_set():
            source.wait(1)
            for batch in source.batches(after):
                source.kept(batch)
                after = batch.position

    keeper = threading.Thread(target=keep, daemon=True)
    keeper.start()
    try:
        yield partial(_request, source, log)
    finally:
        ended.set()
        keeper.join()
        source.close()
        logging.getLogger().removeHandler(log)


class _LogChecker(logging.Handler):
    """Remembers what was logged."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(self.format(record))


def _request(source: HttpSource, log: _LogChecker, data: bytes) -> None:
    """Send the bytes and look at the answer. A request that is not whole is given up."""
    with socket.create_connection(source.address, timeout=60) as connection:
        # Reset the connection at the end: tens of thousands would wait for their time to run out.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        try:
            connection.sendall(data)
            if not data or not _is_whole(data):
                connection.shutdown(socket.SHUT_WR)
            answer = _answer(connection)
        except ConnectionError:  # the server ends a connection that does not speak HTTP
            answer = b""
    check_text(answer.decode("latin-1"), *log.texts)
    log.texts.clear()
    if answer and int(answer.split(b" ", 2)[1]) not in STATUSES:
        raise LimitError(f"the answer was {answer[:60]!r}")


def _is_whole(data: bytes) -> bool:
    """Whether the server answers without further bytes."""
    reader = h11.Connection(h11.SERVER)
    reader.receive_data(data)
    try:
        while True:
            event = reader.next_event()
            if isinstance(event, h11.EndOfMessage):
                return True
            if not isinstance(event, (h11.Request, h11.Data)):
                return False
    except h11.RemoteProtocolError:
        return True


def _answer(connection: socket.socket) -> bytes:
    """One whole answer, or what comes before the end of the connection."""
    reader, answer = h11.Connection(h11.CLIENT), b""
    reader.send(h11.Request(method="GET", target="/", headers=[("host", "fuzz")]))
    reader.send(h11.EndOfMessage())
    while piece := connection.recv(2**16):
        answer += piece
        reader.receive_data(piece)
        event = reader.next_event()
        while isinstance(event, (h11.InformationalResponse, h11.Response, h11.Data)):
            event = reader.next_event()
        if isinstance(event, h11.EndOfMessage):
            break
    return answer


# -- pipelines -------------------------------------------------------------------------------------


@contextmanager
def _pipelines() -> Iterator[Parse]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pipeline.toml"

        def parse(data: bytes) -> None:
            path.write_bytes(data)
            pipeline = Pipeline.read(path)
            pipeline.facts()
            repr(pipeline)

        yield parse


JSON_TOKENS = (
    *(
        b'"time":',
        b'"key":',
        b'"person":',
        b'"north"',
        b'"events":[',
        b'{"',
        b'"}',
        b"},{",
        b"}\n{",
    ),
    *(b'"2026-01-01T00:00:00Z"', b"1767225600000", b"1e308", b"[" * 600, b"]" * 600, b"\x1e"),
    json.dumps(SECRET).encode(),
)
HTTP_TOKENS = (
    *(b"POST ", b"GET ", b"/events", b"/health", b"%00", b"%", b"?", b"#", b"//", b" HTTP/1.1\r\n"),
    *(b"Content-Length: 0\r\n", b"Transfer-Encoding: chunked\r\n", b"Expect: 100-continue\r\n"),
    *(
        b"\r\n\r\n",
        b": ",
        b"Bearer ",
        b"charset=",
        b";",
        b"Content-Encoding: ",
        b"gzip",
        b"identity",
    ),
    *(b"Authorization: ", b"Idempotency-Key: ", b"Content-Type: ", b"Upgrade: websocket\r\n"),
    *(TOKEN.encode(), SECRET.encode(), NDJSON.encode(), JSON.encode(), STREAM.encode()),
)
SCHEMA_TOKENS = (
    *(b'"type":', b'"name":', b'"fields":', b'"items":', b'"values":', b'"symbols":', b'"size":'),
    *(b'"logicalType":', b'"record"', b'"enum"', b'"fixed"', b'"array"', b'"map"', b'"null"'),
    *(b'"string"', b'"long"', b'"timestamp-millis"', b'"date"', b'"decimal"', b'{"type":', b"["),
)
TOML_TOKENS = (
    *(b"[stream]\n", b"[[sink]]\n", b"[[view]]\n", b'"""', b"'''", b"#", b"= ", b"true", b"inf"),
    *(b"nan", b"2026-01-01", b"2026-01-01T00:00:00Z", b"[0, 99]", b'"1h"', b'"1mo"', b'"1/3"'),
    *(b'kind = "http"\n', b'mechanism = "ba"\n', b'share = "1/2"\n', b"window = ", b"epsilon = "),
)

TARGETS = (
    *(
        Target(
            name=f"{name}{'_gzip' if encoding else ''}",
            opened=partial(_always, partial(_body, media=media, encoding=encoding)),
            refusals=(BodyError,),
            tokens=JSON_TOKENS,
            pack=partial(gzip.compress, compresslevel=1, mtime=0) if encoding else bytes,
            corpus=name,
            mutants=mutants,
        )
        for name, media, mutants in (
            ("json_lines", NDJSON, 250),
            ("json_arrays", JSON, 600),
            ("arrow_streams", STREAM, 800),
        )
        for encoding in ("", "gzip")
    ),
    Target(
        name="lines_alone",
        opened=partial(_always, _lines_alone),
        refusals=(BodyError,),
        tokens=JSON_TOKENS,
        corpus="json_lines",
        mutants=40,
    ),
    Target(
        name="array_pieces",
        opened=partial(_always, _array_pieces),
        tokens=JSON_TOKENS,
        corpus="json_arrays",
        mutants=100,
    ),
    Target(name="requests", opened=_requests, tokens=HTTP_TOKENS, mutants=500),
    Target(
        name="json_messages",
        opened=partial(_always, _json_messages),
        tokens=JSON_TOKENS,
        mutants=250,
    ),
    Target(
        name="mqtt_payloads",
        opened=partial(_always, _mqtt_payload),
        tokens=JSON_TOKENS,
        corpus="json_lines",
        mutants=250,
    ),
    Target(name="avro_values", opened=partial(_always, _avro_values), mutants=120),
    Target(
        name="avro_schemas",
        opened=partial(_always, _avro_schema),
        refusals=(ConfigurationError,),
        private=False,
        tokens=SCHEMA_TOKENS,
        mutants=250,
    ),
    Target(
        name="pipelines",
        opened=_pipelines,
        refusals=(ConfigurationError,),
        private=False,
        tokens=TOML_TOKENS,
        mutants=250,
    ),
)
