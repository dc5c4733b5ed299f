"""The intruder: one look into the memory of a run, with the noise source's key if it lies there.

Whoever has the key computes the noise that was drawn under it. So the intruder runs the unit again
under that key, once with the counts of each stream, and compares all that was seen. A stream that
does not give it is excluded. A source that is forward secure leaves no key to find.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from penstock.core.arrays import FloatArray, IntArray
from penstock.core.released import Released
from penstock.lab.audit.model import Look
from penstock.lab.audit.noise import KeptKey, LabNoise, ReplayedNoise
from penstock.private.run import Run
from penstock.testing import NoNoise, intrude

COUNTER = "counter publish"
NOTHING = np.zeros(1, np.int64)
MAX_NUMBERS_SEEN, MAX_DEPTH = 16, 6
"""The most numbers of one array in memory that are compared, and how deep objects are searched."""

NO_KEY = (-1, -1)
"""What the noise tells about the left and the right stream if no key was seen."""


class Intruder:
    """A look that is about to be taken into a run, in its next unit.

    Parameters
    ----------
    run : Run
        The run, between two units.
    look : Look
        The look.
    noise : LabNoise
        The run's source of noise.
    """

    def __init__(self, run: Run, look: Look, noise: LabNoise | NoNoise) -> None:
        self._run = run
        self.counter: IntArray | None = None
        """The publication's counter, if there was one in the memory."""
        self.seen: dict[str, FloatArray] = {}
        """All numbers in the memory, by name."""
        self._look = look
        self._start: KeptKey | None = noise.memory().get("noise key")
        self._ledger, self._state, self._last = run._ledger.save(), run._state, run.last
        self._key: KeptKey | None = None
        self._counter: IntArray = NOTHING

    def look(self, restored: Run | None = None) -> None:
        """Look into the memory of the run, or of the run that was restored from it."""
        seen = intrude(self._run if restored is None else restored)
        self._key = seen.pop("noise key", None)
        self.counter = None if self._look.after else seen.get(COUNTER, NOTHING)
        self._counter = seen.get(COUNTER, NOTHING)
        self.seen = flat(seen)

    def explained(self, released: Released) -> tuple[int, int]:
        """Whether the left and the right stream give what was seen (1), or not (0)."""
        if self._key is None:
            return NO_KEY
        left, right = (
            self._gives(counts, released) for counts in (self._look.left, self._look.right)
        )
        return int(left), int(right)

    def _gives(self, counts: IntArray, released: Released) -> bool:
        run = self._again()
        if not self._look.after:
            run.feed(counts)
            return np.array_equal(intrude(run).get(COUNTER, NOTHING), self._counter)
        again = run.step(counts)
        return np.array_equal(again.value, released.value) and np.array_equal(
            again.repeated, released.repeated
        )

    def _again(self) -> Run:
        """The run before the unit of the look, with the noise that was drawn from then on."""
        assert self._key is not None
        start, key = self._start, self._key
        same = start is not None and (start.key, start.place) == (key.key, key.place)
        skipped = start.read if start is not None and same else 0
        run = self._run.mechanism.run(self._run.domain, noise=ReplayedNoise(key, skipped))
        run._ledger.load(self._ledger)
        run._state, run.last = self._state, self._last
        return run


def flat(memory: Mapping[str, Any]) -> dict[str, FloatArray]:
    """All numbers in a memory, by name: arrays, fields of objects, items of containers.

    Parameters
    ----------
    memory : mapping of str to object
        What was seen.

    >>> flat({"counter": np.array([3, 4]), "state": {"position": 2, "name": "x"}})
    {'counter': array([3., 4.]), 'state.position': array([2.])}
    """
    found: dict[str, FloatArray] = {}
    for name, held in memory.items():
        found.update(_numbers(name, held, MAX_DEPTH))
    return found


def _numbers(name: str, held: Any, depth: int) -> Iterator[tuple[str, FloatArray]]:
    if isinstance(held, np.ndarray):
        if held.dtype.kind in "biuf" and held.size:
            yield name, held.ravel()[:MAX_NUMBERS_SEEN].astype(np.float64)
    elif isinstance(held, (int, float, Fraction)):
        yield name, np.array([float(held)])
    elif depth:
        for key, value in _items(held):
            yield from _numbers(f"{name}.{key}", value, depth - 1)


def _items(held: Any) -> Iterator[tuple[object, Any]]:
    if isinstance(held, Mapping):
        yield from held.items()
    elif isinstance(held, (list, tuple)):
        yield from enumerate(held)
    elif dataclasses.is_dataclass(held):
        for each in dataclasses.fields(held):
            yield each.name, getattr(held, each.name)
