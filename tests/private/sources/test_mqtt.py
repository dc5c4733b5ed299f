"""Mosquitto as it is, on the loopback: `.ci/services start` starts it, and `eval "$(.ci/services
env)"` says where.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import textwrap
import time

import pytest
from paho.mqtt import client as paho

from penstock.core.errors import ConfigurationError, MissingExtraError, StateError
from penstock.private.sources.base import Receiver
from penstock.private.sources.mqtt import MAX_REMEMBERED_MESSAGES, PART_NAME, MqttSource

from tests.private.sources.events import INTAKE, events, iso, rows_of

SERVER = os.environ.get("PENSTOCK_TEST_MQTT")
needs_broker = pytest.mark.skipif(
    SERVER is None,
    reason='needs Mosquitto: .ci/services start && eval "$(.ci/services env)" (PENSTOCK_TEST_MQTT)',
)
DEADLINE = 30


def value(row):
    time, key, person = row
    return json.dumps({"time": iso(time), "key": key, "person": person}).encode()


def connected(name="", **parameters):
    client = paho.Client(paho.CallbackAPIVersion.VERSION2, client_id=name, **parameters)
    host, _, port = SERVER.rpartition(":")
    client.connect(host, int(port))
    client.loop_start()
    return client


class MqttBroker:
    """A topic and a session of one test's own."""

    def __init__(self):
        self.topic = f"test/{secrets.token_hex(8)}"
        self.client = f"test-{secrets.token_hex(8)}"
        self.sender = connected()
        self.sources = []

    def send(self, *payloads, retain=False, quality=1):
        for payload in payloads:
            self.sender.publish(self.topic, payload, qos=quality, retain=retain).wait_for_publish(
                DEADLINE
            )

    def open(self, parts=None, **parameters):
        """A source that is connected and subscribed."""
        parameters = {
            "intake": INTAKE,
            "server": SERVER,
            "topic": self.topic,
            "client": self.client,
        } | parameters
        source = MqttSource(**parameters)
        self.sources.append(source)
        source.open(parts or {})
        until(lambda: not source.problem)
        return source

    def close(self):
        for source in self.sources:
            source.close()
        for client in (
            self.sender,
            connected(self.client, clean_session=True),
        ):  # the second one ends the session
            client.disconnect()
            client.loop_stop()


@pytest.fixture
def broker():
    broker = MqttBroker()
    yield broker
    broker.close()


def until(condition):
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < deadline, "it does not come to that"
        time.sleep(0.01)


class KeptMessages:
    """What a store would have: the events, the position and the parts of all batches that were
    kept.
    """

    def __init__(self):
        self.batches, self.position, self.parts = [], None, {}

    @property
    def rows(self):
        return rows_of(self.batches)

    def commit(self, batch):
        self.batches.append(batch)
        self.position = json.loads(json.dumps(batch.position))
        self.parts |= batch.parts

    def read(self, source, count):
        """Keep what comes until there are so many events in all."""
        deadline = time.monotonic() + DEADLINE
        while len(self.rows) < count:
            assert time.monotonic() < deadline, "the events do not come"
            source.wait(0.1)
            for batch in source.batches(self.position):
                self.commit(batch)
                source.kept(batch)


def settled(broker, source, kept, row):
    """Send one more event: when it is there, nothing else is on its way."""
    broker.send(value(row))
    count = len(kept.rows)
    kept.read(source, count + 1)
    return kept.rows[count:] == [row]


@needs_broker
def test_all_events_come_in_their_order(broker):
    source, kept, rows = broker.open(), KeptMessages(), events(100)
    broker.send(*map(value, rows))
    kept.read(source, 100)
    assert kept.rows == rows
    assert isinstance(source, Receiver)
    assert source.resumable


@needs_broker
def test_what_comes_while_we_are_away_is_kept_for_us(broker):
    rows, kept = events(50), KeptMessages()
    broker.open().close()
    broker.send(*map(value, rows))
    kept.read(broker.open(), 50)
    assert kept.rows == rows


@needs_broker
def test_what_was_not_kept_comes_again_after_a_crash(broker):
    rows, kept = events(5), KeptMessages()
    source = broker.open()
    broker.send(*map(value, rows))
    seen, position = [], None
    deadline = time.monotonic() + DEADLINE
    while len(seen) < 5 and time.monotonic() < deadline:
        source.wait(0.1)
        for batch in source.batches(position):
            seen += rows_of([batch])
            position = batch.position
    assert seen == rows
    source.close()
    again = broker.open()
    kept.read(again, 5)
    assert kept.rows == rows
    assert settled(broker, again, kept, events(1, seed=1)[0])


@needs_broker
def test_what_was_kept_and_not_acknowledged_is_not_counted_twice(broker):
    rows, kept = events(5), KeptMessages()
    source = broker.open()
    broker.send(*map(value, rows))
    deadline = time.monotonic() + DEADLINE
    while len(kept.rows) < 5 and time.monotonic() < deadline:
        source.wait(0.1)
        for batch in source.batches(kept.position):
            kept.commit(batch)  # and here it crashes
    source.close()
    again = broker.open(kept.parts)
    assert settled(broker, again, kept, events(1, seed=1)[0])
    assert kept.rows[:5] == rows


@needs_broker
def test_a_killed_reader_is_gone_on_from(broker):
    rows, kept = events(60), KeptMessages()
    broker.open().close()
    broker.send(*map(value, rows))
    script = """
        import json, os, signal, sys
        from penstock.private.sources.mqtt import MqttSource
        from tests.private.sources.events import INTAKE
        server, topic, client = sys.argv[1:4]
        source = MqttSource(intake=INTAKE, server=server, topic=topic, client=client, rows=7)
        source.open({})
        position, count = None, 0
        while True:
            source.wait(1)
            for batch in source.batches(position):
                position = dict(batch.position)
                parts = {name: part.decode() for name, part in batch.parts.items()}
                print(json.dumps([position, parts, batch.person.tolist()]), flush=True)
                count += len(batch)
                if count > 25:
                    os.kill(os.getpid(), signal.SIGKILL)
                source.kept(batch)
    """
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), SERVER, broker.topic, broker.client],
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE,
    )
    assert ran.returncode == -9, ran.stderr
    lines = [json.loads(line) for line in ran.stdout.splitlines()]
    persons = [person for _, _, some in lines for person in some]
    kept.position, kept.parts = (
        lines[-1][0],
        {name: part.encode() for name, part in lines[-1][1].items()},
    )
    source = broker.open(kept.parts)
    kept.read(source, 60 - len(persons))
    assert persons + [row[2] for row in kept.rows] == [row[2] for row in rows]
    assert settled(broker, source, kept, events(1, seed=1)[0])


@needs_broker
def test_a_batch_that_could_not_be_kept_is_given_again(broker):
    rows, kept = events(3), KeptMessages()
    source = broker.open()
    broker.send(*map(value, rows))
    until(lambda: len(source._queue) == 3)
    assert rows_of(source.batches(None)) == rows
    kept.read(source, 3)
    assert kept.rows == rows
    assert list(source.batches(kept.position)) == []


@needs_broker
def test_a_connection_that_breaks_loses_and_repeats_nothing(broker):
    rows, kept = events(30), KeptMessages()
    source = broker.open()
    broker.send(*map(value, rows[:10]))
    until(lambda: len(source._queue) == 10)
    given = list(source.batches(None))
    source._connection._sock_close()
    broker.send(*map(value, rows[10:]))
    for batch in given:
        kept.commit(batch)
        source.kept(batch)
    kept.read(source, 30)
    assert kept.rows == rows
    assert settled(broker, source, kept, events(1, seed=1)[0])


@needs_broker
def test_a_payload_is_an_object_an_array_or_lines(broker):
    rows, kept = events(8), KeptMessages()
    source = broker.open()
    one, *others = map(value, rows)
    broker.send(
        one,
        b"[" + b", ".join(others[:3]) + b"]",
        others[3].replace(b", ", b",\n"),
        others[4] + b"\n\n" + others[5] + b"\r\n",
        b" [] ",
        others[6],
    )
    kept.read(source, 8)
    assert kept.rows == rows
    assert source.rejections.for_operator() == {}


@needs_broker
def test_a_bad_payload_loses_only_itself(broker):
    rows, kept = events(4), KeptMessages()
    source = broker.open()
    good = list(map(value, rows))
    bad = [b"{", b"[1, {", b"[" * 5000, b"\xff", b"7", b""]
    broker.send(good[0], *bad, b"[1, " + good[1] + b', "x"]', good[2] + b"\n{\n" + good[3])
    kept.read(source, 4)
    assert kept.rows == rows
    assert source.rejections.for_operator() == {
        "broken line": 7,
        "not UTF-8": 1,
        "missing value": 1,
    }
    assert settled(broker, source, kept, events(1, seed=1)[0])


@needs_broker
def test_retained_messages_are_no_events(broker):
    rows, kept = events(2), KeptMessages()
    broker.send(value(rows[0]), retain=True)
    source = broker.open()
    assert settled(broker, source, kept, rows[1])
    broker.send(b"", retain=True)


@needs_broker
def test_messages_that_need_no_answer_are_events_too(broker):
    rows, kept = events(2), KeptMessages()
    source = broker.open()
    broker.send(*map(value, rows), quality=0)
    kept.read(source, 2)
    assert kept.rows == rows


@needs_broker
def test_the_same_message_twice_is_two_events(broker):
    rows, kept = events(1), KeptMessages()
    source = broker.open()
    broker.send(value(rows[0]), value(rows[0]))
    kept.read(source, 2)
    assert kept.rows == rows * 2


@needs_broker
def test_what_is_remembered_stays_small(broker):
    source, kept = broker.open(), KeptMessages()
    broker.send(b"[" + value(events(1)[0]) + b"]")
    kept.read(source, 1)
    source._known = dict.fromkeys(range(2 * MAX_REMEMBERED_MESSAGES), "0" * 16)
    broker.send(value(events(1)[0]))
    kept.read(source, 2)
    assert len(source._known) == MAX_REMEMBERED_MESSAGES
    assert set(kept.parts) == {PART_NAME}


@needs_broker
@pytest.mark.skipif(
    "PENSTOCK_TEST_MQTT_GUARDED" not in os.environ,
    reason="needs a listener with a password: .ci/services start",
)
def test_a_listener_with_a_password_is_read_with_it_alone(broker):
    rows, kept = events(1), KeptMessages()
    guarded = {"server": os.environ["PENSTOCK_TEST_MQTT_GUARDED"], "tls": False}
    name, password = os.environ["PENSTOCK_TEST_USERNAME"], os.environ["PENSTOCK_TEST_PASSWORD"]
    source = broker.open(**guarded, username=name, password=password)
    assert password not in repr(source)
    broker.send(value(rows[0]))
    kept.read(source, 1)
    refused = MqttSource(
        intake=INTAKE,
        topic=broker.topic,
        client=broker.client + "-2",
        username=name,
        password="wrong",
        **guarded,
    )
    refused.open({})
    until(lambda: "refused" in refused.problem)
    refused.close()


def test_a_broker_that_does_not_answer_is_no_error():
    source = MqttSource(intake=INTAKE, server="127.0.0.1:1", topic="taps")
    source.open({})
    assert list(source.batches()) == []
    source.wait(0.05)
    assert source.problem
    source.close()


@pytest.mark.parametrize("position", [{}, {"batch": "1"}, {"batch": -1}, {"batch": 1, "more": 1}])
def test_a_position_of_something_else_is_refused(position):
    with pytest.raises(StateError, match="not one of MQTT"):
        list(MqttSource(intake=INTAKE, server="127.0.0.1:1", topic="taps").batches(position))


@pytest.mark.parametrize("part", [b"", b"[]", b'{"a": 1}'])
def test_parts_of_something_else_are_refused(part):
    with pytest.raises(StateError, match="not of MQTT"):
        MqttSource(intake=INTAKE, server="127.0.0.1:1", topic="taps").open({PART_NAME: part})


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"topic": ""}, "must not be empty"),
        ({"client": ""}, "must not be empty"),
        ({"password": "a"}, "belong together"),
        ({"server": "localhost"}, "a host and a port"),
        ({"rows": 0}, "rows"),
    ],
)
def test_a_bad_configuration_is_refused(parameters, message):
    with pytest.raises(ConfigurationError, match=message):
        MqttSource(**({"intake": INTAKE, "server": "127.0.0.1:1", "topic": "taps"} | parameters))


def test_a_missing_client_is_said_with_the_way_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "paho.mqtt.client", None)
    with pytest.raises(MissingExtraError, match=r"penstock\[mqtt\]"):
        MqttSource(intake=INTAKE, server="127.0.0.1:1", topic="taps")
