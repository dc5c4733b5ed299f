"""docs/how-to/filter.md, followed to the letter: its files are made, its commands typed."""

from __future__ import annotations

import json
from pathlib import Path

from tests.browser import CHROMIUM, check_page, open_browser
from tests.following import blocks, shell, typed


def test_the_commands_of_the_page_run_and_their_page_reads_well(capsys, tmp_path):
    (files,) = blocks("how-to/filter.md", "sh")
    shell(files)
    typed("how-to/filter.md", capsys)
    assert "post-processing" in Path("out/taps.html").read_text(encoding="utf-8")
    lines = Path("taps.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 48
    assert json.loads(lines[-1])["filter"]["periods"] == [24]
    if CHROMIUM:
        with open_browser(tmp_path / "profile") as browser:
            check_page(browser, Path("out/taps.html").rename("out/filtered.html"))
