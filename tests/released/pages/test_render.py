"""The page kit: templates with one base, escaped, in one file."""

from __future__ import annotations

import re
from pathlib import Path

import jinja2
import pytest

import penstock
import penstock_bench
from penstock.released.pages import asset, render
from penstock.released.pages.render import script_hash

HOSTILE = "</style><script>alert('x')</script>"
SOURCES = [Path(package.__file__).parent for package in (penstock, penstock_bench)]


def test_every_page_has_the_logo_the_title_the_promise_and_no_way_out():
    page = render("base.html", title="A title", promise="A promise", command="penstock query")
    for part in (
        'class="logo"',
        "<h1>A title</h1>",
        "A promise",
        "penstock query",
        "default-src 'none'",
        "prefers-color-scheme: dark",
    ):
        assert part in page
    assert not re.search(r"(src|href)=\"(?!#|data:)", page)
    assert "url(" not in page


def test_text_is_escaped():
    page = render("base.html", title=HOSTILE, promise=HOSTILE, data={"name": HOSTILE})
    assert "alert('x')</script>" not in page
    assert page.count("</style>") == 1


def test_only_the_kits_own_scripts_may_run():
    page = render("base.html", title="t", promise="p", scripts=["chart.js"])
    assert f"script-src 'sha256-{script_hash(asset('chart.js'))}';" in page
    assert "script-src" not in render("base.html", title="t", promise="p")


def test_a_name_that_a_template_needs_and_nobody_gives_is_an_error():
    with pytest.raises(jinja2.UndefinedError, match="promise"):
        render("base.html", title="t")


def test_no_stylesheet_or_script_asks_for_text_below_12_px():
    for path in (path for source in SOURCES for path in source.rglob("assets/*.[cj]s*")):
        text = path.read_text(encoding="utf-8")
        for size, unit in re.findall(r"(?<![\w.])(\d*\.?\d+)(px|rem)(?=[ ;)/`])", text):
            if f"font-size: {size}{unit}" in text or f"font: {size}{unit}" in text:
                assert float(size) * (16 if unit == "rem" else 1) >= 12, (path.name, size, unit)
        for size in re.findall(r"\$\{(\d+) \* dpr\}px", text):
            assert int(size) >= 12, path.name


def test_every_page_extends_the_one_base():
    parts = ("base.html", "parts.html", "truth.html")
    for path in (path for source in SOURCES for path in source.rglob("templates/*.html")):
        if path.name not in parts:
            assert '{% extends "base.html" %}' in path.read_text(encoding="utf-8"), path.name
