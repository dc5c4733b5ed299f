"""What a flawed variant is, and the parts that variants share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from penstock.budget.grid import Budget
from penstock.core.arrays import IntArray
from penstock.core.exact import exact
from penstock.core.guarantee import Guarantee
from penstock.lab.audit.model import Pair
from penstock.lab.audit.noise import ErasingLabNoise, LabNoise
from penstock.private.mechanisms.base import Mechanism

FAR = 10**6


@dataclass(frozen=True, kw_only=True)
class Unchecked(Mechanism[Any]):
    """Spends as if ε were promised, under a ledger that promises eight times as much."""

    @cached_property
    def guarantee(self) -> Guarantee:
        return Guarantee(
            8 * exact(self.epsilon),
            self.window,
            self.contribution,
            self.intrusions(),
            horizon=self.horizon,
        )

    @cached_property
    def total(self) -> Budget:
        return self.grid.floor(exact(self.epsilon))


@dataclass(frozen=True)
class Variant:
    """A flawed mechanism, what it claims, and the streams that show it. `exact`: by enumeration,
    not by sampling.
    """

    name: str
    make: Callable[[], Mechanism[Any]]
    claimed: Fraction
    window: int
    pairs: tuple[Pair, ...]
    runs: int = 20_000
    exact: bool = False
    noise: type[LabNoise] = ErasingLabNoise


def stream(*rows: list[int]) -> IntArray:
    return np.array(rows, np.int64)


def present(base: IntArray, times: int = 1) -> Pair:
    person = np.zeros_like(base)
    person[:, 0] = times
    return Pair("a person in every unit", base + person, base)
