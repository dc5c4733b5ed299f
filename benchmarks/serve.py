"""The read service: answers over 10,000 keys and 10,000 units, and 200 readers that follow live.

    python benchmarks/serve.py [--json] [--minutes 1] [--keys 10000] [--units 10000] [--readers 200]
                               [--only answers|live]

Answers. A store is made with test noise, and `penstock serve` reads it in a process of its own.
While the copy by key is built, the newest 1,000 units of a key must be answered. Then the service
is started again over its copy. The first chart is everything that the dashboard asks for before it
draws one key over all units. Other keys follow: median of the seconds, most bytes of an answer.

Live. `penstock run` publishes a unit per second, first alone, then with its own service (run), then
with `penstock serve` beside it (alone). All readers are connections of this process. A delay is the
time from the line in the publisher's log that a unit is public to the arrival of its event. The log
has milliseconds. Memory is that of the process that serves, from a third of the time on, and from
the end of the first minute on if it is longer. Publishing is slowed by so much as the median time
from the moment when a unit is due to that line has grown.

Everything is on the loopback.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import os
import re
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from http.client import HTTPConnection
from pathlib import Path
from statistics import median
from urllib.parse import quote, urlsplit

import numpy as np

from penstock import Uniform
from penstock.core.calendar import Calendar
from penstock.engine.release_log import FileLog, LogWriter
from penstock.released.series import Series
from penstock.testing import TestNoise

from report import Figure, main

PENSTOCK = [sys.executable, "-m", "penstock"]
STREAM = "taps"
POINTS = 1_000
"""How many numbers of a series the dashboard asks for."""

KEYS_ASKED = 40
PATIENCE = 600.0
MAX_MINUTES, MAX_READERS = 60, 500
EVENTS_PER_SECOND = 200
KEY = "PENSTOCK_BENCH_KEY"

PIPELINE = """
[stream]
name = "{stream}"
every = "1s"
origin = "{origin}"
lateness = "0s"

[source]
kind = "csv"
path = "taps.csv"
growing = true
time = "at"
key = "station"
person = "card"

[domain]
keys = {keys}

[privacy]
mechanism = "uniform"
epsilon = "1"
window = 60

[store]
path = "taps.db"
key_env = "{key}"
{service}
"""


# -- answers ---------------------------------------------------------------------------------------


def make_store(path: Path, keys: int, units: int) -> None:
    """Fill a release log, as fast as it can be."""
    run = Uniform(epsilon="1", window=10).run(
        [f"station {number:05}" for number in range(keys)], noise=TestNoise(1)
    )
    calendar = Calendar(every="1h", origin="2025-01-01")
    typical = np.random.default_rng(1).integers(0, 500, keys)
    writer = LogWriter(path, Series.of(run, name=STREAM, calendar=calendar))
    writer._file.execute("PRAGMA synchronous = OFF")  # nobody needs this store after a power cut
    log = FileLog(writer, run)
    for unit in range(units):
        log.append(run.step(typical + unit % 24))
    log.close()


@contextmanager
def started(command: list[str], folder: Path, **environment: str) -> Iterator[tuple[str, int]]:
    """Run `penstock serve`; give its address and its process id."""
    process = subprocess.Popen(
        [*PENSTOCK, *command],
        cwd=folder,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | environment,
    )
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if found := re.search(r"https?://\S+", line):
                yield found[0], process.pid
                return
        raise SystemExit("penstock serve did not start: see above.")
    finally:
        process.terminate()
        process.wait(30)


class Asking:
    """One connection to a service, with the seconds and the bytes of the last answer."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._connection = HTTPConnection(parts.hostname or "", parts.port, timeout=120)
        self.seconds, self.size, self.status = 0.0, 0, 0

    def get(self, path: str) -> bytes:
        begin = time.perf_counter()
        self._connection.request("GET", path, headers={"Accept-Encoding": "gzip"})
        reply = self._connection.getresponse()
        body = reply.read()
        self.seconds, self.size = time.perf_counter() - begin, len(body)
        self.status = reply.status
        return gzip.decompress(body) if reply.headers["Content-Encoding"] == "gzip" else body

    def stream(self) -> dict[str, object]:
        self._connection.request("GET", f"/v1/streams/{STREAM}")
        found: dict[str, object] = json.loads(self._connection.getresponse().read())
        return found


def one_key(number: int, **more: object) -> str:
    name = quote(f"station {number:05}")
    rest = "".join(f"&{key.rstrip('_')}={value}" for key, value in more.items())
    return f"/v1/streams/{STREAM}/answers/counts?key={name}{rest}"


def answers(keys: int, units: int) -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        begin = time.perf_counter()
        make_store(folder / "taps.db", keys, units)
        yield Figure("store filled", time.perf_counter() - begin, "s")
        command = ["serve", "taps.db", "--listen", "127.0.0.1:0", "--copy", "copy"]
        begin = time.perf_counter()
        with started(command, folder) as (url, _):
            yield from while_copied(url, units, begin)
        with started(command, folder) as (url, pid):
            asking = Asking(url)
            wait_for_copy(asking)
            yield from charts(asking, pid, keys, units)
            yield Figure("memory of the service", memory(pid) / 1e6, "MB")


def while_copied(url: str, units: int, begin: float) -> Iterator[Figure]:
    """The newest 1,000 units of some keys, until the copy is there."""
    asking, asked, worked, slowest = Asking(url), 0, 0, 0.0
    while asking.stream()["catching_up"] is not None:
        body = asking.get(one_key(asked % 100, last=min(1_000, units)))
        asked += 1
        if asking.status == 200:
            worked += len(json.loads(body)["units"]) == min(1_000, units)
        slowest = max(slowest, asking.seconds)
        if time.perf_counter() - begin > PATIENCE:
            raise SystemExit("the copy was not built in time.")
        time.sleep(0.2)
    yield Figure("copy built after", time.perf_counter() - begin, "s")
    if asked:
        yield Figure(
            "newest 1,000 units answered meanwhile", worked / asked, "share", 1, at_least=True
        )
        yield Figure("newest 1,000 units meanwhile, slowest", slowest, "s")


def wait_for_copy(asking: Asking) -> None:
    begin = time.perf_counter()
    while asking.stream()["catching_up"] is not None:
        if time.perf_counter() - begin > PATIENCE:
            raise SystemExit("the copy was not read in time.")
        time.sleep(0.1)


def charts(asking: Asking, pid: int, keys: int, units: int) -> Iterator[Figure]:
    first = 0.0
    for path in (
        "/",
        "/v1",
        "/v1/streams",
        f"/v1/streams/{STREAM}",
        f"/v1/streams/{STREAM}/keys?limit=1000",
        one_key(keys - 1, last=units, points=POINTS),
    ):
        asking.get(path)
        if asking.status != 200 and path != "/":
            raise SystemExit(f"{path} answers {asking.status}.")
        first += asking.seconds
    yield Figure(f"first chart of one key over {units:,} units", first, "s", 1)
    for name, more in {
        f"one key over {units:,} units": {"last": units, "points": POINTS},
        "one key, newest 1,000 units": {"last": min(units, 1_000)},
        "one key, sums over a day": {"last": min(units, 1_000)},
    }.items():
        seconds, sizes, busy = list[float](), list[int](), cpu_seconds(pid)
        for number in range(0, keys, max(keys // KEYS_ASKED, 1)):
            path = one_key(number, **more)
            if "sums" in name:
                path = path.replace("/counts?", "/sum?window=1d&")
            asking.get(path)
            if asking.status != 200:
                raise SystemExit(f"{path} answers {asking.status}.")
            seconds.append(asking.seconds)
            sizes.append(asking.size)
        yield Figure(f"{name}: median", 1_000 * median(seconds), "ms", 50)
        busy = (cpu_seconds(pid) - busy) / len(seconds)
        yield Figure(f"{name}: CPU", 1_000 * busy, "ms")
        yield Figure(f"{name}: slowest of {len(seconds)}", 1_000 * max(seconds), "ms")
        yield Figure(f"{name}: most bytes", max(sizes) / 1_000, "kB", 200)


# -- live ------------------------------------------------------------------------------------------


@dataclass
class RunningPublisher:
    """`penstock run`, and when each unit was public, by its own log."""

    folder: Path
    origin: datetime
    service: str = ""
    public: dict[int, float] = field(default_factory=dict)
    url: str = ""

    def __enter__(self) -> RunningPublisher:
        keys = json.dumps([f"station {number}" for number in range(1_000)])
        (self.folder / "taps.toml").write_text(
            PIPELINE.format(
                stream=STREAM,
                origin=self.origin.strftime("%Y-%m-%dT%H:%M:%S"),
                keys=keys,
                key=KEY,
                service=self.service,
            )
        )
        self._file = (self.folder / "taps.csv").open("w", buffering=1)
        self._file.write("at,station,card\n")
        self._process = subprocess.Popen(
            [*PENSTOCK, "run", "taps.toml", "--log", "json"],
            cwd=self.folder,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ,
        )
        self.pid = self._process.pid
        self._begun = threading.Event()
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=each) for each in (self._read, self._feed)]
        for thread in self._threads:
            thread.start()
        if not self._begun.wait(60):
            self.__exit__()
            raise SystemExit("penstock run released nothing within a minute.")
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(60)
        for thread in self._threads:
            thread.join()
        self._file.close()

    def _read(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            with suppress(ValueError):
                said = json.loads(line)
                if said["event"] == "release":
                    self.public[said["unit"]] = datetime.fromisoformat(said["time"]).timestamp()
                    self._begun.set()
                elif said["level"] != "info":
                    print(line, file=sys.stderr, end="")
                elif found := re.search(r"https?://\S+", said.get("text", "")):
                    self.url = self.url or found[0].rstrip(".,")

    def _feed(self) -> None:
        rng = np.random.default_rng(1)
        while not self._ended.wait(0.1):
            now = datetime.now(UTC).isoformat()
            for number in rng.integers(0, 1_000, EVENTS_PER_SECOND // 10):
                self._file.write(f"{now},station {number},{number}\n")

    def lateness(self, first: int) -> list[float]:
        """Seconds from the moment when each unit is due to the moment when it is public."""
        due = self.origin.timestamp() + 1  # the pace of a stream is a second
        return [moment - (due + unit) for unit, moment in self.public.items() if unit >= first]


class LiveReader(asyncio.Protocol):
    """A reader of live events. It only notes when bytes arrive, and looks into them later."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._pieces: list[tuple[float, bytes]] = []
        self.closed = False
        self.stopped = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.write(
            f"GET /v1/streams/{STREAM}/live HTTP/1.1\r\nHost: {self._address}\r\n"
            "Accept: text/event-stream\r\n\r\n".encode()
        )

    def data_received(self, data: bytes) -> None:
        self._pieces.append((time.time(), data))

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True

    def close(self) -> None:
        if self.closed:
            raise SystemExit("the service has closed a live connection.")
        self.stopped = time.time()
        self._transport.close()

    @cached_property
    def arrived(self) -> dict[int, float]:
        """When the end of each unit's event arrived."""
        whole, ends, moments = bytearray(), list[int](), list[float]()
        for moment, piece in self._pieces:
            whole += piece
            ends.append(len(whole))
            moments.append(moment)
        found: dict[int, float] = {}
        for event in re.finditer(rb'data: \{"unit":(\d+)[^\n]*\n', whole):
            found.setdefault(int(event[1]), moments[bisect_left(ends, event.end())])
        return found


def memory(pid: int) -> float:
    """The resident memory of a process, in bytes."""
    text = Path(f"/proc/{pid}/statm").read_text(encoding="ascii")
    return int(text.split()[1]) * float(os.sysconf("SC_PAGE_SIZE"))


def follow(
    url: str, pid: int, readers: int, seconds: float
) -> tuple[list[LiveReader], float, float]:
    """Follow for some time. Return the readers, the growth of the memory of the process that
    serves, and its CPU seconds per second.
    """

    async def all_of_them() -> tuple[list[LiveReader], float, float]:
        until, parts, found = time.time() + seconds, urlsplit(url), list[LiveReader]()
        for _ in range(readers):
            _, reader = await asyncio.get_running_loop().create_connection(
                lambda: LiveReader(parts.netloc), parts.hostname or "", parts.port or 0
            )
            found.append(reader)
        await asyncio.sleep(min(60.0, seconds / 3))
        before, busy, begin = memory(pid), cpu_seconds(pid), time.time()
        await asyncio.sleep(max(until - time.time(), 0))
        share = (cpu_seconds(pid) - busy) / (time.time() - begin)
        growth = memory(pid) / before
        for each in found:
            each.close()
        return found, growth, share

    return asyncio.run(all_of_them())


def cpu_seconds(pid: int) -> float:
    """The CPU seconds of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / float(os.sysconf("SC_CLK_TCK"))


def delays(found: list[LiveReader], public: dict[int, float]) -> tuple[list[float], int]:
    """The delay of every event, and how many units readers have missed."""
    times, missed = list[float](), 0
    end = min(each.stopped for each in found) - 2  # later units may have been on their way
    last = max(unit for unit, moment in public.items() if moment < end)
    for each in found:
        first = min(each.arrived) + 1  # the first event is the newest unit at the connection
        missed += sum(unit not in each.arrived for unit in range(first, last + 1))
        times += [
            arrived - public[unit]
            for unit, arrived in each.arrived.items()
            if unit >= first and unit in public
        ]
    return times, missed


def soon() -> datetime:
    """A whole second in a moment, when publishing begins."""
    return datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=5)


def live(readers: int, minutes: float) -> Iterator[Figure]:
    os.environ[KEY] = secrets.token_hex(32)
    plain, late = publishing_alone(minutes), dict[str, float]()
    for mode, limit in (("run", 200), ("alone", 400)):
        with tempfile.TemporaryDirectory() as temporary:
            yield from followed(mode, limit, Path(temporary), late, readers, minutes)
        plain += publishing_alone(minutes)
    usual = median(plain)
    yield Figure("a unit is public after it is due, without a service", 1_000 * usual, "ms")
    for mode, seconds in late.items():
        what = f"{readers} readers, {mode}: publishing takes"
        yield Figure(what, seconds / usual, "times as long", 1.1)


def publishing_alone(minutes: float) -> list[float]:
    """How late units are without a service. It is measured in turn, as machines change."""
    with tempfile.TemporaryDirectory() as temporary:
        with RunningPublisher(Path(temporary), soon()) as publisher:
            time.sleep(max(min(60 * minutes / 3, 30), 10))
        return publisher.lateness(first=4)


def followed(
    mode: str, limit: float, folder: Path, late: dict[str, float], readers: int, minutes: float
) -> Iterator[Figure]:
    own = '\n[service]\nlisten = "127.0.0.1:0"\n' if mode == "run" else ""
    with RunningPublisher(folder, soon(), own) as publisher:
        first = max(publisher.public) + 3
        if mode == "run":
            found, growth, busy = follow(publisher.url, publisher.pid, readers, 60 * minutes)
        else:
            command = ["serve", "taps.toml", "--listen", "127.0.0.1:0"]
            with started(command, folder) as (url, pid):
                found, growth, busy = follow(url, pid, readers, 60 * minutes)
        public = dict(publisher.public)
    times, missed = delays(found, public)
    what = f"{readers} readers, {mode}"
    yield Figure(f"{what}: events", len(times), "events")
    yield Figure(f"{what}: units missed", missed, "units", 0)
    yield Figure(f"{what}: commit to event, median", 1_000 * median(times), "ms")
    p99 = float(np.quantile(times, 0.99))
    yield Figure(f"{what}: commit to event, 99th percentile", 1_000 * p99, "ms", limit)
    yield Figure(f"{what}: memory after / before", growth, "ratio", 1.1)
    yield Figure(f"{what}: CPU of the process that serves", busy, "cores")
    late[mode] = median(publisher.lateness(first))


def figures(given: argparse.Namespace) -> Iterator[Figure]:
    if given.only in (None, "answers"):
        yield from answers(given.keys, given.units)
    if given.only in (None, "live"):
        yield from live(min(given.readers, MAX_READERS), min(given.minutes, MAX_MINUTES))


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--minutes", type=float, default=1, help="minutes of each live part")
    parser.add_argument("--readers", type=int, default=200, help="live readers")
    parser.add_argument("--keys", type=int, default=10_000, help="keys of the large store")
    parser.add_argument("--units", type=int, default=10_000, help="units of the large store")
    parser.add_argument("--only", choices=("answers", "live"), help="one part only")


if __name__ == "__main__":
    main(__doc__ or "", figures, options)
