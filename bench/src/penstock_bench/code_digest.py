"""The digest of the code that a cell depends on.

A result is of the present code if no module has changed that made it: the mechanism, the run and
its gate, the dataset, the measures, and all that these import. Other mechanisms, commands, pages,
names and formats do not count. Comments and docstrings do not count either. A test runs some stored
cells again and compares every number.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable, Iterator
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

from penstock.private.histograms import registry as histograms
from penstock_bench.cell import Cell
from penstock_bench.datasets.registry import find as find_dataset
from penstock_bench.measures.base import MEMORY, TIME
from penstock_bench.measures.registry import MEASURES
from penstock_bench.plugins import LAB, competitor_class, mechanism_class

OURS = ("penstock", "penstock_bench")
"""The packages whose modules are followed. Others count by the digest of the module itself."""

RUN = "penstock.private.run"
HARNESS = ("penstock_bench.lines", "penstock_bench.feed")
"""Modules that feed every line. They count, and their imports are not followed."""

CATALOGUES = ("registry", "plugins", "cell")
"""The last names of modules that know all mechanisms, datasets or measures. They do not count."""

CORE = "penstock.core."
NUMBERS_OF_CORE = (
    "arrays",
    "box_sums",
    "consistency",
    "cover",
    "error_bounds",
    "exact",
    "grouping",
    "hierarchy",
    "power_series",
    "private",
    "product",
    "released",
    "sketch",
    "weights",
)
"""The modules of `core` that compute. The others name, store and show things."""

WITHOUT_NUMBERS = (
    "penstock.released.encoding",
    "penstock.released.log",
    "penstock.released.release_filter",
    "penstock.released.series",
)
"""Modules that hand releases on. A log can filter them, and no measure asks it to."""


def code_of(cell: Cell) -> str:
    """The digest of the code that makes the numbers of a cell; "" for a cell that cannot be made.

    Parameters
    ----------
    cell : Cell
        The cell. All runs of a cell have one digest.

    Examples
    --------
    >>> from penstock_bench.cell import Stretch
    >>> def code(mechanism, **more):
    ...     return code_of(Cell.of("any", Stretch(dataset="wifi_low"), mechanism, ("mae",), **more))
    >>> code("uniform", epsilon="1", window=1) == code("uniform", epsilon="2", window=9)
    True
    >>> code("uniform", epsilon="1", window=1) == code("sample", epsilon="1", window=1)
    False
    """
    try:
        roots = tuple(sorted(set(_roots(cell))))
    except Exception:  # a plug-in or a competitor may be missing
        return ""
    return _digest(roots)


def _roots(cell: Cell) -> Iterator[str]:
    """The modules that the cell names."""
    yield type(find_dataset(cell.stream.dataset)).__module__
    for measure in cell.measures:
        if measure not in (TIME, MEMORY):
            yield MEASURES[measure.partition(":")[0]].__module__
    if cell.trivial:
        return
    yield RUN
    if cell.mechanism.startswith(LAB):
        yield competitor_class(cell.mechanism).__module__
        return
    yield mechanism_class(cell.mechanism).__module__
    histogram = dict(cell.parameters).get("histogram")
    if isinstance(histogram, str):
        yield histograms.find(histogram).__module__


@lru_cache(maxsize=256)
def _digest(roots: tuple[str, ...]) -> str:
    digest = hashlib.sha256()
    for name in sorted({*modules(roots), *HARNESS}):
        digest.update(f"{name}\0{_content(name)}\0".encode())
    return digest.hexdigest()[:16]


def modules(roots: Iterable[str]) -> set[str]:
    """These modules and all of ours that they import, directly or not."""
    found, todo = set[str](), list(roots)
    while todo:
        name = todo.pop()
        if name in found or not _counts(name) or _path(name) is None:
            continue
        found.add(name)
        todo += [] if name in HARNESS else _imports(name)
    return found


def _counts(name: str) -> bool:
    """Whether numbers may depend on the code of a module."""
    if name.startswith(CORE):
        return name.removeprefix(CORE) in NUMBERS_OF_CORE
    return name.rpartition(".")[2] not in CATALOGUES and name not in WITHOUT_NUMBERS


@lru_cache(maxsize=1024)
def _imports(name: str) -> tuple[str, ...]:
    """The modules of ours that a module may import, at its top or when it runs."""
    found: dict[str, None] = {}
    for node in ast.walk(_tree(name)):
        if isinstance(node, ast.Import):
            found |= dict.fromkeys(each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found[node.module] = None
            found |= dict.fromkeys(f"{node.module}.{each.name}" for each in node.names)
    return tuple(each for each in found if each.partition(".")[0] in OURS)


@lru_cache(maxsize=1024)
def _content(name: str) -> str:
    """The statements of a module, without comments and docstrings."""
    tree = _tree(name)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [each for each in body if not _is_text(each)]  # type: ignore[attr-defined]
    return ast.dump(tree)


def _is_text(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _tree(name: str) -> ast.Module:
    path = _path(name)
    return ast.parse("" if path is None else path.read_bytes())


@lru_cache(maxsize=4096)
def _path(name: str) -> Path | None:
    """The source file of a module; None if the name is not that of a module."""
    try:
        spec = find_spec(name)
    except (ImportError, AttributeError, ValueError):
        return None
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return None
    return Path(spec.origin)
