"""Cost of the fence: time from the start of a commit until everybody may see the unit.

    python benchmarks/fence.py [--json]

With PENSTOCK_TEST_POSTGRES (see .ci/services), stores in PostgreSQL are measured too.

Two stores take the same unit every second, one after the other, in turn. One has a head file as its
fence: the unit is stored, the head moves from exactly the last one, then the unit becomes public.
The other has the order without a fence: one transaction makes the unit public, then the head file
is overwritten. Wall-clock milliseconds, the median of all units, and the ratio. The bar is 1.2.
"""

from __future__ import annotations

import os
import secrets
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from penstock import Laplace
from penstock.core.domain import Domain
from penstock.engine.chain import HeadFile
from penstock.engine.postgres import PostgresStore
from penstock.engine.sealing import Key
from penstock.engine.sqlite import SQLiteStore
from penstock.private.noise import Noise, SystemNoise
from penstock.released.series import Series

from report import Figure, main

SIZES = {"40 keys": 40, "10,000 keys": 10_000, "88,762 keys": 88_762}
SERVER = os.environ.get("PENSTOCK_TEST_POSTGRES")
UNITS = 40
PACE = 1.0
EVENTS = bytes(200_000)
"""The private part that changes with every unit: data of open units."""


class CommittingStream:
    """One stream with a store of its own, which takes units in one of the two orders."""

    def __init__(
        self, folder: Path, keys: int, *, fenced: bool, noise: Noise, server: bool = False
    ) -> None:
        domain = Domain.of([f"place {number}" for number in range(keys)])
        self.run = Laplace(epsilon="1").run(domain, noise=noise)
        self.took: list[float] = []
        self._counts = np.arange(keys) % 100
        (folder / "elsewhere").mkdir(parents=True)
        head = folder / "elsewhere" / "visits.head"
        self._head_file = None if fenced else HeadFile(head)
        kept: dict[str, Any] = {"head": head if fenced else None, "key": Key(bytes(32))}
        self.store: PostgresStore | SQLiteStore = (
            PostgresStore(new_schema(), **kept)
            if server
            else SQLiteStore(folder / "visits.db", **kept)
        )
        self.store.begin(Series.of(self.run, name="visits"), seconds=3_600)

    def unit(self) -> None:
        """Draw a unit, which is not timed, then commit it until everybody may see it."""
        release = self.run.step(self._counts)
        state, number = self.run.snapshot(), self.run.unit
        lines = [line for line in self.run.ledger if line.unit == number]
        began = time.perf_counter()
        head = self.store.commit(
            "visits",
            number,
            lines=lines,
            release=release,
            state=state,
            positions={"events": number},
            private={f"events {number}": EVENTS, f"events {number - 1}": None},
        )
        if self._head_file is not None:
            self._head_file.update({"visits": head})
        self.took.append(time.perf_counter() - began)
        self.store.erase()  # as the publisher does when it rests


def new_schema() -> str:
    """The address of an empty schema on the server. It stays, and is small."""
    import psycopg

    schema = f"bench_{secrets.token_hex(6)}"
    with psycopg.connect(SERVER or "", autocommit=True) as server:
        server.execute(f"CREATE SCHEMA {schema}".encode())
    return f"{SERVER}?options=-csearch_path%3D{schema}"


def figures() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        pairs = {}
        for server in (False, True) if SERVER else (False,):
            for name, keys in SIZES.items():
                where = f"{'PostgreSQL' if server else 'SQLite'}, {name}"
                pairs[where] = [
                    CommittingStream(
                        Path(folder) / f"{where} {fenced}",
                        keys,
                        fenced=fenced,
                        noise=SystemNoise(),
                        server=server,
                    )
                    for fenced in (True, False)
                ]
                for each in pairs[where]:
                    stack.callback(each.store.close)
        for unit in range(UNITS):
            due = time.monotonic() + PACE
            for pair in pairs.values():
                for each in pair[:: -1 if unit % 2 else 1]:
                    each.unit()
            time.sleep(max(due - time.monotonic(), 0))
        for name, (fenced, plain) in pairs.items():
            new, old = (median(each.took[1:]) for each in (fenced, plain))
            yield Figure(f"{name}: with the fence", 1_000 * new, "ms")
            yield Figure(f"{name}: without", 1_000 * old, "ms")
            yield Figure(f"{name}: in multiples of that", new / old, "x", 1.2)


if __name__ == "__main__":
    main(__doc__ or "", figures)
