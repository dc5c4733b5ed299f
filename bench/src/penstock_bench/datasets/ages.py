"""Ages of people hurt on the roads per hour: a stand-in for a national record of accidents."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Final, Self

import numpy as np

from penstock.core.arrays import FloatArray
from penstock.core.domain import Domain
from penstock.core.exact import whole
from penstock_bench.datasets.base import Dataset, DatasetStream
from penstock_bench.datasets.counts import CountTable

_DAY, _WEEK, _YEAR = 24, 7 * 24, 8_766
_BINS: Final = ("0 to 20", "20 to 40", "40 to 60", "60 to 80", "80 to 100")
# For each age: its share of the people, and when they are hurt: (hour, spread in hours, height)
# above a low level.
_AGES: Final = (
    (0.21, 0.10, ((8.3, 0.8, 0.9), (15.8, 1.6, 1.8))),
    (0.40, 0.30, ((8.2, 1.4, 1.0), (17.5, 2.2, 1.3), (23.5, 2.5, 0.5))),
    (0.24, 0.15, ((8.4, 1.5, 1.1), (17.3, 2.2, 1.3))),
    (0.11, 0.05, ((11.5, 2.5, 1.2), (15.5, 2.2, 1.1))),
    (0.04, 0.02, ((11.5, 2.0, 1.2), (15.0, 2.0, 1.0))),
)
_WEEKEND: Final = (0.75, 1.0, 0.8, 0.85, 0.8)
_NIGHT_OUT: Final = 2.5  # factor for young adults in the small hours of a weekend
_WINTER, _DAY_TO_DAY = 0.12, 0.15


@dataclass(frozen=True)
class Ages(Dataset):
    """Children on their way to school, young adults at night, older people by day; more in winter.

    The people of each unit are Poisson distributed. Hour 1 is a Monday at 00:00 in January.
    """

    name: ClassVar[str] = "ages"
    title: ClassVar[str] = "ages of people hurt on the roads"
    licence: ClassVar[str] = "generated"
    unit: ClassVar[str] = "an hour"
    person: ClassVar[str] = "a person hurt"
    period: ClassVar[int | None] = _DAY
    key: ClassVar[str] = "an age of twenty years"
    shape: ClassVar[tuple[int, int] | None] = (26_304, 5)

    units: int = 26_304
    hourly: int = 25
    seed: int = 1

    def make(self) -> DatasetStream:
        whole(self.hourly, name="hourly", least=1)
        whole(self.seed, name="seed", least=0)
        hour = np.arange(whole(self.units, name="units", least=1))
        rng = np.random.default_rng((self.seed, 0))
        days = np.exp(rng.normal(0, _DAY_TO_DAY, len(hour) // _DAY + 1))
        season = 1 + _WINTER * np.cos(2 * np.pi * hour / _YEAR)
        expected = np.stack([_curve(hour % _WEEK, age) for age in range(len(_AGES))], axis=1)
        expected *= (self.hourly * season * days[hour // _DAY])[:, None]
        return CountTable(Domain(_BINS), rng.poisson(expected), period=_DAY)

    def small(self) -> Self:
        return replace(self, units=2_000)


def _curve(hour: np.ndarray, age: int) -> FloatArray:
    """The people of an age who are hurt at each hour of the week, as a share of all in a mean
    hour."""
    week = np.arange(_WEEK)
    share, low, peaks = _AGES[age]
    clock, weekend = week % _DAY, week // _DAY >= 5
    curve = np.full(_WEEK, low)
    for middle, spread, height in peaks:
        away = np.minimum(np.abs(clock - middle), _DAY - np.abs(clock - middle))
        curve += height * np.exp(-0.5 * (away / spread) ** 2)
    curve *= np.where(weekend, _WEEKEND[age], 1.0)
    if age == 1:
        curve *= np.where(weekend & (clock < 4), _NIGHT_OUT, 1.0)
    return np.asarray((curve * (share / curve.mean()))[hour], np.float64)
