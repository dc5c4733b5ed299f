"""The suite `rg`: what its lines and streams are, and what its own measures and dataset say."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

import numpy as np
import pytest

import penstock as ps
from penstock.core.errors import ConfigurationError
from penstock.released.queries import SlidingSum
from penstock_bench.cell import Cell, Stretch
from penstock_bench.datasets.steady import Steady
from penstock_bench.feed import Feed, feed, missing
from penstock_bench.lines import line_of
from penstock_bench.measures.base import Facts
from penstock_bench.measures.registry import measure_of
from penstock_bench.runner import Job, work
from penstock_bench.suite import BenchQuestion, Point, Setting
from penstock_bench.suites.rg import BY_LOG, PAPERS, RIVALS, STILL, RetroactiveGroups

SUITE = RetroactiveGroups()
FULL = {question.name: question for question in SUITE.questions(Setting())}
QUICK = {question.name: question for question in SUITE.questions(Setting(quick=True))}


def stretches(points: Iterable[Point]) -> dict[tuple[str, str], Stretch]:
    return {(point.panel, point.x): point.cell.stream for point in points}


def value(question: BenchQuestion, line: str, panel: str, x: str) -> float:
    """What a cell of the quick setting gives, in its first run."""
    point = next(
        point for point in question.points if (point.line, point.panel, point.x) == (line, panel, x)
    )
    rows = work(Job(point.cell.stream, (point.cell,), 1))
    return {row["measure"]: row["value"] for row in rows}[question.measures[0].at(x)]


def test_the_papers_defaults_are_those_of_the_paper():
    point = next(point for point in FULL["units"].points if point.line == PAPERS)
    mechanism = point.cell.made()
    assert mechanism.watching.epsilon + mechanism.publishing.epsilon == Fraction(1, 10)
    assert float(mechanism.watching.epsilon) == pytest.approx(0.01)
    assert float(mechanism.threshold) == pytest.approx(2 / 0.09**2)
    assert {drawn.name for drawn in FULL["epsilon"].measures} == {"sse:15", "sse_mean:15"}


def test_everybody_promises_one_event():
    cells = {
        point.cell
        for question in FULL.values()
        for point in question.points
        if not point.cell.trivial
    }
    assert {cell.made().guarantee.window for cell in cells} == {1}


def test_fast_samples_every_unit_with_all_of_its_budget():
    cell = next(point.cell for point in FULL["epsilon"].points if point.line == "fast")
    mechanism = cell.made()
    assert mechanism.each.epsilon == mechanism.guarantee.epsilon


def test_one_run_serves_all_sizes_of_the_window_and_the_places_that_figures_share():
    by_line = {
        point.line: point.cell for point in FULL["window"].points if point.panel == "worldcup"
    }
    assert len({point.cell for point in FULL["window"].points if point.panel == "worldcup"}) == len(
        by_line
    )
    for name, x in (("epsilon", "0.1"), ("bins", "100")):
        here = {
            point.line: point.cell
            for point in FULL[name].points
            if (point.panel, point.x) == ("worldcup", x)
        }
        assert all(by_line[line] == cell for line, cell in here.items())
        assert here.keys() >= {*RIVALS, PAPERS, "rg"}


@pytest.mark.parametrize("questions", [FULL, QUICK], ids=["full", "quick"])
def test_a_generated_stream_comes_first_everywhere(
    questions: dict[str, BenchQuestion], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PENSTOCK_DATA", "nowhere")
    assert all(missing(question.points[0].cell.stream) is None for question in questions.values())


def test_the_axis_of_units_says_how_many_there_are():
    here = {
        place: stream
        for place, stream in stretches(FULL["units"].points).items()
        if missing(stream) is None
    }
    assert {x for panel, x in here if panel == "traffic"} == {"168", "336", "504", "1008"}
    for (panel, x), stream in here.items():
        if panel != "worldcup":
            assert Feed(stream).units == int(x)
        else:
            assert 88 * dict(stream.options).get("per_day", 6) == int(x)


def test_traffic_is_as_large_as_the_papers():
    rows = np.array(list(feed(stretches(FULL["epsilon"].points)["traffic", "0.1"]).rows()))
    assert rows.shape == (504, 342)
    assert rows.sum() == pytest.approx(8_107_643, rel=0.01)


@pytest.mark.parametrize("panel", ["traffic", "turnstiles"])
def test_a_share_of_the_events_is_that_share(panel: str):
    streams = stretches(QUICK["events"].points)
    if missing(streams[panel, "50"]) is not None:
        pytest.skip(f"{panel}: no data.")
    half, all_of_it = (
        sum(int(row.sum()) for row in Feed(streams[panel, x]).rows()) for x in ("50", "100")
    )
    assert half / all_of_it == pytest.approx(0.5, rel=0.02)


def test_a_share_of_the_bins_is_that_share():
    streams = stretches(FULL["bins"].points)
    assert [streams["worldcup", x].keys for x in ("25", "100")] == [22_190, None]
    assert Feed(streams["traffic", "75"]).domain.size == 256


def test_our_parameters_win_on_a_constant_stream_where_the_papers_lose():
    steady = QUICK["still"]
    laplace, papers, ours = (
        value(steady, line, "constant 5", "0.1") for line in ("laplace", PAPERS, "rg")
    )
    assert ours < 0.5 * laplace < laplace < papers


def test_the_floor_is_reached_by_counts_and_not_by_windows():
    floor = QUICK["floor"]
    cell = next(point.cell for point in floor.points if point.line == STILL)
    found = {row["measure"]: row["value"] for row in work(Job(cell.stream, (cell,), 1))}
    assert found["sse_mean:1"] / found["rg_floor:1"] == pytest.approx(1, rel=0.1)
    assert found["sse_mean:15"] / found["rg_floor:15"] > 1.5


def test_the_floor_adds_up_group_by_group():
    facts = _facts("rg", units=63, watch="0.1")
    squares, before = [1.0], 1.0
    for size in (2, 4, 8, 16, 32):
        squares += [before] * (size - 1) + [1 / size**2]
        before = 1 / size**2
    one = 2 / 0.9**2 * 0.9**2 * np.exp(-0.9) / (1 - np.exp(-0.9)) ** 2
    assert measure_of("rg_floor:5", facts).values()["rg_floor:5"] == pytest.approx(
        5 * 3 * one * np.mean(squares)
    )
    assert measure_of("rg_floor:5", _facts("rg", units=64)).values() == {}
    assert measure_of("rg_floor:5", _facts("laplace", units=63)).values() == {}


def _facts(mechanism: str, *, units: int, **parameters: str) -> Facts:
    stream = Feed(Stretch(dataset="steady", options=(("keys", 3),), units=units))
    cell = Cell.of("rg", stream.stretch, mechanism, (), epsilon="1", window=1, **parameters)
    return Facts(units, stream.domain, 3, line_of(cell, stream, 1).run)


@pytest.mark.parametrize("mechanism", ["rg", "laplace", "fast"])
@pytest.mark.parametrize("epsilon", ["0.1", "2"])
def test_sums_by_the_log_are_what_the_log_answers(mechanism: str, epsilon: str):
    stream = Feed(Stretch(dataset="steady", options=(("keys", 5), ("level", 40)), units=90))
    cell = Cell.of("rg", stream.stretch, mechanism, ("log_sse:1,4,30",), epsilon=epsilon, window=1)
    line = line_of(cell, stream, 1)
    measure = measure_of("log_sse:1,4,30", Facts(90, stream.domain, 5, line.run))
    log = ps.Log.of(line.run)
    for row in stream.rows():
        seen = line.step(row)
        measure.add(seen)
        log.append(seen.released)
    truth = np.concatenate([np.zeros((1, 5)), np.cumsum(list(stream.rows()), axis=0)])
    found = measure.values()
    assert found.keys() == {
        f"{kind}:{width}" for kind in ("sse", "sse_mean") for width in (1, 4, 30)
    }
    for width in (1, 4, 30):
        errors = SlidingSum(width).series(log).estimate - (truth[width:] - truth[:-width])
        assert found[f"sse:{width}"] == pytest.approx(np.square(errors).sum())
        assert found[f"sse_mean:{width}"] == pytest.approx(np.square(errors).sum(axis=1).mean())


def test_the_log_knows_more_than_was_shown_then():
    stream = Stretch(dataset="steady", options=(("law", "constant"), ("keys", 500)), units=127)
    cells = [
        Cell.of("rg", stream, "rg", (name,), epsilon="0.1", window=1)
        for name in ("sse:15", "log_sse:15")
    ]
    shown, known = (
        next(row["value"] for row in work(Job(stream, (cell,), 1)) if row["measure"] == "sse:15")
        for cell in cells
    )
    assert known < 0.8 * shown


def test_windows_longer_than_the_stream_have_no_sum():
    cell = Cell.of(
        "rg", Stretch(dataset="steady", units=7), "rg", ("log_sse:1,8",), epsilon="1", window=1
    )
    assert {row["measure"] for row in work(Job(cell.stream, (cell,), 1))} == {"sse:1", "sse_mean:1"}


@pytest.mark.parametrize(
    "name", ["log_sse", "log_sse:0", "log_sse:15,1", "log_sse:2,2", "log_sse:a", "rg_floor:1,2"]
)
def test_widths_that_make_no_sense_are_refused(name: str):
    with pytest.raises(ConfigurationError, match="needs"):
        measure_of(name, _facts("rg", units=7))


def test_the_log_stands_beside_the_papers_sums_in_one_figure():
    lines = {point.line: point.cell for point in FULL["window"].points}
    assert lines[BY_LOG].mechanism == lines["rg"].mechanism == "rg"
    assert lines[BY_LOG].parameters == lines["rg"].parameters
    assert lines[BY_LOG].noise(1) == lines["rg"].noise(1)
    assert lines[BY_LOG].key(1) != lines["rg"].key(1)


def test_a_steady_stream_stands_still_or_varies_by_chance_alone():
    still, moving = (
        Steady(level=500, law=law, units=200, keys=20).make().matrix()
        for law in ("constant", "poisson")
    )
    assert set(still.ravel().tolist()) == {500}
    assert moving.mean() == pytest.approx(500, rel=0.01)
    assert moving.var() == pytest.approx(500, rel=0.15)


@pytest.mark.parametrize(
    "wrong",
    [{"level": 0}, {"level": 10**10}, {"law": "normal"}, {"units": 0}, {"keys": 0}, {"seed": -1}],
)
def test_an_impossible_steady_stream_is_refused(wrong: dict[str, int | str]):
    with pytest.raises(ConfigurationError):
        Steady(**wrong)  # type: ignore[arg-type]
