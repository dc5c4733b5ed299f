"""Small folders of data, made by the tests that need them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np


def write(folder: Path, **tables: dict[str, Any]) -> None:
    """Parquet files of these names with these columns."""
    import pyarrow
    from pyarrow import parquet

    for name, columns in tables.items():
        parquet.write_table(pyarrow.table(columns), folder / f"{name}.parquet")


def times(written: list[str]) -> np.ndarray:
    """Times without a zone, as the files have them."""
    return np.array(written, "datetime64[ms]")
