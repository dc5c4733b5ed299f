"""Whom to audit: every registered mechanism, every flawed variant, and anybody's by plug-in or
import path.

Somebody else's mechanism is audited with its defaults on the same pairs of streams as ours. Its
class may say more, as plain data, so that it need not import anything of the lab:

- `audited`, a dict: what to audit it with, such as {"window": 4, "span": 2}, where its defaults
  leave nothing to decide on short streams, or so much noise that no audit would find anything;
- `hard_streams(self)`: arrays of counts, units × keys, on which its decisions are close ones. The
  person is added here, so that every pair is a neighbouring one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import islice
from typing import Any

import numpy as np

from penstock.core.arrays import IntArray
from penstock.core.errors import ConfigurationError
from penstock.core.exact import positive, whole
from penstock.lab.audit import flawed
from penstock.lab.audit.model import Look, Pair
from penstock.lab.audit.pairs import standard, with_person
from penstock.private.mechanisms.base import Incremental, Mechanism
from penstock.private.mechanisms.registry import MECHANISMS, AnyMechanism, find
from penstock.private.mechanisms.sampling import ByQuestion
from penstock.testing import NoNoise


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

    @property
    def configuration(self) -> dict[str, str]:
        """All parameters of the mechanism, as text."""
        return {name: str(value) for name, value in self.mechanism.configuration().items()}

    @property
    def chosen(self) -> dict[str, str]:
        """The defaults of those that the class of somebody else's mechanism wants changed in an
        audit.
        """
        cls = type(self.mechanism)
        if self.flawed or cls in MECHANISMS.values():
            return {}
        wanted = _audited(cls).keys() - {"window"}
        return {
            each.name: str(each.default) for each in dataclasses.fields(cls) if each.name in wanted
        }


CHECKED, HARD = 20, 20
"""Keys on which somebody's word for `by_key` is tried, and the most hard streams of somebody's own.
"""

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
"""The audit's streams are short, so what is summed over many units is audited with few: more noise
would only hide a loss.

For the same reason thresholds are a share of few people: where it is asked whether to release, both
answers are then likely.
"""

USER_LEVEL = ("dsft", "dsat")
"""Who does something else at user level, and is audited there too: `NAME@user`, with the window for
a horizon.
"""


def subject(
    name: str, *, epsilon: str = "2", window: int | None = None, runs: int = 20_000
) -> Subject:
    """A mechanism by name, ours or a plug-in's, by import path, each with `@user` for user level,
    or `flawed:NAME`.
    """
    return resolve(f"{name} {epsilon} {_window(name) if window is None else window} {runs}")


def _window(name: str) -> int:
    """The window that it is audited with unless told."""
    known = name.partition("@")[0]
    if known in MECHANISMS or name.startswith("flawed:"):
        return WINDOWS.get(known, WINDOW)
    return whole(_audited(find(known)).get("window", WINDOW), name="window in `audited`", least=1)


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
            raise ConfigurationError(
                f"there is no flawed variant {name!r}: use {', '.join(flawed.VARIANTS)}."
            )
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
    cls = find(known)
    mechanism = cls(
        epsilon=epsilon, window=window, **_parameters(known, cls, window, user_level=bool(level))
    )
    promise = mechanism.guarantee
    if known not in MECHANISMS:
        if (promise.epsilon, promise.window) != (positive(epsilon, name="epsilon"), window):
            raise ConfigurationError(
                f"{known} was asked for epsilon={epsilon}, window={window}, and states {promise}."
            )
        _check_by_key(mechanism)
    pairs = list(
        standard(
            window=window,
            keys=KEYS,
            epsilon=float(promise.epsilon),
            near=near(mechanism),
            user_level=promise.user_level,
        )
    )
    if isinstance(mechanism, Incremental) and mechanism.in_parts:
        pairs.extend(looked_at(pair) for pair in pairs[:6])
    pairs.extend(_their_own(mechanism))
    return Subject(
        spec,
        name,
        mechanism,
        mechanism.guarantee.epsilon,
        window,
        tuple(pairs),
        runs,
        learn=known not in MECHANISMS
        or mechanism.guarantee.delta > 0,  # a line tells two Gaussians apart best
        delta=mechanism.guarantee.delta,
    )


def _parameters(name: str, cls: AnyMechanism, window: int, *, user_level: bool) -> dict[str, Any]:
    """What else a mechanism is audited with: with at most every other unit released, others are
    left to ask about.
    """
    found = dict(SHORT.get(name, {})) if name in MECHANISMS else _audited(cls)
    found.pop("window", None)
    if name in USER_LEVEL:
        found["releases"] = max(2 if user_level else 1, window // 2)
    return {**found, "horizon": window} if user_level else found


def _audited(cls: AnyMechanism) -> dict[str, Any]:
    """What somebody else's class wants to be audited with; the promise itself is not theirs to
    choose.
    """
    wanted: Any = getattr(cls, "audited", {})
    known = {field.name for field in dataclasses.fields(cls)} - {
        "epsilon",
        "delta",
        "contribution",
        "horizon",
    }
    if not isinstance(wanted, Mapping) or not set(wanted) <= known:
        raise ConfigurationError(
            f"`audited` of {cls.__name__} must be a dict with some of {', '.join(sorted(known))}."
        )
    return dict(wanted)


def _check_by_key(mechanism: Mechanism[Any]) -> None:
    """Refuse a class that says it treats every key by itself and does not: runs that are taken as
    keys would not be runs.

    Without noise, what a key shows among a few or many others must be what it shows alone, or with
    as many as an audit has.
    """
    if not mechanism.by_key:
        return
    rng = np.random.default_rng(0)
    units, keys = 3 * mechanism.window + 4, 2 * CHECKED
    stream = np.where(rng.random((units, keys)) < 0.5, 0, rng.integers(0, 1_000, (units, keys)))
    together = mechanism.run(keys, noise=NoNoise())
    parts = [slice(0, 1), slice(0, KEYS), slice(1, 4), slice(0, CHECKED)]
    fewer = [(part, mechanism.run(part.stop - part.start, noise=NoNoise())) for part in parts]
    for counts in stream:
        whole_unit = together.step(counts)
        repeated = np.broadcast_to(whole_unit.repeated, keys)
        for part, run in fewer:
            few = run.step(counts[part])
            if np.any(whole_unit.estimate[part] != few.estimate) or np.any(
                repeated[part] != few.repeated
            ):
                raise ConfigurationError(
                    f"{type(mechanism).__name__} says by_key = True, but what it releases for one key depends on the others: "
                    "leave that out."
                )


def _their_own(mechanism: Mechanism[Any]) -> Iterator[Pair]:
    """A person in the first window, and in the last, of every stream that the class calls a hard
    one.
    """
    give = getattr(mechanism, "hard_streams", None)
    streams = [] if give is None else list(islice(give(), HARD + 1))
    if len(streams) > HARD:  # every pair that is tried takes a part of the confidence
        raise ConfigurationError(
            f"hard_streams of {type(mechanism).__name__} gives more than {HARD}: take the hardest."
        )
    for number, stream in enumerate(streams, start=1):
        base: IntArray = np.asarray(stream)
        if base.ndim != 2 or base.dtype.kind not in "iu" or not base.size or base.min() < 0:
            raise ConfigurationError(
                f"hard_streams of {type(mechanism).__name__} must give arrays of whole numbers of at least 0, units × keys."
            )
        stay = len(base) if mechanism.guarantee.user_level else mechanism.window
        for first in sorted({1, max(1, len(base) - stay + 1)}):
            name = f"hard stream {number}, a person from unit {first}"
            yield with_person(name, base, first, stay, mechanism.contribution)


def near(mechanism: Mechanism[Any]) -> int | None:
    """How far a stream must be from its last release for a close decision, if a public threshold
    says so.
    """
    if not isinstance(mechanism, ByQuestion) or mechanism.plan(KEYS).price is None:
        return None
    noise = KEYS * mechanism.contribution / float(mechanism.plan(KEYS).each.epsilon)
    return max(2, round(noise + mechanism.first_threshold() * (mechanism.population or 1)))


def looked_at(pair: Pair) -> Pair:
    """The same pair, and a look into the memory in the middle of the first unit in which the
    streams differ.
    """
    unit = int(np.flatnonzero((pair.left != pair.right).any(axis=1))[0]) + 1
    return Pair(
        f"{pair.name}, looked into",
        pair.left,
        pair.right,
        Look(unit, pair.left[unit - 1], pair.right[unit - 1]),
    )
