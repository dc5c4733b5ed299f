"""Rented bikes of the San Francisco Bay Area in 2014, by hour."""

from __future__ import annotations

from typing import Any, ClassVar, Final

import numpy as np

from penstock.core.arrays import IntArray
from penstock.core.hierarchy import Hierarchy
from penstock_bench.datasets.base import Dataset, DatasetStream
from penstock_bench.datasets.counts import CountTable, places, tally
from penstock_bench.datasets.files import plain, table

_FIRST: Final = np.datetime64("2014-01-01T00", "h")
_HOURS: Final = 365 * 24


class Bikes(Dataset):
    """The station of every bike at each full hour: **one**, or none during a ride.

    A bike counts from the end of its first trip of the year to the start of its last, so the first
    and last weeks fill and empty. A fifth of the stays end with a van at an unknown time; they
    count to the recorded end.
    """

    name: ClassVar[str] = "bikes"
    title: ClassVar[str] = "Bay Area bikes at their stations, 2014"
    licence: ClassVar[str] = "CC0"
    unit: ClassVar[str] = "an hour"
    person: ClassVar[str] = "a bike"
    period: ClassVar[int | None] = 24
    stock: ClassVar[bool] = True
    key: ClassVar[str] = "a station, in a city"
    levels: ClassVar[int] = 2
    shape: ClassVar[tuple[int, int] | None] = (8_760, 70)
    needs: ClassVar[tuple[str, ...]] = ("bikes14_visits.parquet", "bikes14_stations.parquet")

    def make(self) -> DatasetStream:
        domain, place = _stations()
        stays = table("bikes14_visits.parquet", "station", "arrive", "leave")
        station = place[stays["station"].to_numpy()]
        first, end = (_next_hour(stays[what]) for what in ("arrive", "leave"))
        steps = tally(first, station, units=_HOURS + 1, keys=domain.size)
        steps -= tally(end, station, units=_HOURS + 1, keys=domain.size)
        return CountTable(domain, np.cumsum(steps[:-1], axis=0), period=self.period)


class BikeDepartures(Bikes):
    """Trips by the station where they begin."""

    name: ClassVar[str] = "bike_departures"
    title: ClassVar[str] = "Bay Area bike trips by station, 2014"
    person: ClassVar[str] = "a trip"
    stock: ClassVar[bool] = False
    needs: ClassVar[tuple[str, ...]] = ("bikes14_trips.parquet", "bikes14_stations.parquet")

    def make(self) -> DatasetStream:
        domain, place = _stations()
        trips = table("bikes14_trips.parquet", "start", "from_station")
        hour = (trips["start"].to_numpy().astype("datetime64[h]") - _FIRST).astype(np.int64)
        counts = tally(
            hour, place[trips["from_station"].to_numpy()], units=_HOURS, keys=domain.size
        )
        return CountTable(domain, counts, period=self.period)


def _stations() -> tuple[Hierarchy, IntArray]:
    """The stations by city, and the place of each station's number."""
    stations = table("bikes14_stations.parquet", "station_id", "name", "city").to_pylist()
    domain = Hierarchy.of({str(one["name"]): (plain(one["city"]),) for one in stations})
    return domain, places([one["station_id"] for one in stations])


def _next_hour(times: Any) -> IntArray:
    """The first full hour at or after each time, from the first of the year; at most one past the
    last.
    """
    minutes = (times.to_numpy().astype("datetime64[m]") - _FIRST.astype("datetime64[m]")).astype(
        np.int64
    )
    return np.asarray(np.minimum(-(-minutes // 60), _HOURS), np.int64)
