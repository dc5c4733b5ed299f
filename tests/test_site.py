"""The documentation site: it builds without a warning, loads nothing, and reads well."""

from __future__ import annotations

import doctest
import importlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.browser import SCREENS, BrowserPage, check_look, needs_chromium, open_browser
from tests.made_once import made_once

pytest.importorskip("mkdocs", reason="mkdocs is not installed: pip install 'penstock[docs]'")
pytest.importorskip("mkdocstrings", reason="mkdocstrings is missing: pip install 'penstock[docs]'")
pytest.importorskip("latex2mathml", reason="latex2mathml is missing: pip install 'penstock[docs]'")

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
LOOKED_AT = (
    "index",
    "tutorial",
    "reference/api/domains",
    "results/leaderboard",
    "proofs/gaussian",
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as `make docs` builds it."""
    return made_once(tmp_path_factory, "site", _build)


def _build(folder: Path) -> None:
    """Build it: a warning, such as a link to nowhere, is an error."""
    settings = ("--strict", "--quiet", "--config-file", ROOT / "site/mkdocs.yml")
    command = [sys.executable, "-m", "mkdocs", "build", *settings, "--site-dir", folder]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrowserPage]:
    with open_browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.mark.parametrize("name", ["formulas", "docstrings"])
def test_the_examples_in_its_own_code_hold(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "site"))
    assert doctest.testmod(importlib.import_module(name)) == (0, 1)


def test_every_page_of_docs_is_on_the_site_and_loads_nothing(site: Path) -> None:
    pages = {page.relative_to(site).with_suffix("") for page in site.rglob("*.html")}
    docs = ROOT / "docs"
    for page in docs.rglob("*.md"):
        name = page.relative_to(docs).with_suffix("")
        assert (name.with_name("index") if name.name == "README" else name) in pages
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert (
            re.findall(r"<(?:script|link|img|iframe)[^>]*(?:src|href)=.?(?:https?:)?//", text) == []
        )


def test_every_link_of_a_page_leads_to_a_page_and_its_anchor(site: Path) -> None:
    pages = [page for page in site.rglob("*.html") if page.name != "404.html"]  # served anywhere
    texts = {page: page.read_text(encoding="utf-8") for page in pages}
    anchors = {page: set(re.findall(r'\bid="([^"]+)"', text)) for page, text in texts.items()}
    lost = set()
    for page, text in texts.items():
        for link in re.findall(r'<a\b[^>]*\bhref="([^"]+)"', text):
            path, _, anchor = unquote(unescape(link)).partition("#")
            target = (page.parent / path).resolve() if path else page
            known = anchors.get(target, {anchor})
            if ":" not in path and not (target.exists() and anchor in {"", *known}):
                lost.add((str(page.relative_to(site)), link))
    assert sorted(lost) == []


def test_the_api_has_every_public_name_with_its_parameters(site: Path) -> None:
    import penstock as ps

    text = "".join(
        page.read_text(encoding="utf-8") for page in (site / "reference/api").glob("*.html")
    )
    assert [name for name in ps.__all__ if f'id="penstock.{name}"' not in text] == []
    assert text.count("Parameters:") > len(ps.__all__) / 2
    assert '<a href="../../proofs/ba.html">' in text
    assert ":math:" not in text
    assert "<math" in text


def test_formulas_of_pages_are_set(site: Path) -> None:
    proof = (site / "proofs/gaussian.html").read_text(encoding="utf-8")
    assert "<i>e</i><sup><i>ε</i></sup>" in proof
    assert 'class="formula displayed"' in proof
    assert re.findall(r">[^<]*[A-Za-zΣ]_\{[^<]*<", proof) == []


def check_on(screens: list[tuple[int, bool]], site: Path, browser: BrowserPage, name: str) -> None:
    for width, dark in screens:
        browser.open(site / f"{name}.html", width=width, dark=dark)
        check_look(
            browser,
            f"site-{Path(name).name}",
            alike="tr:nth-child(n+6), article details",
            height=3_000,
        )


@needs_chromium
@pytest.mark.nightly
@pytest.mark.parametrize("name", LOOKED_AT[1:])
def test_a_page_reads_well_on_a_desk_and_on_a_phone(
    site: Path, browser: BrowserPage, name: str
) -> None:
    check_on(SCREENS, site, browser, name)


@needs_chromium
def test_the_first_page_reads_well_everywhere_and_others_on_a_phone(
    site: Path, browser: BrowserPage
) -> None:
    """The quick twin. All pages have one style sheet; only their contents are different."""
    check_on(SCREENS, site, browser, LOOKED_AT[0])
    for name in LOOKED_AT[1:]:
        check_on([(390, False)], site, browser, name)


@needs_chromium
def test_a_click_on_a_heading_sorts_the_leaderboard(site: Path, browser: BrowserPage) -> None:
    browser.open(site / "results/leaderboard.html")
    rows = "[...document.querySelector('article table').tBodies[0].rows]"
    column = f"{rows}.map((row) => +row.cells[2].innerText)"
    click = "document.querySelectorAll('article table th button')[2].click()"
    before = browser.run(column)
    browser.run(click)
    assert browser.run(column) == sorted(before) != before
    browser.run(click)
    assert browser.run(column) == sorted(before, reverse=True)
    assert browser.run("document.querySelectorAll('[aria-sort=descending]').length") == 1


@needs_chromium
def test_every_block_of_code_can_be_copied_and_prompts_stay_behind(
    site: Path, browser: BrowserPage
) -> None:
    browser.open(site / "tutorial.html")
    blocks = "document.querySelectorAll('article pre > code').length"
    buttons = "document.querySelectorAll('article button[data-clipboard-target]').length"
    assert browser.run(buttons) >= browser.run(blocks) > 10
    copied = browser.run(
        "((code) => { code.setAttribute('data-md-copying', ''); return code.innerText; })"
        "(document.querySelector('article .highlight code'))"
    )
    assert copied.startswith("import pathlib, tempfile\n")
    assert ">>>" not in copied


@needs_chromium
def test_search_finds_a_page_also_without_a_server(site: Path, browser: BrowserPage) -> None:
    browser.open(site / "index.html")
    found = browser.run(
        """new Promise((found) => {
          const field = document.querySelector('.md-search__input');
          const watch = new MutationObserver(() => {
            const first = document.querySelector('.md-search-result__link');
            if (first) found(first.href);
          });
          const results = document.querySelector('.md-search-result');
          watch.observe(results, {childList: true, subtree: true});
          field.focus();
          field.value = 'lateness';
          field.dispatchEvent(new Event('keyup', {bubbles: true}));
          field.dispatchEvent(new Event('input', {bubbles: true}));
        })"""
    )
    assert found.startswith(site.as_uri())
