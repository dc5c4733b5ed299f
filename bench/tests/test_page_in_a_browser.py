"""The demo page in a real browser: the scripts run, the charts are drawn, nothing is fetched."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from penstock.lab.page import render
from penstock_bench.comparison import build
from penstock_bench.simulated.city import City

CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)


@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium (Debian: apt-get install chromium)")
def test_the_charts_are_drawn(tmp_path: Path) -> None:
    page = tmp_path / "demo.html"
    page.write_text(
        render(build(City(stations=12, people=300, seed=2), hours=48, epsilon="1", window=6)),
        encoding="utf-8",
    )
    flags = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--no-first-run",
        "--disable-background-networking",
    ]
    flags += [
        "--disable-component-update",
        "--disable-sync",
        "--disable-dev-shm-usage",
        f"--user-data-dir={tmp_path / 'profile'}",
    ]
    command = [
        str(CHROMIUM),
        *flags,
        "--virtual-time-budget=5000",
        "--enable-logging=stderr",
        "--dump-dom",
        page.as_uri(),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.count("<canvas") >= 3
    assert "u-legend" in done.stdout or "uplot" in done.stdout
    for complaint in ("Uncaught", "Refused to", "net::ERR"):
        assert complaint not in done.stderr
