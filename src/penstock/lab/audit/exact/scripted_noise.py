"""A source of noise that is chosen beforehand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from penstock.core.arrays import IntArray
from penstock.core.errors import ConfigurationError
from penstock.lab.audit.exact.output import Numbers
from penstock.private.histograms.base import PUBLISH


@dataclass(frozen=True, slots=True)
class NoiseRequest:
    """One call for noise: its label, and 1/scale for each number."""

    label: str
    rates: tuple[float, ...]

    @property
    def publication(self) -> bool:
        """Whether the noise is added to released counts, not used for a decision."""
        return self.label.startswith(PUBLISH)


class ScriptedNoise:
    """Noise by label from a script, and 0 for other labels. `requests` lists all calls.

    `before_decision` is called before each draw of decision noise.

    >>> noise = ScriptedNoise({"publish": (3, -1)})
    >>> noise.laplace(Fraction(2), 2, unit=1, label="publish")
    array([ 3, -1])
    >>> noise.laplace(Fraction(2), 1, unit=1, label="distance")
    array([0])
    >>> noise.requests[1]
    NoiseRequest(label='distance', rates=(0.5,))
    """

    private = False

    def __init__(
        self, script: Mapping[str, Numbers], *, before_decision: Callable[[], None] | None = None
    ) -> None:
        self.script = script
        self.requests: list[NoiseRequest] = []
        self._before_decision = before_decision

    def laplace(self, scale: Fraction, size: int, *, unit: int, label: str) -> IntArray:
        return self._give(label, (_inverse(scale),) * size)

    def laplace_each(
        self, scales: Sequence[Fraction], which: IntArray, *, unit: int, label: str
    ) -> IntArray:
        return self._give(label, tuple(_inverse(scales[index]) for index in which.tolist()))

    def thin(self, counts: IntArray, keep: Fraction, *, unit: int, label: str) -> IntArray:
        raise ConfigurationError("the exact audit knows discrete Laplace noise only, not thinning.")

    def gaussian(self, variance: Fraction, size: int, *, unit: int, label: str) -> IntArray:
        raise ConfigurationError(
            "the exact audit knows discrete Laplace noise only: "
            "with Gaussian noise the loss of an output is not bounded."
        )

    def refresh(self) -> None:
        """A script has no key."""

    def erase(self) -> None:
        """A script has no key."""

    def memory(self) -> dict[str, Any]:
        return {}

    def _give(self, label: str, rates: tuple[float, ...]) -> IntArray:
        request = NoiseRequest(label, rates)
        if self._before_decision is not None and not request.publication:
            self._before_decision()
        self.requests.append(request)
        given = self.script.get(label)
        if given is None:
            return np.zeros(len(rates), np.int64)
        if len(given) != len(rates):
            raise ConfigurationError(
                f"{label!r} asks for {len(rates)} numbers, but the script has {len(given)}."
            )
        return np.array(given, np.int64)


@lru_cache(maxsize=4096)
def _inverse(scale: Fraction) -> float:
    return float(1 / scale)


def same_layers(layers: Sequence[NoiseRequest]) -> bool:
    """One or two layers of the same noise."""
    return len(layers) <= 2 and len({layer.rates for layer in layers}) == 1
