r"""The exact audit: the probability of an output, computed from the shipped code instead of
estimated from runs of it.

Noise is discrete, so an output has a probability that can be written down, and the loss at an
output is the logarithm of the ratio of its probabilities under two neighbouring streams. Here the
mechanism's own `step` is run with noise that we choose (`ScriptedNoise`), and the probabilities of
our choices are added up:

- *publication noise* (labels that begin with "publish") is added to the counts that are shown. For
  a given output there is one value of it that fits, found by running the step with none and looking
  at what is missing;
- *decision noise* (every other label: distances) is seen only through what is decided. All its
  values that lead to the same decision are one case, and their probabilities are added up.

What is used without being enumerated, and how it is checked at every unit of every output that is
followed:

1. Publication noise is additive, and two layers of it (`bd_pan` within a unit) matter only through
   their sum unless a look sees the first. Checked: the step is run with the noise found, and must
   give exactly the output that is asked about.
2. A skipped unit does not depend on the noise of a counter that is then forgotten. Checked with
   other noise.
3. One distance with one layer of noise is compared with one threshold (`distance.py`, `pan.py`), so
   the decision is monotone in the noise; with two layers (`bd_pan` within a unit) \|Σ(c − o) +
   noise\| is compared, which is monotone on either side of where it is 0. Turning points are found
   by bisection, however far out. Checked: both ends of a case lead to the same state.
4. Of several distances, one per group of keys, every group's answer grows with each of them
   (`grouped.py`). The values are divided into boxes at each distance's own turning point; a box
   whose two extreme corners lead to the same state is one case. Where that fails, all values are
   tried, up to a tail whose mass is added to the upper end of every probability.
5. A noisy count that is only compared with the last release (`rg`) decides one way near it and the
   other way on both sides. Each side has its turning point. Checked: values spread over all that
   the noise may be, and both ends of a case.
6. Counts that a mechanism shows before it smooths them (`public["noisy"]`, `pegasus`) are where its
   publication noise is read. Checked as in 1: with the noise found, the whole release must be the
   one that is asked about, or it has no chance here.
7. Sums and statistics that the gate keeps follow from the counts and from what was decided. The
   threshold noise ρ that a sparse-vector run keeps does not: it is summed over (`thresholds.py`),
   given all answers of the run while the gate keeps it open (per key up to a yes, over all keys
   until it is closed) and that an answer depends on question noise − ρ alone. Checked: either
   answer just beside its turning point, with other ρ, leads to the same release and state and
   leaves ρ as it was; so does a unit without a question.

A mechanism that does not fit (other secrets kept between units, other noise) is refused: nothing is
claimed about it. Floats: a log-probability is a sum of few terms, each with a relative error near
1e-16; every loss is widened by `ROUNDING` = 1e-9 and by 1e-13 of the log-probabilities it was made
from, far above what that can amount to.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from functools import cache, lru_cache
from itertools import product
from typing import Any, Final, NoReturn, TypeAlias, TypeVar

import numpy as np

from penstock.budget.ledger import LedgerState
from penstock.core.arrays import IntArray
from penstock.core.domain import Domain
from penstock.core.errors import ConfigurationError
from penstock.core.released import Released
from penstock.lab.audit.model import Pair
from penstock.lab.audit.thresholds import Belief, ThresholdAnswer
from penstock.private.gate import Secrets
from penstock.private.histograms.base import PUBLISH
from penstock.private.mechanisms.base import Incremental, Mechanism
from penstock.private.run import Run
from penstock.testing import intrude

ROUNDING: Final = 1e-9
"""Every loss is widened by at least this much, for the rounding of floats."""

_FAR: Final = 2**55
"""Noise that outweighs every distance: no count is above 2**50."""

_DROPPED: Final = 1e-16
"""Several distances at once are tried up to tails of this mass each."""

_MOST_CASES: Final = 50_000
"""More values of decision noise than this are not tried in one unit."""

_MOST_ASKED: Final = 2
"""More sparse-vector runs than this are not followed at once."""

_SHIFTS: Final = (-1009, 3)
"""Other threshold noise, with which an answer is tried too."""

_SPREAD: Final = 16
"""About how many other values of a noisy count are tried."""

_MOST_TURNS: Final = 8
"""One distance decides little: publish or not. More decisions than this mean that its noise is seen
in another way.
"""

NOISY: Final = "noisy"
"""The public array that holds a unit's counts with noise, before they are smoothed."""

Numbers: TypeAlias = tuple[int, ...]
Flags: TypeAlias = tuple[bool, ...]
T = TypeVar("T")
Interval: TypeAlias = tuple[float, float]


# -- outputs ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SeenUnit:
    """What is seen of one unit: the release, which keys are fresh in it, and what a look into the
    memory saw.

    `seen` is None if nobody looks in this unit, and empty if somebody does and finds no counter.
    `public` is whatever else the release shows, by name: divisors and layers that are not 1, and
    its public arrays.
    """

    values: Numbers
    fresh: Flags
    seen: Numbers | None = None
    public: tuple[tuple[str, Numbers], ...] = ()

    @classmethod
    def of(cls, released: Released, seen: Numbers | None = None) -> SeenUnit:
        """What a release shows."""
        values, repeated = tuple(released.value.tolist()), released.repeated
        fresh = (
            (not repeated,) * len(values)
            if isinstance(repeated, bool)
            else tuple((~repeated).tolist())
        )
        more = {name: tuple(array.tolist()) for name, array in released.public.items()}
        if not isinstance(released.divisor, int) or released.divisor != 1:
            more["divisor"] = tuple(np.broadcast_to(released.divisor, len(values)).tolist())
        if not isinstance(released.layers, int):
            more["layers"] = tuple(released.layers.tolist())
        return cls(values, fresh, seen, tuple(sorted(more.items())))

    @property
    def smoothed(self) -> bool:
        """Whether the counts before they were smoothed are shown too."""
        return any(name == NOISY for name, _ in self.public)

    @property
    def numbers(self) -> Numbers:
        """What publication noise is added to."""
        return dict(self.public)[NOISY] if self.smoothed else self.values


Output: TypeAlias = tuple[SeenUnit, ...]
"""All that is seen of a whole stream, unit by unit."""


def output(
    values: Sequence[Sequence[int]],
    fresh: Sequence[bool],
    *,
    seen: tuple[int, Sequence[int]] | None = None,
) -> Output:
    """An output from rows of values and whether each unit was published; `seen` is (unit, what a
    look saw in it).

    >>> output([[7], [7]], [True, False])[1]
    Shown(values=(7,), fresh=(False,), seen=None, public=())
    """
    return tuple(
        SeenUnit(
            tuple(int(value) for value in row),
            (bool(new),) * len(row),
            tuple(int(value) for value in seen[1])
            if seen is not None and seen[0] == unit
            else None,
        )
        for unit, (row, new) in enumerate(zip(values, fresh, strict=True), start=1)
    )


# -- noise that we choose --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Request:
    """One call for noise: its label, and 1/scale for each number."""

    label: str
    rates: tuple[float, ...]

    @property
    def publication(self) -> bool:
        return self.label.startswith(PUBLISH)


class ScriptedNoise:
    """Noise that is given beforehand, by label; 0 where nothing is given. It remembers what was
    asked for.

    >>> noise = ScriptedNoise({"publish": (3, -1)})
    >>> noise.laplace(Fraction(2), 2, unit=1, label="publish"), noise.laplace(Fraction(2), 1, unit=1, label="distance")
    (array([ 3, -1]), array([0]))
    >>> noise.requests
    [Request(label='publish', rates=(0.5, 0.5)), Request(label='distance', rates=(0.5,))]
    """

    private = False

    def __init__(
        self, script: Mapping[str, Numbers], *, before_decision: Callable[[], None] | None = None
    ) -> None:
        self.script = script
        self.requests: list[Request] = []
        self._before_decision = before_decision

    def laplace(
        self, scale: Fraction, size: int, *, unit: int, label: str, fresh: bool = False
    ) -> IntArray:
        return self._give(label, (_rate(scale),) * size)

    def laplace_each(
        self,
        scales: Sequence[Fraction],
        which: IntArray,
        *,
        unit: int,
        label: str,
        fresh: bool = False,
    ) -> IntArray:
        return self._give(label, tuple(_rate(scales[index]) for index in which.tolist()))

    def thin(self, counts: IntArray, keep: Fraction, *, unit: int, label: str) -> IntArray:
        raise ConfigurationError("the exact audit knows discrete Laplace noise only, not thinning.")

    def gaussian(self, variance: Fraction, size: int, *, unit: int, label: str) -> IntArray:
        raise ConfigurationError(
            "the exact audit knows discrete Laplace noise only: with Gaussian noise no single loss is bounded."
        )

    def _give(self, label: str, rates: tuple[float, ...]) -> IntArray:
        request = Request(label, rates)
        if self._before_decision is not None and not request.publication:
            self._before_decision()
        self.requests.append(request)
        given = self.script.get(label)
        if given is None:
            return np.zeros(len(rates), np.int64)
        if len(given) != len(rates):
            raise ConfigurationError(
                f"{label!r} asks for {len(rates)} numbers where the script has {len(given)}."
            )
        return np.array(given, np.int64)


@lru_cache(maxsize=4096)
def _rate(scale: Fraction) -> float:
    return float(1 / scale)


# -- the law of the noise --------------------------------------------------------------------------


@lru_cache(maxsize=65536)
def _log_chance(rate: float, layers: int, value: int) -> float:
    """ln P(noise = value) for one discrete Laplace variable with P(k) ∝ exp(−rate·|k|), or for the
    sum of two of them.
    """
    far = abs(value)
    one = math.log(math.tanh(rate / 2)) - rate * far
    if layers == 1:
        return one
    # P(X + Y = n) = p²·qⁿ·(n + (1 + q²)/(1 − q²)), with p = tanh(rate/2)
    return one + math.log(math.tanh(rate / 2)) + math.log(far + 1 / math.tanh(rate))


def _log_tail(rate: float, layers: int, first: int) -> float:
    """ln P(noise ≥ first), first ≥ 1."""
    q = math.exp(-rate)
    if layers == 1:
        return -rate * first - math.log1p(q)
    weight = first + 1 / math.tanh(rate)
    return (
        2 * math.log(math.tanh(rate / 2))
        - rate * first
        + math.log(weight / (1 - q) + q / (1 - q) ** 2)
    )


def _log_between(rate: float, layers: int, first: float, last: float) -> float:
    """ln P(first ≤ noise ≤ last); the ends may be infinite."""
    if last < 0:
        first, last = -last, -first
    if first > 0:
        whole = _log_tail(rate, layers, int(first))
        if last == math.inf:
            return whole
        if layers == 1:
            return whole + math.log(-math.expm1(-rate * (last + 1 - first)))
        return _log_sum(
            [_log_chance(rate, layers, value) for value in range(int(first), int(last) + 1)]
        )
    if first == last:
        return _log_chance(rate, layers, 0)
    outside = [_log_tail(rate, layers, int(end) + 1) for end in (-first, last) if end != math.inf]
    return math.log1p(-math.exp(_log_sum(outside))) if outside else 0.0


def _log_sum(logs: Sequence[float]) -> float:
    """ln Σ exp."""
    most = max(logs, default=-math.inf)
    return (
        most
        if most == -math.inf
        else most + math.log(math.fsum(math.exp(each - most) for each in logs))
    )


# -- one unit of one stream ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a run stands between two units, all that it goes on from: the gate keeps nothing else
    (this is checked).

    The threshold noise of open sparse-vector runs stands at 0 here: what is known of it are the
    `beliefs`.
    """

    ledger: LedgerState
    state: Any
    last: Released | None
    secrets: Secrets | None = None
    beliefs: tuple[Belief, ...] = ()

    @classmethod
    def of(cls, run: Run, *, held: int = 0) -> _Place:
        """Where a run stands whose open sparse-vector runs all have this threshold noise, and kept
        it.
        """
        kept = run._gate.save()
        if not any(getattr(kept, each.name) for each in fields(kept)):
            return cls(run._ledger.save(), run._state, run.last)
        if any(
            getattr(kept, each.name)
            for each in fields(kept)
            if each.name not in ("pots", "folds", "runs")
        ):
            raise ConfigurationError(
                f"{run.mechanism.name} keeps secrets between units that no exact audit covers."
            )
        secrets: Secrets = _copied(kept)
        for each in secrets.runs.values():
            if (each.noise[each.open] != held).any():
                raise ConfigurationError(
                    f"{run.mechanism.name} changes threshold noise that it keeps: no exact audit covers that."
                )
            each.noise.fill(0)
        return cls(run._ledger.save(), run._state, run.last, secrets)

    def key(self) -> object:
        """Equal keys: the same future."""
        return _plain((self.ledger, self.state, self.secrets, self.beliefs))

    def is_open(self, run: str, key: int) -> bool:
        return (
            self.secrets is not None
            and run in self.secrets.runs
            and bool(self.secrets.runs[run].open[key])
        )


def _copied(what: Any) -> Any:
    """A copy of plain data, so that nothing that is done to it in place is done to the original."""
    if isinstance(what, np.ndarray):
        return what.copy()
    if isinstance(what, dict):
        return {key: _copied(value) for key, value in what.items()}
    if isinstance(what, (list, tuple)):
        return type(what)(_copied(each) for each in what)
    if isinstance(what, Released) or not hasattr(what, "__dataclass_fields__"):
        return what  # a release is read-only
    new = copy.copy(what)
    for name in what.__dataclass_fields__:
        object.__setattr__(new, name, _copied(getattr(what, name)))
    return new


def _plain(what: Any) -> object:
    if isinstance(what, np.ndarray):
        return what.tobytes()
    if isinstance(what, dict):
        return tuple((key, _plain(value)) for key, value in sorted(what.items()))
    if isinstance(what, (list, tuple)):
        return tuple(_plain(each) for each in what)
    slots = getattr(what, "__dataclass_fields__", None)
    return what if slots is None else tuple(_plain(getattr(what, name)) for name in slots)


@dataclass(frozen=True, slots=True)
class _Trial:
    """One unit, run with noise that was chosen."""

    shown: SeenUnit
    requests: tuple[Request, ...]
    run: Run

    def same_path(self, other: _Trial) -> bool:
        return self.shown == other.shown and self.requests == other.requests


@dataclass(frozen=True, slots=True)
class _Case:
    """All decision noise with one consequence: its probability, one such noise, and the unit
    without publication noise.
    """

    log_low: float
    log_high: float
    script: Mapping[str, Numbers]
    bare: SeenUnit
    layers: tuple[Request, ...]
    parts: tuple[tuple[Request, Numbers], ...]
    measured: set[Request]
    beliefs: tuple[Belief, ...]
    tried: dict[object, tuple[SeenUnit, _Place]] = field(default_factory=dict)

    def noise_for(self, target: SeenUnit) -> tuple[dict[str, Numbers], float] | None:
        """The publication noise that makes this case show the target, and the logarithm of its
        chance; None if none does.
        """
        bare = self.bare
        if target.fresh != bare.fresh or (target.seen is None) != (bare.seen is None):
            return None
        now, then = target.numbers, bare.numbers
        moving = {key for _, keys in self.parts for key in keys}
        if len(now) != len(then) or any(
            now[key] != then[key] for key in range(len(now)) if key not in moving
        ):
            return None
        script: dict[str, Numbers] = {}
        if not bare.seen:
            if target.seen != bare.seen:
                return None
            chance = 0.0
            for request, keys in self.parts:
                script[request.label] = tuple(now[key] - then[key] for key in keys)
                chance += _chance_of(
                    request, len(self.layers) if len(self.parts) == 1 else 1, script[request.label]
                )
            return script, chance
        if not target.seen:
            return None
        # The look has seen the counts on top of the first layer, so what is missing in the release
        # is the second.
        first = tuple(
            later - earlier for later, earlier in zip(target.seen, bare.seen, strict=True)
        )
        script[self.layers[0].label] = first
        chance = _chance_of(self.layers[0], 1, first)
        if any(bare.fresh):
            rest = tuple(
                later - earlier - part
                for later, earlier, part in zip(now, then, first, strict=True)
            )
            if len(self.layers) == 1:
                return (script, chance) if not any(rest) else None
            script[self.layers[1].label] = rest
            chance += _chance_of(self.layers[1], 1, rest)
        return script, chance


def _chance_of(request: Request, layers: int, values: Numbers) -> float:
    return math.fsum(
        _log_chance(rate, layers, value) for rate, value in zip(request.rates, values, strict=True)
    )


@dataclass(frozen=True, slots=True)
class _Branch:
    """A place that is reached with a probability between two bounds, as logarithms."""

    place: _Place
    log_low: float
    log_high: float


class _Side:
    """One stream through one mechanism, followed along given outputs."""

    def __init__(
        self, mechanism: Mechanism[Any], stream: IntArray, look: tuple[int, IntArray] | None
    ) -> None:
        self.mechanism = mechanism
        self.stream = np.asarray(stream, np.int64)
        self.look = look
        self.domain = Domain.of(int(self.stream.shape[1]))
        self._hint = 0
        self._turned: dict[tuple[str, int], int] = {}
        self._in_parts = isinstance(mechanism, Incremental) and mechanism.in_parts
        if look is not None and isinstance(mechanism, Incremental) and mechanism.announced:
            raise ConfigurationError(
                f"{mechanism.name} as configured wants to be told of a look: no exact audit covers that."
            )
        if (
            look is not None
            and not self._in_parts
            and not np.array_equal(look[1], self.stream[look[0] - 1])
        ):
            raise ConfigurationError(
                f"{mechanism.name} takes whole units: a look sees all of a unit's counts or is not taken."
            )

    def start(self) -> tuple[_Branch, ...]:
        return (
            _Branch(_Place.of(self.mechanism.run(self.domain, noise=ScriptedNoise({}))), 0.0, 0.0),
        )

    # -- running the shipped code --

    def attempt(
        self, place: _Place, unit: int, script: Mapping[str, Numbers], *, held: int = 0
    ) -> _Trial:
        """Run one unit from a place, with this noise; `held` is the threshold noise of the runs
        that are open.
        """
        counts = self.stream[unit - 1]
        seen: list[Numbers] = []

        def look() -> None:
            if not seen:
                counter = intrude(run).get(f"counter {PUBLISH}")
                seen.append(() if counter is None else tuple(counter.tolist()))

        looked = self.look is not None and self.look[0] == unit
        noise = ScriptedNoise(
            script, before_decision=look if looked and not self._in_parts else None
        )
        run = self.mechanism.run(self.domain, noise=noise)
        run._ledger.load(place.ledger)
        run._state, run.last = place.state, place.last
        if (
            place.secrets is not None
        ):  # folds, and states that have grown with them, are changed in place
            secrets, run._state = _copied((place.secrets, place.state))
            for each in secrets.runs.values():
                each.noise[each.open] = held
            run._gate.load(secrets, private=False)
        if looked and self._in_parts and self.look is not None:
            run.feed(self.look[1])
            look()
            counts = counts - self.look[1]
        released = run.step(counts)
        if looked and not seen:
            seen.append(())  # nothing was decided, so nothing was counted
        return _Trial(
            SeenUnit.of(released, seen[0] if looked else None), tuple(noise.requests), run
        )

    # -- decisions --

    def cases(self, place: _Place, unit: int) -> tuple[_Case, ...]:
        """All that can be decided in this unit, with probabilities."""
        bare = self.attempt(place, unit, {})
        asked: dict[str, list[Request]] = {}
        for request in bare.requests:
            if not request.publication:
                asked.setdefault(request.label.partition(".")[0], []).append(request)
        if not asked:
            if place.beliefs:
                other = self.attempt(place, unit, {}, held=_SHIFTS[0])
                if (
                    not other.same_path(bare)
                    or _Place.of(other.run, held=_SHIFTS[0]).key() != _Place.of(bare.run).key()
                ):
                    raise ConfigurationError(
                        f"{self.mechanism.name} shows threshold noise without a question: nothing is claimed."
                    )
            return (self._case(place, unit, bare, {}, 0.0, 0.0),)
        runs = bare.run._gate.save().runs.keys() & asked.keys()
        pools = list(asked.values())
        if runs:
            if len(asked) > 1:
                raise ConfigurationError(
                    f"{self.mechanism.name} measures beside its questions: no exact audit covers that."
                )
            cases = tuple(self._answered(place, unit, bare, *runs))
        elif not all(_alike(layers) for layers in pools):
            raise ConfigurationError(
                f"{self.mechanism.name} measures in a way that no exact audit covers."
            )
        else:
            numbers = sum(len(layers[0].rates) for layers in pools)
            cases = tuple(
                (self._one_number if numbers == 1 else self._many_numbers)(place, unit, pools)
            )
        if any(
            case.measured != {request for layers in pools for request in layers} for case in cases
        ):
            raise ConfigurationError(
                f"{self.mechanism.name} measures again after a decision: no exact audit covers that."
            )
        return cases

    def _one_number(self, place: _Place, unit: int, pools: list[list[Request]]) -> Iterator[_Case]:
        (layers,) = pools
        label, rate = layers[0].label, layers[0].rates[0]
        tried: dict[int, _Trial] = {}

        def at(value: int) -> _Trial:
            if value not in tried:
                tried[value] = self.attempt(place, unit, {label: (value,)})
            return tried[value]

        points: list[int] = []
        if len(layers) == 1:
            points = self._turns(at, place, unit, layers[0], 0)
        else:  # |distance + noise| grows on either side of where it is 0
            standing = 0 if place.last is None else int(place.last.value.sum())
            middle = standing - int(self.stream[unit - 1].sum())
            points = _turning_points(at, -_FAR, middle, middle) + _turning_points(
                at, middle, _FAR, middle
            )
        self._hint = points[0] if points else 0
        starts = [-_FAR, *points]
        for index, first in enumerate(starts):
            last = starts[index + 1] - 1 if index + 1 < len(starts) else _FAR
            if _Place.of(at(first).run).key() != _Place.of(at(last).run).key():
                raise ConfigurationError(
                    f"{self.mechanism.name} remembers a distance that it does not show."
                )
            lowest, highest = (
                -math.inf if index == 0 else first,
                math.inf if index + 1 == len(starts) else last,
            )
            chance = _log_between(rate, len(layers), lowest, highest)
            yield self._case(place, unit, at(first), {label: (first,)}, chance, chance)

    def _turns(
        self, at: Callable[[int], _Trial], place: _Place, unit: int, request: Request, index: int
    ) -> list[int]:
        """Where one of a request's numbers turns the decision: once, or on both sides of what the
        last release would need.
        """
        if not at(-_FAR).same_path(at(_FAR)):
            return _turning_points(at, -_FAR, _FAR, self._hint)
        middle, counts = 0, self.stream[unit - 1]
        if len(request.rates) == len(counts):
            middle = -int(counts[index])
            if place.last is not None and len(place.last.value) == len(counts):
                middle += round(float(place.last.estimate[index]))
        points = _turning_points(at, -_FAR, middle, middle) + _turning_points(
            at, middle, _FAR, middle
        )
        reach = math.ceil(-math.log(_DROPPED) / request.rates[index])
        for value in range(-reach, reach + 1, max(1, 2 * reach // _SPREAD)):
            before = max((point for point in points if point <= value), default=-_FAR)
            if not at(value).same_path(at(before)):
                raise ConfigurationError(
                    f"{self.mechanism.name} decides in a way that no exact audit covers."
                )
        return points

    def _many_numbers(
        self, place: _Place, unit: int, pools: list[list[Request]]
    ) -> Iterator[_Case]:
        boxes = (
            self._boxes(place, unit, pools[0]) if len(pools) == 1 and len(pools[0]) == 1 else None
        )
        return self._every_value(place, unit, pools) if boxes is None else iter(boxes)

    def _boxes(self, place: _Place, unit: int, pool: list[Request]) -> list[_Case] | None:
        """The cases of several distances as boxes, or None if some box is not of one kind."""
        (request,) = pool
        size = len(request.rates)
        sides: list[list[tuple[int, int]]] = []
        for index in range(size):

            def at(value: int, index: int = index) -> _Trial:
                return self.attempt(
                    place,
                    unit,
                    {request.label: (0,) * index + (value,) + (0,) * (size - index - 1)},
                )

            starts = [-_FAR, *self._turns(cache(at), place, unit, request, index)]
            sides.append(
                [
                    (first, last - 1)
                    for first, last in zip(starts, [*starts[1:], _FAR + 1], strict=True)
                ]
            )
        if math.prod(map(len, sides)) > _MOST_CASES:
            raise ConfigurationError(
                "too many groups publish independently of each other for every combination to be tried."
            )
        cases: list[_Case] = []
        for box in product(*sides):
            lowest = self.attempt(place, unit, {request.label: tuple(first for first, _ in box)})
            highest = self.attempt(place, unit, {request.label: tuple(last for _, last in box)})
            if (
                not lowest.same_path(highest)
                or _Place.of(lowest.run).key() != _Place.of(highest.run).key()
            ):
                return None
            chance = math.fsum(
                _log_between(
                    rate,
                    1,
                    -math.inf if first == -_FAR else first,
                    math.inf if last == _FAR else last,
                )
                for rate, (first, last) in zip(request.rates, box, strict=True)
            )
            script = {request.label: tuple(first for first, _ in box)}
            cases.append(self._case(place, unit, lowest, script, chance, chance))
        return cases

    def _every_value(self, place: _Place, unit: int, pools: list[list[Request]]) -> Iterator[_Case]:
        """Every combination of values that is not in a cut tail; the tails are added to the upper
        ends.
        """
        ranges: list[range] = []
        for layers in pools:
            for rate in layers[0].rates:
                reach = 1
                while _log_tail(rate, len(layers), reach) > math.log(_DROPPED):
                    reach += 1
                ranges.append(range(1 - reach, reach))
        if math.prod(map(len, ranges)) > _MOST_CASES:
            raise ConfigurationError(
                "too many values of decision noise: raise epsilon, or use fewer keys."
            )
        found: dict[object, tuple[_Trial, dict[str, Numbers], list[float]]] = {}
        for values in product(*ranges):
            script: dict[str, Numbers] = {}
            chance, used = 0.0, 0
            for layers in pools:
                size = len(layers[0].rates)
                script[layers[0].label] = values[used : used + size]
                chance += _chance_of(layers[0], len(layers), script[layers[0].label])
                used += size
            trial = self.attempt(place, unit, script)
            key = trial.shown, trial.requests, _Place.of(trial.run).key()
            found.setdefault(key, (trial, script, []))[2].append(chance)
        dropped = math.log(2 * len(ranges) * _DROPPED)
        for trial, script, chances in found.values():
            low = _log_sum(chances)
            yield self._case(place, unit, trial, script, low, min(0.0, _log_sum([low, dropped])))

    def _answered(self, place: _Place, unit: int, bare: _Trial, run: str) -> Iterator[_Case]:
        """The cases of a sparse-vector run that is asked once: every way to answer, its chance
        given the answers before.
        """
        questions = _Questions(self, place, unit, bare, run)
        keys, turns = questions.turns(self._turned)
        before = questions.beliefs(keys)
        others = [each for each in place.beliefs if each.run != run or each.key not in keys]
        for answers in product(*((False,) if turn is None else (False, True) for turn in turns)):
            near = tuple(
                _FAR if turn is None else turn if yes else turn - 1
                for turn, yes in zip(turns, answers, strict=True)
            )
            far = tuple(_FAR if yes else -_FAR for yes in answers)
            if not questions.alike(near, far) or not all(
                questions.alike(near, near, shift=shift) for shift in _SHIFTS
            ):
                raise ConfigurationError(
                    f"{self.mechanism.name} answers in a way that no exact audit covers."
                )
            low = high = 0.0
            beliefs = others.copy()
            for old, rate, turn, yes in zip(before, questions.rates, turns, answers, strict=True):
                new = old if turn is None else old.after(ThresholdAnswer(rate, turn, yes))
                if turn is not None:
                    low += new.log_chance()[0] - old.log_chance()[1]
                    high += new.log_chance()[1] - old.log_chance()[0]
                beliefs.append(new)
            yield self._case(
                place,
                unit,
                questions.at(near)[0],
                {questions.label: near},
                low,
                high,
                tuple(beliefs),
            )

    def _case(
        self,
        place: _Place,
        unit: int,
        trial: _Trial,
        script: Mapping[str, Numbers],
        low: float,
        high: float,
        beliefs: tuple[Belief, ...] | None = None,
    ) -> _Case:
        layers = tuple(
            request for request in trial.requests if request.publication and request.rates
        )
        fresh = tuple(key for key, new in enumerate(trial.shown.fresh) if new)
        if trial.shown.smoothed:
            if trial.shown.seen is not None:
                raise ConfigurationError(
                    f"{self.mechanism.name} smooths what a look saw: no exact audit covers that."
                )
            if layers and len(layers[0].rates) == len(trial.shown.numbers):
                fresh = tuple(range(len(trial.shown.numbers)))
        parts: tuple[tuple[Request, Numbers], ...] = ()
        if fresh and layers and _alike(layers) and len(layers[0].rates) == len(fresh):
            parts = ((layers[0], fresh),)
        elif fresh and not trial.shown.seen:
            parts = self._parts(place, unit, trial, script, layers)
        if (fresh and not parts) or (layers and not parts and not _alike(layers)):
            raise ConfigurationError(
                f"{self.mechanism.name} publishes in a way that no exact audit covers."
            )
        if layers and not fresh:
            other = self.attempt(
                place,
                unit,
                {**script, layers[0].label: tuple(range(1001, 1001 + len(layers[0].rates)))},
            )
            if (other.shown.values, other.shown.fresh) != (
                trial.shown.values,
                trial.shown.fresh,
            ) or (_Place.of(other.run).key() != _Place.of(trial.run).key()):
                raise ConfigurationError(
                    f"{self.mechanism.name} shows or remembers noise of a unit that it skips."
                )
        measured = {each for each in trial.requests if not each.publication}
        return _Case(
            low,
            high,
            script,
            trial.shown,
            layers,
            parts,
            measured,
            place.beliefs if beliefs is None else beliefs,
        )

    def _parts(
        self,
        place: _Place,
        unit: int,
        trial: _Trial,
        script: Mapping[str, Numbers],
        layers: Sequence[Request],
    ) -> tuple[tuple[Request, Numbers], ...]:
        """Which keys each of several publications is about: those that move when its noise does.
        Empty if they overlap.
        """
        parts: list[tuple[Request, Numbers]] = []
        for request in layers:
            steps = range(1, len(request.rates) + 1)
            moved = self.attempt(place, unit, {**script, request.label: tuple(steps)}).shown
            by = {
                now - then: key
                for key, (now, then) in enumerate(
                    zip(moved.numbers, trial.shown.numbers, strict=True)
                )
            }
            parts.append((request, tuple(by.get(step, -1) for step in steps)))
        keys = sorted(key for _, part in parts for key in part)
        wanted = [key for key, new in enumerate(trial.shown.fresh) if new or trial.shown.smoothed]
        return tuple(parts) if keys == wanted else ()

    # -- going on --

    def complete(self, place: _Place, unit: int, case: _Case, target: SeenUnit) -> SeenUnit:
        """What this case shows when its counts are the target's: whatever else it shows may follow
        from them.
        """
        fitting = case.noise_for(target) if target.public else None
        return target if fitting is None else self._with_noise(place, unit, case, fitting[0])[0]

    def extend(
        self, branch: _Branch, cases: Sequence[_Case], unit: int, target: SeenUnit
    ) -> list[_Branch]:
        """The places after a unit that showed the target, each confirmed by running the unit with
        that noise.
        """
        found: dict[object, _Branch] = {}
        for case in cases:
            fitting = case.noise_for(target)
            if fitting is None:
                continue
            noise, chance = fitting
            shown, place = self._with_noise(branch.place, unit, case, noise)
            if shown != target:
                if shown.public and not target.public:
                    raise ConfigurationError(
                        f"{self.mechanism.name} shows more than values: an output has its public arrays too."
                    )
                if not target.public or shown.numbers != target.numbers:
                    raise ConfigurationError(
                        f"{self.mechanism.name} does not add its noise to what it shows: nothing is claimed."
                    )
                continue  # the noise that fits the counts shows something else beside them
            new = _Branch(
                place,
                branch.log_low + case.log_low + chance,
                branch.log_high + case.log_high + chance,
            )
            key = place.key() if len(cases) > 2 else id(case)
            old = found.get(key)
            found[key] = new if old is None else _merged(old, new)
        return list(found.values())

    def _with_noise(
        self, place: _Place, unit: int, case: _Case, noise: Mapping[str, Numbers]
    ) -> tuple[SeenUnit, _Place]:
        """What a case shows with this publication noise, and where that leads. Remembered where
        several outputs share it.
        """
        key = tuple(sorted(noise.items()))
        known = case.tried.get(key)
        if known is not None:
            return known
        trial = self.attempt(place, unit, {**case.script, **noise})
        after = _Place.of(trial.run)
        if after.secrets is not None and after.secrets.runs:
            after = replace(after, beliefs=_still_open(after, case.beliefs))
        if trial.shown.public:
            case.tried[key] = trial.shown, after
        return trial.shown, after


class _Questions:
    """A sparse-vector run in a unit in which it is asked: the unit run with question noise that we
    choose.
    """

    def __init__(self, side: _Side, place: _Place, unit: int, bare: _Trial, run: str) -> None:
        self.side, self.place, self.unit, self.run = side, place, unit, run
        self.label, self._opening = f"{run}.question", f"{run}.threshold"
        drawn = [request for request in bare.requests if not request.publication]
        found = {request.label: request.rates for request in drawn}
        self.rates, self._started = found.get(self.label, ()), found.get(self._opening, ())
        if not found.keys() <= {self.label, self._opening} or len(found) < len(drawn):
            self._refuse("asks twice in a unit")
        if len(self.rates) > _MOST_ASKED:
            self._refuse(f"asks about {len(self.rates)} keys, more than {_MOST_ASKED}")
        self._tried: dict[tuple[Numbers, int], tuple[_Trial, _Place]] = {}

    def _refuse(self, what: str) -> NoReturn:
        raise ConfigurationError(f"{self.side.mechanism.name} {what}: no exact audit covers that.")

    def at(self, noise: Numbers, *, shift: int = 0) -> tuple[_Trial, _Place]:
        """The unit with this question noise, and where it leads; `shift` is added to all of it and
        to the threshold noise.
        """
        known = self._tried.get((noise, shift))
        if known is None:
            script = {
                self.label: tuple(each + shift for each in noise),
                self._opening: (shift,) * len(self._started),
            }
            trial = self.side.attempt(self.place, self.unit, script, held=shift)
            known = self._tried[noise, shift] = trial, _Place.of(trial.run, held=shift)
        return known

    def alike(self, one: Numbers, two: Numbers, *, shift: int = 0) -> bool:
        """Whether two kinds of question noise lead to the same release and state; `shift` is for
        the second.
        """
        (first, here), (second, there) = self.at(one), self.at(two, shift=shift)
        return first.same_path(second) and here.key() == there.key()

    def turns(self, hints: dict[tuple[str, int], int]) -> tuple[list[int], list[int | None]]:
        """The keys that are asked about, and the noise from which each is answered yes; None where
        nothing comes of it.
        """
        size = len(self.rates)
        nobody = (-_FAR,) * size
        trial, after = self.at(nobody)
        every = len(trial.run._gate.save().runs[self.run].open)
        keys: list[int] = []
        turns: list[int | None] = []
        for index in range(size):

            def only(value: int, index: int = index) -> Numbers:
                return (*nobody[:index], value, *nobody[index + 1 :])

            other = self.at(only(_FAR))[1]
            closed = [
                key
                for key in range(every)
                if after.is_open(self.run, key) and not other.is_open(self.run, key)
            ]
            if size != every and len(closed) != 1:
                self._refuse("asks about some keys and goes on with all")
            keys.append(index if size == every else closed[0])
            if self.alike(nobody, only(_FAR)):
                turns.append(None)
                continue
            turn = _turn(only, self.alike, -_FAR, _FAR, hints.get((self.run, index), 0))
            hints[self.run, index] = turn
            turns.append(turn)
        return keys, turns

    def beliefs(self, keys: list[int]) -> list[Belief]:
        """What was known of these keys' threshold noise before the question: nothing where a run
        begins with it.
        """
        starting = (
            keys
            if len(self._started) == len(keys)
            else [key for key in keys if not self.place.is_open(self.run, key)]
        )
        if len(starting) != len(self._started):
            self._refuse("closes some runs and asks again")
        known = {each.key: each for each in self.place.beliefs if each.run == self.run}
        known |= {
            key: Belief(self.run, key, rate)
            for key, rate in zip(starting, self._started, strict=True)
        }
        return [known[key] for key in keys]


def _still_open(place: _Place, beliefs: tuple[Belief, ...]) -> tuple[Belief, ...]:
    """What is believed about the runs that are still open there: about each of them, or something
    was overlooked.
    """
    assert place.secrets is not None
    found = tuple(each for each in beliefs if place.is_open(each.run, each.key))
    if len(found) != sum(int(np.count_nonzero(each.open)) for each in place.secrets.runs.values()):
        raise ConfigurationError(
            "a sparse-vector run was opened in a way that no exact audit covers."
        )
    return found


def _alike(layers: Sequence[Request]) -> bool:
    """One or two layers of the same noise."""
    return len(layers) <= 2 and len({layer.rates for layer in layers}) == 1


def _merged(one: _Branch, two: _Branch) -> _Branch:
    return _Branch(
        one.place, _log_sum([one.log_low, two.log_low]), _log_sum([one.log_high, two.log_high])
    )


def _turning_points(at: Callable[[int], _Trial], low: int, high: int, hint: int) -> list[int]:
    """Where a monotone decision changes between `low` and `high`: the first value of each later
    case.
    """
    points: list[int] = []
    while not at(low).same_path(at(high)):
        low = _turn(at, _Trial.same_path, low, high, hint)
        points.append(low)
        if len(points) > _MOST_TURNS:
            raise ConfigurationError(
                "noise that is not called a publication shows in the output: no exact audit covers that."
            )
    return points


def _turn(
    at: Callable[[int], T], same: Callable[[T, T], bool], low: int, high: int, hint: int
) -> int:
    """The first value after `low` that is not as `low` is, if `high` is not."""
    last, first = low, high  # `last` is still as `low`, `first` is not any more
    step, here = 1, min(max(hint, low + 1), high - 1)
    while last < here < first:  # with growing steps away from where it is expected
        if same(at(here), at(low)):
            last, here = here, here + step
        else:
            first, here = here, here - step
        step *= 2
    while first - last > 1:
        middle = (last + first) // 2
        if same(at(middle), at(low)):
            last = middle
        else:
            first = middle
    return first


# -- one output ------------------------------------------------------------------------------------


@dataclass
class _Follower:
    """A stream followed along many outputs; what they have in common is computed once."""

    side: _Side
    _branches: dict[Output, list[_Branch]] = field(default_factory=dict)
    _cases: dict[Output, list[tuple[_Case, ...]]] = field(default_factory=dict)

    def branches(self, shown: Output) -> list[_Branch]:
        known = self._branches.get(shown)
        if known is None:
            if not shown:
                known = list(self.side.start())
            else:
                before = shown[:-1]
                known = [
                    after
                    for branch, cases in zip(self.branches(before), self.cases(before), strict=True)
                    for after in self.side.extend(branch, cases, len(shown), shown[-1])
                ]
            self._branches[shown] = known
        return known

    def cases(self, shown: Output) -> list[tuple[_Case, ...]]:
        """What can follow, for each branch."""
        known = self._cases.get(shown)
        if known is None:
            known = self._cases[shown] = [
                self.side.cases(branch.place, len(shown) + 1) for branch in self.branches(shown)
            ]
        return known

    def promise(self, shown: Output, target: SeenUnit) -> Interval:
        """What `log_likelihood` of the output with the target after it will be, without running
        that unit.
        """
        if target.public:
            return self.log_likelihood((*shown, target))
        logs: list[Interval] = []
        for branch, cases in zip(self.branches(shown), self.cases(shown), strict=True):
            for case in cases:
                fitting = case.noise_for(target)
                if fitting is not None:
                    chance = fitting[1]
                    logs.append(
                        (
                            branch.log_low + case.log_low + chance,
                            branch.log_high + case.log_high + chance,
                        )
                    )
        return _log_sum([low for low, _ in logs]), _log_sum([high for _, high in logs])

    def log_likelihood(self, shown: Output) -> Interval:
        branches = self.branches(shown)
        return _log_sum([each.log_low for each in branches]), _log_sum(
            [each.log_high for each in branches]
        )


def likelihood(
    mechanism: Mechanism[Any],
    stream: IntArray,
    observed: Output,
    *,
    look: tuple[int, IntArray] | None = None,
) -> Interval:
    """The probability of one whole output, between two bounds that differ by rounding only if one
    distance is measured a unit.

    `look` is the unit (from 1) in which somebody looks into the memory and the part of its counts
    that has arrived.

    >>> from penstock import Sample
    >>> low, high = likelihood(Sample(epsilon=2, window=2), np.array([[5], [9]]), output([[5], [5]], [True, False]))
    >>> low <= math.tanh(1) <= high  # P(DLap(1/2) = 0)
    True
    """
    low, high = log_likelihood(mechanism, stream, observed, look=look)
    slack = _slack(low, high)
    return math.exp(low - slack), min(1.0, math.exp(high + slack))


def log_likelihood(
    mechanism: Mechanism[Any],
    stream: IntArray,
    observed: Output,
    *,
    look: tuple[int, IntArray] | None = None,
) -> Interval:
    """The logarithm of `likelihood`, before widening: for outputs far out in the tails."""
    return _Follower(_Side(mechanism, stream, look)).log_likelihood(
        _fitting(observed, np.asarray(stream), look)
    )


def loss_at(mechanism: Mechanism[Any], pair: Pair, observed: Output) -> Interval:
    """ln P(observed | left) − ln P(observed | right), between two bounds.

    If the lower bound is above ε, the mechanism is not ε-private: one output is proof enough. For
    the loss in the other direction ask for the swapped pair.
    """
    left, right = _followers(mechanism, pair)
    look = None if pair.look is None else (pair.look.unit, pair.look.left)
    return _loss(left, right, _fitting(observed, pair.left, look))


def _fitting(observed: Output, stream: IntArray, look: tuple[int, IntArray] | None) -> Output:
    if len(observed) != len(stream):
        raise ConfigurationError(f"the output has {len(observed)} units, the stream {len(stream)}.")
    for unit, shown in enumerate(observed, start=1):
        if (shown.seen is not None) != (look is not None and look[0] == unit):
            raise ConfigurationError(
                f"unit {unit}: an output says what a look saw in the unit of the look, and nowhere else."
            )
    return observed


def _followers(mechanism: Mechanism[Any], pair: Pair) -> tuple[_Follower, _Follower]:
    look = pair.look
    left = _Side(mechanism, pair.left, None if look is None else (look.unit, look.left))
    right = _Side(mechanism, pair.right, None if look is None else (look.unit, look.right))
    return _Follower(left), _Follower(right)


def _loss(left: _Follower, right: _Follower, shown: Output) -> Interval:
    return _difference(left.log_likelihood(shown), right.log_likelihood(shown))


def _slack(*logs: float) -> float:
    """What rounding may have done to logarithms of this size."""
    return ROUNDING + 1e-13 * max((abs(each) for each in logs if each != -math.inf), default=0.0)


def _difference(left: Interval, right: Interval) -> Interval:
    """The loss from two log-likelihoods: infinite where only one of them is possible, 0 where
    neither is.
    """
    if left[1] == right[1] == -math.inf:
        return 0.0, 0.0
    slack = _slack(*left, *right)
    low = -math.inf if left[0] == -math.inf else left[0] - right[1] - slack
    high = math.inf if right[0] == -math.inf else left[1] - right[0] + slack
    return low, high


# -- all outputs -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class ExactLoss:
    """The largest loss over the outputs that were looked at, in either direction.

    It lies between `low` and `high`; `output` is where it is reached. `covered` is the probability
    of those outputs, under whichever stream makes them less likely; `outputs` is how many they are.
    """

    low: float
    high: float
    output: Output
    covered: float
    outputs: int


def exact_loss(
    mechanism: Mechanism[Any],
    pair: Pair,
    *,
    tail: float = 1e-10,
    limit: int = 200_000,
    progress: Callable[[float], None] | None = None,
) -> ExactLoss:
    """The loss itself, over every output that has a probability of at least `tail` under one of the
    two streams.

    What is claimed: no output that was looked at has a loss above `high`, one has at least `low`,
    and an output is looked at with probability `covered` or more, under both streams. Nothing is
    claimed about the single outputs that were left out; all of them together have a probability of
    at most 1 − `covered`, so whatever their losses are, the mechanism is (`high`, 1 −
    `covered`)-private on this pair. That the loss in the tails is no larger is what the proof is
    for.

    `limit` is the most outputs to look at: a larger task is refused, before it is begun where that
    can be foreseen. `progress` is told the probability that has been dealt with.
    """
    if not 0 < tail < 1:
        raise ConfigurationError(f"tail must lie between 0 and 1, not {tail}.")
    left, right = _followers(mechanism, pair)
    foreseen = _foreseen(left, tail)
    if foreseen > 4 * limit:
        raise ConfigurationError(
            f"about {foreseen:.1g} outputs would have to be looked at, and the limit is {limit}: use a shorter stream, fewer "
            "keys, a larger epsilon or a larger tail; or search with worst_output."
        )
    search = _Enumeration(left.side, right.side, pair.units, math.log(tail), limit, progress)
    search.go_on((), left.side.start(), right.side.start())
    covered = min(math.fsum(search.mass_left), math.fsum(search.mass_right))
    return ExactLoss(
        search.low, search.high, search.output, max(0.0, covered - ROUNDING), len(search.mass_left)
    )


def _foreseen(follower: _Follower, tail: float) -> float:
    """Roughly how many outputs have a probability above `tail` if every unit that may publish does."""
    shown: Output = ()
    rates: list[float] = []
    for _ in range(len(follower.side.stream)):
        cases = [case for each in follower.cases(shown) for case in each]
        busiest = max(cases, key=lambda case: sum(case.bare.fresh))
        drawn = busiest.layers if busiest.bare.seen else [request for request, _ in busiest.parts]
        rates += [rate for request in drawn for rate in request.rates]
        shown = (*shown, busiest.bare)
    # Σ rate·|k| ≤ ln(1/tail): the volume of a cross-polytope, each side at least one value wide
    reach = -math.log(tail)
    sides = sorted((2 * reach / rate for rate in rates), reverse=True)
    return math.exp(
        math.fsum(math.log(max(side / number, 1.0)) for number, side in enumerate(sides, start=1))
    )


@dataclass
class _Enumeration:
    """A walk over the tree of outputs, deepest first."""

    left: _Side
    right: _Side
    units: int
    log_tail: float
    limit: int
    progress: Callable[[float], None] | None
    low: float = -math.inf
    high: float = -math.inf
    output: Output = ()
    mass_left: list[float] = field(default_factory=list)
    mass_right: list[float] = field(default_factory=list)

    def go_on(self, shown: Output, left: Sequence[_Branch], right: Sequence[_Branch]) -> None:
        unit = len(shown) + 1
        ways_left = [(branch, self.left.cases(branch.place, unit)) for branch in left]
        ways_right = [(branch, self.right.cases(branch.place, unit)) for branch in right]
        targets = dict.fromkeys(
            [
                *self._targets(self.left, ways_left, unit),
                *self._targets(self.right, ways_right, unit),
            ]
        )
        for target in targets:
            after_left = [
                new
                for branch, cases in ways_left
                for new in self.left.extend(branch, cases, unit, target)
            ]
            after_right = [
                new
                for branch, cases in ways_right
                for new in self.right.extend(branch, cases, unit, target)
            ]
            if unit < self.units:
                self.go_on((*shown, target), after_left, after_right)
            else:
                self._reached((*shown, target), after_left, after_right)

    def _targets(
        self, side: _Side, ways: list[tuple[_Branch, tuple[_Case, ...]]], unit: int
    ) -> Iterator[SeenUnit]:
        """What can be shown next, likely enough under one of the streams."""
        for branch, cases in ways:
            for case in cases:
                room = branch.log_high + case.log_high - self.log_tail
                if room >= 0:
                    for target in _shown(case, room):
                        yield side.complete(branch.place, unit, case, target)

    def _reached(self, shown: Output, left: Sequence[_Branch], right: Sequence[_Branch]) -> None:
        lows = [_log_sum([each.log_low for each in side]) for side in (left, right)]
        highs = [_log_sum([each.log_high for each in side]) for side in (left, right)]
        bounds = (lows[0], highs[0]), (lows[1], highs[1])
        for one, two in (bounds, bounds[::-1]):
            low, high = _difference(one, two)
            self.high = max(self.high, high)
            if low > self.low:
                self.low, self.output = low, shown
        self.mass_left.append(math.exp(lows[0]))
        self.mass_right.append(math.exp(lows[1]))
        if len(self.mass_left) > self.limit:
            raise ConfigurationError(
                f"more than {self.limit} outputs would have to be looked at: use a shorter stream, fewer keys, a larger "
                "epsilon or a larger tail; or search with worst_output."
            )
        if self.progress is not None and len(self.mass_left) % 1000 == 0:
            self.progress(math.fsum(self.mass_left))


def _shown(case: _Case, room: float) -> Iterator[SeenUnit]:
    """All that a case can show with publication noise whose log-chance is at least −room."""
    bare = case.bare
    places = [key for _, keys in case.parts for key in keys]
    if not bare.seen:
        layers = len(case.layers) if len(case.parts) == 1 else 1
        for noise in _likely(
            [(rate, layers) for request, _ in case.parts for rate in request.rates], room
        ):
            yield _moved(bare, places, noise)
        return
    rates = [(rate, 1) for rate in case.layers[0].rates]
    second = [(rate, 1) for layer in case.layers[1:] for rate in layer.rates] if places else []
    for noise in _likely([*rates, *second], room):
        first, rest = noise[: len(rates)], noise[len(rates) :] or (0,) * len(rates)
        shown = (
            _moved(bare, places, tuple(one + two for one, two in zip(first, rest, strict=True)))
            if places
            else bare
        )
        seen = tuple(then + now for then, now in zip(bare.seen, first, strict=True))
        yield SeenUnit(shown.values, shown.fresh, seen, shown.public)


def _moved(bare: SeenUnit, places: list[int], noise: Sequence[int]) -> SeenUnit:
    numbers = list(bare.numbers)
    for place, extra in zip(places, noise, strict=True):
        numbers[place] += extra
    return _with_numbers(bare, tuple(numbers))


def _with_numbers(bare: SeenUnit, numbers: Numbers) -> SeenUnit:
    """The same with other counts; what follows from them by smoothing is not yet true."""
    if not bare.smoothed:
        return SeenUnit(numbers, bare.fresh, bare.seen, bare.public)
    public = tuple((name, numbers if name == NOISY else array) for name, array in bare.public)
    return SeenUnit(bare.values, bare.fresh, bare.seen, public)


def _likely(laws: list[tuple[float, int]], room: float) -> Iterator[Numbers]:
    """All noise vectors whose log-chance is at least −room."""
    if not laws:
        yield ()
        return
    (rate, layers), rest = laws[0], laws[1:]
    spare = room + math.fsum(_log_chance(each, number, 0) for each, number in rest)
    far = 0
    while (chance := _log_chance(rate, layers, far)) >= -spare:
        for others in _likely(rest, room + chance):
            yield (far, *others)
            if far:
                yield (-far, *others)
        far += 1


# -- the worst of many outputs ---------------------------------------------------------------------


@dataclass(frozen=True)
class Worst:
    """An output with a large loss, and between which bounds its loss lies; `swapped` if right is
    the likelier stream.
    """

    low: float
    high: float
    output: Output
    swapped: bool


def worst_output(
    mechanism: Mechanism[Any],
    pair: Pair,
    *,
    starts: int = 2,
    seed: int = 0,
    width: int = 3,
    patterns: int = 12,
    sweeps: int = 5,
) -> Worst:
    """Search for an output with a large loss, where there are too many to look at all of them.

    Unit by unit, the outputs with the largest loss so far are kept, `width` for each of the best
    `patterns` of publishing and skipping, and continued by skipping or by values below, at and
    above the counts; the best is then improved by changing single units, in at most `sweeps`
    rounds. `starts` searches with other values, in both directions. The bounds are those of
    `loss_at`: a lower bound above ε convicts; finding nothing proves nothing.
    """
    generator = np.random.default_rng(seed)
    followers = _followers(mechanism, pair)
    found: list[tuple[float, bool, Output, list[int]]] = []
    for _ in range(starts):
        offsets = [0, 1, *sorted({int(value) for value in generator.geometric(0.15, size=3) + 1})]
        for swapped in (False, True):
            one, two = followers[::-1] if swapped else followers
            shown = _beam(one, two, offsets, width, patterns, generator)
            found.append((_loss(one, two, shown)[0], swapped, shown, offsets))
    if not found:
        raise ConfigurationError("worst_output needs at least one start.")
    _, swapped, shown, offsets = max(found, key=lambda each: each[0])
    one, two = followers[::-1] if swapped else followers
    shown = _climb(one, two, shown, offsets, sweeps)
    low, high = _loss(one, two, shown)
    return Worst(low, high, shown, swapped)


def _beam(
    one: _Follower,
    two: _Follower,
    offsets: list[int],
    width: int,
    patterns: int,
    generator: np.random.Generator,
) -> Output:
    beam: list[Output] = [()]
    for _ in range(len(one.side.stream)):
        by_pattern: dict[object, list[tuple[float, float, Output]]] = {}
        for shown in beam:
            pattern = tuple(each.fresh for each in shown)
            for target in _candidates(one, two, shown, offsets):
                low, _ = _difference(one.promise(shown, target), two.promise(shown, target))
                entry = (
                    low,
                    float(generator.random()),
                    (*shown, target),
                )  # ties are broken by lot: the kept ones differ
                by_pattern.setdefault((*pattern, target.fresh), []).append(entry)
        kept = sorted(
            (sorted(entries, reverse=True)[:width] for entries in by_pattern.values()), reverse=True
        )[:patterns]
        beam = [shown for entries in kept for _, _, shown in entries]
    return max(beam, key=lambda shown: _loss(one, two, shown)[0])


def _candidates(
    one: _Follower, two: _Follower, shown: Output, offsets: list[int]
) -> list[SeenUnit]:
    """What may be shown next: for each decision, values at and beyond the counts of either stream,
    per key the same way.
    """
    ways = [
        (follower.side, branch.place, case)
        for follower in (one, two)
        for branch, cases in zip(follower.branches(shown), follower.cases(shown), strict=True)
        for case in cases
    ]
    if any(case.bare.public for _, _, case in ways):
        rows = _around([case.bare.numbers for _, _, case in ways], offsets)
        return list(
            dict.fromkeys(each for way in ways for each in _completed(*way, len(shown) + 1, rows))
        )
    bares: dict[Flags, list[SeenUnit]] = {}
    for _, _, case in ways:
        bares.setdefault(case.bare.fresh, []).append(case.bare)
    found: dict[SeenUnit, None] = {}
    for fresh, group in bares.items():
        values = (
            _around([bare.values for bare in group], offsets) if any(fresh) else [group[0].values]
        )
        last = group[0].values
        views: list[Numbers | None] = [group[0].seen]
        if group[0].seen:
            views = [*_around([bare.seen for bare in group if bare.seen], offsets)]
        for value, view in product(values, views):
            kept = tuple(
                now if new else then for now, then, new in zip(value, last, fresh, strict=True)
            )
            found[SeenUnit(kept, fresh, view)] = None
    return list(found)


def _completed(
    side: _Side, place: _Place, case: _Case, unit: int, rows: list[Numbers]
) -> Iterator[SeenUnit]:
    """What a case shows with these counts where it adds noise to them."""
    moving = {key for _, keys in case.parts for key in keys}
    for row in rows if moving else [case.bare.numbers]:
        numbers = tuple(
            row[key] if key in moving else old for key, old in enumerate(case.bare.numbers)
        )
        yield side.complete(place, unit, case, _with_numbers(case.bare, numbers))


def _around(rows: Sequence[Numbers], offsets: list[int]) -> list[Numbers]:
    lowest, highest = (
        tuple(map(min, zip(*rows, strict=True))),
        tuple(map(max, zip(*rows, strict=True))),
    )
    around = [tuple(value - offset for value in lowest) for offset in offsets]
    return around + [tuple(value + offset for value in highest) for offset in offsets]


def _climb(
    one: _Follower, two: _Follower, shown: Output, offsets: list[int], sweeps: int
) -> Output:
    """Change one unit at a time, a fresh value here, a look there, as long as the loss grows by a
    thousandth of itself.
    """
    keys = np.flatnonzero((one.side.stream != two.side.stream).any(axis=0)).tolist()
    best = _loss(one, two, shown)[0]
    for _ in range(sweeps):
        before = best
        for unit in range(len(shown)):
            for changed in _variants(shown, unit, keys, offsets):
                low = _loss(one, two, changed)[0]
                if low > best + abs(best) / 1000 + ROUNDING:
                    shown, best = changed, low
        if best == before:
            break
    return shown


def _variants(shown: Output, unit: int, keys: list[int], offsets: list[int]) -> Iterator[Output]:
    """The output with a unit's release moved in one of these keys, wherever it is repeated later,
    or with its look moved.
    """
    target = shown[unit]
    for offset, sign, key in product(offsets, (-1, 1), keys):
        if offset and target.fresh[key] and not target.smoothed:
            changed, standing = list(shown), True
            for later in range(unit, len(shown)):
                standing = standing and (later == unit or not shown[later].fresh[key])
                if standing:
                    values = list(shown[later].values)
                    values[key] += sign * offset
                    changed[later] = replace(shown[later], values=tuple(values))
            yield tuple(changed)
        if offset and target.seen:
            seen = list(target.seen)
            seen[key] += sign * offset
            yield (*shown[:unit], replace(target, seen=tuple(seen)), *shown[unit + 1 :])
