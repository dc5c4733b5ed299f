"""Sums over several units with Gaussian noise: exact, paid for, and only in a ledger of rho."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from penstock.budget.grid import promised
from penstock.budget.ledger import Ledger
from penstock.core.errors import BudgetError, ConfigurationError, NoiseError
from penstock.core.guarantee import Guarantee
from penstock.core.hierarchy import Hierarchy
from penstock.core.power_series import longest
from penstock.core.private import Private
from penstock.private.gate import MAX_WEIGHTED_SUM, Combination, Gate, Price
from penstock.private.noise import NoNoise, TestNoise
from penstock.testing import RecordingNoise

ROW = np.array([8, 3, -1])


def gate(*, window=1, delta="1e-6", keys=2, noise=None):
    noise = RecordingNoise(NoNoise()) if noise is None else noise
    made = Gate(
        ledger=Ledger(Guarantee("1", window, delta=delta), keys=keys), noise=noise, keys=keys
    )
    return made, noise


def counts(*values, sensitivity=1) -> Private:
    return Private(np.array(values, np.int64), sensitivity=sensitivity)


def share(door):
    return promised(door.guarantee) // door.guarantee.window


def test_it_is_the_sum_over_units_by_age():
    door, _ = gate()
    stream = np.random.default_rng(1).integers(0, 100, (9, 2))
    for unit, row in enumerate(stream, start=1):
        door.begin(unit)
        value = door.convolutions.weighted_sum(
            "sum", counts(*row), coefficients=ROW, rho=share(door)
        ).value
        expected = sum(int(ROW[age]) * stream[unit - 1 - age] for age in range(min(unit, 3)))
        assert value.tolist() == expected.tolist()
        assert len(door.save().convolutions["sum"].past) == min(unit, 2)


@pytest.mark.parametrize("row", [[5], [5, 0], [0, 7]])
def test_short_rows_need_little_memory(row):
    door, _ = gate()
    for unit in (1, 2, 3):
        door.begin(unit)
        value = door.convolutions.weighted_sum(
            "sum", counts(unit, 1), coefficients=np.array(row), rho=share(door)
        ).value
        assert value[0] == row[0] * unit + (row[1] * (unit - 1) if len(row) > 1 else 0)
    assert door.save().convolutions["sum"].past.shape == (len(row) - 1, 2)


def test_anew_forgets_the_units_before():
    door, _ = gate()
    for unit in (1, 2, 3, 4):
        door.begin(unit)
        value = door.convolutions.weighted_sum(
            "sum", counts(10, 1), coefficients=ROW, rho=share(door), anew=unit == 3
        ).value
        assert value.tolist() == [[80, 8], [110, 11], [80, 8], [110, 11]][unit - 1]


@pytest.mark.parametrize("sensitivity", [1, 3])
@pytest.mark.parametrize("window", [1, 2, 7])
def test_the_variance_is_the_least_whole_one_that_is_paid_for(window, sensitivity):
    door, noise = gate(window=window)
    door.begin(1)
    rho = share(door)
    door.convolutions.weighted_sum(
        "sum", counts(1, 2, sensitivity=sensitivity), coefficients=ROW, rho=rho
    )
    (drawn,) = noise.gaussians
    cost = Fraction(sensitivity**2 * longest(ROW, window), 2)
    assert cost / drawn.variance <= window * rho.amount < cost / (drawn.variance - 1)
    assert (drawn.label, drawn.size, drawn.unit) == ("sum", 2, 1)


def test_it_charges_before_it_draws_and_a_refusal_leaves_no_trace():
    door, noise = gate()
    door.begin(1)
    door.convolutions.weighted_sum("sum", counts(1, 2), coefficients=ROW, rho=share(door))
    with pytest.raises(BudgetError, match="rho="):
        door.convolutions.weighted_sum("other", counts(1, 2), coefficients=ROW, rho=share(door))
    assert len(noise.gaussians) == 1
    assert list(door.save().convolutions) == ["sum"]


def test_every_unit_is_read_once_on_the_same_terms():
    door, _ = gate(window=4)
    half = share(door) // 2
    door.begin(1)
    door.convolutions.weighted_sum("sum", counts(1, 2), coefficients=ROW, rho=half)
    for how in ({}, {"rho": share(door)}, {"coefficients": ROW + 1}):
        if how:
            door.begin(2) if door.unit == 1 else None
        with pytest.raises(ConfigurationError, match="every unit once"):
            door.convolutions.weighted_sum(
                "sum", counts(1, 2), **{"coefficients": ROW, "rho": half} | how
            )
    with pytest.raises(ConfigurationError, match="every unit once"):
        door.convolutions.weighted_sum(
            "sum", counts(1, 2, sensitivity=2), coefficients=ROW, rho=half
        )
    door.begin(3)
    with pytest.raises(ConfigurationError, match="every unit once"):
        door.convolutions.weighted_sum("sum", counts(1, 2), coefficients=ROW, rho=half)


def test_one_ledger_has_one_currency():
    rho, _ = gate()
    rho.begin(1)
    for call in (
        lambda: rho.laplace(counts(1, 2), epsilon=share(rho), label="a"),
        lambda: rho.pots.hold("a", counts(1, 2), epsilon=share(rho)),
        lambda: rho.counters.prime("a", epsilon=share(rho), sensitivity=1, size=2, exposed=None),
        lambda: rho.runs.ask("a", counts(1, 2), threshold=1, price=Price(share(rho), share(rho))),
        lambda: rho.runs.keep(
            "a",
            lambda _, now: (now, now),
            counts(1, 2),
            price=Price(share(rho), share(rho)),
            stability=1,
        ),
        lambda: rho.sampled(counts(1, 2), keep=Fraction(1, 2), epsilon=share(rho), label="a"),
        lambda: rho.split(
            counts(1, 2), Hierarchy.binary(2), threshold=1, epsilon=share(rho), label="a"
        ),
        lambda: rho.trees.window_sum(
            "a",
            counts(1, 2),
            epsilon=share(rho),
            span=1,
            nodes=Combination((1,), ((0, 0),), (), (0,)),
        ),
    ):
        with pytest.raises(
            ConfigurationError, match="counts rho, and this noise is paid for in epsilon"
        ):
            call()
    assert not rho._ledger.cost
    pure, noise = gate(delta=0)
    pure.begin(1)
    with pytest.raises(
        ConfigurationError, match="counts epsilon, and this noise is paid for in rho"
    ):
        pure.convolutions.weighted_sum("sum", counts(1, 2), coefficients=ROW, rho=share(pure))
    assert not noise.gaussians


@pytest.mark.parametrize("row", [[], [0, 0], [2**31], [1.5, 2.0], [[1, 2]]])
def test_coefficients_that_cannot_be_are_refused(row):
    door, noise = gate()
    door.begin(1)
    with pytest.raises(ConfigurationError, match="coefficients"):
        door.convolutions.weighted_sum(
            "sum", counts(1, 2), coefficients=np.array(row), rho=share(door)
        )
    assert not noise.gaussians


def test_nothing_is_read_for_nothing():
    door, _ = gate()
    door.begin(1)
    with pytest.raises(ConfigurationError, match="budget of 0"):
        door.convolutions.weighted_sum(
            "sum", counts(1, 2), coefficients=ROW, rho=share(door) - share(door)
        )


def test_noise_that_could_overflow_is_refused():
    door = Gate(
        ledger=Ledger(Guarantee("1e-12", 1, delta="1e-30"), keys=1), noise=NoNoise(), keys=1
    )
    door.begin(1)
    with pytest.raises(NoiseError, match="could overflow"):
        door.convolutions.weighted_sum(
            "sum", counts(1), coefficients=np.array([2**30]), rho=share(door)
        )


def test_huge_counts_are_cut_and_wrap_nowhere():
    door, _ = gate(keys=2)
    row = np.full(64, 2**20)
    for unit in range(1, 130):
        door.begin(unit)
        value = door.convolutions.weighted_sum(
            "sum", counts(2**50, 0), coefficients=row, rho=share(door)
        ).value
        assert 0 < value[0] <= MAX_WEIGHTED_SUM
    assert value[0] == MAX_WEIGHTED_SUM


def test_a_release_says_how_large_its_noise_is():
    door, noise = gate(noise=RecordingNoise(TestNoise(3)))
    door.begin(1)
    released = door.convolutions.weighted_sum(
        "sum", counts(5, 6), coefficients=ROW, rho=share(door)
    )
    assert released.kind == "gaussian"
    assert noise.gaussians[0].variance + Fraction(1, 12) <= Fraction(released.scale.base) ** 2
    assert float(released.scale) <= math.sqrt(noise.gaussians[0].variance) + 1
    assert released.guarantee.delta == Fraction(1, 10**6)
    assert not released.private


@pytest.mark.parametrize("drawn", [2**62 - 2**43, -(2**62)])
@pytest.mark.parametrize("count", [0, 2**50])
def test_noise_that_was_cut_leaves_the_same_number(drawn, count, monkeypatch):
    """What the sampler may cut is so far out that the gate cuts it to the same end, whatever the
    counts are.
    """
    monkeypatch.setattr(NoNoise, "gaussian", lambda *_, **__: np.array([drawn, drawn]))
    door, _ = gate(noise=NoNoise())
    door.begin(1)
    value = door.convolutions.weighted_sum(
        "sum", counts(count, 0), coefficients=np.array([2**30]), rho=share(door)
    ).value
    assert value.tolist() == [np.sign(drawn) * 2 * MAX_WEIGHTED_SUM] * 2


def test_what_a_look_into_the_memory_sees_includes_the_past():
    door, _ = gate()
    door.begin(1)
    door.convolutions.weighted_sum("sum", counts(5, 6), coefficients=ROW, rho=share(door))
    assert door.memory()["convolution sum"].tolist() == [[5, 6]]
