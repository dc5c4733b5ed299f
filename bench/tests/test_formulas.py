from __future__ import annotations

import numpy as np
import pytest

import penstock as ps
from penstock.core.weights import Weights
from penstock_bench.formulas import formula


def window(mechanism: ps.Mechanism, width: int) -> float:
    found = formula(mechanism, Weights.window(width), np.arange(8 * width, 9 * width))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("width", "laplace", "sw_tree", "kary", "toeplitz"),
    [(64, 128, 590, 91, 128), (256, 512, 1297, 185, 187), (1024, 2048, 2420, 351, 257)],
)
def test_formulas_give_the_known_table(
    width: int, laplace: float, sw_tree: float, kary: float, toeplitz: float
):
    """The table at ε = 1 was made with continuous noise and an undamped root: discrete noise has a
    little less variance.
    """
    assert window(ps.Laplace(epsilon=1), width) == pytest.approx(laplace, rel=0.1)
    assert window(ps.WindowTree(epsilon=1, span=width), width) == pytest.approx(sw_tree, rel=0.02)
    assert window(ps.SignedBlocks(epsilon=1, span=width), width) == pytest.approx(kary, rel=0.08)
    assert window(ps.CorrelatedGaussian(epsilon=1, span=width), width) == pytest.approx(
        toeplitz, rel=0.15
    )


@pytest.mark.parametrize(
    "mechanism", [ps.WindowTree(epsilon=1, span=16), ps.SignedBlocks(epsilon=1, span=90)]
)
def test_a_trees_formula_counts_its_nodes(mechanism: ps.WindowTree):
    """Over one period of positions, far enough from the beginning."""
    period = mechanism.blocks.sizes[-1]
    counted = [mechanism.blocks.at(unit) for unit in range(10 * period, 11 * period)]
    mean = np.mean([len(nodes.plus) + len(nodes.minus) for nodes in counted])
    scale = mechanism.blocks.levels
    one = 0.5 / np.sinh(0.5 / scale) ** 2
    assert window(mechanism, mechanism.span) == pytest.approx(mean * one, rel=1e-9)


def test_what_depends_on_the_data_has_no_formula():
    units = np.arange(8, 16)
    assert formula(ps.Pegasus(epsilon=1), Weights.window(8), units) is None
    assert formula(ps.RetroactiveGrouping(epsilon=1), Weights.window(8), units) is None
    assert formula(ps.WindowTree(epsilon=1, span=16), Weights.window(8), units) is None
    assert formula(ps.WindowTree(epsilon=1, span=7), Weights.window(7), units) is None
    assert (
        formula(
            ps.CorrelatedGaussian(epsilon=1, weights="prefix", epoch=8), Weights.prefix(), units
        )
        is None
    )


def test_decay_and_longer_windows_of_privacy_count():
    units = np.array([500])
    weights = Weights.decay("0.9", 400)
    one = formula(ps.Laplace(epsilon=1), weights, units)
    assert one == pytest.approx(1 / (1 - 0.81) * 0.5 / np.sinh(0.5) ** 2)
    assert formula(
        ps.Laplace(epsilon=1, window=2, contribution=3), weights, units
    ) == pytest.approx(1 / (1 - 0.81) * 0.5 / np.sinh(0.5 / 6) ** 2)
