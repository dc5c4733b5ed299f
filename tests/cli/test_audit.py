from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from penstock.cli import audit as cli_audit
from penstock.cli.audit_output import print_verdicts
from penstock.core.errors import BudgetError
from penstock.lab.audit import engine, suite
from penstock.lab.audit.bounding.verdict import BoundingVerdict
from penstock.lab.audit.engine import Verdict
from penstock.lab.audit.flawed import VARIANTS
from penstock.lab.audit.subjects import subject
from penstock.private.mechanisms.registry import MECHANISMS

from tests.cli.outcome import Outcome

FEW = ("--runs", "2000", "--seed", "1", "--workers", "1")


def test_an_acquittal_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    done = Outcome(capsys, "audit", "uniform", "--epsilon", "1.5", "--window", "1", *FEW)
    assert (done.code, done.err) == (0, "")
    first = done.out.splitlines()[0]
    assert first.startswith("uniform: acquitted: the attack found ε ≥ 1.")
    assert first.endswith("(promised: 1.5)")
    assert re.search(r"unit \d .* \d+\*", done.out)
    for text in (
        "The two streams",
        "left",
        "right",
        "fresh and",
        "ends a unit",
        "of 1,000 runs on the left",
    ):
        assert text in done.out
    assert "not a proof" in done.out
    assert (
        "penstock audit uniform --epsilon 3/2 --window 1 --runs 2000 --confidence 0.999 --seed 1"
        in done.out
    )


def test_a_conviction_is_explained_with_exit_code_1_and_can_be_repeated(
    capsys: pytest.CaptureFixture[str],
) -> None:
    done = Outcome(capsys, "audit", "flawed:short_window", "--workers", "1")
    assert done.code == 1
    first = done.out.splitlines()[0]
    assert first.startswith("short_window: CONVICTED: ε ≥ 1.")
    assert first.endswith(" > 1 with confidence 99.9 %")
    again = done.out.splitlines()[-1].split()
    assert again[:3] == ["penstock", "audit", "flawed:short_window"]
    repeated = Outcome(capsys, "audit", *again[2:], "--workers", "1")
    assert (repeated.code, repeated.out) == (1, done.out)


def test_a_verdict_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    done = Outcome(capsys, "audit", "laplace", "--json", *FEW)
    row = json.loads(done.out)
    assert done.code == 0
    assert (row["name"], row["claimed"], row["window"], row["flawed"], row["convicted"]) == (
        "laplace",
        2.0,
        2,
        False,
        False,
    )
    assert 1 < row["lower_bound"] < 2
    expected = suite.audit_one(
        subject("laplace", runs=2_000), confidence=0.999, seed=1, workers=1
    ).row()
    replayed, drawn = row.pop("replay"), row.pop("noise")
    assert drawn["outcome"] == "acquitted"
    assert (replayed["outcome"], replayed["loss"], replayed["seed"]) == ("acquitted", 2.0, 1)
    assert row["share"] == 1  # the replay reaches the promise
    assert {**row, "seconds": 0, "share": 0, "replay": None, "noise": None} == {
        **json.loads(json.dumps(expected)),
        "seconds": 0,
        "share": 0,
    }


def test_a_replay_alone(capsys: pytest.CaptureFixture[str]) -> None:
    done = Outcome(capsys, "audit", "ba", "--replay", "--runs", "9", "--seed", "1")
    assert done.code == 0
    assert done.out.startswith("ba: acquitted by replay: the largest loss of 9 transcripts is ε = ")
    for text in ("Tried: 9 transcripts in ", "The weakest spot:", "Parameters: epsilon=2"):
        assert text in done.out
    command = "penstock audit ba --epsilon 2 --window 2 --replay --runs 9 --seed 1"
    assert done.out.splitlines()[-1].strip() == command
    done = Outcome(capsys, "audit", "flawed:short_window", "--replay", "--json")
    assert (done.code, json.loads(done.out)["loss"]) == (1, 2.0)


CHEATS = "tests.lab.audit.replay.cheats"


@pytest.mark.parametrize("more", [(), ("--replay",)])
@pytest.mark.parametrize(
    ("name", "code", "said"),
    [
        ("LogRecord", 1, "log records[0][2] differs"),
        ("HalfTheNoise", 1, "CONVICTED by replay: a transcript loses ε = 4 (promised: 2)"),
        ("Overspends", 3, "refused in the replay: unit 1: BudgetError: unit 1: spending epsilon=2"),
        ("Crashes", 3, "crashed in the replay: unit 3: RuntimeError: out of ideas"),
    ],
)
def test_the_outcome_of_a_replay_is_the_exit_code(
    name: str, code: int, said: str, more: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    done = Outcome(capsys, "audit", f"{CHEATS}:{name}", "--runs", "20", "--seed", "1", *more)
    assert (done.code, done.err) == (code, "")
    assert said in done.out


def test_a_noise_audit_alone(capsys: pytest.CaptureFixture[str]) -> None:
    done = Outcome(capsys, "audit", "laplace", "--noise")
    assert done.code == 0
    assert "laplace: noise acquitted: " in done.out


def test_an_exact_audit(capsys: pytest.CaptureFixture[str]) -> None:
    done = Outcome(capsys, "audit", "sample", "--exact", "--json")
    row = json.loads(done.out)
    assert done.code == 0, done.err
    assert row["method"] == "exact"
    assert row["exact"][0] <= row["exact"][1] <= 6 + 1e-5
    done = Outcome(capsys, "audit", "sample", "--exact")
    assert "acquitted: exact ε in [" in done.out
    assert "penstock audit sample --epsilon 6 --window 2 --exact" in done.out


def test_an_exact_audit_of_a_window_of_one_unit(capsys: pytest.CaptureFixture[str]) -> None:
    done = Outcome(capsys, "audit", "uniform", "--exact", "--window", "1")
    assert done.code == 0, done.out


def test_a_report_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    done = Outcome(capsys, "audit", "uniform", "--report", "deep/er/page.html", *FEW)
    page = Path("deep/er/page.html").read_text(encoding="utf-8")
    assert done.code == 0
    assert "Open deep/er/page.html" in done.out
    assert "penstock audit uniform --epsilon 2 --window 2 --runs 2000" in page


def test_nothing_is_left_in_the_folder_when_all_is_done(capsys: pytest.CaptureFixture[str]) -> None:
    assert Outcome(capsys, "audit", "uniform", "--folder", "kept", *FEW).code == 0
    assert list(Path("kept").iterdir()) == []


@pytest.fixture
def one_verdict() -> Verdict:
    return suite.audit_one(subject("uniform", runs=200), confidence=0.999, seed=1, workers=1)


ACQUITTED = BoundingVerdict("acquitted", rounds=30, sources={"CSV files": 30})


@pytest.fixture
def bounding(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take a verdict on bounding that is there, as an audit of it takes its time."""
    monkeypatch.setattr(cli_audit, "_bounding_in", lambda *_: lambda: ACQUITTED)


@pytest.mark.usefixtures("bounding")
@pytest.mark.parametrize(
    ("acquitted", "convicted", "code", "said"),
    [
        (
            True,
            True,
            0,
            "All 1 registered mechanisms were acquitted, and all 1 flawed variants were convicted.",
        ),
        (False, True, 1, "CONVICTED, though registered for use: uniform."),
        (True, False, 1, "NOT convicted: mutant."),
    ],
)
def test_all_of_them(
    acquitted: bool,
    convicted: bool,
    code: int,
    said: str,
    one_verdict: Verdict,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    low, high = 1.5, 2.5
    verdicts = [
        replace(one_verdict, lower_bound=low if acquitted else high, exact=(1.99, 2.0)),
        replace(one_verdict, name="mutant", flawed=True, lower_bound=high if convicted else low),
    ]
    asked: list[dict[str, object]] = []

    def audit_all(**options: object) -> list[Verdict]:
        asked.append(options)
        return verdicts

    monkeypatch.setattr(suite, "audit_all", audit_all)
    done = Outcome(capsys, "audit", "--all", "--quick", "--seed", "4", "--report", "all.html")
    assert done.code == code
    for text in (
        "mutant",
        "claimed",
        "bound",
        "≤ 2.000",
        "convicted",
        said,
        "at most 1e-3",
        "30 bounding rounds",
        "Timing is out of scope",
        "The weakest spot" if acquitted else "No registered mechanism was acquitted",
    ):
        assert text in done.out
    assert (asked[0]["quick"], asked[0]["seed"]) == (True, 4)
    assert "penstock audit --all --quick --seed 4" in Path("all.html").read_text(encoding="utf-8")
    done = Outcome(capsys, "audit", "--all", "--json")
    rows = json.loads(done.out)
    assert done.code == code
    assert [row["name"] for row in rows] == ["uniform", "mutant", "bounding"]
    assert all(
        {"name", "flawed", "claimed", "lower_bound", "convicted", "seconds"} <= row.keys()
        for row in rows[:2]
    )
    assert rows[2]["outcome"] == "acquitted"
    assert asked[1]["quick"] is False


@pytest.mark.usefixtures("bounding")
def test_infinity_is_null_in_json(
    one_verdict: Verdict, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    endless = replace(one_verdict, exact=(float("-inf"), float("inf")))
    monkeypatch.setattr(suite, "audit_all", lambda **_: [endless])
    assert json.loads(Outcome(capsys, "audit", "--all", "--json").out)[0]["exact"] == [None, None]


def test_bounding_alone(capsys: pytest.CaptureFixture[str]) -> None:
    done = Outcome(capsys, "audit", "--bounding", "--runs", "1", "--seed", "5", "--json")
    row = json.loads(done.out)
    assert (done.code, row["name"], row["outcome"], row["rounds"]) == (
        0,
        "bounding",
        "acquitted",
        1,
    )


TOO_MUCH = BudgetError(
    unit=1,
    label="publish",
    amount=Fraction(3),
    first=1,
    last=1,
    total=Fraction(3),
    promised=Fraction(2),
)


def test_a_ledger_that_refuses_and_a_crash_are_verdicts_with_exit_code_3(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli_audit, "_audit_all_ways", _sampled_only)
    for error, said in (
        (TOO_MUCH, "refused: unit 1: spending epsilon=3 for 'publish' would bring units 1..1 to 3"),
        (RuntimeError("no"), "crashed: RuntimeError: no"),
    ):
        monkeypatch.setattr(engine, "work", _raising(error))
        done = Outcome(capsys, "audit", "uniform", *FEW)
        assert (done.code, done.err) == (3, "")
        assert said in done.out.splitlines()[0]
        done = Outcome(capsys, "audit", "uniform", "--json", *FEW)
        row = json.loads(done.out)
        assert done.code == 3
        assert row["outcome"] == said.partition(":")[0]


def _sampled_only(how: Any, name: str, audited: Any, *, confidence: float) -> None:
    cli_audit._audit_one(how, name, audited, exact=False, confidence=confidence)


def _raising(error: Exception) -> Any:
    def work(task: object) -> None:
        raise error

    return work


MINE = '''
from penstock import Uniform

class Honest(Uniform):
    """Plain Laplace noise."""

class Leaky(Uniform):
    """Publishes the counts as they are, and forgets the noise."""

    def step(self, state, unit, gate):
        from penstock.core.private import unseal
        state, released = super().step(state, unit, gate)
        raw = unseal(unit)
        return state, type(released)(
            released.unit, raw, released.scale, released.guarantee, False
        )
'''


@pytest.mark.parametrize(("name", "code"), [("Honest", 0), ("Leaky", 1)])
def test_a_third_partys_mechanism_is_audited_by_import_path_without_registering_it(
    name: str, code: int, tmp_path: Path
) -> None:
    (tmp_path / "their_own_mechanisms.py").write_text(MINE)
    options = ["--window", "1", "--runs", "2000", "--seed", "1", "--workers", str(1 + code)]
    command = [
        sys.executable,
        "-m",
        "penstock",
        "audit",
        f"their_own_mechanisms:{name}",
        "--json",
        *options,
    ]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert ended.stderr == ""
    row = json.loads(ended.stdout)
    assert ended.returncode == code
    assert row["name"] == f"their_own_mechanisms:{name}"
    assert row["convicted"] is bool(code)
    assert name.lower() not in MECHANISMS


@pytest.mark.parametrize(
    ("tokens", "said"),
    [
        ([], "give the NAME of a mechanism, --all or --bounding"),
        (["uniform", "--bounding"], "'uniform' cannot be used with --bounding"),
        (["--bounding", "--all", "--exact"], "--exact, --all cannot be used with --bounding"),
        (["uniform", "--all"], "either 'uniform' or --all, not both"),
        (["--all", "--runs", "5", "--exact"], "--runs, --exact cannot be used with --all"),
        (["--all", "--replay"], "--replay cannot be used with --all"),
        (["uniform", "--replay", "--exact"], "give one of --exact, --replay and --noise"),
        (["uniform", "--replay", "--report", "a.html"], "--report and --confidence need"),
        (["uniform", "--quick"], "--quick can only be used with --all"),
        (["bx"], "there is no mechanism 'bx': use uniform"),
        (["flawed:nothing"], "there is no flawed variant 'flawed:nothing': use"),
        (
            ["flawed:short_window", "--epsilon", "3"],
            "flawed:short_window claims epsilon 1 in 2 units",
        ),
        (["no_such_module:Class"], "cannot be imported"),
        (["json:dumps"], "not a subclass"),
        (["cli_audit_not_python:Class"], "cannot be used: SyntaxError"),
        (["two words"], "'two words' is not the name"),
        (["uniform", "--epsilon", "lots"], "epsilon='lots' is not a number"),
        (["uniform", "--epsilon", "0"], "epsilon must be above 0"),
        (["uniform", "--window", "0"], "window must be a whole number of at least 1"),
        (["uniform", "--window", "1.5"], "--window: '1.5' is not a whole number"),
        (["uniform", "--runs", "1"], "runs must be a whole number of at least 2"),
        (["uniform", "--workers", "0"], "workers must be a whole number of at least 1"),
        (["uniform", "--confidence", "1"], "confidence must lie between 0 and 1, not 1"),
        (["uniform", "--confidence", "nan"], "confidence must lie between 0 and 1"),
        (["uniform", "--report", "."], ". is a folder, not a file"),
        (["uniform", "--report", "file.txt/page.html"], "file.txt"),
        (["uniform", "--folder", "file.txt/kept", *FEW], "file.txt"),
        (["uniform", "--rnus", "1"], "--rnus"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(
    tokens: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("file.txt").write_text("a file, not a folder")
    Path("cli_audit_not_python.py").write_text("this is, not Python(")
    done = Outcome(capsys, "audit", *tokens)
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert done.err.startswith("penstock: ")
    assert done.err.count("\n") == 1


def test_an_interrupted_audit_says_how_it_goes_on_and_does(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = (
        "uniform",
        "--window",
        "1",
        "--runs",
        "200",
        "--seed",
        "3",
        "--workers",
        "1",
        "--json",
    )
    undisturbed = json.loads(Outcome(capsys, "audit", *command).out)
    done: list[str] = []
    genuine = engine.work

    def work(task: engine.Task) -> object:
        if len(done) == 5:
            raise KeyboardInterrupt
        done.append(task.key)
        return genuine(task)

    monkeypatch.setattr(engine, "work", work)
    stopped = Outcome(capsys, "audit", *command)
    assert (stopped.code, stopped.out) == (130, "")
    assert stopped.err == "penstock: interrupted; the same command goes on from what was done.\n"
    monkeypatch.setattr(
        engine,
        "work",
        lambda task: genuine(task) if task.key not in done else pytest.fail("done twice"),
    )
    resumed = json.loads(Outcome(capsys, "audit", *command).out)
    assert {**resumed, "seconds": 0} == {**undisturbed, "seconds": 0}


def test_an_audit_whose_process_is_ended_from_outside_judges_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def audit_all(**_: object) -> None:
        raise BrokenProcessPool

    monkeypatch.setattr(suite, "audit_all", audit_all)
    done = Outcome(capsys, "audit", "--all", "--quick", "--workers", "1")
    assert (done.code, done.out) == (3, "")
    assert "was ended from outside, perhaps for want of memory. Nothing was judged" in done.err
    assert done.err.count("\n") == 1


def test_help_shows_examples(capsys: pytest.CaptureFixture[str]) -> None:
    done = Outcome(capsys, "audit", "--help")
    assert done.code == 0
    for text in (
        "penstock audit ba --epsilon 2 --window 3",
        "my_module:MyMechanism",
        "--exact",
        "--confidence",
        "out/audit",
    ):
        assert text in done.out


def test_a_narrow_terminal_shows_the_streams_one_below_the_other(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    done = Outcome(
        capsys,
        "audit",
        "flawed:ba_independent_groups",
        "--runs",
        "20",
        "--seed",
        "1",
        "--workers",
        "1",
    )
    keys = VARIANTS["ba_independent_groups"].pairs[0].keys
    assert done.out.count(f"–{keys} ") == 2  # the last column of each stream
    assert "1,000,001*" in done.out
    assert "…" not in done.out
    assert max(len(line) for line in done.out.splitlines() if line.startswith("│")) <= 80


def test_an_audit_needs_no_terminal_and_no_environment(tmp_path: Path) -> None:
    bare = {"PATH": os.environ["PATH"]}
    command = [sys.executable, "-m", "penstock", "audit", "laplace", "--runs", "200", "--seed", "1"]
    ended = subprocess.run(
        command, capture_output=True, check=False, cwd=tmp_path, env=bare, stdin=subprocess.DEVNULL
    )
    assert ended.returncode == 0, ended.stderr
    assert b"Traceback" not in ended.stderr


def test_a_table_of_verdicts_cuts_nothing_at_80_columns(
    one_verdict: Verdict, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    longest = max(VARIANTS, key=len)
    made = replace(one_verdict, name=longest, flawed=True, lower_bound=3.0, exact=(5.0, 5.2501))
    print_verdicts([one_verdict, made])
    out = capsys.readouterr().out
    assert longest in out
    assert "≤ 5.251" in out
    assert "…" not in out
