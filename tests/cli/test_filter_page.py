"""The commands of docs/how-to/filter.md, run one after the other."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

from tests.browser import CHROMIUM, check_page, open_browser
from tests.cli.outcome import Outcome

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "filter.md"


def test_the_commands_of_the_page_run_and_their_page_reads_well(capsys, tmp_path):
    text = PAGE.read_text(encoding="utf-8")
    (declared,) = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    (console,) = re.findall(r"```console\n(.*?)```", text, re.DOTALL)
    rows = [
        f"2026-01-{1 + hour // 24:02}T{hour % 24:02}:{minute:02}Z,{key}"
        for hour in range(48)
        for key, every in (("Airport", 2), ("Central", 5), ("Zoo", 30))
        for minute in range(0, 60, every)
    ]
    Path("taps.toml").write_text(declared, encoding="utf-8")
    Path("taps.csv").write_text("tapped_at,station\n" + "\n".join(rows) + "\n", encoding="utf-8")
    for line in console.splitlines():
        program, *tokens = shlex.split(line.removeprefix("$ "))
        assert program == "penstock"
        done = Outcome(capsys, *tokens)
        assert done.code == 0, (line, done.err)
    assert "post-processing" in Path("out/taps.html").read_text(encoding="utf-8")
    lines = Path("taps.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 48
    assert json.loads(lines[-1])["filter"]["periods"] == [24]
    if CHROMIUM:
        with open_browser(tmp_path / "profile") as browser:
            check_page(browser, Path("out/taps.html").rename("out/filtered.html"))
