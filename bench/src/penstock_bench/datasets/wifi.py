"""Devices seen by the WiFi of a simulated campus, with the exact totals of the PeGaSus traces."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Final, Self

from penstock.core.domain import Domain
from penstock.core.hierarchy import Hierarchy
from penstock_bench.datasets.base import Dataset, DatasetStream
from penstock_bench.datasets.counts import CountTable
from penstock_bench.simulated.campus import UNITS_A_DAY, Campus

_UNITS: Final = 57_901
_UNITS_OF_MANY: Final = 20_000


@dataclass(frozen=True)
class Wifi(Dataset):
    """One quiet access point: as many units and devices as in the paper."""

    name: ClassVar[str] = "wifi_low"
    title: ClassVar[str] = "devices at a quiet access point"
    licence: ClassVar[str] = "generated"
    unit: ClassVar[str] = "5 minutes"
    person: ClassVar[str] = "a device in a unit"
    period: ClassVar[int | None] = UNITS_A_DAY
    key: ClassVar[str] = "an access point"
    shape: ClassVar[tuple[int, int] | None] = (_UNITS, 1)

    units: int = _UNITS
    total: int = 2_846
    seed: int = 1

    def make(self) -> DatasetStream:
        counts = Campus(rooms=1, seed=self.seed).counts(self.units, total=self.total)
        return CountTable(Domain(("devices",)), counts, period=UNITS_A_DAY)

    def small(self) -> Self:
        return replace(self, units=self.units // 20, total=self.total // 20)


@dataclass(frozen=True)
class WifiMed(Wifi):
    """One access point with a few devices."""

    name: ClassVar[str] = "wifi_med"
    title: ClassVar[str] = "devices at an access point in use"

    total: int = 101_843


@dataclass(frozen=True)
class WifiHigh(Wifi):
    """One access point with many devices."""

    name: ClassVar[str] = "wifi_high"
    title: ClassVar[str] = "devices at a crowded access point"

    total: int = 2_141_963


@dataclass(frozen=True)
class WifiMany(Wifi):
    """128 access points in a balanced binary tree of eight levels, as in the paper."""

    name: ClassVar[str] = "wifi_multi"
    title: ClassVar[str] = "devices at 128 access points, in a binary tree"
    key: ClassVar[str] = "an access point, in halves of halves"
    levels: ClassVar[int] = 8
    shape: ClassVar[tuple[int, int] | None] = (_UNITS_OF_MANY, 128)

    units: int = _UNITS_OF_MANY
    total: int = 646_254
    points: int = 128

    def make(self) -> DatasetStream:
        campus = Campus(rooms=self.points, seed=self.seed)
        return CountTable(
            self.domain(campus), campus.counts(self.units, total=self.total), period=UNITS_A_DAY
        )

    def domain(self, campus: Campus) -> Hierarchy:
        """The nodes above the access points."""
        return Hierarchy.binary(campus.keys)


@dataclass(frozen=True)
class WifiCampus(WifiMany):
    """The same devices, with access points on floors of buildings."""

    name: ClassVar[str] = "wifi_campus"
    title: ClassVar[str] = "devices at 128 access points of a campus"
    key: ClassVar[str] = "an access point, on a floor, in a building"
    levels: ClassVar[int] = 3

    def domain(self, campus: Campus) -> Hierarchy:
        return Hierarchy.of(campus.paths)
