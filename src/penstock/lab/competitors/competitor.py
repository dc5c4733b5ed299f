"""What a competitor is: noise on a whole synthetic stream, decayed sums out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from penstock.core.arrays import FloatArray, IntArray
from penstock.core.exact import Exact, positive
from penstock.core.weights import Weights
from penstock.private.noise import Noise


@dataclass(frozen=True, kw_only=True)
class Competitor(ABC):
    """Answers every unit with sums over the last `span` units, each worth γ to the power of its age.

    `promise` says for which neighbours it is ε-private; all of them are at event level, one event of one person.
    """

    name: ClassVar[str]
    promise: ClassVar[str]

    epsilon: Exact
    gamma: Exact = "0.95"
    span: int = 100

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive(self.epsilon, name="epsilon"))
        weights = Weights.decay(self.gamma, self.span)
        object.__setattr__(self, "gamma", weights.rate)
        object.__setattr__(self, "span", weights.length)

    @property
    def budget(self) -> Fraction:
        return positive(self.epsilon, name="epsilon")

    @property
    def weights(self) -> Weights:
        return Weights.decay(self.gamma, self.span)

    @abstractmethod
    def run(self, stream: IntArray, *, noise: Noise) -> FloatArray:
        """Estimates of the decayed sums after every unit: units × keys in, units × keys out."""


def decayed(rows: FloatArray | IntArray, weights: Weights) -> FloatArray:
    """The sums of the rows by age, after every row: what is to be estimated, or post-processing of estimates."""
    out = np.zeros(rows.shape)
    for age, weight in enumerate(weights.sequence(min(weights.length, len(rows)))):
        out[age:] += weight * rows[: len(rows) - age]
    return out
