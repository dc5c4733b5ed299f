"""The commands of docs/how-to/plan.md, run one after the other."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.engine.pipeline import Pipeline

from tests.following import blocks, shell, typed


@pytest.mark.slow
def test_every_command_works(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (files,) = blocks("how-to/plan.md", "sh")
    (auto,) = blocks("how-to/plan.md", "toml")
    shell(files)
    whole = Path("taps.toml").read_text(encoding="utf-8")
    found = typed("how-to/plan.md", capsys)
    assert len(found) == 3
    said = "".join(done.out for done in found.values())
    assert Path("out/plan.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    text = Path("taps.toml").read_text(encoding="utf-8")
    assert "no command on this page opens it" in text
    assert 'mechanism = "uniform"' not in text
    assert "Use " in said
    assert "a count of about 3 is published as" in said
    head = whole.partition("[privacy]")[0]
    Path("auto.toml").write_text(head + auto, encoding="utf-8")
    assert Pipeline.read("auto.toml").view().auto is not None
