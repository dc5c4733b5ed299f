"""A user's project, as two type checkers see it: no setting helps Penstock, only its py.typed."""

from __future__ import annotations

import json
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = Path(__file__).parent / "project"


def marked() -> set[int]:
    """The lines with a mistake."""
    lines = (PROJECT / "mistakes.py").read_text(encoding="utf-8").splitlines()
    return {number for number, line in enumerate(lines, 1) if line.endswith("# wrong")}


def checked(*command: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *command], capture_output=True, text=True, check=False, cwd=PROJECT
    )
    assert done.returncode in (0, 1), done.stderr + done.stdout
    return done.stdout


def test_the_project_does_what_its_types_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(PROJECT / "report.py"), run_name="__main__")
    assert "Did you mean 'Jamaica'? keys" in capsys.readouterr().out
    assert (tmp_path / "jamaica.html").exists()


@pytest.mark.slow
def test_mypy_strict_accepts_the_project_and_finds_every_mistake() -> None:
    said = checked("mypy", f"--cache-dir={ROOT / '.mypy_cache' / 'project'}", ".")
    found = re.findall(r"^(\w+\.py):(\d+): error", said, re.MULTILINE)
    assert {(name, int(line)) for name, line in found} == {
        ("mistakes.py", line) for line in marked()
    }


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("node") is None, reason="Pyright needs Node.js")
def test_pyright_basic_accepts_the_project_and_finds_every_mistake() -> None:
    report = json.loads(checked("pyright", "--pythonpath", sys.executable, "--outputjson"))
    found = {
        (Path(each["file"]).name, each["range"]["start"]["line"] + 1)
        for each in report["generalDiagnostics"]
        if each["severity"] == "error"
    }
    assert found == {("mistakes.py", line) for line in marked()}
