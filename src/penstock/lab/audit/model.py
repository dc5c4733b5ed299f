"""Neighbouring streams, and the traces of runs on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

from penstock.core.arrays import BoolArray, FloatArray, IntArray
from penstock.core.domain import Domain
from penstock.core.error_bounds import Kind
from penstock.core.errors import ConfigurationError
from penstock.core.weights import UNIT, Weights
from penstock.lab.audit.noise import ErasingLabNoise, LabNoise
from penstock.private.mechanisms.base import Mechanism

Maker: TypeAlias = Callable[..., Mechanism[Any]]
"""A function that makes a mechanism from `epsilon` and `window`: usually its class."""


@dataclass(frozen=True)
class Look:
    """One look into the memory: its unit, and the counts that have arrived by then on each stream.

    Zeros mean that nothing of the unit has arrived, its counts that all of it has. With `after`,
    the look is taken when the unit has been released, before the next unit. With `restored`, the
    run is saved and restored first, and the look also sees the snapshot. With `announced`, the run
    is told of the look.
    """

    unit: int
    left: IntArray
    right: IntArray
    after: bool = False
    restored: bool = False
    announced: bool = False


@dataclass(frozen=True)
class Pair:
    """Two neighbouring streams, units × keys: they differ by one person in some window only.

    `left` holds the person and `right` does not, or the other way round.
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
        look = self.look
        if look is not None:
            look = replace(look, left=look.right, right=look.left)
        return Pair(f"{self.name}, swapped", self.right, self.left, look)

    def as_released(self, mechanism: Mechanism[Any], domain: Domain | None = None) -> Pair:
        """The two streams in the domain that the mechanism releases, if that is not the keys."""
        domain = Domain.of(self.keys) if domain is None else domain
        shown = mechanism.released(domain)
        if shown is domain:
            return self
        left, right = (
            np.stack([shown.totals(counts) for counts in stream])
            for stream in (self.left, self.right)
        )
        return Pair(self.name, left, right, self.look)

    def is_neighbouring(self, *, window: int, contribution: int) -> bool:
        """Whether one person with `contribution` events per unit explains it, in `window` units."""
        difference = self.left - self.right
        units = np.flatnonzero(difference.any(axis=1))
        if len(units) and units[-1] - units[0] >= window:
            return False
        one_sided = ((difference >= 0).all(axis=1) | (difference <= 0).all(axis=1)).all()
        return bool(one_sided and (np.abs(difference).sum(axis=1) <= contribution).all())


@dataclass(frozen=True)
class Case:
    """One pair of streams, and the mechanism that runs on it.

    Parameters
    ----------
    mechanism : Mechanism
        The mechanism in one configuration.
    pair : Pair
        The two streams.
    claimed : Fraction
        The ε that is claimed.
    window : int
        The window that is claimed.
    delta : Fraction
        The δ that is claimed. Default: 0.
    domain : Domain, optional
        The keys. Default: keys without a hierarchy.
    restart : int
        After this unit each run is saved and restored. Default: 0, never.
    noise : type
        The source of noise where somebody looks into the memory. Default: `ErasingLabNoise`.
    runs : int
        The number of runs on each stream. Default: 0, as many as the subject has.
    """

    mechanism: Mechanism[Any]
    pair: Pair
    claimed: Fraction
    window: int
    delta: Fraction = Fraction(0)
    domain: Domain | None = None
    restart: int = 0
    noise: type[LabNoise] = ErasingLabNoise
    runs: int = 0

    @property
    def as_keys(self) -> bool:
        """Whether runs are keys of one run."""
        plain = self.domain is None and self.pair.look is None and not self.restart
        return plain and self.mechanism.by_key

    @property
    def configuration(self) -> dict[str, str]:
        """All parameters of the mechanism, as text."""
        return {name: str(value) for name, value in self.mechanism.configuration().items()}

    @property
    def keys(self) -> Domain:
        """The domain of the streams."""
        return Domain.of(self.pair.keys) if self.domain is None else self.domain

    @property
    def shown(self) -> Pair:
        """The two streams in the domain of the releases."""
        return self.pair.as_released(self.mechanism, self.domain)


@dataclass(frozen=True)
class Traces:
    """The traces of many runs: releases by run, unit and key, their freshness, and a look.

    `public` has divisors that are not 1 and the public arrays, by name. `kind` and `weights`
    describe a release as in `Released`. `explained` has two columns, for the left and the right
    stream: 1 if a key of the noise was seen under which the stream gives what was seen, 0 if one
    was seen under which it does not, and −1 if none was seen. `fields` has a code per run for each
    thing that was shown besides the values (`fields.DIGESTS`), 0 if it was not shown. `memory` has
    the numbers that a look saw, by name, run and place. `errors` has the error that ended each run,
    or an empty text.
    """

    values: IntArray | np.ndarray[Any, np.dtype[np.float64]]
    fresh: BoolArray
    seen: IntArray | None = None
    public: Mapping[str, IntArray] = field(default_factory=dict)
    kind: Kind = "sum"
    weights: Weights = UNIT
    explained: IntArray | None = None
    fields: Mapping[str, IntArray] = field(default_factory=dict)
    memory: Mapping[str, FloatArray] = field(default_factory=dict)
    errors: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.values)

    @property
    def form(self) -> TraceForm:
        """The arrays that these traces have."""
        return TraceForm(
            {name: (array.shape[2], array.dtype) for name, array in self.public.items()},
            {name: array.shape[1] for name, array in self.memory.items()},
            self.kind,
            self.weights,
        )


@dataclass(frozen=True)
class TraceForm:
    """The arrays that traces have, with their lengths. All runs of a case are put into one form.

    If each part of the runs had the form of its own runs, then one unusual run would change how all
    others of its part are told apart, and the runs would not be independent.

    Parameters
    ----------
    public : mapping of str to (int, dtype)
        The number of values in a unit of each public array, and their type.
    memory : mapping of str to int
        The number of values of each array that a look saw.
    kind : str
        What a release is, as in `Released`.
    weights : Weights
        The weights of a release, as in `Released`.
    """

    public: Mapping[str, tuple[int, np.dtype[Any]]]
    memory: Mapping[str, int]
    kind: Kind
    weights: Weights
