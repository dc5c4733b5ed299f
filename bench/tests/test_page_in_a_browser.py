"""The comparison page in a real browser: the scripts run, the charts are drawn, taps are read."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock_bench.comparison import build
from penstock_bench.comparison_page import render
from penstock_bench.simulated.city import City

from tests.browser import check_page, needs_chromium, open_browser

pytestmark = needs_chromium


@pytest.fixture
def page(tmp_path: Path) -> Path:
    demo = build(City(stations=12, people=300, seed=2), hours=48, epsilon="1", window=6)
    path = tmp_path / "comparison.html"
    path.write_text(render(demo), encoding="utf-8")
    return path


def test_the_page_keeps_the_rules_of_all_pages(page: Path, tmp_path: Path) -> None:
    with open_browser(tmp_path / "profile") as browser:
        check_page(browser, page)
        assert browser.run("document.querySelectorAll('.plot canvas').length") == 3
        assert browser.run("document.querySelectorAll('.heat canvas').length") == 2


def test_a_tap_reads_a_unit_of_the_chart_and_a_cell_of_the_heat_map(
    page: Path, tmp_path: Path
) -> None:
    with open_browser(tmp_path / "profile") as browser:
        browser.open(page, width=360)
        browser.tap("#chart .u-over", x=0.751)
        assert browser.run("document.querySelector('#readout').innerText").startswith(
            "Tue 2 Jun 2026, 12:00 · truth "
        )
        browser.tap("#heat-truth", x=0.251)
        assert "Mon 1 Jun 2026, 12:00" in browser.run(
            "document.querySelector('#heat-readout').innerText"
        )


def test_a_kept_promise_is_green_and_said_in_words(page: Path, tmp_path: Path) -> None:
    with open_browser(tmp_path / "profile") as browser:
        browser.open(page)
        words, colour = browser.run(
            "((node) => [node.innerText, getComputedStyle(node).color])"
            "(document.querySelector('#budget-sub .good'))"
        )
    assert (words, colour) == ("✓ The promise was kept.", "rgb(12, 122, 77)")
