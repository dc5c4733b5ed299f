"""What an audit is about: a mechanism, two neighbouring streams, and what somebody sees of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from penstock.core.arrays import BoolArray, IntArray
from penstock.core.domain import Domain
from penstock.core.error_bounds import Kind
from penstock.core.errors import ConfigurationError
from penstock.core.weights import UNIT, Weights
from penstock.private.mechanisms.base import Mechanism

Maker: TypeAlias = Callable[..., Mechanism[Any]]
"""Makes a mechanism from `epsilon` and `window`: a class, usually."""


@dataclass(frozen=True)
class Look:
    """Somebody looks into the memory once: in this unit, after `left` (or `right`) of its counts
    have arrived.

    Nothing of the unit has arrived yet where the parts are zeros, all of it where they are the
    unit's counts.
    """

    unit: int
    left: IntArray
    right: IntArray


@dataclass(frozen=True)
class Pair:
    """Two neighbouring streams, units × keys: in some window they differ by one person, elsewhere
    not at all.

    `left` holds the person, `right` does not (or the other way round).
    """

    name: str
    left: IntArray
    right: IntArray
    look: Look | None = None

    def __post_init__(self) -> None:
        if self.left.shape != self.right.shape or self.left.ndim != 2:
            raise ConfigurationError(
                f"pair {self.name!r}: two streams of the same units and keys are needed."
            )

    @property
    def units(self) -> int:
        return int(self.left.shape[0])

    @property
    def keys(self) -> int:
        return int(self.left.shape[1])

    def swapped(self) -> Pair:
        """The same pair with the two streams in the other order."""
        look = None if self.look is None else Look(self.look.unit, self.look.right, self.look.left)
        return Pair(f"{self.name}, swapped", self.right, self.left, look)

    def as_released(self, mechanism: Mechanism[Any]) -> Pair:
        """The two streams in the numbers that the mechanism releases, if those are not the keys'
        own.
        """
        domain = Domain.of(self.keys)
        shown = mechanism.released(domain)
        if shown is domain:
            return self
        left, right = (
            np.stack([shown.totals(counts) for counts in stream])
            for stream in (self.left, self.right)
        )
        return Pair(self.name, left, right, self.look)

    def is_neighbouring(self, *, window: int, contribution: int) -> bool:
        """Whether one person with at most `contribution` events a unit, in at most `window` units
        in a row, explains it.
        """
        difference = self.left - self.right
        units = np.flatnonzero(difference.any(axis=1))
        if len(units) and units[-1] - units[0] >= window:
            return False
        one_sided = ((difference >= 0).all(axis=1) | (difference <= 0).all(axis=1)).all()
        return bool(one_sided and (np.abs(difference).sum(axis=1) <= contribution).all())


@dataclass(frozen=True)
class Traces:
    """What was seen of many runs: releases by run, unit and key, which of them are fresh, and what
    a look saw.

    `public` has what else was shown, by name: divisors that are not 1, and the public arrays.
    `kind` and `weights` say what a release is, as in `Released`.
    """

    values: IntArray | np.ndarray[Any, np.dtype[np.float64]]
    fresh: BoolArray
    seen: IntArray | None = None
    public: Mapping[str, IntArray] = field(default_factory=dict)
    kind: Kind = "sum"
    weights: Weights = UNIT

    def __len__(self) -> int:
        return len(self.values)
