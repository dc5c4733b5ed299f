"""Flights within the United States, January to June 2001, by hour."""

from __future__ import annotations

from typing import ClassVar, Final

import numpy as np

from penstock.core.domain import Domain
from penstock.core.hierarchy import Hierarchy
from penstock.core.product import Product
from penstock_bench.datasets.base import Dataset, DatasetStream
from penstock_bench.datasets.counts import CountTable, tally
from penstock_bench.datasets.files import plain, table
from penstock_bench.public_data import flights_by_hour

_UNKNOWN: Final = "elsewhere"


class Flights(Dataset):
    """Departures by airport, from west to east: a range of airports is a strip of the country."""

    name: ClassVar[str] = "flights"
    title: ClassVar[str] = "US departures by airport, 2001"
    licence: ClassVar[str] = "public domain, US Bureau of Transportation Statistics"
    unit: ClassVar[str] = "an hour"
    person: ClassVar[str] = "a flight"
    period: ClassVar[int | None] = 24
    key: ClassVar[str] = "an airport"
    shape: ClassVar[tuple[int, int] | None] = (4_345, 229)
    needs: ClassVar[tuple[str, ...]] = (
        "flights2001_events.parquet",
        "flights2001_airports.parquet",
    )

    def make(self) -> DatasetStream:
        names, counts = flights_by_hour()
        return CountTable(Product.of(names), counts, period=self.period)


class FlightsByState(Flights):
    """Departures by airport, with state and region above."""

    name: ClassVar[str] = "flights_states"
    title: ClassVar[str] = "US departures by airport, city and state, 2001"
    key: ClassVar[str] = "an airport, in a city, in a state"
    levels: ClassVar[int] = 3

    def make(self) -> DatasetStream:
        names, counts = flights_by_hour()
        airports = table("flights2001_airports.parquet", "iata", "city", "state").to_pylist()
        where = {
            airport["iata"]: tuple(
                plain(airport[what], otherwise=_UNKNOWN) for what in ("state", "city")
            )
            for airport in airports
        }
        return CountTable(
            Hierarchy.of({name: where[name] for name in names}), counts, period=self.period
        )


class FlightRoutes(Flights):
    """Departures by route. Every route that was flown is a key."""

    name: ClassVar[str] = "flight_routes"
    title: ClassVar[str] = "US departures by route, 2001"
    key: ClassVar[str] = "a route"
    shape: ClassVar[tuple[int, int] | None] = (4_345, 3_399)

    def make(self) -> DatasetStream:
        airports = table("flights2001_airports.parquet", "airport_id", "iata")
        names = dict(
            zip(airports["airport_id"].to_pylist(), airports["iata"].to_pylist(), strict=True)
        )
        events = table("flights2001_events.parquet", "minute", "origin", "dest")
        hour = events["minute"].to_numpy().astype(np.int64) // 60
        size = 1 + max(names)
        pair = events["origin"].to_numpy().astype(np.int64) * size + events["dest"].to_numpy()
        routes, route = np.unique(pair, return_inverse=True)
        domain = Domain(
            tuple(f"{names[one // size]} to {names[one % size]}" for one in routes.tolist())
        )
        counts = tally(hour, route, units=int(hour.max()) + 1, keys=domain.size)
        return CountTable(domain, counts, period=self.period)
