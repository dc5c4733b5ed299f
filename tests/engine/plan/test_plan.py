"""A plan in words, as TOML, as a table and as a page."""

from __future__ import annotations

import re
from fractions import Fraction

import pytest

import penstock as ps
from penstock.core.domain import Domain
from penstock.core.errors import ConfigurationError
from penstock.core.hierarchy import Hierarchy
from penstock.engine.config_sections import parse
from penstock.engine.pipeline import Pipeline
from penstock.engine.plan.candidates import AskedPromise
from penstock.engine.plan.planner import COMPARED, Simulations
from penstock.engine.plan.public_counts import made_up

ZONES = Hierarchy.of({f"zone {zone}": f"borough {zone % 2}" for zone in range(4)})


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    sample = tmp_path_factory.mktemp("plan") / "sample.csv"
    rows = [",".join(str((unit + zone) % 3) for zone in range(4)) for unit in range(44)]
    sample.write_text("\n".join([",".join(ZONES.keys), *rows]), encoding="utf-8")
    return ps.plan(domain=ZONES, epsilon="1", window=4, sample=sample, delta="1/1000")


def test_the_best_is_first_and_the_trivial_lines_are_last(plan):
    table = plan.table()
    errors = [row["mae"] for row in table[:-2]]
    assert errors == sorted(errors)
    assert (plan.best.name, plan.best.error.mae) == (table[0]["mechanism"], errors[0])
    assert [row["private"] for row in table[-2:]] == [False, False]
    assert {"hs_pegasus", "uniform", "tide"} <= {row["mechanism"] for row in table}
    assert any(row["parameters"].get("delta") == "1/1000" for row in table)


def test_the_words_judge_and_name_a_way_to_count_that_is_useful(plan):
    first, judged, coarser, *_ = plan.words
    assert first.startswith(f"Use {plan.best.name}")
    assert judged.startswith("Every hour per key, numbers are noise: ± ")
    assert re.fullmatch(r"Every .*, the error is ± [0-9.]+ % with [a-z_ ]+\.", coarser)
    assert all(each.relative <= 0.25 < plan.relative for each in plan.coarser)


def test_a_typical_count_beside_a_sample_is_stated_with_what_the_plan_rests_on(tmp_path):
    sample = tmp_path / "sample.csv"
    rows = [f"{unit % 3},{unit % 2}" for unit in range(60)]
    sample.write_text("\n".join(["north,south", *rows]), encoding="utf-8")
    known = {"domain": ["north", "south"], "epsilon": "1", "window": 4, "sample": sample}
    alone, both = ps.plan(**known), ps.plan(**known, typical=300)
    assert alone.public.mean == 0.75
    assert both.public.mean == pytest.approx(300, rel=0.02)
    told = both.plain()["knowledge"][0]
    assert told.startswith("The counts come from sample.csv, a sample of counts that is public")
    assert "Their mean is 0.75 per key and unit." in told
    assert "times 400, because the typical count is 300 by your statement." in told
    assert told in both.page()


def test_all_levels_and_lengths_were_tried(plan):
    found = {(each.every, each.level) for each in plan.figures.coarser}
    levels = {"", "per group of level 1", "all keys together"}
    assert {level for _, level in found} == levels
    assert len(found) == 3 * len({every for every, _ in found}) > 3


def test_the_curves_hold_the_asked_promise_and_the_best_mechanisms(plan):
    curves = {curve.name: curve for curve in plan.figures.curves}
    assert set(curves) == {"epsilon", "window", "delta", "unit length"}
    for curve in curves.values():
        assert curve.asked in curve.values
        assert {"all zeros", "long-run mean"} < set(curve.lines)
        assert all(len(line) == len(curve.values) for line in curve.lines.values())
    assert len(curves["epsilon"].lines) in (COMPARED + 2, COMPARED + 3)
    private = [line for name, line in curves["epsilon"].lines.items() if " " not in name]
    assert all(line[0] >= line[-1] for line in private)


def test_the_toml_is_a_promise_that_a_pipeline_takes(plan):
    content = parse(plan.to_toml(), name="plan.toml").content
    pipeline = Pipeline.of(
        {
            "stream": {"name": "taps", "every": "1h", "origin": "2026-01-01"},
            "source": {"kind": "stdin", "time": "ts", "key": "zone"},
            "domain": ZONES,
        }
        | content
    )
    promise = plan.view.promise
    assert pipeline.view().declared == plan.best.choice.made(promise, plan.public.facts)


def test_the_page_and_the_notebook_show_the_same_words(plan):
    page, notebook = plan.page(command="penstock plan taps.toml"), plan._repr_html_()
    for line in plan.words:
        assert line in page
        assert line in notebook
    assert "penstock plan taps.toml" in page
    assert "All charts use the same 44 units as the ranking." in page
    assert "± " in notebook
    assert repr(plan).startswith("<Plan for 'stream': ")


def test_a_ranking_is_the_same_every_time():
    promise = AskedPromise(epsilon=Fraction(1), window=2, horizon=20)
    public = made_up(Domain.of(2), "1h", typical=Fraction(3), window=2)
    once, again = (Simulations(public, promise).ranked() for _ in range(2))
    assert once == again


def test_the_time_is_told_first_and_progress_ends_there():
    public = made_up(Domain.of(2), "1h", typical=Fraction(3), window=2)
    work = Simulations(public, AskedPromise(epsilon=Fraction(1), window=2, horizon=20))
    heard = []
    work.figures(lambda done, total: heard.append((done, total)))
    done = [each for each, _ in heard]
    assert {total for _, total in heard} == {work.seconds}
    assert done == sorted(done)
    assert (done[0], done[-1]) == (0, work.seconds)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"domain": 2, "epsilon": "1", "window": 2}, "give typical, sample or releases"),
        ({"typical": 3}, "give a pipeline, or domain, epsilon and window"),
        ({"pipeline": "x.toml", "domain": 2, "typical": 3}, "are those of the pipeline"),
        ({"domain": 2, "epsilon": 0.5, "window": 2, "typical": 3}, "epsilon"),
        ({"domain": 2, "epsilon": "1", "window": 2, "typical": 10**30}, "typical must be at most"),
        (
            {"domain": 2, "epsilon": "1", "window": 2, "typical": "a.csv", "sample": "b.csv"},
            "give a number beside a sample",
        ),
    ],
)
def test_too_little_or_too_much_is_refused(given, problem):
    with pytest.raises((ConfigurationError, ps.InexactError), match=problem):
        ps.plan(**given)
