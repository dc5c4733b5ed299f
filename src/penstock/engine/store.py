"""The protocols of a store: one transaction per unit, one publisher at a time, any number of
readers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, Self

from penstock.budget.accountant import Account
from penstock.budget.ledger import Line
from penstock.core.calendar import Calendar
from penstock.core.deprecated import moved
from penstock.core.errors import InputError, StateError
from penstock.core.released import Released
from penstock.core.snapshot_piece import Piece
from penstock.engine.chain import Fence, Head
from penstock.engine.sealing import Key
from penstock.engine.signing import PublicKey
from penstock.released.alerting import AlertEvent, RuleProgress
from penstock.released.log import Log
from penstock.released.series import Series


@dataclass(frozen=True, kw_only=True)
class Lease:
    """The right to publish a series. Each holder has a higher number; only the highest commits."""

    series: str
    owner: str
    number: int
    since: float
    expires: float


class LeaseError(StateError):
    """Another publisher holds the lease of the series. Nothing was written."""


@dataclass(frozen=True, kw_only=True)
class Committed:
    """The newest unit of a series. Before the first unit there is no release and no state.

    The unit may wait to be shown. Then the release is of the unit before it.
    """

    unit: int
    head: Head
    release: Released | None
    state: bytes | None = field(repr=False)
    pieces: Mapping[str, bytes] = field(repr=False)
    positions: Mapping[str, Any] = field(repr=False)
    private: Mapping[str, bytes] = field(repr=False)


@dataclass(frozen=True, kw_only=True, repr=False)
class VerifiedLedger:
    """The head of a chain that was followed to its end, and the cost of every window."""

    head: Head
    account: Account
    links: int
    """The number of links that were recomputed."""
    signed_from: int | None = None
    """The first signed unit: every later one is signed, too. None if no unit is."""
    signed_by: PublicKey | None = None
    """The key of all signatures, each of which was checked."""
    keyed_from: int | None = None
    """The first unit with a keyed link: every later one has one, too. None if no unit has one."""

    def __repr__(self) -> str:
        return f"<VerifiedLedger: {self.links} links, {self.account.verdict}>"

    @property
    def _links(self) -> str:
        signed = (
            "not signed" if self.signed_from is None else f"signed from unit {self.signed_from}"
        )
        return f"{self.links} links recomputed, {signed}"

    def _repr_html_(self) -> str:
        """The account for a notebook, with what was recomputed."""
        return self.account._repr_html_() + f"<p>{self._links}.</p>"


class Reader(Protocol):
    """Read-only access to a store's public part."""

    @property
    def series_names(self) -> tuple[str, ...]:
        """The names of all series."""

    def series(self, name: str) -> Series:
        """A series by its name."""

    def head(self, series: str) -> Head:
        """The newest unit and the link after it."""

    def at(self, series: str, unit: int) -> Head:
        """The link after a released unit; unit 0 is the beginning."""

    def releases(self, series: str, first: int = 1, last: int | None = None) -> Iterator[Released]:
        """The releases of these units, one after the other."""

    def lines(self, series: str, first: int = 1, last: int | None = None) -> Iterator[Line]:
        """The ledger lines of these units, in order."""

    def lease(self, series: str) -> Lease | None:
        """The newest lease of a series.

        None if nobody ever held one, or if the store does not say: an export has no leases, and a
        reader may lack the right to see them.
        """

    def marks(self, series: str) -> dict[str, int]:
        """The newest unit that each marked sink has of a series."""

    def alert_rules(self, series: str) -> tuple[RuleProgress, ...]:
        """How far each rule of a series has come, by name; none where the store does not say."""

    def alerts(
        self,
        series: str,
        first: int = 1,
        last: int | None = None,
        *,
        rule: str | None = None,
        key: str | None = None,
        limit: int | None = None,
    ) -> list[AlertEvent]:
        """The alerts of some units, by unit and rule; none where the store does not say.

        `rule` and `key` choose some of them, and `limit` is the most that are read; default: all.
        """

    def verify(
        self,
        series: str,
        *,
        head: Head | None = None,
        public_key: PublicKey | None = None,
        key: Key | None = None,
    ) -> VerifiedLedger:
        """Recompute every link and the cost of every window, and check every signature.

        The first line that is not as it was committed is a `LedgerError`. `head`, if given, must
        be in the past of the series. With `public_key`, the newest unit must be signed, and every
        signature must be by that key. With `key`, the one that seals the state, every keyed link
        is checked.
        """

    def check_past(self, series: str, head: Head, whose: str) -> None:
        """Refuse a head that this store never had, by a `StateError`; `whose` names the witness."""

    def waiting_head(self, series: str, key: Key | None) -> Head | None:
        """The head of a unit that is stored and not shown yet; None if there is none, or if it
        cannot be read: an export has none, and a sealed one needs the key of the state.
        """

    def strays(self) -> tuple[str, ...]:
        """A sentence for each series that has rows, and is not in the store."""

    def close(self) -> None:
        """Close the store."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


class SeriesLog(Log):
    """A series of a store as a release log, to ask queries of. It grows with the store."""

    def __init__(self, reader: Reader, series: str) -> None:
        what = reader.series(series)
        super().__init__(
            what.domain,
            guarantee=what.guarantee,
            mechanism=what.mechanism,
            configuration=what.configuration,
            name=what.name,
        )
        self._reader = reader
        self._promise = what.promise
        self._calendar = what.calendar

    @property
    def calendar(self) -> Calendar | None:
        """When its units begin and end, if that is known."""
        return self._calendar

    @property
    def promise(self) -> str:
        """The promise in words: for a view, that of all views of its stream together."""
        return self._promise

    def _bounds(self) -> tuple[int, int]:
        return 1, self._reader.head(self.name).unit

    def _read(self, first: int, last: int) -> Iterator[Released]:
        return self._reader.releases(self.name, first, last)

    def _add(self, release: Released) -> None:
        raise InputError(
            f"unit {release.unit}: {self.name!r} is open for reading only: its publisher commits."
        )


class Store(Reader, Protocol):
    """The database of a publisher. Readers, sinks and a restart go by it alone."""

    def begin(
        self,
        series: Series,
        *,
        seconds: float = 30,
        heads: Iterable[Head] = (),
        takeover: bool = False,
        fence: Fence | None = None,
    ) -> Lease:
        """Take the lease of a series.

        `heads` are those that sinks have seen: one that is not in the store's past is refused. A
        lease that another publisher holds is refused until it expires; with `takeover` it is taken
        at once. `fence` is asked before a unit is shown; default: the head file, if there is one.
        """

    def renew(self, series: str) -> Lease:
        """Hold the lease longer. A commit does so too."""

    def end(self, series: str) -> None:
        """Give the lease back."""

    def last(self, series: str) -> Committed | None:
        """The newest unit, with everything needed to go on; None if nothing was saved yet."""

    def together(self) -> AbstractContextManager[None]:
        """All commits, saves and marks inside are one transaction.

        Afterwards `settle` shows the units, if there is a fence.
        """

    def mark(self, series: str, sink: str, unit: int) -> None:
        """Note that a sink has all releases up to this unit, for sinks that cannot tell."""

    def record_alerts(
        self, series: str, found: Iterable[tuple[RuleProgress, Sequence[AlertEvent]]]
    ) -> None:
        """Write how far some rules have come, each with its newest alerts, all of it or nothing.

        A power cut may undo it: then the same units give the same alerts again. `sent` counts for
        a new rule only.
        """

    def unsent_alerts(self, series: str, rule: str, limit: int) -> tuple[int, list[AlertEvent]]:
        """How many alerts of a rule were sent, and the next ones: all of one unit, and at most so
        many.
        """

    def mark_alerts_sent(self, series: str, rule: str, number: int) -> None:
        """Note that the alerts of a rule were sent up to this number."""

    def commit(
        self,
        series: str,
        unit: int,
        *,
        lines: Iterable[Line],
        release: Released,
        state: bytes,
        positions: Mapping[str, Any],
        private: Mapping[str, bytes | None] | None = None,
        pieces: Mapping[str, Piece] | None = None,
    ) -> Head:
        """Write everything of the next unit, all of it or nothing, before anyone can see it.

        With a fence, nobody sees the unit before `settle`, which is done here outside `together`.
        `pieces` belong to the state and replace all earlier ones. A piece that may be compared, and
        is as the last commit wrote it, is not written again.
        `positions` replace the earlier ones. `private` holds data of units that are still open, in
        named parts: given parts are replaced, None removes a part, the others stay.
        """

    def settle(self, names: Iterable[str]) -> None:
        """Show the units of some series that are stored and not shown yet.

        First the heads of these series move at their fence, all at once, from exactly those that
        this store left there; then the units become public. If the fence has another head, another
        copy of the store went on: that is a `FencedError`, and nothing is shown. A
        `StoreUnavailableError` or `SinkError` means that the units wait, and the call is worth a
        retry. Where nothing waits, nothing happens.
        """

    def pending(self, series: str) -> Released | None:
        """The release of the unit that is stored and not shown yet; None if there is none.

        It is as secret as the saved state.
        """

    def save(
        self, series: str, *, positions: Mapping[str, Any], private: Mapping[str, bytes | None]
    ) -> None:
        """Write the data of open units and the positions up to which they were read, all of it or
        nothing. No unit is released.
        """

    def erase(self) -> bool:
        """Erase what the database still keeps of private data that were replaced or removed.

        Returns whether nothing of them is left; if not, ask again later. A database that cannot
        erase says True.
        """


if not TYPE_CHECKING:
    __getattr__ = moved(__name__)
