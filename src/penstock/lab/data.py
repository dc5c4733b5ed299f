"""Where public data for benchmarks lie, and single streams of counts read from them."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from penstock.core.arrays import IntArray
from penstock.core.errors import ConfigurationError, MissingExtraError


def folder() -> Path | None:
    """The folder of data: `PENSTOCK_DATA`, or ../shared/data beside the working folder; None if there is none."""
    named = os.environ.get("PENSTOCK_DATA")
    candidates = [Path(named)] if named else [Path("../shared/data")]
    return next((path for path in candidates if path.is_dir()), None)


def count_stream(name: str) -> IntArray:
    """One of the single streams in count_streams.parquet."""
    where = folder()
    if where is None:
        raise ConfigurationError("there is no folder of data: set PENSTOCK_DATA to one that holds count_streams.parquet.")
    try:
        from pyarrow import compute, parquet
    except ImportError:
        raise MissingExtraError("pyarrow", "columns", "reading Parquet") from None
    table = parquet.read_table(where / "count_streams.parquet")
    chosen = table.filter(compute.equal(table["stream"].cast("string"), name))
    if not len(chosen):
        names = sorted(set(table["stream"].cast("string").to_pylist()))
        raise ConfigurationError(f"there is no stream {name!r} in count_streams.parquet: use {', '.join(names)}.")
    order = np.argsort(chosen["t"].to_numpy(), kind="stable")
    return np.asarray(chosen["count"].to_numpy()[order], np.int64)
