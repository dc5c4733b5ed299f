"""Logs whose numbers are sums already: windows, prefixes, decayed sums."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from penstock import Laplace
from penstock.core.errors import ConfigurationError
from penstock.core.guarantee import Guarantee
from penstock.core.released import Released, Scale
from penstock.core.weights import Weights
from penstock.released.log import Log
from penstock.released.queries import (
    Aggregate,
    Jump,
    LowSignal,
    SlidingSum,
    TopK,
    UnitCounts,
    WeightedSum,
)

from tests.released.streams import noisy

PROMISE = Guarantee(1, 1)


def sums(
    weights: Weights, kind="sum", *, units=6, layers=3, noise=None, divisor=1, public=None
) -> Log:
    log = Log(["a", "b"], guarantee=PROMISE)
    for unit in range(1, units + 1):
        value = np.array([10 * unit, unit]) * divisor if noise is None else noise[unit - 1]
        log.append(
            Released(
                unit=unit,
                value=value,
                scale=Scale(Fraction(5)),
                guarantee=PROMISE,
                private=True,
                kind=kind,
                layers=layers,
                weights=weights,
                divisor=divisor,
                public=public or {},
            )
        )
    return log


@pytest.mark.parametrize(("kind", "divisor"), [("sum", 1), ("gaussian", 16), ("weighted", 1)])
def test_a_released_window_is_its_own_answer(kind, divisor):
    log = sums(Weights.window(4), kind, divisor=divisor)
    answer = SlidingSum(4).answer(log)
    assert answer.estimate.tolist() == [[60, 6]]
    assert (answer.variance == log[6].variance).all()
    own = log[6].interval("0.9")[1]
    assert (
        (answer.interval("0.9")[1] <= own).all()
        if kind == "weighted"
        else (answer.interval("0.9")[1] == own).all()
    )
    assert LowSignal(4, 7).answer(log).raised.tolist() == [[False, True]]
    assert TopK(1, of=SlidingSum(4)).answer(log).names == (("a",),)


@pytest.mark.parametrize("kind", ["sum", "gaussian", "weighted"])
def test_intervals_may_be_as_sure_as_one_likes(kind):
    answer = SlidingSum(4).answer(sums(Weights.window(4), kind))
    widths = [
        (high - low).max()
        for low, high in map(
            answer.interval, ("1/10000000000", "0.9", "0." + 20 * "9", "0." + 99 * "9")
        )
    ]
    assert np.isfinite(widths).all()
    assert sorted(widths) == widths
    assert np.isfinite(
        TopK(2, of=SlidingSum(4)).answer(sums(Weights.window(4), kind)).interval("0." + 99 * "9")
    ).all()
    with pytest.raises(ConfigurationError, match="1e-100"):
        answer.interval("0." + 101 * "9")


@pytest.mark.parametrize(("kind", "rounding"), [("gaussian", 0), ("rounded", np.sqrt(2 / 4))])
def test_the_noise_of_two_keys_adds_up(kind, rounding):
    log = sums(Weights.window(4), kind)
    both = Aggregate(["a", "b"], of=SlidingSum(4)).answer(log)
    assert both.variance == pytest.approx(np.array([[50.0]]))
    half = 1.96 * np.sqrt(50) + rounding
    assert both.interval("0.95")[1] - both.estimate == pytest.approx(half, rel=1e-3)


@pytest.mark.parametrize(
    "query", [UnitCounts(), SlidingSum(3), Jump(2, 1), WeightedSum(Weights.decay("0.9", 3))]
)
def test_a_released_window_cannot_be_taken_apart(query):
    with pytest.raises(ConfigurationError, match="the sum of the last 4 units"):
        query.answer(sums(Weights.window(4)))


def test_released_noisy_counts_answer_everything():
    log = noisy(Laplace(epsilon=1), np.zeros((6, 2), np.int64))
    decayed = Log(2, guarantee=log.guarantee)
    for release in log:
        public = {"noisy": release.value}
        decayed.append(
            replace(
                release,
                value=release.value + 7,
                weights=Weights.decay("0.5", 4),
                kind="weighted",
                public=public,
            )
        )
    for query in (UnitCounts(), SlidingSum(3), WeightedSum(Weights.power(1, 4))):
        assert (query.answer(decayed).estimate == query.answer(log).estimate).all()
        assert query.answer(decayed).variance == pytest.approx(query.answer(log).variance)
    own = WeightedSum(Weights.decay("0.5", 4)).answer(decayed)
    assert (own.estimate == decayed[6].estimate).all()
    assert (own.variance == decayed[6].variance).all()


def test_prefixes_are_subtracted_and_the_interval_is_wide_enough():
    """20,000 prefixes whose noises overlap as much as they can in either sign; the interval may be
    missed by 10 % of them.
    """
    rng = np.random.default_rng(1)
    log = sums(Weights.prefix(), layers=1)
    assert SlidingSum(2).series(log).estimate.tolist() == [[20, 2]] * 5
    assert SlidingSum(2).units(log) == range(2, 7)
    q = np.exp(-1 / 5)
    for sign in (1, -1, 0):
        keys = 20_000
        one, two = (rng.geometric(1 - q, keys) - rng.geometric(1 - q, keys) for _ in range(2))
        wide = Log(keys, guarantee=PROMISE)
        for unit, value in ((1, two if sign == 0 else sign * one), (2, one)):
            wide.append(
                Released(
                    unit, value, Scale(Fraction(5)), PROMISE, private=True, weights=Weights.prefix()
                )
            )
        answer = SlidingSum(1).answer(wide)
        low, high = answer.interval("0.9")
        assert ((low <= 0) & (high >= 0)).mean() >= 0.9
        assert answer.variance is not None
        assert (answer.estimate**2).mean() <= 1.05 * answer.variance[0, 0]


def test_a_log_that_begins_late_needs_one_more_prefix():
    log, late = sums(Weights.prefix()), Log(["a", "b"], guarantee=PROMISE)
    for unit in (3, 4, 5):
        late.append(log[unit])
    assert SlidingSum(2).units(late) == range(5, 6)
    assert SlidingSum(2).answer(late).estimate.tolist() == [[20, 2]]
    assert LowSignal(2, 5).series(late).raised.tolist() == [[False, True]]


def test_keys_that_share_noise_have_sums_of_unknown_error():
    log = sums(Weights.decay("0.5", 4), "weighted", public={"group": np.array([2, 2])})
    each = WeightedSum(Weights.decay("0.5", 4))
    assert each.answer(log).variance is not None
    both = Aggregate(["a", "b"], of=each).answer(log)
    assert both.estimate.tolist() == [[66]]
    assert both.variance is None
    assert np.isnan(both.interval()[0]).all()
    assert "error not known" in str(both)


def test_a_decayed_sum_of_a_log_that_begins_late_waits_until_it_is_long_enough():
    log, late = noisy(Laplace(epsilon=1), np.zeros((6, 2), np.int64)), Log(2)
    for unit in (3, 4, 5, 6):
        late.append(log[unit])
    query = WeightedSum(Weights.window(3))
    assert query.units(late) == range(5, 7)
    assert (query.series(late).estimate == SlidingSum(3).series(late).estimate).all()
    with pytest.raises(ConfigurationError, match="begins with unit 3"):
        WeightedSum(Weights.prefix()).answer(late)
