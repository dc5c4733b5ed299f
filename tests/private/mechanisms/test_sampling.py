"""`dsft` and `dsat` alike: the number of releases, the cost of each, and the end of a stream."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock import AdaptiveThreshold, FixedThreshold, Greedy, Released, Run
from penstock.core.errors import ConfigurationError
from penstock.private.mechanisms.sampling import (
    MAX_PEOPLE,
    MOVED,
    SMALL_THRESHOLD,
    ByQuestion,
    SamplingState,
    bound,
    rounded,
)
from penstock.testing import NoNoise, RecordingNoise, TestNoise

from tests.private.mechanisms.patterns import FAR, charged, play

BOTH = (FixedThreshold, AdaptiveThreshold)
EPSILON = Fraction(7, 5)


def user_level(kind: type[ByQuestion], units: int, **more: Any) -> ByQuestion:
    return kind(epsilon=EPSILON, window=units, horizon=units, **more)


def asked(run: Run) -> list[int]:
    return [line.unit for line in run.ledger if line.kind == "ask"]


def made(run: Run) -> list[int]:
    return [unit for unit, amount in enumerate(charged(run, "publish"), start=1) if amount]


def price_of(run: Run, *, first: int, last: int) -> int:
    """What the runs cost these units, from their lines alone."""
    questions: dict[int, list[int]] = {}
    answers: dict[int, list[int]] = {}
    terms: dict[int, tuple[int, int]] = {}
    for line in run.ledger:
        if line.kind == "open":
            terms[line.run] = line.amount, line.number
            questions[line.run], answers[line.run] = [], []
        elif line.kind in ("ask", "yes"):
            (questions if line.kind == "ask" else answers)[line.run].append(line.unit)
    cost = 0
    for number, (threshold, question) in terms.items():
        inside = sum(first <= unit <= last for unit in questions[number])
        positive = len(answers[number]) + sum(first <= unit <= last for unit in answers[number])
        cost += min(inside * question, threshold + positive * question)
    return cost


# -- how a stream ends -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", BOTH)
def test_when_all_releases_are_made_nothing_is_asked_or_read_any_more(
    kind: type[ByQuestion],
) -> None:
    mechanism = user_level(kind, 40, releases=4)
    run = play(mechanism, [True] * 40)
    assert len(made(run)) == 4
    assert made(run)[0] == 1
    assert asked(run)[-1] == made(run)[-1] < 40
    assert {line.unit for line in run.ledger} == {1, *asked(run)}
    assert run.last is not None
    assert run.last.repeated is True
    plan = mechanism.plan(2)
    assert plan.price is not None
    questions = min(
        plan.price.question * len(asked(run)), plan.price.threshold + plan.price.question * 6
    )
    assert run.account().worst == (plan.each * 4 + questions).epsilon <= EPSILON


@pytest.mark.parametrize("kind", BOTH)
def test_the_last_unit_takes_all_that_is_left(kind: type[ByQuestion]) -> None:
    run = play(user_level(kind, 30, releases=4), [False] * 30)
    spent = charged(run, "publish")
    assert made(run) == [1, 30]
    assert run.account().window(30) == run.account().worst == EPSILON
    assert (
        spent[-1]
        == EPSILON - spent[0] - price_of(run, first=1, last=30) * run.mechanism.grid.quantum
    )


@pytest.mark.parametrize("kind", BOTH)
def test_a_stream_that_goes_on_after_its_horizon_is_not_read(kind: type[ByQuestion]) -> None:
    mechanism = user_level(kind, 10, releases=3)
    run = play(mechanism, [True, False] * 5)
    lines, last = run.ledger, run.last
    assert last is not None
    for _ in range(5):
        released = run.step([FAR, 3])
        assert released.repeated is True
        assert np.array_equal(released.value, last.value)
    assert run.ledger == lines
    assert run.account().kept


@pytest.mark.parametrize("kind", BOTH)
def test_a_stream_that_ends_early_leaves_the_rest_unspent(kind: type[ByQuestion]) -> None:
    mechanism = user_level(kind, 1000, releases=5)
    run = play(mechanism, [False] * 20)
    plan = mechanism.plan(2)
    assert plan.price is not None
    assert run.cost == plan.each + min(plan.price.question * 19, plan.price.threshold)
    assert made(run) == [1]


@pytest.mark.parametrize("kind", BOTH)
def test_without_a_horizon_no_block_and_no_window_has_more_releases_than_promised(
    kind: type[ByQuestion],
) -> None:
    run = play(kind(epsilon=EPSILON, window=12, releases=3), [True] * 70)
    units = made(run)
    assert max(Counter((unit - 1) // 12 for unit in units).values()) == 3
    assert max(sum(end - 12 < unit <= end for unit in units) for end in range(1, 71)) == 3
    assert units[-1] > 58  # it goes on for ever
    opened = [line.unit for line in run.ledger if line.kind == "open"]
    assert Counter((unit - 1) // 12 for unit in opened) == dict.fromkeys(
        range(6), 1
    )  # one threshold noise a block
    assert run.account().kept


@pytest.mark.parametrize("kind", BOTH)
def test_before_a_horizon_of_many_windows_the_last_unit_takes_what_its_window_has_left(
    kind: type[ByQuestion],
) -> None:
    run = play(kind(epsilon=EPSILON, window=8, horizon=27, releases=3), [False] * 27)
    assert made(run) == [1, 27]
    assert run.account().window(27) == EPSILON
    assert run.account().kept


# -- how many releases -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("horizon", [None, 6, 15])
@pytest.mark.parametrize("releases", [6, 7, 1000])
def test_as_many_releases_as_units_need_no_questions(
    kind: type[ByQuestion], horizon: int | None, releases: int
) -> None:
    run = play(kind(epsilon=EPSILON, window=6, horizon=horizon, releases=releases), [False] * 13)
    read = 13 if horizon is None else min(horizon, 13)
    assert charged(run, "publish") == [EPSILON / 6] * read + [Fraction(0)] * (13 - read)
    assert asked(run) == []


@pytest.mark.parametrize("kind", BOTH)
def test_one_release_at_user_level_is_the_first_unit_with_everything(
    kind: type[ByQuestion],
) -> None:
    run = play(user_level(kind, 9, releases=1), [True] * 12)
    assert charged(run, "publish") == [EPSILON] + [Fraction(0)] * 11
    assert asked(run) == []
    assert run.account().worst == EPSILON


@pytest.mark.parametrize("kind", BOTH)
def test_one_release_a_window_is_asked_for_when_it_may_be_made(kind: type[ByQuestion]) -> None:
    run = play(kind(epsilon=EPSILON, window=5, releases=1), [False] * 7 + [True] + [False] * 6)
    assert made(run) == [1, 8]
    assert asked(run) == [6, 7, 8, 13, 14]
    assert run.account().kept


@pytest.mark.parametrize("kind", BOTH)
def test_a_window_of_one_unit_is_released_in_every_unit(kind: type[ByQuestion]) -> None:
    run = play(kind(epsilon=EPSILON, window=1), [False, True, False])
    assert charged(run, "publish") == [EPSILON] * 3


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("leaps", [False, True])
def test_one_configuration_serves_every_promise(kind: type[ByQuestion], leaps: bool) -> None:
    base = kind(epsilon=EPSILON, window=40, horizon=40, releases=4, population=60)
    user, window, event = (
        play(mechanism, [leaps] * 45)
        for mechanism in (
            base,
            replace(base, window=10, horizon=None),
            replace(base, window=1, horizon=None),
        )
    )
    assert user.guarantee.user_level
    assert not window.guarantee.user_level
    assert all(run.account().kept for run in (user, window, event))
    assert event.account().worst == EPSILON
    assert user.account().worst == EPSILON or leaps
    assert [len(made(run)) for run in (user, event)] == [4 if leaps else 2, 45]
    assert len(made(window)) > 12 if leaps else made(window) == [1]


# -- the threshold ---------------------------------------------------------------------------------


def answers_at(mechanism: ByQuestion, first: list[int], second: list[int]) -> bool:
    """Whether the second unit is released, noise off."""
    run = mechanism.run(len(first), noise=NoNoise(), record=True)
    run.step(first)
    return run.step(second).repeated is False


@pytest.mark.parametrize(("population", "above"), [(2000, 100), (None, 25), (MAX_PEOPLE, None)])
def test_the_threshold_is_a_share_of_the_people_above_the_noise_of_the_last_release(
    population: int | None, above: int | None
) -> None:
    """A twentieth of the population or, if it is not public, of the last release's total."""
    mechanism = FixedThreshold(epsilon=EPSILON, window=100, horizon=100, population=population)
    released = mechanism.run(2, noise=NoNoise()).step([300, 200])
    expected = round(float(np.sqrt(released.variance / 2).sum()))
    assert expected == pytest.approx(2 * float(released.scale), abs=1)
    if above is None:
        assert not answers_at(mechanism, [300, 200], [10**12, 10**12])
    else:
        assert answers_at(mechanism, [300, 200], [300 + expected + above, 200])
        assert not answers_at(mechanism, [300, 200], [300 + expected + above - 1, 200])


def test_a_little_threshold_brings_the_floor_down_too() -> None:
    state = SamplingState(
        Released.nothing(1, FixedThreshold(epsilon=1, window=2).guarantee), people=1000, floor=400
    )
    found = [
        bound(replace(state, threshold=threshold))
        for threshold in (0.5, SMALL_THRESHOLD, SMALL_THRESHOLD / 2, SMALL_THRESHOLD / 400, 0.0)
    ]
    assert found == [900, 401, 201, 2, 0]


def test_a_method_that_states_too_much_noise_does_not_keep_dsat_from_releasing() -> None:
    rng = np.random.default_rng(3)
    mechanism = AdaptiveThreshold(
        epsilon="0.1", window=60, horizon=60, releases=12, histogram=Greedy()
    )
    run = mechanism.run(300, noise=TestNoise(3))
    released = [run.step(rng.poisson(5 + unit % 7, 300)) for unit in range(60)]
    assert sum(not each.repeated for each in released) > 6  # with the whole floor there were 2


def test_a_population_beyond_all_counts_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="population must be at most"):
        FixedThreshold(epsilon=1, window=10, population=MAX_PEOPLE + 1)


@pytest.mark.parametrize("kind", BOTH)
def test_thresholds_and_counts_as_large_as_can_be_do_not_overflow(kind: type[ByQuestion]) -> None:
    mechanism = kind(
        epsilon=1, window=20, horizon=20, releases=3, population=MAX_PEOPLE, threshold="1e900"
    )
    run = mechanism.run(2, noise=TestNoise(2), record=True)
    largest = 2**50
    for unit in range(20):
        run.step([largest, 0] if unit % 2 else [0, largest])
    assert made(run) == [1, 20]
    small = kind(epsilon=1, window=20, horizon=20, releases=3)
    run = small.run(2, noise=TestNoise(2), record=True)
    for unit in range(20):
        run.step([largest, 0] if unit % 2 else [0, largest])
    assert len(made(run)) == 3


def test_a_release_with_a_divisor_is_rounded_before_distances_are_taken() -> None:
    run = FixedThreshold(epsilon=1, window=3).run(2, noise=NoNoise())
    released = replace(run.step([7, 10]), divisor=4)
    assert rounded(released).tolist() == [2, 2]
    assert rounded(released).dtype == np.int64


# -- refusals --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"releases": 0}, "releases must be a whole number of at least 1"),
        ({"releases": 2.0}, "releases must be a whole number of at least 1"),
        ({"population": 0}, "population must be a whole number of at least 1"),
        ({"decide": 0}, "decide must lie between 0 and 1"),
        ({"decide": 1}, "decide must lie between 0 and 1"),
        ({"threshold": 0}, "threshold must be above 0"),
        ({"threshold": "-0.1"}, "threshold must be above 0"),
        ({"histogram": 3}, "histogram must have a method"),
    ],
)
def test_parameters_that_mean_nothing_are_refused(
    kind: type[ByQuestion], parameters: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        kind(epsilon=1, window=10, **parameters)


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize(
    "parameters",
    [
        {"epsilon": Fraction(1, 10**16)},
        {"epsilon": Fraction(1, 10**8), "contribution": 10**6},
        {"epsilon": Fraction(1, 10**20), "releases": 1},
        {"epsilon": 1, "decide": Fraction(1, 10**12)},
    ],
)
def test_too_little_budget_is_refused_before_the_first_unit(
    kind: type[ByQuestion], parameters: dict[str, Any]
) -> None:
    mechanism = kind(**{"window": 1000, "horizon": 1000, **parameters})
    with pytest.raises(ConfigurationError, match="is too little for"):
        mechanism.run(5)
    enough = replace(mechanism, epsilon=Fraction(1, 10**8), contribution=1, decide=None).run(
        5, noise=TestNoise(1)
    )
    assert [enough.step([0, 1, 2, 3, 4]).unit for _ in range(3)] == [1, 2, 3]


# -- what is spent ---------------------------------------------------------------------------------


def test_the_share_for_questions_is_the_papers() -> None:
    """k = 0.0531 in its setting: 27,648 keys, 10 releases over 1,000 units."""
    plan = FixedThreshold(epsilon=1, window=1000, horizon=1000).plan(27648)
    assert float(1 - 10 * plan.each.epsilon) == pytest.approx(0.0531, abs=5e-5)
    assert plan.price is not None
    ratio = plan.price.threshold.epsilon / (18 * plan.price.question.epsilon)
    assert float(ratio) == pytest.approx(18 ** (-2 / 3), rel=1e-5)


@pytest.mark.parametrize("horizon", [None, 50])
def test_the_prices_use_up_what_they_are_given(horizon: int | None) -> None:
    mechanism = FixedThreshold(
        epsilon=EPSILON, window=50, horizon=horizon, releases=4, decide="0.25"
    )
    plan = mechanism.plan(7)
    assert plan.price is not None
    thresholds, questions = (1, 6) if horizon else (2, 12)
    decisions = plan.price.threshold * thresholds + plan.price.question * questions
    unused = mechanism.total - decisions - plan.each * 4
    assert 0 <= unused.quanta < 10
    assert float(decisions.epsilon) == pytest.approx(float(EPSILON) / 4, rel=1e-6)


def test_every_draw_has_the_scale_that_was_paid_for() -> None:
    noise = RecordingNoise(TestNoise(4))
    mechanism = FixedThreshold(
        epsilon=1, window=30, horizon=30, releases=3, contribution=2, population=10
    )
    run = mechanism.run(4, noise=noise)
    for counts in np.random.default_rng(1).poisson(5, (30, 4)):
        run.step(counts)
    plan = mechanism.plan(4)
    assert plan.price is not None
    scales = {(draw.label, draw.scale) for draw in noise.draws if draw.unit < 30}
    assert scales == {
        ("publish", 2 / plan.each.epsilon),
        (f"{MOVED}.threshold", 2 / plan.price.threshold.epsilon),
        (f"{MOVED}.question", 2 / plan.price.question.epsilon),
    }
    assert sum(draw.label == f"{MOVED}.threshold" for draw in noise.draws) == 1


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_no_window_ever_costs_more_than_promised(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(BOTH))
    window = data.draw(st.integers(1, 12))
    horizon = data.draw(st.one_of(st.none(), st.just(window), st.integers(window, 30)))
    more: dict[str, Any] = {}
    if kind is AdaptiveThreshold:
        more = {
            "burn_in": data.draw(st.integers(0, 5)),
            "proportional": data.draw(st.sampled_from(["0", "1", "3"])),
            "integral": data.draw(st.sampled_from(["0", "0.3", "2"])),
            "derivative": data.draw(st.sampled_from(["0", "1"])),
        }
    mechanism = kind(
        epsilon=data.draw(st.sampled_from(["0.1", "1", "20"])),
        window=window,
        horizon=horizon,
        contribution=data.draw(st.integers(1, 2)),
        releases=data.draw(st.integers(1, 14)),
        population=data.draw(st.sampled_from([None, 1, 50])),
        decide=data.draw(st.sampled_from([None, "0.1", "0.9"])),
        threshold=data.draw(st.sampled_from(["0.001", "0.05", "1"])),
        **more,
    )
    stream = data.draw(
        st.lists(
            st.lists(st.sampled_from([0, 1, 30, 2000]), min_size=2, max_size=2),
            min_size=1,
            max_size=40,
        )
    )
    run = mechanism.run(2, noise=TestNoise(data.draw(st.integers(0, 2**32))), record=True)
    for counts in stream:
        run.step(counts)
    account = run.account()
    assert account.kept
    units, length = made(run), len(stream)
    read = length if horizon is None else min(length, horizon)
    assert all(
        sum(end - window < unit <= end for unit in units) <= mechanism.most
        for end in range(1, length + 1)
    )
    spent, quantum = charged(run, "publish"), mechanism.grid.quantum
    for end in range(1, length + 1):
        first = max(1, end - window + 1)
        assert (
            account.window(end)
            == sum(spent[first - 1 : end]) + price_of(run, first=first, last=end) * quantum
        )
    each = mechanism.plan(2).each.epsilon
    assert all(spent[unit - 1] == each for unit in units if unit != horizon)
    if mechanism.guarantee.user_level and length >= window:
        left = len([unit for unit in units if unit < window]) < mechanism.most
        assert (units[-1] == window) == left or window == 1
        assert account.window(window) == mechanism.guarantee.epsilon or not left
    assert all(unit <= read for unit in (*asked(run), *units))


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("horizon", [None, 20])
def test_a_restart_in_the_middle_of_a_block_changes_nothing(
    kind: type[ByQuestion], horizon: int | None
) -> None:
    mechanism = kind(epsilon=2, window=20, horizon=horizon, releases=5, population=30)
    stream = np.random.default_rng(8).poisson(4, (34, 6))
    whole = mechanism.run(6, noise=TestNoise(6), record=True)
    parts = mechanism.run(6, noise=TestNoise(6), record=True)
    for unit, counts in enumerate(stream, start=1):
        if unit in (2, 7, 15, 21, 28):
            parts = mechanism.restore(parts.snapshot(), 6, noise=TestNoise(6), record=True)
        one, other = whole.step(counts), parts.step(counts)
        assert np.array_equal(one.value, other.value)
        assert one.repeated == other.repeated
    assert whole.ledger == parts.ledger
    assert len(made(whole)) > 2
