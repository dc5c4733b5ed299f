"""Probabilities of answers, against sums over all noise by hand."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from penstock.lab.audit.replay.probabilities import (
    gaussian_delta,
    gaussian_epsilon,
    log_answers,
    log_layers,
    log_reached,
    log_sampled,
)


def law(scale: float, reach: int = 400) -> dict[int, float]:
    q = math.exp(-1 / scale)
    return {k: (1 - q) / (1 + q) * q ** abs(k) for k in range(-reach, reach + 1)}


@pytest.mark.parametrize("scale", [0.5, 3.0, 12.0])
def test_the_tail_of_the_noise(scale: float) -> None:
    noise = law(scale)
    for distance in (-20, -1, 0, 1, 2, 20):
        tail = sum(p for k, p in noise.items() if k >= distance)
        found = float(log_reached(np.array([float(distance)]), scale)[0])
        assert found == pytest.approx(math.log(tail), abs=1e-9)


@pytest.mark.parametrize("layers", [2, 3])
def test_sums_of_several_draws(layers: int) -> None:
    noise = np.array(list(law(2.0, 60).values()))
    total = noise
    for _ in range(layers - 1):
        total = np.convolve(total, noise)
    middle = len(total) // 2
    places = np.array([0, 1, -4, 9])
    expected = np.log(total[middle + places]) - math.log(total[middle])
    found = log_layers(places, 2.0, layers)
    assert found - found[0] == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("answers", list(itertools.product([True, False], repeat=3)))
def test_the_answers_of_a_run_share_the_noise_of_their_threshold(
    answers: tuple[bool, ...],
) -> None:
    distances = (3, -2, 8)
    total = 0.0
    for rho, p in law(4.0).items():
        chance = p
        for distance, yes in zip(distances, answers, strict=True):
            reached = math.exp(float(log_reached(np.array([float(distance + rho)]), 2.0)[0]))
            chance *= reached if yes else 1 - reached
        total += chance
    questions = list(zip(distances, answers, strict=True))
    constant = math.log(law(4.0)[0])
    found = log_answers(questions, Fraction(4), Fraction(2)) + constant
    assert found == pytest.approx(math.log(total), abs=1e-9)
    coarse = log_answers(questions, Fraction(400), Fraction(200), fine=False)
    assert coarse == pytest.approx(log_answers(questions, Fraction(400), Fraction(200)), abs=1e-3)


def test_a_sample_is_summed_over() -> None:
    expected = sum(
        math.comb(5, k) * 0.3**k * 0.7 ** (5 - k) * math.exp(-abs(2 - k) / 1.5) for k in range(6)
    )
    assert log_sampled(2, 5, 0.3, 1.5) == pytest.approx(math.log(expected), abs=1e-9)


@pytest.mark.parametrize("rho", [0.01, 0.5, 4.0])
def test_the_gaussian_curve_and_its_inverse(rho: float) -> None:
    delta = gaussian_delta(rho, 1.0)
    if delta > 0:
        assert gaussian_epsilon(rho, delta) == pytest.approx(1.0, abs=1e-6)
    steps = np.linspace(-40, 40, 400_001)
    length = math.sqrt(2 * rho)
    density = np.exp(-(steps**2) / 2) / math.sqrt(2 * math.pi)
    moved = np.exp(-((steps - length) ** 2) / 2) / math.sqrt(2 * math.pi)
    integral = float(np.maximum(moved - math.e * density, 0).sum() * (steps[1] - steps[0]))
    assert delta == pytest.approx(integral, abs=1e-6)
