"""A simulated population with many attributes; some people are replaced in every unit."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from penstock.core.arrays import FloatArray, IntArray
from penstock.core.errors import ConfigurationError
from penstock.core.exact import whole
from penstock.core.product import Product

ATTRIBUTES: Final = {
    "age": 96,
    "gender": 2,
    "education": 12,
    "insurance": 2,
    "married": 2,
    "income": 3,
}
"""The number of values of each attribute."""

_PERIODS: Final = (0.2, 2.0, 0.1, 0.6, 3.0, 0.4, 0.1, 1.2, 2.2, 0.2)
"""The rate of each tenth of the stream, in multiples of the mean rate."""

_SPREAD: Final = 0.1  # standard deviation of a unit's replacements, as a share of the period's mean
_GROWN_UP: Final = 20


@dataclass(frozen=True, kw_only=True)
class Census:
    """People with up to six attributes. In every unit some leave and as many come from a pool.

    `people` of `pool` people are present in the first unit. Then the share `rate` of them is
    replaced per unit, on average over ten quiet and busy periods; leavers return to the pool. A
    person counts in **one** cell per unit while present. Only the first `attributes` attributes are
    counted: the same people in more or less detail.

    >>> census = Census(people=1_000, pool=5_000, attributes=3)
    >>> census.domain.names, census.domain.shape
    (('age', 'gender', 'education'), (96, 2, 12))
    >>> counts = census.counts(20)
    >>> counts.shape, set(counts.sum(axis=1).tolist())
    ((20, 2304), {1000})
    """

    people: int = 500_000
    pool: int = 3_000_000
    attributes: int = 6
    rate: float = 0.01
    seed: int = 1

    def __post_init__(self) -> None:
        whole(self.people, name="people", least=1)
        whole(self.pool, name="pool", least=self.people + 1)
        whole(self.seed, name="seed", least=0)
        if whole(self.attributes, name="attributes", least=1) > len(ATTRIBUTES):
            raise ConfigurationError(
                f"attributes must be 1 to {len(ATTRIBUTES)}, not {self.attributes}."
            )
        if not 0 <= self.rate <= 1:
            raise ConfigurationError(f"rate must lie between 0 and 1, not {self.rate}.")

    @cached_property
    def domain(self) -> Product:
        """The combinations of the first attributes, in the order of the columns of `counts`."""
        return Product.of(dict(list(ATTRIBUTES.items())[: self.attributes]))

    def counts(self, units: int) -> NDArray[np.int32]:
        """The number of people in each cell and unit."""
        return np.array(list(self.units(units)), np.int32)

    def units(self, units: int) -> Iterator[IntArray]:
        """The counts of `units` units, one by one."""
        whole(units, name="units", least=1)
        size = self.domain.size
        rng = np.random.default_rng((self.seed, 1))
        cells = rng.permuted(self._cells)
        here, away = cells[: self.people], cells[self.people :]
        now = np.bincount(here, minlength=size)
        yield now
        for unit in range(1, units):
            mean = self.rate * _PERIODS[unit * len(_PERIODS) // units] * self.people
            number = min(max(round(rng.normal(mean, _SPREAD * mean)), 0), self.people, len(away))
            leave = rng.choice(len(here), number, replace=False, shuffle=False)
            enter = rng.choice(len(away), number, replace=False, shuffle=False)
            now = (
                now
                + np.bincount(away[enter], minlength=size)
                - np.bincount(here[leave], minlength=size)
            )
            here[leave], away[enter] = away[enter], here[leave]
            yield now

    @cached_property
    def _cells(self) -> IntArray:
        """The cell of everybody in the pool."""
        values = _people(self.pool, np.random.default_rng((self.seed, 0)))
        sizes = tuple(ATTRIBUTES.values())
        cells = np.ravel_multi_index(tuple(values), sizes)
        return np.asarray(cells // math.prod(sizes[self.attributes :]), np.int64)


def _people(number: int, rng: np.random.Generator) -> list[IntArray]:
    """Every attribute of `number` people: each depends on those before it."""
    years = np.arange(ATTRIBUTES["age"])
    pyramid = 1 / (1 + np.exp((years - 72) / 8)) * (1 + 0.15 * np.sin(years / 9))
    age = rng.choice(years, number, p=pyramid / pyramid.sum())

    def chance(share: FloatArray) -> IntArray:
        return (rng.random(number) < share).astype(np.int64)

    gender = chance(0.49 + 0.2 * _rise(age, 78, 8))
    schooling = np.interp(age, (3, 18, 26, 60, 95), (0.0, 6.0, 8.0, 7.2, 5.0))  # levels of twelve
    spread = np.interp(age, (3, 18, 26), (0.2, 0.9, 2.3))
    education = np.clip(
        np.rint(rng.normal(schooling, spread)), 0, ATTRIBUTES["education"] - 1
    ).astype(np.int64)
    insurance = chance(
        np.where(
            age >= 65,
            0.985,
            0.74 + 0.02 * education - 0.12 * _rise(age, 19, 1) + 0.1 * _rise(age, 38, 5),
        )
    )
    married = chance(0.66 * _rise(age, 27, 3) - 0.35 * _rise(age, 76, 5) * (0.4 + gender))
    earns = 1 + chance(
        _rise(
            0.45 * education + 0.03 * np.minimum(age, 50) - 0.4 * gender + 0.3 * married, 4.6, 0.9
        )
    )
    income = np.where(age < _GROWN_UP, 0, earns)
    return [age, gender, education, insurance, married, income]


def _rise(what: FloatArray | IntArray, middle: float, width: float) -> FloatArray:
    """From 0 far below the middle to 1 far above it."""
    return np.asarray(1 / (1 + np.exp((middle - what) / width)), np.float64)
