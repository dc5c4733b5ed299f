"""What the command line says of mechanisms and histogram methods of other packages."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.lab.checks import CheckError, check_nothing_private_can_be_read
from penstock.private.mechanisms.registry import MECHANISMS, find

from tests.cli.outcome import Outcome
from tests.installing import install

MODULE = "cli_plugged_in"
SOURCE = '''
from dataclasses import dataclass
from penstock import Plain, Uniform

@dataclass(frozen=True, kw_only=True)
class Mine(Uniform):
    """Every unit, and mine."""
    name = "mine"

class Opening(Uniform):
    """Opens what is sealed."""
    name = "opening"
    def step(self, state, unit, gate):
        from penstock.core.private import unseal
        unseal(unit)
        return super().step(state, unit, gate)

@dataclass(frozen=True)
class Thick(Plain):
    """Thick, as it were."""
'''


@pytest.fixture(autouse=True)
def _installed(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("installed")
    (folder / f"{MODULE}.py").write_text(SOURCE, encoding="utf-8")
    names = {
        "mine": f"{MODULE}:Mine",
        "opening": f"{MODULE}:Opening",
        "broken": "cli_plugged_in_broken:Mine",
        "ba": f"{MODULE}:Mine",
    }
    install(
        folder,
        "their-parts",
        {"penstock.mechanisms": names, "penstock.histograms": {"thick": f"{MODULE}:Thick"}},
    )
    (folder / "cli_plugged_in_broken.py").write_text("raise SystemExit(3)", encoding="utf-8")
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv(
        "PYTHONPATH", os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    )
    yield folder
    sys.modules.pop(MODULE, None)


def test_plug_ins_are_listed_with_their_package_and_with_what_is_wrong(
    capsys: pytest.CaptureFixture[str],
) -> None:
    done = Outcome(capsys, "mechanisms")
    assert done.code == 0
    ours, others = done.out.split("Mechanisms of plug-ins")
    assert all(name in ours for name in MECHANISMS)
    for words in ("mine", "Every unit, and mine.", "their-parts"):
        assert words in others
        assert words not in ours
    said = (
        "the plug-in 'broken' of package their-parts (cli_plugged_in_broken:Mine) cannot be loaded:"
        " SystemExit: 3."
    )
    assert said in others
    assert "is not used: 'ba' is a mechanism of Penstock's own." in others
    rows = json.loads(Outcome(capsys, "mechanisms", "--json").out)
    assert [row["package"] for row in rows] == ["penstock"] * len(MECHANISMS) + ["their-parts"] * 4
    assert {row["name"] for row in rows if row["problem"]} == {"broken", "ba"}


def test_one_of_them_is_told_all_about(capsys: pytest.CaptureFixture[str]) -> None:
    done = Outcome(capsys, "mechanisms", "mine")
    assert done.out.startswith(
        f"mine: {MODULE}.Mine, of package their-parts\n\nEvery unit, and mine.\n"
    )
    (row,) = json.loads(Outcome(capsys, "mechanisms", "mine", "--json").out)
    assert (row["name"], row["package"]) == ("mine", "their-parts")


def test_histogram_methods_of_plug_ins_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    done = Outcome(capsys, "histograms")
    assert done.code == 0
    for words in ("greedy", "thick", "Thick, as it were.", "their-parts"):
        assert words in done.out


def test_a_broken_one_is_one_line_for_whoever_asks_for_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for tokens in (("mechanisms",), ("lab", "check"), ("audit",)):
        done = Outcome(capsys, *tokens, "broken")
        assert (done.code, done.out) == (2, "")
        assert "the plug-in 'broken' of package their-parts" in done.err
        assert done.err.count("\n") == 1


def test_commands_that_need_no_plug_in_import_none() -> None:
    """A real process, with one plug-in that would end it."""
    code = (
        "import sys; from penstock.cli import main\n"
        "audit = ['audit', 'uniform', '--window', '1', '--runs', '4', '--workers', '1']\n"
        "for tokens in (['mechanisms', 'ba'], audit):\n"
        "    try:\n        main(tokens)\n"
        "    except SystemExit as end:\n        assert not end.code\n"
        f"assert not [name for name in sys.modules if name.startswith({MODULE!r})]\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, "")


def test_a_check_finds_one_that_opens_what_is_sealed() -> None:
    with pytest.raises(CheckError, match="Opening mentions 'unseal', which only the gate may use"):
        check_nothing_private_can_be_read(find("opening"), quick=True)
