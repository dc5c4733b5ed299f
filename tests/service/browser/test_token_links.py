"""With a read token, the links of the dashboard open: the page sends the token for them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser import needs_chromium
from tests.service.browser.dashboard import PATIENCE, Dashboard
from tests.service.published import KEYS, PublishedStore, sealed_store, service

pytestmark = [needs_chromium, pytest.mark.slow]

TOKEN = "a-read-token-of-the-tests"
UNITS = 60


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a store."""
    made = tmp_path_factory.mktemp("token")
    with sealed_store(made / "taps.db") as store:
        PublishedStore(store).grow(UNITS)
    return made


@pytest.fixture(scope="module")
def url(folder: Path) -> Iterator[str]:
    """A service that wants a token."""
    with service(folder / "taps.db", folder / "copy", token=TOKEN) as server:
        yield server.url


@pytest.fixture
def open_to_all(browser: Browser, folder: Path) -> Iterator[Dashboard]:
    """A dashboard of a service that wants none."""
    context = browser.new_context(locale="en-GB")
    context.set_default_timeout(PATIENCE)
    with service(folder / "taps.db", folder / "open") as server:
        opened = Dashboard(context.new_page(), server.url)
        yield opened
        context.close()
    assert opened.complaints == []


@pytest.fixture
def dashboard(browser: Browser, url: str) -> Iterator[Dashboard]:
    """A dashboard whose reader has typed the token."""
    context = browser.new_context(locale="en-GB", accept_downloads=True)
    context.set_default_timeout(PATIENCE)
    opened = Dashboard(context.new_page(), url)
    opened.page.goto(url)
    opened.page.get_by_label("Read token").fill(TOKEN)
    opened.complaints.clear()  # the service has refused the reader without the token
    opened.page.get_by_role("button", name="Open the pages").click()
    opened.page.locator("figure, .card").first.wait_for()
    yield opened
    context.close()
    assert opened.complaints == []


def in_a_tab(page: Page, selector: str, *, button: Any = "left") -> Any:
    """The JSON that a link shows in a tab of its own."""
    with page.context.expect_page() as opened:
        page.locator(selector).first.click(button=button)
    tab = opened.value
    tab.wait_for_url("blob:**")
    found = json.loads(tab.locator("body").inner_text())
    tab.close()
    return found


@pytest.mark.parametrize("button", ["left", "middle"])
def test_the_call_under_a_chart_is_shown(dashboard: Dashboard, button: str) -> None:
    page = dashboard.open(key="Market")
    answer = in_a_tab(page, "#over-time .address", button=button)
    assert answer["stream"] == "taps"
    assert [each["name"] for each in answer["series"]] == ["Market"]
    call = page.locator("#over-time .address").inner_text()
    assert call.startswith("/v1/streams/taps/answers/counts?")
    assert TOKEN not in page.content()


def test_the_numbers_under_a_chart_are_downloaded(dashboard: Dashboard) -> None:
    page = dashboard.open(key="Market")
    with page.expect_download() as started:
        page.get_by_role("link", name="as CSV").first.click()
    assert started.value.suggested_filename == "taps-counts.csv"
    assert set(pl.read_csv(started.value.path())["key"]) == {"Market"}


def test_files_of_the_downloads_page_are_downloaded(dashboard: Dashboard) -> None:
    page = dashboard.open("downloads")
    page.get_by_label("Newest units").fill("5")
    page.get_by_role("radio", name="Parquet").first.check()
    with page.expect_download() as started:
        page.get_by_role("link", name="Download as Parquet").first.click()
    assert started.value.suggested_filename == "penstock.parquet"
    assert len(pl.read_parquet(started.value.path())) == 5 * len(KEYS)


def test_the_description_of_the_api_is_shown(dashboard: Dashboard) -> None:
    page = dashboard.open("downloads")
    assert in_a_tab(page, "#foot a")["openapi"].startswith("3.1")


def test_a_refusal_stands_beside_the_link(dashboard: Dashboard, url: str) -> None:
    page = dashboard.open("downloads")
    page.get_by_label("Newest units").fill("0")
    page.get_by_role("link", name="Download as CSV").first.click()
    expect(page.locator("a + .refused")).to_contain_text("last")
    refused = f"answer 422: {url}/v1/streams/taps/releases.csv?last=0"
    assert refused in dashboard.complaints
    dashboard.complaints.clear()
    page.get_by_label("Newest units").fill("1")
    with page.expect_download():
        page.get_by_role("link", name="Download as CSV").first.click()
    expect(page.locator(".refused")).to_have_count(0)


@pytest.mark.parametrize("form", ["CSV", "Parquet", "Arrow", "JSON"])
def test_code_to_copy_takes_the_token_from_the_environment(
    dashboard: Dashboard, form: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    page = dashboard.open("downloads")
    page.get_by_label("Newest units").fill("5")
    page.get_by_role("radio", name=form).first.check()
    page.get_by_text("Read it from a program or a spreadsheet").first.click()
    expect(page.get_by_text("PENSTOCK_TOKEN").first).to_be_visible()
    expect(page.get_by_role("region", name="In a spreadsheet").first).to_be_hidden()
    monkeypatch.setenv("PENSTOCK_TOKEN", TOKEN)
    command = page.get_by_role("region", name="On the command line").first.inner_text()
    subprocess.run(["bash", "-c", command], cwd=tmp_path, check=True, capture_output=True)
    assert b"Harbour" in (tmp_path / f"penstock.{form.lower()}").read_bytes()
    check_code(page, form)


def check_code(page: Page, form: str) -> None:
    """The Python code of the downloads page works as it stands."""
    found: dict[str, Any] = {}
    exec(page.get_by_role("region", name="In Python, as a table").first.inner_text(), found)
    assert form == "JSON" or len(found["table"]) == 5 * len(KEYS)
    assert form != "JSON" or len(found["answer"]["series"]) == len(KEYS)


def test_without_a_token_links_and_code_have_none(open_to_all: Dashboard) -> None:
    page = open_to_all.open("downloads")
    page.get_by_label("Newest units").fill("5")
    page.get_by_text("Read it from a program or a spreadsheet").first.click()
    for form in ("CSV", "Parquet", "Arrow", "JSON"):
        page.get_by_role("radio", name=form).first.check()
        check_code(page, form)
    assert "PENSTOCK_TOKEN" not in page.content()
    page.locator("#foot a").first.click()
    page.wait_for_url("**/v1/openapi.json")


def test_the_code_that_verifies_takes_it_from_there_too(
    dashboard: Dashboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = dashboard.open("privacy").get_by_role("region", name="Python code").inner_text()
    monkeypatch.setenv("PENSTOCK_TOKEN", TOKEN)
    found: dict[str, Any] = {}
    exec(code, found)
    with found["stream"] as stream:
        assert len(stream.to_polars()) == UNITS * len(KEYS)
