"""As much of a Spark session as our jobs use, in this process: tasks are pickled, rows shuffled.

Tests with real Spark are in `test_real_spark.py`. They are few, because a session takes seconds.
"""

# ruff: noqa: N802, N815  (Spark's names)
from __future__ import annotations

import json
import pickle
from types import SimpleNamespace

import pyarrow as pa

from penstock.engine.spark.jobs import spark_hash


class Context:
    defaultParallelism = 2

    def __init__(self):
        self.jobs = 0
        self.failures = []
        self.cancelled = []

    def broadcast(self, value):
        copy = pickle.loads(pickle.dumps(value))
        return Broadcast(value=copy)

    def setJobGroup(self, group, description):
        pass

    def cancelJobGroup(self, group):
        self.cancelled.append(group)


class Broadcast(SimpleNamespace):
    def destroy(self, blocking):
        pass


class Frame:
    """Record batches in partitions, computed when they are collected."""

    def __init__(self, context, make):
        self.context = context
        self.make = make

    def mapInArrow(self, function, schema):
        (cell,) = function.__closure__
        task = pickle.loads(pickle.dumps(cell.cell_contents))

        def made():
            return [list(task(iter(part))) for part in self.make()]

        return Frame(self.context, made)

    def repartition(self, number, column):
        def made():
            parts = [[] for _ in range(number)]
            for part in self.make():
                for batch in part:
                    (place,) = set(batch.column(column).to_pylist())
                    parts[spark_hash(place) % number].append(batch)
            return parts

        return Frame(self.context, made)

    def toArrow(self):
        self.context.jobs += 1
        if self.context.failures:
            failure = self.context.failures.pop(0)
            if failure is not None:
                raise failure
        batches = [batch for part in self.make() for batch in part]
        if not batches:
            names = {"unit": "int64", "key": "int32", "number": "int64", "note": "string"}
            return pa.table({name: pa.array([], kind) for name, kind in names.items()})
        return pa.Table.from_batches(batches)


class TopicReading:
    """As much of Spark's connector as our jobs use: messages between two offsets."""

    def __init__(self, context):
        self.context = context

    def format(self, name):
        assert name == "kafka"
        return self

    def options(self, **given):
        self.given = given
        return self

    def load(self):
        return self

    def select(self, *names):
        assert names == ("partition", "offset", "value")
        ((topic, starts),) = json.loads(self.given["startingOffsets"]).items()
        ((_, ends),) = json.loads(self.given["endingOffsets"]).items()
        places = [(topic, int(each), starts[each], ends[each]) for each in starts]
        return Frame(self.context, lambda: [[self._messages(*place)] for place in places])

    def _messages(self, topic, partition, start, end):
        from confluent_kafka import Consumer, TopicPartition

        servers = self.given["kafka.bootstrap.servers"]
        settings = {"group.id": "in-process", "enable.auto.commit": False}
        consumer = Consumer({"bootstrap.servers": servers, **settings})
        found = {}
        try:
            consumer.assign([TopicPartition(topic, partition, start)])
            while len(found) < end - start:
                message = consumer.poll(1.0)
                if message is not None and not message.error() and message.offset() < end:
                    found[message.offset()] = message.value()
        finally:
            consumer.close()
        columns = {
            "partition": pa.array([partition] * len(found), pa.int32()),
            "offset": pa.array(sorted(found), pa.int64()),
            "value": pa.array([found[offset] for offset in sorted(found)], pa.binary()),
        }
        return pa.record_batch(columns)


class InProcessSpark:
    """A session whose workers are this process."""

    def __init__(self):
        self.sparkContext = Context()

    @property
    def read(self):
        return TopicReading(self.sparkContext)

    def range(self, start, stop, step, parts):
        numbers = range(start, stop, step)
        batches = [[pa.record_batch({"id": pa.array([each], pa.int64())})] for each in numbers]
        return Frame(self.sparkContext, lambda: batches)
