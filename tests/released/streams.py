"""Logs to ask questions of, and what a simple mind would answer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st

from penstock import (
    BudgetAbsorption,
    GroupedDistribution,
    Laplace,
    Mechanism,
    Sample,
    Uniform,
)
from penstock.core.error_bounds import laplace_variance
from penstock.private.mechanisms.bs import BackwardSmoothing
from penstock.private.mechanisms.pegasus import Pegasus
from penstock.private.mechanisms.rg import RetroactiveGrouping
from penstock.private.noise import Noise
from penstock.released.log import Log
from penstock.testing import NoNoise, TestNoise

MECHANISMS: dict[str, Mechanism] = {
    "laplace": Laplace(epsilon=1),
    "uniform": Uniform(epsilon=2, window=3),
    "sample": Sample(epsilon=1, window=4),
    "ba": BudgetAbsorption(epsilon=2, window=3),
    "bd_grouped": GroupedDistribution(epsilon=4, window=3, groups=2),
    "rg": RetroactiveGrouping(epsilon=1, watch="0.4"),
    "rg, small groups": RetroactiveGrouping(epsilon=1, watch="0.4", longest=3),
    "pegasus, median": Pegasus(epsilon=1),
    "pegasus, mean": Pegasus(epsilon=1, smoother="mean"),
    "pegasus, james_stein": Pegasus(epsilon=1, smoother="james_stein"),
    "bs": BackwardSmoothing(epsilon=1, over=3),
    "uniform, delta": Uniform(epsilon=2, window=3, delta="1e-6"),
    "bd_grouped, delta": GroupedDistribution(epsilon=4, window=3, groups=2, delta="1e-6"),
}
PLAIN = ("laplace", "uniform")

counts_of = st.lists(st.lists(st.integers(0, 40), min_size=3, max_size=3), min_size=1, max_size=24)


def logged(mechanism: Mechanism, counts: Sequence[Sequence[int]], noise: Noise, keys=None) -> Log:
    run = mechanism.run(len(counts[0]) if keys is None else keys, noise=noise)
    log = Log.of(run)
    for unit in counts:
        log.append(run.step(unit))
    return log


def quiet(mechanism: Mechanism, counts: Sequence[Sequence[int]], keys=None) -> Log:
    return logged(mechanism, counts, NoNoise(), keys)


def noisy(mechanism: Mechanism, counts: Sequence[Sequence[int]], seed: int = 1) -> Log:
    return logged(mechanism, counts, TestNoise(seed))


Draws = dict[tuple[int, int], float]
"""How much of each draw is in a number; a draw is named by the unit it was made in and a number."""


def standing(log: Log, key: int, unit: int, seen: int) -> tuple[float, Draws]:
    """What is known of a key's count in a unit when unit `seen` is the newest, from the
    definitions, unit by unit.
    """
    release = log[unit]
    public = release.public
    if "noisy" in public and "start" in public:
        start = public["start"][key]
        group = [u for u in range(log.first, seen + 1) if log[u].public["start"][key] == start]
        values = [int(log[u].public["noisy"][key]) for u in group]
        if release.kind == "median":
            return float(np.median(values)), {
                (u, 0): 1 / len(group) for u in group
            }  # the variance is a mean's, at most
        return sum(values) / len(values), {(u, 0): 1 / len(group) for u in group}
    if "noisy" in public:
        return float(public["noisy"][key]), {(unit, 0): 1.0}
    if "start" in public:
        for later in range(seen, unit - 1, -1):
            fresh = not np.broadcast_to(log[later].repeated, (log.domain.size,))[key]
            if fresh and log[later].public["start"][key] <= unit:
                return float(log[later].estimate[key]), {
                    (later, 0): 1 / int(log[later].divisor[key])
                }
    origin = unit
    while np.broadcast_to(log[origin].repeated, (log.domain.size,))[key] and origin > log.first:
        origin -= 1
    return float(release.estimate[key]), {
        (origin, 0): 1 / float(np.broadcast_to(release.divisor, (log.domain.size,))[key])
    }


def simple(log: Log, key: int, factors: dict[int, float], seen: int) -> tuple[float, float, int]:
    """The sum with these factors, the variance of its noise and how many draws are in it, by
    following every draw.
    """
    total, coefficients = 0.0, defaultdict(float)
    for unit, factor in factors.items():
        value, draws = standing(log, key, unit, seen)
        total += factor * value
        for draw, share in draws.items():
            coefficients[draw] += factor * share
    one = 0.0
    for (unit, _), coefficient in coefficients.items():
        scale = np.broadcast_to(log[unit].scale.floats(), (log.domain.size,))[key]
        each = scale**2 if log[unit].kind == "rounded" else float(laplace_variance(scale))
        one += coefficient**2 * each if np.isfinite(scale) else np.inf
    return total, one, sum(abs(c) > 1e-12 for c in coefficients.values())
