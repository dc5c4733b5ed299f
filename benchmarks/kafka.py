"""Events from Kafka, read, checked and bounded, compared with a bare consumer.

    .ci/services start && eval "$(.ci/services env)" && python benchmarks/kafka.py [--json]

The topic has two partitions with JSON values of about 100 bytes, on a local broker. Both use one
client with the same settings. The bare consumer asks for 1,000 or 10,000 messages at a time,
whichever is faster: the limit was set against that one. Ours asks for 500, which is faster still,
so a bare consumer that does the same is shown, too. They take turns, and the machine is not equally
fast in all of them: the median over `ROUNDS` of one against the other counts. Ours needs the extra
`fast`, and both cores of a machine that is otherwise idle.
"""

from __future__ import annotations

import os
import secrets
import sys
import time
from collections.abc import Iterator
from statistics import median

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from penstock.private.bounding import Bounding
from penstock.private.sources.base import Columns, Intake
from penstock.private.sources.kafka import MAX_MESSAGES_PER_CALL, KafkaSource

from report import Figure, main

EVENTS = 1_000_000
PARTITIONS = 2
KEYS = tuple(f"station{number:03d}" for number in range(500))
ROUNDS = 8
USUAL_SIZES = (1_000, 10_000)
"""The batch sizes of the bare consumer against which the limit was set."""

INTAKE = Intake(columns=Columns("time", "key", person="person", person_type="integer"), domain=KEYS)


def fill(server: str, topic: str) -> None:
    """A topic of its own, with events in it."""
    admin = AdminClient({"bootstrap.servers": server, "log_level": 0})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result()
    producer = Producer(
        {"bootstrap.servers": server, "linger.ms": 50, "queue.buffering.max.messages": EVENTS}
    )
    for number in range(EVENTS):
        minute, second = number // 60 % 60, number % 60
        value = (
            f'{{"time":"2026-09-01T10:{minute:02d}:{second:02d}.{number % 1_000_000:06d}Z",'
            f'"key":"{KEYS[number % len(KEYS)]}","person":{number * 7919},"gate":"in, by card"}}'
        )
        producer.produce(topic, value, partition=number % PARTITIONS)
        if number % 10_000 == 0:
            producer.poll(0)
    producer.flush()


def bare(source: KafkaSource, size: int) -> float:
    """Events per second of a consumer with the same settings that ignores the values."""
    start = time.perf_counter()
    consumer = Consumer(source._reading() | {"enable.partition.eof": False})
    consumer.assign([TopicPartition(source.topic, number, 0) for number in range(PARTITIONS)])
    count = 0
    while count < EVENTS:
        count += len(consumer.consume(size, 0.05))
    speed = count / (time.perf_counter() - start)
    consumer.close()
    return speed


def ours(source: KafkaSource) -> tuple[float, float]:
    """Events per second of the source, with its intake, into a unit; and CPU seconds."""
    bounding = Bounding(keys=len(KEYS), contribution=1)
    start, used = time.perf_counter(), time.process_time()
    count = 0
    source.open({})
    for batch in source.batches():
        bounding.add(batch.person, batch.key, batch.time)
        count += len(batch)
    speed, used = count / (time.perf_counter() - start), time.process_time() - used
    source.close()
    if count != EVENTS or bounding.counts().sum() != EVENTS:
        sys.exit("not every event was read.")
    return speed, used


def measure() -> Iterator[Figure]:
    server = os.environ.get("PENSTOCK_TEST_KAFKA")
    if server is None:
        sys.exit(
            'needs Kafka: .ci/services start && eval "$(.ci/services env)" (PENSTOCK_TEST_KAFKA)'
        )
    topic = f"benchmark-{secrets.token_hex(8)}"
    fill(server, topic)
    source = KafkaSource(intake=INTAKE, servers=server, topic=topic)
    bare_speeds: dict[int, list[float]] = {
        size: [] for size in (MAX_MESSAGES_PER_CALL, *USUAL_SIZES)
    }
    found = list[tuple[float, float]]()
    for _ in range(ROUNDS):
        for size, speeds in bare_speeds.items():
            speeds.append(bare(source, size))
        found.append(ours(source))
    yield Figure("read, checked and bounded", median(speed for speed, _ in found), "events/s")
    used = median(used for _, used in found) / EVENTS * 1e6
    yield Figure("read, checked and bounded: CPU per 1 M events", used, "s")
    usual = max(USUAL_SIZES, key=lambda size: median(bare_speeds[size]))
    for size, limit in ((usual, 0.7), (MAX_MESSAGES_PER_CALL, None)):
        speeds = bare_speeds[size]
        title = f"a bare consumer, {size:,} messages at a time"
        yield Figure(title, median(speeds), "events/s")
        share = median(speed / bare for (speed, _), bare in zip(found, speeds, strict=True))
        yield Figure(f"share of {title}", share, "", limit, at_least=True)
    admin = AdminClient({"bootstrap.servers": server, "log_level": 0})
    admin.delete_topics([topic])[topic].result()


if __name__ == "__main__":
    main(str(__doc__).partition("\n")[0], measure)
