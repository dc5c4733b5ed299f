from __future__ import annotations

import numpy as np
import pytest

from penstock.core.arrays import FloatArray
from penstock.core.domain import Domain
from penstock.core.errors import ConfigurationError
from penstock.core.weights import Weights
from penstock_bench.competitors.competitor import decayed
from penstock_bench.lines import ShownUnit
from penstock_bench.measures.base import Facts
from penstock_bench.measures.registry import measure_of

TRUTH = np.random.default_rng(1).integers(0, 50, (60, 4))
SHOWN = TRUTH + np.random.default_rng(2).normal(0, 3, TRUTH.shape)


def taken(name: str, shown: FloatArray, weights: Weights | None = None) -> float:
    measure = measure_of(name, Facts(len(TRUTH), Domain.of(4), 4, None))
    for true, said in zip(TRUTH, shown, strict=True):
        measure.add(
            ShownUnit(true, said, None)
            if weights is None
            else ShownUnit(true, said, None, weights=weights)
        )
    return measure.values()[name]


@pytest.mark.parametrize(("gamma", "span"), [("0.9", 10), ("0.9", 500), ("1", 7), ("0.5", 1)])
def test_counts_are_summed_first_and_sums_are_taken_as_they_are(gamma: str, span: int) -> None:
    weights = Weights.decay(gamma, span)
    error = decayed(SHOWN, weights) - decayed(TRUTH, weights)
    expected = np.square(error).mean()
    assert taken(f"decayed:{gamma},{span}", SHOWN) == pytest.approx(expected)
    assert taken(f"decayed:{gamma},{span}", decayed(SHOWN, weights), weights) == pytest.approx(
        expected
    )


def test_units_before_the_window_is_full_count_too() -> None:
    shown = TRUTH.astype(np.float64)
    shown[0, 0] += 2
    assert taken("decayed:1,60", shown) == pytest.approx(4 / 4)
    assert taken("decayed:0.5,2", shown) == pytest.approx((4 + 1) / 240)


def test_other_sums_are_refused() -> None:
    with pytest.raises(
        ConfigurationError, match="shows the sum of the last 5 units, and no other sums"
    ):
        taken("decayed:0.9,10", SHOWN, Weights.window(5))
    with pytest.raises(ConfigurationError, match="a measure of unit counts does not apply"):
        taken("mae", SHOWN, Weights.decay("0.9", 10))


@pytest.mark.parametrize(
    "name", ["decayed", "decayed:0.9", "decayed:0.9,x", "decayed:0.9,0", "decayed:2,5"]
)
def test_what_it_needs_is_said(name: str) -> None:
    with pytest.raises(ConfigurationError):
        taken(name, SHOWN)
