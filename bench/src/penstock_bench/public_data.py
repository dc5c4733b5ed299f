"""The folder of public data, and streams of counts read from it."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from penstock.core.arrays import IntArray
from penstock.core.errors import ConfigurationError


def folder() -> Path | None:
    """The folder of data: `PENSTOCK_DATA`, default `../shared/data`; None if it does not exist."""
    named = os.environ.get("PENSTOCK_DATA")
    candidates = [Path(named)] if named else [Path("../shared/data")]
    return next((path for path in candidates if path.is_dir()), None)


def count_stream(name: str) -> IntArray:
    """One of the single streams in count_streams.parquet."""
    table = _read("count_streams.parquet")
    streams = table["stream"].cast("string").to_numpy(zero_copy_only=False)
    chosen = np.flatnonzero(streams == name)
    if not len(chosen):
        raise ConfigurationError(
            f"there is no stream {name!r} in count_streams.parquet: use "
            f"{', '.join(sorted(set(streams)))}."
        )
    order = np.argsort(table["t"].to_numpy()[chosen], kind="stable")
    return np.asarray(table["count"].to_numpy()[chosen][order], np.int64)


def flights_by_hour() -> tuple[tuple[str, ...], IntArray]:
    """Departures in flights2001_events.parquet: airports from west to east, one row per hour."""
    airports, events = _read("flights2001_airports.parquet"), _read("flights2001_events.parquet")
    order = np.argsort(airports["longitude"].to_numpy(), kind="stable")
    place = np.empty(int(airports["airport_id"].to_numpy().max()) + 1, np.int64)
    place[airports["airport_id"].to_numpy()[order]] = np.arange(len(order))
    names = airports["iata"].to_pylist()
    counts = _counts(
        events["minute"].to_numpy() // 60, place[events["origin"].to_numpy()], keys=len(order)
    )
    return tuple(names[index] for index in order), counts


def births_by_day() -> tuple[tuple[str, ...], IntArray]:
    """Births in us_births_daily.parquet: the states by name, one row of counts per day."""
    table = _read("us_births_daily.parquet")
    names, state = np.unique(
        table["state"].cast("string").to_numpy(zero_copy_only=False).astype(str),
        return_inverse=True,
    )
    counts = _counts(
        table["day"].to_numpy(), state, keys=len(names), weights=table["births"].to_numpy()
    )
    return tuple(names.tolist()), counts


def _counts(
    unit: IntArray, key: IntArray, *, keys: int, weights: IntArray | None = None
) -> IntArray:
    """One row of counts per unit, from events or from counts of them."""
    units = int(unit.max()) + 1
    flat = np.bincount(unit.astype(np.int64) * keys + key, weights=weights, minlength=units * keys)
    return np.asarray(flat, np.int64).reshape(units, keys)


def _read(name: str) -> Any:
    """One file of the folder as a table."""
    where = folder()
    if where is None or not (where / name).exists():
        raise ConfigurationError(
            f"there is no folder of data with {name}: set PENSTOCK_DATA to a folder that has it."
        )
    parquet: Any = import_module("pyarrow.parquet")
    return parquet.read_table(where / name)
