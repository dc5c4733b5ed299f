from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.errors import ConfigurationError
from penstock.core.sketch import AESketch, total_weight

GAMMAS = ["0.05", "0.5", "0.91", "0.95", "0.999", "1"]
BETAS = ["0.02", "0.1", "0.3", "0.5", "1"]
SLACK = 1e-9
"""For float rounding, in parts of the mass of a window."""


def truth(values: np.ndarray, gamma: Fraction, span: int) -> np.ndarray:
    """The weighted sum of every key by its definition; units × keys in."""
    recent = values[::-1][:span]
    return float(gamma) ** np.arange(len(recent)) @ recent


def play(values: np.ndarray, *, gamma: str, span: int, beta: str) -> list[AESketch]:
    sketches = [AESketch.start(values.shape[1], gamma=gamma, span=span, beta=beta)]
    for row in values:
        sketches.append(sketches[-1].add(row))
    return sketches[1:]


def streams(kind: str, units: int, keys: int, seed: int) -> np.ndarray:
    """Values in [0, 1]: steady, rare, in bursts, falling and rising, and ones."""
    rng = np.random.default_rng(seed)
    if kind == "any":
        return rng.random((units, keys))
    if kind == "rare":
        return (rng.random((units, keys)) < 0.03).astype(float)
    if kind == "bursts":
        return np.repeat(rng.random((units // 7 + 1, keys)) < 0.4, 7, axis=0)[:units].astype(float)
    if kind == "ramps":
        return (np.arange(units)[:, None] * rng.random(keys) / 9) % 1
    return np.ones((units, keys))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["any", "rare", "bursts", "ramps", "ones"])
@pytest.mark.parametrize("gamma", GAMMAS)
@pytest.mark.parametrize("beta", BETAS)
def test_it_is_off_by_at_most_half_of_theta_with_few_blocks(
    kind: str, gamma: str, beta: str
) -> None:
    for span in (1, 2, 7, 60):
        values = streams(kind, 150, 40, seed=span)
        for unit, sketch in enumerate(play(values, gamma=gamma, span=span, beta=beta), start=1):
            off = np.abs(sketch.estimate - truth(values[:unit], Fraction(gamma), span))
            assert (off <= sketch.error + SLACK * span).all()
            assert (sketch.error <= sketch.threshold / 2 + SLACK * span).all()
            assert sketch.blocks <= 2 / float(beta) + 3


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    values=st.lists(st.floats(0, 1) | st.sampled_from([0.0, 1.0]), min_size=1, max_size=60),
    gamma=st.fractions("1/100", 1, max_denominator=1000),
    span=st.integers(1, 30),
    beta=st.fractions("1/40", 1, max_denominator=100),
)
def test_no_stream_of_unit_weights_breaks_the_bounds(
    values: list[float], gamma: Fraction, span: int, beta: Fraction
) -> None:
    sketch = AESketch.start(1, gamma=gamma, span=span, beta=beta)
    theta = float(beta) * sum(float(gamma) ** age for age in range(span))
    for unit, value in enumerate(values, start=1):
        sketch = sketch.add(np.array([value]))
        true = truth(np.array(values[:unit])[:, None], gamma, span)
        assert abs(sketch.estimate - true)[0] <= theta / 2 + SLACK * span
        assert sketch.blocks <= 2 / float(beta) + 3


@pytest.mark.parametrize("gamma", ["0.9", "0.99", "1"])
def test_values_of_any_size_and_sign_are_off_by_at_most_half_of_beta_of_the_largest_mass(
    gamma: str,
) -> None:
    rng = np.random.default_rng(3)
    values = np.round(rng.laplace(0, 30, (400, 50)) + rng.choice([0, 500, -20], (400, 50)))
    most = np.zeros(50)
    for unit, sketch in enumerate(play(values, gamma=gamma, span=90, beta="0.1"), start=1):
        most = np.maximum(most, truth(np.abs(values[:unit]), Fraction(gamma), 90))
        off = np.abs(sketch.estimate - truth(values[:unit], Fraction(gamma), 90))
        assert (off <= sketch.error + SLACK * most).all()
        assert (sketch.error <= 0.05 * most * (1 + SLACK)).all()
        assert sketch.blocks <= 20


@pytest.mark.parametrize("gamma", GAMMAS)
@pytest.mark.parametrize("kind", ["any", "rare", "bursts", "ramps", "ones"])
def test_taking_units_for_alike_is_off_by_at_most_what_it_says(gamma: str, kind: str) -> None:
    values = streams(kind, 200, 30, seed=9) - 0.1
    for unit, sketch in enumerate(play(values, gamma=gamma, span=50, beta="0.25"), start=1):
        off = np.abs(sketch.even - truth(values[:unit], Fraction(gamma), 50))
        assert (off <= sketch.even_error + SLACK * 50).all()
        assert (sketch.error <= sketch.even_error + SLACK).all()
        assert (sketch.even_error <= 2 * sketch.error + SLACK).all()


@pytest.mark.parametrize("gamma", ["0.95", "0.99", "1"])
def test_taking_units_for_alike_is_closer_on_steady_streams(gamma: str) -> None:
    values = np.random.default_rng(10).poisson(20, (400, 30))
    half = even = 0.0
    for unit, sketch in enumerate(play(values, gamma=gamma, span=100, beta="0.1"), start=1):
        true = truth(values[:unit], Fraction(gamma), 100)
        half += float(np.square(sketch.estimate - true).sum())
        even += float(np.square(sketch.even - true).sum())
    assert even < half / 20
    ones = play(np.ones((400, 1)), gamma=gamma, span=100, beta="0.1")
    assert all(
        sketch.even[0] == pytest.approx(total_weight(Fraction(gamma), 100)) for sketch in ones[100:]
    )


def test_the_mass_counts_what_cancels() -> None:
    """+9 and −9 sum up to nothing, and yet half of the two may leave the window alone."""
    values = np.tile([[9.0], [-9.0]], (60, 1))
    worst = 0.0
    for unit, sketch in enumerate(play(values, gamma="1", span=25, beta="0.2"), start=1):
        off = abs(sketch.estimate - truth(values[:unit], Fraction(1), 25))[0]
        assert off <= sketch.error[0] + SLACK
        worst = max(worst, off)
    assert worst >= 4.5


def test_the_example_of_the_paper_is_within_half_of_theta() -> None:
    sketch = play(np.ones((4, 1)), gamma="0.95", span=3, beta="0.5")[-1]
    assert sketch.threshold == pytest.approx(1.42625)
    assert abs(sketch.estimate[0] - 2.8525) <= sketch.threshold / 2


def test_it_is_exact_until_a_block_reaches_over_the_end_of_the_window() -> None:
    values = np.random.default_rng(1).random((80, 5))
    for unit, sketch in enumerate(play(values, gamma="0.97", span=80, beta="0.25"), start=1):
        assert np.allclose(sketch.estimate, truth(values[:unit], Fraction("0.97"), 80), rtol=1e-13)
        assert not sketch.straddles.any()


def test_merging_does_happen_and_does_lose_something() -> None:
    values = np.random.default_rng(2).random((200, 5))
    sketch = play(values, gamma="0.99", span=100, beta="0.25")[-1]
    assert sketch.blocks == 8
    assert (np.abs(sketch.estimate - truth(values, Fraction("0.99"), 100)) > 0.01).any()


def test_keys_do_not_know_of_each_other() -> None:
    values = np.random.default_rng(4).laplace(0, 5, (150, 6))
    together = play(values, gamma="0.98", span=40, beta="0.2")[-1]
    for key in range(6):
        alone = play(values[:, [key]], gamma="0.98", span=40, beta="0.2")[-1]
        assert alone.estimate[0] == together.estimate[key]
        assert (alone.first[0] == together.first[key]).all()


def test_a_sketch_is_not_changed_by_what_comes_after_it() -> None:
    before = play(np.ones((30, 2)), gamma="0.9", span=12, beta="0.5")[-1]
    kept = before.estimate.copy()
    before.add(np.array([100.0, 5.0]))
    assert (before.estimate == kept).all()


def test_blocks_tile_the_units_and_expire() -> None:
    values = streams("bursts", 500, 30, seed=5)
    sketch = play(values, gamma="0.999", span=64, beta="0.2")[-1]
    assert (np.diff(sketch.first, axis=1) > 0).all()
    assert (sketch.first[:, -1] <= 500).all()
    assert (
        sketch.first[:, 1] > 500 - 64 + 1
    ).all()  # the oldest block still reaches into the window


def test_long_decay_neither_overflows_nor_loses_the_new() -> None:
    sketch = AESketch.start(1, gamma="0.5", span=5_000, beta="0.5")
    with np.errstate(over="raise", invalid="raise"):
        for _ in range(4_000):
            sketch = sketch.add(np.array([3.0]))
    assert sketch.estimate[0] == pytest.approx(6.0, rel=1e-14)


def test_one_number_a_key_is_as_good_where_the_end_of_the_window_weighs_nothing() -> None:
    rng = np.random.default_rng(6)
    sketch, one = AESketch.start(3, gamma="0.91", span=2_000, beta="0.1"), np.zeros(3)
    for _ in range(2_500):
        counts = rng.integers(0, 50, 3)
        sketch, one = sketch.add(counts), 0.91 * one + counts
    assert np.allclose(sketch.estimate, one, rtol=1e-13)
    assert (sketch.error <= 1e-15).all()


def test_the_weight_of_a_window_of_ones() -> None:
    for gamma in GAMMAS:
        for span in (1, 3, 200):
            assert total_weight(Fraction(gamma), span) == pytest.approx(
                math.fsum(float(gamma) ** a for a in range(span))
            )


@pytest.mark.parametrize(
    ("name", "bad"), [("gamma", "0"), ("gamma", "1.01"), ("beta", "0"), ("beta", "2"), ("span", 0)]
)
def test_bad_parameters_are_refused(name: str, bad: object) -> None:
    good: dict[str, object] = {"gamma": "0.9", "span": 10, "beta": "0.1"}
    with pytest.raises(ConfigurationError, match=name):
        AESketch.start(1, **{**good, name: bad})  # type: ignore[arg-type]
