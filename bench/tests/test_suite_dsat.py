"""The structure of `dsat`, and its own kinds of claims on made-up values."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import pytest

from penstock_bench.cell import MEAN, ZEROS, Cell
from penstock_bench.claims import Claim, Place, Value
from penstock_bench.feed import Feed
from penstock_bench.runner import Job, work
from penstock_bench.suite import BenchQuestion, Setting, choose
from penstock_bench.suites.dsat import BEGINNING, BEGUN, THRESHOLDS, Dsat
from penstock_bench.suites.dsat_points import QUICK_CENSUS, length
from penstock_bench.trends import FallsBehind, Least, Near, NearBest, Rises

FULL, QUICK = Setting(), Setting(quick=True)
WINDOWED = ("window", "window-epsilon")


def questions(setting: Setting = FULL) -> dict[str, BenchQuestion]:
    return {question.name: question for question in Dsat().questions(setting)}


def test_it_has_a_question_for_every_sweep():
    asked = questions()
    assert list(asked) == [
        "epsilon",
        "share",
        "threshold",
        "rate",
        "attributes",
        "size",
        "releases",
        "histogram",
        "window",
        "window-epsilon",
    ]
    datasets = {
        point.cell.stream.dataset for question in asked.values() for point in question.points
    }
    assert datasets == {"census", "fleet", "flights", "births", "movement"}
    assert all(question.claims for name, question in asked.items() if name != "releases")


@pytest.mark.parametrize("setting", [FULL, QUICK], ids=["full", "quick"])
def test_a_person_is_protected_in_the_whole_stream_or_in_any_window(setting: Setting):
    for name, question in questions(setting).items():
        for point in question.points:
            if not point.cell.trivial:
                promise = dict(point.cell.parameters)
                units = length(point.cell.stream)
                if name in WINDOWED:
                    assert "horizon" not in promise
                    assert 0 < promise["window"] <= units
                else:
                    assert promise["window"] == promise["horizon"] == units


def test_streams_are_as_long_as_their_promises_say():
    for stream in {
        cell.stream for cell in choose(Dsat(), QUICK).cells if cell.stream.dataset != "births"
    }:
        assert Feed(stream).units == length(stream)


def test_those_that_sample_make_as_many_releases_as_each_other():
    for point in questions()["releases"].points:
        if point.line in ("dsat", "dsft", "fixed"):
            made = point.cell.made()
            window, interval = made.window, getattr(made, "every", None)
            if interval is None:
                assert made.most == int(point.x)
            else:
                assert int(point.x) / 1.5 <= -(-window // interval) <= int(point.x)


def test_a_cell_serves_many_points():
    """What does not depend on a sweep is run once for all of it, and what two figures share once
    for both.
    """
    asked = questions()
    thresholds = [point for point in asked["threshold"].points if point.panel == "census, ε = 1"]
    cells = defaultdict(set)
    for point in thresholds:
        cells[point.line].add(point.cell)
    assert {line: len(found) for line, found in cells.items()} == {
        "dsft": len(THRESHOLDS),
        BEGINNING: len(BEGUN),
        "dsat": 1,
        "fixed": 1,
        ZEROS: 1,
        MEAN: 1,
    }

    def at(name: str, panel: str, x: str, line: str) -> Cell:
        [found] = [p.cell for p in asked[name].points if (p.panel, p.x, p.line) == (panel, x, line)]
        return found

    for line in ("dsat", "fixed", "ba", ZEROS):
        same = at("epsilon", "census", "1", line)
        assert same == at("rate", "census", "0.01", line) == at("attributes", "census", "3", line)
        assert same == at("releases", "census", "10", line)
    assert at("share", "census", "0.1", "dsat") == at("epsilon", "census", "1", "dsat")
    assert len({point.cell for point in asked["size"].points if point.line == "dsat"}) == 1
    assert at("window", "movement", "800", "ba") == at(
        "window-epsilon", "movement, w = 800", "1", "ba"
    )


def test_histograms_are_what_their_lines_say():
    kinds = {
        point.line: repr(point.cell.made().histogram)
        for point in questions()["histogram"].points
        if not point.cell.trivial
    }
    assert {line: kind.partition("(")[0] for line, kind in kinds.items()} == {
        "dsat, plain": "Plain",
        "dsat, quad tree": "QuadTree",
        "dsat, k-d tree": "KdTree",
        "dsat, greedy": "Greedy",
    }


def test_a_stream_that_is_there_already_is_not_added_twice():
    once, twice = questions(), questions(Setting(streams=("births",)))
    assert once["epsilon"].points == twice["epsilon"].points
    assert {point.panel for point in twice["window"].points} == {"movement", "births"}


def test_a_cell_gives_both_errors_of_every_size():
    points = [point for point in questions(QUICK)["size"].points if point.line in ("fixed", ZEROS)]
    cells = tuple(dict.fromkeys(point.cell for point in points))
    rows = work(Job(QUICK_CENSUS, cells, 1))
    values = {(row["mechanism"], row["measure"]): row["value"] for row in rows}
    for drawn in questions(QUICK)["size"].measures:
        for point in points:
            assert values[point.cell.mechanism, drawn.at(point.x)] > 0
    # Nothing shown is all of the answer wrong: its share is 1 wherever there is somebody at all.
    assert 0 < values[ZEROS, "ranges:200,100 relative"] <= 1


# -- claims ----------------------------------------------------------------------------------------


def places(**panels: dict[str, list[float]]) -> dict[Place, dict[str, Value]]:
    """Values of lines at places 1, 2, 3 … of panels."""
    found: dict[Place, dict[str, Value]] = defaultdict(dict)
    for panel, lines in panels.items():
        for line, means in lines.items():
            for x, mean in enumerate(means, start=1):
                found[panel, str(x)][line] = Value(mean, 0.0, 2)
    return found


def verdict(claim: Claim, **panels: dict[str, list[float]]) -> str:
    return claim.found(places(**panels)).verdict


def test_where_a_line_is_best():
    claim = Least(paper="in the middle", measure="m", line="a", low=2, high=3)
    valley, slope = {"a": [5.0, 2.0, 3.0, 9.0]}, {"a": [1.0, 2.0, 3.0, 9.0]}
    assert verdict(claim, one=valley) == "yes"
    assert verdict(claim, one=slope) == "no"
    assert verdict(claim, one=valley, two=slope) == "partly"
    assert verdict(claim, one={"b": [1.0, 2.0]}) == "not run"
    assert claim.found(places(one=valley, two=slope)).ours == (
        "least there in 1 of 2 panels (one: at 2; two: at 1, 0.5 × that at 2)"
    )


def test_close_to_the_best_that_a_rival_can_do():
    claim = NearBest(paper="close", measure="m", line="a", rival="b", axis="T")
    close, far = {"a": [6.0, 6.0], "b": [9.0, 5.0]}, {"a": [6.1, 6.1], "b": [5.0, 9.0]}
    assert verdict(claim, one=close) == "yes"
    assert verdict(claim, one=far) == "no"
    assert verdict(claim, one=close, two=far) == "partly"
    assert verdict(claim, one={"a": [6.0]}) == "not run"
    assert "one: 1.2 × (T = 2); two: 1.22 × (T = 1)" in claim.found(places(one=close, two=far)).ours


def test_close_everywhere():
    claim = Near(paper="close", measure="m", line="a", rival="b")
    assert verdict(claim, one={"a": [1.0, 1.2], "b": [2.0, 1.0]}) == "yes"
    assert verdict(claim, one={"a": [1.0, 1.3], "b": [2.0, 1.0]}) == "partly"
    assert verdict(claim, one={"a": [3.0, 1.3], "b": [2.0, 1.0]}) == "no"
    assert verdict(claim, one={"a": [3.0]}) == "not run"


@pytest.mark.parametrize(
    ("rival", "grows"),
    [
        ([20.0, 30.0, 40.0], "yes"),
        ([20.0, 15.0, 40.0], "partly"),
        ([40.0, 30.0, 20.0], "no"),
        ([5.0, 7.0, 9.0], "no"),
        ([20.0], "not run"),
    ],
)
def test_a_gap_that_widens(rival: list[float], grows: str):
    claim = FallsBehind(paper="it grows", measure="m", line="a", rival="b")
    lines = {"a": [10.0] * len(rival), "b": rival}
    assert verdict(claim, one=lines) == grows
    back = {line: means[::-1] for line, means in lines.items()}
    assert verdict(replace(claim, falls=True), one=back) == grows


def test_a_gap_that_widens_in_counts_alone_does_so_in_part():
    claim = FallsBehind(paper="it grows", measure="m", line="a", rival="b")
    found = claim.found(places(one={"a": [10.0, 100.0], "b": [30.0, 200.0]}))
    assert found.verdict == "partly"
    assert found.ours == (
        "the error of b in multiples of that of a: 3 at 1 to 2 at 2 (one); 0 of 1 steps rise; "
        "their difference: 20 at 1 to 100 at 2 (one); 1 of 1 steps rise"
    )


def test_an_error_that_rises_or_falls():
    rises = Rises(paper="it rises", measure="m", line="a")
    falls = Rises(paper="it falls", measure="m", line="a", falls=True)
    up, down = {"a": [0.1, 0.2, 0.3]}, {"a": [0.3, 0.2, 0.1]}
    assert (verdict(rises, one=up), verdict(falls, one=up)) == ("yes", "no")
    assert (verdict(rises, one=down), verdict(falls, one=down)) == ("no", "yes")
    assert verdict(rises, one=up, two=down) == "partly"
