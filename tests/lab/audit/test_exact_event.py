"""The exact audit of mechanisms with secrets between units: sums, folds, threshold noise."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from penstock.core.arrays import BoolArray, IntArray
from penstock.core.domain import Domain
from penstock.core.errors import ConfigurationError
from penstock.core.exact import exact
from penstock.core.private import Private, unseal
from penstock.core.released import Released
from penstock.lab.audit.exact import (
    ROUNDING,
    Output,
    ScriptedNoise,
    SeenUnit,
    exact_loss,
    likelihood,
    log_likelihood,
    loss_at,
    output,
    worst_output,
)
from penstock.lab.audit.exact.thresholds import Belief, ThresholdAnswer
from penstock.lab.audit.model import Pair
from penstock.private.gate import Gate, Price
from penstock.private.gate.pots import Pot
from penstock.private.mechanisms.base import Mechanism
from penstock.private.mechanisms.dsat import AdaptiveThreshold
from penstock.private.mechanisms.dsft import FixedThreshold
from penstock.private.mechanisms.laplace import Laplace
from penstock.private.mechanisms.pegasus import Pegasus, advance
from penstock.private.mechanisms.rg import RetroactiveGrouping
from penstock.private.mechanisms.sw_tree import WindowTree
from penstock.testing import TestNoise

from tests.lab.holding import Holding


def pair(left: Any, right: Any) -> Pair:
    return Pair("test", np.array(left), np.array(right))


# -- small mechanisms that keep what the shipped ones keep -----------------------------------------


@dataclass(frozen=True)
class Begun:
    fresh: BoolArray
    total: IntArray
    """Of the noisy counts since the group began."""


@dataclass(frozen=True, kw_only=True)
class Grouping(Mechanism[Begun]):
    """Groups of units whose counts are within 3 of the first one's, and the sum of each group so
    far: a small `pegasus`.
    """

    name = "grouping"
    State = Begun

    def start(self, domain: Domain) -> Begun:
        return Begun(np.ones(domain.size, np.bool_), np.zeros(domain.size, np.int64))

    @property
    def price(self) -> Price:
        share = self.total // (8 * self.window)
        return Price(share * 2, share)

    def step(self, state: Begun, unit: Private, gate: Gate) -> tuple[Begun, Released]:
        fresh = state.fresh

        def fold(first: Any, counts: IntArray) -> tuple[Any, IntArray]:
            first = counts if first is None else np.where(fresh, counts, first)
            return first, np.abs(counts - first)

        moved = gate.runs.keep("group", fold, unit, price=self.price, stability=1)
        ended = gate.runs.ask("group", moved, threshold=3, price=self.price)
        noisy = gate.laplace(unit, epsilon=self.total // (2 * self.window), label="publish").value
        total = noisy + state.total
        released = gate.repeat(Released.nothing(len(total), self.guarantee))
        public = {"noisy": noisy, "start": ended.astype(np.int64)}
        return Begun(ended, np.where(ended, 0, total)), replace(
            released, value=total, repeated=False, public=public
        )


@dataclass(frozen=True)
class EventPlace:
    last: Released
    done: bool


@dataclass(frozen=True, kw_only=True)
class Asking(Mechanism[EventPlace]):
    """One priced run of questions over all keys in every block of w units, until the first positive
    answer.
    """

    name = "asking"
    State = EventPlace

    def start(self, domain: Domain) -> EventPlace:
        return EventPlace(Released.nothing(domain.size, self.guarantee), False)

    def step(self, state: EventPlace, unit: Private, gate: Gate) -> tuple[EventPlace, Released]:
        done = state.done
        if gate.unit % self.window == 1 % self.window:
            gate.runs.close("watch")
            done = False
        price = Price(self.total // 8, self.total // (4 * self.window))
        if (
            done
            or not gate.runs.ask(
                "watch", unit.distance(state.last.value), threshold=2, price=price
            )[0]
        ):
            return EventPlace(state.last, done), gate.repeat(state.last)
        fresh = gate.laplace(unit, epsilon=self.total // 8, label="publish")
        return EventPlace(fresh, True), fresh


# -- against a naive twin --------------------------------------------------------------------------


class MoreError(Exception):
    """A draw that was not given."""


def chance(rate: float, value: int) -> float:
    return math.tanh(rate / 2) * math.exp(-rate * abs(value))


def naive(mechanism: Mechanism[Any], stream: IntArray, least: float) -> dict[Output, float]:
    """Every output with its probability, by running the whole stream once for every combination of
    noise above `least`.
    """
    found: dict[Output, float] = defaultdict(float)

    def go_on(values: tuple[int, ...]) -> None:
        given = iter(values)
        asked: list[float] = []

        class EventBranching(ScriptedNoise):
            weight = 1.0

            def _give(self, label: str, rates: tuple[float, ...]) -> IntArray:
                row = []
                for rate in rates:
                    value = next(given, None)
                    if value is None:
                        asked.append(rate)
                        raise MoreError
                    row.append(value)
                    self.weight *= chance(rate, value)
                return np.array(row, np.int64)

        noise = EventBranching({})
        run = mechanism.run(stream.shape[1], noise=noise)
        try:
            shown = tuple(SeenUnit.of(run.step(counts)) for counts in stream)
        except MoreError:
            far = 0
            while noise.weight * chance(asked[0], far) > least:
                for value in {far, -far}:
                    go_on((*values, value))
                far += 1
            return
        found[shown] += noise.weight

    go_on(())
    return found


TWINS = [
    (Holding(epsilon=8, window=2), [[2], [1], [1]]),
    (Holding(epsilon=8, window=2), [[2, 0], [1, 1]]),
    (RetroactiveGrouping(epsilon=8, watch="0.4"), [[2], [3], [1]]),
    (RetroactiveGrouping(epsilon=14, watch="0.4", caution=0), [[2], [3], [3]]),
    (RetroactiveGrouping(epsilon=14, watch="0.4"), [[2, 0], [3, 1]]),
    (Grouping(epsilon=14, window=1), [[2], [4]]),
    (Grouping(epsilon=26, window=1), [[2], [5], [4]]),
    (Grouping(epsilon=30, window=1), [[2, 0], [5, 1]]),
    (Asking(epsilon=24, window=3), [[2], [4]]),
    (Asking(epsilon=44, window=2), [[1], [4], [4]]),
    (FixedThreshold(epsilon=28, window=3, horizon=3, releases=2, threshold=1), [[1], [3], [3]]),
    pytest.param(
        AdaptiveThreshold(epsilon=38, window=4, horizon=4, releases=3, threshold=2, population=1),
        [[1], [3], [2], [3]],
        marks=pytest.mark.nightly,
    ),
]


@pytest.mark.parametrize(("mechanism", "stream"), TWINS)
def test_a_likelihood_is_what_running_every_noise_gives(
    mechanism: Mechanism[Any], stream: Any
) -> None:
    stream = np.array(stream)
    found = naive(mechanism, stream, 1e-9)
    missing = 1 - math.fsum(found.values())
    assert -1e-9 < missing < 1e-4
    frequent = [item for item in found.items() if item[1] > 1e-5]
    assert len(frequent) >= 5
    for shown, expected in frequent:
        low, high = likelihood(mechanism, stream, shown)
        assert low <= high <= low * (1 + 1e-8)
        assert low - missing <= expected <= high
        assert expected == pytest.approx(low, rel=0.005)


def test_a_likelihood_of_pegasus_is_what_running_every_noise_gives() -> None:
    """Budgets so large that the noise on deviations, in parts of 1/256, has few values; the rest of
    the code is as ever.
    """
    mechanism, stream = Pegasus(epsilon=6000, perturb="0.0008", theta=60), np.array([[1], [1], [1]])
    found = naive(mechanism, stream, 1e-9)
    missing = 1 - math.fsum(found.values())
    assert missing < 1e-4
    frequent = [item for item in found.items() if item[1] > 1e-5]
    assert len({tuple(dict(unit.public)["start"] for unit in shown) for shown, _ in frequent}) == 3
    for shown, expected in frequent:
        low, high = likelihood(mechanism, stream, shown)
        assert low - missing <= expected <= high
        assert expected == pytest.approx(low, rel=0.005)


@pytest.mark.nightly  # quick twin: the test of every noise above
@pytest.mark.parametrize(
    ("mechanism", "stream"),
    [
        (RetroactiveGrouping(epsilon=6, watch="0.3", caution=4), [[2], [3], [3]]),
        (Pegasus(epsilon=6, theta=2), [[2], [4], [4]]),
    ],
    ids=["rg", "pegasus"],
)
def test_a_likelihood_is_the_share_of_runs_that_show_it(
    mechanism: Mechanism[Any], stream: Any
) -> None:
    """100,000 runs, as keys; one of 10 shares is further off than 5.5 standard deviations once in a
    million times.
    """
    runs, stream = 100_000, np.array(stream)
    run = mechanism.run(runs, noise=TestNoise(5))
    counted: dict[Output, int] = defaultdict(int)
    for shown in zip(*(_by_key(run.step(np.tile(counts, runs))) for counts in stream), strict=True):
        counted[shown] += 1
    for shown, times in sorted(counted.items(), key=lambda item: -item[1])[:10]:
        low, high = likelihood(mechanism, stream, shown)
        assert abs(times / runs - low) <= 5.5 * math.sqrt(low * (1 - low) / runs)
        assert high - low <= 1e-8


@pytest.mark.parametrize(
    "mechanism",
    [
        RetroactiveGrouping(epsilon=2, watch="0.4", caution=1),
        Pegasus(epsilon=4, theta=2, smoother="mean"),
    ],
    ids=["rg", "pegasus"],
)
def test_two_keys_are_as_likely_as_each_by_itself(mechanism: Mechanism[Any]) -> None:
    stream = np.array([[3, 0], [9, 1], [8, 0], [3, 9]])
    patterns = set()
    for seed in range(6):
        run = mechanism.run(2, noise=TestNoise(seed))
        released = [run.step(counts) for counts in stream]
        together = log_likelihood(mechanism, stream, tuple(map(SeenUnit.of, released)))
        apart = zip(*map(_by_key, released), strict=True)
        alone = [
            log_likelihood(mechanism, stream[:, [key]], shown)[0] for key, shown in enumerate(apart)
        ]
        assert together[0] == pytest.approx(sum(alone), abs=1e-9)
        assert together[1] - together[0] < 1e-9
        patterns.add(tuple(dict(unit.public)["start"] for unit in map(SeenUnit.of, released)))
    assert len(patterns) >= 4


def _by_key(released: Released) -> list[SeenUnit]:
    """A release over many keys as that of a run over each."""
    shown = SeenUnit.of(released)
    columns = zip(*(array for _, array in shown.public), strict=True)
    names = [name for name, _ in shown.public]
    return [
        SeenUnit(
            (value,),
            (new,),
            None,
            tuple((name, (each,)) for name, each in zip(names, column, strict=True)),
        )
        for value, new, column in zip(shown.values, shown.fresh, columns, strict=True)
    ]


@pytest.mark.parametrize("rates", [(0.7, 0.3), (2.0, 1.5)])
def test_the_chance_of_answers_is_a_sum_over_the_threshold_noise(
    rates: tuple[float, float],
) -> None:
    rate, asking = rates
    answers = [
        ThresholdAnswer(asking, 2, False),
        ThresholdAnswer(asking, -1, False),
        ThresholdAnswer(asking, 5, True),
    ]
    belief = Belief("run", 0, rate)
    for answer in answers:
        belief = belief.after(answer)
    low, high = belief.log_chance()
    reach = range(-200, 201)
    expected = math.fsum(
        chance(rate, threshold)
        * math.prod(
            math.fsum(
                chance(asking, question)
                for question in reach
                if (question - threshold >= each.turn) is each.yes
            )
            for each in answers
        )
        for threshold in reach
    )
    assert math.exp(low) == pytest.approx(expected, rel=1e-9)
    assert 0 <= high - low < 1e-12


def test_answers_far_out_keep_their_digits() -> None:
    """Ten times no where each is next to impossible: the threshold noise must be far out, and is
    summed there.
    """
    belief = Belief("run", 0, 0.1)
    for _ in range(10):
        belief = belief.after(ThresholdAnswer(0.05, -2000, False))
    low, high = belief.log_chance()
    assert -1000 < low < -150
    assert high - low < 1e-9


# -- shipped mechanisms ----------------------------------------------------------------------------

ONCE = ([[0], [1], [0]], [[0], [0], [0]])
TWICE = ([[3], [4], [4]], [[3], [3], [3]])
BESIDE = ([[3, 0], [4, 0]], [[3, 0], [3, 0]])


def grouped(**options: Any) -> RetroactiveGrouping:
    return RetroactiveGrouping(watch="0.3", caution=4, **options)


@pytest.mark.parametrize(
    ("mechanism", "streams", "at_least"),
    [
        (Laplace(epsilon=8), ONCE, 8),
        (Laplace(epsilon=8), BESIDE, 8),
        (grouped(epsilon=10), ONCE, 10),
        (grouped(epsilon=10), BESIDE, 9.3),
        (grouped(epsilon=16, window=2), TWICE, 15.99),
        (Pegasus(epsilon=10, theta=2), ONCE, 8.3),
        (Pegasus(epsilon=10, theta=2), BESIDE, 8.17),
        (Pegasus(epsilon=16, window=2, theta=2, smoother="mean"), TWICE, 12.8),
        (Pegasus(epsilon=12, theta=2, perturb="0.6", smoother="james_stein"), ONCE, 8.03),
        (Grouping(epsilon=16, window=1), ONCE, 8),
    ],
)
def test_shipped_mechanisms_lose_no_more_than_they_promise(
    mechanism: Mechanism[Any], streams: tuple[Any, Any], at_least: float
) -> None:
    found = exact_loss(mechanism, pair(*streams), tail=1e-8)
    assert (
        at_least - 1e-6
        <= found.low
        <= found.high
        <= float(mechanism.guarantee.epsilon) + 2 * ROUNDING
    )
    assert found.high - found.low < 1e-8
    assert found.covered >= 1 - 1e-5
    low, high = loss_at(mechanism, pair(*streams), found.output)
    assert max(low, -high) == pytest.approx(found.low)


def test_rg_loses_all_that_it_promises() -> None:
    found = exact_loss(grouped(epsilon=10), pair(*ONCE))
    assert found.low == pytest.approx(
        10, abs=1e-6
    )  # 3 to the watch, 7 to the publication of a group
    assert [unit.public for unit in found.output][2] == (("divisor", (2,)), ("start", (2,)))


# -- mutants ---------------------------------------------------------------------------------------


def undecided(mechanism: Mechanism[Any], stream: IntArray) -> Output:
    """What is shown if there is no noise but in the questions, which are all answered no."""
    shown: list[SeenUnit] = []
    run = mechanism.run(stream.shape[1], noise=ScriptedNoise({}))
    for counts in stream:
        run._gate._maker.noise = ScriptedNoise({"group.question": (-(2**50),) * (len(shown) > 0)})
        shown.append(SeenUnit.of(run.step(counts)))
    return tuple(shown)


def leaving(units: int) -> Pair:
    """Many people in the first unit, or one fewer, and nobody after it: the deviation is large, and
    differs by up to 2.
    """
    right = np.array([[60], *([[0]] * (units - 1))])
    left = right.copy()
    left[0] += 1
    return Pair("leaving", left, right)


def test_one_run_loses_half_of_the_groupers_share_whatever_its_length() -> None:
    mechanism, streams = Pegasus(epsilon=10, theta=2), leaving(10)
    low, high = loss_at(mechanism, streams.swapped(), undecided(mechanism, streams.right))
    assert 8 + 0.44 * 2 < low <= high < 8 + 0.5 * 2


@dataclass(frozen=True, kw_only=True)
class FreshThresholds(Pegasus):
    """Draws the threshold's noise anew for every question."""

    def step(self, state: Any, unit: Private, gate: Gate) -> tuple[Any, Released]:
        gate.runs.close("group", where=~state.over)
        return super().step(state, unit, gate)


def test_thresholds_that_are_drawn_again_are_convicted() -> None:
    mechanism, streams = FreshThresholds(epsilon=10, theta=2), leaving(10)
    low, _ = loss_at(mechanism, streams.swapped(), undecided(mechanism, streams.right))
    assert low > 11.5


@dataclass(frozen=True, kw_only=True)
class QuietGrouper(Pegasus):
    """The grouper's noise is a sixth of what it should be. Claims half of its ε, so that the ledger
    does not stop it.
    """

    @property
    def claimed(self) -> float:
        return float(self.guarantee.epsilon) / 2

    def step(self, state: Any, unit: Private, gate: Gate) -> tuple[Any, Released]:
        perturb = self.grid.floor(self.guarantee.epsilon / 2 * 4 / 5)
        return advance(
            state, unit, gate, perturb=perturb, group=self.total - perturb, threshold=self.threshold
        )


def test_too_little_noise_in_the_grouper_is_convicted_over_all_outputs() -> None:
    mechanism = QuietGrouper(epsilon=20, theta=1)
    assert (
        exact_loss(mechanism, pair([[0], [6], [0]], [[0], [5], [0]]), tail=1e-8).low
        > mechanism.claimed
    )
    honest = exact_loss(
        Pegasus(epsilon=10, theta=1), pair([[0], [6], [0]], [[0], [5], [0]]), tail=1e-8
    )
    assert honest.high < 9


@dataclass(frozen=True, kw_only=True)
class StaysInThePot(RetroactiveGrouping):
    """What was published once is published again with the next group, and paid for once."""

    def step(self, state: Any, unit: Private, gate: Gate) -> tuple[Any, Released]:
        after, released = super().step(state, unit, gate)
        kept = np.where(released.repeated, 0, unseal(unit))
        empty = Pot(np.zeros_like(kept), self.publishing.quanta, unit.sensitivity)
        gate.save().pots.setdefault("publish", empty).total += kept
        return after, released


def test_a_pot_that_is_not_emptied_is_convicted_with_its_exact_loss() -> None:
    found = exact_loss(
        StaysInThePot(epsilon=8, watch="0.25"), pair([[1], [0], [0]], [[0], [0], [0]]), tail=1e-12
    )
    assert found.low == pytest.approx(2 * 6, abs=1e-6)


@dataclass(frozen=True, kw_only=True)
class UnpaidWatch(RetroactiveGrouping):
    """Watches with the whole ε, and publishes with the whole ε too; claims half of what the ledger
    is told.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "watch", exact("0.5"))


def test_a_watch_that_is_not_paid_for_is_convicted_with_its_exact_loss() -> None:
    found = exact_loss(UnpaidWatch(epsilon=16), pair(*ONCE), tail=1e-8)
    assert found.low == pytest.approx(16, abs=1e-6)  # claimed were 8


# -- limits ----------------------------------------------------------------------------------------


def test_questions_about_many_keys_are_refused() -> None:
    stream = np.zeros((2, 3), np.int64)
    with pytest.raises(ConfigurationError, match="asks about 3 keys, more than 2"):
        exact_loss(Grouping(epsilon=20, window=1), Pair("many", stream + 1, stream))


def test_node_noise_that_is_kept_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="no exact audit covers"):
        exact_loss(WindowTree(epsilon=20, span=2), pair(*ONCE))


def test_an_output_without_its_public_arrays_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="shows more than values"):
        likelihood(grouped(epsilon=8), np.array([[1]]), output([[1]], [True]))


def test_an_output_whose_smoothed_value_does_not_follow_has_no_chance() -> None:
    mechanism, stream = Pegasus(epsilon=8, smoother="mean"), np.array([[3]])
    (shown,) = undecided(mechanism, stream)
    assert likelihood(mechanism, stream, (shown,))[0] > 0.9
    assert log_likelihood(mechanism, stream, (replace(shown, values=(4,)),)) == (
        -math.inf,
        -math.inf,
    )


@dataclass(frozen=True, kw_only=True)
class Leaking(Grouping):
    """Remembers more of the threshold's noise than the answer."""

    def step(self, state: Begun, unit: Private, gate: Gate) -> tuple[Begun, Released]:
        after, released = super().step(state, unit, gate)
        return after, replace(
            released, public={**released.public, "more": gate.save().runs["group"].noise % 2}
        )


def test_threshold_noise_that_shows_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="answers in a way"):
        exact_loss(Leaking(epsilon=20, window=1), pair(*ONCE))


@pytest.mark.parametrize(
    "mechanism", [grouped(epsilon=8), Pegasus(epsilon=8, theta=2)], ids=["rg", "pegasus"]
)
def test_a_search_finds_what_looking_at_every_output_finds(mechanism: Mechanism[Any]) -> None:
    streams = pair(*ONCE)
    found = worst_output(mechanism, streams, starts=1)
    assert (found.low, found.high) == loss_at(
        mechanism, streams.swapped() if found.swapped else streams, found.output
    )
    assert found.low == pytest.approx(exact_loss(mechanism, streams, tail=1e-8).low, rel=0.02)
