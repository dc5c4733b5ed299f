"""The small modules behind views, each called in a page as views call it."""

from __future__ import annotations

import re
from typing import Any

import pytest

from penstock.core.guarantee import Guarantee

from tests.browser import needs_chromium
from tests.service.browser.dashboard import Dashboard

pytestmark = [needs_chromium, pytest.mark.slow]

SQUARE = [[0, 0], [0, 10], [10, 10], [10, 0], [0, 0]]


def called(dashboard: Dashboard, module: str, expression: str, argument: Any = None) -> Any:
    """The value of an expression that uses a module as `it` and the argument as `given`."""
    if dashboard.page.url == "about:blank":
        dashboard.open(None)
    script = (
        f"async (given) => {{ const it = await import('/assets/{module}'); return {expression}; }}"
    )
    return dashboard.page.evaluate(script, argument)


def test_the_page_never_shows_a_promise_as_more_than_it_is(dashboard: Dashboard) -> None:
    """Its own numbers are those of the sentence that Python makes, or a little above them."""
    for epsilon in ("1/100", "1/3", "1/2", "1", "2", "7/2", "6"):
        bound = Guarantee(epsilon, 24).clauses.bound
        factor, belief = (
            float(number) for number in re.findall(r"([\d.]+) (?:times|% at most)", bound)
        )
        promise = {"epsilon": epsilon, "delta": "0"}
        found = called(
            dashboard,
            "views/promise_numbers.js",
            "[it.likelihood(given), 100 * it.belief(given), 100 * it.suspicion(given, 0.5)]",
            promise,
        )
        for shown, true in zip(found, (factor, belief, belief), strict=True):
            assert shown == pytest.approx(true, rel=0.011)
        exact = called(
            dashboard, "views/promise_numbers.js", "Math.exp(it.fraction(given))", epsilon
        )
        assert found[0] >= exact * (1 - 1e-12)


def test_a_guess_under_delta_is_bounded_as_python_says(dashboard: Dashboard) -> None:
    promise = Guarantee("1", 24, delta="1/1000")
    shown = called(
        dashboard,
        "views/promise_numbers.js",
        "it.belief(given)",
        {"epsilon": "1", "delta": "1/1000"},
    )
    said = re.search(r"right in at most ([\d.]+) % of cases", promise.clauses.bound)
    assert said is not None
    assert 100 * shown == pytest.approx(float(said[1]), rel=1e-3)


def test_shapes_are_fitted_into_the_box_north_up(dashboard: Dashboard) -> None:
    fitted = """(() => {
      const shapes = it.features({type: "FeatureCollection", features: given}, "zone");
      const place = it.projection(shapes).fit(400, 300, 20);
      const corners = shapes.flatMap((shape) => shape.rings.flat());
      return [shapes.map((shape) => shape.key), corners.map(place)];
    })()"""
    feature = {
        "type": "Feature",
        "properties": {"zone": 7},
        "geometry": {"type": "MultiPolygon", "coordinates": [[SQUARE]]},
    }
    keys, corners = called(dashboard, "views/map_geometry.js", fitted, [feature])
    assert keys == ["7"]
    xs, ys = ([corner[axis] for corner in corners] for axis in (0, 1))
    assert min(xs) >= 20 - 1e-6
    assert max(xs) <= 380 + 1e-6
    assert (min(ys), max(ys)) == (pytest.approx(20), pytest.approx(280))
    south, north = corners[0], corners[1]
    assert north[1] < south[1]


def test_coordinates_that_are_no_degrees_stay_in_proportion(dashboard: Dashboard) -> None:
    ratio = called(
        dashboard,
        "views/map_geometry.js",
        "it.projection([{points: [], lines: [], rings: [given]}]).ratio",
        [[600_000, 200_000], [600_000, 203_000], [601_000, 203_000]],
    )
    assert ratio == pytest.approx(3)


def test_an_arrow_key_goes_to_the_nearest_area_ahead(dashboard: Dashboard) -> None:
    places = [[0, 0], [10, 1], [10, 30], [-5, 0]]
    step = "['Right', 'Left', 'Up', 'Down'].map((way) => it.neighbour(given, 0, `Arrow${way}`))"
    assert called(dashboard, "views/map_geometry.js", step, places) == [1, 3, None, 2]


def test_alerts_become_bars_from_raising_to_clearing(dashboard: Dashboard) -> None:
    events = [
        {"rule": "crowd", "key": key, "unit": unit, "state": state}
        for key, unit, state in [
            ("a", 9, "raised"),
            ("a", 3, "raised"),
            ("a", 5, "cleared"),
            ("b", 4, "cleared"),
        ]
    ]
    bars = called(
        dashboard,
        "parts/lanes.js",
        "it.barsOf(given).map(({key, from, to}) => [key, from, to])",
        events,
    )
    assert bars == [["a", 3, 5], ["a", 9, None]]
