"""A competitor takes a synthetic stream unit by unit and shows numbers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import ClassVar

import numpy as np

from penstock.core.arrays import FloatArray, IntArray
from penstock.core.domain import Domain
from penstock.core.exact import Exact, positive, whole
from penstock.core.weights import Weights
from penstock.private.noise import Noise

ADDING = "adding or removing one event"
"""The promise of every competitor that does not name another."""


class Course(ABC):
    """A competitor at work on a stream."""

    @abstractmethod
    def step(self, counts: IntArray) -> FloatArray:
        """The numbers after one more unit."""

    @abstractmethod
    def kept(self) -> object:
        """Everything that it keeps between units, as arrays and numbers, to measure its memory."""


@dataclass(frozen=True, kw_only=True)
class Competitor(ABC):
    """A method that a paper compares with. `promise` names its neighbours.

    A competitor that is not `private` promises nothing; figures mark it.
    """

    name: ClassVar[str]
    promise: ClassVar[str]
    private: ClassVar[bool] = True

    epsilon: Exact

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive(self.epsilon, name="epsilon"))

    @property
    def budget(self) -> Fraction:
        return positive(self.epsilon, name="epsilon")

    @property
    def protected(self) -> int:
        """The number of consecutive units in which a person is protected. Default: one event."""
        return 1

    def configuration(self) -> dict[str, object]:
        """Its parameters."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @abstractmethod
    def begin(self, domain: Domain, *, noise: Noise) -> Course:
        """Begin, before the first unit."""

    def run(self, stream: IntArray, *, noise: Noise) -> FloatArray:
        """The numbers after every unit: units × keys in, units × keys out."""
        course = self.begin(Domain.of(stream.shape[1]), noise=noise)
        return np.array([course.step(counts) for counts in stream])


@dataclass(frozen=True, kw_only=True)
class WEventCompetitor(Competitor):
    """Shows the counts of every unit, and protects any `window` consecutive units of a person."""

    window: int

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "window", whole(self.window, name="window", least=1))

    @property
    def protected(self) -> int:
        return self.window


@dataclass(frozen=True, kw_only=True)
class Decayed(Competitor):
    """Answers every unit with sums over the last `span` units, weighted by γ to the power of the
    age.
    """

    gamma: Exact = "0.95"
    span: int = 100

    def __post_init__(self) -> None:
        super().__post_init__()
        weights = Weights.decay(self.gamma, self.span)
        object.__setattr__(self, "gamma", weights.rate)
        object.__setattr__(self, "span", weights.length)

    @property
    def weights(self) -> Weights:
        return Weights.decay(self.gamma, self.span)


class Window:
    r"""Decayed sums of the last `span` rows: :math:`G\leftarrow\gamma G+x_t-\gamma^w x_{t-w}`, in a
    ring.

    Rounding errors decay with the sums, so they do not accumulate.
    """

    def __init__(self, weights: Weights, keys: int) -> None:
        self._rate, self._last = float(weights.rate), float(weights.rate) ** weights.length
        self._ring = np.zeros((weights.length, keys))
        self._sum = np.zeros(keys)
        self._units = 0

    def add(self, row: FloatArray | IntArray) -> FloatArray:
        """The sums with one more row."""
        place = self._units % len(self._ring)
        self._sum = self._rate * self._sum + row - self._last * self._ring[place]
        self._ring[place] = row
        self._units += 1
        return self._sum

    def kept(self) -> tuple[FloatArray, FloatArray]:
        return self._ring[: self._units], self._sum


@dataclass(frozen=True, kw_only=True)
class Estimated(Decayed):
    """One private histogram per unit. The sums of the last `span` of them are post-processing."""

    @abstractmethod
    def publish(self, counts: IntArray, *, noise: Noise, unit: int = 1) -> FloatArray:
        """One histogram: an estimate of every count."""

    def begin(self, domain: Domain, *, noise: Noise) -> Course:
        return _Summing(self, domain.size, noise)


class _Summing(Course):
    """One histogram per unit, and their sums."""

    def __init__(self, competitor: Estimated, keys: int, noise: Noise) -> None:
        self._competitor = competitor
        self._noise = noise
        self._window = Window(competitor.weights, keys)
        self._unit = 0

    def step(self, counts: IntArray) -> FloatArray:
        self._unit += 1
        return self._window.add(
            self._competitor.publish(counts, noise=self._noise, unit=self._unit)
        )

    def kept(self) -> object:
        return self._window.kept()


def decayed(rows: FloatArray | IntArray, weights: Weights) -> FloatArray:
    """The sums of the rows, weighted by age, after every row."""
    out = np.zeros(rows.shape)
    for age, weight in enumerate(weights.sequence(min(weights.length, len(rows)))):
        out[age:] += weight * rows[: len(rows) - age]
    return out
