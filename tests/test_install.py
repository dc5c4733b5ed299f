"""From `pip install dist/*.whl` in an empty environment to a first chart of somebody's own CSV.

Environments are made at night. The quick twins unpack the same wheel, put it before everything
else on the path, and hide the packages of all extras.
"""

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
from importlib.metadata import packages_distributions
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


@pytest.mark.nightly
def test_the_five_lines_of_the_readme_run_without_extras(programs: Path, tmp_path: Path) -> None:
    _write_five_lines(tmp_path)
    _run(programs / "python", "-m", "doctest", "lines.txt", folder=tmp_path)


def _write_five_lines(folder: Path) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (lines,) = re.findall(
        r"^## Five lines\n\n```python\n(.*?)```", readme, re.DOTALL | re.MULTILINE
    )
    (folder / "lines.txt").write_text(lines, encoding="utf-8")


# -- the quick twins: the unpacked wheel, without extras -------------------------------------------

HIDDEN = """
import sys
class Hiding:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {names!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Hiding())
import penstock
assert penstock.__file__.startswith({folder!r}), penstock.__file__
"""


@pytest.fixture(scope="module")
def run_unpacked(tmp_path_factory: pytest.TempPathFactory, dist: Path) -> Callable[..., str]:
    """Runs Python code with the files of the wheel; no extra can be imported."""
    folder = tmp_path_factory.mktemp("unpacked")
    (wheel,) = dist.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(folder)
    first = HIDDEN.format(names=_packages_of_extras(), folder=str(folder))

    def run(code: str, *arguments: str, work: Path) -> str:
        command = [sys.executable, "-c", first + code, *arguments]
        environment = OUTSIDE | {"PYTHONPATH": str(folder)}
        done = subprocess.run(command, cwd=work, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, (code, arguments, done.stdout, done.stderr)
        return done.stdout

    return run


def _packages_of_extras() -> list[str]:
    """What the extras install, by the names that are imported; not what Penstock itself needs."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = [_name(each) for each in project["dependencies"]]
    extras = project["optional-dependencies"]
    asked = {_name(each) for extra in extras.values() for each in extra} - {*named, "penstock"}
    modules = packages_distributions()
    return sorted(
        module
        for module, owners in modules.items()
        if {_name(owner) for owner in owners} & asked and not module.startswith("_")
    )


def _name(requirement: str) -> str:
    return re.split(r"[^A-Za-z0-9._-]", requirement)[0].lower().replace("_", "-")


def test_the_packages_of_extras_are_known() -> None:
    hidden = set(_packages_of_extras())
    assert hidden >= {"fastapi", "matplotlib", "scipy", "hypothesis", "pandas", "numba"}
    assert not hidden & {"numpy", "polars", "pyarrow", "rich", "penstock"}


def test_the_five_lines_run_from_the_wheel_without_extras(
    run_unpacked: Callable[..., str], tmp_path: Path
) -> None:
    _write_five_lines(tmp_path)
    code = "import doctest; assert not doctest.testfile('lines.txt', module_relative=False).failed"
    run_unpacked(code, work=tmp_path)


def test_commands_and_lines_lead_to_a_chart_without_extras(
    run_unpacked: Callable[..., str], tmp_path: Path
) -> None:
    rows = [
        f"2026-01-{day:02}T{key % 24:02}:30:00,stop {key:02},{day * key}"
        for day in range(1, 15)
        for key in range(24)
    ]
    (tmp_path / "events.csv").write_text("start,station,bike\n" + "\n".join(rows) + "\n", "utf-8")
    (tmp_path / "keys.txt").write_text("".join(f"stop {key:02}\n" for key in range(24)), "utf-8")
    program = "from penstock.cli import main; raise SystemExit(main(sys.argv[1:]))"
    options = {"zone": "UTC", "origin": "2026-01-01", "until": "2026-01-15", "every": "1d"}
    for command in _commands(options):
        _, *rest = shlex.split(command)
        run_unpacked(program, *rest, work=tmp_path)
    _check_chart(tmp_path, 14)
    for made in (tmp_path / "chart.html", *tmp_path.glob("events.db*")):
        made.unlink()
    columns = {"time": "start", "key": "station", "person": "bike"}
    given = ", ".join(f"{name}={value!r}" for name, value in (options | columns).items())
    run_unpacked(_lines_of_python(given), work=tmp_path)
    _check_chart(tmp_path, 14)


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


def _commands(options: dict[str, str]) -> list[str]:
    """After `pip install dist/*.whl`, which is the first command."""
    given = " ".join(f"--{name} {value}" for name, value in options.items())
    return [
        f"penstock init events.toml --yes --from events.csv --keys keys.txt {given}",
        "penstock run events.toml",
        "penstock query events.toml counts --all --plot chart.html",
    ]


def _lines_of_python(given: str) -> str:
    lines = [
        "import penstock as ps",
        "keys = open('keys.txt').read().splitlines()",
        f"stream = ps.publish('events.csv', domain=keys, epsilon='1', window=1, {given})",
        "stream.plot(path='chart.html')",
    ]
    return "\n".join(lines)


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
@pytest.mark.nightly
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
    for command in _commands(options):
        program, *rest = shlex.split(command)
        _run(programs / program, *rest, folder=tmp_path)
    declared = tomllib.loads((tmp_path / "events.toml").read_text(encoding="utf-8"))["source"]
    assert declared | columns == declared  # found by names and types alone
    _check_chart(tmp_path, units)


@needs_data
@pytest.mark.nightly
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
    _run(programs / "python", "-c", _lines_of_python(given), folder=tmp_path)
    _check_chart(tmp_path, units)
