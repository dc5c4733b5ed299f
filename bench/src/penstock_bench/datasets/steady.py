"""Constant streams, with or without random variation, on which adaptive mechanisms must win."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Final, Self

import numpy as np

from penstock.core.arrays import IntArray
from penstock.core.domain import Domain
from penstock.core.errors import ConfigurationError
from penstock.core.exact import whole
from penstock_bench.datasets.base import Dataset, DatasetStream
from penstock_bench.datasets.drawn import GeneratedStream

CONSTANT, POISSON = "constant", "poisson"
_MOST: Final = 10**9


@dataclass(frozen=True)
class Steady(Dataset):
    """Every key has `level` events per unit: always (`law="constant"`) or on average
    (`"poisson"`)."""

    name: ClassVar[str] = "steady"
    title: ClassVar[str] = "constant counts"
    licence: ClassVar[str] = "generated"
    unit: ClassVar[str] = "any time"
    person: ClassVar[str] = "an event"
    shape: ClassVar[tuple[int, int] | None] = (4_000, 64)

    level: int = 50
    law: str = POISSON
    units: int = 4_000
    keys: int = 64
    seed: int = 1

    def __post_init__(self) -> None:
        if whole(self.level, name="level", least=1) > _MOST:
            raise ConfigurationError(f"level must be at most {_MOST:,}, not {self.level:,}.")
        if self.law not in (CONSTANT, POISSON):
            raise ConfigurationError(f"law must be {CONSTANT!r} or {POISSON!r}, not {self.law!r}.")
        whole(self.units, name="units", least=1)
        whole(self.keys, name="keys", least=1)
        whole(self.seed, name="seed", least=0)

    def make(self) -> DatasetStream:
        return GeneratedStream(Domain.of(self.keys), units=self.units, draw=self._row)

    def small(self) -> Self:
        return replace(self, units=100, keys=4)

    def _row(self, unit: int) -> IntArray:
        if self.law == CONSTANT:
            return np.full(self.keys, self.level, np.int64)
        rng = np.random.default_rng((self.seed, unit))
        return np.asarray(rng.poisson(self.level, self.keys), np.int64)
