from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from penstock_bench.cell import MEAN, ZEROS, Cell
from penstock_bench.claims import Value
from penstock_bench.feed import missing
from penstock_bench.results import Row
from penstock_bench.runner import Job, work
from penstock_bench.suite import BenchQuestion, Setting, choose
from penstock_bench.suites.eshp import (
    ALONE,
    ESHP,
    EVERYBODY,
    LAPLACE,
    PUBLISHED,
    SURVEY,
    Alike,
    Eshp,
    Moves,
    Saves,
)

FULL, QUICK = Setting(), Setting(quick=True)


def question(name: str, setting: Setting = QUICK) -> BenchQuestion:
    return next(each for each in Eshp().questions(setting) if each.name == name)


def values(cells: tuple[Cell, ...]) -> Mapping[str, Mapping[str, float]]:
    """By mechanism, on as few units as are enough."""
    stream = replace(cells[0].stream, units=60)
    short = tuple(replace(cell, stream=stream) for cell in cells)
    rows: list[Row] = work(Job(stream, short, 1))
    found: dict[str, dict[str, float]] = {}
    for row in rows:
        assert not row["note"]
        found.setdefault(row["mechanism"], {})[row["measure"]] = row["value"]
    return found


def test_every_question_has_its_place_on_the_axis_measured() -> None:
    for setting in (FULL, QUICK):
        for each in Eshp().questions(setting):
            for point in each.points:
                first = each.measures[0].at(point.x)
                assert first in point.cell.measures, (each.name, point.line, point.x)


def test_sums_are_measured_of_lines_that_are_made_for_them() -> None:
    for each in Eshp().questions(FULL):
        for point in each.points:
            given = dict(point.cell.parameters)
            if "gamma" in given:
                assert each.measures[0].at(point.x) == f"decayed:{given['gamma']},{given['span']}"
                assert each.measures[0].at(point.x) == point.cell.measures[0]


def test_what_is_not_private_and_what_promises_something_else_is_marked_in_its_name() -> None:
    for each in Eshp().questions(FULL):
        for point in each.points:
            assert point.private is not (point.line.endswith("†") or point.line == MEAN)
            if point.cell.mechanism == "lab:randomised_response":
                assert "replacing" in point.line
    survey = next(point.cell for point in question("window").points if point.line == SURVEY)
    assert survey.guarantee() == "none (claimed: epsilon=1, window=1)"
    tree = next(point.cell for point in question("window").points if point.line == "rtp_dmm")
    assert tree.guarantee() == "epsilon=1, adding or removing one event"


def test_questions_share_the_cells_that_are_the_same() -> None:
    usual = {
        name: {point.cell for point in question(name, FULL).points if point.x == x}
        for name, x in PLACES
    }
    assert usual["gamma"] == usual["epsilon"]
    for name in ("beta", "tolerance"):
        assert usual[name] <= usual["gamma"], name
    other = {cell.mechanism for cell in usual["alpha"] - usual["gamma"]}
    assert other == {"lab:eshp_published"}  # whose own α is another
    keys = [cell.key(1) for cell in choose(Eshp(), FULL).cells]
    assert len(set(keys)) == len(keys)


PLACES = (
    ("gamma", "0.91"),
    ("epsilon", "1"),
    ("beta", "0.1"),
    ("tolerance", "0"),
    ("alpha", "0.5"),
)


def test_the_first_stream_needs_no_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_DATA", "nowhere")
    for each in Eshp().questions(QUICK):
        assert missing(each.points[0].cell.stream) is None


def test_everybody_is_run_and_the_survey_keeps_a_window() -> None:
    cells = {
        point.line: point.cell
        for point in question("window").points
        if point.panel == "ages" and point.x == "200"
    }
    assert set(cells) == {*EVERYBODY, ZEROS, MEAN}
    found = values(tuple(cells.values()))
    measure = "decayed:0.91,200"
    assert (
        found["lab:eshp_published"][measure]
        < found["lab:recurrence"][measure]
        < found["lab:noise_per_release"][measure]
    )
    assert found[ZEROS][measure] > found[MEAN][measure] > found["laplace"][measure]
    assert found["lab:negative_survey"]["memory"] > 60 * 5 * 8 / 1e6
    assert found["lab:recurrence"]["memory"] < 0.001
    assert all(
        found[cell.mechanism]["time"] > 0
        for line, cell in cells.items()
        if line not in (ZEROS, MEAN)
    )


def test_a_mechanism_that_shows_other_sums_is_refused_with_a_reason() -> None:
    asked = next(
        p.cell
        for p in Eshp().questions(Setting(quick=True, also=("sw_tree",)))[0].points
        if p.line == "sw_tree"
    )
    stream = replace(asked.stream, units=5)
    (row,) = work(Job(stream, (replace(asked, stream=stream),), 1))
    assert "this line shows the sum of the last 168 units, and no other sums" in row["note"]


def at(*lines: Mapping[str, tuple[float, float]]) -> dict[tuple[str, str], dict[str, Value]]:
    return {
        ("ages", str(place)): {name: Value(mean, half, 3) for name, (mean, half) in here.items()}
        for place, here in enumerate(lines, start=1)
    }


def test_savings_are_means_over_places() -> None:
    places = at({ESHP: (1, 0), SURVEY: (4, 0)}, {ESHP: (1, 0), SURVEY: (2, 0)})
    claim = Saves(paper="it saves", measure="time", line=ESHP, rival=SURVEY, share=0.62)
    assert claim.look(places) == (
        "eshp needs 62 % less on average, from 50 % less (ages, 2) to 75 % less (ages, 1)",
        "yes",
    )
    assert replace(claim, share=0.8).look(places)[1] == "partly"
    slower = at({ESHP: (3, 0), SURVEY: (2, 0)})
    assert claim.look(slower) == (
        "eshp needs 50 % more on average, from 50 % more (ages, 1) to 50 % more (ages, 1)",
        "no",
    )
    assert claim.look({})[1] == "not run"


@pytest.mark.parametrize(("last", "way"), [(10.0, "up"), (1.1, "flat"), (0.2, "down")])
def test_a_line_goes_up_or_down_or_neither(last: float, way: str) -> None:
    places = at({PUBLISHED: (1, 0)}, {PUBLISHED: (99, 0)}, {PUBLISHED: (last, 0)})
    for asked in ("up", "flat", "down"):
        words, verdict = Moves(paper="it moves", measure="mse", line=PUBLISHED, way=asked).look(
            places
        )
        assert verdict == ("yes" if asked == way else "no")
        assert words == f"{way} from 1 at 1 to {last:g} at 3 (ages)"
    assert Moves(paper="it moves", measure="mse", line=ESHP, way="up").look(places)[1] == "not run"


def test_lines_are_alike_if_they_are_near_or_their_intervals_say_no_more() -> None:
    claim = Alike(paper="as good", measure="mse", line=ALONE, rival=LAPLACE)
    near, unsure, apart = {ALONE: (104, 0)}, {ALONE: (120, 15)}, {ALONE: (120, 9)}
    exact, wide = {LAPLACE: (100, 0)}, {LAPLACE: (100, 15)}
    assert claim.look(at(near | exact, unsure | wide))[1] == "yes"
    assert claim.look(at(near | exact, apart | exact))[1] == "partly"
    assert claim.look(at(apart | exact))[1] == "no"
    assert replace(claim, from_x=2).look(at(apart | exact, near | exact))[1] == "yes"
    assert replace(claim, from_x=9).look(at(near | exact))[1] == "not run"
