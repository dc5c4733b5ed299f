"""The exact loss over all outputs of a small stream."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from penstock.core.errors import ConfigurationError
from penstock.lab.audit.exact.decision_case import DecisionCase, WeightedState
from penstock.lab.audit.exact.loss import ROUNDING, LikelihoodCache, likelihood_caches, loss_of
from penstock.lab.audit.exact.noise_law import log_probability, log_sum
from penstock.lab.audit.exact.output import NOISY, Numbers, Output, SeenUnit
from penstock.lab.audit.exact.stream_follower import StreamFollower
from penstock.lab.audit.model import Pair
from penstock.private.mechanisms.base import Mechanism

_REMEDY: Final = (
    "use a shorter stream, fewer keys, a larger epsilon or a larger tail; "
    "or search with worst_output."
)


@dataclass(frozen=True)
class ExactLoss:
    """The largest loss over the outputs that were enumerated, in either direction.

    The loss lies between `low` and `high` and is reached at `output`. `covered` is the probability
    of the enumerated outputs under the stream that makes them less likely. `outputs` is their
    number.
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
    """The largest loss over every output of probability at least `tail` under one of two streams.

    The claim: no enumerated output has a loss above `high`, one has at least `low`, and under both
    streams an output is enumerated with probability `covered` or more. Nothing is claimed about a
    single output that was left out. All of those together have probability at most 1 − `covered`,
    so the mechanism is (`high`, 1 − `covered`)-private on this pair. The proof of the mechanism has
    to show that the loss in the tails is no larger.

    Parameters
    ----------
    mechanism : Mechanism
        The mechanism, with its parameters.
    pair : Pair
        Two neighbouring streams.
    tail : float
        Outputs that are less likely than this under both streams are left out. Default: 1e-10.
    limit : int
        The largest number of outputs to enumerate. A larger task is refused, before it begins if
        that can be foreseen. Default: 200,000.
    progress : callable
        Called with the probability that has been enumerated. Default: none.
    """
    if not 0 < tail < 1:
        raise ConfigurationError(f"tail must lie between 0 and 1, not {tail}.")
    left, right = likelihood_caches(mechanism, pair)
    foreseen = _expected_outputs(left, tail)
    if foreseen > 4 * limit:
        raise ConfigurationError(
            f"about {foreseen:.1g} outputs would have to be looked at, and the limit is {limit}: "
            f"{_REMEDY}"
        )
    walk = OutputEnumeration(
        left.follower, right.follower, pair.units, math.log(tail), limit, progress
    )
    walk.visit((), left.follower.start(), right.follower.start())
    covered = min(math.fsum(walk.mass_left), math.fsum(walk.mass_right))
    return ExactLoss(
        walk.low, walk.high, walk.output, max(0.0, covered - ROUNDING), len(walk.mass_left)
    )


def _expected_outputs(cache: LikelihoodCache, tail: float) -> float:
    """The rough number of outputs of probability above `tail`, if every unit publishes."""
    shown: Output = ()
    rates: list[float] = []
    for _ in range(len(cache.follower.runner.stream)):
        cases = [case for each in cache.cases(shown) for case in each]
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
class OutputEnumeration:
    """A depth-first walk over the tree of outputs."""

    left: StreamFollower
    right: StreamFollower
    units: int
    log_tail: float
    limit: int
    progress: Callable[[float], None] | None
    low: float = -math.inf
    high: float = -math.inf
    output: Output = ()
    mass_left: list[float] = field(default_factory=list)
    mass_right: list[float] = field(default_factory=list)

    def visit(
        self, shown: Output, left: Sequence[WeightedState], right: Sequence[WeightedState]
    ) -> None:
        """Enumerate all outputs that begin with `shown`."""
        unit = len(shown) + 1
        ways_left = [(branch, self.left.cases(branch.state, unit)) for branch in left]
        ways_right = [(branch, self.right.cases(branch.state, unit)) for branch in right]
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
                self.visit((*shown, target), after_left, after_right)
            else:
                self._record((*shown, target), after_left, after_right)

    def _targets(
        self,
        follower: StreamFollower,
        ways: list[tuple[WeightedState, tuple[DecisionCase, ...]]],
        unit: int,
    ) -> Iterator[SeenUnit]:
        """The outputs of the next unit that are likely enough under one stream."""
        for branch, cases in ways:
            for case in cases:
                room = branch.log_high + case.log_high - self.log_tail
                if room >= 0:
                    for target in _possible_outputs(case, room):
                        yield follower.complete(branch.state, unit, case, target)

    def _record(
        self, shown: Output, left: Sequence[WeightedState], right: Sequence[WeightedState]
    ) -> None:
        lows = [log_sum([each.log_low for each in side]) for side in (left, right)]
        highs = [log_sum([each.log_high for each in side]) for side in (left, right)]
        bounds = (lows[0], highs[0]), (lows[1], highs[1])
        for one, two in (bounds, bounds[::-1]):
            low, high = loss_of(one, two)
            self.high = max(self.high, high)
            if low > self.low:
                self.low, self.output = low, shown
        self.mass_left.append(math.exp(lows[0]))
        self.mass_right.append(math.exp(lows[1]))
        if len(self.mass_left) > self.limit:
            raise ConfigurationError(
                f"more than {self.limit} outputs would have to be looked at: {_REMEDY}"
            )
        if self.progress is not None and len(self.mass_left) % 1000 == 0:
            self.progress(math.fsum(self.mass_left))


def _possible_outputs(case: DecisionCase, room: float) -> Iterator[SeenUnit]:
    """The outputs of a case with publication noise of log-probability at least −room."""
    bare = case.bare
    places = [key for _, keys in case.parts for key in keys]
    if not bare.seen:
        layers = len(case.layers) if len(case.parts) == 1 else 1
        for noise in _likely_noise(
            [(rate, layers) for request, _ in case.parts for rate in request.rates], room
        ):
            yield _with_noise_added(bare, places, noise)
        return
    rates = [(rate, 1) for rate in case.layers[0].rates]
    second = [(rate, 1) for layer in case.layers[1:] for rate in layer.rates] if places else []
    for noise in _likely_noise([*rates, *second], room):
        first, rest = noise[: len(rates)], noise[len(rates) :] or (0,) * len(rates)
        shown = (
            _with_noise_added(
                bare, places, tuple(one + two for one, two in zip(first, rest, strict=True))
            )
            if places
            else bare
        )
        seen = tuple(then + now for then, now in zip(bare.seen, first, strict=True))
        yield SeenUnit(shown.values, shown.fresh, seen, shown.public)


def _with_noise_added(bare: SeenUnit, places: list[int], noise: Sequence[int]) -> SeenUnit:
    numbers = list(bare.numbers)
    for place, extra in zip(places, noise, strict=True):
        numbers[place] += extra
    return with_numbers(bare, tuple(numbers))


def with_numbers(bare: SeenUnit, numbers: Numbers) -> SeenUnit:
    """The same output with other counts; arrays that follow from them are not yet correct."""
    if not bare.smoothed:
        return SeenUnit(numbers, bare.fresh, bare.seen, bare.public)
    public = tuple((name, numbers if name == NOISY else array) for name, array in bare.public)
    return SeenUnit(bare.values, bare.fresh, bare.seen, public)


def _likely_noise(laws: list[tuple[float, int]], room: float) -> Iterator[Numbers]:
    """All noise vectors of log-probability at least −room."""
    if not laws:
        yield ()
        return
    (rate, layers), rest = laws[0], laws[1:]
    spare = room + math.fsum(log_probability(each, number, 0) for each, number in rest)
    far = 0
    while (chance := log_probability(rate, layers, far)) >= -spare:
        for others in _likely_noise(rest, room + chance):
            yield (far, *others)
            if far:
                yield (-far, *others)
        far += 1
