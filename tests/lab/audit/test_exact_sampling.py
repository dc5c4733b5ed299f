"""The exact audit of sampling by distance: one threshold noise over several answers, and over
positive ones too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice, product
from typing import Any

import numpy as np
import pytest

from penstock.core.arrays import IntArray
from penstock.core.cover import ALL
from penstock.core.errors import ConfigurationError
from penstock.core.private import Private
from penstock.core.released import Released
from penstock.lab.audit.exact import (
    ROUNDING,
    Output,
    SeenUnit,
    exact_loss,
    likelihood,
    log_likelihood,
    loss_at,
    output,
    worst_output,
)
from penstock.lab.audit.flawed.variant import Unchecked
from penstock.lab.audit.model import Pair
from penstock.lab.audit.pairs import standard
from penstock.lab.audit.suite import asked_pairs
from penstock.private.gate import Gate, Price
from penstock.private.mechanisms.dsat import AdaptiveThreshold
from penstock.private.mechanisms.dsft import FixedThreshold
from penstock.private.mechanisms.sampling import MOVED, ByQuestion, SamplingState
from penstock.testing import TestNoise

BOTH = pytest.mark.parametrize("kind", [FixedThreshold, AdaptiveThreshold])


def present(counts: list[int], *, units: int, since: int = 1) -> Pair:
    """A person in so many units of one key's stream."""
    base = np.array(counts)[:, None]
    person = np.zeros_like(base)
    person[since - 1 : since - 1 + units] = 1
    return Pair("present", base + person, base)


def releasing(units: int, fresh: dict[int, int]) -> Output:
    """The output of so many units with these values released; each stands until the next."""
    standing = [fresh[max(each for each in fresh if each <= unit)] for unit in range(1, units + 1)]
    return output([[value] for value in standing], [unit in fresh for unit in range(1, units + 1)])


# -- against a sum that is written out -------------------------------------------------------------


def chance(rate: float, value: int) -> float:
    return math.tanh(rate / 2) * math.exp(-rate * abs(value))


def answered(price: Price, answers: list[tuple[int, int, bool]]) -> float:
    """The probability that a run gives these answers (distance, threshold, whether it was reached),
    by adding everything up.
    """
    asking, reach = float(price.question.epsilon), range(-200, 201)
    upwards = {
        value: sum(chance(asking, question) for question in reach if question >= value)
        for value in range(-260, 261)
    }

    def given(noise: int) -> float:
        reached = [upwards[bound + noise - distance] for distance, bound, _ in answers]
        return math.prod(
            each if yes else 1 - each for each, (_, _, yes) in zip(reached, answers, strict=True)
        )

    return sum(chance(float(price.threshold.epsilon), noise) * given(noise) for noise in reach)


def priced(mechanism: ByQuestion) -> tuple[Price, float, int]:
    """The price of a run over one key, what a release is worth, and how far its noise takes it on
    average.
    """
    plan = mechanism.plan(1)
    assert plan.price is not None
    each = float(plan.each.epsilon)
    return plan.price, each, round(math.exp(-each / 2) / (1 - math.exp(-each)))


def test_one_threshold_noise_lasts_for_all_answers_at_user_level() -> None:
    mechanism = FixedThreshold(
        epsilon=4, window=5, horizon=5, releases=3, threshold="0.1", population=15
    )
    price, each, floor = priced(mechanism)
    bound = floor + 2
    assert floor == 1
    run = answered(price, [(3, bound, True), (2, bound, False), (5, bound, True)])
    released = chance(each, 1) * chance(each, 0) * chance(each, -2)
    low, high = likelihood(
        mechanism, np.array([[4], [8], [6], [13], [9]]), releasing(5, {1: 5, 2: 8, 4: 11})
    )
    assert low == pytest.approx(run * released, rel=1e-7)
    assert low <= high <= low * (1 + 1e-8)


def test_what_is_left_for_the_last_unit_depends_on_the_answers() -> None:
    mechanism = FixedThreshold(
        epsilon=4, window=4, horizon=4, releases=3, threshold="0.1", population=15
    )
    price, each, floor = priced(mechanism)
    stream = np.array([[4], [8], [6], [6]])
    for yes in (True, False):
        shown = {1: 4, 4: 7} | ({2: 8} if yes else {})
        standing = shown.get(2, 4)
        run = answered(price, [(4, floor + 2, yes), (abs(6 - standing), floor + 2, False)])
        asked = min(
            2 * price.question.epsilon, price.threshold.epsilon + 2 * yes * price.question.epsilon
        )
        left = float(
            mechanism.guarantee.epsilon - asked - (1 + yes) * mechanism.plan(1).each.epsilon
        )
        expected = run * chance(each, 0) ** (1 + yes) * chance(left, 1)
        assert likelihood(mechanism, stream, releasing(4, shown))[0] == pytest.approx(
            expected, rel=1e-7
        )


def test_every_block_has_a_threshold_noise_of_its_own() -> None:
    mechanism = FixedThreshold(epsilon=6, window=3, releases=2, threshold="0.1", population=15)
    price, each, floor = priced(mechanism)
    bound = floor + 2
    first = answered(price, [(2, bound, True)])
    second = answered(price, [(1, bound, False), (3, bound, True), (1, bound, False)])
    third = answered(price, [(2, bound, True)])
    stream = np.array([[4], [6], [6], [7], [9], [9], [8]])
    released = chance(each, 0) ** 2 * chance(each, 1) * chance(each, 2)
    low, _ = likelihood(mechanism, stream, releasing(7, {1: 4, 2: 6, 5: 10, 7: 10}))
    assert low == pytest.approx(first * second * third * released, rel=1e-7)


def test_a_threshold_follows_what_was_released() -> None:
    mechanism = AdaptiveThreshold(
        epsilon=4,
        window=5,
        horizon=5,
        releases=3,
        threshold="0.1",
        population=60,
        proportional=1,
        integral=0,
    )
    price, each, floor = priced(mechanism)
    errors = [1 - 3 * 2 / 5, 2 - 3 * 3 / 5, 2 - 3 * 4 / 5]
    bounds = [floor + math.ceil(6 * math.exp(error - errors[0])) for error in errors]
    assert len(set(bounds)) == 3
    answers = list(zip([6, 3, 9], bounds, [True, False, True], strict=True))
    low, _ = likelihood(
        mechanism, np.array([[4], [10], [7], [19], [9]]), releasing(5, {1: 4, 2: 10, 4: 19})
    )
    assert low == pytest.approx(answered(price, answers) * chance(each, 0) ** 3, rel=1e-7)


@pytest.mark.parametrize(
    "mechanism",
    [
        FixedThreshold(epsilon=24, window=3, releases=2),
        AdaptiveThreshold(epsilon=24, window=4, releases=2, horizon=4),
    ],
    ids=["endless", "user level"],
)
def test_a_likelihood_is_the_share_of_runs_that_show_it(mechanism: ByQuestion) -> None:
    """1000 runs; one of 3 shares is further off than 5.5 standard deviations once in five million
    times.
    """
    runs, stream = 1000, np.array([[2], [3], [4], [4]])
    counted: dict[Output, int] = {}
    for seed in range(runs):
        run = mechanism.run(1, noise=TestNoise(seed))
        shown = tuple(SeenUnit.of(run.step(counts)) for counts in stream)
        counted[shown] = counted.get(shown, 0) + 1
    often = sorted(counted.items(), key=lambda item: -item[1])[:3]
    assert len({tuple(unit.fresh for unit in shown) for shown, _ in often}) > 1
    for shown, times in often:
        low, high = likelihood(mechanism, stream, shown)
        assert abs(times / runs - low) <= 5.5 * math.sqrt(low * (1 - low) / runs)
        assert high - low <= 1e-8


@pytest.mark.parametrize(("kind", "population"), [(FixedThreshold, 20), (AdaptiveThreshold, None)])
def test_probabilities_of_all_outputs_add_up_to_one(
    kind: type[ByQuestion], population: int | None
) -> None:
    mechanism = kind(
        epsilon=12, window=3, horizon=3, releases=2, threshold="0.1", population=population
    )
    stream = np.array([[2], [3], [5]])
    lows, highs = zip(
        *(
            likelihood(mechanism, stream, releasing(3, {1: one, again: two}))
            for one, two, again in product(range(-2, 7), range(-1, 9), (2, 3))
        ),
        strict=True,
    )
    assert 1 - 1e-6 < sum(lows) <= 1
    assert sum(highs) < 1 + 1e-6


# -- the promise is kept ---------------------------------------------------------------------------

nightly = partial(pytest.param, marks=pytest.mark.nightly)
"""The other cases of a test are its quick twin."""

ENDLESS, USER_LEVEL = {"window": 3}, {"window": 3, "horizon": 3}


@BOTH
@pytest.mark.parametrize("population", [None, 20])
@pytest.mark.parametrize(
    ("form", "streams", "at_least"),
    [
        (USER_LEVEL, present([0, 0, 0], units=3), 0.98),
        (USER_LEVEL, present([0, 3, 3], units=3), 0.98),
        nightly(USER_LEVEL, present([4, 2, 1], units=3), 0.98),
        (ENDLESS, present([0, 2, 2, 2], units=3), 0.6),
        nightly(ENDLESS, present([0, 2, 4, 2], units=3, since=2), 0.6),
    ],
)
def test_both_forms_lose_no_more_than_they_promise(
    kind: type[ByQuestion],
    population: int | None,
    form: dict[str, Any],
    streams: Pair,
    at_least: float,
) -> None:
    mechanism = kind(epsilon=12, releases=2, population=population, threshold="0.1", **form)
    found = exact_loss(mechanism, streams, tail=1e-6)
    assert 12 * at_least <= found.low <= found.high <= 12 + 2 * ROUNDING
    assert found.high - found.low < 1e-8
    assert found.covered > 0.9999
    both = (
        loss_at(mechanism, streams, found.output),
        loss_at(mechanism, streams.swapped(), found.output),
    )
    assert max(low for low, _ in both) == pytest.approx(found.low)


def test_a_threshold_that_moves_with_every_gain_keeps_the_promise() -> None:
    options = {"epsilon": 12, "window": 3, "releases": 1, "threshold": "0.1", "population": 30}
    mechanism = AdaptiveThreshold(proportional=2, integral=9, derivative=1, **options)
    streams = present([0, 0, 0, 3, 3, 1], units=3, since=4)
    found = exact_loss(mechanism, streams, tail=1e-7)
    assert found.high <= 12 + 2 * ROUNDING
    moved, fixed = (
        likelihood(each, streams.right, found.output)[0]
        for each in (mechanism, FixedThreshold(**options))
    )
    assert moved != pytest.approx(fixed, rel=0.1)


@BOTH
def test_a_person_who_changes_keys_is_hidden_at_user_level(kind: type[ByQuestion]) -> None:
    mechanism = kind(epsilon=24, window=3, horizon=3, releases=2)
    right = np.array([[1, 1], [3, 0], [2, 2]])
    found = exact_loss(
        mechanism, Pair("moving", right + np.array([[1, 0], [0, 1], [1, 0]]), right), tail=1e-6
    )
    assert 23 < found.low <= found.high <= 24 + 2 * ROUNDING


@pytest.mark.parametrize(
    "mechanism",
    [
        FixedThreshold(epsilon=6, window=2, releases=1),
        AdaptiveThreshold(epsilon=6, window=3, releases=2, horizon=3),
    ],
    ids=["endless", "user level"],
)
def test_standard_pairs_show_no_more_than_was_promised(mechanism: ByQuestion) -> None:
    for pair in islice(standard(window=mechanism.window, keys=1, epsilon=6), 0, None, 2):
        assert (
            worst_output(mechanism, pair, starts=1, sweeps=1, patterns=3, width=2).high <= 6 + 1e-6
        )


# -- the promise is reached ------------------------------------------------------------------------


def hard(before: int, noes: int) -> list[int]:
    """At the last release, far from it for so many units, then so near it that a release is as
    unlikely as staying was.
    """
    return [40] * before + [60] * noes + [36]


@BOTH
@pytest.mark.parametrize("epsilon", [1, 6])
def test_all_of_the_budget_is_lost_at_user_level_and_no_more(
    kind: type[ByQuestion], epsilon: int
) -> None:
    mechanism = kind(epsilon=epsilon, window=10, horizon=10, releases=2, population=40)
    streams = present([*hard(1, 7), 0], units=10)
    low, high = loss_at(mechanism, streams.swapped(), releasing(10, {1: 40, 9: 20}))
    assert epsilon - 1e-6 < low <= high <= epsilon + 2 * ROUNDING


def crossing(window: int) -> tuple[Pair, Output]:
    """A person in the second half of one block and the first half of the next: all noes but the
    last answer.
    """
    units = 2 * window + window // 2
    streams = present(hard(units - window, window - 1), units=window, since=units - window + 1)
    return streams.swapped(), releasing(units, {1: 40, units: 20})


@BOTH
def test_two_runs_in_one_window_lose_what_the_ledger_charges(kind: type[ByQuestion]) -> None:
    mechanism = kind(epsilon=6, window=8, releases=1, population=40)
    price, each, _ = priced(mechanism)
    low, high = loss_at(mechanism, *crossing(8))
    # Two threshold noises are seen through; the one positive answer loses its own share, and once
    # more with the noise.
    charged = 2 * float(price.threshold.epsilon) + 2 * float(price.question.epsilon) + each
    assert charged - 1e-5 < low <= high <= charged + 2 * ROUNDING < 6


# -- mutants ---------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Doubled(FixedThreshold):
    """Asks about twice the distance, at the price of once."""

    def _moved(self, state: SamplingState, unit: Private, price: Price, gate: Gate) -> bool:
        def twice(value: IntArray) -> IntArray:
            return 2 * np.abs(value - state.last.value).sum(keepdims=True)

        return bool(
            gate.runs.ask(MOVED, unit.map(twice, stability=1, cover=ALL), threshold=4, price=price)[
                0
            ]
        )


def test_a_question_that_is_not_paid_for_is_convicted() -> None:
    streams = present([0, 3, 3], units=3)
    assert (
        exact_loss(Doubled(epsilon=8, window=3, horizon=3, releases=2), streams, tail=1e-8).low
        > 8.5
    )


@dataclass(frozen=True, kw_only=True)
class OneRun(Unchecked, FixedThreshold):
    """Without an end, at the price of one run in every window."""

    @property
    def weights(self) -> tuple[int, int]:
        return 1, 2 * self.most


def test_a_second_run_in_a_window_that_is_not_paid_for_is_convicted() -> None:
    mechanism = OneRun(epsilon=6, window=8, releases=1, population=40)
    price, _, _ = priced(mechanism)
    low, high = loss_at(mechanism, *crossing(8))
    assert low == pytest.approx(6 + float(price.threshold.epsilon), abs=1e-4)
    assert (
        loss_at(FixedThreshold(epsilon=6, window=8, releases=1, population=40), *crossing(8))[1]
        < 6
        < low
        <= high
    )


@dataclass(frozen=True, kw_only=True)
class OneBlock(Unchecked, FixedThreshold):
    """Without an end, at the price of one run in every window whose answers count once."""

    @property
    def weights(self) -> tuple[int, int]:
        return 1, self.most


def test_the_pairs_of_the_suite_convict_a_price_that_is_too_low() -> None:
    mechanism = OneBlock(epsilon=6, window=4, releases=1, population=80)
    assert max(exact_loss(mechanism, pair, tail=1e-5).low for pair in asked_pairs(4)) > 7.9


def test_a_search_convicts_what_one_output_does() -> None:
    mechanism = OneRun(epsilon=6, window=6, releases=1, population=40)
    assert worst_output(mechanism, crossing(6)[0], starts=1).low > 6


# -- limits ----------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Fading(FixedThreshold):
    """Threshold noise that is halved after every answer."""

    def step(
        self, state: SamplingState, unit: Private, gate: Gate
    ) -> tuple[SamplingState, Released]:
        after = super().step(state, unit, gate)
        for run in gate.save().runs.values():
            run.noise //= 2
        return after


@dataclass(frozen=True, kw_only=True)
class Peeking(FixedThreshold):
    """Shows more of the threshold's noise than its answers, where it does not ask."""

    def step(
        self, state: SamplingState, unit: Private, gate: Gate
    ) -> tuple[SamplingState, Released]:
        after, released = super().step(state, unit, gate)
        run = gate.save().runs.get(MOVED)
        shown = np.zeros(1, np.int64) if run is None or gate.unit < self.window else run.noise % 2
        return after, replace(released, public={"more": shown})


@pytest.mark.parametrize(
    ("kind", "reason"), [(Fading, "changes threshold noise"), (Peeking, "without a question")]
)
def test_threshold_noise_that_is_not_kept_or_is_shown_is_refused(
    kind: type[ByQuestion], reason: str
) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        exact_loss(
            kind(epsilon=24, window=4, horizon=4, releases=2),
            present([0, 3, 3, 3], units=4),
            tail=1e-6,
        )


def test_outputs_that_cannot_be_have_no_chance() -> None:
    mechanism = FixedThreshold(epsilon=8, window=3, horizon=3, releases=2)
    for shown in (releasing(3, {1: 2, 2: 2, 3: 2}), releasing(3, {1: 2})):
        assert log_likelihood(mechanism, np.array([[2], [2], [2]]), shown) == (-math.inf, -math.inf)
