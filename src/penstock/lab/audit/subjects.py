"""Subjects of audits: registered mechanisms, flawed variants, and third-party mechanisms.

A third-party mechanism is audited with its defaults on the same pairs of streams as ours. Its class
may state more, as plain data, so that it need not import anything of the lab:

- `audited`, a dict: parameters for the audit, such as {"window": 4, "span": 2}. It is needed if the
  defaults leave nothing to decide on short streams, or add so much noise that it hides any loss.
- `hard_streams(self)`: arrays of counts, units × keys, on which its decisions are close. The audit
  adds the person, so that every pair is a neighbouring one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import islice
from typing import Any

import numpy as np

from penstock.core.arrays import IntArray
from penstock.core.errors import ConfigurationError
from penstock.core.exact import positive, whole
from penstock.lab.audit import flawed
from penstock.lab.audit.cases import other_cases, parent_cases
from penstock.lab.audit.model import Case, Pair
from penstock.lab.audit.noise import ErasingLabNoise, LabNoise
from penstock.lab.audit.pairs import LOOKS, decided, looked_at, standard, with_person
from penstock.private.mechanisms.base import Incremental, Mechanism, WithDelta
from penstock.private.mechanisms.pan import PanPrivate
from penstock.private.mechanisms.registry import MECHANISMS, AnyMechanism, find
from penstock.private.mechanisms.sampling import ByQuestion
from penstock.testing import NoNoise


@dataclass(frozen=True)
class Subject:
    """A mechanism in one configuration, its claim, and the pairs of streams to attack it on.

    `resolve` makes the same subject from the text `spec` in another process.
    """

    spec: str
    name: str
    mechanism: Mechanism[Any]
    claimed: Fraction
    window: int
    pairs: tuple[Pair, ...]
    runs: int
    flawed: bool = False
    exact: bool = False
    """Whether the loss is computed, not estimated: for flaws too small for sampling."""
    noise: type[LabNoise] = ErasingLabNoise
    """The source of noise where somebody looks into the memory."""
    delta: Fraction = Fraction(0)
    """What may be added to e^ε times a probability, by the same claim."""
    more: tuple[Case, ...] = ()
    """Further cases, which are sampled only: other configurations, and pairs of flawed variants."""
    failed: Exception | None = None
    """What a third-party class raised while it was looked at, before any audit."""

    @cached_property
    def cases(self) -> tuple[Case, ...]:
        """The pairs of the subject as cases, and the further ones."""
        own = (
            Case(self.mechanism, pair, self.claimed, self.window, self.delta, noise=self.noise)
            for pair in self.pairs
        )
        return (*own, *self.more)

    @property
    def configuration(self) -> dict[str, str]:
        """All parameters of the mechanism, as text."""
        return {name: str(value) for name, value in self.mechanism.configuration().items()}

    @property
    def chosen(self) -> dict[str, str]:
        """The defaults of parameters that a third-party class changes for an audit."""
        cls = type(self.mechanism)
        if self.flawed or cls in MECHANISMS.values():
            return {}
        wanted = _audited(cls).keys() - {"window"}
        return {
            each.name: str(each.default) for each in dataclasses.fields(cls) if each.name in wanted
        }


BY_KEY_CHECKED, MAX_HARD_STREAMS = 20, 20
"""The number of keys on which `by_key` is verified, and the largest number of hard streams."""

KEYS, WINDOW = 2, 2
"""The number of keys of an audit's streams, and its default window."""

WINDOWS = {"fixed": 3, "dsft": 4, "dsat": 4, "fast": 4, "fast_w": 4, "tide": 4}
"""The default windows of mechanisms that have nothing to decide in fewer units."""

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
"""Parameters for short streams: sums over few units, because more noise would only hide a loss.

Thresholds are a share of few people for the same reason: both answers to a question are likely.
"""

USER_LEVEL = ("dsft", "dsat")
"""Mechanisms that work differently at user level. `NAME@user` audits them there too."""

PAN_PRIVATE = ("bd_pan", "ba_pan")
"""Mechanisms with a form for looks between units. `NAME@between` audits that form too."""


WITH_DELTA = ("uniform", "sample", "fixed", "bd", "ba", "bd_grouped", "ba_grouped", "tide")
"""Mechanisms that are pure by default and may have a δ. `NAME@delta` audits that form too."""

DELTA = "0.01"
"""The δ of those audits. For a small δ the events that show ε are too rare to sample."""


def subject(
    name: str, *, epsilon: str = "2", window: int | None = None, runs: int = 20_000
) -> Subject:
    """A mechanism by name or import path, or `flawed:NAME`.

    `@user` after the name is user level, `@between` a look into the memory between units, `@delta`
    the form with Gaussian noise.
    """
    return resolve(f"{name} {epsilon} {_window(name) if window is None else window} {runs}")


def _window(name: str) -> int:
    """The default window of an audit."""
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
        return _flawed(spec, name.removeprefix("flawed:"), runs)
    known, at, level = name.partition("@")
    if at and (level not in ("user", "between", "delta") or not known):
        raise ConfigurationError(
            f"{name!r} names no audit: write a mechanism, MECHANISM@user, MECHANISM@between or "
            "MECHANISM@delta."
        )
    cls = find(known)
    if level == "between" and not issubclass(cls, PanPrivate):
        raise ConfigurationError(
            f"{known} makes no promise for looks between units, so {name!r} cannot be audited."
        )
    if level == "delta" and not issubclass(cls, WithDelta):
        raise ConfigurationError(f"{known} has no delta, so {name!r} cannot be audited.")
    mechanism = cls(epsilon=epsilon, window=window, **_parameters(known, cls, window, level))
    promise = mechanism.guarantee
    stated, asked = (promise.epsilon, promise.window), (positive(epsilon, name="epsilon"), window)
    if known not in MECHANISMS and stated != asked:
        raise ConfigurationError(
            f"{known} was asked for epsilon={epsilon}, window={window}, but states {promise}."
        )
    failed: Exception | None = None
    try:
        if known not in MECHANISMS:
            _check_by_key(mechanism)
        pairs = _pairs(mechanism, between=level == "between")
    except ConfigurationError:
        raise
    except Exception as error:  # a plug-in may raise anything; that is for the verdict to say
        failed, pairs = error, list(_usual_pairs(mechanism))
    more = (
        (*parent_cases(mechanism, runs), *other_cases(mechanism, runs))
        if known in MECHANISMS
        else ()
    )
    return Subject(
        spec,
        name,
        mechanism,
        promise.epsilon,
        window,
        tuple(pairs),
        runs,
        delta=promise.delta,
        more=more,
        failed=failed,
    )


def _usual_pairs(mechanism: Mechanism[Any]) -> Iterator[Pair]:
    promise = mechanism.guarantee
    return standard(
        window=mechanism.window,
        keys=KEYS,
        epsilon=float(promise.epsilon),
        near=near(mechanism),
        user_level=promise.user_level,
    )


def _pairs(mechanism: Mechanism[Any], *, between: bool) -> list[Pair]:
    """The pairs of streams of a mechanism, with looks into its memory if the promise covers them.

    `between` covers looks when a unit has been released, also by whoever restores a snapshot.
    Otherwise a pan-private promise covers a look at any moment at which no call is running.
    """
    pairs = list(_usual_pairs(mechanism))
    if not mechanism.guarantee.user_level:
        pairs.extend(decided(mechanism, keys=KEYS))
    if between:
        pairs = [looked_at(pair, after=True) for pair in pairs]
        pairs.append(looked_at(replace(pairs[0], look=None), moment=LOOKS[4], last=True))
    elif isinstance(mechanism, Incremental) and mechanism.in_parts:
        still, leaping = pairs[0], pairs[2]
        pairs.extend(looked_at(pair) for pair in pairs[:6])
        pairs.extend(looked_at(still, moment=moment, last=True) for moment in LOOKS)
        pairs.extend(looked_at(leaping, moment=moment) for moment in LOOKS[:2])
    pairs.extend(_their_own(mechanism))
    return pairs


def _flawed(spec: str, name: str, runs: int) -> Subject:
    """A flawed variant by its name without `flawed:`."""
    variant = flawed.VARIANTS.get(name)
    if variant is None:
        raise ConfigurationError(
            f"there is no flawed variant 'flawed:{name}': use {', '.join(flawed.VARIANTS)}."
        )
    return Subject(
        spec,
        variant.name,
        variant.make(),
        variant.claimed,
        variant.window,
        variant.pairs,
        runs,
        flawed=True,
        exact=variant.exact,
        noise=variant.noise,
        delta=variant.delta,
    )


def _parameters(name: str, cls: AnyMechanism, window: int, level: str) -> dict[str, Any]:
    """Parameters for an audit, with units that are not released, so that questions are asked."""
    found = dict(SHORT.get(name, {})) if name in MECHANISMS else _audited(cls)
    found.pop("window", None)
    if name in USER_LEVEL:
        found["releases"] = max(2 if level == "user" else 1, window // 2)
    if level == "user":
        found["horizon"] = window
    elif level == "between":
        found["intrusion"] = level
    elif level == "delta":
        found["delta"] = DELTA
    return found


def _audited(cls: AnyMechanism) -> dict[str, Any]:
    """The parameters that a third-party class wants for audits. It cannot choose the promise."""
    wanted: Any = cls.audited
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
    """Refuse a class that wrongly claims to treat every key by itself: runs are taken as keys.

    Without noise, a key must show the same alone, among a few others and among many.
    """
    if not mechanism.by_key:
        return
    rng = np.random.default_rng(0)
    units, keys = 3 * mechanism.window + 4, 2 * BY_KEY_CHECKED
    stream = np.where(rng.random((units, keys)) < 0.5, 0, rng.integers(0, 1_000, (units, keys)))
    together = mechanism.run(keys, noise=NoNoise())
    parts = [slice(0, 1), slice(0, KEYS), slice(1, 4), slice(0, BY_KEY_CHECKED)]
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
                    f"{type(mechanism).__name__} says by_key = True, but its release for one key "
                    "depends on the others: remove by_key."
                )


def _their_own(mechanism: Mechanism[Any]) -> Iterator[Pair]:
    """Pairs with a person in the first and in the last window of every hard stream of the class."""
    streams = list(islice(mechanism.hard_streams(), MAX_HARD_STREAMS + 1))
    if len(streams) > MAX_HARD_STREAMS:  # every pair takes a part of the confidence
        raise ConfigurationError(
            f"hard_streams of {type(mechanism).__name__} gives more than {MAX_HARD_STREAMS}: "
            "give the hardest only."
        )
    for number, stream in enumerate(streams, start=1):
        base: IntArray = np.asarray(stream)
        if base.ndim != 2 or base.dtype.kind not in "iu" or not base.size or base.min() < 0:
            raise ConfigurationError(
                f"hard_streams of {type(mechanism).__name__} must give arrays of whole numbers of "
                "at least 0, units × keys."
            )
        stay = len(base) if mechanism.guarantee.user_level else mechanism.window
        for first in sorted({1, max(1, len(base) - stay + 1)}):
            name = f"hard stream {number}, a person from unit {first}"
            yield with_person(name, base, first, stay, mechanism.contribution)


def near(mechanism: Mechanism[Any]) -> int | None:
    """The distance from the last release at which a decision is close, by the public threshold."""
    if not isinstance(mechanism, ByQuestion) or mechanism.plan(KEYS).price is None:
        return None
    noise = KEYS * mechanism.contribution / float(mechanism.plan(KEYS).each.epsilon)
    return max(2, round(noise + mechanism.first_threshold() * (mechanism.population or 1)))
