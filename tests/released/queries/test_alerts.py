"""Jumps, drops, changes and low signals."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.errors import ConfigurationError
from penstock.released.queries import Change, Drop, Jump, LowSignal

from tests.released.streams import MECHANISMS, counts_of, noisy, quiet, simple

LAPLACE = MECHANISMS["laplace"]


@settings(max_examples=40, deadline=None)
@given(
    stream=counts_of.filter(lambda stream: len(stream) > 1),
    delta=st.integers(0, 30),
    data=st.data(),
)
def test_without_noise_alerts_are_the_truth(stream, delta, data):
    log, truth = quiet(LAPLACE, stream), np.array(stream)
    width = data.draw(st.integers(2, len(stream)))
    moved = truth[width - 1 :] - truth[: len(truth) - width + 1]
    assert (Jump(width, delta).series(log).raised == (moved >= delta)).all()
    assert (Drop(width, delta).series(log).raised == (-moved >= delta)).all()
    assert (Change(width, delta).series(log).raised == (np.abs(moved) >= delta)).all()
    sums = np.array(
        [truth[t - width + 1 : t + 1].sum(axis=0) for t in range(width - 1, len(truth))]
    )
    assert (LowSignal(width, delta).series(log).raised == (sums < delta)).all()


@pytest.mark.slow
@pytest.mark.parametrize("name", MECHANISMS)
def test_a_jump_is_the_difference_of_what_is_known_of_two_units(name):
    rng = np.random.default_rng(5)
    log = noisy(MECHANISMS[name], rng.poisson(np.repeat(rng.integers(0, 60, (5, 3)), 6, axis=0)))
    for unit in range(4, log.last + 1):
        found = Jump(4, 5).answer(log, unit)
        for key in range(3):
            estimate, variance, draws = simple(log, key, {unit: 1.0, unit - 3: -1.0}, unit)
            if name.startswith("pegasus") and log[unit].public["start"][key] <= unit - 3:
                # one group, smoothed anew: how far its release has moved, and twice the noise,
                # because it is shared
                (now, noise, draws), (then, before, _) = (
                    simple(log, key, {u: 1.0}, u) for u in (unit, unit - 3)
                )
                estimate, variance = now - then, 2 * (noise + before)
            assert found.statistic.estimate[0, key] == pytest.approx(estimate, abs=1e-7)
            assert found.statistic.variance is not None
            said = found.statistic.variance[0, key]
            assert said == pytest.approx(variance) if draws else np.isnan(said)
            later, *_ = simple(log, key, {unit: 1.0, unit - 3: -1.0}, log.last)
            known = Jump(4, 5, hindsight=True).answer(log, unit).statistic.estimate[0, key]
            assert known == pytest.approx(later, abs=1e-7)
        assert (Drop(4, 5).answer(log, unit).statistic.estimate == -found.statistic.estimate).all()
    every = Jump(4, 5, hindsight=True).series(log).statistic.estimate
    each = [
        Jump(4, 5, hindsight=True).answer(log, unit).statistic.estimate[0]
        for unit in range(4, log.last + 1)
    ]
    assert every == pytest.approx(np.array(each), abs=1e-9)


def test_the_score_orders_alerts_as_raising_the_threshold_does():
    log = noisy(LAPLACE, np.random.default_rng(6).poisson(20, (12, 3)))
    for query in (Jump, Drop, Change, LowSignal):
        score = query(3, 0).series(log).score
        for delta in (-9, 0, 4, 12):
            bound = -delta if query is LowSignal else delta
            expected = score > bound if query is LowSignal else score >= bound
            assert (query(3, delta).series(log).raised == expected).all()


@pytest.mark.parametrize("query", [Jump(3, 4), Drop(3, 4), Change(3, 4), LowSignal(3, -4)])
def test_doubt_is_at_least_how_often_noise_alone_gets_as_far(query):
    """The truth is at the edge of the threshold for 20,000 keys: doubts below p occur with chance p
    at most. Fixed seed.

    A false alarm with another seed has a chance below 1e-4.
    """
    keys = 20_000
    counts = np.zeros((3, keys), np.int64)
    if query.delta > 0:
        counts[2 if not isinstance(query, Drop) else 0] = 4
    log = noisy(LAPLACE, counts, seed=3)
    if isinstance(query, LowSignal):
        query = LowSignal(3, 0)
    alerts = query.answer(log)
    assert 0.2 < alerts.raised.mean() < 0.9
    for p in (0.5, 0.2, 0.05, 0.01):
        share = (alerts.doubt <= p).mean()
        assert share <= p + 4 * np.sqrt(p / keys)
    assert (alerts.doubt[~alerts.raised] == 1).all()
    assert alerts.doubt.min() < 0.01


def test_alerts_read_well_and_say_how_sure_they_are():
    log = quiet(LAPLACE, [[0, 0], [0, 90]], keys=["Harbour", "Market"])
    alerts = Jump(2, 50).answer(log)
    assert (
        str(alerts) == "rise by 50 or more within 2 units: unit 2, 1 of 2 raised\n  unit 2  Market"
    )
    rows = list(alerts.rows())
    assert [row["raised"] for row in rows] == [False, True]
    assert rows[1]["doubt"] < 1e-6
    assert rows[1]["low"] < 90 < rows[1]["high"]


@pytest.mark.parametrize("query", [Jump, Drop, Change, LowSignal])
@pytest.mark.parametrize("delta", [float("nan"), float("inf"), "many", None, 10**400])
def test_a_threshold_is_a_finite_number(query, delta):
    with pytest.raises(ConfigurationError, match="delta must be a finite number"):
        query(3, delta)


def test_a_threshold_is_shown_in_full():
    assert Jump(2, 1_234_567).in_words() == "rise by 1234567 or more within 2 units"
    assert LowSignal(2, Fraction(1, 4)).in_words() == "fewer than 0.25 in 2 units"


def test_a_move_needs_two_units():
    with pytest.raises(ConfigurationError, match="width"):
        Jump(1, 5)


@pytest.mark.parametrize("name", ["pegasus, median", "pegasus, mean", "pegasus, james_stein"])
def test_the_interval_of_a_jump_within_a_group_keeps_its_word(name):
    """Nothing moves, so the statistic is noise: over 400 keys, a false alarm with another seed has
    a chance below 1e-6.
    """
    log = noisy(MECHANISMS[name], np.zeros((24, 400), np.int64), seed=3)
    statistic = Jump(6, 1).answer(log).statistic
    shared = log[24].public["start"] <= 19
    low, high = statistic.interval("0.9")
    assert shared.sum() > 20
    assert ((low[0] <= 0) & (high[0] >= 0))[shared].mean() > 0.9 - 5 * np.sqrt(0.09 / shared.sum())
    assert (statistic.estimate[0] != 0)[shared].any()
