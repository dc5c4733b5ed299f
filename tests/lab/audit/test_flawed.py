from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

import penstock
from penstock.core.errors import ConfigurationError
from penstock.lab.audit.flawed import VARIANTS, Variant
from penstock.lab.audit.subjects import resolve
from penstock.private.mechanisms.base import Mechanism
from penstock.private.mechanisms.registry import MECHANISMS, find

SOURCES = Path(penstock.__file__).parent
FORBIDDEN = "penstock.lab.audit.flawed"
FLAWED = {
    each
    for name, module in list(sys.modules.items())
    if name.startswith(FORBIDDEN)
    for each in vars(module).values()
    if isinstance(each, type)
    and issubclass(each, Mechanism)
    and each.__module__.startswith(FORBIDDEN)
}


def imported(path: Path) -> set[str]:
    """Every module that a file imports or might: `from a import b` counts as a and a.b, text in
    quotes as well.
    """
    found: set[str] = set()
    package = ["penstock", *path.relative_to(SOURCES).with_suffix("").parts][:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(
                [*package[: len(package) + 1 - node.level], *([node.module] if node.module else [])]
            )
            origin = base if node.level else str(node.module)
            found |= {origin} | {f"{origin}.{alias.name}" for alias in node.names}
        elif (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and node.value.startswith("penstock.lab")
        ):
            found.add(node.value.partition(":")[0])
    return found


def test_only_the_lab_and_the_audit_verb_import_the_flawed_variants() -> None:
    importers = {
        path.relative_to(SOURCES).as_posix()
        for path in SOURCES.rglob("*.py")
        if any(name == FORBIDDEN or name.startswith(FORBIDDEN + ".") for name in imported(path))
    }
    assert "lab/audit/subjects.py" in importers  # the search does find importers
    known = {"cli/audit.py", "cli/completers.py"}  # the latter completes the names for that verb
    assert {name for name in importers if not name.startswith("lab/")} <= known


def test_nothing_below_the_lab_imports_the_lab() -> None:
    for path in SOURCES.rglob("*.py"):
        if path.relative_to(SOURCES).parts[0] not in {"lab", "cli"}:
            assert not any(
                name == "penstock.lab" or name.startswith("penstock.lab.")
                for name in imported(path)
            ), path


def test_importing_penstock_does_not_load_them() -> None:
    import subprocess
    import sys

    code = f"import sys, penstock, penstock.testing; assert {FORBIDDEN!r} not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_none_is_registered() -> None:
    assert len(FLAWED) >= len(VARIANTS)
    assert not set(MECHANISMS.values()) & FLAWED
    assert not MECHANISMS.keys() & VARIANTS.keys()
    assert not any(cls.__module__.startswith("penstock.lab") for cls in MECHANISMS.values())


@pytest.mark.parametrize("name", VARIANTS)
def test_none_is_found_by_name(name: str) -> None:
    for spelling in (name, f"flawed:{name}"):
        with pytest.raises(ConfigurationError):
            find(spelling)


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
def test_its_streams_are_neighbouring_for_what_it_claims(variant: Variant) -> None:
    mechanism = variant.make()
    assert variant.pairs, "a conviction needs two streams"
    for pair in variant.pairs:
        assert pair.is_neighbouring(window=variant.window, contribution=mechanism.contribution), (
            pair.name
        )
        assert (pair.left >= 0).all()
        assert (pair.right >= 0).all()
        if pair.look is not None:
            unit = pair.look.unit - 1
            assert (pair.look.left <= pair.left[unit]).all()
            assert (pair.look.right <= pair.right[unit]).all()


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
def test_it_claims_what_it_was_asked_for(variant: Variant) -> None:
    mechanism = variant.make()
    assert float(mechanism.epsilon) == float(variant.claimed)
    assert mechanism.window == variant.window or variant.name == "short_window"
    assert type(mechanism) in FLAWED
    found = resolve(f"flawed:{variant.name} {variant.claimed} {variant.window} {variant.runs}")
    assert found.flawed
    assert (found.name, found.claimed, found.window) == (
        variant.name,
        variant.claimed,
        variant.window,
    )


def test_the_published_flaws_and_the_mutants_are_all_there() -> None:
    assert {
        "bd_independent_groups",
        "ba_independent_groups",
        "bd_pan_third",
        "bd_pan_reused_noise",
        "float_laplace",
        "half_sensitivity",
        "forgetful_ledger",
        "short_window",
        "ba_no_nullifying",
    } <= VARIANTS.keys()


@pytest.mark.parametrize(
    "cls", ["PanThird", "FloatLaplace", "ForgetfulLedger", "IndependentAbsorption"]
)
def test_no_import_path_leads_to_one(cls: str) -> None:
    with pytest.raises(ConfigurationError, match="lives in the lab"):
        find(f"penstock.lab.audit.flawed:{cls}")
