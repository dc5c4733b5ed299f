"""`penstock serve` and `[service]` of `penstock run`: real processes, as people start them."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest

import penstock
from penstock import Uniform, open_log
from penstock.engine.export import export
from penstock.engine.sqlite import SQLiteReader
from penstock.service import static_files

from tests.cli.outcome import Outcome
from tests.service.published import PublishedStore, sealed_store
from tests.service.test_live import Following

pytestmark = pytest.mark.slow

PERSON = "card-PLANTED-314159"
STRANGER = "station-PLANTED-271828"
TEXT = """
[stream]
name = "taps"
every = "{every}"
origin = "{origin}"
{until}

[source]
kind = "csv"
path = "events.csv"
time = "ts"
key = "station"
person = "card"
{growing}

[domain]
keys = ["north", "south"]

[privacy]
mechanism = "uniform"
epsilon = "1"
window = 4

[store]
path = "taps.db"
{key}

[service]
listen = "127.0.0.1:0"
title = "Taps of a test"

[[service.event]]
at = "2026-01-01T03:00"
text = "Cup final"
"""
TRACED = """
import sys, threading
from penstock.cli import main
opened = []

def hook(event, given):
    if event in ("open", "sqlite3.connect", "os.listdir", "os.scandir"):
        opened.append((event, str(given[0])))

sys.addaudithook(hook)
try:
    main(sys.argv[1:])
finally:
    for event, path in opened:
        print("TRACED", event, path, file=sys.stderr)
"""


@contextmanager
def serving(*tokens, command=(sys.executable, "-m", "penstock"), environment=None):
    """A process that serves; gives it and a client."""
    process = subprocess.Popen(
        [*command, *map(str, tokens)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | (environment or {}),
    )
    try:
        stream = process.stderr if "run" in tokens else process.stdout
        url = None
        for line in stream:
            url = re.search(r"[Oo]pen (https?://\S+?)\"?}?$", line.strip())
            if url:
                break
        assert url, process.stderr.read()
        with httpx.Client(base_url=url[1], timeout=30) as asking:
            yield process, asking
    finally:
        if process.poll() is None:
            process.terminate()
        process.communicate()


@pytest.fixture
def sealed(tmp_path):
    """A store with a key, of nine units."""
    with sealed_store(tmp_path / "taps.db") as store:
        PublishedStore(store).grow(9)
    return tmp_path / "taps.db"


def written(folder, *, sealed=True, live=False):
    """A pipeline, and events with values that nobody may ever see."""
    now = datetime.now(UTC).replace(microsecond=0)
    start = now - timedelta(seconds=2) if live else datetime(2026, 1, 1, tzinfo=UTC)
    step = timedelta(seconds=1) if live else timedelta(hours=1)
    rows = [
        f"{(start + place % 6 * step).isoformat()},{station},{PERSON}-{place}"
        for place, station in enumerate(["north", "south", STRANGER, "north"] * 20)
    ]
    (folder / "events.csv").write_text("\n".join(["ts,station,card", *rows]) + "\n")
    (folder / "key").touch(mode=0o600)
    (folder / "key").write_text("ab" * 32)
    text = TEXT.format(
        every="1s" if live else "1h",
        origin=start.isoformat(),
        until="" if live else 'until = "2026-01-01T06:00Z"',
        growing="growing = true" if live else "",
        key='key_file = "key"' if sealed else "",
    )
    (folder / "taps.toml").write_text(text)
    return folder / "taps.toml"


# -- what is refused -------------------------------------------------------------------------------


def test_a_store_whose_state_is_not_sealed_is_refused_with_advice(tmp_path, capsys):
    with sealed_store(tmp_path / "open.db", key=None) as store:
        PublishedStore(store).grow(2)
    done = Outcome(capsys, "serve", str(tmp_path / "open.db"), "--listen", "127.0.0.1:0")
    assert done.code == 2
    for advice in ("key_env or key_file", "penstock export", "a role that may read the public"):
        assert advice in done.err
    assert not (tmp_path / "open.db.copy").exists()


def test_a_pipeline_without_a_key_is_refused_before_its_store_holds_state(tmp_path, capsys):
    path = written(tmp_path, sealed=False)
    with sealed_store(tmp_path / "taps.db", key=None):
        pass
    done = Outcome(capsys, "serve", str(path))
    assert done.code == 2
    assert "is not sealed" in done.err


@pytest.mark.parametrize("package", ["fastapi", "uvicorn"])
def test_a_missing_package_is_named_before_anything_else(capsys, monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    done = Outcome(capsys, "serve", "no-such-store.db")
    assert done.code == 2
    assert f"the read service needs {package}" in done.err
    assert "pip install 'penstock[serve]'" in done.err


def test_a_missing_package_ends_a_run_before_it_begins(tmp_path, capsys, monkeypatch):
    path = written(tmp_path)
    monkeypatch.setitem(sys.modules, "fastapi", None)
    done = Outcome(capsys, "run", str(path))
    assert done.code == 2
    assert "the read service needs fastapi" in done.err
    assert not (tmp_path / "taps.db").exists()


def test_a_store_that_is_not_there_is_said(tmp_path, capsys):
    done = Outcome(capsys, "serve", str(tmp_path / "none.db"))
    assert done.code == 2
    assert "there is no store" in done.err


@pytest.mark.parametrize("listen", ["8080", "host:", "host:99999", ":80", "host:x"])
def test_an_odd_address_is_refused(sealed, capsys, listen):
    done = Outcome(capsys, "serve", str(sealed), "--listen", listen)
    assert done.code == 2
    assert "listen must be a host and a port" in done.err


def test_a_short_token_is_refused_and_not_shown(sealed, capsys, monkeypatch):
    monkeypatch.setenv("READERS", "too-short")
    done = Outcome(capsys, "serve", str(sealed), "--token-env", "READERS")
    assert done.code == 2
    assert "at least 16 characters" in done.err
    assert "too-short" not in done.err


# -- what is served --------------------------------------------------------------------------------


def test_an_export_and_a_release_log_are_served(tmp_path, sealed):
    with SQLiteReader(sealed) as reader:
        export(reader, tmp_path / "public.db")
    run = Uniform(epsilon="1", window=2).run(["north", "south"])
    with open_log(tmp_path / "city.log", run) as log:
        log.append(run.step([7, 0]))
    for name, units in (("public.db", 9), ("city.log", 1)):
        with serving("serve", tmp_path / name, "--listen", "127.0.0.1:0") as (_, asking):
            (stream,) = asking.get("/v1/streams").json()["streams"]
            assert stream["units"] == units
            answer = asking.get(f"{stream['url']}/releases").json()
            assert (answer["begins"] == [None]) == (stream["every"] is None)
            assert asking.get(f"{stream['url']}/releases/1").status_code == (
                200 if stream["every"] else 404
            )


def test_readers_resume_after_the_process_was_killed(sealed):
    with (
        serving("serve", sealed, "--listen", "127.0.0.1:0") as (process, asking),
        Following(asking, after=5) as reader,
    ):
        assert reader.units(2) == [6, 7]
        process.send_signal(signal.SIGKILL)
        process.wait()
    with (
        serving("serve", sealed, "--listen", "127.0.0.1:0") as (process, asking),
        Following(asking, last=7) as reader,
    ):
        assert reader.units(2) == [8, 9]
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


def test_a_token_in_a_file_is_asked_for(sealed, tmp_path):
    token = tmp_path / "token"
    token.touch(mode=0o600)
    token.write_text("a-token-of-the-readers\n")
    with serving("serve", sealed, "--listen", "127.0.0.1:0", "--token-file", token) as (_, asking):
        assert asking.get("/v1").status_code == 401
        shown = {"authorization": "Bearer a-token-of-the-readers"}
        assert asking.get("/v1", headers=shown).status_code == 200


def test_two_services_of_one_store_do_not_share_a_copy(sealed):
    with (
        serving("serve", sealed, "--listen", "127.0.0.1:0") as (_, one),
        serving("serve", sealed, "--listen", "127.0.0.1:0") as (_, two),
    ):
        path = "/v1/streams/taps/releases?last=9"
        assert one.get(path).json() == two.get(path).json()


PATHS = (
    "/v1",
    "/v1/openapi.json",
    "/v1/streams",
    "/v1/streams/taps",
    "/v1/streams/taps/keys",
    "/v1/streams/taps/releases?last=6",
    "/v1/streams/taps/releases.csv?last=6",
    "/v1/streams/taps/releases/2",
    "/v1/streams/taps/answers/top?k=1&last=3",
    "/v1/streams/taps/answers/counts?filtered=true",
    "/v1/streams/taps/answers/counts?key=" + STRANGER,
    "/v1/streams/taps/ledger",
    "/v1/streams/taps/ledger/windows",
    "/v1/streams/taps/ledger/verification",
    "/assets/uplot/uPlot.iife.min.js",
    "/nothing",
)


def test_only_public_tables_the_copy_and_assets_are_opened_and_no_raw_value_is_seen(
    tmp_path, capsys
):
    path = written(tmp_path)
    published = Outcome(capsys, "run", str(path), "--log", "json")
    assert published.code == 0
    events = (tmp_path / "events.csv").read_text()
    assert PERSON in events
    assert STRANGER in events
    # A service has no events and no key: it must work, and it cannot leak what it never had.
    (tmp_path / "events.csv").unlink()
    (tmp_path / "key").unlink()
    seen = published.out + published.err
    command = (sys.executable, "-c", TRACED)
    with serving("serve", path, "--listen", "127.0.0.1:0", command=command) as (process, asking):
        for each in PATHS:
            if STRANGER not in each:  # a refusal repeats the name that was asked for
                seen += asking.get(each).text
        process.send_signal(signal.SIGTERM)
        out, traced = process.communicate(timeout=60)
    seen += out + traced
    assert PERSON not in seen
    assert STRANGER not in seen
    opened = {Path(line.split(" ", 2)[2]) for line in traced.splitlines() if "TRACED" in line}
    outside = sorted(str(each) for each in opened if not belongs(each, tmp_path))
    assert outside == []
    assert tmp_path / "taps.db" in {each for each in opened if each.name == "taps.db"} | {
        Path(str(each).removeprefix("file:").partition("?")[0]) for each in opened
    }


CODE = (Path(penstock.__file__).parent, Path(sys.prefix), Path(sys.base_prefix))
SYSTEM = ("/proc", "/dev", "/etc", "/sys", "/usr/share/zoneinfo", "/usr/lib", "/lib")


def belongs(path, folder):
    """Whether a service may open this: code, system files, its configuration, store and copy."""
    text = str(path).removeprefix("file:").partition("?")[0]
    found = Path(text)
    if not found.is_absolute():
        return text.isdecimal() or text in (".", "")
    own = (
        folder / "taps.toml",
        folder / "taps.db",
        folder / "taps.db-wal",
        folder / "taps.db.copy",
    )
    inside = (static_files.ASSETS, static_files.UPLOT, *own, *CODE, *map(Path, SYSTEM))
    near = [each for each in sys.path if each]
    return any(found.is_relative_to(each) for each in (*inside, *map(Path, near)))


# -- beside the publisher --------------------------------------------------------------------------


def test_a_run_serves_its_units_as_they_come(tmp_path):
    path = written(tmp_path, live=True)
    with serving("run", path, "--log", "json") as (process, asking):
        assert asking.get("/v1").json()["title"] == "Taps of a test"
        with Following(asking, after=0) as reader:
            assert reader.units(4) == [1, 2, 3, 4]
        answer = asking.get("/v1/streams/taps/releases?unit=3")
        assert answer.json()["units"] == [3]
        assert PERSON not in answer.text
        process.send_signal(signal.SIGTERM)
        _, logged = process.communicate(timeout=60)
        assert process.returncode == 0
        assert PERSON not in logged
        json.loads(logged.splitlines()[0])


def test_events_of_the_timeline_have_their_units(tmp_path, capsys):
    path = written(tmp_path)
    assert Outcome(capsys, "run", str(path), "--log", "json").code == 0
    with serving("serve", path, "--listen", "127.0.0.1:0") as (_, asking):
        told = asking.get("/v1/streams/taps").json()["events"]
    assert told == [{"at": "2026-01-01T03:00", "unit": 4, "text": "Cup final"}]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('origins = "www.example.org"', "must be an origin such as https://www.example.org"),
        ('map_key = "zone"', 'can only be used with map = "…"'),
        ('tls_cert = "a.pem"', "TLS needs both tls_cert and tls_key"),
        ('language = "fr"', '"fr" is not known: use en, de'),
        ('token = "x"', "no secret belongs in this file"),
        ('[[service.event]]\nat = "soon"\ntext = "x"', "must be a datetime or ISO text"),
        ('[[service.event]]\nat = "2026-01-01"', "text is missing"),
    ],
)
def test_a_mistake_in_the_table_is_said_with_its_line(tmp_path, capsys, line, said):
    path = written(tmp_path)
    text = path.read_text().replace('title = "Taps of a test"', line)
    path.write_text(text)
    done = Outcome(capsys, "check", str(path))
    assert done.code == 2
    assert said in done.err
    assert re.search(r"taps\.toml:\d+: service", done.err)
