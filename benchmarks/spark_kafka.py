"""Counting a Kafka topic on Spark with `partitioned = "person"`: two cores against one.

    .ci/services start && eval "$(.ci/services env)"
    python benchmarks/spark_kafka.py [--json] [--events 2000000]

The topic has four partitions with JSON values of about 100 bytes, on a local broker. Each session
of Spark has a process of its own. A session with one core may use one CPU of the machine, with its
Python workers: otherwise these would run on a second one. The broker may use all. Each session
counts the topic once before it is measured. The sessions take turns; the best of `ROUNDS` counts.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from penstock.engine.pipeline import Pipeline
from penstock.engine.publisher import Publisher
from penstock.engine.publishing_loop import LiveLoop
from penstock.engine.spark.engine import SparkEngine
from penstock.private.person_places import partition_of
from penstock.testing import ManualClock

from report import Figure, main

EVENTS = 2_000_000
PARTITIONS = 4
STATIONS = 265
CARDS = 1_000_000
ROUNDS = 5
CLOSES = "2026-01-01T01:01Z"


def fill(server: str, topic: str, events: int) -> None:
    """A topic of its own, in which each person has one partition."""
    admin = AdminClient({"bootstrap.servers": server, "log_level": 0})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result()
    producer = Producer(
        {"bootstrap.servers": server, "linger.ms": 50, "queue.buffering.max.messages": events}
    )
    rng = np.random.default_rng(1)
    cards = rng.integers(0, CARDS, events)
    places = partition_of(cards, PARTITIONS, "murmur2").tolist()
    stations = rng.integers(0, STATIONS, events).tolist()
    rows = zip(cards.tolist(), places, stations, strict=True)
    for number, (card, place, station) in enumerate(rows):
        minute, second = number // 60 % 60, number % 60
        value = (
            f'{{"ts":"2026-01-01T00:{minute:02d}:{second:02d}.{number % 1_000_000:06d}Z",'
            f'"station":"{station}","card":{card},"gate":"in, by card"}}'
        )
        producer.produce(topic, value, partition=place)
        if number % 10_000 == 0:
            producer.poll(0)
    producer.flush()


def declared(server: str, topic: str, jars: str, master: str) -> dict[str, Any]:
    return {
        "stream": {"name": "taps", "every": "1h", "origin": "2026-01-01", "lateness": "1min"},
        "source": {
            "kind": "kafka",
            "servers": server,
            "topic": topic,
            "time": "ts",
            "key": "station",
            "person": "card",
            "person_type": "integer",
        },
        "domain": {"keys": [str(number) for number in range(STATIONS)]},
        "privacy": {"mechanism": "uniform", "epsilon": "1", "window": 24},
        "store": {"path": "taps.db"},
        "engine": {"master": master, "jars": jars, "partitioned": "person"},
    }


def seconds_of_a_job(content: dict[str, Any]) -> tuple[float, list[int]]:
    """How long Spark counts unit 1, and its counts."""
    with tempfile.TemporaryDirectory() as name:
        pipeline = Pipeline.of(content, folder=Path(name))
        engine = SparkEngine(pipeline)
        with Publisher(pipeline, clock=ManualClock(CLOSES), engine=engine) as publisher:
            loop = publisher.loop
            assert isinstance(loop, LiveLoop)
            while publisher.progress.position is None:
                loop.read()
            publisher.committer.save()
            (view,) = publisher.views
            due = view.counting.due(loop.clock.now())
            start = time.perf_counter()
            view.counting.ready(due)
            return time.perf_counter() - start, view.counting.counts(1).tolist()


def session(text: str) -> None:
    """One session of Spark: for each line that comes, print the seconds of a job and its counts."""
    given = json.loads(text)
    if given["cpus"]:
        os.sched_setaffinity(0, given["cpus"])
    content = declared(given["server"], given["topic"], given["jars"], given["master"])
    for _ in sys.stdin:
        seconds, counts = seconds_of_a_job(content)
        print(json.dumps({"seconds": seconds, "counts": counts}), flush=True)


class SparkSessionProcess:
    """A session of Spark in a process of its own."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--session", json.dumps(options)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.counts: list[int] = []

    def job(self) -> float:
        """Run a job; return how long it took."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()
        found = json.loads(self._process.stdout.readline())
        self.counts = found["counts"]
        return float(found["seconds"])

    def close(self) -> None:
        """End the session."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def asked(name: str) -> str:
    found = os.environ.get(name)
    if found is None:
        sys.exit(
            f'needs Kafka and Spark: .ci/services start && eval "$(.ci/services env)" ({name})'
        )
    return found


def measure(given: argparse.Namespace) -> Iterator[Figure]:
    server, jars = asked("PENSTOCK_TEST_KAFKA"), asked("PENSTOCK_TEST_SPARK_JARS")
    topic = f"benchmark-{secrets.token_hex(8)}"
    fill(server, topic, given.events)
    common = {"server": server, "topic": topic, "jars": jars}
    first = sorted(os.sched_getaffinity(0))[:1]
    sessions: dict[str, dict[str, Any]] = {
        "local[1] on one CPU": {"master": "local[1]", "cpus": first},
        "local[1] with its Python worker on another CPU": {"master": "local[1]", "cpus": None},
        "local[2] on two CPUs": {"master": "local[2]", "cpus": None},
    }
    running = {name: SparkSessionProcess(common | each) for name, each in sessions.items()}
    for each in running.values():
        each.job()
    best = dict.fromkeys(running, float("inf"))
    for _ in range(ROUNDS):
        for name, each in running.items():
            best[name] = min(best[name], each.job())
    counts = [each.counts for each in running.values()]
    for each in running.values():
        each.close()
    for name, seconds in best.items():
        yield Figure(name, given.events / seconds, "events/s")
    one, _, two = best.values()
    yield Figure("two cores, of one", one / two, "×", 1.6, at_least=True)
    same = all(each == counts[0] for each in counts)
    yield Figure("the counts agree", float(same and sum(counts[0]) > 0), "", 1.0, at_least=True)
    admin = AdminClient({"bootstrap.servers": server, "log_level": 0})
    admin.delete_topics([topic])[topic].result()


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--events", type=int, default=EVENTS)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--session"]:
        session(sys.argv[2])
    else:
        main(__doc__ or "", measure, options)
