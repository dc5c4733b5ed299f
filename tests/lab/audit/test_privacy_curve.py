"""The δ itself, computed from the mechanisms' own code: never above the promise, and near it."""

from __future__ import annotations

import math
from fractions import Fraction
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.core.errors import ConfigurationError
from penstock.lab.audit.exact import privacy_curve as module
from penstock.lab.audit.exact.privacy_curve import privacy_curve, rounded_gaussian
from penstock.lab.audit.flawed.gaussian import ClassicalGaussian, UnchargedChoice
from penstock.lab.audit.model import Pair
from penstock.private.mechanisms.base import Mechanism

EPSILON, DELTA = 6, Fraction(1, 20)


def present(*rows: list[int], events: int = 1) -> Pair:
    """A stream with and without a person who is in the first key in every unit."""
    base = np.array(rows, np.int64)
    person = np.zeros_like(base)
    person[:, 0] = events
    return Pair("a person in every unit", base + person, base)


def made(cls: type[Any], **options: Any) -> Mechanism[Any]:
    return cls(**{"epsilon": EPSILON, "window": 2, "delta": DELTA} | options)


@pytest.mark.parametrize(
    ("cls", "stream"),
    [
        (ps.Uniform, [[0], [2]]),
        (ps.Sample, [[0], [2]]),
        (ps.BudgetDistribution, [[0], [0]]),
        (ps.BudgetDistribution, [[0], [2]]),
        (ps.BudgetAbsorption, [[0], [0]]),
        (ps.BudgetAbsorption, [[0], [2]]),
    ],
)
def test_no_pair_needs_more_than_the_promised_delta(cls: Any, stream: list[list[int]]) -> None:
    """Variances and moments of publication are chosen on the way; every output is counted."""
    curve = privacy_curve(made(cls), present(*stream), tail=1e-6)
    assert curve.delta(EPSILON)[1] <= DELTA
    assert curve.missing < 1e-3


@pytest.mark.nightly
@pytest.mark.parametrize("cls", [ps.BudgetDistribution, ps.BudgetAbsorption])
@pytest.mark.parametrize("stream", [[[0], [0], [3]], [[4], [0], [0]]], ids=str)
def test_no_pair_of_three_units_needs_more_than_the_promised_delta(
    cls: Any, stream: list[list[int]]
) -> None:
    """About 40 CPU seconds. Quick twin: the test above."""
    curve = privacy_curve(made(cls, epsilon=9, window=3), present(*stream), tail=1e-7)
    assert curve.missing < 1e-2
    assert curve.delta(9)[1] <= DELTA


def test_uniform_needs_nearly_all_of_its_delta() -> None:
    """Where a person has many events, rounding hides little, and the curve is the Gaussian's."""
    mechanism = made(ps.Uniform, window=1, contribution=12, epsilon=2)
    low, high = privacy_curve(mechanism, present([0], events=12), tail=1e-12).delta(2)
    assert 0.99 * DELTA <= low <= high <= DELTA


def test_a_unit_that_is_forgotten_too_early_shows() -> None:
    """Shares for one unit, and a person in two."""
    mechanism = made(ps.Uniform, window=1)
    assert privacy_curve(mechanism, present([0], [0])).delta(EPSILON)[0] > 2 * DELTA


@pytest.mark.parametrize(
    ("cls", "epsilon", "delta"), [(ClassicalGaussian, 6, "0.5"), (UnchargedChoice, 2, "0.05")]
)
def test_a_flawed_variant_needs_more_than_it_claims(cls: Any, epsilon: int, delta: str) -> None:
    mechanism = made(cls, epsilon=epsilon, window=1, contribution=3, delta=delta)
    curve = privacy_curve(mechanism, present([0], events=3), tail=1e-8)
    assert curve.delta(epsilon)[0] > float(delta) * 1.05


@pytest.mark.parametrize("deviation", [0.3, 1.0, 7.5])
def test_the_law_of_rounded_noise_adds_up(deviation: float) -> None:
    normal = NormalDist(0, deviation)
    for value in (-3, 0, 1, 8):
        expected = normal.cdf(value + 0.5) - normal.cdf(value - 0.5)
        assert rounded_gaussian(deviation, value) == pytest.approx(expected, rel=1e-6, abs=1e-15)
    assert math.fsum(rounded_gaussian(deviation, k) for k in range(-90, 91)) == pytest.approx(1)


def test_other_noise_and_long_tasks_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigurationError, match="Gaussian noise only"):
        privacy_curve(ps.Uniform(epsilon=1, window=1), present([0]))
    monkeypatch.setattr(module, "_LIMIT", 10)
    with pytest.raises(ConfigurationError, match="more than 10 runs"):
        privacy_curve(made(ps.Uniform), present([0], [0]))
