"""The pages: their links lead somewhere, and their words are those of the code."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.cli import CHOICE_VERBS, LAB_VERBS, VERBS
from penstock.core.deprecated import MOVED

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    [
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")),
        ROOT / "bench" / "README.md",
    ]
)
HANDWRITTEN = [page for page in PAGES if page.parent.name != "results"]
MAX_COLUMNS = 100


def each(pages: list[Path]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("page", pages, ids=lambda page: str(page.relative_to(ROOT)))


@functools.cache
def _lines(page: Path) -> tuple[tuple[str, bool], ...]:
    """Every line of a page, and whether it is in a block of code."""
    found, in_code = [], False
    for line in page.read_text(encoding="utf-8").splitlines():
        fence = line.lstrip().startswith("```")
        found.append((line, in_code or fence))
        in_code ^= fence
    return tuple(found)


def _prose(page: Path) -> str:
    return "\n".join(line for line, in_code in _lines(page) if not in_code)


@functools.cache
def _anchors(page: Path) -> set[str]:
    """The anchors that GitHub makes of headings."""
    anchors: list[str] = []
    for title in re.findall(r"^#+ +(.*?) *$", _prose(page), re.MULTILINE):
        text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title).lower()
        slug = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        again = anchors.count(slug)
        anchors.append(f"{slug}-{again}" if again else slug)
    return set(anchors)


@each(PAGES)
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    lost = []
    text = re.sub(r"`[^`]*`", "", _prose(page))
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in _anchors(target)):
            lost.append(link)
    assert lost == []


@each(HANDWRITTEN)
def test_lines_of_prose_have_at_most_100_columns(page: Path) -> None:
    prose = [line for line, in_code in _lines(page) if not in_code]
    breakable = (line for line in prose if not line.lstrip().startswith(("|", "![", ">>>")))
    assert [line for line in breakable if len(line) > MAX_COLUMNS and " " in line.strip()] == []


def _commands(page: Path) -> Iterator[list[str]]:
    """The words of every `penstock …` in code."""
    code = "\n".join(line for line, in_code in _lines(page) if in_code)
    spans = re.findall(r"`(penstock [^`]+)`", _prose(page))
    shown = re.findall(r"^(?:\$ |    )?(penstock .*)$", code, re.MULTILINE)
    for text in (*spans, *shown):
        yield re.split(r"[\s,;|<>#]+", text)[1:]


@each(PAGES)
def test_every_command_shown_exists(page: Path) -> None:
    verbs = {verb.name for verb in (*VERBS, *CHOICE_VERBS)} | {"lab", "VERB"}
    parts = {"lab": {verb.name for verb in LAB_VERBS}, "ledger": {"show", "verify", "keygen"}}
    unknown = []
    for verb, *rest in _commands(page):
        if verb.startswith(("-", "…")):
            continue
        part = rest[0] if rest else ""
        if verb not in verbs or (part.isalpha() and part not in parts.get(verb, {part})):
            unknown.append(f"{verb} {part}")
    assert unknown == []


@functools.cache
def _classes() -> dict[str, set[str]]:
    """The classes and type aliases of both packages, and the members that a class defines."""
    found: dict[str, set[str]] = {}
    for path in (*(ROOT / "src").rglob("*.py"), *(ROOT / "bench" / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                own = {part.name for part in node.body if isinstance(part, ast.FunctionDef)}
                fields = (part.target for part in node.body if isinstance(part, ast.AnnAssign))
                found[node.name] = own | {name.id for name in fields if isinstance(name, ast.Name)}
            elif isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation) == "TypeAlias":
                found[ast.unparse(node.target)] = set()
    return found


def test_the_vocabulary_names_classes_that_exist() -> None:
    rows = re.findall(r"^\| .* \| (.*) \|$", _prose(ROOT / "docs/vocabulary.md"), re.MULTILINE)
    named = [name for row in rows for name in re.findall(r"`([A-Z][\w.]*)`", row)]
    assert len(named) > 30
    unknown = []
    for name in named:
        cls, _, member = name.partition(".")
        if cls not in _classes() or (member and member not in _classes()[cls]):
            unknown.append(name)
    assert unknown == []


def test_the_changelog_lists_every_name_that_moved() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `(penstock\.[\w.]+)` \| `([\w.]+)` \|$", text, re.MULTILINE)
    moved = [
        (f"{module}.{old}", new.replace(":", "."))
        for module, names in MOVED.items()
        for old, new in names.items()
    ]
    assert sorted(listed) == sorted(moved)


FILE = r"(?<![\w./-])[\w-]+\.(?:csv|db|log|parquet|sql|toml)\b"


@each([ROOT / "docs/tutorial.md", *sorted((ROOT / "docs/how-to").glob("*.md"))])
def test_a_page_makes_the_files_that_its_commands_read(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    commands = re.findall(r"^(?:\$ )?(penstock (?!export).*)$", text, re.MULTILINE)
    read = {name for line in commands for name in re.findall(FILE, line.partition("#")[0])}
    saved = re.findall(rf"[Ss]ave .{{0,30}}?as\s+`({FILE})`", text)
    written = re.findall(rf"(?:> |init |[\"'])({FILE})", text)
    assert read - {*saved, *written} == set()
