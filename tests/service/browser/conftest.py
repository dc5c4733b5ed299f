"""A served city, and a browser that looks at it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from tests.browser import CHROMIUM, FLAGS
from tests.service.browser.dashboard import PATIENCE, Dashboard
from tests.service.browser.modules import Modules
from tests.service.browser.served_city import ServedCity


@pytest.fixture(scope="package")
def city(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedCity]:
    """The city, published and served until the tests of this folder are over."""
    served = ServedCity(tmp_path_factory.mktemp("city"))
    served.prepare()
    try:
        served.start()
        yield served
    finally:
        served.close()


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("needs chromium (Debian: apt-get install chromium)")
    with sync_playwright() as playwright:
        flags = [flag for flag in FLAGS if flag not in ("--headless", "--remote-debugging-pipe")]
        expect.set_options(timeout=PATIENCE)
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=flags)
        yield started
        started.close()


@pytest.fixture
def open_dashboard(browser: Browser, city: ServedCity) -> Iterator[Callable[..., Dashboard]]:
    """Opens dashboards; when the test is over, none may have complained."""
    opened: list[Dashboard] = []

    def open_one(*, width: int = 1400, dark: bool = False, language: str = "en-GB") -> Dashboard:
        context = browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme="dark" if dark else "light",
            locale=language,
            accept_downloads=True,
        )
        context.set_default_timeout(PATIENCE)
        opened.append(Dashboard(context.new_page(), city.url))
        return opened[-1]

    yield open_one
    for one in opened:
        one.page.context.close()
    assert [complaint for one in opened for complaint in one.complaints] == []


@pytest.fixture
def dashboard(open_dashboard: Callable[..., Dashboard]) -> Dashboard:
    """A dashboard at a desk, in light."""
    return open_dashboard()


@pytest.fixture
def modules(browser: Browser) -> Iterator[Modules]:
    """An empty page that can import modules of the dashboard; nothing may go wrong in it."""
    context = browser.new_context(
        viewport={"width": 900, "height": 700}, locale="en-GB", timezone_id="America/New_York"
    )
    opened = Modules(context.new_page())
    yield opened
    context.close()
    assert opened.complaints == []
