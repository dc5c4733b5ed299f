from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

from penstock.core.calendar import Calendar, instant
from penstock.core.errors import ConfigurationError
from penstock_bench.comparison_page import Demo, MechanismTrack, render

HOSTILE = "</script><script>alert('x')</script><!-- & \u2028 \"quoted\""


def track(units: int, keys: int, *, mechanism: str = "uniform", seed: int = 0) -> MechanismTrack:
    rng = np.random.default_rng(seed)
    released = np.round(rng.normal(50, 20, (units, keys)))
    return MechanismTrack(
        mechanism=mechanism,
        title=mechanism.title(),
        released=released,
        low=released - 12,
        high=released + 12,
        fresh=rng.random((units, keys)) < 0.5,
        spent=np.full(units, 0.25),
        window_spent=np.minimum(0.25 * np.arange(1, units + 1), 1.0),
        mae=12.34,
        mre=0.567,
    )


def demo(
    units: int = 6, keys: tuple[str, ...] = ("North", "South", "West"), **changes: Any
) -> Demo:
    made = Demo(
        title="A city",
        promise="Nobody can tell whether any one person was there.",
        epsilon="1",
        window=4,
        keys=keys,
        units=units,
        calendar=Calendar(every="1h", zone="Europe/Zurich", origin="2026-06-01"),
        truth=np.arange(units * len(keys)).reshape(units, len(keys)),
        tracks=(track(units, len(keys)),),
        notes=((0, "A concert"),),
        baselines=(("All zeros", 40.5, 0.99),),
        command="penstock demo",
    )
    return replace(made, **changes)


def block(page: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    data: dict[str, Any] = json.loads(found[1])
    return data


def matrix(rows: list[Any], keys: int) -> list[list[float | None]]:
    out: list[list[float | None]] = []
    for row in rows:
        out.append(out[-1] if row == "=" else row if isinstance(row, list) else [row] * keys)
    return out


class ComparisonPageReader(HTMLParser):
    """Tags and attributes as a browser would find them; scripts and styles apart."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.inside: list[str] = []
        self.words: dict[str, list[str]] = {}
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.inside.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while self.inside and self.inside.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        self.words.setdefault(self.inside[-1] if self.inside else "", []).append(data)


def test_the_page_loads_nothing() -> None:
    page = render(demo())
    reader = ComparisonPageReader(page)
    for _, attributes in reader.tags:
        assert not {"src", "srcset", "action", "poster"} & attributes.keys()
        assert (attributes.get("href") or "data:,").startswith("data:")
    assert "url(" not in page
    assert "@import" not in page
    for call in ("fetch(", "XMLHttpRequest", "WebSocket", "EventSource", "sendBeacon", "import("):
        assert call not in page
    assert set(re.findall(r"https?://[^\s\"'<>]*", page)) <= {"https://github.com/leeoniya/uPlot"}


def test_the_policy_allows_exactly_the_scripts_of_the_page() -> None:
    page = render(demo(keys=(HOSTILE, "b")))
    policy = next(
        tag["content"]
        for _, tag in ComparisonPageReader(page).tags
        if tag.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy is not None
    assert "default-src 'none'" in policy
    scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    assert len(scripts) == 4
    for script in scripts:
        assert base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() in policy


def test_no_template_field_is_left_open() -> None:
    page = render(demo())
    assert "{{" not in page
    assert "{%" not in page
    assert "Permission is hereby granted" in page


def test_hostile_names_stay_text() -> None:
    clean, page = (
        render(demo()),
        render(
            demo(
                title=HOSTILE,
                promise=HOSTILE,
                keys=(HOSTILE, "b", "c"),
                notes=((0, HOSTILE),),
                baselines=((HOSTILE, 40.5, 0.99),),
                command=HOSTILE,
                tracks=(replace(track(6, 3), mechanism=HOSTILE, title=HOSTILE),),
            )
        ),
    )
    assert [tag for tag, _ in ComparisonPageReader(page).tags] == [
        tag for tag, _ in ComparisonPageReader(clean).tags
    ]
    assert page.count("</script>") == clean.count("</script>") == 5
    assert block(page)["keys"][0] == HOSTILE
    assert block(page)["notes"][0][1] == HOSTILE


def test_the_data_round_trip() -> None:
    made = demo()
    data = block(render(made))
    (shown,) = data["tracks"]
    (given,) = made.tracks
    assert tuple(data["keys"]) == made.keys
    assert data["zone"] == "Europe/Zurich"
    assert data["starts"][0] == instant("2026-06-01T00:00+02:00") / 1e6
    assert len(data["starts"]) == made.units + 1
    assert matrix(data["truth"], 3) == made.truth.tolist()
    assert matrix(shown["released"], 3) == given.released.tolist()
    assert matrix(shown["below"], 3) == matrix(shown["above"], 3) == [[12] * 3] * 6
    fresh = [
        [c == "1" for c in row] if isinstance(row, str) else [bool(row)] * 3
        for row in shown["fresh"]
    ]
    assert fresh == given.fresh.tolist()
    assert shown["spent"] == given.spent.tolist()
    assert shown["windowSpent"] == given.window_spent.tolist()
    assert (shown["worst"], shown["kept"]) == (1, True)


def test_repeated_and_equal_rows_are_stored_once() -> None:
    released = np.array([[1.0, 2.0], [1.0, 2.0], [5.0, 5.0]])
    made = replace(track(3, 2), released=released, low=released - 1, high=released + 1)
    (shown,) = block(render(demo(3, ("a", "b"), tracks=(made,))))["tracks"]
    assert shown["released"] == [[1, 2], "=", 5]
    assert shown["below"] == [1, "=", "="]


def test_what_is_not_known_is_null() -> None:
    given = track(2, 2)
    made = replace(
        given,
        low=np.full((2, 2), -np.inf),
        high=np.array([[np.nan, 1e9], [1.0, 2.0]]),
        mae=float("nan"),
    )
    page = render(demo(2, ("a", "b"), tracks=(made,), notes=()))
    (shown,) = block(page)["tracks"]
    assert shown["below"] == [None, "="]
    assert shown["above"][0][0] is None
    assert shown["mae"] is None
    assert "unknown" in page


def test_the_errors_are_there_without_scripts_and_sorted() -> None:
    tracks = (
        replace(track(6, 3), mae=77.7),
        replace(track(6, 3, mechanism="ba"), mae=3.21, mre=0.9),
    )
    page = render(demo(tracks=tracks))
    rows = re.findall(r'<span class="value">([\d.]+)', page)
    assert rows == ["3.21", "0.90", "40.5", "0.99", "77.7", "0.57"]
    words = " ".join(page.split())
    assert (
        "Ba has the lowest absolute error (3.21); Uniform has the lowest relative error (0.57)."
        in words
    )
    assert "“All zeros” beats 1 of 2 by absolute error and none by relative error." in words
    assert "<noscript>" in page


@pytest.mark.parametrize(("worst", "kept"), [(1.0, True), (1 + 1e-12, True), (1.01, False)])
def test_a_broken_promise_is_not_hidden(worst: float, kept: bool) -> None:
    made = replace(track(6, 3), window_spent=np.full(6, worst))
    (shown,) = block(render(demo(tracks=(made,))))["tracks"]
    assert shown["kept"] is kept


@pytest.mark.parametrize("name", ["released", "low", "high", "fresh", "spent", "window_spent"])
def test_a_track_of_another_shape_is_refused(name: str) -> None:
    good = track(6, 3)
    bad = replace(good, **{name: getattr(good, name)[:-1]})
    with pytest.raises(
        ConfigurationError, match=rf"track 'uniform': {name} has shape \(5.*expected \(6"
    ):
        demo(tracks=(bad,))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"truth": np.zeros((3, 6), dtype=np.int64)},
            r"truth has shape \(3, 6\), expected \(6, 3\)",
        ),
        ({"epsilon": "0"}, "epsilon='0'"),
        ({"epsilon": "one"}, "epsilon='one'"),
        ({"epsilon": "1/0"}, "epsilon='1/0'"),
        ({"window": 0}, "window=0"),
        ({"tracks": ()}, "at least one"),
        ({"keys": ("a", "a", "b")}, "own name"),
        ({"tracks": (track(6, 3), track(6, 3))}, "own mechanism"),
        ({"notes": ((6, "too late"),)}, r"unit 6 is not one of 0\.\.5"),
        ({"tracks": (replace(track(6, 3), fresh=np.ones((6, 3))),)}, "expected bool"),  # type: ignore[arg-type]
    ],
)
def test_a_demo_that_cannot_be_shown_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        demo(**changes)


def test_a_demo_of_one_unit_and_one_key_is_a_page() -> None:
    assert block(render(demo(1, ("only",), notes=())))["truth"] == [0]


def test_two_weeks_of_sixty_stations_and_six_mechanisms_stay_small() -> None:
    rng = np.random.default_rng(1)
    tracks = []
    for i in range(6):
        released = rng.normal(300, 100, (336, 60))
        made = track(336, 60, mechanism=f"m{i}")
        width = rng.uniform(10, 19, (2, 336, 60))
        tracks.append(
            replace(made, released=released, low=released - width[0], high=released + width[1])
        )
    keys = tuple(f"Station {k}" for k in range(60))
    assert len(render(demo(336, keys, tracks=tuple(tracks))).encode()) < 2.5e6
