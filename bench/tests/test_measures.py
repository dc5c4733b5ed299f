"""Every measure against the plainest way to compute it, over whole matrices."""

from __future__ import annotations

import numpy as np
import pytest

import penstock as ps
from penstock.core.domain import Domain
from penstock.core.errors import ConfigurationError
from penstock.testing import TestNoise
from penstock_bench.cell import MEAN, ZEROS, Cell, Stretch
from penstock_bench.feed import Feed
from penstock_bench.lines import line_of
from penstock_bench.measures.alerts import ROC_AT
from penstock_bench.measures.base import Facts
from penstock_bench.measures.registry import measure_of
from penstock_bench.measures.sums import decay

from bench.tests.tiny import TINY

FEED = Feed(Stretch(dataset=TINY, options=(("units", 40), ("keys", 3))))
TRUTH = np.array(list(FEED.rows()))


def measured(name: str, mechanism: str = "laplace", **parameters: str | int) -> dict[str, float]:
    cell = Cell.of(
        "tiny", FEED.stretch, mechanism, (name,), **{"epsilon": "1", "window": 1, **parameters}
    )
    line = line_of(cell, FEED, 1)
    facts = Facts(FEED.units, FEED.domain, FEED.domain.size, line.run, FEED)
    measure = measure_of(name, facts)
    for row in FEED.rows():
        measure.add(line.step(row))
    return measure.values()


def released(mechanism: str = "laplace") -> np.ndarray:
    cell = Cell.of("tiny", FEED.stretch, mechanism, ("mae",), epsilon="1", window=1)
    run = cell.made().run(FEED.domain, noise=TestNoise(cell.noise(1)))
    return np.array([run.step(row).estimate for row in TRUTH])


ERROR = released() - TRUTH


def test_errors_of_counts():
    assert measured("mae")["mae"] == pytest.approx(np.abs(ERROR).mean())
    assert measured("mse")["mse"] == pytest.approx(np.square(ERROR).mean())
    assert measured("scaled_l1")["scaled_l1"] == pytest.approx(np.abs(ERROR).sum() / TRUTH.sum())


def test_coverage_is_the_share_of_counts_inside_their_intervals_after_one_window():
    cell = Cell.of("tiny", FEED.stretch, "tide", ("mae",), epsilon="1", window=4)
    run = cell.made().run(FEED.domain, noise=TestNoise(cell.noise(1)))
    inside = []
    for row in TRUTH:
        low, high = run.step(row).interval("0.9")
        inside.append((low <= row) & (row <= high))
    share = np.array(inside)[4:].mean()
    assert 0 < share < 1
    assert measured("coverage", "tide", window=4)["coverage"] == pytest.approx(share)
    with pytest.raises(ConfigurationError, match="'coverage' is for filtered numbers"):
        measured("coverage")


def test_relative_errors_have_a_sanity_bound():
    assert measured("mre")["mre"] == pytest.approx((np.abs(ERROR) / np.maximum(TRUTH, 1)).mean())
    assert measured("mre:10")["mre:10"] == pytest.approx(
        (np.abs(ERROR) / np.maximum(TRUTH, 10)).mean()
    )
    bound = np.maximum(0.001 * TRUTH.sum(axis=1, keepdims=True), 1)
    assert measured("mre:total")["mre:total"] == pytest.approx(
        (np.abs(ERROR) / np.maximum(TRUTH, bound)).mean()
    )
    bound = np.maximum(0.01 * TRUTH.sum(axis=0), 1)
    assert (bound > 1).any()
    assert measured("mre:key")["mre:key"] == pytest.approx(
        (np.abs(ERROR) / np.maximum(TRUTH, bound)).mean()
    )


@pytest.mark.parametrize("width", [1, 3, 40])
def test_errors_of_windows(width: int):
    sums = np.array(
        [ERROR[start : start + width].sum(axis=0) for start in range(len(ERROR) - width + 1)]
    )
    assert measured(f"l1:{width}")[f"l1:{width}"] == pytest.approx(np.abs(sums).mean())
    found = measured(f"sse:{width}")
    assert found[f"sse:{width}"] == pytest.approx(np.square(sums).sum())
    assert found[f"sse_mean:{width}"] == pytest.approx(np.square(sums).sum(axis=1).mean())


def test_a_window_longer_than_the_stream_has_no_value():
    assert measured("l1:41") == {}
    assert measured("sse:41") == {}
    assert "mse 41" not in measured("window_mse:3,41")


def weighted(by_age: np.ndarray, rows: np.ndarray, unit: int) -> np.ndarray:
    return sum(by_age[age] * rows[unit - 1 - age] for age in range(min(unit, len(by_age))))


@pytest.mark.parametrize("mechanism", ["laplace", ZEROS, MEAN])
def test_squared_errors_of_sums(mechanism: str):
    shown = {
        ZEROS: np.zeros_like(TRUTH),
        MEAN: np.broadcast_to(TRUTH.mean(axis=0), TRUTH.shape),
    }.get(mechanism)
    error = ERROR if shown is None else shown - TRUTH
    windows = [np.square(error[start : start + 4].sum(axis=0)) for start in range(37)]
    assert measured("window_mse:4", mechanism)["mse 4"] == pytest.approx(np.mean(windows))
    prefixes = [np.square(error[:unit].sum(axis=0)) for unit in (15, 16, 17, 18, 19, 20)]
    assert measured("prefix_mse:20", mechanism)["mse 20"] == pytest.approx(np.mean(prefixes))
    weights = decay("0.9").sequence(40)
    decayed = [np.square(weighted(weights, error, unit)) for unit in range(21, 41)]
    assert measured("decay_mse:0.9", mechanism)["mse 0.9"] == pytest.approx(np.mean(decayed))


def test_formulas_stand_beside_what_was_measured():
    found = measured("window_mse:4")
    assert found["formula 4"] == pytest.approx(4 * 2 * np.exp(-1) / (1 - np.exp(-1)) ** 2)
    assert {"mse 4", "error 4", "formula 4"} == found.keys()
    assert "formula 4" not in measured("window_mse:4", "pegasus")
    assert "formula 4" not in measured("window_mse:4", ZEROS)
    assert "formula 8" in measured("window_mse:8", "kary", span=8)


def test_a_sharp_release_has_a_perfect_curve():
    found = measured("roc:jump,2,1", epsilon="1000")
    assert found["roc:jump,2,1 area"] == pytest.approx(1)
    assert found["roc:jump,2,1 share"] == pytest.approx(np.mean(np.diff(TRUTH, axis=0) >= 1))
    assert len(found) == 3 + len(ROC_AT)
    for name in ("roc:drop,2,6", "roc:low,3,12"):
        assert measured(name, epsilon="1000")[f"{name} area"] == pytest.approx(1)
        assert 0.2 < measured(name, epsilon="0.001")[f"{name} area"] < 0.8
    assert measured("roc:jump,2,1", ZEROS)["roc:jump,2,1 area"] == pytest.approx(0.5)


def test_what_cannot_be_measured_is_refused():
    facts = Facts(5, Domain.of(2), 2, None)
    with pytest.raises(ConfigurationError, match=r"there is no measure 'me': use mae, mre"):
        measure_of("me", facts)
    for name in ("l1", "l1:0", "sse:x", "sse:1,2"):
        with pytest.raises(ConfigurationError, match="needs one width"):
            measure_of(name, facts)
    with pytest.raises(ConfigurationError, match="jump, drop and low"):
        measured("roc:leap,2,1")


def test_truth_is_that_of_what_a_mechanism_releases():
    """A mechanism that releases totals too is compared with true totals."""
    tree = ps.Hierarchy.of({"a": ("x",), "b": ("x",), "c": ("y",)})
    cell = Cell.of("tiny", FEED.stretch, "hs_pegasus", ("mae",), epsilon="100000")
    feed = Feed(FEED.stretch)
    feed.domain = tree
    line = line_of(cell, feed, 1)
    seen = line.step(TRUTH[0])
    assert len(seen.truth) == tree.nodes.size
    assert np.abs(seen.error).max() < 1
