"""The Containerfile, and docs/how-to/container.md. No image is built: that needs a registry."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import tomllib
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from penstock.engine.pipeline import Pipeline

from tests.following import blocks

ROOT = Path(__file__).parents[1]
RECIPE = (ROOT / "Containerfile").read_text(encoding="utf-8").replace("\\\n", " ")


def test_what_is_copied_is_there_and_not_ignored() -> None:
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    names = re.findall(r"^COPY (?!--from)(.*) \S+$", RECIPE, re.MULTILINE)
    for name in " ".join(names).split():
        assert (ROOT / name).exists()
        assert f"!{name}" in ignored


def test_its_extras_are_ours() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (extras,) = re.findall(r"^ARG EXTRAS=(.*)$", RECIPE, re.MULTILINE)
    assert set(extras.split(",")) <= set(project["optional-dependencies"])


def test_it_runs_as_a_user_without_rights_who_was_made_before() -> None:
    (user,) = re.findall(r"^USER (\d+):\1$", RECIPE, re.MULTILINE)
    assert int(user) > 0
    assert f"useradd --uid {user} " in RECIPE
    assert RECIPE.index("\nUSER ") < RECIPE.index("\nENTRYPOINT ")


@pytest.mark.parametrize(("status", "code"), [(200, 0), (503, 1)])
def test_the_health_check_follows_the_monitor(status: int, code: int) -> None:
    class Monitor(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/health" else 404)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    ((_, *command),) = map(json.loads, re.findall(r"^HEALTHCHECK .* CMD (\[.*\])$", RECIPE, re.M))
    with HTTPServer(("127.0.0.1", 0), Monitor) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        told = {"PENSTOCK_HEALTH": f"http://127.0.0.1:{server.server_port}/health", "NO_PROXY": "*"}
        done = subprocess.run(
            [sys.executable, *command], env=os.environ | told, stderr=subprocess.DEVNULL
        )
    assert done.returncode == code


def test_the_configuration_of_the_page_answers_the_health_check(tmp_path: Path) -> None:
    text = "".join(blocks("how-to/container.md", "sh"))
    (written,) = re.findall(r"cat > pipeline.toml' <<'END'\n(.*?)^END$", text, re.DOTALL | re.M)
    (tmp_path / "pipeline.toml").write_text(written, encoding="utf-8")
    pipeline = Pipeline.read(tmp_path / "pipeline.toml")
    assert f"PENSTOCK_HEALTH=http://{pipeline.operator.metrics}/health" in RECIPE
    assert f"EXPOSE 8080 8090 {pipeline.operator.metrics.rpartition(':')[2]}\n" in RECIPE
