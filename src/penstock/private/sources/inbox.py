"""Requests that are not on disk yet, between the server's thread and the engine's thread."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from threading import Condition
from typing import NamedTuple

import numpy as np

from penstock.core.arrays import IntArray
from penstock.core.errors import StateError
from penstock.private.sources.base import (
    Arrow,
    Batch,
    Position,
    Rejections,
    batch_number,
    joined_texts,
)
from penstock.private.sources.idempotency import Entry, IdempotencyKeys

REQUEST_OVERHEAD_BYTES = 1024
"""The bytes that a request counts for without any events."""


ALMOST_ALONE = 8
"""A request is almost alone if others take at most this part of the limits."""


class SenderReply(NamedTuple):
    """The answer to a sender: an HTTP status and a sentence without data."""

    status: int
    text: str


KEPT = SenderReply(200, "kept")
BUSY = SenderReply(429, "too much is waiting; nothing was taken. Send it again later.")
CLOSED = SenderReply(503, "the server is closing; this was not kept. Send it again.")
UNSURE = SenderReply(
    503,
    "the server is closing, and this may be kept or not. "
    "Send it again with the same idempotency key.",
)
OTHER = SenderReply(422, "this idempotency key came before with another body; nothing was taken.")


@dataclass(kw_only=True, eq=False)
class Sending:
    """One request: who waits for its outcome, and its events as far as they are read.

    `held` is the number of bytes that are reserved for its body, `size` for its events.
    """

    entry: Entry | None = None
    held: int = 0
    outcome: Future[SenderReply] = field(default_factory=Future, repr=False)
    rejections: Rejections = field(default_factory=Rejections)
    batches: list[Batch] = field(default_factory=list, repr=False)
    events: int = 0
    size: int = 0

    def answer(self, answer: SenderReply) -> None:
        if not self.outcome.done():
            self.outcome.set_result(answer)


@dataclass(kw_only=True, eq=False)
class Inbox:
    """Holds requests up to a limit of events and bytes, and gives batches of at most `rows` events.

    Batches that were given still count, and are given again after an earlier position, until they
    are `kept`. Every method may be called from any thread, but `batches`, `kept` and `close` from
    one only.
    """

    rows: int
    most_events: int
    most_bytes: int
    seen: IdempotencyKeys
    rejections: Rejections
    closed: bool = field(default=False, init=False)
    _events: int = field(default=0, init=False, repr=False)
    _bytes: int = field(default=0, init=False, repr=False)
    _ready: deque[Sending] = field(default_factory=deque, init=False, repr=False)
    _open: dict[bytes, Sending] = field(default_factory=dict, init=False, repr=False)
    _handed: deque[tuple[int, Batch, list[Sending]]] = field(
        default_factory=deque, init=False, repr=False
    )
    _kept: int = field(default=0, init=False, repr=False)
    _last: int | None = field(default=None, init=False, repr=False)
    _changed: Condition = field(default_factory=Condition, init=False, repr=False)

    def reserve(self, size: int) -> bool:
        """Reserve this many bytes if there is space. Returns whether there was."""
        with self._changed:
            fits = self._bytes + size <= self.most_bytes and self._events < self.most_events
            self._bytes += size if fits else 0
            return fits

    def release(self, size: int) -> None:
        with self._changed:
            self._bytes -= size

    def enter(self, sending: Sending) -> Sending:
        """The request whose outcome this one shares: itself, or an earlier one of its key."""
        entry = sending.entry
        with self._changed:
            if self.closed:
                sending.answer(CLOSED)
            elif entry is not None:
                before = self._open.setdefault(entry.key, sending)
                body = self.seen.body(entry.key) if before is sending else None
                if body is not None:
                    del self._open[entry.key]
                    sending.answer(KEPT if body == entry.body else OTHER)
                elif before.entry == entry:
                    return before
                else:
                    sending.answer(OTHER)
            return sending

    def add(self, sending: Sending, batch: Batch) -> SenderReply | None:
        """Add events of a request that is being read; the reply if there is no space for them.

        Space is counted in the decoded columns.
        """
        size = sum(
            column.nbytes for column in (batch.time, batch.key, batch.person) if column is not None
        )
        with self._changed:
            reply = self._no_space(sending, len(batch), size)
            if reply is None:
                sending.batches.append(batch)
                sending.events += len(batch)
                sending.size += size
                self._events += len(batch)
                self._bytes += size
            return reply

    def hold(self, sending: Sending, size: int) -> SenderReply | None:
        """Reserve more bytes for the body of a request that is being read."""
        with self._changed:
            reply = self._no_space(sending, 0, size)
            if reply is None:
                sending.held += size
                self._bytes += size
            return reply

    def _no_space(self, sending: Sending, events: int, size: int) -> SenderReply | None:
        """The reply if there is no space for more of this request.

        A request that is almost alone has space beyond the limits, so that the largest one can come
        at all. The limits of a body bound it.
        """
        if self.closed:
            return CLOSED
        alone = (
            self._events - sending.events <= self.most_events // ALMOST_ALONE
            and self._bytes - sending.held - sending.size <= self.most_bytes // ALMOST_ALONE
        )
        fits = self._events + events <= self.most_events and self._bytes + size <= self.most_bytes
        return None if alone or fits else BUSY

    def put(self, sending: Sending) -> None:
        """Queue a request that was read, and release the bytes of its body."""
        with self._changed:
            if self.closed:
                self._refuse(sending, CLOSED)
                return
            self._bytes += REQUEST_OVERHEAD_BYTES - sending.held
            sending.size += REQUEST_OVERHEAD_BYTES
            sending.held = 0
            self._ready.append(sending)
            self._changed.notify_all()

    def refuse(self, sending: Sending, answer: SenderReply) -> None:
        """Refuse the request. Its key may come again. Its bad rows are counted."""
        with self._changed:
            self._refuse(sending, answer)
            self._count(sending)

    def _refuse(self, sending: Sending, answer: SenderReply) -> None:
        self._events -= sending.events
        self._bytes -= sending.size + sending.held
        sending.events = sending.size = sending.held = 0
        sending.batches.clear()
        if sending.entry is not None:
            self._open.pop(sending.entry.key, None)
        sending.answer(answer)

    def _count(self, sending: Sending) -> None:
        self.rejections.add_all(sending.rejections)

    def wait(self, seconds: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._ready or self.closed, seconds)

    def batches(self, after: Position | None) -> Iterator[Batch]:
        """The batches given after the position and not kept, then the requests that wait now."""
        number = batch_number(after, "HTTP")
        with self._changed:
            if self._last is None:
                self._kept = self._last = number
            if not self._kept <= number <= self._last:
                raise StateError("http: the position is not one that this source has given last.")
            again = [batch for place, batch, _ in self._handed if place > number]
            coming = len(self._ready)
        yield from again
        while coming:
            with self._changed:
                some = self._next(coming)
                parts = self.seen.add(each.entry for each in some if each.entry is not None)
            if not some:
                return
            coming -= len(some)
            batches = [batch for each in some for batch in each.batches]
            for each in some:
                each.batches.clear()
            batch = replace(merged(batches), position={"batch": self._last + 1}, parts=parts)
            del batches
            with self._changed:
                self._last += 1
                self._handed.append((self._last, batch, some))
            yield batch

    def _next(self, most: int) -> list[Sending]:
        """The first waiting requests, up to `rows` events, but at least one."""
        some: list[Sending] = []
        events = 0
        while self._ready and len(some) < most:
            events += self._ready[0].events
            if some and events > self.rows:
                break
            some.append(self._ready.popleft())
            self._count(some[-1])
        return some

    def kept(self, batch: Batch) -> None:
        """Answer the senders of this batch and of all before it: their events are on disk."""
        number = batch_number(batch.position, "HTTP")
        with self._changed:
            if self._last is None or number > self._last:
                raise StateError("http: a batch that this source has not given cannot be kept.")
            while self._handed and self._handed[0][0] <= number:
                self._kept, done, sendings = self._handed.popleft()
                self._events -= len(done)
                for sending in sendings:
                    self._bytes -= sending.size
                    if sending.entry is not None:
                        self._open.pop(sending.entry.key, None)
                    sending.answer(KEPT)

    def close(self) -> None:
        """Refuse all further requests and those that wait."""
        with self._changed:
            self.closed = True
            for _, _, sendings in self._handed:
                for sending in sendings:
                    sending.answer(UNSURE)
            for sending in (*self._ready, *self._open.values()):
                sending.answer(CLOSED)
            self._ready.clear()
            self._changed.notify_all()


def merged(batches: Sequence[Batch]) -> Batch:
    """The events of all batches in one."""
    return Batch(
        time=_joined([each.time for each in batches]),
        key=_joined([each.key for each in batches]),
        person=_persons([each.person for each in batches]),
        position=None,
    )


def _joined(arrays: Sequence[IntArray]) -> IntArray:
    """One array, aligned in memory as compiled loops need it."""
    whole = arrays[0] if len(arrays) == 1 and arrays[0].flags.aligned else np.concatenate(arrays)
    whole.flags.writeable = False
    return whole


def _persons(columns: Sequence[Arrow]) -> IntArray | Arrow | None:
    if columns[0] is None:
        return None
    if isinstance(columns[0], np.ndarray):
        return _joined(columns)
    if len(columns) == 1:
        return columns[0]
    return joined_texts(columns)
