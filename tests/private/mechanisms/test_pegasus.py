"""Perturb, group, smooth: the whole of it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import get_args

import numpy as np
import pytest

import penstock as ps
from penstock.budget.grid import Budget, Budgets
from penstock.core.arrays import IntArray
from penstock.core.domain import Domain
from penstock.core.private import Private
from penstock.private.gate import Gate
from penstock.private.mechanisms.base import Mechanism
from penstock.private.mechanisms.pegasus import Pegasus, PegasusState, advance, threshold_of
from penstock.private.mechanisms.smoothers import Smoother
from penstock.testing import NoNoise, RecordingNoise, TestNoise

from tests.private.mechanisms.patterns import charged
from tests.private.mechanisms.test_smoothers import naive

EVERY: list[Smoother] = list(get_args(Smoother))


def restless(keys: int, units: int, *, seed: int) -> list[IntArray]:
    """Counts that stay for some ten units, wobble a little and leap."""
    rng = np.random.default_rng(seed)
    level = rng.integers(0, 100, keys)
    stream = []
    for _ in range(units):
        level = np.where(rng.random(keys) < 0.04, rng.integers(0, 5_000, keys), level)
        stream.append(level + rng.integers(0, 3, keys))
    return stream


def test_the_papers_example_without_noise() -> None:
    run = Pegasus(epsilon=1, theta="0.4").run(1, noise=NoNoise())  # θ = 2
    released = [run.step([count]) for count in (5, 5, 6, 9, 10)]
    assert [int(out.public["start"][0]) for out in released] == [1, 1, 1, 4, 5]
    assert [out.estimate.tolist() for out in released] == [[5], [5], [5], [9], [10]]
    assert [np.asarray(out.layers).tolist() for out in released] == [[1], [2], [3], [1], [1]]
    assert run.step([10]).public["start"].tolist() == [5]  # 5 opened a group, which goes on


@pytest.mark.parametrize("smoother", EVERY)
def test_a_release_is_the_smoothed_group_that_its_public_part_shows(smoother: Smoother) -> None:
    run = Pegasus(epsilon=1, theta=20, smoother=smoother).run(6, noise=TestNoise(5))
    noisy: list[IntArray] = []
    longest = 0
    for counts in restless(6, 150, seed=1):
        out = run.step(counts)
        noisy.append(out.public["noisy"])
        for key, start in enumerate(out.public["start"].tolist()):
            group = [int(each[key]) for each in noisy[start - 1 :]]
            divisor = int(np.broadcast_to(out.divisor, 6)[key])
            assert Fraction(int(out.value[key]), divisor) == naive(smoother, group)
            assert np.broadcast_to(out.layers, 6)[key] == len(group)
            longest = max(longest, len(group))
    assert longest > 20
    assert out.kind == {"median": "median", "mean": "sum", "james_stein": "shrunk"}[smoother]


def test_smoothing_leaves_less_noise_than_a_perturbed_count_has() -> None:
    run = Pegasus(epsilon=1).run(500, noise=TestNoise(2))
    for _ in range(30):
        out = run.step(np.full(500, 40))
    assert np.abs(out.estimate - 40).mean() < 0.5 * np.abs(out.public["noisy"] - 40).mean()
    assert (out.variance <= 2 / 0.8**2).all()


@pytest.mark.parametrize("smoother", EVERY)
def test_a_restart_in_the_middle_of_long_groups_changes_nothing(smoother: Smoother) -> None:
    mechanism = Pegasus(epsilon=1, theta=100, smoother=smoother)
    stream = restless(5, 90, seed=3)
    first = mechanism.run(5, noise=TestNoise(4))
    snapshots, values = [], []
    for counts in stream:
        values.append(first.step(counts).value.tolist())
        snapshots.append(first.snapshot())
    for unit in (1, 16, 17, 18, 40, 71):
        again = mechanism.restore(snapshots[unit - 1], 5, noise=TestNoise(4))
        assert [again.step(counts).value.tolist() for counts in stream[unit:]] == values[unit:]
        assert again.snapshot() == snapshots[-1]


@pytest.mark.parametrize(("window", "contribution"), [(1, 1), (4, 3)])
def test_every_unit_pays_for_perturber_and_grouper_whatever_happens(
    window: int, contribution: int
) -> None:
    mechanism = Pegasus(epsilon="0.4", window=window, contribution=contribution)
    run = mechanism.run(3, noise=TestNoise(8), record=True)
    for counts in restless(3, 60, seed=6):
        run.step(counts)
    share = Fraction("0.4") / window
    quantum = mechanism.grid.quantum
    assert set(charged(run, "publish")) == {mechanism.perturber.epsilon}
    (grouper,) = set(charged(run, "group"))
    assert (
        share * Fraction("0.8") - quantum < mechanism.perturber.epsilon <= share * Fraction("0.8")
    )
    assert share - 4 * quantum < mechanism.perturber.epsilon + grouper <= share
    assert run.account().kept


@pytest.mark.parametrize("contribution", [1, 3])
def test_noise_and_threshold_are_those_of_the_paper_times_the_contribution(
    contribution: int,
) -> None:
    noise = RecordingNoise(NoNoise())
    mechanism = Pegasus(epsilon=1, theta=5, perturb="3/4", contribution=contribution)  # ε_g = 1/4
    run = mechanism.run(2, noise=noise)
    run.step([7, 7])
    run.step([7, 7])
    scales = {draw.label: draw.scale for draw in noise.draws}
    assert scales["publish"] == Fraction(4, 3) * contribution
    assert scales["group.threshold"] == 256 * 16 * contribution
    assert scales["group.question"] == 256 * 32 * contribution
    assert mechanism.threshold == 256 * 20 * contribution


def test_a_unit_that_opens_a_group_is_not_asked_about_and_a_group_has_one_threshold() -> None:
    noise = RecordingNoise(NoNoise())
    run = Pegasus(epsilon=1).run(2, noise=noise)
    asked = []
    for second in (5, 5, 10**6, 10**6, 10**6, 10**6):
        noise.draws.clear()
        run.step([5, second])
        sizes = {draw.label: draw.size for draw in noise.draws}
        asked.append((sizes.get("group.question", 0), sizes.get("group.threshold", 0)))
    # The leap closes the second key's group and stands alone; the unit after it opens one, the next
    # begins its run.
    assert asked == [(0, 0), (2, 2), (2, 0), (1, 0), (2, 1), (2, 0)]


def test_what_a_group_held_does_not_matter_to_the_next() -> None:
    runs = [Pegasus(epsilon=1).run(1, noise=NoNoise()) for _ in range(2)]
    for wobble, run in zip((0, 40), runs, strict=True):
        for unit in range(30):
            run.step([unit % 2 * wobble])
        run.step([10**9])
        for count in (50, 60, 50, 90):
            out = run.step([count])
    assert [run.last.value.tolist() for run in runs if run.last] == [out.value.tolist()] * 2
    folds = [run._gate.save().folds["group"].secret for run in runs]
    for name in ("origin", "length", "total"):
        assert folds[0][name].tolist() == folds[1][name].tolist()


@pytest.mark.parametrize(("factor", "fits"), [(1.0, True), (0.7, False), (1.3, False)])
def test_groups_break_as_often_as_their_noise_says(factor: float, fits: bool) -> None:
    """False alarm: 6e-7 (five standard deviations), with another seed."""
    keys, theta = 20_000, 5.0
    run = Pegasus(epsilon=1, theta=5).run(keys, noise=TestNoise(9))
    still = np.full(keys, 12)
    run.step(still)
    broken = int((run.step(still).public["start"] == 2).sum())
    # ν − ρ ≥ θ for Laplace noise of scales a = 8/ε_g and b = 4/ε_g; steps of 1/256 make no visible
    # difference.
    a, b = 8 * factor, 4 * factor
    chance = 0.5 * (a**2 * math.exp(-theta / a) - b**2 * math.exp(-theta / b)) / (a**2 - b**2)
    z = (broken - keys * chance) / math.sqrt(keys * chance * (1 - chance))
    assert (abs(z) < 5) is fits


def test_a_group_may_be_long_without_taking_more_memory() -> None:
    run = Pegasus(epsilon=1, theta=10**6).run(3, noise=TestNoise(1))
    sizes = []
    for unit in range(1, 2401):
        run.step([unit % 7, 3, 0])
        if unit in (600, 2400):
            sizes.append(len(run.snapshot()))
    assert run.last is not None
    assert run.last.public["start"].tolist() == [1, 1, 1]
    assert sizes[1] <= sizes[0] + 64


@pytest.mark.parametrize("smoother", EVERY)
def test_counts_at_the_limit_are_grouped_and_smoothed_exactly(smoother: Smoother) -> None:
    most = 2**50
    run = Pegasus(epsilon=1, smoother=smoother).run(2, noise=NoNoise())
    for _ in range(1200):  # the sum of their noisy counts passes 2^60, where a group ends
        out = run.step([most, 0])
        assert out.estimate.tolist() == [most, 0]
    if smoother != "median":
        assert out.public["start"].tolist() == [1026, 1]
    assert run.step([0, most]).estimate.tolist() == [0, most]


@dataclass(frozen=True, kw_only=True)
class ByTurns(Mechanism[PegasusState]):
    """Perturbs every other key in every other unit, with a budget of its own."""

    name = "by_turns"
    State = PegasusState

    def start(self, domain: Domain) -> PegasusState:
        return PegasusState.nothing(
            domain.size, smoother="median", perturb=self.total // 2, sensitivity=1
        )

    def step(
        self, state: PegasusState, unit: Private, gate: Gate
    ) -> tuple[PegasusState, ps.Released]:
        turn = np.arange(len(state.start)) % 2 == gate.unit % 2
        budgets = Budgets(np.where(turn, (self.total // (2 + gate.unit % 3)).quanta, 0), self.grid)
        group = self.total // 4
        threshold = threshold_of(60, group, sensitivity=self.contribution)
        return advance(
            state, unit, gate, perturb=budgets, group=group, threshold=threshold, suffix=".0"
        )


def test_a_number_that_is_not_perturbed_is_not_smoothed_over() -> None:
    mechanism = ByTurns(epsilon=1, window=1)
    run = mechanism.run(4, noise=TestNoise(3), record=True)
    groups: list[list[int]] = [[] for _ in range(4)]
    least: list[int] = [0] * 4
    for unit, counts in enumerate(restless(4, 120, seed=2), start=1):
        out = run.step(counts)
        for key in range(4):
            if out.public["start"][key] == unit:
                groups[key], least[key] = [], 0
            if key % 2 == unit % 2:
                groups[key].append(int(out.public["noisy"][key]))
                quanta = (mechanism.total // (2 + unit % 3)).quanta
                least[key] = min(least[key] or quanta, quanta)
        assert [Fraction(int(value), 2) for value in out.value] == [
            naive("median", group) for group in groups
        ]
        assert np.asarray(out.layers).tolist() == [max(len(group), 1) for group in groups]
        assert np.asarray(out.scale.parts).tolist() == least
        assert np.isinf(out.variance).tolist() == [not group for group in groups]
    assert {line.label for line in run.ledger} == {"publish.0", "group.0"}
    assert run.account().kept


def test_theta_is_in_noise_scales_of_the_grouper() -> None:
    grid = Pegasus(epsilon=1).grid
    assert (
        threshold_of("2.5", Budget(grid.floor(Fraction(1, 4)).quanta, grid), sensitivity=2)
        == 256 * 20
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {"perturb": 0},
        {"perturb": 1},
        {"perturb": "1.5"},
        {"theta": 0},
        {"theta": -1},
        {"smoother": "mode"},
    ],
)
def test_a_wrong_parameter_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ps.ConfigurationError, match=next(iter(wrong))):
        Pegasus(epsilon=1, **wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("share", ["1e-12", "0.999999999999"])
def test_a_share_of_less_than_a_quantum_is_refused_before_anything_is_read(share: str) -> None:
    with pytest.raises(ps.ConfigurationError, match="leaves nothing"):
        Pegasus(epsilon=1, perturb=share).run(1)
