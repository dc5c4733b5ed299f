"""Commits drawn units and shows them, with retries, and holds the leases that this needs. At the
start, waits for the store.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from penstock.core.errors import PenstockError, StateError, StoreUnavailableError
from penstock.engine.chain import Fence
from penstock.engine.notices import Notifier
from penstock.engine.source_progress import SourceProgress
from penstock.engine.store import LeaseError, Store
from penstock.engine.view_run import PreparedUnit, ViewRun
from penstock.engine.waiting import Backoff, StopFlag
from penstock.released.log import same
from penstock.released.series import Series
from penstock.released.sinks.base import SinkError

LEASE_SECONDS = 30.0
"""How long a lease lasts. It is renewed after a third of that."""

MAX_REMEMBERED_COMMITS = 20
"""Commits whose seconds are remembered, for the operator."""

RETRY_SECONDS = (0.5, 15.0)
"""The first and the longest pause before a transaction is tried again."""

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class StoreWait:
    """Repeats a call until the store is available, and tells why it waits.

    Every other error, such as a mistake in the configuration, is raised at once.
    """

    patience: float
    notify: Notifier
    stop: StopFlag

    def __call__(self, call: Callable[[], T]) -> T:
        monotonic = self.stop.runtime.monotonic
        deadline, backoff, trouble = monotonic() + self.patience, Backoff(*RETRY_SECONDS), ""
        while True:
            try:
                result = call()
            except StoreUnavailableError as error:
                if monotonic() > deadline or self.stop.is_set():
                    raise
                if str(error) != trouble:
                    trouble = str(error)
                    self.notify("store", f"{error} The publisher waits for it.", level="warning")
                self.stop.wait(backoff.next_pause())
            else:
                if trouble:
                    self.notify("store", "the store is available again.")
                return result


class StreamLeases:
    """The leases of all series of a stream."""

    def __init__(
        self, store: Store, views: Sequence[ViewRun], *, notify: Notifier, stop: StopFlag
    ) -> None:
        self._store = store
        self._views = views
        self._notify = notify
        self._stop = stop
        self._runtime = stop.runtime
        self._taken: list[str] = []
        self._tried = self._confirmed = 0.0

    @property
    def held(self) -> bool:
        """Whether nobody else may publish this stream now."""
        return self._confirmed > 0 and self._runtime.monotonic() - self._confirmed < LEASE_SECONDS

    def take(self, *, takeover: bool, fence: Fence | None) -> None:
        """Take all leases. Wait once for a lease that nobody renews: its holder has crashed."""

        def begin(series: Series) -> None:
            self._store.begin(series, seconds=LEASE_SECONDS, takeover=takeover, fence=fence)

        for view in self._views:
            try:
                begin(view.series)
            except LeaseError as error:
                text = f"{error} This publisher goes on when that lease expires."
                self._notify("waiting", text, series=view.name, level="warning")
                if self._stop.wait(LEASE_SECONDS + 1):
                    raise
                begin(view.series)
            self._taken.append(view.name)
        self.confirm()

    def confirm(self) -> None:
        """Note that the store has just renewed all leases."""
        self._tried = self._confirmed = self._runtime.monotonic()

    def renew_if_due(self) -> None:
        """Renew the leases after a third of their time. An unavailable store is asked later."""
        if self._runtime.monotonic() - self._tried < LEASE_SECONDS / 3:
            return
        self._tried = self._runtime.monotonic()
        try:
            for view in self._views:
                self._store.renew(view.name)
        except StoreUnavailableError as error:
            self._notify("store", f"{error} The lease is renewed later.", level="warning")
        else:
            self._confirmed = self._tried

    def give_back(self) -> None:
        """Let others publish, as far as the store can be reached."""
        for name in reversed(self._taken):
            with suppress(StateError):
                self._store.end(name)


class Committer:
    """Writes all views of a stream in one transaction, at one position of the source.

    The content of a transaction is fixed before the first attempt. An unavailable store gets the
    same content again, and nothing is drawn a second time. Every other error ends the publisher.

    With a fence, a unit that is stored is shown only after the fence has taken its head. While the
    fence cannot be reached, the unit waits (`hidden`), and events are stored as before.
    """

    def __init__(
        self,
        store: Store,
        views: Sequence[ViewRun],
        progress: SourceProgress,
        *,
        patience: float,
        notify: Notifier,
        stop: StopFlag,
    ) -> None:
        self.views = views
        self.leases = StreamLeases(store, views, notify=notify, stop=stop)
        self.problem = ""
        self.when_available = StoreWait(patience=patience, notify=notify, stop=stop)
        self._to_erase = True  # a crash may have left something
        self.hidden = False  # whether units are stored and not shown
        self.seconds: deque[float] = deque(maxlen=MAX_REMEMBERED_COMMITS)
        self._store = store
        self._progress = progress
        self._patience = patience
        self._notify = notify
        self._stop = stop
        self._runtime = stop.runtime
        self._backoff = Backoff(*RETRY_SECONDS)
        self._next_try = 0.0
        self._gives_up: float | None = None

    def restore(self) -> None:
        """Go on with units that are stored and that the start could not show."""
        self.hidden = any(self._store.pending(view.name) is not None for view in self.views)

    def commit(self) -> None:
        """Commit the drawn units, with the open units of all other views."""
        self._write(commit=True)

    def erase(self) -> None:
        """Erase what the store still keeps of closed units, if anything; later where that fails."""
        if self._to_erase:
            with suppress(StoreUnavailableError):
                self._to_erase = not self._store.erase()

    def save(self) -> None:
        """Store the open units, so that their events need not be read again."""
        self._write(commit=False)

    def show(self) -> bool:
        """Show the units that are stored; return whether none waits.

        If the fence or the store cannot be reached, the next call tries again, after a pause. A
        fence that another copy of the store has moved is a `FencedError`.
        """
        if not self.hidden:
            return True
        if self._runtime.monotonic() < self._next_try:
            return False
        try:
            self._store.settle(view.name for view in self.views)
        except (StoreUnavailableError, SinkError) as error:
            self._wait_to_show(error)
            return False
        if self._gives_up is not None:
            self._notify("waiting", "the fence has answered: units are shown again.")
            self.problem, self._gives_up = "", None
            self._backoff.reset()
        self.hidden = False
        for view in self.views:
            unit = view.shown()
            if unit is not None:
                self._notify("release", series=view.name, unit=unit)
        return True

    def _wait_to_show(self, error: PenstockError) -> None:
        """Tell of the problem once, and say when to try again; without patience, raise it."""
        now = self._runtime.monotonic()
        if self._gives_up is None:
            self._gives_up = now + self._patience
        if now > self._gives_up:
            raise error
        if str(error) != self.problem:
            self.problem = str(error)
            text = f"{error} Nobody sees a unit until its head is there. It is tried again."
            self._notify("waiting", text, level="warning")
        self._next_try = now + self._backoff.next_pause()

    def _write(self, *, commit: bool) -> None:
        drawn = {view.name: view.prepared for view in self.views if commit and view.prepared}
        began = self._runtime.monotonic()
        self._write_until_stored(drawn, commit=commit)
        self.leases.confirm()
        for view in self.views:
            view.stored(commit=commit)
        if drawn:
            self._to_erase = True
            self.hidden = True
            self.show()
            self.seconds.append(self._runtime.monotonic() - began)
        self._progress.stored()

    def _write_until_stored(self, drawn: Mapping[str, PreparedUnit], *, commit: bool) -> None:
        """Try the transaction until it succeeds, the patience ends, or a stop is wanted."""
        deadline, backoff, trouble = (
            self._runtime.monotonic() + self._patience,
            Backoff(*RETRY_SECONDS),
            "",
        )
        while True:
            try:
                if not (trouble and self._is_stored(drawn)):
                    self._transaction(commit=commit)
            except StoreUnavailableError as error:
                if self._stop.is_set() or self._runtime.monotonic() > deadline:
                    raise
                if str(error) != trouble:
                    self.problem = trouble = str(error)
                    text = f"{error} The same content is tried again."
                    self._notify("store", text, level="warning")
                self._stop.wait(backoff.next_pause())
            else:
                if trouble:
                    self.problem = ""
                    self._notify("store", "the store is available again.")
                return

    def _transaction(self, *, commit: bool) -> None:
        positions = self._progress.positions_to_store()
        with self._store.together():
            for place, view in enumerate(self.views):
                parts = {} if place else self._progress.parts
                view.write(self._store, positions, parts, commit=commit)

    def _is_stored(self, drawn: Mapping[str, PreparedUnit]) -> bool:
        """Look whether an attempt that failed has committed all the same: a connection may have
        been lost after the commit.
        """
        try:
            return bool(drawn) and all(self._has(name, unit) for name, unit in drawn.items())
        except StoreUnavailableError:
            return False

    def _has(self, name: str, drawn: PreparedUnit) -> bool:
        """Whether the store has this unit with these numbers, shown or not. Other numbers are
        another publisher's.
        """
        stored = self._store.pending(name)
        if stored is None and self._store.head(name).unit == drawn.unit:
            (stored,) = self._store.releases(name, drawn.unit, drawn.unit)
        if stored is None or stored.unit != drawn.unit:
            return False
        if not same(stored, drawn.release):
            raise LeaseError(
                f"unit {drawn.unit} of {name!r} was released by another publisher, with other "
                "numbers. Nothing was written."
            )
        return True
