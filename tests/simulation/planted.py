"""Bugs that are planted on purpose, each as a small patch. The simulation must find them all."""

from __future__ import annotations

import hashlib
from contextlib import contextmanager, suppress
from dataclasses import replace
from unittest.mock import patch

from penstock.engine.chain import HeadFile, after_line, after_release
from penstock.engine.committer import Committer
from penstock.engine.publishing_loop import PublishingLoop
from penstock.engine.sql_store.leases import Leases
from penstock.engine.sql_store.sealed_state import SealedState
from penstock.engine.sql_store.store import SqlStore
from penstock.engine.sqlite import SQLiteWriter
from penstock.engine.view_run import ViewRun
from penstock.private.sources.idempotency import IdempotencyKeys
from penstock.released import encoding
from penstock.released.sinks.base import ReleaseItem, SinkError


@contextmanager
def draw_twice_after_a_lost_answer():
    """A commit whose answer was lost is drawn again, and not compared with the store."""
    prepare = ViewRun.prepare

    def remembering(self, unit):
        self.before = None if self.run.last is None else self.run.snapshot()
        return prepare(self, unit)

    def drawn_again(self, drawn):
        for view in self.views:
            if view.name in drawn:
                noise = view.run._gate._maker.noise
                view.run = view.view.mechanism.run(view.run.domain, noise=noise)
                if view.before is not None:
                    view.run.load(view.before)
                view.prepared = None
                prepare(view, drawn[view.name].unit)
        return False

    with (
        patch.object(ViewRun, "prepare", remembering),
        patch.object(Committer, "_is_stored", drawn_again),
    ):
        yield


@contextmanager
def answer_before_the_sync():
    """Senders are answered before their events are stored."""
    write = Committer._write

    def hasty(self, *, commit):
        batch = self._progress._unstored
        if batch is not None:
            self._progress.source.kept(batch)
        write(self, commit=commit)

    with patch.object(Committer, "_write", hasty):
        yield


@contextmanager
def sink_before_store():
    """Sinks get a unit that is drawn and not stored."""
    commit = PublishingLoop.commit

    def hasty(self):
        for delivery in self.deliveries:
            for view in self.committer.views:
                if view.prepared and delivery._sink is not None:
                    with suppress(SinkError):
                        delivery._sink.put([_item(delivery._store, view)])
        commit(self)

    def _item(store, view):
        unit, release = view.prepared.unit, view.prepared.release
        link = store.head(view.name).link
        for line in view.prepared.lines:
            link = after_line(link, line)
        digest = hashlib.sha256(encoding.body(release)).digest()
        link = after_release(link, unit, encoding.flags(release), digest)
        calendar = view.view.calendar
        return ReleaseItem(
            series=view.series,
            unit=unit,
            begins=calendar.start(unit),
            ends=calendar.end(unit),
            release=release,
            link=link.hex(),
        )

    with patch.object(PublishingLoop, "commit", hasty):
        yield


@contextmanager
def head_after_release():
    """A unit is shown first, and the head moves after that."""
    advance, show = SqlStore._advance, SqlStore._show

    def hasty(self, names, pending):
        waiting = {name: rows for name, rows in pending.items() if name in names}
        if waiting:
            show(self, waiting)
        advance(self, names, pending)

    with (
        patch.object(SqlStore, "_advance", hasty),
        patch.object(SqlStore, "_show", lambda self, pending: None),
    ):
        yield


@contextmanager
def lease_not_checked():
    """A publisher whose lease another one has taken goes on."""

    def trusting(self, series):
        held = self._store._lease(series)
        return replace(held, owner=self._owner, number=self._held[series][0])

    with patch.object(Leases, "check", trusting):
        yield


@contextmanager
def no_sync():
    """The store does not wait until a transaction is on the disk."""
    whole = SQLiteWriter._whole

    @contextmanager
    def hasty(self, kind):
        with whole(self, "repeatable" if kind in ("write", "alone") else kind):
            yield

    with patch.object(SQLiteWriter, "_whole", hasty):
        yield


@contextmanager
def keys_forgotten():
    """The idempotency keys of kept requests are not known after a restart."""
    with patch.object(IdempotencyKeys, "restore", lambda self, parts: None):
        yield


@contextmanager
def head_not_compared():
    """The head is overwritten, whatever is there."""

    def overwrite(self, before, after):
        self.update(after)
        return after

    with (
        patch.object(HeadFile, "swap", overwrite),
        patch.object(SqlStore, "_check_fence", _no_check),
    ):
        yield


@contextmanager
def failed_pieces_left_out():
    """Pieces of the state count as written also after a commit that failed."""
    put_pieces = SealedState.put_pieces

    def hasty(self, series, pieces, change):
        if newest := list(self._digests.get(series, {}).values()):
            self._digests[series] = {change.before: newest[-1]}
        put_pieces(self, series, pieces, change)

    with patch.object(SealedState, "put_pieces", hasty):
        yield


def _no_check(self, fence, series):
    self._fence_heads[series.name] = None


PLANTED = {
    draw_twice_after_a_lost_answer: 4,
    answer_before_the_sync: 11,
    sink_before_store: 7,
    head_after_release: 85,
    lease_not_checked: 10,
    no_sync: 22,
    keys_forgotten: 69,
    head_not_compared: 36,
    failed_pieces_left_out: 4,
}
"""Each bug, and a seed that finds it. The search begins there, to save time."""
