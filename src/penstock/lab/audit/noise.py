"""The sources of noise of audits: repeatable, and open to a look into the memory."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from penstock.core.arrays import IntArray
from penstock.private.noise.bits import Bits, KeyedBits, SystemBits
from penstock.private.noise.gaussian import gaussian
from penstock.private.noise.laplace import laplace
from penstock.private.noise.thinning import thin

ZERO = bytes(16)
"""The place where the stream of a key starts."""


@dataclass(frozen=True)
class KeptKey:
    """A key of the noise in a run's memory, the place where its stream started, and how many bytes
    were read from there.
    """

    key: bytes
    place: bytes
    read: int


class LabNoise:
    """The exact sampler on one stream of bits that follows from a seed: fast and repeatable.

    Unlike with `TestNoise`, every draw continues the stream of bits, so no two runs share draws.
    """

    private = False

    def __init__(self, *seed: object) -> None:
        self._key = hashlib.sha256(repr(("penstock audit", *seed)).encode()).digest()
        self._seeded = KeyedBits(self._key)
        self._bits: Bits = self._seeded

    def laplace(self, scale: Fraction, size: int, *, unit: int, label: str) -> IntArray:
        return laplace(scale, size, self._bits)

    def laplace_each(
        self, scales: Sequence[Fraction], which: IntArray, *, unit: int, label: str
    ) -> IntArray:
        values = np.empty(len(which), np.int64)
        for index, scale in enumerate(scales):
            chosen = which == index
            values[chosen] = laplace(scale, int(np.count_nonzero(chosen)), self._bits)
        return values

    def thin(self, counts: IntArray, keep: Fraction, *, unit: int, label: str) -> IntArray:
        return thin(counts, keep, self._bits)

    def gaussian(self, variance: Fraction, size: int, *, unit: int, label: str) -> IntArray:
        return gaussian(variance, size, self._bits)

    def refresh(self) -> None:
        """An audit must repeat."""

    def erase(self) -> None:
        """The one key is kept: whoever sees it can compute every draw."""

    def memory(self) -> dict[str, Any]:
        return {"noise key": KeptKey(self._key, ZERO, self._seeded.read)}


class ErasingLabNoise(LabNoise):
    """The shipped `SystemBits`, with keys that follow from a seed: for looks into the memory."""

    def __init__(self, *seed: object) -> None:
        super().__init__(*seed)
        self._place = ZERO
        self._bits = self._erased = SystemBits(system=self._give, clock=lambda: 0, few=0)

    def _give(self, count: int) -> bytes:
        made = self._seeded.bytes(count)
        if count == len(self._key):
            self._key = made.tobytes()
        else:
            self._place = made.tobytes()
        return made.tobytes()  # another object, because `SystemBits` overwrites what it is given

    def refresh(self) -> None:
        self._erased.refresh()

    def erase(self) -> None:
        self._erased.erase()

    def memory(self) -> dict[str, Any]:
        held = self._erased.stream
        return {} if held is None else {"noise key": KeptKey(self._key, self._place, held.read)}


class ReplayedNoise(LabNoise):
    """All draws under a key that was seen, after the first `skipped` bytes."""

    def __init__(self, kept: KeptKey, skipped: int) -> None:
        super().__init__()
        self._seeded = KeyedBits(kept.key, kept.place)
        self._seeded.bytes(skipped)
        self._bits = self._seeded
