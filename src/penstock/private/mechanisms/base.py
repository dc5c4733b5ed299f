"""What a mechanism is: a frozen configuration, a state of released values, one step."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from penstock.budget.grid import Budget, Grid, promised
from penstock.core.domain import AnyDomain, Domain
from penstock.core.exact import Exact
from penstock.core.guarantee import Guarantee, Intrusion
from penstock.core.private import Private
from penstock.core.released import Released
from penstock.private.gate import Gate

if TYPE_CHECKING:
    from penstock.private.noise import Noise
    from penstock.private.run import Run

S = TypeVar("S")

_PLAIN = (bool, int, str, Fraction, tuple, type(None))


@dataclass(frozen=True, kw_only=True)
class Mechanism(ABC, Generic[S]):
    """How counts become releases under one promise.

    A subclass is a frozen dataclass with keyword-only parameters that all have defaults but
    `epsilon` and `window`. It names its `State` (a dataclass of plain data: released values and
    public numbers only) and says how to `start` and how to `step`. Raw counts come as a `Private`;
    whatever is to be known of them is asked of the gate.

    `epsilon` is an int, a `Fraction` or a decimal string; `contribution` the most events that a
    person has in a unit; `horizon` the last unit that is ever read (with `horizon=window` the
    promise is at user level).
    """

    name: ClassVar[str]
    """The registry's name, an acronym."""
    paper: ClassVar[str]
    """Where it was published."""
    proof: ClassVar[str]
    """The page under docs/proofs/ that its promise rests on."""
    State: ClassVar[type]
    family: ClassVar[str] = "w-event"
    """What it was made for: `w-event`; `event`, with a window of 1 unless asked for another; or
    `user`, with few releases.
    """
    by_key: ClassVar[bool] = False
    """Whether every key is treated by itself, so that an audit may take independent runs as keys.
    """

    epsilon: Exact
    window: int
    contribution: int = 1
    horizon: int | None = None

    def __post_init__(self) -> None:
        promise = Guarantee(
            self.epsilon, self.window, self.contribution, horizon=self.horizon
        )  # checks, makes them plain
        object.__setattr__(self, "epsilon", promise.epsilon)
        object.__setattr__(self, "window", promise.window)
        object.__setattr__(self, "contribution", promise.contribution)
        object.__setattr__(self, "horizon", promise.horizon)

    @cached_property
    def guarantee(self) -> Guarantee:
        """The promise, in the form that every release carries."""
        return Guarantee(
            self.epsilon, self.window, self.contribution, self.intrusions(), horizon=self.horizon
        )

    @cached_property
    def grid(self) -> Grid:
        """The grid of exact amounts on which this promise is spent."""
        return Grid.of(self.guarantee)

    @cached_property
    def total(self) -> Budget:
        """The whole ε of a window (its ρ, where the promise has a δ)."""
        return promised(self.guarantee)

    def intrusions(self) -> Intrusion:
        """The looks into the memory that the promise survives; overridden by pan-private mechanisms."""
        return Intrusion.NONE

    def released(self, domain: Domain) -> Domain:
        """What the releases have a number for: the keys, unless a mechanism releases totals of them
        too.
        """
        return domain

    @abstractmethod
    def start(self, domain: Domain) -> S:
        """The state before the first unit."""

    @abstractmethod
    def step(self, state: S, unit: Private, gate: Gate) -> tuple[S, Released]:
        """Read one unit through the gate; the state after it, and what anyone may see of it."""

    def run(
        self,
        domain: AnyDomain,
        *,
        noise: Noise | None = None,
        record: bool = False,
        keep: str | os.PathLike[str] | None = None,
    ) -> Run:
        """Publish a stream over this domain, array in, `Released` out.

        `record` keeps all ledger lines instead of the last window's. `keep` names a file in which
        every release is saved before it is handed out; if the file exists, the run goes on from
        there. `noise` is the system's unless a test says otherwise.
        """
        from penstock.private.run import Run

        return Run(self, Domain.of(domain), noise=noise, record=record, keep=keep)

    def restore(
        self,
        snapshot: bytes,
        domain: AnyDomain,
        *,
        noise: Noise | None = None,
        record: bool = False,
    ) -> Run:
        """Go on from `run.snapshot()`. What was released after it would be drawn again:
        `run(keep=...)` prevents that.
        """
        run = self.run(domain, noise=noise, record=record)
        run.load(snapshot)
        return run

    @classmethod
    def summary(cls) -> str:
        """The first line of the docstring."""
        return (cls.__doc__ or "").strip().partition("\n")[0]

    def configuration(self) -> dict[str, Any]:
        """The parameters by name; a part such as a histogram method as it shows itself."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {
            name: value if isinstance(value, _PLAIN) else repr(value)
            for name, value in values.items()
        }


class Incremental(Mechanism[S]):
    """A mechanism that takes a unit's counts in parts, as they arrive, into counters that hold
    noise first.
    """

    @abstractmethod
    def begin(self, state: S, gate: Gate) -> None:
        """Before any of the unit's data: prime the counters."""

    @abstractmethod
    def feed(self, state: S, part: Private, gate: Gate) -> None:
        """Count one part of the unit."""

    @property
    def in_parts(self) -> bool:
        """Whether this configuration takes parts, or whole units only."""
        return True

    @property
    def announced(self) -> bool:
        """Whether this configuration wants to be told of a look into its memory."""
        return False
