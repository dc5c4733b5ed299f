"""Mechanisms with a delta: the promise, the ledger in rho, Gaussian noise, and old files."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import penstock as ps
from penstock.budget.zcdp import rho_of
from penstock.core.errors import ConfigurationError, InexactError
from penstock.private.mechanisms.base import WithDelta
from penstock.testing import NoNoise, RecordingNoise, TestNoise

DELTA = "1e-6"
RHO = rho_of(Fraction(1), Fraction(1, 10**6))

EVERY = {
    "uniform": (ps.Uniform, {}),
    "sample": (ps.Sample, {}),
    "fixed": (ps.FixedSampling, {"every": 2}),
    "bd": (ps.BudgetDistribution, {}),
    "ba": (ps.BudgetAbsorption, {}),
    "bd_grouped": (ps.GroupedDistribution, {"groups": 2}),
    "ba_grouped": (ps.GroupedAbsorption, {"groups": 2}),
}


def made(name, **options) -> WithDelta:
    cls, more = EVERY[name]
    return cls(**{"epsilon": "1", "window": 4, "delta": DELTA} | more | options)


def leaps(units, keys, seed=0):
    return np.random.default_rng(seed).integers(0, 2, (units, keys)) * 10**6


@pytest.mark.parametrize("name", EVERY)
def test_the_promise_has_the_delta_and_the_ledger_counts_rho(name):
    mechanism = made(name)
    assert mechanism.guarantee == ps.Guarantee("1", 4, delta=DELTA)
    assert mechanism.total.amount == RHO
    run = mechanism.run(5, noise=TestNoise(1), record=True)
    for counts in leaps(30, 5):
        released = run.step(counts)
        assert released.guarantee == mechanism.guarantee
        assert released.kind == "rounded"
        assert 0 < run.cost.amount <= RHO
    assert "delta=1/1000000" in repr(released.guarantee)


@pytest.mark.parametrize("name", EVERY)
def test_without_a_delta_nothing_has_changed(name):
    mechanism = made(name, delta=0)
    assert mechanism.guarantee == ps.Guarantee("1", 4)
    assert "delta" not in mechanism.configuration()
    assert made(name).configuration()["delta"] == Fraction(1, 10**6)
    noise = RecordingNoise(TestNoise(1))
    run = mechanism.run(5, noise=noise)
    for counts in leaps(8, 5):
        run.step(counts)
    assert noise.draws
    assert not noise.gaussians


@pytest.mark.parametrize("name", EVERY)
def test_a_delta_is_exact_and_below_one(name):
    with pytest.raises(InexactError, match="delta"):
        made(name, delta=1e-6)
    for wrong in ("1", "-0.1"):
        with pytest.raises(ConfigurationError, match="delta must be at least 0 and below 1"):
            made(name, delta=wrong)


@pytest.mark.parametrize("name", EVERY)
def test_a_snapshot_of_another_delta_is_refused(name):
    run = made(name).run(5, noise=TestNoise(1))
    run.step(leaps(1, 5)[0])
    for other in (0, "1e-7"):
        with pytest.raises(ps.StateError, match="another configuration: delta="):
            made(name, delta=other).restore(run.snapshot(), 5)


def test_uniform_has_the_noise_of_its_rho():
    """ε = 1, δ = 1e-6, w = 24: a standard deviation of 20.7, where pure noise has 33.9."""
    released = ps.Uniform(epsilon="1", window=24, delta=DELTA).run(1, noise=NoNoise()).step([7])
    assert released.variance[0] == pytest.approx(24 / (2 * float(RHO)) + 1 / 12, rel=1e-6)
    low, high = released.interval("0.95")
    assert high - low == 2 * math.ceil(1.959964 * math.sqrt(released.variance[0]) - 0.5)


@pytest.mark.parametrize("rule", ["bd", "ba"])
def test_a_unit_is_published_beyond_the_expected_error_of_gaussian_noise(rule):
    """The distance must pass d·L/√(πρ), for the ρ of the publication that is offered."""
    for contribution in (1, 3):
        mechanism = made(rule, contribution=contribution, shift=False)
        offer = mechanism.plan(5).shares.offer(1, _Fresh(mechanism))
        threshold = math.floor(5 * contribution / math.sqrt(math.pi * float(offer.amount)))
        for distance, published in ((threshold, False), (threshold + 1, True)):
            run = mechanism.run(5, noise=NoNoise())
            released = run.step([distance, 0, 0, 0, 0])
            assert (released.repeated is not True) is published


class _Fresh:
    """As much of a gate as a budget rule sees in the first unit."""

    unit = 1

    def __init__(self, mechanism):
        self._mechanism = mechanism

    def spent(self, label):
        return self._mechanism.total * 0


def test_a_group_is_published_beyond_the_expected_error_of_its_keys():
    mechanism = made("ba_grouped", caution=0, shift=False)
    offer = mechanism.plan(6).shares.offer(1, _Fresh(mechanism))
    threshold = math.floor(3 / math.sqrt(math.pi * float(offer.amount)))
    released = mechanism.run(6, noise=NoNoise()).step([threshold + 1, 0, 0, threshold, 0, 0])
    assert np.flatnonzero(released.value).tolist() == [0]


@pytest.mark.parametrize(
    ("name", "keys", "shifted", "parts"),
    [
        ("ba", 2, False, 2 * 4),
        ("ba", 3, True, 3**2),
        ("bd", 15, True, 15**2),
        ("bd", 17, True, 64 * 4),
        ("ba", 10**6, True, 64 * 4),
        ("bd_grouped", 5, False, 2 * 4),
        ("ba_grouped", 7, True, 3**2),
    ],
)
def test_a_distance_costs_little_where_there_are_many_keys(name, keys, shifted, parts):
    """ρ/d² for d keys per distance, at least ρ/64w, and ρ/2w for few keys; w = 4."""
    mechanism = made(name).run(keys).mechanism
    assert mechanism.shift is shifted
    watch, pool = mechanism.budgets(keys)
    assert watch == mechanism.total // parts
    assert watch * 4 + pool == mechanism.total
    assert watch * 8 <= mechanism.total
    if not shifted:
        with pytest.raises(ConfigurationError, match="so 3 keys per distance, not 2"):
            made(name, shift=True).run(keys)


def test_other_histogram_methods_have_no_delta():
    with pytest.raises(ConfigurationError, match="delta must be 0 unless histogram is Plain"):
        ps.Sample(epsilon="1", window=4, delta=DELTA, histogram=ps.QuadTree())


@pytest.mark.parametrize("cls", [ps.PanDistribution, ps.PanAbsorption, ps.Laplace])
def test_others_take_no_delta(cls):
    with pytest.raises(TypeError, match="delta"):
        cls(epsilon="1", window=4, delta=DELTA)
