"""Every view looks right at three widths, in light and dark, on paper, and to a screen reader."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.browser import LEAST_FONT, OVERFLOW, needs_chromium
from tests.service.browser.dashboard import PICTURES, Dashboard

pytestmark = [needs_chromium, pytest.mark.slow]

VIEWS: dict[str, tuple[str | None, dict[str, str]]] = {
    "overview": (None, {}),
    "time": ("", {"key": "Stadium"}),
    "total": ("", {}),
    "compare": ("compare", {}),
    "heat": ("heat", {}),
    "areas": ("areas", {"node": "City"}),
    "top": ("top", {}),
    "map": ("map", {}),
    "map-change": ("map", {"show": "change-10"}),
    "alerts": ("alerts", {}),
    "privacy": ("privacy", {}),
    "downloads": ("downloads", {}),
}
WIDTHS = (1400, 820, 390)


def look(dashboard: Dashboard, name: str, picture: str) -> None:
    view, parameters = VIEWS[name]
    dashboard.open(view, **parameters)
    dashboard.settle()
    dashboard.picture(picture)
    dashboard.check_look()
    assert dashboard.page.evaluate(LEAST_FONT) >= 12


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_can_be_read_by_everybody(dashboard: Dashboard, name: str) -> None:
    """One page, loaded once: at a desk, in the dark, on a tablet and on a phone."""
    look(dashboard, name, f"{name}-1400-light")
    page = dashboard.page
    page.emulate_media(color_scheme="dark")
    dashboard.wait_until("document.documentElement.dataset.theme === 'dark'")
    dashboard.settle()
    dashboard.picture(f"{name}-1400-dark")
    dashboard.check_contrast()
    page.emulate_media(color_scheme="light")
    for width in WIDTHS[1:]:
        page.set_viewport_size({"width": width, "height": 900})
        dashboard.settle()
        dashboard.picture(f"{name}-{width}-light")
        assert page.evaluate(OVERFLOW) <= 0, f"{name} scrolls sideways at {width}"


@pytest.mark.nightly
@pytest.mark.parametrize("language", ["en-GB", "de-DE"])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_every_view_in_every_form(
    open_dashboard: Callable[..., Dashboard], width: int, language: str, *, dark: bool
) -> None:
    page = open_dashboard(width=width, dark=dark, language=language)
    for name in VIEWS:
        look(page, name, f"{name}-{width}-{'dark' if dark else 'light'}-{language[:2]}")


@pytest.mark.parametrize(("width", "dark"), [(600, False), (340, True)], ids=["wide", "narrow"])
def test_a_chart_fills_its_frame(
    open_dashboard: Callable[..., Dashboard], width: int, *, dark: bool
) -> None:
    frame = open_dashboard(width=width, dark=dark)
    frame.page.set_viewport_size({"width": width, "height": 320})
    frame.page.goto(f"{frame.url}/embed/taps?key=Grand%20Station&last=60")
    expect(frame.page.get_by_role("heading", level=1)).to_contain_text("Grand Station")
    frame.page.locator("canvas").wait_for()
    frame.picture(f"embed-{width}")
    frame.check_look()
    height = frame.page.evaluate("document.querySelector('.source').getBoundingClientRect().bottom")
    assert 280 < height <= 320


def test_a_page_prints_as_a_report(open_dashboard: Callable[..., Dashboard]) -> None:
    paper = open_dashboard(width=820, dark=True)
    page = paper.open("privacy")
    paper.settle()
    page.emulate_media(media="print")
    paper.wait_until("document.documentElement.dataset.theme === 'light'")
    for name in ("Copy", "Switch"):
        expect(page.get_by_role("button", name=name)).to_have_count(0)
    expect(page.get_by_role("heading", name="What is not protected")).to_be_visible()
    paper.picture("privacy-print")
    page.emulate_media(media=None)
    PICTURES.mkdir(parents=True, exist_ok=True)
    page.pdf(path=PICTURES / "privacy.pdf", format="A4")
    assert (PICTURES / "privacy.pdf").read_bytes().startswith(b"%PDF")


def test_the_keyboard_reaches_everything_in_order(dashboard: Dashboard) -> None:
    page = dashboard.open(key="Market")
    dashboard.settle()
    page.keyboard.press("Tab")
    focused = (
        "document.activeElement.innerText || document.activeElement.getAttribute('aria-label')"
    )
    assert page.evaluate(focused) == "Skip to the content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    seen: list[str] = []
    for _ in range(80):
        page.keyboard.press("Tab")
        tag = page.evaluate(
            "document.activeElement.tagName + '.' + document.activeElement.className"
        )
        if tag.startswith("BODY"):
            break
        visible = page.evaluate(
            "(({width, height}) => width > 0 && height > 0)"
            "(document.activeElement.getBoundingClientRect())"
        )
        assert visible, f"the focus is on something that nobody sees: {tag}"
        seen.append(tag)
    assert any("plot" in tag for tag in seen), " ".join(seen)
    assert any(tag.startswith("SUMMARY") for tag in seen)
