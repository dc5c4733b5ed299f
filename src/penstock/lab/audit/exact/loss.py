"""The probability of one output, and its privacy loss on a pair of streams."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import numpy as np

from penstock.core.arrays import IntArray
from penstock.core.errors import ConfigurationError
from penstock.lab.audit.exact.decision_case import DecisionCase, WeightedState
from penstock.lab.audit.exact.noise_law import log_sum
from penstock.lab.audit.exact.output import Output, SeenUnit
from penstock.lab.audit.exact.stream_follower import StreamFollower
from penstock.lab.audit.model import Pair
from penstock.private.mechanisms.base import Mechanism

ROUNDING: Final = 1e-9
"""Every loss is widened by at least this much, for the rounding of floats."""


Interval: TypeAlias = tuple[float, float]


@dataclass
class LikelihoodCache:
    """The likelihoods of many outputs of one stream; common beginnings are computed once."""

    follower: StreamFollower
    _branches: dict[Output, list[WeightedState]] = field(default_factory=dict)
    _cases: dict[Output, list[tuple[DecisionCase, ...]]] = field(default_factory=dict)

    def branches(self, shown: Output) -> list[WeightedState]:
        """The states in which this output, or beginning of one, may have left the run."""
        known = self._branches.get(shown)
        if known is None:
            if not shown:
                known = list(self.follower.start())
            else:
                before = shown[:-1]
                known = [
                    after
                    for branch, cases in zip(self.branches(before), self.cases(before), strict=True)
                    for after in self.follower.extend(branch, cases, len(shown), shown[-1])
                ]
            self._branches[shown] = known
        return known

    def cases(self, shown: Output) -> list[tuple[DecisionCase, ...]]:
        """The cases of the next unit, for each branch."""
        known = self._cases.get(shown)
        if known is None:
            known = self._cases[shown] = [
                self.follower.cases(branch.state, len(shown) + 1) for branch in self.branches(shown)
            ]
        return known

    def log_likelihood_with(self, shown: Output, target: SeenUnit) -> Interval:
        """The log-likelihood of an output with one more unit, without running that unit."""
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
        return log_sum([low for low, _ in logs]), log_sum([high for _, high in logs])

    def log_likelihood(self, shown: Output) -> Interval:
        """Two bounds on the logarithm of the probability of an output."""
        branches = self.branches(shown)
        return log_sum([each.log_low for each in branches]), log_sum(
            [each.log_high for each in branches]
        )


def likelihood(
    mechanism: Mechanism[Any],
    stream: IntArray,
    observed: Output,
    *,
    look: tuple[int, IntArray] | None = None,
) -> Interval:
    """The probability of one whole output, between two bounds.

    The bounds differ only by rounding if at most one distance is measured per unit.

    Parameters
    ----------
    mechanism : Mechanism
        The mechanism, with its parameters.
    stream : array
        The counts, units × keys.
    observed : Output
        The output, one `SeenUnit` per unit.
    look : tuple of int and array
        The unit (from 1) of a look into the memory, and the part of its counts that has arrived.
        Default: nobody looks.

    >>> from penstock import Sample
    >>> from penstock.lab.audit.exact import output
    >>> shown = output([[5], [5]], [True, False])
    >>> low, high = likelihood(Sample(epsilon=2, window=2), np.array([[5], [9]]), shown)
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
    return LikelihoodCache(StreamFollower(mechanism, stream, look)).log_likelihood(
        checked_output(observed, np.asarray(stream), look)
    )


def loss_at(mechanism: Mechanism[Any], pair: Pair, observed: Output) -> Interval:
    """ln P(observed | left) − ln P(observed | right), between two bounds.

    A lower bound above ε proves that the mechanism is not ε-private: one output is enough. For the
    loss in the other direction use `pair.swapped()`.
    """
    left, right = likelihood_caches(mechanism, pair)
    look = None if pair.look is None else (pair.look.unit, pair.look.left)
    return loss_between(left, right, checked_output(observed, pair.left, look))


def checked_output(observed: Output, stream: IntArray, look: tuple[int, IntArray] | None) -> Output:
    """Refuse an output that does not fit the stream or the look."""
    if len(observed) != len(stream):
        raise ConfigurationError(
            f"the output has {len(observed)} units, but the stream has {len(stream)}."
        )
    for unit, shown in enumerate(observed, start=1):
        if (shown.seen is not None) != (look is not None and look[0] == unit):
            raise ConfigurationError(
                f"unit {unit}: an output must say what a look saw in the unit of the look, "
                "and in no other unit."
            )
    return observed


def likelihood_caches(
    mechanism: Mechanism[Any], pair: Pair
) -> tuple[LikelihoodCache, LikelihoodCache]:
    """One cache per stream of a pair."""
    look = pair.look
    left = StreamFollower(mechanism, pair.left, None if look is None else (look.unit, look.left))
    right = StreamFollower(mechanism, pair.right, None if look is None else (look.unit, look.right))
    return LikelihoodCache(left), LikelihoodCache(right)


def loss_between(left: LikelihoodCache, right: LikelihoodCache, shown: Output) -> Interval:
    """The loss at an output, between two bounds."""
    return loss_of(left.log_likelihood(shown), right.log_likelihood(shown))


def _slack(*logs: float) -> float:
    """The largest effect of rounding on logarithms of this size."""
    return ROUNDING + 1e-13 * max((abs(each) for each in logs if each != -math.inf), default=0.0)


def loss_of(left: Interval, right: Interval) -> Interval:
    """The loss from two log-likelihoods.

    It is infinite where only one of them is possible, and 0 where neither is.
    """
    if left[1] == right[1] == -math.inf:
        return 0.0, 0.0
    slack = _slack(*left, *right)
    low = -math.inf if left[0] == -math.inf else left[0] - right[1] - slack
    high = math.inf if right[0] == -math.inf else left[1] - right[0] + slack
    return low, high
