from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from penstock.core.errors import ConfigurationError
from penstock_bench.datasets.worldcup import NOTICE, WorldCup, WorldCupFewer, scaled

from bench.tests.datasets.holding import write

START, DAY, MINUTE = (
    np.datetime64("1998-04-30", "ms"),
    np.timedelta64(1, "D"),
    np.timedelta64(1, "m"),
)


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Three minutes of requests on the first day, the second and the last; five pages, of which two
    are there at first.
    """
    monkeypatch.setenv("PENSTOCK_DATA", str(tmp_path))
    second_day = int((START + DAY).astype("datetime64[s]").astype(np.int64))
    write(
        tmp_path,
        wc98_minute={
            "minute": np.array([START + 1_290 * MINUTE, START + DAY, START + 88 * DAY - MINUTE]),
            "requests": np.array([100, 2_000, 30], np.int32),
        },
        wc98_objects={"object_id": [0, 1, 2, 4, 3], "url": ["/a", "/b", "/a", "/e", "/d"]},
        wc98_files={"start_epoch": [second_day - 9_000, second_day], "max_object_id": [1, 4]},
    )
    (tmp_path / NOTICE).write_text("all rights reserved", encoding="utf-8")
    return tmp_path


def test_units_are_parts_of_the_days_and_have_the_real_load(here):
    stream = WorldCup(keys=5).make()
    assert (stream.units, stream.period) == (1_320, 15)
    load = stream.matrix().sum(axis=1)
    assert np.flatnonzero(load).tolist() == [13, 15, 1_319]
    assert load[load > 0].tolist() == [100, 2_000, 30]
    assert WorldCup(keys=5, per_day=24).make().units == 2_112


def test_pages_are_asked_for_from_when_they_are_there(here):
    counts = WorldCup(keys=5).make().matrix()
    assert not counts[13, 2:].any()
    assert counts[15, 2:].all()


def test_pages_of_the_same_address_are_told_apart(here):
    assert WorldCup(keys=5).make().domain.keys == ("/a (0)", "/b", "/a (2)", "/d", "/e")
    assert WorldCup(keys=4).make().domain.keys == ("/a (0)", "/b", "/a (2)", "/d")


def test_more_pages_than_there_are_is_refused(here):
    with pytest.raises(ConfigurationError, match="keys must be at most 5"):
        WorldCup(keys=6).make()


def test_a_share_of_the_requests_keeps_the_shape_of_the_load(here):
    assert WorldCup(keys=5, scale="0.1").make().matrix().sum(axis=1)[[13, 15, 1_319]].tolist() == [
        10,
        200,
        3,
    ]


def test_the_notice_is_that_of_the_files_and_they_are_not_used_without_it(here):
    assert WorldCup().missing() is None
    assert WorldCup().notice() == "all rights reserved"
    (here / NOTICE).unlink()
    assert NOTICE in str(WorldCup().missing())
    assert "Hewlett-Packard" in WorldCup().notice()


def test_a_scaled_load_loses_nothing_on_the_way():
    load = np.random.default_rng(1).integers(0, 10**6, 300)
    for scale in ("1", "0.37", "1/1000"):
        part = scaled(load, scale)
        assert part.min() >= 0
        assert np.abs(part - load * float(Fraction(scale))).max() <= 1
    assert scaled(load, "0.5").sum() == load.sum() // 2


@pytest.mark.parametrize(
    "wrong",
    [{"per_day": 7}, {"per_day": 0}, {"keys": 0}, {"scale": "0"}, {"scale": "2"}, {"seed": -1}],
)
def test_an_impossible_world_cup_is_refused(wrong):
    with pytest.raises(ConfigurationError):
        WorldCupFewer(**wrong)
