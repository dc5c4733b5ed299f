"""Real Spark on two cores, and real Kafka: the same releases and links as without them."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from penstock.core.errors import StateError, UnreadableRowsError, UnusableSourceError
from penstock.engine.pipeline import Pipeline
from penstock.engine.publisher import Publisher
from penstock.engine.spark import count, jobs
from penstock.engine.spark.engine import SparkEngine
from penstock.engine.spark.session import PROTECTED, check_connector
from penstock.private.noise import TestNoise
from penstock.private.person_places import partition_of

from tests.engine.spark.conftest import JARS
from tests.engine.spark.worlds import (
    BROKEN,
    KEYS,
    TURNS,
    WITH_REAL_SPARK,
    Engine,
    message,
    outcome,
    rows_of_turn,
    settings,
    taps_toml,
    write_parquet,
)

pytestmark = WITH_REAL_SPARK

SERVER = os.environ.get("PENSTOCK_TEST_KAFKA")
needs_kafka = pytest.mark.skipif(
    SERVER is None or JARS is None,
    reason='needs Kafka and Spark\'s connector: .ci/services start && eval "$(.ci/services env)" '
    "(PENSTOCK_TEST_KAFKA, PENSTOCK_TEST_SPARK_JARS)",
)
DEADLINE = 60
FINITE = {"kind": "parquet", "path": "taps/*.parquet"}


class SparkTopic:
    """A topic of one test's own."""

    def __init__(self, partitions):
        from confluent_kafka import Producer
        from confluent_kafka.admin import AdminClient, NewTopic

        self.topic = f"spark-{secrets.token_hex(8)}"
        self.admin = AdminClient({"bootstrap.servers": SERVER})
        self.producer = Producer({"bootstrap.servers": SERVER, "linger.ms": 5})
        new = NewTopic(self.topic, partitions, 1)
        self.admin.create_topics([new])[self.topic].result(DEADLINE)

    def send(self, values):
        """Values, each with its partition."""
        for value, partition in values:
            self.producer.produce(self.topic, value, partition=partition)
        assert self.producer.flush(DEADLINE) == 0

    def source(self):
        return {"kind": "kafka", "servers": SERVER, "topic": self.topic}


def finite(folder, store, *, engine=None, **more):
    content = settings(FINITE, store=store, stream={"until": "2026-01-01T06:00Z"}, **more)
    if engine is not None:
        content["engine"] = engine
    return Pipeline.of(content, folder=folder)


def filled(folder, **more):
    (folder / "taps").mkdir()
    for number in range(len(TURNS)):
        write_parquet(folder / "taps" / f"{number}.parquet", rows_of_turn(number, **more), **more)


def published(pipeline, engine=None):
    with Publisher(pipeline, noise=lambda: TestNoise(5), engine=engine) as publisher:
        assert publisher.run()
        return outcome(publisher)


def test_files_give_the_same_releases_and_links(tmp_path, real_spark):
    filled(tmp_path)
    here = published(finite(tmp_path, "here.db"))
    pipeline = finite(tmp_path, "there.db", engine=real_spark)
    assert published(pipeline, SparkEngine(pipeline)) == here


@needs_kafka
@pytest.mark.parametrize("integer", [True])
def test_a_topic_gives_the_same_releases_and_links(tmp_path, real_spark, integer):
    """Text ids are counted in the same turns by `test_engine.py`, and by the test above."""
    topic = SparkTopic(3)
    here = settings(topic.source(), store="here.db", integer=integer)
    there = settings(topic.source(), store="there.db", integer=integer, engine=real_spark)
    both = (
        Engine(Pipeline.of(here, folder=tmp_path)),
        Engine(Pipeline.of(there, folder=tmp_path), SparkEngine),
    )
    try:
        for each in both:
            each.open()
        for number, now in enumerate(TURNS):
            values = [*map(message, rows_of_turn(number, integer=integer)), *BROKEN]
            topic.send((value, place % 3) for place, value in enumerate(values))
            for each in both:
                each.turn(now)
                _at_the_end(each, topic)
        found = [outcome(each.publisher) for each in both]
        assert found[0] == found[1]
        assert [unit for unit, _ in found[1][0]["taps/hours"][0]] == [1, 2, 3, 4, 5, 6]
    finally:
        for each in both:
            each.close()


def _at_the_end(engine, topic):
    """All messages that were sent are behind the position."""
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import OffsetSpec

    places = {TopicPartition(topic.topic, number): OffsetSpec.latest() for number in range(3)}
    ends = {
        str(place.partition): future.result(DEADLINE).offset
        for place, future in topic.admin.list_offsets(places).items()
    }
    position = engine.publisher.progress.position
    assert {name: position[name] for name in ends} == ends


@needs_kafka
def test_a_person_in_the_wrong_partition_loses_events_and_a_new_partition_is_refused(
    tmp_path, real_spark
):
    from confluent_kafka.admin import NewPartitions

    topic = SparkTopic(2)
    people = [f"card-{number}" for number in range(30)]
    right = partition_of(pa.array(people), 2, "murmur2").tolist()
    time = "2026-01-01T00:10:00Z"
    sent = [
        (message((time, "north", each)), place) for each, place in zip(people, right, strict=True)
    ]
    sent += [
        (message((time, "south", each)), 1 - place)
        for each, place in zip(people, right, strict=True)
    ]
    topic.send(sent)
    content = settings(
        topic.source(), store="there.db", engine={**real_spark, "partitioned": "person"}
    )
    content["view"] = None
    content["privacy"] = {"mechanism": "uniform", "epsilon": "1", "window": 2, "contribution": 3}
    engine = Engine(Pipeline.of(content, folder=tmp_path), SparkEngine)
    engine.open()
    try:
        engine.clock.set("2026-01-01T01:12Z")
        _read_first(engine)
        (view,) = engine.publisher.views
        assert view.counting.ready(view.counting.due(engine.clock.now()))
        assert view.counting.counts(1).tolist() == [30, 0, 0]
        assert engine.publisher.source.rejections.for_operator() == {"wrong partition": 30}
        new = NewPartitions(topic.topic, 3)
        topic.admin.create_partitions([new])[topic.topic].result(DEADLINE)
        with pytest.raises(StateError, match=r"has 3 partitions, and had 2.*Remove partitioned"):
            _read_often(engine)
    finally:
        engine.close()


def _read_first(engine):
    """The first answer of a broker may take longer than a publisher waits at a time."""
    for _ in range(30):
        engine.publisher.loop.read()
        if engine.publisher.progress.position is not None:
            return
        engine.publisher.source.wait(1.0)
    raise AssertionError(engine.publisher.source.problem)


def _read_often(engine):
    """The broker tells of a new partition after a moment."""
    for _ in range(100):
        engine.publisher.loop.read()


@needs_kafka
@pytest.mark.skipif(
    "PENSTOCK_TEST_KAFKA_TLS" not in os.environ,
    reason='needs Kafka with TLS and a login: .ci/services start && eval "$(.ci/services env)"',
)
def test_a_login_and_tls_are_those_of_the_pipeline(tmp_path, real_spark):
    topic = SparkTopic(1)
    topic.send([(message(("2026-01-01T00:10:00Z", "north", "a")), 0)])
    source = {
        **topic.source(),
        "servers": os.environ["PENSTOCK_TEST_KAFKA_TLS"],
        "mechanism": "SCRAM-SHA-512",
        "username_env": "PENSTOCK_TEST_USERNAME",
        "password_env": "PENSTOCK_TEST_PASSWORD",
        "authority": os.environ["PENSTOCK_TEST_AUTHORITY"],
    }
    content = settings(source, store="there.db", engine=real_spark)
    engine = Engine(Pipeline.of(content, folder=tmp_path), SparkEngine)
    engine.open()
    try:
        engine.clock.set("2026-01-01T01:12Z")
        _read_first(engine)
        view = engine.publisher.views[0]
        assert view.counting.ready(view.counting.due(engine.clock.now()))
        assert view.counting.counts(1).tolist() == [1, 0, 0]
    finally:
        engine.close()


def test_a_data_frame_is_counted_as_files_are(real_spark):
    from pyspark.sql import SparkSession

    spark = SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()
    rows = [row for number in range(3) for row in rows_of_turn(number)]
    frame = spark.createDataFrame(
        [{"ts": time, "station": key, "card": person} for time, key, person in rows],
        "ts string, station string, card string",
    )
    asked = {
        "time": "ts",
        "key": "station",
        "domain": KEYS,
        "every": "1h",
        "origin": "2026-01-01",
        "until": "2026-01-01T02:00Z",
        "person": "card",
        "contribution": 2,
        "partitions": 2,
    }
    counts = count(frame, **asked)
    expected = np.zeros((2, 3), np.int64)
    kept = {}
    for time, key, person in sorted(
        (row for row in rows if row[0].startswith("2026-01-01T0") and row[2] and row[1] in KEYS),
        key=lambda row: (row[0], KEYS.index(row[1])),
    ):
        unit = int(time[11:13])
        if unit < 2 and kept.setdefault((unit, person), 0) < 2:
            kept[unit, person] += 1
            expected[unit, KEYS.index(key)] += 1
    assert {unit: numbers.tolist() for unit, numbers in counts} == {
        1: expected[0].tolist(),
        2: expected[1].tolist(),
    }
    assert "private" in repr(counts)
    with pytest.raises(UnusableSourceError, match="has no column 'statoin'"):
        count(frame, **{**asked, "key": "statoin"})
    with pytest.raises(UnreadableRowsError, match="'ts' cannot be read with clock"):
        count(frame, **{**asked, "clock": "seconds"})
    hashes = spark.range(50).selectExpr("pmod(hash(cast(id as int)), 7) as place").toArrow()
    assert hashes["place"].to_pylist() == [jobs.spark_hash(number) % 7 for number in range(50)]
    settings_of = spark.sparkContext.getConf()
    assert {name: settings_of.get(name) for name in PROTECTED} == dict(PROTECTED)
    assert spark.sparkContext.uiWebUrl is None
    if JARS is not None:
        check_connector(spark)


def test_a_python_worker_that_is_killed_changes_nothing(tmp_path, real_spark, monkeypatch):
    """The long form kills many times: `tests/recovery/test_spark_kills.py`."""
    filled(tmp_path)
    here = published(finite(tmp_path, "here.db"))
    pipeline = finite(tmp_path, "there.db", engine=real_spark)
    killed = []
    begin = jobs.SparkCounter.counted

    def counted(self, given, rules, units):
        if not killed:
            killer = threading.Thread(target=lambda: killed.extend(_killed_workers()))
            killer.start()
            try:
                return begin(self, given, rules, units)
            finally:
                killer.join()
        return begin(self, given, rules, units)

    monkeypatch.setattr(jobs.SparkCounter, "counted", counted)
    assert published(pipeline, SparkEngine(pipeline)) == here
    assert killed


def _killed_workers():
    """Kill the Python workers of this session's Spark as soon as there are any."""
    for _ in range(2_000):
        found = _descendants("pyspark.daemon")
        workers = [pid for pid, parent in found if parent in {pid for pid, _ in found}]
        if workers:
            for pid in workers:
                os.kill(pid, signal.SIGKILL)
            return workers
        threading.Event().wait(0.005)
    return []


def _descendants(name):
    """Processes with this name in their command that descend from this one, with their parents."""
    parents, commands = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int(
                    (entry / "stat").read_text().rpartition(")")[2].split()[1]
                )
                commands[int(entry.name)] = (entry / "cmdline").read_text()
            except OSError:
                continue

    def ours(pid):
        while pid in parents and pid != os.getpid():
            pid = parents[pid]
        return pid == os.getpid()

    return [
        (pid, parents[pid]) for pid, command in commands.items() if name in command and ours(pid)
    ]


@pytest.mark.nightly
def test_penstock_run_shows_no_data(tmp_path, real_spark):
    """Planted values are in no output, also where a job fails. A session of its own takes long.

    Spark would make a folder `artifacts` in the current folder, and here it may not.
    """
    (tmp_path / "taps").mkdir()
    (tmp_path / "artifacts").touch()
    rows = [("2026-01-01T00:10:00Z", "north", f"planted-{number}") for number in range(773)]
    write_parquet(tmp_path / "taps" / "0.parquet", rows)
    done = _run(tmp_path, real_spark)
    assert done.returncode == 0, done.stderr
    assert "published" in done.stderr
    assert "planted" not in done.stdout + done.stderr
    assert "773" not in done.stdout + done.stderr


def _run(folder, engine):
    table = "\n".join(f"{name} = {json.dumps(value)}" for name, value in engine.items())
    (folder / "taps.toml").write_text(
        taps_toml('kind = "parquet"\npath = "taps/*.parquet"', engine=f"[engine]\n{table}")
    )
    return subprocess.run(
        [sys.executable, "-m", "penstock", "run", "taps.toml", "--engine", "spark"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
