"""The noise of a transcript: how large it is, and to which side it leans, call by call."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final

import numpy as np

from penstock.core.arrays import FloatArray, IntArray

MODES: Final = ("random", "zero", "with", "against", "far with", "far against", "far", "key")
"""How the noise of a call is chosen. `with` leans to the side to which the person moves the counts
of the unit, `against` to the other side. `far` is larger than any noise that is ever drawn, so that
it decides every question; by itself it goes to a random side in every number. `key` leans to random
sides, each near."""

FAR_SCALES: Final = 60
"""How many scales `far` noise is away."""


@dataclass(frozen=True)
class NoiseCall:
    """One call of the noise source. Both runs must make the same calls in the same order.

    Parameters
    ----------
    kind : str
        "laplace", "gaussian" or "thin".
    unit : int
        The unit.
    label : str
        The label.
    laws : tuple of Fraction
        The scales, the variance, or the probability to keep an event.
    which : tuple of int
        Per number, the place of its law; empty if there is one law.
    size : int
        The number of numbers.

    >>> NoiseCall("laplace", 1, "publish", (Fraction(2),), (), 3).scales.tolist()
    [2.0, 2.0, 2.0]
    """

    kind: str
    unit: int
    label: str
    laws: tuple[Fraction, ...]
    which: tuple[int, ...]
    size: int

    @property
    def scales(self) -> FloatArray:
        """The scale of each number, as floats; for Gaussian noise its standard deviation."""
        if not self.size:
            return np.zeros(0)
        laws = np.array([float(law) for law in self.laws])
        if self.kind == "gaussian":
            laws = np.sqrt(laws)
        return laws[list(self.which)] if self.which else np.full(self.size, laws[0])

    def scale_of(self, place: int) -> Fraction:
        """The exact law of one number."""
        return self.laws[self.which[place] if self.which else 0]


@dataclass(frozen=True)
class NoiseChoice:
    """How the noise of a transcript is chosen.

    Parameters
    ----------
    seed : int
        The seed. The same choice gives the same noise.
    mode : str
        The mode of all calls that `genes` does not name. Default: "with".
    width : float
        The size of near noise, in scales. Default: 0.5.
    signs : tuple of int
        Per unit, the side to which the person moves the counts: 1 or -1. Default: 1.
    genes : mapping of (int, str) to str
        The mode of single calls by unit and label; unit 0 stands for all units. Default: none.

    >>> call = NoiseCall("laplace", 1, "publish", (Fraction(2),), (), 2)
    >>> NoiseChoice(seed=1, mode="far with", signs=(-1,)).noise(call).tolist()
    [-120, -120]
    """

    seed: int
    mode: str = "with"
    width: float = 0.5
    signs: tuple[int, ...] = ()
    genes: Mapping[tuple[int, str], str] = field(default_factory=dict)

    def noise(self, call: NoiseCall) -> IntArray:
        """The noise of a call."""
        mode = self.genes.get((call.unit, call.label), self.genes.get((0, call.label), self.mode))
        if mode == "zero":
            return np.zeros(call.size, np.int64)
        scales = call.scales
        side: Any = self.signs[call.unit - 1] if 0 < call.unit <= len(self.signs) else 1
        if mode.endswith("against"):
            side = -side
        if mode in ("far with", "far against"):
            return np.asarray(side * np.ceil(scales * FAR_SCALES)).astype(np.int64)
        rng = self._random(call)
        size = np.ceil(np.abs(rng.laplace(0.0, self.width, call.size)) * scales)
        if mode in ("far", "key", "random"):
            side = rng.choice((-1, 1), call.size)
        if mode == "far":
            size = np.ceil(scales * FAR_SCALES)
        elif mode == "random":
            size = np.floor(size / max(self.width, 1e-9))
        return np.asarray(side * size).astype(np.int64)

    def sample(self, call: NoiseCall, counts: IntArray) -> IntArray:
        """The number of events of each count that are in a sample."""
        keep = min(max(float(call.laws[0]), 0.0), 1.0)
        mode = self.genes.get((call.unit, call.label), "random")
        if mode in ("with", "far with"):
            return counts.copy()
        if mode in ("against", "far against", "zero"):
            return np.zeros_like(counts)
        return self._random(call).binomial(counts, keep).astype(np.int64)

    def _random(self, call: NoiseCall) -> np.random.Generator:
        facts = repr((self.seed, call.kind, call.unit, call.label)).encode()
        return np.random.default_rng(int.from_bytes(hashlib.sha256(facts).digest()[:8], "big"))


def exact_sum(call: NoiseCall, numbers: IntArray) -> Fraction:
    """The sum of whole numbers, each divided by its scale.

    >>> call = NoiseCall("laplace", 1, "publish", (Fraction(2), Fraction(3)), (0, 1, 1), 3)
    >>> exact_sum(call, np.array([1, 1, 2]))
    Fraction(3, 2)
    """
    if not call.which:
        return int(numbers.sum()) / call.laws[0] if call.size else Fraction(0)
    sums = np.zeros(len(call.laws), np.int64)
    np.add.at(sums, list(call.which), numbers)
    return sum((int(each) / law for each, law in zip(sums, call.laws, strict=True)), Fraction(0))
