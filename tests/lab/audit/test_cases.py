"""Pairs of flawed variants on their registered parents, and other configurations."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from penstock.lab.audit import engine
from penstock.lab.audit.attack import about
from penstock.lab.audit.cases import SHAPES, other_cases, parent_cases
from penstock.lab.audit.flawed import VARIANTS
from penstock.lab.audit.model import Case
from penstock.lab.audit.sample import case_traces
from penstock.lab.audit.subjects import subject
from penstock.lab.audit.suite import SHIPPED
from penstock.private.mechanisms.registry import MECHANISMS

RUNS = 64


def cases_of(name: str) -> tuple[Case, ...]:
    return subject(name, runs=RUNS).more


def test_every_variant_has_a_registered_parent_and_neighbouring_streams_there() -> None:
    for variant in VARIANTS.values():
        parent = variant.parent()
        assert type(parent) in MECHANISMS.values(), variant.name
        promise = parent.guarantee
        for pair in variant.pairs:
            stay = pair.units if promise.user_level else promise.window
            assert pair.is_neighbouring(window=stay, contribution=parent.contribution)


def test_every_pair_of_a_variant_runs_on_its_parent() -> None:
    named = {
        case.pair.name.rpartition("(as for ")[2].rstrip(")")
        for name in SHIPPED
        for case in parent_cases(subject(name, runs=RUNS).mechanism, RUNS)
    }
    assert named == set(VARIANTS)


@pytest.mark.parametrize("name", SHIPPED)
def test_other_configurations_are_neighbours_that_run(name: str) -> None:
    cases = list(other_cases(subject(name, runs=RUNS).mechanism, RUNS))
    assert len(cases) >= len(SHAPES) - 1
    for case in cases:
        promise = case.mechanism.guarantee
        stay = case.pair.units if promise.user_level else promise.window
        assert case.pair.is_neighbouring(window=stay, contribution=case.mechanism.contribution)
        assert (case.claimed, case.window) == (promise.epsilon, promise.window)
        assert case.runs <= RUNS
        seen = case_traces(case, 0, 1, (1,))
        assert set(seen.errors) <= {""}, (case.pair.name, seen.errors)


def test_faults_that_need_a_size_can_occur() -> None:
    cases = [case for name in SHIPPED for case in cases_of(name)]
    assert any(case.mechanism.contribution == 3 for case in cases)
    assert any(case.pair.keys > 64 for case in cases)
    assert any(case.restart and case.pair.units > 60 for case in cases)
    assert any(case.domain is not None for case in cases)
    assert any(str(case.configuration.get("keep", "1")) == "1/2" for case in cases)
    kinds = {case.configuration.get("histogram", "").partition("(")[0] for case in cases}
    assert {"Greedy", "QuadTree", "KdTree"} <= kinds
    assert any(case.pair.look is not None and case.pair.look.announced for case in cases)


def test_a_restart_in_the_middle_keeps_the_distribution() -> None:
    """A third of the units lie after the restart; nothing but the noise changes there."""
    (case,) = (case for case in cases_of("uniform") if case.restart)
    seen = case_traces(case, 1, 200, (1,))
    apart = np.abs(seen.values[:, :, 0] - case.pair.right[:, 0])
    before, after = apart[:, : case.restart].mean(), apart[:, case.restart :].mean()
    assert before == pytest.approx(after, rel=0.1)
    assert len({row.tobytes() for row in seen.values}) == 200


@pytest.mark.parametrize("name", ["uniform", "bd", "bd_pan", "bd_pan@between", "eshp"])
def test_a_parent_is_acquitted_on_the_streams_of_its_flawed_variants(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """False alarm: at most 1e-3 per case, for a new seed."""
    found = subject(name, runs=400)
    found = replace(found, pairs=(), more=tuple(parent_cases(found.mechanism, 400)))
    monkeypatch.setattr(engine, "resolve", lambda spec: found)
    engine._classifier.cache_clear()
    engine._clean.cache_clear()
    engine._form.cache_clear()
    verdict = engine.audit(found, confidence=0.999, seed=3, workers=1)
    assert not verdict.convicted, verdict.row()
    assert "(as for " in verdict.pair.name


def test_nodes_of_a_tree_are_compared_where_sums_are_shown_of_keys() -> None:
    (case,) = (case for case in cases_of("tide") if case.configuration["nodes"] == "True")
    seen = case_traces(case, 0, 2, (1,))
    assert seen.values.shape[2] == case.shown.keys > seen.public["sums"].shape[2]
    compared = about(seen, case.shown)
    assert compared.values.shape == seen.values.shape
    assert compared.left.shape == compared.right.shape == (1, case.pair.units, case.shown.keys)
    assert not compared.sums
    found = engine.work(engine.Task(f"tide 2 4 {RUNS}", cases_number("tide", case), 0, 0, 2, 1))
    assert sum(found["all"].values()) == 2


def cases_number(name: str, case: Case) -> int:
    return [each.pair.name for each in subject(name, runs=RUNS).cases].index(case.pair.name)
