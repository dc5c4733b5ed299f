from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import penstock
import penstock_bench

SOURCE = Path(penstock.__file__).parent
BENCH = Path(penstock_bench.__file__).parent
ROOT = SOURCE.parents[1]
LINTER = Path(sys.executable).with_name("lint-imports")


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    """The linter on a copy of the package that lies in `folder`."""
    command = [str(LINTER), "--config", str(ROOT / "pyproject.toml"), "--no-cache"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    if not LINTER.exists():
        pytest.skip("import-linter is not installed: pip install 'penstock[test]'")
    for package in (SOURCE, BENCH):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(package, tmp_path / package.name, ignore=ignored)
    return tmp_path


def test_the_layers_are_kept(copy: Path) -> None:
    done = lint(copy)
    assert done.returncode == 0, done.stdout
    assert "0 broken" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "line", "contract"),
    [
        (
            "core/arrays.py",
            "import penstock.budget.grid",
            "Each layer imports only what lies below it",
        ),
        (
            "core/arrays.py",
            "import penstock",
            "Modules import each other, not the lazy front of the package",
        ),
        (
            "budget/grid.py",
            "from penstock.private.gate import Gate",
            "Each layer imports only what lies below it",
        ),
        (
            "private/state.py",
            "import penstock.lab.checks",
            "Each layer imports only what lies below it",
        ),
        ("testing.py", "import penstock.lab.checks", "Each layer imports only what lies below it"),
        ("lab/checks.py", "import penstock.cli", "Each layer imports only what lies below it"),
        (
            "lab/checks.py",
            "import penstock_bench.cell",
            "The product works without the bench",
        ),
        ("utils.py", "", "Each layer imports only what lies below it"),
        (
            "cli/status.py",
            "import penstock.private.gate",
            "Only the packages listed here reach the gate",
        ),
        (
            "private/counts_input.py",
            "import penstock.private.gate",
            "Only the packages listed here reach the gate",
        ),
        (
            "private/noise/bits.py",
            "import penstock.private.mechanisms.ba",
            "Noise knows nothing of what it is added to",
        ),
        (
            "private/mechanisms/ba.py",
            "import penstock.private.noise.source",
            "Mechanisms draw no noise of their own",
        ),
    ],
)
def test_a_breach_of_the_layers_is_caught(
    module: str, line: str, contract: str, copy: Path
) -> None:
    with (copy / "penstock" / module).open("a") as file:
        file.write(f"\n{line}\n")
    done = lint(copy)
    assert done.returncode == 1, done.stdout
    assert f"{contract} BROKEN" in done.stdout


def mentions(path: Path) -> set[str]:
    """Names, attributes, imports and whole strings that a file mentions."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, (ast.alias, ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value)
    return found


def test_only_the_gate_opens_what_is_private() -> None:
    users = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        if mentions(path) & {"unseal", "_Private__value", "__value"}
    }
    # core/private.py defines it, lab/checks/secrecy.py names it as a string to look for,
    # lab/audit/flawed is broken on purpose, and the replay audit compares what the gate reads on
    # two simulated streams
    broken = {user for user in users if user.startswith("lab/audit/flawed/")}
    gate = {user for user in users if user.startswith("private/gate/")}
    assert gate == {f"private/gate/{name}.py" for name in ("release_maker", "threshold_runs")}
    replay = {"lab/audit/replay/gate_observers.py"}
    assert users - broken - gate - replay == {"core/private.py", "lab/checks/secrecy.py"}
    tree = ast.parse((SOURCE / "lab/checks/secrecy.py").read_text(encoding="utf-8"))
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    used |= {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for alias in node.names
    }
    assert "unseal" not in used


def test_an_opener_would_be_found(tmp_path: Path) -> None:
    for text in (
        "from penstock.core.private import unseal",
        "x = private._Private__value",
        "getattr(p, '_Private__value')",
    ):
        file = tmp_path / "guilty.py"
        file.write_text(text)
        assert mentions(file) & {"unseal", "_Private__value"}
