"""The datasets by name: ours, those of other packages, and any by import path."""

from __future__ import annotations

import dataclasses
from typing import Any, Final

from penstock.core.errors import ConfigurationError
from penstock.core.plugins import imported, plugged, plugins
from penstock_bench.datasets.ages import Ages
from penstock_bench.datasets.base import Dataset
from penstock_bench.datasets.bikes import BikeDepartures, Bikes
from penstock_bench.datasets.births import Births
from penstock_bench.datasets.census import CensusUpdates
from penstock_bench.datasets.covid import Covid
from penstock_bench.datasets.flights import FlightRoutes, Flights, FlightsByState
from penstock_bench.datasets.movement import CityMovement, TaxiFleet
from penstock_bench.datasets.nycflights import NycFlights
from penstock_bench.datasets.single import SINGLES
from penstock_bench.datasets.steady import Steady
from penstock_bench.datasets.taxi import (
    TaxiPassengers,
    TaxiPassengersCollapse,
    TaxiZones,
    TaxiZonesCollapse,
)
from penstock_bench.datasets.traffic import CityTraffic
from penstock_bench.datasets.turnstiles import Stations, Turnstiles
from penstock_bench.datasets.wifi import Wifi, WifiCampus, WifiHigh, WifiMany, WifiMed
from penstock_bench.datasets.worldcup import WorldCup, WorldCupFewer

GROUP: Final = "penstock.datasets"
"""The entry points by which another package adds datasets: name = "module:Class"."""

DATASETS: Final[dict[str, Dataset]] = {
    cls.name: cls()
    for cls in (
        WorldCup,
        WorldCupFewer,
        CityTraffic,
        Covid,
        Turnstiles,
        Stations,
        TaxiZones,
        TaxiZonesCollapse,
        TaxiPassengers,
        TaxiPassengersCollapse,
        Flights,
        FlightsByState,
        FlightRoutes,
        NycFlights,
        Births,
        Bikes,
        BikeDepartures,
        Wifi,
        WifiMed,
        WifiHigh,
        WifiMany,
        WifiCampus,
        CensusUpdates,
        TaxiFleet,
        CityMovement,
        Ages,
        Steady,
        *SINGLES,
    )
}
"""Our own datasets with default parameters."""


def find(name: str, **parameters: Any) -> Dataset:
    """Find a dataset by name, of ours or of another package, or by import path (`module:Class`).

    Parameters replace its defaults.

    >>> find("worldcup", scale="0.01").scale
    '0.01'
    >>> find("worldcap")
    Traceback (most recent call last):
    penstock.core.errors.ConfigurationError: there is no dataset 'worldcap': use worldcup, ...
    """
    found = _found(name)
    if not parameters:
        return found
    known = {field.name for field in dataclasses.fields(found)}
    wrong = sorted(set(parameters) - known)
    if wrong:
        takes = ", ".join(sorted(known)) or "none"
        raise ConfigurationError(
            f"dataset {name!r} has no parameter {', '.join(wrong)}: it takes {takes}."
        )
    return dataclasses.replace(found, **parameters)


def names() -> tuple[str, ...]:
    """All names, ours first."""
    return (
        *DATASETS,
        *dict.fromkeys(plugin.name for plugin in plugins(GROUP) if plugin.name not in DATASETS),
    )


def table() -> list[dict[str, Any]]:
    """Facts about every dataset as plain data, for a listing. Nothing is loaded.

    A dataset of another package that cannot be loaded has the reason under `missing`.
    """
    return [_row(name) for name in names()]


def _row(name: str) -> dict[str, Any]:
    try:
        dataset = find(name)
    except ConfigurationError as error:
        blank = dict.fromkeys(
            (
                "title",
                "units",
                "keys",
                "unit",
                "key",
                "levels",
                "period",
                "person",
                "licence",
                "parameters",
            )
        )
        return {"name": name, **blank, "missing": str(error)}
    units, keys = dataset.shape or (None, None)
    return {
        "name": name,
        "title": dataset.title,
        "units": units,
        "keys": keys,
        "unit": dataset.unit,
        "key": dataset.key,
        "levels": dataset.levels,
        "period": dataset.period,
        "person": dataset.person,
        "licence": dataset.licence,
        "parameters": {
            field.name: getattr(dataset, field.name) for field in dataclasses.fields(dataset)
        },
        "missing": dataset.missing(),
    }


def _found(name: str) -> Dataset:
    if name in DATASETS:
        return DATASETS[name]
    if ":" in name:
        return _made(imported(name), repr(name))
    plugin = plugged(GROUP, name)
    if plugin is None:
        raise ConfigurationError(
            f"there is no dataset {name!r}: use {', '.join(names())}, or a path such as "
            "'module:Class'."
        )
    return _made(plugin.load(), str(plugin))


def _made(what: Any, name: str) -> Dataset:
    if isinstance(what, Dataset):
        return what
    if not (isinstance(what, type) and issubclass(what, Dataset)):
        raise ConfigurationError(
            f"{name} is not a subclass of Dataset (penstock_bench.datasets.base)."
        )
    try:
        return what()
    except Exception as error:
        raise ConfigurationError(
            f"{name} cannot be made without arguments: {type(error).__name__}: {error}."
        ) from error
