"""Live readers get every unit once, in order, resume where they were, and are never fooled."""

from __future__ import annotations

import json
import socket
import threading

import httpx
import pytest

from penstock.engine.export import export
from penstock.engine.sqlite import SQLiteReader
from penstock.service import live

from tests.service.published import PublishedStore, client, sealed_store, service

LIVE = "/v1/streams/taps/live"


class Following:
    """One live reader, which parses events as a browser does."""

    def __init__(self, asking, *, last=None, after=None):
        headers = {} if last is None else {"last-event-id": str(last)}
        parameters = {} if after is None else {"after": after}
        self._stream = asking.stream("GET", LIVE, headers=headers, params=parameters)
        self.answer = self._stream.__enter__()
        self._lines = self.answer.iter_lines()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._stream.__exit__(None, None, None)

    def next(self):
        """The next event: its kind, its id and its data."""
        found = {}
        for line in self._lines:
            name, _, value = line.partition(": ")
            if not line and "data" in found:
                return found["event"], found.get("id"), json.loads(found["data"])
            if name:
                found[name] = value
        raise ConnectionError("the server has gone")

    def units(self, number):
        """The numbers of the next units."""
        return [int(self.next()[1]) for _ in range(number)]


@pytest.fixture
def growing(tmp_path):
    """A publisher, and a service over its store."""
    path = tmp_path / "taps.db"
    with sealed_store(path) as store:
        publisher = PublishedStore(store)
        publisher.grow(5)
        with service(path, tmp_path / "copy") as server, client(server) as asking:
            yield publisher, server, asking


def test_an_event_has_the_unit_and_its_link(growing, tmp_path):
    publisher, _, asking = growing
    with Following(asking) as reader:
        assert reader.answer.headers["content-type"].startswith("text/event-stream")
        kind, number, data = reader.next()
        publisher.grow()
        with SQLiteReader(tmp_path / "taps.db") as store:
            links = {unit: store.at("taps", unit).link.hex() for unit in (5, 6)}
        assert (kind, number, data) == ("unit", "5", {"unit": 5, "link": links[5]})
        assert reader.next()[2] == {"unit": 6, "link": links[6]}


def test_what_an_event_announces_can_be_asked_at_once(growing):
    publisher, _, asking = growing
    with Following(asking, after=5) as reader:
        for unit in range(6, 12):
            publisher.grow()
            assert reader.units(1) == [unit]
            assert asking.get("/v1/streams/taps/releases").json()["last"] >= unit


def test_many_readers_miss_nothing(growing):
    publisher, server, _asking = growing
    limits = httpx.Limits(max_connections=None)
    with httpx.Client(base_url=server.url, timeout=30, limits=limits) as many:
        readers = [Following(many, after=5) for _ in range(30)]
        for _ in range(20):
            publisher.grow()
        assert all(reader.units(20) == list(range(6, 26)) for reader in readers)
        for reader in readers:
            reader.__exit__()


def test_a_reader_resumes_after_the_server_was_started_again(growing, tmp_path):
    publisher, server, asking = growing
    with Following(asking, after=5) as reader:
        publisher.grow(2)
        assert reader.units(2) == [6, 7]
        server.close()
        with pytest.raises((ConnectionError, httpx.TransportError)):
            reader.next()
    publisher.grow(3)
    path = tmp_path / "taps.db"
    with (
        service(path, tmp_path / "copy") as again,
        client(again) as asking,
        Following(asking, last=7) as reader,
    ):
        assert reader.units(3) == [8, 9, 10]


def test_a_head_behind_the_reader_is_an_event_and_never_data(growing):
    publisher, _, asking = growing
    with Following(asking, last=7) as reader:
        kind, number, data = reader.next()
        assert (kind, number, data["unit"]) == ("older", None, 5)
        publisher.grow(4)
        assert reader.units(2) == [8, 9]


def test_a_header_goes_before_the_parameter(growing):
    _, _, asking = growing
    with Following(asking, last=3, after=1) as reader:
        assert reader.units(2) == [4, 5]


@pytest.mark.parametrize("told", ["x", "-1", "1.5", "9" * 40, "٣"])
def test_an_odd_event_id_is_refused(growing, told):
    _, _, asking = growing
    answer = asking.get(LIVE, headers={"last-event-id": told.encode()})
    assert answer.status_code == 422


def test_a_reader_that_was_away_long_gets_the_newest_units(growing, monkeypatch):
    _publisher, _, asking = growing
    monkeypatch.setattr(live, "MAX_UNITS_RESUMED", 3)
    with Following(asking, last=0) as reader:
        assert reader.units(3) == [3, 4, 5]


def test_too_many_readers_are_told_to_come_later(growing, monkeypatch):
    _, _, asking = growing
    monkeypatch.setattr(live, "MAX_READERS", 1)
    with Following(asking) as reader:
        assert reader.units(1) == [5]
        refused = asking.get(LIVE)
        assert refused.status_code == 429
        assert int(refused.headers["retry-after"]) > 0


def test_a_silent_connection_gets_comments(growing, monkeypatch):
    _, _, asking = growing
    monkeypatch.setattr(live, "COMMENT_SECONDS", 0.01)
    with asking.stream("GET", LIVE) as answer:
        assert next(line for line in answer.iter_lines() if line.startswith(":"))


def test_a_reader_that_goes_is_forgotten(growing):
    publisher, server, asking = growing
    with Following(asking) as reader:
        reader.next()
        assert server.live_readers == 1
    publisher.grow()
    while server.live_readers:
        asking.get("/health")
    assert server.live_readers == 0


def test_a_reader_that_does_not_read_is_dropped(growing, monkeypatch):
    _publisher, server, asking = growing
    monkeypatch.setattr(live, "SECONDS_PER_WRITE", 0.2)
    monkeypatch.setattr(live, "COMMENT_SECONDS", 0.0001)
    monkeypatch.setattr(live, "COMMENT", b": " + b"x" * 1_000_000 + b"\n\n")
    address = httpx.URL(server.url)
    with socket.create_connection((address.host, address.port)) as lazy:
        lazy.sendall(f"GET {LIVE} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
        lazy.recv(10)
        while server.live_readers:
            asking.get("/health")
    assert asking.get("/v1/streams/taps/releases").status_code == 200


def test_a_publisher_wakes_the_service_without_a_poll(tmp_path):
    path = tmp_path / "taps.db"
    with sealed_store(path) as store:
        publisher = PublishedStore(store)
        publisher.grow(1)
        server = service(path, tmp_path / "copy")
        server.poll_seconds = threading.TIMEOUT_MAX
        with server, client(server) as asking, Following(asking, after=1) as reader:
            publisher.grow(1)
            server.wake("taps")
            assert reader.units(1) == [2]


def replaced(path, other):
    """Put another file in the place of a store, as a copying program does."""
    for beside in ("-wal", "-shm"):
        path.with_name(path.name + beside).unlink(missing_ok=True)
    other.replace(path)


def exported(path, target):
    """An export of a store, in one file without a log beside it."""
    with SQLiteReader(path) as reader:
        export(reader, target)
    return target


def test_an_export_that_is_replaced_by_a_newer_one_goes_on(growing, tmp_path):
    publisher, _, _ = growing
    path = exported(tmp_path / "taps.db", tmp_path / "public.db")
    with (
        service(path, tmp_path / "other copy") as server,
        client(server) as asking,
        Following(asking, after=5) as reader,
    ):
        publisher.grow(3)
        replaced(path, exported(tmp_path / "taps.db", tmp_path / "newer.db"))
        assert reader.units(3) == [6, 7, 8]
        assert asking.get("/v1/streams/taps/releases/8").status_code == 200


def test_a_store_that_is_replaced_by_an_old_backup_is_older(growing, tmp_path, caplog):
    publisher, _, _ = growing
    old = exported(tmp_path / "taps.db", tmp_path / "old.db")
    publisher.grow(3)
    path = exported(tmp_path / "taps.db", tmp_path / "public.db")
    with (
        service(path, tmp_path / "other copy") as server,
        client(server) as asking,
        Following(asking) as reader,
    ):
        assert reader.units(1) == [8]
        replaced(path, old)
        kind, number, data = reader.next()
        assert (kind, number, data["unit"]) == ("older", None, 5)
        assert asking.get("/v1/streams/taps").json()["newest"]["unit"] == 5
        assert asking.get("/v1/streams/taps/releases/8").status_code == 404
    assert "the history of 'taps' is another one now" in caplog.text


def test_another_history_of_the_same_length_is_read_anew(growing, tmp_path, caplog):
    path = exported(tmp_path / "taps.db", tmp_path / "public.db")
    with sealed_store(tmp_path / "twin.db") as store:
        PublishedStore(store, seed=99).grow(5)
    twin = exported(tmp_path / "twin.db", tmp_path / "twin export.db")
    with SQLiteReader(twin) as reader:
        link = reader.at("taps", 5).link.hex()
    with service(path, tmp_path / "other copy") as server, client(server) as asking:
        before = asking.get("/v1/streams/taps/releases?last=5").json()["series"]
        replaced(path, twin)
        while asking.get("/v1/streams/taps").json()["newest"]["link"] != link:
            pass
        assert asking.get("/v1/streams/taps/releases?last=5").json()["series"] != before
