"""docs/how-to/query.md and publish.md, followed to the letter: files are made, commands typed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.following import blocks, shell, typed


@pytest.mark.slow
def test_every_question_of_the_page_is_answered(capsys):
    (files,) = blocks("how-to/query.md", "sh")
    shell(files)
    answers = typed("how-to/query.md", capsys)
    assert len(answers) == 12
    assert (
        "Open " in answers["penstock query city.db sum --window 7d --all --plot out/week.html"].out
    )
    assert Path("out/week.html").exists()


@pytest.mark.slow
def test_the_first_pipeline_of_the_page_is_published():
    (first,) = blocks("how-to/publish.md", "sh")
    shell(first)
    assert Path("taps.html").read_text(encoding="utf-8").startswith("<!doctype html>")
