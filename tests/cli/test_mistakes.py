"""Every mistake of a first hour has a message that says what to write instead."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import penstock as ps
from penstock.core.errors import InexactError

from tests.cli.outcome import Outcome

PIPELINE = """
[stream]
name = "taps"
every = "1h"
origin = "2026-01-01"
until = "2026-01-01T03:00Z"
[source]
kind = "csv"
path = "taps.csv"
time = "tapped_at"
key = "station"
[domain]
keys = ["north", "south"]
[privacy]
mechanism = "uniform"
epsilon = "1"
window = 3
[store]
path = "taps.db"
"""


@pytest.fixture(autouse=True)
def files() -> None:
    Path("taps.csv").write_text("tapped_at,station\n2026-01-01T00:10Z,north\n")
    Path("taps.toml").write_text(PIPELINE)


def changed(*changes: tuple[str, str]) -> str:
    """The name of a configuration with some changes."""
    text = PIPELINE
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    Path("changed.toml").write_text(text)
    return "changed.toml"


def refused(capsys: pytest.CaptureFixture[str], *tokens: str, code: int = 2) -> str:
    """The one line that refuses a command. It leaves nothing behind."""
    before = sorted(Path().rglob("*"))
    done = Outcome(capsys, *tokens)
    assert (done.code, done.err.count("\n")) == (code, 1), done.err
    assert done.err.startswith("penstock: ")
    if tokens[0] not in ("run", "query"):  # these make files beside a store, before or after
        assert sorted(Path().rglob("*")) == before
    return done.err


def test_a_float_epsilon(capsys: pytest.CaptureFixture[str]) -> None:
    said = refused(capsys, "check", changed(('epsilon = "1"', "epsilon = 0.5")))
    assert "changed.toml:16: privacy.epsilon: 0.5 is a floating-point number" in said
    assert 'Write epsilon = "0.5".' in said
    with pytest.raises(InexactError, match=r'Write epsilon="0\.5"'):
        ps.Uniform(epsilon=0.5, window=3)  # type: ignore[arg-type]


def test_a_wrong_column(capsys: pytest.CaptureFixture[str]) -> None:
    said = refused(capsys, "run", changed(('"station"', '"staton"')), "--log", "none")
    assert f"{Path.cwd()}/taps.csv has no column 'staton'; it has 'tapped_at', 'station'." in said
    assert "Did you mean 'station'? Write the name of a column in [source]." in said


def test_a_wrong_time_format(capsys: pytest.CaptureFixture[str]) -> None:
    wrong = changed(('key = "station"', 'key = "station"\nclock = "seconds"'))
    said = refused(capsys, "run", wrong, "--log", "none")
    assert "the time in 'tapped_at' cannot be read with clock = \"seconds\"" in said
    assert 'write clock = "iso" for times such as 2026-01-31T08:30:00Z' in said


@pytest.mark.parametrize("code_and_tokens", [(2, "run"), (2, "check"), (2, "status"), (2, "query")])
def test_a_missing_configuration(
    code_and_tokens: tuple[int, str], capsys: pytest.CaptureFixture[str]
) -> None:
    code, verb = code_and_tokens
    said = refused(capsys, verb, "none.toml", code=code)
    assert f"{Path.cwd()}/none.toml cannot be read: there is no such file." in said
    assert "penstock init writes a configuration." in said


def test_a_missing_file_of_events(capsys: pytest.CaptureFixture[str]) -> None:
    said = refused(capsys, "run", changed(("taps.csv", "tips.csv")), "--log", "none")
    assert f"source.path: no file matches {Path.cwd()}/tips.csv. Write the path of a file" in said


def test_a_missing_store(capsys: pytest.CaptureFixture[str]) -> None:
    said = refused(capsys, "query", "none.db")
    assert f"there is no store {Path.cwd()}/none.db. Name the file of a store" in said
    said = refused(capsys, "query", "taps.toml")
    assert f"there is no store {Path.cwd()}/taps.db yet: penstock run taps.toml makes it." in said


@pytest.mark.parametrize(
    "tokens",
    [
        ["init", "no/such/taps.toml", "--yes", "--from", "taps.csv", "--keys", "north"],
        ["export", "taps.toml", "no/such/taps.csv"],
    ],
)
def test_a_missing_folder(tokens: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    said = refused(capsys, *tokens)
    assert f"there is no folder {Path.cwd()}/no/such. Make it, or name another place." in said


def test_a_missing_folder_for_the_store(capsys: pytest.CaptureFixture[str]) -> None:
    wrong = changed(('"taps.db"', '"no/such/taps.db"'))
    said = refused(capsys, "run", wrong, "--log", "none", code=1)
    assert f"{Path.cwd()}/no/such/taps.db cannot be made: there is no folder" in said
    assert "Make it, or name another place." in said


def test_an_unknown_key(capsys: pytest.CaptureFixture[str]) -> None:
    assert Outcome(capsys, "run", "taps.toml", "--log", "none").code == 0
    for tokens in (["--key", "nort"], ["--range", "nort", "south"]):
        said = refused(capsys, "query", "taps.db", "counts", *tokens)
        assert "has no key 'nort'" in said
        assert "'north'" in said.partition("'nort'")[2]


@pytest.mark.parametrize(
    ("tokens", "said"),
    [
        (["quary", "taps.db"], 'Did you mean "query"?'),
        (["lab", "chek"], 'Did you mean "check"?'),
        (["ledger", "shw"], 'Did you mean "show"?'),
        (["frobnicate"], "penstock --help lists all commands."),
    ],
)
def test_an_unknown_verb(tokens: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert said in refused(capsys, *tokens)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            b"[stream]\nname = taps\n",
            'wrong.toml:2: this is not TOML: Invalid value. Write name = "',
        ),
        (b"[stream\n", "wrong.toml:1: this is not TOML: "),
        (b"stream\n", "A line is a table such as [stream], a key such as "),
        (b"name = 'M\xfcller'\n", "wrong.toml:1: this is not UTF-8: save the file as UTF-8."),
    ],
)
def test_an_unreadable_toml(content: bytes, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("wrong.toml").write_bytes(content)
    assert said in refused(capsys, "check", "wrong.toml")


def test_no_value_of_an_unreadable_toml_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    Path("wrong.toml").write_text("token = ghp_secret\n")
    assert "ghp_secret" not in refused(capsys, "check", "wrong.toml")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("locked", "tokens", "said"),
    [
        ("taps.toml", ["check", "taps.toml"], "taps.toml cannot be read: permission denied. Let"),
        ("taps.csv", ["run", "taps.toml", "--log", "none"], "taps.csv cannot be read: permission"),
        (".", ["run", "taps.toml", "--log", "none"], "taps.db cannot be made: permission denied."),
    ],
)
def test_no_permission(locked: str, tokens: list[str], said: str) -> None:
    """Root may read everything, so root tries without that right."""
    command = [sys.executable, "-m", "penstock", *tokens]
    if os.geteuid() == 0:
        setpriv = shutil.which("setpriv")
        if setpriv is None:
            pytest.skip("setpriv is not installed, and root may read everything")
        command = [setpriv, "--bounding-set=-dac_override,-dac_read_search", *command]
    Path(locked).chmod(0o500 if locked == "." else 0)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    Path(locked).chmod(0o700)
    assert done.returncode in (1, 2)
    assert f"{Path.cwd()}/{said}" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_changed_promise(capsys: pytest.CaptureFixture[str]) -> None:
    assert Outcome(capsys, "run", "taps.toml", "--log", "none").code == 0
    said = refused(capsys, "run", changed(('epsilon = "1"', 'epsilon = "2"')), "--log", "none")
    assert f"series 'taps' in {Path.cwd()}/taps.db is another one" in said
    assert "epsilon was 1 and is 2 now." in said
    assert "write what was there again, or another name in [stream]" in said
    assert "Nothing was released or changed." in said


@pytest.mark.parametrize(
    ("module", "changes", "said"),
    [
        (
            "confluent_kafka",
            [
                ('kind = "csv"', 'kind = "kafka"\nservers = "x:1"'),
                ('path = "taps.csv"', 'topic = "t"'),
            ],
            'kind = "kafka" needs confluent-kafka, which is not installed: pip install ',
        ),
        (
            "psycopg",
            [('path = "taps.db"', 'url = "postgresql://x@localhost/x"')],
            "a store in PostgreSQL needs psycopg, which is not installed: pip install",
        ),
        (
            "psycopg",
            [
                (
                    "[store]",
                    '[[sink]]\nkind = "postgres"\nurl = "postgresql://x@localhost/x"\n[store]',
                )
            ],
            'kind = "postgres" needs psycopg',
        ),
    ],
)
def test_a_missing_extra_is_named_before_any_work(
    module: str,
    changes: list[tuple[str, str]],
    said: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == module]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    assert said in refused(capsys, "run", changed(*changes), "--log", "none")
    assert not Path("taps.db").exists()


def test_a_plan_that_cannot_be_written_is_not_made(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tomlkit", None)
    said = refused(capsys, "plan", "taps.toml", "--typical", "2", "--write")
    assert "needs tomlkit, which is not installed: pip install 'penstock[plan]'" in said
