"""docs/how-to/query.md and publish.md, followed to the letter: files are made, commands typed."""

from __future__ import annotations

from pathlib import Path

import pytest

import penstock as ps

from tests.browser import CHROMIUM, check_page, open_browser
from tests.following import blocks, shell, typed


@pytest.mark.slow
def test_every_question_of_the_page_is_answered_and_charts_read_well(capsys, tmp_path):
    (files,) = blocks("how-to/query.md", "sh")
    shell(files)
    assert len(typed("how-to/query.md", capsys)) == 12
    asked, drawn = Path("out/week.html").rename("out/query.html"), Path("out/stream.html")
    with ps.Publication.read("city.db") as stream:
        stream.plot("Harbour", "Zoo", path=drawn)
    if CHROMIUM:
        with open_browser(tmp_path / "profile") as browser:
            for page in (asked, drawn):
                check_page(browser, page)


@pytest.mark.slow
def test_the_first_pipeline_of_the_page_is_published():
    (first,) = blocks("how-to/publish.md", "sh")
    shell(first)
    assert Path("taps.html").read_text(encoding="utf-8").startswith("<!doctype html>")
