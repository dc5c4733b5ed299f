"""Servers of one test's own, that can be killed without disturbing others."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


class OwnServer:
    """One part of `.ci/services`, with its own folder, ports and data."""

    def __init__(self, part: str) -> None:
        self.part = part
        self.home = Path(tempfile.mkdtemp(prefix="penstock-services-"))
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        shared = Path(os.environ.get("PENSTOCK_SERVICES") or cache / "penstock-services")
        if part == "kafka":
            if not (shared / "kafka-jars").exists():
                pytest.skip("needs the files of Kafka: .ci/services start")
            (self.home / "kafka-jars").symlink_to(shared / "kafka-jars")

    def __call__(self, verb: str) -> None:
        # With COLUMNS, ps would shorten its lines.
        environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
        subprocess.run(
            [ROOT / ".ci" / "services", verb, self.part],
            env=environment | {"PENSTOCK_SERVICES": str(self.home)},
            check=True,
            capture_output=True,
        )

    def port(self) -> str:
        return (self.home / f"{self.part}.port").read_text().strip()

    def __enter__(self) -> OwnServer:
        self("start")
        return self

    def __exit__(self, *_: object) -> None:
        self("clean")
        subprocess.run(["rm", "-rf", self.home], check=True)
