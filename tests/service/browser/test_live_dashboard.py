"""The dashboard follows a running pipeline, in a real browser."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import polars as pl
import pytest
from playwright.sync_api import expect

from tests.browser import needs_chromium
from tests.service.browser.dashboard import Dashboard
from tests.service.browser.served_city import KEYS, STATIONS, TITLE, ServedCity

pytestmark = [needs_chromium, pytest.mark.slow]

NEWEST = ".stream .facts b"
"""The time of the newest unit, in the head of each page of a stream."""


def test_a_chart_follows_new_units_without_a_reload(dashboard: Dashboard) -> None:
    page = dashboard.open(key="Market")
    page.evaluate("window.stillThere = true")
    dashboard.wait_for_change("#over-time .readout", times=3)
    dashboard.wait_for_change(NEWEST)
    page.get_by_text("The numbers as a table").click()
    first = page.locator("#over-time tbody tr").first
    dashboard.wait_for_change("#over-time tbody tr th")
    assert re.search(r"\d\d:\d\d:\d\d", first.inner_text())
    assert page.evaluate("window.stillThere")


@pytest.mark.parametrize(
    ("view", "parameters", "selector"),
    [
        ("", {"key": "Market"}, "#over-time .address"),
        ("areas", {"node": "City"}, "#children li a"),
        ("top", {}, "figure li a"),
        ("map", {}, ".map-area"),
    ],
)
def test_new_units_leave_the_focus_where_it_is(
    dashboard: Dashboard, view: str, parameters: dict[str, str], selector: str
) -> None:
    page = dashboard.open(view, **parameters)
    page.locator(selector).first.focus()
    dashboard.wait_for_change(NEWEST, times=3)
    assert page.evaluate("(selector) => document.activeElement.matches(selector)", selector)


def test_the_overview_follows_too_and_leads_to_the_stream(dashboard: Dashboard) -> None:
    page = dashboard.open(None)
    expect(page.get_by_role("heading", level=1)).to_have_text(TITLE)
    dashboard.wait_for_change(".figure-number", times=2)
    page.get_by_role("link", name="taps").first.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("taps")


def test_alerts_and_events_stand_on_the_timeline(dashboard: Dashboard) -> None:
    page = dashboard.open(key="Stadium", range="all")
    named = page.locator("#over-time .marks li:visible")
    expect(named).to_have_count(5)
    expect(named.last).to_contain_text(re.compile(r"crowd: Stadium · .*\d\d:\d\d:\d\d"))
    page.get_by_text(re.compile(r"\d+ earlier marks")).click()
    expect(page.locator("#over-time .marks li", has_text="Cup final")).to_be_visible()


def test_the_slider_recomputes_sums(dashboard: Dashboard) -> None:
    page = dashboard.open(key="Market")
    slider = page.get_by_role("slider").first
    slider.press("End")
    page.wait_for_url(re.compile("window="))
    expect(page.locator("#over-time .call code")).to_contain_text("answers/sum")
    slider.press("Home")
    expect(page.locator("#over-time .call code")).not_to_contain_text("answers/sum")


def test_a_hierarchy_is_followed_down_to_one_key(dashboard: Dashboard) -> None:
    page = dashboard.open("areas")
    for name in ("South", "Harbour"):  # the city itself is the only root, and open already
        page.locator("#children").get_by_role("link", name=name).first.click()
    expect(page).to_have_url(re.compile("key=Harbour"))
    expect(page.locator("#over-time h2")).to_have_text("Harbour")


def test_the_theme_is_switched_and_kept(dashboard: Dashboard) -> None:
    page = dashboard.open(key="Market")
    colour = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(colour)
    page.get_by_role("button", name="Switch between light and dark").click()
    dashboard.wait_until(f"({colour}) !== {light!r}")
    dark = page.evaluate(colour)
    page.reload()
    page.locator("#over-time canvas").wait_for()
    assert page.evaluate(colour) == dark


def test_the_map_shows_counts_and_changes(dashboard: Dashboard) -> None:
    page = dashboard.open("map")
    areas = page.locator(".map-area")
    expect(areas).to_have_count(len(KEYS))
    # Nobody is ever at Long Beach: its interval has 0 inside nearly always.
    expect(page.locator(".map-area", has=page.locator(".map-hatch.is-shown"))).not_to_have_count(0)
    expect(page.locator(".map-area circle").first).to_be_visible()
    assert page.locator(".map-area circle").count() == 2 * len(STATIONS)
    dashboard.wait_for_change(".map-time", times=2)
    colours = (
        "[...document.querySelectorAll('.map-fill')].map((it) => it.getAttribute('fill')).join()"
    )
    before = page.evaluate(colours)
    page.get_by_label("Colour shows").select_option(label="change since one unit earlier")
    dashboard.wait_until(f"({colours}) !== {before!r}")
    expect(page.locator("figcaption .call code")).to_contain_text("answers/change?window=2")
    expect(page).to_have_url(re.compile("show=change-1"))


def test_the_map_has_a_time_slider_that_plays(dashboard: Dashboard) -> None:
    page = dashboard.open("map")
    slider = page.get_by_role("slider", name="Time")
    expect(slider).to_have_attribute("aria-valuetext", re.compile(r"\d\d:\d\d:\d\d"))
    slider.press("Home")
    dashboard.wait_until("document.querySelector('.map-slider').value === '1'")
    expect(page.locator("figcaption .call code")).to_contain_text("unit=1")
    page.get_by_role("button", name="Play").click()
    dashboard.wait_until("Number(document.querySelector('.map-slider').value) >= 3")
    page.get_by_role("button", name="Pause").click()
    page.get_by_role("button", name="Newest").click()
    dashboard.wait_until("(({value, max}) => value === max)(document.querySelector('.map-slider'))")


def test_the_map_works_with_the_keyboard(dashboard: Dashboard) -> None:
    page = dashboard.open("map")
    expect(page.locator(".map-area[aria-label*=':']")).to_have_count(len(KEYS))
    page.locator(".map-area[tabindex='0']").focus()
    name = "document.activeElement.getAttribute('aria-label').split(':')[0]"
    start = page.evaluate(name)
    expect(page.locator(".map-tip b")).to_have_text(start)
    page.keyboard.press("ArrowRight")
    dashboard.wait_until(f"({name}) !== {start!r}")
    there = page.evaluate(name)
    expect(page.locator(".map-tip b")).to_have_text(there)
    page.keyboard.press("Enter")
    expect(page.locator("#over-time h2")).to_have_text(there)


def test_an_alert_fires_and_clears_on_the_page(dashboard: Dashboard) -> None:
    page = dashboard.open("alerts")
    expect(page.get_by_text("crowd").first).to_be_visible()
    expect(page.locator(".figure .sub")).to_have_text("No alert is raised now.")
    expect(page.locator(".figure .sub")).to_have_text("1 alert is raised now.")
    expect(page.locator(".alert-item.is-open b")).to_have_text("Stadium")
    expect(page.locator(".figure .sub")).to_have_text("No alert is raised now.")
    assert page.locator(".lane-bar").count() > 0


def test_a_rule_is_tried_on_past_releases(dashboard: Dashboard) -> None:
    page = dashboard.open("alerts")
    page.get_by_label("Key", exact=True).fill("Stadium")
    page.get_by_label("Threshold").fill("100")
    page.get_by_role("button", name="Try it").click()
    said = page.get_by_role("status").filter(has_text="would have fired")
    expect(said).to_contain_text(re.compile(r"fired [1-9]\d* times"))
    often = int(said.inner_text().split("fired ")[1].split()[0])
    page.get_by_label("Threshold").fill("100000")
    page.get_by_role("button", name="Try it").click()
    expect(said).to_contain_text("fired 0 times")
    assert often > 3
    expect(page.get_by_role("region", name="The rule in the pipeline")).to_contain_text(
        "above = 100000"
    )


def test_the_privacy_page_says_what_holds_and_what_does_not(dashboard: Dashboard) -> None:
    page = dashboard.open("privacy")
    expect(page.locator(".amounts")).to_contain_text("88.1")
    expect(page.locator(".gaps li")).not_to_have_count(0)
    expect(page.locator(".gaps")).to_contain_text("any 10 units of that time")
    expect(page.locator(".tag.good")).to_have_text("Verified")
    expect(page.locator(".checks")).to_contain_text("the promise was kept")
    page.get_by_role("slider", name=re.compile("Somebody suspects")).fill("10")
    expect(page.locator(".meter-words")).to_contain_text("45.1")
    link = page.get_by_role("region", name=re.compile("Link after unit"))
    expect(link).to_have_text(re.compile("^[0-9a-f]{64}$"))
    dashboard.wait_for_change("[aria-label^='Link after unit']")


@pytest.mark.parametrize(
    ("view", "name"), [("privacy", "Python code"), ("downloads", "Everything, from Python")]
)
def test_the_python_code_of_a_page_works_as_it_stands(
    dashboard: Dashboard, view: str, name: str
) -> None:
    code = dashboard.open(view).get_by_role("region", name=name).inner_text()
    found: dict[str, Any] = {}
    exec(code, found)
    with found["stream"] as stream:
        assert stream.verify().account.kept
        assert view == "privacy" or set(KEYS) == set(found["table"]["key"])


def test_numbers_can_be_downloaded(dashboard: Dashboard) -> None:
    page = dashboard.open("downloads")
    page.get_by_label("Newest units").fill("5")
    with page.expect_download() as started:
        page.get_by_role("link", name="Download as CSV").first.click()
    table = pl.read_csv(started.value.path())
    assert set(KEYS) <= set(table["key" if "key" in table.columns else "name"])
    address = page.get_by_role("region", name="Exact address").first.inner_text()
    assert address == f"{dashboard.url}/v1/streams/taps/releases.csv?last=5"
    page.get_by_role("radio", name="Parquet").first.check()
    with page.expect_download() as started:
        page.get_by_role("link", name="Download as Parquet").first.click()
    assert len(pl.read_parquet(started.value.path())) == 5 * len(KEYS)


def test_a_chart_is_shown_in_a_frame_of_a_listed_origin(
    dashboard: Dashboard, city: ServedCity
) -> None:
    page = dashboard.open(None)
    page.evaluate(
        """(address) => {
          const frame = document.createElement("iframe");
          document.querySelector("main").prepend(Object.assign(frame, {src: address, width: 600}));
        }""",
        f"{city.url}/embed/taps?key=Market&last=60",
    )
    frame = page.frame_locator("iframe")
    expect(frame.get_by_role("heading", level=1)).to_contain_text("Market")
    expect(frame.get_by_text(TITLE)).to_be_visible()
    before = frame.locator(".readout").inner_text()
    expect(frame.locator(".readout")).not_to_have_text(before)
    expect(frame.get_by_role("link", name="Full page")).to_have_attribute(
        "href", "/#/s/taps?key=Market"
    )


def test_a_killed_server_is_reconnected_to(dashboard: Dashboard, city: ServedCity) -> None:
    page = dashboard.open(key="Market")
    page.evaluate("window.stillThere = true")
    dashboard.wait_for_change(NEWEST)
    city.kill()
    try:
        expect(page.get_by_text("Connection lost")).to_be_visible()
        before = page.locator(NEWEST).inner_text()
    finally:
        city.start()
    expect(page.locator(".live")).to_have_attribute("data-state", "live")
    dashboard.wait_until(
        "document.querySelector(given[0]).innerText !== given[1]", [NEWEST, before]
    )
    dashboard.wait_for_change("#over-time .readout", times=2)
    assert page.evaluate("window.stillThere")
    # The browser itself says in its console that it could not reach the server. Nothing else may.
    lost = re.compile(
        r"net::ERR_(CONNECTION_REFUSED|INCOMPLETE_CHUNKED|CONNECTION_RESET|EMPTY|CONTENT_LENGTH)"
    )
    dashboard.complaints[:] = [each for each in dashboard.complaints if not lost.search(each)]


def test_the_page_speaks_german(open_dashboard: Callable[..., Dashboard]) -> None:
    german = open_dashboard(language="de-DE")
    page = german.open("privacy")
    expect(page.get_by_role("heading", name="Was nicht geschützt ist")).to_be_visible()
    assert page.evaluate("document.documentElement.lang") == "de"
    expect(page.locator(".gaps")).to_contain_text("Was für viele Menschen gilt")
