"""Delivery: brings releases from the store to one sink, in order, and again after an outage."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from penstock.core.errors import ConfigurationError, PenstockError, StateError
from penstock.engine.chain import Head
from penstock.engine.notices import Notifier
from penstock.engine.sink_items import SinkItems
from penstock.engine.store import Store
from penstock.engine.waiting import Backoff, Runtime
from penstock.released.release_filter import FilterChoice
from penstock.released.series import Series
from penstock.released.sinks.base import Interruptible, Sink, SinkError

MAX_UNITS_PER_PUT = 100
MAX_NUMBERS_PER_PUT = 1_000_000

GATHER_SECONDS = 60.0
"""How long units are gathered for a sink that asks for it, where units are shorter than this."""

RETRY_SECONDS = (0.5, 60.0)
"""The first and the longest pause before a sink that failed is tried again."""


class DivergedError(StateError):
    """A sink holds units that the store never had: the store is an old backup, or another one."""


class Delivery:
    """Sends some series to one sink, in a thread of its own. Others do not wait for the sink.

    Before it sends anything, it compares what the sink holds with the store. A sink with units that
    the store never had shows that the store is an old backup: `fail` then stops the publisher.
    """

    def __init__(
        self,
        name: str,
        open_sink: Callable[[], Sink],
        store: Store,
        series: Sequence[Series],
        *,
        reports: bool,
        gathers: bool,
        fail: Callable[[PenstockError], None],
        notify: Notifier,
        runtime: Runtime,
        filters: Mapping[str, FilterChoice] | None = None,
        nonnegative: bool = False,
    ) -> None:
        self.name = name
        self.reports = reports
        self.series = tuple(series)
        self.problem = ""
        self.known = False  # whether the sink has said, since the start, what it holds
        self.sent = {each.name: 0 for each in series}
        self.tried = runtime.event()  # set after the first comparison, whatever came of it
        self.gathering = False
        self._gathers = gathers
        self._open_sink = open_sink
        self._store = store
        self._items = SinkItems(store, filters, nonnegative=nonnegative)
        self._fail = fail
        self._notify = notify
        self._sink: Sink | None = None
        self._more = runtime.event()
        self._ending = runtime.event()
        self._thread = runtime.thread(self._work, name=f"sink {name}")

    def start(self) -> None:
        """Compare the sink with the store, and begin to send the units that it lacks."""
        self._thread.start()

    def wake(self) -> None:
        """Say that there are new units in the store."""
        self._more.set()

    @property
    def behind(self) -> int:
        """How many units the sink lacks, of the series that lacks most."""
        return max(
            (max(self._store.head(name).unit - sent, 0) for name, sent in self.sent.items()),
            default=0,
        )

    @property
    def ended(self) -> bool:
        """Whether nothing is being sent, and nothing will be."""
        return not self._thread.is_alive()

    @property
    def complete(self) -> bool:
        """Whether the sink has all units, and nothing more is being sent."""
        with suppress(StateError):
            return self.ended and not self.problem and not self.behind
        return False

    def end(self) -> None:
        """Begin nothing after the units that are left."""
        self._ending.set()
        self._more.set()

    def wait(self, seconds: float) -> None:
        """Wait until it has ended, for at most this long."""
        self._thread.join(seconds)

    def interrupt(self) -> None:
        """End a call of the sink under way, where the sink can do that."""
        sink = self._sink
        if isinstance(sink, Interruptible):
            sink.interrupt()

    def _work(self) -> None:
        backoff = Backoff(*RETRY_SECONDS)
        while True:
            self._more.clear()
            try:
                self._send_all(backoff)
            except (DivergedError, ConfigurationError) as error:
                self._give_up(error)
                break
            except Exception as error:  # the sink, an unavailable store, or a mistake in a sink
                self._report(error)
                self._close_sink()  # it may have lost something: compare it again
                asked = error.after if isinstance(error, SinkError) else None
                if self._ending.wait(max(asked or 0, backoff.next_pause())):
                    break
                continue
            if self._ending.is_set() and not self._more.is_set():
                break
            self._more.wait()
            self._gather()
        self._close_sink()

    def _send_all(self, backoff: Backoff) -> None:
        if self._sink is None:
            self._sink = self._compared_sink()
        self.tried.set()
        while sum(self._send(self._sink, each) for each in self.series):
            backoff.reset()
        if self.problem:
            self.problem = ""
            self._notify("sink", f"sink {self.name!r} is back.")

    def _gather(self) -> None:
        """Wait for more short units where the sink writes one file per call."""
        short = any(
            each.calendar is not None
            and each.calendar.ends(1) - each.calendar.begins(1) < GATHER_SECONDS * 1e6
            for each in self.series
        )
        if short and self._gathers:
            self.gathering = True
            self._ending.wait(GATHER_SECONDS)
            self.gathering = False

    def _close_sink(self) -> None:
        sink, self._sink = self._sink, None
        if sink is not None:
            sink.close()

    def _give_up(self, error: PenstockError) -> None:
        self.problem = str(error)
        self._fail(error)
        self.tried.set()

    def _report(self, error: Exception) -> None:
        """Tell of a problem once. Texts of errors that are not ours may quote anything."""
        self.tried.set()
        known = isinstance(error, PenstockError)
        problem = str(error) if known else f"an unexpected error ({type(error).__name__})."
        if problem != self.problem:
            self.problem = problem
            self._notify("sink", f"sink {self.name!r}: {problem}", level="warning")

    def _compared_sink(self) -> Sink:
        """Open the sink, and see that it holds nothing that the store does not have."""
        sink = self._open_sink()
        try:
            for each in self.series:
                if self.reports:
                    head = sink.head(each.name)
                    self.sent[each.name] = (
                        0
                        if head is None
                        else check_sink_history(self._store, each.name, head, self.name)
                    )
                else:
                    self.sent[each.name] = self._store.marks(each.name).get(self.name, 0)
        except BaseException:
            sink.close()
            raise
        self.known = True
        return sink

    def _send(self, sink: Sink, series: Series) -> bool:
        """Send some units; return whether there were any."""
        first, newest = self.sent[series.name] + 1, self._store.head(series.name).unit
        units = max(1, min(MAX_UNITS_PER_PUT, MAX_NUMBERS_PER_PUT // series.domain.size))
        last = min(newest, first + units - 1)
        if first > last:
            return False
        items = self._items.after(series, first - 1, last)
        try:
            sink.put(items)
        except SinkError as error:
            self._mark_sent(series, first - 1 + error.done)
            raise
        self._mark_sent(series, items[-1].unit)
        return True

    def _mark_sent(self, series: Series, unit: int) -> None:
        if unit > self.sent[series.name]:
            if not self.reports:
                self._store.mark(series.name, self.name, unit)
            self.sent[series.name] = unit


def check_sink_history(store: Store, series: str, head: tuple[int, str], sink: str) -> int:
    """Return the newest unit of a sink; raise a `DivergedError` if the store never had it so."""
    unit, link = head
    newest = store.head(series).unit
    last = store.last(series) if unit == newest + 1 else None
    if last is not None and last.head == Head(unit, bytes.fromhex(link)):
        return unit  # a power cut undid that the store showed this unit; it is shown again
    if unit > newest == 0:
        raise DivergedError(
            f"this store is new, and sink {sink!r} has {unit} units of {series!r} already. If the "
            "store was lost, restore its newest backup. For a new stream, use another name or "
            "another place for the sink."
        )
    if unit > newest:
        raise DivergedError(
            f"the store was restored from an old backup: series {series!r} ends with unit {newest},"
            f" and sink {sink!r} has unit {unit}. Going on would release units again with fresh "
            "noise. Restore the newest backup."
        )
    if store.at(series, unit) != Head(unit, bytes.fromhex(link)):
        raise DivergedError(
            f"store and sink {sink!r} differ in unit {unit} of {series!r}. Either the store was "
            "restored from an old backup and went on, or the sink belongs to another stream."
        )
    return unit
