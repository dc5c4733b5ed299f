"""Kafka as it is, on the loopback: `.ci/services start` starts it, and `eval "$(.ci/services env)"`
says where.
"""

from __future__ import annotations

import io
import json
import os
import secrets
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import Future
from dataclasses import replace
from datetime import UTC, datetime

import fastavro
import pyarrow as pa
import pyarrow.ipc as ipc
import pytest
from confluent_kafka import (
    OFFSET_END,
    ConsumerGroupTopicPartitions,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    ListOffsetsResultInfo,
    NewPartitions,
    NewTopic,
)

from penstock.core.errors import (
    ConfigurationError,
    InputError,
    MissingExtraError,
    StateError,
    UnreadableRowsError,
)
from penstock.engine.dry_run import dry_run
from penstock.engine.pipeline import Pipeline
from penstock.private.sources import kafka
from penstock.private.sources.arrow_messages import ArrowMessages
from penstock.private.sources.avro import AvroMessages
from penstock.private.sources.base import Receiver
from penstock.private.sources.kafka import KafkaSource
from penstock.private.sources.message_formats import JsonMessages

from tests.private.sources.events import INTAKE, KEYS, events, iso, rows_of

SERVER = os.environ.get("PENSTOCK_TEST_KAFKA")
needs_kafka = pytest.mark.skipif(
    SERVER is None,
    reason='needs Kafka: .ci/services start && eval "$(.ci/services env)" (PENSTOCK_TEST_KAFKA)',
)
DEADLINE = 30


def value(row):
    time, key, person = row
    return json.dumps(
        {"time": iso(time), "key": key, "person": person, "more": {"a": [1]}}
    ).encode()


class KafkaBroker:
    """A topic of one test's own, and what it takes to fill it."""

    def __init__(self, partitions=1):
        self.topic = f"test-{secrets.token_hex(8)}"
        self.admin = AdminClient({"bootstrap.servers": SERVER})
        self.create(partitions)

    def create(self, partitions=1):
        self.admin.create_topics([NewTopic(self.topic, partitions, 1)])[self.topic].result(DEADLINE)

    def send(self, values, partition=0):
        producer = Producer({"bootstrap.servers": SERVER})
        for each in values:
            producer.produce(self.topic, each, partition=partition)
        assert producer.flush(DEADLINE) == 0

    def send_rows(self, rows, partition=0):
        self.send(map(value, rows), partition)

    def delete_records(self, offset, partition=0):
        place = TopicPartition(self.topic, partition, offset)
        self.admin.delete_records([place])[place].result(DEADLINE)


@pytest.fixture
def opened():
    sources = []

    def source(broker, **parameters):
        parameters = {"intake": INTAKE, "servers": SERVER, "topic": broker.topic} | parameters
        sources.append(KafkaSource(**parameters))
        sources[-1].open({})
        return sources[-1]

    yield source
    for each in sources:
        each.close()


@pytest.fixture(params=[kafka.MAX_PARTITIONS_ASKED, 0], ids=["by the client", "by each message"])
def counted_by(request, monkeypatch):
    """How a source learns which messages it has read: both ways must come to the same."""
    monkeypatch.setattr(kafka, "MAX_PARTITIONS_ASKED", request.param)


def read(source, after=None, *, until=None):
    """All batches that come, and the last position; with `until`, ask again until so many events
    are there.
    """
    batches, deadline = [], time.monotonic() + DEADLINE
    while True:
        for batch in source.batches(after):
            batches.append(batch)
            after = batch.position
        if until is None or sum(map(len, batches)) >= until:
            return batches, after
        assert time.monotonic() < deadline, "the events do not come"
        source.wait(0.1)


@needs_kafka
def test_all_events_come_in_their_order(opened):
    broker, rows = KafkaBroker(), events(500)
    broker.send_rows(rows)
    source = opened(broker, rows=64)
    batches, _ = read(source)
    assert rows_of(batches) == rows
    assert max(map(len, batches)) <= 64
    assert isinstance(source, Receiver)
    assert source.resumable
    assert not source.problem


@needs_kafka
@pytest.mark.usefixtures("counted_by")
def test_reading_goes_on_from_every_position_without_loss_or_repetition(opened):
    broker, rows = KafkaBroker(), events(100)
    broker.send_rows(rows)
    batches, _ = read(opened(broker, rows=9))
    for number, batch in enumerate(batches):
        position = json.loads(json.dumps(batch.position))
        rest, _ = read(opened(broker), position)
        assert rows_of(batches[: number + 1]) + rows_of(rest) == rows


@needs_kafka
@pytest.mark.usefixtures("counted_by")
def test_an_older_position_is_gone_back_to_in_the_same_source(opened):
    broker, rows = KafkaBroker(), events(60)
    broker.send_rows(rows)
    source = opened(broker, rows=20)
    first, _, _ = batches = read(source)[0]
    assert rows_of(batches) == rows
    assert rows_of(read(source, first.position)[0]) == rows[20:]
    assert rows_of(read(source, None)[0]) == rows


@needs_kafka
@pytest.mark.usefixtures("counted_by")
def test_a_batch_that_was_given_up_is_read_again(opened):
    broker, rows = KafkaBroker(), events(60)
    broker.send_rows(rows)
    source = opened(broker, rows=20)
    reading = source.batches()
    position = next(reading).position
    next(reading)
    reading.close()
    assert rows_of(read(source, position)[0]) == rows[20:]


@needs_kafka
def test_what_comes_later_is_waited_for(opened):
    broker, rows = KafkaBroker(), events(5)
    source = opened(broker)
    batches, after = read(source)
    assert rows_of(batches) == []
    before = time.monotonic()
    broker.send_rows(rows)
    source.wait(DEADLINE)
    assert time.monotonic() - before < DEADLINE
    assert rows_of(read(source, after, until=5)[0]) == rows


@needs_kafka
def test_a_killed_reader_is_gone_on_from(opened):
    broker, rows = KafkaBroker(partitions=2), events(400)
    for partition in (0, 1):
        broker.send_rows(rows[partition::2], partition)
    script = """
        import os, signal, sys, json
        from penstock.private.sources.kafka import KafkaSource
        from tests.private.sources.events import INTAKE
        source = KafkaSource(intake=INTAKE, servers=sys.argv[1], topic=sys.argv[2], rows=70)
        batches = source.batches()
        for _ in range(3):
            batch = next(batches)
            print(json.dumps([dict(batch.position), batch.person.tolist()]), flush=True)
        next(batches)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), SERVER, broker.topic],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == -9, ran.stderr
    kept = [json.loads(line) for line in ran.stdout.splitlines()]
    rest, _ = read(opened(broker), kept[-1][0])
    persons = [person for _, some in kept for person in some] + [row[2] for row in rows_of(rest)]
    assert sorted(persons) == sorted(row[2] for row in rows)


@needs_kafka
def test_the_last_batches_are_smaller(opened, monkeypatch):
    monkeypatch.setattr(kafka, "MIN_EVENTS_PER_LAST_BATCH", 10)
    broker, rows = KafkaBroker(), events(400)
    broker.send_rows(rows)
    batches, _ = read(opened(broker, rows=100), until=400)
    assert rows_of(batches) == rows
    assert [len(each) for each in batches if len(each)] == [100, 100, 100, 50, 25, 12, 10, 3]


@needs_kafka
@pytest.mark.usefixtures("counted_by")
def test_every_partition_is_read_in_its_order(opened):
    broker, rows = KafkaBroker(partitions=3), events(300)
    for partition in range(3):
        broker.send_rows(rows[partition::3], partition)
    found = rows_of(read(opened(broker, rows=50))[0])
    assert sorted(found) == sorted(rows)
    for partition in range(3):
        mine = set(rows[partition::3])
        assert [row for row in found if row in mine] == rows[partition::3]


class ForgetfulClient:
    """A consumer that tells positions of an earlier assignment after a new one."""

    def __init__(self, consumer):
        self._consumer = consumer

    def position(self, places):
        return [TopicPartition(each.topic, each.partition, 10**9) for each in places]

    def __getattr__(self, name):
        return getattr(self._consumer, name)


@needs_kafka
@pytest.mark.parametrize("partitions", [3, kafka.MAX_PARTITIONS_ASKED + 1])
@pytest.mark.parametrize("forgetful", [False, True])
def test_positions_are_after_the_last_message_of_each_partition(opened, partitions, forgetful):
    """Whether the client is asked for its positions, cannot be, or tells wrong ones."""
    broker, rows = KafkaBroker(partitions), events(400)
    for partition in range(partitions):
        broker.send_rows(rows[partition::partitions], partition)
    source = opened(broker, rows=37)
    if forgetful:
        source._consumer = ForgetfulClient(source._consumer)
    batches, _ = read(source, until=400)
    assert sorted(rows_of(batches)) == sorted(rows)
    seen = dict.fromkeys(map(str, range(partitions)), 0)
    place = {row: str(number % partitions) for number, row in enumerate(rows)}
    for batch in batches:
        for row in rows_of([batch]):
            seen[place[row]] += 1
        assert {name: batch.position[name] for name in seen} == seen


@needs_kafka
@pytest.mark.usefixtures("counted_by")
def test_a_partition_that_is_added_later_is_read_from_its_beginning(opened):
    broker, rows = KafkaBroker(), events(20)
    broker.send_rows(rows[:10])
    source = opened(broker)
    first, after = read(source)
    broker.admin.create_partitions([NewPartitions(broker.topic, 2)])[broker.topic].result(DEADLINE)
    broker.send_rows(rows[10:], partition=1)
    second, last = read(source, after, until=10)
    assert rows_of(first) + rows_of(second) == rows
    assert rows_of(read(opened(broker), after)[0]) == rows[10:]
    assert rows_of(read(opened(broker), last)[0]) == []


@needs_kafka
def test_a_bad_value_loses_only_itself(opened):
    broker, rows = KafkaBroker(), events(6)
    good = list(map(value, rows))
    broker.send(
        [
            good[0],
            b"{broken",
            b"[1, 2]",
            b"7",
            None,
            b"",
            b'{"time": "2026-01-01T00:00:00Z", "key": "north"}',
            json.dumps({"time": 7, "key": "north", "person": 1}).encode(),
            good[1].replace(b", ", b",\n "),
            good[2] + b"\n" + good[2],
            b'{"time": "\xff", "key": "north", "person": 1}',
            b'{"more": "' + b"x" * 3000 + b'", ' + good[3][1:],
            good[3],
            value((rows[4][0], "nowhere", 1)),
            good[5],
        ]
    )
    source = opened(broker, format=JsonMessages(limit=2000))
    assert rows_of(read(source)[0]) == [rows[0], rows[1], rows[3], rows[5]]
    assert source.rejections.for_operator() == {
        "broken line": 4,
        "line too long": 1,
        "not UTF-8": 1,
        "wrong type": 1,
        "missing value": 3,
        "unknown key": 1,
    }


@needs_kafka
@pytest.mark.parametrize("header", [b"", b"\0\0\0\0\7"])
def test_values_in_avro_are_read(opened, header):
    kinds = {
        "time": {"type": "long", "logicalType": "timestamp-micros"},
        "key": "string",
        "person": ["null", "long"],
    }
    schema = {
        "type": "record",
        "name": "Tap",
        "fields": [{"name": name, "type": kind} for name, kind in kinds.items()],
    }
    broker, rows = KafkaBroker(), events(50)

    def written(row):
        out = io.BytesIO()
        fastavro.schemaless_writer(out, schema, dict(zip(kinds, row, strict=True)))
        return header + out.getvalue()

    broker.send(
        [
            *map(written, rows[:25]),
            b"{}",
            None,
            written((rows[0][0], KEYS[0], None)),
            *map(written, rows[25:]),
        ]
    )
    source = opened(broker, format=AvroMessages(json.dumps(schema)), rows=10)
    assert rows_of(read(source)[0]) == rows
    assert source.rejections.for_operator() == {"broken line": 1, "missing value": 2}


@needs_kafka
@pytest.mark.parametrize("bad", [25, 59])
def test_an_error_comes_with_its_own_batch_and_again_after_it(opened, bad):
    """The batch with the error is neither skipped nor given, be it the last one or not."""
    broker, rows = KafkaBroker(), events(60)
    rows[bad] = (*rows[bad][:2], None)
    broker.send_rows(rows)
    columns = replace(INTAKE.columns, missing_person="refuse")
    source = opened(broker, intake=replace(INTAKE, columns=columns), rows=10)
    batches = []
    for _ in range(2):
        with pytest.raises(UnreadableRowsError) as refused:
            batches.extend(source.batches(batches[-1].position if batches else None))
        assert rows_of(batches) == rows[: bad // 10 * 10]
        assert not any(key in str(refused.value) for key in KEYS)


@needs_kafka
def test_only_batches_that_were_given_count_their_rejected_rows(opened):
    broker, rows = KafkaBroker(), events(30)
    broker.send([*map(value, rows[:10]), b"{", *map(value, rows[10:])])
    source = opened(broker, rows=10)
    reading = source.batches()
    first = next(reading)
    reading.close()
    assert source.rejections.for_operator() == {}
    assert rows_of([first, *read(source, first.position)[0]]) == rows
    assert source.rejections.for_operator() == {"broken line": 1}


@needs_kafka
def test_closing_amid_a_batch_leaves_no_thread_and_loses_nothing(opened):
    broker, rows = KafkaBroker(), events(60)
    broker.send_rows(rows)
    before = set(threading.enumerate())
    source = opened(broker, rows=20)
    first = next(source.batches())
    assert set(threading.enumerate()) > before
    source.close()
    assert set(threading.enumerate()) <= before
    assert rows_of([first, *read(source, first.position)[0]]) == rows


@needs_kafka
def test_values_in_arrow_are_read(opened):
    broker, rows = KafkaBroker(), events(60)

    def written(some):
        time, key, person = zip(*some, strict=True)
        out = io.BytesIO()
        table = pa.table({"time": pa.array(time, pa.timestamp("us", "UTC")), "key": key})
        table = table.append_column("person", pa.array(person, pa.int64()))
        with ipc.new_stream(out, table.schema) as stream:
            stream.write_table(table)
        return out.getvalue()

    parts = [written(rows[start : start + 20]) for start in range(0, 60, 20)]
    broker.send([parts[0], b"ARROW1", None, *parts[1:]])
    source = opened(broker, format=ArrowMessages(), rows=2)
    assert rows_of(read(source)[0]) == rows
    assert source.rejections.for_operator() == {"broken line": 1, "missing value": 1}


def test_a_schema_without_a_column_is_refused_at_once():
    schema = {"type": "record", "name": "Tap", "fields": [{"name": "time", "type": "long"}]}
    with pytest.raises(ConfigurationError, match="no field 'key'"):
        KafkaSource(intake=INTAKE, servers="127.0.0.1:1", topic="taps", format=AvroMessages(schema))


@needs_kafka
def test_a_large_batch_is_read_in_pieces(opened, monkeypatch):
    monkeypatch.setattr(kafka, "MAX_MESSAGES_PER_CALL", 30)
    broker, rows = KafkaBroker(), events(500)
    broker.send([*map(value, rows[:250]), b"{", *map(value, rows[250:])])
    source = opened(broker, rows=200)
    batches, _ = read(source)
    assert rows_of(batches) == rows
    assert source.rejections.for_operator() == {"broken line": 1}


@needs_kafka
def test_a_batch_ends_where_it_has_enough_bytes(opened, monkeypatch):
    broker, rows = KafkaBroker(), events(60)
    broker.send_rows(rows)
    source = opened(broker)
    monkeypatch.setattr(kafka, "MAX_BYTES_PER_BATCH", 1_000)
    monkeypatch.setattr(kafka, "MAX_MESSAGES_PER_CALL", 2)
    batches, _ = read(source)
    assert rows_of(batches) == rows
    assert max(map(len, batches)) < 20


@needs_kafka
def test_bad_values_alone_are_passed_by(opened):
    broker, rows = KafkaBroker(), events(1)
    broker.send([None, b"{", b"x"])
    batches, after = read(opened(broker))
    assert rows_of(batches) == []
    broker.send_rows(rows)
    assert rows_of(read(opened(broker), after)[0]) == rows


@needs_kafka
@pytest.mark.usefixtures("counted_by")
def test_events_of_an_aborted_transaction_are_not_seen(opened):
    broker, rows = KafkaBroker(), events(9)
    producer = Producer({"bootstrap.servers": SERVER, "transactional.id": broker.topic})
    producer.init_transactions(DEADLINE)
    for start, end in (
        (0, producer.commit_transaction),
        (3, producer.abort_transaction),
        (6, producer.commit_transaction),
    ):
        producer.begin_transaction()
        for row in rows[start : start + 3]:
            producer.produce(broker.topic, value(row), partition=0)
        producer.flush(DEADLINE)
        end(DEADLINE)
    batches, after = read(opened(broker))
    assert rows_of(batches) == rows[:3] + rows[6:]
    assert after["0"] == 12  # the ends of the three transactions count, and are passed by
    assert rows_of(read(opened(broker), after)[0]) == []


@needs_kafka
@pytest.mark.usefixtures("counted_by")
def test_events_of_an_open_transaction_are_waited_for(opened):
    broker, rows = KafkaBroker(), events(3)
    producer = Producer({"bootstrap.servers": SERVER, "transactional.id": broker.topic})
    producer.init_transactions(DEADLINE)
    producer.begin_transaction()
    for row in rows:
        producer.produce(broker.topic, value(row), partition=0)
    producer.flush(DEADLINE)
    source = opened(broker)
    batches, after = read(source)
    assert rows_of(batches) == []
    producer.commit_transaction(DEADLINE)
    assert rows_of(read(source, after, until=3)[0]) == rows


@needs_kafka
def test_events_deleted_before_they_were_read_are_an_error_unless_accepted(opened):
    broker, rows = KafkaBroker(), events(30)
    broker.send_rows(rows)
    after = read(opened(broker, rows=10))[0][0].position
    broker.delete_records(15)
    with pytest.raises(StateError, match=r"deleted events before they were read.*accept_loss\.$"):
        read(opened(broker), after)
    source = opened(broker, accept_loss=True)
    assert rows_of(read(source, after)[0]) == rows[15:]


@needs_kafka
@pytest.mark.parametrize("accept", [False, True])
def test_events_deleted_while_they_are_being_read_are_an_error_unless_accepted(
    opened, monkeypatch, accept
):
    broker, rows = KafkaBroker(), events(30)
    broker.send_rows(rows)
    after = read(opened(broker, rows=10))[0][0].position
    source = opened(broker, accept_loss=accept)
    before = source._found()
    broker.delete_records(15)
    with monkeypatch.context() as patched:
        patched.setattr(source, "_found", lambda: before)
        assert rows_of(read(source, after)[0]) == []
    assert "_AUTO_OFFSET_RESET" in source.problem
    if accept:
        assert rows_of(read(source, after)[0]) == rows[15:]
    else:
        with pytest.raises(StateError, match="deleted events before they were read"):
            read(source, after)


@needs_kafka
def test_events_deleted_after_they_were_read_are_not_missed(opened):
    broker, rows = KafkaBroker(), events(30)
    broker.send_rows(rows)
    source = opened(broker)
    _, after = read(source)
    broker.delete_records(OFFSET_END)
    broker.send_rows(rows)
    assert rows_of(read(source, after, until=30)[0]) == rows


@needs_kafka
def test_another_topic_of_the_same_name_is_an_error_unless_accepted(opened):
    broker, rows = KafkaBroker(), events(30)
    broker.send_rows(rows[:10])
    _, after = read(opened(broker))
    broker.admin.delete_topics([broker.topic])[broker.topic].result(DEADLINE)
    source = opened(broker)
    assert rows_of(read(source, after)[0]) == []
    assert "there is no topic" in source.problem
    deadline = time.monotonic() + DEADLINE
    while broker.topic in broker.admin.list_topics(timeout=DEADLINE).topics:
        assert time.monotonic() < deadline
    broker.create()
    broker.send_rows(rows)
    with pytest.raises(StateError, match="another topic of this name"):
        read(source, after, until=1)
    assert rows_of(read(opened(broker, accept_loss=True), after, until=30)[0]) == rows


@needs_kafka
def test_a_broker_with_fewer_events_than_were_read_may_be_starting(opened):
    broker, rows = KafkaBroker(), events(4)
    broker.send_rows(rows)
    source = opened(broker, outage="wait")
    _, after = read(source)
    assert source.complete
    beyond = {**after, "0": 6}
    assert read(source, beyond)[0] == []
    assert "fewer events than were already read, perhaps because it is starting" in source.problem
    assert not source.complete
    broker.send_rows(rows)
    assert rows_of(read(source, beyond, until=2)[0]) == rows[2:]
    assert source.complete
    assert not source.problem


class BrokenConnection:
    """A client whose connection has just broken: it gives offsets that are none, or no answer."""

    def __init__(self, admin, broken):
        self.admin, self.broken = admin, broken

    def describe_topics(self, *given, **more):
        return self.admin.describe_topics(*given, **more)

    def list_offsets(self, places, **_):
        answers = {place: Future() for place in places}
        for answer in answers.values() if self.broken == "no offset" else ():
            answer.set_result(ListOffsetsResultInfo(-1001, -1, -1))
        return answers


@needs_kafka
@pytest.mark.parametrize("broken", ["no offset", "no answer"])
def test_a_connection_that_breaks_while_the_broker_is_asked_is_no_loss(opened, broken, monkeypatch):
    monkeypatch.setattr(kafka, "ANSWER_SECONDS", 0.1)
    broker, rows = KafkaBroker(), events(4)
    broker.send_rows(rows)
    source = opened(broker, outage="wait", patience=0.5)
    _, after = read(source, until=4)
    source._admin = BrokenConnection(source._admin, broken)
    assert read(source, after)[0] == []
    assert "no broker answers" in source.problem
    assert "units stay open until it is back" in source.problem
    assert not source.complete
    if broken == "no offset":
        source._admin = source._admin.admin
    broker.send_rows(rows)
    assert rows_of(read(source, after, until=4)[0]) == rows


@needs_kafka
def test_fewer_events_than_were_read_are_an_error_unless_accepted(opened, monkeypatch):
    monkeypatch.setattr(kafka, "SETTLING_SECONDS", 0.0)
    broker, rows = KafkaBroker(), events(4)
    broker.send_rows(rows)
    source = opened(broker)
    _, after = read(source)
    beyond = {**after, "0": 9}
    with pytest.raises(StateError, match="fewer events than were already read"):
        read(source, beyond)
    with pytest.raises(StateError, match="fewer partitions"):
        read(source, {**after, "7": 9})
    accepting = opened(broker, accept_loss=True)
    batches, after = read(accepting, beyond)
    broker.send_rows(rows)
    assert rows_of(batches) == []
    assert rows_of(read(accepting, after, until=4)[0]) == rows


@needs_kafka
def test_a_topic_that_is_not_there_yet_is_waited_for(opened):
    broker = KafkaBroker()
    broker.topic += "-later"
    source = opened(broker)
    assert read(source) == ([], None)
    assert "there is no topic" in source.problem
    rows = events(3)
    broker.create()
    broker.send_rows(rows)
    assert rows_of(read(source, until=3)[0]) == rows
    assert not source.problem


def test_a_broker_that_does_not_answer_is_no_error(capfd):
    source = KafkaSource(intake=INTAKE, servers="127.0.0.1:1", topic="taps", patience=0.3)
    source.open({})
    assert list(source.batches()) == []
    source.wait(0.05)
    assert "no broker answers" in source.problem
    assert source.complete  # units close by the clock
    source.outage = "wait"
    assert not source.complete
    source.close()
    assert capfd.readouterr() == ("", "")


@needs_kafka
@pytest.mark.skipif(
    "PENSTOCK_TEST_KAFKA_GUARDED" not in os.environ,
    reason="needs a listener with a password: .ci/services start",
)
def test_a_listener_with_a_password_is_read_with_it_alone(opened):
    broker, rows = KafkaBroker(), events(3)
    broker.send_rows(rows)
    guarded = {"servers": [os.environ["PENSTOCK_TEST_KAFKA_GUARDED"]], "tls": False, "patience": 1}
    name, password = os.environ["PENSTOCK_TEST_USERNAME"], os.environ["PENSTOCK_TEST_PASSWORD"]
    source = opened(broker, **guarded, username=name, password=password)
    assert rows_of(read(source, until=3)[0]) == rows
    assert password not in repr(source)
    refused = opened(broker, **guarded, username=name, password="wrong")
    assert list(refused.batches()) == []
    assert refused.problem


@pytest.mark.parametrize(
    "position",
    [
        {},
        {"topic": "a", "x": 1},
        {"topic": 1, "0": 1},
        {"topic": "a", "0": "1"},
        {"topic": "a", "0": -1},
    ],
)
def test_a_position_of_something_else_is_refused(position):
    source = KafkaSource(intake=INTAKE, servers="127.0.0.1:1", topic="taps")
    with pytest.raises(StateError, match="not one of Kafka"):
        list(source.batches(position))
    source.close()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"topic": ""}, "must not be empty"),
        ({"username": "a"}, "belong together"),
        ({"mechanism": "GUESS"}, "one of PLAIN"),
        ({"rows": 0}, "rows"),
    ],
)
def test_a_bad_configuration_is_refused(parameters, message):
    with pytest.raises(ConfigurationError, match=message):
        KafkaSource(**({"intake": INTAKE, "servers": "127.0.0.1:1", "topic": "taps"} | parameters))


def test_a_missing_client_is_said_with_the_way_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with pytest.raises(MissingExtraError, match=r"penstock\[kafka\]"):
        KafkaSource(intake=INTAKE, servers="127.0.0.1:1", topic="taps")


def test_neither_password_nor_place_shows():
    source = KafkaSource(
        intake=INTAKE, servers="127.0.0.1:1", topic="taps", username="me", password="pass-word"
    )
    assert "pass-word" not in repr(source)
    assert "_at" not in repr(source)


@needs_kafka
def test_a_dry_run_reads_a_topic_and_leaves_no_place_behind(tmp_path):
    broker, rows = KafkaBroker(partitions=2), events(300)
    broker.send_rows(rows[:200])
    broker.send_rows(rows[200:], partition=1)
    group = f"dry-{secrets.token_hex(4)}"
    pipeline = Pipeline.of(
        {
            "stream": {"name": "taps", "every": "1d", "origin": "2026-01-01"},
            "source": {
                "kind": "kafka",
                "servers": SERVER,
                "topic": broker.topic,
                "group": group,
                "time": "time",
                "key": "key",
                "person": "person",
            },
            "domain": {"keys": list(KEYS)},
            "privacy": {"mechanism": "laplace", "epsilon": "1"},
        },
        folder=tmp_path,
    )
    now = datetime.fromtimestamp(max(time for time, _, _ in rows) / 1e6 + 60, UTC)
    first, second = dry_run(pipeline, now=now), dry_run(pipeline, now=now)
    days = [datetime.fromtimestamp(time / 1e6, UTC).date() for time, _, _ in rows]
    for found in (first, second):
        assert (found.percent, found.first, found.last) == ((90, 100), min(days), max(days))
    asked = ConsumerGroupTopicPartitions(group, [TopicPartition(broker.topic, 0)])
    (answer,) = broker.admin.list_consumer_group_offsets([asked]).values()
    assert answer.result(DEADLINE).topic_partitions[0].offset < 0  # nothing was ever committed
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_says_that_no_broker_answers(tmp_path):
    pipeline = Pipeline.of(
        {
            "stream": {"name": "taps", "every": "1d", "origin": "2026-01-01"},
            "source": {
                "kind": "kafka",
                "servers": "127.0.0.1:1",
                "topic": "taps",
                "time": "time",
                "key": "key",
            },
            "domain": {"keys": list(KEYS)},
            "privacy": {"mechanism": "laplace", "epsilon": "1"},
        },
        folder=tmp_path,
    )
    with pytest.raises(InputError, match="The source was not read to its end"):
        dry_run(pipeline)
