from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from penstock.core.arrays import IntArray
from penstock.core.errors import ConfigurationError
from penstock_bench.simulated.city import City

DAY, WEEK = 24, 168
CITY = City()


@pytest.fixture(scope="module")
def counts() -> IntArray:
    return CITY.counts(2 * WEEK)


def test_the_same_seed_builds_the_same_city(counts: IntArray) -> None:
    assert np.array_equal(City().counts(2 * WEEK), counts)
    assert City().keys == CITY.keys


def test_another_seed_builds_another_city(counts: IntArray) -> None:
    other = City(seed=2)
    assert other.keys != CITY.keys
    assert not np.array_equal(other.counts(DAY), counts[:DAY])


@pytest.mark.parametrize("hours", [0, 1, 23, 24, 25, 100])
def test_a_longer_run_begins_with_the_shorter_one(hours: int, counts: IntArray) -> None:
    assert np.array_equal(CITY.counts(hours), counts[:hours])


@pytest.mark.parametrize("hours", [0, 1, 50, 2 * WEEK])
def test_counts_are_the_histogram_of_moves(hours: int, counts: IntArray) -> None:
    person, hour, station = CITY.moves(hours)
    assert person.dtype == hour.dtype == station.dtype == np.int64
    histogram = np.zeros((hours, CITY.stations), dtype=np.int64)
    np.add.at(histogram, (hour, station), 1)
    assert np.array_equal(histogram, counts[:hours])


def test_nobody_taps_in_twice_in_an_hour() -> None:
    person, hour, station = CITY.moves(2 * WEEK)
    assert len(np.unique(hour * CITY.people + person)) == len(person)
    assert (person.min(), person.max() < CITY.people) == (0, True)
    assert (station.min() >= 0, station.max() < CITY.stations) == (True, True)


def test_people_move_between_stations() -> None:
    person, _, station = CITY.moves(DAY)
    visits = np.zeros((CITY.people, CITY.stations), dtype=bool)
    visits[person, station] = True
    assert (visits.sum(axis=1) >= 2).mean() > 0.5


def test_a_weekday_has_two_peaks_and_a_weekend_does_not(counts: IntArray) -> None:
    for day in (0, 1, 7, 10):
        taps = counts[day * DAY : (day + 1) * DAY].sum(axis=1)
        assert taps[6:10].max() > 2 * taps[10:12].min() < 2 * taps[16:19].max()
        assert taps[16:19].max() > 2 * taps[20]
        assert taps.max() > 20 * taps[3]
    saturday = counts[5 * DAY : 6 * DAY].sum(axis=1)
    assert saturday[7] < counts[7:8].sum() / 4
    assert saturday.argmax() >= 11


def test_a_few_hubs_and_many_small_stations(counts: IntArray) -> None:
    by_day = counts.reshape(-1, DAY, CITY.stations)[:, 6:22].mean(axis=(0, 1))
    assert (counts.max(axis=0) >= 300).sum() >= 4
    assert ((by_day >= 5) & (by_day <= 50)).mean() > 0.6


def test_the_concert_is_where_the_notes_say(counts: IntArray) -> None:
    hour = next(hour for hour, text in CITY.notes(2 * WEEK) if "concert" in text)
    arena = CITY.keys.index("Lantern Arena")
    assert counts[hour, arena] > 10 * counts[hour + WEEK, arena]
    assert counts[hour - 3, arena] < 60


def test_the_closure_empties_one_line_and_fills_its_neighbours(counts: IntArray) -> None:
    hour = next(hour for hour, text in CITY.notes(2 * WEEK) if "closed" in text)
    assert counts[hour : hour + 5, CITY.closed].sum() == 0
    assert counts[hour - 1, CITY.closed].sum() > 0 < counts[hour + 5, CITY.closed].sum()
    now, later = (
        counts[hour : hour + 5, ~CITY.closed].sum(),
        counts[hour + WEEK : hour + WEEK + 5, ~CITY.closed].sum(),
    )
    assert now > 1.05 * later


def test_the_new_quarter_grows_from_nothing(counts: IntArray) -> None:
    hour = next(hour for hour, text in CITY.notes(2 * WEEK) if "move into" in text)
    quarter = counts[:, CITY.keys.index("Orchard New Town")]
    assert quarter[:hour].sum() == 0
    assert 0 < quarter[:WEEK].sum() < quarter[WEEK:].sum() / 3


def test_notes_name_only_what_has_happened() -> None:
    assert CITY.notes(10) == []
    assert [hour for hour, _ in CITY.notes(2 * WEEK)] == [63, 72, 118]


@pytest.mark.parametrize("stations", [12, 60, 500])
def test_every_station_has_its_own_name(stations: int) -> None:
    keys = City(stations=stations, people=10).keys
    assert len(set(keys)) == len(keys) == stations


def test_units_are_named_as_people_say_them() -> None:
    assert City.unit_names(26)[25] == "Tue 01:00"
    assert City.unit_names(2 * WEEK)[WEEK + 8] == "W2 Mon 08:00"


def test_counting_needs_the_memory_of_one_day_only() -> None:
    peaks = []
    for days in (2, 20):
        city = City(people=5_000)
        city.counts(1)
        tracemalloc.start()
        city.counts(days * DAY)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0] + 20 * DAY * 60 * 8
    assert peaks[1] < 20e6


@pytest.mark.parametrize(
    "wrong", [{"stations": 11}, {"stations": 10_000}, {"people": 0}, {"seed": -1}]
)
def test_an_impossible_city_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(wrong))):
        City(**wrong)


def test_hours_before_the_first_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="hours=-1"):
        CITY.counts(-1)
