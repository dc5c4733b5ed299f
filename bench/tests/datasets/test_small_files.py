"""What each reader makes of a few rows, written here: nothing of the real data is needed."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.core.errors import InputError
from penstock.core.hierarchy import Hierarchy
from penstock_bench.datasets.bikes import BikeDepartures, Bikes
from penstock_bench.datasets.covid import Covid
from penstock_bench.datasets.flights import FlightRoutes, Flights, FlightsByState
from penstock_bench.datasets.taxi import TaxiPassengers, TaxiZones
from penstock_bench.datasets.turnstiles import Stations, Turnstiles

from bench.tests.datasets.holding import times, write


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.setenv("PENSTOCK_DATA", str(tmp_path))
    return tmp_path


def test_every_region_has_three_levels_and_corrections_count_as_nothing(here):
    write(
        here,
        jhu_covid_keys={
            "key_id": [4, 1, 2],
            "country": ["US", "Chile", "Chile"],
            "province": ["Ohio", "", "Maule"],
            "county": ["Erie", "", ""],
        },
        jhu_covid_daily={
            "day": [1, 1, 2, 479],
            "key_id": [1, 4, 4, 2],
            "new_confirmed": [5, 6, -3, 7],
            "new_deaths": [0, 0, 0, 0],
        },
    )
    stream = Covid().make()
    assert isinstance(stream.domain, Hierarchy)
    assert stream.domain.keys == (
        "Erie, Ohio, US",
        "as a whole, as a whole, Chile",
        "as a whole, Maule, Chile",
    )
    assert {len(path) for path in stream.domain.paths} == {2}
    counts = stream.matrix()
    assert counts.shape == (480, 3)
    assert counts[0].tolist() == [0, 0, 0]
    assert counts[1].tolist() == [6, 5, 0]
    assert counts[2].tolist() == [0, 0, 0]
    assert counts[479].tolist() == [0, 0, 7]


@pytest.fixture
def subway(here):
    write(
        here,
        mta_keys={
            "key_id": [7, 8, 9],
            "division": ["BMT", "BMT", "IND"],
            "station": ["1 AV", "1 AV", "A/B ST"],
            "lines": ["L", "L", "G"],
            "unit": ["R1", "R1", "R2"],
            "control_area": ["H1", "H2", "N1"],
            "scp": ["00-00", "00-00", "00-00"],
        },
        mta_turnstile={
            "slot": np.array([0, 0, 293], np.int16),
            "key_id": np.array([7, 8, 9], np.int16),
            "entries": np.array([30_000, 2, 3], np.int16),
            "exits": np.array([30_000, 5, 0], np.int16),
        },
    )


def test_turnstiles_have_five_levels_and_both_ways_are_added_without_overflow(subway):
    stream = Turnstiles().make()
    assert isinstance(stream.domain, Hierarchy)
    assert stream.domain.height == 5
    assert stream.domain.paths[2] == ("IND", "A-B ST (G)", "R2", "N1")
    assert stream.matrix()[0].tolist() == [60_000, 7, 0]
    assert stream.matrix()[293].tolist() == [0, 0, 3]


def test_stations_add_up_their_turnstiles_and_a_share_may_be_taken(subway):
    stream = Stations().make()
    assert stream.domain.keys == ("1 AV (L)", "A-B ST (G)")
    assert stream.totals.tolist() == [60_007, 3]
    assert abs(Stations(share="1/2").make().totals[0] - 30_000) < 800  # six standard deviations


@pytest.mark.parametrize("kind", [Turnstiles, Stations])
def test_a_turnstile_that_nobody_named_is_refused(here, subway, kind):
    columns = {"slot": [0], "key_id": [3], "entries": [1], "exits": [1]}
    write(
        here, mta_turnstile={name: np.array(values, np.int16) for name, values in columns.items()}
    )
    with pytest.raises(InputError):
        kind().make()


@pytest.fixture
def taxis(here):
    write(
        here,
        nyc_zones={
            "zone_id": [2, 5, 9],
            "borough": ["Queens", "Bronx", "Queens"],
            "zone": ["Corona", "A/B", "Corona"],
        },
        nyc_green_2021_jan_may={
            "pickup": times(["2021-01-01T03:59", "2021-01-01T04:00", "2021-01-02T23:59"]),
            "pu_zone": [9, 9, 5],
            "passengers": [None, 6, 1],
        },
    )


def test_zones_of_the_same_name_are_told_apart_and_units_begin_at_midnight(taxis):
    stream = TaxiZones().make()
    assert stream.domain.keys == ("Corona (2)", "A/B", "Corona (9)")
    counts = stream.matrix()
    assert counts.shape == (12, 3)
    assert [counts[0, 2], counts[1, 2], counts[11, 1], counts.sum()] == [1, 1, 1, 3]


def test_trips_without_a_number_of_passengers_are_left_out(taxis):
    stream = TaxiPassengers().make()
    counts = stream.matrix()
    assert counts.shape == (2 * 288, 6)
    assert counts.sum() == 2
    assert counts[48, 5] == counts[2 * 288 - 1, 0] == 1
    assert TaxiPassengers(minutes=60).make().period == 24


def test_a_trip_from_nowhere_is_refused(here, taxis):
    write(
        here,
        nyc_zones={
            "zone_id": [2, 9],
            "borough": ["Queens", "Queens"],
            "zone": ["Corona", "Elmhurst"],
        },
    )
    with pytest.raises(InputError):
        TaxiZones().make()


@pytest.fixture
def stations(here):
    write(
        here,
        bikes14_stations={
            "station_id": [3, 9],
            "name": ["North", "South"],
            "city": ["San Jose", "Palo Alto"],
        },
        bikes14_visits={
            "bike": [1, 1, 2],
            "station": [3, 9, 9],
            "arrive": times(["2014-01-01T00:30", "2014-01-01T04:00", "2014-01-01T01:05"]),
            "leave": times(["2014-01-01T03:00", "2014-01-01T05:10", "2014-01-01T01:55"]),
        },
        bikes14_trips={
            "start": times(["2014-01-01T00:59", "2014-12-31T23:33"]),
            "from_station": [9, 3],
        },
    )


def test_a_bike_stands_at_a_station_from_the_full_hour_after_it_comes_until_it_goes(stations):
    counts = Bikes().make().matrix()
    assert counts.shape == (8_760, 2)
    assert counts[:7].tolist() == [[0, 0], [1, 0], [1, 0], [0, 0], [0, 1], [0, 1], [0, 0]]
    assert counts.sum() == 4


def test_bike_trips_count_where_they_begin(stations):
    stream = BikeDepartures().make()
    assert isinstance(stream.domain, Hierarchy)
    assert stream.domain.paths == (("San Jose",), ("Palo Alto",))
    counts = stream.matrix()
    assert counts[0].tolist() == [0, 1]
    assert counts[8_759].tolist() == [1, 0]


@pytest.fixture
def airports(here):
    write(
        here,
        flights2001_airports={
            "airport_id": [0, 1, 200],
            "iata": ["BOS", "LAX", "MQT"],
            "city": ["Boston", "Los Angeles", None],
            "state": ["MA", "CA", None],
            "longitude": [-71.0, -118.4, -87.4],
        },
        flights2001_events={
            "minute": np.array([1, 59, 60, 130], np.int32),
            "origin": np.array([200, 200, 0, 1], np.int16),
            "dest": np.array([200 - 199, 0, 200, 0], np.int16),
        },
    )


def test_airports_lie_from_west_to_east(airports):
    stream = Flights().make()
    assert stream.domain.keys == ("LAX", "MQT", "BOS")
    assert stream.matrix().tolist() == [[0, 2, 0], [0, 0, 1], [1, 0, 0]]


def test_airports_lie_in_cities_and_states_or_elsewhere(airports):
    stream = FlightsByState().make()
    assert isinstance(stream.domain, Hierarchy)
    assert stream.domain.paths == (
        ("CA", "Los Angeles"),
        ("elsewhere", "elsewhere"),
        ("MA", "Boston"),
    )


def test_routes_are_those_that_were_flown(airports):
    stream = FlightRoutes().make()
    assert stream.domain.keys == ("BOS to MQT", "LAX to BOS", "MQT to BOS", "MQT to LAX")
    assert stream.matrix().tolist() == [[0, 0, 1, 1], [1, 0, 0, 0], [0, 1, 0, 0]]
