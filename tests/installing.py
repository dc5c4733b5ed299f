"""Packages of others, as an installer leaves them: the files, and metadata beside them."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path

Points = Mapping[str, Mapping[str, str]]
"""Entry points: by group, then by name."""


def install(folder: Path, package: str, points: Points, *, version: str = "1.0") -> None:
    """Write a package's metadata into a folder; the folder on the path makes it installed."""
    about = folder / f"{package.replace('-', '_')}-{version}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n", encoding="utf-8"
    )
    lines = [
        line
        for group, names in points.items()
        for line in (f"[{group}]", *(f"{n} = {v}" for n, v in names.items()))
    ]
    (about / "entry_points.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def install_project(folder: Path) -> None:
    """What `pip install -e .` leaves of a project in this folder, without a network or a change to
    what runs the tests.
    """
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    install(folder, project["name"], project["entry-points"], version=project["version"])
