from __future__ import annotations

import configparser
import importlib
import io
import json
import logging
import os
import pty
import re
import select
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from rich.console import Console

from penstock.cli.run import RunLog, progress, status_line
from penstock.cli.run_words import accepting
from penstock.engine.notices import Notice
from penstock.engine.pipeline import Pipeline
from penstock.engine.publisher import Publisher
from penstock.engine.sqlite import SQLiteReader
from penstock.private.sources.files import FileSource
from penstock.testing import ManualClock, NoNoise

from tests.certificates import Authority
from tests.cli.outcome import Outcome
from tests.engine import streams

module = importlib.import_module("penstock.cli.run")

PENSTOCK = Path(sys.executable).with_name("penstock")
UNTIL = {"until": "2026-01-01T12:00Z"}
SECONDS = 180
"""A deadline that nothing comes near."""


def written(path, **tables):
    """A configuration as a file."""
    lines = []
    for name, table in streams.pipeline(**tables).items():
        for each in table if isinstance(table, list) else [table]:
            lines.append(f"[[{name}]]" if isinstance(table, list) else f"[{name}]")
            lines += [f"{key} = {json.dumps(value)}" for key, value in each.items()]
    path.write_text("\n".join(lines) + "\n")
    return path


def finite(**tables):
    """A configuration of a finished file, here."""
    streams.parquet(Path("taps.parquet"), streams.events(), row_group_size=100)
    return written(Path("taps.toml"), **{"stream": UNTIL, **tables})


def live(**tables):
    """A configuration of a file that grows, in units of a second from a moment ago on, here."""
    Path("taps.csv").write_text("ts,station,card\n")
    begin = (datetime.now(UTC) - timedelta(seconds=2)).replace(microsecond=0)
    stream = {"every": "1s", "origin": begin.isoformat(), "pace": "0s"}
    return written(
        Path("taps.toml"),
        **{
            "stream": stream,
            "source": {"kind": "csv", "path": "taps.csv", "growing": True},
            **tables,
        },
    )


def units(stream="taps"):
    with SQLiteReader("taps.db") as reader:
        assert reader.verify(stream).account.kept
        return reader.head(stream).unit


def holder():
    """Who holds the lease, as the store has it."""
    with closing(sqlite3.connect("taps.db")) as file:
        return file.execute("SELECT owner FROM leases").fetchone()[0]


class Running:
    """`penstock run` as a process of its own, and what it has said."""

    def __init__(self, *tokens, log="json"):
        command = [str(PENSTOCK), "run", *map(str, tokens), "--log", log]
        self._process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        self.lines = []
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self):
        for line in self._process.stderr:
            self.lines.append(line)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._thread.join()
        self._process.stderr.close()

    @property
    def events(self):
        return [json.loads(line) for line in self.lines]

    def wait_for(self, what, times=1):
        deadline = time.monotonic() + SECONDS
        while sum(each["event"] == what for each in self.events) < times:
            assert time.monotonic() < deadline, self.lines
            assert self._process.poll() is None, self.lines
            time.sleep(0.02)

    def send(self, number):
        self._process.send_signal(number)

    def end(self):
        """The exit code, when all has been said."""
        self._process.wait(SECONDS)
        self._thread.join(SECONDS)
        return self._process.returncode


# -- a finished file -------------------------------------------------------------------------------


def test_a_finished_file_is_published_and_told_in_lines(capsys):
    outcome = Outcome(capsys, "run", str(finite()))
    assert (outcome.code, outcome.out) == (0, "")
    assert units() == 12
    lines = outcome.err.splitlines()
    assert all(
        re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (info   |warning|error  ) ", line)
        for line in lines
    )
    told = [line.split(maxsplit=2)[2] for line in lines]
    here = Path.cwd()
    assert told[0] == f"taps accepting: events are read from {here}/taps.parquet (parquet)."
    assert told[1].startswith("taps promise: An observer may see everything")
    assert told[2] == "taps start unit 1: laplace every 1h, to the store alone"
    assert told[3:] == [
        "taps begin: finite input",
        *(f"taps release unit {unit}" for unit in range(1, 13)),
        "taps end",
        told[-4],
        "taps next: penstock query taps.toml top",
        "taps next: penstock query taps.toml counts --plot taps.html",
        "taps next: penstock ledger verify taps.toml",
    ]
    assert told[-4] == (
        "taps published: 12 units of 1h (all new), 2026-01-01 00:00 to 2026-01-01 12:00 in UTC. "
        f"They are in {here}/taps.db."
    )
    for line in told[-3:]:
        command = line.partition("next: penstock ")[2].split()
        assert Outcome(capsys, *command).code == 0


@pytest.mark.parametrize(
    ("tls", "scheme"), [({}, "http"), ({"tls_cert": "a", "tls_key": "b"}, "https")]
)
def test_a_run_begins_with_the_address_that_accepts_events(tls, scheme):
    http = {"kind": "http", "path": None, "listen": "127.0.0.1:8080", "token_env": "TAPS_TOKEN"}
    pipeline = Pipeline.of(streams.pipeline(source={**http, **tls}))
    assert accepting(pipeline) == (
        f"POST events to {scheme}://127.0.0.1:8080/events, with the token in TAPS_TOKEN."
    )


def test_a_second_start_says_where_it_goes_on(capsys):
    path = finite()
    Outcome(capsys, "run", str(path))
    outcome = Outcome(capsys, "run", str(path), "--log", "json")
    events = [json.loads(line) for line in outcome.err.splitlines()]
    assert [each["event"] for each in events] == [
        *("accepting", "promise", "resume", "begin", "end", "published", "next", "next", "next")
    ]
    assert "12 units of 1h (0 new)" in events[5]["text"]
    assert events[2] | {"time": ""} == {
        "time": "",
        "level": "info",
        "event": "resume",
        "stream": "taps",
        "unit": 13,
        "text": "laplace every 1h, to the store alone",
    }


def test_several_streams_are_published_together(capsys):
    first = finite()
    second = written(
        Path("more.toml"),
        stream={**UNTIL, "name": "more"},
        sink=[{"kind": "jsonl", "path": "more.jsonl"}],
    )
    outcome = Outcome(capsys, "run", str(first), str(second))
    assert outcome.code == 0
    assert (units(), units("more")) == (12, 12)
    assert "more start unit 1: laplace every 1h, to jsonl" in outcome.err
    assert len(Path("more.jsonl").read_text().splitlines()) >= 12


def test_nothing_is_told_without_a_log(capsys):
    outcome = Outcome(capsys, "run", str(finite()), "--log", "none")
    assert (outcome.code, outcome.out, outcome.err) == (0, "", "")
    assert units() == 12


def test_no_data_are_in_the_log(capsys):
    """Every value in the file is one that appears nowhere else."""
    rows = [
        *["2026-01-01T00:10Z,Airport,471147114711"] * 5,
        "2026-01-01T00:11Z,canary-key,471147114711",
        "2026-01-01T00:12Z,Airport,canary-person",
        "canary-time,Airport,471147114711",
        "canary-line",
        "2031-03-03T03:03Z,Airport,471147114711",
    ]
    Path("taps.csv").write_text("\n".join(["ts,station,card", *rows]) + "\n")
    path = written(Path("taps.toml"), stream=UNTIL, source={"kind": "csv", "path": "taps.csv"})
    for style in ("text", "json"):
        outcome = Outcome(capsys, "run", str(path), "--log", style)
        assert outcome.code == 0
        assert not re.search("canary|4711|2031", outcome.err)
    assert units() == 12


# -- mistakes and problems -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tokens", "told"),
    [
        ([], "penstock: PIPELINE is missing: name one or more configurations"),
        (["nowhere.toml"], "/nowhere.toml cannot be read: there is no such file."),
        (["taps.toml", "--log", "loud"], "loud"),
        (["taps.toml", "taps.toml"], "two of these pipelines publish a stream 'taps'"),
    ],
)
def test_a_mistake_on_the_command_line_is_one_line(capsys, tokens, told):
    finite()
    outcome = Outcome(capsys, "run", *tokens)
    assert outcome.code == 2
    assert told in outcome.err
    assert len(outcome.err.splitlines()) == 1


def test_mistakes_in_a_configuration_are_all_told(capsys):
    path = finite(privacy={"mechanism": "laplac", "epsilon": "1"}, operator={"metrics": "here"})
    outcome = Outcome(capsys, "run", str(path))
    assert outcome.code == 2
    assert "laplac" in outcome.err
    assert "metrics" in outcome.err
    assert not Path("taps.db").exists()


def test_files_that_are_not_there_are_told(capsys):
    path = finite()
    Path("taps.parquet").unlink()
    outcome = Outcome(capsys, "run", str(path))
    assert outcome.code == 2
    assert outcome.err.splitlines()[-1].startswith(
        f"penstock: taps: source.path: no file matches {Path.cwd()}/taps.parquet. Write "
    )


def test_a_column_that_is_not_there_is_a_mistake_in_the_configuration(capsys):
    outcome = Outcome(capsys, "run", str(finite(source={"key": "place"})))
    assert outcome.code == 2
    assert outcome.err.splitlines()[-1].startswith(
        f"penstock: taps: {Path.cwd()}/taps.parquet has no column 'place'; it has 'ts',"
    )


def test_rows_that_cannot_be_read_are_a_mistake_in_the_configuration(capsys):
    """The mistake that once released 24 units of noise with exit code 0."""
    rows = [f"01.01.2026 00:10,Airport,4711{card}\n" for card in range(5_000)]
    Path("taps.csv").write_text("".join(["ts,station,card\n", *rows]))
    path = written(Path("taps.toml"), stream=UNTIL, source={"kind": "csv", "path": "taps.csv"})
    outcome = Outcome(capsys, "run", str(path))
    assert outcome.code == 2
    assert outcome.err.splitlines()[-1].startswith(
        "penstock: taps: source: fewer than half of the rows of a sample can be taken"
    )
    assert not re.search("4711|5000|5,000|Airport", outcome.err)
    assert units() == 0
    assert Outcome(capsys, "run", str(path), "--anyway").code == 0
    assert units() == 12


def test_a_promise_that_was_changed_is_a_mistake_in_the_configuration(capsys):
    assert Outcome(capsys, "run", str(finite())).code == 0
    changed = finite(privacy={"epsilon": "2"})
    for style in ("text", "json"):
        outcome = Outcome(capsys, "run", str(changed), "--log", style)
        assert outcome.code == 2
        assert "privacy.epsilon" in outcome.err
        assert "or another name in [stream] for a new series" in outcome.err
    assert units() == 12


def test_a_mistake_and_a_problem_that_may_pass_end_with_1(capsys):
    """A restart helps one of the two streams."""
    one = finite(sink=[{"kind": "webhook", "url": "http://127.0.0.1:1/"}])
    source, stream = {"path": "gone.parquet"}, {**UNTIL, "name": "gone"}
    other = written(Path("gone.toml"), stream=stream, source=source)
    outcome = Outcome(capsys, "run", str(one), str(other))
    assert outcome.code == 1
    assert f"no file matches {Path.cwd()}/gone.parquet." in outcome.err
    assert "some sinks lack releases" in outcome.err


@pytest.mark.parametrize("content", ["x", "this is no database, and was here before" * 100])
def test_a_store_that_is_none_is_told(capsys, content):
    path = finite()
    Path("taps.db").write_text(content)
    outcome = Outcome(capsys, "run", str(path))
    assert outcome.code == 2
    assert re.fullmatch(r"penstock: /.*/taps\.db .*\.\n", outcome.err)
    machines = Outcome(capsys, "run", str(path), "--log", "json")
    assert machines.code == 2
    assert json.loads(machines.err)["level"] == "error"
    assert Path("taps.db").read_text() == content


def test_a_key_that_others_can_read_is_a_mistake_of_the_configuration(capsys):
    path = finite(store={"key_file": "state.key"})
    Path("state.key").write_text("ab" * 32)
    Path("state.key").chmod(0o644)
    outcome = Outcome(capsys, "run", str(path))
    assert outcome.code == 2
    assert re.fullmatch(
        r"penstock: the file '.*state\.key' holds the key, and other users can read .*\.\n",
        outcome.err,
    )
    assert not Path("taps.db").exists()


def test_a_second_publisher_is_refused(capsys):
    path = finite()
    with Publisher(module.read_pipeline(path)):
        outcome = Outcome(capsys, "run", str(path))
    assert outcome.code == 1
    assert re.fullmatch(
        "penstock: stream 'taps' is being published by another process[.] .*\n", outcome.err
    )


def test_an_address_in_use_is_told_before_anything_is_published(capsys):
    with socket.create_server(("127.0.0.1", 0)) as used:
        port = used.getsockname()[1]
        outcome = Outcome(capsys, "run", str(finite(operator={"metrics": f"127.0.0.1:{port}"})))
    assert outcome.code == 1
    assert f"127.0.0.1:{port} cannot be bound" in outcome.err
    assert units() == 0


def test_a_sink_that_lacks_releases_is_told(capsys, monkeypatch):
    path = finite(sink=[{"kind": "webhook", "url": "http://127.0.0.1:1/"}])
    outcome = Outcome(capsys, "run", str(path))
    assert outcome.code == 1
    assert "warning taps sink: sink 'webhook'" in outcome.err
    assert outcome.err.splitlines()[-1].startswith("penstock: taps: some sinks lack releases.")
    assert units() == 12


def test_what_an_unexpected_error_says_is_not_told(capsys, monkeypatch):
    def fail(self, after=None):
        raise ValueError("card 4711 at Airport")

    path, before = finite(), threading.excepthook
    monkeypatch.setattr(FileSource, "batches", fail)
    for style in ("text", "json", "none"):
        outcome = Outcome(capsys, "run", str(path), "--log", style)
        assert outcome.code == 1
        assert "4711" not in outcome.err
        assert "ValueError" in outcome.err
    assert threading.excepthook is before


def test_what_an_unexpected_error_at_the_start_says_is_not_told(capsys, monkeypatch):
    def fail(*args, **more):
        raise ValueError("card 4711 at Airport")

    path = finite()
    monkeypatch.setattr(module, "Process", fail)
    outcome = Outcome(capsys, "run", str(path))
    assert outcome.code == 1
    assert "4711" not in outcome.err
    assert outcome.err.splitlines()[-1] == "penstock: an unexpected error (ValueError)."


def test_what_libraries_log_is_told_without_their_words(capsys):
    logs = RunLog("text", Console(stderr=True))
    with module._quiet(logs):
        logging.getLogger("somebody.else").error("card %s", "4711")
        try:
            raise KeyError("4711")
        except KeyError:
            logging.getLogger("uvicorn.error").exception("card 4711")
        logging.getLogger("penstock.private").warning(
            "http: a request has failed (%s).", "ValueError"
        )
    told = capsys.readouterr().err
    assert "4711" not in told
    first, second, third = told.splitlines()
    assert " error   trouble: somebody.else: a message that is not shown, at test_run.py:" in first
    assert " error   trouble: uvicorn.error: KeyError, at test_run.py:" in second
    assert third.endswith("warning trouble: http: a request has failed (ValueError).")


def test_a_log_that_cannot_be_written_stops_nothing(capsys, monkeypatch):
    class Full:
        def write(self, text):
            raise OSError(28, "No space left on device")

        def flush(self):
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(sys, "stderr", Full())
    for style in ("text", "json"):
        RunLog(style, Console(stderr=True))(Notice(kind="release", stream="taps", unit=1))


def test_nobody_needs_to_read_the_log():
    path = finite()
    reads, writes = os.pipe()
    os.close(reads)
    done = subprocess.run(
        [str(PENSTOCK), "run", str(path)], stderr=writes, timeout=SECONDS, check=False
    )
    os.close(writes)
    assert done.returncode == 0
    assert units() == 12


# -- being told to stop ----------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_told_to_stop_it_leaves_everything_whole(number):
    if signal.getsignal(number) is signal.SIG_IGN:
        pytest.skip(f"{number.name} is ignored here, as under nohup, and a publisher leaves it so")
    path = live(sink=[{"kind": "jsonl", "path": "releases.jsonl"}])
    with Running(path) as running:
        running.wait_for("release", times=2)
        assert holder()
        running.send(number)
        assert running.end() == 0
        events = running.events
    last = [each["event"] for each in events]
    last = last[last.index("stopping") :]
    words = ["published", "next", "next", "next"]
    assert last in (["stopping", "end", *words], ["stopping", "release", "end", *words])
    released = [each["unit"] for each in events if each["event"] == "release"]
    assert released == list(range(1, units() + 1))
    assert holder() == ""


def test_after_a_stop_it_goes_on_where_it_was():
    path = live()
    ends = []
    for _ in range(2):
        with Running(path) as running:
            running.wait_for("release")
            running.send(signal.SIGTERM)
            assert running.end() == 0
            ends.append(
                [
                    each.get("unit")
                    for each in running.events
                    if each["event"] in ("start", "resume", "release")
                ]
            )
    first, second = ends
    assert first[0] == 1
    assert second[0] == second[1] == first[-1] + 1
    assert units() == second[-1]


def test_told_twice_it_ends_at_once():
    """A sink that takes what is sent and never answers would be waited for."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        path = live(sink=[{"kind": "webhook", "url": url}])
        with Running(path) as running:
            running.wait_for("release")
            connection, _ = silent.accept()
            with connection:
                running.send(signal.SIGINT)
                running.wait_for("stopping")
                running.send(signal.SIGINT)
                assert running.end() == -signal.SIGINT
    assert units() >= 1
    with Running(live_again(path)) as again:
        again.wait_for("release")
        again.send(signal.SIGTERM)
        assert again.end() == 0


def live_again(path):
    """The same stream without its sink."""
    text = path.read_text()
    path.write_text(text[: text.index("[[sink]]")])
    return path


def test_told_to_stop_before_it_has_begun_it_ends(capsys, monkeypatch):
    def stopped(*args, **more):
        signal.raise_signal(signal.SIGTERM)

    path = finite()
    monkeypatch.setattr(module, "Process", stopped)
    outcome = Outcome(capsys, "run", str(path))
    assert outcome.code == 0
    assert "end: asked to stop before anything was published" in outcome.err
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_signal_that_was_ignored_stays_so():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with module._Stop() as stop:
            signal.raise_signal(signal.SIGHUP)
            assert not stop.wanted
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_metrics_are_served_while_it_publishes():
    with Running(live(operator={"metrics": "127.0.0.1:0"})) as running:
        running.wait_for("release")
        (url,) = [each["text"] for each in running.events if each["event"] == "metrics"]
        told = httpx.get(url, trust_env=False, timeout=SECONDS).text
        assert 'penstock_publishing{stream="taps"} 1.0' in told
        running.send(signal.SIGTERM)
        assert running.end() == 0


# -- on a terminal ---------------------------------------------------------------------------------


class Terminal:
    """`penstock run` with a terminal to show things on."""

    def __init__(self, *tokens):
        self._master, slave = pty.openpty()
        environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "200", "LINES": "30"}
        command = [str(PENSTOCK), "run", *map(str, tokens)]
        self.process = subprocess.Popen(
            command, stdin=slave, stdout=slave, stderr=slave, env=environment
        )
        os.close(slave)
        self._raw = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._master)

    @property
    def text(self):
        """What was written, without colours and moves."""
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self._raw.decode("utf-8", "replace"))

    def wait_for(self, pattern):
        deadline = time.monotonic() + SECONDS
        while not re.search(pattern, self.text):
            assert time.monotonic() < deadline, self.text
            if not self._read():
                assert re.search(pattern, self.text), self.text
                return

    def end(self):
        while self._read():
            pass
        return self.process.wait(SECONDS)

    def _read(self):
        """Something more; whether there will be more."""
        try:
            if select.select([self._master], [], [], 0.1)[0]:
                more = os.read(self._master, 65_536)
                self._raw += more
                return bool(more)
        except OSError:  # the other side is closed
            return False
        return True


def test_a_finite_input_has_a_bar_with_the_time_left():
    with Terminal(finite()) as terminal:
        assert terminal.end() == 0
        assert re.search(r"taps ━+ +\d+% .*\d:\d\d:\d\d .*left", terminal.text)
        assert re.search(r"taps ━+ 100% 12 units", terminal.text)
        assert "release unit" not in terminal.text
        assert "taps start unit 1: laplace every 1h" in terminal.text
        assert "\ntaps published: 12 units of 1h" in terminal.text.replace("\r", "")
        assert "\ntaps next: penstock query " in terminal.text.replace("\r", "")


def test_a_live_stream_has_a_line_that_moves():
    with Terminal(live(sink=[{"kind": "jsonl", "path": "releases.jsonl"}])) as terminal:
        terminal.wait_for(r"taps · jsonl ✓ · released unit [1-9]")
        terminal.wait_for(r"window\s+100\s+%\s+spent")
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.end() == 0
        assert "info    stopping: asked to stop" in terminal.text
        assert "Traceback" not in terminal.text
        assert b"\x1b[?25h" in terminal._raw  # the cursor is there again


def test_progress_goes_from_nothing_to_all():
    seen = []
    with Publisher(
        module.read_pipeline(finite()),
        noise=NoNoise,
        listener=lambda _: seen.append(progress(made[0])),
    ) as publisher:
        made = [publisher]
        assert progress(publisher) == 0
        publisher.run()
        assert progress(publisher) == 1
    assert seen == sorted(seen)
    assert len(set(seen)) > 6


def test_the_line_of_a_live_stream_says_what_is_wrong():
    path = written(
        Path("taps.toml"),
        stream={"pace": "0s"},
        source={"kind": "csv", "path": "taps.csv", "growing": True},
        privacy={"mechanism": "uniform", "window": 3},
    )
    clock = ManualClock("2026-01-01T00:30Z")
    with Publisher(module.read_pipeline(path), noise=NoNoise, clock=clock) as publisher:
        assert (
            status_line(publisher).plain
            == "taps · released nothing yet, next closes 01:00:00 UTC, window 0 % spent"
        )
        clock.set("2026-01-01T02:30Z")
        assert (
            status_line(publisher).plain
            == "taps · released nothing yet, window 0 % spent, 2 units behind"
        )
        publisher.loop.draw(clock.now())
        publisher.loop.commit()
        publisher.loop._problem = "the source is down."
        line = status_line(publisher)
        assert line.plain == (
            "taps · the source is down. · released unit 1 (2026-01-01T00:00+00:00), "
            "window 34 % spent, 1 unit behind"
        )
        narrow = Console(width=40, file=io.StringIO())
        narrow.print(line)
        assert " ".join(narrow.file.getvalue().split()) == line.plain


def test_a_line_of_the_log_is_one_line(capsys):
    for style in ("text", "json"):
        RunLog(style, Console(stderr=True))(
            Notice(kind="sink", stream="taps", text="first\nsecond", level="warning")
        )
    assert len(capsys.readouterr().err.splitlines()) == 2


def test_help_says_how_it_ends(capsys):
    outcome = Outcome(capsys, "run", "--help")
    assert outcome.code == 0
    for told in (
        "Ctrl-C or SIGTERM",
        "--log",
        "--takeover",
        "Exit codes: 0 if all was published",
        "penstock run taps.toml",
    ):
        assert told in outcome.out


# -- the page --------------------------------------------------------------------------------------


PAGE = (Path(module.__file__).parents[3] / "docs" / "how-to" / "run.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as found:
        return found.getsockname()[1]


class Page:
    """The configuration and the commands of the page, for a stream that begins now."""

    def __init__(self):
        begin = (datetime.now(UTC) - timedelta(seconds=2)).replace(microsecond=0)
        self.quick = {
            'every = "1h"': 'every = "1s"',
            'origin = "2026-01-01"': f'origin = "{begin.isoformat()}"',
            'lateness = "10min"': 'lateness = "0s"',
        }
        self.ports = {
            "127.0.0.1:8080": f"127.0.0.1:{free_port()}",
            "127.0.0.1:9464": f"127.0.0.1:{free_port()}",
        }

    def here(self, text, changes):
        for old, new in changes.items():
            assert old in text or old in self.ports
            text = text.replace(old, new)
        return text

    def configure(self, configuration):
        Path("taps.toml").write_text(self.here(configuration, self.quick | self.ports))

    def do(self, commands):
        environment = {
            **os.environ,
            "PATH": f"{PENSTOCK.parent}:{os.environ['PATH']}",
            "NO_PROXY": "*",
        }
        command = ["bash", "-euo", "pipefail", "-c", self.here(commands, self.ports)]
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


needs_tools = pytest.mark.skipif(
    not (shutil.which("curl") and shutil.which("sqlite3")),
    reason="curl or sqlite3 is missing: apt-get install curl sqlite3",
)


@needs_tools
def test_every_command_of_the_page_does_what_it_says():
    configuration, _ = blocks("toml")
    page = Page()
    do = page.do
    page.configure(configuration)
    secrets, check, send, _, watch, read, backup, export = blocks("sh")
    do(secrets)
    assert "BEWARE" not in do(check)
    with Running("taps.toml") as running:
        running.wait_for("release")
        assert do(send) == '{"status":"kept"}'
        told = do(watch)
        assert '"on time"' in told
        assert '"rejections":{}' in told
        names = set(re.findall(r"^(penstock_\w+)\{", told, re.MULTILINE))
        alerts = set(
            re.findall(
                r"penstock_\w+", "".join(blocks("yaml")) + PAGE[PAGE.index("Worth a graph") :]
            )
        )
        assert alerts
        assert alerts <= names
        assert "taps" in do(read)
        do(backup)
        running.wait_for(
            "release", times=sum(each["event"] == "release" for each in running.events) + 2
        )
        running.send(signal.SIGTERM)
        assert running.end() == 0
    do(export)
    for name in ("taps.db", "taps.db-wal", "taps.db-shm"):
        Path(name).unlink(missing_ok=True)
    shutil.copy("backup/taps.db", "taps.db")
    refused = subprocess.run(
        [str(PENSTOCK), "run", "taps.toml"],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert refused.returncode == 1
    (message,) = blocks("text")
    start = re.escape(message.replace("/home/me", str(Path.cwd())).partition("…")[0].strip())
    assert re.match(re.sub(r"unit\\ [0-9]+", r"unit [0-9]+", start), refused.stderr)


@needs_tools
@pytest.mark.slow
def test_the_encryption_of_the_page_works_and_wrong_files_end_the_start():
    configuration, encryption = blocks("toml")
    for table in encryption.split("\n\n"):
        heading, _, lines = table.partition("\n")
        configuration = configuration.replace(f"{heading}\n", f"{heading}\n{lines.strip()}\n")
    secrets, _, _, encrypted, *_ = blocks("sh")
    page = Page()
    page.configure(configuration)
    authority = Authority(Path("tls"))
    for name in ("server", "gate"):
        authority.issue(name)
    page.do(secrets)
    page.do("cp tls/ca.pem tls/gates.pem")
    with Running("taps.toml") as running:
        running.wait_for("release")
        told = page.do(encrypted)
        assert '{"status":"listening"}' in told
        assert '"on time"' in told
        running.send(signal.SIGTERM)
        assert running.end() == 0
    (metrics,) = [each["text"] for each in running.events if each["event"] == "metrics"]
    assert metrics.startswith("https://127.0.0.1:")
    for wrong in ("chmod 644 tls/server.key", "rm tls/server.key"):
        page.do(wrong)
        done = subprocess.run(
            [str(PENSTOCK), "run", "taps.toml"], capture_output=True, text=True, check=False
        )
        assert done.returncode == 2
        assert "tls/server.key" in done.stderr


def test_the_service_of_the_page_starts_again_only_when_that_helps():
    (service,) = blocks("ini")
    found = configparser.ConfigParser(strict=True, interpolation=None)
    found.optionxform = str
    found.read_string(service)
    section = found["Service"]
    assert section["ExecStart"].endswith("penstock run taps.toml --log json")
    assert (section["Restart"], section["RestartPreventExitStatus"]) == ("on-failure", "2")
    assert (section["UMask"], section["LimitCORE"]) == ("0077", "0")
