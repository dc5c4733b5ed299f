"""`import penstock` imports a public name when it is first used."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import penstock as ps

STUB = Path(ps.__file__).with_suffix(".pyi")
HEAVY = ("numpy", "rich", "cryptography", "msgspec", "polars", "pyarrow", "scipy", "matplotlib")


def in_a_fresh_process(code: str) -> str:
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_type_checkers_and_python_see_the_same_names() -> None:
    imports = [
        node
        for node in ast.parse(STUB.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ImportFrom)
    ]
    listed = {alias.asname: node.module for node in imports for alias in node.names}
    assert sorted(listed) == ps.__all__
    assert listed == {
        name: f"penstock.{module}"
        for module, names in ps._NAMES_OF_MODULE.items()
        for name in names
    }


def test_every_public_name_is_there_and_listed() -> None:
    for name in ps.__all__:
        assert getattr(ps, name) is not None
    assert set(ps.__all__) | {"__version__"} <= set(dir(ps))


def test_dir_shows_public_names_and_no_modules() -> None:
    assert dir(ps) == sorted([*ps.__all__, "__version__"])


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'penstock' has no attribute 'Budgets'"):
        ps.Budgets  # noqa: B018
    with pytest.raises(ImportError, match="Budgets"):
        from penstock import Budgets  # noqa: F401


def test_all_names_come_with_a_star() -> None:
    code = "from penstock import *; print(Uniform.__name__, publish.__name__)"
    assert in_a_fresh_process(code) == "Uniform publish"


@pytest.mark.parametrize(
    "module", ["penstock", "penstock.core.deprecated", "penstock.core.plugins"]
)
def test_importing_it_imports_nothing_heavy(module: str) -> None:
    code = f"import sys, {module}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    assert not set(HEAVY) & set(in_a_fresh_process(code).split())
