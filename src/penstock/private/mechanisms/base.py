"""The base class of mechanisms: a frozen configuration, a public state and one step."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, Field, dataclass, fields, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar

from penstock.budget.grid import Budget, Grid, promised
from penstock.core.arrays import IntArray
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


@dataclass(frozen=True, kw_only=True, repr=False)
class Mechanism(ABC, Generic[S]):
    """A method that turns the counts of each unit into a release under one promise.

    A subclass is a frozen dataclass with keyword-only parameters. All have defaults but `epsilon`
    and `window`. It names its `State`, a dataclass of plain data: released values and public
    numbers only. It defines `start` and `step`. Raw counts come as a `Private`; a mechanism learns
    about them from the gate only. docs/how-to/add-a-mechanism.md makes one.

    Parameters
    ----------
    epsilon : int, Fraction or str
        The ε that is spent in any window: exact, above 0.
    window : int
        The number of consecutive units in which a person is protected.
    contribution : int
        The most events of one person that count in one unit. Default: 1.
    horizon : int, optional
        The last unit that is ever read; `horizon=window` is user level. Default: none.

    >>> from penstock.private.mechanisms.uniform import Uniform
    >>> Uniform(epsilon="1", window=24, horizon=24).guarantee.user_level
    True
    """

    name: ClassVar[str]
    """The registry's name, an acronym."""
    paper: ClassVar[str]
    """Where it was published."""
    proof: ClassVar[str]
    """The page under docs/proofs/ that its promise rests on."""
    State: ClassVar[type]
    family: ClassVar[str] = "w-event"
    """The kind of promise that the mechanism was made for: `w-event`; `event` (default window: 1);
    or `user`, with few releases.
    """
    by_key: ClassVar[bool] = False
    """Whether every key is treated by itself, so that an audit may take independent runs as keys.
    """

    audited: ClassVar[Mapping[str, Any]] = {}
    """Parameters for audits, where the defaults leave nothing to decide on short streams."""

    before: ClassVar[Mapping[str, Any]] = {}
    """Parameters that earlier versions did not have, each with the value that means what they did.
    `configuration` leaves such a value out, so that kept runs and stores stay what they are."""

    epsilon: Exact
    window: int
    contribution: int = 1
    horizon: int | None = None

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        if "__repr__" not in vars(cls):  # a dataclass would show every parameter
            type.__setattr__(cls, "__repr__", Mechanism.__repr__)

    def __repr__(self) -> str:
        """The parameters that differ from their defaults."""
        given = [
            f"{each.name}={value if isinstance(value, Fraction) else repr(value)}"
            for each in fields(self)
            if not _is_default(value := getattr(self, each.name), each)
        ]
        return f"{type(self).__name__}({', '.join(given)})"

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
        """The promise that every release carries."""
        return Guarantee(
            self.epsilon, self.window, self.contribution, self.intrusions(), horizon=self.horizon
        )

    @cached_property
    def grid(self) -> Grid:
        """The grid of exact amounts on which the budget is spent."""
        return Grid.of(self.guarantee)

    @cached_property
    def total(self) -> Budget:
        """The whole budget of a window: ε, or ρ if the promise has a δ."""
        return promised(self.guarantee)

    def intrusions(self) -> Intrusion:
        """The looks into the memory that the promise survives. Default: none."""
        return Intrusion.NONE

    def released(self, domain: Domain) -> Domain:
        """The domain of the releases. A mechanism that also releases totals overrides it."""
        return domain

    def defaults(self, domain: Domain) -> Mapping[str, bool | int]:
        """The values of parameters that were left open (None), for a new run on this domain.

        They may depend on public settings only. Default: no parameter can be left open.
        """
        return {}

    def decided(self, domain: Domain, kept: Mapping[str, Any] | None = None) -> Self:
        """This mechanism with a value for every parameter that was left open (None).

        Parameters
        ----------
        domain : Domain
            The keys.
        kept : mapping of str to value or text, optional
            The configuration of a run that goes on; its values come first. Default: a new run.
        """
        values = {
            name: value
            for name, value in self.defaults(domain).items()
            if getattr(self, name) is None
        }
        if kept is not None:
            for name, value in values.items():
                text = str(kept.get(name, self.before.get(name)))
                if isinstance(value, bool):
                    values[name] = {"True": True, "False": False}.get(text, value)
                elif text.isdecimal():
                    values[name] = int(text)
        return replace(self, **values) if values else self

    def incremental(self) -> Incremental[S] | None:
        """This mechanism, if it takes the counts of a unit in parts. Default: None."""
        return None

    def hard_streams(self) -> Iterable[IntArray]:
        """Arrays of counts, units × keys, on which decisions are close: an audit tries them too."""
        return ()

    @abstractmethod
    def start(self, domain: Domain) -> S:
        """The state before the first unit."""

    @abstractmethod
    def step(self, state: S, unit: Private, gate: Gate) -> tuple[S, Released]:
        """Read one unit through the gate. Return the state after it, and its release."""

    def run(
        self,
        domain: AnyDomain,
        *,
        noise: Noise | None = None,
        record: bool = False,
        keep: str | os.PathLike[str] | None = None,
    ) -> Run:
        """Start a run on a stream: counts in, `Released` out.

        Parameters
        ----------
        domain : Domain, int, or sequence of str
            The keys, or their number.
        noise : Noise, optional
            The source of noise. Default: the system's randomness. Only tests give another.
        record : bool
            Whether to keep all ledger lines, not only those of the last window. Default: False.
        keep : path, optional
            A file in which every release is saved before it is handed out. If it exists, the run
            goes on from there. Default: none.
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
        """Go on from `run.snapshot()`.

        Units that were released after the snapshot would be drawn again; `run(keep=...)` prevents
        that.

        Parameters
        ----------
        snapshot : bytes
            The snapshot.
        domain : Domain, int, or sequence of str
            The same keys as before.
        noise : Noise, optional
            The source of noise. Default: the system's randomness.
        record : bool
            Whether to keep all ledger lines. Default: False.
        """
        run = self.run(domain, noise=noise, record=record)
        run.load(snapshot)
        return run

    @classmethod
    def summary(cls) -> str:
        """The first line of the docstring."""
        return (cls.__doc__ or "").strip().partition("\n")[0]

    def configuration(self) -> dict[str, Any]:
        """The parameters by name. A part, such as a histogram method, is given as its repr.

        A parameter of `before` is left out where its value is the one there.
        """
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {
            name: value if isinstance(value, _PLAIN) else repr(value)
            for name, value in values.items()
            if name not in self.before or value != self.before[name]
        }


@dataclass(frozen=True, kw_only=True)
class WithDelta(Mechanism[S]):
    """A mechanism whose promise may have a δ. Then all noise is Gaussian and the ledger counts ρ.

    Its steps draw by `gate.noisy`, or by `gate.gaussian` alone.

    Parameters
    ----------
    epsilon : int, Fraction or str
        The ε that is spent in any window: exact, above 0.
    window : int
        The number of consecutive units in which a person is protected.
    contribution : int
        The most events of one person that count in one unit. Default: 1.
    horizon : int, optional
        The last unit that is ever read; `horizon=window` is user level. Default: none.
    delta : int, Fraction or str
        The δ of the promise. Above 0, noise is Gaussian. Default: 0, a pure promise.

    >>> from penstock.private.mechanisms.uniform import Uniform
    >>> Uniform(epsilon="1", window=24, delta="1e-6").guarantee
    Guarantee(epsilon=1, delta=1/1000000, window=24)
    """

    before: ClassVar[Mapping[str, Any]] = {"delta": 0}

    delta: Exact = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "delta", self.guarantee.delta)  # checks, makes it exact

    @cached_property
    def guarantee(self) -> Guarantee:
        return Guarantee(
            self.epsilon,
            self.window,
            self.contribution,
            self.intrusions(),
            self.delta,
            self.horizon,
        )


class Incremental(Mechanism[S]):
    """A mechanism that takes the counts of a unit in parts, as they arrive.

    The parts go into counters that hold noise first (`gate.counters`).

    Parameters
    ----------
    epsilon : int, Fraction or str
        The ε that is spent in any window: exact, above 0.
    window : int
        The number of consecutive units in which a person is protected.
    contribution : int
        The most events of one person that count in one unit. Default: 1.
    horizon : int, optional
        The last unit that is ever read; `horizon=window` is user level. Default: none.

    Examples
    --------
    >>> from penstock import Incremental, PanAbsorption
    >>> mechanism = PanAbsorption(epsilon="1", window=3)
    >>> isinstance(mechanism, Incremental)
    True
    >>> run = mechanism.run(2)
    >>> run.feed([3, 0])
    >>> run.step([4, 1]).unit
    1
    """

    def incremental(self) -> Incremental[S]:
        return self

    @abstractmethod
    def begin(self, state: S, gate: Gate) -> None:
        """Prime the counters, before any of the unit's data."""

    @abstractmethod
    def feed(self, state: S, part: Private, gate: Gate) -> None:
        """Count one part of the unit."""

    @property
    def in_parts(self) -> bool:
        """Whether this configuration takes parts. If not, it takes whole units only."""
        return True

    @property
    def announced(self) -> bool:
        """Whether this configuration must be told of a look into its memory."""
        return False


def _is_default(value: Any, parameter: Field[Any]) -> bool:
    """Whether a parameter has the value that it has where it is not given."""
    usual = parameter.default
    if parameter.default_factory is not MISSING:
        usual = parameter.default_factory()
    if isinstance(value, Fraction) and isinstance(usual, str):
        usual = Fraction(usual)
    return bool(value == usual)
