"""The world outside the publisher: senders, sinks on other machines, and noise that is noted."""

from __future__ import annotations

from contextlib import contextmanager
from fractions import Fraction

import numpy as np

from penstock.core.declaration import Option
from penstock.core.errors import InputError
from penstock.private.sources.base import Batch, Receiver, Rejections
from penstock.private.sources.idempotency import Entry, IdempotencyKeys
from penstock.private.sources.inbox import KEPT, Inbox, Sending
from penstock.released.sinks.base import SinkError, SinkKind, in_order, missing

from tests.simulation.witnesses import Parcel

SENDER_PATIENCE = 30.0

# -- noise -----------------------------------------------------------------------------------------


class NotedNoise:
    """Noise that never repeats, so that a second draw shows; every draw is noted."""

    private = False

    def __init__(self, world, process, series):
        self.world, self.process, self.series = world, process, series

    def laplace(self, scale, size, *, unit, label, fresh=False):
        values = self._values(size, Fraction(scale))
        self._note(unit, label, values)
        return values

    def laplace_each(self, scales, which, *, unit, label, fresh=False):
        values = self._values(len(which), max(map(Fraction, scales)))
        self._note(unit, label, values)
        return values

    def thin(self, counts, keep, *, unit, label):
        return counts

    def gaussian(self, variance, size, *, unit, label):
        raise NotImplementedError

    def refresh(self):
        return

    def erase(self):
        return

    def memory(self):
        return {}

    def _values(self, size, scale):
        draw = self.world.noise.randint
        return np.array([1_000 * draw(-50, 50) for _ in range(size)], np.int64)

    def _note(self, unit, label, values):
        if len(values):
            self.world.witnesses.draws(self.process.name, self.series, unit, label, values)


# -- senders ---------------------------------------------------------------------------------------


class SimulatedReceiver(Receiver):
    """The HTTP source without its server: the same inbox, the same answers, the same keys."""

    def __init__(self, world, process):
        self.rejections = Rejections()
        self.world, self.process = world, process
        self.is_open = False
        self.inbox = Inbox(
            rows=1_000,
            most_events=10_000,
            most_bytes=2**20,
            seen=IdempotencyKeys(window=1_000),
            rejections=self.rejections,
        )

    @property
    def resumable(self):
        return True

    @property
    def answers(self):
        return True

    def open(self, parts):
        self.inbox.seen.restore(parts)
        self.is_open = True

    def wait(self, seconds):
        self.world.scheduler.pause(seconds, lambda: bool(self.inbox._ready))

    def batches(self, after=None):
        if self.world.op(self.process, "receive", None) is not None:
            raise InputError("the simulated network is down.")
        for batch in self.inbox.batches(after):
            self.world.handed(self.process, batch)
            yield batch

    def kept(self, batch):
        self.world.op(self.process, "answer", None)
        self.inbox.kept(batch)

    def close(self):
        self.is_open = False
        self.inbox.close()


class SimulatedSender:
    """Sends one event after the other, and each again until it is answered."""

    def __init__(self, world, number):
        self.world, self.number = world, number
        self.random = world.random

    def run(self):
        world, sent = self.world, 0
        while True:
            world.scheduler.pause(self.random.expovariate(1.2) + 0.01)
            if world.scheduler.now > world.plan.seconds:
                return
            sent += 1
            parcel = world.new_parcel()
            for _ in range(20):
                if self._send(parcel):
                    break
                world.scheduler.pause(self.random.uniform(0.2, 3.0))

    def _send(self, parcel: Parcel) -> bool:
        """Send once; whether the answer came that all is kept."""
        world = self.world
        fault = world.outside_fault("sender")
        process = world.receiving()
        if process is None or fault == "lost request":
            return False
        inbox = process.source.inbox
        outcomes = [self._enter(inbox, parcel)]
        if fault == "duplicate":
            outcomes.append(self._enter(inbox, parcel))
        answered = outcomes[-1]
        world.scheduler.pause(SENDER_PATIENCE, answered.done)
        if not answered.done() or answered.result() != KEPT or fault == "lost answer":
            return False
        parcel.answered_by.append((process.name, world.scheduler.now))
        return True

    def _enter(self, inbox, parcel):
        sending = Sending(entry=Entry.of(f"parcel {parcel.number}", b"the same"))
        first = inbox.enter(sending)
        if first is sending and not sending.outcome.done():
            batch = Batch(
                time=np.array([parcel.time], np.int64),
                key=np.array([parcel.key], np.int64),
                person=None,
                position=None,
            )
            reply = inbox.add(sending, batch)
            if reply is None:
                inbox.put(sending)
            else:
                inbox.refuse(sending, reply)
        return first.outcome


# -- sinks -----------------------------------------------------------------------------------------

WORLD: list = []
"""The world that runs: a declared sink finds it here."""


class SimulatedSink:
    """A sink on another machine: it keeps what it gets, and requests and answers may be lost.

    A topic takes everything that comes. The others refuse another content of a unit that they have.
    """

    def __init__(self, kind):
        self.kind = kind
        self.world = WORLD[-1]
        self.process = self.world.process
        self.kept = self.world.sinks.setdefault(kind, {})

    def head(self, series):
        with self._exchange(["head"]):
            newest = self.kept.get(series)
        return newest[-1] if newest else None

    def put(self, items):
        with self._exchange(items) as arrived:
            for series, each in in_order(items[:arrived]).items():
                kept = self.kept.setdefault(series, [])
                fresh = each
                if self.kind == "remote":
                    fresh = missing(each, kept[-1] if kept else None)
                for item in fresh:
                    self.world.witnesses.sees(
                        f"sink {self.kind}", series, item.unit, item.link, item.release.value
                    )
                    kept.append((item.unit, item.link))

    @contextmanager
    def _exchange(self, items):
        fault = self.world.op(self.process, "send", None, switches=True)
        if fault == "lost request":
            raise SinkError("the request was lost.")
        yield self.world.random.randint(0, len(items)) if fault == "short" else len(items)
        if fault in ("lost answer", "short"):
            raise SinkError("the answer was lost.")
        self.world.op(self.process, "sent", None)

    def close(self):
        return


def _kind(name, **options):
    return SinkKind(
        name=name,
        summary="A sink of the simulated world.",
        options=(Option(name="place", help="where", example="there"),),
        describe=lambda _: "the simulated world",
        build=lambda setup: SimulatedSink(name),
        **options,
    )


REMOTE = _kind("remote")
TOPIC = _kind("topic", refuses=False)
MARKED = _kind("marked", reports=False, refuses=False)
