"""The driver, the Python workers and Kafka are killed while Spark counts: nothing changes.

Each kill of a driver needs a new session, which takes seconds, so all of this runs at night.
`tests/engine/spark` has the quick twins.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from random import Random

import pytest

from penstock.engine.pipeline import Pipeline
from penstock.engine.publisher import Publisher
from penstock.engine.sqlite import SQLiteReader
from penstock.private.noise import NoNoise

from tests.engine.spark.conftest import JARS
from tests.engine.spark.test_real_spark import SparkTopic, _descendants, needs_kafka
from tests.engine.spark.worlds import TURNS, message, rows_of_turn, settings, write_parquet
from tests.recovery.servers import OwnServer

pytestmark = pytest.mark.nightly

KILLS = int(os.environ.get("PENSTOCK_SPARK_KILLS", "20"))
KAFKA_KILLS = max(KILLS // 4, 1)
ENGINE = {"master": "local[2]", "partitions": 3}
FINITE = {"kind": "parquet", "path": "taps/*.parquet"}
PATIENCE = 600
"""Seconds for which a killed and started publisher may need to finish."""

WORK = """
import json, sys
from penstock.engine.pipeline import Pipeline
from penstock.engine.publisher import Publisher
from penstock.engine.spark.engine import SparkEngine
from penstock.private.noise import NoNoise
pipeline = Pipeline.of(json.load(open("pipeline.json")), folder=".")
print("begun", flush=True)
with Publisher(pipeline, noise=NoNoise, engine=SparkEngine(pipeline)) as publisher:
    print("open", flush=True)
    publisher.run()
print("done", flush=True)
"""


def spark_is_there():
    pytest.importorskip("pyspark", reason="needs Spark: pip install 'penstock[spark]'")


class KilledDriver:
    """A publisher in a process of its own, which is started again after each kill."""

    def __init__(self, folder, content):
        self.folder = folder
        (folder / "pipeline.json").write_text(json.dumps(content))
        self.process = None
        self.output = ""

    def start(self):
        self.process = subprocess.Popen(
            [sys.executable, "-c", WORK],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def kill_after(self, seconds):
        """Kill it at a random moment, unless it has ended; return whether it was killed."""
        try:
            self.output += self.process.communicate(timeout=seconds)[0]
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.output += self.process.communicate()[0]
            return True
        assert self.process.returncode == 0, self.output
        return False

    def finish(self):
        self.start()
        self.output += self.process.communicate(timeout=PATIENCE)[0]
        assert self.process.returncode == 0, self.output


def filled(folder):
    (folder / "taps").mkdir()
    for number in range(len(TURNS)):
        write_parquet(folder / "taps" / f"{number}.parquet", rows_of_turn(number))


def declared(store, **more):
    stream = {"until": "2026-01-01T06:00Z"}
    return settings(FINITE, store=store, stream=stream, **more)


def expected(folder):
    """The heads and the releases without Spark, by series."""
    pipeline = Pipeline.of(declared("here.db"), folder=folder)
    with Publisher(pipeline, noise=NoNoise) as publisher:
        assert publisher.run()
    return told(folder / "here.db")


def told(path):
    with SQLiteReader(path) as reader:
        return {
            name: (
                str(reader.head(name)),
                [(each.unit, each.value.tolist()) for each in reader.releases(name)],
            )
            for name in reader.series_names
        }


def test_a_driver_that_is_killed_again_and_again_publishes_every_unit_once(tmp_path):
    spark_is_there()
    filled(tmp_path)
    driver, moments, kills = (
        KilledDriver(tmp_path, declared("there.db", engine=ENGINE)),
        Random(1),
        0,
    )
    began = time.monotonic()
    driver.start()
    first = driver.process.communicate(timeout=PATIENCE)[0]
    whole = time.monotonic() - began
    assert driver.process.returncode == 0, first
    wanted = expected(tmp_path)
    assert told(tmp_path / "there.db") == wanted
    while kills < KILLS:
        for leftover in tmp_path.glob("there.db*"):
            leftover.unlink()
        driver.start()
        while driver.kill_after(moments.uniform(0, 1.2 * whole)):
            kills += 1
            if kills >= KILLS:
                driver.finish()
                break
            driver.start()
        assert told(tmp_path / "there.db") == wanted
    assert "card-" not in driver.output + first


def test_python_workers_that_are_killed_again_and_again_change_nothing(tmp_path):
    spark_is_there()
    filled(tmp_path)
    wanted = expected(tmp_path)
    from penstock.engine.spark import counting
    from penstock.engine.spark.engine import SparkEngine

    pipeline = Pipeline.of(declared("there.db", engine=ENGINE), folder=tmp_path)
    before, counting.MAX_TRIES = counting.MAX_TRIES, 10 * KILLS
    stop, killed = threading.Event(), []

    def kill():
        moments = Random(2)
        while not stop.wait(moments.uniform(0.1, 3)) and len(killed) < KILLS:
            found = _descendants("pyspark.daemon")
            parents = {pid for pid, _ in found}
            for pid in [pid for pid, parent in found if parent in parents][:1]:
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        while len(killed) < KILLS:
            for leftover in tmp_path.glob("there.db*"):
                leftover.unlink()
            with Publisher(pipeline, noise=NoNoise, engine=SparkEngine(pipeline)) as publisher:
                assert publisher.run()
            assert told(tmp_path / "there.db") == wanted
    finally:
        stop.set()
        killer.join()
        counting.MAX_TRIES = before


@needs_kafka
def test_a_kafka_that_is_killed_while_spark_reads_loses_nothing(tmp_path, monkeypatch):
    spark_is_there()
    from penstock.engine.spark.engine import SparkEngine
    from penstock.testing import ManualClock

    from tests.engine.spark import test_real_spark

    with OwnServer("kafka") as own:
        monkeypatch.setattr(test_real_spark, "SERVER", f"127.0.0.1:{own.port()}")
        topic = SparkTopic(3)
        source = {**topic.source(), "outage": "wait"}
        content = settings(source, store="there.db", engine={**ENGINE, "jars": JARS})
        here = settings(source, store="here.db")
        for number in range(len(TURNS)):
            values = map(message, rows_of_turn(number))
            topic.send((value, place % 3) for place, value in enumerate(values))
        outcomes = []
        for each, engine in ((here, None), (content, SparkEngine)):
            pipeline = Pipeline.of(each, folder=tmp_path)
            clock = ManualClock("2026-01-01T06:12Z")
            made = None if engine is None else engine(pipeline)
            with Publisher(pipeline, clock=clock, noise=NoNoise, engine=made) as publisher:
                publisher.loop.read()
                publisher.committer.save()
                killer = threading.Thread(target=_kill_often, args=(own, made is not None))
                killer.start()
                while publisher.loop.draw(clock.now()):
                    publisher.loop.commit()
                killer.join()
                outcomes.append(
                    {
                        view.name: [
                            (one.unit, one.value.tolist())
                            for one in publisher.store.releases(view.name)
                        ]
                        for view in publisher.views
                    }
                )
        assert outcomes[0] == outcomes[1]
        assert len(outcomes[1]["taps/hours"]) == 6


def _kill_often(own, wanted):
    moments = Random(3)
    for _ in range(KAFKA_KILLS if wanted else 0):
        threading.Event().wait(moments.uniform(0, 2))
        own("kill")
        own("start")
