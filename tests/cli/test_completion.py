"""`penstock completion`, in real shells, and the names that are completed."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from penstock.private.mechanisms.registry import MECHANISMS

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
keys = ["Grand Central", "Grand Army Plaza", "it's", "$(touch bait)"]
[privacy]
epsilon = "1"
window = 3
[[view]]
name = "hourly"
mechanism = "uniform"
[[view]]
name = "slow"
mechanism = "ba"
"""
KEYS = ["Grand Central", "Grand Army Plaza", "it's", "$(touch bait)"]
STREAMS = ["taps/hourly", "taps/slow", "taps"]
DEADLINE = 40
"""Seconds that nothing comes near."""


@pytest.fixture(autouse=True)
def files() -> None:
    Path("taps.toml").write_text(PIPELINE)
    Path("taps.csv").write_text("tapped_at,station\n2026-01-01T00:10Z,it's\n")


def proposed(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    """What the program proposes for the last word."""
    done = Outcome(capsys, "__complete", *words)
    assert done.code == 0
    records = done.out.partition("\x1fbegin\n")[2].splitlines()
    return [record.partition("\t")[0] for record in records]


def test_names_of_a_pipeline_are_proposed_before_it_has_run(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert proposed(capsys, "query", "taps.toml", "counts", "--key", "") == KEYS
    assert proposed(capsys, "query", "taps.toml", "counts", "--stream", "") == STREAMS
    assert proposed(capsys, "ledger", "show", "taps.toml", "--stream", "") == STREAMS
    assert proposed(capsys, "query", "taps.toml", "counts", "--key", "Grand\\ C") == [KEYS[0]]
    assert not Path("taps.db").exists()


def test_names_of_a_store_are_proposed(capsys: pytest.CaptureFixture[str]) -> None:
    assert Outcome(capsys, "run", "taps.toml", "--log", "none").code == 0
    tokens = ["query", "taps.db", "counts", "--stream", "taps/slow"]
    assert proposed(capsys, *tokens, "--key", "") == KEYS
    assert proposed(capsys, *tokens, "--range", "it's", "Gra") == KEYS[:2]
    assert proposed(capsys, "export", "taps.db", "out.csv", "--stream", "") == STREAMS


def test_names_of_penstock_are_proposed(capsys: pytest.CaptureFixture[str]) -> None:
    assert proposed(capsys, "mechanisms", "")[: len(MECHANISMS)] == list(MECHANISMS)
    assert "auto" in proposed(capsys, "init", "--mechanism", "")
    assert "flawed:short_window" in proposed(capsys, "audit", "")
    assert {"csv", "kafka"} <= set(proposed(capsys, "sources", ""))
    assert "webhook" in proposed(capsys, "sinks", "")
    assert "top" in proposed(capsys, "query", "taps.toml", "")
    assert "America/New_York" in proposed(capsys, "init", "--zone", "")
    columns = ["tapped_at", "station"]
    assert proposed(capsys, "init", "x.toml", "--from", "taps.csv", "--key", "") == columns
    assert proposed(capsys, "init", "x.toml", "--from", "taps.csv", "--person", "") == columns


@pytest.mark.parametrize(
    "store", ["none.db", "none.toml", "broken.toml", "postgresql://nobody@localhost:1/none"]
)
def test_a_store_that_cannot_be_read_proposes_nothing(
    store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("broken.toml").write_text("[stream")
    assert proposed(capsys, "query", store, "counts", "--key", "") == []


def test_the_script_is_installed_where_the_shell_looks(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    done = Outcome(capsys, "completion", "fish", "--install")
    file = tmp_path / "home/.config/fish/completions/penstock.fish"
    assert (done.code, f"Wrote {file}." in done.out) == (0, True)
    assert file.read_text() == Outcome(capsys, "completion", "fish").out.removesuffix("\n")
    (tmp_path / "home/.zsh").write_text("a file, not a folder")
    done = Outcome(capsys, "completion", "zsh", "--install")
    assert (done.code, "cannot be written: " in done.err) == (2, True)


# -- real shells ---------------------------------------------------------------------------------


@pytest.fixture
def environment() -> dict[str, str]:
    here = str(Path(sys.executable).parent)
    return {**os.environ, "PATH": f"{here}:{os.environ['PATH']}", "TERM": "dumb"}


def needs(shell: str) -> str:
    """The path of a shell, or a skipped test."""
    found = shutil.which(shell)
    if found is None:
        pytest.skip(f"{shell} is not installed")
    return found


@pytest.mark.slow
def test_bash_completes_verbs_options_and_names(
    capsys: pytest.CaptureFixture[str], environment: dict[str, str]
) -> None:
    Path("completion.bash").write_text(Outcome(capsys, "completion", "bash").out)
    tries = [
        (["m"], ["mechanisms"]),
        (["lab", "ch"], ["check"]),
        (["query", "--rol"], ["--roll-up"]),
        (["completion", ""], ["bash", "zsh", "fish"]),
        (["query", "taps.toml", "counts", "--stream", "taps/s"], ["taps/slow"]),
        (["query", "taps.toml", "counts", "--key", ""], [*map(_quoted, KEYS)]),
        (["query", "taps.toml", "counts", "--key", "Grand\\ C"], ["Grand\\ Central"]),
        (["query", "taps.toml", "counts", "--key", '"Grand A'], ["Grand Army Plaza"]),
        (["query", "taps.t"], []),  # readline completes the file
    ]
    script = "source completion.bash\n"
    for words, _ in tries:
        listed = " ".join(_quoted(word) or "''" for word in ["penstock", *words])
        script += (
            f"COMP_WORDS=({listed}) COMP_CWORD={len(words)} COMPREPLY=(); _penstock\n"
            "printf '%s|' \"${COMPREPLY[@]}\"; echo\n"
        )
    script += "complete -p penstock\n"
    done = subprocess.run(
        [needs("bash"), "--norc", "-c", script], env=environment, capture_output=True, text=True
    )
    *replies, registered = done.stdout.splitlines()
    found = [[word for word in line.split("|") if word] for line in replies]
    assert found == [expected for _, expected in tries], done.stderr
    assert "-o default" in registered
    assert not Path("bait").exists()


def _quoted(word: str) -> str:
    """A word as bash escapes it."""
    return "".join(each if each.isalnum() or each in "/.-_:" else f"\\{each}" for each in word)


@pytest.mark.slow
def test_fish_completes_verbs_and_names(
    capsys: pytest.CaptureFixture[str], environment: dict[str, str]
) -> None:
    fish = needs("fish")
    Path("completion.fish").write_text(Outcome(capsys, "completion", "fish").out)
    script = (
        "source completion.fish; complete -C 'penstock mechan'; "
        "complete -C 'penstock query taps.toml counts --key Gra'"
    )
    done = subprocess.run(
        [fish, "--no-config", "-c", script], env=environment, capture_output=True, text=True
    )
    found = [line.partition("\t")[0] for line in done.stdout.splitlines()]
    assert found == ["mechanisms", "Grand Army Plaza", "Grand Central"], done.stderr


@pytest.mark.slow
def test_zsh_completes_verbs_and_names(
    capsys: pytest.CaptureFixture[str], environment: dict[str, str]
) -> None:
    zsh = needs("zsh")
    Path("_penstock").write_text(Outcome(capsys, "completion", "zsh").out)
    child, terminal = pty.fork()
    if not child:
        os.execve(zsh, ["zsh", "-f", "-i"], {**environment, "COLUMNS": "150"})
    start = f"fpath=({Path.cwd()} $fpath); autoload -Uz compinit; compinit -u -D; echo RE''ADY\n"
    typed(terminal, start, "READY")
    typed(terminal, "penstock mechan\t", "penstock mechanisms ")
    typed(terminal, "\x15penstock query taps.toml counts --key 'Grand C\t", "'Grand Central' ")
    os.close(terminal)
    os.waitpid(child, 0)


def typed(terminal: int, keys: str, expected: str) -> None:
    """Type something, and wait until the shell shows what is expected."""
    os.write(terminal, keys.encode())
    seen, until = b"", time.monotonic() + DEADLINE
    while expected.encode() not in seen:
        ready, _, _ = select.select([terminal], [], [], max(until - time.monotonic(), 0))
        assert ready, seen
        seen += os.read(terminal, 65_536)
