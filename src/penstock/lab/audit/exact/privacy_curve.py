"""The δ of a mechanism with Gaussian noise, computed over all likely outputs of a small stream."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from penstock.core.arrays import FloatArray, IntArray
from penstock.core.errors import ConfigurationError
from penstock.core.released import Released
from penstock.lab.audit.model import Pair
from penstock.private.mechanisms.base import Mechanism

Draws: TypeAlias = tuple[tuple[int, ...], ...]
"""The values of all draws of a run, in order."""

_LIMIT = 200_000


@dataclass(frozen=True)
class PrivacyCurve:
    """The probabilities of outputs on two streams, and how much was left out on either of them.

    Every output is a whole sequence of releases, so δ is that of all that is ever published.
    """

    left: FloatArray
    right: FloatArray
    missing: float

    def delta(self, epsilon: float) -> tuple[float, float]:
        """The least δ with which this pair keeps ε, in either direction, between two bounds."""
        ways = ((self.left, self.right), (self.right, self.left))
        low = max(float(np.maximum(one - math.exp(epsilon) * two, 0).sum()) for one, two in ways)
        return low - math.exp(epsilon) * self.missing, low + self.missing


def privacy_curve(mechanism: Mechanism[Any], pair: Pair, *, tail: float = 1e-7) -> PrivacyCurve:
    """Run the mechanism's own code under every likely noise, and add up equal outputs.

    Parameters
    ----------
    mechanism : Mechanism
        A mechanism with a δ.
    pair : Pair
        Two neighbouring streams of few units and keys.
    tail : float
        Sequences of draws that are less likely than this are left out. Default: 1e-7.

    >>> from penstock import Uniform
    >>> pair = Pair("one event", np.array([[1]]), np.array([[0]]))
    >>> curve = privacy_curve(Uniform(epsilon=2, window=1, delta="0.01"), pair)
    >>> 0.005 < curve.delta(2)[0] < curve.delta(2)[1] < 0.01
    True
    """
    sides = [_outputs(mechanism, stream, tail) for stream in (pair.left, pair.right)]
    shown = list(dict.fromkeys([*sides[0], *sides[1]]))
    left, right = (np.array([side.get(each, 0.0) for each in shown]) for side in sides)
    return PrivacyCurve(left, right, 1 - min(float(left.sum()), float(right.sum())))


def _outputs(mechanism: Mechanism[Any], stream: IntArray, tail: float) -> dict[object, float]:
    """The probability of each output of one stream."""
    found: dict[object, float] = defaultdict(float)
    waiting: list[tuple[Draws, float]] = [((), 1.0)]
    runs = 0
    while waiting:
        draws, chance = waiting.pop()
        runs += 1
        if runs > _LIMIT:
            raise ConfigurationError(
                f"more than {_LIMIT} runs would be needed: use a shorter stream, fewer keys, a "
                "larger epsilon or a larger tail."
            )
        try:
            found[_played(mechanism, stream, draws)] += chance
        except _EndOfDrawsError as end:
            waiting.extend(
                ((*draws, values), chance * each)
                for values, each in _likely(end.deviation, end.size, tail / chance)
            )
    return dict(found)


def _played(mechanism: Mechanism[Any], stream: IntArray, draws: Draws) -> object:
    """What everybody sees of a run with these draws."""
    run = mechanism.run(stream.shape[1], noise=_ChosenNoise(draws))
    out = [run.step(counts) for counts in stream]
    return tuple(tuple(array.tobytes() for array in _shown(each)) for each in out)


def _shown(released: Released) -> Iterator[NDArray[Any]]:
    """All arrays of a release."""
    yield released.value
    yield np.asarray(released.repeated)
    yield np.asarray(released.scale.parts)
    yield from released.public.values()


def _likely(deviation: float, size: int, least: float) -> Iterator[tuple[tuple[int, ...], float]]:
    """All rounded Gaussian vectors with at least this probability, and their probabilities."""
    if size == 0:
        yield (), 1.0
        return
    far = 0
    while (chance := rounded_gaussian(deviation, far)) >= least:
        for rest, other in _likely(deviation, size - 1, least / chance):
            for value in {far, -far}:
                yield (value, *rest), chance * other
        far += 1


@lru_cache(maxsize=65536)
def rounded_gaussian(deviation: float, value: int) -> float:
    """The probability that the whole number next to a Gaussian is `value`.

    >>> round(rounded_gaussian(1.0, 0), 6), rounded_gaussian(1.0, 3) == rounded_gaussian(1.0, -3)
    (0.382925, True)
    """
    near, far = ((abs(value) + side) / (deviation * math.sqrt(2)) for side in (-0.5, 0.5))
    return 0.5 * (math.erfc(near) - math.erfc(far))


class _EndOfDrawsError(Exception):
    """A run asks for one draw more than were chosen."""

    def __init__(self, deviation: float, size: int) -> None:
        super().__init__()
        self.deviation = deviation
        self.size = size


class _ChosenNoise:
    """Gaussian draws that were chosen beforehand, in order."""

    private = False

    def __init__(self, draws: Draws) -> None:
        self._left = list(reversed(draws))

    def gaussian(self, variance: Fraction, size: int, *, unit: int, label: str) -> IntArray:
        if not self._left:
            raise _EndOfDrawsError(math.sqrt(variance), size)
        return np.array(self._left.pop(), np.int64)

    def laplace(self, scale: Fraction, size: int, *, unit: int, label: str) -> IntArray:
        raise ConfigurationError("a privacy curve is computed for Gaussian noise only.")

    def laplace_each(
        self, scales: Sequence[Fraction], which: IntArray, *, unit: int, label: str
    ) -> IntArray:
        return self.laplace(scales[0], len(which), unit=unit, label=label)

    def thin(self, counts: IntArray, keep: Fraction, *, unit: int, label: str) -> IntArray:
        return self.laplace(keep, len(counts), unit=unit, label=label)

    def refresh(self) -> None:
        """Draws are chosen."""

    def erase(self) -> None:
        """Nothing is secret."""

    def memory(self) -> dict[str, Any]:
        return {}
