"""Vehicles in a simulated city: a fleet of taxis, and objects on a grid of roads."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self

from penstock_bench.datasets.base import Dataset, DatasetStream
from penstock_bench.datasets.counts import CountTable
from penstock_bench.simulated.fleet import Fleet, Roads


@dataclass(frozen=True)
class TaxiFleet(Dataset):
    """As many taxis as in the paper, each in one cell of a map in every hour of a week."""

    name: ClassVar[str] = "fleet"
    title: ClassVar[str] = "taxis on a map"
    licence: ClassVar[str] = "generated"
    unit: ClassVar[str] = "an hour"
    person: ClassVar[str] = "a taxi, in all units"
    period: ClassVar[int | None] = 24
    key: ClassVar[str] = "a cell of the map"
    shape: ClassVar[tuple[int, int] | None] = (168, 100)

    units: int = 168
    vehicles: int = 110_357
    side: int = 10
    seed: int = 1

    def make(self) -> DatasetStream:
        fleet = Fleet(vehicles=self.vehicles, rows=self.side, columns=self.side, seed=self.seed)
        return CountTable(fleet.domain, fleet.counts(self.units), period=self.period)

    def small(self) -> Self:
        return replace(self, units=48, vehicles=3_000)


@dataclass(frozen=True)
class CityMovement(Dataset):
    """Objects that enter a grid of roads, drive to a destination and leave, with two rush hours."""

    name: ClassVar[str] = "movement"
    title: ClassVar[str] = "objects on a grid of roads"
    licence: ClassVar[str] = "generated"
    unit: ClassVar[str] = "one step"
    person: ClassVar[str] = "an object, in every unit in which it drives"
    key: ClassVar[str] = "a cell of the map"
    shape: ClassVar[tuple[int, int] | None] = (1_000, 1_024)

    units: int = 1_000
    objects: int = 100_000
    side: int = 32
    seed: int = 1

    def make(self) -> DatasetStream:
        roads = Roads(objects=self.objects, rows=self.side, columns=self.side, seed=self.seed)
        return CountTable(roads.domain, roads.counts(self.units))

    def small(self) -> Self:
        return replace(self, units=60, objects=2_000, side=16)
