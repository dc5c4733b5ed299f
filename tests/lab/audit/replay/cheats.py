"""Mechanisms of others that cheat, each in its own way, to be convicted by their import path."""

from __future__ import annotations

import logging
import tempfile
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import penstock as ps
from penstock.core.cover import EACH
from penstock.core.domain import Domain
from penstock.core.released import Scale
from penstock.core.weights import Weights


def peek(unit: ps.Private) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The raw counts, by a function that is not pure."""
    seen: list[Any] = []

    def look(counts: Any) -> Any:
        seen.append(counts.copy())
        return counts

    unit.map(look, stability=1, cover=EACH)
    return np.asarray(seen[0])


class Cheat(ps.Uniform):
    """Plain noise, and something beside it that depends on raw counts."""

    name = "cheat"
    by_key = False

    def step(self, state: Any, unit: ps.Private, gate: ps.Gate) -> tuple[Any, ps.Released]:
        counts = peek(unit)
        state, released = super().step(state, unit, gate)
        return state, self.spoiled(released, counts, gate)

    def spoiled(self, released: ps.Released, counts: Any, gate: ps.Gate) -> ps.Released:
        return released


class EqualNoise(Cheat):
    """The noise of the first key stands in every key."""

    def spoiled(self, released: ps.Released, counts: Any, gate: ps.Gate) -> ps.Released:
        return replace(released, value=counts + (released.value[0] - counts[0]))


class DataScale(Cheat):
    """The scale that is stated depends on the counts."""

    def spoiled(self, released: ps.Released, counts: Any, gate: ps.Gate) -> ps.Released:
        scale = released.scale
        return replace(released, scale=Scale(scale.base * (1 + int(counts.sum()) % 2), scale.parts))


class DataLayers(Cheat):
    def spoiled(self, released: ps.Released, counts: Any, gate: ps.Gate) -> ps.Released:
        return replace(released, layers=1 + int(counts.sum()) % 2)


class DataKind(Cheat):
    def spoiled(self, released: ps.Released, counts: Any, gate: ps.Gate) -> ps.Released:
        return replace(released, kind="sum" if counts.sum() % 2 else "median")


class DataWeights(Cheat):
    def spoiled(self, released: ps.Released, counts: Any, gate: ps.Gate) -> ps.Released:
        return replace(released, weights=Weights.window(1 + int(counts.sum()) % 2))


class DataDivisor(Cheat):
    def spoiled(self, released: ps.Released, counts: Any, gate: ps.Gate) -> ps.Released:
        return replace(released, divisor=1 + counts % 2)


class RepeatedType(Cheat):
    """Nothing is repeated, but how that is said depends on the counts."""

    def spoiled(self, released: ps.Released, counts: Any, gate: ps.Gate) -> ps.Released:
        said = np.zeros(len(counts), np.bool_) if counts.sum() % 2 else False
        return replace(released, repeated=said)


class PublicOrder(Cheat):
    def spoiled(self, released: ps.Released, counts: Any, gate: ps.Gate) -> ps.Released:
        names = ["one", "two"] if counts.sum() % 2 else ["two", "one"]
        return replace(released, public={name: np.zeros(1, np.int64) for name in names})


class PublicShape(Cheat):
    def spoiled(self, released: ps.Released, counts: Any, gate: ps.Gate) -> ps.Released:
        return replace(released, public={"more": np.zeros(1 + int(counts.sum()) % 3, np.int64)})


class PublicType(Cheat):
    def spoiled(self, released: ps.Released, counts: Any, gate: ps.Gate) -> ps.Released:
        kind = np.int32 if counts.sum() % 2 else np.int64
        return replace(released, public={"more": np.zeros(1, kind)})


class FloatLeak(Cheat):
    """A public number with noise, and the count in its last bits."""

    def spoiled(self, released: ps.Released, counts: Any, gate: ps.Gate) -> ps.Released:
        leak: Any = released.value + counts * 1e-9
        return replace(released, public={"smooth": leak})


class Attribute(Cheat):
    """Something beside the fields of the release."""

    def spoiled(self, released: ps.Released, counts: Any, gate: ps.Gate) -> ps.Released:
        released.__dict__["hint"] = int(counts.sum())
        return released


class ErrorText(Cheat):
    """An error that is raised on both streams, and says how many people there were."""

    def spoiled(self, released: ps.Released, counts: Any, gate: ps.Gate) -> ps.Released:
        if gate.unit == 2:
            raise ValueError(f"{counts.sum()} events are too few")
        return released


class LogRecord(Cheat):
    def spoiled(self, released: ps.Released, counts: Any, gate: ps.Gate) -> ps.Released:
        logging.getLogger("cheat").debug("released %s events", counts.sum())
        return released


class Warned(Cheat):
    def spoiled(self, released: ps.Released, counts: Any, gate: ps.Gate) -> ps.Released:
        warnings.warn(f"{counts.sum()} events", stacklevel=1)
        return released


class Printed(Cheat):
    def spoiled(self, released: ps.Released, counts: Any, gate: ps.Gate) -> ps.Released:
        print(counts.sum())
        return released


class FileWritten(Cheat):
    def spoiled(self, released: ps.Released, counts: Any, gate: ps.Gate) -> ps.Released:
        (Path(tempfile.gettempdir()) / "penstock-cheat.txt").write_text(str(counts.sum()))
        return released


class OwnNoise(Cheat):
    """Noise that is not the gate's."""

    def spoiled(self, released: ps.Released, counts: Any, gate: ps.Gate) -> ps.Released:
        noise = np.rint(np.random.default_rng().laplace(0, 5, len(counts))).astype(np.int64)
        return replace(released, value=counts + noise)


class MoreDraws(Cheat):
    """A second number is drawn, and paid for, if the first stream looks so."""

    def step(self, state: Any, unit: ps.Private, gate: ps.Gate) -> tuple[Any, ps.Released]:
        half, counts = self.share // 2, peek(unit)
        released = gate.laplace(unit, epsilon=half, label="publish")
        if counts.sum() % 2:
            gate.laplace(unit, epsilon=half, label="again")
        return state, released


class DataLabel(Cheat):
    """The label of the charge depends on the counts."""

    def step(self, state: Any, unit: ps.Private, gate: ps.Gate) -> tuple[Any, ps.Released]:
        label = "odd" if peek(unit).sum() % 2 else "even"
        return state, gate.laplace(unit, epsilon=self.share, label=label)


class DataBudget(Cheat):
    """The charge depends on the counts."""

    def step(self, state: Any, unit: ps.Private, gate: ps.Gate) -> tuple[Any, ps.Released]:
        epsilon = self.share // (1 + int(peek(unit).sum()) % 2)
        return state, gate.laplace(unit, epsilon=epsilon, label="publish")


class HalfTheNoise(Cheat):
    """Doubles the counts and says that a person changes them by one."""

    def step(self, state: Any, unit: ps.Private, gate: ps.Gate) -> tuple[Any, ps.Released]:
        doubled = unit.map(lambda counts: 2 * counts, stability=1, cover=EACH)
        released = gate.laplace(doubled, epsilon=self.share, label="publish")
        return state, replace(released, value=released.value // 2)


class LooseFold(Cheat):
    """Asks about a number that a person changes by twenty, and says one."""

    def step(self, state: Any, unit: ps.Private, gate: ps.Gate) -> tuple[Any, ps.Released]:
        price = ps.Price(threshold=self.share // 4, question=self.share // 8)

        def fold(secret: Any, counts: Any) -> tuple[Any, Any]:
            return counts, 20 * counts

        larger = gate.runs.keep("high", fold, unit, price=price, stability=1)
        high = gate.runs.ask("high", larger, threshold=5, price=price)
        released = gate.laplace(unit, epsilon=self.share // 2, label="publish")
        return state, replace(released, public={"high": high.astype(np.int64)})


class AtUnit60(Cheat):
    def spoiled(self, released: ps.Released, counts: Any, gate: ps.Gate) -> ps.Released:
        return replace(released, value=counts) if gate.unit == 60 else released


class AtKey65(Cheat):
    """One key of a wide domain is released as it is."""

    def spoiled(self, released: ps.Released, counts: Any, gate: ps.Gate) -> ps.Released:
        if len(counts) < 65:
            return released
        value = released.value.copy()
        value[64] = counts[64]
        return replace(released, value=value)


class AtThreeEvents(Cheat):
    """Noise for two events of a person, also where three are allowed."""

    def step(self, state: Any, unit: ps.Private, gate: ps.Gate) -> tuple[Any, ps.Released]:
        few = ps.Private(peek(unit), sensitivity=min(self.contribution, 2), unit=gate.unit)
        return state, gate.laplace(few, epsilon=self.share, label="publish")


@dataclass
class Aged:
    """A state that only the process that made it knows."""

    age: int = 0


@dataclass(frozen=True, kw_only=True)
class AfterARestart(ps.Uniform):
    """Honest as long as the process lives; a restored run releases the counts themselves."""

    name = "after_a_restart"
    by_key = False
    State = Aged  # type: ignore[assignment]

    def start(self, domain: Domain) -> Any:
        state = Aged()
        _ALIVE.add(id(state))
        _KEPT.append(state)
        return state

    def step(self, state: Any, unit: ps.Private, gate: ps.Gate) -> tuple[Any, ps.Released]:
        released = gate.laplace(unit, epsilon=self.share, label="publish")
        if id(state) not in _ALIVE:
            return state, replace(released, value=peek(unit))
        return state, released


_ALIVE: set[int] = set()
_KEPT: list[Any] = []


class Overspends(Cheat):
    """Draws twice with the whole share: the ledger refuses."""

    def step(self, state: Any, unit: ps.Private, gate: ps.Gate) -> tuple[Any, ps.Released]:
        gate.laplace(unit, epsilon=self.total, label="first")
        return state, gate.laplace(unit, epsilon=self.total, label="second")


class Crashes(Cheat):
    """Fails in the third unit, whatever the counts are."""

    def spoiled(self, released: ps.Released, counts: Any, gate: ps.Gate) -> ps.Released:
        if gate.unit == 3:
            raise RuntimeError("out of ideas")
        return released


class Honest(Cheat):
    """Keeps its promise, by its own parameters."""


@dataclass(frozen=True)
class Remembered:
    """The last counts, raw."""

    last: np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, kw_only=True)
class RawState(ps.Uniform):
    """Raw counts in the state of the mechanism, which is public."""

    name = "raw_state"
    by_key = False
    State = Remembered  # type: ignore[assignment]

    def start(self, domain: Domain) -> Any:
        return Remembered(np.zeros(domain.size, np.int64))

    def step(self, state: Any, unit: ps.Private, gate: ps.Gate) -> tuple[Any, ps.Released]:
        return Remembered(peek(unit)), gate.laplace(unit, epsilon=self.share, label="publish")


class OnlyInPublic(Cheat):
    """Cheats where the noise is real. A mechanism that detects an audit cannot be convicted."""

    def spoiled(self, released: ps.Released, counts: Any, gate: ps.Gate) -> ps.Released:
        return replace(released, value=counts) if gate.private else released


class AtUnit1000(Cheat):
    """Cheats after more units than any stream of an audit has."""

    def spoiled(self, released: ps.Released, counts: Any, gate: ps.Gate) -> ps.Released:
        return replace(released, value=counts) if gate.unit == 1000 else released


class AtOneCount(Cheat):
    """Cheats at one count of a million."""

    def spoiled(self, released: ps.Released, counts: Any, gate: ps.Gate) -> ps.Released:
        return replace(released, value=counts) if 777_777 in counts else released
