"""What leaves the gate carries noise of exactly the scale that was paid for.

Seeds are fixed, so a test that passes once passes always. For a fresh seed the chance of a false
alarm is below 1e-6 a test: every statistic is compared with its exact mean at five standard
deviations, over 20,000 draws.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from penstock.budget.grid import Budgets
from penstock.budget.ledger import Ledger
from penstock.core.guarantee import Guarantee
from penstock.core.private import Private
from penstock.private.gate import Gate, Price
from penstock.private.noise import TestNoise

SIZE = 20_000
FIVE_SIGMA = 5.0
FACTORS = pytest.mark.parametrize(("factor", "fits"), [(1.0, True), (0.7, False), (1.3, False)])


def gate(seed, window=1, epsilon="1"):
    door = Gate(
        ledger=Ledger(Guarantee(epsilon, window), keys=SIZE), noise=TestNoise(seed), keys=SIZE
    )
    door.begin(1)
    return door


def share(door, part):
    return door._ledger.grid.floor(door.guarantee.epsilon * Fraction(part))


def counts(value=100, sensitivity=1):
    return Private(np.full(SIZE, value), sensitivity=sensitivity)


def law(scale: float, layers: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Places and probabilities of the sum of discrete Laplace variables."""
    reach = math.ceil(50 * scale) + 1
    one = np.exp(-np.abs(np.arange(-reach, reach + 1)) / scale)
    one /= one.sum()
    whole = one
    for _ in range(layers - 1):
        whole = np.convolve(whole, one)
    return np.arange(len(whole)) - len(whole) // 2, whole


def has_scale(noise, scale: float, layers: int = 1) -> bool:
    """Whether the mean of |noise| is that of this scale, and the mean of the noise is 0."""
    places, chances = law(scale, layers)
    mean = float((np.abs(places) * chances).sum())
    square = float((places**2.0 * chances).sum())
    spread = math.sqrt((square - mean**2) / len(noise))
    centre = abs(float(noise.mean())) / math.sqrt(square / len(noise))
    return abs(float(np.abs(noise).mean()) - mean) < FIVE_SIGMA * spread and centre < FIVE_SIGMA


@FACTORS
@pytest.mark.parametrize("sensitivity", [1, 3])
def test_noise_has_the_scale_it_claims(factor, fits, sensitivity):
    released = gate(1).laplace(
        counts(sensitivity=sensitivity), epsilon=share(gate(1), "1/4"), label="publish"
    )
    assert float(released.scale) == 4 * sensitivity
    assert has_scale(released.value - 100, factor * 4 * sensitivity) is fits


@FACTORS
def test_noise_has_the_scale_it_claims_in_part(factor, fits):
    door = gate(2)
    where = np.arange(SIZE) % 3 > 0
    released = door.laplace(counts(), epsilon=share(door, "1/4"), label="publish", where=where)
    assert (released.value[~where] == 0).all()
    assert has_scale(released.value[where] - 100, factor * 4) is fits


@FACTORS
def test_every_key_has_the_noise_of_its_own_budget(factor, fits):
    door = gate(3)
    quanta = np.where(np.arange(SIZE) % 2, share(door, "1/2").quanta, share(door, "1/8").quanta)
    released = door.laplace(counts(), epsilon=Budgets(quanta, door._ledger.grid), label="publish")
    assert released.scale.floats()[:2].tolist() == [8, 2]
    noise = released.value - 100
    assert has_scale(noise[::2], factor * 8) is fits
    assert has_scale(noise[1::2], factor * 2) is fits


@FACTORS
def test_a_pot_is_poured_with_one_draw_of_noise(factor, fits):
    door = gate(4, window=4)
    for unit in range(1, 5):
        if unit > 1:
            door.begin(unit)
        door.pots.hold("pot", counts(), epsilon=share(door, "1/4"))
    poured = door.pots.pour("pot", where=np.ones(SIZE, bool))
    assert has_scale(poured.value - 400, factor * 4) is fits


@FACTORS
@pytest.mark.parametrize("disturbed", [0, 1])
def test_a_counter_has_the_layers_of_noise_that_it_claims(factor, fits, disturbed):
    door = gate(5)
    door.counters.prime("c", epsilon=share(door, "1/4"), sensitivity=1, size=SIZE, exposed=False)
    door.counters.count("c", counts())
    assert has_scale(door.memory()["counter c"] - 100, factor * 4) is fits
    for _ in range(disturbed):
        door.counters.disturb()
    before = door.memory()["counter c"]
    released = door.counters.read("c", again=True)
    assert released.layers == 2 + disturbed
    assert has_scale(released.value - 100, factor * 4, layers=2 + disturbed) is fits
    assert has_scale(released.value - before, factor * 4) is fits
    variance = float(((released.value - 100.0) ** 2).mean())
    assert (abs(variance / released.variance[0] - 1) < 0.06) or not fits


@FACTORS
def test_intervals_cover_as_often_as_they_say(factor, fits):
    door = gate(6)
    released = door.laplace(counts(), epsilon=share(door, "1/20"), label="publish")
    low, high = released.interval("0.9")
    half = (high - low) / 2 * factor
    covered = float((np.abs(released.estimate - 100) <= half).mean())
    places, chances = law(20)
    expected = float(chances[np.abs(places) <= (high - low)[0] / 2].sum())
    assert 0.9 <= expected < 0.92
    assert (
        abs(covered - expected) < FIVE_SIGMA * math.sqrt(expected * (1 - expected) / SIZE)
    ) is fits


@FACTORS
def test_a_question_has_the_noise_of_its_price(factor, fits):
    door = gate(7)
    price = Price(share(door, "1/2"), share(door, "1/8"))
    positive = float(door.runs.ask("run", counts(0), threshold=15, price=price).mean())
    (rho_places, rho_chances), (nu_places, nu_chances) = law(2), law(8 * factor)
    beyond = np.concatenate([np.cumsum(nu_chances[::-1])[::-1], [0.0]])  # P(nu >= place)
    start = np.clip(15 + rho_places - nu_places[0], 0, len(nu_chances))
    expected = float((rho_chances * beyond[start]).sum())
    assert (
        abs(positive - expected) < FIVE_SIGMA * math.sqrt(expected * (1 - expected) / SIZE)
    ) is fits


@pytest.mark.parametrize("scale", [2, 40])
def test_the_threshold_noise_of_a_run_is_drawn_once_and_has_its_scale(scale):
    door = gate(8, window=1)
    price = Price(share(door, Fraction(1, scale)), share(door, "1/4"))
    door.runs.ask("run", counts(0), threshold=10**6, price=price)
    noise = door.save().runs["run"].noise.copy()
    assert has_scale(noise, scale)
    assert not has_scale(noise, 0.7 * scale)
    assert not has_scale(noise, 1.3 * scale)
    door.begin(2)
    door.runs.ask("run", counts(0), threshold=10**6, price=price)
    assert (door.save().runs["run"].noise == noise).all()


def test_draws_of_different_units_labels_and_kinds_are_independent():
    door = gate(9, window=1)
    rows = []
    for unit in (1, 2):
        if unit > 1:
            door.begin(unit)
        rows += [
            door.laplace(counts(0), epsilon=share(door, "1/10"), label=label).value
            for label in ("a", "b", "a")
        ]
        door.pots.hold("a", counts(0), epsilon=share(door, "1/10"))
        rows.append(door.pots.pour("a", where=np.ones(SIZE, bool)).value)
    table = np.corrcoef(np.array(rows, float))
    off = table[~np.eye(len(rows), dtype=bool)]
    assert np.abs(off).max() < 6 / math.sqrt(SIZE)  # 28 pairs at six standard deviations
    neighbours = np.corrcoef(rows[0][:-1], rows[0][1:])[0, 1]
    assert abs(neighbours) < FIVE_SIGMA / math.sqrt(SIZE)
