"""Nobody gets past the service: tokens, origins, odd paths, floods, and what the process opens."""

from __future__ import annotations

import json
import logging
import sqlite3
import threading
from contextlib import closing
from http.client import HTTPConnection

import httpx
import pytest

from penstock.core.errors import ConfigurationError
from penstock.engine.sql_store.schema import PUBLIC_TABLES, VERSION_TABLE
from penstock.engine.sqlite import SQLiteReader
from penstock.service import application, streams
from penstock.service.options import ServiceOptions
from penstock.service.server import ServiceServer

from tests.certificates import Authority
from tests.service.published import PublishedStore, client, sealed_store, service

TAPS = "/v1/streams/taps"
TOKEN = "a-token-of-the-readers"
ASKED = (
    "/v1",
    "/v1/openapi.json",
    "/v1/streams",
    TAPS,
    f"{TAPS}/keys",
    f"{TAPS}/releases?last=9",
    f"{TAPS}/releases/3",
    f"{TAPS}/releases/3.parquet",
    f"{TAPS}/answers/sum?window=2&last=4",
    f"{TAPS}/answers/top.csv?k=2",
    f"{TAPS}/answers/counts?filtered=true",
    f"{TAPS}/ledger",
    f"{TAPS}/ledger/windows",
    f"{TAPS}/ledger/head",
    f"{TAPS}/ledger/verification",
    "/health",
    "/assets/uplot/uPlot.min.css",
    "/favicon.ico",
)


@pytest.fixture
def store(tmp_path):
    with sealed_store(tmp_path / "taps.db") as opened:
        PublishedStore(opened).grow(9)
    return tmp_path / "taps.db"


# -- the token -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": TOKEN},
        {"authorization": f"Basic {TOKEN}"},
        {"authorization": "Bearer"},
        {"authorization": f"Bearer {TOKEN}x"},
        {"authorization": f"Bearer {TOKEN[:-1]}"},
        {"authorization": b"Bearer \xff\xfe"},
        [("authorization", f"Bearer {TOKEN}"), ("authorization", f"Bearer {TOKEN}")],
        {"cookie": f"token={TOKEN}"},
    ],
)
def test_without_the_token_nothing_is_said(store, tmp_path, headers):
    with service(store, tmp_path / "copy", token=TOKEN) as server, client(server) as asking:
        for path in ("/v1", "/v1/streams", TAPS, "/v1/openapi.json", f"{TAPS}/live", "/v1/x"):
            refused = asking.get(path, headers=headers)
            assert refused.status_code == 401
            assert refused.headers["www-authenticate"] == "Bearer"
            assert TOKEN not in refused.text
        assert asking.get(f"{TAPS}?token={TOKEN}", headers=headers).status_code == 401


def test_with_the_token_everything_is_answered_and_no_cache_shares_it(store, tmp_path):
    headers = {"authorization": f"Bearer {TOKEN}"}
    with service(store, tmp_path / "copy", token=TOKEN) as server, client(server) as asking:
        answer = asking.get(f"{TAPS}/releases/3", headers=headers)
        assert answer.status_code == 200
        assert answer.headers["cache-control"].startswith("private")
        told = asking.get("/v1/openapi.json", headers=headers).json()
        assert told["components"]["securitySchemes"]["token"]["scheme"] == "bearer"
        assert asking.get("/health").status_code == 200
        assert TOKEN not in repr(server) + repr(ServiceOptions(token=TOKEN))


@pytest.mark.parametrize("token", ["short", "with a space in it ..", "ünïcödé-is-not-allowed"])
def test_a_token_that_could_be_guessed_is_refused(token):
    with pytest.raises(ConfigurationError, match="at least 16 characters") as refused:
        ServiceOptions(token=token)
    assert token not in str(refused.value)


# -- browsers --------------------------------------------------------------------------------------


def test_other_origins_may_read_only_if_they_are_listed(store, tmp_path):
    theirs, other = "https://www.example.org", "https://evil.example"
    with service(store, tmp_path / "a", origins=(theirs,)) as server, client(server) as asking:
        allowed = asking.get(TAPS, headers={"origin": theirs})
        assert allowed.headers["access-control-allow-origin"] == theirs
        assert (
            "access-control-allow-origin" not in asking.get(TAPS, headers={"origin": other}).headers
        )
        before = {"origin": theirs, "access-control-request-method": "GET"}
        before["access-control-request-headers"] = "authorization"
        assert asking.options(TAPS, headers=before).status_code == 200
        assert asking.options(TAPS, headers=before | {"origin": other}).status_code == 400
    with service(store, tmp_path / "b") as server, client(server) as asking:
        answer = asking.get(TAPS, headers={"origin": theirs})
        assert "access-control-allow-origin" not in answer.headers


def test_pages_may_be_framed_by_listed_origins_only(store, tmp_path):
    theirs = "https://www.example.org"
    with service(store, tmp_path / "copy", frames=(theirs,)) as server, client(server) as asking:
        page, framed = asking.get("/"), asking.get("/embed/taps?question=counts")
        for answer, ancestors in ((page, "'none'"), (framed, theirs)):
            if answer.status_code == 200:
                policy = answer.headers["content-security-policy"]
                assert policy.startswith("default-src 'self'")
                assert policy.endswith(f"frame-ancestors {ancestors}")
                assert answer.headers["referrer-policy"] == "no-referrer"
        for path in ASKED:
            assert asking.get(path).headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("origin", ["www.example.org", "https://a.example/x", "*", "https://a b"])
def test_an_origin_must_be_one(origin):
    for name in ("origins", "frames"):
        with pytest.raises(ConfigurationError, match="must be origins"):
            ServiceOptions(**{name: (origin,)})


def test_tls_is_spoken_with_the_files_of_the_configuration(store, tmp_path):
    authority = Authority(tmp_path / "tls")
    with service(store, tmp_path / "copy", tls=authority.server()) as server:
        assert server.url.startswith("https://")
        with client(server, verify=authority.client()) as asking:
            assert asking.get(TAPS).status_code == 200


# -- paths -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "/../etc/passwd",
        "/assets/../options.py",
        "/assets/%2e%2e/options.py",
        "/assets/..%2foptions.py",
        "/assets/%2e%2e%2f%2e%2e%2fpyproject.toml",
        "/assets//etc/passwd",
        "/assets/%00",
        "/assets/..\\options.py",
        "/assets/uplot/../../render.py",
        "/assets/__init__.py",
        "/assets/",
        "/assets",
        "/v1/streams/../streams",
        "/v1/streams/%2e%2e",
        "/v1/streams/%ff",
        "/v1/streams/%c0%ae%c0%ae/",
        "/v1/streams/taps/../../streams",
        "/v1/streams//taps",
        "/v1//streams",
        "/v1/streams/taps/",
        "/v1/",
        "/docs",
        "/redoc",
        "/openapi.json",
    ],
)
def test_an_odd_path_leads_nowhere(quiet, path):
    address = httpx.URL(quiet.url)
    with closing(HTTPConnection(address.host, address.port)) as raw:
        raw.request("GET", path)
        answer = raw.getresponse()
        told = json.loads(answer.read())
    assert answer.status == 404
    assert set(told) == {"error", "nearest"}


# -- floods and failures ---------------------------------------------------------------------------


def test_too_many_requests_at_once_are_told_to_come_again(store, tmp_path, monkeypatch):
    entered, go_on = threading.Semaphore(0), threading.Event()
    real = streams.ServedStreams.find

    def slow(self, name):
        entered.release()
        go_on.wait()
        return real(self, name)

    monkeypatch.setattr("penstock.service.guard.MAX_REQUESTS", 2)
    with service(store, tmp_path / "copy") as server, client(server) as asking:
        monkeypatch.setattr(streams.ServedStreams, "find", slow)
        waiting = [
            threading.Thread(target=httpx.get, args=(f"{server.url}{TAPS}",)) for _ in range(2)
        ]
        for each in waiting:
            each.start()
        for _ in waiting:
            entered.acquire()
        refused = asking.get("/v1")
        go_on.set()
        for each in waiting:
            each.join()
        assert refused.status_code == 429
        assert int(refused.headers["retry-after"]) > 0
        assert asking.get("/v1").status_code == 200


def test_an_error_of_others_is_never_shown(store, tmp_path, monkeypatch, caplog):
    def broken(*_, **__):
        raise RuntimeError("secret of somebody")

    with service(store, tmp_path / "copy") as server, client(server) as asking:
        monkeypatch.setattr("penstock.service.answer_routes.answered", broken)
        failed = asking.get(f"{TAPS}/releases")
        assert failed.status_code == 500
        assert failed.json() == {"error": "the request failed.", "nearest": None}
    assert "secret of somebody" not in caplog.text
    assert "RuntimeError" in caplog.text


def test_an_answer_that_takes_too_long_is_given_up(store, tmp_path, monkeypatch):
    monkeypatch.setattr(streams, "SECONDS_PER_REQUEST", -1.0)
    with service(store, tmp_path / "copy") as server, client(server) as asking:
        late = asking.get(f"{TAPS}/releases")
        assert late.status_code == 503
        assert "takes too long" in late.json()["error"]
        assert int(late.headers["retry-after"]) > 0


def test_a_store_that_cannot_be_read_is_no_stack_trace(store, tmp_path):
    with service(store, tmp_path / "copy") as server, client(server) as asking:
        server.streams.find("taps").reader.close()
        failed = asking.get(f"{TAPS}/releases/3")
        assert failed.status_code == 503
        assert str(tmp_path) not in failed.text


def test_a_changed_history_is_not_served(store, tmp_path, caplog):
    with closing(sqlite3.connect(store)) as file, file:
        file.execute("UPDATE lines SET amount = amount - 1 WHERE unit = 7")
    with service(store, tmp_path / "copy") as server, client(server) as asking:
        assert asking.get(TAPS).json()["units"] < 7
        told = {"state": "running"}
        while told["state"] in ("running", "never"):
            told = asking.get(f"{TAPS}/ledger/verification").json()
        assert told["state"] == "failed"
        assert "unit 7" in told["problem"]
    assert "unit 7" in caplog.text


# -- what the process opens ------------------------------------------------------------------------

PUBLIC = {VERSION_TABLE, *PUBLIC_TABLES, "sqlite_master"}


def test_only_public_tables_are_read(store, tmp_path):
    read = set()

    def allowed(action, first, second, *_):
        if action == sqlite3.SQLITE_READ:
            read.add(first)
        return sqlite3.SQLITE_OK

    def connect(*arguments, **options):
        file = sqlite3.connect(*arguments, **options)
        file.set_authorizer(allowed)
        return file

    class TracedReader(SQLiteReader):
        _driver = staticmethod(connect)

    options = ServiceOptions(listen="127.0.0.1:0")
    server = ServiceServer(options, [lambda: TracedReader(store)], tmp_path / "copy")
    with server, client(server) as asking:
        for path in ASKED:
            assert asking.get(path).status_code in (200, 503)
        while asking.get(f"{TAPS}/ledger/verification").json()["state"] != "verified":
            pass
    assert {"streams", "releases", "lines"} <= read <= PUBLIC


def test_requests_are_not_logged(store, tmp_path, caplog):
    caplog.set_level(logging.INFO)
    with service(store, tmp_path / "copy") as server, client(server) as asking:
        asking.get(f"{TAPS}/answers/counts?key=somebody-looked-for-this")
        asking.get("/somebody-looked-for-this")
    ours = [record for record in caplog.records if not record.name.startswith("http")]
    assert "somebody-looked-for-this" not in "".join(record.getMessage() for record in ours)


def test_errors_of_ours_have_a_status():
    from penstock.core import errors

    assert application.as_api_error(errors.StoreUnavailableError("x")).status == 503
    assert application.as_api_error(errors.StateError("x")).status == 503
    assert application.as_api_error(errors.InputError("x")).status == 422
    assert application.as_api_error(errors.LedgerError("x")).status == 500
