"""The two passes over a tree against a dense least-squares solution."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.core.consistency import make_consistent
from penstock.core.hierarchy import Hierarchy

SEEDS = range(40)


def forest(rng: np.random.Generator) -> Hierarchy:
    size = int(rng.integers(1, 14))
    depths = rng.integers(0, 5, size)
    return Hierarchy.of(
        {
            f"key {number}": [str(rng.integers(2)) for _ in range(depth)]
            for number, depth in enumerate(depths)
        }
    )


def design(tree: Hierarchy) -> np.ndarray:
    """Which keys each node is the sum of."""
    return np.stack(
        [tree.nodes.totals(row) for row in np.eye(tree.size, dtype=np.int64)], axis=1
    ).astype(np.float64)


@pytest.mark.parametrize("seed", SEEDS)
def test_it_is_the_dense_least_squares_solution(seed: int) -> None:
    rng = np.random.default_rng(seed)
    tree = forest(rng)
    estimates, variances = rng.normal(0, 50, tree.nodes.size), rng.uniform(0.1, 9, tree.nodes.size)
    variances[tree.inner & (rng.random(tree.nodes.size) < 0.3)] = (
        np.inf
    )  # the keys alone determine everything
    estimates[np.isinf(variances)] = np.nan  # what is not known is not looked at
    sums, weight = design(tree), np.where(np.isinf(variances), 0.0, 1 / np.sqrt(variances))
    keys = np.linalg.lstsq(
        sums * weight[:, None], np.where(weight > 0, estimates, 0.0) * weight, rcond=None
    )[0]
    assert make_consistent(tree, estimates, variances) == pytest.approx(
        sums @ keys, rel=1e-9, abs=1e-9
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_open_is_shared_by_the_keys_as_if_each_had_the_same_huge_variance(
    seed: int,
) -> None:
    rng = np.random.default_rng(seed)
    tree = forest(rng)
    estimates, variances = rng.normal(0, 50, tree.nodes.size), rng.uniform(0.5, 2, tree.nodes.size)
    variances[rng.random(tree.nodes.size) < 0.5] = np.inf
    fitted = make_consistent(tree, estimates, variances)
    huge = np.where(np.isinf(variances) & ~tree.inner, 1e9, variances)
    zero = np.where(np.isinf(variances), 0.0, estimates)
    assert fitted == pytest.approx(make_consistent(tree, zero, huge), rel=1e-4, abs=1e-3)


@pytest.mark.parametrize("seed", SEEDS)
def test_parents_are_the_sums_of_their_children(seed: int) -> None:
    rng = np.random.default_rng(seed)
    tree = forest(rng)
    variances = np.where(
        rng.random(tree.nodes.size) < 0.4, np.inf, rng.uniform(0, 3, tree.nodes.size)
    )
    variances[rng.random(tree.nodes.size) < 0.2] = 0.0
    fitted = make_consistent(tree, rng.normal(0, 50, tree.nodes.size), variances)
    below = np.bincount(tree.parents[tree.parents >= 0], fitted[tree.parents >= 0], tree.nodes.size)
    assert fitted[tree.inner] == pytest.approx(below[tree.inner], rel=1e-9, abs=1e-6)


@pytest.mark.parametrize("seed", SEEDS)
def test_what_agrees_already_is_not_changed(seed: int) -> None:
    rng = np.random.default_rng(seed)
    tree = forest(rng)
    totals = tree.nodes.totals(rng.integers(0, 100, tree.size)).astype(np.float64)
    assert make_consistent(tree, totals, rng.uniform(0.1, 9, tree.nodes.size)) == pytest.approx(
        totals, abs=1e-9
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_no_variance_grows(seed: int) -> None:
    rng = np.random.default_rng(seed)
    tree = forest(rng)
    size = tree.nodes.size
    variances = rng.uniform(0.1, 9, size)
    linear = np.stack([make_consistent(tree, row, variances) for row in np.eye(size)], axis=1)
    assert (np.square(linear) @ variances <= variances * (1 + 1e-9)).all()


def test_a_parent_without_children_to_speak_of_shares_itself_evenly() -> None:
    tree = Hierarchy.of({"a": "top/left", "b": "top/left", "c": "top/right"})
    variances = np.array([1.0, np.inf, np.inf, np.inf, np.inf, np.inf])
    assert make_consistent(tree, np.full(6, 9.0), variances).tolist() == [
        9.0,
        6.0,
        3.0,
        3.0,
        3.0,
        3.0,
    ]


def test_the_estimates_are_left_alone() -> None:
    tree = Hierarchy.binary(4)
    estimates, variances = np.arange(7.0), np.ones(7)
    make_consistent(tree, estimates, variances)
    assert estimates.tolist() == list(range(7))
    assert variances.tolist() == [1.0] * 7
