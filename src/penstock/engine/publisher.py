"""The publisher: reads events, releases each unit exactly once, and delivers releases to sinks.

One thread does all of it; sinks and servers have threads of their own. The order of a unit:

1. All events that the source has now are counted in the open units of every view (`LiveLoop`,
   `ReplayLoop`, `SourceProgress`).
2. A unit that the clock has closed is drawn, once, in memory (`ViewRun`).
3. **One** transaction stores, for all views: ledger lines, release, state of the mechanism, open
   units, and the position of the source (`Committer`). Before it nobody has seen anything, and a
   crash leaves nothing behind. After it the content is final. If the transaction fails, the same
   content is tried again: nothing is ever drawn a second time.
4. The fence, where there is one, takes the heads of these units, and then they are public. If it
   has other heads, another copy of the store went on, and nothing is shown.
5. Senders that wait are answered, and sinks read the new units from the store (`Deliveries`), and
   so do the rules of alerts (`AlertWatch`).

In a live stream a release leaves on the clock, at a multiple of `pace` after its unit closed,
whatever time the work took (`ReleasePacing`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

from penstock.core.calendar import duration, instant
from penstock.core.deprecated import moved
from penstock.core.errors import ConfigurationError, PenstockError, StateError
from penstock.engine import factory
from penstock.engine.alerts import AlertWatch
from penstock.engine.committer import Committer, StoreWait
from penstock.engine.counting_engine import CountingEngine, CountingHost, LocalEngine
from penstock.engine.deliveries import Deliveries
from penstock.engine.notices import Listener, Notifier
from penstock.engine.pacing import ReleasePacing
from penstock.engine.pipeline import Pipeline
from penstock.engine.plan.auto import chosen
from penstock.engine.process_lock import ProcessLock
from penstock.engine.publishing_loop import LiveLoop, ReplayLoop
from penstock.engine.source_check import SourceCheck
from penstock.engine.source_health import SourceHealth
from penstock.engine.source_progress import SourceProgress, source_parts
from penstock.engine.sqlite import SQLiteStore
from penstock.engine.store import Store
from penstock.engine.view_run import ViewRun
from penstock.engine.waiting import Runtime, StopFlag
from penstock.private.noise import Noise
from penstock.private.sources.base import Source
from penstock.private.units import Clock, ReplayClock, SystemClock

FINITE_PATIENCE = 30.0
"""Seconds for which a finite input waits for a store or a sink. A live stream waits for ever."""

State: TypeAlias = Literal["starting", "publishing", "ended", "failed"]


class Publisher:
    """Publishes one stream with all its views, from its source to its sinks.

    Parameters
    ----------
    pipeline : Pipeline
        The configuration.
    clock : Clock, optional
        Closes units; default: the system's clock, or for a finite input its declared end.
    noise : callable
        Gives the noise of each view, None for secure noise; default: secure noise.
    store : Store, optional
        A store that several publishers of a process share; default: the pipeline's, opened here.
    source : Source, optional
        The source of events; default: the pipeline's. Another one is finite if `until` is declared.
    engine : CountingEngine, optional
        Where events are read and counted; default: in this process.
    listener : callable
        Hears each `Notice`, from several threads; default: nobody.
    takeover : bool
        Whether to take leases from a publisher that is known to be dead; default: False.
    anyway : bool
        Whether to publish although most rows of a sample of the input cannot be read; default:
        False, which is an `UnreadableRowsError`.
    patience : float, optional
        Seconds for which an unavailable store is tried again; default: 30 for a finite input, no
        limit for a live stream.
    runtime : Runtime, optional
        Gives time and threads; default: the system's.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "taps.csv").write_text("ts,station\\n2026-01-01T00:10Z,north\\n")
    >>> pipeline = Pipeline.of({
    ...     "stream": {"name": "taps", "every": "1h", "origin": "2026-01-01",
    ...                "until": "2026-01-01T03:00Z"},
    ...     "source": {"kind": "csv", "path": "taps.csv", "time": "ts", "key": "station"},
    ...     "domain": {"keys": ["north", "south"]},
    ...     "privacy": {"mechanism": "laplace", "epsilon": "1"},
    ...     "store": {"path": "taps.db"},
    ... }, folder=folder)
    >>> with Publisher(pipeline) as publisher:
    ...     publisher.run(), publisher.views[0].closed
    (True, 3)
    """

    def __init__(
        self,
        pipeline: Pipeline,
        *,
        clock: Clock | None = None,
        noise: Callable[[], Noise | None] = lambda: None,
        store: Store | None = None,
        source: Source | None = None,
        engine: CountingEngine | None = None,
        listener: Listener = lambda notice: None,
        takeover: bool = False,
        anyway: bool = False,
        patience: float | None = None,
        runtime: Runtime | None = None,
    ) -> None:
        self.pipeline = pipeline
        self.finite = (
            factory.finite(pipeline) if source is None else pipeline.stream.until is not None
        )
        if patience is None:
            patience = FINITE_PATIENCE if self.finite else float("inf")
        self.clock: Clock = clock or (ReplayClock(self._end()) if self.finite else SystemClock())
        self.state: State = "starting"
        self._grace = min(patience, FINITE_PATIENCE)
        self._failure = ""
        self._notify = Notifier(pipeline.stream.name, listener)
        self._stop = StopFlag(runtime)
        self._closing = ExitStack()
        try:
            engine = engine or LocalEngine()
            self.source = source or engine.source(pipeline)
            wait = StoreWait(patience=patience, notify=self._notify, stop=self._stop)
            self.store = store or self._closing.enter_context(wait(lambda: factory.store(pipeline)))
            self.pipeline = pipeline = wait(lambda: chosen(pipeline, self.store))
            self.pipeline = pipeline = pipeline.going_on(wait(self._configurations))
            self.views = self._views(engine, noise)
            self.progress = self._progress(anyway=anyway)
            self.committer = Committer(
                self.store,
                self.views,
                self.progress,
                patience=patience,
                notify=self._notify,
                stop=self._stop,
            )
            self.deliveries = Deliveries(
                pipeline, self.store, self.views, notify=self._notify, stop=self._stop
            )
            self.alerts = self._watch()
            self.loop = self._loop(patience)
            self._begin(takeover=takeover)
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
        """Return the declared end of a finite input; default: now."""
        until = self.pipeline.stream.until
        return time.time_ns() // 1_000 if until is None else instant(until, name="until")

    def _configurations(self) -> dict[str, Mapping[str, str]]:
        """By series of this pipeline that the store has, the parameters of its mechanism."""
        names = {self.pipeline.series(view.name): view for view in self.pipeline.views}
        found = {name: self.store.series(name) for name in self.store.series_names if name in names}
        return {
            name: series.configuration
            for name, series in found.items()
            if series.mechanism == names[name].mechanism.name
            and series.domain == names[name].mechanism.released(self.pipeline.keys)
        }

    def _views(
        self, engine: CountingEngine, noise: Callable[[], Noise | None]
    ) -> tuple[ViewRun, ...]:
        """All views, with counters that may ask the publisher once it runs."""
        host = CountingHost(
            source=self.source,
            finite=self.finite,
            folder=self.store.path.parent if isinstance(self.store, SQLiteStore) else None,
            stop=self._stop,
            notify=self._notify,
            meanwhile=lambda: self.committer.leases.renew_if_due(),
            counted=lambda taken, outside: self.progress.counted_elsewhere(taken, outside),
        )
        return tuple(
            ViewRun(
                self.pipeline,
                view,
                finite=self.finite,
                noise=noise(),
                counter=engine.counter(self.pipeline, view, host),
            )
            for view in self.pipeline.views
        )

    def _progress(self, *, anyway: bool) -> SourceProgress:
        check = SourceCheck(self.pipeline, self.source, finite=self.finite, anyway=anyway)
        health = SourceHealth(
            self.source,
            unhealthy_above=self.pipeline.operator.unhealthy_above,
            notify=self._notify,
            runtime=self._stop.runtime,
        )
        return SourceProgress(self.source, self.views, check, health)

    def _watch(self) -> AlertWatch:
        series = [view.series for view in self.views]
        alerts = AlertWatch(self.pipeline, self.store, series, notify=self._notify, stop=self._stop)
        self.deliveries.also_wake(alerts.wake)
        return alerts

    def _loop(self, patience: float) -> ReplayLoop | LiveLoop:
        if not self.finite:
            pace = duration(self.pipeline.stream.pace, name="pace")
            return LiveLoop(
                clock=self.clock,
                progress=self.progress,
                committer=self.committer,
                deliveries=self.deliveries,
                pacing=ReleasePacing(self.clock, pace, self._stop),
                stop=self._stop,
                notify=self._notify,
            )
        if not isinstance(self.clock, ReplayClock):
            raise ConfigurationError("a finite input needs a testing.ReplayClock.")
        return ReplayLoop(
            clock=self.clock,
            progress=self.progress,
            committer=self.committer,
            deliveries=self.deliveries,
            pacing=ReleasePacing(self.clock, 0, self._stop),
            stop=self._stop,
            patience=patience,
        )

    def _begin(self, *, takeover: bool) -> None:
        """Take the leases, go on from what the store has, and open sinks and source."""
        head = self.pipeline.store.head
        head_is_missing = head is not None and not self.pipeline.path(head).exists()
        if isinstance(self.store, SQLiteStore):
            self._closing.enter_context(ProcessLock(self.store.path, self.pipeline.stream.name))
            takeover = True
        fence = factory.fence(self.pipeline)
        if fence is not None:
            self._closing.callback(fence.close)
        self._closing.callback(self.committer.leases.give_back)
        self.committer.leases.take(takeover=takeover, fence=fence)
        if head_is_missing and any(self.store.head(view.name).unit for view in self.views):
            text = (
                "the head file was missing and is made anew. Nothing shows whether this store is "
                "the newest one."
            )
            self._notify("store", text, level="warning")
        parts, positions = self._restore()
        self.committer.restore()
        self._closing.callback(self.deliveries.end)
        self.deliveries.start()
        self._closing.callback(self.alerts.end)
        self.alerts.start()
        self.progress.restore(parts, positions)
        self._closing.callback(self.progress.close)

    def _restore(self) -> tuple[dict[str, bytes], Mapping[str, Any]]:
        """Restore all views; return the source's parts, and what was stored with its position."""
        committed = [self.store.last(view.name) for view in self.views]
        positions = [each.positions for each in committed if each is not None]
        if any(each != positions[0] for each in positions) or len(positions) not in (
            0,
            len(self.views),
        ):
            raise StateError(
                f"the views of {self.pipeline.stream.name!r} were stored at different positions of "
                "the source. Restore the newest backup of the store."
            )
        parts: dict[str, bytes] = {}
        for view, each in zip(self.views, committed, strict=True):
            if each is not None:
                view.restore(each)
                parts |= source_parts(each)
        return parts, positions[0] if positions else {}

    # -- running -----------------------------------------------------------------------------------

    def run(self) -> bool:
        """Publish until the input ends or `stop` is called.

        Returns
        -------
        bool
            Whether all units that were due are released and all sinks have them.
        """
        if self.state != "starting":
            raise StateError("a publisher runs once. A new one goes on from what is in the store.")
        self.state = "publishing"
        try:
            self._notify("begin", f"{'finite' if self.finite else 'live'} input")
            self.loop.run()
            self.deliveries.raise_failure()
            if not self.finite:
                self.committer.save()
            self.progress.health.tell(final=True)
        except PenstockError as error:
            self._failure = str(error)
            self._notify("stopped", str(error), level="error")
            self.state = "failed"
            raise
        except BaseException:
            self.state = "failed"
            raise
        self.alerts.ask_to_end()
        complete = self.deliveries.finish(self._grace)
        alerted = self.alerts.finish(self._grace)
        self.state = "ended"
        text = "" if complete else "some sinks lack releases: they get them at the next start."
        if not alerted:
            text += " Some alerts are not sent: they are sent at the next start."
        if self.committer.hidden:
            text = "a unit is stored and waits to be shown: the next start shows it."
        self._notify("end", text.strip())
        return complete and alerted and not self.committer.hidden and not self._stop.is_set()

    def stop(self) -> None:
        """End soon: finish a commit that has begun, and leave the rest for the next start.

        Other threads and signal handlers may call it.
        """
        self._stop.set()

    def close(self) -> None:
        """Give back the source, the leases and the store, and end deliveries and alerts."""
        self._closing.close()

    @property
    def problem(self) -> str:
        """What is wrong just now, or what ended the publisher; empty if all is well. Private."""
        return self._failure or self.committer.problem or self.loop.problem


if not TYPE_CHECKING:
    __getattr__ = moved(__name__)
