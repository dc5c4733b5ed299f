"""A simulated population of which some people are replaced in every unit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self

from penstock.core.exact import Exact, exact
from penstock_bench.datasets.base import Dataset, DatasetStream
from penstock_bench.datasets.counts import CountTable
from penstock_bench.simulated.census import Census


@dataclass(frozen=True)
class CensusUpdates(Dataset):
    """As large as the paper's: half a million people of a pool of three million."""

    name: ClassVar[str] = "census"
    title: ClassVar[str] = "a population by attributes, slowly replaced"
    licence: ClassVar[str] = "generated"
    unit: ClassVar[str] = "one round of updates"
    person: ClassVar[str] = "a person, in every unit in which they are there"
    key: ClassVar[str] = "a combination of attributes"
    shape: ClassVar[tuple[int, int] | None] = (1_000, 2_304)

    units: int = 1_000
    people: int = 500_000
    pool: int = 3_000_000
    attributes: int = 3
    rate: Exact = "0.01"
    seed: int = 1

    def make(self) -> DatasetStream:
        census = Census(
            people=self.people,
            pool=self.pool,
            attributes=self.attributes,
            rate=float(exact(self.rate, name="rate")),
            seed=self.seed,
        )
        return CountTable(census.domain, census.counts(self.units))

    def small(self) -> Self:
        return replace(self, units=40, people=5_000, pool=30_000)
