"""`Variant`, the record of one flawed mechanism, and the parts that variants share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from penstock.budget.grid import Budget
from penstock.core.arrays import IntArray
from penstock.core.domain import Domain
from penstock.core.exact import exact
from penstock.core.guarantee import Guarantee
from penstock.lab.audit.model import Pair
from penstock.lab.audit.noise import ErasingLabNoise, LabNoise
from penstock.private.mechanisms.base import Mechanism

FAR = 10**6
"""A count that is far from 0, compared with any noise."""


@dataclass(frozen=True, kw_only=True)
class Unchecked(Mechanism[Any]):
    """A mechanism that spends as if it had promised ε. Its ledger promises eight times as much."""

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
    """A flawed mechanism, its claim, and the streams that show the flaw.

    `exact`: the loss is computed by enumeration, not estimated by sampling. `noise`: the source of
    noise where somebody looks into the memory. `parent`: the registered mechanism with the same
    parameters, which is audited on the same streams and looks, and must be acquitted. `domain`: its
    keys there, if they need a hierarchy.
    """

    name: str
    make: Callable[[], Mechanism[Any]]
    claimed: Fraction
    window: int
    pairs: tuple[Pair, ...]
    parent: Callable[[], Mechanism[Any]]
    runs: int = 20_000
    exact: bool = False
    noise: type[LabNoise] = ErasingLabNoise
    delta: Fraction = Fraction(0)
    domain: Domain | None = None


def stream(*rows: list[int]) -> IntArray:
    """A stream of one row of counts per unit."""
    return np.array(rows, np.int64)


def present(base: IntArray, times: int = 1) -> Pair:
    """The stream with and without a person who has `times` events of the first key in each unit."""
    person = np.zeros_like(base)
    person[:, 0] = times
    return Pair("a person in every unit", base + person, base)
