from __future__ import annotations

import numpy as np
import pytest

from penstock.core.errors import ConfigurationError
from penstock_bench.datasets.traffic import PERIOD, CityTraffic, Traffic


@pytest.mark.parametrize("roads", [4, 5, 12, 13, 200, 25_936])
def test_there_are_exactly_so_many_roads(roads):
    traffic = Traffic(roads=roads)
    assert traffic.domain.size == roads
    assert (
        2 * (traffic.streets - 1) * (traffic.streets - 2)
        < roads
        <= 2 * traffic.streets * (traffic.streets - 1)
    )


def test_about_so_many_people_drive_at_the_peak_and_few_at_night():
    traffic = Traffic(roads=300, people=10_000)
    weekday = np.array([traffic.expected(unit).sum() for unit in range(1, PERIOD + 1)])
    assert weekday.max() == pytest.approx(10_000, rel=0.35)
    assert weekday[18:24].mean() < 0.15 * weekday.max()


def test_weekends_have_no_morning_rush():
    traffic = Traffic(roads=300, people=10_000)
    morning = [
        np.mean([traffic.draw(day * PERIOD + clock).sum() for clock in range(46, 54)])
        for day in range(7)
    ]
    assert max(morning[5:]) < 0.6 * min(morning[:5])


def test_main_roads_and_the_middle_are_busier():
    busy = Traffic(roads=2_000).expected(50)
    assert np.sort(busy)[-200:].sum() > 0.25 * busy.sum()


def test_a_unit_is_the_same_in_whatever_order_units_are_read_and_another_seed_is_another():
    one, two = Traffic(roads=100), Traffic(roads=100)
    late = one.draw(70)
    one.draw(2)
    assert np.array_equal(one.draw(70), late)
    assert np.array_equal(two.draw(70), late)
    assert not np.array_equal(Traffic(roads=100, seed=2).draw(70), late)


def test_jams_fill_a_few_roads():
    traffic = Traffic(roads=2_000)
    (first, end), roads = traffic._jams(0)[0]
    before, during = traffic.expected(first), traffic.expected(first + 1)
    assert 3 <= end - first < 15
    assert (during[roads] > 2 * before[roads]).all()


def test_the_stream_is_as_long_as_the_papers():
    stream = CityTraffic().load()
    assert (stream.units, stream.domain.size) == (1_442, 25_936)
    assert next(stream.rows(1_442)).sum() > 0


@pytest.mark.parametrize("wrong", [{"roads": 3}, {"people": 0}, {"seed": -1}])
def test_an_impossible_city_is_refused(wrong):
    with pytest.raises(ConfigurationError):
        Traffic(**wrong)
