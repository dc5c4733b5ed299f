"""What a competitor is: it takes a synthetic stream unit by unit, and shows numbers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import ClassVar

import numpy as np

from penstock.core.arrays import FloatArray, IntArray
from penstock.core.domain import Domain
from penstock.core.exact import Exact, positive
from penstock.core.weights import Weights
from penstock.private.noise import Noise

ADDING = "adding or removing one event"
"""What all promise at least, but for those that say otherwise."""


class Course(ABC):
    """A competitor on its way through a stream."""

    @abstractmethod
    def step(self, counts: IntArray) -> FloatArray:
        """What is shown after one more unit."""

    @abstractmethod
    def kept(self) -> object:
        """All that it keeps between units, as arrays and numbers: their size is what it needs of
        memory.
        """


@dataclass(frozen=True, kw_only=True)
class Competitor(ABC):
    """What a paper compares itself with. `promise` says for which neighbours it is ε-private, all
    at event level.

    What is not `private` is here to be shown beside the others, marked, and promises nothing.
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

    def configuration(self) -> dict[str, object]:
        """All that it was made with."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @abstractmethod
    def begin(self, domain: Domain, *, noise: Noise) -> Course:
        """Before the first unit."""

    def run(self, stream: IntArray, *, noise: Noise) -> FloatArray:
        """What is shown after every unit: units × keys in, units × keys out."""
        course = self.begin(Domain.of(stream.shape[1]), noise=noise)
        return np.array([course.step(counts) for counts in stream])


@dataclass(frozen=True, kw_only=True)
class Decayed(Competitor):
    """Answers every unit with sums over the last `span` units, each worth γ to the power of its
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
    r"""Decayed sums of the last `span` rows: :math:`G\leftarrow\gamma G+x_t-\gamma^w x_{t-w}`, with
    a ring of w rows.

    What is rounded decays with what it was rounded in, so that the sums do not wander off.
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
    """One private histogram a unit; the sums of the last `span` of them are post-processing, and
    need all of these.
    """

    @abstractmethod
    def publish(self, counts: IntArray, *, noise: Noise, unit: int = 1) -> FloatArray:
        """One histogram: an estimate of every count."""

    def begin(self, domain: Domain, *, noise: Noise) -> Course:
        return _Summing(self, domain.size, noise)


class _Summing(Course):
    """Histograms, one a unit, and their sums."""

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
    """The sums of the rows by age, after every row: what is to be estimated, or post-processing of
    estimates.
    """
    out = np.zeros(rows.shape)
    for age, weight in enumerate(weights.sequence(min(weights.length, len(rows)))):
        out[age:] += weight * rows[: len(rows) - age]
    return out
