"""`penstock run --dry`: on the operator's terminal, and nothing on disk."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.outcome import Outcome

TEXT = """
[stream]
name = "taps"
every = "1h"
origin = "2026-01-01"
until = "2026-01-02"

[source]
kind = "parquet"
path = "taps.parquet"
time = "ts"
key = "station"
person = "card"

[domain]
keys = ["north", "south"]

[privacy]
mechanism = "uniform"
epsilon = "1"
window = 24

[store]
path = "taps.db"
head = "taps.head"

[[sink]]
kind = "jsonl"
path = "releases.jsonl"
"""

TRACED = """
import os, resource, sys
from penstock.cli import main
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))  # every write to a file fails, whoever writes

def hook(event, given):
    if event == "open" and (given[2] or 0) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
        print("OPENED FOR WRITING", given[0], file=sys.stderr)
    if event in ("os.mkdir", "os.rename", "os.remove", "os.symlink", "sqlite3.connect"):
        print("CHANGED", given[0], file=sys.stderr)

sys.addaudithook(hook)
main(sys.argv[1:])
"""


@pytest.fixture
def taps(tmp_path: Path) -> Path:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = 50
    table = {
        "ts": ["2026-01-01T05:00Z", "2026-01-01T23:00Z"] * rows,
        "station": ["north", "south"] * rows,
        "card": ["secret-1", "secret-2"] * rows,
    }
    pq.write_table(pa.table(table), tmp_path / "taps.parquet")
    (tmp_path / "taps.toml").write_text(TEXT, encoding="utf-8")
    return tmp_path


def test_what_is_found_is_printed_and_nothing_is_published(taps, capsys):
    done = Outcome(capsys, "run", "taps.toml", "--dry")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines()[:5] == [
        "taps: the source can be read.",
        "  columns found           'ts' (time), 'station' (key), 'card' (person)",
        "  rows that can be taken  90 to 100 %",
        "  first day               2026-01-01",
        "  last day                2026-01-01",
    ]
    assert "Nothing was published, and nothing was written to disk." in done.out
    assert sorted(path.name for path in taps.iterdir()) == ["taps.parquet", "taps.toml"]


def test_what_a_run_would_refuse_ends_with_exit_code_2(taps, capsys):
    (taps / "taps.toml").write_text(TEXT.replace('["north", "south"]', '["mars"]'))
    done = Outcome(capsys, "run", "taps.toml", "--dry")
    assert done.code == 2
    assert "taps: the source cannot be read as configured." in done.out
    assert "rows that can be taken  0 to 10 %" in done.out
    assert "reason why rows cannot be taken: the key in 'station' is not in [domain]" in done.out
    (taps / "taps.toml").write_text(TEXT.replace('"ts"', '"when"'))
    done = Outcome(capsys, "run", "taps.toml", "--dry")
    assert (done.code, done.out) == (2, "")
    assert "has no column 'when'; it has 'ts', 'station', 'card'." in done.err


def test_several_streams_are_tried_one_after_the_other(taps, capsys):
    (taps / "other.toml").write_text(TEXT.replace('"taps"', '"other"'))
    done = Outcome(capsys, "run", "taps.toml", "other.toml", "--dry")
    assert done.code == 0
    assert "taps: the source can be read." in done.out
    assert "other: the source can be read." in done.out


def traced(folder: Path, stdout: int | None = subprocess.PIPE) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1", "TMPDIR": str(folder)}
    return subprocess.run(
        [sys.executable, "-c", TRACED, "run", "taps.toml", "--dry"],
        cwd=folder,
        env=environment,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_no_file_is_opened_for_writing(taps):
    done = traced(taps)
    assert (done.returncode, done.stderr) == (0, "")
    assert "taps: the source can be read." in done.stdout
    assert sorted(path.name for path in taps.iterdir()) == ["taps.parquet", "taps.toml"]


@pytest.mark.slow
def test_a_file_as_standard_output_is_refused_before_anything_is_read(taps, tmp_path_factory):
    kept = tmp_path_factory.mktemp("elsewhere") / "out.txt"
    with kept.open("w") as file:
        done = traced(taps, stdout=file.fileno())
    assert done.returncode == 2
    assert "it goes to a terminal and not into a file" in done.stderr
    assert kept.read_text() == ""
