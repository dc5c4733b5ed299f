"""What every suite must be, whatever it asks."""

from __future__ import annotations

from collections import defaultdict

import pytest

from penstock.core.errors import ConfigurationError
from penstock_bench.cell import MEAN, ZEROS
from penstock_bench.competitors.competitor import Competitor
from penstock_bench.datasets.registry import DATASETS
from penstock_bench.feed import missing
from penstock_bench.measures.base import MEMORY, TIME
from penstock_bench.measures.registry import MEASURES
from penstock_bench.plugins import FLAWED
from penstock_bench.registry import SUITES
from penstock_bench.suite import BenchQuestion, Setting, Suite, choose

CASES = [
    pytest.param(suite, setting, id=f"{suite.name}{' quick' if setting.quick else ''}")
    for suite in SUITES.values()
    for setting in (
        Setting(),
        Setting(quick=True),
        Setting(quick=True, also=("bs",), streams=("flights",)),
    )
]


def everything(suite: Suite, setting: Setting) -> list[BenchQuestion]:
    return list(choose(suite, setting).questions)


@pytest.mark.parametrize(("suite", "setting"), CASES)
def test_every_place_has_the_two_trivial_lines_and_each_line_once(suite: Suite, setting: Setting):
    for question in everything(suite, setting):
        lines = defaultdict(list)
        for point in question.points:
            lines[point.panel, point.x].append(point.line)
        if {line for here in lines.values() for line in here} == {"tide"}:
            assert question.name == "intervals"  # it compares nobody
            continue
        for place, here in lines.items():
            assert {ZEROS, MEAN} <= set(here), (question.name, place)
            assert len(set(here)) == len(here), (question.name, place)


@pytest.mark.parametrize(("suite", "setting"), CASES)
def test_everybody_at_a_place_keeps_the_same_promise(suite: Suite, setting: Setting):
    for question in everything(suite, setting):
        promises = defaultdict(set)
        for point in question.points:
            if not point.cell.trivial:
                made = point.cell.made()
                if isinstance(made, Competitor):
                    promises[point.panel, point.x].add((made.budget, made.protected, None))
                    continue
                if not point.cell.mechanism.startswith(FLAWED):
                    assert made.guarantee.epsilon == made.epsilon
                promises[point.panel, point.x].add((made.epsilon, made.window, made.horizon))
        assert all(len(kept) == 1 for kept in promises.values())


@pytest.mark.parametrize(("suite", "setting"), CASES)
def test_streams_measures_and_claims_are_there(suite: Suite, setting: Setting):
    for question in everything(suite, setting):
        lines = {point.line for point in question.points}
        for point in question.points:
            assert point.cell.stream.dataset in DATASETS
            assert all(
                name.partition(":")[0] in {*MEASURES, TIME, MEMORY} for name in point.cell.measures
            )
            float(point.x)
        for claim in question.claims:
            assert claim.measure in {drawn.name for drawn in question.measures}
            assert {getattr(claim, "line", None), getattr(claim, "rival", None)} - {None} <= lines
            if not setting.quick:
                assert set(claim.panels or ()) <= {point.panel for point in question.points}


@pytest.mark.parametrize("suite", SUITES.values(), ids=list(SUITES))
def test_a_mechanism_and_a_stream_of_ones_own_stand_beside_the_others(suite: Suite):
    setting = Setting(quick=True, also=("bs",), streams=("flights",))
    points = [point for question in everything(suite, setting) for point in question.points]
    assert "bs" in {point.line for point in points}
    assert "flights" in {point.cell.stream.dataset for point in points}


@pytest.mark.parametrize("suite", SUITES.values(), ids=list(SUITES))
def test_something_can_be_run_where_there_are_no_data(
    suite: Suite, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PENSTOCK_DATA", "nowhere")
    streams = {cell.stream for cell in choose(suite, Setting(quick=True)).cells}
    assert any(missing(stream) is None for stream in streams)
    assert any(missing(stream) is not None for stream in streams)


@pytest.mark.parametrize("suite", SUITES.values(), ids=list(SUITES))
def test_parts_of_a_suite_can_be_chosen(suite: Suite):
    whole = choose(suite, Setting(quick=True))
    first = whole.questions[0]
    dataset = first.points[0].cell.stream.dataset
    line = next(point.line for point in first.points if not point.cell.trivial)
    part = choose(suite, Setting(quick=True), (first.name, dataset, line))
    assert [question.name for question in part.questions] == [first.name]
    assert len({point.line for point in part.questions[0].points}) == 3
    assert set(part.cells) < set(whole.cells)
    both = choose(suite, Setting(quick=True), (first.name,), (whole.questions[-1].name,))
    assert [question.name for question in both.questions] == [first.name, whole.questions[-1].name]
    assert choose(suite, Setting(quick=True), (first.name,), ()) == whole
    with pytest.raises(ConfigurationError, match="has no 'nothing'"):
        choose(suite, Setting(), ("nothing",))


def test_settings_are_checked():
    with pytest.raises(ConfigurationError, match="runs must be at least 1"):
        Setting(runs=0)
    with pytest.raises(ConfigurationError, match="seed must not be negative"):
        Setting(seed=-1)


@pytest.mark.parametrize("suite", SUITES.values(), ids=list(SUITES))
def test_what_stands_on_the_leaderboard_is_there(suite: Suite):
    questions = {
        question.name: {point.x for point in question.points}
        for question in everything(suite, Setting())
    }
    assert suite.leaders
    for name, places in suite.leaders:
        assert set(places) <= questions[name]


@pytest.mark.parametrize(("suite", "setting"), CASES)
def test_a_name_means_one_thing(suite: Suite, setting: Setting):
    """Names of different kinds cut each other down: one that is both would select less than it
    says.
    """
    questions = everything(suite, setting)
    names = {question.name for question in questions}
    streams = {
        name for question in questions for point in question.points for name in point.streams
    }
    lines = {point.line for question in questions for point in question.points}
    assert not names & streams
    assert not names & lines
    assert not streams & lines


@pytest.mark.parametrize("suite", SUITES.values(), ids=list(SUITES))
def test_a_stream_that_the_suite_has_is_not_added_a_second_time(suite: Suite):
    whole = choose(suite, Setting(quick=True))
    own = tuple(dict.fromkeys(cell.stream.dataset for cell in whole.cells))
    assert choose(suite, Setting(quick=True, streams=own)) == whole


def test_a_selection_without_anything_in_it_is_refused():
    with pytest.raises(
        ConfigurationError, match=r"w-event has no part that matches all of groups, births\.$"
    ):
        choose(SUITES["w-event"], Setting(quick=True), ("groups", "births"))
