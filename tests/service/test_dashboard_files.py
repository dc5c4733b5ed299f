"""Rules for the dashboard's files: texts in one place, nothing inline, nothing from elsewhere."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from penstock.service.static_files import ASSETS, MEDIA_TYPES

LANGUAGES = ("en", "de")
SCRIPTS = sorted(ASSETS.rglob("*.js"))
PAGES = sorted(ASSETS.rglob("*.html"))
STYLES = sorted(ASSETS.rglob("*.css"))
NAMESPACE = "http://www.w3.org/2000/svg"

COMMENT = re.compile(r"/\*.*?\*/|(?<![:'\"`\\])//[^\n]*", re.DOTALL)
LITERAL = re.compile(r"\"((?:[^\"\\\n]|\\.)*)\"|'((?:[^'\\\n]|\\.)*)'|`((?:[^`\\]|\\.)*)`")
SENTENCE = re.compile(r"\b[A-Za-z]{2,} [A-Za-z]{2,}\b")
"""Two words with a space in between: what people read, hardly ever what a program needs."""

SPOKEN = re.compile(
    r"(?:text|label|title|placeholder|\"aria-label\"): \"(?![a-z]+\.[a-z_]+\")[^\"]*[A-Za-z]"
)
"""A property that people read or hear, with letters instead of a text of the language."""

NOT_SPOKEN = (
    re.compile(r"^[a-z0-9-]+( [a-z0-9-]+)*$"),  # classes of style sheets
    re.compile(r"^use strict$"),
    re.compile(r"^M[\d-]"),  # paths of drawings
    re.compile(r"^\("),  # media queries
    re.compile(r"^texts/"),  # a text that is missing is named in the console
    # code to copy, which is in no language
    re.compile(r"^(import|for|penstock|curl|printf|headers =|name =) ?"),
)


@cache
def code(path: Path) -> str:
    """A script without its comments."""
    return COMMENT.sub("", path.read_text(encoding="utf-8"))


@cache
def texts(language: str) -> dict[str, str]:
    found: dict[str, str] = json.loads((ASSETS / f"texts/{language}.json").read_text("utf-8"))
    return found


def sentences(script: str) -> Iterator[str]:
    """What a script says in words of its own."""
    for match in LITERAL.finditer(script):
        words = re.sub(
            r"\$\{[^}]*\}", "", next(part for part in match.groups() if part is not None)
        )
        if SENTENCE.search(words) and not any(known.search(words) for known in NOT_SPOKEN):
            yield words
    yield from (match[0] for match in SPOKEN.finditer(script))


def used_keys(script: str) -> tuple[set[str], set[str]]:
    """Keys of texts that a script names, and beginnings of keys that it completes."""
    names = set(re.findall(r"\"([a-z]+(?:\.[a-z0-9_]+)+)\"", script))
    return names, set(re.findall(r"`([a-z]+\.[a-z0-9_.]*)\$\{", script))


def known(key: str, language: str) -> bool:
    return key in texts(language) or f"{key}.other" in texts(language)


@pytest.mark.parametrize("language", LANGUAGES[1:])
def test_every_language_has_the_same_texts_with_the_same_values(language: str) -> None:
    assert list(texts(language)) == list(texts("en"))
    values = re.compile(r"\{(\w+)\}")
    for key, text in texts("en").items():
        assert text.strip() == text != ""
        wanted, found = set(values.findall(text)), set(values.findall(texts(language)[key]))
        assert found <= wanted | {"length", "each", "count"}, key


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_no_script_speaks_for_itself(path: Path) -> None:
    assert list(sentences(code(path))) == []


@pytest.mark.parametrize(
    "planted",
    [
        'el("p", { text: "No numbers yet" })',
        "node.textContent = `The ${k} largest of them`;",
        'el("button", { "aria-label": "Close" })',
        "alert('Something went wrong')",
    ],
)
def test_a_script_that_speaks_for_itself_would_be_found(planted: str) -> None:
    assert list(sentences(planted))


def test_every_text_that_a_script_names_is_there() -> None:
    prefixes = {key.split(".")[0] for key in texts("en")}
    for path in SCRIPTS:
        names, beginnings = used_keys(code(path))
        missing = {key for key in names if key.split(".")[0] in prefixes and not known(key, "en")}
        missing -= {name for name in names if (ASSETS / name).exists()}
        assert not missing, path.name
        for begin in beginnings:
            if begin.split(".")[0] in prefixes:
                assert any(key.startswith(begin) for key in texts("en")), (path.name, begin)


def test_no_text_is_left_over() -> None:
    whole = "\n".join(code(path) for path in SCRIPTS)
    names, beginnings = used_keys(whole)
    beginnings |= {"view."}  # views.js makes these keys from the names of files
    left = {
        key
        for key in texts("en")
        if key not in names
        and key.rpartition(".")[0] not in names
        and not any(key.startswith(begin) for begin in beginnings)
    }
    assert not left


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_a_page_has_nothing_inline(path: Path) -> None:
    """`default-src 'self'` refuses inline scripts, handlers and styles."""
    page = path.read_text(encoding="utf-8")
    assert not re.search(r"<script(?![^>]*\bsrc=)", page)
    assert not re.search(r"<style|\sstyle=|\son[a-z]+=", page)
    for address in re.findall(r"(?:src|href)=\"([^\"]*)\"", page):
        assert address.startswith("/"), address
        if address.startswith("/assets/") and not address.startswith("/assets/uplot/"):
            assert (ASSETS / address.removeprefix("/assets/")).is_file(), address


@pytest.mark.parametrize("path", [*SCRIPTS, *STYLES], ids=lambda path: path.name)
def test_nothing_comes_from_another_server(path: Path) -> None:
    assert set(re.findall(r"https?://[^\s\"'`)]+", code(path))) <= {NAMESPACE}
    assert "@import" not in code(path)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_no_text_becomes_markup_or_code(path: Path) -> None:
    """A key such as <b> is shown as it is: there is no way from a text to HTML."""
    forbidden = (
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|srcdoc"
    )
    assert not re.search(forbidden, code(path))
    assert not re.search(r"setAttribute\(\"style\"|\bstyle: [\"`](?!unit|percent)", code(path))


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_every_import_is_there(path: Path) -> None:
    for name in re.findall(r"(?:from|import) \"(\.[^\"]+)\"", code(path)):
        assert (path.parent / name).is_file(), name


def test_every_file_has_a_media_type() -> None:
    files = [path for path in ASSETS.rglob("*") if path.is_file()]
    assert {path.suffix for path in files} <= set(MEDIA_TYPES)


def imported(path: Path, found: set[Path]) -> set[Path]:
    """A script with everything that it imports before it runs."""
    if path not in found:
        found.add(path)
        for name in re.findall(r"from \"(\.[^\"]+)\"", code(path)):
            imported((path.parent / name).resolve(), found)
    return found


def test_modules_of_the_first_pages_are_loaded_at_once() -> None:
    """Otherwise a browser learns of each module from the one before, one request after another."""
    page = (ASSETS / "index.html").read_text(encoding="utf-8")
    preloaded = set(re.findall(r"rel=\"modulepreload\" href=\"/assets/([^\"]+)\"", page))
    needed: set[Path] = set()
    for name in ("app.js", "views/overview.js", "views/time.js"):
        imported((ASSETS / name).resolve(), needed)
    names = {path.relative_to(ASSETS.resolve()).as_posix() for path in needed}
    assert preloaded == names - {"app.js"}
