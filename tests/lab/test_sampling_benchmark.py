from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "sampling.py"


def bench(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        str(SCRIPT),
        "--quick",
        "--runs",
        "1",
        "--out",
        str(folder),
        "--kept",
        str(folder / "kept.jsonl"),
    ]
    return subprocess.run([*command, *words], capture_output=True, text=True, check=True, cwd=folder)


def test_the_benchmark_writes_its_page_and_goes_on_from_where_it_was(tmp_path):
    first = bench(tmp_path, "--only", "rate", "--json")
    rows = json.loads(first.stdout)
    assert f"{len(rows)} of {len(rows)} cells were run" in first.stderr
    assert {row["question"] for row in rows} == {"rate"}
    assert all(row["mean"] >= 0 for row in rows)
    page = (tmp_path / "sampling.md").read_text(encoding="utf-8")
    assert "--only rate" in page
    assert "## The window" not in page
    assert (tmp_path / "sampling-rate.png").stat().st_size > 10_000

    kept = tmp_path / "kept.jsonl"
    lines = kept.read_text(encoding="utf-8").splitlines()
    kept.write_text("\n".join(lines[:-1]) + "\n" + lines[-1][:40], encoding="utf-8")  # as if it had been cut short
    second = bench(tmp_path, "--only", "rate", "--json")
    assert f"1 of {len(rows)} cells were run" in second.stderr
    assert json.loads(second.stdout) == rows
