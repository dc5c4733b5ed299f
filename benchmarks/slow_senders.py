"""Answers of a publisher whose HTTP source and monitor are attacked by slow connections.

    python benchmarks/slow_senders.py [--json]

A publisher runs as a process of its own, with an HTTP source and a monitor. Attackers open 1,005
connections to each of both: a complete GET /health, then half a request that never ends. They come
from one address or from twenty, and open connections that were closed again, 100 per second.
Meanwhile a sender posts one event at a time and a watcher reads /health and /metrics, each with a
connection of its own for every request. All of them must be answered.
"""

from __future__ import annotations

import contextlib
import http.client
import resource
import selectors
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from report import Figure, main

CONNECTIONS = 1_005
ROUNDS = 100
TICK_SECONDS = 0.1
REOPENED_PER_TICK = 10
TOKEN = "only-for-this-benchmark"
COMPLETE = b"GET /health HTTP/1.1\r\nhost: benchmark\r\n\r\n"
HALF = b"POST /events HTTP/1.1\r\nho"
EVENT = b'{"ts": "2026-01-01T00:10:00Z", "station": "north"}'
WORST_SECONDS = 5.0

PIPELINE = """
[stream]
name = "taps"
every = "1s"
origin = "2026-01-01"
lateness = "100000h"
[source]
kind = "http"
listen = "127.0.0.1:{ingest}"
token_file = "token"
time = "ts"
key = "station"
[domain]
keys = ["north", "south"]
[privacy]
mechanism = "laplace"
epsilon = "1"
[store]
path = "taps.db"
[operator]
metrics = "127.0.0.1:{monitor}"
"""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


@contextlib.contextmanager
def publisher() -> Iterator[tuple[int, int]]:
    """A running publisher; gives the ports of its source and of its monitor."""
    ingest, monitor = free_port(), free_port()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "taps.toml").write_text(PIPELINE.format(ingest=ingest, monitor=monitor))
        (folder / "token").touch(mode=0o600)
        (folder / "token").write_text(TOKEN)
        command = [sys.executable, "-m", "penstock", "run", "taps.toml", "--log", "none"]
        with subprocess.Popen(command, cwd=folder) as running:
            try:
                for port in (ingest, monitor):
                    while running.poll() is None:
                        with contextlib.suppress(OSError):
                            socket.create_connection(("127.0.0.1", port)).close()
                            break
                        time.sleep(0.05)
                yield ingest, monitor
            finally:
                running.terminate()


class Attack:
    """Slow connections to some ports, opened again after they were closed."""

    def __init__(self, ports: tuple[int, ...], peers: int) -> None:
        self._ports, self._peers = ports, peers
        self._selector = selectors.DefaultSelector()
        self._opened = 0
        self._closed: deque[int] = deque()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Attack:
        for port in self._ports:
            for _ in range(CONNECTIONS):
                self._open(port)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        for key in list(self._selector.get_map().values()):
            key.fileobj.close()  # type: ignore[union-attr]

    def _open(self, port: int) -> None:
        """Send a complete request, wait for its answer, and send half a request."""
        self._opened += 1
        connection = socket.socket()
        connection.settimeout(60)
        connection.bind((f"127.0.0.{2 + self._opened % self._peers}", 0))
        try:
            connection.connect(("127.0.0.1", port))
            connection.sendall(COMPLETE)
            connection.recv(65536)
            connection.sendall(HALF)
        except OSError:
            connection.close()
            self._closed.append(port)
        else:
            self._selector.register(connection, selectors.EVENT_READ, port)

    def _run(self) -> None:
        while not self._stop.wait(TICK_SECONDS):
            for key, _ in self._selector.select(0):
                connection: socket.socket = key.fileobj  # type: ignore[assignment]
                with contextlib.suppress(OSError):
                    if connection.recv(65536):
                        continue
                self._selector.unregister(connection)
                connection.close()
                self._closed.append(key.data)
            for _ in range(min(REOPENED_PER_TICK, len(self._closed))):
                self._open(self._closed.popleft())


def answered(port: int, method: str, path: str) -> tuple[bool, float]:
    """Whether a request was answered with 200, and after how many seconds."""
    start = time.perf_counter()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    headers = {"authorization": f"Bearer {TOKEN}", "content-type": "application/x-ndjson"}
    try:
        connection.request(method, path, EVENT if method == "POST" else None, headers)
        done = connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        done = False
    finally:
        connection.close()
    return done, time.perf_counter() - start


def figures() -> Iterator[Figure]:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    for peers in (1, 20):
        with publisher() as (ingest, monitor), Attack((ingest, monitor), peers):
            asked = (
                ("POST /events", ingest, "POST", "/events"),
                ("GET /health", monitor, "GET", "/health"),
                ("GET /metrics", monitor, "GET", "/metrics"),
            )
            for name, port, method, path in asked:
                found = [answered(port, method, path) for _ in range(ROUNDS)]
                share = sum(done for done, _ in found) / ROUNDS
                worst = max(seconds for _, seconds in found)
                case = f"{name}, attacked from {peers} address{'es' if peers > 1 else ''}"
                yield Figure(f"{case}: answered", share, "of all", 1.0, at_least=True)
                yield Figure(f"{case}: slowest", worst, "s", WORST_SECONDS)


if __name__ == "__main__":
    main(__doc__ or "", figures)
