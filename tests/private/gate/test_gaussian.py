"""Counts with Gaussian noise: exact, paid for in rho, and only under a promise with a delta."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from penstock.budget.grid import Grid, promised
from penstock.budget.ledger import Ledger
from penstock.core.cover import Groups
from penstock.core.errors import BudgetError, MechanismError, NoiseError
from penstock.core.guarantee import Guarantee
from penstock.core.private import Private
from penstock.private.gate import Gate
from penstock.private.gate.limits import MAX_SUM, count_limit
from penstock.private.gate.release_maker import gaussian_noise
from penstock.private.noise import NoNoise, TestNoise
from penstock.testing import RecordingNoise


def gate(*, window=4, delta="1e-6", keys=3, noise=None):
    noise = RecordingNoise(NoNoise() if noise is None else noise)
    door = Gate(
        ledger=Ledger(Guarantee("1", window, delta=delta), keys=keys), noise=noise, keys=keys
    )
    door.begin(1)
    return door, noise


def counts(*values, sensitivity=1) -> Private:
    return Private(np.array(values, np.int64), sensitivity=sensitivity)


@pytest.mark.parametrize("sensitivity", [1, 7])
def test_the_variance_is_the_square_of_the_sensitivity_over_twice_rho(sensitivity):
    door, noise = gate()
    share = door.left // 4
    released = door.gaussian(counts(3, 4, 5, sensitivity=sensitivity), rho=share, label="publish")
    assert released.value.tolist() == [3, 4, 5]
    assert released.kind == "rounded"
    (draw,) = noise.gaussians
    assert draw.variance == Fraction(sensitivity**2) / (2 * share.amount)
    assert door.spent("publish") == share


@pytest.mark.parametrize("window", [1, 3, 2**32])
@pytest.mark.parametrize("epsilon", ["0.001", "1", "50"])
@pytest.mark.parametrize("quanta", [1, 12345, None])
def test_the_scale_is_a_standard_deviation_rounded_up_by_very_little(window, epsilon, quanta):
    promise = Guarantee(epsilon, window, delta="1e-9")
    quanta = promised(promise).quanta if quanta is None else quanta
    quantum = Grid.of(promise).quantum.as_integer_ratio()
    found = gaussian_noise(3, quanta, *quantum)
    true = found.variance + Fraction(1, 12)
    claimed = (found.scale.base / found.scale.parts) ** 2
    assert true <= claimed <= true * (1 + Fraction(1, 2**20))
    assert found.scale.parts < 2**62
    assert found.scale.base == gaussian_noise(3, 1, *quantum).scale.base


def test_only_chosen_numbers_are_drawn_and_charged():
    door, noise = gate()
    where = np.array([True, False, True])
    released = door.gaussian(counts(3, 4, 5), rho=door.left // 4, label="publish", where=where)
    assert released.value.tolist() == [3, 0, 5]
    assert released.repeated.tolist() == [False, True, False]
    assert noise.gaussians[0].size == 2
    door.gaussian(counts(3, 4, 5), rho=door.left // 2, label="publish", where=~where)
    assert door.left == promised(door.guarantee) - (promised(door.guarantee) // 4 * 3) // 2


def test_a_distance_per_group_is_charged_once():
    door, _ = gate()
    share = door.left // 4
    groups = Groups.from_labels(np.array([0, 0, 1]))
    distances = counts(3, 4, 5).distances(np.zeros(3, np.int64), groups)
    assert door.gaussian(distances, rho=share, label="distance").value.tolist() == [7, 5]
    assert door.left == promised(door.guarantee) - share


@pytest.mark.parametrize(("delta", "kind"), [("1e-6", "rounded"), (0, "sum")])
def test_the_promise_says_which_noise_is_drawn(delta, kind):
    door, noise = gate(delta=delta)
    released = door.noisy(counts(3, 4, 5), budget=door.left // 2, label="publish")
    assert released.kind == kind
    assert (len(noise.gaussians), len(noise.draws)) == ((1, 0) if delta else (0, 1))
    distance = counts(3, 4, 5).distance(np.zeros(3, np.int64))
    assert door.number(distance, budget=door.left // 2, label="distance") == 12
    assert (len(noise.gaussians), len(noise.draws)) == ((2, 0) if delta else (0, 2))


def test_one_ledger_has_one_noise():
    pure, with_delta = gate(delta=0)[0], gate()[0]
    with pytest.raises(MechanismError, match="the ledger counts epsilon"):
        pure.gaussian(counts(1, 2, 3), rho=pure.left, label="publish")
    with pytest.raises(MechanismError, match="the ledger counts rho"):
        with_delta.laplace(counts(1, 2, 3), epsilon=with_delta.left, label="publish")


def test_more_than_the_window_has_left_is_refused_before_anything_is_drawn():
    door, noise = gate()
    door.gaussian(counts(1, 2, 3), rho=door.left // 2, label="publish")
    with pytest.raises(BudgetError, match="spending rho="):
        door.gaussian(counts(1, 2, 3), rho=promised(door.guarantee), label="publish")
    assert len(noise.gaussians) == 1


def test_a_budget_that_is_too_small_is_refused():
    door, noise = gate()
    with pytest.raises(MechanismError, match="a budget of 0"):
        door.gaussian(counts(1, 2, 3), rho=door.left * 0, label="publish")
    small = promised(door.guarantee) // promised(door.guarantee).quanta
    with pytest.raises(NoiseError, match="could overflow"):
        door.gaussian(counts(1, 2, 3, sensitivity=2**40), rho=small, label="publish")
    assert not noise.gaussians
    assert door.left == promised(door.guarantee)


def test_no_number_leaves_the_range_of_counts():
    door, _ = gate()
    far = counts(2**62, -(2**62), 5)
    released = door.gaussian(far, rho=door.left, label="publish")
    assert released.value.tolist() == [count_limit(3), -count_limit(3), 5]
    assert count_limit(3) < MAX_SUM


def test_the_noise_is_the_one_that_was_asked_for():
    """False alarm below 1e-8: z-tests at 6 standard deviations for a fixed seed."""
    door, _ = gate(keys=40_000, noise=TestNoise(3))
    x = Private(np.zeros(40_000, np.int64), sensitivity=1)
    value = door.gaussian(x, rho=door.left // 4, label="publish").value.astype(float)
    variance = float(1 / (2 * (promised(door.guarantee) // 4).amount)) + 1 / 12
    for factor, fits in ((1.0, True), (0.7, False), (1.3, False)):
        expected = variance * factor**2
        z = (np.square(value).mean() - expected) / (expected * math.sqrt(2 / len(value)))
        assert bool(abs(z) < 6) is fits
