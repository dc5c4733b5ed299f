"""`fixed`: one unit in so many, between `uniform` and `sample`."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock import FixedSampling, Mechanism, Sample, Uniform
from penstock.core.errors import ConfigurationError
from penstock.testing import TestNoise

from tests.private.mechanisms.patterns import charged, play, worst_window

EPSILON = Fraction(7, 5)


@pytest.mark.parametrize(("every", "twin"), [(1, Uniform), (6, Sample), (100, Sample)])
def test_its_ends_are_uniform_and_sample(every: int, twin: type[Mechanism]) -> None:
    stream = np.random.default_rng(2).poisson(9, (20, 3))
    one = FixedSampling(epsilon=EPSILON, window=6, every=every).run(3, noise=TestNoise(1))
    other = twin(epsilon=EPSILON, window=6).run(3, noise=TestNoise(1))
    for counts in stream:
        released, expected = one.step(counts), other.step(counts)
        assert np.array_equal(released.value, expected.value)
        assert released.repeated == expected.repeated


@settings(max_examples=60, deadline=None)
@given(window=st.integers(1, 15), every=st.integers(1, 20), data=st.data())
def test_every_publication_has_an_equal_share_and_no_window_costs_more(
    window: int, every: int, data: st.DataObject
) -> None:
    horizon = data.draw(st.one_of(st.none(), st.just(window), st.integers(window, 40)))
    run = play(
        FixedSampling(epsilon=EPSILON, window=window, every=every, horizon=horizon), [True] * 45
    )
    spent = charged(run, "publish")
    interval, read = min(every, window), 45 if horizon is None else min(horizon, 45)
    share = run.mechanism.share.epsilon
    assert spent == [share if unit % interval == 0 and unit < read else 0 for unit in range(45)]
    most = -(-min(window, read) // interval)
    assert worst_window(spent, window) == run.account().worst == most * share
    assert run.account().kept
    assert EPSILON - most * share < most * run.mechanism.grid.quantum


def test_one_configuration_serves_every_promise() -> None:
    base = FixedSampling(epsilon=1, window=30, horizon=30, every=10)
    shares = {
        base.guarantee.user_level: base.share.epsilon,
        "window": replace(base, window=15, horizon=None).share.epsilon,
        "event": replace(base, window=1, horizon=None).share.epsilon,
    }
    assert shares == {True: Fraction(1, 3), "window": Fraction(1, 2), "event": 1}


def test_after_its_horizon_nothing_is_read() -> None:
    run = play(FixedSampling(epsilon=1, window=6, horizon=6, every=2), [True] * 12)
    assert {line.unit for line in run.ledger} == {1, 3, 5}
    assert run.last is not None
    assert run.last.repeated is True


def test_a_restart_between_two_publications_changes_nothing() -> None:
    mechanism = FixedSampling(epsilon=1, window=9, every=4)
    stream = np.random.default_rng(3).poisson(9, (12, 3))
    whole = mechanism.run(3, noise=TestNoise(5))
    parts = mechanism.run(3, noise=TestNoise(5))
    for unit, counts in enumerate(stream):
        if unit in (1, 3, 4, 10):
            parts = mechanism.restore(parts.snapshot(), 3, noise=TestNoise(5))
        assert np.array_equal(whole.step(counts).value, parts.step(counts).value)


def test_an_interval_of_nothing_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="every must be a whole number of at least 1"):
        FixedSampling(epsilon=1, window=9, every=0)
    with pytest.raises(ConfigurationError, match="histogram must have a method"):
        FixedSampling(epsilon=1, window=9, histogram=object())  # type: ignore[arg-type]
