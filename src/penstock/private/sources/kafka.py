"""Events of a Kafka topic. Offsets are kept in our store, with the events, and not in Kafka."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, get_args

from penstock.core.broker_options import (
    KAFKA_OPTIONS,
    SASL_MECHANISMS,
    check_login,
    connection,
    kafka_settings,
)
from penstock.core.declaration import Option
from penstock.core.deprecated import moved
from penstock.core.errors import ConfigurationError, StateError
from penstock.core.exact import whole
from penstock.core.optional import require
from penstock.private.sources.arrow_messages import ArrowMessages
from penstock.private.sources.avro import AvroMessages
from penstock.private.sources.base import (
    Batch,
    Intake,
    Position,
    Receiver,
    Rejections,
    Source,
    SourceKind,
    SourceSetup,
)
from penstock.private.sources.inbox import merged
from penstock.private.sources.jsonl import schema_of
from penstock.private.sources.message_formats import JsonMessages, MessageFormat, PackedMessages

MAX_EVENTS_PER_BATCH = 100_000
MIN_EVENTS_PER_LAST_BATCH = 20_000
MAX_BYTES_PER_BATCH = 16 * 2**20
MAX_BYTES_AHEAD = 32 * 2**20
"""Bytes that the client fetches ahead."""

MAX_MESSAGES_PER_CALL = 500
"""Messages that the client returns per call. More do not fit into a processor's cache, and Python
looks for garbage at every 700th.
"""

REFRESH_MS = 5000
"""How often the client asks the broker for new partitions. By default it asks every five minutes,
and a partition that the broker did not know yet would wait for so long."""

MAX_PARTITIONS_ASKED = 16
"""Partitions up to which the client is asked for its positions after every call. With more of them,
it is cheaper to look at each message.
"""

ANSWER_SECONDS = 2.0
QUIET_SECONDS = 0.2
CALL_SECONDS = 0.05
SETTLING_SECONDS = 10.0
"""How long a broker may report fewer events than were read. After a restart or a change of leader
it does so for a moment, without having lost any.
"""

NO_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAA"
"""The topic id that brokers without topic ids report."""

TOPIC_FIELD = "topic"

Outage: TypeAlias = Literal["close", "wait"]


def client(module: str = "confluent_kafka") -> Any:
    """A module of the Kafka client."""
    return require(module, "kafka", "reading from Kafka")


@dataclass(frozen=True)
class Topic:
    """The broker's answer about a topic: id, partitions, and each partition's first and next
    offset.
    """

    name: str
    partitions: frozenset[int]
    bounds: Mapping[int, tuple[int, int]]


class _ReadBatch(NamedTuple):
    """Messages as a batch without a position, and the rows that were rejected on the way."""

    batch: Batch
    rejections: Rejections


@dataclass(kw_only=True, eq=False)
class KafkaSource(Receiver):
    """Reads every partition of a topic, each in its order, exactly once.

    The position holds the topic's id and the next offset of every partition. Partitions are
    assigned, not shared among consumers, and no offset is committed to Kafka, so a second reader of
    the same group disturbs nobody. A new partition is read from its earliest event on. Events of a
    transaction appear when it is committed.

    While no broker answers, no events come; the client keeps trying, and `problem` says why. With
    `outage="wait"`, units stay open until the broker is back and everything that it had then was
    read; the broker keeps events meanwhile, so none is late. A `StateError` is raised where events
    would be lost or counted twice: the broker deleted unread events, has fewer events than were
    read, or has another topic of this name.

    Parameters
    ----------
    intake : Intake
        Makes batches of the columns.
    servers : str or sequence of str
        The brokers, as "host:port".
    topic : str
        The topic.
    group : str
        The name by which the broker knows this reader, for its access rules. Default: "penstock".
    format : MessageFormat
        How a message is written. Default: JSON.
    username, password : str or None
        The login. Default: None, no login.
    mechanism : str
        The SASL mechanism. Default: "PLAIN".
    tls : bool or None
        Whether the connection is encrypted. Default: None, encrypted with a login.
    authority : str, Path or None
        A file with the certificates to trust. Default: None, the system's.
    outage : {"close", "wait"}
        Whether units close by the clock while no broker answers, or stay open. Default: "close".
    accept_loss : bool
        Continue at the first event that is there instead of a `StateError`. Default: False.
    rows : int
        The most events of a batch. Default: 100,000.
    patience : float
        Seconds to wait for an answer of the broker. Default: 2.
    """

    intake: Intake
    servers: str | Sequence[str]
    topic: str
    group: str = "penstock"
    format: MessageFormat = field(default_factory=JsonMessages)
    username: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    mechanism: str = "PLAIN"
    tls: bool | None = None
    authority: str | Path | None = None
    outage: Outage = "close"
    accept_loss: bool = False
    rows: int = MAX_EVENTS_PER_BATCH
    patience: float = ANSWER_SECONDS
    rejections: Rejections = field(default_factory=Rejections, init=False)
    _problem: str = field(default="", init=False, repr=False)
    _consumer: Any = field(default=None, init=False, repr=False)
    _admin: Any = field(default=None, init=False, repr=False)
    _worker: Any = field(default=None, init=False, repr=False)
    _at: dict[int, int] = field(default_factory=dict, init=False, repr=False)
    _name: str = field(default="", init=False, repr=False)
    _given: Position | None = field(default=None, init=False, repr=False)
    _assigned: bool = field(default=False, init=False, repr=False)
    _held: list[Any] = field(default_factory=list, init=False, repr=False)
    _asked: list[Any] = field(default_factory=list, init=False, repr=False)
    _complete: bool = field(default=False, init=False, repr=False)
    _short_since: float | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        whole(self.rows, name="rows", least=1)
        if not self.topic or not self.group or not self.servers:
            raise ConfigurationError("kafka: servers, topic and group must not be empty.")
        self._connection()
        if self.mechanism not in SASL_MECHANISMS:
            raise ConfigurationError(
                f"kafka: mechanism must be one of {', '.join(SASL_MECHANISMS)}, "
                f"not {self.mechanism!r}.",
                parameter="mechanism",
            )
        if self.outage not in get_args(Outage):
            raise ConfigurationError(
                f"kafka: outage must be 'close' or 'wait', not {self.outage!r}.", parameter="outage"
            )
        self.format.check(self.intake.columns)
        client()

    @property
    def resumable(self) -> bool:
        return True

    @property
    def problem(self) -> str:
        """Why nothing can be read just now, with the client's name of the error."""
        return self._problem

    @property
    def complete(self) -> bool:
        """Whether the last call of `batches` came to the end, if units wait for that."""
        return self._complete or self.outage == "close"

    @property
    def reached(self) -> bool:
        """Whether the last call of `batches` or `stretch` learned of every partition, and came to
        its end.
        """
        return self._complete

    def settings(self) -> dict[str, Any]:
        """The client's settings of the connection, with the login. Secret."""
        return self._connection()

    def open(self, parts: Mapping[str, bytes]) -> None:
        """Start to connect. This source keeps no parts."""
        if self._consumer is None:
            kafka, admin = client(), client("confluent_kafka.admin")
            try:
                self._consumer = kafka.Consumer(self._reading())
                self._admin = admin.AdminClient(self._connection())
            except kafka.KafkaException as error:
                raise ConfigurationError(
                    f"kafka: the client refuses this configuration ({error.args[0].name()})."
                ) from None
            self._worker = ThreadPoolExecutor(1, thread_name_prefix="kafka")

    def batches(self, after: Position | None = None) -> Iterator[Batch]:
        """All events after the position that are there now; none while no broker answers."""
        self.open({})
        self._complete = False
        start = None if after is None else _offsets(after)
        topic = self._found()
        if topic is None or self._settling(after, start, topic):
            return
        self._stand(after, start, topic)
        ends = {partition: end for partition, (_, end) in topic.bounds.items()}
        coming: tuple[Future[_ReadBatch], Position] | None = None
        last = self._position()
        try:
            more = True
            while more:
                count, batch = self._next(ends)
                before, coming, position = coming, None, self._position()
                if position != last:
                    coming, last = (batch, position), position
                more = bool(count) and self._assigned and self._behind(ends)
                if before is not None:
                    # Meanwhile the thread makes the next batch.
                    yield self._batch(*before)
            if coming is not None:
                before, coming = coming, None
                yield self._batch(*before)
            known = ends.keys() >= topic.partitions
            self._complete = known and self._assigned and not self._behind(ends)
        finally:
            if coming is not None:  # the caller stopped early, so it is read again
                self._forget()

    def stretch(self, after: Position | None) -> tuple[Position, Position] | None:
        """From a position to the end of what is there now, without reading it; None while no
        broker answers.

        The first position has the earliest offset of each partition that is new. What would be
        lost is a `StateError`, as for `batches`.
        """
        self.open({})
        self._complete = False
        start = None if after is None else _offsets(after)
        topic = self._found()
        if topic is None or self._settling(after, start, topic):
            return None
        name, at = start or (topic.name, {})
        at = self._offsets_there(name, at, topic)
        ends = at | {partition: end for partition, (_, end) in topic.bounds.items()}
        self._complete = topic.bounds.keys() >= topic.partitions
        return _position_of(topic.name, at), _position_of(topic.name, ends)

    def _batch(self, coming: Future[_ReadBatch], position: Position) -> Batch:
        """The batch that the thread made. Its error is raised here, and its events are read again
        if the caller goes on.
        """
        try:
            read = coming.result()
        except BaseException:
            self._forget()
            raise
        self.rejections.add_all(read.rejections)
        self._given = position
        return replace(read.batch, position=position)

    def wait(self, seconds: float) -> None:
        """Return as soon as an event has come, or after this many seconds."""
        self.open({})
        deadline = time.monotonic() + seconds
        while not self._held and (left := deadline - time.monotonic()) > 0:
            self._held = self._consumed(1, min(left, QUIET_SECONDS))

    def close(self) -> None:
        """Leave the broker. Events that were not kept are read again from the last position."""
        if self._consumer is not None:
            self._consumer.close()
            self._worker.shutdown()
        self._consumer = self._admin = self._worker = None
        self._forget()

    # -- where it stands ---------------------------------------------------------------------------

    def _found(self) -> Topic | None:
        """Ask the broker about the topic; None if it does not answer now."""
        kafka, admin = client(), client("confluent_kafka.admin")
        names = kafka.TopicCollection([self.topic])
        try:
            found = self._answer(
                self._admin.describe_topics(names, request_timeout=self.patience)[self.topic]
            )
            places = [kafka.TopicPartition(self.topic, each.id) for each in found.partitions]
            first, following = (
                self._admin.list_offsets(
                    dict.fromkeys(places, spec),
                    isolation_level=kafka.IsolationLevel.READ_COMMITTED,
                    request_timeout=self.patience,
                )
                for spec in (admin.OffsetSpec.earliest(), admin.OffsetSpec.latest())
            )
            self._problem = ""
            bounds = {}
            for place in places:
                try:
                    pair = (
                        self._answer(first[place]).offset,
                        self._answer(following[place]).offset,
                    )
                except kafka.KafkaException as error:
                    self._problem = self._told(error.args[0])
                    continue
                if min(pair) < 0:  # the client's answer when the connection breaks
                    self._problem = self._told(kafka.KafkaError(kafka.KafkaError._TRANSPORT))
                else:
                    bounds[place.partition] = pair
        except kafka.KafkaException as error:
            self._problem = self._told(error.args[0])
            return None
        except TimeoutError:
            self._problem = self._told(kafka.KafkaError(kafka.KafkaError._TIMED_OUT))
            self._admin = admin.AdminClient(self._connection())
            return None
        return Topic(str(found.topic_id), frozenset(place.partition for place in places), bounds)

    def _answer(self, question: Future[Any]) -> Any:
        """The broker's answer. After a lost connection the client may never give one."""
        return question.result(self.patience + ANSWER_SECONDS)

    def _settling(
        self, after: Position | None, start: tuple[str, dict[int, int]] | None, topic: Topic
    ) -> bool:
        """Whether the broker has fewer events of this topic than were read, and may get them back:
        it has started or changed its leader a moment ago.
        """
        same = self._assigned and after == self._given
        name, at = (self._name, self._at) if same else start or (topic.name, {})
        short = any(at.get(partition, 0) > end for partition, (_, end) in topic.bounds.items())
        if not short or name != topic.name:
            self._short_since = None
            return False
        now = time.monotonic()
        self._short_since = self._short_since or now
        if now - self._short_since >= SETTLING_SECONDS:
            return False
        self._problem = (
            f"kafka: topic {self.topic!r}: the broker has fewer events than were already read, "
            f"perhaps because it is starting; {self._units_meanwhile}."
        )
        return True

    def _stand(
        self, after: Position | None, start: tuple[str, dict[int, int]] | None, topic: Topic
    ) -> None:
        """Make the client read from the position on, or from where it already stands."""
        if not self._assigned or after != self._given:
            self._forget()
            self._name, self._at = start or (topic.name, {})
            self._given = after
        at = self._offsets_there(self._name, self._at, topic)
        if self._assigned and self._at.items() <= at.items():
            new = {each: at[each] for each in at.keys() - self._at.keys()}
            self._assign(new, anew=False)
        else:
            new = at
            self._assign(at, anew=True)
        if new:
            self._ask(at, new)
        self._name, self._at = topic.name, at

    def _offsets_there(self, name: str, offsets: Mapping[int, int], topic: Topic) -> dict[int, int]:
        """The next offset of each partition that is there; a `StateError` for what is lost."""
        at = dict(offsets)
        if NO_TOPIC_ID not in (name, topic.name) and name != topic.name:
            self._lost(
                "there is another topic of this name than the one that was read before; "
                "unread events may be gone"
            )
            at = {}
        if not at.keys() <= topic.partitions:
            self._lost("it has fewer partitions than were read before")
            at = {
                partition: offset
                for partition, offset in at.items()
                if partition in topic.partitions
            }
        for partition, (first, end) in topic.bounds.items():
            offset = at.get(partition, first)
            if offset < first:
                self._lost(
                    "the broker deleted events before they were read (its retention is too short)"
                )
            elif offset > end:
                self._lost(
                    "the broker has fewer events than were already read; "
                    "it lost some, perhaps unread ones too"
                )
            at[partition] = min(max(offset, first), end)
        return at

    def _assign(self, offsets: Mapping[int, int], *, anew: bool) -> None:
        partition = client().TopicPartition
        places = [partition(self.topic, each, offset) for each, offset in sorted(offsets.items())]
        if anew:
            self._held = []
            self._consumer.assign(places)
        elif places:
            self._consumer.incremental_assign(places)
        self._assigned = True

    def _ask(self, at: Mapping[int, int], new: Mapping[int, int]) -> None:
        """Choose whether the client's positions say how far it has come.

        They do if none is known of partitions that were just assigned: a position that comes later
        is then after a message that was read since. Positions from before would skip messages.
        """
        kafka = client()
        self._asked = []
        if len(at) > MAX_PARTITIONS_ASKED:
            return
        told = self._consumer.position([kafka.TopicPartition(self.topic, each) for each in new])
        if all(each.offset == kafka.OFFSET_INVALID for each in told):
            self._asked = [kafka.TopicPartition(self.topic, each) for each in sorted(at)]

    def _lost(self, what: str) -> None:
        if not self.accept_loss:
            raise StateError(
                f"kafka: topic {self.topic!r}: {what}. Nothing was read. "
                "To continue with the events that are there, start once with accept_loss."
            )

    def _forget(self) -> None:
        self._complete = False
        self._assigned, self._given, self._at, self._name, self._held = False, None, {}, "", []

    def _position(self) -> Position:
        return _position_of(self._name, self._at)

    def _behind(self, ends: Mapping[int, int]) -> bool:
        return any(self._at[partition] < end for partition, end in ends.items())

    # -- what comes --------------------------------------------------------------------------------

    def _next(self, ends: Mapping[int, int]) -> tuple[int, Future[_ReadBatch]]:
        """The number of events that came next (0: no more, or no answer), and their batch to be.

        A thread makes the batch while the next events come. It makes it in one piece: each step of
        the thread interrupts the client for a moment, however many events the step takes.
        """
        packs: list[PackedMessages] = []
        rejections, rows = Rejections(), self._room(ends)
        count, size, last = 0, 0, time.monotonic()
        value = client().Message.value
        while (
            count < rows
            and size < MAX_BYTES_PER_BATCH
            and self._assigned
            and (self._held or self._behind(ends))
        ):
            messages, self._held = (
                self._held
                or self._consumed(min(rows - count, MAX_MESSAGES_PER_CALL), CALL_SECONDS),
                [],
            )
            if messages:
                self._move(messages)
                # Packed at once: later, the values would have left the processor's cache.
                some = self.format.packed(list(map(value, messages)), rejections=rejections)
                packs += some
                size += sum(len(each.data) for each in some)
                count, last = count + len(messages), time.monotonic()
                # Freed before the next call: Python's garbage collector would look at all of them.
                del messages
            elif time.monotonic() - last > (QUIET_SECONDS if count else self.patience):
                break
        return count, self._worker.submit(self._read, packs, rejections)

    def _room(self, ends: Mapping[int, int]) -> int:
        """How many events the next batch may have.

        The last batches become smaller: nothing else is done while the thread makes the very last.
        """
        left = sum(max(end - self._at[partition], 0) for partition, end in ends.items())
        return min(self.rows, max(left // 2, MIN_EVENTS_PER_LAST_BATCH))

    def _read(self, packs: Sequence[PackedMessages], rejections: Rejections) -> _ReadBatch:
        columns = self.intake.columns
        batches = [
            self.intake.batch(table, position=None, rejections=rejections)
            for table in self.format.tables(packs, columns, rejections=rejections)
        ]
        if not batches:
            none = schema_of(columns).empty_table()
            batches = [self.intake.batch(none, position=None, rejections=rejections)]
        return _ReadBatch(merged(batches), rejections)

    def _consumed(self, most: int, seconds: float) -> list[Any]:
        """The next messages that are events. Other messages of the client are noted."""
        kafka = client()
        try:
            messages = self._consumer.consume(most, seconds)
        except kafka.KafkaException as error:
            self._problem = self._told(error.args[0])
            return []
        if not any(map(kafka.Message.error, messages)):
            return messages  # type: ignore[no-any-return]
        events = []
        for message in messages:
            what = message.error()
            if what is None:
                events.append(message)
            elif what.code() == kafka.KafkaError._PARTITION_EOF:
                self._at[message.partition()] = max(
                    self._at.get(message.partition(), 0), message.offset()
                )
            else:
                self._noted(what)
        return events

    def _move(self, messages: Sequence[Any]) -> None:
        """Move the offsets past these messages, the last that the client gave."""
        if self._asked:
            for place in self._consumer.position(self._asked):
                self._at[place.partition] = max(self._at[place.partition], place.offset)
            return
        last = {messages[-1].partition(): messages[-1]}
        if len(self._at) > 1:
            partitions = list(map(client().Message.partition, messages))
            if partitions.count(partitions[0]) < len(partitions):
                last = dict(zip(partitions, messages, strict=True))
        for partition, message in last.items():
            self._at[partition] = max(self._at[partition], message.offset() + 1)

    def _told(self, error: Any) -> str:
        """The problem in plain words, with the client's name of the error."""
        unknown = client().KafkaError
        known = {
            unknown.UNKNOWN_TOPIC_OR_PART: f"there is no topic {self.topic!r}",
            unknown._TIMED_OUT: "no broker answers",
            unknown._ALL_BROKERS_DOWN: "no broker answers",
            unknown._TRANSPORT: "no broker answers",
            unknown._AUTHENTICATION: "the login is refused",
        }
        problem = known.get(error.code(), "the client has a problem")
        return f"kafka: {problem} ({error.name()}); {self._units_meanwhile}."

    @property
    def _units_meanwhile(self) -> str:
        waits = self.outage == "wait"
        return "units stay open until it is back" if waits else "units go on by the clock"

    def _noted(self, error: Any) -> None:
        """Note an error that time, or the next question about the topic, will resolve."""
        self._problem = self._told(error)
        if error.code() == client().KafkaError._AUTO_OFFSET_RESET:
            self._assigned = False

    # -- the client's settings ---------------------------------------------------------------------

    def _reading(self) -> dict[str, Any]:
        return {
            **self._connection(),
            "group.id": self.group,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "fetch.queue.backoff.ms": 10,
            "topic.metadata.refresh.interval.ms": REFRESH_MS,
            "queued.max.messages.kbytes": MAX_BYTES_AHEAD // 1024,
            "error_cb": self._noted,
        }

    def _connection(self) -> dict[str, Any]:
        return kafka_settings(
            self.servers, self.username, self.password, self.mechanism, self.tls, self.authority
        )


def _position_of(name: str, offsets: Mapping[int, int]) -> Position:
    return {TOPIC_FIELD: name, **{str(each): offsets[each] for each in sorted(offsets)}}


def offsets_of(position: Position) -> dict[int, int]:
    """The next offset of each partition."""
    return _offsets(position)[1]


def _offsets(position: Position) -> tuple[str, dict[int, int]]:
    """The topic's id and the next offset of each partition."""
    name = position.get(TOPIC_FIELD)
    rest = {key: offset for key, offset in position.items() if key != TOPIC_FIELD}
    good = isinstance(name, str) and all(
        key.isdecimal() and type(offset) is int and offset >= 0 for key, offset in rest.items()
    )
    if not good or not isinstance(name, str):
        raise StateError("the position is not one of Kafka.")
    return name, {int(key): int(offset) for key, offset in rest.items()}


def _format(setup: SourceSetup) -> MessageFormat:
    match setup.options["format"]:
        case "avro":
            return AvroMessages(setup.read("schema_file"), framed=setup.options["framed"])
        case "arrow":
            return ArrowMessages()
        case _:
            return JsonMessages()


def _build(setup: SourceSetup) -> Source:
    options = setup.options
    return KafkaSource(
        intake=setup.intake,
        servers=options["servers"],
        topic=options["topic"],
        group=options["group"],
        format=_format(setup),
        mechanism=options["mechanism"],
        outage=options["outage"],
        accept_loss=options["accept_loss"],
        **connection(setup),
    )


KIND = SourceKind(
    name="kafka",
    summary="All partitions of a Kafka topic. Offsets are kept in the store, not in Kafka.",
    options=(
        *KAFKA_OPTIONS,
        Option(
            name="group",
            default="penstock",
            example="penstock",
            help="the name by which the broker knows this reader; nothing is committed to it",
        ),
        Option(
            name="format",
            choices=("json", "avro", "arrow"),
            default="json",
            help="how messages are written",
        ),
        Option(
            name="schema_file",
            type="path",
            required=True,
            when=("format", "avro"),
            example="tap.avsc",
            help="the file with the Avro schema",
        ),
        Option(
            name="framed",
            type="flag",
            when=("format", "avro"),
            example=True,
            help="whether messages begin with the id of a schema (default: found out per message)",
        ),
        Option(
            name="outage",
            choices=("close", "wait"),
            default="close",
            help="whether units close by the clock while no broker answers, or stay open until "
            "everything that the broker had when it came back was read",
        ),
        Option(
            name="accept_loss",
            type="flag",
            default=False,
            help="true to go on although the broker deleted events before they were read",
        ),
    ),
    describe=lambda options: f"Kafka topic {options['topic']!r}",
    check=check_login,
    extra="kafka",
    modules=("confluent_kafka",),
    build=_build,
    no_dry_run="",  # offsets are kept in the store, which a dry run does not open
)


if not TYPE_CHECKING:
    __getattr__ = moved(__name__)
