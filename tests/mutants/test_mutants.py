"""The mutants still fit the source, and the auditor finds them."""

from __future__ import annotations

import ast
from collections import Counter

import pytest

from tests.mutants.__main__ import Score, by_judge, chosen, judged, order_of, table
from tests.mutants.catalogue import MUTANTS
from tests.mutants.judges import JUDGES, Finding
from tests.mutants.mutant import OPERATORS, PACKAGE, Mutant

BY_NAME = {each.name: each for each in MUTANTS}


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda each: each.name)
def test_a_mutant_fits_the_source(mutant: Mutant) -> None:
    """Its text occurs once, and the file with the fault is another program."""
    original = (PACKAGE / mutant.file).read_text(encoding="utf-8")
    assert ast.dump(ast.parse(mutant.mutated())) != ast.dump(ast.parse(original))


def test_the_catalogue_is_as_large_as_it_should_be() -> None:
    assert max(Counter(each.name for each in MUTANTS).values()) == 1
    assert len(MUTANTS) >= 60
    assert {each.operator for each in MUTANTS} == set(OPERATORS)
    assert sum(bool(each.equivalent) for each in MUTANTS) <= len(MUTANTS) // 20
    assert all(each.subjects or each.operator == "bounding" for each in MUTANTS)


def test_only_a_name_a_file_or_an_operator() -> None:
    assert chosen([]) == list(MUTANTS)
    assert [each.name for each in chosen(["pots-free"])] == ["pots-free"]
    assert {each.file for each in chosen(["budget/*"])} >= {"budget/ledger.py", "budget/grid.py"}
    assert {each.operator for each in chosen(["bounding"])} == {"bounding"}


def test_only_the_judges_that_a_mutant_concerns_are_asked() -> None:
    asked = dict(order_of(BY_NAME["pots-free"], list(JUDGES)))
    assert asked["lab check"] == ["rg", "tide"]
    assert "bounding" not in asked
    assert "histogram check" not in asked
    assert dict(order_of(BY_NAME["bounding-moved-people"], list(JUDGES))) == {
        "bounding": ["bounding"]
    }


@pytest.mark.parametrize(
    ("name", "judge"), [("pots-not-emptied", "first replay"), ("noise-one-sided", "noise")]
)
def test_a_mutant_is_found(name: str, judge: str) -> None:
    """All of them: `make mutants`. The probability that noise is convicted by chance is 1e-6."""
    found = judged(BY_NAME[name], judges=[judge])
    assert found.first is not None, found.row()
    assert found.first.kind == "convicted", found.row()


def test_the_checkout_is_not_touched() -> None:
    mutant = BY_NAME["pots-not-emptied"]
    before = (PACKAGE / mutant.file).read_bytes()
    judged(mutant, judges=[])
    assert (PACKAGE / mutant.file).read_bytes() == before


def test_a_table_says_who_found_what() -> None:
    one, two, three = list(MUTANTS)[:3]
    scores = [
        Score(one, [Finding("replay", "uniform", "convicted", "a | b")]),
        Score(two, [Finding("lab check", "uniform", "acquitted")]),
        Score(three, [Finding("replay", "uniform", "refused", "too much")]),
    ]
    assert [score.judge for score in scores] == ["replay", "nobody", "replay"]
    assert "| replay | 1 | 1 |" in by_judge(scores)
    assert "2 of 3 mutants found without unit tests (67%)" in table(scores)
    assert "a \\| b" in table(scores)
