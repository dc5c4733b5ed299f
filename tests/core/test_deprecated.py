"""Old names work for one version, and say so."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from importlib import import_module
from pathlib import Path

import pytest

from penstock.core.deprecated import MOVED, renamed

EVERY = [
    pytest.param(module, old, new, id=f"{module}.{old}")
    for module, names in MOVED.items()
    for old, new in names.items()
]


BEFORE = json.loads(
    (Path(__file__).parents[1] / "fixtures" / "v0_1_dev" / "public_names.json").read_text()
)
PUBLIC = (
    "penstock",
    "penstock.testing",
    *(f"penstock.engine.{name}" for name in ("front", "process", "publisher", "sqlite", "store")),
    *(f"penstock.private.sources.{name}" for name in ("base", "csv", "files", "http", "jsonl")),
    *(f"penstock.private.sources.{name}" for name in ("kafka", "mqtt", "parquet", "values")),
    "penstock.released.sinks",
    *(f"penstock.released.sinks.{name}" for name in ("base", "jsonl", "kafka", "parquet")),
    *(f"penstock.released.sinks.{name}" for name in ("postgres", "webhook")),
    "penstock.released.log",
    "penstock.released.queries",
    "penstock.released.queries.query",
)
"""The modules that users may have imported from."""

INTERNAL = {
    "penstock.engine.front": {"Asked"},  # what Publication.window returns
    "penstock.private.sources.files": {"ByLine", "Mark"},  # parts of the formats
    "penstock.private.sources.kafka": {"Mechanism"},  # a type of one option
    "penstock.released.log": {"Publishing"},  # a protocol for the type checker
}


@pytest.mark.parametrize("module", PUBLIC)
def test_every_class_that_users_may_have_imported_still_works(module: str) -> None:
    classes = {name for name in BEFORE[module] if name[0].isupper() and not name.isupper()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        here = import_module(module)
        lost = {name for name in classes if not hasattr(here, name)}
    assert lost <= INTERNAL.get(module, set())


@pytest.mark.parametrize(("module", "old", "new"), EVERY)
def test_an_old_name_works_and_names_the_new_one(module: str, old: str, new: str) -> None:
    where, _, name = new.partition(":")
    with pytest.warns(DeprecationWarning, match=rf"{module}.{old} is now {where}.{name}\."):
        found = getattr(import_module(module), old)
    assert found is getattr(import_module(where), name)


def test_a_module_that_is_gone_can_be_imported_from() -> None:
    program = "from penstock.engine.front import publish; print(publish.__module__)"
    done = subprocess.run(
        [sys.executable, "-W", "always", "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "penstock.engine.publish\n"
    assert "DeprecationWarning: penstock.engine.front.publish is now" in done.stderr
    assert "<string>:1" in done.stderr  # where the user has to change something


@pytest.mark.parametrize("module", ["penstock.testing", "penstock.engine.front"])
def test_a_name_that_never_was_is_an_attribute_error(module: str) -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Nonsense'"):
        import_module(module).Nonsense  # noqa: B018


def test_a_module_that_never_was_is_not_found() -> None:
    with pytest.raises(ModuleNotFoundError):
        import_module("penstock.engine.nonsense")


@renamed(old="new")
def _twice(*, new: int = 1) -> int:
    return 2 * new


def test_an_old_parameter_works_and_names_the_new_one() -> None:
    with pytest.warns(DeprecationWarning, match=r"_twice\(old=…\) is now new=…\."):
        assert _twice(old=3) == 6  # type: ignore[call-arg]
    assert _twice(new=3) == 6


def test_an_old_parameter_beside_the_new_one_is_refused() -> None:
    with pytest.raises(TypeError, match="old is the old name of new"):
        _twice(old=3, new=3)  # type: ignore[call-arg]
