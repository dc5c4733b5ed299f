"""Whom to audit: every registered mechanism, every flawed variant, and anybody's by import path."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from penstock.core.errors import ConfigurationError
from penstock.lab.audit import flawed
from penstock.lab.audit.model import Look, Pair
from penstock.lab.audit.pairs import standard
from penstock.private.mechanisms.base import Incremental, Mechanism
from penstock.private.mechanisms.registry import MECHANISMS, find


@dataclass(frozen=True)
class Subject:
    """A mechanism in one configuration, what it claims, and the pairs of streams to try on it.

    `spec` is a text from which `resolve` makes the same subject in another process.
    """

    spec: str
    name: str
    mechanism: Mechanism[Any]
    claimed: Fraction
    window: int
    pairs: tuple[Pair, ...]
    runs: int
    flawed: bool = False
    learn: bool = False
    exact: bool = False
    """Whether the loss is computed, not estimated: for flaws too small for sampling."""
    delta: Fraction = Fraction(0)
    """What may be added to e^ε times a probability, by the same claim."""


SHORT: dict[str, dict[str, Any]] = {"sw_tree": {"span": 2}, "kary": {"span": 2}, "toeplitz": {"span": 2}, "eshp": {"span": 2}}
"""The audit's streams are short, so what is summed over many units is audited with few: more noise would only hide a loss."""


def subject(name: str, *, epsilon: str = "2", window: int = 2, runs: int = 20_000) -> Subject:
    """A mechanism by registered name, by import path, or a flawed variant by `flawed:NAME`."""
    return resolve(f"{name} {epsilon} {window} {runs}")


@lru_cache(maxsize=64)
def resolve(spec: str) -> Subject:
    """The subject that a text names: the mechanism, ε, the window and the number of runs."""
    try:
        name, epsilon, window_text, runs_text = spec.split(" ")
        window, runs = int(window_text), int(runs_text)
    except ValueError:
        raise ConfigurationError(f"{spec!r} names no audit: NAME EPSILON WINDOW RUNS.") from None
    if name.startswith("flawed:"):
        variant = flawed.VARIANTS.get(name.removeprefix("flawed:"))
        if variant is None:
            raise ConfigurationError(f"there is no flawed variant {name!r}: use {', '.join(flawed.VARIANTS)}.")
        mechanism = variant.make()
        return Subject(
            spec,
            variant.name,
            mechanism,
            variant.claimed,
            variant.window,
            variant.pairs,
            runs,
            flawed=True,
            exact=variant.exact,
        )
    mechanism = find(name)(epsilon=epsilon, window=window, **SHORT.get(name, {}))
    pairs = list(standard(window=window, keys=2, epsilon=float(mechanism.guarantee.epsilon)))
    if isinstance(mechanism, Incremental) and mechanism.in_parts:
        pairs.extend(looked_at(pair) for pair in pairs[:6])
    return Subject(
        spec,
        name,
        mechanism,
        mechanism.guarantee.epsilon,
        window,
        tuple(pairs),
        runs,
        learn=name not in MECHANISMS or mechanism.guarantee.delta > 0,  # a line tells two Gaussians apart best
        delta=mechanism.guarantee.delta,
    )


def looked_at(pair: Pair) -> Pair:
    """The same pair, and a look into the memory in the middle of the first unit in which the streams differ."""
    unit = int(np.flatnonzero((pair.left != pair.right).any(axis=1))[0]) + 1
    return Pair(f"{pair.name}, looked into", pair.left, pair.right, Look(unit, pair.left[unit - 1], pair.right[unit - 1]))
