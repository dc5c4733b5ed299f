"""Cost of one step of the w-event and user-level mechanisms, as a multiple of one NumPy draw.

    python benchmarks/steps.py [--json]

The yardstick is a NumPy Laplace draw of the same size. A stream with jumps makes a mechanism
publish, a constant one makes it repeat; the two kinds of steps are reported apart. Tables are warm:
each mechanism has used its budgets before. CPU time, medians and means, one run.

With few keys, a step costs calls of Python and no arithmetic. There the yardstick is a draw after
each step of the same kind, which finds the processor's caches as the step does. What it costs to
read the clock is taken off both.
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
LIMITS["tide", "publish"] = 8.0
FIXED_LIMITS = dict.fromkeys(("uniform", "sample", "bd", "ba", "tide"), 25.0)
FIXED_LIMITS |= dict.fromkeys(("bd_grouped", "ba_grouped"), 40.0)
FIXED_LIMITS |= dict.fromkeys(("bd_pan", "ba_pan"), 45.0)


@dataclass
class Costs:
    """CPU seconds of steps that published and of steps that repeated the last release."""

    publish: list[float] = field(default_factory=list)
    skip: list[float] = field(default_factory=list)

    def add(self, released: Released, seconds: float) -> None:
        """Count what belongs to the step of this release."""
        (self.skip if np.all(released.repeated) else self.publish).append(seconds)

    def kinds(self) -> Iterator[tuple[str, list[float]]]:
        yield from (
            (kind, costs)
            for kind, costs in (("publish", self.publish), ("skip", self.skip))
            if len(costs) >= 5
        )


def measure(name: str, keys: int, units: int, draws: Costs | None = None) -> Costs:
    """Step through jumps and constant stretches, after a warm-up of twice as many units.

    With `draws`, a NumPy draw follows each step, and its cost goes there.
    """
    run: Run = MECHANISMS[name](epsilon=1, window=WINDOW).run(keys)
    rng = np.random.default_rng(7)
    high: IntArray = rng.integers(10**6, 2 * 10**6, keys)
    low = np.zeros(keys, np.int64)
    costs, released, generator = Costs(), list[Released](), np.random.default_rng(1)
    for unit in range(3 * units):
        counts = (high, low)[unit % 2] if unit // 30 % 2 == 0 else low
        seconds = cpu(lambda counts=counts: released.append(run.step(counts)))  # type: ignore[misc]
        drawn = 0.0 if draws is None else cpu(lambda: generator.laplace(0.0, 10.0, keys))
        if unit >= 2 * units:
            costs.add(released[-1], seconds)
            if draws is not None:
                draws.add(released[-1], drawn)
        released.clear()
    return costs


def fixed_costs(name: str) -> Iterator[tuple[str, float, float]]:
    """For each kind of step with few keys: its CPU seconds, and as a multiple of a draw."""
    draws = Costs()
    costs = measure(name, TINY, 600, draws)
    clock = median(cpu(lambda: None) for _ in range(1000))
    yardsticks = dict(draws.kinds())
    for kind, seconds in costs.kinds():
        step = median(seconds) - clock
        yield kind, step, step / (median(yardsticks[kind]) - clock)


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
        for kind, seconds, multiple in fixed_costs(name):
            title = f"{name} {kind}, fixed cost at d = {TINY}"
            yield Figure(f"{title}, CPU time", seconds * 1e6, "µs")
            yield Figure(title, multiple, "x numpy", FIXED_LIMITS.get(name))


if __name__ == "__main__":
    main(__doc__ or "", figures)
