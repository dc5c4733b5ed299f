"""Sums over units: against following every draw by hand, and by simulation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock import FilteredSampling, Laplace
from penstock.core.errors import ConfigurationError, InputError
from penstock.core.weights import Weights
from penstock.released.queries import SlidingSum, UnitCounts, WeightedSum
from penstock.released.queries.current_releases import Sums, counts, differences, weighted, windows

from tests.released.streams import MECHANISMS, PLAIN, counts_of, noisy, quiet, simple


@pytest.mark.parametrize("name", PLAIN)
@settings(max_examples=30, deadline=None)
@given(stream=counts_of, data=st.data())
def test_without_noise_sums_of_plain_releases_are_the_truth(name, stream, data):
    log = quiet(MECHANISMS[name], stream)
    width = data.draw(st.integers(1, len(stream)))
    truth = np.array(stream)
    assert (UnitCounts().series(log).estimate == truth).all()
    want = [truth[t - width + 1 : t + 1].sum(axis=0) for t in range(width - 1, len(truth))]
    assert (SlidingSum(width).series(log).estimate == want).all()
    assert (SlidingSum(width, hindsight=True).series(log).estimate == want).all()
    factors = Weights.decay("0.5", width)
    fading = [
        sum(truth[t - age] * factors.sequence(width)[age] for age in range(min(width, t + 1)))
        for t in range(len(truth))
    ]
    assert WeightedSum(factors).series(log).estimate == pytest.approx(np.array(fading))


@pytest.mark.parametrize("name", MECHANISMS)
@settings(max_examples=12, deadline=None)
@given(stream=counts_of, seed=st.integers(0, 9), data=st.data())
def test_a_sum_and_its_variance_are_those_of_its_draws(name, stream, seed, data):
    log = noisy(MECHANISMS[name], stream, seed)
    width = data.draw(st.integers(1, len(stream)))
    unit = data.draw(st.integers(width, len(stream)))
    decay = Weights.power("1", width)
    fade = dict(zip(range(unit, unit - width, -1), decay.sequence(width), strict=True))
    for query, factors, seen in (
        (SlidingSum(width), dict.fromkeys(range(unit - width + 1, unit + 1), 1.0), unit),
        (
            SlidingSum(width, hindsight=True),
            dict.fromkeys(range(unit - width + 1, unit + 1), 1.0),
            log.last,
        ),
        (WeightedSum(decay), fade, unit),
    ):
        answer = query.answer(log, unit)
        for key in range(3):
            estimate, variance, draws = simple(log, key, factors, seen)
            assert answer.estimate[0, key] == pytest.approx(estimate, rel=1e-9, abs=1e-7)
            assert answer.variance is not None
            assert answer.variance[0, key] == pytest.approx(variance, rel=1e-9)
            if np.isfinite(variance):
                assert answer.noise is not None
                assert answer.noise.draws[0, key] == draws


@pytest.mark.slow
@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("width", [1, 2, 5, 24, 60])
def test_the_fast_way_and_the_slow_way_agree(name, width):
    rng = np.random.default_rng(2)
    stream = rng.poisson(np.repeat(rng.integers(0, 60, (10, 3)), 6, axis=0))
    standing = counts(noisy(MECHANISMS[name], stream), 1, 60)
    fast = windows(standing, width)
    slow = Sums.stacked(
        [weighted(standing, np.ones(width), place) for place in range(width - 1, 60)]
    )
    assert fast.estimate == pytest.approx(slow.estimate, rel=1e-12)
    assert (fast.unread == slow.unread).all()
    assert fast.noise.variance == pytest.approx(slow.noise.variance, rel=1e-9)
    assert fast.noise.mass == pytest.approx(slow.noise.mass, rel=1e-9)
    known = np.isfinite(slow.noise.variance)
    assert (fast.noise.draws == slow.noise.draws)[known].all()
    assert (fast.noise.single == slow.noise.single).all()
    assert (fast.noise.peak >= slow.noise.peak * (1 - 1e-12))[known].all()
    assert np.array_equal(
        fast.noise.half_width(0.05)[known] >= slow.noise.half_width(0.05)[known] * (1 - 1e-9),
        known[known],
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("width", [2, 5, 24, 60])
def test_so_do_those_of_differences(name, width):
    rng = np.random.default_rng(3)
    stream = rng.poisson(np.repeat(rng.integers(0, 60, (10, 3)), 6, axis=0))
    standing = replace(
        counts(noisy(MECHANISMS[name], stream), 1, 60), running=False
    )  # running groups: test_alerts.py
    fast, factors = differences(standing, width), np.zeros(width)
    factors[-1], factors[0] = 1, -1
    slow = Sums.stacked([weighted(standing, factors, place) for place in range(width - 1, 60)])
    assert (fast.estimate == slow.estimate).all()
    assert (fast.unread == slow.unread).all()
    for what in ("variance", "mass", "peak"):
        assert getattr(fast.noise, what) == pytest.approx(
            getattr(slow.noise, what), rel=1e-9, nan_ok=True
        )
    known = np.isfinite(slow.noise.variance)
    assert (fast.noise.draws == slow.noise.draws)[known].all()
    assert fast.noise.half_width(0.05)[known] == pytest.approx(slow.noise.half_width(0.05)[known])


@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize(
    "query", [UnitCounts(), SlidingSum(1), SlidingSum(5), WeightedSum(Weights.decay("0.7", 6))]
)
def test_an_answer_is_the_same_while_the_log_grows_and_afterwards(name, query):
    rng = np.random.default_rng(3)
    stream = rng.poisson(20, (20, 3))
    finished = noisy(MECHANISMS[name], stream)
    for length in (7, 12):
        live = noisy(MECHANISMS[name], stream[:length])
        now, later = query.answer(live), query.answer(finished, length)
        assert (now.estimate == later.estimate).all()
        assert np.array_equal(now.variance, later.variance, equal_nan=True)
        assert np.array_equal(now.interval()[0], later.interval()[0], equal_nan=True)
    every = query.series(finished)
    for row, unit in enumerate(every.units.tolist()):
        assert every.estimate[row] == pytest.approx(
            query.answer(finished, unit).estimate[0], rel=1e-12
        )


def test_long_logs_are_read_in_pieces_that_do_not_show(monkeypatch):
    rng = np.random.default_rng(4)
    log = noisy(MECHANISMS["rg"], rng.poisson(20, (90, 3)))
    whole = SlidingSum(7).series(log)
    monkeypatch.setattr("penstock.released.queries.query.MAX_NUMBERS_HELD", 1)
    parts = SlidingSum(7).series(log)
    assert parts.estimate == pytest.approx(whole.estimate, rel=1e-12)
    assert parts.variance == pytest.approx(whole.variance, rel=1e-12)
    assert (parts.unread == whole.unread).all()


@pytest.mark.parametrize(
    ("name", "width", "unread"),
    [
        ("sample", 12, True),
        ("rg", 10, True),
        ("rg, small groups", 7, True),
        ("pegasus, mean", 6, False),
        ("bs", 9, False),
    ],
)
def test_noise_that_is_repeated_counts_as_often_as_it_is(name, width, unread):
    """20,000 keys, each a run of its own, with a fixed seed; a false alarm with another seed has a
    chance below 1e-6.
    """
    keys = 20_000
    log = noisy(MECHANISMS[name], np.zeros((29, keys), np.int64))
    answer = SlidingSum(width).answer(log)
    assert answer.variance is not None
    assert bool(answer.unread.any()) == unread
    squares = answer.estimate[0] ** 2
    said = answer.variance[0].mean()
    # Groups of `rg` end sooner where the noise is large: what is said is then somewhat more than
    # the truth, never less.
    most = 1 + 6 * squares.std() / np.sqrt(keys) / said
    least = 0.8 if name.startswith("rg") else 2 - most
    assert least <= squares.mean() / said <= most
    if unread:  # what independent noise would have
        fresh = width * log[1].variance[0]
        assert (
            squares.mean() > 1.15 * fresh
            if name == "sample"
            else squares.mean() != pytest.approx(fresh, rel=0.05)
        )


@pytest.mark.slow
@pytest.mark.parametrize("confidence", ["0.5", "0.9", "0.99"])
@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("width", [1, 2, 5, 12])
def test_an_interval_holds_what_was_read(name, width, confidence):
    """4,000 keys without events, with a fixed seed; a false alarm with another seed has a chance
    below 1e-4 in each case.
    """
    keys = 4000
    log = noisy(MECHANISMS[name], np.zeros((14, keys), np.int64), seed=8)
    low, high = SlidingSum(width).answer(log).interval(confidence)
    inside = ((low <= 0) & (high >= 0)).mean()
    share = float(confidence)
    if name.startswith(("ba", "bd")):  # all keys publish together
        assert inside >= share - 0.02
    else:
        assert inside >= share - 4 * np.sqrt(share * (1 - share) / keys)


def test_sums_of_alike_draws_have_the_shortest_interval_and_others_are_not_far_off():
    log = noisy(MECHANISMS["laplace"], np.zeros((24, 3), np.int64))
    answer = SlidingSum(24).answer(log)
    low, high = answer.interval("0.95")
    assert answer.variance is not None
    assert (high - low) / 2 == pytest.approx(1.96 * np.sqrt(answer.variance), rel=0.03)
    for epsilon, most in ((1, 3.4), ("0.1", 2.6), ("0.01", 2.45)):
        log = noisy(Laplace(epsilon=epsilon), np.zeros((24, 3), np.int64))
        fading = WeightedSum(Weights.decay("0.9", 24)).answer(log)
        low, high = fading.interval("0.95")
        assert fading.variance is not None
        times = (high - low) / 2 / np.sqrt(fading.variance)
        assert ((times > 1.96) & (times < most)).all()


def test_before_anything_was_released_nothing_is_known():
    log = noisy(MECHANISMS["ba"], [[0, 0, 0]] * 3)
    answer = SlidingSum(2).series(log)
    assert answer.variance is not None
    nothing = ~np.isfinite(log[1].variance)
    assert np.isinf(answer.variance[0][nothing]).all()
    assert np.isinf(answer.interval()[1][0][nothing]).all()


def test_what_cannot_be_answered_is_refused():
    log = quiet(MECHANISMS["laplace"], [[1, 2, 3]] * 4)
    with pytest.raises(ConfigurationError, match="needs 5 units, and the log has 4"):
        SlidingSum(5).answer(log)
    with pytest.raises(InputError, match=r"unit 1 cannot be answered, only units 2..4"):
        SlidingSum(2).answer(log, 1)
    with pytest.raises(InputError, match=r"units 2..9"):
        SlidingSum(2).answer(log, range(2, 10))
    with pytest.raises(ConfigurationError, match="width"):
        SlidingSum(0)
    with pytest.raises(ConfigurationError, match="consecutive units"):
        SlidingSum(2).answer(log, range(2, 5, 2))
    with pytest.raises(InputError, match="no units yet"):
        UnitCounts().answer(type(log)(3))
    with pytest.raises(ConfigurationError, match="confidence"):
        UnitCounts().answer(log).interval("1")


def test_sums_over_several_estimates_of_a_filter_have_no_known_noise():
    stream = [[50 + 3 * unit, 20, 0] for unit in range(30)]
    log = noisy(FilteredSampling(epsilon=4, window=10, sampled="1/2"), stream, seed=2)
    fresh = np.array([not release.repeated for release in log.between(2, 30)])
    assert 0 < fresh.sum() < 29
    sums = SlidingSum(2).series(log)
    assert np.isnan(sums.variance[fresh]).all()
    assert np.isnan(sums.interval()[0][fresh]).all()
    assert np.allclose(sums.variance[~fresh], 4 * log[30].variance)
    assert np.isfinite(UnitCounts().series(log).variance).all()
    assert np.isnan(differences(counts(log, 1, 30), 2).noise.variance).all()
