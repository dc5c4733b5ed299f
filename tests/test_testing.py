from __future__ import annotations

from fractions import Fraction

import numpy as np

from penstock import BudgetAbsorption, PanAbsorption, Uniform
from penstock.core.private import Private
from penstock.private.gate import Price
from penstock.testing import Draw, GaussianDraw, NoNoise, RecordingNoise, TestNoise, intrude


def test_noise_is_off_when_it_is_off() -> None:
    released = Uniform(epsilon="1", window=3).run(2, noise=NoNoise()).step([7, 0])
    assert released.value.tolist() == [7, 0]
    assert not released.private


def test_noise_repeats_itself_by_its_seed() -> None:
    one, two, three = (
        Uniform(epsilon="1", window=3).run(50, noise=TestNoise(seed)) for seed in (1, 1, 2)
    )
    counts = np.zeros(50, np.int64)
    first = one.step(counts).value
    assert np.array_equal(first, two.step(counts).value)
    assert not np.array_equal(first, three.step(counts).value)


def test_pytest_does_not_take_the_noise_for_a_test() -> None:
    assert TestNoise.__test__ is False


def test_a_recording_changes_no_draw_and_keeps_each() -> None:
    plain, recorded = TestNoise(5), RecordingNoise(TestNoise(5))
    which = np.array([1, 0, 1])
    counts = np.array([4, 9])
    assert not recorded.private
    for noise in (plain, recorded):
        assert len(noise.laplace(Fraction(3), 0, unit=1, label="none")) == 0
    assert np.array_equal(
        *(noise.laplace(Fraction(3), 4, unit=1, label="a") for noise in (plain, recorded))
    )
    scales = [Fraction(5), Fraction(2), Fraction(1)]
    assert np.array_equal(
        *(noise.laplace_each(scales, which, unit=2, label="b") for noise in (plain, recorded))
    )
    assert np.array_equal(
        *(noise.thin(counts, Fraction(1, 2), unit=3, label="c") for noise in (plain, recorded))
    )
    assert recorded.draws == [Draw(1, "a", Fraction(3), 4), Draw(2, "b", Fraction(2), 3)]


def test_an_intruder_between_units_sees_what_was_released() -> None:
    run = PanAbsorption(epsilon="1", window=3).run(4, noise=TestNoise(2))
    released = run.step([900, 0, 40, 7])
    seen = intrude(run)
    assert set(seen) == {"state"}
    assert np.array_equal(seen["state"].last.value, released.value)


def test_an_intruder_within_a_unit_sees_counts_on_top_of_noise() -> None:
    def look(seed: int) -> dict[str, object]:
        run = PanAbsorption(epsilon="1", window=3).run(4, noise=TestNoise(seed))
        run.feed([900, 0, 40, 7])
        return intrude(run)

    values = [look(seed)["counter publish"] for seed in range(20)]
    assert not any(np.array_equal(value, [900, 0, 40, 7]) for value in values)
    assert len({tuple(np.asarray(value)) for value in values}) == 20


def test_what_an_intruder_saw_does_not_change_later() -> None:
    run = PanAbsorption(epsilon="1", window=3).run(2, noise=TestNoise(3))
    run.feed([5, 0])
    seen = intrude(run)["counter publish"]
    before = seen.copy()
    run.feed([5, 100])
    assert np.array_equal(seen, before)


def test_an_intruder_sees_all_that_the_gate_holds() -> None:
    run = BudgetAbsorption(epsilon="1", window=3).run(2, noise=TestNoise(4))
    run.step([1, 2])
    gate, share = run._gate, run.mechanism.total // 100
    counts = Private(np.array([3, 4]), sensitivity=1)
    gate.pots.hold("pot", counts, epsilon=share)
    gate.runs.keep(
        "sum", lambda _, raw: (raw + 1, raw), counts, price=Price(share, share), stability=1
    )
    seen = intrude(run)
    assert seen["pot pot"].tolist() == [3, 4]
    assert seen["fold sum"].tolist() == [4, 5]


def test_gaussian_draws_are_recorded_and_not_changed() -> None:
    plain, recorded = TestNoise(5), RecordingNoise(TestNoise(5))
    assert np.array_equal(
        *(noise.gaussian(Fraction(50), 4, unit=1, label="a") for noise in (plain, recorded))
    )
    assert len(recorded.gaussian(Fraction(50), 0, unit=1, label="none")) == 0
    assert recorded.gaussians == [GaussianDraw(1, "a", Fraction(50), 4)]
    assert not recorded.draws
