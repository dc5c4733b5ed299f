"""The suite `w-event`: who stands in it, with what promise, and what is declared of a stream."""

from __future__ import annotations

from dataclasses import fields
from fractions import Fraction

import pytest

from penstock.private.mechanisms.registry import MECHANISMS
from penstock_bench.cell import MEAN, ZEROS, Stretch
from penstock_bench.feed import seasons
from penstock_bench.labels import label
from penstock_bench.registry import SUITES
from penstock_bench.suite import Setting
from penstock_bench.suites.w_event import COMPETITORS, DELTA, WITH_DELTA

SUITE = SUITES["w-event"]
QUESTIONS = {question.name: question for question in SUITE.questions(Setting())}


@pytest.mark.parametrize("question", ["window", "epsilon", "thin"])
def test_whoever_takes_any_window_and_shows_counts_is_there(question: str):
    lines = {point.line for point in QUESTIONS[question].points}
    assert lines >= {"uniform", "sample", "bd", "ba", "bd_grouped", "ba_grouped", "dsat", "fast_w"}
    assert lines >= {name for name in ("fast", "rg", "pegasus", "tide") if name in MECHANISMS}
    assert lines >= {*COMPETITORS, ZEROS, MEAN}
    assert not any(point.cell.delta for point in QUESTIONS[question].points)


def test_promises_with_a_delta_have_a_question_of_their_own():
    points = [point for point in QUESTIONS["delta"].points if not point.cell.trivial]
    assert {point.cell.delta for point in points} == {Fraction(DELTA)}
    assert {point.line for point in points} == set(WITH_DELTA)
    assert set(WITH_DELTA) >= {"uniform", "sample", "fixed", "bd", "ba", "bd_grouped", "ba_grouped"}
    assert "delta" in dict(SUITE.leaders)


def test_published_forms_are_marked():
    marked = {line for line in COMPETITORS if label(line).endswith("as published †")}
    assert {line.removesuffix("_published") for line in marked} == set(COMPETITORS) - marked


def test_competitors_that_compare_keys_are_not_run_on_the_widest_streams():
    wide = {point.line for point in QUESTIONS["window"].points if point.panel == "worldcup"}
    assert not wide & set(COMPETITORS)
    narrow = {point.line for point in QUESTIONS["window"].points if point.panel == "covid"}
    assert narrow - wide == set(COMPETITORS)


def test_days_and_weeks_are_declared_and_what_is_a_stock():
    told = {
        point.panel: dict(point.cell.parameters)
        for question in QUESTIONS.values()
        for point in question.points
        if not point.cell.trivial
        and point.line in MECHANISMS
        and "periods" in {each.name for each in fields(MECHANISMS[point.line])}
    }
    for panel, given in told.items():
        assert given["kind"] == ("stock" if panel.startswith("bikes") else "flow")
        assert given["periods"]
    assert seasons(Stretch(dataset="flights")) == (24, 168)
    assert seasons(Stretch(dataset="wifi_high", merge=7)) == ()


def test_relative_errors_have_three_bounds():
    taken = {measure for point in QUESTIONS["window"].points for measure in point.cell.measures}
    assert taken >= {"mae", "mre", "mre:total", "mre:key"}


def test_intervals_are_judged_at_both_epsilons_and_in_the_cells_of_the_other_questions():
    points = QUESTIONS["intervals"].points
    assert {dict(point.cell.parameters)["epsilon"] for point in points} == {"0.1", "1"}
    assert {point.panel.partition(",")[0] for point in points} == {
        point.panel for point in QUESTIONS["window"].points
    }
    shared = {point.cell for name in ("window", "epsilon") for point in QUESTIONS[name].points}
    assert len({point.cell for point in points} - shared) == len(points) // 4  # ε = 0.1, w = 24
