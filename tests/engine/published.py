"""Stores as a publisher leaves them, of made-up counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from penstock.engine.pipeline import Pipeline
from penstock.engine.sqlite import SQLiteStore
from penstock.engine.store import Store
from penstock.private.noise import TestNoise
from penstock.released.series import Series

KEYS = ["north", "south", "wést"]
VIEWS: list[dict[str, Any]] = [
    {"name": "hourly", "mechanism": "ba", "share": "2/3"},
    {"name": "daily", "every": "1d", "mechanism": "uniform", "contribution": 4},
]


def pipeline(**tables: Any) -> Pipeline:
    """A configuration with one view, or with what is given instead."""
    content: dict[str, Any] = {
        "stream": {"name": "taps", "every": "1h", "origin": "2026-01-01"},
        "source": {"kind": "stdin", "time": "ts", "key": "station", "person": "card"},
        "domain": {"keys": KEYS},
        "privacy": {"mechanism": "ba", "epsilon": "1", "window": 24},
    }
    return Pipeline.of({**content, **tables})


def several(**tables: Any) -> Pipeline:
    """A configuration with hours and days."""
    return pipeline(**{"privacy": {"epsilon": "1", "window": 24}, "view": VIEWS, **tables})


def publish(
    place: Path | Store,
    declared: Pipeline,
    units: int,
    *,
    seed: int | None = None,
    only: tuple[str, ...] = (),
) -> None:
    """Release so many small units of all views, or of some, into a file or a store, and give the
    leases back.
    """
    with SQLiteStore(place) if isinstance(place, Path) else place as store:
        for view in declared.views:
            if only and view.name not in only:
                continue
            run = view.mechanism.run(
                declared.domain(), noise=None if seed is None else TestNoise(seed), record=True
            )
            name = declared.series(view.name)
            store.begin(Series.of(run, name=name, calendar=view.calendar, facts=declared.facts()))
            for unit in range(1, units // view.units + 1):
                release = run.step([unit, 500 * (unit // 5 % 2), 7])
                lines = [line for line in run.ledger if line.unit == unit]
                store.commit(
                    name,
                    unit,
                    lines=lines,
                    release=release,
                    state=run.snapshot(),
                    positions={"events": 123_456},
                )
