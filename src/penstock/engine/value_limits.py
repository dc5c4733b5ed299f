"""Which domains are too wide for a store: a value in a database has a largest size.

A state is stored in pieces, so it has no limit of its own. The keys of a series, the release of a
unit and the head of a snapshot are one value each.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from penstock.core.domain import Domain
from penstock.engine.config_sections import InvalidConfigurationError, Problem
from penstock.engine.pipeline import Pipeline, View
from penstock.private.noise import NoNoise
from penstock.private.run import Run
from penstock.released import encoding
from penstock.released.series import Series

MAX_VALUE_BYTES = 10**9 - 2**16
"""The largest value of a store. SQLite takes rows of 10⁹ bytes, and PostgreSQL 7 % more."""

WIDE = 1_000_000
"""Fewer keys have small values, unless their names are very long."""

_UNITS_TRIED = (10**6, 0, 10**6)
"""The counts of each key in made-up units: one that is released, one without events, one more."""


def refuse_too_wide(pipeline: Pipeline, name: str) -> None:
    """Refuse a configuration whose values would not fit the store, and say how many keys would.

    Mechanisms are tried on made-up counts. Neither data nor the store are touched. `name` is that
    of the configuration, for the message.
    """
    keys = pipeline.domain()
    if keys.size < WIDE and sum(map(len, keys.keys)) < MAX_VALUE_BYTES // 10:
        return
    problems = [
        Problem(("domain",), _message(keys, what, size))
        for view in pipeline.views
        for what, size in _values(pipeline, view)
        if size > MAX_VALUE_BYTES
    ]
    if problems:
        raise InvalidConfigurationError(name, problems)


def _message(keys: Domain, what: str, size: int) -> str:
    fitting = keys.size * MAX_VALUE_BYTES // size
    fitting -= fitting % 10 ** max(len(str(fitting)) - 2, 0)  # not all bytes grow with the keys
    return (
        f"{keys.size:,} keys are too many: {what} would take {size / 1e9:.3g} GB, and a store "
        f"takes values of 1 GB at most. Declare at most {fitting:,} such keys."
    )


def _values(pipeline: Pipeline, view: View) -> Iterator[tuple[str, int]]:
    """What is stored as one value, and its bytes at most."""
    run = view.mechanism.run(pipeline.domain(), noise=NoNoise())
    series = Series.of(
        run, name=pipeline.series(view.name), calendar=view.calendar, facts=pipeline.facts()
    )
    yield f"the list of keys of {view.name!r}", len(series.about.encode())
    release, state = _tried(run)
    yield f"a release of {view.name!r}", release
    yield f"the state of {view.name!r} without its arrays", state


def _tried(run: Run) -> tuple[int, int]:
    """The most bytes of a release, and of the head of a snapshot, in some made-up units."""
    release = 0
    for count in _UNITS_TRIED:
        found = run.step(np.full(run.domain.size, count, np.int64))
        release = max(release, encoding.most_bytes(found))
    return release, len(run.snapshot_in_pieces().head)
