from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import penstock
from penstock.cli import CHOICE_VERBS, LAB_VERBS, VERBS
from penstock.lab.checks import CHECKS
from penstock.private.mechanisms.registry import MECHANISMS, describe

from tests.cli.outcome import Outcome


def test_the_version_is_the_package_version(capsys: pytest.CaptureFixture[str]) -> None:
    done = Outcome(capsys, "--version")
    assert (done.code, done.out.strip()) == (0, penstock.__version__)


@pytest.mark.parametrize(
    ("tokens", "example"),
    [
        (["--help"], "penstock lab city"),
        (["lab", "--help"], "check"),
        (["mechanisms", "--help"], "penstock mechanisms --json"),
        (["lab", "check", "--help"], "penstock lab check my_module:MyMechanism --quick"),
    ],
)
def test_help_shows_an_example(
    tokens: list[str], example: str, capsys: pytest.CaptureFixture[str]
) -> None:
    done = Outcome(capsys, *tokens)
    assert done.code == 0
    assert example in done.out


def test_mechanisms_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    done = Outcome(capsys, "mechanisms")
    assert done.code == 0
    for name in MECHANISMS:
        assert name in done.out
    assert "pan-private" in done.out
    assert "Kellaris" in done.out


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_mechanism_is_described_without_latex(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    done = Outcome(capsys, "mechanisms", name)
    assert done.code == 0
    assert "\\" not in done.out
    assert "math:" not in done.out


def test_mechanisms_as_json_are_what_the_registry_says(capsys: pytest.CaptureFixture[str]) -> None:
    done = Outcome(capsys, "mechanisms", "--json")
    assert json.loads(done.out) == [describe(cls) for cls in MECHANISMS.values()]


def test_one_mechanism_is_told_all_about(capsys: pytest.CaptureFixture[str]) -> None:
    done = Outcome(capsys, "mechanisms", "dsat")
    assert done.code == 0
    assert "penstock.AdaptiveThreshold" in done.out
    assert "proportional, integral, derivative : int, Fraction or str" in done.out
    assert "docs/proofs/dsft.md" in done.out
    assert ">>>" not in done.out
    assert json.loads(Outcome(capsys, "mechanisms", "dsat", "--json").out) == [
        describe(MECHANISMS["dsat"])
    ]
    assert "there is no mechanism 'dsatt'" in Outcome(capsys, "mechanisms", "dsatt").err


def test_a_mechanism_is_checked(capsys: pytest.CaptureFixture[str]) -> None:
    done = Outcome(capsys, "lab", "check", "uniform", "--quick")
    assert done.code == 0
    assert f"{len(CHECKS)} of {len(CHECKS)} checks passed" in done.out
    assert "FAILS" not in done.out


def test_a_check_leaves_nothing_behind(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "penstock", "lab", "check", "sample", "--quick"],
        capture_output=True,
        check=True,
    )
    assert list(tmp_path.iterdir()) == []


def test_check_results_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    done = Outcome(capsys, "lab", "check", "sample", "--json", "--quick")
    results = json.loads(done.out)
    assert done.code == 0
    assert [result["name"] for result in results] == [check.__name__ for check in CHECKS]
    assert all(
        set(result) == {"name", "ok", "seconds", "message"} and result["ok"] is True
        for result in results
    )


MINE = '''
from dataclasses import replace
from penstock import Uniform

class Mine(Uniform):
    """Releases one more than it drew."""

    def step(self, state, unit, gate):
        state, released = super().step(state, unit, gate)
        return state, replace(released, value=released.value + 1)

not_a_mechanism = 3
'''


def test_a_failing_mechanism_of_ones_own_is_named_with_exit_code_1(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("cli_own_mechanism.py").write_text(MINE)
    done = Outcome(capsys, "lab", "check", "cli_own_mechanism:Mine", "--quick")
    assert done.code == 1
    assert "FAILS" in done.out
    assert "does not have mean 0" in done.out
    done = Outcome(capsys, "lab", "check", "cli_own_mechanism:Mine", "--quick", "--json")
    assert done.code == 1
    assert not all(result["ok"] for result in json.loads(done.out))


@pytest.mark.parametrize(
    ("tokens", "said"),
    [
        (["publish"], 'Unknown command "publish"'),
        (["lab", "check", "bx"], "there is no mechanism 'bx': use uniform"),
        (["lab", "check", "no_such_module:Class"], "cannot be imported"),
        (["lab", "check", "json:dumps"], "not a subclass"),
        (["lab", "check", ":Class"], "cannot be used: ValueError"),
        (["lab", "check", "cli_not_python:Class"], "cannot be used: SyntaxError"),
        (["lab", "check"], "NAME"),
        (["lab", "demo", "--hours", "2"], "is now: penstock lab city --compare"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(
    tokens: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("file.txt").write_text("a file, not a folder")
    Path("cli_not_python.py").write_text("this is, not Python(")
    done = Outcome(capsys, *tokens)
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert done.err.startswith("penstock: ")
    assert done.err.count("\n") == 1


@pytest.mark.parametrize("tokens", [["bench", "w-event"], ["bench", "--help"], ["lab", "city"]])
def test_without_the_bench_its_verbs_say_how_to_install_it(
    tokens: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [])
    done = Outcome(capsys, *tokens)
    assert (done.code, done.out) == (2, "")
    assert "is part of penstock-bench, which is not installed: pip install" in done.err
    assert done.err.count("\n") == 1


def test_a_verb_is_imported_when_it_is_called() -> None:
    code = (
        "import sys, penstock.cli as cli\n"
        "cli.build(['status', 'x.db'])\n"
        "print(*sorted(name for name in sys.modules if name.startswith('penstock.cli.')))"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "penstock.cli.status" in ended.stdout
    for other in ("run", "query", "audit", "init"):
        assert f"penstock.cli.{other}" not in ended.stdout.split()


def test_every_verb_can_be_loaded(capsys: pytest.CaptureFixture[str]) -> None:
    for verb in (*VERBS, *CHOICE_VERBS):
        assert Outcome(capsys, verb.name, "--help").code == 0
    for verb in LAB_VERBS:
        assert Outcome(capsys, "lab", verb.name, "--help").code == 0


def test_python_m_penstock_is_the_same_program() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "penstock", "--version"], capture_output=True, text=True, check=True
    )
    assert ended.stdout.strip() == penstock.__version__
    ended = subprocess.run(
        [sys.executable, "-m", "penstock", "lab", "check", "bx"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 2
    assert "Traceback" not in ended.stderr


def test_a_reader_who_has_seen_enough_is_no_error() -> None:
    code = "from penstock.cli import main; main(['mechanisms', '--json'])"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.close()
        assert "Traceback" not in running.stderr.read()
