"""Connecting to a service: what is refused, what is checked, and what an error says."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

import penstock as ps
from penstock.client import service_connection
from penstock.client.remote_reader import RemoteReader
from penstock.client.remote_stream import RemoteStream
from penstock.client.service_connection import ServiceConnection
from penstock.core.errors import ConfigurationError, LedgerError, StateError, StoreUnavailableError
from penstock.engine import history
from penstock.engine.sqlite import SQLiteReader
from penstock.service.options import ServiceOptions
from penstock.service.server import ServiceServer
from penstock.testing import TestNoise, serving

from tests.certificates import Authority

TOKEN = "a-token-for-reading-only"


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    path = tmp_path_factory.mktemp("store") / "taps.db"
    run = ps.Sample(epsilon=1, window=3).run(["north", "south"], noise=TestNoise(1))
    with ps.open_log(path, run) as log:
        for unit in range(9):
            log.append(run.step([unit, 5]))
    return path


@contextmanager
def answering(status, body=b"", headers=(), before=None):
    """A server that answers every request in one way, and keeps the headers that it was sent."""
    seen = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            seen.append((self.path, dict(self.headers)))
            self.send_response(status)
            for name, value in headers:
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", seen
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


# -- addresses and tokens --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "data.example",
        "ftp://data.example",
        "https://",
        "https://data.example?stream=taps",
        "https://data.example/#taps",
        "https://data.example:port",
        "https://dätä.example",
        "https://data.example/a b",
        "https://data.example/\r\nX: y",
        "",
    ],
)
def test_an_address_that_is_none_is_refused(url):
    with pytest.raises(ConfigurationError, match=r"url must be like https://data\.example"):
        ps.connect(url)


def test_an_address_holds_no_password():
    with pytest.raises(ConfigurationError, match="no name and no password: give a token") as caught:
        ps.connect("https://reader:hush-hush@data.example")
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize("url", ["http://data.example", "http://192.0.2.1:8080"])
def test_a_token_is_not_sent_unencrypted_to_another_machine(url):
    with pytest.raises(ConfigurationError, match="it would be sent unencrypted") as caught:
        ps.connect(url, token=TOKEN)
    assert TOKEN not in str(caught.value)


@pytest.mark.parametrize("token", ["", "two words", "line\nbreak", "ümlaut"])
def test_an_odd_token_is_refused_without_being_shown(token):
    with pytest.raises(ConfigurationError, match="token must be printable ASCII") as caught:
        ps.connect("http://127.0.0.1:1", token=token)
    assert not token or token not in str(caught.value)


@pytest.mark.parametrize("timeout", [0, -1, 3601, float("nan")])
def test_a_timeout_that_is_none_is_refused(timeout):
    with pytest.raises(ConfigurationError, match="timeout must be above 0"):
        ps.connect("http://127.0.0.1:1", timeout=timeout)


def test_a_token_opens_a_service_that_wants_one(store):
    with serving(store, token=TOKEN) as url:
        for given in (None, "another-token-of-24-char"):
            with pytest.raises(ConfigurationError, match="wants the token for reading"):
                ps.connect(url, token=given)
        with ps.connect(url, token=TOKEN) as stream:
            assert len(stream) == 9
            assert TOKEN not in repr(stream)
            assert TOKEN not in repr(vars(stream))


def test_a_token_is_in_a_header_and_nowhere_else():
    with (
        answering(200, b'{"streams": []}') as (url, seen),
        pytest.raises(ConfigurationError, match="none yet"),
    ):
        ps.connect(url, token=TOKEN)
    ((path, headers),) = seen
    assert path == "/v1/streams"
    assert headers.pop("Authorization") == f"Bearer {TOKEN}"
    assert TOKEN not in str(headers)


# -- streams ---------------------------------------------------------------------------------------


def test_a_wrong_stream_gets_the_nearest_name(store):
    with serving(store) as url:
        with pytest.raises(ConfigurationError, match=r"no stream 'tap' at .* mean 'taps'\?"):
            ps.connect(url, "tap")
        with pytest.raises(ConfigurationError, match=r"no stream 'x' at .* It has 'taps'\."):
            ps.connect(url, "x")


def test_one_of_several_streams_must_be_chosen(store, tmp_path):
    run = ps.Laplace(epsilon=1).run(2, noise=TestNoise(1))
    with ps.open_log(tmp_path / "other.db", run, name="buses/per hour") as log:
        log.append(run.step([1, 2]))
    stores = [lambda path=path: SQLiteReader(path) for path in (store, tmp_path / "other.db")]
    options = ServiceOptions(listen="127.0.0.1:0")
    with ServiceServer(options, stores, tmp_path / "copies") as service:
        with pytest.raises(ConfigurationError, match=r"one of the streams of .*'buses/per hour', "):
            ps.connect(service.url)
        with ps.connect(service.url, "buses/per hour") as stream:
            assert len(stream) == 1
        with ps.connect(f"{service.url}/", "taps") as stream:
            assert len(stream) == 9


# -- services that are away, or are none -----------------------------------------------------------


def test_a_service_that_is_away_may_come_back():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(StoreUnavailableError, match="cannot be reached: connection refused"):
        ps.connect(f"http://127.0.0.1:{port}")


def test_a_silent_service_is_given_up():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(StoreUnavailableError, match="did not answer in time"):
            ps.connect(url, timeout=0.05)


@pytest.mark.parametrize(
    ("status", "error", "message"),
    [
        (503, StoreUnavailableError, r"answers 503: the copy is made\."),
        (429, StoreUnavailableError, r"answers 429: the copy is made\."),
        (401, ConfigurationError, r"wants the token for reading\. the copy is made\."),
        (404, ConfigurationError, r"answers 404: the copy is made\."),
        (418, StateError, r"answers 418: the copy is made\."),
        (302, ConfigurationError, "has moved to another address"),
    ],
)
def test_an_answer_that_is_none_is_an_error_with_the_sentence_of_the_service(
    status, error, message
):
    body = b'{"error": "the copy\\u0007 is made.", "nearest": null}'
    with (
        answering(status, body, [("Location", "http://127.0.0.1:1/")]) as (url, _),
        pytest.raises(error, match=message),
    ):
        ps.connect(url)


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"[]", b"{}", b'{"streams": 1}', b"\xff", b"[" * 10_000]
)
def test_another_server_is_told_from_a_service(body):
    with (
        answering(200, body) as (url, _),
        pytest.raises(StateError, match="does not answer like a read service of Penstock"),
    ):
        ps.connect(url)


def test_a_reply_that_is_too_long_is_refused(monkeypatch):
    monkeypatch.setattr(service_connection, "MAX_REPLY_BYTES", 20)
    with (
        answering(200, b'{"streams": [], "more": 1}') as (url, _),
        pytest.raises(StateError, match="sends a reply of more than 20 bytes"),
    ):
        ps.connect(url)


def test_a_connection_that_was_closed_is_opened_again(store, tmp_path):
    options = ServiceOptions(listen="127.0.0.1:0")
    with ServiceServer(options, [lambda: SQLiteReader(store)], tmp_path / "copies") as service:
        port = int(service.url.rpartition(":")[2])
        stream = ps.connect(service.url)
    options = ServiceOptions(listen=f"127.0.0.1:{port}")
    with ServiceServer(options, [lambda: SQLiteReader(store)], tmp_path / "copies"):
        assert stream.refresh().unit == 9
        assert len(stream.to_polars()) == 18
    stream.close()


# -- TLS -------------------------------------------------------------------------------------------


def test_a_certificate_is_checked(store, tmp_path):
    authority = Authority(tmp_path / "tls")
    options = ServiceOptions(listen="127.0.0.1:0", tls=authority.server(), token=TOKEN)
    with ServiceServer(options, [lambda: SQLiteReader(store)], tmp_path / "copies") as service:
        assert service.url.startswith("https://")
        with pytest.raises(StateError, match=r"its certificate is not trusted .*certificates=…"):
            ps.connect(service.url, token=TOKEN)
        trusted = tmp_path / "tls" / "ca.pem"
        with ps.connect(service.url, token=TOKEN, certificates=trusted) as stream:
            assert stream.verify().links == 9 + 3
    with pytest.raises(ConfigurationError, match="no PEM file with certificates"):
        ps.connect("https://127.0.0.1:1", certificates=store)


# -- a service that changes what it sends ----------------------------------------------------------


class Meddler(ServiceConnection):
    """Changes the units of a history on their way."""

    change = staticmethod(lambda unit: unit)

    def get(self, *parts, **parameters):
        body = super().get(*parts, **parameters)
        if parts[-1] == "about":
            return self.change(body) if isinstance(self.change(b"{}"), bytes) else body
        if parts[-1] != "history":
            return body
        found = history.read(body)
        units = [self._changed(unit) for unit in found.units]
        return history.written(history.History(found.format, found.series, found.before, units))

    def _changed(self, unit):
        found = self.change(unit)
        return found if isinstance(found, history.UnitHistory) else unit


def other(found, /, **fields):
    values = {name: getattr(found, name) for name in found.__struct_fields__}
    return type(found)(**(values | fields))


def line(unit, **fields):
    if not isinstance(unit, history.UnitHistory) or not unit.lines:
        return unit
    return other(unit, lines=[other(unit.lines[0], **fields), *unit.lines[1:]])


def of(found, number, **fields):
    if not isinstance(found, history.UnitHistory) or found.unit != number:
        return found
    return other(found, **fields)


def text(found, old, new):
    return found.replace(old, new) if isinstance(found, bytes) else found


@pytest.mark.parametrize(
    "change",
    [
        lambda unit: of(unit, 4, body=b"\x80"),
        lambda unit: of(unit, 4, flags=b"\x92\xc3\xc3"),
        lambda unit: of(unit, 4, digest=bytes(32)),
        lambda unit: of(unit, 4, link=bytes(32)),
        lambda unit: of(unit, 4, body_of=2),
        lambda unit: of(unit, 4, lines=[]),
        lambda unit: of(unit, 4, unit=5),
        lambda unit: line(unit, amount=0),
        lambda unit: line(unit, label="nothing"),
        lambda unit: line(unit, link=bytes(32)),
        lambda found: text(found, b"south", b"north2"),
        lambda found: text(found, b'"window":3', b'"window":9'),
    ],
)
def test_a_changed_unit_line_or_promise_is_noticed(store, change):
    with serving(store) as url:
        meddler = Meddler(url)
        meddler.change = change
        with RemoteStream(RemoteReader(meddler), "taps") as stream:
            with pytest.raises((LedgerError, StateError)):
                stream.verify()
            with pytest.raises((LedgerError, StateError)):
                stream.to_polars()


def test_a_repeated_release_with_other_numbers_is_noticed(store):
    with serving(store) as url, ps.connect(url) as stream:
        reader = stream._reader
        stream.to_polars()
        unit = reader._units["taps", 4]
        assert unit.body is not None
        reader._units["taps", 4] = other(unit, digest=bytes(32))
        with pytest.raises(LedgerError, match=r"unit 5 of http.* does not continue the chain"):
            list(reader.releases("taps", 5, 5))
