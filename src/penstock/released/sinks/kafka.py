"""A Kafka topic: one record per unit. Key: "series/unit"; value: the document; header: the link.

All units of a series go to one partition, in order. A record may come twice after a broken
connection; both are the same, and a compacted topic keeps one. A topic deletes records by its own
rules: give it `cleanup.policy=compact` or `retention.ms=-1`. Then it also shows when the store was
restored from an old backup.
"""

from __future__ import annotations

import logging
import os
import secrets
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from penstock.core.broker_options import KAFKA_OPTIONS, check_login, connection, kafka_settings
from penstock.core.declaration import EndpointSetup
from penstock.core.deprecated import moved
from penstock.core.errors import ConfigurationError
from penstock.core.optional import require
from penstock.released.sinks.base import ReleaseItem, SinkError, SinkHead, SinkKind, in_order
from penstock.released.sinks.release_document import document

MAX_DOCUMENT_BYTES = 100_000_000
"""The most bytes of a document. The broker has its own limit, after compression."""

MAX_UNCONFIRMED_BYTES = 2**24
"""About the most bytes of documents that wait for the broker at a time."""

FIRST_SEARCH_RECORDS = 64
"""The records before the end of a partition that are searched first."""

_SILENT = logging.Logger("librdkafka", logging.CRITICAL + 1)
"""Keeps the client from writing to standard error: its errors are raised."""


class KafkaSink:
    """A topic of a Kafka cluster.

    Parameters
    ----------
    servers : str or sequence of str
        The brokers, as "host:port".
    topic : str
        The topic.
    username, password : str or None
        The login. Default: None, no login.
    mechanism : str
        The SASL mechanism. Default: "PLAIN".
    tls : bool or None
        Whether the connection is encrypted. Default: None, encrypted with a login.
    authority : str, path or None
        A file with the certificates to trust. Default: None, the system's.
    timeout : float
        The most seconds of a put or an answer. Default: 30.
    search : float
        The most seconds of the search for the newest unit. Default: 120.
    """

    def __init__(
        self,
        servers: str | Sequence[str],
        topic: str,
        *,
        username: str | None = None,
        password: str | None = None,
        mechanism: str = "PLAIN",
        tls: bool | None = None,
        authority: str | os.PathLike[str] | None = None,
        timeout: float = 30.0,
        search: float = 120.0,
    ) -> None:
        self._client = require("confluent_kafka", "kafka", "a Kafka sink")
        self.topic = topic
        self.timeout = timeout
        self.search = search
        self._settings: dict[str, Any] = {
            **kafka_settings(servers, username, password, mechanism, tls, authority),
            "socket.connection.setup.timeout.ms": int(1000 * min(max(timeout, 1), 30)),
            "logger": _SILENT,
            "error_cb": lambda _: None,
        }
        self._producer: Any = None
        self._partitions = 0

    def __repr__(self) -> str:
        return f"<Kafka {self.topic!r}>"

    # -- writing -----------------------------------------------------------------------------------

    def put(self, items: Sequence[ReleaseItem]) -> None:
        in_order(items)
        if not items:
            return
        deadline = time.monotonic() + self.timeout
        try:
            with self._told("cannot be written"):
                self._send(items, deadline)
        except BaseException:
            self._drop()
            raise

    def _send(self, items: Sequence[ReleaseItem], deadline: float) -> None:
        """Send all items, and wait until each is confirmed, in order."""
        producer = self._open(deadline)
        answers: dict[int, Any] = {}
        waiting = 0
        for number, item in enumerate(items):
            raw, key = document(item), f"{item.series.name}/{item.unit}".encode()
            place = zlib.crc32(item.series.name.encode()) % self._partitions
            headers = [("link", item.link.encode()), ("content-type", b"application/json")]
            try:
                producer.produce(
                    self.topic, raw, key, place, _noted(answers, number), headers=headers
                )
            except self._client.KafkaException:
                # If an earlier item was refused, that is the error to report.
                self._wait(producer, answers, items[:number], deadline)
                raise
            waiting += len(raw)
            if waiting >= MAX_UNCONFIRMED_BYTES or item is items[-1]:
                self._wait(producer, answers, items[: number + 1], deadline)
                waiting = 0

    def _wait(
        self, producer: Any, answers: dict[int, Any], items: Sequence[ReleaseItem], deadline: float
    ) -> None:
        """Wait for all these items. From the first refused item on, they will be sent again."""
        while len(answers) < len(items) and time.monotonic() < deadline:
            self._poll(producer, min(0.1, max(deadline - time.monotonic(), 0)))
        done = next(
            (at for at in range(len(items)) if answers.get(at, True) is not None), len(items)
        )
        refused = answers.get(done)
        if refused is not None:
            raise self._error("did not take", refused, item=items[done], done=done)
        if len(answers) < len(items):
            where = f"unit {items[done].unit} of {items[done].series.name!r}"
            raise SinkError(
                f"topic {self.topic!r}: no broker confirmed {where} within "
                f"{self.timeout:g} seconds; it will be sent again.",
                done=done,
            )

    def _open(self, deadline: float) -> Any:
        if self._producer is None:
            self._producer = self._client.Producer(
                {
                    **self._settings,
                    "enable.idempotence": True,
                    "acks": "all",
                    # Both together: no record is taken after one that was refused.
                    "enable.gapless.guarantee": True,
                    "max.in.flight.requests.per.connection": 1,
                    "compression.type": "zstd",
                    "linger.ms": 5,
                    "message.max.bytes": MAX_DOCUMENT_BYTES,
                    "queue.buffering.max.kbytes": 2 * MAX_DOCUMENT_BYTES // 1000,
                    "delivery.timeout.ms": int(1000 * self.timeout),
                }
            )
            self._partitions = 0
        while not self._partitions:
            left = deadline - time.monotonic()
            if left <= 0:
                raise SinkError(
                    f"topic {self.topic!r} is not there, or has no leader yet; "
                    "what is missing will be sent again."
                )
            found = self._producer.list_topics(self.topic, left).topics[self.topic]
            self._partitions = 0 if found.error else len(found.partitions)
            if not self._partitions:
                if (
                    found.error
                    and not found.error.retriable()
                    and found.error.code() != self._unknown
                ):
                    raise self._error("cannot be used", found.error)
                self._poll(self._producer, 0.1)
        return self._producer

    def _poll(self, producer: Any, seconds: float) -> None:
        """Handle events of the client: confirmations, refusals, and its own end."""
        try:
            producer.poll(seconds)
        except self._client.KafkaException as error:
            if not error.args[0].fatal():
                raise

    def _drop(self) -> None:
        """Forget unconfirmed items. Another producer will send them again."""
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.purge()
            self._poll(producer, 0)

    def close(self) -> None:
        self._drop()

    # -- looking -----------------------------------------------------------------------------------

    def head(self, series: str) -> tuple[int, str] | None:
        """The newest record of the series, searched from the end of each partition in growing
        steps.
        """
        deadline = time.monotonic() + self.search
        consumer = None
        try:
            with self._told("cannot be read"):
                consumer = self._client.Consumer(
                    {
                        **self._settings,
                        "group.id": f"penstock-head-{secrets.token_hex(8)}",
                        "enable.auto.commit": False,
                        "enable.partition.eof": True,
                        "auto.offset.reset": "earliest",
                        "isolation.level": "read_committed",
                        "allow.auto.create.topics": False,
                        "fetch.wait.max.ms": 20,
                        "fetch.queue.backoff.ms": 20,
                    }
                )
                found = consumer.list_topics(self.topic, self.timeout).topics[self.topic]
                if found.error and found.error.code() == self._unknown:
                    return None
                if found.error:
                    raise self._error("cannot be read", found.error)
                heads = [
                    self._newest(consumer, place, series, deadline) for place in found.partitions
                ]
                return max((head for head in heads if head), default=None)
        finally:
            if consumer is not None:
                consumer.close()

    def _newest(self, consumer: Any, place: int, series: str, deadline: float) -> SinkHead | None:
        where = self._client.TopicPartition(self.topic, place)
        low, high = consumer.get_watermark_offsets(where, self.timeout)
        end, back = high, FIRST_SEARCH_RECORDS
        while end > low:
            start = max(end - back, low)
            newest = max(self._between(consumer, place, start, end, series, deadline), default=None)
            if newest is not None:
                return newest
            end, back = start, back * 2
        return None

    def _between(
        self, consumer: Any, place: int, start: int, end: int, series: str, deadline: float
    ) -> Iterator[SinkHead]:
        """The units of the series between two offsets. Some offsets may have no record."""
        consumer.assign([self._client.TopicPartition(self.topic, place, start)])
        while True:
            if time.monotonic() > deadline:
                raise SinkError(
                    f"topic {self.topic!r}: the newest unit of {series!r} was not found within "
                    f"{self.search:g} seconds. Give the sink a topic of its own, or more time."
                )
            record = consumer.poll(0.5)
            if record is None:
                continue
            if record.error():
                if record.error().code() == self._client.KafkaError._PARTITION_EOF:
                    return
                raise self._error("cannot be read", record.error())
            if record.offset() >= end:
                return
            head = _told(record, series)
            if head:
                yield head
            if record.offset() == end - 1:
                return

    # -- errors ------------------------------------------------------------------------------------

    @property
    def _unknown(self) -> int:
        return int(self._client.KafkaError.UNKNOWN_TOPIC_OR_PART)

    @contextmanager
    def _told(self, what: str) -> Iterator[None]:
        try:
            yield
        except self._client.KafkaException as error:
            reason = error.args[0] if error.args else None
            if isinstance(reason, self._client.KafkaError):
                if reason.code() == self._client.KafkaError._INVALID_ARG:
                    raise ConfigurationError(
                        "kafka: a setting, the address or the login cannot be used."
                    ) from None
                raise self._error(what, reason) from None
            raise SinkError(f"topic {self.topic!r} {what} ({type(error).__name__}).") from None
        except BufferError:
            raise SinkError(
                f"topic {self.topic!r}: too much is waiting for the broker; it will be sent again."
            ) from None

    def _error(
        self, what: str, reason: Any, *, item: ReleaseItem | None = None, done: int = 0
    ) -> SinkError:
        codes = self._client.KafkaError
        code = reason.code()
        where = "" if item is None else f" unit {item.unit} of {item.series.name!r}"
        advice = {
            codes.MSG_SIZE_TOO_LARGE: " Raise max.message.bytes of the topic.",
            codes.TOPIC_AUTHORIZATION_FAILED: " Allow this user to read and write the topic.",
            codes.CLUSTER_AUTHORIZATION_FAILED: " Allow this user to write idempotently.",
            codes._AUTHENTICATION: " See that user name and password are right.",
            self._unknown: " Create the topic.",
        }.get(code, "")
        message = (
            f"topic {self.topic!r} {what}{where}: {reason.name()}.{advice} "
            "What is missing will be sent again."
        )
        return SinkError(message, lasting=bool(advice), done=done)


def _noted(answers: dict[int, Any], number: int) -> Callable[[Any, Any], None]:
    """A callback that notes the result of a record: None or an error."""

    def note(error: Any, _: Any) -> None:
        answers[number] = error

    return note


def _told(record: Any, series: str) -> SinkHead | None:
    """The unit and the link of a record of the series, from its key and its header."""
    name, _, unit = (record.key() or b"").rpartition(b"/")
    link = dict(record.headers() or ()).get("link")
    if name != series.encode() or not unit.isdigit() or not link:
        return None
    return SinkHead(int(unit), link.decode(errors="replace"))


def _build(setup: EndpointSetup) -> KafkaSink:
    options = setup.options
    return KafkaSink(
        options["servers"],
        options["topic"],
        mechanism=options["mechanism"],
        **connection(setup),
    )


KIND = SinkKind(
    name="kafka",
    summary="A Kafka topic, one record per unit. Give the topic cleanup.policy=compact.",
    options=KAFKA_OPTIONS,
    describe=lambda options: f"Kafka topic {options['topic']!r}",
    check=check_login,
    extra="kafka",
    modules=("confluent_kafka",),
    build=_build,
    refuses=False,
    place=("servers", "topic"),
)


if not TYPE_CHECKING:
    __getattr__ = moved(__name__)
