"""The examples of docs/reference/cli.md, run one after the other."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from penstock.cli import CHOICE_VERBS, LAB_HELP, LAB_VERBS, VERBS

from tests.cli.outcome import Outcome

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "cli.md"


def blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


def examples() -> list[tuple[str, list[str]]]:
    """Every command, and the lines that are shown of what it says."""
    found: list[tuple[str, list[str]]] = []
    for line in "".join(blocks("console")).splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        else:
            found[-1][1].append(line.strip())
    return found


def unnumbered(line: str) -> str:
    """A line without the line numbers of a configuration, which grows with every option."""
    return re.sub(r"\.toml:\d+:", ".toml:", line.strip())


def test_every_example_does_what_is_shown(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    (events,) = blocks("csv")
    Path("taps.csv").write_text(events, encoding="utf-8")
    for command, shown in examples():
        program, *tokens = shlex.split(command, comments=True)
        assert program == "penstock"
        if "wrong.toml" in tokens:
            text = Path("taps.toml").read_text(encoding="utf-8")
            Path("wrong.toml").write_text(
                text.replace('every = "1h"', 'every = "hourly"').replace(
                    'epsilon = "1"', "epsilon = 0.5"
                )
            )
        done = Outcome(capsys, *tokens)
        assert done.code == (2 if "# exit code 2" in command else 0), (command, done.err)
        said = [unnumbered(line) for line in (done.out + done.err).splitlines()]
        for line in (unnumbered(each.replace("/home/me", str(Path.cwd()))) for each in shown):
            if line != "…":
                assert line in said, (command, line, said)
                said = said[said.index(line) + 1 :]
    assert len(examples()) > 12


def test_the_page_explains_every_verb_as_the_help_does():
    shown = dict(
        re.findall(r"^\| \[?`([a-z ]+)`.*? \| (.*) \|$", PAGE.read_text("utf-8"), re.MULTILINE)
    )
    verbs = {verb.name: verb.help for verb in (*VERBS, *CHOICE_VERBS)} | {"lab": LAB_HELP}
    lab = {f"lab {verb.name}": verb.help for verb in LAB_VERBS if verb.name != "demo"}
    assert {**verbs, **lab}.items() <= shown.items()
