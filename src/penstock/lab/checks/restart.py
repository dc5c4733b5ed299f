"""Checks of state: a restart changes nothing, and memory is bounded."""

from __future__ import annotations

import gc
import itertools
import sys
import tracemalloc
from typing import Any

import numpy as np

from penstock.lab.checks.base import AnyMechanism, failure
from penstock.lab.checks.streams import LEAP, facts, feed_part, restless
from penstock.private.run import Run
from penstock.testing import NoNoise, TestNoise


def check_a_restart_changes_nothing(cls: AnyMechanism, *, quick: bool = False) -> None:
    """A restart changes nothing.

    The noise is repeatable. A run is saved after every unit and restored by a new instance of the
    mechanism. It must release the same values and flags, write the same ledger lines, cost the same
    and end with the same snapshot, byte for byte.
    """
    seed, units = 23, 8 if quick else 24
    stream = restless(5, units, seed=4)

    def step(run: Run) -> tuple[Any, ...]:
        counts = stream[run.unit]
        feed_part(run, counts)
        released = run.step(counts)
        if released.value.flags.writeable:
            raise failure(cls, f"{run.mechanism}: the array of unit {run.unit} can be written to.")
        return facts(released), run.cost

    mechanism = cls(epsilon="1", window=3)
    first = mechanism.run(5, noise=TestNoise(seed), record=True)
    snapshots, expected = [first.snapshot()], []
    for _ in range(units):
        expected.append(step(first))
        snapshots.append(first.snapshot())
    for unit in range(units + 1):
        run = cls(epsilon="1", window=3).restore(
            snapshots[unit], 5, noise=TestNoise(seed), record=True
        )
        where = f"{mechanism} with TestNoise({seed}), restored after unit {unit}"
        for later in range(unit, units):
            if step(run) != expected[later]:
                raise failure(
                    cls,
                    f"{where}: unit {later + 1} is another release, or its cost is another one.",
                )
        if run.ledger != first.ledger:
            raise failure(cls, f"{where}: the ledger has other lines.")
        if run.snapshot() != snapshots[-1]:
            raise failure(cls, f"{where}: the last snapshot differs.")


def check_memory_does_not_grow(cls: AnyMechanism, *, quick: bool = False) -> None:
    """Memory does not grow with the length of the stream.

    A stream of 20,000 units over 3 keys (quick: 1,500). The snapshot at the end may not be larger
    than after the first 2,000 units (quick: 500). The memory in use may not grow in every quarter
    of the time between. It is measured in bytes by `tracemalloc`, which makes a step three times
    slower; the quick form counts the interpreter's memory blocks instead.
    """
    warm, end = (500, 1_500) if quick else (2_000, 20_000)
    sizes, used = _measure(cls, warm, end, traced=not quick)
    # A few counters may need another byte; fewer of them in the quick form.
    if sizes[end] > sizes[warm] + (16 if quick else 64):
        raise failure(
            cls,
            f"the snapshot grew from {sizes[warm]} bytes at unit {warm} "
            f"to {sizes[end]} bytes at unit {end}.",
        )
    # A cache that fills, or a table that is resized, grows once. A leak grows in every quarter, by
    # at least one block or pointer per unit; the limit is half of that.
    quarter = (end - warm) // 4
    grown = min(after - before for before, after in itertools.pairwise(used))
    if grown > quarter // 2 * (1 if quick else 8):
        what = "blocks" if quick else "bytes"
        raise failure(cls, f"memory in use grew by {grown} {what} or more in each {quarter} units.")


def _measure(
    cls: AnyMechanism, warm: int, end: int, *, traced: bool
) -> tuple[dict[int, int], list[int]]:
    """The size of the largest snapshot near `warm` and near `end`; memory at five points."""
    run = cls(epsilon="1", window=8).run(3, noise=NoNoise())
    period = 64
    moves = np.random.default_rng(2).random((period, 3)) < 0.3
    counts = np.zeros(3, np.int64)
    sizes: dict[int, int] = {warm: 0, end: 0}
    marks = range(warm, end + 1, (end - warm) // 4)
    used: list[int] = []
    start = traced and not tracemalloc.is_tracing()
    try:
        for unit in range(1, end + 1):
            counts = np.where(moves[unit % period], LEAP - counts, counts)
            run.step(counts)
            if start and unit == warm - 2 * period:
                tracemalloc.start(1)
            for mark in sizes:
                if mark - period < unit <= mark:
                    sizes[mark] = max(sizes[mark], len(run.snapshot()))
            if unit in marks:
                gc.collect()
                memory = tracemalloc.get_traced_memory()[0] if traced else sys.getallocatedblocks()
                used.append(memory)
    finally:
        if start:
            tracemalloc.stop()
    return sizes, used
