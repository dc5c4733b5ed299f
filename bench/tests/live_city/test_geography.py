"""The map of the city: every station has its district, and districts share the city."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from penstock_bench.live_city.geography import MAP_KEY, city_map, written
from penstock_bench.simulated.city import City

CITY = City(stations=60, people=10, seed=1)


def area(ring):
    x, y = np.array(ring).T
    return float(x[:-1] @ y[1:] - x[1:] @ y[:-1]) / 2


def inside(ring, point):
    """Whether a point is left of every edge of a convex ring."""
    ring = np.array(ring)
    edge, way = np.diff(ring, axis=0), np.array(point) - ring[:-1]
    return bool((edge[:, 0] * way[:, 1] - edge[:, 1] * way[:, 0] > 0).all())


@pytest.fixture(scope="module")
def rings():
    found = city_map(CITY)
    return {
        each["properties"][MAP_KEY]: each["geometry"]["coordinates"][0]
        for each in found["features"]
    }


def test_every_station_is_in_its_own_district_and_in_no_other(rings):
    assert tuple(rings) == CITY.keys
    for name, place in zip(CITY.keys, CITY._places * 0.01, strict=True):
        assert [each for each, ring in rings.items() if inside(ring, place)] == [name]


def test_districts_share_the_whole_city(rings):
    corners = np.array([point for ring in rings.values() for point in ring])
    reach = float(np.hypot(*corners.T).max())
    circle = 96 / 2 * math.sin(2 * math.pi / 96) * reach**2
    assert sum(map(area, rings.values())) == pytest.approx(circle, rel=1e-3)


def test_the_file_is_geojson(rings):
    found = json.loads(written(CITY))
    assert found["type"] == "FeatureCollection"
    for each in found["features"]:
        assert each["type"] == "Feature"
        (ring,) = each["geometry"]["coordinates"]
        assert ring[0] == ring[-1]
        assert len(ring) >= 4
        assert area(ring) > 0  # counter-clockwise, as RFC 7946 wants it
