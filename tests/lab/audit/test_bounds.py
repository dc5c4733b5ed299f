from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

from penstock.core.errors import ConfigurationError
from penstock.lab.audit.bounds import epsilon_bound, lower, upper


def at_least(hits: int, runs: int, chance: float) -> float:
    """P(Binomial(runs, chance) ≥ hits), added up term by term."""
    return math.fsum(
        math.comb(runs, k) * chance**k * (1 - chance) ** (runs - k) for k in range(hits, runs + 1)
    )


@pytest.mark.parametrize("miss", [0.2, 0.01, 1e-5])
@pytest.mark.parametrize(
    ("hits", "runs"), [(1, 10), (3, 10), (10, 10), (7, 40), (39, 40), (1, 200), (120, 200)]
)
def test_clopper_pearson_solves_the_binomial_sums(hits: int, runs: int, miss: float) -> None:
    assert at_least(hits, runs, lower(hits, runs, miss)) == pytest.approx(miss, rel=1e-6)
    # the upper bound is the lower one of what did not happen
    assert upper(runs - hits, runs, miss) == pytest.approx(1 - lower(hits, runs, miss), rel=1e-9)
    if runs - hits < runs:
        at_most = 1 - at_least(runs - hits + 1, runs, upper(runs - hits, runs, miss))
        assert at_most == pytest.approx(miss, rel=1e-6)


def test_nothing_seen_and_everything_seen() -> None:
    assert lower(0, 50, 0.01) == 0.0
    assert upper(50, 50, 0.01) == 1.0
    assert upper(0, 50, 0.01) == pytest.approx(1 - 0.01 ** (1 / 50))


@pytest.mark.parametrize("chance", [0.001, 0.02, 0.3, 0.5, 0.97])
def test_a_bound_on_a_probability_is_wrong_at_most_as_often_as_stated(chance: float) -> None:
    """No simulation: the chance of each number of hits is known."""
    runs, miss = 60, 0.05
    chances = binom.pmf(np.arange(runs + 1), runs, chance)
    assert sum(chances[k] for k in range(runs + 1) if lower(k, runs, miss) > chance) <= miss
    assert sum(chances[k] for k in range(runs + 1) if upper(k, runs, miss) < chance) <= miss


@pytest.mark.parametrize(("left", "right"), [(0.3, 0.1), (0.5, 0.5), (0.02, 0.01), (0.1, 0.4)])
def test_the_bound_on_epsilon_exceeds_the_truth_at_most_as_often_as_stated(
    left: float, right: float
) -> None:
    """Also without simulation: over all numbers of hits on both sides, with their probabilities."""
    runs, confidence = 80, 0.9
    truth = max(0.0, math.log(left / right))
    ones, others = (binom.pmf(np.arange(runs + 1), runs, chance) for chance in (left, right))
    wrong = 0.0
    for hits in range(runs + 1):
        for misses in range(runs + 1):
            chance = float(ones[hits] * others[misses])
            if (
                chance > 1e-9
                and epsilon_bound(hits, runs, misses, runs, confidence=confidence) > truth
            ):
                wrong += chance
    assert wrong <= 1 - confidence


def test_the_bound_is_conservative_in_a_simulation() -> None:
    """2,000 audits of an event at ratio e: false-alarm probability of this test below 1e-9 if the
    bound is sound.
    """
    rng = np.random.default_rng(20)
    runs, confidence = 1_000, 0.95
    left, right = rng.binomial(runs, 0.5, 2_000), rng.binomial(runs, 0.5 / math.e, 2_000)
    bounds = [
        epsilon_bound(int(a), runs, int(b), runs, confidence=confidence)
        for a, b in zip(left, right, strict=True)
    ]
    wrong = sum(bound > 1 for bound in bounds)
    assert wrong <= binom.isf(1e-9, 2_000, 1 - confidence)
    assert np.mean(bounds) > 0.75  # and not worthless


def test_more_runs_bring_the_bound_nearer() -> None:
    bounds = [
        epsilon_bound(n // 2, n, n // 10, n, confidence=0.999)
        for n in (100, 1_000, 10_000, 1_000_000)
    ]
    assert bounds == sorted(bounds)
    assert math.log(5) - 0.02 < bounds[-1] < math.log(5)


@pytest.mark.parametrize("confidence", [0.0, 1.0, -1.0, 2.0, math.nan])
def test_a_confidence_outside_0_to_1_is_refused(confidence: float) -> None:
    with pytest.raises(ConfigurationError, match="confidence"):
        epsilon_bound(1, 2, 1, 2, confidence=confidence)


def test_delta_is_taken_from_the_likelier_side() -> None:
    plain, less = (
        epsilon_bound(3_000, 10_000, 1_000, 10_000, confidence=0.99, delta=delta)
        for delta in (0.0, 0.1)
    )
    assert less < plain
    assert math.isclose(
        less, math.log((lower(3_000, 10_000, 0.005) - 0.1) / upper(1_000, 10_000, 0.005))
    )


@pytest.mark.parametrize("delta", [0.3, 0.9])
def test_a_delta_above_what_was_seen_leaves_nothing(delta: float) -> None:
    assert epsilon_bound(3_000, 10_000, 1_000, 10_000, confidence=0.99, delta=delta) == 0
