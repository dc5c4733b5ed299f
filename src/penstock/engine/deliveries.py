"""All deliveries of a publisher: started, asked as witnesses and ended together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

from penstock.core.errors import PenstockError
from penstock.engine import factory
from penstock.engine.delivery import Delivery
from penstock.engine.notices import Notifier
from penstock.engine.pipeline import Pipeline, SinkConfig
from penstock.engine.store import Store
from penstock.engine.view_run import ViewRun
from penstock.engine.waiting import StopFlag

END_SECONDS = 5.0
"""How long the sinks together may finish what they have begun, after a stop."""

INTERRUPT_SECONDS = 1.0
"""How long sinks that were interrupted may take to notice it."""

ANSWER_SECONDS = 10.0
"""How long the start waits for sinks to say what they hold. A slower sink says it later."""


class Ending(Protocol):
    """Something with a thread of its own that was asked to end."""

    @property
    def ended(self) -> bool:
        """Whether it has ended."""

    def wait(self, seconds: float) -> None:
        """Wait until it has ended, for at most this long."""


def wait_for(workers: Iterable[Ending], seconds: float, stop: StopFlag) -> None:
    """Wait together for workers that were asked to end; a stop leaves them `END_SECONDS`.

    Parameters
    ----------
    workers : iterable of Ending
        The workers.
    seconds : float
        The most seconds for all of them.
    stop : StopFlag
        Whether the publisher was asked to stop. It gives the time.
    """
    monotonic, stopped = stop.runtime.monotonic, False
    deadline = monotonic() + seconds
    for worker in workers:
        while not worker.ended and (left := deadline - monotonic()) > 0:
            if stop.is_set() and not stopped:
                stopped, deadline = True, min(deadline, monotonic() + END_SECONDS)
            worker.wait(min(left, 0.05))


class Deliveries:
    """The deliveries of one stream.

    Without a head file, only sinks can show that the store is not an old backup. So nothing is
    released until, for each view, one of the sinks that can tell has answered.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        store: Store,
        views: Sequence[ViewRun],
        *,
        notify: Notifier,
        stop: StopFlag,
    ) -> None:
        self.doubt = ""
        self._views = views
        self._notify = notify
        self._stop = stop
        self._failure: PenstockError | None = None
        self._waited = False
        self._listeners: list[Callable[[], None]] = []
        self._witnessed = pipeline.store.head is not None
        self._all = tuple(self._delivery(sink, pipeline, store) for sink in pipeline.sinks)

    def __iter__(self) -> Iterator[Delivery]:
        return iter(self._all)

    def _delivery(self, declared: SinkConfig, pipeline: Pipeline, store: Store) -> Delivery:
        views = [
            view for view in self._views if not declared.views or view.view.name in declared.views
        ]
        return Delivery(
            declared.name,
            lambda: factory.sink(declared, pipeline),
            store,
            [view.series for view in views],
            filters={
                view.series.name: declared.filters[view.view.name]
                for view in views
                if view.view.name in declared.filters
            },
            nonnegative=declared.nonnegative,
            reports=declared.declaration.reports,
            gathers=declared.declaration.gathers,
            fail=self._fail,
            notify=self._notify,
            runtime=self._stop.runtime,
        )

    def _fail(self, error: PenstockError) -> None:
        self._failure = error
        self._stop.set()

    def raise_failure(self) -> None:
        """Raise the error with which a delivery stopped the publisher, if there is one."""
        if self._failure is not None:
            raise self._failure

    def start(self) -> None:
        """Start all, and wait a little for what the sinks hold."""
        for delivery in self._all:
            delivery.start()
        monotonic = self._stop.runtime.monotonic
        deadline = monotonic() + ANSWER_SECONDS
        for delivery in self._all:
            delivery.tried.wait(max(deadline - monotonic(), 0))
        self.raise_failure()

    def also_wake(self, listener: Callable[[], None]) -> None:
        """Tell somebody else, too, when there are new units in the store."""
        self._listeners.append(listener)

    def wake(self) -> None:
        """Tell all that there are new units in the store."""
        for delivery in self._all:
            delivery.wake()
        for listener in self._listeners:
            listener()

    def finish(self, seconds: float) -> bool:
        """Send all units that sinks lack, for at most this long and not much longer than a stop;
        return whether all sinks have them.
        """
        self._wait(seconds)
        return all(delivery.complete for delivery in self._all)

    def end(self) -> None:
        """End all. A sink that is sending gets a little time, because it reads the store."""
        if not self._waited:
            self._wait(END_SECONDS)
        for delivery in self._all:
            delivery.interrupt()
        self._wait(INTERRUPT_SECONDS)

    def _wait(self, seconds: float) -> None:
        """Let all end, and wait for them together; a stop leaves them `END_SECONDS`."""
        self._waited = True
        for delivery in self._all:
            delivery.end()
        wait_for(self._all, seconds, self._stop)

    def witnessed(self) -> bool:
        """Whether something has shown that the store is not an old backup: the head file at the
        start, or for each view a sink. Views without such sinks need no witness.
        """
        if self._witnessed:
            return True
        silent: list[str] = []
        for view in self._views:
            witnesses = [each for each in self._all if each.reports and view.series in each.series]
            if witnesses and not any(each.known for each in witnesses):
                silent += [each.name for each in witnesses]
        self._witnessed = not silent
        names = ", ".join(dict.fromkeys(silent))
        doubt = f"nothing is released until one of these sinks has answered: {names}."
        if silent and doubt != self.doubt:
            text = f"{doubt} Without a head file, only sinks can show an old backup."
            self._notify("waiting", text, level="warning")
        self.doubt = doubt if silent else ""
        return self._witnessed
