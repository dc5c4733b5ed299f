"""Streams on which mechanisms are checked, and releases as values to compare."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from penstock.core.arrays import BoolArray, IntArray
from penstock.core.errors import ConfigurationError
from penstock.core.released import Released
from penstock.lab.checks.base import AnyMechanism, hypothesis_module
from penstock.private.gate import count_limit
from penstock.private.mechanisms.base import Incremental
from penstock.private.run import Run
from penstock.testing import NoNoise, TestNoise

LEAP = 2**40
"""A count that exceeds any noise, so that a mechanism that publishes by distance does publish."""


@dataclass(frozen=True)
class Script:
    """A configuration and a stream that reacts to the releases.

    In each unit some keys jump far from the last release, and the others stay at it. `leaps` has
    one bit mask of jumping keys per unit. With a `seed` there is noise and jumps are small.
    """

    epsilon: Fraction
    window: int
    contribution: int
    size: int
    leaps: tuple[int, ...]
    seed: int | None

    def start(self, cls: AnyMechanism, keys: list[str] | None = None) -> Run:
        """Start a run. A configuration that the mechanism refuses does not count as an example."""
        noise = NoNoise() if self.seed is None else TestNoise(self.seed)
        try:
            mechanism = cls(
                epsilon=self.epsilon, window=self.window, contribution=self.contribution
            )
            return mechanism.run(self.size if keys is None else keys, noise=noise, record=True)
        except ConfigurationError:
            hypothesis_module().reject()
            raise

    def stream(self, run: Run) -> Iterator[IntArray]:
        """Yield the counts of each unit, given what the run has released so far."""
        bits = 1 << np.arange(self.size)
        far = LEAP if self.seed is None else 40
        counts = np.zeros(self.size, np.int64)
        for leap in self.leaps:
            # A release over another domain has no number per key to stay at.
            if run.last is not None and run.released is run.domain:
                counts = np.maximum(run.last.value, 0)
            jumps: BoolArray = (leap & bits) > 0
            counts = np.where(
                jumps,
                np.where(counts > far // 2, 0, far),
                np.minimum(counts, count_limit(self.size)),
            )
            yield counts


def scripts(*, noisy: bool = True) -> Any:
    """A Hypothesis strategy for scripts."""
    st = hypothesis_module().strategies

    def of_size(size: int) -> Any:
        everything = 2**size - 1
        leap = st.one_of(st.sampled_from([0, everything]), st.integers(0, everything))
        return st.builds(
            Script,
            epsilon=st.sampled_from(
                [Fraction(1), Fraction(1, 10), Fraction(3), Fraction(1, 3), Fraction(1, 1000)]
            ),
            window=st.integers(1, 6),
            contribution=st.integers(1, 3),
            size=st.just(size),
            leaps=st.lists(leap, min_size=1, max_size=26).map(tuple),
            seed=st.none() | st.integers(0, 99) if noisy else st.none(),
        )

    return st.integers(1, 6).flatmap(of_size)


def restless(size: int, units: int, *, seed: int) -> list[IntArray]:
    """Counts of which in each unit none, some or all change, by small or large amounts."""
    rng = np.random.default_rng(seed)
    now, out = rng.integers(0, 1_000, size), []
    for _ in range(units):
        kind = rng.integers(4)
        moved = rng.random(size) < (0, 0.5, 1, 1)[kind]
        now = np.where(moved, rng.integers(0, (1, 10**6, 100, 10**6)[kind], size), now)
        out.append(now.astype(np.int64))
    return out


def feed_part(run: Run, counts: IntArray) -> None:
    """Feed a part of the counts before the step, if the mechanism supports that."""
    if isinstance(run.mechanism, Incremental) and run.mechanism.in_parts:
        run.feed(counts // 2)


def facts(released: Released) -> tuple[object, ...]:
    """A release as plain values that can be compared with ==."""

    def plain(value: Any) -> object:
        return value.tolist() if isinstance(value, np.ndarray) else value

    scale = released.scale
    return (
        released.unit,
        plain(released.value),
        (scale.base, plain(scale.parts)),
        plain(released.repeated),
        plain(released.divisor),
        plain(released.layers),
        (released.kind, released.weights),
        released.guarantee,
        released.private,
        {name: plain(array) for name, array in released.public.items()},
    )
