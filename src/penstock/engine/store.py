"""What a store is: everything of a unit in one transaction, by one publisher at a time, for anybody
to read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, Self

from penstock.budget.accountant import Account
from penstock.budget.ledger import Line
from penstock.core.deprecated import moved
from penstock.core.errors import InputError, StateError
from penstock.core.released import Released
from penstock.engine.chain import Head
from penstock.released.log import Log
from penstock.released.series import Series


@dataclass(frozen=True, kw_only=True)
class Lease:
    """Who may publish a stream. Each holder has a higher number, and only the highest commits."""

    series: str
    owner: str
    number: int
    since: float
    expires: float


class LeaseError(StateError):
    """The stream is somebody else's to publish. Nothing was written."""


@dataclass(frozen=True, kw_only=True)
class Committed:
    """Where a stream stands. Before its first unit there is no release and no state."""

    unit: int
    head: Head
    release: Released | None
    state: bytes | None = field(repr=False)
    positions: Mapping[str, Any] = field(repr=False)
    private: Mapping[str, bytes] = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class VerifiedLedger:
    """A chain that was followed to its head, and what every window of it cost."""

    head: Head
    account: Account


class Reader(Protocol):
    """What anybody may read of a store."""

    @property
    def series_names(self) -> tuple[str, ...]:
        """The names of all series."""

    def series(self, name: str) -> Series:
        """What a stream is of."""

    def head(self, stream: str) -> Head:
        """The newest unit and the link after it."""

    def at(self, stream: str, unit: int) -> Head:
        """The link after a unit that was released; unit 0 is the beginning."""

    def releases(self, stream: str, first: int = 1, last: int | None = None) -> Iterator[Released]:
        """What was released of these units, one after the other."""

    def lines(self, stream: str, first: int = 1, last: int | None = None) -> Iterator[Line]:
        """The ledger lines of these units, in order."""

    def lease(self, stream: str) -> Lease | None:
        """Who may publish it; None if nobody ever did, or the store does not say (an export, or a
        reader without the right).
        """

    def marks(self, stream: str) -> dict[str, int]:
        """Up to which unit each sink that was marked has the stream's releases."""

    def verify(self, stream: str, *, head: Head | None = None) -> VerifiedLedger:
        """Recompute every link and the cost of every window; the first line that is wrong is a
        `LedgerError`.
        """

    def close(self) -> None:
        """Let go of the store."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


class SeriesLog(Log):
    """A stream of a store as a release log to ask; it grows with the store."""

    def __init__(self, reader: Reader, stream: str) -> None:
        what = reader.series(stream)
        super().__init__(
            what.domain,
            guarantee=what.guarantee,
            mechanism=what.mechanism,
            configuration=what.configuration,
            name=what.name,
        )
        self._reader = reader
        self._promise = what.promise

    @property
    def promise(self) -> str:
        """What is promised, in words: of a view, what all views of its stream promise together."""
        return self._promise

    def _bounds(self) -> tuple[int, int]:
        return 1, self._reader.head(self.name).unit

    def _read(self, first: int, last: int) -> Iterator[Released]:
        return self._reader.releases(self.name, first, last)

    def _add(self, release: Released) -> None:
        raise InputError(f"unit {release.unit}: {self.name!r} is read here: its publisher commits.")


class Store(Reader, Protocol):
    """Where a publisher keeps everything: the only thing that its readers, its sinks and a restart
    go by.
    """

    def begin(
        self,
        stream: Series,
        *,
        seconds: float = 30,
        heads: Iterable[Head] = (),
        takeover: bool = False,
    ) -> Lease:
        """Take the stream's lease. `heads` are what sinks have seen: one that is not in the store's
        past is refused.

        A lease that another publisher holds is refused until it expires; with `takeover` it is
        taken at once.
        """

    def renew(self, stream: str) -> Lease:
        """Hold the lease longer. A commit does so too."""

    def end(self, stream: str) -> None:
        """Give the lease back."""

    def last(self, stream: str) -> Committed | None:
        """Where the stream stands, with everything needed to go on; None if nothing was kept yet."""

    def together(self) -> AbstractContextManager[None]:
        """What is committed, saved and marked inside is one transaction: all of it or nothing."""

    def mark(self, stream: str, sink: str, unit: int) -> None:
        """Note that a sink has all releases up to this unit: for sinks that cannot tell themselves."""

    def commit(
        self,
        stream: str,
        unit: int,
        *,
        lines: Iterable[Line],
        release: Released,
        state: bytes,
        positions: Mapping[str, Any],
        private: Mapping[str, bytes | None] | None = None,
    ) -> Head:
        """Keep everything of the next unit, all of it or nothing, before anyone can see it.

        `positions` replace the earlier ones. `private` holds what is kept of units that are still
        open, in named parts: those given are replaced, None takes one away, and the others stay.
        """

    def save(
        self, stream: str, *, positions: Mapping[str, Any], private: Mapping[str, bytes | None]
    ) -> None:
        """Keep what was read of open units, and how far that was: all of it or nothing, and no unit
        is released.
        """


if not TYPE_CHECKING:
    __getattr__ = moved(__name__)
