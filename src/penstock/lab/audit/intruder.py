"""The intruder: one look into the memory of a run, with the noise source's key if it lies there.

Whoever has the key computes the noise that was drawn under it. So the intruder runs the unit again
under that key, once with the counts of each stream, and compares all that was seen. A stream that
does not give it is excluded. A source that is forward secure leaves no key to find.
"""

from __future__ import annotations

import numpy as np

from penstock.core.arrays import IntArray
from penstock.core.released import Released
from penstock.lab.audit.model import Look
from penstock.lab.audit.noise import KeptKey, LabNoise, ReplayedNoise
from penstock.private.run import Run
from penstock.testing import intrude

COUNTER = "counter publish"
NOTHING = np.zeros(1, np.int64)
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

    def __init__(self, run: Run, look: Look, noise: LabNoise) -> None:
        self._run = run
        self._look = look
        self._start: KeptKey | None = noise.memory().get("noise key")
        self._ledger, self._state, self._last = run._ledger.save(), run._state, run.last
        self._key: KeptKey | None = None
        self._counter: IntArray = NOTHING

    def look(self) -> IntArray:
        """Look into the memory. The publication's counter is given, 0 if there is none."""
        seen = intrude(self._run)
        self._key = seen.get("noise key")
        self._counter = seen.get(COUNTER, NOTHING)
        return self._counter

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
