"""Every suite in its quick setting, as a user runs it: nothing fails, nothing is missing, every
question has its page.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from penstock.cli import main
from penstock_bench.cell import TRIVIAL
from penstock_bench.feed import missing
from penstock_bench.findings import find
from penstock_bench.registry import SUITES
from penstock_bench.results import Results
from penstock_bench.suite import Setting, Suite, choose


@pytest.mark.parametrize("suite", SUITES.values(), ids=list(SUITES))
def test_one_question_of_every_suite_is_answered(
    suite: Suite, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The quick twin of the nightly runs below: the question and stream with the fewest cells."""
    sizes = Counter(
        (question.name, point.cell.stream.dataset)
        for question in choose(suite, Setting(quick=True)).questions
        for point in question.points
        if not point.cell.trivial and missing(point.cell.stream) is None
    )
    question, dataset = min(sizes, key=lambda each: sizes[each])
    tokens = ["--only", question, "--only", dataset, "--out", str(tmp_path), "--jobs", "1"]
    with pytest.raises(SystemExit) as ended:
        main(["bench", suite.name, "--quick", *tokens])
    assert not ended.value.code, capsys.readouterr().out
    kept = Results(tmp_path / suite.name)
    found = find(suite, kept.asked(), kept.rows(), versions=kept.versions())
    assert found.refused == ()
    assert found.cells == found.wanted > 0


@pytest.mark.nightly
@pytest.mark.parametrize("suite", SUITES.values(), ids=list(SUITES))
def test_the_quick_setting_answers_every_question(
    suite: Suite, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    with pytest.raises(SystemExit) as ended:
        main(["bench", suite.name, "--quick", "--out", str(tmp_path), "--jobs", "1"])
    out = capsys.readouterr().out
    assert not ended.value.code, out
    kept = Results(tmp_path / suite.name)
    found = find(suite, kept.asked(), kept.rows(), versions=kept.versions())
    assert found.refused == ()
    assert found.cells == found.wanted > 0
    here = [
        question.name
        for question in choose(suite, Setting(quick=True)).questions
        if any(
            missing(point.cell.stream) is None
            for point in question.points
            if not point.cell.trivial
        )
    ]
    assert [answered.question.name for answered in found.answered] == here
    for answered in found.answered:
        for drawn in answered.question.measures:
            assert answered.places(drawn), (answered.question.name, drawn.name)
            rivals = {
                line
                for line in answered.lines
                if answered.by_line[line].private and line not in TRIVIAL
            }
            assert answered.said(drawn) or len(rivals) < 2, (answered.question.name, drawn.name)
    text = (tmp_path / suite.name / "report.html").read_text(encoding="utf-8")
    assert all(f'id="{name}"' in text for name in here)
    assert "Open " in out
