"""From `pip install dist/*.whl` in an empty environment to a first chart of somebody's own CSV."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from tests.made_once import made_once

ROOT = Path(__file__).parents[1]
DATA = Path(os.environ.get("PENSTOCK_DATA", ROOT.parent / "shared" / "data"))
OUTSIDE = {
    name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "COVERAGE"))
}
"""The environment variables of somebody who has no checkout."""

pytestmark = pytest.mark.slow


def _run(*command: str | Path, folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, env=OUTSIDE, capture_output=True, text=True)
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return done.stdout


def _build(folder: Path) -> None:
    """The sdist, and the wheel that is built from it alone."""
    _run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT, folder=folder)


def _environment(dist: Path, folder: Path) -> None:
    """An empty environment with the wheel and what it depends on, from a package index."""
    _run(sys.executable, "-m", "venv", "--without-pip", folder, folder=folder)
    (wheel,) = dist.glob("*.whl")
    install = ("install", "--quiet", "--no-compile", "--disable-pip-version-check", str(wheel))
    command = [sys.executable, "-m", "pip", "--python", str(folder / "bin/python"), *install]
    done = subprocess.run(command, env=OUTSIDE, capture_output=True, text=True)
    if done.returncode and "CI" not in os.environ:
        pytest.skip("pip cannot install what Penstock depends on: there is no package index")
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_once(tmp_path_factory, "dist", _build)


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory, dist: Path) -> Path:
    """The folder `bin` of the environment."""
    return made_once(tmp_path_factory, "env", lambda folder: _environment(dist, folder)) / "bin"


def test_the_wheel_made_from_the_sdist_has_every_file_of_the_package(dist: Path) -> None:
    (wheel,) = dist.glob("*.whl")
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    source = ROOT / "src"
    there = {
        path.relative_to(source).as_posix()
        for path in (source / "penstock").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert packed == there


def test_the_five_lines_of_the_readme_run_without_extras(programs: Path, tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (lines,) = re.findall(
        r"^## Five lines\n\n```python\n(.*?)```", readme, re.DOTALL | re.MULTILINE
    )
    (tmp_path / "lines.txt").write_text(lines, encoding="utf-8")
    _run(programs / "python", "-m", "doctest", "lines.txt", folder=tmp_path)


# -- three real streams ----------------------------------------------------------------------------


def _taxis(folder: Path) -> None:
    """Two weeks of green taxis with a change of clocks: no person, local times without offset."""
    zones = pl.read_parquet(DATA / "nyc_zones.parquet").drop_nulls("zone")
    trips = pl.read_parquet(DATA / "nyc_green_2020_mar_apr.parquet")
    trips = trips.filter(pl.col("pickup") < pl.datetime(2020, 3, 15))
    named = trips.join(zones, left_on="pu_zone", right_on="zone_id").select("pickup", "zone")
    named.write_csv(folder / "events.csv", datetime_format="%Y-%m-%d %H:%M:%S")
    _lines(folder, zones["zone"])


def _bikes(folder: Path) -> None:
    """A month of bike trips, each with its bike."""
    stations = pl.read_parquet(DATA / "bikes14_stations.parquet")
    trips = pl.read_parquet(DATA / "bikes14_trips.parquet")
    trips = trips.filter(pl.col("start") < pl.datetime(2014, 2, 1))
    named = trips.join(stations, left_on="from_station", right_on="station_id")
    named = named.select("start", pl.col("name").alias("station"), "bike")
    named.write_csv(folder / "events.csv", datetime_format="%Y-%m-%dT%H:%M:%S")
    _lines(folder, stations["name"])


def _homebrew(folder: Path) -> None:
    """A year of changes to packages, in seconds since 1970, each with its author."""
    packages = pl.read_parquet(DATA / "homebrew_packages.parquet")
    events = pl.read_parquet(DATA / "homebrew_events.parquet")
    year = (pl.col("ts") >= 1_577_836_800) & (pl.col("ts") < 1_609_459_200)
    named = events.filter(year).join(packages, on="pkg").select("ts", "letter", "user")
    named.write_csv(folder / "events.csv")
    _lines(folder, packages["letter"])


def _lines(folder: Path, keys: pl.Series) -> None:
    """The public list of keys."""
    text = "\n".join(keys.cast(pl.String).drop_nulls().unique().sort().to_list())
    (folder / "keys.txt").write_text(text + "\n", encoding="utf-8")


TAXIS = {"zone": "US/Eastern", "origin": "2020-03-01", "until": "2020-03-15", "every": "1d"}
BIKES = {
    "zone": "America/Los_Angeles",
    "origin": "2014-01-01",
    "until": "2014-02-01",
    "every": "1d",
}
PACKAGES = {"clock": "seconds", "origin": "2020-01-01", "until": "2020-12-30", "every": "7d"}

streams = pytest.mark.parametrize(
    ("write", "options", "columns", "units"),
    [
        (_taxis, TAXIS, {"time": "pickup", "key": "zone"}, 14),
        (_bikes, BIKES, {"time": "start", "key": "station", "person": "bike"}, 31),
        (_homebrew, PACKAGES, {"time": "ts", "key": "letter", "person": "user"}, 52),
    ],
    ids=["taxis", "bikes", "packages"],
)
needs_data = pytest.mark.skipif(
    not (DATA / "nyc_zones.parquet").exists(),
    reason="the real streams are not there: put them into ../shared/data or set PENSTOCK_DATA",
)


def _check_chart(folder: Path, units: int) -> None:
    """It shows the keys of the public list over all units."""
    page = (folder / "chart.html").read_text(encoding="utf-8")
    (data,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page)
    shown = json.loads(data)
    keys = (folder / "keys.txt").read_text(encoding="utf-8").splitlines()
    assert len(shown["names"]) >= 20
    assert set(shown["names"]) <= set(keys)
    assert {len(each) for each in shown["estimate"]} == {units}


@needs_data
@streams
def test_four_commands_lead_to_a_chart(
    programs: Path,
    tmp_path: Path,
    write: Callable[[Path], None],
    options: dict[str, str],
    columns: dict[str, str],
    units: int,
) -> None:
    write(tmp_path)
    given = " ".join(f"--{name} {value}" for name, value in options.items())
    commands = [  # the first is pip install dist/*.whl
        f"penstock init events.toml --yes --from events.csv --keys keys.txt {given}",
        "penstock run events.toml",
        "penstock query events.toml counts --all --plot chart.html",
    ]
    for command in commands:
        program, *rest = shlex.split(command)
        _run(programs / program, *rest, folder=tmp_path)
    declared = tomllib.loads((tmp_path / "events.toml").read_text(encoding="utf-8"))["source"]
    assert declared | columns == declared  # found by names and types alone
    _check_chart(tmp_path, units)


@needs_data
@streams
def test_four_lines_lead_to_a_chart(
    programs: Path,
    tmp_path: Path,
    write: Callable[[Path], None],
    options: dict[str, str],
    columns: dict[str, str],
    units: int,
) -> None:
    write(tmp_path)
    given = ", ".join(f"{name}={value!r}" for name, value in (options | columns).items())
    lines = [
        "import penstock as ps",
        "keys = open('keys.txt').read().splitlines()",
        f"stream = ps.publish('events.csv', domain=keys, epsilon='1', window=1, {given})",
        "stream.plot(path='chart.html')",
    ]
    _run(programs / "python", "-c", "\n".join(lines), folder=tmp_path)
    _check_chart(tmp_path, units)
