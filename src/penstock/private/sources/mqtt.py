"""Events of sensors by MQTT. A message is acknowledged when its events are on disk."""

from __future__ import annotations

import hashlib
import json
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from penstock.core.broker_options import LOGIN_OPTIONS, TLS_OPTIONS, check_both, check_login
from penstock.core.broker_options import connection as broker_connection
from penstock.core.declaration import Option
from penstock.core.deprecated import moved
from penstock.core.errors import ConfigurationError, StateError
from penstock.core.exact import whole
from penstock.core.optional import require
from penstock.private.sources.base import (
    Batch,
    Intake,
    Position,
    Reason,
    Receiver,
    Rejections,
    Source,
    SourceKind,
    SourceSetup,
    batch_number,
)
from penstock.private.sources.json_arrays import ArrayError, array_lines
from penstock.private.sources.message_formats import JsonMessages

MAX_MESSAGES_PER_BATCH = 10_000
MAX_BYTES_PER_BATCH = 2 * 2**20
MAX_PAYLOAD_BYTES = 4 * 2**20
MAX_OBJECTS_PER_PAYLOAD = 100_000
"""A payload with more bytes or objects is dropped whole and counted as one line too long."""

MAX_WAITING_BYTES = 8 * 2**20
MAX_REMEMBERED_MESSAGES = 2_000
"""Kept messages that are remembered, as their acknowledgement may not have arrived."""

BYTES_PER_STEP = 2**18
QUALITY_OF_SERVICE = 1
KEEPALIVE_SECONDS = 60
MAX_RECONNECT_SECONDS = 30
PART_NAME = "mqtt"


def library() -> Any:
    """The MQTT client."""
    return require("paho.mqtt.client", "mqtt", "reading from MQTT")


@dataclass(frozen=True, eq=False)
class Message:
    """A message: its number (0: needs no answer), its session, a digest, and the payload (None: it
    was too long).
    """

    number: int
    session: int
    digest: str
    payload: bytes | None

    def __repr__(self) -> str:
        return "Message(private)"


@dataclass(kw_only=True, eq=False)
class MqttSource(Receiver):
    """Subscribes to a topic, or a pattern of topics, in a session that the broker keeps for us.

    A payload is a JSON object, an array of objects, or objects on lines; a bad object loses only
    itself. A payload of more than 4 MiB or 100,000 objects is dropped. Messages of quality 1 or
    more are acknowledged once they are kept, so none is lost while the broker keeps the session.
    Messages of quality 0 are lost in a crash. The broker's own settings limit how much it keeps and
    how many unacknowledged messages it sends (for Mosquitto: `max_queued_messages` and
    `max_inflight_messages`), and how long a message may be, which the client takes whole
    (`max_packet_size`). Retained messages are not events and do not count.

    MQTT has no offsets. A message that was kept just before a crash is sent again if its
    acknowledgement did not arrive. It is recognised by its number, its repetition mark and its
    content, which are kept with the events, and is not counted twice. A broker that loses the
    session or renumbers its messages may still cause such a message to count twice. The promise
    holds then too where there is a person column, as bounding limits the events of a person in a
    unit.

    While the broker does not answer, no events come, and `problem` says why.

    Parameters
    ----------
    intake : Intake
        Makes batches of the columns.
    server : str
        The broker, as "host:port".
    topic : str
        The topic, or a pattern of topics.
    client : str
        The name of the session, which nobody else may use.
    username, password : str or None
        The login. Default: None, no login.
    tls : bool or None
        Whether the connection is encrypted. Default: None, encrypted with a login.
    authority : str, Path or None
        A file with the certificates to trust. Default: None, the system's.
    rows : int
        The most messages of a batch. Default: 10,000.
    format : JsonMessages
        How an object is written, with the most bytes of one. Default: at most 1 MiB.
    """

    intake: Intake
    server: str
    topic: str
    client: str = "penstock"
    username: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    tls: bool | None = None
    authority: str | Path | None = None
    rows: int = MAX_MESSAGES_PER_BATCH
    format: JsonMessages = field(default_factory=JsonMessages)
    rejections: Rejections = field(default_factory=Rejections, init=False)
    _connection: Any = field(default=None, init=False, repr=False)
    _problem: str = field(default="not connected yet", init=False, repr=False)
    _refused: bool = field(default=False, init=False, repr=False)
    _session: int = field(default=0, init=False, repr=False)
    _size: int = field(default=0, init=False, repr=False)
    _queue: deque[Message] = field(default_factory=deque, init=False, repr=False)
    _out: deque[tuple[int, list[Message]]] = field(default_factory=deque, init=False, repr=False)
    _waiting: dict[int, str] = field(default_factory=dict, init=False, repr=False)
    _known: dict[int, str] = field(default_factory=dict, init=False, repr=False)
    _news: threading.Condition = field(default_factory=threading.Condition, init=False, repr=False)

    def __post_init__(self) -> None:
        whole(self.rows, name="rows", least=1)
        if not self.topic or not self.client:
            raise ConfigurationError("mqtt: topic and client must not be empty.")
        check_both(self.username, self.password, kind="mqtt")
        host, _, port = self.server.rpartition(":")
        if not host or not port.isdecimal():
            raise ConfigurationError(
                "mqtt: server must be a host and a port, such as 'localhost:1883'."
            )
        library()

    @property
    def resumable(self) -> bool:
        return True

    @property
    def answers(self) -> bool:
        return True

    @property
    def problem(self) -> str:
        """Why no events can come now; empty if all is well."""
        return self._problem

    def open(self, parts: Mapping[str, bytes]) -> None:
        """Start to connect, with the messages that were kept before."""
        if self._connection is not None:
            return
        self._known = _remembered(parts.get(PART_NAME))
        mqtt = library()
        connection = mqtt.Client(
            mqtt.CallbackAPIVersion.VERSION2,
            client_id=self.client,
            clean_session=False,
            protocol=mqtt.MQTTv311,
            manual_ack=True,
        )
        connection.on_connect, connection.on_disconnect = self._connected, self._disconnected
        connection.on_subscribe, connection.on_message = self._subscribed, self._came
        connection.reconnect_delay_set(1, MAX_RECONNECT_SECONDS)
        if self.username is not None:
            connection.username_pw_set(self.username, self.password)
        if self.username is not None if self.tls is None else self.tls:
            connection.tls_set(ca_certs=None if self.authority is None else str(self.authority))
        host, _, port = self.server.rpartition(":")
        self._connection = connection
        connection.connect_async(host.strip("[]"), int(port), KEEPALIVE_SECONDS)
        connection.loop_start()

    def batches(self, after: Position | None = None) -> Iterator[Batch]:
        """All messages that were not given yet, or were given after the position and not kept."""
        number = batch_number(after, "MQTT")
        self.open({})
        with self._news:
            while self._out and self._out[-1][0] > number:
                self._queue.extendleft(reversed(self._out.pop()[1]))
            left = len(self._queue)
        while left > 0:
            with self._news:
                messages = self._next(min(left, self.rows))
            values = [
                value for message in messages for value in _values(message.payload, self.rejections)
            ]
            table = self.format.table(values, self.intake.columns, rejections=self.rejections)
            number += 1
            batch = self.intake.batch(table, position={"batch": number}, rejections=self.rejections)
            with self._news:
                for _ in messages:
                    self._queue.popleft()
                self._out.append((number, messages))
                parts = {PART_NAME: self._memory()}
            left -= len(messages)
            yield replace(batch, parts=parts)

    def _next(self, most: int) -> list[Message]:
        """The first waiting messages, up to `MAX_BYTES_PER_BATCH`, but at least one."""
        some: list[Message] = []
        size = 0
        for message in islice(self._queue, most):
            size += len(message.payload or b"")
            if some and size > MAX_BYTES_PER_BATCH:
                break
            some.append(message)
        return some

    def wait(self, seconds: float) -> None:
        """Return as soon as a message has come, or after this many seconds."""
        self.open({})
        with self._news:
            self._news.wait_for(lambda: self._queue or self._connection is None, seconds)

    def kept(self, batch: Batch) -> None:
        """Acknowledge the messages of this batch and of all before it."""
        number, answers = batch_number(batch.position, "MQTT"), []
        with self._news:
            while self._out and self._out[0][0] <= number:
                for message in self._out.popleft()[1]:
                    self._size -= len(message.payload or b"")
                    if message.number and message.session == self._session:
                        self._waiting.pop(message.number, None)
                        self._remember(message)
                        answers.append(message.number)
            connection = self._connection
            self._news.notify_all()
        if connection is not None:
            for each in answers:
                connection.ack(each, QUALITY_OF_SERVICE)

    def close(self) -> None:
        """Leave the broker. It keeps the messages that were not acknowledged."""
        connection = self._connection
        with self._news:
            self._connection = None
            self._news.notify_all()
        if connection is not None:
            connection.disconnect()
            connection.loop_stop()
        self._queue.clear()
        self._out.clear()
        self._waiting.clear()
        self._size = 0

    # -- in the thread of the client ---------------------------------------------------------------

    def _connected(
        self, connection: Any, _data: object, flags: Any, reason: Any, _properties: object
    ) -> None:
        self._refused = reason.is_failure
        if self._refused:
            self._problem = f"refused: {reason}"
            return
        with self._news:
            if not flags.session_present:
                self._session += 1
                self._waiting.clear()
                self._known.clear()
        self._problem = "not subscribed yet"
        connection.subscribe(self.topic, QUALITY_OF_SERVICE)

    def _subscribed(
        self,
        _connection: object,
        _data: object,
        _number: int,
        reasons: Sequence[Any],
        _properties: object,
    ) -> None:
        self._problem = next(
            (f"the subscription was refused: {reason}" for reason in reasons if reason.is_failure),
            "",
        )

    def _disconnected(
        self, _connection: object, _data: object, _flags: object, reason: Any, _properties: object
    ) -> None:
        if not self._refused:
            self._problem = f"disconnected: {reason}"

    def _came(self, connection: Any, _data: object, message: Any) -> None:
        number = message.mid if message.qos else 0
        digest = hashlib.blake2b(
            message.topic.encode() + b"\0" + message.payload, digest_size=8
        ).hexdigest()
        with self._news:
            again = bool(number and message.dup)
            if again and self._waiting.get(number) == digest:
                return
            if message.retain or (again and self._known.get(number) == digest):
                if number:
                    connection.ack(number, message.qos)
                return
            self._news.wait_for(lambda: self._size < MAX_WAITING_BYTES or self._connection is None)
            if number:
                self._waiting[number] = digest
            long = len(message.payload) > MAX_PAYLOAD_BYTES
            payload = None if long else bytes(message.payload)
            self._queue.append(Message(number, self._session, digest, payload))
            self._size += len(payload or b"")
            self._news.notify_all()

    # -- what is remembered ------------------------------------------------------------------------

    def _remember(self, message: Message) -> None:
        self._known.pop(message.number, None)
        self._known[message.number] = message.digest
        while len(self._known) > MAX_REMEMBERED_MESSAGES:
            del self._known[next(iter(self._known))]

    def _memory(self) -> bytes:
        """The numbers and digests of messages that are on disk with this batch, the last per
        number.
        """
        known = dict(self._known)
        for _, messages in self._out:
            known |= {
                each.number: each.digest
                for each in messages
                if each.number and each.session == self._session
            }
        return json.dumps(known).encode()


def _remembered(part: bytes | None) -> dict[int, str]:
    if part is None:
        return {}
    try:
        return {int(number): str(digest) for number, digest in json.loads(part).items()}
    except (ValueError, AttributeError, RecursionError):
        raise StateError("what was kept with the batches is not of MQTT.") from None


def _values(payload: bytes | None, rejections: Rejections) -> Sequence[bytes]:
    """The objects of a payload, as they are written."""
    if payload is None:
        rejections.add(Reason.LONG, 1)
        return ()
    text = payload.strip()
    if text.startswith(b"["):
        steps = range(0, len(text), BYTES_PER_STEP)
        try:
            text = b"".join(array_lines(text[step : step + BYTES_PER_STEP] for step in steps))
        except ArrayError:
            rejections.add(Reason.BROKEN, 1)
            return ()
    elif b"\n" in text:
        try:
            msgspec.json.decode(text, type=msgspec.Raw)
        except (msgspec.MsgspecError, RecursionError):
            pass
        else:
            return (text,)
    else:
        return (text,)
    if text.count(b"\n") > MAX_OBJECTS_PER_PAYLOAD:
        rejections.add(Reason.LONG, 1)
        return ()
    return [line for line in text.split(b"\n") if line.strip()]


def _build(setup: SourceSetup) -> Source:
    return MqttSource(
        intake=setup.intake,
        server=setup.options["server"],
        topic=setup.options["topic"],
        client=setup.options["client"],
        **broker_connection(setup),
    )


KIND = SourceKind(
    name="mqtt",
    summary="Messages of an MQTT topic, acknowledged once they are on disk.",
    options=(
        Option(
            name="server",
            type="address",
            required=True,
            example="localhost:1883",
            help="the broker",
        ),
        Option(
            name="topic",
            required=True,
            example="gates/+/taps",
            help="the topic, or a pattern of topics",
        ),
        Option(
            name="client",
            default="penstock",
            example="penstock",
            help="the name of our session, which nobody else may use",
        ),
        *LOGIN_OPTIONS,
        *TLS_OPTIONS,
    ),
    describe=lambda options: f"MQTT topic {options['topic']!r}",
    check=check_login,
    extra="mqtt",
    modules=("paho.mqtt.client",),
    build=_build,
    no_dry_run="the broker gives each message once, so what a dry run reads would be missing from "
    "the run. Try it with a client and a store of another name.",
)


if not TYPE_CHECKING:
    __getattr__ = moved(__name__)
