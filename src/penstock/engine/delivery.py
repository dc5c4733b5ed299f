"""What brings releases from the store to a sink: unit after unit, again after an outage, and never
ahead of a commit.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

from penstock.core.errors import ConfigurationError, PenstockError, StateError
from penstock.engine.chain import Head
from penstock.engine.store import Store
from penstock.released.series import Series
from penstock.released.sinks.base import ReleaseItem, Sink, SinkError

AT_ONCE = 100
"""Units that a sink gets at a time, of few keys."""

NUMBERS = 1_000_000
"""Numbers that a sink gets at a time, of many keys."""

GATHER = 60.0
"""Seconds for which units are gathered into one Parquet file, where units are shorter than that."""

PAUSES = (0.5, 60.0)
"""Seconds until a sink that failed is tried again, the first time and at most."""


class DivergedError(StateError):
    """A sink that holds what the store has never had: the store was restored from an old backup, or
    is another one.
    """


class Delivery:
    """One sink and the series that go to it, in a thread of its own: a sink that is down holds up
    nobody else.

    Before it sends anything it compares what the sink holds with the store. A sink that holds what
    the store has never had shows that the store was restored from an old backup: that is `fatal`,
    and nothing goes on.
    """

    def __init__(
        self,
        name: str,
        opened: Callable[[], Sink],
        store: Store,
        streams: Sequence[Series],
        *,
        reports: bool = True,
        gathers: bool = False,
        fatal: Callable[[PenstockError], None],
        told: Callable[[str, bool], None],
    ) -> None:
        self.name = name
        self.reports = reports
        self._gathers = gathers
        self.streams = tuple(streams)
        self.problem = ""
        self.known = False  # whether the sink has said, since the start, what it holds
        self.sent = {stream.name: 0 for stream in streams}
        self._opened = opened
        self._store = store
        self._fatal = fatal
        self._told = told
        self.tried = threading.Event()
        self.gathering = False
        self._sink: Sink | None = None
        self._more = threading.Event()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._work, name=f"sink {name}", daemon=True)

    def start(self) -> None:
        """Compare the sink with the store (then `tried` is set, whatever came of it), and send what
        it lacks.
        """
        self._thread.start()

    def notify(self) -> None:
        """There is something new in the store."""
        self._more.set()

    @property
    def behind(self) -> int:
        """How many units the sink lacks, of the series that lacks most."""
        return max(
            (self._store.head(name).unit - sent for name, sent in self.sent.items()), default=0
        )

    def finish(self, seconds: float) -> bool:
        """Send what is left, for so many seconds at most; whether all is there."""
        self.end(seconds)
        with suppress(StateError):
            return not self._thread.is_alive() and not self.problem and not self.behind
        return False

    def end(self, seconds: float) -> None:
        """Begin nothing more after what is left; wait for so many seconds at most."""
        self._ending.set()
        self._more.set()
        self._thread.join(seconds)

    def _work(self) -> None:
        pause = PAUSES[0]
        while True:
            self._more.clear()
            try:
                if self._sink is None:
                    self._sink = self._checked()
                self.tried.set()
                while sum(self._send(self._sink, stream) for stream in self.streams):
                    pause = PAUSES[0]
                if self.problem:
                    self.problem = ""
                    self._told(f"sink {self.name!r} is back.", True)
            except DivergedError as error:
                self._give_up(error)
                break
            except ConfigurationError as error:
                self._give_up(error)
                break
            except Exception as error:  # the sink, a store that cannot be read or marked just now, or what nobody foresaw
                self._trouble(error)
                self._let_go()  # it may have lost something: compare it anew
                self._ending.wait(max(getattr(error, "after", None) or 0, pause))
                pause = min(2 * pause, PAUSES[1])
                if self._ending.is_set():
                    break
                continue
            if self._ending.is_set() and not self._more.is_set():
                break
            self._more.wait()
            self.gathering = self._gathering > 0
            self._ending.wait(self._gathering)
            self.gathering = False
        self._let_go()

    def _let_go(self) -> None:
        sink, self._sink = self._sink, None
        if sink is not None:
            sink.close()

    @property
    def _gathering(self) -> float:
        """Seconds to wait for more: a sink that makes a file of every delivery would make thousands
        of short units.
        """
        short = any(
            stream.calendar is not None
            and stream.calendar.ends(1) - stream.calendar.begins(1) < GATHER * 1e6
            for stream in self.streams
        )
        return GATHER if short and self._gathers else 0.0

    def _give_up(self, error: PenstockError) -> None:
        self.problem = str(error)
        self._fatal(error)
        self.tried.set()

    def _trouble(self, error: Exception) -> None:
        self.tried.set()
        told = (
            str(error)
            if isinstance(error, PenstockError)
            else f"it failed in a way that nobody foresaw ({type(error).__name__})."
        )
        if told != self.problem:
            self.problem = told
            self._told(f"sink {self.name!r}: {told}", False)

    def _checked(self) -> Sink:
        """The sink, with nothing in it that the store does not have."""
        sink = self._opened()
        try:
            for stream in self.streams:
                if self.reports:
                    head = sink.head(stream.name)
                    self.sent[stream.name] = (
                        0
                        if head is None
                        else check_sink_history(self._store, stream.name, head, self.name)
                    )
                else:
                    self.sent[stream.name] = self._store.marks(stream.name).get(self.name, 0)
        except BaseException:
            sink.close()
            raise
        self.known = True
        return sink

    def _send(self, sink: Sink, stream: Series) -> bool:
        """Send some units; whether there were any."""
        first, newest = self.sent[stream.name] + 1, self._store.head(stream.name).unit
        last = min(newest, first + max(1, min(AT_ONCE, NUMBERS // stream.domain.size)) - 1)
        if first > last:
            return False
        items = items_of(self._store, stream, first, last)
        try:
            sink.put(items)
        except SinkError as error:
            self._have(stream, first - 1 + error.done)
            raise
        self._have(stream, last)
        return True

    def _have(self, stream: Series, unit: int) -> None:
        if unit > self.sent[stream.name]:
            if not self.reports:
                self._store.mark(stream.name, self.name, unit)
            self.sent[stream.name] = unit


def check_sink_history(store: Store, stream: str, head: tuple[int, str], sink: str) -> int:
    """The newest unit of a sink, if the store has had it like that; otherwise the store was
    restored, or is another one.
    """
    unit, link = head
    newest = store.head(stream).unit
    if unit > newest == 0:
        raise DivergedError(
            f"this store is new, and sink {sink!r} has {unit} units of {stream!r} already. If the store was lost, restore its "
            "newest backup; for a new stream give it another name, or the sink another place."
        )
    if unit > newest:
        raise DivergedError(
            f"the store was restored from an old backup: stream {stream!r} ends with unit {newest}, and sink {sink!r} has unit "
            f"{unit}. Going on would release units again with fresh noise: restore the newest one."
        )
    if store.at(stream, unit) != Head(unit, bytes.fromhex(link)):
        raise DivergedError(
            f"the store has another past than sink {sink!r}: unit {unit} of {stream!r} differs. Either it was restored from an "
            "old backup and went on, or the sink is another stream's."
        )
    return unit


def items_of(store: Store, stream: Series, first: int, last: int) -> list[ReleaseItem]:
    """The releases of some units, as sinks take them."""
    calendar = stream.calendar
    assert calendar is not None
    return [
        ReleaseItem(
            series=stream,
            unit=release.unit,
            begins=calendar.start(release.unit),
            ends=calendar.end(release.unit),
            release=release,
            link=store.at(stream.name, release.unit).link.hex(),
        )
        for release in store.releases(stream.name, first, last)
    ]
