"""What the site adds to docs/: the README as first page, the API, files that pages link to."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "site")]

from formulas import Formulas  # noqa: E402

import penstock  # noqa: E402

GROUPS: dict[str, tuple[str, tuple[str, ...]]] = {
    "publish": ("Publish and plan", ("engine",)),
    "connect": ("Connect to a service", ("client",)),
    "promise": ("Promise and ledger", ("core.guarantee", "budget")),
    "releases": ("Releases and logs", ("core.released", "released", "core.weights")),
    "domains": ("Keys", ("core.domain", "core.hierarchy", "core.product")),
    "mechanisms": ("Mechanisms", ("private.mechanisms",)),
    "histograms": ("Histogram methods", ("private.histograms",)),
    "own": ("For your own mechanism", ("core.private", "private.gate", "private.run")),
    "errors": ("Errors", ("core.errors",)),
}
"""The pages of the API: the title, and the modules whose public names they have."""

COPIED = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")
"""Pages of the repository's root."""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add the extension for formulas, and the pages of the API to the navigation."""
    config.markdown_extensions.append(Formulas())
    entry = next(each for each in config.nav or () if "Python" in each)
    entry["Python"] = [{title: f"reference/api/{page}.md"} for page, (title, _) in GROUPS.items()]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add pages that are not in docs/, and the files of the repository that pages link to."""
    for name in COPIED:
        text = (ROOT / name).read_text(encoding="utf-8")
        target = "index.md" if name == "README.md" else name
        files.append(File.generated(config, target, content=_moved(text)))
    for page, (title, modules) in GROUPS.items():
        files.append(
            File.generated(config, f"reference/api/{page}.md", content=_api(title, modules))
        )
    _check_api()
    logo = ROOT / "src/penstock/released/pages/templates/logo.svg"
    files.append(File.generated(config, "assets/logo.svg", abs_src_path=str(logo)))
    examples = [path for path in (ROOT / "examples").rglob("*") if path.is_file()]
    shown = [path for path in sorted(examples) if "__pycache__" not in path.parts]
    listed = "".join(f"- [{path.name}]({path.relative_to(ROOT / 'examples')})\n" for path in shown)
    files.append(File.generated(config, "examples/index.md", content=f"# Examples\n\n{listed}"))
    for path in sorted({*shown, *_linked()}):
        name = path.relative_to(ROOT).as_posix()
        files.append(File.generated(config, name, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Lead links that leave docs/ to the copies of their targets."""
    depth = page.file.src_uri.count("/")
    inside = markdown.replace("](" + "../" * (depth + 1), "](" + "../" * depth)
    return re.sub(r"\]\(((?:\.\./)*examples)\)", r"](\1/index.md)", inside)


def _linked() -> set[Path]:
    """The files outside docs/, other than pages, to which pages link."""
    found = set()
    for page in (*(ROOT / "docs").rglob("*.md"), *map(ROOT.joinpath, COPIED)):
        for link in re.findall(r"\]\(([^)#:\s]+)", page.read_text(encoding="utf-8")):
            target = (page.parent / link).resolve()
            if target.is_file() and target.suffix != ".md" and ROOT / "docs" not in target.parents:
                found.add(target)
    return found


def _moved(text: str) -> str:
    """A page of the repository's root as a page of docs/."""
    text = re.sub(r"\]\(docs/", "](", text)
    return re.sub(r"\]\(README\.md", "](index.md", text)


def _names(modules: tuple[str, ...]) -> list[str]:
    """The public names of some modules, in the order of the package's own list."""
    return [
        name
        for module, names in penstock._NAMES_OF_MODULE.items()
        if any(module == each or module.startswith(f"{each}.") for each in modules)
        for name in names
    ]


def _api(title: str, modules: tuple[str, ...]) -> str:
    parts = [f"# {title}", ""]
    for name in _names(modules):
        parts += [f"::: penstock.{name}", ""]
    return "\n".join(parts)


def _check_api() -> None:
    shown = [name for _, modules in GROUPS.values() for name in _names(modules)]
    if sorted(shown) != sorted(penstock.__all__):
        lost = sorted(set(penstock.__all__) ^ set(shown))
        raise PluginError(f"site/hooks.py: GROUPS must have each public name once: {lost}")
