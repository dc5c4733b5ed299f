"""On Spark, an old backup, offsets that the broker has deleted, and a second driver are refused as
without it, and nothing is released.

The quick form of each test has a session of Spark that is stood in for. All that decides about a
refusal is real: the publisher, the store, the ranges and the broker. Real Spark is for the night.
"""

from __future__ import annotations

import os
import shutil

import pytest

from tests.engine.spark.conftest import JARS
from tests.recovery.spark_world import (
    SparkFilesWorld,
    SparkKafkaWorld,
    StandInFilesWorld,
    StandInKafkaWorld,
)
from tests.recovery.test_backups import HOURS, SHOWN, put_back, restored_store
from tests.recovery.test_rivals import send
from tests.recovery.world import DEADLINE, needs_kafka, wait_for

FILES = [
    StandInFilesWorld,
    pytest.param(SparkFilesWorld, marks=pytest.mark.nightly),
]
TOPICS = [
    pytest.param(StandInKafkaWorld, marks=needs_kafka),
    pytest.param(SparkKafkaWorld, marks=[needs_kafka, pytest.mark.nightly]),
]


@pytest.fixture(autouse=True)
def real(request):
    if request.node.get_closest_marker("nightly"):
        pytest.importorskip("pyspark", reason="needs Spark: pip install 'penstock[spark]'")
        if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
            pytest.skip("needs Java 17 or 21")
        if JARS is None:
            pytest.skip("needs Spark's connector for Kafka: .ci/services start")


@pytest.mark.parametrize(
    ("world_of", "shown"),
    [
        (StandInFilesWorld, "a JSON lines sink"),
        *(
            pytest.param(world_of, shown, marks=pytest.mark.nightly)
            for shown in SHOWN
            for world_of in (StandInFilesWorld, SparkFilesWorld)
            if (world_of, shown) != (StandInFilesWorld, "a JSON lines sink")
        ),
    ],
)
def test_an_old_backup_is_refused_on_spark(world_of, shown, nest, tmp_path):
    store, sinks = SHOWN[shown]
    more = {"store": {"path": "taps.db", **store}, "sink": sinks}
    with world_of(nest, tmp_path, noise="both", hours=HOURS, webhook=False, **more) as world:
        restored_store(world)
        world.set_clock(HOURS + 1)
        refused = world.start()
        told = refused.until("refused")
        assert told, refused.told
        assert "restored from an old backup" in told["text"]
        assert "restore the newest" in told["text"].lower()
        refused.ended()
        assert not refused.of("drawn")
        assert set(world.heads().values()) == {2}
        put_back(world, "newest")
        world.set_clock(HOURS + 2)
        world.start()
        world.finish()
        world.check()


@pytest.mark.parametrize("world_of", FILES)
def test_a_second_driver_is_refused_at_once_and_takes_over_when_the_first_is_killed(
    world_of, nest, other_nest, tmp_path
):
    with world_of(nest, tmp_path, noise="both", hours=HOURS) as world:
        world.set_clock(0)
        first = world.start()
        assert first.until("begin")
        send(world, 1, 3)
        for _ in range(2):
            second = world.start(nest=other_nest)
            told = second.until("refused")
            assert told, second.told
            assert told["error"] == "LeaseError"
            assert "is being published by another process" in told["text"]
            second.ended()
            assert not second.of("drawn")
        send(world, 4, 5)
        assert first.kill()
        world.start()
        send(world, 6, HOURS)
        world.set_clock(HOURS + 2)
        world.finish()
        world.check()


@pytest.mark.parametrize("noted", [True, False], ids=["noted", "not noted"])
@pytest.mark.parametrize("world_of", TOPICS)
def test_offsets_that_the_broker_has_deleted_are_refused_on_spark(world_of, noted, nest, tmp_path):
    """Of a range that was stored and not counted, and of events that no range has yet."""
    with world_of(nest, tmp_path, noise="none", hours=HOURS) as world:
        world.set_clock(0)
        first = world.start()
        assert first.until("begin"), first.told
        send(world, 1, 4)
        world.set_clock(5)
        wait_for(lambda: set(world.heads().values()) == {3}, "unit 3")
        first.stop()
        if not noted:
            send(world, 5, 5)
        delete_records(world)
        world.set_clock(6)  # unit 4 is due
        refused = world.start()
        told = refused.until("refused")
        assert told, refused.told
        assert told["error"] == "StateError"
        assert "the broker deleted events before they were read" in told["text"]
        assert "start once with accept_loss" in told["text"]
        refused.ended()
        assert not refused.of("drawn")
        assert set(world.heads().values()) == {3}


def delete_records(world):
    """Delete all messages that the topic has."""
    from confluent_kafka import OFFSET_END, TopicPartition

    places = [TopicPartition(world.topic, each, OFFSET_END) for each in range(3)]
    for done in world.admin.delete_records(places).values():
        done.result(DEADLINE)
