"""The two loops of a publisher: through a finite input, and along a live stream."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

from penstock.core.errors import InputError, StateError, UnreadableRowsError, UnusableSourceError
from penstock.engine import committer as commits
from penstock.engine import pacing as paces
from penstock.engine.committer import Committer
from penstock.engine.deliveries import Deliveries
from penstock.engine.notices import Notifier
from penstock.engine.pacing import ClockGuard, ReleasePacing
from penstock.engine.source_progress import SourceProgress
from penstock.engine.view_run import ViewRun
from penstock.engine.waiting import Backoff, StopFlag
from penstock.private.sources.base import Receiver
from penstock.private.units import Clock, ReplayClock

MAX_PENDING_EVENTS = 3_000_000
"""Events that are read and not stored. Beyond that they are stored before their unit closes."""

RETRY_SECONDS = (1.0, 30.0)
"""The first and the longest pause before a source that failed is asked again."""


@dataclass(kw_only=True, eq=False)
class PublishingLoop:
    """What both loops share: draw the units that are due, then commit them."""

    clock: Clock
    progress: SourceProgress
    committer: Committer
    deliveries: Deliveries
    pacing: ReleasePacing
    stop: StopFlag

    @property
    def problem(self) -> str:
        """Why the source cannot be read just now; empty if all is well."""
        return ""

    @property
    def may_close(self) -> bool:
        """Whether a unit may close now."""
        return True

    def draw(self, now: int) -> bool:
        """Draw the next unit of every view that has one due; return whether any waits for its
        commit.

        Nothing is drawn while the store may be an old backup, or while an earlier unit waits to be
        shown.
        """
        if not self.show() or not self.deliveries.witnessed():
            return False
        for view in self.committer.views:
            due = view.counting.due(now) if view.prepared is None and self.may_close else range(0)
            if due and self._countable(view, due):
                self.progress.check.before_release(complete=self.progress.complete)
                self.committer.when_available(partial(view.prepare, due[0]))  # it may be read there
                self.pacing.schedule(view.closes(due[0]), catching_up=len(due) > 1)
        return any(view.prepared for view in self.committer.views)

    def _countable(self, view: ViewRun, due: range) -> bool:
        """Whether the first of these units can be counted now. Where counting reads a range of the
        input again, that range is stored before.
        """
        if any(each.counting.unstored for each in self.committer.views):
            self.committer.save()
        return view.counting.ready(due)

    def show(self) -> bool:
        """Show the units that wait for that; return whether none is left."""
        if not self.committer.hidden:
            return True
        if not self.committer.show():
            return False
        self.deliveries.wake()
        return True

    def commit(self) -> None:
        """Commit the drawn units, and tell the deliveries."""
        self.committer.commit()
        self.deliveries.wake()
        self.progress.health.judge()


@dataclass(kw_only=True, eq=False)
class ReplayLoop(PublishingLoop):
    """Reads a finite input to its end.

    A unit closes as soon as the input itself shows that it is complete, the others at the end.
    """

    clock: ReplayClock
    patience: float

    def run(self) -> None:
        source, after = self.progress.source, self.progress.position
        for batch in source.batches(after) if source.resumable else source.batches():
            self.progress.count_replayed(batch, self.clock.end)
            if batch.certain is not None:
                self.clock.beat(min(batch.certain, self.clock.end))
                self._release_all()
            self.committer.leases.renew_if_due()
            if self.stop.is_set():
                return
        self.progress.complete = True
        self.clock.finish()
        self._release_all()
        self.committer.erase()

    def _release_all(self) -> None:
        deadline = self.stop.runtime.monotonic() + self.patience
        while not self.deliveries.witnessed() and not self.stop.wait(paces.IDLE_SECONDS):
            if self.stop.runtime.monotonic() > deadline:
                raise StateError(
                    f"{self.deliveries.doubt} Nothing was released. Start again when one of them "
                    "can be reached."
                )
            self.committer.leases.renew_if_due()
        while self._all_shown() and self.draw(self.clock.now()):
            self.commit()

    def _all_shown(self) -> bool:
        """Wait until no unit is left to be shown; return False if a stop is wanted before."""
        while not self.show() and not self.stop.wait(paces.IDLE_SECONDS):
            self.committer.leases.renew_if_due()
        return not self.stop.is_set()


@dataclass(kw_only=True, eq=False)
class LiveLoop(PublishingLoop):
    """Reads a live stream until it is stopped, and releases units by the clock."""

    notify: Notifier
    _away_at: int | None = None  # when the source was last away, if units wait for it
    _problem: str = ""
    _retry_at: float = 0.0
    _backoff: Backoff = field(default_factory=lambda: Backoff(*RETRY_SECONDS))

    @property
    def problem(self) -> str:
        return self._problem

    @property
    def may_close(self) -> bool:
        """Not while a source that units wait for is away or behind, nor for the lateness after
        that: senders that could not reach the broker send what they have kept.
        """
        if not self.progress.source.complete:
            return False
        lateness = max(view.lateness for view in self.committer.views)
        return self._away_at is None or self.clock.now() >= self._away_at + lateness

    def run(self) -> None:
        """Read, store what a sender waits for, release what is due; then again.

        Everything that is there is read before the clock is asked: a unit that ended while nobody
        was reading still gets the events that came for it.
        """
        shortest = min(
            view.view.calendar.end(1) - view.view.calendar.start(1) for view in self.committer.views
        )
        guard = ClockGuard(self.clock, self.stop.runtime, unit_seconds=shortest.total_seconds())
        while not self.stop.is_set():
            now = guard.now()
            self.read()
            if self.stop.is_set():
                return
            if self.progress.sender_waits:
                self.committer.save()
            if self.draw(now) and self.pacing.wait():
                self.commit()
                continue
            if self.progress.source.ended:
                return  # standard input has ended, and open units are stored at the end
            self.committer.leases.renew_if_due()
            self.committer.erase()
            self._rest()

    def read(self) -> None:
        """Count all events that the source has now.

        A source that fails, or asks for it, is asked again after a pause, and before a unit
        closes. A source that cannot go on (`StateError`) ends the publisher: units without events
        would say that nothing happened.
        """
        if self.stop.runtime.monotonic() < self._retry_at and not self._unit_ends():
            return
        try:
            for batch in self.progress.source.batches(self.progress.position):
                self.progress.count_live(batch, self.clock.now())
                self._backoff.reset()
                if self.progress.pending > MAX_PENDING_EVENTS:
                    self.committer.save()
                self.committer.leases.renew_if_due()
                if self.stop.is_set():
                    return
        except InputError as error:
            self._pass_on_notes()
            if isinstance(error, UnreadableRowsError) or (
                isinstance(error, UnusableSourceError) and self.progress.check.untried
            ):
                raise  # nothing was released from this source with this configuration
            if self.progress.source.ended:  # it cannot be read a second time
                self.committer.save()
                raise
            self._retry_at = self.stop.runtime.monotonic() + self._backoff.next_pause()
            self._set_problem(str(error), " It is asked again; units still close by the clock.")
        else:
            self._pass_on_notes()
            self._set_problem(self.progress.source.problem)
            self._retry_at = self.stop.runtime.monotonic() + self.progress.source.pause
        if not self.progress.source.complete:
            self._away_at = self.clock.now()
        self.progress.health.tell()

    def _unit_ends(self) -> bool:
        now = self.clock.now()
        return any(
            view.closes(view.closed + 1) <= now
            for view in self.committer.views
            if view.closed < view.view.calendar.last
        )

    def _pass_on_notes(self) -> None:
        for text in self.progress.source.notes():
            self.notify("source", text, level="warning")

    def _set_problem(self, problem: str, consequence: str = "") -> None:
        if problem == self._problem:
            return
        self._problem = problem
        if problem:
            self.notify("source", problem + consequence, level="warning")
        else:
            self.notify("source", "the source is back.")

    def _rest(self) -> None:
        """Wait until events come, the next unit is due, or the lease needs renewal."""
        now = self.clock.now()
        moments = [
            self.pacing.leaves_at if view.prepared else view.closes(view.closed + 1)
            for view in self.committer.views
            if view.closed < view.view.calendar.last
        ]
        seconds = min((min(moments, default=now) - now) / 1e6, commits.LEASE_SECONDS / 3)
        if self.committer.hidden or self.deliveries.doubt or not self.may_close:
            seconds = paces.IDLE_SECONDS  # nothing is drawn before somebody else has answered
        if seconds <= 0:
            return
        source = self.progress.source
        if isinstance(source, Receiver) and self.stop.runtime.monotonic() >= self._retry_at:
            source.wait(min(seconds, paces.IDLE_SECONDS))
        else:
            self.stop.wait(min(seconds, paces.IDLE_SECONDS))
