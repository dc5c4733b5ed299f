"""`fast_w` with one schedule per key."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from penstock.core.arrays import FloatArray, IntArray
from penstock.core.domain import Domain
from penstock.core.exact import exact
from penstock.core.private import Private
from penstock.core.released import Released
from penstock.lab.audit.flawed.variant import FAR, Unchecked, Variant
from penstock.lab.audit.model import Pair
from penstock.private.gate import Gate
from penstock.private.histograms.base import PUBLISH
from penstock.private.mechanisms.fast import FilteredBlocks


@dataclass(frozen=True)
class Followed:
    """Per key: the estimate, its variance, the last errors, and the times of samples."""

    level: FloatArray
    uncertainty: FloatArray
    errors: FloatArray
    interval: FloatArray
    due: IntArray
    since: IntArray
    made: IntArray


@dataclass(frozen=True, kw_only=True)
class SchedulePerKey(Unchecked, FilteredBlocks):
    r"""`fast_w` with a filter, a controller and a schedule per key, as published for one stream.

    A block has :math:`M` samples of each key, of :math:`\varepsilon/2M` each, so a person who
    stays in one key loses :math:`\varepsilon`. A person who moves to the key that is sampled loses
    :math:`\varepsilon/2M` in every unit, :math:`w\varepsilon/2M` in all. With the 8 units, 2
    samples and 7 keys below this is 2 ε.
    """

    name = "fast_per_key"
    State = Followed  # type: ignore[assignment]
    by_key = True

    def start(self, domain: Domain) -> Followed:  # type: ignore[override]
        nothing, none = np.zeros(domain.size), np.zeros(domain.size, np.int64)
        return Followed(
            nothing,
            nothing,
            np.full((self.over, domain.size), np.nan),
            nothing + 1,
            none + 1,
            none,
            none,
        )

    def step(self, state: Followed, unit: Private, gate: Gate) -> tuple[Followed, Released]:  # type: ignore[override]
        now = gate.unit
        made = np.where((state.since - 1) // self.window == self.block(now), state.made, 0)
        where = (now >= state.due) & (made < self.most)
        noisy = gate.laplace(unit, epsilon=self.each, label=PUBLISH, where=where)
        after = self._after(state, noisy, now)
        kept = (
            np.where(where, new, old)
            for new, old in (
                (after.level, state.level),
                (after.uncertainty, state.uncertainty),
                (after.errors, state.errors),
                (after.interval, state.interval),
                (after.due, state.due),
                (after.since, state.since),
                (made + 1, made),
            )
        )
        state = Followed(*kept)
        return state, replace(
            noisy, value=np.rint(state.level).astype(np.int64), public={"noisy": noisy.value}
        )

    def _after(self, state: Followed, noisy: Released, now: int) -> Followed:
        """The state after a sample of every key."""
        first = state.since == 0
        noise = 2 * float(noisy.scale) ** 2
        predicted = state.uncertainty + float(exact(self.process)) * (now - state.since)
        gain = np.where(first, 1.0, predicted / (predicted + noise))
        level = state.level + gain * (noisy.value - state.level)
        error = np.abs(level - state.level) / np.maximum(level, 1.0)
        errors = np.where(first, state.errors, np.vstack([state.errors[1:], error]))
        mean = np.nansum(errors, axis=0) / np.maximum(np.sum(~np.isnan(errors), axis=0), 1)
        target = float(exact(self.set_point))
        signal = float(exact(self.proportional)) * error + float(exact(self.integral)) * mean
        change = -float(exact(self.theta)) * np.expm1(np.minimum((signal - target) / target, 50.0))
        interval = np.where(first, 1.0, np.clip(state.interval + change, 1.0, self.window))
        due = now + np.rint(interval).astype(np.int64)
        since = np.full(len(due), now)
        return Followed(
            level,
            np.where(first, noise, (1 - gain) * predicted),
            errors,
            interval,
            due,
            since,
            state.made,
        )


def _staggered(window: int) -> Pair:
    """One key per unit of the second block, except its first unit.

    Key k is sampled k units after the first unit of the second block. In the first block all keys
    stand still and are sampled twice, so the interval is 1 + 5(1 − 1/e). The jump in the first unit
    of the second block sets the interval to k. The person moves to the key that is sampled.
    """
    keys = window - 1
    base = np.full((2 * window, keys), FAR, np.int64)
    rested = 1 + 5 * (1 - math.exp(-1))
    person = np.zeros_like(base)
    person[window, 0] = 1
    for key in range(keys):
        wanted = min(key + 1 - rested, 5 * (1 - math.exp(-1)))
        error = 0.1 * (1 + math.log(1 - wanted / 5)) / 0.95
        base[window:, key] = round(FAR / (1 - error))
        person[window + 1 + key, key] = 1
    return Pair("every key is sampled in its turn, and the person is there", base + person, base)


_TWO = Fraction(2)

FAST_FLAWS: tuple[Variant, ...] = (
    Variant(
        "fast_per_key",
        lambda: SchedulePerKey(
            epsilon=_TWO, window=8, sampled="1/4", process=10**4
        ),  # so that the filter believes a jump
        _TWO,
        8,
        (_staggered(8),),
        parent=lambda: FilteredBlocks(epsilon=_TWO, window=8, sampled="1/4", process=10**4),
        runs=100_000,
    ),
)
