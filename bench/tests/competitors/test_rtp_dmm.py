from __future__ import annotations

import numpy as np
import pytest

from penstock.testing import RecordingNoise, TestNoise
from penstock_bench.competitors.rtp_dmm import GRID, DecayedTree


@pytest.mark.parametrize("gamma", ["0.5", "0.95", "1"])
@pytest.mark.parametrize("span", [1, 2, 7, 64, 100])
def test_an_event_costs_at_most_epsilon_over_all_levels(gamma: str, span: int) -> None:
    tree = DecayedTree(epsilon="0.7", gamma=gamma, span=span)
    assert 0.999 * 0.7 <= float(sum(tree.levels)) <= 0.7
    assert sum(tree.levels) <= tree.budget


def test_every_node_is_drawn_once_with_the_noise_of_its_level() -> None:
    tree, noise = DecayedTree(epsilon=1, span=8), RecordingNoise(TestNoise(1))
    tree.run(np.zeros((16, 2), np.int64), noise=noise)
    for level, epsilon in enumerate(tree.levels):
        drawn = [draw for draw in noise.draws if draw.label == f"level {level}"]
        assert [draw.unit for draw in drawn] == list(range(1 << level, 17, 1 << level))
        assert {draw.scale for draw in drawn} == {GRID / epsilon}


@pytest.mark.parametrize("span", [5, 8, 13])
def test_the_nodes_of_a_window_tile_it(span: int) -> None:
    tree = DecayedTree(epsilon=1, span=span)
    for last in range(4 * tree.block):
        units = [
            unit
            for level, node in tree._nodes(last)
            for unit in range(node << level, (node + 1) << level)
        ]
        assert units == list(range(max(0, last - span + 1), last + 1))


def test_the_noise_has_no_bias_and_the_claimed_variance() -> None:
    """4,000 keys at each of 32 positions: 6 standard errors of a mean, and 15 % of a variance; a
    false alarm below 1e-6.
    """
    tree = DecayedTree(epsilon=1, gamma="0.9", span=16)
    out = tree.run(np.zeros((48, 4_000), np.int64), noise=TestNoise(2))[16:]
    for last, errors in enumerate(out, start=16):
        variance = tree.variance(last)
        assert abs(errors.mean()) < 6 * np.sqrt(variance / 4_000)
        assert np.square(errors).mean() == pytest.approx(variance, rel=0.15)


def test_equal_levels_would_do_worse() -> None:
    tree = DecayedTree(epsilon=1, gamma="0.95", span=100)
    equal = DecayedTree(epsilon=1, gamma="0.95", span=100)
    equal.__dict__["levels"] = (tree.budget / len(tree.levels),) * len(tree.levels)
    last = range(tree.block, 2 * tree.block)
    assert sum(map(tree.variance, last)) < 0.9 * sum(map(equal.variance, last))
