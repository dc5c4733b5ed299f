"""docs/how-to/add-a-source.md and add-a-sink.md, followed to the letter: their files are saved,
their commands typed, their outputs compared.
"""

from __future__ import annotations

import re
import shlex
import sqlite3
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock.lab.checks import CheckError
from penstock.lab.sink_checks import check_another_past_is_refused
from penstock.lab.source_checks import check_it_resumes_from_every_position
from penstock.private.sources.registry import SOURCES
from penstock.released.sinks.registry import SINKS

from tests.cli.outcome import Outcome
from tests.installing import install_project

PAGES = Path(__file__).parents[1] / "docs/how-to"
FILES = {
    "add-a-source.md": {
        "python": ["penstock_sqlite.py"],
        "toml": ["pyproject.toml", "taps.toml"],
        "sql": ["taps.sql"],
    },
    "add-a-sink.md": {
        "python": ["penstock_tsv.py"],
        "toml": ["pyproject.toml", "taps.toml"],
        "csv": ["taps.csv"],
    },
}
"""What each page tells to save, by the kind of its blocks."""


def blocks(page: str, kind: str) -> list[str]:
    text = (PAGES / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{kind}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def typed(page: str) -> list[tuple[list[str], list[str]]]:
    """Every command of a page, and the lines that are shown of its output."""
    found: list[tuple[list[str], list[str]]] = []
    for line in "".join(blocks(page, "console")).splitlines():
        if line.startswith("$ "):
            found.append((shlex.split(line[2:]), []))
        else:
            found[-1][1].append(line.strip())
    return found


@pytest.fixture
def followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Path]]:
    """A folder with the files of a page, as the current one, and its project installed."""
    modules = [name.removesuffix(".py") for each in FILES.values() for name in each["python"]]

    def follow(page: str) -> Path:
        for kind, names in FILES[page].items():
            for name, content in zip(names, blocks(page, kind), strict=True):
                (tmp_path / name).write_text(content, encoding="utf-8")
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "path", [*sys.path])
        monkeypatch.syspath_prepend(str(tmp_path))
        monkeypatch.setenv("COLUMNS", "100")
        for module in modules:
            sys.modules.pop(module, None)
        install_project(tmp_path)
        if (tmp_path / "taps.sql").exists():
            with sqlite3.connect("taps.db") as database:
                database.executescript((tmp_path / "taps.sql").read_text(encoding="utf-8"))
        return tmp_path

    yield follow
    for module in modules:
        sys.modules.pop(module, None)


@pytest.mark.parametrize("page", FILES)
def test_every_command_does_what_is_shown(page, followed, capsys):
    followed(page)
    for (program, *tokens), shown in typed(page):
        if program == "pip":
            assert tokens == ["install", "-e", "."]  # the fixture has done what that leaves
            continue
        done = Outcome(capsys, *tokens)
        assert done.code == 0, (tokens, done.out, done.err)
        said = [line.strip() for line in done.out.splitlines()]
        for line in shown:
            if line != "…":
                assert line in said, (tokens, line, done.out)
                said = said[said.index(line) + 1 :]
    assert [tokens[1] for tokens, _ in typed(page)][1:] == [
        "sources" if page == "add-a-source.md" else "sinks",
        "lab",
        "check",
        "run",
    ]


def test_what_is_published_from_the_table_is_of_its_rows(followed, capsys):
    followed("add-a-source.md")
    assert Outcome(capsys, "run", "taps.toml").code == 0
    with sqlite3.connect("store.db") as database:
        tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master")}
    assert tables
    status = Outcome(capsys, "status", "taps.toml")
    assert "24" in status.out


def test_the_sink_has_a_file_per_unit(followed, capsys):
    folder = followed("add-a-sink.md")
    assert Outcome(capsys, "run", "taps.toml").code == 0
    files = sorted((folder / "releases" / "taps").iterdir())
    assert len(files) == 24
    assert files[0].read_text().splitlines()[0] == "begins\tkey\tvalue"
    assert len(files[8].read_text().splitlines()) == 3


def test_a_source_that_starts_over_would_be_found(followed):
    folder = followed("add-a-source.md")
    path = folder / "penstock_sqlite.py"
    path.write_text(path.read_text().replace("row = _rowid(after)", "row = 0"))
    with pytest.raises(CheckError, match="too many"):
        check_it_resumes_from_every_position(SOURCES.find("sqlite"), quick=True)


def test_a_sink_that_looks_at_no_link_would_be_found(followed):
    folder = followed("add-a-sink.md")
    path = folder / "penstock_tsv.py"
    path.write_text(path.read_text().replace("in missing(each, self.head(series))", "in each"))
    with pytest.raises(CheckError, match="unit 3 was taken again with another link"):
        check_another_past_is_refused(SINKS.find("tsv"))
