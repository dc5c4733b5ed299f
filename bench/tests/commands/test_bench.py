from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import penstock_bench.commands.bench as verb
from penstock.core.errors import ConfigurationError
from penstock_bench.registry import SUITES
from penstock_bench.results import Results, table

from bench.tests.tiny import ABSENT, TINY, TinySuite


@pytest.fixture(autouse=True)
def _tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SUITES, "tiny", TinySuite())


def run(capsys: pytest.CaptureFixture[str], *tokens: str) -> tuple[int, str, str]:
    """Exit code, what was printed, and what was printed as an error."""
    capsys.readouterr()
    code = 0
    try:
        verb.app(list(tokens), exit_on_error=False, print_error=False)
    except SystemExit as end:
        code = int(end.code or 0)
    return code, *capsys.readouterr()


def test_without_a_name_the_suites_are_listed(capsys: pytest.CaptureFixture[str]):
    code, out, _ = run(capsys)
    assert code == 0
    for name in ("w-event", "windows", "tiny"):
        assert name in out
    assert "window, change, groups, epsilon" in out


def test_datasets_are_listed_with_what_they_are_and_whether_they_are_here(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PENSTOCK_DATA", "nowhere")
    monkeypatch.setenv("COLUMNS", "240")
    code, out, _ = run(capsys, "datasets")
    assert code == 0
    (fleet,) = (line for line in out.splitlines() if line.startswith("fleet "))
    assert "168 × 100" in fleet
    assert "a person a taxi, in all units" in fleet
    assert "not here:" in out
    code, out, _ = run(capsys, "datasets", "--json")
    described = {one["name"]: one for one in json.loads(out)}
    assert described["fleet"]["parameters"]["vehicles"] == 110_357
    assert described["fleet"]["missing"] is None
    assert described["covid"]["missing"]


def test_a_suite_leaves_results_and_a_page(capsys: pytest.CaptureFixture[str]):
    code, out, _ = run(capsys, "tiny", "--runs", "2", "--jobs", "1", "--out", "here")
    assert code == 0
    assert "14 runs of cells were made, 0 were stored before." in out
    assert f"{ABSENT} was not run: it was never collected." in out
    assert "Open here/tiny/report.html" in out
    assert "3 tested findings of papers and theory, 2 hold here, 0 hold in part, 1 do not" in out
    assert len(Results(Path("here/tiny")).rows()) == 14 * 3
    code, out, _ = run(capsys, "tiny", "--runs", "2", "--jobs", "1", "--out", "here")
    assert "0 runs of cells were made, 14 were stored before." in out


def test_the_page_can_be_made_anew(capsys: pytest.CaptureFixture[str]):
    run(capsys, "tiny", "--runs", "1", "--jobs", "1", "--out", "here")
    page = Path("here/tiny/report.html")
    before = page.read_text(encoding="utf-8")
    page.unlink()
    code, out, _ = run(capsys, "report", "here")
    assert (code, out.strip()) == (0, "Open here/tiny/report.html")
    assert page.read_text(encoding="utf-8") == before
    with pytest.raises(ConfigurationError, match="no results"):
        run(capsys, "report", "nowhere")


def test_quick_results_lie_apart(capsys: pytest.CaptureFixture[str]):
    run(capsys, "tiny", "--quick", "--jobs", "1", "--only", "ba", TINY)
    assert Path("out/bench-quick/tiny/report.html").exists()
    assert not Path("out/bench").exists()


def test_a_mechanism_and_a_dataset_of_ones_own(capsys: pytest.CaptureFixture[str]):
    """Both from a file in the current folder, in processes of their own."""
    Path("bench_mine.py").write_text(
        "from dataclasses import dataclass\n"
        "from typing import ClassVar\n"
        "from penstock import Uniform\n"
        "from bench.tests.tiny import Tiny\n"
        "@dataclass(frozen=True, kw_only=True)\n"
        "class Mine(Uniform):\n"
        "    name = 'mine'\n"
        "@dataclass(frozen=True)\n"
        "class Data(Tiny):\n"
        "    name: ClassVar[str] = 'data'\n"
        "    keys: int = 2\n"
    )
    tokens = (
        "--runs",
        "1",
        "--jobs",
        "2",
        "--also",
        "bench_mine:Mine",
        "--stream",
        "bench_mine:Data",
        "--out",
        "here",
    )
    code, _, err = run(capsys, "tiny", *tokens)
    assert (code, err) == (0, "")
    rows = Results(Path("here/tiny")).rows()
    assert {row["keys"] for row in rows if row["mechanism"] == "bench_mine:Mine"} == {2, 4}
    del sys.modules["bench_mine"]


def test_a_failure_is_told_and_the_rest_is_done(capsys: pytest.CaptureFixture[str]):
    code, out, _ = run(
        capsys,
        "tiny",
        "--runs",
        "1",
        "--jobs",
        "1",
        "--also",
        "bench.tests.tiny:Failing",
        "--out",
        "here",
    )
    assert code == 1
    assert f"bench.tests.tiny:Failing on {TINY} failed: RuntimeError: it broke" in out
    assert "Open here/tiny/report.html" in out


@pytest.mark.parametrize(
    ("tokens", "words"),
    [
        (("none",), "there is no suite 'none'"),
        (("tiny", "--runs", "0"), "runs must be at least 1"),
        (("tiny", "--jobs", "0"), "jobs"),
        (("tiny", "--seed", "-1"), "seed must not be negative"),
        (("tiny", "--only", "nothing"), "tiny has no 'nothing'"),
        (("tiny", "--also", "nobody"), "there is no mechanism 'nobody'"),
        (("tiny", "--also", "no_such_module:Mine"), "cannot be imported"),
        (("tiny", "--stream", "nothing"), "there is no dataset 'nothing'"),
    ],
)
def test_mistakes_are_refused_before_anything_is_run(
    capsys: pytest.CaptureFixture[str], tokens: tuple[str, ...], words: str
):
    with pytest.raises(ConfigurationError, match=words):
        run(capsys, *tokens)
    assert not Path("out").exists()


def test_an_interruption_keeps_what_was_done(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """A real process is interrupted as by Ctrl-C as soon as its first part is there, and the same
    command goes on.
    """
    script = Path("interrupted.py")
    script.write_text(
        "import os, signal, sys\n"
        "from penstock_bench.commands.bench import app\n"
        "from penstock_bench import results, runner\n"
        "from penstock_bench.registry import SUITES\n"
        "from bench.tests.tiny import TinySuite\n"
        "SUITES['tiny'] = TinySuite()\n"
        "runner.MOST_CELLS = 2\n"
        "add = results.Results.add\n"
        "def once(self, rows):\n"
        "    add(self, rows)\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "if len(sys.argv) > 1:\n"
        "    results.Results.add = once\n"
        "if __name__ == '__main__':\n"
        "    app(['tiny', '--runs', '3', '--jobs', '2', '--out', 'here'])\n"
    )
    root = Path(__file__).parents[3]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")]),
    }
    cut = subprocess.run(
        [sys.executable, script, "cut"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert cut.returncode == verb.INTERRUPTED, cut.stderr
    assert cut.stderr.strip() == "penstock: interrupted. The same command continues the suite."
    assert len(Results(Path("here/tiny")).parts()) == 1
    whole = subprocess.run(
        [sys.executable, script], env=environment, capture_output=True, text=True, timeout=120
    )
    assert whole.returncode == 0, whole.stderr
    assert "18 runs of cells were made, 2 were stored before." in whole.stdout
    run(capsys, "tiny", "--jobs", "1", "--out", "other")
    assert table(Results(Path("here/tiny")).rows()) == table(Results(Path("other/tiny")).rows())


def test_nobody_outlives_a_bench_that_was_killed():
    """Its processes would hold gigabytes for ever."""
    script = Path("killed.py")
    script.write_text(
        "import os, signal\n"
        "from penstock_bench import runner\n"
        "if __name__ == '__main__':\n"
        "    with runner._pool(1) as pool:\n"
        "        print(pool.submit(os.getpid).result(), flush=True)\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    killed = subprocess.run(
        [sys.executable, script], stdout=subprocess.PIPE, text=True, timeout=120, check=False
    )
    assert killed.returncode == -signal.SIGKILL
    child, until = int(killed.stdout), time.monotonic() + 60
    while time.monotonic() < until and _alive(child):
        time.sleep(0.02)
    assert not _alive(child)


def _alive(process: int) -> bool:
    """Whether it runs; one that has ended and that nobody has asked for yet does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
