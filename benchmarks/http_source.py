"""Events per second that a server on one core accepts by HTTP, bounds and answers.

    python benchmarks/http_source.py [--events 4000000] [--json]

The server is a process of its own, bound to one core with all its threads. It reads requests, adds
the events to a unit that bounds them to one per person, and then answers each request, as if the
batch were on disk. Another process has four senders, each with one connection and idempotency keys,
and batches of 10,000 or 50,000 events. Events have a time (in Arrow a timestamp, in JSON an ISO
text), one of 1,000 keys as text, and a person as an integer. If answered and counted events differ,
nothing is printed.
"""

from __future__ import annotations

import argparse
import http.client
import io
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import numpy as np
import pyarrow as pa

from penstock.private.bounding import Bounding
from penstock.private.sources.base import Columns, Intake
from penstock.private.sources.http import HttpSource
from penstock.private.sources.request_bodies import JSON, NDJSON, STREAM

from report import Figure, main

KEYS = tuple(f"station {number}" for number in range(1_000))
UNIT_EVENTS = 2_500_000
SENDERS = 4
BODIES = 8
START = 1_790_000_000_000_000
BAR = 200_000.0
TOKEN = "only-for-this-benchmark"
CASES = (
    ("Arrow", STREAM, 10_000, BAR),
    ("Arrow", STREAM, 50_000, BAR),
    ("JSON lines", NDJSON, 10_000, BAR),
    ("JSON lines", NDJSON, 50_000, BAR),
    ("JSON array", JSON, 50_000, None),
)


def serve() -> None:
    """Serve until standard input ends; then print the number of events and their CPU time."""
    pa.set_cpu_count(1)
    unit = Bounding(keys=len(KEYS), contribution=1)
    for rows in (10, 10_000):
        unit.add(np.arange(rows), np.zeros(rows, np.int64), np.zeros(rows, np.int64))
    unit.clear()
    intake = Intake(
        columns=Columns("ts", "station", person="card", person_type="integer"), domain=KEYS
    )
    source = HttpSource(intake=intake, host="127.0.0.1", port=0, token=TOKEN)
    source.open({})
    ended = threading.Event()

    def until_told() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=until_told, daemon=True).start()
    print(source.address[1], flush=True)
    total = open_events = 0
    after, cpu = None, time.process_time()
    while not ended.is_set():
        source.wait(0.05)
        for batch in source.batches(after):
            unit.add(batch.person, batch.key, batch.time)
            total, open_events, after = total + len(batch), open_events + len(batch), batch.position
            source.kept(batch)
            if open_events > UNIT_EVENTS:
                unit.clear()
                open_events = 0
    print(
        json.dumps(
            {
                "events": total,
                "cpu": time.process_time() - cpu,
                "refused": source.rejections.for_operator(),
            }
        ),
        flush=True,
    )
    source.close()


def bodies(media: str, rows: int) -> list[bytes]:
    """Some bodies of random events."""
    rng = np.random.default_rng(6)
    made = []
    for _ in range(BODIES):
        ts = START + np.sort(rng.integers(0, 3_600_000_000, rows))
        station, card = rng.integers(0, len(KEYS), rows), rng.integers(0, 2**62, rows)
        if media == STREAM:
            table = pa.table(
                {
                    "ts": pa.array(ts, pa.timestamp("us", "UTC")),
                    "station": pa.array(KEYS).take(pa.array(station)),
                    "card": card,
                }
            )
            sink = io.BytesIO()
            with pa.ipc.new_stream(sink, table.schema) as writer:
                writer.write_table(table)
            made.append(sink.getvalue())
        else:
            texts = np.datetime_as_string(ts.astype("datetime64[us]"))
            lines = [
                f'{{"ts":"{moment}Z","station":"{KEYS[key]}","card":{person}}}'
                for moment, key, person in zip(texts, station.tolist(), card.tolist(), strict=True)
            ]
            made.append(("\n".join(lines) if media == NDJSON else f"[{','.join(lines)}]").encode())
    return made


def sender(
    port: int, media: str, made: list[bytes], numbers: Iterator[int], requests: int
) -> Callable[[int], None]:
    """One sender: send all requests one after the other."""

    def send(_: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port)
        headers = {"authorization": f"Bearer {TOKEN}", "content-type": media}
        while (number := next(numbers)) < requests:
            headers["idempotency-key"] = f"request {number}"
            status = 429
            while status == 429:
                connection.request("POST", "/events", made[number % len(made)], headers)
                answer = connection.getresponse()
                answer.read()
                status = answer.status
            if status != 200:
                sys.exit(f"a request was answered {status}")
        connection.close()

    return send


def measured(media: str, rows: int, events: int) -> tuple[float, float]:
    """Events per wall-clock second, and CPU seconds of the server per million events."""
    made, requests = bodies(media, rows), max(events // rows, SENDERS)
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    with subprocess.Popen(
        [sys.executable, __file__, "--serve"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        if server.stdin is None or server.stdout is None:
            sys.exit("the server has no pipes")
        port = int(server.stdout.readline())
        os.sched_setaffinity(0, cores - {min(cores)} or cores)
        start = time.perf_counter()
        with ThreadPoolExecutor(SENDERS) as pool:
            list(pool.map(sender(port, media, made, count(), requests), range(SENDERS)))
        seconds = time.perf_counter() - start
        os.sched_setaffinity(0, cores)
        server.stdin.close()
        said = json.loads(server.stdout.readline())
    if said["events"] != requests * rows or said["refused"]:
        sys.exit("the numbers of answered and counted events differ")
    return requests * rows / seconds, said["cpu"] / said["events"] * 1e6


def figures(events: int) -> Iterator[Figure]:
    for name, media, rows, bar in CASES:
        speed, cost = measured(media, rows, events)
        yield Figure(f"{name}, batches of {rows:,}", speed, "events/s", bar, at_least=True)
        yield Figure(f"{name}, batches of {rows:,}: of the core", cost, "s/1M events")


if __name__ == "__main__":
    if sys.argv[1:] == ["--serve"]:
        serve()
        sys.exit()
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--events", type=int, default=4_000_000)
    chosen, sys.argv[1:] = parser.parse_known_args()
    main(__doc__ or "", lambda: figures(chosen.events))
