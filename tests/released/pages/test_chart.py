"""The page that `penstock query --plot` writes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np

from penstock.core.calendar import Calendar, instant
from penstock.released.pages.chart import Chart

from tests.browser import check_page, needs_chromium, open_browser

PROMISE = "Nobody & nothing can be told apart by more than the promise allows."


def chart(**changes) -> Chart:
    numbers = np.array([[1.0, 2.0], [3.0, np.nan]])
    made = {
        "title": "Sums <of> 3 units",
        "promise": PROMISE,
        "confidence": "95 %",
        "units": np.array([4, 5]),
        "names": ("a", "</script><script>alert(1)</script>"),
        "estimate": numbers,
        "low": numbers - np.inf,
        "high": numbers + 1,
    }
    return Chart(**(made | changes))


def hourly(**changes) -> Chart:
    """Ten days of hours in which clocks change, with alerts."""
    counts = 300 + np.cumsum(np.random.default_rng(1).normal(0, 20, (240, 2)), axis=0)
    return chart(
        **{
            "units": np.arange(1, 241),
            "names": ("north", "south"),
            "estimate": counts,
            "low": counts - 40,
            "high": counts + 40,
            "calendar": Calendar(every="1h", zone="Europe/Zurich", origin="2026-03-25"),
            "raised": counts > 320,
            "thresholds": (320.0,),
        }
        | changes
    )


def data_of(page: str) -> dict:
    return json.loads(re.search(r'id="data">(.*?)</script>', page).group(1))


def test_the_page_has_the_numbers_and_no_way_out():
    page = chart().page()
    data = data_of(page)
    assert data["estimate"] == [[1, 3], [2, None]]
    assert data["low"] == [[None, None], [None, None]]
    assert data["names"][1].startswith("</script>")
    assert "alert(1)</script>" not in page
    assert "Sums &lt;of&gt; 3 units" in page
    assert "Nobody &amp; nothing" in page
    assert "default-src 'none'" in page


def test_alerts_are_marked():
    page = chart(raised=np.array([[True, False], [False, True]]), thresholds=(2.5, -2.5)).page()
    assert data_of(page)["raised"] == [[1, 0], [0, 1]]
    assert data_of(page)["thresholds"] == [2.5, -2.5]
    assert ">alert</li>" in page
    assert ">alert</li>" not in chart().page()


def test_units_are_at_their_times_when_a_calendar_is_known():
    data = data_of(hourly().page())
    assert data["zone"] == "Europe/Zurich"
    assert data["starts"][0] == instant("2026-03-25T00:00+01:00") / 1e6
    assert data["starts"][-1] == data["starts"][0] + 240 * 3600
    plain = data_of(chart().page())
    assert (plain["zone"], plain["starts"]) == (None, [4, 5, 6])


@needs_chromium
def test_the_page_keeps_the_rules_of_all_pages(tmp_path: Path):
    with open_browser(tmp_path / "profile") as browser:
        for name, made in (("dated", hourly()), ("numbered", chart())):
            page = tmp_path / f"{name}.html"
            page.write_text(made.page(), encoding="utf-8")
            check_page(browser, page)


@needs_chromium
def test_a_tap_reads_a_unit_with_its_date_in_the_calendars_zone(tmp_path: Path):
    page = tmp_path / "chart.html"
    page.write_text(hourly().page(), encoding="utf-8")
    with open_browser(tmp_path / "profile") as browser:
        browser.open(page, width=360)
        at_the_end = browser.run("document.querySelector('#readout').innerText")
        assert at_the_end.startswith("Sat 4 Apr 2026, 00:00 (unit 240)")  # one hour was skipped
        browser.tap(".u-over", x=0.3001)
        tapped = browser.run("document.querySelector('#readout').innerText")
        assert tapped.startswith("Sat 28 Mar 2026, 00:00 (unit 73)")
        assert "95 % interval" in tapped


@needs_chromium
def test_arrow_keys_read_the_next_unit(tmp_path: Path):
    page = tmp_path / "chart.html"
    page.write_text(hourly(calendar=None).page(), encoding="utf-8")
    key = "new KeyboardEvent('keydown', {key: 'ArrowRight'})"
    press = f"document.querySelector('#chart').dispatchEvent({key})"
    with open_browser(tmp_path / "profile") as browser:
        browser.open(page)
        for wanted in ("unit 1 ", "unit 2 "):
            browser.run(press)
            assert browser.run("document.querySelector('#readout').innerText").startswith(wanted)
