from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from penstock.core.error_bounds import laplace_variance
from penstock.core.hierarchy import Hierarchy
from penstock.testing import NoNoise, RecordingNoise, TestNoise
from penstock_bench.competitors.node_laplace import NodeLaplace

CAMPUS = Hierarchy.of(
    {"room 1": "A/floor 1", "room 2": "A/floor 1", "room 3": "A/floor 2", "kiosk": ""}
)


@pytest.mark.parametrize("tree", [CAMPUS, Hierarchy.binary(5)], ids=["campus", "binary"])
def test_an_event_costs_epsilon_exactly(tree: Hierarchy) -> None:
    """An event of one key moves the nodes on its path by 1 each, at most as many as there are
    levels.
    """
    noise = RecordingNoise(TestNoise(1))
    NodeLaplace(epsilon="0.3").begin(tree, noise=noise).step(np.zeros(tree.size, np.int64))
    (draw,) = noise.draws
    moved = [int(tree.nodes.totals(event).sum()) for event in np.eye(tree.size, dtype=np.int64)]
    assert max(moved) / draw.scale == Fraction(3, 10)


def test_every_unit_is_drawn_anew() -> None:
    noise = RecordingNoise(TestNoise(1))
    course = NodeLaplace(epsilon=1).begin(CAMPUS, noise=noise)
    one, two = (course.step(np.zeros(4, np.int64)) for _ in range(2))
    assert [draw.unit for draw in noise.draws] == [1, 2]
    assert (one != two).any()


def test_without_noise_it_shows_the_totals_of_all_nodes() -> None:
    counts = np.array([3, 4, 5, 6])
    shown = NodeLaplace(epsilon=1).begin(CAMPUS, noise=NoNoise()).step(counts)
    assert dict(zip(CAMPUS.nodes.keys, shown.tolist(), strict=True)) == {
        "A": 12,
        "kiosk": 6,
        "A/floor 1": 7,
        "A/floor 2": 5,
        "A/floor 1/room 1": 3,
        "A/floor 1/room 2": 4,
        "A/floor 2/room 3": 5,
    }


def test_keys_without_a_hierarchy_become_a_binary_tree() -> None:
    rows = NodeLaplace(epsilon=1).run(np.array([[1, 2, 3, 4]]), noise=NoNoise())
    assert rows.tolist() == [[10, 3, 7, 1, 2, 3, 4]]


@pytest.mark.parametrize(("factor", "fits"), [(1.0, True), (0.7, False), (1.3, False)])
def test_its_noise_has_the_variance_of_its_scale(factor: float, fits: bool) -> None:
    """255 nodes in 100 units: the variance is known to 1.4 % (a square has 2.2 times its mean as
    standard deviation).
    """
    tree = Hierarchy.binary(128)
    competitor = NodeLaplace(epsilon="0.1")
    assert competitor.scale(tree) == 80
    course = competitor.begin(tree, noise=TestNoise(5))
    squares = np.square([course.step(np.zeros(128, np.int64)) for _ in range(100)])
    claimed = float(laplace_variance(np.array(80.0 * factor)))
    assert (
        bool(abs(squares.mean() / claimed - 1) < 6 * 0.014) is fits
    )  # six standard errors: chance 2e-9


def test_it_keeps_nothing_of_anybody() -> None:
    course = NodeLaplace(epsilon=1).begin(CAMPUS, noise=TestNoise(1))
    course.step(np.array([3, 4, 5, 6]))
    assert course.kept() == 1
