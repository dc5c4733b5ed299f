"""Posting to an address: what is sent, what counts as taken, and what is never shown."""

from __future__ import annotations

import email.utils
import socket
import threading
import time
from contextlib import suppress

import pytest

from penstock.core.errors import ConfigurationError
from penstock.released.sinks.base import Interruptible, SinkError
from penstock.released.sinks.http_post import MAX_WAIT_SECONDS
from penstock.released.sinks.release_document import document
from penstock.released.sinks.webhook import WebhookSink

from tests.released.sinks.items import AWKWARD, item, items, link, series
from tests.webhook_receiver import receiving

TAPS = series()
SECRET = "hunter2-token"


@pytest.fixture
def receiver():
    with receiving() as server:
        yield server


def test_each_unit_is_posted_with_a_key_of_its_own(receiver):
    of = series(AWKWARD)
    WebhookSink(receiver.url, token=SECRET).put(items(of, 1, 2))
    assert [body for _, _, body in receiver.got] == [document(one) for one in items(of, 1, 2)]
    path, headers, _ = receiver.got[0]
    assert path == "/hooks/of-secret-name?sig=hidden"
    assert headers["Idempotency-Key"] == f"Z%C3%BCrich%2Ft%C3%A4glich%20%E2%9C%93/1/{link(of, 1)}"
    assert headers["Authorization"] == f"Bearer {SECRET}"
    assert headers["Content-Type"] == "application/json"


def test_repeating_sends_the_same_again(receiver):
    sink = WebhookSink(receiver.url)
    for _ in range(2):
        sink.put([item(TAPS, 1)])
    first, second = receiver.got
    assert first == second
    assert "Authorization" not in first[1]


def test_nobody_can_tell_what_it_holds(receiver):
    sink = WebhookSink(receiver.url)
    sink.put([item(TAPS, 1)])
    assert sink.head("taps") is None
    sink.close()


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
def test_any_success_will_do(receiver, status):
    receiver.answers = [(status, {})]
    WebhookSink(receiver.url).put([item(TAPS, 1)])


@pytest.mark.parametrize(
    ("status", "lasting"),
    [
        (500, False),
        (503, False),
        (408, False),
        (425, False),
        (429, False),
        (400, True),
        (401, True),
        (404, True),
        (410, True),
    ],
)
def test_what_is_not_taken_comes_again(receiver, status, lasting):
    receiver.answers = [(200, {}), (status, {})]
    sink = WebhookSink(receiver.url, token=SECRET)
    with pytest.raises(
        SinkError, match=f"unit 2 of 'taps': answered with status {status}; it will be sent again"
    ) as caught:
        sink.put(items(TAPS, 1, 3))
    assert (caught.value.lasting, caught.value.done, caught.value.after) == (lasting, 1, None)
    assert len(receiver.got) == 2
    sink.put(items(TAPS, 2, 3))
    assert [body for _, _, body in receiver.got[2:]] == [document(one) for one in items(TAPS, 2, 3)]


@pytest.mark.parametrize(
    ("header", "after"),
    [
        ("7", 7.0),
        (" 7 ", 7.0),
        ("0", 0.0),
        ("9" * 400, MAX_WAIT_SECONDS),
        ("soon", None),
        ("-3", None),
        ("٣", None),
        ("", None),
    ],
)
def test_it_is_left_alone_as_long_as_it_asks(receiver, header, after):
    receiver.answers = [(429, {"Retry-After": header.encode().decode("latin-1")})]
    with pytest.raises(SinkError) as caught:
        WebhookSink(receiver.url).put([item(TAPS, 1)])
    assert caught.value.after == after


def test_it_may_ask_with_a_date(receiver):
    receiver.answers = [
        (503, {"Retry-After": email.utils.formatdate(time.time() + 1000, usegmt=True)}),
        (503, {"Retry-After": "Thu, 01 Jan 1970 00:00:00 GMT"}),
        (503, {"Retry-After": "Thu, 01 Jan 1970 00:00:00"}),
    ]
    found = []
    for _ in range(3):
        with pytest.raises(SinkError) as caught:
            WebhookSink(receiver.url).put([item(TAPS, 1)])
        found.append(caught.value.after)
    assert 0 < found[0] <= 1001
    assert found[1:] == [0.0, 0.0]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_not_followed_and_the_token_goes_nowhere_else(receiver, status):
    receiver.answers = [
        (status, {"Location": receiver.url.replace("127.0.0.1", "localhost") + "&elsewhere"})
    ]
    with pytest.raises(SinkError, match=f"status {status}") as caught:
        WebhookSink(receiver.url, token=SECRET).put([item(TAPS, 1)])
    assert caught.value.lasting
    assert len(receiver.got) == 1


def shows(error: SinkError) -> str:
    return f"{error} {error!r} {error.args} {error.__cause__}"


def test_neither_the_address_nor_the_token_nor_the_answer_is_shown(receiver):
    receiver.answers = [(500, {}), (302, {"Location": "http://elsewhere.example/inner"})]
    sink = WebhookSink(receiver.url, token=SECRET)
    texts = [repr(sink), str(sink)]
    for _ in range(2):
        with pytest.raises(SinkError) as caught:
            sink.put([item(TAPS, 1)])
        texts.append(shows(caught.value))
    receiver.shutdown()
    receiver.server_close()
    with pytest.raises(SinkError, match="could not be reached") as caught:
        sink.put([item(TAPS, 1)])
    texts.append(shows(caught.value))
    assert not caught.value.lasting
    for text in texts:
        for secret in (
            SECRET,
            "hooks",
            "hidden",
            "127.0.0.1",
            "elsewhere",
            "body of an answer",
            "of-secret-name",
        ):
            assert secret not in text


def test_a_receiver_that_never_answers_does_not_hold_it_up():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        sink = WebhookSink(f"http://127.0.0.1:{silent.getsockname()[1]}/", timeout=0.1)
        with pytest.raises(
            SinkError, match=r"unit 1 of 'taps': no whole answer in time \(at most 0.1 seconds\)"
        ) as caught:
            sink.put([item(TAPS, 1)])
    assert not caught.value.lasting


def read_request(connection):
    """Read a request to the end of its body."""
    while b"public" not in (connection.recv(65536) or b"public"):
        pass


def test_a_receiver_that_drips_its_answer_does_not_hold_it_up():
    with socket.create_server(("127.0.0.1", 0)) as server:

        def drip() -> None:
            connection, _ = server.accept()
            with connection, suppress(OSError):
                read_request(connection)
                connection.sendall(b"HTTP/1.1 200 OK\r\nX-Slow: ")
                for _ in range(200):
                    threading.Event().wait(0.01)
                    connection.sendall(b"y")
                connection.sendall(b"\r\n\r\n")

        thread = threading.Thread(target=drip)
        thread.start()
        with pytest.raises(SinkError, match="no whole answer in time") as caught:
            WebhookSink(f"http://127.0.0.1:{server.getsockname()[1]}/", timeout=0.3).put(
                [item(TAPS, 1)]
            )
        thread.join()
    assert not caught.value.lasting


def test_a_request_under_way_can_be_interrupted():
    with socket.create_server(("127.0.0.1", 0)) as server:
        sink = WebhookSink(f"http://127.0.0.1:{server.getsockname()[1]}/", timeout=600)
        assert isinstance(sink, Interruptible)
        sink.interrupt()  # nothing is under way

        def wait() -> None:
            connection, _ = server.accept()
            with connection:
                read_request(connection)
                sink.interrupt()
                while connection.recv(65536):
                    pass

        thread = threading.Thread(target=wait)
        thread.start()
        with pytest.raises(SinkError, match="it will be sent again"):
            sink.put([item(TAPS, 1)])
        thread.join()


@pytest.mark.parametrize(
    "answer",
    [b"", b"nonsense\r\n\r\n", b"HTTP/1.1 abc\r\n\r\n", b"HTTP/1.1 200 OK\r\nX: " + b"y" * 70_000],
)
def test_nonsense_is_no_success(answer):
    with socket.create_server(("127.0.0.1", 0)) as server:

        def speak() -> None:
            connection, _ = server.accept()
            with connection:
                read_request(connection)
                connection.sendall(answer)

        thread = threading.Thread(target=speak)
        thread.start()
        with pytest.raises(SinkError, match="could not be reached"):
            WebhookSink(f"http://127.0.0.1:{server.getsockname()[1]}/", timeout=5).put(
                [item(TAPS, 1)]
            )
        thread.join()


@pytest.mark.parametrize(
    "url",
    [
        "ftp://hidden.example/",
        "file:///hidden",
        "hidden",
        "http://",
        "http://hidden:port/",
        "http://hidden/a b",
        "http://[hidden/",
    ],
)
def test_an_address_that_cannot_be_is_refused_and_not_shown(url):
    with pytest.raises(ConfigurationError, match=r"https://example.org/releases") as caught:
        WebhookSink(url)
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize("token", ["", "hidden\r\nX: y", "hidden ", "hiddén"])
def test_a_token_that_cannot_be_is_refused_and_not_shown(token):
    with pytest.raises(ConfigurationError, match="token must be") as caught:
        WebhookSink("https://example.org/", token=token)
    assert "hidd" not in str(caught.value)


def test_a_password_in_the_address_is_refused_and_not_shown():
    with pytest.raises(ConfigurationError, match="use a token") as caught:
        WebhookSink("https://somebody:hidden@example.org/")
    assert "hidden" not in str(caught.value)


def test_many_keys_fit(receiver):
    one = item(series("cells", 88_762), 1)
    WebhookSink(receiver.url).put([one])
    assert receiver.got[0][2] == document(one)
