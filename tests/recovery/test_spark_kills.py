"""The driver, the Python workers and Kafka are killed while Spark counts: every unit is released
once, with the counts of what was sent, and no sink ever shows two contents of one release.

A killed driver needs a new session of Spark, which takes seconds, so real Spark is killed at night.
`make test` kills publishers whose session of Spark is stood in for; a worker of real Spark is
killed in `tests/engine/spark/test_real_spark.py`. `PENSTOCK_SPARK_KILLS` says how often.
"""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from collections import Counter
from contextlib import suppress
from random import Random

import pytest

from tests.engine.spark.conftest import JARS
from tests.recovery.servers import OwnServer
from tests.recovery.spark_world import (
    OnSpark,
    SparkFilesWorld,
    SparkKafkaWorld,
    SparkParquetWorld,
    StandInFilesWorld,
    python_workers,
)
from tests.recovery.test_kills import killed
from tests.recovery.world import KAFKA, wait_for

KILLS = int(os.environ.get("PENSTOCK_SPARK_KILLS", "20"))
KAFKA_KILLS = max(KILLS // 4, 1)
AT_ONCE = 7
"""Kills of one stream, at most: then another one begins."""

HOURS = 12
WITH_KAFKA = KAFKA is not None and JARS is not None
STREAMS = [
    (SparkKafkaWorld if WITH_KAFKA else SparkFilesWorld, "test"),
    (SparkParquetWorld, "fresh"),
    (SparkKafkaWorld if WITH_KAFKA else SparkFilesWorld, "both"),
    (SparkFilesWorld, "test"),
]
"""Sources, and noise: with "test" persons are bounded and counts show, with "fresh" the noise is
real, and with "both" every event is its own person.
"""


@pytest.fixture
def real():
    pytest.importorskip("pyspark", reason="needs Spark: pip install 'penstock[spark]'")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("needs Java 17 or 21")


@pytest.mark.parametrize("noise", ["test", "fresh"])
def test_a_killed_publisher_of_ranges_repeats_loses_and_changes_nothing(noise, nest, tmp_path):
    """The quick twin of the tests below: kill -9, with a session that is stood in for."""
    with StandInFilesWorld(nest, tmp_path, noise=noise, hours=6, seed=5) as world:
        assert killed(world, 4, Random(5), Counter()) == 4
        world.check()


@pytest.mark.nightly
def test_a_driver_that_is_killed_again_and_again_publishes_every_unit_once(real, nest, tmp_path):
    done, moments = 0, Counter()
    for number in range(10 * KILLS):
        if done >= KILLS:
            break
        world_of, noise = STREAMS[number % len(STREAMS)]
        with world_of(nest, tmp_path / str(number), noise=noise, hours=HOURS, seed=number) as world:
            done += killed(world, min(AT_ONCE, KILLS - done), Random(number), moments)
            world.check()
            print(f"{world_of.__name__}, noise {noise!r}: {done} kills, last told {dict(moments)}")
    assert done >= KILLS


@pytest.mark.nightly
def test_python_workers_that_are_killed_again_and_again_change_nothing(real, nest, tmp_path):
    done = 0
    for number in range(10 * KILLS):
        if done >= KILLS:
            break
        world_of, noise = [each for each in STREAMS if not each[0].finite][number % 3]
        with world_of(nest, tmp_path / str(number), noise=noise, hours=HOURS, seed=number) as world:
            done += workers_killed(world, min(AT_ONCE, KILLS - done), Random(number))
            world.check()
            retried = [each["text"] for each in world.starts[-1].of("source")]
            print(f"{world_of.__name__}, noise {noise!r}: {done} kills, told {retried}")
    assert done >= KILLS


def workers_killed(world: OnSpark, kills: int, random: Random) -> int:
    """Kill a Python worker at random moments while hours come; return how often."""
    world.set_clock(0)
    started = world.start()
    assert started.until("begin"), started.told
    done, over = [], threading.Event()

    def kill():
        while len(done) < kills and not over.wait(random.uniform(0.02, 0.5)):
            for pid in random.sample(found := python_workers(started.process), min(1, len(found))):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    done.append(pid)

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    try:
        for hour in range(1, world.hours + 1):
            wait_for(lambda hour=hour: len(done) >= min(kills, hour - 4), f"hour {hour}")
            world.set_clock(hour)
            world.send(world.of_hour(hour), hour)
        world.set_clock(world.hours + 2)
        world.finish()
    finally:
        over.set()
        killer.join()
    return len(done)


@pytest.mark.nightly
@pytest.mark.skipif(not WITH_KAFKA, reason="needs Kafka and Spark's connector: .ci/services start")
def test_a_kafka_that_is_killed_while_spark_reads_loses_nothing(real, nest, tmp_path):
    random = Random(3)
    with OwnServer("kafka") as own:
        servers = f"127.0.0.1:{own.port()}"
        with SparkKafkaWorld(
            nest, tmp_path, noise="test", hours=HOURS, servers=servers, outage="wait"
        ) as world:
            world.set_clock(0)
            started = world.start()
            assert started.until("begin"), started.told
            feeding = threading.Thread(target=world.live, daemon=True)
            feeding.start()
            for _ in range(KAFKA_KILLS):
                started.until("drawn", "kept", seconds=world.while_)
                time.sleep(random.uniform(0, 1))
                own("kill")
                own("start")
            wait_for(lambda: not feeding.is_alive(), "sending all")
            world.set_clock(world.hours + 5)  # units wait for the lateness after an outage
            world.finish()
            world.check()
