"""Simulated vehicles: a fleet of taxis by hour, and objects on a road network."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from penstock.core.arrays import FloatArray, IntArray
from penstock.core.exact import whole
from penstock.core.product import Product

_DAY, _WEEK = 24, 7

# Hot spots: place, width, and their share of the trips by night, day and evening; then at weekends.
_SPOTS: Final = np.array(
    [
        # x, y, spread, night, day, evening, times that at weekends
        [0.50, 0.52, 0.06, 0.3, 5.0, 2.0, 0.35],  # offices
        [0.62, 0.40, 0.05, 0.2, 3.5, 1.0, 0.30],  # offices
        [0.44, 0.64, 0.04, 1.6, 0.8, 4.5, 1.80],  # bars and theatres
        [0.72, 0.66, 0.05, 0.3, 1.6, 2.2, 2.20],  # shops
        [0.93, 0.88, 0.03, 0.9, 1.6, 1.5, 1.20],  # airport
        [0.30, 0.34, 0.03, 0.4, 1.6, 1.4, 1.10],  # railway station
        [0.20, 0.72, 0.13, 3.0, 1.0, 2.4, 1.10],  # homes
        [0.26, 0.18, 0.14, 2.6, 0.8, 2.0, 1.10],  # homes
        [0.80, 0.22, 0.14, 2.8, 0.9, 2.2, 1.10],  # homes
    ]
)
_SHORT, _HOP = 0.35, 0.07  # the share of short trips, and how far they go


@dataclass(frozen=True, kw_only=True)
class _OnMap:
    """Vehicles on a map of `rows` and `columns`, made from a seed."""

    rows: int
    columns: int
    seed: int = 1

    def __post_init__(self) -> None:
        whole(self.rows, name="rows", least=1)
        whole(self.columns, name="columns", least=1)
        whole(self.seed, name="seed", least=0)

    @cached_property
    def domain(self) -> Product:
        """The cells of the map, in the order of the columns of `counts`."""
        return Product.grid(self.rows, self.columns)


@dataclass(frozen=True, kw_only=True)
class Fleet(_OnMap):
    """Taxis on a map, each in **one** cell in every hour.

    Hour 0 is a Saturday at 00:00. The number of trips per hour and their destinations follow the
    time of day: offices by day, bars in the evening, homes at night, shops at the weekend. The
    other taxis wait. The same fleet fits any grid of `rows` and `columns`.

    >>> fleet = Fleet(vehicles=500, rows=4, columns=4)
    >>> fleet.domain.shape
    (4, 4)
    >>> counts = fleet.counts(48)
    >>> counts.shape, set(counts.sum(axis=1).tolist())
    ((48, 16), {500})
    """

    vehicles: int = 110_357
    rows: int = 10
    columns: int = 10

    def __post_init__(self) -> None:
        whole(self.vehicles, name="vehicles", least=1)
        super().__post_init__()

    def counts(self, hours: int) -> IntArray:
        """The number of vehicles in each cell and hour."""
        return np.array(
            [np.bincount(where, minlength=self.domain.size) for where in self.hours(hours)],
            np.int64,
        )

    def hours(self, hours: int) -> Iterator[IntArray]:
        """The cell of every vehicle, hour by hour."""
        whole(hours, name="hours", least=1)
        rng = np.random.default_rng((self.seed, 0))
        place = _inside(_near_spots(rng.choice(len(_SPOTS), self.vehicles, p=_pull(0)), rng))
        for hour in range(hours):
            if hour:
                going = np.flatnonzero(rng.random(self.vehicles) < _activity(hour))
                far = rng.random(len(going)) >= _SHORT
                place[going[~far]] += rng.normal(0, _HOP, (int((~far).sum()), 2))
                place[going[far]] = _near_spots(
                    rng.choice(len(_SPOTS), int(far.sum()), p=_pull(hour)), rng
                )
                place = _inside(place)
            yield _cells(place, self.rows, self.columns)


def _pull(hour: int) -> FloatArray:
    """The share of the long trips that end at each hot spot."""
    clock = hour % _DAY
    night, day, evening = (
        np.exp(-0.5 * (_apart(clock, middle) / 3.5) ** 2) for middle in (3, 12, 20)
    )
    pull = night * _SPOTS[:, 3] + day * _SPOTS[:, 4] + evening * _SPOTS[:, 5]
    if _weekend(hour):
        pull = pull * _SPOTS[:, 6]
    return np.asarray(pull / pull.sum(), np.float64)


def _activity(hour: int) -> float:
    """The share of the fleet that makes a trip in an hour."""
    clock, late = hour % _DAY, 0.15 if _weekend(hour) else 0.0
    rush = 0.35 * (
        np.exp(-0.5 * (_apart(clock, 8.5) / 1.5) ** 2)
        + np.exp(-0.5 * (_apart(clock, 18.5) / 2.2) ** 2)
    )
    return float(
        0.08
        + rush * (1 - 2 * late)
        + 0.3 * np.exp(-0.5 * (_apart(clock, 14) / 5) ** 2)
        + late * (clock < 4)
    )


def _apart(clock: float, middle: float) -> float:
    """Hours between two times of the day, the shorter way round."""
    away = abs(clock - middle)
    return min(away, _DAY - away)


def _weekend(hour: int) -> bool:
    return hour // _DAY % _WEEK < 2


def _near_spots(spot: IntArray, rng: np.random.Generator) -> FloatArray:
    """A place near each of these hot spots."""
    return np.asarray(
        _SPOTS[spot, :2] + rng.normal(0, 1, (len(spot), 2)) * _SPOTS[spot, 2, None], np.float64
    )


def _inside(place: FloatArray) -> FloatArray:
    """Reflect places outside the map at its edge."""
    folded = np.abs(place) % 2
    return np.asarray(np.where(folded > 1, 2 - folded, folded), np.float64)


def _cells(place: FloatArray, rows: int, columns: int) -> IntArray:
    """The cell of each place in the unit square."""
    row = np.minimum((place[:, 1] * rows).astype(np.int64), rows - 1)
    column = np.minimum((place[:, 0] * columns).astype(np.int64), columns - 1)
    return np.asarray(row * columns + column, np.int64)


_STREETS: Final = 80
_ARTERIAL: Final = 8  # one street in this many is fast
_SPEED: Final = 1 / 75  # of the map's width in a unit, twice that on an arterial
_MEAN_TRIP: Final = 36.0  # units
_RUSHES: Final = (
    (0.3, 0.05),
    (0.7, 0.06),
)  # when in the stream, and how long: the first into the centre, the second out of it


@dataclass(frozen=True, kw_only=True)
class Roads(_OnMap):
    """Objects that enter a grid of streets, drive to a destination and leave.

    An object drives along one street and then another, faster on an arterial road; it is in **one**
    cell per unit. About `objects` are present at quiet times, and more in two rush hours: one into
    the centre, one out of it. The cells are those of a grid of `rows` and `columns`.

    >>> roads = Roads(objects=2_000, rows=8, columns=8)
    >>> counts = roads.counts(50)
    >>> counts.shape, bool((counts >= 0).all())
    ((50, 64), True)
    """

    objects: int = 100_000
    rows: int = 32
    columns: int = 32

    def __post_init__(self) -> None:
        whole(self.objects, name="objects", least=1)
        super().__post_init__()

    def counts(self, units: int) -> IntArray:
        """The number of objects in each cell and unit."""
        size = self.domain.size
        return np.array(
            [
                np.bincount(_cells(place, self.rows, self.columns), minlength=size)
                for place in self.units(units)
            ],
            np.int64,
        )

    def units(self, units: int) -> Iterator[FloatArray]:
        """The places of all objects, unit by unit, in the unit square."""
        whole(units, name="units", least=1)
        rng = np.random.default_rng((self.seed, 0))
        trips = _trips(self.objects, 0.0, rng)
        trips[:, _ENTERED] = -rng.random(self.objects) * (trips[:, _FIRST] + trips[:, _SECOND])
        for unit in range(units):
            phase = unit / units
            if unit:
                fresh = _trips(
                    rng.poisson(
                        self.objects / _MEAN_TRIP * (1 + _rush(phase, 0) + _rush(phase, 1))
                    ),
                    phase,
                    rng,
                )
                fresh[:, _ENTERED] = unit
                driving = unit < trips[:, _ENTERED] + trips[:, _FIRST] + trips[:, _SECOND]
                trips = np.concatenate([trips[driving], fresh])
            yield _places(trips, unit)


# The columns of a table of trips: entry time, duration along each street, start and end on both
# axes, and whether the first street is vertical.
_ENTERED, _FIRST, _SECOND, _FROM, _TO, _FROM_2, _TO_2, _VERTICAL = range(8)


def _rush(phase: float, which: int) -> float:
    """The factor of entries at this point of the stream."""
    middle, width = _RUSHES[which]
    return float(np.exp(-0.5 * ((phase - middle) / width) ** 2))


def _trips(number: int, phase: float, rng: np.random.Generator) -> FloatArray:
    """Trips between a random place and a place near the centre, in the direction of the time."""
    outer = rng.random((number, 2))
    inner = np.clip(rng.normal(0.5, 0.13, (number, 2)), 0, 1)
    inward = rng.random((number, 1)) < 0.5 + 0.4 * (_rush(phase, 0) - _rush(phase, 1))
    start, end = (
        np.rint(np.where(inward, *both) * _STREETS) for both in ((outer, inner), (inner, outer))
    )
    trips = np.zeros((number, 8))
    for leg, street in ((0, start[:, 1]), (1, end[:, 0])):
        speed = np.where(street % _ARTERIAL == 0, 2, 1) * _SPEED
        trips[:, _FIRST + leg] = np.abs(end[:, leg] - start[:, leg]) / _STREETS / speed
        trips[:, _FROM + 2 * leg], trips[:, _TO + 2 * leg] = (
            start[:, leg] / _STREETS,
            end[:, leg] / _STREETS,
        )
    trips[:, _VERTICAL] = rng.integers(0, 2, number)
    return trips


def _places(trips: FloatArray, unit: int) -> FloatArray:
    """The places of the objects of these trips."""
    gone = unit - trips[:, _ENTERED]
    first = np.clip(gone / np.maximum(trips[:, _FIRST], 1e-9), 0, 1)
    second = np.clip((gone - trips[:, _FIRST]) / np.maximum(trips[:, _SECOND], 1e-9), 0, 1)
    along = trips[:, _FROM] + first * (trips[:, _TO] - trips[:, _FROM])
    across = trips[:, _FROM_2] + second * (trips[:, _TO_2] - trips[:, _FROM_2])
    upright = trips[:, _VERTICAL] > 0
    return np.stack([np.where(upright, across, along), np.where(upright, along, across)], axis=1)
