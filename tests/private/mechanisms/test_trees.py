"""Sums of windows from trees and signed blocks."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from penstock.budget.ledger import Ledger, Line
from penstock.core.arrays import IntArray
from penstock.core.cover import ALL
from penstock.core.errors import BudgetError, ConfigurationError
from penstock.core.private import Private
from penstock.core.weights import Weights
from penstock.lab.checks import CHECKS, Check
from penstock.private.gate import Combination, Gate
from penstock.private.mechanisms.base import Mechanism
from penstock.private.mechanisms.blocks import Blocks
from penstock.private.mechanisms.kary import SignedBlocks
from penstock.private.mechanisms.sw_tree import WindowTree
from penstock.testing import NoNoise, RecordingNoise, TestNoise


@dataclass(frozen=True, kw_only=True)
class Longer(SignedBlocks):
    """A span for which signed blocks have more than one level."""

    span: int = 40


CONFIGURATIONS: list[Mechanism[Any]] = [
    WindowTree(epsilon="1", span=13),
    WindowTree(epsilon="1/2", window=3, span=16, contribution=2),
    SignedBlocks(epsilon="1", span=24),
    SignedBlocks(epsilon="1", span=40, contribution=3),
    SignedBlocks(epsilon="2", window=4, span=100, arity=3),
    SignedBlocks(epsilon="1", span=1),
]


def stream(units: int, keys: int, *, seed: int) -> IntArray:
    return np.random.default_rng(seed).integers(0, 1_000, (units, keys))


class Witness:
    """Noise that remembers what it gave, unit by unit."""

    private = False

    def __init__(self, seed: int) -> None:
        self.source = TestNoise(seed)
        self.given: dict[int, IntArray] = {}

    def laplace(self, scale: Fraction, size: int, *, unit: int, label: str) -> IntArray:
        assert unit not in self.given
        self.given[unit] = self.source.laplace(scale, size, unit=unit, label=label)
        return self.given[unit].copy()

    def refresh(self) -> None:
        self.source.refresh()


@pytest.mark.slow
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_signed_blocks_of_several_levels_pass_every_check(check: Check) -> None:
    assert Longer(epsilon="1").blocks.levels == 2
    check(Longer, quick=True)


@pytest.mark.parametrize("mechanism", CONFIGURATIONS, ids=str)
def test_without_noise_a_release_is_the_sum_of_the_last_units(mechanism: Any) -> None:
    counts = stream(250, 3, seed=1)
    run = mechanism.run(3, noise=NoNoise())
    for unit in range(1, 251):
        released = run.step(counts[unit - 1])
        assert (
            released.value.tolist()
            == counts[max(unit - mechanism.span, 0) : unit].sum(axis=0).tolist()
        )
        assert released.weights == Weights.window(mechanism.span)
        assert released.kind == "sum"


@pytest.mark.parametrize("mechanism", CONFIGURATIONS, ids=str)
def test_a_release_is_made_of_noisy_node_sums_and_of_nothing_else(mechanism: Any) -> None:
    """The proof's view: all node sums of the whole stream get their noise first, releases are
    signed sums of those.
    """
    keys, units = 3, 300
    counts = stream(units, keys, seed=2)
    witness = Witness(5)
    run = mechanism.run(keys, noise=witness)
    released = [run.step(each) for each in counts]
    noise: dict[tuple[int, int], IntArray] = {}
    for unit in range(1, units + 1):
        nodes = mechanism.blocks.at(unit)
        fresh = [node for node in (*nodes.plus, *nodes.minus) if node not in noise]
        assert bool(fresh) == (unit in witness.given)
        if fresh:
            noise.update(zip(fresh, witness.given[unit].reshape(len(fresh), keys), strict=True))
    sizes = mechanism.blocks.sizes
    noisy = {
        (level, first): counts[first : first + sizes[level]].sum(axis=0) + each
        for (level, first), each in noise.items()
    }
    for each in released:
        nodes = mechanism.blocks.at(each.unit)
        value = sum(noisy[node] for node in nodes.plus) - sum(
            (noisy[node] for node in nodes.minus), np.zeros(keys, np.int64)
        )
        assert each.value.tolist() == value.tolist()
        assert each.layers == len(nodes.plus) + len(nodes.minus)


@pytest.mark.parametrize("mechanism", CONFIGURATIONS, ids=str)
def test_every_nodes_noise_pays_for_its_share_of_a_unit(mechanism: Any) -> None:
    noise = RecordingNoise(TestNoise(3))
    run = mechanism.run(2, noise=noise, record=True)
    for counts in stream(150, 2, seed=3):
        released = run.step(counts)
    share = mechanism.guarantee.epsilon / mechanism.window
    levels = mechanism.blocks.levels
    assert {draw.scale for draw in noise.draws} == {levels * mechanism.contribution / share}
    assert {line.amount * mechanism.grid.quantum for line in run.ledger} == {share}
    assert [line.unit for line in run.ledger] == list(range(1, 151))
    assert float(released.scale) == pytest.approx(float(levels * mechanism.contribution / share))
    assert run.account().kept


@pytest.mark.parametrize("cls", [WindowTree, SignedBlocks])
def test_the_error_of_a_simulation_is_the_one_that_was_computed(cls: type[Any]) -> None:
    """One period of positions, 3,000 keys, 6 standard errors: with another seed, a false alarm has
    a chance below 1e-8.
    """
    keys, span = 3_000, 64
    mechanism = cls(epsilon="1", span=span)
    run = mechanism.run(keys, noise=TestNoise(29))
    period = mechanism.blocks.sizes[-1]
    squares, claimed = np.zeros(keys), 0.0
    for unit in range(1, span + period):
        released = run.step(np.zeros(keys, np.int64))
        if unit >= span:
            squares += np.square(released.value, dtype=np.float64) / period
            claimed += float(released.variance[0]) / period
    error = float(squares.std()) / math.sqrt(keys)
    assert abs(float(squares.mean()) - claimed) < 6 * error
    assert error < 0.03 * claimed
    assert claimed == pytest.approx({"sw_tree": 590, "kary": 90}[mechanism.name], rel=0.02)


@pytest.mark.parametrize("mechanism", CONFIGURATIONS, ids=str)
def test_a_restart_in_any_position_changes_nothing(mechanism: Any) -> None:
    counts = stream(2 * mechanism.span + 30, 2, seed=4)
    straight = mechanism.run(2, noise=TestNoise(7))
    broken = mechanism.run(2, noise=TestNoise(7))
    for each in counts:
        here, there = straight.step(each), broken.step(each)
        assert here.value.tolist() == there.value.tolist()
        snapshot = broken.snapshot()
        assert snapshot == straight.snapshot()
        broken = mechanism.restore(snapshot, 2, noise=TestNoise(7))


def test_noise_is_forgotten_when_it_is_no_longer_needed() -> None:
    run = SignedBlocks(epsilon="1", span=100).run(2, noise=TestNoise(7))
    kept = []
    for counts in stream(1_000, 2, seed=5):
        run.step(counts)
        kept.append(len(run._gate.save().nodes["window"].noise))
    assert max(kept) < 115
    assert max(kept[-200:]) == max(kept[300:500])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"span": 0}, "span must be a whole number of at least 1"),
        ({"span": 2.5}, "span must be a whole number"),
        ({"arity": 4}, "arity must be an odd number"),
        ({"arity": 1}, "arity must be an odd number"),
        ({"arity": -3}, "arity must be a whole number"),
    ],
)
def test_a_wrong_configuration_is_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        SignedBlocks(epsilon="1", **wrong)


# -- the gate --------------------------------------------------------------------------------------

LAYOUT = Blocks(9, arity=3, levels=2, signed=True)
MECHANISM = SignedBlocks(epsilon="1", span=9)


def gate(lines: list[Line], *, units: int) -> tuple[Gate, RecordingNoise]:
    """A gate through which this many units have gone."""
    noise = RecordingNoise(TestNoise(1))
    opened = Gate(
        ledger=Ledger(MECHANISM.guarantee, keys=2, sink=lines.append), noise=noise, keys=2
    )
    for unit in range(1, units + 1):
        opened.begin(unit)
        opened.trees.window_sum(
            "window", counts(), epsilon=MECHANISM.share, span=9, nodes=LAYOUT.at(unit)
        )
    opened.begin(units + 1)
    return opened, noise


def counts() -> Private:
    return Private(np.array([3, 4]), sensitivity=1)


def without(nodes: Combination) -> Combination:
    return replace(nodes, plus=nodes.plus[1:])


def with_both_signs(nodes: Combination) -> Combination:
    return replace(nodes, plus=(*nodes.plus, (0, 99)), minus=(*nodes.minus, (0, 99)))


def beside_its_place(nodes: Combination) -> Combination:
    return replace(
        nodes, plus=(*nodes.plus, (1, 50), (0, 53)), minus=(*nodes.minus, (0, 50), (1, 51))
    )


def with_another_name(nodes: Combination) -> Combination:
    return replace(nodes, plus=tuple((level - 2, first) for level, first in nodes.plus))


def given_up(nodes: Combination) -> Combination:
    return replace(nodes, plus=(*nodes.plus, (1, 0)), minus=(*nodes.minus, (0, 0), (0, 1), (0, 2)))


def taking_back(nodes: Combination) -> Combination:
    return replace(nodes, since=(0, 0))


@pytest.mark.parametrize(
    "change", [without, with_both_signs, beside_its_place, with_another_name, given_up, taking_back]
)
def test_nodes_that_do_not_add_up_are_refused_before_anything_is_read(change: Any) -> None:
    lines: list[Line] = []
    opened, noise = gate(lines, units=20)
    before = len(lines), len(noise.draws)
    with pytest.raises(
        ConfigurationError,
        match=r"unit 21: the nodes of 'window' do not add up to the last 9 units",
    ):
        opened.trees.window_sum(
            "window", counts(), epsilon=MECHANISM.share, span=9, nodes=change(LAYOUT.at(21))
        )
    assert (len(lines), len(noise.draws)) == before
    opened.trees.window_sum(
        "window", counts(), epsilon=MECHANISM.share, span=9, nodes=LAYOUT.at(21)
    )


def test_a_window_reads_every_unit_once_on_the_same_terms() -> None:
    opened, _ = gate([], units=20)
    refused: list[dict[str, Any]] = [
        {"epsilon": MECHANISM.share // 2},
        {"span": 8, "nodes": Blocks(8, arity=3, levels=2, signed=True).at(21)},
        {"nodes": Blocks(9, arity=3, levels=1, signed=True).at(21)},
    ]
    right: dict[str, Any] = {"epsilon": MECHANISM.share, "span": 9, "nodes": LAYOUT.at(21)}
    for change in refused:
        with pytest.raises(ConfigurationError, match="reads every unit once, with one budget"):
            opened.trees.window_sum("window", counts(), **(right | change))
    one = counts().map(
        lambda each: each.sum(keepdims=True), stability=1, cover=ALL
    )  # NumPy would add it to every key
    with pytest.raises(ConfigurationError, match="reads every unit once, with one budget"):
        opened.trees.window_sum("window", one, **right)
    opened.trees.window_sum("window", counts(), **right)
    with pytest.raises(ConfigurationError, match="reads every unit once"):
        opened.trees.window_sum("window", counts(), **right)
    opened.begin(22)
    opened.begin(23)
    with pytest.raises(ConfigurationError, match="reads every unit once"):
        opened.trees.window_sum("window", counts(), **(right | {"nodes": LAYOUT.at(23)}))


def test_a_refused_charge_draws_nothing_and_reads_nothing() -> None:
    opened, noise = gate([], units=0)
    opened.laplace(counts(), epsilon=MECHANISM.share // 2, label="other")
    drawn = len(noise.draws)
    with pytest.raises(BudgetError):
        opened.trees.window_sum(
            "window", counts(), epsilon=MECHANISM.share, span=9, nodes=LAYOUT.at(1)
        )
    assert len(noise.draws) == drawn
    assert opened.save().nodes == {}
