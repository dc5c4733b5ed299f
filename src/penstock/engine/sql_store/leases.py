"""Who may publish a series: one holder at a time, each with a higher number than the one before."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from penstock.core.errors import StateError
from penstock.engine.store import Lease, LeaseError

if TYPE_CHECKING:
    from penstock.engine.sql_store.store import SqlStore


class Leases:
    """The leases that one publisher holds; `owner` tells publishers apart."""

    def __init__(self, store: SqlStore, owner: str) -> None:
        self._store = store
        self._owner = owner
        self._held: dict[str, tuple[int, float]] = {}

    @property
    def series(self) -> tuple[str, ...]:
        """The series whose lease is held here."""
        return tuple(self._held)

    def take(self, series: str, seconds: float, *, takeover: bool) -> Lease:
        """Write a new lease, inside a transaction; `hold` it once that is committed."""
        now = self._store._now()
        held = self._store._lease(series)
        free = held is None or held.owner in ("", self._owner) or now >= held.expires
        if held is not None and not free and not takeover:
            raise LeaseError(
                f"series {series!r} is {_holder(held)}, until {_when(held.expires)} if it does not "
                "renew: two publishers would release a unit twice. Stop it first, or wait."
            )
        lease = Lease(
            series=series,
            owner=self._owner,
            number=held.number + 1 if held else 1,
            since=now,
            expires=now + seconds,
        )
        self._write(lease)
        return lease

    def hold(self, lease: Lease, seconds: float) -> None:
        """Remember a lease that was committed."""
        self._held[lease.series] = lease.number, seconds

    def check(self, series: str) -> Lease:
        """The lease, if it is still this publisher's, and until this transaction ends."""
        if series not in self._held:
            raise StateError(
                f"series {series!r} has not begun here: take its lease first. Nothing was written."
            )
        number, _ = self._held[series]
        held = self._store._lease(series)
        if held is None or held.number != number or held.owner != self._owner:
            raise LeaseError(
                f"series {series!r} is {_holder(held)}: another publisher has taken it over. "
                "Nothing was written."
            )
        return held

    def renew(self, series: str) -> Lease:
        """Write a later end, never an earlier one, if the lease is still this publisher's."""
        held = self.check(series)
        _, seconds = self._held[series]
        lease = replace(held, expires=max(held.expires, self._store._now() + seconds))
        self._write(lease)
        return lease

    def give_back(self, series: str) -> None:
        """End the lease now, inside a transaction; `drop` it once that is committed."""
        self._write(replace(self.renew(series), owner="", expires=self._store._now()))

    def drop(self, series: str) -> None:
        """Forget a lease that was given back."""
        del self._held[series]

    def _write(self, lease: Lease) -> None:
        self._store._execute(
            "INSERT INTO leases (stream, owner, number, since, expires) VALUES (?, ?, ?, ?, ?) "
            "ON CONFLICT (stream) DO UPDATE SET owner = excluded.owner, number = excluded.number, "
            "since = excluded.since, expires = excluded.expires",
            lease.series,
            lease.owner,
            lease.number,
            lease.since,
            lease.expires,
        )


def _holder(lease: Lease | None) -> str:
    if lease is None or not lease.owner:
        return "held by nobody"
    return f"held by publisher {lease.owner} since {_when(lease.since)}"


def _when(moment: float) -> str:
    return f"{datetime.fromtimestamp(moment, UTC):%Y-%m-%d %H:%M:%S} UTC"
