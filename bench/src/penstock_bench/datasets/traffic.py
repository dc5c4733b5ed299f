"""City traffic: the commuters on each road of a simulated city, every ten minutes."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Final, Self

import numpy as np

from penstock.core.arrays import FloatArray, IntArray
from penstock.core.domain import Domain
from penstock.core.exact import whole
from penstock_bench.datasets.base import Dataset, DatasetStream
from penstock_bench.datasets.drawn import GeneratedStream

PERIOD: Final = 144
"""Units of ten minutes per day."""

_TRIPS: Final = 60_000  # routes drawn to estimate how busy the roads are
_MAIN_ROAD: Final = 6  # one street in this many is a main road
_TO_MAIN, _MAIN_SPEED = 0.6, 2.0  # the share of drivers who choose a main road, and its speed
_CENTRE: Final = 0.14  # spread of the city centre, in sides of the map
_PARK: Final = (0.33, 0.68)  # centre of the park, which has no roads
_QUIET: Final = 0.06  # people on the road at night, as a share of the peak
# How people drive: the share of trips into the centre and out of it, and when (hour, spread in
# hours, height).
_HABITS: Final = (
    (0.85, 0.05, ((8.2, 0.9, 1.0),)),
    (0.05, 0.85, ((18.0, 1.3, 1.0), (13.2, 0.8, 0.3))),
    (0.30, 0.30, ((11.0, 2.5, 0.45), (16.0, 2.5, 0.45), (21.5, 1.8, 0.3))),
)
_WEEKEND: Final = (0.25, 0.35, 1.2)
_DAY_TO_DAY: Final = 0.08  # standard deviation of the logarithm of a day's traffic
_JAMS_A_DAY, _JAM_UNITS, _JAM_ROADS, _JAM = (
    30,
    (3, 15),
    8,
    3.0,
)  # number of jams per day, their length in units and roads, and the factor


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """A grid of streets, some of them main roads, on which people drive to work, home and
    elsewhere.

    A road is the piece of a street between two crossings. Simulated routes, along one street and
    then another, give the load of each road by direction. Time of day and day of the week give the
    number of drivers; some streets are jammed. About `people` are on the road at the peak, each on
    **one** road per unit. Unit 1 is a Monday at 00:00. Each unit has its own seed, so units may be
    read in any order.

    >>> traffic = Traffic(roads=200, people=5_000)
    >>> traffic.domain.size, traffic.draw(50).shape
    (200, (200,))
    """

    roads: int = 25_936
    people: int = 200_000
    seed: int = 1

    def __post_init__(self) -> None:
        whole(self.roads, name="roads", least=4)
        whole(self.people, name="people", least=1)
        whole(self.seed, name="seed", least=0)

    @cached_property
    def streets(self) -> int:
        """The number of streets each way: the least that gives enough roads."""
        root = (1 + math.isqrt(1 + 2 * self.roads)) // 2
        return next(
            number
            for number in range(max(root - 1, 2), root + 3)
            if 2 * number * (number - 1) >= self.roads
        )

    @cached_property
    def domain(self) -> Domain:
        n = self.streets
        flat = [f"street {street} block {block}" for street in range(n) for block in range(n - 1)]
        upright = [
            f"avenue {street} block {block}" for street in range(n) for block in range(n - 1)
        ]
        names = flat + upright
        return Domain(tuple(names[place] for place in self._open.tolist()))

    def draw(self, unit: int) -> IntArray:
        """The commuters on each road in a unit."""
        rng = np.random.default_rng((self.seed, 1, unit))
        return rng.poisson(self.expected(unit)).astype(np.int64)

    def expected(self, unit: int) -> FloatArray:
        """The expected number of commuters on each road in a unit."""
        day, clock = divmod(unit - 1, PERIOD)
        hour = clock * 24 / PERIOD
        luck = np.random.default_rng((self.seed, 2, day))
        busy = float(np.exp(luck.normal(0, _DAY_TO_DAY)))
        expected = np.zeros(self.roads)
        for habit in range(len(_HABITS)):
            share = _share(habit, hour) * (_WEEKEND[habit] if day % 7 >= 5 else 1.0)
            expected += self._busy[habit] * share
        for (first, end), road in self._jams(day):
            if first <= clock < end:
                expected[road] *= _JAM
        return expected * (self.people * busy / _PEAK)

    def _jams(self, day: int) -> list[tuple[tuple[int, int], slice]]:
        """The jams of a day: first and last unit, and the consecutive roads."""
        rng = np.random.default_rng((self.seed, 3, day))
        start = rng.integers(0, PERIOD, _JAMS_A_DAY)
        lasts = rng.integers(*_JAM_UNITS, _JAMS_A_DAY)
        road = rng.integers(0, self.roads, _JAMS_A_DAY)
        return [
            ((first, first + units), slice(where, where + _JAM_ROADS))
            for first, units, where in zip(
                start.tolist(), lasts.tolist(), road.tolist(), strict=True
            )
        ]

    @cached_property
    def _open(self) -> IntArray:
        """The existing roads of the grid: the ones nearest to the centre of the park are left
        out."""
        n = self.streets
        street, block = np.divmod(np.arange(n * (n - 1)), n - 1)
        x = np.concatenate([block + 0.5, street]) / (n - 1)
        y = np.concatenate([street, block + 0.5]) / (n - 1)
        away = np.hypot(x - _PARK[0], y - _PARK[1])
        return np.sort(np.argsort(-away, kind="stable")[: self.roads])

    @cached_property
    def _busy(self) -> FloatArray:
        """For each habit, the share of its drivers on each road."""
        found = np.empty((len(_HABITS), self.roads))
        for habit, (inward, outward, _) in enumerate(_HABITS):
            rng = np.random.default_rng((self.seed, 0, habit))
            anywhere, centre = (
                rng.random((2, _TRIPS, 2)),
                rng.normal(0.5, _CENTRE, (2, _TRIPS, 2)).clip(0, 1),
            )
            kind = rng.random((_TRIPS, 1))
            start = np.where((inward <= kind) & (kind < inward + outward), centre[0], anywhere[0])
            end = np.where(kind < inward, centre[1], anywhere[1])
            busy = self._along(start, end, rng)[self._open] + 0.02
            found[habit] = busy / busy.sum()
        return found

    def _along(self, start: FloatArray, end: FloatArray, rng: np.random.Generator) -> FloatArray:
        """The time that all trips spend on each road: along a street, then along an avenue."""
        n = self.streets
        street = self._sought(start[:, 1], rng)
        avenue = self._sought(end[:, 0], rng)
        from_x = np.rint(start[:, 0] * (n - 1)).astype(np.int64)
        to_y = np.rint(end[:, 1] * (n - 1)).astype(np.int64)
        return np.concatenate(
            [_passed(street, from_x, avenue, n), _passed(avenue, street, to_y, n)]
        )

    def _sought(self, place: FloatArray, rng: np.random.Generator) -> IntArray:
        """The street that a driver takes: the nearest, or the nearest main road."""
        exactly = place * (self.streets - 1)
        main = np.minimum(np.rint(exactly / _MAIN_ROAD) * _MAIN_ROAD, self.streets - 1)
        return np.where(rng.random(len(place)) < _TO_MAIN, main, np.rint(exactly)).astype(np.int64)


def _passed(line: IntArray, one: IntArray, other: IntArray, n: int) -> FloatArray:
    """The time on each block of each line, from one crossing to another."""
    steps = np.zeros((n, n))
    np.add.at(steps, (line, np.minimum(one, other)), 1)
    np.add.at(steps, (line, np.maximum(one, other)), -1)
    speed = np.where(np.arange(n) % _MAIN_ROAD == 0, _MAIN_SPEED, 1.0)
    return np.asarray((np.cumsum(steps, axis=1)[:, : n - 1] / speed[:, None]).ravel(), np.float64)


def _near(hour: float, middle: float, spread: float) -> float:
    """From 0 to 1: how close two hours are on the clock."""
    away = abs(hour - middle)
    return math.exp(-0.5 * (min(away, 24 - away) / spread) ** 2)


def _share(habit: int, hour: float) -> float:
    """The number of drivers with a habit at an hour of a weekday."""
    _, _, peaks = _HABITS[habit]
    return _QUIET / len(_HABITS) + sum(
        height * _near(hour, middle, spread) for middle, spread, height in peaks
    )


_PEAK: Final = max(
    sum(_share(habit, clock * 24 / PERIOD) for habit in range(len(_HABITS)))
    for clock in range(PERIOD)
)


@dataclass(frozen=True)
class CityTraffic(Dataset):
    """As large as the paper's data of Rome, which are not public: ten days, two units, 25,936
    roads.
    """

    name: ClassVar[str] = "traffic"
    title: ClassVar[str] = "city traffic by road, as large as Rome's"
    licence: ClassVar[str] = "generated"
    unit: ClassVar[str] = "10 minutes"
    person: ClassVar[str] = "a commuter"
    period: ClassVar[int | None] = PERIOD
    key: ClassVar[str] = "a road"
    shape: ClassVar[tuple[int, int] | None] = (1_442, 25_936)

    units: int = 1_442
    roads: int = 25_936
    people: int = 200_000
    seed: int = 1

    def make(self) -> DatasetStream:
        traffic = Traffic(roads=self.roads, people=self.people, seed=self.seed)
        units = whole(self.units, name="units", least=1)
        return GeneratedStream(traffic.domain, units=units, draw=traffic.draw, period=PERIOD)

    def small(self) -> Self:
        return replace(self, units=200, roads=400, people=4_000)
