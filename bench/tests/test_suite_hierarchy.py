"""The suite `hierarchy`: its own parts. What every suite must be is in test_suites.py."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

import numpy as np
import pytest

from penstock.core.hierarchy import Hierarchy
from penstock.private.mechanisms.hierarchical import PrunedPegasus
from penstock.testing import NoNoise, RecordingNoise, TestNoise
from penstock_bench.claims import Value
from penstock_bench.datasets.registry import find
from penstock_bench.feed import dataset_of, missing
from penstock_bench.published import PublishedFreshPruning
from penstock_bench.runner import Job, work
from penstock_bench.suite import BenchQuestion, Point, Setting
from penstock_bench.suites import hierarchy as suite
from penstock_bench.suites.hierarchy import (
    FRESH,
    HS,
    NODE_LAPLACE,
    PHS,
    BestOf,
    OverHierarchies,
    Times,
    wifi,
)

FULL, QUICK = Setting(), Setting(quick=True)


def questions(setting: Setting) -> dict[str, BenchQuestion]:
    return {question.name: question for question in OverHierarchies().questions(setting)}


def lines(points: Iterable[Point], panel: str) -> set[str]:
    return {point.line for point in points if point.panel == panel}


# -- the questions ---------------------------------------------------------------------------------


@pytest.mark.parametrize("setting", [FULL, QUICK], ids=["full", "quick"])
def test_every_question_begins_with_a_generated_stream(setting: Setting):
    for question in questions(setting).values():
        assert dataset_of(question.points[0].cell.stream).licence == "generated"


def test_levels_cost_no_cells_of_their_own():
    asked = questions(FULL)
    assert {point.cell for point in asked["levels"].points} <= {
        point.cell for point in asked["epsilon"].points
    }


@pytest.mark.parametrize("setting", [FULL, QUICK], ids=["full", "quick"])
def test_no_cell_is_run_twice_under_another_name(setting: Setting):
    cells = {point.cell for question in questions(setting).values() for point in question.points}
    assert len({cell.key(1) for cell in cells}) == len(cells)


@pytest.mark.parametrize(
    "tree", [*suite.TREES, suite.QUICK_WIFI, suite.SHORT], ids=lambda tree: tree.stream.name
)
def test_a_stream_has_as_many_levels_as_are_drawn(tree: suite.HierarchyStream):
    if missing(tree.stream) is not None:
        pytest.skip("needs data that are not here")
    domain = dataset_of(tree.stream).load().domain
    assert isinstance(domain, Hierarchy)
    assert domain.height == tree.levels


def test_a_short_stream_is_as_dense_as_the_papers():
    whole, short = find("wifi_multi"), dataset_of(wifi(576))
    assert (whole.units, whole.total, whole.points) == (suite.UNITS, suite.TOTAL, suite.POINTS)
    assert short.total / short.units == pytest.approx(whole.total / whole.units, rel=1e-4)


@pytest.mark.parametrize("setting", [FULL, QUICK], ids=["full", "quick"])
def test_what_is_not_private_is_shown_where_it_breaks_its_promise_and_marked(setting: Setting):
    heights = {tree.stream: tree.levels for tree in (*suite.TREES, *suite.QUICK_TREES, suite.SHORT)}
    for question in questions(setting).values():
        for point in question.points:
            if "FreshPruning" in point.cell.mechanism:
                assert not point.private
                assert point.line.startswith(FRESH)
                levels = int(point.x) if question.name == "height" else heights[point.cell.stream]
                assert levels >= 4


def test_mechanisms_and_streams_of_ones_own_are_beside_the_papers():
    asked = questions(Setting(quick=True, also=("bs",), streams=("flights",)))["epsilon"]
    assert {"bs", PHS, NODE_LAPLACE} <= lines(asked.points, "wifi_multi")
    assert "bs" in lines(asked.points, "flights")


# -- tiny cells ------------------------------------------------------------------------------------


def test_every_line_of_a_place_gives_a_value_for_every_node_and_level():
    stream = wifi(4, 8)
    names = ("bs", *suite.LINES, *suite.VARIANTS, FRESH, *suite.TRIVIAL_LINES)
    cells = tuple(OverHierarchies()._cell(stream, line, "1") for line in names)
    rows = work(Job(stream, cells, 1))
    assert [row["note"] for row in rows if row["note"]] == []
    by_cell: dict[str, set[str]] = {}
    for row in rows:
        by_cell.setdefault(row["cell"], set()).add(row["measure"])
    assert len(by_cell) == len(cells)
    wanted = {"nodes_l1", "levels_l1", "time", *(f"nodes_l1 {level}" for level in (1, 2, 3, 4))}
    assert all(found == wanted for found in by_cell.values())
    zeros = {row["measure"]: row["value"] for row in rows if row["mechanism"] == "zeros"}
    counts = dataset_of(stream).load().matrix()
    assert zeros["nodes_l1 1"] == pytest.approx(counts.sum(axis=1).mean())
    assert zeros["nodes_l1"] == pytest.approx(4 * counts.sum(axis=1).mean() / 15)


# -- the published pruning -------------------------------------------------------------------------

BINARY = Hierarchy.binary(128)


def test_published_pruning_has_its_noise_and_spends_what_it_claims_elsewhere():
    """Full rooms, so that every node is tested: scale 2/ε_pr on counts and on thresholds; the rest
    as in `phs_pegasus`.
    """
    full, scales = np.full(128, 10**6), []
    for mechanism in (PublishedFreshPruning(epsilon="0.5"), PrunedPegasus(epsilon="0.5")):
        noise = RecordingNoise(TestNoise(1))
        mechanism.run(BINARY, noise=noise).step(full)
        scales.append({draw.label: draw.scale for draw in noise.draws})
    fresh, own = scales
    tested = {
        label: scale for label, scale in fresh.items() if label.startswith(("prune", "threshold"))
    }
    assert len(tested) == 2 * 7
    claimed = Fraction(1, 2) * Fraction(1, 5)
    assert all(
        float(scale * claimed / 2) == pytest.approx(1, rel=1e-4) for scale in tested.values()
    )
    rest = {label: scale for label, scale in fresh.items() if label not in tested}
    assert rest
    assert {label: float(scale) for label, scale in rest.items()} == pytest.approx(
        {label: float(own[label]) for label in rest}, rel=1e-4
    )


def test_published_pruning_costs_more_than_it_claims_and_ours_does_not():
    full = np.full(128, 10**6)
    fresh, own = (
        PublishedFreshPruning(epsilon="0.5").run(BINARY, noise=TestNoise(1)),
        PrunedPegasus(epsilon="0.5").run(BINARY),
    )
    fresh.step(full)
    own.step(full)
    assert fresh.cost.epsilon > Fraction(1, 2) >= own.cost.epsilon


def test_published_pruning_without_noise_looks_below_what_reaches_beta():
    counts = np.zeros(128, np.int64)
    counts[0] = 10  # β = 5/ε = 10
    released = PublishedFreshPruning(epsilon="0.5").run(BINARY, noise=NoNoise()).step(counts)
    totals = BINARY.nodes.totals(counts)
    read = ~np.asarray(released.repeated)
    parents = BINARY.parents
    assert (read == ((parents < 0) | (totals[parents] >= 10))).all()


# -- claims ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ratio", "verdict"),
    [(20.0, "yes"), (8.0, "yes"), (7.0, "partly"), (101.0, "partly"), (0.9, "no")],
)
def test_a_factor_is_judged_by_its_range(ratio: float, verdict: str):
    claim = Times(
        paper="ten to a hundred times",
        measure="nodes_l1",
        line=PHS,
        rival=HS,
        low=10,
        high=100,
        at=("0.1",),
    )
    one, other = Value(2.0, 0.1, 3), Value(2.0 * ratio, 0.1, 3)
    found = claim.found(
        {
            ("a", "0.1"): {PHS: one, HS: other},
            ("a", "1"): {PHS: one, HS: one},
            ("b", "0.1"): {PHS: one},
        }
    )
    assert found.verdict == verdict
    assert found.ours == f"the error of hs_pegasus ÷ that of phs_pegasus is {ratio:g} (a, 0.1)"


@pytest.mark.parametrize(("own", "verdict"), [(0.9, "yes"), (1.01, "yes"), (1.03, "no")])
def test_a_line_is_judged_against_a_rival_at_its_best(own: float, verdict: str):
    claim = BestOf(paper="no worse", measure="nodes_l1", line=PHS, at="5", rival=FRESH)
    value = {number: Value(number, 0.1, 3) for number in (0.1, 1.0, 2.0, own)}
    places = {
        ("a", "5"): {PHS: value[own], FRESH: value[2.0]},
        ("a", "20"): {PHS: value[0.1], FRESH: value[1.0]},
    }
    found = claim.found(places)
    assert found.verdict == verdict
    assert f"{own:g} (a, 5) against 1 (a, 20)" in found.ours
    assert claim.found({("a", "20"): places["a", "20"]}).verdict == "not run"


def test_a_factor_that_was_not_run_is_not_judged():
    claim = Times(paper="ten times", measure="nodes_l1", line=PHS, rival=HS, low=10)
    assert claim.found({("a", "1"): {PHS: Value(1.0, 0.1, 3)}}).verdict == "not run"
