"""The world around a publisher that is killed: senders, a clock, a receiver, and one who watches
the store all the time.
"""

from __future__ import annotations

import csv
import hashlib
import http.client
import io
import json
import os
import queue
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from random import Random
from typing import ClassVar

import numpy as np
import pyarrow.parquet as pq
import pytest

from penstock.core.errors import ConfigurationError, StateError
from penstock.engine import factory
from penstock.engine.chain import Head
from penstock.engine.pipeline import Pipeline
from penstock.engine.sink_items import items_of
from penstock.private.noise import NoNoise, TestNoise
from penstock.released import encoding
from penstock.released.sinks.release_document import document

from tests.engine import streams
from tests.engine.places import PostgresPlace
from tests.engine.streams import BEGIN, HOUR, KEYS

ROOT = Path(__file__).parents[2]
DEADLINE = 180.0
TOKEN = "a token that only tests know".replace(" ", "-")
KAFKA = os.environ.get("PENSTOCK_TEST_KAFKA")
POSTGRES = os.environ.get("PENSTOCK_TEST_POSTGRES")
MQTT = os.environ.get("PENSTOCK_TEST_MQTT")
UNAVAILABLE = ("StoreUnavailableError", "UncertainError")


def wait_for(condition, what="it", seconds=DEADLINE):
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"{what} did not happen in {seconds} seconds"
        time.sleep(0.002)
    return found


# -- the publisher, in a process of its own --------------------------------------------------------


class Nest:
    """The process that publishers are forked from, one at a time."""

    def __init__(self):
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.recovery.publish"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            env=os.environ | {"PENSTOCK_TEST_TOKEN": TOKEN},
        )
        self._lines = queue.SimpleQueue()
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()
        assert self._lines.get(timeout=DEADLINE)["what"] == "ready"

    def _read(self):
        for line in self._process.stdout:
            self._lines.put(json.loads(line))
        self._lines.put({"what": "ended"})

    def start(self, **options):
        self._process.stdin.write(json.dumps(options) + "\n")
        return Started(self._lines)

    def close(self):
        self._process.stdin.close()
        self._process.wait(DEADLINE)
        self._reading.join(DEADLINE)
        self._process.stdout.close()


class Started:
    """One publisher under way, and all that it has told."""

    def __init__(self, lines):
        self._lines = lines
        self.told = []
        self.dead = False
        self.process = self.until("started")["process"]

    def __repr__(self):
        return f"<Started, told {[each['what'] for each in self.told]}>"

    def next(self, seconds=DEADLINE):
        try:
            line = self._lines.get(timeout=seconds)
        except queue.Empty:
            return None
        assert line["what"] != "ended", "the nest is gone"
        self.told.append(line)
        self.dead = self.dead or line["what"] == "died"
        return line

    def until(self, *what, seconds=DEADLINE):
        """The next line of this kind. None if it does not come, or never will."""
        deadline = time.monotonic() + seconds
        while not self.dead and (left := deadline - time.monotonic()) > 0:
            line = self.next(left)
            if line is not None and line["what"] in what:
                return line
        return None

    def of(self, what):
        return [each for each in self.told if each["what"] == what]

    def signal(self, number):
        with suppress(ProcessLookupError):
            os.kill(self.process, number)

    def kill(self):
        """Whether it was killed by this, and had not ended by itself before."""
        self.signal(signal.SIGKILL)
        return self.ended()["killed"]

    def stop(self):
        self.signal(signal.SIGTERM)
        self.ended()
        return self

    def ended(self):
        line = self.of("died")[0] if self.dead else self.until("died")
        assert line, self.told[-5:]
        failed = self.of("failed")
        assert not failed, failed[0]["text"]
        return line


# -- those who look on -----------------------------------------------------------------------------


class Watcher(threading.Thread):
    """Reads the store all the time, as anybody may, and remembers every release that it has ever
    seen.
    """

    def __init__(self, pipeline):
        super().__init__(daemon=True)
        self.seen = {}
        self.changed = []
        self.looks = 0
        self.turn = (
            threading.Lock()
        )  # whoever has it may exchange the files: SQLite does not survive that while it reads
        self._pipeline = pipeline
        self._over = threading.Event()

    def run(self):
        while not self._over.wait(0.004):
            try:
                with self.turn, factory.reader(self._pipeline) as reader:
                    for _ in range(
                        20
                    ):  # by one connection through several kills, and by fresh ones
                        self._look(reader)
                        if self._over.wait(0.004):
                            break
            except (StateError, ConfigurationError):
                continue  # there is no store yet, or its writer has just died: open it again

    def _look(self, reader):
        for name in reader.series_names:
            newest = reader.head(name).unit
            first = 1 if self.looks % 5 == 0 else max(newest - 3, 1)
            for release in reader.releases(name, first, newest) if newest else ():
                self.see(
                    name, release.unit, (as_bytes(release), reader.at(name, release.unit).link)
                )
        self.looks += 1

    def see(self, name, unit, content):
        if self.seen.setdefault((name, unit), content) != content:
            self.changed.append((name, unit))

    def finish(self):
        self._over.set()
        self.join(DEADLINE)


def as_bytes(release):
    return encoding.flags(release) + encoding.body(release)


class ReleaseReceiver:
    """Where a webhook posts to. It remembers everything, and can be down."""

    def __init__(self):
        self.down = False
        self.bodies = {}
        self.arrived = []
        self.changed = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if len(body) < int(self.headers["Content-Length"]):
                    return  # whoever posted was killed in the middle of it
                self.send_response(
                    503 if outer.down else outer._take(self.headers["Idempotency-Key"], body)
                )
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_):
                pass  # whoever posted has been killed

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/releases"
        threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        ).start()

    def _take(self, key, body):
        series, unit, _ = key.split("/")
        if (series, unit) not in self.bodies:
            self.arrived.append((series, int(unit)))
        if self.bodies.setdefault((series, unit), (key, body)) != (key, body):
            self.changed.append((series, unit))
        return 200

    def close(self):
        self._server.shutdown()
        self._server.server_close()


# -- what is published -----------------------------------------------------------------------------

VIEWS = [
    {"name": "hourly", "every": "1h", "mechanism": "ba"},
    {"name": "quarterly", "every": "6h", "mechanism": "uniform", "contribution": 2},
]


ALONE = ("none", "both")
"""With these every event is its own person: one that counts twice shows. Otherwise bounding would
take it for the same.
"""

BOTH = [
    {"name": "hourly", "every": "1h", "mechanism": "ba"},
    {"name": "again", "every": "1h", "mechanism": "uniform"},
]


def tables(source, noise, **more):
    """The configuration: with no noise one view that shows the counts, with test noise two, with
    real noise one with secrets, and with both one of each. The noise is small, so that every event
    shows.
    """
    content = {
        "store": {"path": "taps.db", "head": "elsewhere/taps.head"},
        "sink": [
            {"kind": "parquet", "path": "releases"},
            {"kind": "jsonl", "path": "releases.jsonl"},
            {"kind": "csv", "path": "tables"},
        ],
        "stream": {"lateness": "2h", "pace": "0s"},
        **more,
    }
    made = streams.pipeline(**content)
    if noise in ("test", "both"):
        made["privacy"] = {"epsilon": "200", "window": 6}
        made["view"] = VIEWS if noise == "test" else BOTH
    elif noise == "fresh":
        made["privacy"] = {"mechanism": "rg", "epsilon": "1", "window": 6}
    made["store"] = content["store"]
    unknown = ("person", "person_type") if noise in ALONE else ()
    columns = {
        name: value
        for name, value in made["source"].items()
        if name not in ("kind", "path", *unknown)
    }
    return made | {"source": columns | source}


class World:
    """One stream of made-up events from one kind of source, its publisher, and all who look on."""

    finite = False
    while_ = 0.15
    """Seconds in which something happens after a start."""

    source: ClassVar[dict[str, object]] = {}
    settings: ClassVar[dict[str, object]] = {}

    def __init__(
        self, nest, folder, *, noise="none", hours=12, seed=1, webhook=True, watched=True, **more
    ):
        self.nest, self.folder, self.noise, self.hours = nest, folder, noise, hours
        self.random = Random(seed)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "elsewhere").mkdir(exist_ok=True)
        self.events = streams.events(hours=hours, each=60, people=40, seed=seed)
        self.receiver = ReleaseReceiver() if webhook else None
        self.prepare()
        self.tables = tables(self.source, noise, **more)
        if webhook:
            self.tables["sink"] = [
                *self.tables["sink"],
                {"kind": "webhook", "url": self.receiver.url},
            ]
        self.pipeline = Pipeline.of(self.tables, folder=folder)
        self.clock = folder / "now"
        self.starts = []
        self.watcher = Watcher(self.pipeline)
        if watched:
            self.watcher.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.starts and not self.starts[-1].dead:
            self.starts[-1].signal(signal.SIGKILL)
            with suppress(AssertionError):
                self.starts[-1].ended()
        if self.watcher.ident:
            self.watcher.finish()
        if self.receiver:
            self.receiver.close()
        self.tidy()

    def prepare(self):
        """What the source needs before anything is published."""

    def tidy(self):
        """Give back what `prepare` has taken."""

    def start(self, *, nest=None, **more):
        options = {
            "folder": str(self.folder),
            "tables_of": self.tables,
            "noise": self.noise,
            **self.settings,
            **more,
        }
        if not self.finite:
            options["clock"] = str(self.clock)
        started = (nest or self.nest).start(**options)
        if nest is None:
            self.starts.append(started)
        return started

    # -- time and events ---------------------------------------------------------------------------

    def set_clock(self, hour):
        fresh = self.clock.with_suffix(".new")
        fresh.write_text(str(BEGIN + int(hour * HOUR)))
        fresh.replace(self.clock)

    def of_hour(self, hour):
        """The events that arrive in this hour: most of its own, and late ones of the last hour."""
        times, _, cards = self.events
        late = (times + cards) % 5 == 0
        when = (times - BEGIN) // HOUR + 1 + late
        mine = np.flatnonzero(np.minimum(when, self.hours) == hour)
        mine = mine[np.argsort((times[mine] * 7919) % 104729, kind="stable")]
        return [
            (streams.moment(int(self.events[0][at])), KEYS[self.events[1][at]], int(cards[at]))
            for at in mine
        ]

    def live(self, allowed=lambda hour: True):
        """Send everything, hour by hour, as soon as that is allowed; at last let all units end."""
        for hour in range(1, self.hours + 1):
            wait_for(lambda hour=hour: allowed(hour), f"hour {hour}")
            self.set_clock(hour)
            self.send(self.of_hour(hour), hour)
        self.set_clock(self.hours + 2)

    def send(self, rows, hour):
        raise NotImplementedError

    def disturb(self, random):
        """Kill the publisher, and perhaps more; return whether that ended it."""
        return self.starts[-1].kill()

    # -- what is there -----------------------------------------------------------------------------

    @property
    def series(self):
        return [self.pipeline.series(view.name) for view in self.pipeline.views]

    def units(self, view):
        return self.hours if view.calendar.every == "1h" else self.hours // 6

    def heads(self):
        """The newest unit of each series; nothing before there is a store."""
        with suppress(ConfigurationError, StateError), factory.reader(self.pipeline) as reader:
            return {name: reader.head(name).unit for name in reader.series_names}
        return {}

    def released(self):
        """Whether every unit is released."""
        return self.heads() == {
            self.pipeline.series(view.name): self.units(view) for view in self.pipeline.views
        }

    def delivered(self):
        """Whether the receiver has every unit."""
        return not self.receiver or len(self.receiver.arrived) >= sum(
            self.units(view) for view in self.pipeline.views
        )

    def finish(self):
        """Let the publisher that runs now come to the end, and stop it."""
        last = self.starts[-1]
        if not self.finite:
            wait_for(
                lambda: (
                    self._dead(last) or (last.of("begin") and self.released() and self.delivered())
                ),
                "the end",
            )
            last.signal(signal.SIGTERM)
        last.ended()
        assert last.of("over"), last.told[-5:]
        return last

    @staticmethod
    def _dead(last):
        while not last._lines.empty():
            last.next()
        return last.dead

    def expected(self, view):
        """What an undisturbed run releases; None if nobody can know."""
        every = HOUR if view.calendar.every == "1h" else 6 * HOUR
        times, keys, cards = self.events
        if self.noise in ALONE:
            cards = np.arange(len(times))
        counts = streams.truth(
            times,
            keys,
            cards,
            every=every,
            units=self.units(view),
            contribution=view.mechanism.contribution,
        )
        if self.noise == "fresh" or view.name == "again":
            return None
        run = view.mechanism.run(
            self.pipeline.domain(), noise=NoNoise() if self.noise == "none" else TestNoise(7)
        )
        values = np.array([run.step(row).value for row in counts])
        if self.noise == "none":
            assert (values == counts).all()
        return values

    def check(self):
        """All of it: every unit once, nothing ever changed, the ledger valid, all sinks the same,
        the counts right.
        """
        if self.watcher.ident:
            self.watcher.finish()
            assert self.watcher.looks
        with factory.reader(self.pipeline) as reader:
            for view in self.pipeline.views:
                name, units = self.pipeline.series(view.name), self.units(view)
                seen = {
                    unit: link
                    for (series, unit), (_, link) in self.watcher.seen.items()
                    if series == name
                }
                noted = Head(max(seen), seen[max(seen)]) if seen else None
                assert reader.verify(name, head=noted).head.unit == units
                found = list(reader.releases(name))
                assert [release.unit for release in found] == list(range(1, units + 1))
                for release in found:
                    self.watcher.see(
                        name, release.unit, (as_bytes(release), reader.at(name, release.unit).link)
                    )
                expected = self.expected(view)
                if expected is not None:
                    assert (np.array([release.value for release in found]) == expected).all()
                items = items_of(reader, reader.series(name), 1, units)
                self._check_drawn(name, found)
                self._check_sinks(name, items)
        assert not self.watcher.changed
        assert set(self.watcher.seen) == {
            (self.pipeline.series(view.name), unit)
            for view in self.pipeline.views
            for unit in range(1, self.units(view) + 1)
        }
        left = [path.name for path in (self.folder / "releases").rglob("*.new")]
        assert not left

    def documents(self):
        """What sinks get of every unit."""
        with factory.reader(self.pipeline) as reader:
            return {
                f"{name}/{item.unit}".encode(): document(item)
                for name in self.series
                for item in items_of(reader, reader.series(name), 1, reader.head(name).unit)
            }

    def _check_drawn(self, name, found):
        """What was told of as released was drawn by that very process just before, once, and is
        what the store has.
        """
        for started in self.starts:
            drawn = [
                (each["unit"], each["values"])
                for each in started.of("drawn")
                if each["stream"] == name
            ]
            assert (
                [unit for unit, _ in drawn] == list(range(drawn[0][0], drawn[0][0] + len(drawn)))
                if drawn
                else True
            )
            for each in started.of("release"):
                if each["stream"] == name:
                    assert dict(drawn)[each["unit"]] == found[each["unit"] - 1].value.tolist()
        told = Counter(
            each["unit"]
            for started in self.starts
            for each in started.of("release")
            if each["stream"] == name
        )
        assert max(told.values(), default=1) == 1

    def _check_sinks(self, name, items):
        documents = [document(item) for item in items]
        for sink in self.pipeline.sinks:
            if sink.kind == "jsonl":
                mine = b'"series":' + json.dumps(name).encode()
                lines = (self.folder / "releases.jsonl").read_bytes().splitlines()
                assert [line for line in lines if mine in line] == documents
            elif sink.kind == "parquet":
                folder = self.folder / "releases" / f"series={name.replace('/', '%2F')}"
                rows = pq.read_table(folder).to_pylist() if folder.exists() else []
                found = {(row["unit"], row["key"]): row["value"] for row in rows}
                assert len(rows) == len(found) == len(items) * len(KEYS)
                for item in items:
                    assert [found[item.unit, key] for key in KEYS] == item.release.estimate.tolist()
            elif sink.kind == "csv":
                folder = self.folder / "tables" / f"series={name.replace('/', '%2F')}"
                text = [file.read_text(encoding="utf-8") for file in sorted(folder.glob("*.csv"))]
                lines = [
                    (int(row["unit"]), row["key"], float(row["value"]))
                    for each in text
                    for row in csv.DictReader(io.StringIO(each))
                ]
                assert sorted(lines) == sorted(
                    (item.unit, key, value)
                    for item in items
                    for key, value in zip(KEYS, item.release.estimate.tolist(), strict=True)
                )
            elif sink.kind == "postgres":
                self._check_table(sink, name, items)
            elif sink.kind == "webhook":
                series = name.replace("/", "%2F")
                assert not self.receiver.changed
                assert [unit for other, unit in self.receiver.arrived if other == series] == [
                    item.unit for item in items
                ]
                assert [
                    self.receiver.bodies[series, str(item.unit)][1] for item in items
                ] == documents

    def _check_table(self, sink, name, items):
        import psycopg

        with psycopg.connect(sink.options["url"]) as server:
            rows = server.execute(
                f"SELECT unit, key, value FROM {sink.options['table']} WHERE series = %s", [name]
            ).fetchall()
        assert sorted(rows) == sorted(
            (item.unit, key, value)
            for item in items
            for key, value in zip(KEYS, item.release.estimate.tolist(), strict=True)
        )


class ParquetWorld(World):
    """A finished file, in parts that say how early their events are."""

    finite = True
    while_ = 0.03

    def prepare(self):
        streams.parquet(self.folder / "taps.parquet", self.events, row_group_size=30)
        self.source = {"kind": "parquet", "path": "taps.parquet"}

    def __init__(self, nest, folder, *, hours=12, stream=None, **more):
        until = {"until": f"{streams.moment(BEGIN + hours * HOUR)}"}
        super().__init__(nest, folder, hours=hours, stream={**until, **(stream or {})}, **more)


class CsvWorld(World):
    """A file that grows, not always by whole lines."""

    def prepare(self):
        self.source = {"kind": "csv", "path": "taps.csv", "growing": True}
        self.path = self.folder / "taps.csv"
        self.path.write_text("ts,station,card\n")

    def lines(self, rows):
        return [f"{time},{key},{card}\n" for time, key, card in rows]

    def send(self, rows, hour):
        content = "".join(self.lines(rows)).encode()
        cuts = sorted(self.random.randrange(len(content) + 1) for _ in range(3))
        with self.path.open("ab", buffering=0) as file:
            for start, stop in zip([0, *cuts], [*cuts, len(content)], strict=True):
                file.write(content[start:stop])


class JsonLinesWorld(CsvWorld):
    """The same in JSON."""

    def prepare(self):
        self.source = {"kind": "jsonl", "path": "taps.jsonl", "growing": True}
        self.path = self.folder / "taps.jsonl"
        self.path.touch()

    def lines(self, rows):
        return [
            json.dumps({"ts": time, "station": key, "card": card}) + "\n"
            for time, key, card in rows
        ]


def a_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


class HttpWorld(World):
    """Senders that try again with the same key until they are answered, and now and then once more
    after that.
    """

    def prepare(self):
        self.port = a_port()
        self.source = {
            "kind": "http",
            "listen": f"127.0.0.1:{self.port}",
            "token_env": "PENSTOCK_TEST_TOKEN",
        }
        self.answers = Counter()

    def move(self):
        """The next publisher listens elsewhere, and senders know."""
        self.port = a_port()
        self.tables["source"] = self.tables["source"] | {"listen": f"127.0.0.1:{self.port}"}

    def send(self, rows, hour):
        size = max(len(rows) // 4, 1)
        for start in range(0, len(rows), size):
            some = rows[start : start + size]
            body = "".join(
                json.dumps({"ts": ts, "station": key, "card": card}) + "\n"
                for ts, key, card in some
            ).encode()
            key = f"hour {hour} from {start}"
            self.post(body, key)
            if self.random.random() < 0.3:
                self.post(body, key)

    def post(self, body, key):
        wait_for(lambda: self._once(body, key) == 200, "an answer")

    def _once(self, body, key):
        headers = {
            "Authorization": f"Bearer {TOKEN}",
            "Idempotency-Key": key,
            "Content-Type": "application/x-ndjson",
        }
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request("POST", "/events", body, headers)
            status = connection.getresponse().status
        except (OSError, http.client.HTTPException):
            status = 0
        finally:
            connection.close()
        self.answers[status] += 1
        assert status in (0, 200, 429, 503)
        return status


class KafkaWorld(World):
    """A topic of three partitions."""

    while_ = 0.5
    settings: ClassVar = {"source": {"patience": 30.0}}

    def __init__(self, *args, servers=KAFKA, outage="close", **more):
        self.servers, self.outage = servers, outage
        super().__init__(*args, **more)

    def prepare(self):
        from confluent_kafka import Producer
        from confluent_kafka.admin import AdminClient, NewTopic

        self.topic = f"taps-{secrets.token_hex(8)}"
        settings = {"bootstrap.servers": self.servers, "log_level": 0}
        self.admin = AdminClient(settings)
        self.admin.create_topics([NewTopic(self.topic, 3, 1)])[self.topic].result(DEADLINE)
        self.producer = Producer(settings | {"enable.idempotence": True})
        self.source = {
            "kind": "kafka",
            "servers": self.servers,
            "topic": self.topic,
            "format": "json",
            "outage": self.outage,
        }

    def send(self, rows, hour):
        for ts, key, card in rows:
            self.producer.produce(
                self.topic, json.dumps({"ts": ts, "station": key, "card": card}), partition=card % 3
            )
        assert self.producer.flush(DEADLINE) == 0

    def consumed(self, topic):
        """What a topic holds of each series, each unit once."""
        from confluent_kafka import Consumer, TopicPartition

        settings = {
            "group.id": secrets.token_hex(8),
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
        consumer = Consumer({"bootstrap.servers": self.servers, "log_level": 0, **settings})
        found = {}
        try:
            for partition in consumer.list_topics(topic, DEADLINE).topics[topic].partitions:
                place = TopicPartition(topic, partition, 0)
                _, end = consumer.get_watermark_offsets(place, DEADLINE)
                consumer.assign([place])
                while consumer.position([place])[0].offset < end:
                    record = consumer.poll(1.0)
                    if record is not None and not record.error():
                        assert found.setdefault(record.key(), record.value()) == record.value()
        finally:
            consumer.close()
        return found

    def tidy(self):
        with suppress(Exception):
            self.admin.delete_topics([self.topic])[self.topic].result(10)


class MqttWorld(World):
    """Sensors that send with quality 1. The clock goes on when the publisher has acknowledged all:
    a message that comes after its unit has closed is late, by the rule.
    """

    def prepare(self):
        import paho.mqtt.client as mqtt

        self.topic = f"taps/{secrets.token_hex(8)}"
        self.session = f"test-{secrets.token_hex(8)}"
        self.acknowledged = self.folder / "acknowledged"
        self.acknowledged.touch()
        self.settings = {"acknowledged": str(self.acknowledged)}
        self.source = {
            "kind": "mqtt",
            "server": MQTT,
            "topic": self.topic,
            "client": self.session,
        }
        host, port = MQTT.split(":")

        def connected(name, *, clean=True, then=lambda client: None):
            """A client that has been heard by the broker."""
            done = threading.Event()
            client = mqtt.Client(
                mqtt.CallbackAPIVersion.VERSION2,
                client_id=name,
                clean_session=clean,
                protocol=mqtt.MQTTv311,
            )
            client.on_connect = lambda *_: then(client) if clean is False else done.set()
            client.on_subscribe = lambda *_: done.set()
            client.connect(host, int(port))
            client.loop_start()
            assert done.wait(DEADLINE)
            return client

        # The broker keeps messages from now on, before the first publisher comes.
        first = connected(
            self.session, clean=False, then=lambda client: client.subscribe(self.topic, 1)
        )
        first.disconnect()
        first.loop_stop()
        self.sender = connected(f"{self.session}-sender")

    def send(self, rows, hour):
        waiting = set()
        for start in range(0, len(rows), 20):
            payload = "".join(
                json.dumps({"ts": ts, "station": key, "card": card}) + "\n"
                for ts, key, card in rows[start : start + 20]
            ).encode()
            self.sender.publish(self.topic, payload, qos=1).wait_for_publish(DEADLINE)
            waiting.add(hashlib.sha256(payload).hexdigest())
        wait_for(
            lambda: waiting <= set(self.acknowledged.read_text().split()), "an acknowledgement"
        )

    def tidy(self):
        self.sender.disconnect()
        self.sender.loop_stop()


class PostgresWorld(HttpWorld):
    """The same with a store on a server, in a schema of its own."""

    settings: ClassVar = {"takeover": True}

    def __init__(self, *args, head="elsewhere/taps.head", **more):
        self.place = self.a_place()
        store = {"url": self.place.address, "head": head}
        super().__init__(
            *args, store={name: value for name, value in store.items() if value}, **more
        )

    def a_place(self):
        return PostgresPlace(POSTGRES)

    def tidy(self):
        self.place.clean()


class KilledServerWorld(PostgresWorld):
    """The same with a server that is killed too, before or after the publisher."""

    server = None
    """An `OwnServer` with PostgreSQL, which runs."""

    def a_place(self):
        return PostgresPlace(f"postgresql://penstock@127.0.0.1:{self.server.port()}/penstock")

    def disturb(self, random):
        how = random.randrange(4)
        if how == 1:
            self.server("kill")
        done = super().disturb(random)
        if how == 2:
            self.server("kill")
        if how in (1, 2):
            self.server("start")
        # A start that loses the server in the middle ends by itself, and has released nothing.
        refused = self.starts[-1].of("refused")
        return done or (how == 1 and [each["error"] in UNAVAILABLE for each in refused] == [True])


WORLDS = {
    "parquet": ParquetWorld,
    "csv": CsvWorld,
    "jsonl": JsonLinesWorld,
    "http": HttpWorld,
    "kafka": KafkaWorld,
    "mqtt": MqttWorld,
    "postgres": PostgresWorld,
    "killed server": KilledServerWorld,
}
needs_kafka = pytest.mark.skipif(
    KAFKA is None,
    reason='needs Kafka: .ci/services start && eval "$(.ci/services env)" (PENSTOCK_TEST_KAFKA)',
)
needs_mqtt = pytest.mark.skipif(
    MQTT is None,
    reason='needs Mosquitto: .ci/services start && eval "$(.ci/services env)" (PENSTOCK_TEST_MQTT)',
)
needs_postgres = pytest.mark.skipif(
    POSTGRES is None,
    reason="needs PostgreSQL: "
    '.ci/services start && eval "$(.ci/services env)" (PENSTOCK_TEST_POSTGRES)',
)
