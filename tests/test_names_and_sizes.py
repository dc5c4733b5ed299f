"""Rules for the source of both distributions: unique class names, functions of moderate size."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MAX_LINES = 60
"""The most lines of a function, without its docstring, unless a reason is given.

A reason is a comment `# reason: …` in the line above `def` or in its signature, or stands here.
"""

REASONS = {
    "src/penstock/cli/init.py::_questions": "one yield per question, in the order of the dialogue",
    "src/penstock/private/mechanisms/grouper.py::deviations": "one pass over arrays, proved so",
    "src/penstock/released/queries/current_releases.py::_grouped_windows": "one pass over arrays",
    "bench/src/penstock_bench/suites/dsat.py::_thresholds": "a table of points",
    "bench/src/penstock_bench/suites/eshp.py::_headline": "a table of claims",
    "bench/src/penstock_bench/suites/pegasus.py::_theta": "a table of points",
    "bench/src/penstock_bench/suites/rg.py::_steady": "a table of points",
}


@cache
def sources() -> tuple[tuple[Path, str, ast.Module], ...]:
    found = []
    for folder in ("src", "bench/src"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            found.append((path.relative_to(ROOT), text, ast.parse(text)))
    return tuple(found)


def class_names(tree: ast.Module) -> Iterator[str]:
    return (node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef))


def length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The lines of a function from `def` on, without its docstring."""
    first = function.body[0]
    is_docstring = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    docstring = (first.end_lineno or 0) - first.lineno + 1 if is_docstring else 0
    return (function.end_lineno or 0) - function.lineno + 1 - docstring


def long_functions(path: Path, text: str, tree: ast.Module) -> Iterator[str]:
    lines = text.splitlines()
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and length(node) > MAX_LINES:
            above = lines[max(0, node.lineno - 2) : node.body[0].lineno]
            known = f"{path.as_posix()}::{node.name}" in REASONS
            if not known and not any("# reason:" in line for line in above):
                yield f"{path}:{node.lineno} {node.name} has {length(node)} lines"


def test_a_class_name_is_defined_once() -> None:
    where: dict[str, list[str]] = defaultdict(list)
    for path, _, tree in sources():
        for name in class_names(tree):
            where[name].append(str(path))
    assert {name: paths for name, paths in where.items() if len(paths) > 1} == {}


@pytest.mark.slow
def test_a_long_function_gives_its_reason() -> None:
    assert [found for each in sources() for found in long_functions(*each)] == []


@pytest.mark.parametrize(("reason", "found"), [("", 1), ("  # reason: one table", 0)])
def test_a_long_function_would_be_found(reason: str, found: int) -> None:
    text = f"def long():{reason}\n" + "    pass\n" * (MAX_LINES + 1)
    assert len(list(long_functions(Path("x.py"), text, ast.parse(text)))) == found
