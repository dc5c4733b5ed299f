"""Correlated Gaussian noise: what it estimates, how well, and what it pays."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from penstock.budget.zcdp import rho_of
from penstock.core.errors import ConfigurationError, InexactError
from penstock.core.power_series import longest, quotient, root
from penstock.lab.audit.bounds import epsilon_bound
from penstock.private.mechanisms.toeplitz import ONE, CorrelatedGaussian
from penstock.testing import NoNoise, RecordingNoise, TestNoise

WEIGHTS = [
    {"span": 1},
    {"span": 2},
    {"span": 10},
    {"weights": "decay", "rate": "0.8", "span": 12},
    {"weights": "decay", "rate": "0.01"},
    {"weights": "power", "rate": "0.5", "span": 9},
    {"weights": "power", "rate": 3, "span": 9},
    {"weights": "prefix", "epoch": 7},
    {"weights": "prefix", "epoch": 1},
]


@pytest.mark.parametrize("how", WEIGHTS, ids=str)
def test_without_noise_it_gives_the_weighted_sum(how):
    mechanism = CorrelatedGaussian(epsilon="1", **how)
    stream = np.random.default_rng(1).integers(0, 10**6, (60, 3))
    run = mechanism.run(3, noise=NoNoise())
    for unit, counts in enumerate(stream, start=1):
        released = run.step(counts)
        expected = mechanism.sums.sequence(unit) @ stream[:unit][::-1]
        np.testing.assert_allclose(released.estimate, expected, atol=1 / 256)
        assert released.weights == mechanism.sums
        assert released.kind == "gaussian"


@pytest.mark.parametrize(
    ("span", "most"), [(1, 17.9), (24, 94), (64, 130), (256, 190), (1024, 262)]
)
def test_the_noise_of_a_window_grows_with_its_logarithm(span, most):
    """MSE of a window's sum at ε = 1, δ = 1e-6, from the coefficients alone: within 2 % of the best
    that ρ allows.
    """
    mechanism = CorrelatedGaussian(epsilon="1", span=span)
    found = (mechanism.deviation * mechanism.spread[-1]) ** 2
    best = root(np.ones(span), 16 * span)
    rho = float(rho_of(Fraction(1), Fraction(1, 10**6)))
    assert found < most
    assert found < 1.02 * float(best @ best) ** 2 / (2 * rho)


@pytest.mark.parametrize(("span", "aim"), [(64, 128), (256, 187), (1024, 257), (4096, 339)])
def test_the_noise_of_a_window_is_within_a_tenth_of_its_aim(span, aim):
    """MSE of a window's sum at ε = 1, δ = 1e-6; the aim is that of the infinite square root."""
    mechanism = CorrelatedGaussian(epsilon="1", span=span)
    assert abs((mechanism.deviation * mechanism.spread[-1]) ** 2 / aim - 1) < 0.1


@pytest.mark.parametrize(
    "how", [*WEIGHTS[:7], {"span": 100}, {"weights": "power", "rate": "0.01", "span": 50}], ids=str
)
def test_old_noise_dies_out(how):
    """What a draw still adds after 8 spans is less than a millionth or so of the variance: `spread`
    may end there.
    """
    mechanism = CorrelatedGaussian(epsilon="1", **how)
    size = 30 * mechanism.span
    squares = np.square(quotient(mechanism.sums.sequence(size), mechanism.coefficients, size))
    assert squares[8 * mechanism.span :].sum() < 1.5e-6 * squares.sum()
    assert math.isclose(math.sqrt(squares.sum()), mechanism.spread[-1], rel_tol=1e-6)


@pytest.mark.parametrize(
    "how",
    [
        {"span": 5},
        {"weights": "decay", "rate": "0.9", "span": 30},
        {"weights": "prefix", "epoch": 12},
    ],
    ids=str,
)
def test_the_error_is_what_it_claims(how):
    """The mean square of 20,000 errors, in the first units and in late ones: z-test at 6
    deviations, false alarm below 1e-8.
    """
    keys, units = 20_000, 40
    mechanism = CorrelatedGaussian(epsilon="1", window=2, contribution=2, **how)
    run = mechanism.run(keys, noise=TestNoise(4))
    counts = np.arange(keys) % 7
    for unit in range(1, units + 1):
        released = run.step(counts)
        if unit in (1, 2, 13, 24, 25, units):
            error = released.estimate - counts * mechanism.sums.sequence(unit).sum()
            claimed = float(released.variance[0])
            assert abs(np.square(error).mean() / claimed - 1) < 6 * math.sqrt(2 / keys)
            assert abs(error.mean()) < 6 * math.sqrt(claimed / keys)


@pytest.mark.parametrize("contribution", [1, 3])
@pytest.mark.parametrize("window", [1, 2, 50, 10**6])
def test_it_draws_and_pays_what_it_says(window, contribution):
    mechanism = CorrelatedGaussian(epsilon="1", window=window, contribution=contribution, span=6)
    noise = RecordingNoise(NoNoise())
    run = mechanism.run(2, noise=noise, record=True)
    for _ in range(3):
        run.step([1, 2])
    assert {draw.variance for draw in noise.gaussians} == {mechanism.variance}
    assert [line.amount for line in run.ledger] == [mechanism.share.quanta] * 3
    assert mechanism.share * window == mechanism.total
    # a person in every unit of a window, always in the same key
    cost = (
        contribution**2
        * longest(mechanism.coefficients, window)
        / (2 * noise.gaussians[0].variance)
    )
    assert cost <= rho_of(Fraction(1), Fraction(1, 10**6))


def test_a_window_costs_less_than_its_square():
    """Shifts of one series overlap in part: 24 units of presence do not need 24 times the deviation
    of one.
    """
    one, many = (CorrelatedGaussian(epsilon="1", window=window) for window in (1, 24))
    assert many.deviation < 24 * one.deviation * 0.75


def test_a_person_is_in_every_sum_once():
    """The change of all that leaves, when a person comes in unit 3, is the row of coefficients, and
    its length is paid for.
    """
    mechanism = CorrelatedGaussian(epsilon="1", span=4)
    sums = []
    for extra in (0, 1):
        run = mechanism.run(1, noise=NoNoise())
        sums.append(
            [
                int(run.step([5 + (extra if unit == 3 else 0)]).public["sums"][0])
                for unit in range(1, 30)
            ]
        )
    change = np.diff(np.array(sums), axis=0)[0]
    assert change[2:10].tolist() == mechanism.coefficients.tolist()
    assert not change[:2].any()
    assert not change[10:].any()


@pytest.mark.parametrize("factor", [1.0, 0.5])
def test_the_best_attack_finds_less_than_was_promised_and_half_the_noise_is_found_out(
    factor, monkeypatch
):
    """Neyman and Pearson's test on all that leaves, ε = 2, δ = 0.01; wrong with probability below
    1e-6.
    """
    mechanism = CorrelatedGaussian(epsilon="2", delta="0.01", span=6)
    if factor != 1:
        plain = TestNoise.gaussian
        monkeypatch.setattr(
            TestNoise,
            "gaussian",
            lambda self, variance, size, **how: plain(
                self, variance * Fraction(factor) ** 2, size, **how
            ),
        )
    runs, units = 40_000, 14
    scores = []
    for seed, extra in ((1, 1), (2, 0)):
        run = mechanism.run(runs, noise=TestNoise(seed))
        seen = [
            run.step(np.full(runs, extra if unit == 0 else 0)).public["sums"]
            for unit in range(units)
        ]
        scores.append(mechanism.coefficients @ np.array(seen)[: len(mechanism.coefficients)])
    spread = float(mechanism.deviation) * math.sqrt(
        float(mechanism.coefficients @ mechanism.coefficients)
    )
    found = []
    for edge in np.linspace(0, 4, 17) * spread:
        left, right = (int(np.count_nonzero(score > edge)) for score in scores)
        found.append(epsilon_bound(left, runs, right, runs, confidence=1 - 1e-6 / 17, delta=0.01))
    assert (max(found) > 2) == (factor != 1)


def test_memory_holds_two_spans():
    mechanism = CorrelatedGaussian(epsilon="1", span=5)
    run = mechanism.run(2, noise=NoNoise())
    for _ in range(40):
        run.step([3, 4])
    assert run._state.recent.shape == (9, 2)
    assert run._gate.save().convolutions["sum"].past.shape == (9, 2)


def test_a_prefix_goes_on_over_its_epochs():
    mechanism = CorrelatedGaussian(epsilon="1", weights="prefix", epoch=5)
    run = mechanism.run(1, noise=NoNoise())
    released = [run.step([2]) for _ in range(23)]
    assert [each.estimate[0] for each in released] == [2 * unit for unit in range(1, 24)]
    variances = [float(each.variance[0]) for each in released]
    assert variances == sorted(variances)
    assert math.isclose(variances[9], 2 * variances[4], rel_tol=1e-2)
    assert run._state.epochs == 4


@pytest.mark.parametrize(
    "how",
    [
        {"delta": 0},
        {"delta": 1},
        {"delta": "-1"},
        {"span": 0},
        {"span": 2**20},
        {"epoch": 0},
        {"weights": "linear"},
        {"weights": "decay", "rate": 0},
        {"weights": "decay", "rate": "1.1"},
        {"weights": "power", "rate": 0},
    ],
    ids=str,
)
def test_a_parameter_that_cannot_be_is_refused(how):
    with pytest.raises(ConfigurationError):
        CorrelatedGaussian(epsilon="1", **how)


def test_a_float_delta_is_refused():
    with pytest.raises(InexactError, match="delta"):
        CorrelatedGaussian(epsilon="1", delta=1e-6)


def test_delta_is_in_every_release_and_in_the_words():
    run = CorrelatedGaussian(epsilon="1", delta="1e-9").run(1, noise=NoNoise())
    assert run.step([1]).guarantee.delta == Fraction(1, 10**9)
    assert "delta=1/1000000000" in repr(run)
    assert "delta = 1/1000000000" in run.guarantee.in_words()


def test_the_root_of_counts_is_whole_numbers():
    mechanism = CorrelatedGaussian(epsilon="1", weights="prefix", epoch=4)
    assert mechanism.coefficients.tolist() == [ONE, ONE // 2, 3 * ONE // 8, 5 * ONE // 16]
