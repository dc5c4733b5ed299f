"""Errors over nodes, against the plainest way to compute them."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.core.domain import Domain
from penstock.core.errors import ConfigurationError
from penstock.core.hierarchy import Hierarchy
from penstock_bench.lines import ShownUnit
from penstock_bench.measures.base import Facts
from penstock_bench.measures.registry import measure_of

CAMPUS = Hierarchy.of(
    {"room 2": "A/floor 1", "room 1": "A/floor 1", "room 3": "A/floor 2", "kiosk": ""}
)
UNITS = 5
RNG = np.random.default_rng(1)
TRUTH = RNG.integers(0, 20, (UNITS, CAMPUS.size))
SHOWN = TRUTH + RNG.normal(0, 3, TRUTH.shape)


def measured(domain: Domain, truth: np.ndarray, shown: np.ndarray) -> dict[str, float]:
    measure = measure_of("nodes_l1", Facts(len(truth), domain, shown.shape[1], None))
    for counts, numbers in zip(truth, shown, strict=True):
        measure.add(ShownUnit(counts, numbers, None))
    return measure.values()


def plain(truth: np.ndarray, shown: np.ndarray) -> dict[str, list[float]]:
    """The errors of each level's nodes: a node is the sum of the columns under it."""
    columns = {"1": [[0, 1, 2], [3]], "2": [[0, 1], [2]], "3": [[0], [1], [2]]}
    return {
        level: [
            abs(shown[unit][keys].sum() - truth[unit][keys].sum())
            for unit in range(UNITS)
            for keys in nodes
        ]
        for level, nodes in columns.items()
    }


def test_what_is_shown_of_keys_is_added_up() -> None:
    found, levels = measured(CAMPUS, TRUTH, SHOWN), plain(TRUTH, SHOWN)
    every = [error for errors in levels.values() for error in errors]
    assert found["nodes_l1"] == pytest.approx(np.mean(every))
    assert found["levels_l1"] == pytest.approx(
        np.mean([np.mean(errors) for errors in levels.values()])
    )
    for level, errors in levels.items():
        assert found[f"nodes_l1 {level}"] == pytest.approx(np.mean(errors))


def test_what_is_shown_of_nodes_is_taken_as_it_is() -> None:
    of_nodes = np.array([CAMPUS.nodes.totals(row) for row in TRUTH])
    shown = of_nodes + RNG.normal(0, 3, of_nodes.shape)
    expected = np.abs(shown - of_nodes).mean()
    for truth in (TRUTH, of_nodes):
        assert measured(CAMPUS, truth, shown)["nodes_l1"] == pytest.approx(expected)


def test_keys_without_a_hierarchy_become_a_binary_tree() -> None:
    shown = TRUTH + 1.0
    found = measured(Domain.of(4), TRUTH, shown)
    assert found["nodes_l1"] == pytest.approx((4 + 2 + 2 + 4 * 1) / 7)
    assert [found[f"nodes_l1 {level}"] for level in (1, 2, 3)] == pytest.approx([4, 2, 1])


def test_a_single_key_is_its_own_tree() -> None:
    assert measured(Domain.of(1), TRUTH[:, :1], SHOWN[:, :1])["nodes_l1"] == pytest.approx(
        np.abs(SHOWN[:, 0] - TRUTH[:, 0]).mean()
    )


def test_numbers_of_neither_keys_nor_nodes_are_refused() -> None:
    with pytest.raises(
        ConfigurationError, match="5 numbers are neither the 4 keys nor the 7 nodes"
    ):
        measured(CAMPUS, TRUTH, np.zeros((UNITS, 5)))


def test_a_forest_of_roots_alone_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="every key is a root here"):
        measured(Hierarchy.of({"b": "", "a": ""}), TRUTH[:, :2], SHOWN[:, :2])
