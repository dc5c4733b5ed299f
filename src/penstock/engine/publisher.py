"""The publisher: events in, units released exactly once, sinks told. One thread does all of it;
sinks and servers have theirs.

The order of things
-------------------
1. What the source has now is read into the open units of every view.
2. A unit that the clock has closed is drawn, once, in memory.
3. In **one** transaction of the store: ledger lines, release, state of the mechanism, what is kept
   of open units, and the place in the source, for all views. Before it nobody has seen anything,
   and a crash leaves nothing behind; after it the release stands for ever. If the transaction
   fails, the same bytes are tried again: nothing is ever drawn a second time.
4. Senders that wait are answered, and sinks read the new units from the store.

In a live stream a release leaves on the clock, `pace` after its unit has closed, whatever the work
took.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Literal, Self, TypeAlias

from penstock.core.calendar import duration, instant
from penstock.core.errors import ConfigurationError, InputError, PenstockError, StateError
from penstock.engine import factory
from penstock.engine.delivery import Delivery
from penstock.engine.pipeline import Pipeline
from penstock.engine.process_lock import ProcessLock
from penstock.engine.sqlite import SQLiteStore
from penstock.engine.store import LeaseError, Store
from penstock.engine.view_run import PreparedUnit, ViewRun
from penstock.private.noise import Noise
from penstock.private.sources.base import Batch, Position, Receiver, Source
from penstock.private.units import Clock, ReplayClock, SystemClock
from penstock.released.log import same

PENDING = 3_000_000
"""Events that are read and not kept, at most: then they are kept, without a unit being released."""

LEASE = 30.0
"""Seconds that a lease lasts. It is renewed after a third of that."""

CLOSING = 5.0
"""Seconds that each sink has for what it is in the middle of, when all is closed."""

ANSWER = 10.0
"""Seconds that sinks have to say what they hold before anything is published; one that is slower
says it later.
"""

IDLE = 0.2
"""Seconds until a source that cannot call is asked again."""

LEAP = 600.0
"""Seconds that a clock may go ahead of the time that has passed."""

COMMITS = 20
"""Commits whose times are remembered, for the operator."""

_SOURCE = "source "

Level: TypeAlias = Literal["info", "warning", "error"]
State: TypeAlias = Literal["starting", "publishing", "ended", "failed"]


@dataclass(frozen=True, kw_only=True)
class Notice:
    """Something that happened, fit for a log: public, or at least without any data."""

    what: str
    stream: str = ""
    unit: int = 0
    text: str = ""
    level: Level = "info"


Listener = Callable[[Notice], None]


class StopFlag:
    """Whether it was asked to stop. A signal handler may say so in the middle of a wait, so there
    is no lock to wait for.
    """

    def __init__(self) -> None:
        self._flag = False

    def set(self) -> None:
        self._flag = True

    def is_set(self) -> bool:
        return self._flag

    def wait(self, seconds: float) -> bool:
        """Until it was asked, or so many seconds."""
        deadline = time.monotonic() + seconds
        while not self._flag and (left := deadline - time.monotonic()) > 0:
            time.sleep(min(left, 0.05))
        return self._flag


class Publisher:
    """One stream with all its views, from its source to its sinks.

    `clock` and `noise` are the system's unless a test says otherwise; `noise` is asked once for
    each view. `store` may be shared by several publishers in one process. `listener` hears what
    happens, from several threads.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        *,
        clock: Clock | None = None,
        noise: Callable[[], Noise | None] = lambda: None,
        store: Store | None = None,
        source: Source | None = None,
        listener: Listener = lambda told: None,
        takeover: bool = False,
        patience: float | None = None,
    ) -> None:
        self.pipeline = pipeline
        self.finite = (
            factory.finite(pipeline) if source is None else pipeline.stream.until is not None
        )
        self.reading = True
        self.state: State = "starting"
        self.problem = ""
        self._listener = listener
        self._takeover = takeover
        self._patience = (
            patience if patience is not None else (30.0 if self.finite else float("inf"))
        )
        self._clock: Clock = clock or (ReplayClock(self._end()) if self.finite else SystemClock())
        self._pace = 0 if self.finite else duration(pipeline.stream.pace, name="pace")
        self._stopping = StopFlag()
        self._fatal: PenstockError | None = None
        self._closing = ExitStack()
        self._position: Position | None = None
        self._trail: deque[tuple[Position | None, tuple[int, ...]]] = deque()
        self._parts: dict[str, bytes | None] = {}
        self._unkept: Batch | None = None
        self.took: deque[float] = deque(maxlen=COMMITS)
        self._pause = 0.0
        self._again = 0.0
        self._renewed = 0.0
        self._held = 0.0
        self._leaves = 0
        self._paced = False
        self._shown = False
        self._doubt = ""
        self._leap: tuple[float, float] | None = None
        try:
            self.source = source or factory.source(pipeline)
            self.store = store or self._closing.enter_context(factory.store(pipeline))
            folder = self.store.path.parent if isinstance(self.store, SQLiteStore) else None
            self.tracks = tuple(
                ViewRun(pipeline, view, finite=self.finite, noise=noise(), folder=folder)
                for view in pipeline.views
            )
            self.outlets = tuple(self._outlets())
            self._begin()
        except BaseException:
            self._closing.close()
            raise

    def __repr__(self) -> str:
        return (
            f"<Publisher of {self.pipeline.stream.name!r}, {'finite' if self.finite else 'live'}>"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- beginning ---------------------------------------------------------------------------------

    def _end(self) -> int:
        """The declared end of a finite input; without one, now."""
        until = self.pipeline.stream.until
        return time.time_ns() // 1_000 if until is None else instant(until, name="until")

    def _outlets(self) -> Iterable[Delivery]:
        for declared in self.pipeline.sinks:
            chosen = [
                track.stream
                for track in self.tracks
                if not declared.views or track.view.name in declared.views
            ]
            yield Delivery(
                declared.name,
                lambda declared=declared: factory.sink(declared, self.pipeline),  # type: ignore[misc]
                self.store,
                chosen,
                reports=declared.declaration.reports,
                gathers=declared.declaration.gathers,
                fatal=self._fail,
                told=lambda text, well: self._tell(
                    "sink", text=text, level="info" if well else "warning"
                ),
            )

    def _begin(self) -> None:
        """Take the leases, go on from where the store stands, and begin to listen."""
        takeover = self._takeover
        head = self.pipeline.store.head
        unwitnessed = head is not None and not self.pipeline.path(head).exists()
        if isinstance(self.store, SQLiteStore):
            self._closing.enter_context(ProcessLock(self.store.path, self.pipeline.stream.name))
            takeover = True
        for track in self.tracks:
            self._lease(track, takeover=takeover)
        if unwitnessed and any(self.store.head(track.name).unit for track in self.tracks):
            text = "the head file was not there and is made anew: whether this store is the newest one is not known."
            self._tell("store", text=text, level="warning")
        self._renewed = self._held = time.monotonic()
        kept = [self.store.last(track.name) for track in self.tracks]
        places = [each.positions for each in kept if each is not None]
        if any(place != places[0] for place in places) or len(places) not in (0, len(self.tracks)):
            raise StateError(
                f"the views of {self.pipeline.stream.name!r} do not stand at one place: restore the newest store."
            )
        parts: dict[str, bytes] = {}
        for track, each in zip(self.tracks, kept, strict=True):
            if each is not None:
                track.restore(each)
                parts |= {
                    name.removeprefix(_SOURCE): content
                    for name, content in each.private.items()
                    if name.startswith(_SOURCE)
                }
        if places and places[0].get("source") is not None and self.source.resumable:
            self._position = places[0]["source"]
        for outlet in self.outlets:
            outlet.start()
            self._closing.callback(outlet.end, CLOSING)
        asked = time.monotonic()
        for outlet in self.outlets:
            outlet.tried.wait(max(asked + ANSWER - time.monotonic(), 0))
        self._check()
        if isinstance(self.source, Receiver):
            self.source.open(parts)
            self._closing.callback(self.source.close)

    def _lease(self, track: ViewRun, *, takeover: bool) -> None:
        """Take a lease. One that nobody renews is waited for: its holder has crashed."""
        try:
            self.store.begin(track.stream, seconds=LEASE, takeover=takeover)
        except LeaseError as error:
            text = f"{error} If it does not renew, this one goes on then."
            self._tell("waiting", stream=track.name, text=text, level="warning")
            if self._stopping.wait(LEASE + 1):
                raise
            self.store.begin(track.stream, seconds=LEASE, takeover=takeover)
        self._closing.callback(self._give_back, track.name)

    def _give_back(self, name: str) -> None:
        with suppress(StateError):
            self.store.end(name)

    # -- the whole of it ---------------------------------------------------------------------------

    def run(self) -> bool:
        """Publish until the input ends or `stop` is called; whether all that was due is released
        and all sinks have it.
        """
        if self.state != "starting":
            raise StateError(
                "a publisher runs once: make a new one, which goes on from what is on disk."
            )
        self.state = "publishing"
        try:
            self._tell("begin", text=f"{'finite' if self.finite else 'live'} input")
            if self.finite:
                self._replay()
            else:
                self._live()
            self._check()
            if not self.finite:
                self._keep()
        except PenstockError as error:
            self.problem = str(error)
            self._tell("stopped", text=str(error), level="error")
            self.state = "failed"
            raise
        except BaseException:
            self.state = "failed"
            raise
        whole = min([outlet.finish(self._grace) for outlet in self.outlets], default=True)
        self.state = "ended"
        self._tell(
            "end", text="" if whole else "some sinks lack releases: they get them at the next start"
        )
        return whole and not self._stopping.is_set()

    @property
    def _grace(self) -> float:
        return min(self._patience, 30.0)

    def stop(self) -> None:
        """End soon: a unit that is being committed is committed, everything else is left whole for
        the next start.

        Other threads and signal handlers may call it.
        """
        self._stopping.set()

    def close(self) -> None:
        """Give everything back. A sink that is in the middle of something is waited for a little:
        it reads the store.
        """
        for seconds in (0.0, CLOSING):
            for outlet in self.outlets:
                outlet.end(seconds)
        self._closing.close()

    def _fail(self, error: PenstockError) -> None:
        self._fatal = error
        self._stopping.set()

    def _check(self) -> None:
        if self._fatal is not None:
            raise self._fatal

    def _tell(
        self, what: str, *, stream: str = "", unit: int = 0, text: str = "", level: Level = "info"
    ) -> None:
        self._listener(
            Notice(
                what=what,
                stream=stream or self.pipeline.stream.name,
                unit=unit,
                text=text,
                level=level,
            )
        )

    # -- a finite input ----------------------------------------------------------------------------

    def _replay(self) -> None:
        """Read all of it, close what the input itself shows to be complete on the way, and the rest
        at the end.
        """
        clock = self._clock
        if not isinstance(clock, ReplayClock):
            raise ConfigurationError(
                "a finite input has the clock of a finished file: testing.Replay."
            )
        batches = (
            self.source.batches(self._position) if self.source.resumable else self.source.batches()
        )
        for batch in batches:
            self._trail.append((batch.position, self._take(batch, clock.end)))
            if batch.certain is not None:
                clock.beat(min(batch.certain, clock.end))
                self._release_all()
            self._stay()
            if self._stopping.is_set():
                return
        self.reading = False
        clock.finish()
        self._release_all()

    def _take(self, batch: Batch, now: int) -> tuple[int, ...]:
        """Count a batch in every view. Counted in some and not in others, it cannot be gone on
        from.
        """
        try:
            return tuple(track.counting.take(batch, now) for track in self.tracks)
        except InputError as error:
            raise StateError(
                f"{error} What was read cannot be counted: nothing of it was kept."
            ) from None

    def _release_all(self) -> None:
        began = time.monotonic()
        while not self._witnessed() and not self._stopping.wait(IDLE):
            if time.monotonic() - began > self._patience:
                raise StateError(
                    f"{self._doubt} Nothing was released: start again when they are there."
                )
            self._stay()
        while not self._stopping.is_set() and self._prepare(self._clock.now()):
            self._commit()

    def _place(self) -> Position | None:
        """Where to read on from after a restart. A finite input is read again from where all before
        is in closed units.
        """
        closed = [track.prepared.unit if track.prepared else track.closed for track in self.tracks]
        while self._trail and all(
            last <= unit for last, unit in zip(self._trail[0][1], closed, strict=True)
        ):
            self._position = self._trail.popleft()[0]
        return self._position

    # -- a live stream -----------------------------------------------------------------------------

    def _live(self) -> None:
        """Read what is there, keep it if somebody waits for that, release what is due; again and
        again.

        A unit that has ended while nobody was reading gets what has come for it meanwhile: what is
        there is read before the clock is asked.
        """
        while not self._stopping.is_set():
            now = self._now()
            self._read()
            if self._stopping.is_set():
                return
            if self._waited_for:
                self._keep()
            if self._prepare(now) and self._leave():
                continue
            if self.source.ended:
                return  # standard input has ended: what is open is kept
            self._stay()
            self._rest()

    def _leave(self) -> bool:
        """Commit what is drawn when its time has come, to the moment; whether that is done, or it
        is too early yet.
        """
        late = self._clock.now() - self._leaves
        if late > 0 and self._paced:
            self._leaves += -(-late // self._pace) * self._pace
        if self._leaves - self._clock.now() > 2 * IDLE * 1e6:
            return False
        while self._clock.now() < self._leaves:
            if self._stopping.wait(min((self._leaves - self._clock.now()) / 1e6, IDLE)):
                return False
        self._commit()
        return True

    def _now(self) -> int:
        """The clock's time, if it has not leapt ahead: that would close every unit up to there, for
        good.
        """
        now = self._clock.now()
        if not isinstance(self._clock, SystemClock):
            return now
        passed = (
            time.clock_gettime(time.CLOCK_BOOTTIME)
            if hasattr(time, "CLOCK_BOOTTIME")
            else time.monotonic()
        )
        if self._leap is not None:
            leap = (now / 1e6 - self._leap[0]) - (passed - self._leap[1])
            if leap > LEAP:
                raise StateError(
                    f"the clock has leapt ahead by {leap:.0f} seconds, and units close by it, for good: nothing was closed. "
                    "Set it right; or, if it is right now, start again."
                )
        self._leap = now / 1e6, passed
        return now

    def _read(self) -> None:
        """All that the source has now. A source that fails is asked again later, and before a unit
        closes.

        One that cannot go on from where it stands (a `StateError`) ends the publisher: units
        without events would say that nothing happened.
        """
        now = self._clock.now()
        closing = any(
            track.closes(track.closed + 1) <= now
            for track in self.tracks
            if track.closed < track.view.calendar.last
        )
        if not self.reading or (time.monotonic() < self._again and not closing):
            return
        try:
            for batch in self.source.batches(self._position):
                self._take(batch, self._clock.now())
                if batch.position is not None:
                    self._position = batch.position
                self._parts |= {_SOURCE + name: content for name, content in batch.parts.items()}
                self._unkept = batch
                self._pause = 0.0
                if self.pending > PENDING:
                    self._keep()
                self._stay()
                if self._stopping.is_set():
                    return
            self._heard()
            self._well()
        except InputError as error:
            self._heard()
            if self.source.ended:  # what was read once cannot be read again
                self._keep()
                raise
            self._pause = min(max(2 * self._pause, 1.0), 30.0)
            self._again = time.monotonic() + self._pause
            if self.problem != str(error):
                self.problem = str(error)
                self._tell(
                    "source",
                    text=f"{error} It is asked again; units go on by the clock.",
                    level="warning",
                )

    def _heard(self) -> None:
        """Pass on what the source has to say, such as a file that it had to leave out."""
        for text in self.source.notes():
            self._tell("source", text=text, level="warning")

    def _well(self) -> None:
        """What a source that keeps trying says of itself, such as a broker that is down."""
        told = self.source.problem
        if told != self.problem:
            self.problem = told
            self._tell(
                "source", text=told or "the source is back.", level="warning" if told else "info"
            )

    @property
    def share(self) -> float:
        """How much of a finite input is read, from 0 to 1: for who runs it."""
        if not self.reading:
            return 1.0
        try:
            place = self._trail[-1][0]
        except IndexError:  # another thread asks
            place = self._position
        return 0.0 if place is None else self.source.progress(place)

    @property
    def clock(self) -> Clock:
        """What units close by."""
        return self._clock

    @property
    def leased(self) -> bool:
        """Whether it holds the lease: nobody else publishes this stream."""
        return self._held > 0 and time.monotonic() - self._held < LEASE

    @property
    def pending(self) -> int:
        """Events that are read and not on disk, for the view that has most of them: private."""
        return max(track.counting.pending for track in self.tracks)

    @property
    def _waited_for(self) -> bool:
        return (
            self._unkept is not None and isinstance(self.source, Receiver) and self.source.answers
        )

    def _rest(self) -> None:
        """Until something has come, the next unit is due, or the lease wants renewal."""
        now = self._clock.now()
        moments = [
            self._leaves if track.prepared else track.closes(track.closed + 1)
            for track in self.tracks
            if track.closed < track.view.calendar.last
        ]
        seconds = min((min(moments, default=now) - now) / 1e6, LEASE / 3)
        if seconds <= 0:
            return
        if isinstance(self.source, Receiver) and self.reading and time.monotonic() >= self._again:
            self.source.wait(min(seconds, IDLE))
        else:
            self._stopping.wait(min(seconds, IDLE))

    # -- what is written ---------------------------------------------------------------------------

    def _prepare(self, now: int) -> bool:
        """Draw the next unit of every view that has one due; whether any is drawn and not
        committed.

        It leaves a multiple of `pace` after its close, so that nobody learns how long the work
        took. Who has to catch up with several units does not wait for each.
        """
        if not self._witnessed():
            return False
        for track in self.tracks:
            due = track.counting.due(now) if track.prepared is None else ()
            if due:
                unit = due[0]
                track.prepare(unit)
                self._paced = bool(self._pace) and len(due) == 1
                self._leaves = max(
                    self._leaves, track.closes(unit) + (self._pace if self._paced else 0)
                )
        return any(track.prepared for track in self.tracks)

    def _witnessed(self) -> bool:
        """Whether somebody has shown that the store is no old backup, for every view of which
        somebody could.

        The head file has, at the beginning. Of sinks that can tell, one is enough; while all of
        them are down nothing is released, as it might be a second time.
        """
        if self._shown or self.pipeline.store.head is not None:
            return True
        silent = []
        for track in self.tracks:
            witnesses = [
                outlet
                for outlet in self.outlets
                if outlet.reports and track.stream in outlet.streams
            ]
            if witnesses and not any(outlet.known for outlet in witnesses):
                silent += [outlet.name for outlet in witnesses]
        self._shown = not silent
        text = f"nothing is released until one of these sinks has answered: {', '.join(dict.fromkeys(silent))}."
        if silent and text != self._doubt:
            self._tell(
                "waiting",
                text=f"{text} Without a head file only they can show an old backup.",
                level="warning",
            )
        self._doubt = text if silent else ""
        return self._shown

    def _commit(self) -> None:
        """Commit what is drawn. All views are written together, at one place of the source."""
        self._write(commit=True)
        for outlet in self.outlets:
            outlet.notify()

    def _keep(self) -> None:
        """Keep what was read of open units, so that it need not be had again."""
        self._write(commit=False)

    def _write(self, *, commit: bool) -> None:
        """One transaction, tried again with the same content until it succeeds."""
        ready = {
            track.name: track.prepared
            for track in self.tracks
            if commit and track.prepared is not None
        }
        began = time.monotonic()
        self._until_done(lambda: self._transaction(commit=commit), ready)
        self._renewed = self._held = time.monotonic()
        if ready:
            self.took.append(self._renewed - began)
        for track in self.tracks:
            closed = track.settled(commit=commit)
            if closed is not None:
                self._tell("release", stream=track.name, unit=closed.unit)
        kept, self._unkept, self._parts = self._unkept, None, {}
        if kept is not None and isinstance(self.source, Receiver):
            self.source.kept(kept)

    def _transaction(self, *, commit: bool) -> None:
        positions = {"source": self._place()}
        with self.store.together():
            for place, track in enumerate(self.tracks):
                track.write(self.store, positions, {} if place else self._parts, commit=commit)

    def _until_done(self, write: Callable[[], None], ready: Mapping[str, PreparedUnit]) -> None:
        began, pause, trouble = time.monotonic(), 0.5, ""
        while True:
            try:
                if not trouble or not self._was_done(ready):
                    write()
                else:
                    self._note()
            except LeaseError:
                raise
            except StateError as error:
                if self._stopping.is_set() or time.monotonic() - began > self._patience:
                    raise
                if str(error) != trouble:
                    self.problem = trouble = str(error)
                    self._tell(
                        "store",
                        text=f"{error} It is tried again, with the same content.",
                        level="warning",
                    )
                self._stopping.wait(pause)
                pause = min(2 * pause, 15.0)
            else:
                if trouble:
                    self.problem = ""
                    self._tell("store", text="the store is back.")
                return

    def _note(self) -> None:
        """See that the head file has what is committed: it may have been the part that failed."""
        for track in self.tracks:
            self.store.renew(track.name)
            self.store.begin(track.stream, seconds=LEASE)

    def _was_done(self, ready: Mapping[str, PreparedUnit]) -> bool:
        """Whether the units that are drawn are in the store, as who has lost a connection cannot
        tell.
        """
        try:
            return bool(ready) and all(self._has(name, each) for name, each in ready.items())
        except LeaseError:
            raise
        except StateError:
            return False

    def _has(self, name: str, drawn: PreparedUnit) -> bool:
        """Whether the store has this unit, as it was drawn here. As another drew it: that one is
        the publisher.
        """
        if self.store.head(name).unit != drawn.unit:
            return False
        (there,) = self.store.releases(name, drawn.unit, drawn.unit)
        if not same(there, drawn.release):
            raise LeaseError(
                f"unit {drawn.unit} of {name!r} is released already, by another publisher. Nothing was written."
            )
        return True

    def _stay(self) -> None:
        """Hold the lease while nothing is committed."""
        if time.monotonic() - self._renewed < LEASE / 3:
            return
        self._renewed = time.monotonic()
        for track in self.tracks:
            try:
                self.store.renew(track.name)
            except LeaseError:
                raise
            except StateError as error:
                self._tell("store", text=f"{error} The lease is renewed later.", level="warning")
                return
        self._held = self._renewed
