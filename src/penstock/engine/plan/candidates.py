"""Which mechanisms can keep a promise on some keys, each with its public parameters."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from penstock.core.arrays import IntArray
from penstock.core.domain import Domain
from penstock.core.errors import ConfigurationError, PenstockError
from penstock.core.guarantee import Guarantee
from penstock.core.hierarchy import Hierarchy
from penstock.core.weights import UNIT
from penstock.engine.pipeline import AnyMechanism
from penstock.engine.plan.public_counts import FLOW, StatedFacts
from penstock.private.mechanisms import registry
from penstock.private.mechanisms.base import Mechanism
from penstock.private.noise import NoNoise

PROMISE = ("epsilon", "window", "contribution", "horizon")
"""The parameters of a mechanism that are its promise, beside delta."""

_GIVEN = (*PROMISE, "delta", *vars(FLOW))
"""The parameters that are never a mechanism's own choice: the promise, and the stated facts."""


@dataclass(frozen=True, kw_only=True)
class AskedPromise:
    """The promise that every candidate must keep.

    Parameters
    ----------
    epsilon : Fraction
        The ε of any window.
    window : int
        The window, in units.
    contribution : int
        The most events of one person that count in one unit. Default: 1.
    horizon : int, optional
        The last unit that is ever read. Default: none.
    delta : Fraction, optional
        The δ that a mechanism may use. Default: none, only pure promises.
    """

    epsilon: Fraction
    window: int
    contribution: int = 1
    horizon: int | None = None
    delta: Fraction | None = None

    @classmethod
    def of(cls, promise: Guarantee, *, delta: Fraction | None = None) -> AskedPromise:
        """A promise; its δ, or the given one, may be used."""
        return cls(
            epsilon=promise.epsilon,
            window=promise.window,
            contribution=promise.contribution,
            horizon=promise.horizon,
            delta=delta or promise.delta or None,
        )

    def over(self, units: int) -> AskedPromise:
        """The same promise where a unit is as long as `units` were before."""
        horizon = None if self.horizon is None else max(self.horizon // units, 1)
        window = -(-self.window // units)
        return dataclasses.replace(
            self, window=window if horizon is None else min(window, horizon), horizon=horizon
        )


@dataclass(frozen=True, kw_only=True)
class MechanismChoice:
    """A mechanism with a choice of parameters, ready to be made under any promise.

    Parameters
    ----------
    cls : type
        The class of the mechanism.
    chosen : mapping
        Parameters beside the promise that differ from the defaults. Default: none.
    gaussian : bool
        Whether the promise's δ is used. Default: False.
    """

    cls: type[Mechanism[Any]]
    chosen: Mapping[str, Any] = field(default_factory=dict, hash=False)
    gaussian: bool = False

    @classmethod
    def of(cls, mechanism: AnyMechanism) -> MechanismChoice:
        """The choice that a mechanism in use is."""
        chosen = {
            name: value
            for name, each in _fields(type(mechanism)).items()
            if name not in _GIVEN and (value := getattr(mechanism, name)) != _made(each.default)
        }
        gaussian = bool(mechanism.guarantee.delta)
        return cls(cls=type(mechanism), chosen=chosen, gaussian=gaussian)

    @property
    def name(self) -> str:
        """The registry's name."""
        return self.cls.name

    def parameters(self, promise: AskedPromise, facts: StatedFacts) -> dict[str, Any]:
        """All parameters but ε, window, contribution and horizon that are not defaults."""
        stated = {name: value for name, value in vars(facts).items() if value != vars(FLOW)[name]}
        found = dict(self.chosen) | {
            name: stated[name] for name in stated if name in _fields(self.cls)
        }
        if self.gaussian:
            found["delta"] = promise.delta
        return found

    def made(self, promise: AskedPromise, facts: StatedFacts) -> AnyMechanism:
        """The mechanism under this promise."""
        asked = {name: getattr(promise, name) for name in PROMISE}
        return self.cls(**asked, **self.parameters(promise, facts))


def candidates(
    domain: Domain, promise: AskedPromise, facts: StatedFacts = FLOW
) -> tuple[list[MechanismChoice], dict[str, str]]:
    """All choices that keep this promise on these keys; and the others by name, with the reason.

    >>> found, left_out = candidates(
    ...     Domain.of(3), AskedPromise(epsilon=Fraction(1), window=24)
    ... )
    >>> [choice.name for choice in found][:2], left_out["sw_tree"]
    (['uniform', 'sample'], 'its numbers are sums over several units.')
    """
    found: list[MechanismChoice] = []
    left_out: dict[str, str] = {}
    for name in registry.names():
        reasons: list[str] = []
        try:
            for choice in _choices(registry.find(name), promise):
                problem = unfit(choice, domain, promise, facts)
                if problem is None:
                    found.append(choice)
                else:
                    reasons.append(problem)
        except Exception as error:  # a plug-in may fail in any way
            reasons.append(str(error))
        if reasons and all(choice.name != name for choice in found):
            left_out[name] = reasons[0]
    return found, left_out


def _choices(cls: type[Mechanism[Any]], promise: AskedPromise) -> Iterator[MechanismChoice]:
    """The defaults of a mechanism, without and with δ."""
    delta = _fields(cls).get("delta")
    if delta is None or not _always_gaussian(delta):
        yield MechanismChoice(cls=cls)
    elif promise.delta is None:
        raise ConfigurationError("it needs a delta, and none is allowed.")
    if delta is not None and promise.delta is not None:
        yield MechanismChoice(cls=cls, gaussian=True)


def _made(default: Any) -> Any:
    """A default as a mechanism holds it: exact numbers as fractions."""
    if isinstance(default, str):
        try:
            return Fraction(default)
        except ValueError:
            return default
    return default


def _fields(cls: type[Mechanism[Any]]) -> dict[str, dataclasses.Field[Any]]:
    return {each.name: each for each in dataclasses.fields(cls)}


def _always_gaussian(delta: dataclasses.Field[Any]) -> bool:
    """Whether a mechanism has a δ also where none is given."""
    return delta.default is dataclasses.MISSING or bool(Fraction(delta.default or 0))


def unfit(
    choice: MechanismChoice, domain: Domain, promise: AskedPromise, facts: StatedFacts
) -> str | None:
    """Why a choice cannot be used, tried on one empty unit; None if it can."""
    try:
        mechanism = choice.made(promise, facts)
        kept = mechanism.guarantee
        if kept.intrusion:
            return "it promises something about its memory, which a publisher cannot keep."
        asked = (promise.epsilon, promise.window, promise.contribution, promise.horizon)
        if (kept.epsilon, kept.window, kept.contribution, kept.horizon) != asked:
            return f"it makes another promise: {kept}."
        run = mechanism.run(domain, noise=NoNoise())
        if run.step(np.zeros(domain.size, np.int64)).weights != UNIT:
            return "its numbers are sums over several units."
        if run.released.size > domain.size and not isinstance(domain, Hierarchy):
            return "it releases totals above the keys, and the keys have no hierarchy."
        if places(run.released, domain) is None:
            return "it does not release a number for every key."
    except PenstockError as error:
        return str(error)
    return None


def places(released: Domain, domain: Domain) -> IntArray | None:
    """Where the keys stand among the released numbers; None if a key is not among them.

    >>> floors = Hierarchy.of({"1": "A", "2": "A"})
    >>> floors.nodes.keys, places(floors.nodes, floors).tolist()
    (('A', 'A/1', 'A/2'), [1, 2])
    """
    if released.size == domain.size:
        return np.arange(domain.size, dtype=np.int64)
    # With the counts 1, 2, 4, … a total says which keys are in it; 62 keys at a time fit a number.
    found = np.full(domain.size, -1, np.int64)
    for first in range(0, domain.size, 62):
        keys = range(first, min(first + 62, domain.size))
        counts = np.zeros(domain.size, np.int64)
        counts[keys.start : keys.stop] = 1 << np.arange(len(keys), dtype=np.int64)
        rest = np.ones(domain.size, np.int64)
        rest[keys.start : keys.stop] = 0
        alone = released.totals(rest) == 0
        total = released.totals(counts)
        for key in keys:
            here = np.flatnonzero(alone & (total == 1 << (key - first)))
            if len(here):
                found[key] = here[-1]
    return found if (found >= 0).all() else None
