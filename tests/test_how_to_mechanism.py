"""docs/how-to/add-a-mechanism.md, followed to the letter: its files are saved, its commands typed,
its outputs compared.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.outcome import Outcome
from tests.installing import install_project

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/how-to/add-a-mechanism.md"
PROJECT = ROOT / "examples/plugin"

SECTIONS = (
    "Give it a name",
    "Check it",
    "Audit it",
    "A mistake that only an audit finds",
    "Compare it",
    "Publish with it",
)
"""Where something is typed."""


def text() -> str:
    return PAGE.read_text(encoding="utf-8")


def blocks(kind: str, within: str | None = None) -> list[str]:
    return re.findall(
        rf"^```{kind}\n(.*?)^```", text() if within is None else within, re.DOTALL | re.MULTILINE
    )


def section(title: str) -> str:
    (found,) = re.findall(
        rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", text(), re.DOTALL | re.MULTILINE
    )
    return found


def typed(title: str) -> list[tuple[list[str], list[str]]]:
    """Every command of a section, and the lines that are shown of what it says."""
    found: list[tuple[list[str], list[str]]] = []
    for line in "".join(blocks("console", section(title))).splitlines():
        if line.startswith("$ "):
            found.append((shlex.split(line[2:]), []))
        else:
            found[-1][1].append(line.strip())
    return found


def files() -> dict[str, str]:
    """What the page tells to save, by the name that it gives it."""
    mechanism, quiet, stream = (block for block in blocks("python") if not block.startswith(">>>"))
    project, configuration = blocks("toml")
    return {
        "pace.py": f"{mechanism}\n\n{stream}",
        "quiet.py": quiet,
        "pyproject.toml": project,
        "ferries.toml": configuration,
    }


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the page's files and nothing else, as the current one, and its project
    installed.
    """
    for name, content in files().items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "100")
    for module in ("pace", "quiet"):
        sys.modules.pop(module, None)
    install_project(tmp_path)
    yield tmp_path
    for module in ("pace", "quiet"):
        sys.modules.pop(module, None)


def test_the_example_is_what_the_page_shows() -> None:
    saved = files()
    assert {path.name for path in PROJECT.iterdir() if path.is_file()} == {
        "pace.py",
        "pyproject.toml",
    }
    for name in ("pace.py", "pyproject.toml"):
        assert (PROJECT / name).read_text(encoding="utf-8") == saved[name]


def test_every_command_of_the_page_is_in_one_of_the_sections_that_are_followed() -> None:
    assert sum(len(typed(title)) for title in SECTIONS) == text().count("\n$ ")
    verbs = {
        command[1] if command[0] == "penstock" else command[0]
        for title in SECTIONS
        for command, _ in typed(title)
    }
    assert verbs == {"pip", "mechanisms", "lab", "audit", "bench", "check"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "title",
    [
        pytest.param(title, marks=[pytest.mark.nightly] * (title == "Compare it"))
        for title in SECTIONS
    ],
)
def test_every_command_does_what_is_shown(
    title: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The seeds of audits and of the bench are fixed, so their numbers are those of the page.

    The quick twin of "Compare it" is `test_its_page_has_it_beside_the_others`.
    """
    for (program, *tokens), shown in typed(title):
        if program == "pip":
            assert tokens == ["install", "-e", "."]  # the fixture has done what that leaves
            continue
        more = {"audit": ["--workers", "1"], "bench": ["--jobs", "1"]}.get(tokens[0], [])
        done = Outcome(capsys, *tokens, *more)
        assert done.code == int(any("CONVICTED" in line for line in shown)), (tokens, done.err)
        said = [line.strip() for line in done.out.splitlines()]
        for line in shown:
            if line != "…":
                assert line in said, (tokens, line, done.out)
                said = said[said.index(line) + 1 :]


@pytest.mark.slow
def test_a_process_of_its_own_finds_it_too(folder: Path) -> None:
    command = [sys.executable, "-m", "penstock", "mechanisms", "pace", "--json"]
    ended = subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder.parent)
    (row,) = json.loads(ended.stdout)
    assert (row["name"], row["class"], row["package"]) == ("pace", "Pace", "penstock-pace")


@pytest.mark.slow
def test_its_page_has_it_beside_the_others(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two processes, which find the plug-in by name as this one does."""
    tokens = (
        "--quick",
        "--runs",
        "1",
        "--also",
        "pace",
        "--stream",
        "ferries",
        "--only",
        "ferries",
        "--only",
        "pace",
    )
    done = Outcome(capsys, "bench", "w-event", *tokens, "--jobs", "2", "--out", "here")
    assert (done.code, done.err) == (0, "")
    page = (folder / "here/w-event/report.html").read_text(encoding="utf-8")
    assert "pace" in page
    assert "passengers at four piers" in page
