from __future__ import annotations

import numpy as np
import pytest

from penstock.core.errors import ConfigurationError
from penstock.core.product import Product
from penstock_bench.simulated.fleet import Fleet, Roads

DAY = 24


def test_every_vehicle_is_in_one_cell_in_every_hour():
    fleet = Fleet(vehicles=700)
    cells = list(fleet.hours(30))
    assert all(
        where.shape == (700,) and where.min() >= 0 and where.max() < fleet.domain.size
        for where in cells
    )
    counts = fleet.counts(30)
    assert fleet.domain == Product.grid(10, 10)
    assert np.array_equal(counts[7], np.bincount(cells[7], minlength=100))
    assert (counts.sum(axis=1) == 700).all()


def test_the_same_seed_is_the_same_fleet_and_another_is_not():
    one, two, other = (Fleet(vehicles=300, seed=seed).counts(20) for seed in (4, 4, 5))
    assert np.array_equal(one, two)
    assert not np.array_equal(one, other)


def test_a_coarser_grid_shows_the_same_fleet():
    fine = Fleet(vehicles=500, rows=20, columns=30).counts(10)
    coarse = Fleet(vehicles=500, rows=10, columns=10).counts(10)
    assert np.array_equal(
        fine.reshape(10, 10, 2, 10, 3).sum(axis=(2, 4)), coarse.reshape(10, 10, 10)
    )


def test_a_longer_run_begins_with_the_shorter_one():
    fleet = Fleet(vehicles=200)
    assert np.array_equal(fleet.counts(60)[:25], fleet.counts(25))


def test_vehicles_wait_at_night_and_move_by_day():
    cells = np.array(list(Fleet(vehicles=3_000).hours(7 * DAY)))
    moved = (np.diff(cells, axis=0) != 0).mean(axis=1)
    hour = np.arange(1, 7 * DAY) % DAY
    assert moved[hour == 18].mean() > 2 * moved[hour == 5].mean()


def test_the_same_hour_of_another_weekday_is_nearer_than_another_hour():
    counts = Fleet(vehicles=20_000).counts(7 * DAY)
    noon, next_noon, night = (counts[3 * DAY + 12], counts[4 * DAY + 12], counts[4 * DAY + 2])
    assert np.abs(noon - next_noon).sum() < 0.5 * np.abs(noon - night).sum()


def test_offices_are_quieter_at_weekends():
    counts = Fleet(vehicles=20_000).counts(7 * DAY).reshape(7, DAY, 10, 10)
    office = counts[:, 13, 5, 5]
    assert office[:2].mean() < 0.8 * office[2:].mean()


def test_objects_are_on_the_map_and_come_and_go():
    roads = Roads(objects=2_000, rows=8, columns=16)
    units = list(roads.units(120))
    assert all(place.min() >= 0 and place.max() <= 1 for place in units)
    assert len({len(place) for place in units}) > 20
    counts = roads.counts(120)
    assert counts.shape == (120, 128)
    assert counts.sum(axis=1).tolist() == [len(place) for place in units]


def test_nobody_drives_further_in_a_unit_than_the_fastest_street_allows():
    """Those who were there before keep their order, so the first rows that are still there can be
    compared.
    """
    roads = Roads(objects=1, seed=3)
    trails = [place[0] for place in roads.units(6) if len(place)]
    steps = np.abs(np.diff(trails, axis=0)).sum(axis=1)
    assert (steps <= 2 / 75 + 1e-9).all()
    assert steps.max() > 0


def test_rushes_fill_the_roads_first_towards_the_middle():
    counts = Roads(objects=5_000, rows=4, columns=4).counts(1_000)
    total = counts.sum(axis=1)
    assert total[:100].mean() == pytest.approx(5_000, rel=0.15)
    assert min(total[280:350].mean(), total[680:750].mean()) > 1.5 * total[450:550].mean()


def test_the_same_seed_is_the_same_traffic_and_another_is_not():
    one, two, other = (Roads(objects=300, seed=seed).counts(20) for seed in (4, 4, 5))
    assert np.array_equal(one, two)
    assert not np.array_equal(one, other)


@pytest.mark.parametrize("kind", [Fleet, Roads])
@pytest.mark.parametrize("wrong", [{"rows": 0}, {"columns": 0}, {"seed": -1}])
def test_an_impossible_map_is_refused(kind, wrong):
    with pytest.raises(ConfigurationError):
        kind(**wrong)


@pytest.mark.parametrize(("kind", "wrong"), [(Fleet, {"vehicles": 0}), (Roads, {"objects": 0})])
def test_nobody_on_the_map_is_refused(kind, wrong):
    with pytest.raises(ConfigurationError):
        kind(**wrong)


def test_a_stream_has_at_least_one_unit():
    with pytest.raises(ConfigurationError):
        Fleet(vehicles=5).counts(0)
    with pytest.raises(ConfigurationError):
        Roads(objects=5).counts(0)
