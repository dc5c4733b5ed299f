"""Freed memory: after a unit of a pan-private run, nothing of its counts is left in the process.

Counts are searched for as aligned int64. They lie 10^9 apart and noise has a scale of 10^6 or more,
so a release equals some count with probability below 1e-3 for all tests together.
"""

from __future__ import annotations

import hashlib
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.core.arrays import IntArray
from penstock.private.noise import SystemNoise
from penstock.testing import RecordingNoise

from tests.private.memory import HAS_PROC, looked_into

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not HAS_PROC, reason="the memory of a process is read from /proc"),
]

KEYS = 700
"""More than 512, so that large draws are searched for too."""

MAKE_COUNTS = f"""
import numpy as np

def counts_of(stream, unit):
    "Counts that nothing else in a process has, in one array."
    start, step = 2**40 * (unit % 2 + 1) + 9_777_777 * stream + 101_101 * unit, 1_000_000_007
    return np.arange(start, start + {KEYS} * step, step, np.int64)
"""
_made: dict[str, Any] = {}
exec(MAKE_COUNTS, _made)
counts_of = _made["counts_of"]

UNITS = 4
STEP = f"""{MAKE_COUNTS}
import penstock as ps

# Releases go into a file: new arrays on the heap would hide what was freed there.
shown = np.memmap({{path!r}}, np.int64, "w+", shape=({{streams}}, {UNITS}, {KEYS}))

def steps(stream, run):
    for unit in range(1, {UNITS} + 1):
        counts = counts_of(stream, unit)
        shown[stream, unit - 1] = run.step(counts).value
        counts.fill(0)
"""


def read(path: Path) -> IntArray:
    """The releases that another process wrote, by stream, unit and key."""
    return np.fromfile(path, np.int64).reshape(-1, UNITS, KEYS)


def distances(stream: int, shown: IntArray) -> IntArray:
    """|c − o| for each unit and key, and their sums for each unit."""
    found: list[IntArray] = []
    last = np.zeros(KEYS, np.int64)
    for unit, value in enumerate(shown, start=1):
        distance = np.abs(counts_of(stream, unit) - last)
        found += [distance, distance.sum(keepdims=True)]
        last = value
    return np.concatenate(found)


def test_neither_counts_nor_distances_are_left_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "shown"
    script = f"""{STEP.format(path=str(path), streams=6)}
from itertools import product
kinds = product([ps.PanDistribution, ps.PanAbsorption], ["between", "within", "announced"])
for stream, (cls, intrusion) in enumerate(kinds):
    steps(stream, cls(epsilon="1e-6", window=4, intrusion=intrusion, buckets=5).run({KEYS}))
wait(None)
"""
    buckets = np.arange(KEYS) % 5
    with looked_into(script) as look:
        wanted: list[IntArray] = []
        for stream, shown in enumerate(read(path)):
            assert shown.any()
            counts = [counts_of(stream, unit) for unit in range(1, UNITS + 1)]
            sums = [each[buckets == bucket].sum() for each, bucket in product(counts, range(5))]
            wanted += [*counts, np.array(sums), distances(stream, shown)]
        assert not look.numbers_among(np.concatenate(wanted))


def test_the_search_finds_distances_that_a_run_does_not_overwrite(tmp_path: Path) -> None:
    path = tmp_path / "shown"
    script = f"""{STEP.format(path=str(path), streams=1)}
run = ps.PanDistribution(epsilon="1e-6", window=4, intrusion="between").run({KEYS})
run._overwrite = run._gate.erase
steps(0, run)
wait(None)
"""
    with looked_into(script) as look:
        assert look.numbers_among(distances(0, read(path)[0]))


def test_a_part_of_a_unit_and_a_unit_that_fails_leave_no_counts_either() -> None:
    script = f"""{MAKE_COUNTS}
import penstock as ps

for stream, intrusion in enumerate(["within", "announced"]):
    run = ps.PanDistribution(epsilon="1e-6", window=4, intrusion=intrusion).run({KEYS})
    part = counts_of(stream, 1)
    run.feed(part)
    part.fill(0)

def fail(*_):
    raise KeyboardInterrupt

run = ps.PanDistribution(epsilon="1e-6", window=4, intrusion="between").run({KEYS})
run._look_over = fail
counts = counts_of(2, 1)
try:
    run.step(counts)
except KeyboardInterrupt:
    pass
counts.fill(0)
wait(None)
"""
    with looked_into(script) as look:
        counts = [counts_of(stream, 1) for stream in range(3)]
        assert not look.numbers_among(np.concatenate([*counts, np.sum(counts, axis=1)]))


class Known(RecordingNoise):
    """`SystemNoise` on known bits, and the noise of counters that it gave."""

    def __init__(self) -> None:
        source = SystemNoise()
        source._bits._system, source._bits._clock = self._give, lambda: 0
        super().__init__(source)
        self.asked = 0
        self.counters: list[int] = []

    def _give(self, count: int) -> bytes:
        self.asked += 1
        return hashlib.shake_256(str(self.asked).encode()).digest(count)

    def laplace(self, *about: Any, label: str, **how: Any) -> IntArray:
        values = super().laplace(*about, label=label, **how)
        if label == "publish.state":
            self.counters += values.tolist()
        return values


def test_the_noise_of_a_counter_that_was_forgotten_is_not_left_in_memory() -> None:
    """The other process draws from known bits, so that its noise is known here too."""
    script = """
import hashlib
import numpy as np
import penstock as ps
from penstock.private.noise import bits

asked = 0
def urandom(count):
    global asked
    asked += 1
    return hashlib.shake_256(str(asked).encode()).digest(count)
bits.os.urandom, bits._moved = urandom, lambda place, by: place
repeated = []
for keys in (300, 3000):
    run = ps.PanDistribution(epsilon="1e-9", window=4, intrusion="between").run(keys)
    repeated.append(bool(run.step(np.zeros(keys, np.int64)).repeated))
wait(repeated)
"""
    noise = Known()
    for keys in (300, 3000):
        run = ps.PanDistribution(epsilon="1e-9", window=4, intrusion="between").run(
            keys, noise=noise
        )
        assert run.step(np.zeros(keys, np.int64)).repeated
    drawn = np.array([value for value in noise.counters if abs(value) > 2**33])
    assert len(drawn) > 500
    with looked_into(script) as look:
        assert look.facts == [True, True]
        assert not look.numbers_among(drawn)
