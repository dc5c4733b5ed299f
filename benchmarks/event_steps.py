"""Cost of one step of the event-level mechanisms, as a multiple of one NumPy Laplace draw.

    python benchmarks/event_steps.py [--json]

CPU time, medians, one run. PeGaSus is measured with groups of 10 and of 10,000 units, and its
memory on a long stream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

import numpy as np

import penstock as ps
from penstock.core.arrays import IntArray
from penstock.private.mechanisms.base import Mechanism
from penstock.private.run import Run

from report import Figure, cpu, main

WORLD_CUP, MANY, SOME = 88_762, 10_000, 1_000


def draw(keys: int, rounds: int = 200) -> float:
    """The yardstick: the median CPU seconds of one NumPy Laplace draw."""
    generator = np.random.default_rng(1)
    return median(cpu(lambda: generator.laplace(0.0, 10.0, keys)) for _ in range(rounds))


def steps(run: Run, counts: Callable[[int], IntArray], units: int) -> list[float]:
    """The CPU seconds of these steps."""
    seconds = []
    for unit in range(run.unit, run.unit + units):
        now = counts(unit)
        seconds.append(cpu(lambda now=now: run.step(now)))  # type: ignore[misc]
    return seconds


def busy(keys: int) -> Callable[[int], IntArray]:
    """Poisson counts: 16 units, repeated."""
    rows = np.random.default_rng(7).poisson(50, (16, keys))
    return lambda unit: rows[unit % 16]


def leaping(keys: int, every: int) -> Callable[[int], IntArray]:
    """Constant counts with a jump of all keys after each group of this length."""
    return lambda unit: np.full(keys, 1_000 * (1 + unit // every % 2), np.int64)


def retroactive() -> Iterator[Figure]:
    run = ps.RetroactiveGrouping(epsilon=1).run(WORLD_CUP)
    steps(run, busy(WORLD_CUP), 40)
    cost = median(steps(run, busy(WORLD_CUP), 120))
    yield Figure(f"rg step, d = {WORLD_CUP:,}", cost / draw(WORLD_CUP), "x numpy", 3.0)


def perturb_group_smooth() -> Iterator[Figure]:
    run = ps.Pegasus(epsilon=1).run(MANY)
    steps(run, busy(MANY), 60)
    yield Figure(
        f"pegasus step, d = {MANY:,}",
        median(steps(run, busy(MANY), 120)) / draw(MANY),
        "x numpy",
        20.0,
    )
    short, long = (ps.Pegasus(epsilon=1, theta=400).run(MANY) for _ in range(2))
    steps(short, leaping(MANY, 10), 40)
    few = median(steps(short, leaping(MANY, 10), 200))
    for _ in range(9_700):
        long.step(np.full(MANY, 1_000))
    many = median(steps(long, leaping(MANY, 20_000), 200))
    assert long.last is not None
    assert short.last is not None
    lengths = [
        float(np.median(last.unit - last.public["start"])) for last in (short.last, long.last)
    ]
    yield Figure("pegasus, median age of the short groups", lengths[0] + 1, "units")
    yield Figure(
        "pegasus, median age of the long groups", lengths[1] + 1, "units", 9_000.0, at_least=True
    )
    yield Figure("pegasus step, groups of 10,000 units / of 10", many / few, "ratio", 2.0)


def memory() -> Iterator[Figure]:
    """Snapshots of PeGaSus on a long stream."""
    run = ps.Pegasus(epsilon=1).run(SOME)
    sizes = []
    for _ in range(3):
        steps(run, busy(SOME), 4_000)
        sizes.append(len(run.snapshot()))
    yield Figure("pegasus snapshot per key after 4,000 units", sizes[0] / SOME, "bytes")
    yield Figure(
        "pegasus snapshot after 12,000 units / after 4,000", sizes[2] / sizes[0], "ratio", 1.1
    )


def others() -> Iterator[Figure]:
    week = 168
    mechanisms: list[Mechanism[Any]] = [
        ps.Laplace(epsilon=1),
        ps.BackwardSmoothing(epsilon=1),
        ps.WeightedHistogram(epsilon=1),
        ps.WindowTree(epsilon=1, span=week),
        ps.SignedBlocks(epsilon=1, span=week),
        ps.CorrelatedGaussian(epsilon=1, span=week),
        ps.HierarchicalPegasus(epsilon=1),
        ps.PrunedPegasus(epsilon=1),
    ]
    yardstick = draw(SOME)
    for mechanism in mechanisms:
        run = mechanism.run(SOME)
        steps(run, busy(SOME), 100)
        yield Figure(
            f"{mechanism.name} step, d = {SOME:,}",
            median(steps(run, busy(SOME), 300)) / yardstick,
            "x numpy",
        )


def figures() -> Iterator[Figure]:
    yield from retroactive()
    yield from perturb_group_smooth()
    yield from memory()
    yield from others()


if __name__ == "__main__":
    main(__doc__ or "", figures)
