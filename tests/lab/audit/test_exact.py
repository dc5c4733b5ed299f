"""The exact audit: against naive twins, against runs, against the promise, and against a flaw of
7/6.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, replace
from functools import partial
from itertools import product

import numpy as np
import pytest

from penstock import (
    BudgetAbsorption,
    BudgetDistribution,
    GroupedDistribution,
    PanAbsorption,
    PanDistribution,
    Pegasus,
    RetroactiveGrouping,
    Sample,
    Uniform,
)
from penstock.core.errors import ConfigurationError
from penstock.core.private import Private, unseal
from penstock.lab.audit.exact import (
    ROUNDING,
    ScriptedNoise,
    SeenUnit,
    exact_loss,
    likelihood,
    log_likelihood,
    loss_at,
    output,
    scripted_noise,
    worst_output,
)
from penstock.lab.audit.model import Look, Pair
from penstock.private.histograms.base import PUBLISH
from penstock.private.mechanisms.shares import Halving
from penstock.testing import TestNoise, intrude


def pair(left, right, look=None):
    return Pair("test", np.array(left), np.array(right), look)


# -- against naive twins ---------------------------------------------------------------------------


def chance(rate, value):
    return math.tanh(rate / 2) * math.exp(-rate * abs(value))


def naive(mechanism, stream, reach, look=None):
    """Every output with its probability, by running the stream once for every combination of noise;
    no cleverness at all.
    """
    found = defaultdict(float)

    def go_on(values):
        """Replay the stream with noise given draw by draw; where a draw is not given, branch over
        it.
        """
        given = iter(values)
        asked = []

        class Branching(ScriptedNoise):
            def _give(self, label, rates):
                row = []
                for rate in rates:
                    value = next(given, None)
                    if value is None:
                        asked.append(rate)
                        raise StopIteration
                    row.append(value)
                    self.weight *= chance(rate, value)
                return np.array(row, np.int64)

        noise = Branching({})
        noise.weight = 1.0
        run = mechanism.run(stream.shape[1], noise=noise)
        shown = []
        try:
            for unit, counts in enumerate(stream, start=1):
                seen = None
                if look is not None and look[0] == unit:
                    run.feed(look[1])
                    seen = tuple(intrude(run)["counter publish"].tolist())
                    counts = counts - look[1]
                released = run.step(counts)
                fresh = ~np.broadcast_to(released.repeated, counts.shape)
                shown.append(SeenUnit(tuple(released.value.tolist()), tuple(fresh.tolist()), seen))
        except StopIteration:
            for value in range(-reach, reach + 1):
                if noise.weight * chance(asked[0], value) > 1e-9:
                    go_on((*values, value))
            return
        found[tuple(shown)] += noise.weight

    go_on(())
    return found


@dataclass(frozen=True, kw_only=True)
class KeyByKey(Uniform):
    """Publishes each of two keys under a label of its own, the second one first."""

    def step(self, state, unit, gate):
        first = np.array([True, False])
        two = gate.laplace(unit, epsilon=self.share // 2, label="publish 1", where=~first)
        one = gate.laplace(unit, epsilon=self.share, label="publish 0", where=first)
        return state, replace(one.over(two, first), repeated=False)


TWINS = [
    (KeyByKey(epsilon=6, window=1), [[1, 2]], None),
    (Uniform(epsilon=12, window=2), [[3], [1]], None),
    (Sample(epsilon=6, window=2), [[3], [1], [2]], None),
    (BudgetDistribution(epsilon=16, window=2), [[1], [2]], None),
    (BudgetAbsorption(epsilon=16, window=2), [[1], [2]], None),
    (BudgetDistribution(epsilon=24, window=1), [[1, 0]], None),
    (GroupedDistribution(epsilon=24, window=1, groups=2), [[1, 0]], None),
    (PanDistribution(epsilon=24, window=1, intrusion="between"), [[1]], None),
    (PanAbsorption(epsilon=24, window=1, intrusion="within"), [[1]], None),
    (PanAbsorption(epsilon=24, window=1, intrusion="within"), [[2]], (1, np.array([1]))),
]


@pytest.mark.parametrize(("mechanism", "stream", "look"), TWINS)
def test_a_likelihood_is_what_running_every_noise_gives(mechanism, stream, look):
    stream = np.array(stream)
    found = naive(mechanism, stream, 12, look)
    assert math.fsum(found.values()) > 1 - 1e-4
    for shown, expected in sorted(found.items(), key=lambda item: -item[1])[:12]:
        low, high = likelihood(mechanism, stream, shown, look=look)
        assert low <= high
        assert low * (1 - 1e-6) - 1e-9 <= expected <= high * (1 + 1e-6)
        assert expected == pytest.approx(low, rel=1e-3)


def test_a_likelihood_is_the_share_of_runs_that_show_it():
    """4000 runs; a share further off than 5 standard deviations would come by chance once in a
    million.
    """
    mechanism, stream, runs = BudgetDistribution(epsilon=6, window=2), np.array([[2], [4]]), 4000
    counted = defaultdict(int)
    for seed in range(runs):
        run = mechanism.run(1, noise=TestNoise(seed))
        released = [run.step(counts) for counts in stream]
        counted[
            output([each.value for each in released], [not each.repeated for each in released])
        ] += 1
    for shown, times in sorted(counted.items(), key=lambda item: -item[1])[:3]:
        low, high = likelihood(mechanism, stream, shown)
        assert abs(times / runs - low) <= 5 * math.sqrt(low * (1 - low) / runs)
        assert high - low <= 1e-8


def test_probabilities_of_all_outputs_add_up_to_one():
    mechanism, stream = BudgetAbsorption(epsilon=12, window=2), np.array([[2], [3]])
    total = sum(
        likelihood(
            mechanism,
            stream,
            output([[one if new[0] else 0], [two if new[1] else one if new[0] else 0]], new),
        )[0]
        for new in product((False, True), repeat=2)
        for one in (range(-8, 12) if new[0] else [0])
        for two in (range(-12, 16) if new[1] else [0])
    )
    assert total == pytest.approx(1, abs=1e-6)


# -- shipped mechanisms ----------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [4, 8])
def test_the_exact_loss_of_uniform_is_epsilon(epsilon):
    found = exact_loss(Uniform(epsilon=epsilon, window=2), pair([[3], [4], [9]], [[2], [3], [9]]))
    assert found.low == pytest.approx(epsilon, abs=1e-6)
    assert found.high <= epsilon + 2 * ROUNDING
    assert found.covered >= 1 - 1e-6


nightly = partial(pytest.param, marks=pytest.mark.nightly)
"""The other cases of a test are its quick twin."""

CHANGING_KEY = ([[3, 1], [4, 1]], [[2, 1], [4, 0]])
ALWAYS_THERE = ([[3], [4]], [[2], [3]])
LATER = ([[3], [4], [2]], [[3], [3], [1]])
ONCE = ([[0], [1], [0]], [[0], [0], [0]])


@pytest.mark.parametrize(
    ("mechanism", "streams", "at_least"),
    [
        (Sample(epsilon=8, window=2), ALWAYS_THERE, 8),
        (Sample(epsilon=8, window=2), CHANGING_KEY, 8),
        (Uniform(epsilon=8, window=2), CHANGING_KEY, 8),
        (BudgetDistribution(epsilon=8, window=2), ALWAYS_THERE, 5),
        nightly(BudgetDistribution(epsilon=8, window=2), LATER, 6.5),
        nightly(BudgetDistribution(epsilon=12, window=2), CHANGING_KEY, 7),
        (BudgetAbsorption(epsilon=8, window=2), LATER, 8),
        nightly(BudgetAbsorption(epsilon=8, window=2), CHANGING_KEY, 6),
    ],
)
def test_shipped_mechanisms_lose_no_more_than_they_promise(mechanism, streams, at_least):
    found = exact_loss(mechanism, pair(*streams))
    assert (
        at_least - 1e-6
        <= found.low
        <= found.high
        <= float(mechanism.guarantee.epsilon) + 2 * ROUNDING
    )
    assert found.covered >= 1 - 1e-6
    low, high = loss_at(mechanism, pair(*streams), found.output)
    back, forth = loss_at(mechanism, pair(*streams).swapped(), found.output)
    assert found.low == pytest.approx(max(low, back))
    assert max(high, forth) <= found.high + ROUNDING


@pytest.mark.parametrize(("factor", "fits"), [(1.0, True), (0.7, False), (1.3, False)])
@pytest.mark.parametrize(
    ("mechanism", "streams", "expected"),
    [
        (Sample(epsilon=8, window=2), ALWAYS_THERE, 8),
        (BudgetDistribution(epsilon=8, window=2), ALWAYS_THERE, 5.014),
        (BudgetAbsorption(epsilon=8, window=2), LATER, 8),
        (RetroactiveGrouping(epsilon=10, watch="0.3", caution=4), ONCE, 10),
        (Pegasus(epsilon=10, theta=2), ONCE, 8.31),
    ],
    ids=["sample", "bd", "ba", "rg", "pegasus"],
)
def test_an_exact_loss_tells_noise_that_is_30_percent_off(
    mechanism, streams, expected, factor, fits, monkeypatch
):
    """The quick twin of the nightly exact audits. Nothing is random: no false alarm."""
    monkeypatch.setattr(scripted_noise, "_inverse", lambda scale: float(1 / scale) / factor)
    found = exact_loss(mechanism, pair(*streams), tail=1e-6)
    assert (found.low == pytest.approx(expected, rel=0.01)) is fits
    assert found.low == pytest.approx(expected / factor, rel=0.01)


def test_a_look_into_the_memory_is_part_of_the_output():
    look = Look(1, np.array([2]), np.array([1]))
    watched = pair([[3], [2]], [[2], [2]], look)
    mechanism = PanAbsorption(epsilon=24, window=1, intrusion="within")
    found = exact_loss(mechanism, pair([[3]], [[2]], look), tail=1e-7)
    blind = exact_loss(mechanism, pair([[3]], [[2]]), tail=1e-7)
    assert blind.high < found.low <= found.high <= 24 + 2 * ROUNDING
    with pytest.raises(ConfigurationError, match="what a look saw"):
        loss_at(mechanism, watched, output([[3], [2]], [True, True]))


# -- mutants ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class InThirds(Halving):
    """The paper's rule: a third of the remainder of ε/2."""

    def offer(self, position, gate):
        return (self.pool - gate.spent(PUBLISH)) // 3


@dataclass(frozen=True, kw_only=True)
class AsPublished(PanDistribution):
    """Claims half of its `epsilon`, so that the ledger does not stop it."""

    sharing = InThirds

    def budgets(self, size):
        claimed = self.total // 2
        return claimed // (2 * self.window), claimed // 2


def falling(window):
    """A look in unit 1, then counts that fall a little below the last release; the person is there
    throughout.
    """
    right = np.array([[60], *([60 - 4 * unit] for unit in range(window - 1))])
    return Pair("falling", right + 1, right, Look(1, right[0] + 1, right[0]))


def test_a_third_of_the_remainder_is_convicted():
    found = worst_output(
        AsPublished(epsilon=2, window=6, intrusion="between"), falling(6), starts=1
    )
    assert found.low > 1.005
    # All distances but one are in their unlikely tails: 1/2 − 1/12, the look 1/6, five publications
    # of a third each.
    assert found.high < 1 / 2 - 1 / 12 + 1 / 6 + (1 - (2 / 3) ** 5) / 2 + 1 / 12 + 1e-6


def test_what_is_shipped_in_its_place_is_not():
    found = worst_output(
        PanDistribution(epsilon=1, window=6, intrusion="between"), falling(6), starts=1
    )
    assert 0.85 < found.low <= found.high <= 1 + 2 * ROUNDING


def test_the_worst_output_has_the_loss_that_is_reported():
    streams = pair(*LATER)
    mechanism = BudgetAbsorption(epsilon=8, window=2)
    found = worst_output(mechanism, streams, starts=2)
    assert (found.low, found.high) == loss_at(
        mechanism, streams.swapped() if found.swapped else streams, found.output
    )
    assert found.low == pytest.approx(exact_loss(mechanism, streams, tail=1e-6).low, rel=0.01)


@dataclass(frozen=True, kw_only=True)
class HalvedSensitivity(Uniform):
    """Noise for half of the events that a person may have."""

    def step(self, state, unit, gate):
        return super().step(state, Private(unseal(unit), sensitivity=self.contribution // 2), gate)


def test_too_little_noise_is_convicted_with_its_exact_loss():
    found = exact_loss(HalvedSensitivity(epsilon=4, window=1, contribution=2), pair([[2]], [[0]]))
    assert found.low == pytest.approx(8, abs=1e-6)


# -- limits ----------------------------------------------------------------------------------------


def test_a_stream_that_is_too_large_is_refused_before_it_is_begun():
    stream = np.full((6, 4), 5)
    with pytest.raises(
        ConfigurationError, match="outputs would have to be looked at, and the limit is 200000"
    ):
        exact_loss(BudgetDistribution(epsilon=1, window=3), Pair("large", stream + 1, stream))


def test_a_limit_is_kept():
    with pytest.raises(ConfigurationError, match="more than 100 outputs"):
        exact_loss(Uniform(epsilon=8, window=2), pair(*LATER), limit=100)


def test_progress_is_told():
    told = []
    exact_loss(BudgetAbsorption(epsilon=8, window=2), pair(*LATER), progress=told.append)
    assert told == sorted(told)
    assert 0 < told[-1] <= 1


def test_an_impossible_output_has_no_likelihood_and_a_possible_one_far_out_has():
    mechanism, stream = BudgetDistribution(epsilon=4, window=2), np.array([[2], [2]])
    assert likelihood(mechanism, stream, output([[0], [7]], [False, False])) == (0, 0)
    low, high = log_likelihood(mechanism, stream, output([[2000], [2000]], [True, False]))
    assert -10_000 < low <= high < -1000


def test_an_output_of_another_length_is_refused():
    with pytest.raises(ConfigurationError, match="1 units, but the stream has 3"):
        likelihood(Uniform(epsilon=1, window=2), np.array([[1], [2], [3]]), output([[1]], [True]))


def test_a_look_that_must_be_announced_is_refused():
    look = Look(1, np.array([2]), np.array([1]))
    with pytest.raises(ConfigurationError, match="must be told"):
        exact_loss(
            PanAbsorption(epsilon=8, window=1, intrusion="announced"), pair([[2]], [[1]], look)
        )
