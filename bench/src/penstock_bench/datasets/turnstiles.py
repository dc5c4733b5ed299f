"""Passages through the turnstiles of the New York subway, in slots of four hours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from penstock.core.arrays import IntArray
from penstock.core.domain import Domain
from penstock.core.exact import Exact
from penstock.core.hierarchy import Hierarchy
from penstock_bench.datasets.base import Dataset, DatasetStream
from penstock_bench.datasets.counts import CountTable, places, tally
from penstock_bench.datasets.files import plain, table
from penstock_bench.datasets.thinned import Thinned

_SLOTS = 294


@dataclass(frozen=True)
class Turnstiles(Dataset):
    """Entries and exits by turnstile. `share` keeps a random part of the passages."""

    name: ClassVar[str] = "turnstiles"
    title: ClassVar[str] = "New York subway passages by turnstile"
    licence: ClassVar[str] = (
        "New York State open data, Metropolitan Transportation Authority: free reuse with "
        "attribution"
    )
    unit: ClassVar[str] = "4 hours"
    person: ClassVar[str] = "a passage"
    period: ClassVar[int | None] = 6
    key: ClassVar[str] = (
        "a turnstile, in a control area, in a unit of it, in a station, in a division"
    )
    levels: ClassVar[int] = 5
    shape: ClassVar[tuple[int, int] | None] = (294, 5_067)
    needs: ClassVar[tuple[str, ...]] = ("mta_turnstile.parquet", "mta_keys.parquet")

    share: Exact = 1
    seed: int = 1

    def make(self) -> DatasetStream:
        keys = _keys()
        paths = {
            f"{key['control_area']} {key['scp']}": (
                plain(key["division"]),
                _station(key),
                plain(key["unit"]),
                plain(key["control_area"]),
            )
            for key in keys
        }
        return self._part(
            CountTable(
                Hierarchy.of(paths), _passages(np.arange(len(keys)), keys), period=self.period
            )
        )

    def _part(self, stream: DatasetStream) -> DatasetStream:
        return stream if self.share == 1 else Thinned(stream, share=self.share, seed=self.seed)


@dataclass(frozen=True)
class Stations(Turnstiles):
    """Passages by station, the sum of its turnstiles. A station is a name and its lines."""

    name: ClassVar[str] = "stations"
    title: ClassVar[str] = "New York subway passages by station"
    key: ClassVar[str] = "a station"
    levels: ClassVar[int] = 1
    shape: ClassVar[tuple[int, int] | None] = (294, 478)

    def make(self) -> DatasetStream:
        keys = _keys()
        names, station = np.unique([_station(key) for key in keys], return_inverse=True)
        return self._part(
            CountTable(Domain(tuple(names.tolist())), _passages(station, keys), period=self.period)
        )


def _keys() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table("mta_keys.parquet").to_pylist()
    return found


def _passages(group: IntArray, keys: list[dict[str, Any]]) -> IntArray:
    """One row of counts per unit, summed by the group of each turnstile."""
    read = table("mta_turnstile.parquet")
    place = places([key["key_id"] for key in keys])[read["key_id"].to_numpy()]
    both = read["entries"].to_numpy().astype(np.int64) + read["exits"].to_numpy().astype(np.int64)
    return tally(
        read["slot"].to_numpy(),
        np.where(place < 0, -1, group[place]),
        units=_SLOTS,
        keys=int(np.max(group)) + 1,
        weights=both,
    )


def _station(key: dict[str, Any]) -> str:
    return f"{plain(key['station'])} ({plain(key['lines'])})"
