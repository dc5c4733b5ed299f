"""A real server on a port of its own: what is answered 200 was kept, and is kept once."""

from __future__ import annotations

import gzip
import json
import logging
import socket
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from itertools import product

import httpx
import pyarrow as pa
import pytest

from penstock.core.connections import Phase
from penstock.core.errors import ConfigurationError, MissingExtraError, StateError
from penstock.private.sources import idempotency
from penstock.private.sources.base import Columns, Intake, Receiver
from penstock.private.sources.http import HttpSource
from penstock.private.sources.inbox import REQUEST_OVERHEAD_BYTES
from penstock.private.sources.request_bodies import JSON, NDJSON, STREAM, RequestBodies

from tests.certificates import Authority
from tests.private.sources.events import INTAKE, KEYS, events, jsonl_text, rows_of, table_of
from tests.private.sources.test_request_bodies import BAD_VALUES, stream

TOKEN = "a token of the tests".replace(" ", "-")
DEADLINE = 20
ROWS = events(40)
KEPT = {"status": "kept"}


def until(condition):
    """Wait for something that must happen."""
    end = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.002)


class Engine:
    """A thread that takes batches and, unless it is told to hold, keeps them with their parts as a
    store would.
    """

    def __init__(self, source, after=None, parts=None):
        self.source, self.after, self.parts = source, after, dict(parts or {})
        self.taken, self.batches = [], []
        self.hold, self.idle = threading.Event(), threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self):
        while not self._stop.is_set():
            self.source.wait(0.01)
            if self.idle.is_set():
                continue
            for batch in self.source.batches(self.after):
                self.after = batch.position
                self.taken.append(batch)
            if not self.hold.is_set():
                self.keep()

    def keep(self):
        for batch in self.taken[len(self.batches) :]:
            for name, part in batch.parts.items():
                if part is None:
                    del self.parts[name]
                else:
                    self.parts[name] = part
            self.batches.append(batch)
            self.source.kept(batch)

    @property
    def rows(self):
        return rows_of(self.batches)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()


def source(**parameters):
    parameters = {"intake": INTAKE, "host": "127.0.0.1", "port": 0, "token": TOKEN} | parameters
    return HttpSource(**parameters)


@contextmanager
def served(after=None, parts=None, **parameters):
    """A server, the engine that reads from it, and a client."""
    http = source(**parameters)
    http.open(parts or {})
    headers = {"authorization": f"Bearer {TOKEN}", "content-type": NDJSON}
    base = "http://{}:{}".format(*http.address)
    limits = httpx.Limits(max_connections=None)
    try:
        with (
            Engine(http, after, parts) as engine,
            httpx.Client(base_url=base, headers=headers, timeout=60, limits=limits) as client,
        ):
            yield http, engine, client
    finally:
        http.close()


def post(client, rows=ROWS, key=None, **headers):
    headers |= {"idempotency-key": key} if key else {}
    content = rows if isinstance(rows, bytes) else jsonl_text(rows).encode()
    return client.post(
        "/events",
        content=content,
        headers={name.replace("_", "-"): value for name, value in headers.items()},
    )


@contextmanager
def raw(http):
    with socket.create_connection(http.address, timeout=DEADLINE) as connection:
        yield connection


def head(length, *more, token=TOKEN):
    lines = [
        "POST /events HTTP/1.1",
        "host: test",
        f"authorization: Bearer {token}",
        f"content-type: {NDJSON}",
        *more,
    ]
    return "\r\n".join(
        [*lines, *([] if length is None else [f"content-length: {length}"]), "", ""]
    ).encode()


def requests(http):
    """The number of requests that have no answer yet."""
    table = http._servers[0].table
    return table.count(Phase.BODY) + table.count(Phase.ANSWER)


def answered(connection):
    """The status of an answer, and its content."""
    data = b""
    while b"\r\n\r\n" not in data or not data.endswith(b"}"):
        more = connection.recv(65536)
        assert more, "the connection was closed without an answer"
        data += more
    return int(data.split()[1]), data


def test_it_is_a_receiver_that_can_go_on():
    assert isinstance(source(), Receiver)
    assert source().resumable


def test_events_of_every_format_arrive_and_are_answered_once_kept():
    objects = [json.loads(line) for line in jsonl_text(ROWS).splitlines()]
    with served() as (_, engine, client):
        for content, media, encoding in (
            (jsonl_text(ROWS).encode(), NDJSON, "identity"),
            (gzip.compress(jsonl_text(ROWS).encode()), NDJSON + "; charset=UTF-8", "gzip"),
            (json.dumps(objects).encode(), JSON, ""),
            (json.dumps({"events": objects}).encode(), JSON, ""),
            (stream(table_of(ROWS)), STREAM, ""),
        ):
            answer = post(client, content, content_type=media, content_encoding=encoding)
            assert (answer.status_code, answer.json()) == (200, KEPT)
            assert engine.rows == ROWS
            engine.batches.clear()
            engine.taken.clear()


def test_nobody_hears_of_success_before_it_is_kept():
    with served() as (_, engine, client), ThreadPoolExecutor(1) as pool:
        engine.hold.set()
        waiting = pool.submit(post, client)
        until(lambda: engine.taken)
        assert not waiting.done()
        engine.hold.clear()
        assert waiting.result().json() == KEPT
        assert engine.rows == ROWS


def test_requests_are_merged_into_batches_that_count_up():
    with served(after={"batch": 7}, rows=100) as (_, engine, client), ThreadPoolExecutor(8) as pool:
        engine.idle.set()
        sent = [pool.submit(post, client, events(40, seed)) for seed in range(5)]
        until(lambda: len(engine.source._inbox._ready) == 5)
        engine.idle.clear()
        assert all(each.result().json() == KEPT for each in sent)
        assert [(batch.position, len(batch)) for batch in engine.batches] == [
            ({"batch": 8}, 80),
            ({"batch": 9}, 80),
            ({"batch": 10}, 40),
        ]
        assert sorted(engine.rows) == sorted(row for seed in range(5) for row in events(40, seed))


def test_many_senders_at_once_lose_and_double_nothing():
    with served(rows=200) as (_, engine, client), ThreadPoolExecutor(16) as pool:
        sent = [
            pool.submit(post, client, events(20, seed % 60), f"key {seed % 60}")
            for seed in range(120)
        ]
        assert {each.result().status_code for each in sent} == {200}
        assert sorted(engine.rows) == sorted(row for seed in range(60) for row in events(20, seed))


def test_two_requests_without_a_key_are_two_batches():
    with served() as (_, engine, client):
        assert post(client).json() == post(client).json() == KEPT
        assert engine.rows == ROWS * 2


def test_a_key_that_comes_again_is_answered_and_not_counted():
    with served() as (_, engine, client):
        answers = [post(client, key="monday") for _ in range(3)]
        assert [(each.status_code, each.json()) for each in answers] == [(200, KEPT)] * 3
        assert engine.rows == ROWS


def test_a_key_with_another_body_is_refused():
    with served() as (_, engine, client), ThreadPoolExecutor(1) as pool:
        assert post(client, key="monday").json() == KEPT
        assert post(client, ROWS[1:], key="monday").status_code == 422
        zipped = post(
            client, gzip.compress(jsonl_text(ROWS).encode()), key="monday", content_encoding="gzip"
        )
        assert zipped.status_code == 422
        engine.hold.set()
        waiting = pool.submit(post, client, key="tuesday")
        until(lambda: len(engine.taken) == 2)
        assert post(client, ROWS[1:], key="tuesday").status_code == 422
        engine.hold.clear()
        assert waiting.result().json() == KEPT
        assert engine.rows == ROWS * 2


def test_a_key_that_comes_again_while_the_first_waits_hears_the_same():
    with served() as (http, engine, client), ThreadPoolExecutor(3) as pool:
        engine.hold.set()
        waiting = [pool.submit(post, client, key="monday") for _ in range(3)]
        until(lambda: engine.taken and requests(http) == 3)
        until(lambda: http._inbox._bytes == http._inbox._handed[0][2][0].size)
        assert not any(each.done() for each in waiting)
        engine.hold.clear()
        assert [each.result().json() for each in waiting] == [KEPT] * 3
        assert engine.rows == ROWS


def test_all_who_wait_for_a_body_hear_that_it_cannot_be_read(monkeypatch):
    going, read = threading.Event(), RequestBodies.batches

    def slow(*arguments, **options):
        going.wait(DEADLINE)
        return read(*arguments, **options)

    monkeypatch.setattr(RequestBodies, "batches", slow)
    with served() as (http, engine, client), ThreadPoolExecutor(2) as pool:
        waiting = [
            pool.submit(post, client, b"no array", key="monday", content_type=JSON)
            for _ in range(2)
        ]
        until(lambda: requests(http) == 2 and http._inbox._open)
        going.set()
        assert [each.result().status_code for each in waiting] == [400, 400]
        assert post(client, key="monday").json() == KEPT
        assert engine.rows == ROWS


def test_keys_are_known_after_a_restart():
    with served() as (_, engine, client):
        for number in range(5):
            post(client, key=f"key {number}")
        after, parts = engine.after, engine.parts
    with served(after, parts) as (_, engine, client):
        assert post(client, key="key 3").json() == KEPT
        assert post(client, ROWS[1:], key="key 3").status_code == 422
        assert engine.rows == []
        assert post(client, ROWS[:1], key="key 5").json() == KEPT
        assert engine.rows == ROWS[:1]
        assert engine.after == {"batch": 6}
        assert set(engine.parts) == {"seen/1"}


def test_what_was_not_kept_before_a_restart_may_be_sent_again():
    with served() as (http, engine, client), ThreadPoolExecutor(1) as pool:
        engine.hold.set()
        waiting = pool.submit(post, client, key="monday")
        until(lambda: engine.taken)
        http.close()
        assert waiting.result().status_code == 503
    with served(None, engine.parts) as (_, engine, client):
        assert post(client, key="monday").json() == KEPT
        assert engine.rows == ROWS


def test_only_so_many_keys_are_known(monkeypatch):
    monkeypatch.setattr(idempotency, "MAX_KEYS_PER_PART", 4)
    with served(window=8) as (_, engine, client):
        for number in range(30):
            assert post(client, b"", f"key {number}").json() == KEPT
        assert len(engine.parts) <= 3
        assert post(client, b"", "key 22").json() == KEPT
        assert len(engine.batches) == 30
        post(client, key="key 0")
        assert engine.rows == ROWS


def test_a_key_that_is_no_key_is_refused():
    with served() as (_, engine, client):
        for key in (b"", b"x" * 201, b"caf\xe9", b"tab\tin it"):
            headers = {"idempotency-key": key}
            assert (
                client.post("/events", content=jsonl_text(ROWS), headers=headers).status_code == 400
            )
        assert post(client, key="x" * 200).json() == KEPT
        assert engine.rows == ROWS


def test_without_the_token_nothing_is_taken():
    with served() as (_, engine, client):
        wrong = (
            "",
            "Bearer",
            f"Bearer {TOKEN}x",
            f"Bearer {TOKEN[:-1]}",
            f"Basic {TOKEN}",
            TOKEN,
            "Bearer \xe9",
            f"Bearer x {TOKEN}",
        )
        for authorization in wrong:
            for body in (jsonl_text(ROWS).encode(), b"\n" * 2**22):
                headers = {"authorization": authorization.encode("latin-1")}
                answer = client.post("/events", content=body, headers=headers)
                assert (answer.status_code, answer.json()) == (
                    401,
                    {"error": "a bearer token is needed."},
                )
                assert answer.headers["www-authenticate"] == "Bearer"
        del client.headers["authorization"]
        assert post(client).status_code == 401
        assert client.get("/health").json() == {"status": "listening"}
        assert engine.rows == []


def test_other_types_and_encodings_are_refused():
    with served() as (_, engine, client):
        for media in ("text/csv", "", NDJSON + "; charset=latin-1"):
            assert post(client, content_type=media).status_code == 415
        for encoding in ("br", "gzip, gzip"):
            assert post(client, content_encoding=encoding).status_code == 415
        assert engine.rows == []


def test_bad_rows_are_counted_for_the_operator_and_not_told():
    good = jsonl_text(ROWS).encode()
    lines = [
        b'{"broken',
        b'{"x":"\xff"}',
        b'{"time":"2026-01-01T00:00:00Z","key":"mars","person":1}',
        b'{"key":"north"}',
    ]
    with served() as (http, engine, client):
        answer = post(client, b"\n".join(lines) + b"\n" + good)
        assert (answer.status_code, answer.json()) == (200, KEPT)
        assert engine.rows == ROWS
        assert http.rejections.for_operator() == {
            "broken line": 1,
            "not UTF-8": 1,
            "missing value": 1,
            "unknown key": 1,
        }


@pytest.mark.parametrize("what", [each for each in BAD_VALUES if each != "no person"])
def test_a_sender_of_one_event_is_not_told_whether_it_was_good(what):
    bad, reason = BAD_VALUES[what]
    good = jsonl_text(ROWS[:1]).encode()
    with served() as (http, engine, client):
        answers = [post(client, body, key) for key in (None, "monday") for body in (good, bad)]
        assert [each.status_code for each in answers] == [200, 200, 200, 422]
        assert answers[0].content == answers[1].content
        assert answers[0].headers.keys() == answers[1].headers.keys()
        assert post(client, bad, "tuesday").json() == post(client, bad, "tuesday").json() == KEPT
        assert http.rejections.for_operator() == {reason: 2}
        assert engine.rows == ROWS[:1] * 2


def test_a_sender_whose_event_lacks_a_field_is_told_so():
    with served() as (http, engine, client):
        answer = post(client, BAD_VALUES["no person"][0], "monday")
        assert (answer.status_code, engine.rows) == (400, [])
        assert "no event has the field 'person'" in answer.text
        assert http.rejections.for_operator() == {"missing value": 1}
        assert post(client, key="monday").json() == KEPT


def test_a_body_is_refused_by_its_form_alone_and_may_come_again():
    with served() as (http, engine, client):
        assert post(client, b"[{", key="monday", content_type=JSON).status_code == 400
        assert http.rejections.for_operator() == {}
        assert post(client, key="monday").json() == KEPT
        assert engine.rows == ROWS


def test_the_columns_may_change_from_one_batch_to_the_next():
    table = table_of(ROWS)
    tables = [
        table,
        table.select(["key", "time", "person"]),
        table.set_column(3, "key", table["key"].dictionary_encode()),
        table.append_column("new", pa.array([[1]] * len(ROWS))),
        table.set_column(1, "person", table["person"].cast(pa.string())),
    ]
    with served() as (_, engine, client):
        engine.hold.set()
        with ThreadPoolExecutor(5) as pool:
            sent = [pool.submit(post, client, stream(each), content_type=STREAM) for each in tables]
            until(lambda: sum(map(len, engine.taken)) == 200)
            assert (
                post(client, stream(table.drop_columns(["key"])), content_type=STREAM).status_code
                == 400
            )
            engine.hold.clear()
            assert [each.result().json() for each in sent] == [KEPT] * 5
        assert engine.rows == ROWS * 5


def test_persons_of_several_text_types_come_in_one_batch():
    rows = [(moment, key, str(person)) for moment, key, person in ROWS]
    text = table_of(ROWS)
    text = text.set_column(1, "person", text["person"].cast(pa.string()))
    large = text.set_column(1, "person", text["person"].cast(pa.large_string()))
    words = text.set_column(1, "person", text["person"].dictionary_encode())
    intake = Intake(columns=Columns("time", "key", person="person"), domain=KEYS)
    with served(intake=intake) as (http, engine, client), ThreadPoolExecutor(3) as pool:
        engine.idle.set()
        sent = [
            pool.submit(post, client, stream(each), content_type=STREAM)
            for each in (text, large, words)
        ]
        until(lambda: len(http._inbox._ready) == 3)
        engine.idle.clear()
        assert [each.result().json() for each in sent] == [KEPT] * 3
        assert [len(batch) for batch in engine.batches] == [120]
        assert engine.rows == rows * 3


def test_events_without_a_person_come_without_one():
    with served(intake=Intake(columns=Columns("time", "key"), domain=KEYS)) as (_, engine, client):
        assert post(client).json() == KEPT
        assert engine.batches[0].person is None


def test_what_is_too_large_is_refused_before_it_has_come():
    with served(size=1000) as (http, engine, client):
        with raw(http) as connection:
            connection.sendall(head(1001))
            assert answered(connection)[0] == 413
            assert connection.recv(1) == b""
        with raw(http) as connection:
            connection.sendall(
                head(None, "transfer-encoding: chunked") + b"3e9\r\n" + b"x" * 1001 + b"\r\n"
            )
            assert answered(connection)[0] == 413
        bomb = gzip.compress(b"\n" * 500_000)
        assert len(bomb) <= 1000
        assert post(client, bomb, content_encoding="gzip").status_code == 413
        assert post(client, ROWS[:5]).json() == KEPT
        assert engine.rows == ROWS[:5]
        assert http._inbox._bytes == 0


def test_too_many_waiting_events_are_answered_429():
    with served(rows=60, most_events=100) as (http, engine, client), ThreadPoolExecutor(4) as pool:
        engine.hold.set()
        waiting = [pool.submit(post, client, key=f"key {number}") for number in range(2)]
        until(lambda: sum(map(len, engine.taken)) == 80)
        busy = post(client, key="monday")
        assert (busy.status_code, busy.headers["retry-after"]) == (429, "1")
        engine.hold.clear()
        assert [each.result().json() for each in waiting] == [KEPT] * 2
        assert post(client, key="monday").json() == KEPT
        assert engine.rows == ROWS * 3
        assert (http._inbox._events, http._inbox._bytes) == (0, 0)


def test_too_many_waiting_bytes_are_answered_429():
    body, columns = jsonl_text(ROWS).encode(), 3 * 8 * len(ROWS)
    most = 2 * (columns + REQUEST_OVERHEAD_BYTES) + len(body) - 1
    with (
        served(size=len(body), most_bytes=most) as (http, engine, client),
        ThreadPoolExecutor(4) as pool,
    ):
        engine.hold.set()
        waiting = []
        for count in (1, 2):
            waiting.append(pool.submit(post, client, body))
            until(lambda count=count: len(rows_of(engine.taken)) == count * len(ROWS))
        assert post(client, body).status_code == 429
        with raw(http) as connection:
            connection.sendall(
                head(None, "transfer-encoding: chunked")
                + b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
            )
            assert answered(connection)[0] == 429
        engine.hold.clear()
        assert [each.result().json() for each in waiting] == [KEPT] * 2
        assert post(client, body).json() == KEPT
        assert (http._inbox._events, http._inbox._bytes, len(http._inbox._open)) == (0, 0, 0)


def test_of_two_bodies_that_do_not_fit_together_one_comes_whole():
    body = jsonl_text(ROWS).encode()
    with served(size=len(body), most_bytes=len(body)) as (http, engine, client):
        with raw(http) as first:
            first.sendall(head(len(body)) + body[:1])
            until(lambda: http._inbox._bytes == len(body))
            assert post(client, body).status_code == 429
            first.sendall(body[1:])
            assert answered(first)[0] == 200
        assert engine.rows == ROWS
        assert http._inbox._bytes == 0


def test_what_a_small_body_grows_to_counts_as_waiting():
    rows = events(1) * 4_000
    zipped = gzip.compress(jsonl_text(rows).encode())
    columns = 3 * 8 * len(rows)
    assert len(zipped) < columns // 10
    with (
        served(size=10**6, most_bytes=10**6, most_events=10**6) as (_, engine, client),
        ThreadPoolExecutor(20) as pool,
    ):
        engine.hold.set()
        waiting = []
        for count in range(1, 10**6 // (columns + REQUEST_OVERHEAD_BYTES) + 1):
            waiting.append(pool.submit(post, client, zipped, content_encoding="gzip"))
            until(lambda count=count: sum(map(len, engine.taken)) == count * len(rows))
        assert post(client, zipped, content_encoding="gzip").status_code == 429
        engine.hold.clear()
        assert {each.result().status_code for each in waiting} == {200}


def test_a_sender_that_has_waited_long_is_sent_away_and_its_key_stays_known():
    with served(patience=0.05) as (_, engine, client):
        engine.hold.set()
        late = [post(client, key="monday") for _ in range(2)]
        assert [each.status_code for each in late] == [503, 503]
        assert "same idempotency key" in late[0].json()["error"]
        engine.hold.clear()
        until(lambda: engine.rows)
        assert post(client, key="monday").json() == KEPT
        assert engine.rows == ROWS


def test_a_slow_body_is_given_up_and_others_go_on():
    with served(patience=1) as (http, engine, client), raw(http) as connection:
        connection.sendall(head(1000) + b"{")
        until(lambda: http._inbox._bytes == 1000)
        assert post(client).json() == KEPT
        assert answered(connection)[0] == 408
        assert connection.recv(1) == b""
        until(lambda: http._inbox._bytes == 0)
        assert engine.rows == ROWS


def test_a_connection_that_says_nothing_is_let_go():
    with served(patience=0.05) as (http, _, _), raw(http) as silent, raw(http) as slow:
        slow.sendall(b"POST /events HT")
        assert silent.recv(1) == b""
        assert answered(slow)[0] == 408
        assert slow.recv(1) == b""


def test_slow_second_requests_shut_nobody_out():
    with served(connections=20) as (http, engine, client), ExitStack() as stack:
        for _ in range(25):
            connection = stack.enter_context(raw(http))
            connection.sendall(b"GET /health HTTP/1.1\r\nhost: test\r\n\r\n")
            assert connection.recv(65536)
            connection.sendall(b"POST /events HT")
        assert client.get("/health").json() == {"status": "listening"}
        assert post(client).json() == KEPT
        assert engine.rows == ROWS


def test_a_body_without_a_token_keeps_no_connection_from_a_sender():
    with served(connections=3) as (http, engine, client), ExitStack() as stack:
        for _ in range(5):
            connection = stack.enter_context(raw(http))
            connection.sendall(head(1000, token="wrong") + b"{")
            assert answered(connection)[0] == 401
        assert post(client).json() == KEPT
        assert engine.rows == ROWS


def test_senders_that_wait_keep_their_connections():
    with (
        served(connections=9, connections_per_peer=2) as (http, engine, client),
        ThreadPoolExecutor(2) as pool,
    ):
        engine.hold.set()
        waiting = [pool.submit(post, client) for _ in range(2)]
        until(lambda: sum(map(len, engine.taken)) == 80)
        with raw(http) as another:
            assert another.recv(1) == b""
        engine.hold.clear()
        assert [each.result().json() for each in waiting] == [KEPT] * 2
        assert http.connection_counts == {"refused": 1}


def test_a_body_that_takes_long_to_read_holds_up_no_one_for_ever(monkeypatch):
    going, read = threading.Event(), RequestBodies.batches

    def slow(*arguments, **options):
        going.wait(DEADLINE)
        return read(*arguments, **options)

    monkeypatch.setattr(RequestBodies, "batches", slow)
    with served(patience=0.05) as (http, engine, client):
        assert post(client, key="monday").status_code == 503
        assert client.get("/health").json() == {"status": "listening"}
        assert http._inbox._bytes == len(jsonl_text(ROWS).encode())
        going.set()
        until(lambda: engine.rows)
        assert post(client, key="monday").json() == KEPT
        assert engine.rows == ROWS
        assert http._inbox._bytes == 0


def test_requests_without_events_take_space_too():
    with (
        served(size=1000, most_bytes=4096) as (http, engine, client),
        ThreadPoolExecutor(4) as pool,
    ):
        engine.hold.set()
        waiting = [pool.submit(post, client, b"") for _ in range(4)]
        until(lambda: http._inbox._bytes == 4096)
        assert post(client, ROWS[:1]).status_code == 429
        engine.hold.clear()
        assert [each.result().json() for each in waiting] == [KEPT] * 4


def test_a_sender_that_goes_away_leaves_nothing_behind():
    with served() as (http, engine, client):
        with raw(http) as connection:
            connection.sendall(head(1000) + b"{")
            until(lambda: http._inbox._bytes == 1000)
        until(lambda: http._inbox._bytes == 0)
        assert post(client).json() == KEPT
        assert engine.rows == ROWS


def test_a_sender_that_goes_away_while_it_waits_is_kept_all_the_same():
    body = jsonl_text(ROWS).encode()
    with served() as (http, engine, client):
        engine.hold.set()
        with raw(http) as connection:
            connection.sendall(head(len(body), "idempotency-key: monday") + body)
            until(lambda: engine.taken)
        engine.hold.clear()
        assert post(client, key="monday").json() == KEPT
        assert engine.rows == ROWS


def test_closing_sends_all_away_who_wait():
    with served() as (http, engine, client), ThreadPoolExecutor(2) as pool, raw(http) as slow:
        engine.hold.set()
        handed = pool.submit(post, client, key="handed out")
        until(lambda: engine.taken)
        engine.idle.set()
        queued = pool.submit(post, client)
        until(lambda: http._inbox._ready)
        slow.sendall(head(1000) + b"{")
        until(
            lambda: http._inbox._bytes % 2 != (http._inbox._bytes - 1) % 2 and requests(http) == 3
        )
        http.close()
        assert handed.result().status_code == queued.result().status_code == 503
        assert "may be kept or not" in handed.result().json()["error"]
        assert "not kept" in queued.result().json()["error"]
        assert answered(slow)[0] == 503
        with pytest.raises(ConnectionRefusedError):
            raw(http).__enter__()
        assert list(http.batches(engine.after)) == []
        http.close()


def test_what_is_kept_while_it_closes_is_no_error():
    with served() as (http, engine, client), ThreadPoolExecutor(1) as pool:
        engine.hold.set()
        waiting = pool.submit(post, client, key="monday")
        until(lambda: engine.taken)
        http.close()
        assert waiting.result().status_code == 503
        engine.keep()
    with served(engine.after, engine.parts) as (_, engine, client):
        assert post(client, key="monday").json() == KEPT
        assert engine.rows == []


def test_a_batch_is_given_again_until_it_is_kept():
    with served() as (http, engine, client), ThreadPoolExecutor(1) as pool:
        engine.idle.set()
        waiting = pool.submit(post, client, key="monday")
        until(lambda: http._inbox._ready)
        (first,) = http.batches()
        assert list(http.batches()) == [first]
        assert list(http.batches(first.position)) == []
        http.kept(first)
        assert waiting.result().json() == KEPT
        assert list(http.batches(first.position)) == []
        for position in (
            None,
            {"batch": 2},
            {"batch": -1},
            {"batch": "1"},
            {"path": "x"},
            {"batch": 1, "more": 1},
        ):
            with pytest.raises(StateError, match="position"):
                list(http.batches(position))


def test_asking_never_blocks_and_waiting_ends_when_something_comes():
    with served() as (http, engine, _), ThreadPoolExecutor(1) as pool:
        engine.idle.set()
        assert list(http.batches()) == []
        waiting = pool.submit(http.wait, DEADLINE * 10)
        with raw(http) as connection:
            body = jsonl_text(ROWS).encode()
            connection.sendall(head(len(body)) + body)
            waiting.result(DEADLINE)
            assert [len(batch) for batch in http.batches()] == [40]


def test_nothing_but_the_contract_is_served():
    with served() as (_, _, client):
        assert client.get("/health").json() == {"status": "listening"}
        for path in ("/docs", "/redoc", "/openapi.json", "/", "/events/"):
            assert client.get(path).status_code == 404
        assert client.get("/events").status_code == 405
        assert "server" not in client.get("/health").headers


def test_no_answer_and_no_log_shows_data(caplog):
    caplog.set_level(1)
    secret = "s3cret"
    line = json.dumps({"time": secret, "key": secret, "person": secret}).encode()
    answers = []
    with served(rows=1000) as (http, _, client):
        bodies = (
            line,
            line[:-3],
            line * 3,
            b"[" + line,
            line + b"\n" + line,
            b"\xff" + line,
            line * 50_000,
            (line + b"\n") * 1001,
        )
        sent = product((NDJSON, JSON, STREAM), bodies, ("", "gzip", secret))
        for place, (media, body, encoding) in enumerate(sent):
            key = f"{secret} {place}"
            answers += [post(client, body, key, content_type=media, content_encoding=encoding)]
        answers += [
            post(client, jsonl_text(ROWS).encode() + line, secret),
            post(client, line, secret),
        ]
        table = pa.table(
            {
                "time": [secret],
                secret: [secret],
                "key": pa.array([secret]).dictionary_encode(),
                "person": [secret],
            }
        )
        answers.append(post(client, stream(table), content_type=STREAM))
        answers.append(post(client, stream(table.drop_columns("key")), content_type=STREAM))
        answers.append(post(client, line, content_type=secret))
        answers.append(client.post(f"/events?{secret}", content=line))
        answers.append(client.get(f"/{secret}"))
        with raw(http) as connection:
            connection.sendall(f"{secret} / HTTP/9\r\n\r\n".encode())
            while connection.recv(1000):
                pass
        assert secret not in repr(http)
        assert TOKEN not in repr(http)
    assert {each.status_code for each in answers} >= {200, 400, 413, 415, 422, 404}
    for each in answers:
        assert secret not in each.text + str(each.headers)
    ours = "".join(
        f"{record.getMessage()}{record.exc_text}{record.args}"
        for record in caplog.records
        if not record.name.startswith("http")
    )
    assert secret not in ours
    assert TOKEN not in ours


def test_a_failure_of_our_own_is_answered_without_data(caplog, monkeypatch):
    caplog.set_level(logging.INFO)
    with served() as (http, engine, client):

        def fail(*_, **__):
            raise MemoryError("s3cret")

        monkeypatch.setattr(type(http._desk.bodies), "batches", fail)
        answer = post(client, key="monday")
        assert (answer.status_code, answer.json()) == (
            500,
            {"error": "this could not be taken, and was not kept."},
        )
        monkeypatch.undo()
        assert post(client, key="monday").json() == KEPT
        assert engine.rows == ROWS
    assert "http: a request has failed (MemoryError)." in caplog.text
    assert "s3cret" not in caplog.text


def test_a_server_that_has_stopped_by_itself_is_an_error():
    http = source()
    http.open({})
    http._servers[0].stop()
    until(lambda: not http._servers[0].alive)
    with pytest.raises(StateError, match="stopped by itself"):
        http.wait(0)
    http.close()


def test_it_is_opened_once_and_before_it_is_used():
    http = source()
    for use in (lambda: http.address, lambda: http.wait(0), lambda: list(http.batches())):
        with pytest.raises(StateError, match="not open"):
            use()
    http.close()
    with served() as (http, _, _), pytest.raises(StateError, match="opened before"):
        http.open({})


def test_a_port_that_is_taken_is_said():
    with (
        served() as (http, _, _),
        pytest.raises(StateError, match=r"listen: 127.0.0.1:\d+ cannot be bound"),
    ):
        source(port=http.address[1]).open({})
    with pytest.raises(ConfigurationError, match="cannot be found"):
        source(host="no such host").open({})


def test_it_listens_on_ipv6_too():
    if not socket.has_ipv6:
        pytest.skip("this machine has no IPv6")
    http = source(host="[::1]")
    try:
        http.open({})
    except ConfigurationError:
        pytest.skip("this machine has no IPv6 loopback")
    try:
        assert httpx.get("http://[{}]:{}/health".format(*http.address)).json() == {
            "status": "listening"
        }
    finally:
        http.close()


def test_events_are_taken_over_tls_from_senders_with_a_certificate(tmp_path):
    authority, senders = Authority(tmp_path / "tls"), Authority(tmp_path / "senders")
    with served(tls=authority.server(clients=senders)) as (http, engine, _):
        base = "https://{}:{}".format(*http.address)
        headers = {"authorization": f"Bearer {TOKEN}", "content-type": NDJSON}
        known, unknown = authority.client(shows=senders), authority.client()
        with httpx.Client(base_url=base, headers=headers, verify=known) as client:
            assert post(client, ROWS * 500).json() == KEPT
        with (
            httpx.Client(base_url=base, headers=headers, verify=unknown) as client,
            pytest.raises(httpx.TransportError),
        ):
            post(client)
        assert engine.rows == ROWS * 500


def test_wrong_tls_files_are_said_before_anything_is_opened(tmp_path):
    files = Authority(tmp_path / "tls").server()
    files.key.unlink()
    with pytest.raises(ConfigurationError, match=r"tls_key: .*cannot be read"):
        source(tls=files)


@pytest.mark.parametrize(
    ("parameters", "rule"),
    [
        ({"port": -1}, "port"),
        ({"port": 65536}, "port"),
        ({"token": "short"}, "token must have at least 16"),
        ({"token": "with a space in between"}, "no space"),
        ({"token": ""}, "token"),
        ({"size": 0}, "size"),
        ({"rows": 0}, "rows"),
        ({"most_events": 10}, "most_events"),
        ({"most_bytes": 10}, "most_bytes"),
        ({"window": 0}, "window"),
        ({"patience": 0}, "patience"),
        ({"connections": 0}, "connections"),
        ({"connections_per_peer": 0}, "connections_per_peer"),
    ],
)
def test_parameters_are_checked(parameters, rule):
    with pytest.raises(ConfigurationError, match=rule) as error:
        source(**parameters)
    assert parameters.get("token") in (None, "") or parameters["token"] not in str(error.value)


@pytest.mark.parametrize("package", ["fastapi", "uvicorn"])
def test_a_missing_package_is_said(monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(
        MissingExtraError, match=rf"taking events by HTTP needs {package}.*penstock\[serve\]"
    ):
        source()
