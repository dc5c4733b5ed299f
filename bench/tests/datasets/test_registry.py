from __future__ import annotations

import importlib
import json

import pytest

from penstock.core.errors import ConfigurationError
from penstock_bench.datasets.base import Dataset
from penstock_bench.datasets.registry import DATASETS, find, names, table

PLUGIN = """
from dataclasses import dataclass
from typing import ClassVar
import numpy as np
from penstock.core.domain import Domain
from penstock_bench.datasets.base import Dataset
from penstock_bench.datasets.counts import CountTable

@dataclass(frozen=True)
class Rain(Dataset):
    name: ClassVar[str] = "rain"
    title: ClassVar[str] = "rainy days"
    licence: ClassVar[str] = "generated"
    unit: ClassVar[str] = "a day"
    person: ClassVar[str] = "a drop"
    drops: int = 4
    def make(self):
        return CountTable(Domain(("rain",)), np.full((3, 1), self.drops))

class Picky(Rain):
    def __init__(self, needed): ...

heavy = Rain(9)
nothing = 5
"""


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    """An installed package of one file with three entry points, of which one leads nowhere."""
    (tmp_path / "weather_of_others.py").write_text(PLUGIN, encoding="utf-8")
    about = tmp_path / "weather_of_others-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: weather-of-others\nVersion: 1.0\n", encoding="utf-8"
    )
    points = (
        "[penstock.datasets]\nrain = weather_of_others:Rain\nheavy = "
        "weather_of_others:heavy\nlost = weather_of_others:lost\n"
    )
    (about / "entry_points.txt").write_text(points, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()


def test_every_dataset_is_found_by_its_name_and_is_like_no_other():
    assert all(find(name) is dataset and dataset.name == name for name, dataset in DATASETS.items())
    assert (
        len(set(DATASETS.values()))
        == len(DATASETS)
        == len({dataset.title for dataset in DATASETS.values()})
    )


@pytest.mark.parametrize("dataset", DATASETS.values(), ids=DATASETS)
def test_every_dataset_says_what_it_is(dataset: Dataset):
    for fact in (
        dataset.title,
        dataset.licence,
        dataset.unit,
        dataset.person,
        dataset.key,
        dataset.notice(),
        dataset.__doc__,
    ):
        assert fact
    assert dataset.shape is not None
    assert dataset.levels >= 1
    assert (dataset.licence == "generated") == (
        not dataset.needs and dataset.name != "nycflights13"
    )


def test_parameters_replace_defaults():
    assert find("worldcup", scale="0.01", per_day=6) == type(DATASETS["worldcup"])(
        scale="0.01", per_day=6
    )
    with pytest.raises(ConfigurationError, match="no parameter depth: it takes"):
        find("worldcup", depth=3)
    with pytest.raises(ConfigurationError, match="it takes none"):
        find("births", scale=1)


def test_a_name_that_is_not_there_is_refused_with_those_that_are():
    with pytest.raises(
        ConfigurationError, match=r"no dataset 'worldcap': use worldcup, .* 'module:Class'"
    ):
        find("worldcap")


@pytest.mark.parametrize("name", ["rain", "weather_of_others:Rain"])
def test_a_dataset_of_another_package_is_found_and_takes_parameters(plugin, name):
    assert find(name).load().total == 12
    assert find(name, drops=2).load().total == 6


def test_an_entry_point_may_be_a_dataset_with_parameters(plugin):
    assert find("heavy").load().total == 27
    assert set(names()) - set(DATASETS) >= {"rain", "heavy", "lost"}


@pytest.mark.parametrize(
    "name",
    [
        "lost",
        "weather_of_others:nothing",
        "weather_of_others:Picky",
        "weather_of_others:absent",
        "no_such_module:Rain",
    ],
)
def test_what_is_no_dataset_is_refused(plugin, name):
    with pytest.raises(ConfigurationError):
        find(name)


def test_the_listing_is_plain_data_and_survives_a_broken_package(plugin):
    rows = {row["name"]: row for row in table()}
    assert json.loads(json.dumps(list(rows.values()))) == list(rows.values())
    assert len({tuple(row) for row in rows.values()}) == 1
    assert "cannot be loaded" in rows["lost"]["missing"]
    assert rows["rain"]["missing"] is None
    assert rows["traffic"] == {
        "name": "traffic",
        "title": "city traffic by road, as large as Rome's",
        "units": 1_442,
        "keys": 25_936,
        "unit": "10 minutes",
        "key": "a road",
        "levels": 1,
        "period": 144,
        "person": "a commuter",
        "licence": "generated",
        "parameters": {"units": 1_442, "roads": 25_936, "people": 200_000, "seed": 1},
        "missing": None,
    }


def test_the_listing_says_what_is_missing(tmp_path, monkeypatch):
    monkeypatch.setenv("PENSTOCK_DATA", str(tmp_path))
    missing = {row["name"]: row["missing"] for row in table()}
    assert "wc98_minute.parquet" in missing["worldcup"]
    assert missing["wifi_high"] is None
