"""Cost of one step of the w-event and user-level mechanisms, as a multiple of one NumPy draw.

    python benchmarks/steps.py [--json]

The yardstick is a NumPy Laplace draw of the same size. A stream with jumps makes a mechanism
publish, a constant one makes it repeat; the two kinds of steps are reported apart. Tables are warm:
each mechanism has used its budgets before. CPU time, medians and means, one run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from statistics import fmean, median

import numpy as np

from penstock.core.arrays import IntArray
from penstock.core.released import Released
from penstock.private.mechanisms.registry import MECHANISMS
from penstock.private.run import Run

from report import Figure, cpu, main

WINDOW = 20
LARGE, SMALL, TINY = 100_000, 10_000, 10
LIMITS = {
    ("uniform", "publish"): 1.0,
    ("ba", "publish"): 1.5,
    ("ba", "skip"): 1.0,
    ("bd", "publish"): 3.0,
    ("bd_grouped", "publish"): 6.0,
    ("ba_grouped", "publish"): 6.0,
}
SAMPLING = ("fixed", "dsft", "dsat", "fast", "fast_w")
LIMITS |= {(name, "publish"): 3.0 for name in SAMPLING} | {(name, "skip"): 2.0 for name in SAMPLING}
FIXED_LIMIT = 100.0


@dataclass
class Costs:
    """CPU seconds of steps that published and of steps that repeated the last release."""

    publish: list[float] = field(default_factory=list)
    skip: list[float] = field(default_factory=list)

    def kinds(self) -> Iterator[tuple[str, list[float]]]:
        yield from (
            (kind, costs)
            for kind, costs in (("publish", self.publish), ("skip", self.skip))
            if len(costs) >= 5
        )


def measure(name: str, keys: int, units: int) -> Costs:
    """Step through jumps and constant stretches, after a warm-up of twice as many units."""
    run: Run = MECHANISMS[name](epsilon=1, window=WINDOW).run(keys)
    rng = np.random.default_rng(7)
    high: IntArray = rng.integers(10**6, 2 * 10**6, keys)
    low = np.zeros(keys, np.int64)
    costs, released = Costs(), list[Released]()
    for unit in range(3 * units):
        counts = (high, low)[unit % 2] if unit // 30 % 2 == 0 else low
        seconds = cpu(lambda counts=counts: released.append(run.step(counts)))  # type: ignore[misc]
        if unit >= 2 * units:
            (costs.skip if np.all(released[-1].repeated) else costs.publish).append(seconds)
        released.clear()
    return costs


def draw(keys: int, rounds: int = 400) -> float:
    """The yardstick: the median CPU seconds of one NumPy Laplace draw."""
    generator = np.random.default_rng(1)
    return median(cpu(lambda: generator.laplace(0.0, 10.0, keys)) for _ in range(rounds))


def figures() -> Iterator[Figure]:
    for name in (name for name, cls in MECHANISMS.items() if cls.family != "event"):
        yardstick = draw(LARGE)
        large, small = measure(name, LARGE, 240), measure(name, SMALL, 240)
        yardstick = median([yardstick, draw(LARGE)])
        small_by_kind = dict(small.kinds())
        for kind, costs in large.kinds():
            limit = LIMITS.get((name, kind))
            for statistic, value in (("median", median(costs)), ("mean", fmean(costs))):
                yield Figure(
                    f"{name} {kind}, d = {LARGE:,}, {statistic}",
                    value / yardstick,
                    "x numpy",
                    limit,
                )
            if kind in small_by_kind:
                growth = (median(costs) / LARGE) / (median(small_by_kind[kind]) / SMALL)
                yield Figure(
                    f"{name} {kind}, cost per key at {LARGE:,} / at {SMALL:,}", growth, "ratio", 1.0
                )
        for kind, costs in measure(name, TINY, 600).kinds():
            limit = None if name in SAMPLING else FIXED_LIMIT
            yield Figure(
                f"{name} {kind}, fixed cost at d = {TINY}", median(costs) * 1e6, "µs", limit
            )


if __name__ == "__main__":
    main(__doc__ or "", figures)
