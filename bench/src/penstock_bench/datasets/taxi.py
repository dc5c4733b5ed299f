"""Trips of New York's green taxis, by start zone or by number of passengers."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np

from penstock.core.domain import Domain
from penstock.core.errors import ConfigurationError
from penstock.core.exact import whole
from penstock.core.hierarchy import Hierarchy
from penstock_bench.datasets.base import Dataset, DatasetStream
from penstock_bench.datasets.counts import CountTable, places, tally
from penstock_bench.datasets.files import table

_LICENCE: Final = "New York City open data, Taxi and Limousine Commission"
_DAY: Final = 24 * 60
_MOST_PASSENGERS: Final = 6


class TaxiZones(Dataset):
    """Trips by start zone, January to May 2021."""

    name: ClassVar[str] = "taxi_zones"
    title: ClassVar[str] = "New York green taxi trips by zone, 2021"
    licence: ClassVar[str] = _LICENCE
    unit: ClassVar[str] = "4 hours"
    person: ClassVar[str] = "a trip"
    period: ClassVar[int | None] = 6
    key: ClassVar[str] = "a zone, in a borough"
    levels: ClassVar[int] = 2
    shape: ClassVar[tuple[int, int] | None] = (906, 265)
    needs: ClassVar[tuple[str, ...]] = ("nyc_green_2021_jan_may.parquet", "nyc_zones.parquet")

    def make(self) -> DatasetStream:
        zones = table("nyc_zones.parquet", "zone_id", "borough", "zone").to_pylist()
        times = Counter(zone["zone"] for zone in zones)
        names = [
            f"{zone['zone']} ({zone['zone_id']})" if times[zone["zone"]] > 1 else str(zone["zone"])
            for zone in zones
        ]
        paths = {name: (str(zone["borough"]),) for name, zone in zip(names, zones, strict=True)}
        place = places([zone["zone_id"] for zone in zones])
        trips = table(self.needs[0], "pickup", "pu_zone")
        zone = place[trips["pu_zone"].to_numpy()]
        unit, units = _units(trips["pickup"], minutes=240)
        return CountTable(
            Hierarchy.of(paths), tally(unit, zone, units=units, keys=len(zones)), period=self.period
        )


class TaxiZonesCollapse(TaxiZones):
    """Trips by start zone, March and April 2020, during the first lockdown."""

    name: ClassVar[str] = "taxi_zones_2020"
    title: ClassVar[str] = "New York green taxi trips by zone, the collapse of March 2020"
    shape: ClassVar[tuple[int, int] | None] = (366, 265)
    needs: ClassVar[tuple[str, ...]] = ("nyc_green_2020_mar_apr.parquet", "nyc_zones.parquet")


@dataclass(frozen=True)
class TaxiPassengers(Dataset):
    """Trips by number of passengers, 1 to 6, in units of a few minutes. Other trips are left
    out."""

    name: ClassVar[str] = "taxi_passengers"
    title: ClassVar[str] = "New York green taxi trips by passengers, 2021"
    licence: ClassVar[str] = _LICENCE
    unit: ClassVar[str] = "5 minutes"
    person: ClassVar[str] = "a trip"
    period: ClassVar[int | None] = 288
    key: ClassVar[str] = "a number of passengers"
    shape: ClassVar[tuple[int, int] | None] = (43_488, 6)
    needs: ClassVar[tuple[str, ...]] = ("nyc_green_2021_jan_may.parquet",)

    minutes: int = 5

    def __post_init__(self) -> None:
        if _DAY % whole(self.minutes, name="minutes", least=1):
            raise ConfigurationError(f"minutes must divide a day of {_DAY}, not be {self.minutes}.")

    def make(self) -> DatasetStream:
        trips = table(self.needs[0], "pickup", "passengers")
        unit, units = _units(trips["pickup"], minutes=self.minutes)
        passengers = trips["passengers"].fill_null(0).to_numpy()
        known = (passengers >= 1) & (passengers <= _MOST_PASSENGERS)
        counts = tally(unit[known], passengers[known] - 1, units=units, keys=_MOST_PASSENGERS)
        names = (
            "1 passenger",
            *(f"{number} passengers" for number in range(2, _MOST_PASSENGERS + 1)),
        )
        return CountTable(Domain(names), counts, period=_DAY // self.minutes)


@dataclass(frozen=True)
class TaxiPassengersCollapse(TaxiPassengers):
    """Trips by number of passengers, March and April 2020."""

    name: ClassVar[str] = "taxi_passengers_2020"
    title: ClassVar[str] = "New York green taxi trips by passengers, the collapse of March 2020"
    shape: ClassVar[tuple[int, int] | None] = (17_568, 6)
    needs: ClassVar[tuple[str, ...]] = ("nyc_green_2020_mar_apr.parquet",)


def _units(times: Any, *, minutes: int) -> tuple[Any, int]:
    """The unit of each time, from 0, and the number of units from the first day to the last."""
    at = times.to_numpy().astype("datetime64[m]")
    first, last = at.min().astype("datetime64[D]"), at.max().astype("datetime64[D]")
    unit = (at - first.astype("datetime64[m]")).astype(np.int64) // minutes
    return unit, (int((last - first).astype(np.int64)) + 1) * _DAY // minutes
