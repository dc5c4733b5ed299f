"""Memory and delay that the largest and worst request bodies cost a publisher.

    python benchmarks/hostile_bodies.py [--only TEXT] [--json]

Each case starts a publisher of its own: an HTTP source, units of one second, a SQLite store. Good
bodies warm it up. Then the case's bodies come, each as large as is allowed (64 MiB after
decompression), and the publisher tells what they cost:

- memory: the highest resident size since the warm-up, above the size after the warm-up;
- hold: the longest time for which the publisher's loop did not rest, or by which a unit left late.

The bars hold for bodies that are accepted and for bodies that are refused.
"""

from __future__ import annotations

import argparse
import gzip
import http.client
import io
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from penstock.engine.notices import Notice
from penstock.engine.pipeline import Pipeline
from penstock.engine.publisher import Publisher
from penstock.engine.publishing_loop import LiveLoop
from penstock.private.sources.http import HttpSource
from penstock.private.sources.request_bodies import (
    JSON,
    MAX_BODY_BYTES,
    MAX_ROWS_PER_BODY,
    NDJSON,
    STREAM,
)

from report import Figure, main

KEYS = [f"station {number}" for number in range(100)]
TOKEN = "only-for-this-benchmark"
MAX_MEGABYTES = 300.0
MAX_HOLD_SECONDS = 1.0
SETTLE_SECONDS = 2.5
WARM_UP_EVENTS = 2_000
"""Good events with which a new source passes the check of its first rows."""

SEVERAL = 4
AT = datetime(2026, 1, 1, tzinfo=UTC)
"""The time of all events in a body, until it is replaced by the time at which its case begins."""

EVENT = f'{{"at":"{AT:%Y-%m-%dT%H:%M:%SZ}","key":"station 7","who":"%s"}}'


class Case(NamedTuple):
    """Bodies of one kind: the content type, whether it is gzip, how many come at once."""

    name: str
    media: str
    make: Callable[[], bytes]
    zipped: bool = False
    senders: int = 1


# -- the publisher ---------------------------------------------------------------------------------


def serve(folder: Path, origin: str) -> None:
    """Publish until standard input ends. A line "mark" begins to measure, "tell" prints."""
    os.environ["TOKEN"] = TOKEN
    settings = {
        "stream": {
            "name": "hostile",
            "every": "1s",
            "origin": origin,
            "late": "current",
            "pace": "0s",
        },
        "source": {
            "kind": "http",
            "listen": "127.0.0.1:0",
            "token_env": "TOKEN",
            "time": "at",
            "key": "key",
            "person": "who",
        },
        "domain": {"keys": KEYS},
        "privacy": {"mechanism": "laplace", "epsilon": "1"},
        "store": {"path": "hostile.db"},
    }
    delays: list[float] = [0.0]
    gaps: list[float] = [0.0]

    def hear(notice: Notice) -> None:
        if notice.kind == "release" and notice.unit is not None:
            delays.append(time.time() - publisher.views[0].closes(notice.unit) / 1e6)

    publisher = Publisher(Pipeline.of(settings, folder=folder), listener=hear)
    loop, last = publisher.loop, time.monotonic()
    assert isinstance(loop, LiveLoop)
    rest = loop._rest

    def timed_rest() -> None:
        nonlocal last
        gaps.append(time.monotonic() - last)
        rest()
        last = time.monotonic()

    loop._rest = timed_rest  # type: ignore[method-assign]
    with publisher:
        running = threading.Thread(target=publisher.run)
        running.start()
        source = publisher.source
        assert isinstance(source, HttpSource)
        print(source.address[1], flush=True)
        idle = 0
        for line in sys.stdin:
            if line == "mark\n":
                Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
                idle = memory("VmRSS")
                delays[:] = gaps[:] = [0.0]
                print("marked", flush=True)
            else:
                held = {"gap": max(gaps), "delay": max(delays)}
                print(json.dumps({"bytes": memory("VmHWM") - idle} | held), flush=True)
        publisher.stop()
        running.join()


def memory(name: str) -> int:
    """A size of this process, from the system."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * 1024
    raise LookupError(name)


# -- bodies ----------------------------------------------------------------------------------------


def filled(piece: bytes, *, before: bytes = b"", after: bytes = b"") -> bytes:
    """As many pieces as are allowed in one body."""
    room = MAX_BODY_BYTES - len(before) - len(after)
    return before + piece * (room // len(piece)) + after


def array(element: bytes) -> bytes:
    return filled(element + b",", before=b"[", after=element + b"]")


def events(width: int) -> bytes:
    """Good lines, each of a person of its own whose id is `width` bytes."""
    size = len(EVENT) - 2 + width + 1
    count = min(MAX_ROWS_PER_BODY, MAX_BODY_BYTES // size)
    return "".join(EVENT % f"{number:0{width}}" + "\n" for number in range(count)).encode()


def event_array() -> bytes:
    return b"[" + events(8)[:-1].replace(b"\n", b",") + b"]"


def stream(*batches: pa.RecordBatch, **options: str) -> bytes:
    sink = io.BytesIO()
    write = pa.ipc.IpcWriteOptions(emit_dictionary_deltas=False, **options)
    with pa.ipc.new_stream(sink, batches[0].schema, options=write) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return sink.getvalue()


def columns(who: pa.Array, key: pa.Array | None = None) -> pa.RecordBatch:
    count = len(who)
    at = pa.array(np.full(count, microseconds(AT)), pa.timestamp("us", "UTC"))
    keys = pa.array(["station 7"]).take(pa.array(np.zeros(count, np.int8)))
    return pa.record_batch({"at": at, "key": keys if key is None else key, "who": who})


def microseconds(moment: datetime) -> int:
    return round(moment.timestamp()) * 1_000_000


def moved(body: bytes, moment: datetime) -> bytes:
    """The body with events of that moment."""
    before, after = (f"{each:%Y-%m-%dT%H:%M:%SZ}".encode() for each in (AT, moment))
    body = body.replace(before, after)
    before, after = (microseconds(each).to_bytes(8, "little") for each in (AT, moment))
    return body.replace(before, after)


def persons(count: int, width: int) -> pa.Array:
    return pa.array([f"{number:0{width}}" for number in range(count)])


def words(indices: pa.Array, dictionary: pa.Array) -> pa.Array:
    return pa.DictionaryArray.from_arrays(indices, dictionary)


def zeros(count: int) -> pa.Array:
    return pa.array(np.zeros(count, np.int32))


def one_long_word() -> bytes:
    return stream(columns(words(zeros(MAX_ROWS_PER_BODY), pa.array(["x" * 50_000_000]))))


def large_dictionary() -> bytes:
    return stream(
        columns(words(pa.array(np.arange(600_000, dtype=np.int32)), persons(600_000, 60)))
    )


def large_dictionary_in_pieces() -> bytes:
    batch = columns(words(pa.array(np.arange(1_000, dtype=np.int32)), persons(900_000, 60)))
    return stream(*[batch.slice(place, 1) for place in range(1_000)])


def many_dictionaries() -> bytes:
    each = [columns(words(zeros(100), persons(900, 60))) for _ in range(500)]
    return stream(*each)


def many_columns() -> bytes:
    batch = columns(persons(1_000, 8))
    more = {f"column {number}": pa.nulls(1_000) for number in range(12_000)}
    return stream(pa.record_batch({name: batch.column(name) for name in batch.schema.names} | more))


def compressed_buffers() -> bytes:
    return stream(columns(pa.array(["x" * 60] * MAX_ROWS_PER_BODY)), compression="zstd")


def lying_length() -> bytes:
    body = stream(columns(persons(1_000, 8)))
    return body.replace((1_000).to_bytes(8, "little"), (2**40).to_bytes(8, "little"))


def odd_lines(value: str) -> bytes:
    """Lines with this value in a field that nobody reads, as many events as are allowed."""
    line = (EVENT % "x").replace("}", f',"and":{value}}}\n').encode()
    return filled(line.ljust(MAX_BODY_BYTES // MAX_ROWS_PER_BODY + 1))


LINES: dict[str, Callable[[], bytes]] = {
    "good events": lambda: events(8),
    "good events, long ids": lambda: events(128),
    "good events, ids too long to keep": lambda: events(200),
    "good events, ids of a megabyte": lambda: events(1_000_000),
    "empty objects": lambda: filled(b"{}\n"),
    "empty lines": lambda: filled(b"\n"),
    "one endless line": lambda: filled(b"x"),
    "broken lines": lambda: odd_lines('["more]'),
    "one broken line among many good ones": lambda: b"{]\n" + events(8)[: -len(EVENT) - 7],
    "not a number": lambda: odd_lines("[NaN]"),
    "numbers out of range": lambda: odd_lines("1e999"),
    "numbers near the largest": lambda: odd_lines("1.11111111111111111111e328"),
    "half characters": lambda: odd_lines('"\\ud800"'),
    "wide objects": lambda: filled(
        b"{" + b",".join(b'"%d":1' % number for number in range(90_000)) + b"}\n"
    ),
    "deep values": lambda: filled(b'{"a":' + b"[" * 400_000 + b"]" * 400_000 + b"}\n"),
    "broken deep values": lambda: filled(b'{"a":' + b"[" * 900_000 + b"}\n"),
    "small objects in a line": lambda: filled(b'{"a":[' + b"{}," * 300_000 + b"{}]}\n"),
    "small objects in a broken line": lambda: filled(b'{"a":[' + b"{}," * 300_000 + b"]}\n"),
    "long numbers": lambda: filled(b'{"who":' + b"9" * 900_000 + b"}\n"),
    "long fractions": lambda: filled(b'{"a":[0.' + b"7" * 900_000 + b"],}\n"),
}
ARRAYS: dict[str, Callable[[], bytes]] = {
    "good events": event_array,
    "small numbers": lambda: array(b"1"),
    "empty objects": lambda: array(b"{}"),
    "empty texts": lambda: array(b'""'),
    "an array in an array": lambda: b"[" + array(b"1")[:-3] + b"]]",
    "open brackets": lambda: filled(b"["),
    "spaces": lambda: filled(b" ", before=b"[", after=b"]"),
    "backslashes": lambda: filled(b"\\", before=b'["', after=b'"]'),
    "one large object": lambda: filled(b'"a":1,', before=b"{", after=b'"a":1}'),
    "small numbers by name": lambda: b'{"events":' + array(b"1")[:-13] + b"1]}",
    "much before the events": lambda: filled(b'"a":[],', before=b"{", after=b'"events":[]}'),
    "events inside an event": lambda: array(
        b'{"a":[' + b",".join([b"{}"] * 1_000) + b'],"b":"},{"}'
    ),
}
STREAMS: dict[str, Callable[[], bytes]] = {
    "good events": lambda: stream(columns(persons(MAX_ROWS_PER_BODY, 8))),
    "good events, long ids": lambda: stream(columns(persons(400_000, 128))),
    "good events, ids too long to keep": lambda: stream(columns(persons(250_000, 200))),
    "a large dictionary": large_dictionary,
    "a large dictionary, 1,000 batches": large_dictionary_in_pieces,
    "a dictionary of one long word": one_long_word,
    "500 dictionaries": many_dictionaries,
    "12,000 columns": many_columns,
    "compressed buffers": compressed_buffers,
    "a lying length": lying_length,
    "no stream": lambda: filled(b"\xff"),
}


def cases() -> Iterator[Case]:
    for title, media, bodies in (
        ("JSON lines", NDJSON, LINES),
        ("JSON", JSON, ARRAYS),
        ("Arrow", STREAM, STREAMS),
    ):
        for name, make in bodies.items():
            yield Case(f"{title}: {name}", media, make)
            yield Case(f"{title}, gzip: {name}", media, make, zipped=True)
        for name in ("good events", "empty objects", "small numbers", "a large dictionary"):
            if name in bodies:
                full = f"{title}, {SEVERAL} senders: {name}"
                yield Case(full, media, bodies[name], senders=SEVERAL)
                full = f"{title}, gzip, {SEVERAL} senders: {name}"
                yield Case(full, media, bodies[name], zipped=True, senders=SEVERAL)


# -- measuring -------------------------------------------------------------------------------------


def send(port: int, media: str, body: bytes, *, zipped: bool) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    headers = {"authorization": f"Bearer {TOKEN}", "content-type": media}
    headers |= {"content-encoding": "gzip"} if zipped else {}
    try:
        connection.request("POST", "/events", body, headers)
        answer = connection.getresponse()
        answer.read()
    except (BrokenPipeError, ConnectionResetError):
        return 0
    finally:
        connection.close()
    return answer.status


def measured(case: Case) -> tuple[dict[str, float], str]:
    """What the bodies of a case cost, and how they were answered."""
    body, origin = case.make(), datetime.now(UTC).replace(microsecond=0)
    body = moved(body, origin)
    if case.zipped:
        body = gzip.compress(body, 1 if len(set(body[:4096])) > 30 else 6)
    with (
        tempfile.TemporaryDirectory() as folder,
        subprocess.Popen(
            [sys.executable, __file__, "--serve", folder, origin.isoformat()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as server,
    ):
        if server.stdin is None or server.stdout is None:
            sys.exit("the server has no pipes")
        port = int(server.stdout.readline())
        good = [moved((EVENT % number).encode(), origin) for number in range(WARM_UP_EVENTS)]
        send(port, NDJSON, b"\n".join(good), zipped=False)
        send(port, JSON, b"[" + b",".join(good) + b"]", zipped=False)
        send(port, STREAM, moved(stream(columns(persons(10, 8))), origin), zipped=False)
        time.sleep(SETTLE_SECONDS)
        server.stdin.write("mark\n")
        server.stdin.flush()
        server.stdout.readline()
        began = time.monotonic()
        with ThreadPoolExecutor(case.senders) as pool:
            sent = [
                pool.submit(send, port, case.media, body, zipped=case.zipped)
                for _ in range(case.senders)
            ]
            answers = Counter(each.result() for each in sent)
        answered = time.monotonic() - began
        time.sleep(SETTLE_SECONDS)
        server.stdin.write("tell\n")
        server.stdin.flush()
        found = json.loads(server.stdout.readline())
        server.stdin.close()
    told = ", ".join(
        f"{count} × {status}" if case.senders > 1 else f"{status}"
        for status, count in sorted(answers.items())
    )
    return found | {"seconds": answered}, told


def figures(only: str) -> Iterator[Figure]:
    for case in cases():
        if only not in case.name:
            continue
        found, answers = measured(case)
        name = f"{case.name} [{answers}]"
        yield Figure(f"{name}: memory", found["bytes"] / 1e6, "MB", MAX_MEGABYTES)
        held = max(found["gap"], found["delay"])
        yield Figure(f"{name}: hold", held, "s", MAX_HOLD_SECONDS)
        yield Figure(f"{name}: answered after", found["seconds"], "s")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(Path(sys.argv[2]), sys.argv[3])
        sys.exit()
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--only", default="")
    chosen, sys.argv[1:] = parser.parse_known_args()
    main(__doc__ or "", lambda: figures(chosen.only))
