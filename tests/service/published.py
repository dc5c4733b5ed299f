"""Stores that tests of the service read: published unit by unit, sealed, with a calendar."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import httpx
import numpy as np

from penstock import Mechanism, Uniform
from penstock.core.calendar import Calendar
from penstock.engine.sealing import Key
from penstock.engine.sql_store import SqlStore
from penstock.engine.sqlite import SQLiteReader, SQLiteStore
from penstock.released.series import Series
from penstock.service.options import ServiceOptions
from penstock.service.server import ServiceServer
from penstock.testing import TestNoise

KEYS = ("Harbour", "Market", "Airport", "Old Town")
CALENDAR = Calendar(every="1h", zone="Europe/Zurich", origin="2026-01-01")
KEY = Key(bytes(range(32)))


class PublishedStore:
    """A store with one series, to which units are added as a publisher adds them."""

    def __init__(
        self,
        store: SqlStore,
        *,
        name: str = "taps",
        mechanism: Mechanism | None = None,
        domain: object = KEYS,
        calendar: Calendar | None = CALENDAR,
        seed: int = 1,
    ) -> None:
        self.name, self._store = name, store
        self._rng = np.random.default_rng(seed)
        chosen = mechanism or Uniform(epsilon="4", window=4)
        self._run = chosen.run(domain, noise=TestNoise(seed), record=True)
        self._keys = len(self._run.domain.keys)
        self.series = Series.of(self._run, name=name, calendar=calendar)
        store.begin(self.series)
        self.unit = 0

    def grow(self, units: int = 1, counts: Sequence[int] | None = None) -> None:
        """Publish some more units."""
        for _ in range(units):
            self.unit += 1
            made = self._rng.poisson(40, self._keys) if counts is None else np.array(counts)
            release = self._run.step(made)
            lines = [line for line in self._run.ledger if line.unit == self.unit]
            self._store.commit(
                self.name,
                self.unit,
                lines=lines,
                release=release,
                state=self._run.snapshot(),
                positions={},
            )


def sealed_store(path: Path, key: Key | None = KEY) -> SQLiteStore:
    """A new store in SQLite."""
    return SQLiteStore(path, key=key)


def service(path: Path, folder: Path, **options: object) -> ServiceServer:
    """A service over a store in SQLite, at a free port."""
    settings = ServiceOptions(listen="127.0.0.1:0", **options)  # type: ignore[arg-type]
    return ServiceServer(settings, [lambda: SQLiteReader(path)], folder)


def client(server: ServiceServer, **options: object) -> httpx.Client:
    """Asks a service."""
    return httpx.Client(base_url=server.url, timeout=30, **options)  # type: ignore[arg-type]
