"""Follow a page of docs/ to the letter: its blocks are run in the current folder."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from tests.cli.outcome import Outcome

DOCS = Path(__file__).parents[1] / "docs"


def blocks(page: str, kind: str) -> list[str]:
    """The blocks of a page that have this kind, such as `sh`."""
    text = (DOCS / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{kind}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def shell(script: str) -> str:
    """What a script prints. Its `python3` and `penstock` are those that run the tests."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    command = ["bash", "-euo", "pipefail", "-c", script]
    done = subprocess.run(command, env=os.environ | {"PATH": path}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def typed(page: str, capsys: object) -> dict[str, Outcome]:
    """The outcome of every command of Penstock that a page shows after `$`; none may fail."""
    found = {}
    for line in "".join(blocks(page, "console")).splitlines():
        if line.startswith("$ penstock "):
            done = found[line[2:]] = Outcome(capsys, *shlex.split(line)[2:])
            assert done.code == 0, (line, done.err)
    return found
