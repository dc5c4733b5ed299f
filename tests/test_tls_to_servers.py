"""TLS with a password to real servers: Kafka (PLAIN and SCRAM), PostgreSQL and Mosquitto.

`.ci/services start` makes an authority and starts the servers. A client that does not trust this
authority, or asks for a name that the certificate does not have, must not connect.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path

import pytest
import trustme

from penstock.core.errors import StateError
from penstock.engine.postgres import PostgresStore
from penstock.private.sources.mqtt import MqttSource
from penstock.released.sinks.base import SinkError
from penstock.released.sinks.kafka import KafkaSink
from penstock.released.sinks.postgres import PostgresSink

from tests.private.sources import test_kafka as kafka
from tests.private.sources import test_mqtt as mqtt
from tests.private.sources.events import INTAKE, events, rows_of
from tests.released.sinks.items import items, link, series

AUTHORITY = os.environ.get("PENSTOCK_TEST_AUTHORITY", "")
KAFKA = os.environ.get("PENSTOCK_TEST_KAFKA_TLS", "")
POSTGRES = os.environ.get("PENSTOCK_TEST_POSTGRES_TLS", "")
MQTT = os.environ.get("PENSTOCK_TEST_MQTT_TLS", "")
LOGIN = {
    "username": os.environ.get("PENSTOCK_TEST_USERNAME"),
    "password": os.environ.get("PENSTOCK_TEST_PASSWORD"),
}

pytestmark = pytest.mark.skipif(
    not AUTHORITY, reason="PENSTOCK_TEST_AUTHORITY is not set: `.ci/services` starts the servers"
)

TAPS = series()
opened = kafka.opened
broker = mqtt.broker


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_kafka_is_read_and_written_with_tls_and_a_password(opened, mechanism):
    made, rows = kafka.KafkaBroker(), events(3)
    made.send_rows(rows)
    login = LOGIN | {"mechanism": mechanism, "authority": AUTHORITY}
    source = opened(made, servers=KAFKA, **login)
    assert rows_of(kafka.read(source, until=3)[0]) == rows
    sink = KafkaSink(KAFKA, f"{made.topic}-out", **login)
    made.admin.create_topics([kafka.NewTopic(f"{made.topic}-out", 1, 1)])[
        f"{made.topic}-out"
    ].result(kafka.DEADLINE)
    sink.put(items(TAPS, 1, 2))
    assert sink.head("taps") == (2, link(TAPS, 2))
    sink.close()


@pytest.mark.parametrize(
    "change",
    [
        {"authority": None},
        {"servers": KAFKA.replace("localhost", "127.0.0.1")},
        {"password": "wrong"},
        {"password": "wrong", "mechanism": "SCRAM-SHA-512"},
        {"tls": False},
    ],
    ids=["unknown authority", "another name", "wrong password", "wrong proof", "without TLS"],
)
def test_kafka_is_not_read_otherwise(opened, change):
    made = kafka.KafkaBroker()
    made.send_rows(events(1))
    settings = {"servers": KAFKA, "authority": AUTHORITY, "patience": 2} | LOGIN | change
    refused = opened(made, **settings)
    assert list(refused.batches()) == []
    assert refused.problem
    assert "for-tests" not in refused.problem


def test_mqtt_is_read_with_tls_and_a_password(broker):
    kept, row = mqtt.KeptMessages(), events(1)[0]
    source = broker.open(server=MQTT, authority=AUTHORITY, **LOGIN)
    broker.send(mqtt.value(row))
    kept.read(source, 1)


# paho leaves the socket of a refused handshake to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    "change",
    [{"authority": None}, {"server": MQTT.replace("localhost", "127.0.0.1")}, {"tls": False}],
    ids=["unknown authority", "another name", "without TLS"],
)
def test_mqtt_is_not_read_otherwise(change):
    settings = {"server": MQTT, "authority": AUTHORITY, "topic": "taps", "intake": INTAKE}
    source = MqttSource(client=f"test-{secrets.token_hex(8)}", **(settings | LOGIN | change))
    source.open({})
    mqtt.until(lambda: bool(source.problem))
    assert list(source.batches()) == []
    source.close()


def address(**more: str) -> str:
    settings = {"sslmode": "verify-full", "sslrootcert": AUTHORITY, "gssencmode": "disable"} | more
    return f"{POSTGRES}?" + "&".join(f"{name}={value}" for name, value in settings.items())


@pytest.fixture
def schema():
    psycopg = pytest.importorskip("psycopg")
    name = f"t{secrets.token_hex(6)}"
    with psycopg.connect(os.environ["PENSTOCK_TEST_POSTGRES"], autocommit=True) as server:
        server.execute(f"CREATE SCHEMA {name} AUTHORIZATION guarded")
        yield name
        server.execute(f"DROP SCHEMA {name} CASCADE")


def test_a_store_and_a_sink_in_postgresql_use_tls_and_a_password(schema):
    where = address(options=f"-csearch_path%3D{schema}")
    with PostgresStore(where, password=LOGIN["password"]) as store:
        assert store.series_names == ()
    sink = PostgresSink(where, password=LOGIN["password"], table="taps")
    sink.put(items(TAPS, 1, 2))
    assert sink.head("taps") == (2, link(TAPS, 2))
    sink.close()


@pytest.mark.parametrize("foreign", [True, False], ids=["unknown authority", "another name"])
def test_postgresql_is_not_reached_otherwise(tmp_path: Path, foreign):
    where = address()
    if foreign:
        other = tmp_path / "other.pem"
        trustme.CA().cert_pem.write_to_path(str(other))
        where = address(sslrootcert=str(other))
    else:
        where = where.replace("@localhost", "@127.0.0.1")
    with pytest.raises(StateError, match="cannot be reached") as told:
        PostgresStore(where, password=LOGIN["password"])
    assert "for-tests" not in str(told.value)
    with pytest.raises(SinkError) as refused:
        PostgresSink(where, password=LOGIN["password"], table="taps").put(items(TAPS, 1, 1))
    assert "for-tests" not in str(refused.value)
