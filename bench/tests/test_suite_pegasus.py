"""The suite `pegasus`, its measures, and what the bench says where more is better."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from penstock.core.errors import ConfigurationError
from penstock.testing import TestNoise
from penstock_bench import draw as drawing
from penstock_bench.cell import MEAN, ZEROS, Cell, Stretch
from penstock_bench.claims import Better, Value
from penstock_bench.feed import Feed
from penstock_bench.findings import Answered, find
from penstock_bench.lines import line_of
from penstock_bench.measures.alerts import ROC_AT
from penstock_bench.measures.base import Facts
from penstock_bench.measures.registry import measure_of
from penstock_bench.registry import find_suite
from penstock_bench.results import BenchRequest
from penstock_bench.runner import Job, work
from penstock_bench.suite import BenchQuestion, PlottedMeasure, Point, Setting, Suite
from penstock_bench.suites.pegasus import OURS, PAPERS, PAPERS_THEN, THEN, WITHIN

from bench.tests.tiny import TINY

SUITE = find_suite("pegasus")
FULL = {question.name: question for question in SUITE.questions(Setting())}
QUICK = {question.name: question for question in SUITE.questions(Setting(quick=True))}

FEED = Feed(Stretch(dataset=TINY, options=(("units", 40), ("keys", 3))))
TRUTH = np.array(list(FEED.rows()))


def cell(mechanism: str, measure: str, **parameters: str | int) -> Cell:
    return Cell.of(
        "tiny", FEED.stretch, mechanism, (measure,), **{"epsilon": "1", "window": 1, **parameters}
    )


def measured(
    measure: str, mechanism: str = "laplace", *, feed: Feed = FEED, **parameters: str | int
) -> dict[str, float]:
    line = line_of(cell(mechanism, measure, **parameters), feed, 1)
    taken = measure_of(measure, Facts(feed.units, feed.domain, feed.domain.size, line.run))
    for row in feed.rows():
        taken.add(line.step(row))
    return taken.values()


def released(mechanism: str = "laplace") -> np.ndarray:
    made = cell(mechanism, "mae")
    run = made.made().run(FEED.domain, noise=TestNoise(made.noise(1)))
    return np.array([run.step(row).estimate for row in TRUTH])


# -- the suite -------------------------------------------------------------------------------------


def test_the_figures_of_the_paper_are_there():
    assert list(FULL) == list(QUICK) == ["counts", "alone", "theta", "windows", "alarms", "curves"]
    streams = {point.cell.stream.dataset for question in FULL.values() for point in question.points}
    assert streams == {
        "wifi_low",
        "wifi_med",
        "wifi_high",
        "bike_low",
        "bike_med",
        "us_departures_high",
    }
    assert {point.x for point in FULL["counts"].points} == {"0.1", "0.01"}
    assert {int(point.x) for point in FULL["windows"].points} == {
        2**power for power in range(1, 11)
    }


def test_a_stream_that_is_released_once_has_five_runs_where_no_number_is_given():
    (alone, *_), (copied, *_) = FULL["alone"].points, FULL["counts"].points
    assert SUITE.repeats(Setting(), alone.cell) == 5
    assert SUITE.repeats(Setting(), copied.cell) == SUITE.repeats(Setting()) == 1
    assert SUITE.repeats(Setting(runs=2), alone.cell) == 2
    assert SUITE.repeats(Setting(quick=True), alone.cell) == 1
    words = SUITE.repeats_in_words(Setting())
    assert words == "one run of each cell, means over 5 runs where a stream is released once"
    assert SUITE.repeats_in_words(Setting(runs=2)) == "means over 2 runs of each cell"


def test_a_generated_stream_comes_first_in_every_question():
    for question in (*FULL.values(), *QUICK.values()):
        assert question.points[0].cell.stream.dataset.startswith("wifi_")


def test_wifi_streams_are_counted_whole_with_the_totals_of_the_paper():
    whole = {
        p.cell.stream for p in FULL["counts"].points if p.cell.stream.dataset.startswith("wifi_")
    }
    assert all(stream.units is None and not stream.options for stream in whole)
    (low,) = (stream for stream in whole if stream.dataset == "wifi_low")
    rows = Feed(Stretch(dataset=low.dataset))
    assert (rows.units, sum(int(row.sum()) for row in rows.rows())) == (57_901, 2_846)


def test_the_papers_theta_is_a_line_of_its_own():
    for question in (FULL["counts"], FULL["windows"], FULL["alarms"], FULL["curves"]):
        made = {
            point.line: point.cell.made()
            for point in question.points
            if point.line in (OURS, PAPERS)
        }
        assert made[PAPERS].theta == 5
        assert (
            made[OURS].configuration()
            == type(made[OURS])(epsilon=made[OURS].epsilon).configuration()
        )


def test_one_run_answers_all_questions_about_a_stream():
    def cells(question: str, line: str) -> set[Cell]:
        return {
            p.cell
            for p in FULL[question].points
            if p.line == line and p.cell.stream.dataset == "us_departures_high"
        }

    for line in ("laplace", OURS, PAPERS, ZEROS, MEAN):
        assert (
            cells("counts", line)
            == cells("windows", line)
            == cells("alarms", line)
            == cells("curves", line)
        )
    assert cells("windows", THEN) == cells("windows", OURS)
    assert cells("windows", PAPERS_THEN) == cells("windows", PAPERS)


def test_trees_are_built_for_the_width_they_are_asked_for_and_know_no_moves():
    for point in FULL["windows"].points:
        if point.line in ("sw_tree", "kary"):
            assert dict(point.cell.parameters)["span"] == int(point.x)
    trees = [point for point in FULL["alarms"].points if point.line in ("sw_tree", "kary")]
    assert {point.of for point in trees} == {f"low,{WITHIN}"}
    assert all(dict(point.cell.parameters)["span"] == WITHIN for point in trees)


@pytest.mark.parametrize("name", ["counts", "windows", "alarms", "curves"])
def test_every_number_that_a_figure_wants_is_measured(name: str):
    drawn, wanted = QUICK[name].measures[0], dict[Cell, list[Point]]()
    for point in QUICK[name].points:
        if point.cell.stream.dataset == "wifi_high" and (
            point.line == MEAN or dict(point.cell.parameters).get("theta") == 5
        ):
            wanted.setdefault(point.cell, []).append(point)
    assert len(wanted) == 3
    for whole, points in list(wanted.items())[1:]:
        short = replace(whole, stream=replace(whole.stream, units=300))
        found = {row["measure"] for row in work(Job(short.stream, (short,), 1))}
        assert {drawn.at(point.x, point.of) for point in points} <= found
        assert {drawn.error_at(point.x, point.of) for point in points if drawn.error} <= found


# -- its measures ----------------------------------------------------------------------------------


def test_errors_of_counts_have_a_spread_over_keys():
    off = np.abs(released() - TRUTH)
    found = measured("unit_l1")
    assert found["scaled_l1"] == pytest.approx(off.sum() / TRUTH.sum())
    assert found["l1"] == pytest.approx(off.mean())
    assert found["l1 error"] == pytest.approx(off.mean(axis=0).std(ddof=1) / np.sqrt(3))
    assert found["scaled_l1 error"] == pytest.approx(found["l1 error"] / TRUTH.mean())


@pytest.mark.parametrize("mechanism", ["laplace", "pegasus", ZEROS])
def test_errors_of_windows_as_each_unit_was_shown(mechanism: str):
    error = -TRUTH if mechanism == ZEROS else released(mechanism) - TRUTH
    each = np.abs([error[start : start + 4].sum(axis=0) for start in range(37)]).mean(axis=0)
    found = measured("window_l1:4,41", mechanism)
    assert found["l1 then 4"] == pytest.approx(each.mean())
    assert found["error then 4"] == pytest.approx(each.std(ddof=1) / np.sqrt(3))
    assert {"l1 4", "error 4", "l1 then 4", "error then 4"} == found.keys()
    if mechanism == "pegasus":
        assert found["l1 4"] != pytest.approx(found["l1 then 4"])
    else:
        assert found["l1 4"] == pytest.approx(found["l1 then 4"])


@pytest.mark.parametrize("mechanism", ["sw_tree", "kary"])
def test_a_tree_is_measured_by_the_sums_that_it_releases(mechanism: str):
    made = cell(mechanism, "mae", span=8)
    run = made.made().run(FEED.domain, noise=TestNoise(made.noise(1)))
    shown = np.array([run.step(row).estimate for row in TRUTH])[7:]
    true = np.array([TRUTH[start : start + 8].sum(axis=0) for start in range(33)])
    found = measured("window_l1:8", mechanism, span=8)
    assert found["l1 8"] == pytest.approx(np.abs(shown - true).mean())
    assert {"l1 8", "error 8"} == found.keys()


def test_several_heights_of_an_alarm_are_measured_at_once():
    found = measured("roc:drop,2,1,6", epsilon="1000")
    for delta in (1, 6):
        name = f"roc:drop,2,{delta}"
        assert found[f"{name} share"] == pytest.approx((np.diff(TRUTH, axis=0) <= -delta).mean())
        assert found[f"{name} area"] == pytest.approx(1)


def test_where_it_happens_always_or_never_there_is_nothing_to_tell():
    assert {name.partition(" ")[0] for name in measured("roc:change,2,1,6,7")} == {"roc:change,2,6"}


def test_an_alarm_of_whoever_knows_nothing_is_a_guess():
    for mechanism in (ZEROS, MEAN):
        found = measured("roc:jump,2,1", mechanism)
        assert found["roc:jump,2,1 area"] == pytest.approx(0.5)
        assert [found[f"roc:jump,2,1 at {x:g}"] for x in ROC_AT] == pytest.approx(list(ROC_AT))
        found = measured(
            "roc:low,3,12", mechanism, feed=Feed(replace(FEED.stretch, keys=1, copies=2))
        )
        assert found["roc:low,3,12 area"] == pytest.approx(0.5)


def test_the_spread_of_an_area_is_that_of_the_keys_areas():
    """Against counting all pairs, one key after the other."""
    line = line_of(cell("laplace", "mae"), FEED, 1)
    shown = np.array([line.step(row).shown for row in FEED.rows()])
    event, score = np.diff(TRUTH, axis=0) >= 1, np.diff(shown, axis=0)
    areas = []
    for key in range(3):
        yes, no = score[event[:, key], key], score[~event[:, key], key]
        areas.append((yes[:, None] > no).mean() + (yes[:, None] == no).mean() / 2)
    found = measured("roc:jump,2,1")
    assert found["roc:jump,2,1 error"] == pytest.approx(np.std(areas, ddof=1) / np.sqrt(3))


@pytest.mark.parametrize("name", ["roc:jump", "roc:jump,2", "roc:jump,1,5", "roc:jump,2,x"])
def test_an_alarm_needs_a_width_and_a_height(name: str):
    with pytest.raises(ConfigurationError, match="needs a width of 2 or more and a δ"):
        measured(name)


# -- where more is better --------------------------------------------------------------------------

AREA = PlottedMeasure("area", "area", error="error", more=True, beside=True)


def answered(
    drawn: PlottedMeasure, lines: dict[str, tuple[float, float]], *claims: Better, places: int = 1
) -> Answered:
    points = [
        Point(
            "p",
            line,
            str(x + 1),
            Cell.of("tiny", FEED.stretch, line, ("mae",), epsilon="1", window=1),
        )
        for line in lines
        for x in range(places)
    ]
    question = BenchQuestion(
        name="q",
        title="q",
        words="",
        axis="x",
        measures=(drawn,),
        points=tuple(points),
        claims=claims,
    )
    at = {
        ("p", str(x + 1)): {line: Value(*value, 3) for line, value in lines.items()}
        for x in range(places)
    }
    return Answered(question, {drawn.name: at}, {place: set(lines) for place in at})


def test_the_winner_has_the_most():
    (sure,) = answered(AREA, {"laplace": (0.6, 0.01), "ba": (0.9, 0.01), ZEROS: (0.5, 0)}).winners(
        AREA
    )
    assert (sure.line, sure.second, sure.ratio, sure.sure, sure.beaten_by) == (
        "ba",
        "laplace",
        1.5,
        True,
        (),
    )
    (close,) = answered(AREA, {"laplace": (0.6, 0.2), "ba": (0.9, 0.2), ZEROS: (0.95, 0)}).winners(
        AREA
    )
    assert (close.line, close.sure, close.beaten_by) == ("ba", False, (ZEROS,))


@pytest.mark.parametrize(
    ("line", "rival", "verdict"), [("ba", "laplace", "yes"), ("laplace", "ba", "no")]
)
def test_a_claim_takes_from_its_measure_what_better_means(line: str, rival: str, verdict: str):
    claim = Better(paper="x", measure="area", line=line, rival=rival)
    (found,) = answered(AREA, {"laplace": (0.6, 0), "ba": (0.9, 0)}, claim).findings()
    assert found.verdict == verdict
    assert (
        f"the value of {line} is {1.5 if verdict == 'yes' else 0.667} × that of {rival} (p, 1)"
        in found.ours
    )
    (other,) = answered(
        PlottedMeasure("area", "area"), {"laplace": (0.6, 0), "ba": (0.9, 0)}, claim
    ).findings()
    assert other.verdict == ("no" if verdict == "yes" else "yes")


def test_a_curve_is_judged_as_a_whole():
    curve = PlottedMeasure("rate", "rate", more=True, curve=True)
    here = answered(curve, {"laplace": (0.6, 0), "ba": (0.9, 0), MEAN: (1, 0)}, places=2)
    assert here.winners(curve) == []
    assert here.said(curve) == ["p: over the whole axis the highest curve is that of ba."]


def test_rates_are_drawn_from_0_to_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    kept = []
    monkeypatch.setattr(drawing.figures, "save", lambda figure, path: kept.append(figure) or path)
    for drawn in (AREA, PlottedMeasure("area", "area")):
        here = answered(drawn, {"laplace": (0.6, 0.1), "ba": (0.0, 0), ZEROS: (0.5, 0)}, places=2)
        drawing.draw(here, drawn, drawing.looks(here.lines), tmp_path / "x.png")
    rates, errors = (figure.axes[0] for figure in kept)
    assert (rates.get_yscale(), errors.get_yscale()) == ("linear", "log")
    assert rates.get_ylim() == pytest.approx((-0.03, 1.03))
    lines = {line.get_label(): line.get_ydata() for line in rates.get_lines()}
    assert lines["ba"].tolist() == [0, 0], "nothing is a rate too"


def test_a_point_says_what_its_number_is_of():
    drawn = PlottedMeasure("roc:{of},{x} area", "area", error="roc:{of},{x} error")
    assert drawn.at("20", "jump,12") == "roc:jump,12,20 area"
    assert drawn.error_at("20", "jump,12") == "roc:jump,12,20 error"


WINDOWS = PlottedMeasure("l1 {of}{x}", "error", error="error {of}{x}", beside=True)


@dataclass(frozen=True)
class Beside(Suite):
    """One run of one cell, two lines."""

    name = "tiny"
    title = paper = words = ""
    runs = 1

    def questions(self, setting: Setting) -> Sequence[BenchQuestion]:
        here = cell("pegasus", "window_l1:4")
        points = (Point("p", "now", "4", here), Point("p", "then", "4", here, "then "))
        return (
            BenchQuestion(
                name="q", title="", words="", axis="", measures=(WINDOWS,), points=points
            ),
        )


def test_one_cell_has_numbers_of_two_lines_and_intervals_without_further_runs():
    rows = work(Job(FEED.stretch, (cell("pegasus", "window_l1:4"),), 1))
    value = {row["measure"]: row["value"] for row in rows}
    (found,) = find(Beside(), BenchRequest("tiny", Setting(), ((),), {}), rows).answered
    here = found.places(WINDOWS)["p", "4"]
    assert (here["now"].mean, here["now"].half) == (value["l1 4"], 2 * value["error 4"])
    assert (here["then"].mean, here["then"].half) == (value["l1 then 4"], 2 * value["error then 4"])
