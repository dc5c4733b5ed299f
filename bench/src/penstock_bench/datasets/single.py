"""Single streams: one number per unit, from almost 0 to 100,000."""

from __future__ import annotations

from typing import ClassVar, Final

from penstock.core.domain import Domain
from penstock_bench.datasets.base import Dataset, DatasetStream
from penstock_bench.datasets.counts import CountTable
from penstock_bench.datasets.files import text
from penstock_bench.datasets.worldcup import NOTICE, WorldCup
from penstock_bench.public_data import count_stream

_CC0: Final = "CC0"
_TAXI: Final = "New York City open data, Taxi and Limousine Commission"
_MELBOURNE: Final = "CC BY 4.0, City of Melbourne"


class Single(Dataset):
    """One of the streams in count_streams.parquet, by its name there."""

    key: ClassVar[str] = "all of it"
    needs: ClassVar[tuple[str, ...]] = ("count_streams.parquet",)

    def make(self) -> DatasetStream:
        return CountTable(Domain(("all",)), count_stream(self.name)[:, None], period=self.period)


class BikeLow(Single):
    """Bay Area bikes in 2014, station 46: almost always 0."""

    name: ClassVar[str] = "bike_low"
    title: ClassVar[str] = "departures from one bike station"
    licence: ClassVar[str] = _CC0
    unit: ClassVar[str] = "10 minutes"
    person: ClassVar[str] = "a trip"
    period: ClassVar[int | None] = 144
    shape: ClassVar[tuple[int, int] | None] = (52_560, 1)


class BikeMed(Single):
    """Bay Area bikes in 2014, the six busiest stations."""

    name: ClassVar[str] = "bike_med"
    title: ClassVar[str] = "departures from six busy bike stations"
    licence: ClassVar[str] = _CC0
    unit: ClassVar[str] = "10 minutes"
    person: ClassVar[str] = "a trip"
    period: ClassVar[int | None] = 144
    shape: ClassVar[tuple[int, int] | None] = (52_560, 1)


class BikeAll(Single):
    """Bay Area bikes in 2014, everywhere."""

    name: ClassVar[str] = "bike_all"
    title: ClassVar[str] = "departures from all bike stations"
    licence: ClassVar[str] = _CC0
    unit: ClassVar[str] = "10 minutes"
    person: ClassVar[str] = "a trip"
    period: ClassVar[int | None] = 144
    shape: ClassVar[tuple[int, int] | None] = (52_560, 1)


class SmallCarriersLow(Single):
    """New York in 2013: almost always 0."""

    name: ClassVar[str] = "nyc_small_carriers_low"
    title: ClassVar[str] = "departures of five small airlines from New York"
    licence: ClassVar[str] = _CC0
    unit: ClassVar[str] = "10 minutes"
    person: ClassVar[str] = "a flight"
    period: ClassVar[int | None] = 144
    shape: ClassVar[tuple[int, int] | None] = (52_560, 1)


class LaGuardiaMed(Single):
    """New York in 2013."""

    name: ClassVar[str] = "lga_med"
    title: ClassVar[str] = "departures from LaGuardia"
    licence: ClassVar[str] = _CC0
    unit: ClassVar[str] = "10 minutes"
    person: ClassVar[str] = "a flight"
    period: ClassVar[int | None] = 144
    shape: ClassVar[tuple[int, int] | None] = (52_560, 1)


class DeparturesHigh(Single):
    """January to June 2001."""

    name: ClassVar[str] = "us_departures_high"
    title: ClassVar[str] = "departures from all US airports"
    licence: ClassVar[str] = "public domain, US Bureau of Transportation Statistics"
    unit: ClassVar[str] = "5 minutes"
    person: ClassVar[str] = "a flight"
    period: ClassVar[int | None] = 288
    shape: ClassVar[tuple[int, int] | None] = (52_128, 1)


class GreenTaxiMed(Single):
    """January to May 2021."""

    name: ClassVar[str] = "green_taxi_med"
    title: ClassVar[str] = "New York green taxi trips, 2021"
    licence: ClassVar[str] = _TAXI
    unit: ClassVar[str] = "5 minutes"
    person: ClassVar[str] = "a trip"
    period: ClassVar[int | None] = 288
    shape: ClassVar[tuple[int, int] | None] = (43_488, 1)


class GreenTaxiCollapse(Single):
    """March and April 2020."""

    name: ClassVar[str] = "green_taxi_covid"
    title: ClassVar[str] = "New York green taxi trips, the collapse of March 2020"
    licence: ClassVar[str] = _TAXI
    unit: ClassVar[str] = "5 minutes"
    person: ClassVar[str] = "a trip"
    period: ClassVar[int | None] = 288
    shape: ClassVar[tuple[int, int] | None] = (17_568, 1)


class HomebrewHourly(Single):
    """Since 2010, without bots; one hour has 12,704 events."""

    name: ClassVar[str] = "homebrew_human_hourly"
    title: ClassVar[str] = "package events of Homebrew's authors"
    licence: ClassVar[str] = "facts from repositories under BSD-2-Clause"
    unit: ClassVar[str] = "an hour"
    person: ClassVar[str] = "an event"
    period: ClassVar[int | None] = 24
    shape: ClassVar[tuple[int, int] | None] = (145_656, 1)


class WorldCupMinute(Single):
    """All 1,352,804,107 requests."""

    name: ClassVar[str] = "wc98_minute"
    title: ClassVar[str] = "World Cup 98 requests"
    licence: ClassVar[str] = WorldCup.licence
    unit: ClassVar[str] = "a minute"
    person: ClassVar[str] = "a request"
    period: ClassVar[int | None] = 1440
    shape: ClassVar[tuple[int, int] | None] = (125_310, 1)
    needs: ClassVar[tuple[str, ...]] = ("count_streams.parquet", NOTICE)

    def notice(self) -> str:
        return text(NOTICE) or self.licence


class TaxiPassengersNab(Single):
    """July 2014 to January 2015."""

    name: ClassVar[str] = "nab_nyc_taxi"
    title: ClassVar[str] = "New York taxi passengers"
    licence: ClassVar[str] = (
        "MIT (Numenta Anomaly Benchmark); public data of the Taxi and Limousine Commission"
    )
    unit: ClassVar[str] = "30 minutes"
    person: ClassVar[str] = "a passenger"
    period: ClassVar[int | None] = 48
    shape: ClassVar[tuple[int, int] | None] = (10_320, 1)


class MelbourneMarket(Single):
    """2015 and 2016."""

    name: ClassVar[str] = "melb_qv_market"
    title: ClassVar[str] = "pedestrians at a market in Melbourne"
    licence: ClassVar[str] = _MELBOURNE
    unit: ClassVar[str] = "an hour"
    person: ClassVar[str] = "a passer-by"
    period: ClassVar[int | None] = 24
    shape: ClassVar[tuple[int, int] | None] = (17_544, 1)


class MelbourneStation(Single):
    """2015 and 2016."""

    name: ClassVar[str] = "melb_southern_cross"
    title: ClassVar[str] = "pedestrians at a railway station in Melbourne"
    licence: ClassVar[str] = _MELBOURNE
    unit: ClassVar[str] = "an hour"
    person: ClassVar[str] = "a passer-by"
    period: ClassVar[int | None] = 24
    shape: ClassVar[tuple[int, int] | None] = (17_544, 1)


SINGLES: Final = (
    BikeLow,
    BikeMed,
    BikeAll,
    SmallCarriersLow,
    LaGuardiaMed,
    DeparturesHigh,
    GreenTaxiMed,
    GreenTaxiCollapse,
    HomebrewHourly,
    WorldCupMinute,
    TaxiPassengersNab,
    MelbourneMarket,
    MelbourneStation,
)
