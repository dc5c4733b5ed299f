"""docs/how-to/add-a-query.md, followed to the letter: its file is saved, installed and used."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

import pytest

from tests.cli.outcome import Outcome
from tests.following import blocks, shell
from tests.installing import install_project

PAGE = Path(__file__).parents[1] / "docs/how-to/add-a-query.md"


@pytest.fixture(scope="module")
def rooms(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the store that the page makes."""
    made = tmp_path_factory.mktemp("rooms")
    (files,) = blocks("how-to/add-a-query.md", "sh")
    shell(f"cd {made}\n{files}")
    return made


@pytest.fixture
def folder(rooms: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the page's file, its project and a store, as the current one."""
    text = PAGE.read_text(encoding="utf-8")
    (source,) = re.findall(r"^```python\n(\"\"\".*?)^```", text, re.DOTALL | re.MULTILINE)
    (project,) = re.findall(r"^```toml\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    (tmp_path / "capacity.py").write_text(source, encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text(project, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "capacity", raising=False)
    shutil.copytree(rooms, tmp_path, dirs_exist_ok=True)
    return tmp_path


def commands() -> list[list[str]]:
    """The queries that the page tells to type."""
    text = PAGE.read_text(encoding="utf-8")
    blocks = re.findall(r"^```console\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    lines = [line for block in blocks for line in block.splitlines()]
    return [line.split()[2:] for line in lines if line.startswith("$ penstock ")]


def sums(capsys: pytest.CaptureFixture[str], window: str) -> dict[str, float]:
    done = Outcome(capsys, "query", "rooms.db", "sum", "--window", window, "--json")
    return {row["name"]: row["estimate"] for row in json.loads(done.out)["rows"]}


def test_it_is_asked_by_its_import_path(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command, _ = commands()
    asked = json.loads(Outcome(capsys, *command, "--json").out)
    expected = sums(capsys, "24")
    assert asked["query"] == "sums of 24 units above 50 per unit"
    assert {row["name"]: row["estimate"] for row in asked["rows"]} == {
        name: value - 24 * 50 for name, value in expected.items()
    }
    assert all(row["low"] < row["estimate"] < row["high"] for row in asked["rows"])


def test_it_is_asked_by_its_name(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    install_project(folder)
    _, command = commands()
    done = Outcome(capsys, *command, "--together")
    assert done.code == 0, done.err
    assert (folder / "out/rooms.html").exists()


@pytest.mark.parametrize(
    ("tokens", "said"),
    [
        (["fancy"], "there is no question 'fancy': use counts, sum, decay, jump"),
        (["capacity:Log"], "'capacity:Log' is not a dataclass that subclasses Query"),
        (["capacity:OverCapacity", "--set", "wide=3"], "--set must be like NAME=VALUE with NAME"),
        (["capacity:OverCapacity", "--set", "width=x"], "--set width must be a number"),
        (["capacity:OverCapacity", "--window", "3"], "--window cannot be used with capacity:"),
        (["counts", "--set", "width=3"], "--set cannot be used with counts"),
    ],
)
def test_a_mistake_is_one_clear_line(
    tokens: list[str], said: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    done = Outcome(capsys, "query", "rooms.db", *tokens)
    assert done.code == 2
    assert said in done.err
    assert done.err.count("\n") == 1
