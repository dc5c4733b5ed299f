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
from penstock.private.mechanisms.sampling import ByQuestion


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


KEYS, WINDOW = 2, 2
"""The keys of an audit's streams, and its window unless told."""

WINDOWS = {"fixed": 3, "dsft": 4, "dsat": 4, "fast": 4, "fast_w": 4}
"""Where fewer units would leave nothing to decide."""

SHORT: dict[str, dict[str, Any]] = {
    "sw_tree": {"span": 2},
    "kary": {"span": 2},
    "toeplitz": {"span": 2},
    "eshp": {"span": 2},
    "fixed": {"every": 2},
    "dsft": {"population": 20},
    "dsat": {"population": 20},
    "fast": {"sampled": "1/2"},
    "fast_w": {"sampled": "1/2"},
}
"""The audit's streams are short, so what is summed over many units is audited with few: more noise would only hide a loss.

For the same reason thresholds are a share of few people: where it is asked whether to release, both answers are then likely.
"""

USER_LEVEL = ("dsft", "dsat")
"""Who does something else at user level, and is audited there too: `NAME@user`, with the window for a horizon."""


def subject(name: str, *, epsilon: str = "2", window: int | None = None, runs: int = 20_000) -> Subject:
    """A mechanism by registered name, by import path, either with `@user` for user level, or `flawed:NAME`."""
    short = WINDOWS.get(name.partition("@")[0], WINDOW) if window is None else window
    return resolve(f"{name} {epsilon} {short} {runs}")


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
    known, at, level = name.partition("@")
    if at and (level != "user" or not known):
        raise ConfigurationError(f"{name!r} names no audit: write a mechanism, or MECHANISM@user.")
    mechanism = find(known)(epsilon=epsilon, window=window, **_parameters(known, window, user_level=bool(level)))
    promise = mechanism.guarantee
    pairs = list(
        standard(window=window, keys=KEYS, epsilon=float(promise.epsilon), near=near(mechanism), user_level=promise.user_level)
    )
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
        learn=known not in MECHANISMS or mechanism.guarantee.delta > 0,  # a line tells two Gaussians apart best
        delta=mechanism.guarantee.delta,
    )


def _parameters(name: str, window: int, *, user_level: bool) -> dict[str, Any]:
    """What else a mechanism is audited with: with at most every other unit released, others are left to ask about."""
    found = dict(SHORT.get(name, {}))
    if name in USER_LEVEL:
        found["releases"] = max(2 if user_level else 1, window // 2)
    return {**found, "horizon": window} if user_level else found


def near(mechanism: Mechanism[Any]) -> int | None:
    """How far a stream must be from its last release for a close decision, if a public threshold says so."""
    if not isinstance(mechanism, ByQuestion) or mechanism.plan(KEYS).price is None:
        return None
    noise = KEYS * mechanism.contribution / float(mechanism.plan(KEYS).each.epsilon)
    return max(2, round(noise + mechanism.first_threshold() * (mechanism.population or 1)))


def looked_at(pair: Pair) -> Pair:
    """The same pair, and a look into the memory in the middle of the first unit in which the streams differ."""
    unit = int(np.flatnonzero((pair.left != pair.right).any(axis=1))[0]) + 1
    return Pair(f"{pair.name}, looked into", pair.left, pair.right, Look(unit, pair.left[unit - 1], pair.right[unit - 1]))
