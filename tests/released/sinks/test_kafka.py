"""A Kafka topic: what is sent, what is confirmed, and how its newest unit is found."""

from __future__ import annotations

import os
import secrets
import sys

import numpy as np
import pyarrow as pa
import pytest

from penstock.core.errors import ConfigurationError, InputError, MissingExtraError
from penstock.released.sinks import kafka as module
from penstock.released.sinks.base import SinkError
from penstock.released.sinks.kafka import KafkaSink
from penstock.released.sinks.release_document import document

from tests.released.sinks.items import AWKWARD, item, items, link, series

client = pytest.importorskip("confluent_kafka")
admin = pytest.importorskip("confluent_kafka.admin")

SERVER = os.environ.get("PENSTOCK_TEST_KAFKA")
real = pytest.mark.skipif(
    SERVER is None, reason="PENSTOCK_TEST_KAFKA is not set: `.ci/services` starts Kafka"
)
TAPS = series()
OTHER = series(AWKWARD, keys=3)


def made(partitions: int = 1, **config: str) -> str:
    name = f"sink-{secrets.token_hex(6)}"
    manager = admin.AdminClient({"bootstrap.servers": SERVER})
    for done in manager.create_topics(
        [admin.NewTopic(name, partitions, 1, config=config)]
    ).values():
        done.result(30)
    return name


@pytest.fixture
def topic():
    return made()


def records(topic):
    """All records, as (partition, key, value, headers)."""
    consumer = client.Consumer(
        {
            "bootstrap.servers": SERVER,
            "group.id": secrets.token_hex(6),
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
    )
    partitions = consumer.list_topics(topic, 30).topics[topic].partitions
    consumer.assign([client.TopicPartition(topic, place, 0) for place in partitions])
    found, ended = [], set()
    while len(ended) < len(partitions):
        (record,) = consumer.consume(1, 30)
        if record.error():
            assert record.error().code() == client.KafkaError._PARTITION_EOF
            ended.add(record.partition())
        else:
            found.append(
                (record.partition(), record.key().decode(), record.value(), dict(record.headers()))
            )
    consumer.close()
    return found


def sink_of(topic, **more):
    return KafkaSink(SERVER, topic, **more)


@real
def test_a_unit_is_a_record(topic):
    sink = sink_of(topic)
    assert sink.head("taps") is None
    sink.put([])
    sink.put([item(TAPS, 1)])
    sink.put(items(TAPS, 2, 4))
    found = records(topic)
    assert [(key, value) for _, key, value, _ in found] == [
        (f"taps/{one.unit}", document(one)) for one in items(TAPS, 1, 4)
    ]
    assert found[0][3] == {"link": link(TAPS, 1).encode(), "content-type": b"application/json"}
    assert sink.head("taps") == (4, link(TAPS, 4))
    sink.close()
    sink.close()


@real
def test_a_repeated_unit_has_the_same_key_and_bytes(topic):
    for _ in range(2):
        sink = sink_of(topic)
        sink.put(items(TAPS, 1, 2))
        sink.close()
    found = records(topic)
    assert len(found) == 4
    assert len({(key, value) for _, key, value, _ in found}) == 2
    assert sink.head("taps") == (2, link(TAPS, 2))


@real
def test_an_old_unit_that_comes_again_does_not_hide_the_newest(topic):
    sink = sink_of(topic)
    sink.put(items(TAPS, 1, 5))
    sink.put([item(TAPS, 2)])
    assert sink.head("taps") == (5, link(TAPS, 5))
    sink.close()


@real
def test_a_series_stays_in_one_partition_in_order():
    topic = made(4)
    sink = sink_of(topic)
    names = [series(name) for name in ("taps", AWKWARD, "a/b", "c", "d", "e")]
    sink.put([item(of, unit) for unit in range(1, 4) for of in names])
    found = records(topic)
    assert len({place for place, *_ in found}) > 1
    for of in names:
        mine = [(place, key) for place, key, *_ in found if key.rpartition("/")[0] == of.name]
        assert [key for _, key in mine] == [f"{of.name}/{unit}" for unit in range(1, 4)]
        assert len({place for place, _ in mine}) == 1
        assert sink.head(of.name) == (3, link(of, 3))
    assert sink.head("a") is None
    sink.close()


@real
def test_a_series_that_is_far_back_is_found(topic, monkeypatch):
    monkeypatch.setattr(module, "FIRST_SEARCH_RECORDS", 2)
    sink = sink_of(topic)
    sink.put([item(OTHER, 1), *items(TAPS, 1, 40)])
    assert sink.head(AWKWARD) == (1, link(OTHER, 1))
    assert sink.head("nobody") is None
    sink.close()


@real
def test_a_series_that_cannot_be_found_in_time_is_not_said_to_be_missing(topic):
    sink = sink_of(topic)
    sink.put(items(TAPS, 1, 3))
    impatient = sink_of(topic, search=-1.0)
    with pytest.raises(SinkError, match="the newest unit of 'taps' was not found within"):
        impatient.head("taps")
    sink.close()


@real
def test_records_of_somebody_else_are_passed_over(topic):
    sink = sink_of(topic)
    sink.put([item(TAPS, 1)])
    producer = client.Producer({"bootstrap.servers": SERVER})
    producer.produce(topic, b"no key")
    producer.produce(topic, b"no link", b"taps/9")
    producer.produce(topic, b"no unit", b"taps/x", headers=[("link", b"x")])
    producer.produce(topic, None, b"taps/7")
    assert producer.flush(30) == 0
    assert sink.head("taps") == (1, link(TAPS, 1))
    sink.close()


@real
def test_a_topic_with_gaps_in_its_offsets_is_read_to_its_end(topic):
    """A transaction ends with a marker, which takes an offset and is no record: nor is what was
    given up.
    """
    producer = client.Producer({"bootstrap.servers": SERVER, "transactional.id": topic})
    producer.init_transactions(30)
    for unit, keep in ((1, True), (2, False)):
        one = item(TAPS, unit)
        producer.begin_transaction()
        producer.produce(
            topic, document(one), f"taps/{unit}".encode(), headers=[("link", one.link.encode())]
        )
        assert producer.flush(30) == 0
        producer.commit_transaction(30) if keep else producer.abort_transaction(30)
    sink = sink_of(topic)
    assert sink.head("taps") == (1, link(TAPS, 1))
    sink.close()


@real
def test_a_topic_that_is_not_there_holds_nothing():
    sink = sink_of(f"nowhere-{secrets.token_hex(6)}")
    assert sink.head("taps") is None
    sink.close()


@real
def test_many_keys_fit_into_one_record_of_a_usual_broker(topic):
    one = item(series("cells", 88_762), 1)
    assert len(document(one)) > 2**21
    sink = sink_of(topic)
    sink.put([one])
    assert sink.head("cells") == (1, one.link)
    sink.close()


@real
def test_more_than_waits_at_a_time_arrives_in_order(topic, monkeypatch):
    monkeypatch.setattr(module, "MAX_UNCONFIRMED_BYTES", 3000)
    sink = sink_of(topic)
    sink.put(items(TAPS, 1, 50))
    assert [key for _, key, *_ in records(topic)] == [f"taps/{unit}" for unit in range(1, 51)]
    sink.close()


@real
def test_a_document_that_is_too_large_says_what_to_raise():
    topic = made(**{"max.message.bytes": "1500"})
    sink = sink_of(topic)
    with pytest.raises(
        SinkError,
        match=r"did not take unit 1 of 'large': MSG_SIZE_TOO_LARGE. "
        r"Raise max.message.bytes of the topic.",
    ) as caught:
        sink.put([item(series("large", 20_000), 1)])
    assert caught.value.lasting
    sink.put(items(TAPS, 1, 2))
    assert sink.head("taps") == (2, link(TAPS, 2))
    sink.close()


@real
def test_nothing_follows_a_unit_that_was_refused():
    """Otherwise the newest unit would hide that one before it is missing."""
    of = series("cells", 30_000)
    plain, noisy = (
        item(of, 1, value=np.zeros(30_000, np.int64)),
        item(of, 2, value=np.arange(30_000) * 7919 % 10**9),
    )
    small, large = (len(pa.compress(document(one), "zstd", asbytes=True)) for one in (plain, noisy))
    topic = made(**{"max.message.bytes": str((small + large) // 2)})
    sink = sink_of(topic)
    with pytest.raises(SinkError, match="did not take unit 2 of 'cells'") as caught:
        sink.put(
            [
                plain,
                noisy,
                *(item(of, unit, value=np.zeros(30_000, np.int64)) for unit in range(3, 9)),
            ]
        )
    assert caught.value.done == 1
    assert [key for _, key, *_ in records(topic)] == ["cells/1"]
    assert sink.head("cells") == (1, plain.link)
    sink.close()


def test_a_broker_that_is_down_is_an_error_and_nothing_is_sent_later():
    sink = KafkaSink("127.0.0.1:1", "taps", timeout=0.5, search=0.5)
    for attempt in (lambda: sink.put(items(TAPS, 1, 3)), lambda: sink.head("taps")):
        with pytest.raises(SinkError, match="topic 'taps'") as caught:
            attempt()
        assert (caught.value.lasting, caught.value.done) == (False, 0)
    assert sink._producer is None
    sink.close()


def test_units_out_of_order_are_refused():
    with pytest.raises(InputError, match="in order"):
        KafkaSink("127.0.0.1:1", "taps").put([item(TAPS, 2), item(TAPS, 1)])


def test_a_login_is_encrypted_and_not_shown():
    sink = KafkaSink(["a:1", "b:2"], "taps", username="somebody", password="hidden", timeout=0.2)
    assert sink._settings["security.protocol"] == "SASL_SSL"
    assert sink._settings["bootstrap.servers"] == "a:1,b:2"
    with pytest.raises(SinkError) as caught:
        sink.head("taps")
    for text in (repr(sink), str(caught.value), repr(caught.value)):
        assert "hidden" not in text
        assert "somebody" not in text
    with pytest.raises(ConfigurationError, match="belong together"):
        KafkaSink("a:1", "taps", username="somebody")


def test_how_it_connects_can_be_told():
    login = {"username": "somebody", "password": "hidden"}
    sink = KafkaSink("a:1", "taps", **login, mechanism="SCRAM-SHA-512", tls=False)
    assert sink._settings["security.protocol"] == "SASL_PLAINTEXT"
    assert sink._settings["sasl.mechanisms"] == "SCRAM-SHA-512"
    assert KafkaSink("a:1", "taps", tls=True)._settings["security.protocol"] == "SSL"
    assert KafkaSink("a:1", "taps")._settings["security.protocol"] == "PLAINTEXT"


def test_a_setting_that_cannot_be_used_is_a_mistake():
    wrong = KafkaSink("a:1", "taps", username="hidden", password="hidden", mechanism="hidden")
    for attempt in (lambda: wrong.head("taps"), lambda: wrong.put([item(TAPS, 1)])):
        with pytest.raises(ConfigurationError, match="a setting") as caught:
            attempt()
        assert "hidden" not in str(caught.value)


def test_without_the_client_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with pytest.raises(
        MissingExtraError, match=r"a Kafka sink needs confluent-kafka.*penstock\[kafka\]"
    ):
        KafkaSink("a:1", "taps")
