"""`ServedStreams`: the series of one or more stores as the service reads them.

Every store is read by two connections: one answers requests, the other follows the store. Whoever
follows it copies new units by key, checks them against the chain, and tells who listens.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias, TypeVar

from penstock.core.arrays import IntArray
from penstock.core.errors import ConfigurationError, PenstockError
from penstock.core.files import cannot, make_folder, open_locked
from penstock.core.released import Released
from penstock.engine.chain import Head
from penstock.engine.sql_store import SqlReader
from penstock.released.log import FilteredLog, Log
from penstock.released.queries.filter_options import FilterOptions
from penstock.released.release_filter import FilterChoice
from penstock.released.release_table import ReleaseTable
from penstock.released.series import Series
from penstock.service.api_errors import ApiError, unknown
from penstock.service.key_copy import CopiedLog, KeyCopy
from penstock.service.verification import Verification, Verifier

NEWEST_UNITS = 1000
"""How many of the newest units can be read while the copy is built."""

UNITS_PER_STEP = 64
"""How many units are copied between two looks at the head of the store."""

POLL_SECONDS = 0.05
"""How often SQLite is asked whether anybody has committed, if nobody wakes the service."""

SLOW_POLL_SECONDS = 2.0
"""How often a store is looked at that announces its units, and after an error."""

MAX_LINKS_KEPT = 1024
"""How many of the newest links of a stream are in memory."""

MAX_FILTERS = 4
"""How many filters of a stream are kept in memory."""

SECONDS_PER_REQUEST = 20.0
"""How long an answer may take to compute."""

OpenStore: TypeAlias = Callable[[], SqlReader]
UnitListener: TypeAlias = Callable[[str, Head], None]

LOCK = "lock"

T = TypeVar("T")

_log = logging.getLogger(__name__)


class ServedLog(CopiedLog):
    """The releases of a stream up to one unit, for one request.

    Parameters
    ----------
    stream : ServedStream
        The stream.
    head : Head
        The newest unit of the answer. Later ones do not disturb it.
    deadline : float
        When the computation is given up, as `time.monotonic` counts. Default: never.
    """

    def __init__(self, stream: ServedStream, head: Head, *, deadline: float = float("inf")) -> None:
        super().__init__(stream.reader, stream.name, stream.copy)
        self._head, self._deadline = head, deadline

    def _bounds(self) -> tuple[int, int]:
        return 1, self._head.unit

    def table(self, first: int, last: int, places: IntArray | None = None) -> ReleaseTable:
        """The releases of these units as arrays, of all keys or of those at some places."""
        if time.monotonic() > self._deadline:
            raise ApiError(
                503,
                "this takes too long to compute. Ask for fewer units or fewer keys.",
                retry_after=10,
            )
        copied = self._copy.head.unit
        if last > copied and first <= self._head.unit - NEWEST_UNITS:
            raise ApiError(
                503,
                f"the copy of this stream is being made and has units up to {copied}. Until it is "
                f"ready, ask for these or for the newest {NEWEST_UNITS}.",
                retry_after=10,
            )
        return super().table(first, last, places)


class GrowingLog(CopiedLog):
    """The releases of a stream as it grows, for a filter that is kept between requests.

    Parameters
    ----------
    stream : ServedStream
        The stream.
    """

    def __init__(self, stream: ServedStream) -> None:
        super().__init__(stream.reader, stream.name, stream.copy)
        self._stream = stream
        self.deadline = float("inf")

    def _bounds(self) -> tuple[int, int]:
        return 1, self._stream.head.unit

    def _read(self, first: int, last: int) -> Iterator[Released]:
        for release in super()._read(first, last):
            if time.monotonic() > self.deadline:
                raise ApiError(
                    503,
                    f"the filter has come to unit {release.unit} of {last}. Try again: it goes on "
                    "from there.",
                    retry_after=1,
                )
            yield release


@dataclass(frozen=True)
class KeptFilter:
    """A filter that goes on with the stream. One request at a time uses it."""

    releases: GrowingLog
    log: FilteredLog
    lock: threading.Lock


class ServedStream:
    """One series, with its copy by key.

    Parameters
    ----------
    reader : SqlReader
        The connection that answers requests.
    follower : SqlReader
        The connection that follows the store.
    series : Series
        The series.
    folder : Path
        The folder of its copy.
    verifier : Verifier
        Verifies its ledger.
    """

    def __init__(
        self,
        reader: SqlReader,
        follower: SqlReader,
        series: Series,
        folder: Path,
        verifier: Verifier,
    ) -> None:
        self.reader, self.follower, self.series, self.name = reader, follower, series, series.name
        self._verifier, self._folder = verifier, folder
        self._compared = -1
        self.copy = KeyCopy(follower, series.name, folder)
        self._head = self.copy.head
        self._is_behind = False
        self._links: deque[Head] = deque(maxlen=MAX_LINKS_KEPT)
        self._filters: OrderedDict[FilterChoice, KeptFilter] = OrderedDict()
        self._remembered: dict[str, tuple[int, Any]] = {}
        self._key_rows: list[dict[str, Any]] | None = None
        self._lock = threading.Lock()

    @property
    def head(self) -> Head:
        """The newest unit that is served, and the link after it."""
        return self._head

    @property
    def verification(self) -> Verification:
        """The newest result of verifying its ledger."""
        return self._verifier.of(self.name)

    @property
    def catching_up(self) -> int | None:
        """How far the copy is while it is being made; None if it is complete."""
        return self.copy.head.unit if self._is_behind else None

    def log(self, *, seconds: float | None = None) -> Log:
        """The releases up to the newest unit, for one request.

        Parameters
        ----------
        seconds : float, optional
            How long an answer may take to compute. Default: 20.
        """
        allowed = SECONDS_PER_REQUEST if seconds is None else seconds
        return ServedLog(self, self.head, deadline=time.monotonic() + allowed)

    @property
    def is_filtered(self) -> bool:
        """Whether the released numbers are the estimates of a filter."""
        return bool(
            self.remembered(
                "filtered",
                lambda: self.head.unit > 0 and self.log().way(self.head.unit).kind == "filtered",
            )
        )

    def rows_of_keys(
        self, make: Callable[[ServedStream], list[dict[str, Any]]]
    ) -> list[dict[str, Any]]:
        """The keys as the API lists them. They never change, so they are made once.

        Parameters
        ----------
        make : callable
            Makes the list.
        """
        if self._key_rows is None:
            self._key_rows = make(self)
        return self._key_rows

    def remembered(self, name: str, make: Callable[[], T]) -> T:
        """A value that is computed once for each newest unit.

        Parameters
        ----------
        name : str
            The name of the value.
        make : callable
            Computes it.
        """
        unit = self.head.unit
        known = self._remembered.get(name)
        if known is None or known[0] != unit:
            known = self._remembered[name] = unit, make()
        found: T = known[1]
        return found

    @contextmanager
    def filtered(self, options: FilterOptions, log: Log, *, single: bool) -> Iterator[Log]:
        """The log that a question is asked of. Filters are kept, and go on with new units.

        Parameters
        ----------
        options : FilterOptions
            Whether and how numbers are filtered.
        log : Log
            The releases.
        single : bool
            Whether the question adds up neither keys nor units.
        """
        if not options.filtered:
            yield options.applied(log, single=single)
            return
        choice = options.applied(log, single=single).filter
        assert choice is not None
        deadline = time.monotonic() + SECONDS_PER_REQUEST
        kept = self._kept_filter(choice)
        if not kept.lock.acquire(timeout=SECONDS_PER_REQUEST):
            raise ApiError(503, "the filter is being made. Try again.", retry_after=5)
        try:
            kept.releases.deadline = deadline
            yield kept.log
        finally:
            kept.lock.release()

    def _kept_filter(self, choice: FilterChoice) -> KeptFilter:
        with self._lock:
            kept = self._filters.pop(choice, None)
            if kept is None:
                releases = GrowingLog(self)
                kept = KeptFilter(releases, FilteredLog(releases, choice), threading.Lock())
            self._filters[choice] = kept
            while len(self._filters) > MAX_FILTERS:
                self._filters.popitem(last=False)
            return kept

    @property
    def signed_head(self) -> Head:
        """The newest unit that is served, with its signature."""
        head = self.head
        return self.reader.at(self.name, head.unit) if head.unit else head

    def link(self, unit: int) -> str:
        """The link of the chain after a unit, in hexadecimal digits."""
        with self._lock:
            if self._links and self._links[0].unit <= unit <= self._links[-1].unit:
                return self._links[unit - self._links[0].unit].link.hex()
        return self.reader.at(self.name, unit).link.hex()

    def heads(self, first: int, last: int) -> list[Head]:
        """The heads after some units."""
        known = self.known_heads(first, last)
        if known is not None:
            return known
        rows = self.reader.release_rows(self.name, first, last)
        return [Head(unit, rows[unit][3]) for unit in sorted(rows)]

    def known_heads(self, first: int, last: int) -> list[Head] | None:
        """The heads after some units, if they are in memory."""
        with self._lock:
            if not self._links or first < self._links[0].unit or last > self._links[-1].unit:
                return None
            start = self._links[0].unit
            return [self._links[unit - start] for unit in range(first, last + 1)]

    def follow(self) -> bool:
        """Copy newer units; return whether there are more to copy at once.

        A store that does not go on from what was served is another one, such as an old backup. Then
        everything begins anew with what it has.
        """
        newest = self.follower.head(self.name)
        if self._is_another(newest):
            _log.error("service: the history of %r is another one now; it is read anew.", self.name)
            self._begin_anew(newest)
        behind = newest.unit - self.copy.head.unit
        self._is_behind = behind > UNITS_PER_STEP
        if self._is_behind:
            self._show(newest)
            self.copy.follow(UNITS_PER_STEP)
            return True
        if behind:
            self.copy.follow()
        self._show(self.copy.head)
        return False

    def _is_another(self, newest: Head) -> bool:
        mine = self.copy.head
        if newest.unit < mine.unit:
            return True
        if newest.unit > mine.unit and newest.unit == self._compared:
            return False
        self._compared = newest.unit
        return self.follower.at(self.name, mine.unit).link != mine.link

    def _begin_anew(self, newest: Head) -> None:
        series = self.follower.series(self.name)
        copy = KeyCopy(self.follower, self.name, self._folder)
        head = copy.head if copy.follow(UNITS_PER_STEP) else newest
        with self._lock:
            self._links.clear()
            self._filters.clear()
            self._remembered.clear()
            self._key_rows = None
            self.series, self.copy, self._head = series, copy, head
        self._verifier.forget(self.name)

    def _show(self, head: Head) -> None:
        """Let requests see a newer unit."""
        if head.unit <= self._head.unit and self._links:
            return
        first = max(self._links[-1].unit + 1 if self._links else 1, head.unit - MAX_LINKS_KEPT + 1)
        rows = self.follower.release_rows(self.name, first, head.unit)
        with self._lock:
            if self._links and first != self._links[-1].unit + 1:
                self._links.clear()
            self._links.extend(Head(unit, rows[unit][3]) for unit in sorted(rows))
        self._head = head


class ServedStore:
    """One store: its two connections and its streams."""

    def __init__(self, open_store: OpenStore, folder: Path) -> None:
        self.reader = open_store()
        try:
            self.follower = open_store()
        except BaseException:
            self.reader.close()
            raise
        self._folder = folder
        self.woken = threading.Event()
        self.streams: dict[str, ServedStream] = {}
        self.verifier = Verifier(open_store, self._heads)
        self.problem = ""
        self._open = open_store
        self._version = self.follower.data_version()
        self._polls = self._version is not None

    def refresh(self) -> None:
        """Add series that are new in the store."""
        for name in self.follower.series_names:
            if name not in self.streams:
                series = self.follower.series(name)
                place = self._folder / blake2b(name.encode(), digest_size=16).hexdigest()
                self.streams |= {name: self._served(series, place)}

    def wait(self, poll_seconds: float) -> None:
        """Wait until somebody wakes the service, or has committed.

        Parameters
        ----------
        poll_seconds : float
            How often SQLite is asked. A database that announces units is asked rarely.
        """
        seconds = SLOW_POLL_SECONDS if self.problem or not self._polls else poll_seconds
        while not self.woken.wait(seconds):
            if not self._polls or self.problem:
                return
            try:
                replaced = [each.refresh() for each in (self.reader, self.follower)]
                if any(replaced):
                    self._version = self.follower.data_version()
                    return
                version = self.follower.data_version()
            except PenstockError:
                return
            if version != self._version:
                self._version = version
                return
        self.woken.clear()

    def listen(self, stop: Callable[[], bool]) -> threading.Thread | None:
        """Let a database wake this store that announces its units; None for one that is polled.

        Parameters
        ----------
        stop : callable
            Asked whether to end.
        """
        if self._polls:
            return None

        def run() -> None:
            try:
                with self._open() as listener:
                    listener.listen(self.woken.set, stop)  # type: ignore[attr-defined]
            except PenstockError as error:
                _log.warning("service: new units are looked for every 2 s only: %s", error)

        return threading.Thread(target=run, name="penstock-listen", daemon=True)

    def _served(self, series: Series, folder: Path) -> ServedStream:
        return ServedStream(self.reader, self.follower, series, folder, self.verifier)

    def _heads(self) -> dict[str, int]:
        """What there is to verify: a copy that is being made has the store for itself."""
        return {
            name: stream.head.unit
            for name, stream in self.streams.items()
            if stream.catching_up is None
        }

    def close(self) -> None:
        """Close all connections."""
        self.verifier.close()
        self.reader.close()
        self.follower.close()


class ServedStreams:
    """All series that a service reads.

    Parameters
    ----------
    stores : sequence of callable
        Each opens a new connection to a store.
    folder : Path
        The folder of the copies by key. It is made if it is not there.
    """

    def __init__(self, stores: Sequence[OpenStore], folder: Path) -> None:
        self._stores: list[ServedStore] = []
        self._listeners: list[UnitListener] = []
        self._closing = False
        self._threads: list[threading.Thread] = []
        self._resources = ExitStack()
        try:
            folder = self._own_folder(folder)
            for place, open_store in enumerate(stores):
                self._stores.append(ServedStore(open_store, folder / str(place)))
            for store in self._stores:
                store.refresh()
        except BaseException:
            self.close()
            raise

    def _own_folder(self, folder: Path) -> Path:
        """The folder for the copies, locked; a temporary one while another process has it."""
        try:
            make_folder(folder)
            lock = open_locked(folder / LOCK)
        except BlockingIOError:
            _log.warning("service: another process has the copy; a temporary one is made.")
            made = self._resources.enter_context(TemporaryDirectory(prefix="penstock-"))
            return Path(made)
        except OSError as error:
            raise ConfigurationError(
                f"copy: {cannot('written', folder, error)} Name another folder.", parameter="copy"
            ) from None
        self._resources.callback(os.close, lock)
        return folder

    def __iter__(self) -> Iterator[ServedStream]:
        found = {name: each for store in self._stores for name, each in store.streams.items()}
        return iter([found[name] for name in sorted(found)])

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all series."""
        return tuple(each.name for each in self)

    def find(self, name: str) -> ServedStream:
        """A series by its name. An unknown one is an `ApiError` with the nearest name.

        Parameters
        ----------
        name : str
            The name.
        """
        for store in self._stores:
            if name in store.streams:
                return store.streams[name]
        raise unknown("stream", name, self.names)

    def listen(self, listener: UnitListener) -> None:
        """Call a function for each newer head of a series, from the thread that follows it.

        Parameters
        ----------
        listener : callable
            It gets the name of the series and the head.
        """
        self._listeners.append(listener)

    def start(self, *, poll_seconds: float = POLL_SECONDS) -> None:
        """Follow the stores, each in a thread of its own.

        Parameters
        ----------
        poll_seconds : float
            How often a store is looked at if nobody wakes the service. Default: 0.05.
        """
        for store in self._stores:
            self._step(store)
            thread = threading.Thread(
                target=self._follow, args=(store, poll_seconds), name="penstock-copy", daemon=True
            )
            self._threads.append(thread)
            listening = store.listen(lambda: self._closing)
            if listening is not None:
                self._threads.append(listening)
                listening.start()
            thread.start()
            store.verifier.start()

    def wake(self, series: str = "") -> None:
        """Look for new units now, from any thread.

        Parameters
        ----------
        series : str
            The series that has a new unit. Default: any.
        """
        for store in self._stores:
            if not series or series in store.streams or not store.streams:
                store.woken.set()

    def close(self) -> None:
        """Stop following, and close the stores."""
        self._closing = True
        self.wake()
        for thread in self._threads:
            thread.join()
        for store in self._stores:
            store.close()
        self._resources.close()

    def _follow(self, store: ServedStore, poll_seconds: float) -> None:
        while not self._closing:
            busy = self._step(store)
            if not busy:
                store.wait(poll_seconds)

    def _step(self, store: ServedStore) -> bool:
        """Follow all series of a store a little; return whether there is more to copy at once."""
        busy = False
        try:
            store.refresh()
            for stream in store.streams.values():
                before = stream.head
                busy |= stream.follow()
                if stream.head != before:
                    for listener in self._listeners:
                        listener(stream.name, stream.head)
        except PenstockError as error:
            if str(error) != store.problem:  # once for each problem, however often it is tried
                store.problem = str(error)
                _log.warning("service: the store cannot be followed: %s", error)
            return False
        store.problem = ""
        return busy
