"""The commands of docs/how-to/plan.md, run one after the other."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from penstock.engine.pipeline import Pipeline

from tests.cli.outcome import Outcome

PAGE = Path(__file__).parents[1] / "docs" / "how-to" / "plan.md"


def blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.slow
def test_every_command_works(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    whole, auto = blocks("toml")
    Path("taps.toml").write_text(whole, encoding="utf-8")
    commands = [line[2:] for line in "".join(blocks("console")).splitlines()]
    assert len(commands) == 3
    said = ""
    for command in commands:
        done = Outcome(capsys, *shlex.split(command)[1:])
        assert done.code == 0, (command, done.err)
        said += done.out
    assert Path("out/plan.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    text = Path("taps.toml").read_text(encoding="utf-8")
    assert "no command on this page opens it" in text
    assert 'mechanism = "uniform"' not in text
    assert "Use " in said
    assert "a number will be off by" in said
    head = whole.partition("[privacy]")[0]
    Path("auto.toml").write_text(head + auto, encoding="utf-8")
    assert Pipeline.read("auto.toml").view().auto is not None
