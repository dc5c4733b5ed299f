"""The examples run from beginning to end and leave what they say."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

from penstock import open_log

EXAMPLES = Path(__file__).parents[1] / "examples"
SHORT = {
    "campus_wifi": ["--days", "1"],
    "restaurants": ["--days", "40"],
    "trending": ["--minutes", "200"],
}


def test_every_example_is_run_here():
    assert {path.stem for path in EXAMPLES.glob("*.py")} == SHORT.keys()


@pytest.mark.slow
@pytest.mark.parametrize(("name", "short"), SHORT.items(), ids=SHORT)
def test_an_example_leaves_a_log_a_figure_and_the_promise_in_words(
    name, short, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(sys, "argv", [name, "--out", str(tmp_path), *short])
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    said = capsys.readouterr().out
    assert "can hardly tell whether any one person was there" in said
    (figure,) = tmp_path.glob("*.png")
    assert figure.stat().st_size > 10_000
    (path,) = tmp_path.glob("*.log")
    log = open_log(path)
    assert len(log) >= 40
    assert log.guarantee is not None
    assert log[log.last].private
