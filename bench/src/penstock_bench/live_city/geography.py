"""The map of the simulated city: a district around each station, as GeoJSON for the dashboard."""

from __future__ import annotations

import json
import math
from typing import Any, Final

from penstock_bench.simulated.city import _LINE_NAMES, _LINES, City

MAP: Final = "city.geojson"
"""The name of the file in the folder of the city."""

MAP_KEY: Final = "station"
"""The property of a district that holds its key."""

_CORNERS: Final = 96
_MARGIN: Final = 0.9
_DEGREES: Final = 0.01
"""Degrees per unit of the plane. The city is nowhere: it lies around 0° north, 0° east."""

Point = tuple[float, float]


def city_map(city: City) -> dict[str, Any]:
    """The districts of a city: each point belongs to the nearest station.

    Parameters
    ----------
    city : City
        The city.

    Examples
    --------
    >>> found = city_map(City(stations=12, people=10))
    >>> len(found["features"]), found["features"][0]["properties"]["station"]
    (12, 'Grand Central')
    """
    places = [(float(x), float(y)) for x, y in city._places]
    reach = max(math.hypot(*place) for place in places) + _MARGIN
    edge = [
        (reach * math.cos(angle), reach * math.sin(angle))
        for angle in (2 * math.pi * corner / _CORNERS for corner in range(_CORNERS))
    ]
    features = []
    for index, (name, place) in enumerate(zip(city.keys, places, strict=True)):
        district = edge
        for other in places:
            if other != place:
                district = _nearer(district, place, other)
        ring = [[round(_DEGREES * x, 6), round(_DEGREES * y, 6)] for x, y in district]
        features.append(
            {
                "type": "Feature",
                "properties": {MAP_KEY: name, "line": _LINE_NAMES[index % _LINES]},
                "geometry": {"type": "Polygon", "coordinates": [[*ring, ring[0]]]},
            }
        )
    return {"type": "FeatureCollection", "features": features}


def written(city: City) -> str:
    """The map as the text of a file.

    Parameters
    ----------
    city : City
        The city.
    """
    return json.dumps(city_map(city), ensure_ascii=False, separators=(",", ":")) + "\n"


def _nearer(polygon: list[Point], one: Point, other: Point) -> list[Point]:
    """The part of a convex polygon that is nearer to one point than to another."""
    (ax, ay), (bx, by) = one, other
    middle = (bx * bx + by * by - ax * ax - ay * ay) / 2

    def beyond(point: Point) -> float:
        return point[0] * (bx - ax) + point[1] * (by - ay) - middle

    found = list[Point]()
    for begin, end in zip(polygon, [*polygon[1:], *polygon[:1]], strict=True):
        first, second = beyond(begin), beyond(end)
        if first <= 0:
            found.append(begin)
        if first * second < 0:
            part = first / (first - second)
            found.append(
                (begin[0] + part * (end[0] - begin[0]), begin[1] + part * (end[1] - begin[1]))
            )
    return found
